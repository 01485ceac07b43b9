#include "random.h"

const gg_op gg_op_RandomNormal = {.name = "RandomNormal",
                                  .doc = "normally distributed numbers",
                                  .min_in = 0,
                                  .max_in = 0,
                                  .min_out = 1,
                                  .max_out = 1,
                                  .attrs = (const gg_attr_spec[]){{"dtype", GG_ATTR_DTYPE, false, "f32"},
                                                                  GG_RANDOM_ATTRS("mean", "0", "scale", "1"),
                                                                  {"shape", GG_ATTR_INTS, true, 0},
                                                                  {0}},
                                  .flags = GG_RANDOM,
                                  .out = {{GG_FLOATS}},
                                  .infer = random_infer,
                                  .eval = random_normal};
