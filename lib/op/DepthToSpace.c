#include "blocks.h"

GG_BLOCKS(DepthToSpace, "blocks of channels become blocks of space", true);
