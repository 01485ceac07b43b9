#include "token.h"

static bool eval(gg_eval *e) { return true; }

/* The first input is the token before it, absent for the first of a chain. */
const gg_op gg_op_UpdateState = {.name = "UpdateState",
                                 .domain = "gg",
                                 .doc = "a token that comes when the token before it and all values have",
                                 .min_in = 1,
                                 .max_in = -1,
                                 .min_out = 1,
                                 .max_out = 1,
                                 .flags = GG_NOFOLD,
                                 .in = {{GG_DT(GG_BOOL)}, {GG_ANY}},
                                 .out = {{GG_DT(GG_BOOL)}},
                                 .optional = 1,
                                 .infer = infer_token,
                                 .eval = eval};
