/* The parts of a training step that all optimisers share: see train.h. */
#include "train.h"
#include "../../lib/tool.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ------------------------------------------------------------------------------ */
double train_option(train *t, const char *key, double or)
{
	const char *s = gg_pass_option(t->p, key);
	double x = or ;
	if (s && (!gg_parse_float(s, &x) || !isfinite(x) || x < 0)) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "option '%s' takes a number from 0 on, not '%s'", key, s);
	}
	return x;
}

bool train_flag(train *t, const char *key)
{
	double x = train_option(t, key, 0);
	if (x != 0 && x != 1) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "option '%s' takes 0 or 1", key);
	}
	return x == 1;
}

gg_value *train_add_scaled(train *t, gg_value *a, const char *name, double s, gg_value *b)
{
	if (s == 0 || !a || !b)
		return b ? a : 0;
	if (s != 1)
		b = train_op(t, "Mul", b, train_number(t, name, (gg_dtype)b->dtype, s));
	return train_op(t, "Add", b, a);
}

/* ---- state ---------------------------------------------------------------------------------- */
static gg_value *new_param(train *t, const char *name, gg_dtype type, const gg_shape *s, double start)
{
	double room = 0;
	gg_tensor one = {.dtype = type, .data = &room};
	gg_data *data;
	if (t->b.bad)
		return 0;
	if (gg_find_value(t->b.g, name)) {
		t->b.bad = true;
		gg_error(t->p->d, GG_MALFORMED, "the name '%s' is taken: the graph has such a value already",
		         name);
		return 0;
	}
	if (s->rank) { /* as a generator, so that it takes no room in the stream */
		gg_fill how = start == 0 ? GG_FILL_ZEROS : GG_FILL_UNIFORM;
		data = gg_data_fill(t->p->m, how, 0, start, start);
	} else {
		if (gg_dtype_class(type) == 'F')
			gg_set_f64(&one, 0, start);
		else
			gg_set_i64(&one, 0, (int64_t)start);
		data = gg_data_inline(t->p->m, one.data, (int64_t)gg_dtype_size(type));
	}
	return gg_add_const(t->b.g, GG_PARAM, gg_intern(name), type, s, data);
}

gg_value *train_state(train *t, const char *name, const char *what, gg_value *w, double start)
{
	return w ? new_param(t, gg_printf(&t->p->scratch, "%s.%s", name, what), (gg_dtype)w->dtype, &w->shape,
	                     start)
	         : 0;
}

void train_becomes(train *t, gg_value *state, gg_value *v)
{
	if (t->b.bad || !state || !v)
		return;
	if (!t->apply) {
		gg_add_state(t->b.g, state, v);
		return;
	}
	GG_PUSH(t->pending, t->npending, t->cap_pending, state);
	GG_PUSH(t->pending, t->npending, t->cap_pending, v);
}

/* All choices between new and old stand at the end, so that an update is one piece that can be fused. */
static void hold_back(train *t)
{
	for (size_t i = 0; i < t->npending; i += 2) {
		gg_value *state = t->pending[i], *v = train_select(t, t->apply, t->pending[i + 1], state);
		if (v)
			gg_add_state(t->b.g, state, v);
	}
	free(t->pending);
}

/* ---- learning rate -------------------------------------------------------------------------- */
gg_builder train_scalars(train *t)
{
	gg_builder was = t->b;
	t->b.at = t->head;
	t->b.name = 0;
	return was;
}

void train_back(train *t, gg_builder to)
{
	t->b.at = to.at;
	t->b.name = to.name;
}

gg_value *train_count(train *t)
{
	gg_value *v = t->next;
	for (const gg_use *u = v ? v->uses : 0; u; u = u->next)
		if (u->node && !strcmp(u->node->op->name, "Cast") && u->node->out[0]->dtype == GG_F64)
			return u->node->out[0];
	return train_cast(t, v, GG_F64);
}

static gg_value *f64(train *t, const char *name, double x) { return train_number(t, name, GG_F64, x); }

/* How far the schedule is, from 0 to 1. */
static gg_value *progress(train *t, gg_value *s, double over)
{
	gg_value *x = train_op(t, "Div", s, f64(t, "lr.over", over));
	return train_op(t, "Min", x, f64(t, "lr.one", 1));
}

/* min + (lr - min) factor */
static gg_value *between(train *t, gg_value *factor)
{
	double min = train_option(t, "min_lr", 0);
	gg_value *v = train_op(t, "Mul", f64(t, "lr.range", t->lr - min), factor);
	return min != 0 ? train_op(t, "Add", v, f64(t, "lr.min", min)) : v;
}

