#include "../pass.h"

#define ROOT(SQUARE) "Sqrt(Add(ReduceMean(" SQUARE ", axes){keepdims=1, noop_with_empty_axes=n}, eps))"
#define TO \
	" => RMSNormalization(x, s){axis=(first(axes, x)), epsilon=eps} where trailing(axes, x) and " \
	"dtype(x) " \
	"!= f64\n"
#define NORM(SQUARE) \
	"rms_norm: Mul(Div(x, " ROOT(SQUARE) "), s)" TO "rms_norm: Mul(Mul(x, Reciprocal(" ROOT( \
	    SQUARE) ")), s)" TO "rms_norm: Mul(Mul(x, Div(1, " ROOT(SQUARE) ")), s)" TO

const gg_pass gg_pass_rms_norm = {
    .name = "rms_norm",
    .help = "the formula of RMSNormalization becomes one node",
    .explain = "x / sqrt(mean(x^2) + epsilon) * scale = RMSNormalization(x, scale), over the last axes\n"
               "Not in f64, as RMSNormalization computes in f32 then.",
    .pipeline = "inference:45",
    .exact = false,
    .rules = NORM("Pow(x, 2)") NORM("Mul(x, x)"),
};
