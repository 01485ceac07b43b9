/* The graph: SSA values and the nodes that make them.
 *
 *   model ── arena, names, ids            one per graph in the stream
 *     └ graph (main)
 *         in[], consts (params and constants), nodes in execution order, out[], state[]
 *         node ── in[] (uses) ──▶ value ── producer ──▶ node
 *           └ attr of type graph: a body, a graph of its own
 *
 * The model's arena owns everything a graph points to; a removed node is simply no
 * longer reachable. Constant bytes belong to the gg_data (a mapping, a malloc block
 * of the store, or a generator) and are copy-on-write: make a new value instead.
 *
 * Bodies are closed. An outer value that a body reads is a *capture*: it is one of
 * the last `ncap` inputs of the node that owns the body, and the body has an input
 * for it: a node's captures are bound, in order, to the last ncap inputs of each of
 * its bodies (each body has all of them). So captures are inputs for every purpose.
 *
 * Short names used everywhere: m model, g graph, n node, v value, u use, d diag. */
#ifndef GG_GRAPH_H
#define GG_GRAPH_H

#include "tensor.h"

typedef struct gg_model gg_model;
typedef struct gg_graph gg_graph;
typedef struct gg_node gg_node;
typedef struct gg_value gg_value;
typedef struct gg_use gg_use;
typedef struct gg_op gg_op;

/* Bytes of a param or const. Exactly one of the forms. */
typedef enum gg_data_kind { GG_DATA_INLINE, GG_DATA_FILE, GG_DATA_FILL } gg_data_kind;
typedef enum gg_fill { GG_FILL_ZEROS, GG_FILL_ONES, GG_FILL_NORMAL, GG_FILL_UNIFORM } gg_fill;
typedef struct gg_data {
	gg_data_kind kind;
	/* INLINE: packed as in a file (see dtype.inc); for dtype string an array of const char*. */
	const void *bytes;
	int64_t len;
	/* FILE: relative to the model's base */
	const char *file;
	int64_t off, size, mtime; /* of the file when it was referenced; mtime in ns */
	const char *hash;         /* hex, or NULL */
	/* FILL */
	gg_fill fill;
	uint64_t seed;
	double a, b; /* normal: mean, std; uniform: lo, hi */
	/* The bytes in memory form once someone asked for them: see gg_value_tensor. */
	void *loaded;
	bool owned; /* loaded is a malloc block of its own */
	struct gg_data *next_loaded;
	struct gg_extra *extra; /* unknown keys of its record */
} gg_data;

typedef enum gg_attr_type {
	GG_ATTR_INT,
	GG_ATTR_FLOAT,
	GG_ATTR_STRING,
	GG_ATTR_INTS,
	GG_ATTR_FLOATS,
	GG_ATTR_STRINGS,
	GG_ATTR_DTYPE,
	GG_ATTR_TENSOR,
	GG_ATTR_GRAPH
} gg_attr_type;
typedef struct gg_attr {
	const char *name; /* interned */
	gg_attr_type type;
	int n; /* elements of a list */
	union {
		int64_t i;
		float f;       /* attribute floats are f32, as in ONNX */
		const char *s; /* UTF-8, no NUL inside */
		const int64_t *ints;
		const float *floats;
		const char **strings;
		gg_dtype dtype;
		const gg_tensor *tensor;
		gg_graph *graph;
	};
} gg_attr;

/* Keys and records this version does not know: kept as msgpack and written again. */
typedef struct gg_extra {
	const char *key; /* key of a map, or tag of a whole record */
	const void *bytes;
	size_t len;
	struct gg_extra *next;
} gg_extra;

typedef enum gg_kind { GG_INPUT, GG_PARAM, GG_CONST, GG_TEMP } gg_kind;

typedef enum gg_layout {               /* in memory; the shape stays logical (N,C,spatial...) */
	                 GG_PLAIN = 0, /* row-major over the logical shape */
	                 GG_NHWC,      /* channels last */
	                 GG_BLOCK8,    /* nChw8c: channels padded to 8 */
	                 GG_BLOCK16,   /* nChw16c */
	                 GG_LAYOUTS
} gg_layout;
const char *gg_layout_name(gg_layout l);
gg_layout gg_layout_find(const char *name); /* GG_LAYOUTS when unknown */

