#include "fold.h"
#include <stdlib.h>
#include <string.h>

static bool is_float(const gg_value *v) { return gg_dtype_class((gg_dtype)v->dtype) == 'F'; }

static bool has_float_output(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && is_float(n->out[i]))
			return true;
	return false;
}

static bool constant_inputs(const gg_node *n)
{
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		bool param = v && v->kind == GG_PARAM && !has_float_output(n) && !v->updated;
		if (v && v->kind != GG_CONST && !param)
			return false;
	}
	return true;
}

static bool may_fold(const gg_node *n)
{
	if ((n->op->flags & (GG_RANDOM | GG_EFFECT | GG_NOFOLD)) || gg_body(n, 0) || n->nafter || n->nfollow)
		return false;
	for (int i = 0; i < n->nout; i++) {
		const gg_value *v = n->out[i];
		if (v &&
		    (v->dtype == GG_STRING || v->dtype == GG_NONE || (gg_is_output(v) && !v->graph->owner)))
			return false;
		for (size_t k = 0; v && gg_is_output(v) && k < v->graph->nstate; k++)
			if (v->graph->state[k]->final.value == v)
				return false;
	}
	return true;
}

/* Inline bytes that go with the node. */
static int64_t dropped_bytes(const gg_node *n)
{
	int64_t sum = 0;
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		if (v && v->nuses == 1 && v->data && v->data->kind == GG_DATA_INLINE)
			sum += v->data->len;
	}
	return sum;
}

/* Bytes of all outputs; -1 when a size is not known. */
static int64_t result_bytes(const gg_node *n)
{
	int64_t sum = 0, bytes;
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		if (!gg_shape_known(&n->out[i]->shape) ||
		    !gg_size_of((gg_dtype)n->out[i]->dtype, &n->out[i]->shape, &bytes))
			return -1;
		sum += bytes;
	}
	return sum;
}

/* The value's readers read a constant of its name from now on. */
static void become(gg_value *v, const gg_tensor *t)
{
	gg_graph *g = v->graph;
	gg_value *c = gg_add_tensor(g, v->name, t);
	const char *name = v->name;
	c->content = v->content;
	gg_replace_uses(v, c);
	gg_rename(v, gg_fresh_name(g, name));
	gg_rename(c, name);
}

static bool unused(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->uses)
			return false;
	return true;
}

/* Removes a node without readers, and those before it that only it read. */
static void remove_dead(gg_node *n)
{
	gg_node **todo = NULL;
	size_t ntodo = 0, cap = 0;
	GG_PUSH(todo, ntodo, cap, n);
	while (ntodo) {
		gg_node *x = todo[--ntodo];
		int nin = x->nin;
		gg_value **in = gg_xcalloc((size_t)nin + 1, sizeof *in);
		for (int i = 0; i < nin; i++)
			in[i] = x->in[i].value;
		gg_remove_node(x);
		for (int i = 0; i < nin; i++) {
			gg_node *p = in[i] ? in[i]->producer : NULL;
			bool again = false;
			for (int k = 0; k < i; k++)
				again |= in[k] && in[k]->producer == p;
			if (p && !again && unused(p) && !(gg_node_flags(p) & GG_EFFECT) && !p->nfollow)
				GG_PUSH(todo, ntodo, cap, p);
		}
		free(in);
	}
	free(todo);
}

/* ---- what inference knows ------------------------------------------------------------------------ */
static bool known_content(const gg_value *v)
{
	int64_t n = gg_shape_known(&v->shape) ? gg_shape_count(&v->shape) : -1;
	if (!v->content || n < 0)
		return false;
	for (int64_t i = 0; i < n; i++)
		if (!gg_dim_number(v->content[i]))
			return false;
	return true;
}

static bool fold_known(gg_node *n, int64_t limit)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->uses && !known_content(n->out[i]))
			return false;
	if (unused(n) || result_bytes(n) > limit)
		return false;
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i];
		if (!v || !v->uses)
			continue;
		gg_tensor t = {.dtype = (gg_dtype)v->dtype, .shape = v->shape};
		t.data = gg_xaligned(gg_nbytes(&t) + 1);
		for (int64_t k = 0; k < gg_count(&t); k++)
			gg_set_i64(&t, k, v->content[k]);
		become(v, &t);
		free(t.data);
	}
	return true;
}

/* ---- what running it gives ------------------------------------------------------------------------ */
static bool fits(const gg_node *n, const gg_tensor *out, int64_t limit)
{
	int64_t sum = 0;
	for (int i = 0; i < n->nout; i++)
		sum += n->out[i] ? (int64_t)gg_nbytes(&out[i]) : 0;
	return sum <= limit;
}

static bool run(gg_diag *d, gg_node *n, int64_t limit)
{
	gg_tensor *in = gg_xcalloc((size_t)n->nin + 1, sizeof *in),
	          *out = gg_xcalloc((size_t)n->nout + 1, sizeof *out);
	gg_diag silent = {.tool = d->tool, .silent = true};
	bool good = true, ran = false;
	for (int i = 0; i < n->nin && good; i++)
		if (n->in[i].value)
			good = gg_value_tensor(d, n->in[i].value, &in[i]);
	if (good)
		ran = gg_eval_node(&silent, n, n->nin, in, n->nout, out);
	bool use = ran && fits(n, out, limit);
	for (int i = 0; i < n->nout; i++) {
		if (use && n->out[i] && n->out[i]->uses)
			become(n->out[i], &out[i]);
		free(ran ? out[i].data : NULL);
	}
	free(in);
	free(out);
	return use;
}

static bool fold_run(gg_diag *d, gg_node *n, int64_t limit)
{
	int64_t result = result_bytes(n), dropped = dropped_bytes(n);
	int64_t allowed = limit > dropped ? limit : dropped;
	if (!n->op->eval || !constant_inputs(n) || unused(n) || result > allowed)
		return false;
	/* A size that only running tells: worth trying where little goes in. */
	for (int i = 0; result < 0 && i < n->nin; i++)
		if (n->in[i].value && gg_shape_count(&n->in[i].value->shape) > limit)
			return false;
	return run(d, n, allowed);
}

bool gg_fold_constants(gg_diag *d, gg_graph *g, int64_t limit, size_t most, size_t *folded)
{
	*folded = 0;
	for (gg_node *n = g->first, *next; n && *folded < most; n = next) {
		next = n->next;
		if (!may_fold(n) || !(fold_known(n, limit) || fold_run(d, n, limit))) {
			if (d->errors)
				return false;
			continue;
		}
		++*folded;
		remove_dead(n);
	}
	/* A parameter that only state refers to has no reader. */
	if (*folded && !g->nstate)
		gg_sweep_consts(g, SIZE_MAX);
	return true;
}
