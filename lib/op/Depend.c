#include "token.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), dy); }

const gg_op gg_op_Depend = {.name = "Depend",
                            .domain = "gg",
                            .doc = "the first input; its readers wait for the others",
                            .min_in = 1,
                            .max_in = -1,
                            .min_out = 1,
                            .max_out = 1,
                            .flags = GG_VIEW,
                            .in = {{GG_ANY, 'T'}, {GG_ANY}},
                            .out = {{GG_ANY, 'T'}},
                            .infer = infer_first,
                            .eval = gg_eval_copy,
                            .grad = grad};