struct gg_use {          /* one input slot of a node, one output of a graph, or one state update */
	gg_value *value; /* NULL: absent optional input */
	gg_node *node;   /* NULL: the graph itself reads it (output or state) */
	gg_use *next, **prev;
};

/* What every walk looks at comes first, in a line or two of the cache. */
struct gg_value {
	uint32_t id;
	uint8_t kind;     /* gg_kind */
	uint8_t dtype;    /* gg_dtype */
	uint8_t layout;   /* gg_layout */
	bool updated;     /* a state's param: what it holds differs from run to run */
	const char *name; /* interned; unique in its graph */
	gg_graph *graph;
	gg_node *producer; /* TEMP only */
	gg_use *uses;
	int nuses, ndeclared; /* ndeclared: of them outputs and states */
	uint64_t mark;        /* scratch of whoever walks the graph now; no meaning between calls */
	int index;            /* which output of it, or which input of the graph */
	gg_shape shape;
	const gg_dim *content; /* elements of a small integer tensor as far as shape inference
	                          knows them (symbols allowed); NULL when not known */
	/* plan: arena offset and bytes, -1 when not planned; `alias` when the value is a
	 * view of, or overwrites, another value's buffer */
	int64_t mem_off, mem_len;
	gg_value *alias;
	gg_data *data; /* PARAM and CONST */
	gg_extra *extra;
	gg_value *next_const; /* in the graph's list of params and consts */
};

struct gg_node {
	uint32_t id;
	uint32_t order; /* valid after gg_graph_number */
	gg_graph *graph;
	gg_node *prev, *next;
	const gg_op *op;
	gg_use *in;
	gg_value **out; /* an unused optional output is NULL */
	int nin, ncap;  /* the last ncap of the nin inputs are captures */
	int nout, nattr;
	gg_attr *attr;
	uint64_t mark;
	gg_node **after;     /* control predecessors */
	int nafter, nfollow; /* nfollow: how many nodes name this one in their `after` */
	const char **loc;    /* [0] source file, then source node names */
	int nloc, stream;
	const char *kernel; /* row chosen by gg-select, or NULL */
	gg_extra *extra;
	size_t cap_in;
};

typedef struct gg_state { /* param <- final value, at the end of a run */
	gg_value *param;
	gg_use final;
} gg_state;

struct gg_graph {
	gg_model *m;
	gg_node *owner; /* the node whose body this is, or NULL for the main graph */
	const char *name;
	gg_value **in;
	size_t nin, cap_in;
	gg_use **out; /* outputs, in declared order */
	size_t nout, cap_out;
	gg_value *consts, **consts_tail;
	gg_node *first, *last;
	size_t nnodes;
	gg_state **state;
	size_t nstate, cap_state;
	gg_map names; /* interned value name -> value, once somebody looked for one */
	gg_map fresh; /* interned base -> where gg_fresh_name goes on, for bases with many names */
	bool named;
	gg_extra *extra;      /* unknown keys of the graph record */
	gg_extra *records;    /* a body's unknown records; the main graph's are the model's */
	gg_graph *next_graph; /* of all graphs that the model ever made */
};

typedef struct gg_step {
	const char **word;
	int n;
} gg_step; /* one history entry: tool, version, options */

struct gg_model {
	gg_arena arena, nodes, values; /* apart, so that a walk over them goes straight through memory */
	gg_graph *main;
	uint32_t next_id;
	/* header */
	const char *name, *stage, *target, *base,
	    *weights;       /* weights: --weights=DIR, replaces base; not written */
	bool allow_outside; /* --allow-outside; not written */
	gg_step *history;
	size_t nhistory, cap_history;
	gg_extra *extra;   /* unknown header keys and meta */
	gg_extra *records; /* unknown records, written before the graph record */
	gg_extra *blobs;   /* ["plan"...] and ["blob"...] of gg-build, and what came after the graph record */
	struct gg_mapping *maps; /* mapped weight files */
	gg_data *loaded;
	gg_graph *graphs;
};

