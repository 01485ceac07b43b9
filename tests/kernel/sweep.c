/* Every row of the cpu target against the reference kernels, on awkward shapes.
 *
 * A case is a graph in the text form. It is selected for cpu in several layouts, cut into calls as
 * an executor would, and each call's outputs are compared with what the nodes' reference kernels
 * give for the same inputs. Bounds: f32 within 2e-5 of the value plus 2e-6 of the largest one
 * (products and sums round in another order); everything that only moves is equal bit for bit. */
#include "gg.h"
#include "../unit/tap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const cases[] = {
#include "cases.inc"
};

static gg_diag diag = {.tool = "sweep"};
static const gg_backend *cpu;
static bool hit[512];

/* How values that may be channels-last lie: all plain, all channels-last, every other one. */
enum variant { PLAIN, NHWC, MIXED, NOT_CONST, VARIANTS };
static const char *const variant_name[] = {"plain", "nhwc", "mixed", "nothing constant"};

typedef struct world {
	gg_model *m;
	gg_tensor *value; /* by mark of the value - 1 */
	size_t n, cap;
	enum variant variant;
	const char *name;
} world;

static gg_tensor *tensor_of(world *w, gg_value *v)
{
	if (!v->mark) {
		w->value = gg_grow(w->value, w->n, &w->cap, sizeof *w->value);
		w->value[w->n++] = (gg_tensor){0};
		v->mark = w->n;
	}
	return &w->value[v->mark - 1];
}

static void fill_input(world *w, gg_value *v, uint64_t seed)
{
	gg_tensor *t = tensor_of(w, v);
	t->dtype = v->dtype;
	t->shape = v->shape;
	t->data = gg_xaligned(gg_nbytes(t) + 64);
	if (gg_dtype_class(t->dtype) == 'F')
		gg_fill_normal(t, seed, 0, 1);
	else
		gg_fill_uniform(t, seed, 0, 2);
}

static bool reference(world *w, gg_node *n)
{
	gg_tensor in[64] = {0}, out[8] = {0};
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value)
			in[i] = *tensor_of(w, n->in[i].value);
	if (!gg_eval_node(&diag, n, n->nin, in, n->nout, out))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			*tensor_of(w, n->out[i]) = out[i];
	return true;
}

/* ---- layouts -------------------------------------------------------------------------------- */

static bool may_turn(const gg_value *v, const gg_node *n)
{
	const gg_value *out = n->out[0];
	const gg_row *made = v && v->producer ? gg_target_chosen(gg_target_find("cpu"), v->producer) : 0;
	if (v && v->producer && (!made || !(made->layouts >> GG_NHWC & 1)))
		return false;
	const gg_row *r = gg_target_chosen(gg_target_find("cpu"), n);
	if (!v || v->data || v->shape.rank < 3 ||
	    (v->shape.rank != out->shape.rank && !(r->layouts & GG_MIXED)))
		return false;
	return !(n->op->flags & GG_POINTWISE) || gg_shape_eq(&v->shape, &out->shape);
}

/* Of MIXED rows input 0 is data, 3 what is added, and 1 of gradients; the others are weights. */
static bool is_image(const gg_row *r, int i)
{
	return !(r->layouts & GG_MIXED) || !i || i == 3 ||
	       (i == 1 && (r->layouts & GG_PLAIN_OUT || !strcmp(r->op, "MaxPoolGrad")));
}

static void set_layouts(world *w)
{
	const gg_target *t = gg_target_find("cpu");
	int turn = 0;
	for (gg_node *n = w->m->main->first; n; n = n->next) {
		const gg_row *r = gg_target_chosen(t, n);
		if (!r || !(r->layouts >> GG_NHWC & 1) || w->variant == PLAIN || w->variant == NOT_CONST)
			continue;
		if (w->variant == MIXED && !(r->layouts & GG_MIXED))
			continue;
		for (int i = 0; i < n->nin; i++)
			if (is_image(r, i) && may_turn(n->in[i].value, n) &&
			    (w->variant == NHWC || turn++ & 1))
				n->in[i].value->layout = GG_NHWC;
		for (int i = 0; i < (r->layouts & GG_MIXED ? 1 : n->nout); i++)
			if (may_turn(n->out[i], n) && (w->variant == NHWC || turn++ & 1))
				n->out[i]->layout = GG_NHWC;
	}
}

