/* Single ops against values from elsewhere: tests/data/ops/NAME.gg holds graphs of constants, whose
 * values y0, y1, ... are compared with the constants want0, want1, ... (exactly, but floats with
 * the tolerance of their dtype). Shape inference on the graph must agree with what the kernels give. */
#include "move.h"
#include "stream.h"
#include "tap.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run { /* a graph at work; its values by id */
	gg_arena a;
	gg_map tensor;
	gg_diag *d;
} run;

static bool run_graph(run *r, gg_graph *g);

static gg_tensor *tensor_of(run *r, gg_value *v)
{
	gg_tensor *t = v ? gg_map_get(&r->tensor, v->id) : NULL;
	if (v && !t) {
		t = gg_alloc(&r->a, sizeof *t);
		if (v->kind == GG_CONST || v->kind == GG_PARAM)
			gg_value_tensor(r->d, v, t);
		gg_map_put(&r->tensor, v->id, t);
	}
	return t;
}

static bool run_body(gg_eval *e, int b, int nin, const gg_tensor *in, int nout, gg_tensor *out)
{
	gg_graph *g = gg_body(e->n, b);
	run *r = e->ctx;
	for (int i = 0; i < nin; i++)
		*tensor_of(r, g->in[i]) = in[i];
	if (!run_graph(r, g))
		return false;
	for (int i = 0; i < nout; i++)
		out[i] = *tensor_of(r, g->out[i]->value);
	return true;
}

static void *alloc_output(gg_eval *e, int i, size_t bytes)
{
	return gg_alloc(&((run *)e->ctx)->a, bytes + 1);
}

static bool run_node(run *r, gg_node *n)
{
	gg_arena *a = &r->a;
	gg_eval e = {
	    .n = n, .d = r->d, .a = a, .nin = n->nin, .nout = n->nout, .run_body = run_body, .ctx = r};
	gg_info *info = gg_alloc_n(a, (size_t)n->nout + 1, sizeof *info);
	e.alloc = alloc_output;
	e.in = gg_alloc_n(a, (size_t)n->nin + 1, sizeof *e.in);
	e.out = gg_alloc_n(a, (size_t)n->nout + 1, sizeof *e.out);
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value)
			e.in[i] = *tensor_of(r, n->in[i].value);
	if (!gg_infer_tensors(r->d, n, gg_nargs(n), e.in, n->nout, info, a))
		return false;
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		e.out[i] = (gg_tensor){info[i].dtype, info[i].shape};
		if (gg_shape_known(&info[i].shape) &&
		    !gg_eval_alloc(&e, i, info[i].shape.rank, info[i].shape.dim))
			return false;
	}
	if (!n->op->eval(&e))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			*tensor_of(r, n->out[i]) = e.out[i];
	return true;
}

static bool run_graph(run *r, gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next)
		if (!run_node(r, n))
			return false;
	return true;
}

static double tolerance(gg_dtype t)
{
	return t == GG_F64 ? 1e-12 : t == GG_F32 ? 5e-6 : t == GG_F16 ? 2e-3 : 1e-2;
}

/* The first element that differs, or -1. */
static int64_t differs(const gg_tensor *x, const gg_tensor *y)
{
	size_t size = gg_dtype_size(x->dtype);
	int64_t n = gg_count(x);
	for (int64_t i = 0; i < n; i++) {
		if (gg_dtype_class(x->dtype) != 'F') {
			if (memcmp((char *)x->data + (size_t)i * size, (char *)y->data + (size_t)i * size,
			           size))
				return i;
			continue;
		}
		double a = gg_get_f64(x, i), b = gg_get_f64(y, i);
		bool same = a == b || (isnan(a) && isnan(b));
		if (!same && !(fabs(a - b) <= tolerance(x->dtype) * fmax(fabs(b), 0.5)))
			return i;
	}
	return -1;
}

static bool known_wrong(const gg_shape *inferred, const gg_shape *s)
{
	if (inferred->rank < 0)
		return false;
	for (int i = 0; inferred->rank == s->rank && i < s->rank; i++)
		if (gg_dim_known(inferred->dim[i]) && inferred->dim[i] != s->dim[i])
			return true;
	return inferred->rank != s->rank;
}

static void check_output(run *r, gg_model *m, int k)
{
	char name[2][16];
	snprintf(name[0], sizeof name[0], "y%d", k);
	snprintf(name[1], sizeof name[1], "want%d", k);
	gg_value *v = gg_find_value(m->main, name[0]), *w = gg_find_value(m->main, name[1]);
	if (!w)
		return;
	gg_tensor *y = tensor_of(r, v), *want = tensor_of(r, w);
	const char *at = gg_shape_str(&r->a, &y->shape);
	ok(y->dtype == want->dtype, "%s: %s is %s", m->name, name[0], gg_dtype_name(want->dtype));
	if (!ok(gg_shape_eq(&y->shape, &want->shape), "%s: %s has shape %s, got %s", m->name, name[0],
	        gg_shape_str(&r->a, &want->shape), at))
		return;
	ok(!known_wrong(&v->shape, &y->shape), "%s: inferred %s", m->name, gg_shape_str(&r->a, &v->shape));
	int64_t i = y->dtype == want->dtype ? differs(y, want) : 0;
	if (!ok(i < 0, "%s: values of %s", m->name, name[0]) && gg_dtype_class(y->dtype) != 'S')
		printf("# element %lld is %.9g, expected %.9g\n", (long long)i, gg_get_f64(y, i),
		       gg_get_f64(want, i));
}

static void check_model(gg_diag *d, gg_model *m)
{
	run r = {.d = d};
	if (ok(run_graph(&r, m->main), "%s runs", m->name))
		for (int k = 0; k < 4; k++)
			check_output(&r, m, k);
	gg_map_fini(&r.tensor);
	gg_arena_fini(&r.a);
}

static void check_file(const char *path)
{
	gg_diag d = {.tool = "ops"};
	gg_source s;
	gg_model *m;
	int got = 0;
	if (!ok(gg_source_open(&d, &s, path), "%s opens", path))
		return;
	while ((got = gg_read_text(&d, &s, &m)) == 1) {
		s.count++;
		check_model(&d, m);
		gg_model_free(m);
	}
	ok(got == 0 && s.count > 0, "%s is read to its end", path);
	gg_source_close(&s);
}

int main(int argc, char **argv)
{
	const char *folder = "tests/data/ops";
	struct dirent **entry;
	char path[512];
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			check_file(argv[i]);
		return done();
	}
	int n = scandir(folder, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *dot = strrchr(entry[i]->d_name, '.');
		snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
		if (dot && !strcmp(dot, ".gg"))
			check_file(path);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	return done();
}
