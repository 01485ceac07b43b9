#include "../collectives.h"

/* Needs dtypes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_collectives(p, g, "AllGather"); }

const gg_pass gg_pass_allgather_fusion = {
    .name = "allgather_fusion",
    .help = "AllGather nodes of one fusion number become one node",
    .explain = "y0 = AllGather(x0), y1 = AllGather(x1), ... => y0, y1, ... = AllGather(x0, x1, ...)\n"
               "Each result stays whole; concat_allgather then splits it by rank.\n" FUSION_GUARDS,
    .ops = "AllGather",
    .pipeline = "hardware:160",
    .options = FUSION_OPTIONS,
    .exact = true,
    .run = run,
};
