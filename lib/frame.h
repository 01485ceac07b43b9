/* Inside the executor: a scope runs one graph, a frame is what it prepared for one set of input
 * shapes.
 *
 *   exec ── main scope ──┬─ frame (shapes A) ── values, arena, calls in order
 *                        ├─ frame (shapes B)
 *                        └─ scope of each body of each node
 *
 * A frame owns its arena and its calls; a scope its frames and its copies of body inputs. Values
 * have slots: small numbers within their graph. In a run nothing is inferred, planned or
 * allocated, except for values whose size depends on data. */
#ifndef GG_FRAME_H
#define GG_FRAME_H

#include "exec.h"
#include "target.h"

#define GG_FRAMES 4 /* sets of shapes kept by a scope */
#define GG_ABSENT UINT32_MAX

typedef struct gg_scope gg_scope;
typedef struct gg_frame gg_frame;

enum { /* what a frame knows of a value */
       GG_HAS_SHAPE = 1,
       GG_HAS_DATA = 2,   /* contents, for good: a constant, or computed from shapes */
       GG_FROM_SHAPE = 4, /* computed from shapes when the frame was made */
       GG_DYNAMIC = 8     /* has no place in the arena: a buffer while a run needs it */
};

typedef struct gg_todo { /* one kernel to run */
	const gg_node *const *node;
	int nnode;
	const gg_kernel *kernel; /* NULL: the reference kernel */
	union {
		gg_eval eval;
		gg_call call;
	};
	gg_tensor *in, *out;
	uint32_t *in_slot, *out_slot;
	int nin, nout;
	bool dynamic; /* shapes are known only in the run */
	uint64_t seed;
	gg_scope *scope;
	gg_frame *frame;
	gg_scope **body;
	/* After it: buffers that nobody reads any more. */
	uint32_t *dead; /* slots of dynamic values */
	size_t ndead, cap_dead;
	struct gg_span {
		char *p;
		size_t len;
	} * freed; /* of the arena, for --poison */
	size_t nfreed, cap_freed;
} gg_todo;

struct gg_frame {
	gg_scope *scope;
	gg_arena mem;  /* of everything here but tensor data */
	gg_tensor *in; /* the shapes it is for */
	gg_tensor *val;
	uint8_t *know;
	char *arena;
	size_t arena_size;
	gg_todo *todo;
	size_t ntodo, cap_todo;
	struct gg_follow {
		uint32_t slot, input; /* a view of an input has the data given to the run */
	} * follow;
	size_t nfollow, cap_follow;
	void **owned; /* contents computed from shapes */
	size_t nowned, cap_owned;
	gg_plan plan;
	gg_order order;       /* ncall 0: one stream */
	struct gg_twin *twin; /* the same frame in a device's memory; NULL: all is on the host */
};

struct gg_scope {
	gg_exec *x;
	gg_graph *g;
	gg_scope *outer;
	size_t nval;
	gg_value **value;
	gg_tensor *base;            /* params and consts */
	uint8_t *know;              /* what is known without a frame */
	bool *inner;                /* written and read within one call only */
	uint32_t *step;             /* by node order: the number of its call */
	int *cover;                 /* by node order: nodes of the call it starts, 0 elsewhere */
	bool ready;                 /* the three above are made */
	gg_frame *frame[GG_FRAMES]; /* last used first */
	size_t nframe;
	uint64_t seed, runs;
	uint64_t outer_run; /* of a body: the run that its runs are counted in */
	gg_map bodies;      /* node id -> gg_scope ** */
	void **copy[2];     /* inputs of a body, in turn: outputs may be views of the last ones */
	size_t *copy_len[2];
	int turn;
	gg_arena tmp; /* of one call */
};

struct gg_exec {
	gg_diag *d;
	gg_model *m;
	gg_exec_options o;
	const gg_target *target;
	const gg_backend *backend;
	uint32_t *slot; /* by value id */
	bool *kept;     /* by value id */
	gg_scope *main;
	void *scratch; /* workspace of whichever kernel runs */
	size_t scratch_len;
	void **param;    /* by state: the buffer of its parameter */
	gg_map state_of; /* by such a buffer */
	void **old;      /* by output: a copy, where it is a parameter that changes */
	void *stage;     /* of finals that are other parameters */
	size_t stage_len;
	const gg_watch *watch;
	gg_map plain; /* value id -> its copy in plain layout, for gg_exec_value */
	const gg_device *device;
	gg_map uploaded; /* by host address: constants and parameters in the device's memory */
	void *device_stage;
	size_t device_stage_len;
	bool again; /* the inputs are those of the run before */
	bool more;  /* another run follows at once: nothing is fetched */
	bool (*meanwhile)(void *arg);
	void *meanwhile_arg;
	bool told_host; /* which calls cut the step */
};

gg_scope *gg_scope_new(gg_exec *x, gg_graph *g, gg_scope *outer, uint64_t seed);
void gg_scope_free(gg_scope *s);
/* Computes what hangs on constants alone; undone when the scope is dropped. */
bool gg_scope_fold(gg_scope *s);
void gg_scope_unfold(gg_scope *s);
bool gg_scope_folded(const gg_scope *s, const gg_node *n);
void gg_scope_drop(gg_scope *s); /* frames, and what depends on which values are kept */
gg_frame *gg_frame_new(gg_scope *s, const gg_tensor *in);
void gg_frame_free(gg_frame *f);
/* In a run: output shapes and buffers of a dynamic call. */
bool gg_todo_shapes(gg_todo *t);
bool gg_todo_prepare(gg_todo *t);
void gg_todo_release(gg_todo *t);
bool gg_scope_run(gg_scope *s, const gg_tensor *in, size_t nout, gg_tensor *out);
bool gg_run_body(gg_eval *e, int b, int nin, const gg_tensor *in, int nout, gg_tensor *out);
void *gg_run_alloc(gg_eval *e, int i, size_t bytes);

bool gg_run_todo(gg_todo *t); /* one call, on the host */
bool gg_todo_finite(const gg_todo *t);

/* watch.c: nothing where nobody looks on. */
bool gg_watch_start(gg_frame *f);
bool gg_watch_wrote(gg_todo *t);
bool gg_watch_times(const gg_exec *x);
/* stream: of a device; -1: on the host */
void gg_watch_took(const gg_todo *t, uint64_t run, int stream, double start, double seconds);

/* device.c, replay.c: frames whose kernels work in a device's memory. */
bool gg_twin_make(gg_frame *f);
void gg_twin_free(gg_frame *f);
bool gg_twin_run(gg_frame *f, const gg_tensor *in, size_t nout);
bool gg_twin_feed(gg_frame *f, const gg_tensor *in);
bool gg_twin_fetch(gg_frame *f, uint32_t slot);          /* its bytes into the host's place of the value */
bool gg_twin_update(gg_exec *x);                         /* state, at the end of a run */
bool gg_param_to_device(gg_exec *x, const gg_tensor *t); /* the host's copy has changed */
bool gg_param_to_host(gg_exec *x, const gg_tensor *t);
void gg_device_drop(gg_exec *x); /* what was uploaded; parameters come back first */

static inline uint32_t gg_slot(const gg_exec *x, const gg_value *v) { return v ? x->slot[v->id] : GG_ABSENT; }

#endif
