/* Random graphs of views, in-place ops and state run three times: with memory shared and poisoned,
 * shared, and every value in a place of its own. All bits are the same, in outputs and in state. */
#include "exec.h"
#include "target.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, STATES = 3 };

static gg_diag diag = {.tool = "exec"};
static uint64_t seed = 1;

static uint32_t pick(size_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

typedef struct graph {
	gg_model *m;
	gg_value *v[400]; /* all of 24 elements */
	size_t n;
} graph;

static gg_node *add(graph *r, const char *op, int nin, gg_value **in, int nout)
{
	static unsigned count;
	char name[4][16];
	const char *out[4];
	gg_node *n;

	for (int i = 0; i < nout; i++) {
		snprintf(name[i], sizeof name[i], "t%u", count++);
		out[i] = name[i];
	}
	n = gg_add_node(r->m->main, NULL, gg_op_find(op), nin, in, nout, out);
	return n;
}

static gg_value *ints(graph *r, int n, const int64_t *x)
{
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){n}), (void *)x};
	return gg_add_tensor(r->m->main, "c", &t);
}

static gg_value *reshape(graph *r, gg_value *v)
{
	static const int64_t shapes[][3] = {{24, 1, 1}, {2, 3, 4}, {4, 3, 2}, {1, 4, 6}};
	gg_node *n = add(r, "Reshape", 2, (gg_value *[]){v, ints(r, 3, shapes[pick(4)])}, 1);

	gg_infer_node(&diag, n);
	return n->out[0];
}

static gg_value *as_shape_of(graph *r, gg_value *v, const gg_value *to)
{
	gg_node *n;

	if (gg_shape_eq(&v->shape, &to->shape))
		return v;
	n = add(r, "Reshape", 2, (gg_value *[]){v, ints(r, to->shape.rank, to->shape.dim)}, 1);
	gg_infer_node(&diag, n);
	return n->out[0];
}

static void grow(graph *r)
{
	gg_value *a = r->v[pick(r->n)], *b = r->v[pick(r->n)];
	gg_node *n = NULL;

	switch (pick(7)) {
	case 0:
		r->v[r->n++] = reshape(r, a);
		return;
	case 1:
		n = add(r, "Relu", 1, &a, 1);
		break;
	case 2:
		n = add(r, "Transpose", 1, &a, 1);
		break;
	case 3: /* two halves and together again */
		a = reshape(r, a);
		if (a->shape.dim[0] % 2)
			return;
		n = add(r, "Split", 1, &a, 2);
		gg_set_attr_int(n, "num_outputs", 2);
		gg_infer_node(&diag, n);
		n = add(r, "Concat", 2, (gg_value *[]){n->out[1], n->out[0]}, 1);
		gg_set_attr_int(n, "axis", 0);
		break;
	default:
		n = add(r, pick(2) ? "Add" : "Sub", 2, (gg_value *[]){a, as_shape_of(r, b, a)}, 1);
	}
	gg_infer_node(&diag, n);
	r->v[r->n++] = n->out[0];
}

static void make(graph *r, int nodes)
{
	gg_shape s = gg_shape_of(3, (gg_dim[]){2, 3, 4});
	gg_value *param[STATES];
	gg_graph *g;

	r->m = gg_model_new("random");
	r->n = 0;
	g = r->m->main;
	r->v[r->n++] = gg_add_input(g, "x", GG_F32, &s);
	for (int i = 0; i < STATES; i++) {
		char name[2] = {(char)('p' + i), 0};
		param[i] = gg_add_const(g, GG_PARAM, name, GG_F32, &s,
		                        gg_data_fill(r->m, GG_FILL_NORMAL, (uint64_t)i, 0, 1));
		r->v[r->n++] = param[i];
	}
	for (int i = 0; i < nodes && r->n < 390; i++) {
		grow(r);
		if (i == nodes / 2) { /* one is overwritten half way, if nobody needs it any more */
			gg_value *now = as_shape_of(r, r->v[r->n - 1], param[0]);
			gg_node *n = add(r, "Assign", 2, (gg_value *[]){param[0], now}, 1);
			gg_infer_node(&diag, n);
			gg_add_state(g, param[0], n->out[0]);
			r->v[r->n++] = n->out[0];
			if (pick(2))
				r->v[1] = n->out[0];
		}
	}
	if (pick(2)) { /* the other two change places */
		gg_add_state(g, param[1], param[2]);
		gg_add_state(g, param[2], param[1]);
	} else {
		gg_add_state(g, param[1], as_shape_of(r, r->v[pick(r->n)], param[1]));
	}
	for (size_t i = 0; i < r->n; i++)
		if (i + 1 == r->n || pick(12) == 0)
			if (!gg_is_output(r->v[i]))
				gg_add_output(g, r->v[i]);
}

