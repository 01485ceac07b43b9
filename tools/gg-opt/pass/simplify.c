#include "../pass.h"

/* Division by a power of two is a product by its inverse, which every float type here holds. */
#define HALVES(K, INVERSE) "divide: Div(x, " K ") => Mul(x, " INVERSE ") where float(x)\n"

/* What looks true and is not: x + 0, x - -0 and 0 - x (of -0), x * 0 and x - x and x / x (of NaN and
 * infinity), log(exp(x)) and sqrt(x * x) (overflow), pow(x, 0.5) (of -infinity), x * (1 / y) (rounds twice).
 */
const gg_pass gg_pass_simplify = {
    .name = "simplify",
    .help = "algebra that holds for every number, NaN, infinity and -0 included",
    .explain =
        "Only what gives the same bits: an identity of the reals that rounds otherwise, or differs for "
        "-0, infinity or\n"
        "NaN, is not here.",
    .pipeline = "graph_kernel:30",
    .exact = true,
    .rules =
        /* clang-format off */
	"one: Mul(x, k) as r => x where constant(k) and scalar(k) and value(k) == 1 and same_shape(x, r)\n"
	"one: Div(x, k) as r => x where constant(k) and scalar(k) and value(k) == 1 and same_shape(x, r)\n"
	"one: Pow(x, k) as r => x where constant(k) and scalar(k) and value(k) == 1 and float(x) and same_shape(x, r)\n"
	"minus: Mul(x, k) as r => Neg(x) where constant(k) and scalar(k) and value(k) == -1 and float(x) and "
	"same_shape(x, r)\n"
	"minus: Div(x, k) as r => Neg(x) where constant(k) and scalar(k) and value(k) == -1 and float(x) and "
	"same_shape(x, r)\n"
	"square: Pow(x, 2) => Mul(x, x) where float(x) and dtype(x) != f64\n"
	"inverse: Div(1, x) as r => Reciprocal(x) where float(x) and same_shape(x, r)\n"
	HALVES("2", "0.5") HALVES("4", "0.25") HALVES("8", "0.125") HALVES("16", "0.0625")
	"neg: Neg(Neg(x) keep) => x where float(x)\n"
	"neg: Add(x, Neg(y) keep) => Sub(x, y) where float(x)\n"
	"neg: Sub(x, Neg(y) keep) => Add(x, y) where float(x)\n"
	"neg: Mul(Neg(x) keep, Neg(y) keep) => Mul(x, y) where float(x)\n"
	"neg: Div(Neg(x) keep, Neg(y) keep) => Div(x, y) where float(x)\n"
	"abs: Abs(Neg(x) keep) => Abs(x) where float(x)\n"
	"again: Abs(Abs(x) keep as a) => a\n"
	"again: Relu(Relu(x) keep as a) => a\n"
	"again: Relu(Abs(x) keep as a) => a where float(x)\n"
	"again: Floor(Floor(x) keep as a) => a\n"
	"again: Ceil(Ceil(x) keep as a) => a\n"
	"again: Round(Round(x) keep as a) => a\n"
	"again: Sign(Sign(x) keep as a) => a\n"
	"same: Max(x, x) => x\n"
	"same: Min(x, x) => x\n"
	"same: And(x, x) => x\n"
	"same: Or(x, x) => x\n"
	"not: Not(Not(x) keep) => x",
    /* clang-format on */
};
