#include "../pass.h"

static uint64_t hash_value(const gg_value *v, uint64_t h)
{
	h = gg_hash(&v->dtype, sizeof v->dtype, h);
	return gg_hash(v->shape.dim, (size_t)(v->shape.rank > 0 ? v->shape.rank : 0) * sizeof *v->shape.dim,
	               h + (uint64_t)v->shape.rank);
}

static uint64_t hash_shapes(const gg_graph *g)
{
	uint64_t h = 0;
	for (const gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				h = hash_value(n->out[i], h);
	return h;
}

/* Needs nothing.
 * Breaks nothing: a shape that is known better stays. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	uint64_t before = hash_shapes(g);
	if (g->owner)
		return true; /* the rule of the node that owns it has visited it */
	if (!gg_infer_graph(p->d, g))
		return false;
	if (hash_shapes(g) != before)
		gg_apply(p, 0);
	return true;
}

const gg_pass gg_pass_shape_inference = {
    .name = "shape_inference",
    .help = "infer dtypes and shapes of all values, bodies included",
    .explain = "Runs every op's shape rule in execution order. Symbols and their arithmetic are followed "
               "through small\n"
               "integer tensors, so that Shape, Gather, Concat, Reshape keeps its dims. A declared number "
               "that differs\n"
               "from the inferred one is an error.",
    .pipeline = "common:10",
    .exact = true,
    .run = run,
};
