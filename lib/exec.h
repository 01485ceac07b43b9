/* The executor: runs a selected, built model on tensors.
 *
 * For each new set of input shapes it binds the symbols, infers all shapes it can, plans memory
 * (plan.h) and prepares kernels once; the last few such plans are kept. Values whose size depends
 * on data get a buffer when their kernel has run. A body has an executor of its own, whose arena
 * is reused each trip. State (params named by the graph's state list) is updated at the end of
 * each run, after every reader of the old value. */
#ifndef GG_EXEC_H
#define GG_EXEC_H

#include "backend.h"
#include "plan.h"

typedef struct gg_exec gg_exec;

/* One call, of a node or of several that one kernel covers, as somebody who looks on sees it. */
typedef struct gg_ran {
	const gg_node *const *node;
	int nnode;    /* 0: what is there before the first call */
	int depth;    /* 0: the main graph */
	uint64_t run; /* from 1 on */
	bool device;
	int stream;
	/* wrote(): what it wrote, and values that need no call; as plain row-major tensors.
	 * took(): out[] alone, dtypes and shapes of what it wrote. */
	int nout;
	gg_value *const *out_value;
	const gg_tensor *out;
} gg_ran;
typedef struct gg_watch {
	bool (*wrote)(const gg_ran *r,
	              void *arg); /* calls of the main graph; may be NULL; false ends the run */
	void (*took)(const gg_ran *r, double start, double seconds, void *arg); /* by gg_clock; may be NULL */
	void *arg;
} gg_watch;
double gg_clock(void); /* seconds */
/* The elements of a tensor in layout l, of rank 2 and more, in row-major order. */
void gg_copy_plain(const gg_tensor *t, gg_layout l, void *to);

typedef struct gg_exec_options {
	int threads; /* 0: gg_threads() */
	uint64_t seed;
	bool poison; /* fill unwritten and freed buffers with NaN patterns */
	bool check_finite;
	bool no_reuse;
	bool apart;                 /* no kernel covers several nodes: every value is there */
	int arch, processors;       /* above 0: of a device that need not be there; nothing runs */
	const struct gg_comm *comm; /* one of several ranks: comm.h */
} gg_exec_options;
gg_exec *gg_exec_new(gg_diag *d, gg_model *m, const gg_exec_options *o); /* NULL: reported */
void gg_exec_free(gg_exec *x);
/* Prepares a run of inputs with the shapes that the graph declares. */
bool gg_exec_prepare(gg_exec *x);
void gg_exec_watch(gg_exec *x, const gg_watch *w); /* from the next run on; NULL: nobody looks */
/* in[i] belongs to main->in[i]. A param may be overridden by gg_exec_set_param. Outputs point
 * into the executor and hold until the next run. NULL: nobody asks for them, and a
 * device may still be at work. */
bool gg_exec_run(gg_exec *x, const gg_tensor *in, gg_tensor *out);
/* Called in each run of a device, when it has all its work and nobody has waited for it yet; NULL: not. */
void gg_exec_meanwhile(gg_exec *x, bool (*f)(void *arg), void *arg);
/* What the next run will be given: a device gets it while it works. The tensors stay until then. */
bool gg_exec_feed(gg_exec *x, const gg_tensor *in);
/* The same n times, and nobody asks for the outputs: a device gets the inputs once, or not at all
 * where they are those of the run before, and is waited for at the end. */
bool gg_exec_run_n(gg_exec *x, const gg_tensor *in, int64_t n, bool again);
/* Random nodes draw as in run number n, from 0; each run counts on. */
void gg_exec_start_at(gg_exec *x, uint64_t n);
bool gg_exec_set_param(gg_exec *x, gg_value *param, const gg_tensor *t); /* copied */
bool gg_exec_get_param(gg_exec *x, gg_value *param, gg_tensor *out);
/* What the device's memory holds; false: no device is at work. */
typedef struct gg_memory {
	size_t weights;                         /* and what kernels made of them, and the state */
	size_t arena, bound, workspace, inputs; /* of all shapes that are kept */
	gg_room device;
} gg_memory;
bool gg_exec_memory(const gg_exec *x, gg_memory *m);
/* A value of the main graph after a run, for --print of an inner value; keep it first. */
bool gg_exec_keep(gg_exec *x, gg_value *v);
bool gg_exec_value(gg_exec *x, gg_value *v, gg_tensor *out);

#endif
