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

/* The score s of query position i and key position j, masked. */
static double masked(double s, const gg_eval *e, const sizes *z, const int64_t *stride, int64_t b, int64_t h,
                     int64_t i, int64_t j)
{
	int64_t left = gg_get_int(e->n, "left_window_size"), right = gg_get_int(e->n, "right_window_size");
	int64_t valid = gg_has(e, LENGTHS) ? gg_get_i64(&e->in[LENGTHS], b) : z->total;
	int64_t at = i + (gg_has(e, LENGTHS) ? valid - z->q : z->past);
	if (j >= valid || (gg_get_int(e->n, "is_causal") && j > at) || (left >= 0 && at - j > left) ||
	    (right >= 0 && j - at > right))
		return s - INFINITY;
	if (!gg_has(e, MASK))
		return s;
	return gg_masked(s, &e->in[MASK], stride, b, h, i, j);
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
			       : stage == 2             ? masked(s[j], w->e, z, w->mask, b, h, i, j)
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

static bool eval(gg_eval *e)
{
	bool past = gg_has(e, PAST_K);
	const gg_attr *scale = gg_find_attr(e->n, "scale");
	work w = {
	    .e = e, .cap = gg_get_float(e->n, "softcap"), .mode = gg_get_int(e->n, "qk_matmul_output_mode")};
	w.z = sizes_of(e->n, &e->in[Q].shape, &e->in[K].shape, &e->in[V].shape,
	               past ? &e->in[PAST_K].shape : 0);
	w.scale = scale ? (double)scale->f : 1 / sqrt((double)w.z.size);
	if (gg_has(e, MASK) &&
	    !gg_mask_strides(e, MASK, (int64_t[]){w.z.batch, w.z.qheads, w.z.q, w.z.total}, w.mask))
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

/* ---- plain ops ------------------------------------------------------------------------------- */

static sizes sizes_at(const gg_node *n)
{
	const gg_value *past = gg_in(n, PAST_K);
	return sizes_of(n, &gg_in(n, Q)->shape, &gg_in(n, K)->shape, &gg_in(n, V)->shape,
	                past ? &past->shape : 0);
}

/* Does where a query stands decide which keys it sees? */
static bool by_position(const gg_node *n)
{
	return gg_get_int(n, "is_causal") || gg_get_int(n, "left_window_size") >= 0 ||
	       gg_get_int(n, "right_window_size") >= 0;
}

/* What plain ops cannot say, or not without sizes; NULL: they can. */
static const char *not_plain(const gg_node *n)
{
	const gg_value *q = gg_in(n, Q), *m = gg_in(n, MASK);
	if (gg_in(n, LENGTHS) || gg_find_attr(n, "softmax_precision"))
		return "lengths or a precision of its own";
	if (q->dtype != gg_in(n, V)->dtype || q->shape.rank < 3 || gg_in(n, K)->shape.rank < 3 ||
	    gg_in(n, V)->shape.rank < 3)
		return "ranks that are not known, or several dtypes";
	sizes z = sizes_at(n);
	bool sized = q->shape.rank == 3 || z.qheads != z.kvheads || by_position(n) ||
	             !gg_find_attr(n, "scale");
	if (sized && (!gg_shape_known(&q->shape) || !gg_shape_known(&gg_in(n, K)->shape) ||
	              !gg_shape_known(&gg_in(n, V)->shape) || gg_shape_count(&q->shape) == 0 ||
	              !gg_dim_known(z.total)))
		return "sizes that are not known, or empty inputs";
	if (m && (m->shape.rank < 0 || (m->dtype != GG_BOOL && m->dtype != q->dtype) ||
	          (m->shape.rank && m->shape.dim[m->shape.rank - 1] != 1 &&
	           m->shape.dim[m->shape.rank - 1] != z.total)))
		return "a mask shorter than the keys or of another dtype";
	return 0;
}

static gg_value *number(gg_node *n, double x)
{
	uint64_t bits = 0;
	gg_tensor t = {n->out[0]->dtype, {.rank = 0}, &bits};
	gg_set_f64(&t, 0, x);
	return gg_add_tensor(n->graph, "number", &t);
}

static gg_value *ints(gg_node *n, int count, const int64_t *v)
{
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){count}), (void *)v};
	return gg_add_tensor(n->graph, "shape", &t);
}

