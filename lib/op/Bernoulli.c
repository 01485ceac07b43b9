#include "random.h"
#include "grad.h"

#define TYPES (GG_NUMBERS | GG_DT(GG_BOOL))
static bool infer(gg_infer *f) { return random_infer_like(f, TYPES); }

static bool eval(gg_eval *e)
{
	uint64_t seed = gg_random_seed(e);
	int64_t n = gg_count(&e->in[0]);
	for (int64_t i = 0; i < n; i++)
		gg_set_f64(&e->out[0], i, gg_uniform(seed, (uint64_t)i) < gg_get_f64(&e->in[0], i));
	return true;
}

const gg_op gg_op_Bernoulli = {.name = "Bernoulli",
                               .doc = "1 with probability x, else 0",
                               .min_in = 1,
                               .max_in = 1,
                               .min_out = 1,
                               .max_out = 1,
                               .attrs = (const gg_attr_spec[]){{"dtype", GG_ATTR_DTYPE, false, 0},
                                                               {"seed", GG_ATTR_FLOAT, false, 0},
                                                               {0}},
                               .flags = GG_RANDOM,
                               .in = {{GG_FLOATS}},
                               .out = {{TYPES}},
                               .infer = infer,
                               .eval = eval,
                               .grad = gg_grad_zero};
