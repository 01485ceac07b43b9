/* Every row of the cuda target against the reference kernels, on a device: `device [NAME]`, or a share of
 * the cases, `device 2/8`. `device rows`: that each row has a case, for which no device is needed.
 *
 * The cases are the cpu's and some more, each in several dtypes and layouts. A case runs three times
 * through the executor, with new inputs for the last run: call by call, recorded, and replayed.
 * What is compared is the distance to the reference over the reference's length; what only moves
 * or counts is equal, and so are random numbers. */
#include "gg.h"
#include "../unit/tap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const cases[] = {
#include "cases.inc"
#include "device.inc"
};

typedef struct way {
	const char *dtype, *layout, *precision;
	double far; /* distance allowed */
	bool own;   /* products by kernels of our own wherever they fit */
} way;
static const way ways[] = {
    {"f32", "keep", NULL, 1e-5},       {"f32", "auto", "tf32", 2e-3}, {"f16", "auto", NULL, 3e-3},
    {"bf16", "auto", NULL, 2.5e-2},    {"f64", "keep", NULL, 1e-12},  {"f16", "keep", NULL, 3e-3},
    {"f16", "auto", NULL, 3e-3, true},
};

static gg_diag diag = {.tool = "device"};
static bool hit[512];

/* The case with another float dtype. */
static char *as(gg_arena *a, const char *text, const char *dtype)
{
	gg_buf b = {0};
	for (const char *p; (p = strstr(text, "f32")); text = p + 3) {
		gg_buf_add(&b, text, (size_t)(p - text));
		gg_buf_str(&b, dtype);
	}
	gg_buf_str(&b, text);
	char *s = gg_strdup(a, b.p);
	gg_buf_fini(&b);
	return s;
}

static gg_model *read(const char *text)
{
	gg_source s = {.name = "case", .p = text, .len = strlen(text)};
	gg_model *m = NULL;
	return gg_read_text(&diag, &s, &m) == 1 && gg_infer_graph(&diag, m->main) ? m : NULL;
}

static void fill(const gg_graph *g, gg_tensor *in, uint64_t seed)
{
	for (size_t i = 0; i < g->nin; i++) {
		gg_tensor *t = &in[i];
		if (!t->data)
			*t = (gg_tensor){(gg_dtype)g->in[i]->dtype, g->in[i]->shape, NULL};
		for (int k = 0; k < t->shape.rank; k++)
			t->shape.dim[k] = gg_dim_known(t->shape.dim[k]) ? t->shape.dim[k] : 3;
		if (!t->data)
			t->data = gg_xaligned(gg_nbytes(t) + 64);
		if (gg_dtype_class(t->dtype) == 'F')
			gg_fill_normal(t, seed + i, 0, 1);
		else
			gg_fill_uniform(t, seed + i, 0, 2);
	}
}

static bool near(const gg_tensor *got, const gg_tensor *want, double far, char *what, size_t size)
{
	double diff = 0, length = 0, worst = 0;
	if (got->dtype != want->dtype || !gg_shape_eq(&got->shape, &want->shape)) {
		snprintf(what, size, "another dtype or shape");
		return false;
	}
	if (gg_dtype_class(want->dtype) != 'F') {
		snprintf(what, size, "bytes differ");
		return !gg_nbytes(want) || !memcmp(got->data, want->data, gg_nbytes(want));
	}
	for (int64_t i = 0; i < gg_count(want); i++) {
		double g = gg_get_f64(got, i), e = gg_get_f64(want, i);
		if ((isnan(g) && isnan(e)) || g == e) {
			length += isfinite(e) ? e * e : 0;
			continue;
		}
		if (!isfinite(e) || !isfinite(g)) {
			snprintf(what, size, "element %lld is %g, expected %g", (long long)i, g, e);
			return false;
		}
		diff += (g - e) * (g - e);
		length += e * e;
		worst = fmax(worst, fabs(g - e));
	}
	snprintf(what, size, "distance %.3g, at most %.3g; largest difference %.3g", sqrt(diff / length), far,
	         worst);
	return diff == 0 || sqrt(diff) <= far * sqrt(length) + 1e-30;
}

/* Rows that the model uses; false: no node runs on the device. */
static bool mark_rows(const gg_model *m)
{
	const gg_target *t = gg_target_find("cuda");
	bool any = false;
	for (const gg_node *n = m->main->first; n; n = n->next) {
		const gg_row *r = gg_target_chosen(t, n);
		if (r)
			hit[r - t->rows] = any = true;
	}
	return any;
}

