/* Conversion between all dtypes, as ONNX's Cast has it: float to integer toward zero (what does not
 * fit wraps, NaN is 0), integer to integer keeps the low bits, anything but zero is true. */
#include "op/cast.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 };

static bool is_float(gg_dtype t) { return gg_dtype_class(t) == 'F'; }
static bool is_f8(gg_dtype t) { return t == GG_F8E4M3 || t == GG_F8E5M2; }

bool gg_infer_cast(gg_infer *f, gg_dtype to)
{
	if (!(GG_CASTABLE & GG_DT(to)))
		return gg_unsupported(f, "cast to %s", gg_dtype_name(to));
	f->out[0].dtype = to;
	f->out[0].shape = f->in[0].shape;
	if (strchr("IU", gg_dtype_class(to)))
		gg_follow(f, 1, 0);
	return true;
}

/* u64 does not fit the signed loads: through double with an odd last bit where it is longer than
 * 53 bits, so that the store rounds once. */
static void load_u64(const uint64_t *src, int64_t n, gg_dtype to, double *dst)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t u = src[i];
		if (to != GG_F64 && u >> 53)
			u = (u & ~(uint64_t)2047) | ((u & 2047) ? 2048 : 0);
		dst[i] = (double)u;
	}
}

static void store_f8(gg_tensor *to, int64_t at, int64_t n, const double *v)
{
	uint8_t *p = to->data;
	for (int64_t i = 0; i < n; i++)
		p[at + i] = to->dtype == GG_F8E4M3 ? gg_f8e4m3_from(v[i], false)
		                                   : gg_f8e5m2_from(v[i], false);
}

static void through_double(const gg_tensor *from, gg_tensor *to, int64_t at, int64_t n, bool saturate)
{
	double v[BLOCK];
	if (from->dtype == GG_U64)
		load_u64((const uint64_t *)from->data + at, n, to->dtype, v);
	else
		gg_load_f64(from->dtype, from->data, at, n, v);
	if (is_f8(to->dtype) && !saturate)
		store_f8(to, at, n, v);
	else
		gg_store_f64(to->dtype, to->data, at, n, v);
}

static void through_int(const gg_tensor *from, gg_tensor *to, int64_t at, int64_t n)
{
	int64_t v[BLOCK];
	gg_load_i64(from->dtype, from->data, at, n, v);
	gg_store_i64(to->dtype, to->data, at, n, v);
}

/* ---- strings -------------------------------------------------------------------------------- */

/* The fewest digits that read back as the same number. */
static const char *print_float(gg_dtype t, double x)
{
	char s[40];
	if (isnan(x) || isinf(x))
		return isnan(x) ? "NaN" : x < 0 ? "-INF" : "INF";
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*g", digits, x);
		if (gg_round_to(t, strtod(s, 0)) == x)
			break;
	}
	return gg_intern(s);
}

static bool to_strings(const gg_tensor *from, gg_tensor *to)
{
	const char **out = to->data;
	int64_t n = gg_count(from);
	for (int64_t i = 0; i < n; i++) {
		char s[32];
		if (from->dtype == GG_STRING) {
			out[i] = ((const char *const *)from->data)[i];
		} else if (is_float(from->dtype)) {
			out[i] = gg_intern(print_float(from->dtype, gg_get_f64(from, i)));
		} else {
			int64_t v = gg_get_i64(from, i);
			snprintf(s, sizeof s, from->dtype == GG_U64 ? "%llu" : "%lld", (long long)v);
			out[i] = gg_intern(s);
		}
	}
	return true;
}

/* Whole numbers exactly, others through double. */
static bool parse(const char *s, gg_tensor *to, int64_t i, bool saturate)
{
	char *end;
	errno = 0;
	if (!is_float(to->dtype)) {
		int64_t v = to->dtype == GG_U64 ? (int64_t)strtoull(s, &end, 10)
		                                : (int64_t)strtoll(s, &end, 10);
		if (end != s && !*end && !errno) {
			gg_set_i64(to, i, v);
			return true;
		}
	}
	double x = to->dtype == GG_F32 ? (double)strtof(s, &end) : strtod(s, &end);
	if (end == s || *end)
		return false;
	gg_tensor one = {GG_F64, {.rank = 0}, &x};
	gg_tensor at = *to;
	at.data = (char *)to->data + (size_t)i * gg_dtype_size(to->dtype);
	through_double(&one, &at, 0, 1, saturate);
	return true;
}

static bool from_strings(gg_eval *e, bool saturate)
{
	const char *const *s = e->in[0].data;
	int64_t n = gg_count(&e->in[0]);
	for (int64_t i = 0; i < n; i++)
		if (!parse(s[i], &e->out[0], i, saturate))
			return gg_fail(e, "string '%.40s' is not a number", s[i]);
	return true;
}

bool gg_eval_cast(gg_eval *e)
{
	const gg_tensor *from = &e->in[0];
	gg_tensor *to = &e->out[0];
	bool saturate = gg_get_int(e->n, "saturate") != 0;
	if (to->dtype == GG_STRING)
		return to_strings(from, to);
	if (from->dtype == GG_STRING)
		return from_strings(e, saturate);
	int64_t count = gg_count(from);
	bool ints = !is_float(from->dtype) &&
	            !(is_float(to->dtype) && (from->dtype == GG_U64 || is_f8(to->dtype)));
	for (int64_t at = 0; at < count; at += BLOCK) {
		int64_t n = count - at < BLOCK ? count - at : BLOCK;
		if (ints)
			through_int(from, to, at, n);
		else
			through_double(from, to, at, n, saturate);
	}
	return true;
}
