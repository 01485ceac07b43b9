/* Attention and PackedAttention: heads are read where they lie. attend.c and flash.c have the kernels.
 * (cuDNN's engines: that of 9.14 which takes the graph gave NaN; the other one refuses it.)
 *
 * What is remembered of earlier positions is copied in front of the new keys and values, as the node
 * yields them: into its outputs, or into scratch where nobody reads those. */
#include "cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS, PACKED_MASK = 1 };

typedef struct attention {
	cuda_attend o;
	cuda_kernel k;
	bool flash;  /* the kernel is flash.c's */
	bool packed; /* queries, keys and values are thirds of each row */
	bool empty;
	size_t at_k, at_v;        /* of the keys and values: in a packed input, or in scratch; bytes */
	cuda_copy old[2], new[2]; /* of keys and values: to the outputs or scratch */
} attention;

static bool has(const gg_call *c, int i) { return i < c->nin && c->in[i].dtype; }
static bool yields(const gg_call *c, int i) { return i < c->nout && c->out[i].dtype; }

/* [batch, heads, positions, size], or [batch, positions, heads * size]. */
static void strides_of(const gg_shape *s, int64_t heads, int64_t *stride)
{
	bool four = s->rank == 4;
	int64_t size = four ? s->dim[3] : s->dim[2] / heads;
	stride[3] = 1;
	stride[2] = four ? size : heads * size;
	stride[1] = four ? s->dim[2] * size : size;
	stride[0] = four ? s->dim[1] * stride[1] : s->dim[1] * stride[2];
}

/* The mask as [batch, heads, q, kv]: the last axis may be shorter. */
static bool describe_mask(gg_call *c, int slot, cuda_attend *o)
{
	const gg_shape *m = &c->in[slot].shape;
	int64_t full[] = {o->batch, o->heads, o->q, o->kv}, step = 1;
	for (int i = 3; i >= 0; i--) {
		int k = i - 4 + m->rank;
		int64_t n = k >= 0 ? m->dim[k] : 1;
		if (m->rank > 4 || (n != 1 && n != full[i] && !(i == 3 && n < full[i])))
			return gg_node_error(c->d, GG_MALFORMED, c->node,
			                     "attn_mask has %lld along axis %d, expected %lld or 1",
			                     (long long)n, k, (long long)full[i]);
		o->sm[i] = n == 1 ? 0 : step;
		step *= n;
	}
	o->mask = c->in[slot].dtype;
	o->columns = m->rank ? m->dim[m->rank - 1] : 1;
	return true;
}

static bool describe_packed(gg_call *c, attention *k, cuda_attend *o)
{
	const gg_shape *y = &c->out[0].shape;
	int64_t wide = y->dim[2], size = wide / gg_get_int(c->node, "heads"), row = 3 * wide;
	o->batch = y->dim[0];
	o->heads = wide / size;
	o->group = 1;
	o->q = o->kv = y->dim[1];
	o->size = o->vsize = size;
	memcpy(o->sq, (int64_t[]){o->q * row, size, row, 1}, sizeof o->sq);
	memcpy(o->sk, o->sq, sizeof o->sk);
	memcpy(o->sv, o->sq, sizeof o->sv);
	strides_of(y, o->heads, o->sy);
	o->left = -1;
	o->right = gg_get_int(c->node, "is_causal") ? 0 : -1;
	k->at_k = (size_t)wide * gg_dtype_size(o->dtype);
	k->at_v = 2 * k->at_k;
	return !has(c, PACKED_MASK) || describe_mask(c, PACKED_MASK, o);
}

static bool describe(gg_call *c, cuda_attend *o)
{
	const gg_node *n = c->node;
	const gg_shape *q = &c->in[Q].shape, *k = &c->in[K].shape, *v = &c->in[V].shape;
	bool four = q->rank == 4;
	int64_t kvheads = four ? k->dim[1] : gg_get_int(n, "kv_num_heads");
	o->batch = q->dim[0];
	o->heads = four ? q->dim[1] : gg_get_int(n, "q_num_heads");
	o->group = kvheads ? o->heads / kvheads : 1;
	o->q = q->dim[q->rank - 2];
	o->size = four ? q->dim[3] : q->dim[2] / o->heads;
	o->vsize = four ? v->dim[3] : v->dim[2] / kvheads;
	o->past = has(c, PAST_K) ? c->in[PAST_K].shape.dim[2] : 0;
	o->kv = o->past + k->dim[k->rank - 2];
	o->lengths = has(c, LENGTHS);
	o->cap = fmax(0, (double)gg_get_float(n, "softcap"));
	o->left = gg_get_int(n, "left_window_size");
	o->right = gg_get_int(n, "is_causal") ? 0 : gg_get_int(n, "right_window_size");
	strides_of(q, o->heads, o->sq);
	strides_of(k, kvheads, o->sk);
	strides_of(v, kvheads, o->sv);
	strides_of(&c->out[0].shape, o->heads, o->sy);
	return !has(c, MASK) || describe_mask(c, MASK, o);
}

