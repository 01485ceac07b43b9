#include "token.h"

enum { SHOWN = 16 }; /* elements of a tensor that are told */

static void put_tensor(gg_buf *b, const gg_tensor *t)
{
	int64_t n = gg_count(t);
	if (t->shape.rank == 0) {
		gg_put_element(b, t, 0);
		return;
	}
	gg_buf_str(b, "[");
	for (int64_t i = 0; i < n && i < SHOWN; i++) {
		gg_buf_str(b, i ? " " : "");
		gg_put_element(b, t, i);
	}
	gg_buf_str(b, n > SHOWN ? " ...]" : "]");
}

/* Texts stand at their positions, the tensors fill the places between. */
static bool eval(gg_eval *e)
{
	const gg_attr *pos = gg_get_list(e->n, "string_pos"), *text = gg_get_list(e->n, "string_value");
	int ntext = pos ? pos->n : 0;
	gg_buf b = {0};
	for (int i = 0, t = 0; i < e->nin + ntext; i++) {
		int k = 0;
		while (k < ntext && pos->ints[k] != i)
			k++;
		gg_buf_str(&b, i ? " " : "");
		if (k < ntext)
			gg_buf_str(&b, text->strings[k]);
		else
			put_tensor(&b, &e->in[t++]);
	}
	gg_note(e->d, "%s", b.p ? b.p : "");
	gg_buf_fini(&b);
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_attr *pos = gg_get_list(f->n, "string_pos"), *text = gg_get_list(f->n, "string_value");
	int npos = pos ? pos->n : 0, ntext = text ? text->n : 0;
	if (npos != ntext)
		return gg_fail(f, "string_pos has %d positions for %d texts", npos, ntext);
	for (int i = 0; i < npos; i++) {
		if (pos->ints[i] < 0 || pos->ints[i] >= f->nin + ntext ||
		    (i && pos->ints[i] <= pos->ints[i - 1]))
			return gg_fail(f, "string_pos has %lld: positions rise from 0 to %d",
			               (long long)pos->ints[i], f->nin + ntext - 1);
	}
	return all_given(f, 0) && infer_token(f);
}

const gg_op gg_op_Print = {
    .name = "Print",
    .domain = "gg",
    .doc = "tells the inputs on stderr, in order; its result is a token",
    .min_in = 0,
    .max_in = -1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"string_pos", GG_ATTR_INTS}, {"string_value", GG_ATTR_STRINGS}, {0}},
    .flags = GG_EFFECT | GG_NOFOLD,
    .in = {{GG_ANY}},
    .out = {{GG_DT(GG_BOOL)}},
    .infer = infer,
    .eval = eval};
