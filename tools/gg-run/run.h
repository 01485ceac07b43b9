/* gg-run inside: what was asked for, the inputs of each step, comparison and reports. */
#ifndef GG_RUN_H
#define GG_RUN_H

#include "../../lib/gg.h"
#include "../../lib/npy.h"

typedef struct pair { /* NAME=FILE; for --print a name alone */
	const char *name, *file;
	gg_value *v;
	gg_tensor t;  /* of --expect and --input */
	bool matched; /* --dump: by some value */
	gg_buf list;  /* and the lines about this step's values */
} pair;
typedef struct pairs {
	pair *p;
	size_t n, cap;
} pairs;

typedef enum fill { FILL_NORMAL, FILL_ONES, FILL_ZEROS, FILL_RANGE } fill;

typedef struct profile profile;
typedef struct layers { /* --compare: values inside, in the order in which they were made */
	size_t n;
	bool differ;
	double worst; /* part of its largest value */
	const gg_value *at;
} layers;

typedef struct job {
	gg_tool *t;
	gg_arena a;
	pairs input, output, data, eval_data, expect, print, shape, dump;
	const char *inputs, *outputs, *test, *target, *save, *load_state, *eval, *summary, *trace;
	int64_t steps, epochs, batch, repeat, warmup, sink, save_every, eval_every, hold_out, summary_every;
	double duration;
	bool timed, json, compare_ref, list_io, devices, describe, progress, memory;
	bool whole;      /* a short last batch is run too */
	int64_t shuffle; /* seed; -1: in order */
	fill fill;
	double rtol, atol; /* below 0: by dtype */
	gg_exec_options exec;
	int64_t world;              /* ranks; 0: not asked for */
	gg_buf *say;                /* what a rank prints */
	int64_t first, done, saved; /* steps before this run, until now, and in the saved state */
	int64_t *failed;            /* of several ranks: the steps that the first one to fail had done */

	gg_source source;
	gg_model *m;   /* as it runs */
	bool prebuilt; /* the input was a plan already */
	gg_exec *x;
	gg_model *ref; /* with --compare=ref */
	gg_exec *ref_exec;
	layers layers;
	profile *profile;
	gg_watch watch;
} job;

/* ---- main.c */
gg_model *read_model(job *j, const char *path);
bool run_job(job *j);

/* ---- world.c */
int job_rank(const job *j);
const char *rank_name(job *j, const char *name); /* with several ranks: NAME.rK */
const char *rank_path(job *j, const char *path); /* and out.rK.npy */
const char *rank_path_if_there(job *j, const char *path);
bool bind_world(job *j, gg_model *m);
bool run_world(job *j);

/* ---- pipe.c */
gg_model *read_again(job *j); /* the graph as it came, once more */
bool make_runnable(job *j);   /* selects and builds j->m where that has not been done */

/* ---- data.c */
typedef struct shard shard;
typedef struct table { /* rows of one dtype and shape, along axis 0 */
	gg_dtype dtype;
	gg_shape shape;
	int64_t row;   /* bytes */
	int64_t every; /* 0: all rows; else each every-th is held out */
	bool held;     /* and these are those */
	shard *shard;
	size_t n, cap;
} table;
/* An .npz archive's array is the one named behind a colon, "x.npz:images", or else like the input. */
bool table_open(gg_diag *d, table *t, const char *path, const char *input, gg_dtype want);
/* Leaves the held-out rows, or all others: every-1, 2*every-1, ... */
void table_split(table *t, int64_t every, bool held);
const char *table_row(const table *t, int64_t i); /* not aligned */
void table_close(table *t);

/* ---- inputs.c */
typedef struct feed { /* one input of the graph */
	gg_value *v;
	gg_tensor t; /* what this step gets */
	bool given, owned;
	/* --data */
	bool sliced, batched;
	table all;
	int64_t count;       /* steps until it cycles */
	int64_t batch, last; /* samples of a batch, and of the last one */
	void *buffer[2];     /* two steps' samples, in turn: a device may still read the first ones */
	int turn;
	int64_t *order; /* of samples, in this epoch */
	int64_t epoch;
} feed;
feed *open_feeds(job *j);
int64_t epoch_steps(const job *j, const feed *f); /* until all data have been seen; 0: there are none */
int64_t next_step(job *j, feed *f, int64_t step); /* fills f[].t; gives the samples in it */
void close_feeds(job *j, feed *f);
bool set_shapes(job *j); /* --shape */
bool override_params(job *j, gg_exec *x);

/* ---- state.c */
bool read_position(job *j, const gg_model *m); /* into j->first: how many steps a saved graph has done */
bool load_state(job *j, gg_exec *x, gg_model *m);
bool save_state(job *j);
bool keep_state(job *j, gg_tensor *s); /* a copy of each state in s[] */
bool put_back(job *j, const gg_tensor *s);
void drop_state(job *j, gg_tensor *s);

/* ---- steps.c */
typedef struct run_buffers {
	gg_tensor *in, *next, *out, *ref_out;
	int64_t ready; /* the step whose inputs are in `next`; -1: none */
} run_buffers;
typedef struct evaluation evaluation;
evaluation *open_evaluation(job *j); /* its feeds are NULL when that failed */
void close_evaluation(job *j, evaluation *e);
bool run_steps(job *j, feed *f, run_buffers *b, gg_buf *text);
void die_of_signal(void); /* where one ended the steps */
bool value_now(job *j, gg_value *v, const gg_tensor *out, gg_tensor *t);
double now(void);

/* ---- events.c */
typedef struct events events;
bool open_events(job *j, events **out); /* before the first step */
bool write_events(job *j, events *e, int64_t step);
bool close_events(job *j, events *e);

/* ---- fill.c */
void fill_input(const job *j, const gg_value *v, gg_tensor *t);

/* ---- compare.c */
/* Says on stderr what differs; a line that it matches goes to *say, where given. */
bool compare(job *j, const char *what, const gg_tensor *got, const gg_tensor *want, gg_buf *say);

/* A value inside, of a node that ran: within rtol times the largest element. */
bool compare_layer(job *j, const gg_value *v, const gg_tensor *got, const gg_tensor *want);

/* ---- look.c: --profile, --dump and the layers of --compare */
bool start_looking(job *j); /* once j->x and j->ref_exec are there */
void look_at_times_only(job *j);
bool end_looking(job *j, gg_buf *text);

/* ---- dump.c */
bool dump_start(job *j); /* a step */
bool dump_value(job *j, const gg_value *v, const gg_tensor *t);
bool dump_end(job *j);

/* ---- profile.c */
profile *profile_open(job *j);
void profile_call(profile *p, const gg_ran *r, double start, double seconds);
bool profile_write(profile *p, const char *path);
void profile_close(profile *p);

/* ---- report.c */
void put_quoted(gg_buf *b, const char *s); /* as in JSON */
void summary(gg_buf *b, const char *name, const gg_tensor *t);
void print_values(gg_buf *b, const gg_tensor *t);
void print_json(gg_buf *b, const char *name, const gg_tensor *t); /* ,"name":value */
bool list_io(job *j);
bool list_devices(job *j);
void memory_lines(const job *j, gg_buf *b);
bool describe_device(job *j);
void timing(const job *j, gg_buf *b, double *seconds, size_t n);

#endif