/* ---- one call ------------------------------------------------------------------------------- */

enum { MAX = 64 };
typedef struct slots {
	gg_value *value[MAX];
	gg_tensor t[MAX];
	uint8_t layout[MAX];
	bool fixed[MAX];
	int n;
} slots;

static bool has(const slots *s, const gg_value *v)
{
	for (int i = 0; i < s->n; i++)
		if (s->value[i] == v)
			return true;
	return false;
}

static void add(world *w, slots *s, gg_value *v, bool with_data)
{
	gg_tensor plain = {0}, *t = &s->t[s->n];
	if (!v) { /* a slot that is absent */
		s->n++;
		return;
	}
	plain = *tensor_of(w, v);
	*t = plain;
	t->data = gg_xaligned(gg_nbytes(t) + 64);
	memset(t->data, 0xff, gg_nbytes(t) + 64);
	if (with_data)
		cpu->convert(&plain, GG_PLAIN, t, v->layout);
	s->fixed[s->n] = v->kind == GG_CONST && w->variant != NOT_CONST;
	s->layout[s->n] = v->layout;
	s->value[s->n++] = v;
}

static void drop(slots *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->t[i].data);
}

static bool close_enough(const gg_tensor *got, const gg_tensor *want, char *what, size_t size)
{
	int64_t n = gg_count(want);
	double most = 0;
	if (want->dtype != GG_F32) {
		snprintf(what, size, "bytes differ");
		return !memcmp(got->data, want->data, gg_nbytes(want));
	}
	for (int64_t i = 0; i < n; i++)
		if (isfinite(gg_get_f64(want, i)))
			most = fmax(most, fabs(gg_get_f64(want, i)));
	for (int64_t i = 0; i < n; i++) {
		double g = gg_get_f64(got, i), e = gg_get_f64(want, i);
		if (isnan(g) && isnan(e))
			continue;
		if (g != e && !(fabs(g - e) <= 2e-5 * fabs(e) + 2e-6 * most)) {
			snprintf(what, size, "element %lld is %.9g, expected %.9g", (long long)i, g, e);
			return false;
		}
	}
	return true;
}

static bool compare(world *w, const slots *out, char *what, size_t size)
{
	for (int i = 0; i < out->n; i++) {
		gg_tensor plain = out->t[i];
		if (!out->value[i])
			continue;
		plain.data = gg_xaligned(gg_nbytes(&plain) + 64);
		cpu->convert(&out->t[i], out->layout[i], &plain, GG_PLAIN);
		bool ok = close_enough(&plain, tensor_of(w, out->value[i]), what, size);
		free(plain.data);
		if (!ok)
			return false;
	}
	return true;
}

static bool run_kernel(const gg_kernel *k, gg_call *c)
{
	if (k->prepare && !k->prepare(c))
		return false;
	c->scratch = gg_xaligned(c->workspace + 64);
	bool ok = k->run(c) && k->run(c); /* twice: nothing may be used up */
	free(c->scratch);
	if (k->release)
		k->release(c);
	return ok;
}

