#include "compare.h"

#include <math.h>
#include <string.h>

void gg_tolerance(gg_dtype t, double *rtol, double *atol)
{
	static const struct {
		gg_dtype t;
		double rtol, atol;
	} row[] = {
	    {GG_F64, 1e-10, 1e-12},   {GG_F32, 1e-3, 1e-5}, {GG_F16, 1e-2, 1e-3},
	    {GG_BF16, 2e-2, 1e-2},    {GG_C64, 1e-3, 1e-5}, {GG_F8E4M3, 0.125, 0.0625},
	    {GG_F8E5M2, 0.25, 0.125},
	};

	*rtol = *atol = 0;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (row[i].t == t) {
			*rtol = row[i].rtol;
			*atol = row[i].atol;
		}
}

double gg_part(const gg_tensor *t, int64_t i)
{
	return t->dtype == GG_C64 ? (double)((const float *)t->data)[i] : gg_get_f64(t, i);
}

int64_t gg_parts(const gg_tensor *t) { return gg_count(t) * (t->dtype == GG_C64 ? 2 : 1); }

bool gg_same_bits(const gg_tensor *a, const gg_tensor *b, int64_t i)
{
	char class = gg_dtype_class(a->dtype);
	size_t size = a->dtype == GG_C64 ? sizeof(float) : gg_dtype_size(a->dtype), at = (size_t)i * size;

	if (class == 'S')
		return !strcmp(((const char *const *)a->data)[i], ((const char *const *)b->data)[i]);
	return !memcmp((const char *)a->data + at, (const char *)b->data + at, size) ||
	       ((class == 'F' || class == 'C') && isnan(gg_part(a, i)) && isnan(gg_part(b, i)));
}

void gg_put_index(gg_buf *b, const gg_tensor *t, int64_t i)
{
	int64_t idx[GG_MAX_RANK];

	if (t->dtype == GG_C64)
		i /= 2;
	for (int k = t->shape.rank - 1; k >= 0; k--) {
		idx[k] = i % t->shape.dim[k];
		i /= t->shape.dim[k];
	}
	gg_buf_str(b, "[");
	for (int k = 0; k < t->shape.rank; k++)
		gg_buf_printf(b, "%s%lld", k ? "," : "", (long long)idx[k]);
	gg_buf_str(b, "]");
}

void gg_put_part(gg_buf *b, const gg_tensor *t, int64_t i)
{
	char class = gg_dtype_class(t->dtype);

	if (class == 'S')
		gg_buf_printf(b, "'%s'", ((const char *const *)t->data)[i]);
	else if (class == 'C')
		gg_buf_printf(b, "%.9g", gg_part(t, i));
	else
		gg_put_element(b, t, i);
}
