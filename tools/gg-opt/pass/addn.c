#include "../pass.h"

const gg_pass gg_pass_addn = {
    .name = "addn",
    .help = "AddN of two inputs becomes Add",
    .explain = "AddN with one input or more than two stays. The momentum fusions take either form.",
    .pipeline = "optimize:110",
    .exact = true,
    .rules = "AddN(a, b, *rest) => Add(a, b, *rest)",
};
