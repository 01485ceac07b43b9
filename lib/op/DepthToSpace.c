#include "blocks.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "SpaceToDepth", dy, 0, 0)); }

GG_BLOCKS(DepthToSpace, "blocks of channels become blocks of space", true, .grad = grad);
