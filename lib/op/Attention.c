#include "nnkit.h"
#include "opkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

/* Batch, heads, positions and head sizes, from inputs of either form: [batch, heads, positions, size]
 * or [batch, positions, heads * size]. `total` counts the past too. */
typedef struct sizes {
	gg_dim batch, qheads, kvheads, q, kv, past, total, size, vsize;
} sizes;

static gg_dim heads(const gg_node *n, const gg_shape *s, const char *attr)
{
	return s->rank == 4 ? s->dim[1] : gg_get_int(n, attr);
}

static gg_dim head_size(const gg_shape *s, gg_dim heads)
{
	return s->rank == 4 ? s->dim[3] : gg_dim_div(s->dim[2], heads);
}

static sizes sizes_of(const gg_node *n, const gg_shape *q, const gg_shape *k, const gg_shape *v,
                      const gg_shape *past)
{
	sizes z = {.batch = q->dim[0], .q = q->dim[q->rank - 2], .kv = k->dim[k->rank - 2]};
	z.qheads = heads(n, q, "q_num_heads");
	z.kvheads = heads(n, k, "kv_num_heads");
	z.size = head_size(q, z.qheads);
	z.vsize = head_size(v, z.kvheads);
	z.past = past ? past->dim[2] : 0;
	z.total = gg_dim_add(z.past, z.kv);
	return z;
}

static bool check_heads(gg_infer *f, const gg_shape *q, const gg_shape *k, const gg_shape *v)
{
	int64_t hq = gg_get_int(f->n, "q_num_heads"), hk = gg_get_int(f->n, "kv_num_heads");
	if (q->rank != k->rank || k->rank != v->rank || (q->rank != 3 && q->rank != 4))
		return gg_fail(f, "Q, K and V have ranks %d, %d and %d, expected 3 or 4, all the same",
		               q->rank, k->rank, v->rank);
	if (q->rank == 3 && (hq <= 0 || hk <= 0))
		return gg_fail(f, "inputs of rank 3 need q_num_heads and kv_num_heads");
	gg_dim a = heads(f->n, q, "q_num_heads"), b = heads(f->n, k, "kv_num_heads");
	if (gg_dim_known(a) && gg_dim_known(b) && (b == 0 || a % b))
		return gg_fail(f, "%lld heads of Q cannot share %lld of K", (long long)a, (long long)b);
	const gg_shape *each[] = {q, k, v};
	for (int i = 0; i < 3 && q->rank == 3; i++)
		if (gg_dim_known(each[i]->dim[2]) && each[i]->dim[2] % (i ? hk : hq))
			return gg_fail(f, "input %d has %lld columns, which are not %lld heads", i,
			               (long long)each[i]->dim[2], (long long)(i ? hk : hq));
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *q = &f->in[Q].shape, *k = &f->in[K].shape, *v = &f->in[V].shape;
	bool past = gg_given(f, PAST_K);
	if (past != gg_given(f, PAST_V))
		return gg_fail(f, "past_key and past_value come together");
	if (past && gg_given(f, LENGTHS))
		return gg_fail(f, "nonpad_kv_seqlen and past_key exclude each other");
	if (q->rank < 0 || k->rank < 0 || v->rank < 0 || (past && f->in[PAST_K].shape.rank < 0))
		return true;
	if (!check_heads(f, q, k, v))
		return false;
	if (past && (f->in[PAST_K].shape.rank != 4 || f->in[PAST_V].shape.rank != 4))
		return gg_fail(f, "past_key and past_value have rank 4");
	sizes z = sizes_of(f->n, q, k, v, past ? &f->in[PAST_K].shape : 0);
	f->out[0].shape = q->rank == 4
	                      ? gg_shape_of(4, (gg_dim[]){z.batch, z.qheads, z.q, z.vsize})
	                      : gg_shape_of(3, (gg_dim[]){z.batch, z.q, gg_dim_mul(z.qheads, z.vsize)});
	if (f->nout > 1)
		f->out[1].shape = gg_shape_of(4, (gg_dim[]){z.batch, z.kvheads, z.total, z.size});
	if (f->nout > 2)
		f->out[2].shape = gg_shape_of(4, (gg_dim[]){z.batch, z.kvheads, z.total, z.vsize});
	if (f->nout > 3)
		f->out[3].shape = gg_shape_of(4, (gg_dim[]){z.batch, z.qheads, z.q, z.total});
	return true;
}

/* ---- reference ------------------------------------------------------------------------------- */

/* One tensor as [batch, heads, positions, size] by strides. */
typedef struct view {
	double *x;
	int64_t b, h, s;
} view;

