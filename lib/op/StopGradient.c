#include "grad.h"
#include "opkit.h"
#include "token.h"

const gg_op gg_op_StopGradient = {.name = "StopGradient",
                                  .domain = "gg",
                                  .doc = "x, through which no gradient flows",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .min_out = 1,
                                  .max_out = 1,
                                  .flags = GG_VIEW,
                                  .in = {{GG_ANY, 'T'}},
                                  .out = {{GG_ANY, 'T'}},
                                  .infer = infer_first,
                                  .eval = gg_eval_copy,
                                  .expand = gg_expand_identity,
                                  .grad = gg_grad_zero};
