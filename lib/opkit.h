/* What several arithmetic op files share. */
#ifndef GG_OPKIT_H
#define GG_OPKIT_H

#include "move.h"

/* Attributes as expressions see them: a, b, c are the first, second and third attribute of the
 * schema; a string counts as 0 when it is the default, else as 1. */
enum { GG_EXPR_ATTRS = 3 };
void gg_expr_attrs(const gg_node *n, double *attr);

/* One element of an integer result from one element of each input; false: not known. */
typedef bool gg_dim2(gg_dim x, gg_dim y, gg_dim *out);
/* Broadcasts the inputs to out[0] and follows small contents; dims NULL: shapes only. Variadic:
 * folds from the left. */
bool gg_infer_arith(gg_infer *f, gg_dim2 *dims);
/* The contents alone, of the first nin inputs; out[0] has its dtype and shape. */
void gg_follow(gg_infer *f, int nin, gg_dim2 *dims);

/* Folds any number of inputs, broadcast, and divides by the divisor; floats are rounded once. */
bool gg_map_fold(gg_eval *e, gg_f2 *f, gg_i2 *i, double divisor);

/* A matrix in a tensor: element (r, c) is data[off + r * ld + c], or with trans data[off + c * ld + r]. */
typedef struct gg_mat {
	const gg_tensor *t;
	int64_t off, ld;
	bool trans;
} gg_mat;
/* c[m,n] += a[m,k] b[k,n], in double or, wrapping, in integers. */
void gg_gemm_f64(int64_t m, int64_t n, int64_t k, gg_mat a, gg_mat b, double *c);
void gg_gemm_i64(int64_t m, int64_t n, int64_t k, gg_mat a, gg_mat b, int64_t *c);

bool gg_infer_matmul(gg_infer *f); /* out[0].shape of in[0] and in[1], as NumPy's matmul */
void gg_matmul(const gg_tensor *a, const gg_tensor *b, gg_tensor *out); /* shapes as inferred */
/* "'a' and 'b'": names of two inputs, for messages. */
const char *gg_input_names(gg_infer *f, int a, int b);

/* Activations of fused nodes, by name: "" none, or an op of one input, or "GeluTanh". */
bool gg_activation_known(const char *name);
void gg_activate(const char *name, gg_tensor *t); /* in place, rounded like a node of its own */
/* Adds the node before n; returns its output, or x when there is none. */
gg_value *gg_expand_activation(gg_diag *d, gg_node *n, gg_value *x, const char *name);
/* Puts Identity of input 0 in n's place: for ops that say something and compute nothing. */
bool gg_expand_identity(gg_diag *d, gg_node *n);
/* A plain node before n with one inferred output; NULL when inference fails. */
gg_value *gg_expand_node(gg_diag *d, gg_node *n, const char *op, int nin, gg_value *const *in);

/* Quantisation: x as [outer, n, inner] around the axis; element (o, k, i) has scale number
 * o * so + k / block * sk + i * si. */
typedef struct gg_quant {
	int64_t outer, n, inner, block, so, sk, si;
} gg_quant;
bool gg_infer_quant(gg_infer *f); /* scale (input 1) and zero point (input 2) fit input 0 */
gg_quant gg_quant_of(const gg_eval *e);

/* x rounded to a float dtype. */
double gg_round_to(gg_dtype t, double x);
/* The seed of a random op: from its attribute, which has the type of the schema, or the run's. */
uint64_t gg_random_seed(const gg_eval *e);

#endif
