#include "../pass.h"

/* The difference d from the mean, its mean square, and three ways to divide by the root. */
#define D "Sub(x, ReduceMean(x, axes){keepdims=1, noop_with_empty_axes=n}) as d"
#define ROOT(SQUARE) "Sqrt(Add(ReduceMean(" SQUARE ", axes2){keepdims=1, noop_with_empty_axes=n}, eps))"
#define TO \
	" => LayerNormalization(x, s){axis=(first(axes, x)), epsilon=eps} where trailing(axes, x) and " \
	"trailing(axes2, x) and first(axes, x) == first(axes2, x) and dtype(x) != f64\n"
#define NORM(SQUARE) \
	"layer_norm: Mul(Div(" D ", " ROOT(SQUARE) "), s)" TO "layer_norm: Mul(Mul(" D ", Reciprocal(" ROOT( \
	    SQUARE) ")), s)" TO "layer_norm: Mul(Mul(" D ", Div(1, " ROOT(SQUARE) ")), s)" TO

const gg_pass gg_pass_layer_norm = {
    .name = "layer_norm",
    .help = "the formula of LayerNormalization becomes one node, with its scale and bias",
    .explain = "With d = x - mean(x) over the last axes:\n"
               "d / sqrt(mean(d^2) + epsilon) * scale + bias = LayerNormalization(x, scale, bias)\n"
               "Not in f64, as LayerNormalization computes in f32 then.",
    .pipeline = "inference:40",
    .exact = false,
    .rules = NORM("Pow(d, 2)") NORM("Mul(d, d)") "bias: Add(LayerNormalization(x, s) as l, b) => "
                                                 "LayerNormalization(x, s, b){l.*} where same_shape(s, b)",
};
