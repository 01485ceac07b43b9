#include "accumulate.h"

extern const gg_op gg_op_ConvTranspose;

static bool eval(gg_eval *e) { return eval_plus(e, &gg_op_ConvTranspose); }
static bool infer(gg_infer *f) { return infer_plus(f, &gg_op_ConvTranspose); }
static bool expand(gg_diag *d, gg_node *n) { return expand_plus(d, n, &gg_op_ConvTranspose); }

const gg_op gg_op_ConvTransposeAdd = {
    .name = "ConvTransposeAdd",
    .domain = "gg",
    .doc = "ConvTranspose(x, w, b) + z: accumulates into z where nobody else reads it",
    .min_in = 4,
    .max_in = 4,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS,
                                    {"output_padding", GG_ATTR_INTS},
                                    {"output_shape", GG_ATTR_INTS},
                                    {0}},
    .optional = 1 << 2,
    .aliases = (const signed char[]){0, 3, -1},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
