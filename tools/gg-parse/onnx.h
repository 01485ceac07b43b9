/* The ONNX front end: bytes to decoded messages (decode.c), tensors (tensor.c), the graph
 * (import.c), and every opset to one form on the way (lift.c).
 *
 *   file ── decode ──▶ onnx_ModelProto ── import ──▶ node ── lift ──▶ gg_node
 *
 * The decoded messages are nanopb's generated structs. What varies in size is a pointer that is
 * NULL when the field is not there; strings are interned; bytes point into the file. */
#ifndef GG_PARSE_ONNX_H
#define GG_PARSE_ONNX_H

#include "../../lib/gg.h"

/* Elements of a repeated field: structs, int64_t (every integer), float, double, const char *
 * (strings) or struct onnx_bytes. */
struct onnx_list {
	void *v;
	size_t n, cap;
};
struct onnx_bytes {
	const char *p;
	size_t n;
};

#include "onnx.pb.h"

/* EACH (onnx_NodeProto, n, graph->node) ...; a list that is not there is empty. */
#define EACH(T, x, list) \
	for (__typeof__(T) *x = (list) ? (list)->v : 0, *x##_end = (list) ? x + (list)->n : 0; x < x##_end; \
	     x++)

onnx_ModelProto *onnx_decode(gg_diag *d, gg_arena *a, const gg_source *s);

typedef struct onnx_shape { /* --shape */
	const char *input;
	gg_shape shape;
} onnx_shape;
typedef struct onnx_options {
	const char *path; /* of the file; NULL: a pipe, so tensors are copied into the graph */
	const onnx_shape *shape;
	size_t nshape;
	bool allow_outside;
} onnx_options;
gg_model *onnx_import(gg_diag *d, const gg_source *s, const onnx_options *o);

/* --- tensors ------------------------------------------------------------------------------ */
typedef struct onnx_file { /* where the model's bytes lie */
	gg_diag *d;
	gg_model *m;
	const char *file; /* relative to the model's base; NULL: inline */
	const char *p;
	size_t len;
} onnx_file;
/* Dtype and shape of a tensor, checked. `what` names it in messages. */
bool onnx_tensor_type(gg_diag *d, const onnx_TensorProto *t, const char *what, gg_dtype *dtype, gg_shape *s);
/* Its contents as a reference into a file, or inline. */
gg_data *onnx_tensor_data(const onnx_file *f, const onnx_TensorProto *t, const char *what);
/* Its contents in memory form, in the model's arena: for attributes. */
gg_tensor *onnx_tensor_load(const onnx_file *f, const onnx_TensorProto *t, const char *what);
gg_tensor *onnx_sparse_load(const onnx_file *f, const onnx_SparseTensorProto *t, const char *what);

/* --- lifting ------------------------------------------------------------------------------ */
/* A node on its way into the graph: what the file says, which lift.c rewrites to the newest form. */
typedef struct onnx_node {
	gg_diag *d;
	gg_arena *a; /* scratch */
	gg_graph *g;
	const char *name;        /* of the node, for messages */
	const char *op, *domain; /* interned; domain "" for ai.onnx */
	int64_t version;         /* of the domain's opset */
	gg_value **in;
	int nin;
	const char **out; /* names for the outputs; NULL: not wanted */
	int nout;
	gg_attr *attr; /* as in the file: ints for dtypes, graphs left out */
	int nattr;
	const char **loc;
	int nloc;
} onnx_node;

bool onnx_fail(const onnx_node *n, gg_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Is there such an op in the node's opset? */
bool onnx_check_opset(const onnx_node *n);
/* Rewrites the node to the newest opset; may put other nodes before it. */
bool onnx_lift(onnx_node *n);
/* Adds the node to the graph as it now is, infers it. NULL: reported. */
gg_node *onnx_emit(onnx_node *n);

enum { ONNX_OLDEST = 7, ONNX_NEWEST = 28 };

#endif
