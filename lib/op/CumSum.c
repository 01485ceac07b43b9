#include "cumulate.h"

GG_CUMULATE(CumSum, "running sum along an axis", false);