static gg_value *two(gg_diag *d, gg_node *n, const char *op, gg_value *a, gg_value *b)
{
	return a && b ? gg_expand_node(d, n, op, 2, (gg_value *[]){a, b}) : 0;
}

/* Composed with the Transpose that made x, so that none is added to it. */
static gg_value *transposed(gg_diag *d, gg_node *n, gg_value *x, const int64_t *perm)
{
	int64_t whole[4];
	const gg_node *t = x ? x->producer : 0;
	const gg_attr *inner = t && !strcmp(t->op->name, "Transpose") ? gg_find_attr(t, "perm") : 0;
	if (!x)
		return 0;
	for (int i = 0; i < 4; i++)
		whole[i] = inner ? (inner->ints[perm[i]] + 4) % 4 : perm[i];
	gg_value *from = inner ? t->in[0].value : x;
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n, gg_op_find("Transpose"), 1, &from, 1, &name);
	gg_set_attr_ints(k, "perm", 4, whole);
	gg_merge_loc(k, n);
	return gg_infer_node(d, k) ? k->out[0] : 0;
}

static const int64_t to_heads[] = {0, 2, 1, 3}, to_columns[] = {0, 1, 3, 2};

/* Input i as [batch, heads, positions, size]. */
static gg_value *in_heads(gg_diag *d, gg_node *n, int i, const sizes *z)
{
	gg_value *x = gg_in(n, i);
	gg_dim heads = i == Q ? z->qheads : z->kvheads, s = i == Q ? z->q : z->kv,
	       size = i == V ? z->vsize : z->size;
	if (x->shape.rank == 4)
		return x;
	x = two(d, n, "Reshape", x, ints(n, 4, (int64_t[]){z->batch, s, heads, size}));
	return transposed(d, n, x, to_heads);
}

/* Keys (i = K) or values, behind those of the past: output i of the node. */
static gg_value *with_past(gg_diag *d, gg_node *n, int i, const sizes *z)
{
	gg_value *x = in_heads(d, n, i, z), *past = gg_in(n, PAST_K + i - K);
	if (!x || !past)
		return x;
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n, gg_op_find("Concat"), 2, (gg_value *[]){past, x}, 1, &name);
	gg_set_attr_int(k, "axis", 2);
	gg_merge_loc(k, n);
	return gg_infer_node(d, k) ? k->out[0] : 0;
}

/* The same once for each head of Q. */
static gg_value *for_each_head(gg_diag *d, gg_node *n, gg_value *x, const sizes *z)
{
	if (!x || z->kvheads == z->qheads)
		return x;
	int64_t total = x->shape.dim[2], size = x->shape.dim[3];
	x = two(d, n, "Reshape", x, ints(n, 5, (int64_t[]){z->batch, z->kvheads, 1, total, size}));
	x = two(d, n, "Expand", x, ints(n, 5, (int64_t[]){1, 1, z->qheads / z->kvheads, 1, 1}));
	return two(d, n, "Reshape", x, ints(n, 4, (int64_t[]){z->batch, z->qheads, total, size}));
}

/* `count` numbers from `from` on, as a column or a row. */
static gg_value *positions(gg_node *n, int64_t count, int64_t from, bool column)
{
	gg_shape shape = column ? gg_shape_of(2, (gg_dim[]){count, 1}) : gg_shape_of(1, (gg_dim[]){count});
	gg_tensor t = {GG_I64, shape, gg_xcalloc((size_t)count + 1, sizeof(int64_t))};
	for (int64_t i = 0; i < count; i++)
		((int64_t *)t.data)[i] = from + i;
	gg_value *v = gg_add_tensor(n->graph, "positions", &t);
	free(t.data);
	return v;
}