static view view_of(double *x, const gg_shape *s, int64_t heads)
{
	if (s->rank == 4)
		return (view){x, s->dim[1] * s->dim[2] * s->dim[3], s->dim[2] * s->dim[3], s->dim[3]};
	return (view){x, s->dim[1] * s->dim[2], heads ? s->dim[2] / heads : 0, s->dim[2]};
}

/* The past and the new positions one after another, as [batch, heads, total, size]. */
static double *joined(gg_eval *e, int now, int past, const sizes *z, int64_t size)
{
	double *x = gg_doubles(&e->in[now]), *old = past >= 0 ? gg_doubles(&e->in[past]) : 0;
	view v = view_of(x, &e->in[now].shape, z->kvheads);
	size_t n = (size_t)(z->batch * z->kvheads * z->total * size);
	double *out = gg_xcalloc(n ? n : 1, sizeof *out), *to = out;
	for (int64_t b = 0; b < z->batch; b++)
		for (int64_t h = 0; h < z->kvheads; h++)
			for (int64_t s = 0; s < z->total; s++, to += size)
				for (int64_t i = 0; i < size; i++)
					to[i] = s < z->past
					            ? old[((b * z->kvheads + h) * z->past + s) * size + i]
					            : v.x[b * v.b + h * v.h + (s - z->past) * v.s + i];
	free(x);
	free(old);
	return out;
}

