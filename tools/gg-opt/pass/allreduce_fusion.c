#include "../collectives.h"

/* Needs dtypes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_collectives(p, g, "AllReduce"); }

const gg_pass gg_pass_allreduce_fusion = {
    .name = "allreduce_fusion",
    .help = "AllReduce nodes of one fusion number become one node",
    .explain =
        "y0 = AllReduce(x0), y1 = AllReduce(x1), ... => y0, y1, ... = AllReduce(x0, x1, ...)\n" FUSION_GUARDS,
    .ops = "AllReduce",
    .pipeline = "hardware:140",
    .options = FUSION_OPTIONS,
    .exact = true,
    .run = run,
};
