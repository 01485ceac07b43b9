#include "pointwise.h"

enum { TYPES = GG_FLOATS | GG_DT(GG_F8E4M3) | GG_DT(GG_F8E5M2) };
#define LARGEST 1.7976931348623157e308
static double f(double x, const double *attr)
{
	return (attr[0] != 0 && x < -LARGEST) || (attr[1] != 0 && x > LARGEST);
}
static bool eval(gg_eval *e)
{
	double attr[GG_EXPR_ATTRS];
	gg_expr_attrs(e->n, attr);
	return gg_map1(e, f, 0, attr);
}

const gg_op gg_op_IsInf = {
    GG_POINTWISE_OP(IsInf, "whether x is infinite, of the signs asked for", 1, 0),
    .attrs = GG_ATTRS({"detect_negative", GG_ATTR_INT, false, "1"},
                      {"detect_positive", GG_ATTR_INT, false, "1"}),
    .in = {{TYPES}},
    .out = {{GG_DT(GG_BOOL)}},
    .infer = gg_infer_same,
    .eval = eval,
    .expr = "(a != 0 && x < -1.7976931348623157e308) || (b != 0 && x > 1.7976931348623157e308)"};
