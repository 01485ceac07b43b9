#include "move.h"

const gg_op gg_op_Reorder = {.name = "Reorder",
                             .domain = "gg",
                             .doc = "x in another memory layout; the same logical values",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .flags = GG_MOVES,
                             .in = {{GG_ANY, 'T'}},
                             .out = {{GG_ANY, 'T'}},
                             .infer = gg_infer_same,
                             .eval = gg_eval_copy};
