#include "trips.h"

/*  args   M, cond, carried...          body inputs   iteration, cond, carried..., captures...
 *  outs   carried..., scanned...       body outputs  cond, carried..., scanned...            */
enum { BEFORE = 2 };

static gg_graph *body_of(const gg_node *n) { return gg_find_attr(n, "body")->graph; }

static int ncarried(const gg_node *n) { return gg_nargs(n) > BEFORE ? gg_nargs(n) - BEFORE : 0; }

static bool given(const gg_infer *f, int i) { return i < f->nin && f->in[i].dtype != GG_NONE; }

/* Where body output `o` differs from its input `s`, the input's shape is not known. True: it changed. */
static bool widen(gg_infer *f, int i, gg_shape *s, const gg_shape *o)
{
	if (s->rank < 0)
		return false;
	if (o->rank != s->rank) {
		*s = gg_shape_unknown;
		return true;
	}
	bool changed = false;
	for (int k = 0; k < s->rank; k++) {
		gg_dim varies = gg_dim_sym(gg_printf(f->a, "?%s.in%d.%d", gg_node_name(f->n), i, k));
		if (o->dim[k] == s->dim[k] || s->dim[k] == varies)
			continue;
		s->dim[k] = varies;
		changed = true;
	}
	return changed;
}

/* Shapes of carried values that hold on every trip: starts with those of the first, and infers
 * copies of the body until nothing changes. */
static void settle(gg_infer *f, const gg_graph *b, gg_shape *s)
{
	int n = ncarried(f->n);
	for (int trip = 0, changed = 1; changed; trip++) {
		gg_diag silent = {.silent = true};
		gg_graph *c = gg_clone_body(b, f->n->graph->m);
		for (int i = 0; i < n; i++) {
			c->in[BEFORE + i]->dtype = (uint8_t)f->in[BEFORE + i].dtype;
			c->in[BEFORE + i]->shape = s[i];
		}
		bool good = gg_infer_graph(&silent, c);
		changed = 0;
		for (int i = 0; i < n; i++) {
			bool unsure = !good || trip > GG_MAX_RANK;
			changed |= widen(f, i, &s[i],
			                 unsure ? &gg_shape_unknown : &c->out[1 + i]->value->shape);
		}
	}
}

static bool infer_body(gg_infer *f, gg_graph *b)
{
	int n = ncarried(f->n);
	gg_shape scalar = gg_shape_of(0, NULL), *s = gg_alloc_n(f->a, (size_t)n + 1, sizeof *s);
	bool open = false;
	for (int i = 0; i < BEFORE; i++)
		if (!body_set(f, b->in[i], i ? GG_BOOL : GG_I64, b->in[i]->shape.rank < 0 ? &scalar : NULL))
			return false;
	for (int i = 0; i < n; i++) {
		const gg_value *v = b->in[BEFORE + i];
		s[i] = v->shape.rank < 0 ? f->in[BEFORE + i].shape : v->shape;
		open |= v->shape.rank < 0 && s[i].rank >= 0;
		if (!body_set(f, b->in[BEFORE + i], f->in[BEFORE + i].dtype, NULL))
			return false;
	}
	if (open)
		settle(f, b, s);
	for (int i = 0; i < n; i++)
		if (!body_set(f, b->in[BEFORE + i], GG_NONE,
		              b->in[BEFORE + i]->shape.rank < 0 ? &s[i] : NULL))
			return false;
	return gg_infer_graph(f->d, b);
}

/* Without a condition M alone counts, and the body's own is ignored; one that is true and that the
 * body hands through does not end the loop either. */
static bool counts_to_m(gg_infer *f, const gg_graph *b)
{
	if (!given(f, 0))
		return false;
	if (!given(f, 1))
		return true;
	const gg_tensor *cond = gg_want(f, 1);
	const gg_value *v = b->out[0]->value;
	while (v->producer && !strcmp(v->producer->op->name, "Identity"))
		v = gg_in(v->producer, 0);
	return cond && gg_count(cond) == 1 && *(const uint8_t *)cond->data && v == b->in[1];
}

static bool infer(gg_infer *f)
{
	gg_graph *b = body_of(f->n);
	int carried = ncarried(f->n), n;
	if (!given(f, 0) && !given(f, 1))
		return gg_fail(f, "neither a trip count nor a condition: it would not end");
	if (f->nout < carried)
		return gg_fail(f, "%d outputs for %d carried values", f->nout, carried);
	if (!body_arity(f, b, BEFORE + carried, 1 + f->nout) || (!f->tensors && !infer_body(f, b)))
		return false;
	const gg_dim *m = counts_to_m(f, b) ? gg_want_dims(f, 0, &n) : NULL;
	for (int i = 0; i < f->nout; i++) {
		const gg_value *v = b->out[1 + i]->value;
		gg_shape s = body_outside(f, i, &v->shape);
		f->out[i].dtype = (gg_dtype)v->dtype;
		if (i < carried) {
			gg_dtype t = f->in[BEFORE + i].dtype;
			if (t && v->dtype && v->dtype != t)
				return gg_fail(f, "carried value %d is %s at first and %s then", i,
				               gg_dtype_name(t), gg_dtype_name((gg_dtype)v->dtype));
			f->out[i].dtype = t;
			f->out[i].shape = body_common(f, i, &s, &f->in[BEFORE + i].shape);
			continue;
		}
		if (s.rank < 0 || s.rank == GG_MAX_RANK)
			continue;
		gg_dim trips = m && n == 1 ? (gg_dim_number(m[0]) && m[0] < 0 ? 0 : m[0])
		                           : gg_unknown_dim(f, i, s.rank);
		f->out[i].shape = body_insert(&s, 0, trips);
	}
	return true;
}