static double wanted(train *t, const char *key, const char *schedule)
{
	double x = train_option(t, key, 0);
	if (!(x >= 1) && !t->b.bad) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "schedule '%s' needs the option '%s', at least 1", schedule, key);
	}
	return x;
}

/* s: updates since the schedule began. NULL: the rate is constant. */
static gg_value *scheduled(train *t, const char *how, gg_value *s)
{
	if (!strcmp(how, "step")) {
		gg_value *falls = train_op(
		    t, "Floor", train_op(t, "Div", s, f64(t, "lr.every", wanted(t, "every", how))), 0);
		return train_op(t, "Mul", f64(t, "lr.base", t->lr),
		                train_op(t, "Pow", f64(t, "lr.gamma", train_option(t, "gamma", 0.1)), falls));
	}
	gg_value *x = progress(t, s, wanted(t, "over", how));
	if (!strcmp(how, "cosine")) {
		x = train_op(t, "Cos", train_op(t, "Mul", x, f64(t, "lr.pi", acos(-1))), 0);
		x = train_op(t, "Add", x, f64(t, "lr.one", 1));
		return between(t, train_op(t, "Mul", x, f64(t, "lr.half", 0.5)));
	}
	x = train_op(t, "Sub", f64(t, "lr.one", 1), x);
	return between(t, train_op(t, "Pow", x, f64(t, "lr.power", train_option(t, "power", 1))));
}

static void learning_rate(train *t)
{
	static const char *const known[] = {"constant", "step", "cosine", "polynomial"};
	const char *how = gg_pass_option(t->p, "schedule");
	double warmup = train_option(t, "warmup", 0);
	gg_value *s, *x = 0;
	bool good = false;
	how = how ? how : "constant";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		good |= !strcmp(known[i], how);
	if (!good) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "no schedule is named '%s'", how);
		return;
	}
	if (!strcmp(how, "constant") && !(warmup > 0))
		return;
	s = train_cast(t, t->step, GG_F64);
	if (strcmp(how, "constant")) {
		gg_value *from = s;
		if (warmup > 0)
			from = train_op(t, "Max", train_op(t, "Sub", s, f64(t, "lr.warmup", warmup)),
			                f64(t, "lr.zero", 0));
		x = scheduled(t, how, from);
	}
	if (warmup > 0) {
		gg_value *w = f64(t, "lr.warmup", warmup), *base = f64(t, "lr.base", t->lr);
		gg_value *grown = train_op(t, "Div", train_op(t, "Mul", base, train_count(t)), w);
		x = train_select(t, train_op(t, "Less", s, w), grown, x ? x : base);
	}
	t->rate = x;
}

gg_value *train_rate(train *t, gg_dtype type)
{
	gg_value *v = gg_find_value(t->b.g, "lr");
	if (!t->rate)
		return train_number(t, "lr", type, t->lr);
	if (v && v->producer && gg_in(v->producer, 0) == t->rate && v->dtype == type)
		return v;
	gg_builder was = train_scalars(t);
	v = train_make(t, "Cast", 1, &t->rate, "lr");
	if (v)
		gg_set_attr_dtype(v->producer, "to", type);
	v = train_done(t, v);
	train_back(t, was);
	return v;
}

/* ---- gradients ------------------------------------------------------------------------------ */
typedef struct item {
	gg_value *w, *g;
	gg_node *last; /* what reads the parameter or makes the gradient, whichever is later */
} item;
typedef struct items {
	item *p;
	size_t n, cap;
} items;

/* The last node that reads w or makes g: its update may stand right behind it. */
static gg_node *last_node(const gg_value *w, const gg_value *g)
{
	gg_node *last = g->producer;
	for (const gg_use *u = w->uses; u; u = u->next)
		if (u->node && (!last || u->node->order > last->order))
			last = u->node;
	return last;
}

