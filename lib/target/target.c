/* The targets and their kernel rows. */
#include "../target.h"
#include "../nest.h"
#include <string.h>

#define F32 GG_DT(GG_F32)
#define P (1u << GG_PLAIN)
#define PN (1u << GG_PLAIN | 1u << GG_NHWC)
#define MIX (PN | GG_MIXED)
#define MOVES (MIX | GG_MOVES)
#define BEST (MIX | GG_BEST_NHWC)
#define BEST_WEIGHT (BEST | GG_PLAIN_OUT)

/* ---- conditions of the cpu rows: what the kernels leave to ref ------------------------------ */

static bool no(const char **why, const char *what)
{
	*why = what;
	return false;
}

static bool ok_spatial(const gg_node *n, const char **why)
{
	int rank = n->in[0].value->shape.rank;
	return rank >= 3 || no(why, rank < 0 ? "input 0: rank not known" : "input 0: no spatial axes");
}

static bool ok_conv(const gg_node *n, const char **why)
{
	if (!ok_spatial(n, why))
		return false;
	return n->in[0].value->shape.rank <= 5 || no(why, "input 0: more than three spatial axes");
}

static bool ok_pool(const gg_node *n, const char **why)
{
	if (!ok_spatial(n, why))
		return false;
	if (n->in[0].value->shape.rank > 5)
		return no(why, "input 0: more than three spatial axes");
	if (gg_out(n, 1))
		return no(why, "output 1: indices");
	const gg_attr *dil = gg_op_attr(n->op, "dilations") ? gg_find_attr(n, "dilations") : 0;
	for (int i = 0; dil && i < dil->n; i++)
		if (dil->ints[i] != 1 && !strcmp(n->op->name, "AveragePool"))
			return no(why, "dilations");
	return true;
}

static bool ok_batchnorm(const gg_node *n, const char **why)
{
	for (int i = 1; i < gg_nargs(n); i++)
		if (n->in[i].value->dtype != GG_F32)
			return no(why, "dtype of scale, bias or statistics");
	return n->in[0].value->shape.rank >= 2 || no(why, "input 0: rank");
}

static bool ok_floats(const gg_node *n, const char **why)
{
	return n->in[1].value->dtype == GG_F32 || no(why, "dtype of input 1");
}

static bool ok_all_f32(const gg_node *n, const char **why)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && n->in[i].value->dtype != GG_F32)
			return no(why, "an input that is not f32");
	return true;
}

static bool ok_layernorm(const gg_node *n, const char **why)
{
	return !(gg_out(n, 1) || gg_out(n, 2)) || no(why, "output 1");
}

static bool ok_reduce(const gg_node *n, const char **why)
{
	const gg_value *axes = gg_in(n, 1);
	return !axes || gg_is_const(axes) || no(why, "input 1: axes are not constant");
}

static bool ok_rank1(const gg_node *n, const char **why)
{
	return n->in[0].value->shape.rank >= 1 || no(why, "input 0: rank");
}

static bool ok_fixed(const gg_node *n, const char **why)
{
	for (int i = 1; i < gg_nargs(n); i++)
		if (gg_in(n, i) && !gg_is_const(gg_in(n, i)))
			return no(why, "bounds are not constant");
	return true;
}

bool gg_has_all_outputs(const gg_node *n, const char **why)
{
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i])
			return no(why, "an output that nobody reads");
	return true;
}

static bool ok_resize(const gg_node *n, const char **why)
{
	if (!ok_conv(n, why))
		return false;
	if (!strcmp(gg_get_string(n, "mode"), "cubic"))
		return no(why, "mode");
	if (gg_get_int(n, "antialias"))
		return no(why, "antialias");
	if (!strcmp(gg_get_string(n, "coordinate_transformation_mode"), "tf_crop_and_resize"))
		return no(why, "coordinate_transformation_mode");
	for (int i = 1; i < 4; i++) /* the shape behind them is known when it runs */
		if (gg_in(n, i) && !gg_is_const(gg_in(n, i)))
			return no(why, "scales or sizes are not constant");
	return true;
}

static bool ok_rnn(const gg_node *n, const char **why)
{
	static const char *const plain[] = {"activations", "activation_alpha", "activation_beta", "clip"};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (gg_find_attr(n, plain[i]))
			return no(why, plain[i]);
	if (gg_get_int(n, "layout"))
		return no(why, "layout");
	if (gg_op_attr(n->op, "input_forget") && gg_get_int(n, "input_forget"))
		return no(why, "input_forget");
	if (gg_in(n, 4))
		return no(why, "input 4: sequence lengths");
	return !gg_in(n, 7) || no(why, "input 7: peepholes");
}

/* ---- bodies: nests of loops whose nodes have loops or row functions --------------------------- */

enum { MAX_BODY = 256, MAX_ROW = 16384 }; /* nodes; elements of a row, which a thread keeps in cache */

