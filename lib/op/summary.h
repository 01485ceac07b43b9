/* Values to be watched: the op does nothing, gg-run --summary writes what it reads to an event file. */
#ifndef GG_OP_SUMMARY_H
#define GG_OP_SUMMARY_H

#include "opkit.h"

static inline bool summary_eval(gg_eval *e) { return true; }

#define SUMMARY_OP(NAME, DOC, INFER) \
	const gg_op gg_op_##NAME = { \
	    .name = #NAME, \
	    .domain = "gg", \
	    .doc = DOC, \
	    .min_in = 1, \
	    .max_in = 1, \
	    .attrs = (const gg_attr_spec[]){{"tag", GG_ATTR_STRING, false, "\"\""}, {0}}, \
	    .flags = GG_EFFECT | GG_NOFOLD, \
	    .in = {{GG_NUMBERS | GG_DT(GG_BOOL)}}, \
	    .infer = INFER, \
	    .eval = summary_eval}

#endif
