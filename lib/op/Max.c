#include "pointwise.h"
#include "grad.h"

GG_EXTREME(Max, "the greatest of the inputs, broadcast", >, gg_dim_max);
