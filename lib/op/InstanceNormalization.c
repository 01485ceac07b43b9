#include "groupnorm.h"

static bool eval(gg_eval *e) { return normalize_groups(e, e->in[0].shape.dim[1]); }

const gg_op gg_op_InstanceNormalization = {
    .name = "InstanceNormalization",
    .doc = "each channel normalised over its space, then scale and bias",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"}, {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer_channels,
    .eval = eval};