static bool collect(train *t, items *l)
{
	gg_graph_number(t->b.g);
	for (gg_value *w = t->b.g->consts; w; w = w->next_const) {
		gg_value *g = w->kind == GG_PARAM
		                  ? gg_find_value(t->b.g, gg_printf(&t->p->scratch, "grad.%s", w->name))
		                  : 0;
		if (!g)
			continue;
		if (gg_shape_known(&w->shape) && !gg_shape_count(&w->shape))
			continue; /* nothing to train */
		if (w->updated)
			return gg_error(t->p->d, GG_MALFORMED,
			                "parameter '%s' is updated already: one optimiser is enough",
			                w->name);
		if (gg_dtype_class((gg_dtype)w->dtype) != 'F')
			return gg_error(t->p->d, GG_UNSUPPORTED,
			                "parameter '%s' is %s, which cannot be trained", w->name,
			                gg_dtype_name((gg_dtype)w->dtype));
		GG_PUSH(l->p, l->n, l->cap, ((item){w, g, last_node(w, g)}));
	}
	return l->n || gg_error(t->p->d, GG_USAGE,
	                        "no parameter has a gradient: the passes loss and grad come first");
}

static void clip_value(train *t, items *l, double limit)
{
	for (size_t i = 0; i < l->n; i++) {
		gg_value *g = l->p[i].g;
		gg_dtype type = (gg_dtype)g->dtype;
		l->p[i].g = train_done(t,
		                       train_make(t, "Clip", 3,
		                                  (gg_value *[]){g, train_number(t, "clip.min", type, -limit),
		                                                 train_number(t, "clip.max", type, limit)},
		                                  0));
	}
}

static void clip_norm(train *t, items *l, double limit)
{
	gg_value **sum = gg_alloc_n(&t->p->scratch, l->n, sizeof *sum), *x;
	for (size_t i = 0; i < l->n; i++)
		sum[i] = train_all(t, "ReduceSumSquare", train_cast(t, l->p[i].g, GG_F32));
	x = l->n > 1 ? train_done(t, train_make(t, "Sum", (int)l->n, sum, "grad_norm")) : sum[0];
	x = train_done(t, train_make(t, "Sqrt", 1, &x, "grad_norm"));
	x = train_op(t, "Add", x, train_number(t, "clip.eps", GG_F32, 1e-6));
	x = train_op(t, "Div", train_number(t, "clip.norm", GG_F32, limit), x);
	x = train_op(t, "Min", x, train_number(t, "clip.one", GG_F32, 1));
	for (size_t i = 0; i < l->n; i++)
		l->p[i].g = train_op(t, "Mul", train_cast(t, l->p[i].g, GG_F32), x);
}

/* ---- loss scale -------------------------------------------------------------------------------
 * autocast leaves a node ScaleGradient: loss, the scale by which all gradients are multiplied, and where
 * it is to adapt the updates since it last changed. */
static gg_node *scaled_loss(const gg_graph *g)
{
	gg_node *n = g->first;
	while (n && (strcmp(n->op->name, "ScaleGradient") || gg_in(n, 1)->kind != GG_PARAM))
		n = n->next;
	return n;
}

static void unscale(train *t, items *l, gg_value *scale)
{
	gg_value *inverse = train_op(t, "Reciprocal", scale, 0);
	for (size_t i = 0; i < l->n; i++)
		l->p[i].g = train_op(t, "Mul", train_cast(t, l->p[i].g, GG_F32), inverse);
}

/* The largest magnitude is below infinity: false for NaN too. */
static gg_value *all_finite(train *t, const items *l)
{
	gg_value **most = gg_alloc_n(&t->p->scratch, l->n, sizeof *most), *x;
	for (size_t i = 0; i < l->n; i++)
		most[i] = train_all(t, "ReduceMax", train_op(t, "Abs", train_cast(t, l->p[i].g, GG_F32), 0));
	x = l->n > 1 ? train_done(t, train_make(t, "Max", (int)l->n, most, "grad_max")) : most[0];
	return train_op(t, "Less", x, train_number(t, "grad.inf", GG_F32, INFINITY));
}

/* Doubled after 2000 good updates in a row, halved after one that overflowed. */
static void adapt(train *t, gg_value *scale, gg_value *good, gg_value *finite)
{
	gg_value *zero = train_number(t, "loss_scale.none", GG_I64, 0), *full = t->apply;
	gg_value *count = train_op(t, "Add", good, train_number(t, "loss_scale.one", GG_I64, 1));
	gg_value *grow = train_op(t, "Equal", count, train_number(t, "loss_scale.interval", GG_I64, 2000));
	gg_value *more = train_op(t, "Mul", scale, train_number(t, "loss_scale.growth", GG_F32, 2));
	gg_value *less = train_op(t, "Mul", scale, train_number(t, "loss_scale.backoff", GG_F32, 0.5));
	gg_value *next = train_select(t, finite, train_select(t, grow, more, scale), less);
	count = train_select(t, finite, train_select(t, grow, zero, count), zero);
	if (full) {
		next = train_select(t, full, next, scale);
		count = train_select(t, full, count, good);
	}
	if (t->b.bad)
		return;
	gg_add_state(t->b.g, scale, next);
	gg_add_state(t->b.g, good, count);
}

