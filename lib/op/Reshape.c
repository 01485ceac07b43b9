#include "move.h"
#include "grad.h"

/* The dim that -1 stands for: what is left of `total` when the others take `rest`. */
static bool infer_rest(gg_infer *f, int axis, gg_dim total, gg_dim rest, gg_dim *out)
{
	*out = gg_unknown_dim(f, 0, axis);
	if (rest == 0)
		return gg_dim_known(total) && total > 0
		           ? gg_fail(f, "%s cannot become a shape with a zero", gg_str(f, &f->in[0].shape))
		           : (*out = 0, true);
	if (gg_dim_known(total) && gg_dim_known(rest) && total % rest)
		return gg_fail(f, "the elements of %s do not divide into %lld", gg_str(f, &f->in[0].shape),
		               (long long)rest);
	gg_dim q = gg_dim_div(total, rest);
	/* Only an exact division may stand for it where the divisor could turn out to be zero. */
	if (gg_dim_known(rest) || gg_dim_mul(q, rest) == total)
		*out = q;
	return true;
}

static bool infer_dims(gg_infer *f, const gg_dim *want, int n)
{
	const gg_shape *in = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	bool keep_zero = gg_get_int(f->n, "allowzero");
	int rest = -1, zeros = 0;
	out->rank = n;
	for (int i = 0; i < n; i++) {
		zeros += want[i] == 0;
		out->dim[i] = want[i];
		if (want[i] == 0 && !keep_zero) {
			if (in->rank >= 0 && i >= in->rank)
				return gg_fail(f, "dim %d is copied from %s, which has no such dim", i,
				               gg_str(f, in));
			out->dim[i] = in->rank < 0 ? gg_unknown_dim(f, 0, i) : in->dim[i];
		} else if (want[i] < 0 && gg_dim_number(want[i])) {
			if (want[i] != -1 || rest >= 0)
				return gg_fail(f, want[i] == -1 ? "the shape has -1 more than once"
				                                : "the shape has a negative dim");
			rest = i;
			out->dim[i] = 1;
		}
	}
	if (rest >= 0 && keep_zero && zeros)
		return gg_fail(f, "the shape has both 0 and -1 and allowzero is set");
	gg_dim product = gg_shape_count_dim(out, 0, n);
	gg_dim total = in->rank < 0 ? 0 : gg_shape_count_dim(in, 0, in->rank);
	if (in->rank < 0) {
		if (rest >= 0)
			out->dim[rest] = gg_unknown_dim(f, 0, rest);
		return true;
	}
	if (rest >= 0)
		return infer_rest(f, rest, total, product, &out->dim[rest]);
	if (gg_dim_known(total) && gg_dim_known(product) && total != product)
		return gg_fail(f, "%s cannot become %s: %lld elements, %lld wanted", gg_str(f, in),
		               gg_str(f, out), (long long)total, (long long)product);
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[1].shape;
	int n;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank >= 0 && s->rank != 1)
		return gg_fail(f, "the shape has rank %d, expected 1", s->rank);
	const gg_dim *want = gg_want_dims(f, 1, &n);
	if (!want && s->rank == 1 && gg_dim_known(s->dim[0]))
		n = (int)(s->dim[0] > GG_MAX_RANK ? GG_MAX_RANK + 1 : s->dim[0]);
	else if (!want)
		return true;
	if (n > GG_MAX_RANK)
		return gg_unsupported(f, "the shape has %d dims, at most %d are supported", n, GG_MAX_RANK);
	if (!want) {
		gg_unknown_dims(f, 0, n);
		return true;
	}
	if (!infer_dims(f, want, n))
		return false;
	gg_view_content(f);
	return true;
}

const gg_op gg_op_Reshape = {.name = "Reshape",
                             .doc = "the elements of x in another shape",
                             .min_in = 2,
                             .max_in = 2,
                             .min_out = 1,
                             .max_out = 1,
                             .attrs = (const gg_attr_spec[]){{"allowzero", GG_ATTR_INT, false, "0"}, {0}},
                             .flags = GG_VIEW,
                             .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                             .out = {{GG_ANY, 'T'}},
                             .infer = infer,
                             .eval = gg_eval_copy,
                             .grad = gg_grad_reshape};
