#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape;
	gg_shape *out = &f->out[0].shape;
	int64_t batch = gg_get_int(f->n, "batch_dims");
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0 || idx->rank < 0)
		return true;
	if (idx->rank == 0 || s->rank == 0)
		return gg_fail(f, "data %s and indices %s must have rank 1 or more", gg_str(f, s),
		               gg_str(f, idx));
	if (batch < 0 || batch >= idx->rank || batch >= s->rank)
		return gg_fail(f, "batch_dims is %lld, data has rank %d, indices %d", (long long)batch,
		               s->rank, idx->rank);
	gg_dim k = idx->dim[idx->rank - 1];
	if (!gg_dim_known(k))
		return true;
	if (k < 1 || k > s->rank - batch)
		return gg_fail(f, "an index has %lld numbers for data %s with batch_dims %lld", (long long)k,
		               gg_str(f, s), (long long)batch);
	for (int i = 0; i < batch; i++)
		if (gg_dim_known(s->dim[i]) && gg_dim_known(idx->dim[i]) && s->dim[i] != idx->dim[i])
			return gg_fail(f, "batch dims of data %s and indices %s differ", gg_str(f, s),
			               gg_str(f, idx));
	int first = (int)(batch + k), rank = idx->rank - 1 + s->rank - first;
	if (rank > GG_MAX_RANK)
		return gg_unsupported(f, "rank %d, at most %d is supported", rank, GG_MAX_RANK);
	out->rank = rank;
	for (int i = 0; i < idx->rank - 1; i++)
		out->dim[i] = idx->dim[i];
	for (int i = first; i < s->rank; i++)
		out->dim[idx->rank - 1 + i - first] = s->dim[i];
	gg_move_content(f, 1);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *idx = &e->in[1];
	int batch = (int)gg_get_int(e->n, "batch_dims"), k = (int)idx->shape.dim[idx->shape.rank - 1];
	int64_t *at = gg_eval_ints(e, 1), stride[GG_MAX_RANK];
	int64_t batches = gg_span(&x->shape, 0, batch),
	        rows = gg_span(&idx->shape, batch, idx->shape.rank - 1);
	int64_t inner = gg_span(&x->shape, batch + k, x->shape.rank);
	size_t row = (size_t)inner * gg_dtype_size(x->dtype);
	char *d = e->out[0].data;
	if (gg_count(&e->out[0]) == 0)
		return true;
	gg_strides(&x->shape, stride);
	for (int64_t b = 0; b < batches; b++)
		for (int64_t r = 0; r < rows; r++, at += k, d += row) {
			int64_t from = b * gg_span(&x->shape, batch, x->shape.rank);
			for (int j = 0; j < k; j++) {
				if (!gg_eval_indices(e, &at[j], 1, x->shape.dim[batch + j]))
					return false;
				from += at[j] * stride[batch + j];
			}
			memcpy(d, (const char *)x->data + (size_t)from * gg_dtype_size(x->dtype), row);
		}
	return true;
}

/* Before each index the numbers of its batch, which count along the batch axes. */
static gg_value *whole_index(gg_builder *t, gg_value *index, int batch)
{
	static const int64_t first[] = {0}, one[] = {1}, last[] = {-1};
	gg_value *cut[] = {index, gg_put_ints(t, 1, first), gg_put_ints(t, 1, one), gg_put_ints(t, 1, last)};
	gg_value *v = gg_put_done(t, gg_put(t, "Slice", 4, cut, 0)), *part[GG_MAX_RANK + 1];
	gg_value *ones = v ? gg_put_expand(t, NUM(v, 1), v) : 0;
	for (int i = 0; i < batch; i++) {
		gg_value *y = gg_put(t, "CumSum", 2,
		                     (gg_value *[]){ones, gg_put_number(t, "axis", GG_I64, i)}, 0);
		if (y)
			gg_set_attr_int(y->producer, "exclusive", 1);
		part[i] = gg_put_done(t, y);
	}
	part[batch] = index;
	gg_value *all = gg_put(t, "Concat", batch + 1, part, 0);
	if (all)
		gg_set_attr_int(all->producer, "axis", -1);
	return gg_put_done(t, all);
}

GG_GRAD(grad)
{
	int batch = (int)gg_get_int(n, "batch_dims");
	gg_value *in[] = {gg_put_expand(t, NUM(dy, 0), IN(0)), batch ? whole_index(t, IN(1), batch) : IN(1),
	                  dy};
	gg_value *y = gg_put(t, "ScatterND", 3, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "reduction", "add");
	gg_give(t, IN(0), gg_put_done(t, y));
}

const gg_op gg_op_GatherND = {.name = "GatherND",
                              .doc = "the slices of x at the index tuples in the last axis of indices",
                              .min_in = 2,
                              .max_in = 2,
                              .min_out = 1,
                              .max_out = 1,
                              .attrs = (const gg_attr_spec[]){{"batch_dims", GG_ATTR_INT, false, "0"}, {0}},
                              .flags = GG_MOVES,
                              .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                              .out = {{GG_ANY, 'T'}},
                              .infer = infer,
                              .eval = eval,
                              .grad = grad};
