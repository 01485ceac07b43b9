/* gg-run inside: what was asked for, the inputs of each step, comparison and reports. */
#ifndef GG_RUN_H
#define GG_RUN_H

#include "../../lib/gg.h"
#include "../../lib/npy.h"

typedef struct pair { /* NAME=FILE; for --print a name alone */
	const char *name, *file;
	gg_value *v;
	gg_tensor t; /* of --expect and --input */
} pair;
typedef struct pairs {
	pair *p;
	size_t n, cap;
} pairs;

typedef enum fill { FILL_NORMAL, FILL_ONES, FILL_ZEROS, FILL_RANGE } fill;

typedef struct job {
	gg_tool *t;
	gg_arena a;
	pairs input, output, data, expect, print, shape;
	const char *inputs, *outputs, *test, *target, *save, *load_state;
	int64_t steps, batch, repeat, warmup;
	double duration;
	bool timed, json, compare_ref, list_io, devices;
	int64_t shuffle; /* seed; -1: in order */
	fill fill;
	double rtol, atol; /* below 0: by dtype */
	gg_exec_options exec;

	gg_source source;
	gg_model *m;   /* as it runs */
	bool prebuilt; /* the input was a plan already */
	gg_exec *x;
	gg_model *ref; /* with --compare=ref */
	gg_exec *ref_exec;
} job;

/* ---- pipe.c */
gg_model *read_again(job *j);     /* the graph as it came, once more */
bool make_runnable(job *j);       /* selects and builds j->m where that has not been done */
void forget_choices(gg_model *m); /* kernels, layouts and plan; runs on ref */

/* ---- inputs.c */
typedef struct feed { /* one input of the graph */
	gg_value *v;
	gg_tensor t; /* what this step gets */
	bool given, owned;
	/* --data */
	bool sliced, batched;
	gg_tensor all;
	int64_t count; /* steps until it cycles */
	int64_t batch;
	int64_t *order; /* of samples, in this epoch */
	int64_t epoch;
} feed;
feed *open_feeds(job *j);
bool next_step(job *j, feed *f, int64_t step);
void close_feeds(job *j, feed *f);
bool set_shapes(job *j); /* --shape */
bool override_params(job *j, gg_exec *x);

/* ---- fill.c */
void fill_input(const job *j, const gg_value *v, gg_tensor *t);

/* ---- compare.c */
/* Says on stderr what differs; a line that it matches goes to *say, where given. */
bool compare(job *j, const char *what, const gg_tensor *got, const gg_tensor *want, gg_buf *say);

/* ---- report.c */
void summary(gg_buf *b, const char *name, const gg_tensor *t);
void print_values(gg_buf *b, const gg_tensor *t);
bool list_io(job *j);
bool list_devices(job *j);
void timing(const job *j, gg_buf *b, double *seconds, size_t n);

#endif