static void one_call(world *w, gg_node *n, int len)
{
	const gg_kernel *k = gg_backend_kernel(cpu, n->kernel);
	slots in = {0}, out = {0};
	const gg_node *cover[MAX];
	char what[200] = "the kernel failed";
	gg_node *last = n;
	for (int i = 0; i < len; i++, last = i < len ? last->next : last) {
		cover[i] = last;
		for (int j = 0; j < last->nin; j++) {
			gg_value *v = last->in[j].value;
			bool inside = false;
			for (int q = 0; v && q < i; q++)
				inside |= v->producer == cover[q];
			if (i == 0 || (v && !inside && !has(&in, v)))
				add(w, &in, v, true);
		}
	}
	for (int j = 0; j < last->nout; j++)
		if (last->out[j] || len == 1)
			add(w, &out, last->out[j], false);
	gg_call c = {.d = &diag,
	             .node = n,
	             .cover = cover,
	             .ncover = len,
	             .nin = in.n,
	             .nout = out.n,
	             .in_value = in.value,
	             .out_value = out.value,
	             .in = in.t,
	             .out = out.t,
	             .in_layout = in.layout,
	             .out_layout = out.layout,
	             .in_const = in.fixed};
	bool good = k && run_kernel(k, &c) && compare(w, &out, what, sizeof what);
	ok(good, "%s%s, %s: %s%s%s", n->op->name, len > 1 ? " and what follows" : "",
	   variant_name[w->variant], w->name, good ? "" : " # ", good ? "" : what);
	drop(&in);
	drop(&out);
}

/* ---- one case ------------------------------------------------------------------------------- */

static void run_case(world *w)
{
	const gg_target *t = gg_target_find("cpu");
	gg_select_options o = {.target = "cpu"};
	gg_graph *g = w->m->main;
	if (!gg_infer_graph(&diag, g) || !gg_select(&diag, w->m, &o)) {
		ok(false, "%s", w->name);
		return;
	}
	gg_clear_marks(g);
	for (size_t i = 0; i < g->nin; i++)
		fill_input(w, g->in[i], i + 1);
	for (gg_value *v = g->consts; v; v = v->next_const) {
		gg_tensor t0, *own = tensor_of(w, v);
		if (!gg_value_tensor(&diag, v, &t0))
			continue;
		*own = t0;
		own->data = gg_xaligned(gg_nbytes(&t0) + 64);
		memcpy(own->data, t0.data ? t0.data : own->data, gg_nbytes(&t0));
	}
	for (gg_node *n = g->first; n; n = n->next)
		if (!reference(w, n)) {
			ok(false, "%s: the reference fails", w->name);
			return;
		}
	set_layouts(w);
	for (gg_node *n = g->first, *next; n; n = next) {
		const gg_row *r = gg_target_chosen(t, n);
		int len = gg_target_cover(t, n);
		next = n;
		for (int i = 0; i < len; i++, next = next->next) {
			const gg_row *q = gg_target_chosen(t, next);
			if (q)
				hit[q - t->rows] = true;
		}
		if (r)
			one_call(w, n, len);
		else if (strcmp(w->name, "ref"))
			ok(false, "%s: %s is left to ref", w->name, n->op->name);
	}
}

static void run_text(const char *text, enum variant variant)
{
	static int number;
	gg_source s = {.name = "case", .p = text, .len = strlen(text)};
	world w = {.variant = variant};
	diag = (gg_diag){.tool = "sweep"};
	char name[40];
	snprintf(name, sizeof name, "case %d", ++number);
	if (gg_read_text(&diag, &s, &w.m) != 1) {
		ok(false, "case reads: %s", text);
		return;
	}
	w.name = w.m->name && *w.m->name ? w.m->name : name;
	run_case(&w);
	for (size_t i = 0; i < w.n; i++)
		free(w.value[i].data);
	free(w.value);
	gg_model_free(w.m);
}

int main(void)
{
	const gg_target *t = gg_target_find("cpu");
	cpu = gg_backend_load(&diag, "cpu", 2);
	if (!ok(cpu, "the backend loads"))
		return done();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int v = 0; v < VARIANTS; v++)
			run_text(cases[i], v);
	for (int i = 0; i < t->nrows; i++)
		ok(hit[i], "row %s of %s has a case", t->rows[i].kernel, t->rows[i].op);
	return done();
}
