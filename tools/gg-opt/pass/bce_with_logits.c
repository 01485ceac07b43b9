#include "../pass.h"

const gg_pass gg_pass_bce_with_logits = {
    .name = "bce_with_logits",
    .help = "BCEWithLogitsLoss with a reduction becomes the loss of each element and a reduction",
    .explain = "Over all axes, without them in the result. With reduction none it stays.",
    .pipeline = "optimize:130 run_op:10",
    .rules = "sum: BCEWithLogitsLoss(*p){reduction=\"sum\"}\n"
             "=> ReduceSum(BCEWithLogitsLoss(*p)){keepdims=0}\n"
             "mean: BCEWithLogitsLoss(*p){reduction=\"mean\"}\n"
             "=> ReduceMean(BCEWithLogitsLoss(*p)){keepdims=0}",
};
