/* Which numbers an integer input may hold, for who makes inputs up. */
#ifndef GG_ACCEPT_H
#define GG_ACCEPT_H

#include "op.h"

/* What all readers of v accept: indices into an axis, axes, sizes, counts, divisors. False: any number. */
bool gg_accepted(const gg_value *v, int64_t *lo, int64_t *hi);

#endif
