#include "match.h"
#include <math.h>

enum reader { OTHER, CONV, AVERAGE, MAX };

static enum reader reader_of(const gg_node *n)
{
	const char *op = n->op->name;
	if (!strcmp(op, "Conv") || !strcmp(op, "FusedConv"))
		return CONV;
	return !strcmp(op, "AveragePool") ? AVERAGE : !strcmp(op, "MaxPool") ? MAX : OTHER;
}

static bool number(const gg_value *v, double *out)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	*out = 0;
	if (!v)
		return true;
	if (!gg_is_const(v) || !gg_value_tensor(&silent, (gg_value *)v, &t) || gg_count(&t) != 1)
		return false;
	*out = gg_get_f64(&t, 0);
	return true;
}

static bool numbers(const gg_value *v, int64_t *out, int max, int *n)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!gg_is_const(v) || !gg_value_tensor(&silent, (gg_value *)v, &t) || gg_count(&t) > max)
		return false;
	*n = (int)gg_count(&t);
	for (int i = 0; i < *n; i++)
		out[i] = gg_get_i64(&t, i);
	return true;
}

/* pads[i] before and pads[rank + i] after axis i. */
static bool pads_of(const gg_node *pad, int rank, int64_t *pads)
{
	int64_t given[2 * GG_MAX_RANK], axes[GG_MAX_RANK];
	int n, count = rank;
	if (rank < 3 || !numbers(gg_in(pad, 1), given, 2 * GG_MAX_RANK, &n))
		return false;
	for (int i = 0; i < rank; i++)
		axes[i] = i;
	if (gg_in(pad, 3) && !numbers(gg_in(pad, 3), axes, GG_MAX_RANK, &count))
		return false;
	memset(pads, 0, 2 * (size_t)rank * sizeof *pads);
	for (int i = 0; i < count && n == 2 * count; i++) {
		int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
		pads[a] = given[i];
		pads[rank + a] = given[count + i];
	}
	return n == 2 * count;
}

static bool pads_itself(const gg_node *n)
{
	const gg_attr *own = gg_get_list(n, "pads");
	for (int i = 0; own && i < own->n; i++)
		if (own->ints[i])
			return true;
	return false;
}

static const char *why_not(const gg_node *n, const gg_node *pad, int rank, const int64_t *pads)
{
	double value;
	enum reader r = reader_of(n);
	const char *auto_pad = gg_get_string(n, "auto_pad");
	if (strcmp(gg_get_string(pad, "mode"), "constant") || !number(gg_in(pad, 2), &value))
		return "the padding is not one constant number";
	if (r == MAX ? !(value < 0 && isinf(value)) : value != 0)
		return r == MAX ? "a maximum pads with -inf, the Pad does not" : "the padding is not 0";
	if (!gg_one_use(pad->out[0]))
		return gg_is_output(pad->out[0]) ? "the padded value is an output"
		                                 : "the padded value has a second reader";
	if (pad->nafter || pad->nfollow)
		return "control edges order the Pad";
	for (int i = 0; i < 2 * rank; i++)
		if (pads[i] < 0 || (pads[i] && i % rank < 2))
			return pads[i] < 0 ? "the Pad cuts" : "the Pad adds to the batch or the channels";
	if (strcmp(auto_pad, "NOTSET") && strcmp(auto_pad, "VALID"))
		return "auto_pad would see another size";
	if (r != CONV && gg_get_int(n, "ceil_mode"))
		return "ceil_mode treats windows that begin in padding in another way";
	if (r == MAX && n->nout > 1 && n->out[1])
		return "the indices count the padding";
	if (r == AVERAGE && pads_itself(n) && !gg_get_int(n, "count_include_pad"))
		return "the pool leaves its own padding out of the mean, but not the Pad's";
	return 0;
}

static void take_pads(gg_node *n, gg_node *pad, int rank, const int64_t *pads)
{
	int64_t sum[2 * GG_MAX_RANK];
	int nd = rank - 2;
	bool valid = !strcmp(gg_get_string(n, "auto_pad"), "VALID");
	const gg_attr *own = valid ? 0 : gg_get_list(n, "pads");
	for (int i = 0; i < nd; i++) {
		sum[i] = pads[2 + i] + (own ? own->ints[i] : 0);
		sum[nd + i] = pads[rank + 2 + i] + (own ? own->ints[nd + i] : 0);
	}
	gg_set_attr_string(n, "auto_pad", "NOTSET");
	gg_set_attr_ints(n, "pads", 2 * nd, sum);
	if (reader_of(n) == AVERAGE)
		gg_set_attr_int(n, "count_include_pad", 1);
	gg_set_input(n, 0, gg_in(pad, 0));
	gg_merge_loc(n, pad);
	gg_remove_node(pad);
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	int64_t pads[2 * GG_MAX_RANK];
	for (gg_node *n = g->first; n; n = n->next) {
		gg_node *pad = reader_of(n) ? made_by(gg_in(n, 0), "Pad") : 0;
		int rank = pad ? gg_in(pad, 0)->shape.rank : 0;
		if (!pad)
			continue;
		const char *why = pads_of(pad, rank, pads) ? why_not(n, pad, rank, pads)
		                                           : "the pads are not constant";
		if (why)
			gg_refused(p, n, why);
		else if (gg_apply(p, n))
			take_pads(n, pad, rank, pads);
	}
	return true;
}

const gg_pass gg_pass_pad_conv = {
    .name = "pad_conv",
    .help = "a Pad with zeros before a Conv or AveragePool, or with -inf before a MaxPool, becomes its pads",
    .explain =
        "Conv(Pad(x, p), w) {pads=q} => Conv(x, w) {pads=p+q}\n"
        "AveragePool(Pad(x, p)) => AveragePool(x) {pads=p, count_include_pad=1}: what the Pad adds counts "
        "in\n"
        "the mean, so the pool's own padding must too, or be none. MaxPool(Pad(x, p, -inf)) likewise.\n"
        "Refused when the padding is not constant, cuts, or touches batch or channels; when the padded "
        "value\n"
        "has another reader or control edges order the Pad; with auto_pad SAME_*, ceil_mode in pools, or "
        "MaxPool's indices.",
    .ops = "Pad",
    .pipeline = "inference:15",
    .exact = false,
    .run = run,
};
