/* Inputs that nobody gave: seeded by name, integers within what their readers accept. */
#include "run.h"

#include "../../lib/accept.h"
#include <string.h>

static void fill_integers(const job *j, const gg_value *v, gg_tensor *t, uint64_t seed)
{
	bool is_bool = t->dtype == GG_BOOL;
	int64_t lo, hi, width;

	if (!gg_accepted(v, &lo, &hi)) {
		lo = 0;
		hi = is_bool ? 1 : gg_dtype_bits(t->dtype) == 4 ? 7 : 9;
	}
	lo = lo < 0 ? 0 : lo;
	hi = hi < lo ? lo : hi > 127 && gg_dtype_bits(t->dtype) == 8 ? 127 : hi;
	width = hi - lo + 1;
	for (int64_t i = 0; i < gg_count(t); i++) {
		int64_t x = j->fill == FILL_NORMAL
		                ? lo + (int64_t)(gg_uniform(seed, (uint64_t)i) * (double)width)
		            : j->fill == FILL_RANGE ? lo + i % width
		            : j->fill == FILL_ONES  ? 1
		                                    : 0;
		gg_set_i64(t, i, x < lo ? lo : x > hi ? hi : x);
	}
}

void fill_input(const job *j, const gg_value *v, gg_tensor *t)
{
	uint64_t seed = gg_hash(v->name, strlen(v->name), j->exec.seed);
	char class = gg_dtype_class(t->dtype);
	gg_tensor parts = *t;

	if (class == 'S') {
		for (int64_t i = 0; i < gg_count(t); i++)
			((const char **)t->data)[i] = "";
		return;
	}
	if (class != 'F' && class != 'C') {
		fill_integers(j, v, t, seed);
		return;
	}
	if (class == 'C') { /* as pairs of f32 */
		parts.dtype = GG_F32;
		parts.shape = gg_shape_of(1, (gg_dim[]){gg_count(t) * 2});
	}
	if (j->fill == FILL_NORMAL)
		gg_fill_normal(&parts, seed, 0, 1);
	else if (j->fill == FILL_RANGE)
		for (int64_t i = 0; i < gg_count(&parts); i++)
			gg_set_f64(&parts, i, (double)(i + job_rank(j) * gg_count(&parts)));
	else
		gg_fill_value(&parts, j->fill == FILL_ONES);
}
