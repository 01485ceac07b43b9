#include "../pass.h"

const gg_pass gg_pass_attention_heads = {
    .name = "attention_heads",
    .help = "Attention reads its heads where they lie: no Transpose before and behind it",
    .explain =
        "Rows of [heads * size] that are cut into heads and turned to [batch, heads, positions, size], and\n"
        "turned back behind Attention, are inputs of rank 3, for which Attention says how many heads\n"
        "they have.",
    .pipeline = "inference:52",
    .exact = true,
    .rules =
        "Reshape(Transpose(Attention(Transpose(Reshape(q, _) as hq){perm=[0, 2, 1, 3]},"
        " Transpose(Reshape(k, _) as hk){perm=[0, 2, 1, 3]}, Transpose(Reshape(v, _) as hv){perm=[0, 2, 1, "
        "3]},"
        " *m) as a){perm=[0, 2, 1, 3]}, _) as y"
        " => Attention(q, k, v, *m){a.*, q_num_heads=(dim(hq, 2)), kv_num_heads=(dim(hk, 2))} as f; y => f"
        " where rank(q) == 3 and rank(k) == 3 and rank(v) == 3 and rank(y) == 3"
        " and dim(q, 0) == dim(hq, 0) and dim(q, 1) == dim(hq, 1) and dim(k, 0) == dim(hk, 0)"
        " and dim(k, 1) == dim(hk, 1) and dim(v, 0) == dim(hv, 0) and dim(v, 1) == dim(hv, 1)"
        " and dim(y, 0) == dim(q, 0) and dim(y, 1) == dim(q, 1) and dim(hk, 2) == dim(hv, 2)",
};
