#include "token.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), dy); }

const gg_op gg_op_Load = {.name = "Load",
                          .domain = "gg",
                          .doc = "the first input, read when the token has come",
                          .min_in = 1,
                          .max_in = 2,
                          .min_out = 1,
                          .max_out = 1,
                          .flags = GG_VIEW,
                          .in = {{GG_ANY, 'T'}, {GG_DT(GG_BOOL)}},
                          .out = {{GG_ANY, 'T'}},
                          .infer = infer_first,
                          .eval = gg_eval_copy,
                          .grad = grad};
