/* The gradients of Loop and Scan. The node keeps what each trip started with as further scanned outputs, and
 * a Scan of the backward body reads them from the last trip to the first:
 *
 *   states     gradients of what is carried; sums of the gradients of captures
 *   elements   what the trip started with, the elements it read, the gradients of those it gave
 *   scanned    gradients of the elements it read */
#ifndef GG_OP_TRIPS_H
#define GG_OP_TRIPS_H

#include "body.h"
#include "bodygrad.h"

/* Where the carried values start: among arguments and the body's inputs, and among the body's outputs. */
typedef struct trips {
	int carried, in, out;
} trips;

/* Entry i of an optional list of numbers, 0 when it is left out. */
static inline int64_t trip_entry(const gg_node *n, const char *list, int i)
{
	const gg_attr *a = gg_find_attr(n, list);
	return a && i < a->n ? a->ints[i] : 0;
}

/* One value that goes through the backward node: from outside into its body, and out of it. */
typedef struct trip_flow {
	gg_value *from, *in; /* outside, and the body's input that stands for it; or NULL */
	gg_value *out, *to;  /* the body's output, the gradient of `to`; or NULL */
	int64_t axis, back;  /* of elements: back: from the last to the first */
} trip_flow;

typedef struct trip_back {
	gg_builder *t, b; /* around the node, and in the backward body */
	gg_node *n;
	const trips *at;
	trip_flow *state, *element, *given;
	int states, elements, givens;
} trip_back;

/* What is carried is wanted where it starts so, or is made of what is wanted on some trip. */
static inline gg_node *trip_want(trip_back *k)
{
	gg_graph *g = k->b.g;
	gg_node *last = 0, *n = k->n;
	for (int i = k->at->in; i < n->nin; i++)
		back_want(g->in[i], n->in[i].value);
	for (bool more = !k->b.bad; more;) {
		more = false;
		last = gg_grad_made(&k->b, 0);
		for (int i = 0; i < k->at->carried; i++) {
			gg_value *v = g->in[k->at->in + i];
			bool grows = !v->mark && gg_grad_wanted(g->out[k->at->out + i]->value);
			v->mark = grows ? GG_GRAD_WANTED : v->mark;
			more |= grows;
		}
	}
	return last;
}

/* Carried value c has one shape on all trips, so that they can be kept and its gradient carried. */
static inline bool trip_steady(trip_back *k, int c)
{
	const gg_graph *body = gg_body(k->n, 0);
	const gg_shape *in = &body->in[k->at->in + c]->shape, *out = &body->out[k->at->out + c]->value->shape;
	if (!gg_shape_eq(in, out))
		gg_grad_lacks(k->t, k->n,
		              gg_printf(&k->t->g->m->arena,
		                        "the shape of its carried value %d may change from trip to trip", c));
	return !k->t->bad;
}

/* The gradients of what the body gives: of what it carries, from the next trip; of what is scanned, from
 * outside. */
static inline void trip_seed(trip_back *k)
{
	const trips *at = k->at;
	gg_node *n = k->n;
	for (int i = 0; i < n->nout && !k->b.bad; i++) {
		gg_value *y = k->b.g->out[at->out + i]->value, *dy = gg_grad_out(n, i);
		int s = i - at->carried;
		if (s < 0 && gg_grad_wanted(k->b.g->in[at->in + i])) {
			gg_value *v = IN(at->in + i);
			if (!trip_steady(k, i))
				return;
			k->state[k->states++] = (trip_flow){
			    .from = dy ? dy : back_zeros(k->t, v), .in = back_seed(&k->b, y), .to = v};
		}
		if (s >= 0 && dy)
			k->element[k->elements++] = (trip_flow){
			    .from = dy,
			    .in = back_seed(&k->b, y),
			    .axis = trip_entry(n, "scan_output_axes", s),
			    .back = !trip_entry(n, "scan_output_directions", s)};
	}
}

