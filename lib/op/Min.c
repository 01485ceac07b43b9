#include "pointwise.h"
#include "grad.h"

GG_EXTREME(Min, "the least of the inputs, broadcast", <, gg_dim_min);