static void skip_overflow(train *t, const items *l, gg_value *scale, gg_value *good)
{
	gg_value *finite = all_finite(t, l);
	if (good && good->kind == GG_PARAM)
		adapt(t, scale, good, finite);
	t->apply = t->apply ? train_op(t, "And", t->apply, finite) : finite;
}

/* ---- accumulation --------------------------------------------------------------------------- */
/* Steps of a group are counted in 'accumulated'; its last makes the update. */
static void accumulate(train *t, items *l, double n)
{
	gg_value *zero = train_number(t, "accumulate.none", GG_I64, 0);
	gg_value *one = train_number(t, "accumulate.one", GG_I64, 1);
	gg_value *size = train_number(t, "accumulate.size", GG_I64, n);
	gg_value *count = new_param(t, "accumulated", GG_I64, &(gg_shape){.rank = 0}, 0);
	gg_value *next = train_op(t, "Add", count, one);
	gg_value *full = train_op(t, "Equal", next, size);
	train_becomes(t, count, train_select(t, full, zero, next));
	for (size_t i = 0; i < l->n; i++) {
		gg_dtype type = l->p[i].w->dtype == GG_F64 ? GG_F64 : GG_F32;
		gg_value *g = train_cast(t, l->p[i].g, type);
		gg_value *sum = train_state(t, l->p[i].w->name, "accumulated", g, 0);
		g = train_op(t, "Add", sum, g);
		train_becomes(t, sum, train_select(t, full, train_number(t, "accumulate.zero", type, 0), g));
		l->p[i].g = train_op(t, "Div", g, train_number(t, "accumulate.steps", type, n));
	}
	t->apply = full;
}

static void update_all(train *t, const items *l, bool early, train_update *update)
{
	for (size_t i = 0; i < l->n && !t->b.bad; i++) {
		const item *k = &l->p[i];
		gg_dtype type = k->w->dtype == GG_F64 ? GG_F64 : GG_F32;
		t->b.name = gg_printf(&t->p->scratch, "update.%s", k->w->name);
		t->b.at = early && k->last ? k->last->next : 0;
		gg_value *w = update(t, k->w->name, train_cast(t, k->w, type), train_cast(t, k->g, type));
		train_becomes(t, k->w, train_cast(t, w, (gg_dtype)k->w->dtype));
	}
}

bool train_run(gg_pass_run *p, gg_graph *g, double lr, train_update *update)
{
	train t = {.p = p, .b = {.d = p->d, .g = g}, .head = g->first};
	items l = {0};
	if (g->owner)
		return true;
	if (!collect(&t, &l) || !gg_apply(p, 0)) {
		free(l.p);
		return p->d->errors == 0;
	}
	double value = train_option(&t, "clip_value", 0), norm = train_option(&t, "clip_norm", 0);
	double group = train_option(&t, "accumulate", 1);
	t.lr = train_option(&t, "lr", lr);
	if (group < 1 || group != floor(group))
		t.b.bad = !gg_error(p->d, GG_USAGE, "option 'accumulate' takes a whole number from 1 on");
	train_scalars(&t);
	t.step = new_param(&t, "step", GG_I64, &(gg_shape){.rank = 0}, 0);
	t.next = train_op(&t, "Add", t.step, train_number(&t, "step.one", GG_I64, 1));
	learning_rate(&t);
	t.b.at = 0;
	gg_node *scaled = scaled_loss(g);
	gg_value *scale = scaled ? gg_in(scaled, 1) : 0;
	if (scale && gg_one_use(scale))
		t.b.bad = !gg_error(p->d, GG_MALFORMED,
		                    "no gradient is multiplied by '%s': autocast comes before grad",
		                    scale->name);
	if (scale)
		unscale(&t, &l, scale);
	if (group > 1)
		accumulate(&t, &l, group);
	if (scale)
		skip_overflow(&t, &l, scale, gg_in(scaled, 2));
	if (value > 0)
		clip_value(&t, &l, value);
	if (norm > 0)
		clip_norm(&t, &l, norm);
	update_all(&t, &l, !t.apply && norm <= 0 && value <= 0, update);
	t.b.at = 0;
	t.b.name = 0;
	train_becomes(&t, t.step, t.next);
	hold_back(&t);
	free(l.p);
	return !t.b.bad;
}
