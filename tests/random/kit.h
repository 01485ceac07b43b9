/* What the pieces of random graphs are made with. Makers are sticky: from NULL comes NULL, and so it does
 * where inference says that the operands do not go together. */
#ifndef RANDOM_KIT_H
#define RANDOM_KIT_H

#include "random.h"

typedef struct gen {
	gg_model *m;
	gg_graph *g; /* grows here: the main graph, or a body */
	gg_diag d;   /* silent */
	gg_arena a;
	uint64_t seed, drawn;
	gg_value **pool; /* what new nodes may read */
	size_t npool, cap_pool;
	gg_dtype main;      /* of most floats */
	gg_dim batch;       /* the first dim of most values: a number, or N */
	bool train;         /* state of optimisers comes from passes, not from here */
	const char **taken; /* parameters that are state already */
	size_t ntaken, cap_taken;
} gen;

enum { MOST_ELEMENTS = 2048 };

uint32_t below(gen *r, uint32_t n); /* 0 to n-1 */
bool chance(gen *r, int percent);
const char *one_of(gen *r, const char *words); /* a word of "a b c" */

/* A value of a dtype in the set and a rank from lo to hi: a made one, or else a new input or weight. */
gg_value *pick(gen *r, gg_dtypes set, int lo, int hi);
gg_value *pick_like(gen *r, const gg_value *x); /* same dtype and shape; NULL: there is none but x */
gg_value *fresh(gen *r, gg_dtype t, int rank, const gg_dim *dim); /* an input or a weight */
/* A parameter or constant; its numbers lie around `mean`. Numbers for dims alone. */
gg_value *weight(gen *r, gg_dtype t, int rank, const gg_dim *dim, double mean, double spread);
gg_value *number(gen *r, gg_dtype t, double x);
gg_value *ints(gen *r, int n, const int64_t *x);

extern gg_value absent; /* an input that is not given */
/* The node's first output. attrs: "axis=1; perm=[1, 0]". */
gg_value *node(gen *r, const char *op, const char *attrs, int nout, int nin, gg_value *const *in);
/* An expression over x, y, z and w:  Mul(x, Add(Erf(y){...}, 1))  Op:2(x) has two outputs; _ is an absent
 * input, [1, 2] an i64 constant, 'word' a constant text, numbers have the dtype of x. Operands of commutative
 * ops change places. */
gg_value *expr(gen *r, const char *text, gg_value *x, gg_value *y, gg_value *z, gg_value *w);

void add_result(gen *r, gg_value *v); /* an output, once */
void piece(gen *r);                   /* adds some nodes */
void collectives(gen *r);             /* of three ranks, in the main graph */

#endif
