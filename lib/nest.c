#include "nest.h"
#include "opkit.h"
#include <string.h>

size_t gg_body_number(const gg_graph *b)
{
	size_t n = 0;
	for (size_t i = 0; i < b->nin; i++)
		b->in[i]->mark = n++;
	for (gg_value *v = b->consts; v; v = v->next_const)
		v->mark = n++;
	for (gg_node *k = b->first; k; k = k->next)
		for (int i = 0; i < k->nout; i++)
			if (k->out[i])
				k->out[i]->mark = n++;
	return n;
}

static bool is_view(const gg_node *n) { return n->op->flags & GG_VIEW; }
static bool is_fold(const gg_node *n) { return !strncmp(n->op->name, "Reduce", 6); }
static bool is_expand(const gg_node *n) { return !strcmp(n->op->name, "Expand"); }

bool gg_is_given(const gg_value *v)
{
	while (v->producer && is_view(v->producer))
		v = gg_in(v->producer, 0);
	return !v->producer;
}

static bool no(const char **why, const char *what)
{
	*why = what;
	return false;
}

/* ---- shapes ------------------------------------------------------------------------------------- */

static gg_shape without_units(const gg_shape *s, int from)
{
	gg_shape out = {0};
	for (int i = from; i < s->rank; i++)
		if (s->dim[i] != 1)
			out.dim[out.rank++] = s->dim[i];
	return out;
}

/* As many elements: then a view can make one of the other. */
static bool same_count(const gg_shape *a, const gg_shape *b)
{
	return gg_shape_count_dim(a, 0, a->rank) == gg_shape_count_dim(b, 0, b->rank);
}

/* Dim i of s, seen as a shape of that rank. */
static gg_dim padded(const gg_shape *s, int rank, int i)
{
	return i < rank - s->rank ? 1 : s->dim[i - (rank - s->rank)];
}

static bool fits_in(const gg_shape *s, const gg_shape *out)
{
	for (int i = 0; i < out->rank; i++)
		if (padded(s, out->rank, i) != 1 && padded(s, out->rank, i) != out->dim[i])
			return false;
	return s->rank >= 0 && s->rank <= out->rank;
}

int gg_row_axes(const gg_node *n)
{
	const gg_shape *s = &gg_in(n, 0)->shape;
	gg_diag silent = {.silent = true};
	gg_tensor axes = {0};
	gg_value *v = gg_in(n, 1);
	uint32_t bits = 0;
	if (s->rank <= 0 || (v && (v->producer || !v->data || !gg_value_tensor(&silent, v, &axes))))
		return -1;
	for (int64_t i = 0; v && i < gg_count(&axes); i++)
		bits |= 1u << gg_eval_axis(gg_get_i64(&axes, i), s->rank);
	if (!bits && gg_get_int(n, "noop_with_empty_axes"))
		return -1;
	bits = bits ? bits : (1u << s->rank) - 1;
	int first = 0;
	while (first < s->rank && (s->dim[first] == 1 || !(bits >> first & 1)))
		first++;
	for (int i = first; i < s->rank; i++)
		if (s->dim[i] != 1 && !(bits >> i & 1))
			return -1;
	return first < s->rank ? s->rank - first : -1;
}

/* ---- nests -------------------------------------------------------------------------------------- */

typedef struct work {
	const gg_graph *b;
	gg_nests *out;
	uint32_t *up; /* by mark of a node's output 0: the node it hangs on */
	const char **why;
} work;

static uint32_t root(work *w, uint32_t i)
{
	while (w->up[i] != i)
		i = w->up[i] = w->up[w->up[i]];
	return i;
}

static bool computes(const gg_node *n) { return !(is_view(n) && gg_is_given(gg_in(n, 0))); }

static void unite(work *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->up[i] = (uint32_t)i;
	for (const gg_node *k = w->b->first; k; k = k->next)
		for (int i = 0; computes(k) && i < k->nin; i++)
			if (k->in[i].value && !gg_is_given(k->in[i].value))
				w->up[root(w, (uint32_t)k->in[i].value->mark)] = root(
				    w, (uint32_t)k->out[0]->mark);
}

static gg_nest *nest_of(const work *w, const gg_node *n)
{
	return &w->out->nest[w->out->part[n->out[0]->mark]];
}

/* What a nest walks: what its first reduction folds, else its first output. */
static bool find_walks(work *w, gg_arena *a, size_t n)
{
	uint32_t *number = gg_alloc_n(a, n + 1, sizeof *number);
	w->out->nest = gg_alloc_n(a, w->b->nnodes + 1, sizeof *w->out->nest);
	for (const gg_node *k = w->b->first; k; k = k->next) {
		uint32_t r = root(w, (uint32_t)k->out[0]->mark);
		if (!computes(k))
			continue;
		if (!number[r])
			number[r] = (uint32_t)++w->out->n;
		w->out->part[k->out[0]->mark] = number[r] - 1;
		gg_nest *nest = nest_of(w, k);
		if (!is_fold(k) || nest->full)
			continue;
		nest->full = gg_in(k, 0);
		nest->row = gg_row_axes(k);
		if (nest->row < 0)
			return no(w->why, "a reduction of other axes than the last ones");
	}
	for (size_t i = 0; i < w->b->nout; i++) {
		const gg_value *v = w->b->out[i]->value;
		if (gg_is_given(v))
			return no(w->why, "an output that the body does not compute");
		if (!nest_of(w, v->producer)->full)
			nest_of(w, v->producer)->full = v;
	}
	for (size_t i = 0; i < w->out->n; i++)
		if (!w->out->nest[i].full)
			return no(w->why, "a value that nobody reads");
	return true;
}

