#include "random.h"
#include "grad.h"

static bool infer(gg_infer *f) { return random_infer_like(f, GG_FLOATS); }

const gg_op gg_op_RandomUniformLike = {
    .name = "RandomUniformLike",
    .doc = "uniformly distributed numbers in the shape of x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"dtype", GG_ATTR_DTYPE, false, 0},
                                    GG_RANDOM_ATTRS("high", "1", "low", "0"),
                                    {0}},
    .flags = GG_RANDOM,
    .in = {{GG_ANY}},
    .out = {{GG_FLOATS}},
    .infer = infer,
    .eval = random_uniform,
    .grad = gg_grad_zero};
