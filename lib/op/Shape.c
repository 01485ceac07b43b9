#include "move.h"

/* The slice [*from,*to) of the dims that start and end name; both are clamped. */
static void range(const gg_node *n, int rank, int *from, int *to)
{
	const gg_attr *end = gg_find_attr(n, "end");
	int64_t v[2] = {gg_get_int(n, "start"), end ? end->i : rank};
	for (int i = 0; i < 2; i++) {
		v[i] += v[i] < 0 ? rank : 0;
		v[i] = v[i] < 0 ? 0 : v[i] > rank ? rank : v[i];
	}
	*from = (int)v[0];
	*to = (int)(v[1] > v[0] ? v[1] : v[0]);
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int from, to;
	f->out[0].dtype = GG_I64;
	if (s->rank < 0) {
		gg_unknown_dims(f, 0, 1);
		return true;
	}
	range(f->n, s->rank, &from, &to);
	gg_dim *d = gg_alloc_n(f->a, (size_t)(to - from) + 1, sizeof *d);
	for (int i = from; i < to; i++)
		d[i - from] = s->dim[i];
	f->out[0].shape = gg_shape_of(1, &(gg_dim){to - from});
	f->out[0].content = d;
	return true;
}

static bool eval(gg_eval *e)
{
	int from, to;
	range(e->n, e->in[0].shape.rank, &from, &to);
	for (int i = from; i < to; i++)
		gg_set_i64(&e->out[0], i - from, e->in[0].shape.dim[i]);
	return true;
}

const gg_op gg_op_Shape = {
    .name = "Shape",
    .doc = "the dims of x, or a slice of them",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"start", GG_ATTR_INT, false, "0"}, {"end", GG_ATTR_INT}, {0}},
    .flags = GG_MOVES,
    .in = {{GG_ANY}},
    .out = {{GG_DT(GG_I64)}},
    .infer = infer,
    .eval = eval};