static bool ok_body_node(const gg_node *n, const char **why)
{
	if (!(gg_in(n, 0) && gg_in(n, 0)->dtype == GG_F32) || !gg_out(n, 0) || n->out[0]->dtype != GG_F32)
		return no(why, "a value that is not f32");
	if (n->op->flags & GG_VIEW || !strcmp(n->op->name, "Expand"))
		return true;
	const gg_row *r = gg_target_row(gg_target_find("cpu"), n);
	if (r && !strcmp(r->kernel, "cpu_reduce"))
		return true;
	if (!r || strcmp(r->kernel, "cpu_pointwise"))
		return no(why, n->op->name);
	return ok_all_f32(n, why);
}

static bool ok_nests(const gg_node *n, gg_arena *a, gg_nests *out, const char **why)
{
	const gg_graph *b = gg_body(n, 0);
	if (b->nnodes > MAX_BODY)
		return no(why, "size of the body");
	if (!gg_nests_of(b, a, out, why))
		return false;
	for (const gg_node *k = b->first; k; k = k->next)
		if (!ok_body_node(k, why))
			return false;
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i])
			return no(why, "an output that is not wanted");
	for (size_t i = 0; i < out->n; i++) {
		const gg_shape *s = &out->nest[i].full->shape;
		gg_dim row = gg_shape_count_dim(s, s->rank - out->nest[i].row, s->rank);
		if (out->nest[i].row && gg_dim_known(row) && (row > MAX_ROW || !row))
			return no(why, row ? "a long row of a reduction" : "a reduction of nothing");
	}
	return true;
}

static bool ok_body(const gg_node *n, const char **why)
{
	gg_arena a = {0};
	gg_nests nests;
	bool ok = ok_nests(n, &a, &nests, why);
	gg_arena_fini(&a);
	return ok;
}

/* No rows, no views, and all but small values of one shape: they may as well lie channels-last. */
static bool ok_flat_body(const gg_node *n, const char **why)
{
	gg_arena a = {0};
	gg_nests nests;
	const gg_graph *b = gg_body(n, 0);
	bool ok = ok_nests(n, &a, &nests, why);
	for (const gg_node *k = b->first; k && ok; k = k->next)
		if (k->op->flags & GG_VIEW || (nests.role[k->out[0]->mark] != GG_SMALL_VALUE &&
		                               !gg_shape_eq(&k->out[0]->shape, &n->out[0]->shape)))
			ok = no(why, "values of several shapes");
	for (int i = 1; i < n->nout && ok; i++)
		ok = n->out[i]->layout == n->out[0]->layout || no(why, "outputs of several layouts");
	gg_arena_fini(&a);
	return ok;
}

#define ROW(kernel, op, types, slot, layouts, need, ok) {#kernel, #op, types, slot, layouts, need, ok},
static const gg_row cpu_rows[] = {
#include "cpu.inc"
};
#undef ROW

/* ---- the targets ---------------------------------------------------------------------------- */

static const gg_row ref_row = {"ref", "", GG_ANY, 0, P, "", 0};

static const gg_target ref = {"ref", 0, 0, 0, true};
static const gg_target cpu = {"cpu", "cpu", cpu_rows, sizeof cpu_rows / sizeof *cpu_rows,
                              true,  false, 1 << 10};
static const gg_target *const targets[] = {&ref, &cpu, &gg_target_cuda};

const gg_target *const *gg_target_list(int *n)
{
	*n = sizeof targets / sizeof *targets;
	return targets;
}

const gg_target *gg_target_find(const char *name)
{
	size_t len = strcspn(name, ":");
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		if (strlen(targets[i]->name) == len && !strncmp(name, targets[i]->name, len))
			return targets[i];
	return 0;
}

typedef struct span {
	int from, to;
} span;

/* Rows of one op stand together. By op, so that a graph of a million nodes is looked up in linear time. */
static gg_map spans_of(const gg_target *t)
{
	gg_map map = {0};
	for (int from = 0, to; from < t->nrows; from = to) {
		uint64_t op = (uint64_t)(uintptr_t)gg_op_find(t->rows[from].op);
		span *s = gg_xmalloc(sizeof *s);
		for (to = from; to < t->nrows && !strcmp(t->rows[to].op, t->rows[from].op);)
			to++;
		*s = (span){from, to};
		gg_map_put(&map, op, s);
	}
	return map;
}

static span rows_of(const gg_target *t, const gg_op *op)
{
	static gg_map spans[sizeof targets / sizeof *targets];
	size_t at = 0;
	while (targets[at] != t)
		at++;
	if (!spans[at].n)
		spans[at] = spans_of(t);
	const span *s = gg_map_get(&spans[at], (uint64_t)(uintptr_t)op);
	return s ? *s : (span){0, 0};
}

bool gg_row_takes(const gg_row *r, const gg_node *n, const char **why)
{
	static const char *const slot[] = {"dtype of input 0", "dtype of input 1", "dtype of input 2",
	                                   "dtype of input 3", "dtype of input 4", "dtype of input 5",
	                                   "dtype of input 6"};
	const gg_value *in = r->slot < 0 ? 0 : gg_in(n, r->slot), *out = gg_out(n, 0);
	if (!in && r->slot >= 0)
		return no(why, "no inputs");
	if (in && !(r->dtypes & GG_DT(in->dtype)))
		return no(why, slot[r->slot]);
	if (out && !(r->dtypes & GG_DT(out->dtype)))
		return no(why, "dtype of output 0");
	return !r->ok || r->ok(n, why);
}