/* Everything a run gives, step after step. */
static bool run(graph *r, gg_exec_options o, gg_buf *b)
{
	gg_graph *g = r->m->main;
	gg_exec *x = gg_exec_new(&diag, r->m, &o);
	gg_tensor in = {GG_F32, g->in[0]->shape, gg_xaligned(96)}, *out = calloc(g->nout + 1, sizeof *out), p;
	bool good = x != NULL;

	for (int step = 0; good && step < STEPS; step++) {
		gg_fill_normal(&in, (uint64_t)step, 0, 1);
		good = gg_exec_run(x, &in, out);
		for (size_t i = 0; good && i < g->nout; i++)
			gg_buf_add(b, out[i].data, gg_nbytes(&out[i]));
		for (size_t i = 0; good && i < g->nstate; i++) {
			good = gg_exec_get_param(x, g->state[i]->param, &p);
			gg_buf_add(b, p.data, gg_nbytes(&p));
		}
	}
	gg_exec_free(x);
	free(in.data);
	free(out);
	return good;
}

/* On cpu some nodes run as one call, which reads and writes piece by piece. */
static bool run_cpu(graph *r, int *different)
{
	static const gg_select_options o = {.target = "cpu", .precision = "strict", .layout = "auto"};
	gg_buf b[3] = {{0}};
	bool good = gg_select(&diag, r->m, &o) && gg_insert_formats(&diag, r->m) &&
	            run(r, (gg_exec_options){.no_reuse = true}, &b[0]) &&
	            run(r, (gg_exec_options){.poison = true}, &b[1]) && run(r, (gg_exec_options){0}, &b[2]);

	for (int k = 1; k < 3 && good; k++)
		*different += b[k].len != b[0].len || !b[0].len || memcmp(b[k].p, b[0].p, b[0].len) != 0;
	for (int k = 0; k < 3; k++)
		gg_buf_fini(&b[k]);
	return good;
}

int main(void)
{
	int failed = 0, different = 0, shared = 0, cpu_failed = 0, cpu_different = 0;

	for (int i = 0; i < 200; i++) {
		graph r;
		gg_buf b[3] = {{0}};
		make(&r, 5 + (int)pick(60));
		failed += !gg_check(&diag, r.m) || !run(&r, (gg_exec_options){.no_reuse = true}, &b[0]) ||
		          !run(&r, (gg_exec_options){.poison = true}, &b[1]) ||
		          !run(&r, (gg_exec_options){0}, &b[2]);
		for (int k = 1; k < 3; k++)
			different += b[k].len != b[0].len || !b[0].len ||
			             memcmp(b[k].p, b[0].p, b[0].len) != 0;
		for (gg_node *n = r.m->main->first; n; n = n->next)
			shared += n->out[0]->alias != NULL;
		for (int k = 0; k < 3; k++)
			gg_buf_fini(&b[k]);
		cpu_failed += i % 2 && !run_cpu(&r, &cpu_different);
		gg_model_free(r.m);
	}
	ok(!failed, "200 random graphs run (%d failed)", failed);
	ok(shared > 1000, "%d values share a buffer", shared);
	ok(!different, "sharing and poison change no bit (%d differ)", different);
	ok(!cpu_failed && !cpu_different, "nor on cpu (%d failed, %d differ)", cpu_failed, cpu_different);
	return done();
}
