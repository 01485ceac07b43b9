#include "pointwise.h"
#include <string.h>

/* Signed integers shift right with their sign. A count outside 0 to bits - 1 leaves only the sign. */
static int64_t left(int64_t x, int64_t y, const double *attr)
{
	return y < 0 || y >= (int64_t)attr[0] ? 0 : (int64_t)((uint64_t)x << y);
}
static int64_t right(int64_t x, int64_t y, const double *attr)
{
	return y < 0 || y >= (int64_t)attr[0] ? (x < 0 ? -1 : 0) : x < 0 ? ~(~x >> y) : x >> y;
}
static int64_t right_u64(int64_t x, int64_t y, const double *attr)
{
	return y < 0 || y >= 64 ? 0 : (int64_t)((uint64_t)x >> y);
}

static bool eval(gg_eval *e)
{
	double bits = gg_dtype_bits(e->in[0].dtype);
	if (*gg_get_string(e->n, "direction") == 'L')
		return gg_map2(e, 0, left, &bits);
	return gg_map2(e, 0, e->in[0].dtype == GG_U64 ? right_u64 : right, &bits);
}

static bool infer(gg_infer *f)
{
	const char *s = gg_get_string(f->n, "direction");
	if (!s || (strcmp(s, "LEFT") && strcmp(s, "RIGHT")))
		return gg_fail(f, "direction '%s' is neither LEFT nor RIGHT", s ? s : "");
	return gg_infer_broadcast(f);
}

const gg_op gg_op_BitShift = {GG_POINTWISE_OP(BitShift, "x shifted by y bits, broadcast", 2, 0),
                              .attrs = GG_ATTRS({"direction", GG_ATTR_STRING, true, 0}),
                              .in = {{GG_INTS, 'T'}, {GG_INTS, 'T'}},
                              .out = {{GG_INTS, 'T'}},
                              .infer = infer,
                              .eval = eval};
