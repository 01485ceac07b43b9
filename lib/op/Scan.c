#include "trips.h"

/*  args   states..., sequences...      body inputs   states..., elements..., captures...
 *  outs   states..., scanned...        body outputs  states..., elements...            */
static gg_graph *body_of(const gg_node *n) { return gg_find_attr(n, "body")->graph; }

static int nstates(const gg_node *n) { return gg_nargs(n) - (int)gg_get_int(n, "num_scan_inputs"); }

static bool infer_sequence(gg_infer *f, gg_graph *b, int i, int states, gg_dim *length)
{
	const gg_shape *s = &f->in[i].shape;
	gg_shape element = {.rank = s->rank - 1};
	int axis;
	if (s->rank < 0)
		return f->tensors || body_set(f, b->in[i], f->in[i].dtype, NULL);
	if (!gg_axis(f, "scan_input_axes", trip_entry(f->n, "scan_input_axes", i - states), s->rank, &axis))
		return false;
	if (gg_dim_known(*length) && gg_dim_known(s->dim[axis]) && *length != s->dim[axis])
		return gg_fail(f, "input %d has a sequence of %lld, another %lld", i, (long long)s->dim[axis],
		               (long long)*length);
	if (!gg_dim_known(*length))
		*length = s->dim[axis];
	for (int k = 0; k < element.rank; k++)
		element.dim[k] = s->dim[k + (k >= axis)];
	return f->tensors || body_set(f, b->in[i], f->in[i].dtype, &element);
}

static bool infer(gg_infer *f)
{
	gg_graph *b = body_of(f->n);
	int64_t scans = gg_get_int(f->n, "num_scan_inputs");
	int nargs = gg_nargs(f->n), states = nstates(f->n), axis;
	if (scans < 1 || scans > nargs)
		return gg_fail(f, "num_scan_inputs is %lld of %d inputs", (long long)scans, nargs);
	if (f->nout < states)
		return gg_fail(f, "%d outputs for %d states", f->nout, states);
	if (!body_arity(f, b, nargs, f->nout))
		return false;
	gg_dim unknown = gg_dim_sym(gg_printf(f->a, "?%s.length", gg_node_name(f->n))), length = unknown;
	for (int i = 0; i < states && !f->tensors; i++)
		if (!body_set(f, b->in[i], f->in[i].dtype, &f->in[i].shape))
			return false;
	for (int i = states; i < nargs; i++)
		if (!infer_sequence(f, b, i, states, &length))
			return false;
	if (!f->tensors && !gg_infer_graph(f->d, b))
		return false;
	for (int i = 0; i < f->nout; i++) {
		const gg_value *v = b->out[i]->value;
		gg_shape s = body_outside(f, i, &v->shape);
		f->out[i].dtype = (gg_dtype)v->dtype;
		if (i < states) {
			f->out[i].dtype = f->in[i].dtype;
			f->out[i].shape = f->in[i].shape;
			continue;
		}
		if (s.rank < 0 || s.rank == GG_MAX_RANK)
			continue;
		if (!gg_axis(f, "scan_output_axes", trip_entry(f->n, "scan_output_axes", i - states),
		             s.rank + 1, &axis))
			return false;
		f->out[i].shape = body_insert(&s, axis,
		                              length == unknown ? gg_unknown_dim(f, i, axis) : length);
	}
	return true;
}

/* Element `at` of sequence x along axis, in t, whose buffer is large enough. */
static void element(const gg_tensor *x, int axis, int64_t at, gg_tensor *t)
{
	size_t size = gg_dtype_size(x->dtype);
	int64_t outer = gg_span(&x->shape, 0, axis), inner = gg_span(&x->shape, axis + 1, x->shape.rank);
	int64_t n = x->shape.dim[axis];
	gg_move(size, 2, (int64_t[]){outer, inner}, (const char *)x->data + (size_t)(at * inner) * size,
	        (int64_t[]){n * inner, 1}, t->data, (int64_t[]){inner, 1});
}