/* ---- roles -------------------------------------------------------------------------------------- */

static gg_role role_of(const work *w, const gg_value *v)
{
	return gg_is_given(v) ? GG_SMALL_VALUE : w->out->role[v->mark];
}

static bool rows_agree(const gg_nest *nest, const gg_shape *s, int row)
{
	gg_shape a = without_units(&nest->full->shape, nest->full->shape.rank - nest->row),
	         b = without_units(s, s->rank - row);
	return gg_shape_eq(&a, &b);
}

/* A narrow value of shape s is repeated along the rows of a wide one, and nowhere else. */
static bool repeats(const gg_nest *nest, const gg_shape *s, const gg_shape *wide)
{
	int rows = 0;
	while (rows < wide->rank && !rows_agree(nest, wide, wide->rank - rows))
		rows++;
	for (int i = 0; i < wide->rank; i++)
		if (padded(s, wide->rank, i) != (i < rows ? wide->dim[i] : 1))
			return false;
	return s->rank <= wide->rank && rows < wide->rank;
}

static bool fold(work *w, const gg_node *n)
{
	const gg_nest *nest = nest_of(w, n);
	const gg_value *x = gg_in(n, 0);
	gg_role r = role_of(w, x);
	int row = gg_row_axes(n);
	if (r == GG_NARROW_VALUE)
		return no(w->why, "a reduction of what a reduction made");
	if (row < 0 || !rows_agree(nest, &x->shape, row))
		return no(w->why, "reductions of different axes");
	if (r == GG_SMALL_VALUE && !same_count(&x->shape, &nest->full->shape))
		return no(w->why, "reductions of different shapes");
	w->out->role[n->out[0]->mark] = GG_NARROW_VALUE;
	return true;
}

/* The role of what is made element by element from values of these roles. */
static bool pointwise(work *w, const gg_node *n)
{
	const gg_nest *nest = nest_of(w, n);
	const gg_shape *s = &n->out[0]->shape;
	const gg_value *in[3] = {0}; /* the last one of each role */
	gg_role to = GG_SMALL_VALUE;
	int args = is_expand(n) ? 1 : gg_nargs(n);
	for (int i = 0; i < args; i++)
		if (gg_in(n, i)) {
			if (!fits_in(&gg_in(n, i)->shape, s))
				return no(w->why, "shape of a value in the body");
			in[role_of(w, gg_in(n, i))] = gg_in(n, i);
		}
	const gg_value *wide = in[GG_WIDE_VALUE], *narrow = in[GG_NARROW_VALUE];
	if (wide && !gg_shape_eq(&wide->shape, s))
		return no(w->why, "a value that is repeated");
	if (!wide && narrow && gg_shape_eq(&narrow->shape, s))
		to = GG_NARROW_VALUE;
	else if (wide || same_count(s, &nest->full->shape))
		to = GG_WIDE_VALUE;
	else if (narrow)
		return no(w->why, "a reduction that is repeated in another way than along its row");
	for (int i = 0; i < args; i++) {
		const gg_value *v = gg_in(n, i);
		if (!v || role_of(w, v) != GG_NARROW_VALUE)
			continue;
		if (to == GG_WIDE_VALUE ? !repeats(nest, &v->shape, s) : !gg_shape_eq(&v->shape, s))
			return no(w->why, "a reduction that is repeated in another way than along its row");
	}
	w->out->role[n->out[0]->mark] = (uint8_t)to;
	return true;
}

static bool give_role(work *w, const gg_node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && n->in[i].value->shape.rank < 0)
			return no(w->why, "rank of a value in the body");
	if (n->nout != 1 || !n->out[0] || n->out[0]->shape.rank < 0)
		return no(w->why, "a node with several outputs, or of a rank that is not known");
	if (is_view(n)) {
		gg_role r = role_of(w, gg_in(n, 0));
		w->out->role[n->out[0]->mark] = (uint8_t)r;
		return r != GG_SMALL_VALUE || !computes(n) || no(w->why, "a view of a small value");
	}
	if (is_fold(n))
		return fold(w, n);
	return n->op->flags & GG_POINTWISE || is_expand(n) ? pointwise(w, n) : no(w->why, n->op->name);
}

bool gg_nests_of(const gg_graph *b, gg_arena *a, gg_nests *out, const char **why)
{
	size_t n = gg_body_number(b);
	work w = {b, out, gg_alloc_n(a, n + 1, sizeof *w.up), why};
	*out = (gg_nests){0};
	out->role = gg_alloc_n(a, n + 1, sizeof *out->role);
	out->part = gg_alloc_n(a, n + 1, sizeof *out->part);
	for (const gg_node *k = b->first; k; k = k->next)
		if (k->nout != 1 || !k->out[0] || !gg_in(k, 0))
			return no(why, "a node with several outputs, or without an input");
	unite(&w, n);
	if (!find_walks(&w, a, n))
		return false;
	for (const gg_node *k = b->first; k; k = k->next)
		if (!give_role(&w, k))
			return false;
	for (size_t i = 0; i < b->nout; i++)
		if (role_of(&w, b->out[i]->value) == GG_SMALL_VALUE)
			return no(why, "outputs of several shapes");
	return true;
}
