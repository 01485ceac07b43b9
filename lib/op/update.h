/* Ops that update parameters: the old state in, the new state out, in the same place. The *roles* of
 * the inputs are a word with a letter for each, repeated for ops of many parameters:
 *
 *   s  a scalar of any float dtype; where it may be left out it then counts as 1
 *   v  state: each is, in order, the next output
 *   g  a gradient of the shape of the state before it
 *
 * Arithmetic is in double, each output rounded once. */
#ifndef GG_OP_UPDATE_H
#define GG_OP_UPDATE_H

#include "opkit.h"
#include <math.h>
#include <string.h>

enum { UPDATE_SCALARS = 9, UPDATE_STATES = 3, UPDATE_BLOCK = 256 };

/* The shape of a value that must be that of another, as far as both are known. */
static inline bool update_fits(gg_infer *f, int i, const gg_info *var, int at)
{
	const gg_shape *a = &f->in[i].shape, *b = &var->shape;
	bool fits = a->rank < 0 || b->rank < 0 || a->rank == b->rank;
	for (int k = 0; fits && k < a->rank && b->rank >= 0; k++)
		fits = !gg_dim_known(a->dim[k]) || !gg_dim_known(b->dim[k]) || a->dim[k] == b->dim[k];
	return fits || gg_fail(f, "input %d has shape %s, the parameter in input %d %s", i, gg_str(f, a), at,
	                       gg_str(f, b));
}

static inline bool update_infer_group(gg_infer *f, const char *roles, int in, int out)
{
	int var = -1;
	for (int i = 0; roles[i] && in + i < f->nin; i++) {
		gg_info *x = &f->in[in + i];
		if (roles[i] == 's' && x->dtype && gg_shape_known(&x->shape) &&
		    gg_shape_count(&x->shape) != 1)
			return gg_fail(f, "input %d has shape %s, expected a scalar", in + i,
			               gg_str(f, &x->shape));
		if (roles[i] == 's')
			continue;
		var = var < 0 ? in + i : var;
		if (!update_fits(f, in + i, &f->in[var], var))
			return false;
		if (roles[i] == 'v' && x->dtype != f->in[var].dtype)
			return gg_fail(f, "input %d is %s, the parameter in input %d %s", in + i,
			               gg_dtype_name(x->dtype), var, gg_dtype_name(f->in[var].dtype));
		if (roles[i] == 'v') {
			f->out[out].dtype = x->dtype;
			f->out[out++].shape = f->in[var].shape;
		}
	}
	return true;
}

/* state: replaced by what it becomes. */
typedef void update_step(double *state, const double *scalar, double grad);

static inline void update_eval_group(gg_eval *e, const char *roles, int in, int out, update_step *step)
{
	double scalar[UPDATE_SCALARS], v[UPDATE_STATES][UPDATE_BLOCK], g[UPDATE_BLOCK];
	const gg_tensor *state[UPDATE_STATES], *grad = 0;
	int nscalar = 0, nstate = 0;
	for (int i = 0; roles[i]; i++) {
		const gg_tensor *t = in + i < e->nin && e->in[in + i].dtype ? &e->in[in + i] : 0;
		if (roles[i] == 's')
			scalar[nscalar++] = t ? gg_get_f64(t, 0) : 1;
		else if (roles[i] == 'v')
			state[nstate++] = t;
		else
			grad = t;
	}
	int64_t count = gg_count(grad);
	for (int64_t at = 0; at < count; at += UPDATE_BLOCK) {
		int64_t n = count - at < UPDATE_BLOCK ? count - at : UPDATE_BLOCK;
		for (int s = 0; s < nstate; s++)
			gg_load_f64(state[s]->dtype, state[s]->data, at, n, v[s]);
		gg_load_f64(grad->dtype, grad->data, at, n, g);
		for (int64_t k = 0; k < n; k++) {
			double one[UPDATE_STATES];
			for (int s = 0; s < nstate; s++)
				one[s] = v[s][k];
			step(one, scalar, g[k]);
			for (int s = 0; s < nstate; s++)
				v[s][k] = one[s];
		}
		for (int s = 0; s < nstate; s++)
			if (out + s < e->nout && e->out[out + s].dtype)
				gg_store_f64(e->out[out + s].dtype, e->out[out + s].data, at, n, v[s]);
	}
}

/* ---- expansion: each helper gives NULL when one it was given is NULL ------------------------------ */
static inline gg_value *update_op(gg_diag *d, gg_node *n, const char *op, gg_value *a, gg_value *b)
{
	return a && b ? gg_expand_node(d, n, op, 2, (gg_value *[]){a, b}) : 0;
}

static inline gg_value *update_cast(gg_diag *d, gg_node *n, gg_value *v, gg_dtype to)
{
	if (!v || v->dtype == to)
		return v;
	const char *name = gg_fresh_name(n->graph, n->out[0] ? n->out[0]->name : "cast");
	gg_node *k = gg_add_node(n->graph, n, gg_op_find("Cast"), 1, &v, 1, &name);
	gg_set_attr_dtype(k, "to", to);
	gg_merge_loc(k, n);
	return gg_infer_node(d, k) ? k->out[0] : 0;
}

/* What the plain nodes compute in: half precision rounds once, at the end. */
static inline gg_dtype update_wide(gg_dtype t) { return t == GG_F64 ? GG_F64 : GG_F32; }

/* Input i of n as the dtype the expansion computes in. */
static inline gg_value *update_arg(gg_diag *d, gg_node *n, int i, gg_dtype t)
{
	return update_cast(d, n, gg_in(n, i), t);
}

/* A scalar of shape [1] or [1,1] gives the plain nodes more dims than the state has: they go again. */
static inline gg_value *update_squeeze(gg_diag *d, gg_node *n, gg_value *v, int rank)
{
	int64_t more = v ? v->shape.rank - rank : 0;
	if (more <= 0)
		return v;
	gg_tensor axes = {.dtype = GG_I64, .shape = gg_shape_of(1, &more)};
	axes.data = gg_alloc(&n->graph->m->arena, (size_t)more * sizeof(int64_t));
	for (int64_t i = 0; i < more; i++)
		gg_set_i64(&axes, i, i);
	return update_op(d, n, "Squeeze", v, gg_add_tensor(n->graph, "axes", &axes));
}

static inline bool update_result(gg_diag *d, gg_node *n, int out, gg_value *v)
{
	if (!gg_out(n, out))
		return v != 0;
	v = update_squeeze(d, n, v, n->out[out]->shape.rank);
	if ((v = update_cast(d, n, v, (gg_dtype)n->out[out]->dtype)))
		gg_replace_value(n->out[out], v);
	return v != 0;
}

#define UPDATE_OP(NAME, DOC) \
	.name = #NAME, .domain = "gg", .doc = DOC, .in = {{GG_FLOATS}}, .out = {{GG_FLOATS}}

#endif