/* The opposite. */
static bool put(gg_eval *e, int i, const gg_tensor *t, int64_t at, int64_t n, char **place)
{
	int states = nstates(e->n);
	int axis = gg_eval_axis(trip_entry(e->n, "scan_output_axes", i - states), t->shape.rank + 1);
	gg_shape all = body_insert(&t->shape, axis, n);
	size_t size = gg_dtype_size(t->dtype);
	int64_t outer = gg_span(&all, 0, axis), inner = gg_span(&all, axis + 1, all.rank);
	bool good;
	if (!*place)
		*place = body_place(e, i, &all, &good);
	else
		good = gg_shape_eq(&e->out[i].shape, &all) ||
		       gg_fail(e, "output %d changes its shape from trip to trip", i);
	if (!good || !*place)
		return good;
	if (trip_entry(e->n, "scan_output_directions", i - states))
		at = n - 1 - at;
	gg_move(size, 2, (int64_t[]){outer, inner}, t->data, (int64_t[]){inner, 1},
	        *place + (size_t)(at * inner) * size, (int64_t[]){n * inner, 1});
	return true;
}

/* One trip: elements in, states kept, scanned outputs put in place. */
static bool trip(gg_eval *e, int64_t at, int64_t n, gg_tensor *in, gg_tensor *out, body_slot *slot,
                 char **place)
{
	int states = nstates(e->n), args = gg_nargs(e->n);
	for (int i = 0; i < states; i++)
		in[i] = slot[i].t;
	for (int i = states; i < args; i++) {
		int axis = gg_eval_axis(trip_entry(e->n, "scan_input_axes", i - states), e->in[i].shape.rank);
		bool back = trip_entry(e->n, "scan_input_directions", i - states);
		element(&e->in[i], axis, back ? n - 1 - at : at, &in[i]);
	}
	if (!e->run_body(e, 0, args + e->n->ncap, in, e->nout, out))
		return false;
	for (int i = 0; i < states; i++)
		body_keep(&slot[i], &out[i]);
	for (int i = states; i < e->nout; i++)
		if (!put(e, i, &out[i], at, n, &place[i]))
			return false;
	return true;
}

static bool eval(gg_eval *e)
{
	int states = nstates(e->n), args = gg_nargs(e->n), ncap = e->n->ncap;
	gg_tensor *in = gg_alloc_n(e->a, (size_t)(args + ncap), sizeof *in);
	gg_tensor *out = gg_alloc_n(e->a, (size_t)e->nout, sizeof *out);
	char **place = gg_alloc_n(e->a, (size_t)e->nout, sizeof *place);
	body_slot *slot = gg_xcalloc((size_t)states + 1, sizeof *slot);
	int64_t n = 0;
	bool good = true;
	for (int i = 0; i < states; i++)
		slot[i].t = e->in[i];
	for (int i = states; i < args; i++) {
		gg_shape s = e->in[i].shape;
		int axis = gg_eval_axis(trip_entry(e->n, "scan_input_axes", i - states), s.rank);
		n = s.dim[axis];
		for (int k = axis; k + 1 < s.rank; k++)
			s.dim[k] = s.dim[k + 1];
		s.rank--;
		in[i] = (gg_tensor){e->in[i].dtype, s};
		in[i].data = gg_alloc(e->a, gg_nbytes(&in[i]) + 1);
	}
	for (int i = 0; i < ncap; i++)
		in[args + i] = e->in[args + i];
	for (int64_t t = 0; good && t < n; t++)
		good = trip(e, t, n, in, out, slot, place);
	for (int i = 0; good && i < e->nout; i++) {
		gg_shape none = body_nothing(body_of(e->n)->out[i]->value);
		if (i < states) {
			good = body_give(e, i, &slot[i].t);
		} else if (n == 0) {
			none = body_insert(
			    &none,
			    gg_eval_axis(trip_entry(e->n, "scan_output_axes", i - states), none.rank + 1), 0);
			body_place(e, i, &none, &good);
		}
	}
	body_free(slot, states);
	return good;
}

GG_GRAD(grad) { trip_grad(t, n, &(trips){.carried = nstates(n)}); }

const gg_op gg_op_Scan = {.name = "Scan",
                          .doc = "a body run over the elements of sequences",
                          .min_in = 1,
                          .max_in = -1,
                          .min_out = 1,
                          .max_out = -1,
                          .attrs = (const gg_attr_spec[]){{"body", GG_ATTR_GRAPH, true},
                                                          {"num_scan_inputs", GG_ATTR_INT, true},
                                                          {"scan_input_axes", GG_ATTR_INTS},
                                                          {"scan_input_directions", GG_ATTR_INTS},
                                                          {"scan_output_axes", GG_ATTR_INTS},
                                                          {"scan_output_directions", GG_ATTR_INTS},
                                                          {0}},
                          .flags = GG_NOFOLD,
                          .in = {{GG_ANY}},
                          .out = {{GG_ANY}},
                          .infer = infer,
                          .eval = eval,
                          .grad = grad};
