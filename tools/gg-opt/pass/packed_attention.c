#include "../pass.h"

#define PRODUCT(W, B) "MatMulBias(x, " W ", " B "){activation=\"\"}"
#define TURNED(W) "Transpose(" W "){perm=[1, 0]}"
/* FORM: how a weight lies; ALL: what makes one of the three, `w`. */
#define RULE(FORM, ALL) \
	"packed_attention: Attention(" PRODUCT(FORM("wq"), "bq") ", " PRODUCT( \
	    FORM("wk"), \
	    "bk") ", " PRODUCT(FORM("wv"), \
	                       "bv") ", m?){q_num_heads=h, kv_num_heads=h, scale=c, is_causal=u, softcap=0," \
	                             " left_window_size=-1, right_window_size=-1, qk_matmul_output_mode=_} " \
	                             "as a" \
	                             " => " ALL \
	                             "; Concat(bq, bk, bv){axis=0} as b; MatMulBias(x, w, b) as p;" \
	                             " PackedAttention(p, m?){heads=h, is_causal=u, scale=c} as f; a => f" \
	                             " where rank(x) == 3 and constant(wq) and constant(wk) and " \
	                             "constant(wv)" \
	                             " and constant(bq) and constant(bk) and constant(bv) and rank(wq) == 2" \
	                             " and same_shape(wq, wk) and same_shape(wq, wv) and rank(bq) == 1" \
	                             " and same_shape(bq, bk) and same_shape(bq, bv)" \
	                             " and count(bq) > 1 and kernel_exists(f)\n"
#define AS_IS(W) W

const gg_pass gg_pass_packed_attention = {
    .name = "packed_attention",
    .help = "three products that make queries, keys and values of one input become one, read in place",
    .explain =
        "Attention(x Wq + bq, x Wk + bk, x Wv + bv, m) = PackedAttention(x [Wq Wk Wv] + [bq bk bv], m)\n"
        "for constant weights of one shape, as many heads of all, with a mask or none; where the target has "
        "a\n"
        "kernel that reads the thirds of a row in place.",
    .pipeline = "hardware:5",
    .exact = false,
    .rules = RULE(AS_IS, "Concat(wq, wk, wv){axis=1} as w")
        RULE(TURNED, "Concat(wq, wk, wv){axis=0} as t; Transpose(t){perm=[1, 0]} as w"),
};
