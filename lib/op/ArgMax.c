#include "arg.h"

GG_ARG(ArgMax, "index of the largest element along axis", 1);
