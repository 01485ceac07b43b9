/* What the rules of the momentum fusions share. Operands stand in either order, and a sum may be Add, AddN
 * or Sum; a gradient that a Cast widens exactly is read as it is. */
#ifndef GG_PASS_MOMENTUM_H
#define GG_PASS_MOMENTUM_H

#include "../pass.h"

/* ApplyMomentum of the gradient GRAD becomes OP, whose first inputs are FIRST. */
#define MOMENTUM(GRAD, OP, FIRST, GUARD) \
	"ApplyMomentum(w, a, lr, " GRAD ", m){use_nesterov=0} as n => " OP "(" FIRST \
	", w, a, lr, g, m) as f; " \
	"n => f, n:1 => f:1 where " GUARD " and dtype(w) == f32 and dtype(a) == f32 and same_shape(w, g)\n"
#define MOMENTUM_CAST(OP, FIRST) \
	"cast: " OP "(" FIRST ", w, a, lr, Cast(g){to=f32} keep, m) as n => " OP "(" FIRST \
	", w, a, lr, g, m) as f; " \
	"n => f, n:1 => f:1 where dtype(g) == f16 or dtype(g) == bf16\n"

#define MOMENTUM_GUARDS \
	"\nNot with Nesterov, which the fused kernel does not have, and for f32 parameters alone. The old " \
	"parameter " \
	"is\nan operand, so the order of its readers and its update stays."

#endif
