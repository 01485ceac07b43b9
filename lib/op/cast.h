/* What Cast and CastLike share. */
#ifndef GG_OP_CAST_H
#define GG_OP_CAST_H

#include "opkit.h"

#define GG_CASTABLE (GG_ANY & ~GG_DT(GG_C64))
#define GG_CAST_ATTRS \
	{"saturate", GG_ATTR_INT, false, "1"}, { "round_mode", GG_ATTR_STRING, false, "\"up\"" }

bool gg_infer_cast(gg_infer *f, gg_dtype to); /* of input 0 */
bool gg_eval_cast(gg_eval *e);                /* input 0 to output 0, by their dtypes */

#endif