gg_model *gg_model_new(const char *name);
void gg_model_free(gg_model *m);
void gg_drop_plan(gg_model *m); /* what gg-build said of memory: it ends with the next change */
void gg_model_history(gg_model *m, const char *tool, int nopt, const char *const *opt);

gg_graph *gg_graph_new(gg_model *m, const char *name); /* a body: pass it as an attribute */
gg_value *gg_add_input(gg_graph *g, const char *name, gg_dtype t, const gg_shape *s);
gg_value *gg_add_const(gg_graph *g, gg_kind k, const char *name, gg_dtype t, const gg_shape *s,
                       gg_data *data);
/* A constant from host memory, copied. The name is a base: made unique. */
gg_value *gg_add_tensor(gg_graph *g, const char *base, const gg_tensor *t);
void gg_add_output(gg_graph *g, gg_value *v);
void gg_clear_results(gg_graph *g); /* no outputs, no state: for a cut-out graph */
void gg_add_state(gg_graph *g, gg_value *param, gg_value *final);
void gg_remove_const(gg_value *v);                /* must be unused; walks the list: many at once: */
size_t gg_sweep_consts(gg_graph *g, size_t most); /* removes params and consts that nobody reads; how many */
void gg_remove_input(gg_graph *g, size_t i);      /* must be unused */

/* A node before `before` (NULL: at the end). Inputs may be NULL. Outputs are made with the
 * names given (NULL: absent output); their dtypes and shapes are set by gg_infer (op.h). */
gg_node *gg_add_node(gg_graph *g, gg_node *before, const gg_op *op, int nin, gg_value *const *in, int nout,
                     const char *const *out);
gg_node *gg_add_named(gg_graph *g, gg_node *before, const gg_op *op, int nin, gg_value *const *in, int nout,
                      const char *const *interned);    /* the same with interned names */
gg_value *gg_add_result(gg_node *n, const char *name); /* one more output, behind the others */
void gg_remove_node(gg_node *n);                       /* its outputs must be unused */
void gg_move_before(gg_node *n, gg_node *before);      /* NULL: to the end */
void gg_set_input(gg_node *n, int i, gg_value *v);
int gg_add_capture(gg_node *n, gg_value *v);        /* also appends an input to each body; returns slot */
void gg_remove_input_slot(gg_node *n, int i);       /* captures: with the bodies' inputs */
bool gg_capture_is_read(const gg_node *n, int i);   /* by a body; i: its input slot */
void gg_replace_uses(gg_value *from, gg_value *to); /* nodes, outputs and state */
void gg_add_after(gg_node *n, gg_node *pred);
/* The rest of the graph keeps the interface: `to` takes over from's name and layout when `from` is
 * a graph output, so what is declared survives. */
void gg_replace_value(gg_value *from, gg_value *to);
/* False when that would lose a declared name: `from` is an output of the main graph and `to` is
 * an output too, or an input or constant, which have names of their own to keep. */
bool gg_can_replace(const gg_value *from, const gg_value *to);
void gg_rename(gg_value *v, const char *name); /* must be free in the graph */
void gg_swap_names(gg_value *a, gg_value *b);  /* of one graph */
void gg_drop_names(gg_graph *g);               /* the map of them, until somebody looks again */
void gg_merge_loc(gg_node *into, const gg_node *from);
void gg_set_loc(gg_node *n, int nloc, const char *const *loc);
const char *gg_fresh_name(gg_graph *g, const char *base);     /* base, base.1, base.2, ... interned */
const char *gg_fresh_interned(gg_graph *g, const char *base); /* the same, of an interned base */
gg_value *gg_find_value(gg_graph *g, const char *name);       /* NULL when absent */
gg_value *gg_find_interned(gg_graph *g, const char *name);    /* the same, of an interned name */

static inline gg_value *gg_in(const gg_node *n, int i) { return i < n->nin - n->ncap ? n->in[i].value : 0; }
static inline int gg_nargs(const gg_node *n) { return n->nin - n->ncap; }
static inline gg_value *gg_out(const gg_node *n, int i) { return i < n->nout ? n->out[i] : 0; }
static inline bool gg_is_const(const gg_value *v) { return v && v->kind == GG_CONST; }
/* A constant, or a parameter that no run updates. */
static inline bool gg_is_fixed(const gg_value *v)
{
	return v && (v->kind == GG_CONST || v->kind == GG_PARAM) && !v->updated;
}
bool gg_is_output(const gg_value *v);       /* an output of its graph, or a state's final value */
bool gg_one_use(const gg_value *v);         /* one reader, and not an output or state */
const char *gg_node_name(const gg_node *n); /* source node name, else first output's name */

