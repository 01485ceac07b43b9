#include "cumulate.h"

GG_CUMULATE(CumProd, "running product along an axis", true);
