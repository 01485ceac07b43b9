#include "arg.h"

GG_ARG(ArgMin, "index of the smallest element along axis", -1);