/* One scanned output: the trips' values one after another. */
typedef struct scanned {
	gg_buf bytes;
	gg_shape shape;
} scanned;

static bool append(gg_eval *e, int i, scanned *s, const gg_tensor *t, int64_t trip)
{
	if (trip == 0)
		s->shape = t->shape;
	else if (!gg_shape_eq(&s->shape, &t->shape))
		return gg_fail(e, "output %d has shape %s on trip %lld, before it was %s", i,
		               gg_shape_str(e->a, &t->shape), (long long)trip, gg_shape_str(e->a, &s->shape));
	if (gg_nbytes(t))
		gg_buf_add(&s->bytes, t->data, gg_nbytes(t));
	return true;
}

static bool finish(gg_eval *e, int carried, const body_slot *slot, const scanned *scan, int64_t trips)
{
	const gg_graph *b = body_of(e->n);
	for (int i = 0; i < e->nout; i++) {
		if (i < carried) {
			if (!body_give(e, i, &slot[i].t))
				return false;
			continue;
		}
		const scanned *sc = &scan[i - carried];
		gg_shape one = trips ? sc->shape : body_nothing(b->out[1 + i]->value),
		         all = body_insert(&one, 0, trips);
		bool good;
		void *p = body_place(e, i, &all, &good);
		if (!good)
			return false;
		if (p && sc->bytes.len)
			memcpy(p, sc->bytes.p, sc->bytes.len);
	}
	return true;
}

/* The iteration number and the condition are scalars, or of one element where the body says so. */
static gg_tensor one(gg_eval *e, int i, gg_dtype t, void *data)
{
	const gg_shape *s = &body_of(e->n)->in[i]->shape;
	return (gg_tensor){t, s->rank == 1 ? gg_shape_of(1, &(gg_dim){1}) : gg_shape_of(0, NULL), data};
}

static bool eval(gg_eval *e)
{
	int carried = ncarried(e->n), args = gg_nargs(e->n), ncap = e->n->ncap;
	int nin = BEFORE + carried + ncap, nout = 1 + e->nout, nscan = e->nout - carried;
	gg_tensor *in = gg_alloc_n(e->a, (size_t)nin, sizeof *in),
	          *out = gg_alloc_n(e->a, (size_t)nout, sizeof *out);
	scanned *scan = gg_alloc_n(e->a, (size_t)nscan + 1, sizeof *scan);
	body_slot *slot = gg_xcalloc((size_t)carried + 1, sizeof *slot);
	bool asked = args > 1 && e->in[1].dtype != GG_NONE, good = true;
	uint8_t go = asked ? *(const uint8_t *)e->in[1].data != 0 : 1;
	int64_t limit = args > 0 && e->in[0].dtype != GG_NONE ? gg_get_i64(&e->in[0], 0) : INT64_MAX,
	        trip = 0;
	for (int i = 0; i < carried; i++)
		slot[i].t = e->in[BEFORE + i];
	for (int i = 0; i < ncap; i++)
		in[BEFORE + carried + i] = e->in[args + i];
	for (; good && go && trip < limit; trip++) {
		in[0] = one(e, 0, GG_I64, &trip);
		in[1] = one(e, 1, GG_BOOL, &go);
		for (int i = 0; i < carried; i++)
			in[BEFORE + i] = slot[i].t;
		good = e->run_body(e, 0, nin, in, nout, out);
		for (int i = 0; good && i < carried; i++)
			body_keep(&slot[i], &out[1 + i]);
		for (int i = 0; good && i < nscan; i++)
			good = append(e, carried + i, &scan[i], &out[1 + carried + i], trip);
		if (good && asked)
			go = *(const uint8_t *)out[0].data != 0;
	}
	good = good && finish(e, carried, slot, scan, trip);
	for (int i = 0; i < nscan; i++)
		gg_buf_fini(&scan[i].bytes);
	body_free(slot, carried);
	return good;
}

GG_GRAD(grad) { trip_grad(t, n, &(trips){.carried = ncarried(n), .in = BEFORE, .out = 1}); }

const gg_op gg_op_Loop = {.name = "Loop",
                          .doc = "a body run again and again",
                          .min_in = 2,
                          .max_in = -1,
                          .min_out = 1,
                          .max_out = -1,
                          .attrs = (const gg_attr_spec[]){{"body", GG_ATTR_GRAPH, true}, {0}},
                          .in = {{GG_DT(GG_I64)}, {GG_DT(GG_BOOL)}, {GG_ANY}},
                          .out = {{GG_ANY}},
                          .optional = 1 << 0 | 1 << 1,
                          .flags = GG_NOFOLD | GG_DATA_SHAPE,
                          .infer = infer,
                          .eval = eval,
                          .grad = grad};
