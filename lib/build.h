/* Writing nodes one after another before a place in a graph. Builders are sticky: after the first
 * failure, which is reported, and for an input that is NULL, they give NULL. */
#ifndef GG_BUILD_H
#define GG_BUILD_H

#include "op.h"

typedef struct gg_builder {
	gg_diag *d;
	gg_graph *g;
	gg_node *at;      /* new nodes go before this one; NULL: the end */
	const char *name; /* of new values; NULL: that of their first input */
	bool bad;
} gg_builder;

/* A node whose attributes are still to be set, then its inference. name NULL: the builder's. */
gg_value *gg_put(gg_builder *t, const char *op, int nin, gg_value *const *in, const char *name);
gg_value *gg_put_done(gg_builder *t, gg_value *v);
gg_value *gg_put_op(gg_builder *t, const char *op, gg_value *a, gg_value *b); /* b NULL: of one input */
gg_value *gg_put_cast(gg_builder *t, gg_value *v, gg_dtype to);
gg_value *gg_put_where(gg_builder *t, gg_value *test, gg_value *yes, gg_value *no);
gg_value *gg_put_all(gg_builder *t, const char *op, gg_value *v); /* a reduction to a scalar */
/* A constant scalar; one for each name, dtype and value. */
gg_value *gg_put_number(gg_builder *t, const char *name, gg_dtype type, double x);
gg_value *gg_put_like(gg_builder *t, const gg_value *like, double x); /* of like's dtype */
gg_value *gg_put_ints(gg_builder *t, int n, const int64_t *x);        /* a constant vector of i64 */

gg_value *gg_put_shape(gg_builder *t, gg_value *v); /* a constant where it is known */
gg_value *gg_put_reshape(gg_builder *t, gg_value *v, gg_value *like);
gg_value *gg_put_expand(gg_builder *t, gg_value *v, gg_value *like);
gg_value *gg_put_reduce(gg_builder *t, const char *op, gg_value *v, int n, const int64_t *axis, bool keep);
gg_value *gg_put_permute(gg_builder *t, gg_value *v, int n, const int64_t *perm);
gg_value *gg_put_swap(gg_builder *t, gg_value *v);  /* the last two axes change places */
gg_value *gg_put_count(gg_builder *t, gg_value *v); /* its elements, as its dtype */

#endif