/* Attributes. get: the node's, else the schema's default (op.h); the type must be the schema's. */
const gg_attr *gg_find_attr(const gg_node *n, const char *name); /* set on the node, or NULL */
void gg_set_attr(gg_node *n, const gg_attr *a);                  /* copied; replaces */
void gg_del_attr(gg_node *n, const char *name);
void gg_copy_attrs(gg_node *to, const gg_node *from); /* bodies are cloned */
void gg_set_attr_int(gg_node *n, const char *name, int64_t i);
void gg_set_attr_float(gg_node *n, const char *name, float f);
void gg_set_attr_string(gg_node *n, const char *name, const char *s);
void gg_set_attr_ints(gg_node *n, const char *name, int count, const int64_t *v);
void gg_set_attr_dtype(gg_node *n, const char *name, gg_dtype t);
void gg_set_attr_graph(gg_node *n, const char *name, gg_graph *g);
int64_t gg_get_int(const gg_node *n, const char *name);
float gg_get_float(const gg_node *n, const char *name);
const char *gg_get_string(const gg_node *n, const char *name);  /* NULL: neither set nor defaulted */
gg_dtype gg_get_dtype(const gg_node *n, const char *name);      /* GG_NONE likewise */
const gg_attr *gg_get_list(const gg_node *n, const char *name); /* NULL likewise */
bool gg_attr_eq(const gg_attr *a, const gg_attr *b);            /* bodies: structurally */
gg_graph *gg_clone_body(const gg_graph *g, gg_model *m);
bool gg_data_eq(const gg_data *a,
                const gg_data *b); /* same bytes as far as can be told without reading files */

/* Bodies of a node, in attribute order: for (int i = 0; (b = gg_body(n, i)); i++) */
gg_graph *gg_find_body(const gg_node *n, int i);
static inline gg_graph *gg_body(const gg_node *n, int i) { return n->nattr ? gg_find_body(n, i) : 0; }

/* Constant contents in memory form (4-bit unpacked, generators run, files mapped), loaded on
 * first use and kept until the model is freed. False: the file is missing, changed or short. */
bool gg_value_tensor(gg_diag *d, gg_value *v, gg_tensor *out);
/* The raw packed bytes (for writers); not for FILL. */
bool gg_data_bytes(gg_diag *d, gg_model *m, const gg_value *v, const void **out, int64_t *out_len);
/* A reference to `len` bytes of `file` (relative to base) with its size and time. Refuses paths
 * that leave the base unless m->allow_outside. `what` names the tensor in messages. */
gg_data *gg_data_file(gg_diag *d, gg_model *m, const char *what, const char *file, int64_t off, int64_t len);
void gg_unload(gg_model *m); /* unmaps files and frees what gg_value_tensor loaded */
gg_data *gg_data_inline(gg_model *m, const void *bytes, int64_t len); /* copied */
gg_data *gg_data_fill(gg_model *m, gg_fill f, uint64_t seed, double a, double b);

void gg_graph_number(gg_graph *g); /* sets node->order 1..n */
void gg_clear_marks(gg_graph *g);  /* value->mark = 0, of all its values */
/* Reorders nodes so that producers and control predecessors come first, keeping the present
 * order where it can (stable). False: a cycle, reported with the nodes on it. */
bool gg_graph_sort(gg_diag *d, gg_graph *g);
/* The structural check (check.c): SSA, order, uses, arity, attributes against the schema,
 * names, bodies, aliases, state. Cheap and linear; run it after everything. */
bool gg_check(gg_diag *d, const gg_model *m);
/* The same, and which ops there are: pointer -> op, instead of what the map held. */
bool gg_check_ops(gg_diag *d, const gg_model *m, gg_map *ops);
/* Binds symbols in every shape, in every body. */
void gg_bind(gg_model *m, const gg_binding *b, size_t n);

#endif