/* The gradients of what the body reads. */
static inline void trip_collect(trip_back *k)
{
	const trips *at = k->at;
	gg_node *n = k->n;
	int args = gg_nargs(n);
	for (int i = 0, s = 0; i < at->carried; i++)
		if (gg_grad_wanted(k->b.g->in[at->in + i]))
			k->state[s++].out = back_given(&k->b, k->b.g->in[at->in + i]);
	for (int i = at->in + at->carried; i < n->nin && !k->b.bad; i++) {
		gg_value *v = k->b.g->in[i], *dv = gg_grad_of(v), *outside = n->in[i].value;
		int s = i - at->in - at->carried;
		if (dv && i < args)
			k->given[k->givens++] = (trip_flow){
			    .out = dv,
			    .to = outside,
			    .axis = trip_entry(n, "scan_input_axes", s),
			    .back = !trip_entry(n, "scan_input_directions", s)};
		if (!dv || i < args)
			continue;
		gg_value *sum = gg_add_input(k->b.g, gg_fresh_name(k->b.g, "sum"), (gg_dtype)v->dtype,
		                             &v->shape);
		k->state[k->states++] = (trip_flow){.from = back_zeros(k->t, outside),
		                                    .in = sum,
		                                    .out = gg_put_op(&k->b, "Add", sum, dv),
		                                    .to = outside};
	}
}

/* What body input i was on each trip, as an element. */
static inline void trip_keep(trip_back *k, int i)
{
	const trips *at = k->at;
	gg_node *n = k->n;
	gg_graph *body = gg_body(n, 0);
	gg_value *v = body->in[i], *kept = 0;
	if (i >= at->in && !trip_steady(k, i - at->in))
		return;
	for (int s = 0; s + at->carried < n->nout && !kept; s++)
		if (body->out[at->out + at->carried + s]->value == v &&
		    !trip_entry(n, "scan_output_axes", s) && !trip_entry(n, "scan_output_directions", s))
			kept = n->out[at->carried + s];
	if (!kept) {
		gg_add_output(body, v);
		kept = gg_add_result(n, gg_fresh_name(n->graph, v->name));
	}
	k->element[k->elements++] = (trip_flow){.from = kept, .in = k->b.g->in[i], .back = 1};
}

/* Argument i on each trip, as an element: kept, or of a sequence. */
static inline void trip_element(trip_back *k, int i)
{
	gg_node *n = k->n;
	int s = i - k->at->in - k->at->carried;
	if (s < 0)
		trip_keep(k, i);
	else
		k->element[k->elements++] = (trip_flow){.from = IN(i),
		                                        .in = k->b.g->in[i],
		                                        .axis = trip_entry(n, "scan_input_axes", s),
		                                        .back = !trip_entry(n, "scan_input_directions", s)};
}

/* The elements that the backward body reads, one at least, which tells it the number of trips. */
static inline bool trip_elements(trip_back *k)
{
	for (int i = 0; i < gg_nargs(k->n) && !k->t->bad; i++)
		if (k->b.g->in[i]->uses)
			trip_element(k, i);
	if (!k->elements)
		trip_element(k, k->at->in ? 0 : k->at->carried);
	k->t->bad |= !k->t->bad && !gg_infer_node(k->t->d, k->n);
	return !k->t->bad;
}

/* The backward body's inputs: states, elements, captures, and no others. */
static inline void trip_order(trip_back *k, gg_value **in)
{
	gg_graph *g = k->b.g;
	size_t count = 0;
	gg_clear_marks(g);
	for (int i = 0; i < k->states; i++)
		in[count++] = k->state[i].in;
	for (int i = 0; i < k->elements; i++)
		in[count++] = k->element[i].in;
	for (int i = gg_nargs(k->n); i < k->n->nin; i++)
		in[count++] = g->in[i];
	for (size_t i = 0; i < count; i++)
		in[i]->mark = 1;
	for (size_t i = g->nin; i-- > 0;)
		if (!g->in[i]->mark)
			gg_remove_input(g, i);
	for (size_t i = 0; i < count; i++) {
		g->in[i] = in[i];
		in[i]->index = (int)i;
	}
}

