#include "accumulate.h"

extern const gg_op gg_op_ConvInputGrad;

static bool eval(gg_eval *e) { return eval_plus(e, &gg_op_ConvInputGrad); }
static bool infer(gg_infer *f) { return infer_plus(f, &gg_op_ConvInputGrad); }
static bool expand(gg_diag *d, gg_node *n) { return expand_plus(d, n, &gg_op_ConvInputGrad); }

const gg_op gg_op_ConvInputGradAdd = {
    .name = "ConvInputGradAdd",
    .domain = "gg",
    .doc = "ConvInputGrad(dy, weight, shape) + z: accumulates into z where nobody else reads it",
    .min_in = 4,
    .max_in = 4,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS, {0}},
    .aliases = (const signed char[]){0, 3, -1},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_DT(GG_I64)}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
