/* What an op's gradient rule is written with. A rule makes, in plain ops, the gradients of node n's
 * inputs from those of its outputs:
 *
 *   GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OUT)); }        Exp: dy exp(x)
 *   GG_UNARY(Exp, ..., .grad = grad);
 *
 * dy is the gradient of output 0. A rule of an op with several floating outputs gets NULL where only
 * others have one, and asks for those with gg_grad_out(); what is not asked for is an error, so nothing
 * is lost silently. gg_give() adds to the gradient of an input, where one is wanted. */
#ifndef GG_GRAD_H
#define GG_GRAD_H

#include "build.h"
#include <string.h>

#define GG_GRAD(name) static void name(gg_builder *t, gg_node *n, gg_value *dy)
#define IN(i) gg_in(n, i)
#define OUT n->out[0]
#define OP(op, a, b) gg_put_op(t, op, a, b)
#define NUM(like, x) gg_put_like(t, like, x)

/* A value's mark: 0 no gradient is wanted, 1 it is, else the gradient so far. */
enum { GG_GRAD_WANTED = 1 };

static inline bool gg_grad_wanted(const gg_value *v) { return v && v->mark; }

static inline gg_value *gg_grad_of(const gg_value *v)
{
	return v && v->mark > GG_GRAD_WANTED ? (gg_value *)(uintptr_t)v->mark : 0;
}

/* The gradient of output i; NULL: there is none. */
static inline gg_value *gg_grad_out(gg_node *n, int i)
{
	n->mark |= (uint64_t)1 << (i < 63 ? i : 63);
	return i < n->nout ? gg_grad_of(n->out[i]) : 0;
}

void gg_give(gg_builder *t, gg_value *v, gg_value *g);
/* The same, summed over what broadcasting repeated. */
void gg_give_like(gg_builder *t, gg_node *n, gg_value *v, gg_value *g);
gg_value *gg_grad_like(gg_builder *t, const gg_node *n, gg_value *g, gg_value *like);
/* The rule does not serve this node: "no gradient: why". */
void gg_grad_lacks(gg_builder *t, const gg_node *n, const char *why);

/* Reverse mode, for the pass grad and the op Gradient. Fused ops without a rule that y is made with are put
 * in plain ops, so that y may be another value then, and every value is unmarked; then the caller marks what
 * gradients are wanted of (GG_GRAD_WANTED) and calls the walk, which gives y the gradient dy and runs the
 * rules backwards. `end`: where nodes for y may stand, NULL for the end of the graph. `stop`: a glob of
 * values through which nothing flows, or NULL. */
gg_value *gg_grad_begin(gg_graph *g, gg_value *y, gg_node *end);
bool gg_grad_walk(gg_builder *t, gg_value *y, gg_value *dy, const char *stop);

/* A rule by parts: it writes n's own work in plain nodes, from its inputs, and has the rules of those run.
 *
 *   gg_node *from = gg_grad_parts(t);  ... nodes ...;  gg_node *last = gg_grad_made(t, from);
 *   gg_give(t, one of them, its gradient); ...;  gg_grad_back(t, from, last); */
gg_node *gg_grad_parts(gg_builder *t);
gg_node *gg_grad_made(gg_builder *t, gg_node *from);
bool gg_grad_back(gg_builder *t, gg_node *from, gg_node *last);

/* Rules of many ops. */
void gg_grad_zero(gg_builder *t, gg_node *n, gg_value *dy);    /* constant nearly everywhere, or chance */
void gg_grad_sum(gg_builder *t, gg_node *n, gg_value *dy);     /* of all inputs, broadcast */
void gg_grad_reshape(gg_builder *t, gg_node *n, gg_value *dy); /* the same elements in another shape */
void gg_grad_swish(gg_builder *t, gg_node *n, gg_value *dy);   /* x sigmoid(alpha x) */
/* To the inputs, or the elements, that equal the output; equals share it. */
void gg_grad_equal(gg_builder *t, gg_node *n, gg_value *dy);
void gg_grad_reduced_equal(gg_builder *t, gg_node *n, gg_value *dy);

/* Pieces of rules. */
gg_value *gg_grad_masked(gg_builder *t, gg_value *test, gg_value *dy, bool yes); /* dy where test is yes */
bool gg_grad_axis(gg_builder *t, gg_node *n, const gg_value *v, int64_t *axis);  /* of v, from its front */
/* dy of a reduction, repeated over what was reduced. */
gg_value *gg_grad_spread(gg_builder *t, gg_node *n, gg_value *dy);
gg_value *gg_grad_kept(gg_builder *t, gg_node *n, gg_value *v); /* with reduced axes as axes of size 1 */
/* Elements of a constant integer input; false: it is none. */
bool gg_grad_ints(gg_builder *t, gg_value *v, int64_t *out, int *count);
gg_value *gg_grad_channel_sum(gg_builder *t, gg_value *v);                 /* over all axes but 1 */
gg_value *gg_grad_channels(gg_builder *t, gg_value *v, const gg_value *x); /* v as [1,C,1,...] of x */
/* dy's rows added where they came from: y = Gather(x, index) along axis. */
gg_value *gg_grad_rows(gg_builder *t, gg_value *x, gg_value *index, int64_t axis, gg_value *dy);
/* Of a scatter: of the data where nothing was put, or of all where it was added; of the updates by
 * `gather` from where they went. */
void gg_grad_scatter(gg_builder *t, gg_node *n, gg_value *dy, const char *gather);
/* x less its mean over axes, times inverse = 1 / (sqrt(variance + eps) + more); then the gradient of x
 * from that of it. */
gg_value *gg_grad_normal(gg_builder *t, gg_value *x, double eps, double more, int n, const int64_t *over,
                         gg_value **inverse);
gg_value *gg_grad_normalised(gg_builder *t, gg_value *g, gg_value *hat, gg_value *inverse, int n,
                             const int64_t *over);
/* `op` of one tensor, of two, or of two and the shape of `like`, with n's attributes as far as it has them.
 */
gg_value *gg_grad_node(gg_builder *t, gg_node *n, const char *op, gg_value *a, gg_value *b, gg_value *like);
/* `op` with an output for input 0, and for inputs 1 and 2 where their gradient is wanted. */
gg_node *gg_grad_three(gg_builder *t, gg_node *n, const char *op, int nin, gg_value *const *in);

#endif
