#include "blocks.h"

GG_BLOCKS(SpaceToDepth, "blocks of space become blocks of channels", false);
