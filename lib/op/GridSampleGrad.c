#include "gridsample.h"
#include "grad.h"

enum { DY, X, GRID };

static bool infer(gg_infer *f)
{
	const gg_shape *dy = &f->in[DY].shape;
	gg_shape y;
	if (!grid_shape(f, &f->in[X].shape, &f->in[GRID].shape, &y))
		return false;
	f->out[0].shape = f->in[X].shape;
	if (f->nout > 1)
		f->out[1].shape = f->in[GRID].shape;
	return shapes_agree(dy, &y) ||
	       gg_fail(f, "dy has shape %s, the sample's is %s", gg_str(f, dy), gg_str(f, &y));
}

/* dy to the elements of a plane that a place reads. */
static void spread(const grid_taps *t, const gg_shape *x, int axis, double dy, double *plane, int64_t at)
{
	if (axis == x->rank) {
		plane[at] += dy;
		return;
	}
	for (int i = 0; i < t->count; i++)
		if (t->at[i] >= 0)
			spread(t + 1, x, axis + 1, dy * t->weight[i], plane, at * x->dim[axis] + t->at[i]);
}

static bool eval(gg_eval *e)
{
	const gg_shape *x = &e->in[X].shape, *y = &e->in[DY].shape;
	grid_sampler s = grid_sampler_of(e->n);
	int axes = x->rank - 2;
	int64_t channels = x->dim[1], plane = gg_span(x, 2, x->rank), places = gg_span(y, 2, y->rank);
	bool any = gg_count(&e->in[DY]) > 0;
	if (any && !plane)
		return gg_fail(e, "an empty input cannot be sampled");
	double *v = gg_doubles(&e->in[X]), *dy = gg_doubles(&e->in[DY]);
	double *dx = gg_xcalloc((size_t)gg_count(&e->in[X]) + 1, sizeof *dx);
	double *dg = gg_xcalloc((size_t)gg_count(&e->in[GRID]) + 1, sizeof *dg);
	for (int64_t b = 0; any && b < x->dim[0]; b++)
		for (int64_t k = b * places; k < (b + 1) * places; k++) {
			grid_taps t[GG_MAX_RANK];
			grid_place(&s, x, &e->in[GRID], k, t);
			for (int64_t c = b * channels; c < (b + 1) * channels; c++) {
				double g = dy[c * places + k - b * places];
				if (gg_wanted(e, 0))
					spread(t, x, 2, g, dx + c * plane, 0);
				for (int i = 0; gg_wanted(e, 1) && i < axes; i++)
					dg[k * axes + axes - 1 - i] += g * grid_sample(t, x, 2, i + 2,
					                                               v + c * plane, 0);
			}
		}
	if (gg_wanted(e, 0))
		gg_store_all(&e->out[0], dx);
	if (gg_wanted(e, 1))
		gg_store_all(&e->out[1], dg);
	free(v);
	free(dy);
	free(dx);
	free(dg);
	return true;
}

/* Of the first output, which is linear in dy, and of which x says the shape alone. The second one's would
 * take how slopes change: that is an error of the caller. */
GG_GRAD(grad)
{
	const char *name[] = {0, "gradient.grid"};
	gg_value *in[] = {IN(DY), dy, IN(GRID)};
	if (!dy)
		return;
	if (gg_grad_wanted(IN(DY)))
		gg_give(t, IN(DY), gg_grad_node(t, n, "GridSample", dy, IN(GRID), 0));
	if (gg_grad_wanted(IN(GRID)) && !t->bad) {
		name[1] = gg_fresh_name(t->g, name[1]);
		gg_node *k = gg_add_node(t->g, t->at, n->op, 3, in, 2, name);
		gg_copy_attrs(k, n);
		t->bad = !gg_infer_node(t->d, k);
		gg_give(t, IN(GRID), t->bad ? 0 : k->out[1]);
	}
}

const gg_op gg_op_GridSampleGrad = {.name = "GridSampleGrad",
                                    .domain = "gg",
                                    .doc = "the gradients of GridSample: dy, x, grid",
                                    .min_in = 3,
                                    .max_in = 3,
                                    .min_out = 1,
                                    .max_out = 2,
                                    .attrs = GRID_ATTRS,
                                    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'G'}},
                                    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'G'}},
                                    .infer = infer,
                                    .eval = eval,
                                    .grad = grad};