/* What is added to the score of query position i and key position j; -inf: masked. */
static double bias(const gg_eval *e, const sizes *z, const int64_t *stride, int64_t b, int64_t h, int64_t i,
                   int64_t j)
{
	int64_t left = gg_get_int(e->n, "left_window_size"), right = gg_get_int(e->n, "right_window_size");
	int64_t valid = gg_has(e, LENGTHS) ? gg_get_i64(&e->in[LENGTHS], b) : z->total;
	int64_t at = i + (gg_has(e, LENGTHS) ? valid - z->q : z->past);
	if (j >= valid || (gg_get_int(e->n, "is_causal") && j > at) || (left >= 0 && at - j > left) ||
	    (right >= 0 && j - at > right))
		return -INFINITY;
	if (!gg_has(e, MASK))
		return 0;
	const gg_tensor *m = &e->in[MASK];
	int64_t columns = m->shape.rank ? m->shape.dim[m->shape.rank - 1] : 1;
	if (columns > 1 && j >= columns)
		return -INFINITY;
	double x = gg_get_f64(m, b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
	return m->dtype == GG_BOOL ? (x != 0 ? 0 : -INFINITY) : x;
}

/* exp(x) / sum of exp(x); zeros where everything is masked. */
static void softmax(double *x, int64_t n)
{
	double max = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		max = x[i] > max || isnan(x[i]) ? x[i] : max;
	for (int64_t i = 0; i < n; i++)
		sum += x[i] = max == -INFINITY ? 0 : exp(x[i] - max);
	for (int64_t i = 0; i < n && sum != 0; i++)
		x[i] /= sum;
}

typedef struct work {
	gg_eval *e;
	sizes z;
	view q, y;
	double *k, *v, *shown; /* shown: output 3, or NULL */
	int64_t mask[4];       /* strides */
	double scale, cap;
	int64_t mode;
} work;

/* One row of scores, from the products to the softmax; *shown is a copy at the stage asked for. */
static void score(const work *w, int64_t b, int64_t h, int64_t i, double *s, double *shown)
{
	const sizes *z = &w->z;
	size_t bytes = (size_t)z->total * sizeof *s;
	const double *q = w->q.x + b * w->q.b + h * w->q.h + i * w->q.s;
	const double *k = w->k + (b * z->kvheads + h / (z->qheads / z->kvheads)) * z->total * z->size;
	for (int64_t j = 0; j < z->total; j++) {
		s[j] = 0;
		for (int64_t d = 0; d < z->size; d++)
			s[j] += q[d] * k[j * z->size + d];
		s[j] *= w->scale;
	}
	for (int stage = 0; stage < 4; stage++) {
		for (int64_t j = 0; j < z->total; j++)
			s[j] = stage == 1 && w->cap > 0 ? w->cap * tanh(s[j] / w->cap)
			       : stage == 2             ? s[j] + bias(w->e, z, w->mask, b, h, i, j)
			                                : s[j];
		if (stage == 3)
			softmax(s, z->total);
		if (shown && stage == w->mode && bytes)
			memcpy(shown, s, bytes);
	}
}

static void attend(const work *w)
{
	const sizes *z = &w->z;
	double *s = gg_xcalloc(z->total ? (size_t)z->total : 1, sizeof *s);
	for (int64_t b = 0; b < z->batch; b++)
		for (int64_t h = 0; h < z->qheads; h++)
			for (int64_t i = 0; i < z->q; i++) {
				int64_t row = ((b * z->qheads + h) * z->q + i) * z->total;
				double *y = w->y.x + b * w->y.b + h * w->y.h + i * w->y.s;
				const double *v = w->v + (b * z->kvheads + h / (z->qheads / z->kvheads)) *
				                             z->total * z->vsize;
				score(w, b, h, i, s, w->shown ? w->shown + row : 0);
				for (int64_t j = 0; j < z->total; j++)
					for (int64_t d = 0; d < z->vsize && s[j] != 0; d++)
						y[d] += s[j] * v[j * z->vsize + d];
			}
	free(s);
}

/* Strides of the mask seen as [batch, heads, q, total]: the last axis may be shorter. */
static bool mask_strides(gg_eval *e, const sizes *z, int64_t *stride)
{
	if (!gg_has(e, MASK))
		return true;
	const gg_shape *m = &e->in[MASK].shape;
	int64_t full[] = {z->batch, z->qheads, z->q, z->total}, step = 1;
	for (int i = 3; i >= 0; i--) {
		int k = i - 4 + m->rank;
		int64_t n = k >= 0 ? m->dim[k] : 1;
		if (m->rank > 4 || (n != 1 && n != full[i] && !(i == 3 && n < full[i])))
			return gg_fail(e, "attn_mask has %lld along axis %d, expected %lld or 1",
			               (long long)n, k, (long long)full[i]);
		stride[i] = n == 1 ? 0 : step;
		step *= n;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	bool past = gg_has(e, PAST_K);
	const gg_attr *scale = gg_find_attr(e->n, "scale");
	work w = {
	    .e = e, .cap = gg_get_float(e->n, "softcap"), .mode = gg_get_int(e->n, "qk_matmul_output_mode")};
	w.z = sizes_of(e->n, &e->in[Q].shape, &e->in[K].shape, &e->in[V].shape,
	               past ? &e->in[PAST_K].shape : 0);
	w.scale = scale ? (double)scale->f : 1 / sqrt((double)w.z.size);
	if (!mask_strides(e, &w.z, w.mask))
		return false;
	double *q = gg_doubles(&e->in[Q]);
	size_t ny = (size_t)gg_count(&e->out[0]);
	double *y = gg_xcalloc(ny ? ny : 1, sizeof *y);
	w.q = view_of(q, &e->in[Q].shape, w.z.qheads);
	w.y = view_of(y, &e->out[0].shape, w.z.qheads);
	w.k = joined(e, K, past ? PAST_K : -1, &w.z, w.z.size);
	w.v = joined(e, V, past ? PAST_V : -1, &w.z, w.z.vsize);
	size_t ns = gg_wanted(e, 3) ? (size_t)gg_count(&e->out[3]) : 0;
	w.shown = ns ? gg_xcalloc(ns, sizeof *w.shown) : 0;
	attend(&w);
	gg_store_all(&e->out[0], y);
	if (gg_wanted(e, 1))
		gg_store_all(&e->out[1], w.k);
	if (gg_wanted(e, 2))
		gg_store_all(&e->out[2], w.v);
	if (w.shown)
		gg_store_all(&e->out[3], w.shown);
	double *all[] = {q, y, w.k, w.v, w.shown};
	for (int i = 0; i < 5; i++)
		free(all[i]);
	return true;
}

const gg_op gg_op_Attention = {
    .name = "Attention",
    .doc = "softmax(Q K^T * scale + mask) V, by heads",
    .min_in = 3,
    .max_in = 7,
    .min_out = 1,
    .max_out = 4,
    .attrs = (const gg_attr_spec[]){{"is_causal", GG_ATTR_INT, .def = "0"},
                                    {"kv_num_heads", GG_ATTR_INT, .def = "0"},
                                    {"left_window_size", GG_ATTR_INT, .def = "-1"},
                                    {"q_num_heads", GG_ATTR_INT, .def = "0"},
                                    {"qk_matmul_output_mode", GG_ATTR_INT, .def = "0"},
                                    {"right_window_size", GG_ATTR_INT, .def = "-1"},
                                    {"scale", GG_ATTR_FLOAT},
                                    {"softcap", GG_ATTR_FLOAT, .def = "0"},
                                    {"softmax_precision", GG_ATTR_INT},
                                    {0}},
    .in = {{GG_FLOATS, 'T'},
           {GG_FLOATS, 'T'},
           {GG_FLOATS, 'V'},
           {GG_FLOATS | GG_INTS | GG_DT(GG_BOOL), 0},
           {GG_FLOATS, 'T'},
           {GG_FLOATS, 'V'},
           {GG_DT(GG_I64), 0}},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'V'}, {GG_FLOATS, 'T'}},
    .optional = 1 << MASK | 1 << PAST_K | 1 << PAST_V | 1 << LENGTHS,
    .infer = infer,
    .eval = eval};
