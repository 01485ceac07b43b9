/* Is it the same? Floats within a tolerance, all else exactly; NaN equals NaN in its place. */
#include "run.h"

#include "../../lib/compare.h"
#include <math.h>
#include <string.h>

typedef struct tally {
	double rtol, atol;
	int64_t count, bad, worst;
	double worst_by;       /* how far beyond the tolerance, in tolerances */
	double need_r, need_a; /* the smallest that would pass, the other left as it is */
	double largest;        /* difference */
	double scale;          /* what rtol is a part of; below 0: each element itself */
} tally;

static void weigh(tally *k, int64_t i, double got, double want)
{
	double diff, room, by, base = k->scale < 0 ? fabs(want) : k->scale;

	if (got == want || (isnan(got) && isnan(want)))
		return;
	diff = fabs(got - want);
	room = k->atol + k->rtol * base;
	if (isnan(diff) || isinf(diff)) { /* no tolerance helps */
		diff = INFINITY;
		k->need_r = k->need_a = INFINITY;
	} else {
		double r = base != 0 ? (diff - k->atol) / base : diff > k->atol ? INFINITY : 0;
		double a = diff - k->rtol * base;
		k->need_r = r > k->need_r ? r : k->need_r;
		k->need_a = a > k->need_a ? a : k->need_a;
	}
	k->largest = diff > k->largest ? diff : k->largest;
	k->bad += diff > room || isinf(diff);
	by = isinf(diff) || !(room > 0) ? INFINITY : diff / room;
	if (k->worst < 0 || by > k->worst_by) {
		k->worst_by = by;
		k->worst = i;
	}
}

static void weigh_integers(tally *k, const gg_tensor *got, const gg_tensor *want)
{
	for (int64_t i = 0; i < k->count; i++) {
		int64_t a = gg_get_i64(got, i), b = gg_get_i64(want, i);
		if (a == b)
			continue;
		double diff = fabs(gg_get_f64(got, i) - gg_get_f64(want, i));
		diff = diff > 0 ? diff : 1; /* beyond 2^53 */
		k->bad++;
		if (diff > k->largest) {
			k->largest = diff;
			k->worst = i;
		}
	}
}

static void weigh_strings(tally *k, const gg_tensor *got, const gg_tensor *want)
{
	const char *const *a = got->data, *const *b = want->data;

	for (int64_t i = 0; i < k->count; i++)
		if (strcmp(a[i], b[i])) {
			k->worst = k->bad++ ? k->worst : i;
			k->largest = INFINITY;
		}
}

static void weigh_all(tally *k, const gg_tensor *got, const gg_tensor *want)
{
	char class = gg_dtype_class(want->dtype);

	if (class == 'S')
		weigh_strings(k, got, want);
	else if (class == 'F' || class == 'C')
		for (int64_t i = 0; i < k->count; i++)
			weigh(k, i, gg_part(got, i), gg_part(want, i));
	else
		weigh_integers(k, got, want);
}

static void put_difference(gg_buf *b, const tally *k, const gg_tensor *got, const gg_tensor *want)
{
	gg_buf_printf(b, "%lld of %lld values differ, worst at ", (long long)k->bad, (long long)k->count);
	gg_put_index(b, want, k->worst);
	gg_buf_str(b, ": got ");
	gg_put_part(b, got, k->worst);
	gg_buf_str(b, ", expected ");
	gg_put_part(b, want, k->worst);
}

static bool report(job *j, const char *what, const tally *k, const gg_tensor *got, const gg_tensor *want)
{
	char class = gg_dtype_class(want->dtype);
	gg_buf b = {0};

	gg_buf_printf(&b, "%s: ", what);
	put_difference(&b, k, got, want);
	if (class == 'F' || class == 'C') {
		gg_buf_printf(&b, " (rtol %g, atol %g", k->rtol, k->atol);
		if (isfinite(k->need_a)) {
			gg_buf_str(&b, "; would pass with");
			if (isfinite(k->need_r))
				gg_buf_printf(&b, " --rtol=%.3g or", k->need_r * 1.001);
			gg_buf_printf(&b, " --atol=%.3g", k->need_a * 1.001);
		} else {
			gg_buf_str(&b, "; no tolerance would pass");
		}
		gg_buf_str(&b, ")");
	}
	gg_error(&j->t->d, GG_DIFFERENT, "%s", b.p);
	gg_buf_fini(&b);
	return false;
}

bool compare(job *j, const char *what, const gg_tensor *got, const gg_tensor *want, gg_buf *say)
{
	tally k = {.worst = -1, .count = gg_count(want), .scale = -1};

	if (got->dtype != want->dtype)
		return gg_error(&j->t->d, GG_DIFFERENT, "%s is %s, expected %s", what,
		                gg_dtype_name(got->dtype), gg_dtype_name(want->dtype));
	if (!gg_shape_eq(&got->shape, &want->shape))
		return gg_error(&j->t->d, GG_DIFFERENT, "%s has shape %s, expected %s", what,
		                gg_shape_str(&j->a, &got->shape), gg_shape_str(&j->a, &want->shape));
	gg_tolerance(want->dtype, &k.rtol, &k.atol);
	k.rtol = j->rtol >= 0 ? j->rtol : k.rtol;
	k.atol = j->atol >= 0 ? j->atol : k.atol;
	k.count = gg_parts(want);
	weigh_all(&k, got, want);
	if (k.bad)
		return report(j, what, &k, got, want);
	if (say)
		gg_buf_printf(say, "%s: %lld values match, largest difference %.3g\n", what,
		              (long long)k.count, k.largest);
	return true;
}

static double largest(const gg_tensor *t)
{
	char class = gg_dtype_class(t->dtype);
	int64_t n = class == 'F' || class == 'C' ? gg_parts(t) : 0;
	double most = 0;

	for (int64_t i = 0; i < n; i++) {
		double x = fabs(gg_part(t, i));
		most = x > most && isfinite(x) ? x : most;
	}
	return most;
}

/* Elements that are small because large ones cancelled are as wrong as the large ones, and that is no
 * fault of the kernel. */
bool compare_layer(job *j, const gg_value *v, const gg_tensor *got, const gg_tensor *want)
{
	tally k = {.worst = -1, .count = gg_parts(want), .scale = largest(want)};
	gg_buf b = {0};

	if (got->dtype != want->dtype || !gg_shape_eq(&got->shape, &want->shape))
		return true; /* a pass made something else of it */
	gg_tolerance(want->dtype, &k.rtol, &k.atol);
	k.rtol = j->rtol >= 0 ? j->rtol : k.rtol;
	k.atol = j->atol >= 0 ? j->atol : k.atol;
	weigh_all(&k, got, want);
	j->layers.n++;
	if (k.largest > 0 && k.largest / (k.scale > 0 ? k.scale : 1) > j->layers.worst) {
		j->layers.worst = k.largest / (k.scale > 0 ? k.scale : 1);
		j->layers.at = v;
	}
	if (!k.bad)
		return true;
	put_difference(&b, &k, got, want);
	gg_node_error(
	    &j->t->d, GG_DIFFERENT, v->producer,
	    "the first that is over tolerance, in output '%s': %s (rtol %g of the largest, %g, atol %g)",
	    v->name, b.p, k.rtol, k.scale, k.atol);
	gg_buf_fini(&b);
	return false;
}
