#include "nnkit.h"

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_average); }

const gg_op gg_op_GlobalAveragePool = {.name = "GlobalAveragePool",
                                       .doc = "mean over all spatial axes",
                                       .min_in = 1,
                                       .max_in = 1,
                                       .min_out = 1,
                                       .max_out = 1,

                                       .in = {{GG_FLOATS, 'T'}},
                                       .out = {{GG_FLOATS, 'T'}},
                                       .infer = gg_infer_global_pool,
                                       .eval = eval};
