#include "cost.h"

#include <string.h>

static int64_t count(const gg_value *v) { return v && v->shape.rank >= 0 ? gg_shape_count(&v->shape) : -1; }

static int64_t dim(const gg_value *v, int i)
{
	i = i < 0 ? i + v->shape.rank : i;
	return i < 0 || i >= v->shape.rank || !gg_dim_known(v->shape.dim[i]) ? -1 : v->shape.dim[i];
}

/* Multiply-adds of one output element: the products that are summed for it. */
static int64_t products(const gg_node *n)
{
	const gg_value *x = gg_in(n, 0), *w = gg_in(n, 1), *y = n->out[0];
	const char *op = n->op->name;
	if (!strcmp(op, "Conv") || !strcmp(op, "FusedConv"))
		return count(w) < 0 || dim(w, 0) <= 0 ? -1 : count(w) / dim(w, 0);
	if (!strcmp(op, "ConvTranspose")) /* counted by input element: W holds what each one adds to */
		return count(y) <= 0 || count(x) < 0 || count(w) < 0 || dim(w, 0) <= 0
		           ? -1
		           : count(x) * (count(w) / dim(w, 0)) / count(y);
	if (!strcmp(op, "Gemm"))
		return dim(x, gg_get_int(n, "transA") ? 0 : 1);
	if (!strcmp(op, "MatMul") || !strcmp(op, "MatMulBias") || !strcmp(op, "MatMulInteger"))
		return dim(x, -1);
	return 0;
}

int64_t gg_flops(const gg_node *n)
{
	int64_t out = n->nout && n->out[0] ? count(n->out[0]) : 0, k = n->nout && n->out[0] ? products(n) : 0;
	if (out < 0 || k < 0)
		return -1;
	return k ? 2 * out * k : n->op->flags & GG_POINTWISE ? out : 0;
}

static bool is_half(const gg_node *n)
{
	gg_dtype t = n->out[0] ? (gg_dtype)n->out[0]->dtype : GG_NONE;

	return t == GG_F16 || t == GG_BF16;
}

static double bytes_of(const gg_value *v)
{
	int64_t n = count(v);

	return n < 0 || !v->dtype ? 0 : (double)n * (double)gg_dtype_size((gg_dtype)v->dtype);
}

static bool made_in(const gg_value *v, const gg_node *n, int len)
{
	for (; len > 0; len--, n = n->next)
		if (v->producer == n)
			return true;
	return false;
}

gg_cost gg_call_cost(const gg_machine *m, const gg_node *n, int len)
{
	double flops = 0, bytes = 0, work = 0, rate = is_half(n) ? m->half_flops : m->flops, time;
	gg_cost c;

	for (const gg_node *k = n; len > 0 && k; k = k->next, len--) {
		int64_t f = k->nout ? gg_flops(k) : 0;
		flops += f > 0 ? (double)f : 0;
		for (int i = 0; i < k->nin; i++)
			if (k->in[i].value && !made_in(k->in[i].value, n, len))
				bytes += bytes_of(k->in[i].value);
		for (int i = 0; i < k->nout; i++)
			bytes += k->out[i] && len == 1 ? bytes_of(k->out[i]) : 0;
		work = k->nout && count(k->out[0]) > 0 ? (double)count(k->out[0]) : work;
	}
	c.fill = work / m->tile / m->processors;
	c.fill = c.fill > 1 ? 1 : c.fill < 1 / m->processors ? 1 / m->processors : c.fill;
	time = flops / (rate * c.fill);
	bytes /= m->bytes *
	         (c.fill > 0.25 ? 1 : 4 * c.fill); /* a quarter of the processors is enough for that */
	c.seconds = m->launch + (time > bytes ? time : bytes);
	return c;
}
