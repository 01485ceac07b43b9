#include "blocks.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "DepthToSpace", dy, 0, 0)); }

GG_BLOCKS(SpaceToDepth, "blocks of space become blocks of channels", false, .grad = grad);
