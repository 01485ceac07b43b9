/* Ops: one file per op in op/, listed by the Makefile into build/ops.inc.
 *
 * An op file defines `const gg_op gg_op_NAME = { ... }`: schema, the rule that gives
 * its outputs' dtypes and shapes, and an obvious reference kernel. The reference kernel
 * is what `ref` runs, what constant folding runs, and what every other kernel is compared
 * with: floats are computed and accumulated in double and rounded once on storing. */
#ifndef GG_OP_H
#define GG_OP_H

#include "graph.h"

typedef struct gg_attr_spec {
	const char *name;
	gg_attr_type type;
	bool required;
	const char *def; /* default as in the text form: "0", "1e-05", "\"NOTSET\"", "[1, 1]"; NULL: none */
} gg_attr_spec;

enum {                        /* facts a pass may ask for */
       GG_POINTWISE = 1 << 0, /* out[i] depends on in[i] alone, after broadcasting */
       GG_COMMUTES = 1 << 1,  /* first two inputs may be swapped */
       GG_VIEW = 1 << 2,      /* output 0 has the bytes of input 0: may alias it */
       GG_INPLACE = 1 << 3,   /* output 0 may overwrite an input of its size that dies here */
       GG_RANDOM = 1 << 4,    /* two equal nodes are two values: no cse, no folding */
       GG_EFFECT = 1 << 5,    /* keep it though nobody reads it */
       GG_NOFOLD = 1 << 6,
       GG_DATA_SHAPE = 1 << 7, /* output shape depends on input values, beyond small shape inputs */
       GG_MOVES = 1 << 8       /* no arithmetic: elements are moved, cast or counted. So does GG_VIEW */
};

/* What inference knows of one tensor. */
typedef struct gg_info {
	gg_dtype dtype; /* GG_NONE: absent */
	gg_shape shape;
	const gg_tensor *data; /* contents when known, else NULL. Only asked-for inputs: gg_want() */
	const gg_dim *content; /* elements as dims, for small integer tensors; else NULL */
} gg_info;

typedef struct gg_infer {
	const gg_node *n;
	gg_diag *d;
	gg_arena *a; /* scratch; contents put in out[] live here */
	int nin, nout;
	gg_info *in, *out; /* in: captures are not among them. out is zeroed with unknown shapes */
	/* Contents of input i: known data, or NULL. Loads a constant on demand. */
	const gg_tensor *(*want)(struct gg_infer *f, int i);
	bool tensors; /* gg_infer_tensors: leave the node's bodies alone */
	void *ctx;    /* of the driver */
} gg_infer;

typedef struct gg_eval {
	const gg_node *n;
	gg_diag *d;
	gg_arena *a; /* scratch for this call */
	int nin, nout;
	gg_tensor *in;  /* data NULL: absent (dtype GG_NONE) or empty; captures follow the arguments */
	gg_tensor *out; /* allocated by shape, except where infer gave a shape that is not all numbers:
	                   then the kernel calls gg_eval_alloc. dtype GG_NONE: output not wanted */
	const struct gg_comm *comm; /* of this rank (comm.h); NULL: alone */
	uint64_t seed;              /* differs for each node and step; fixed by gg-run --seed */
	/* Runs body number b with the inputs given (captures included); outputs are valid until the
	 * next run of that body. */
	bool (*run_body)(struct gg_eval *e, int b, int nin, const gg_tensor *in, int nout, gg_tensor *out);
	void *(*alloc)(struct gg_eval *e, int i, size_t bytes); /* behind gg_eval_alloc */
	void *ctx;
} gg_eval;

struct gg_builder;
struct gg_op {
	const char *name;   /* as in ONNX */
	const char *domain; /* ONNX domain for export; NULL: "" (ai.onnx). "gg": ours, export expands it */
	const char *doc;    /* one line */
	int min_in, max_in; /* -1: any number */
	int min_out, max_out;
	const gg_attr_spec *attrs; /* ends with a row without a name */
	uint32_t flags;
	/* dtypes: a slot's allowed set and its type variable; the last slot repeats for variadic ops.
	 * Slots with the same letter have the same dtype; letter 0 stands alone. */
	struct gg_slot_type {
		gg_dtypes set;
		char var;
	} in[12], out[8];
	uint64_t optional; /* bit i: input i may be absent (NULL) though later ones are present */
	/* Which output takes over the storage of which input (state): pairs out,in; ends with -1. */
	const signed char *aliases;
	/* Sets out[].dtype and out[].shape (and .content where it can). Dtypes already checked
	 * against in[]; when an out slot's letter is bound by an input its dtype is set already. */
	bool (*infer)(gg_infer *f);
	bool (*eval)(gg_eval *e);
	/* C expression of a pointwise op over x, y, z (doubles) for code generators; or NULL. */
	const char *expr;
	/* Replaces a fused node by plain ops before itself and returns true; NULL: op is plain. */
	bool (*expand)(gg_diag *d, gg_node *n);
	/* The gradient rule (grad.h); NULL: there is none. gg_grad_zero says that there is nothing to it. */
	void (*grad)(struct gg_builder *t, gg_node *n, gg_value *dy);
};