static bool run_both(gg_exec *x, gg_exec *r, const gg_graph *g, double far, char *what, size_t size)
{
	gg_tensor *in = gg_xcalloc(g->nin + 1, sizeof *in), *out = gg_xcalloc(g->nout + 1, sizeof *out);
	gg_tensor *want = gg_xcalloc(g->nout + 1, sizeof *want);
	bool good = true;
	for (int run = 0; run < 3 && good; run++) {
		fill(g, in, run < 2 ? 1 : 77);
		snprintf(what, size, "it failed");
		good = gg_exec_run(x, in, out) && gg_exec_run(r, in, want);
		for (size_t i = 0; i < g->nout && good; i++)
			good = near(&out[i], &want[i], far, what, size);
	}
	for (size_t i = 0; i < g->nin; i++)
		free(in[i].data);
	free(in);
	free(out);
	free(want);
	return good;
}

static void run_case(const char *text, const way *w)
{
	gg_arena a = {0};
	const char *s = as(&a, text, w->dtype);
	gg_diag d = {.tool = "device", .silent = true};
	gg_select_options o = {.target = "cuda", .layout = w->layout, .precision = w->precision};
	gg_exec_options xo = {.seed = 1};
	setenv("GG_CUDA_OWN", w->own ? "1" : "0", 1);
	diag = (gg_diag){.tool = "device", .silent = strcmp(w->dtype, "f32") != 0};
	gg_model *m = read(s), *ref = read(s);
	diag.silent = false;
	gg_exec *x = NULL, *r = NULL;
	char what[256] = "it was not read";
	bool good = m && ref;
	if (!good && strcmp(w->dtype, "f32")) {
		gg_arena_fini(&a);
		return; /* an input has one dtype alone */
	}
	if (good && (!gg_select(&d, m, &o) || !mark_rows(m))) {
		gg_model_free(m);
		gg_model_free(ref);
		gg_arena_fini(&a);
		return; /* the ops do not have the dtype, or all of it is the host's */
	}
	if (good) {
		snprintf(what, sizeof what, "it was not prepared");
		ref->target = NULL;
		good = gg_select_open(&diag, m) && gg_insert_formats(&diag, m) &&
		       (x = gg_exec_new(&diag, m, &xo)) && (r = gg_exec_new(&diag, ref, &xo)) &&
		       run_both(x, r, m->main, strstr(text, "Random") ? 0 : w->far, what, sizeof what);
	}
	ok(good, "%s, %s %s%s%s%s # %s", m ? m->name : "?", w->dtype, w->layout, w->precision ? " " : "",
	   w->precision ? w->precision : "", w->own ? " own" : "", what);
	gg_exec_free(x);
	gg_exec_free(r);
	if (m)
		gg_model_free(m);
	if (ref)
		gg_model_free(ref);
	gg_arena_fini(&a);
}

static bool has_product(const char *text)
{
	return strstr(text, "MatMul") || strstr(text, "Gemm") || strstr(text, "Conv(");
}

static bool is_wanted(size_t i, const char *what)
{
	unsigned share, of;

	if (!what)
		return true;
	if (sscanf(what, "%u/%u", &share, &of) == 2)
		return of && i % of == share % of;
	return strstr(cases[i], what);
}

static void mark_case(const char *text, const way *w)
{
	gg_arena a = {0};
	gg_diag d = {.tool = "device", .silent = true};
	gg_select_options o = {.target = "cuda", .layout = w->layout, .precision = w->precision};
	diag.silent = true;
	gg_model *m = read(as(&a, text, w->dtype));
	diag.silent = false;
	if (m && gg_select(&d, m, &o))
		mark_rows(m);
	if (m)
		gg_model_free(m);
	gg_arena_fini(&a);
}

int main(int argc, char **argv)
{
	const gg_target *t = gg_target_find("cuda");
	const char *what = argc > 1 ? argv[1] : NULL;
	bool rows = what && !strcmp(what, "rows");
	gg_diag silent = {.silent = true};
	if (!rows && !gg_backend_load(&silent, "cuda", 1)) {
		printf("1..0 # SKIP there is no device\n");
		return 0;
	}
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
			if (rows)
				mark_case(cases[i], &ways[k]);
			else if (is_wanted(i, what) && (!ways[k].own || has_product(cases[i])))
				run_case(cases[i], &ways[k]);
	for (int i = 0; i < t->nrows && (rows || !what); i++)
		ok(hit[i], "%s of %s has a case", t->rows[i].kernel, t->rows[i].op);
	return done();
}
