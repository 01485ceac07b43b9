#include "../pass.h"

/* y * gate / 2 in the three ways to group it; commutative orders are the engine's business. */
#define HALVED(NAME, GATE, TO) \
	NAME ": Mul(Mul(x, " GATE "), 0.5) => " TO "\n" NAME ": Mul(Mul(x, 0.5), " GATE ") => " TO "\n" NAME \
	     ": Mul(x, Mul(" GATE ", 0.5)) => " TO "\n"

#define ERF(Z) HALVED("gelu_erf", "Add(Erf(" Z "), 1)", "Gelu(x)")
#define TANH(Z) HALVED("gelu_tanh", "Add(Tanh(" Z "), 1)", "Gelu(x){approximate=\"tanh\"}")
#define OUTER "0.7978845608028654"
#define INNER "0.044715"

const gg_pass gg_pass_gelu = {
    .name = "gelu",
    .help = "the formulas of Gelu, by erf, by tanh and by sigmoid, become Gelu and QuickGelu",
    .explain = "x / 2 * (1 + erf(x / sqrt(2))) = Gelu(x)\n"
               "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) = Gelu(x){approximate=\"tanh\"}\n"
               "x * sigmoid(1.702 * x) = QuickGelu(x)\n"
               "(not of f64, as alpha is an f32) in every order of factors, with the root as divisor or "
               "factor and the cube as Pow or as "
               "products.",
    .pipeline = "inference:30",
    .exact = false,
    .rules = ERF("Div(x, 1.4142135623730951)") ERF("Mul(x, 0.7071067811865476)")
    /* clang-format off */
        TANH("Mul(Add(x, Mul(Pow(x, 3), " INNER ")), " OUTER ")")
        TANH("Mul(Add(x, Mul(Mul(x, Mul(x, x)), " INNER ")), " OUTER ")")
        TANH("Mul(Add(x, Mul(Mul(x, " INNER "), Mul(x, x))), " OUTER ")")
        TANH("Mul(Add(x, Mul(Mul(Mul(x, " INNER "), x), x)), " OUTER ")")
        TANH("Mul(Mul(x, " OUTER "), Add(Mul(Mul(x, " INNER "), x), 1))")
        TANH("Mul(Mul(x, " OUTER "), Add(Mul(Mul(x, x), " INNER "), 1))")
        TANH("Mul(x, Mul(Add(Mul(Mul(x, x), " INNER "), 1), " OUTER "))")
        "gelu_quick: Mul(x, Sigmoid(Mul(x, 1.702))) => QuickGelu(x){alpha=1.702} where dtype(x) != f64",
    /* clang-format on */
};