static inline void trip_lists(gg_node *n, const char *axes, const char *ways, int count, const trip_flow *f)
{
	int64_t *axis = gg_alloc_n(&n->graph->m->arena, (size_t)count, sizeof *axis);
	int64_t *way = gg_alloc_n(&n->graph->m->arena, (size_t)count, sizeof *way);
	bool any_axis = false, any_way = false;
	for (int i = 0; i < count; i++) {
		any_axis |= (axis[i] = f[i].axis) != 0;
		any_way |= (way[i] = f[i].back) != 0;
	}
	if (any_axis)
		gg_set_attr_ints(n, axes, count, axis);
	if (any_way)
		gg_set_attr_ints(n, ways, count, way);
}

static inline void trip_node(trip_back *k)
{
	gg_builder *t = k->t;
	int nin = 0, nout = k->states + k->givens;
	gg_value **in = gg_alloc_n(&t->g->m->arena, (size_t)(k->states + k->elements + k->n->ncap),
	                           sizeof *in);
	trip_order(k, in);
	for (int i = 0; i < k->states; i++)
		in[nin++] = k->state[i].from;
	for (int i = 0; i < k->elements; i++)
		in[nin++] = k->element[i].from;
	for (int i = gg_nargs(k->n); i < k->n->nin; i++)
		in[nin++] = k->n->in[i].value;
	gg_node *s = gg_add_node(t->g, t->at, gg_op_find("Scan"), nin, in, 0, 0);
	s->ncap = k->n->ncap;
	gg_set_attr_graph(s, "body", k->b.g);
	gg_set_attr_int(s, "num_scan_inputs", k->elements);
	trip_lists(s, "scan_input_axes", "scan_input_directions", k->elements, k->element);
	trip_lists(s, "scan_output_axes", "scan_output_directions", k->givens, k->given);
	for (int i = 0; i < nout; i++)
		gg_add_result(s, gg_fresh_name(t->g, "gradient"));
	back_drop_captures(s);
	t->bad = !gg_infer_node(t->d, s);
	for (int i = 0; i < nout && !t->bad; i++)
		back_give(t, s, i, i < k->states ? k->state[i].to : k->given[i - k->states].to);
}

static inline void trip_grad(gg_builder *t, gg_node *n, const trips *at)
{
	gg_arena *a = &t->g->m->arena;
	size_t most = (size_t)(n->nin + n->nout);
	trip_back k = {.t = t, .n = n, .at = at, .b = back_copy(t, n, gg_body(n, 0))};
	k.state = gg_alloc_n(a, most, sizeof *k.state);
	k.element = gg_alloc_n(a, most, sizeof *k.element);
	k.given = gg_alloc_n(a, most, sizeof *k.given);
	gg_value **out = gg_alloc_n(a, most, sizeof *out);
	if (at->in) { /* a trip begins where the condition holds */
		gg_tensor yes = {.dtype = GG_BOOL, .shape = k.b.g->in[1]->shape, .data = &(bool){true}};
		yes.shape = yes.shape.rank == 1 ? gg_shape_of(1, &(gg_dim){1}) : gg_shape_of(0, 0);
		gg_replace_uses(k.b.g->in[1], gg_add_tensor(k.b.g, "yes", &yes));
	}
	gg_node *last = trip_want(&k);
	trip_seed(&k);
	k.b.bad |= t->bad;
	gg_grad_back(&k.b, 0, last);
	trip_collect(&k);
	for (int i = 0; i < k.states + k.givens; i++)
		out[i] = i < k.states ? k.state[i].out : k.given[i - k.states].out;
	t->bad |= k.b.bad || !back_end(&k.b, n, k.states + k.givens, out);
	if (!t->bad && k.states + k.givens && trip_elements(&k))
		trip_node(&k);
}

#endif
