#include "cast.h"
#include "grad.h"

static bool infer(gg_infer *f) { return gg_infer_cast(f, gg_get_dtype(f->n, "to")); }

GG_GRAD(grad) { gg_give(t, IN(0), gg_put_cast(t, dy, (gg_dtype)IN(0)->dtype)); }

const gg_op gg_op_Cast = {.name = "Cast",
                          .doc = "x as another dtype",
                          .min_in = 1,
                          .max_in = 1,
                          .min_out = 1,
                          .max_out = 1,
                          .attrs = (const gg_attr_spec[]){{"to", GG_ATTR_DTYPE, true, 0}, GG_CAST_ATTRS, {0}},
                          .flags = GG_POINTWISE | GG_MOVES,
                          .in = {{GG_CASTABLE}},
                          .out = {{GG_CASTABLE}},
                          .infer = infer,
                          .eval = gg_eval_cast,
                          .grad = grad};
