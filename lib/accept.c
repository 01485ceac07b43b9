#include "accept.h"

#include <string.h>

typedef struct range {
	int64_t lo, hi;
} range;

/* What an integer input may be. AXIS: an index into input `data` along the attribute `axis`;
 * CLASS: along axis 1; FIRST: along axis 0; otherwise from `lo` to `hi`. */
enum { FIXED, AXIS, CLASS, FIRST, DEPTH };
static const struct reader {
	const char *op;
	int slot, how, data;
	int64_t lo, hi;
} readers[] = {
    {"Gather", 1, AXIS},
    {"GatherElements", 1, AXIS},
    {"GatherND", 1, FIRST},
    {"ScatterElements", 1, AXIS},
    {"ScatterND", 1, FIRST},
    {"OneHot", 0, DEPTH, 1},
    {"OneHot", 1, FIXED, 0, 4, 4},
    {"NegativeLogLikelihoodLoss", 1, CLASS},
    {"SoftmaxCrossEntropyLoss", 1, CLASS},
    {"TopK", 1, FIXED, 0, 1, 1},
    {"Loop", 0, FIXED, 0, 2, 2},
    {"Expand", 1, FIXED, 0, 1, 1},
    {"Tile", 1, FIXED, 0, 1, 1},
    {"ConstantOfShape", 0, FIXED, 0, 2, 2},
    {"Range", 0, FIXED, 0, 0, 0},
    {"Range", 1, FIXED, 0, 4, 4},
    {"Range", 2, FIXED, 0, 1, 1},
    {"CumSum", 1, FIXED, 0, 0, 0},
    {"Unsqueeze", 1, FIXED, 0, 0, 0},
    {"Squeeze", 1, FIXED, 0, 0, 0},
    {"Slice", 1, FIXED, 0, 0, 0},
    {"Slice", 2, FIXED, 0, 1, 1},
    {"Slice", 3, FIXED, 0, 0, 0},
    {"Slice", 4, FIXED, 0, 1, 1},
    {"Pad", 1, FIXED, 0, 0, 1},
    {"ReverseSequence", 1, FIXED, 0, 1, 1},
    {"Trilu", 1, FIXED, 0, 0, 0},
    {"BitShift", 1, FIXED, 0, 0, 7},
    {"Div", 1, FIXED, 0, 1, 9},
    {"Mod", 1, FIXED, 0, 1, 9},
    {"Pow", 1, FIXED, 0, 0, 3},
};

/* Ops whose output holds the input's numbers, only elsewhere. */
static const char *const movers[] = {"Cast",      "CastLike", "Identity", "Reshape", "Unsqueeze", "Squeeze",
                                     "Transpose", "Flatten",  "Slice",    "Concat",  "Expand",    "Tile",
                                     "Reorder",   "Split",    "Assign",   "Depend",  "Load"};

static void narrow(range *r, int64_t lo, int64_t hi)
{
	r->lo = lo > r->lo ? lo : r->lo;
	r->hi = hi < r->hi ? hi : r->hi;
}

static void by_reader(range *r, const struct reader *k, const gg_node *n)
{
	const gg_value *data = gg_in(n, k->data);
	int64_t axis = k->how == CLASS ? 1 : 0;
	gg_tensor depth;
	gg_diag silent = {.silent = true};

	if (k->how == FIXED) {
		narrow(r, k->lo, k->hi);
		return;
	}
	if (!data)
		return;
	if (k->how == DEPTH) {
		if (data->kind == GG_CONST && gg_value_tensor(&silent, gg_in(n, k->data), &depth) &&
		    gg_count(&depth) == 1)
			narrow(r, 0, gg_get_i64(&depth, 0) - 1);
		return;
	}
	if (k->how == AXIS && gg_op_attr(n->op, "axis"))
		axis = gg_get_int(n, "axis");
	if (axis < 0)
		axis += data->shape.rank;
	if (axis < 0 || axis >= data->shape.rank)
		return;
	narrow(r, 0, gg_dim_known(data->shape.dim[axis]) ? data->shape.dim[axis] - 1 : 0);
}

static void by_readers(range *r, const gg_value *v, int depth)
{
	for (const gg_use *u = v->uses; u && depth > 0; u = u->next) {
		const gg_node *n = u->node;
		gg_graph *b;
		int slot = n ? (int)(u - n->in) : 0, args = n ? gg_nargs(n) : 0;
		if (!n)
			continue;
		for (int i = 0; slot >= args && (b = gg_body(n, i)); i++)
			by_readers(r, b->in[b->nin - (size_t)n->ncap + (size_t)(slot - args)], depth - 1);
		for (size_t i = 0; slot < args && i < sizeof readers / sizeof *readers; i++)
			if (readers[i].slot == slot && !strcmp(readers[i].op, n->op->name))
				by_reader(r, &readers[i], n);
		for (size_t i = 0; slot < args && i < sizeof movers / sizeof *movers; i++)
			if (!strcmp(movers[i], n->op->name))
				for (int k = 0; k < n->nout; k++)
					if (n->out[k])
						by_readers(r, n->out[k], depth - 1);
	}
}

bool gg_accepted(const gg_value *v, int64_t *lo, int64_t *hi)
{
	range r = {INT64_MIN, INT64_MAX};

	by_readers(&r, v, 16);
	*lo = r.lo;
	*hi = r.hi;
	return r.lo != INT64_MIN || r.hi != INT64_MAX;
}
