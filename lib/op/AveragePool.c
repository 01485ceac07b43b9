#include "nnkit.h"
#include "grad.h"

static bool eval(gg_eval *e) { return gg_eval_pool(e, &gg_pool_average); }

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "AveragePoolGrad", dy, gg_put_shape(t, IN(0)), 0)); }

const gg_op gg_op_AveragePool = {
    .name = "AveragePool",
    .doc = "mean of each window",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_WINDOW_ATTRS(true),
                                    {"ceil_mode", GG_ATTR_INT, .def = "0"},
                                    {"count_include_pad", GG_ATTR_INT, .def = "0"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = gg_infer_pool,
    .eval = eval,
    .grad = grad};
