#include "cast.h"
#include "grad.h"

static bool infer(gg_infer *f) { return gg_infer_cast(f, f->in[1].dtype); }

GG_GRAD(grad) { gg_give(t, IN(0), gg_put_cast(t, dy, (gg_dtype)IN(0)->dtype)); }

const gg_op gg_op_CastLike = {.name = "CastLike",
                              .doc = "x as the dtype of the second input",
                              .min_in = 2,
                              .max_in = 2,
                              .min_out = 1,
                              .max_out = 1,
                              .attrs = (const gg_attr_spec[]){GG_CAST_ATTRS, {0}},
                              .flags = GG_MOVES,
                              .in = {{GG_CASTABLE}, {GG_CASTABLE, 'T'}},
                              .out = {{GG_CASTABLE, 'T'}},
                              .infer = infer,
                              .eval = gg_eval_cast,
                              .grad = grad};
