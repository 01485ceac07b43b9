/* An order of elements for ops that sort: NaN is above every number, and one NaN like another. */
#ifndef GG_OP_ORDER_H
#define GG_OP_ORDER_H

#include "tensor.h"
#include <math.h>
#include <string.h>

/* Elements a of x and b of y, of one dtype: -1, 0, 1. */
static inline int gg_order(const gg_tensor *x, int64_t a, const gg_tensor *y, int64_t b)
{
	if (x->dtype == GG_STRING)
		return strcmp(((const char *const *)x->data)[a], ((const char *const *)y->data)[b]);
	if (x->dtype == GG_C64) /* by the bits: only equality means anything */
		return memcmp((const char *)x->data + 8 * a, (const char *)y->data + 8 * b, 8);
	if (gg_dtype_class(x->dtype) == 'F') {
		double u = gg_get_f64(x, a), v = gg_get_f64(y, b);
		if (isnan(u) || isnan(v))
			return !!isnan(u) - !!isnan(v);
		return (u > v) - (u < v);
	}
	uint64_t top = x->dtype == GG_U64 ? 0 : (uint64_t)1 << 63;
	uint64_t u = (uint64_t)gg_get_i64(x, a) ^ top, v = (uint64_t)gg_get_i64(y, b) ^ top;
	return (u > v) - (u < v);
}

#endif