/* Keys (i = 0) or values as [batch, heads, all positions, size]. */
static bool join(gg_call *c, attention *k, int i)
{
	cuda_attend *o = &k->o;
	int64_t *from = i ? o->sv : o->sk, size = i ? o->vsize : o->size, heads = o->heads / o->group;
	int64_t dim[] = {o->batch, heads, o->past, size}, to[4], old[4];
	size_t bytes = gg_dtype_size(o->dtype);
	strides_of(&(gg_shape){4, {o->batch, heads, o->kv, size}}, heads, to);
	strides_of(&(gg_shape){4, {o->batch, heads, o->past, size}}, heads, old);
	if (o->past && !cuda_copy_make(c->d, bytes, 4, dim, old, 0, to, 0, &k->old[i]))
		return false;
	dim[2] = o->kv - o->past;
	if (!cuda_copy_make(c->d, bytes, 4, dim, from, 0, to, o->past * size, &k->new[i]))
		return false;
	memcpy(from, to, sizeof to);
	*(i ? &k->at_v : &k->at_k) = c->workspace;
	if (!yields(c, 1 + i))
		c->workspace += (size_t)(o->batch * heads * o->kv * size) * bytes / 64 * 64 + 64;
	return true;
}

/* ---- the kernels ------------------------------------------------------------------------------- */

static bool prepare_any(gg_call *c, bool tf32)
{
	const gg_attr *scale = gg_find_attr(c->node, "scale");
	attention *k = c->state = gg_xcalloc(1, sizeof *k);
	cuda_attend *o = &k->o;
	o->dtype = c->out[0].dtype;
	o->tf32 = tf32;
	k->empty = !gg_count(&c->out[0]);
	k->packed = !strcmp(c->node->op->name, "PackedAttention");
	if (!k->packed) {
		if (!describe(c, o))
			return false;
		for (int i = 0; i < 2; i++)
			if ((has(c, PAST_K + i) || yields(c, 1 + i)) && !join(c, k, i))
				return false;
	} else if (!k->empty && !describe_packed(c, k, o))
		return false;
	if (k->empty)
		return true;
	o->scale = scale ? (double)scale->f : 1 / sqrt((double)o->size);
	k->flash = k->at_k % 16 == 0 && cuda_flash_fits(o);
	return k->flash ? cuda_flash_make(c->d, o, &k->k) : cuda_attend_make(c->d, o, &k->k);
}

static bool prepare(gg_call *c) { return prepare_any(c, false); }
static bool prepare_tf32(gg_call *c) { return prepare_any(c, true); }

/* Where the keys (i = 0) or values are, after what is old and new has been joined. NULL: reported. */
static char *joined(gg_call *c, attention *k, int i)
{
	char *to = yields(c, 1 + i) ? c->out[1 + i].data : (char *)c->scratch + (i ? k->at_v : k->at_k);
	if (!has(c, PAST_K + i) && !yields(c, 1 + i))
		return c->in[K + i].data;
	return (!k->o.past || cuda_copy_run(c->d, &k->old[i], c->in[PAST_K + i].data, to)) &&
	               cuda_copy_run(c->d, &k->new[i], c->in[K + i].data, to)
	           ? to
	           : NULL;
}

static bool run(gg_call *c)
{
	attention *k = c->state;
	char *q = c->in[Q].data;
	void *arg[] = {q, q + k->at_k, q + k->at_v, NULL, NULL, c->out[0].data};
	for (int i = 0; i < 2 && !k->packed; i++)
		if (!(arg[K + i] = joined(c, k, i)))
			return false;
	if (k->empty)
		return true;
	arg[3] = k->o.mask ? c->in[k->packed ? PACKED_MASK : MASK].data : NULL;
	arg[4] = k->o.lengths ? c->in[LENGTHS].data : NULL;
	if (k->flash)
		return cuda_flash_run(c->d, &k->o, &k->k, arg[Q], arg[K], arg[V], arg[3], arg[5]);
	return cuda_launch(c->d, &k->k, 6, arg);
}

static void release(gg_call *c) { free(c->state); }

const gg_kernel cuda_attention = {"cuda_attention", prepare, run, release};
const gg_kernel cuda_attention_tf32 = {"cuda_attention_tf32", prepare_tf32, run, release};
