#include "nnkit.h"

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_max); }

const gg_op gg_op_GlobalMaxPool = {.name = "GlobalMaxPool",
                                   .doc = "maximum over all spatial axes",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .min_out = 1,
                                   .max_out = 1,

                                   .in = {{GG_FLOATS, 'T'}},
                                   .out = {{GG_FLOATS, 'T'}},
                                   .infer = gg_infer_global_pool,
                                   .eval = eval};