static bool takes_dtype(const gg_row *r, const gg_node *n)
{
	const gg_value *v = r->slot < 0 ? gg_out(n, 0) : gg_in(n, r->slot);
	return v && r->dtypes & GG_DT(v->dtype);
}

const gg_row *gg_target_why(const gg_target *t, const gg_node *n, const char **why)
{
	span s = rows_of(t, n->op);
	const char *now = "op";
	*why = now;
	for (int i = s.from; i < s.to; i++)
		if (gg_row_takes(&t->rows[i], n, &now))
			return &t->rows[i];
		else if (i == s.from || takes_dtype(&t->rows[i], n))
			*why = now; /* not of a row for another dtype */
	return t->ref_fallback && n->op->eval ? &ref_row : 0;
}

const gg_row *gg_target_row(const gg_target *t, const gg_node *n)
{
	const char *why;
	return gg_target_why(t, n, &why);
}

const gg_row *gg_target_chosen(const gg_target *t, const gg_node *n)
{
	if (!n->kernel || !t->nrows || !strcmp(n->kernel, "ref"))
		return 0;
	span s = rows_of(t, n->op);
	for (int i = s.from; i < s.to; i++)
		if (!strcmp(t->rows[i].kernel, n->kernel) && takes_dtype(&t->rows[i], n))
			return &t->rows[i];
	return 0;
}

/* ---- runs of nodes that are one call -------------------------------------------------------- */

enum { MAX_COVER = 16 };

static bool runs_pointwise(const gg_target *t, const gg_node *n)
{
	const gg_row *r = n ? gg_target_chosen(t, n) : 0;
	return r && !(r->layouts & GG_ALONE) && n->ncap == 0 && n->nafter == 0 && n->nout == 1 &&
	       (n->op->flags & GG_POINTWISE || r->layouts & GG_JOINS);
}

/* All readers of v lie in the run that `mark` names. */
static bool read_inside(const gg_value *v, gg_node *const *run, int len)
{
	if (gg_is_output(v))
		return false;
	for (const gg_use *u = v->uses; u; u = u->next) {
		int i = 0;
		while (i < len && run[i] != u->node)
			i++;
		if (i == len)
			return false;
	}
	return true;
}

static bool reads_run(const gg_node *n, gg_node *const *run, int len)
{
	for (int i = 0; i < n->nin; i++)
		for (int k = 0; n->in[i].value && k < len; k++)
			if (n->in[i].value->producer == run[k])
				return true;
	return false;
}

/* By k, behind a run whose last node is `last`. */
static bool is_ended(const gg_target *t, const gg_node *n, const gg_node *last, const gg_node *k, int len)
{
	return t->ends && k && k->stream == n->stream && k->nin > 0 && k->in[0].value == last->out[0] &&
	       gg_one_use(last->out[0]) && gg_target_chosen(t, k) && t->ends(n, len);
}

int gg_target_cover(const gg_target *t, const gg_node *n)
{
	gg_node *run[MAX_COVER] = {(gg_node *)n};
	const gg_row *head = gg_target_chosen(t, n);
	bool product = head && head->layouts & GG_HEADS;
	if (!head || n->nout != 1 || n->ncap || (!product && !runs_pointwise(t, n)))
		return 1;
	const gg_value *v = n->out[0];
	gg_node *k = n->next;
	int len = 1, best = 1;
	for (; len < MAX_COVER && runs_pointwise(t, k) && k->stream == n->stream; k = k->next) {
		if (!reads_run(k, run, len) || v->shape.rank < 0 ||
		    !gg_shape_eq(&k->out[0]->shape, &v->shape) || k->out[0]->layout != v->layout)
			break;
		run[len++] = k;
		int i = 0;
		while (i < len - 1 && read_inside(run[i]->out[0], run, len))
			i++;
		if (i == len - 1)
			best = len;
	}
	return product && best == len && is_ended(t, n, run[len - 1], k, len) ? len + 1 : best;
}

static gg_value *residual_of(const gg_node *n, int len)
{
	if (!strcmp(n->op->name, "FusedConv"))
		return gg_in(n, 3);
	return len > 1 && !strcmp(n->next->op->name, "Add") ? gg_in(n->next, gg_in(n->next, 0) == n->out[0])
	                                                    : 0;
}

gg_value *gg_target_overwrites(const gg_target *t, const gg_node *n, int len)
{
	const gg_row *row = gg_target_chosen(t, n);
	/* Into a plain result it adds afterwards, when the residual would be gone. */
	if (!row || !(row->layouts & GG_ADDS) || n->out[0]->layout != GG_NHWC)
		return 0;
	gg_value *r = residual_of(n, len);
	int reads = 0;
	for (const gg_node *k = n; r && len > 0; len--, k = k->next)
		for (int i = 0; i < k->nin; i++)
			reads += k->in[i].value == r;
	return reads == 1 ? r : 0;
}