/* A node's facts: its op's, and what its bodies do by chance or to the outside. */
uint32_t gg_node_flags(const gg_node *n);
/* Its results are elements of its inputs, at most cast. */
bool gg_op_moves(const gg_op *op);
const gg_op *gg_op_find(const char *name); /* NULL when unknown. name as "Op"; domains do not clash */
const gg_op *const *gg_op_list(size_t *n); /* all, by name */
/* The row that starts with op's name, of a table of n rows of `size` bytes; -1: none. ops[n], static, keeps
 * what the names stand for. */
int gg_op_row(const gg_op *op, const gg_op **ops, const void *rows, size_t n, size_t size);
const char *gg_op_nearest(const char *name);        /* for "did you mean" */
int gg_word_distance(const char *a, const char *b); /* edits that turn a into b, ignoring case */
int gg_word_near(const char *word); /* the most of them at which another may be what was meant */
const gg_attr_spec *gg_op_attr(const gg_op *op, const char *name);
/* The default of an attribute, parsed once; NULL when there is none. */
const gg_attr *gg_op_default(const gg_op *op, const char *name);

/* Infers one node's outputs from its inputs' values; false with a message when they do not fit. */
bool gg_infer_node(gg_diag *d, gg_node *n);
/* All nodes of the main graph, bodies included. Keeps known shapes: merges. */
bool gg_infer_graph(gg_diag *d, gg_graph *g);
/* Inference on tensors: for executors. Fills out dtype and shape; dims not known before the kernel
 * ran stay symbols. */
bool gg_infer_tensors(gg_diag *d, const gg_node *n, int nin, const gg_tensor *in, int nout, gg_info *out,
                      gg_arena *a);
/* Runs a node's reference kernel on tensors (no bodies); out data are malloc'ed (gg_xaligned). */
bool gg_eval_node(gg_diag *d, const gg_node *n, int nin, const gg_tensor *in, int nout, gg_tensor *out);

/* --- for op files ------------------------------------------------------------------------- */
#define gg_fail(f, ...) gg_node_error((f)->d, GG_MALFORMED, (f)->n, __VA_ARGS__)
#define gg_unsupported(f, ...) gg_node_error((f)->d, GG_UNSUPPORTED, (f)->n, __VA_ARGS__)
const gg_tensor *gg_want(gg_infer *f, int i);
/* Elements of integer input i as dims: from content or data. NULL: not known. *n gets the count.
 * Numbers may be negative: gg_dim_number() tells them from symbols. */
const gg_dim *gg_want_dims(gg_infer *f, int i, int *n);
const char *gg_str(gg_infer *f, const gg_shape *s); /* shape text for messages */
bool gg_axis(gg_infer *f, const char *what, int64_t axis, int rank,
             int *out);                                /* negative counted from the end */
gg_dim gg_unknown_dim(gg_infer *f, int out, int axis); /* the symbol of a data-dependent size */
bool gg_infer_same(gg_infer *f);                       /* out[0] like in[0] */
bool gg_infer_broadcast(gg_infer *f);                  /* out[0].shape: all inputs broadcast */
void *gg_eval_alloc(gg_eval *e, int i, int rank, const int64_t *dim); /* data-dependent output */

/* Strides in elements for reading `t` as if broadcast to `to`: 0 where it repeats. */
void gg_bcast_strides(const gg_shape *t, const gg_shape *to, int64_t *stride);
/* Walks an index over shape s: idx[] starts at zeros; false after the last. */
bool gg_next_index(const gg_shape *s, int64_t *idx);
int64_t gg_eval_axis(int64_t axis, int rank); /* for kernels: axis already checked by infer */

/* Pointwise ops in two lines: the expression over doubles x, y (and attributes a, b, c as
 * doubles where the op names them in `attrs`) becomes both the kernel and the text for
 * generators. Integer dtypes use the int expression over int64_t x, y (wraps on storing). */
typedef double gg_f1(double x, const double *attr);
typedef double gg_f2(double x, double y, const double *attr);
typedef int64_t gg_i1(int64_t x, const double *attr);
typedef int64_t gg_i2(int64_t x, int64_t y, const double *attr);
bool gg_map1(gg_eval *e, gg_f1 *f, gg_i1 *i, const double *attr); /* out = f(in) */
bool gg_map2(gg_eval *e, gg_f2 *f, gg_i2 *i, const double *attr); /* broadcast */
bool gg_map2_test(gg_eval *e, gg_f2 *f, gg_i2 *i);                /* out bool */

#endif