/* Which keys a query sees where it stands: at most `right` behind it and `left` before it. */
static gg_value *seen(gg_diag *d, gg_node *n, const sizes *z)
{
	int64_t left = gg_get_int(n, "left_window_size"),
	        right = gg_get_int(n, "is_causal") ? 0 : gg_get_int(n, "right_window_size");
	gg_value *key = positions(n, z->total, 0, false), *a = 0, *b = 0;
	if (right >= 0)
		a = two(d, n, "LessOrEqual", key, positions(n, z->q, z->past + right, true));
	if (left >= 0)
		b = two(d, n, "GreaterOrEqual", key, positions(n, z->q, z->past - left, true));
	return a && b ? two(d, n, "And", a, b) : a ? a : b;
}

/* x where `mask` holds (NULL: everywhere), else the number. */
static gg_value *chosen(gg_diag *d, gg_node *n, gg_value *mask, gg_value *x, double otherwise)
{
	if (!mask || !x)
		return x;
	return gg_expand_node(d, n, "Where", 3, (gg_value *[]){mask, x, number(n, otherwise)});
}

/* The stages of ref's scores, the last one their softmax: stage[0] to stage[3]. */
static bool stages(gg_diag *d, gg_node *n, const sizes *z, gg_value *keys, gg_value **stage)
{
	const gg_attr *scale = gg_find_attr(n, "scale");
	double by = scale ? (double)scale->f : 1 / sqrt((double)z->size), cap = gg_get_float(n, "softcap");
	int64_t left = gg_get_int(n, "left_window_size");
	gg_value *k = transposed(d, n, for_each_head(d, n, keys, z), to_columns), *m = gg_in(n, MASK);
	gg_value *s = two(d, n, "MatMul", in_heads(d, n, Q, z), k), *allowed[2] = {0, 0};
	if (by != 1)
		s = two(d, n, "Mul", s, number(n, by));
	stage[0] = s;
	if (cap > 0) {
		s = two(d, n, "Div", s, number(n, cap));
		s = s ? gg_expand_node(d, n, "Tanh", 1, &s) : 0;
		s = two(d, n, "Mul", s, number(n, cap));
	}
	stage[1] = s;
	if (m && m->dtype == GG_BOOL)
		allowed[0] = m;
	else if (m)
		s = two(d, n, "Add", s, m);
	if (by_position(n) && !(allowed[1] = seen(d, n, z)))
		return false;
	for (int i = 0; i < 2; i++)
		s = chosen(d, n, allowed[i], s, -INFINITY);
	stage[2] = s;
	s = s ? gg_expand_node(d, n, "Softmax", 1, &s) : 0;
	if (m || (left >= 0 && z->past + z->q - 1 - left >= z->total)) /* rows that see no key are 0 */
		for (int i = 0; i < 2; i++)
			s = chosen(d, n, allowed[i], s, 0);
	stage[3] = s;
	return s != 0;
}

static bool expand(gg_diag *d, gg_node *n)
{
	const char *why = not_plain(n);
	if (why)
		return gg_node_error(d, GG_UNSUPPORTED, n, "%s cannot be written in plain ops", why);
	sizes z = sizes_at(n);
	gg_value *keys = with_past(d, n, K, &z), *stage[4], *made[4] = {0, keys};
	if (!keys || !stages(d, n, &z, keys, stage))
		return false;
	made[2] = with_past(d, n, V, &z);
	made[3] = stage[gg_get_int(n, "qk_matmul_output_mode") & 3];
	gg_value *x = two(d, n, "MatMul", stage[3], for_each_head(d, n, made[2], &z));
	if (gg_in(n, Q)->shape.rank == 3) {
		x = transposed(d, n, x, to_heads);
		x = two(d, n, "Reshape", x, ints(n, 3, (int64_t[]){z.batch, z.q, z.qheads * z.vsize}));
	}
	if (!(made[0] = x))
		return false;
	gg_value *k = gg_in(n, K);
	for (int i = 0; i < n->nout; i++) {
		if (n->out[i] && !gg_can_replace(n->out[i], made[i]))
			made[i] = gg_expand_node(d, n, "Identity", 1, &made[i]);
		if (n->out[i] && !made[i])
			return false;
		if (n->out[i])
			gg_replace_value(n->out[i], made[i]);
	}
	gg_remove_node(n);
	if (k->producer && !k->nuses && !strcmp(k->producer->op->name, "Transpose") && !k->producer->nfollow)
		gg_remove_node(k->producer);
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
    .eval = eval,
    .expand = expand};
