/* What ScatterElements and ScatterND share: y is x with some elements replaced by, or reduced
 * with, elements of updates. A reduction runs in double (i64 for integers) over all updates of an
 * element and is rounded once. */
#ifndef GG_OP_SCATTER_H
#define GG_OP_SCATTER_H

#include "move.h"
#include <math.h>
#include <string.h>

typedef struct scatter {
	gg_eval *e;
	const gg_tensor *u;
	gg_tensor *y;
	size_t size;
	char how;        /* second letter of none, add, mul, max, min */
	bool ints, flip; /* flip: u64, ordered as i64 with the top bit turned */
	double *f;       /* y while it is reduced */
	int64_t *i;
} scatter;

static inline bool scatter_check(gg_infer *f)
{
	static const char *const known[] = {"none", "add", "mul", "max", "min"};
	const char *r = gg_get_string(f->n, "reduction");
	size_t i = 0;
	while (i < 5 && strcmp(r, known[i]))
		i++;
	if (i == 5)
		return gg_unsupported(f, "reduction '%s'", r);
	if (i && !(GG_DT(f->in[0].dtype) & (GG_NUMBERS | GG_DT(GG_BOOL))))
		return gg_unsupported(f, "reduction '%s' of %s", r, gg_dtype_name(f->in[0].dtype));
	return true;
}

static inline scatter scatter_start(gg_eval *e)
{
	gg_tensor *x = &e->in[0], *y = &e->out[0];
	const char *r = gg_get_string(e->n, "reduction");
	scatter s = {e, &e->in[2], y, gg_dtype_size(y->dtype), r[1]};
	size_t n = (size_t)gg_count(y);
	s.ints = gg_dtype_class(y->dtype) != 'F';
	s.flip = y->dtype == GG_U64 && (s.how == 'a' || s.how == 'i');
	if (s.how == 'o' && n && y->data != x->data)
		memcpy(y->data, x->data, n * s.size);
	if (s.how == 'o' || n == 0)
		return s;
	if (s.ints) {
		s.i = gg_eval_ints(e, 0);
	} else {
		s.f = gg_alloc_n(e->a, n, sizeof *s.f);
		gg_load_f64(x->dtype, x->data, 0, (int64_t)n, s.f);
	}
	return s;
}

static inline double scatter_reduce(char how, double a, double x)
{
	switch (how) {
	case 'd':
		return a + x;
	case 'u':
		return a * x;
	case 'a':
		return isnan(a) || a > x ? a : x;
	default:
		return isnan(a) || a < x ? a : x;
	}
}

static inline int64_t scatter_reduce_int(const scatter *s, int64_t a, int64_t x)
{
	uint64_t top = s->flip ? (uint64_t)1 << 63 : 0;
	bool logic = s->y->dtype == GG_BOOL;
	int64_t oa = (int64_t)((uint64_t)a ^ top), ox = (int64_t)((uint64_t)x ^ top);
	switch (s->how) {
	case 'd':
		return logic ? a | x : (int64_t)((uint64_t)a + (uint64_t)x);
	case 'u':
		return logic ? a & x : (int64_t)((uint64_t)a * (uint64_t)x);
	case 'a':
		return oa > ox ? a : x;
	default:
		return oa < ox ? a : x;
	}
}

/* n elements of updates from `from` into y at `to`. */
static inline void scatter_put(scatter *s, int64_t to, int64_t from, int64_t n)
{
	if (s->how == 'o') {
		memcpy((char *)s->y->data + (size_t)to * s->size,
		       (const char *)s->u->data + (size_t)from * s->size, (size_t)n * s->size);
		return;
	}
	for (int64_t k = 0; k < n; k++) {
		if (s->ints)
			s->i[to + k] = scatter_reduce_int(s, s->i[to + k], gg_get_i64(s->u, from + k));
		else
			s->f[to + k] = scatter_reduce(s->how, s->f[to + k], gg_get_f64(s->u, from + k));
	}
}

static inline void scatter_finish(scatter *s)
{
	int64_t n = gg_count(s->y);
	if (s->i)
		gg_store_i64(s->y->dtype, s->y->data, 0, n, s->i);
	if (s->f)
		gg_store_f64(s->y->dtype, s->y->data, 0, n, s->f);
}

#endif
