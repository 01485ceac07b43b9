#include "pass/kernel.h"

enum { SYMBOL = 64, MAX_SYMBOLS = 16 };

static bool is_float(const gg_value *v) { return v && gg_dtype_class(v->dtype) == 'F'; }

/* Shape inference must find in the body what it knows outside. */
static bool shape_inputs_inside(const gg_node *n)
{
	bool shaped = is_reduction(n) || is_view(n) || is_op(n, "Expand");
	for (int i = 1; shaped && i < gg_nargs(n); i++)
		if (gg_in(n, i) && !gg_gk_moves_inside(gg_in(n, i)))
			return false;
	return true;
}

bool gg_may_fuse(const gg_node *n)
{
	const gg_value *y = gg_out(n, 0);
	bool kind = is_pointwise(n) || is_reduction(n) || is_view(n) || is_op(n, "Expand") || gg_is_gk(n);
	if (!kind || gg_gk_bars(n) || !y || !y->uses || (n->nout > 1 && !gg_is_gk(n)) || y->content)
		return false;
	for (int i = 0; i < n->nin; i++)
		if (!n->in[i].value || n->in[i].value->shape.rank < 0)
			return false;
	return n->nin > 0 && y->shape.rank >= 0 && y->dtype != GG_STRING &&
	       (is_float(y) || is_float(gg_in(n, 0))) && shape_inputs_inside(n);
}

void gg_fusable(const gg_target *t, const gg_groups *w, bool *may)
{
	for (size_t i = 0; i < w->n; i++)
		may[i] = gg_may_fuse(w->node[i]);
	for (size_t i = 0; t && i < w->n;) { /* what a convolution or product does on the way stays with it */
		size_t count = (size_t)gg_target_cover(t, w->node[i]), k = i;
		bool taken = count > 1 && !is_pointwise(w->node[i]);
		for (; k < i + count && k < w->n; k++)
			may[k] &= !taken;
		i = k;
	}
}

bool gg_target_takes(const gg_target *t, const gg_node *kernel, const char **why)
{
	const gg_row *r = t && t->nrows ? gg_target_why(t, kernel, why) : 0;
	return !t || !t->nrows || (r && strcmp(r->kernel, "ref"));
}

bool gg_on_target(const gg_target *t, const gg_node *n)
{
	const gg_row *r = t && t->nrows ? gg_target_row(t, n) : 0;
	return !t || !t->nrows || (r && strcmp(r->kernel, "ref")) || is_view(n) || is_op(n, "Expand");
}

/* ---- costs: additions of one element ------------------------------------------------------------ */

static const struct weight {
	const char *op;
	double cost;
} weights[] = {{"Acos", 16},  {"Acosh", 16}, {"Asin", 16},     {"Asinh", 16},     {"Atan", 16},
               {"Atanh", 16}, {"Cos", 16},   {"Cosh", 16},     {"Div", 4},        {"Erf", 16},
               {"Exp", 16},   {"Gelu", 16},  {"Log", 16},      {"Mish", 16},      {"Mod", 4},
               {"Pow", 32},   {"Selu", 16},  {"Elu", 16},      {"Reciprocal", 4}, {"Sigmoid", 16},
               {"Sin", 16},   {"Sinh", 16},  {"Softplus", 16}, {"Sqrt", 4},       {"Swish", 16},
               {"Tan", 16},   {"Tanh", 16}};

double gg_weight(const gg_node *n)
{
	enum { N = sizeof weights / sizeof *weights };
	static const gg_op *ops[N];
	int i = gg_op_row(n->op, ops, weights, N, sizeof *weights);
	return i >= 0 ? weights[i].cost : is_view(n) ? 0 : 1;
}

typedef struct symbols {
	gg_binding b[MAX_SYMBOLS];
	size_t n;
} symbols;

static void note_symbol(const char *sym, void *arg)
{
	symbols *s = arg;
	if (s->n < MAX_SYMBOLS)
		s->b[s->n++] = (gg_binding){sym, SYMBOL};
}

double gg_elements(gg_dim d)
{
	symbols s = {0};
	if (!gg_dim_known(d)) {
		gg_dim_symbols(d, note_symbol, &s);
		d = gg_dim_bind(d, s.b, s.n);
	}
	return gg_dim_known(d) ? (double)d : (double)SYMBOL;
}
