/* GridSample: the input read at the places that grid names, from -1 at one end of an axis to 1 at
 * the other. The last axis of grid holds a place, last spatial axis first. */
#include "gridsample.h"
#include "grad.h"

static bool infer(gg_infer *f) { return grid_shape(f, &f->in[0].shape, &f->in[1].shape, &f->out[0].shape); }

static bool eval(gg_eval *e)
{
	const gg_shape *x = &e->in[0].shape, *y = &e->out[0].shape;
	grid_sampler s = grid_sampler_of(e->n);
	int64_t channels = x->dim[1], plane = gg_span(x, 2, x->rank), places = gg_span(y, 2, y->rank);
	if (!gg_count(&e->out[0]))
		return true;
	if (!plane)
		return gg_fail(e, "an empty input cannot be sampled");
	double *v = gg_doubles(&e->in[0]);
	for (int64_t b = 0; b < x->dim[0]; b++)
		for (int64_t p = 0; p < places; p++) {
			grid_taps t[GG_MAX_RANK];
			grid_place(&s, x, &e->in[1], b * places + p, t);
			for (int64_t c = b * channels; c < (b + 1) * channels; c++)
				gg_set_f64(&e->out[0], c * places + p,
				           grid_sample(t, x, 2, -1, v + c * plane, 0));
		}
	free(v);
	return true;
}

/* Both from one node, as they read the same places. */
GG_GRAD(grad)
{
	static const char *const base[] = {"gradient", "gradient.grid"};
	gg_value *in[] = {dy, IN(0), IN(1)};
	const char *name[2];
	for (int i = 0; i < 2; i++)
		name[i] = gg_grad_wanted(IN(i)) ? gg_fresh_name(t->g, base[i]) : 0;
	gg_node *k = gg_add_node(t->g, t->at, gg_op_find("GridSampleGrad"), 3, in, 2, name);
	gg_copy_attrs(k, n);
	t->bad = !gg_infer_node(t->d, k);
	for (int i = 0; i < 2 && !t->bad; i++)
		gg_give(t, IN(i), k->out[i]);
}

const gg_op gg_op_GridSample = {.name = "GridSample",
                                .doc = "the input read at the places that a grid names",
                                .min_in = 2,
                                .max_in = 2,
                                .min_out = 1,
                                .max_out = 1,
                                .attrs = GRID_ATTRS,
                                .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'G'}},
                                .out = {{GG_FLOATS, 'T'}},
                                .infer = infer,
                                .eval = eval,
                                .grad = grad};
