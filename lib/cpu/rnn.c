/* LSTM and GRU: the inputs' part of all gates and steps is one product; then, step by step, the
 * state's part and the cells. Each direction goes alone.
 *
 *     gates: [seq, batch, ngates * hidden], rows of a batch entry contiguous */
#include "cpu.h"
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

typedef struct rnn {
	bool gru, after; /* after: linear_before_reset, the reset gate comes after the product */
	int64_t seq, batch, in, hidden, dirs, gates;
	/* By direction. candidate: GRU's last gate, where it is a product of its own. */
	dnn_op *input[2], *state[2], *candidate[2];
	bool packed; /* weights are constant and were packed in prepare */
	const gg_node *n;
	int x, w, r, b, h0, c0;
	int out[3]; /* Y, Y_h, Y_c; -1: not wanted */
} rnn;

static int out_slot(const gg_call *c, int i)
{
	const gg_value *v = gg_out(c->node, i);
	for (int k = 0; v && k < c->nout; k++)
		if (c->out_value[k] == v)
			return k;
	return -1;
}

/* rows x k times the transpose of a matrix of cols x k. */
static dnn_op *product(int64_t rows, int64_t k, int64_t cols)
{
	dnn_matmul m = {.rank = 2,
	                .a = {rows, k},
	                .b = {k, cols},
	                .c = {rows, cols},
	                .a_stride = {k, 1},
	                .b_stride = {1, k},
	                .pack = true};
	return dnn_matmul_new(&m);
}

static void release(gg_call *c)
{
	rnn *k = c->state;
	for (int d = 0; k && d < 2; d++) {
		dnn_free(k->input[d]);
		dnn_free(k->state[d]);
		dnn_free(k->candidate[d]);
	}
	free(k);
	c->state = 0;
}

static bool pack(const gg_call *c, const rnn *k, int d)
{
	int64_t n = k->hidden, row = k->gates * n;
	const float *w = cpu_in(c, k->w) + d * row * k->in, *r = cpu_in(c, k->r) + d * row * n;
	return dnn_pack(k->input[d], w) && dnn_pack(k->state[d], r) &&
	       (!k->candidate[d] || dnn_pack(k->candidate[d], r + 2 * n * n));
}

static bool make_products(gg_call *c, rnn *k, int d)
{
	bool split = k->gru && !k->after;
	k->input[d] = product(k->seq * k->batch, k->in, k->gates * k->hidden);
	k->state[d] = product(k->batch, k->hidden, (split ? 2 : k->gates) * k->hidden);
	k->candidate[d] = split ? product(k->batch, k->hidden, k->hidden) : 0;
	bool ok = k->input[d] && k->state[d] && (!split || k->candidate[d]);
	return ok && (!k->packed || pack(c, k, d));
}

static bool prepare(gg_call *c)
{
	rnn *k = c->state = gg_xcalloc(1, sizeof *k);
	const gg_node *n = k->n = c->node;
	int *slot[] = {&k->x, &k->w, &k->r, &k->b, 0, &k->h0, &k->c0};
	for (int i = 0; i < 7; i++)
		if (slot[i])
			*slot[i] = cpu_slot(c, n, i);
	for (int i = 0; i < 3; i++)
		k->out[i] = out_slot(c, i);
	const gg_shape *x = &c->in[k->x].shape, *r = &c->in[k->r].shape;
	k->gru = !strcmp(n->op->name, "GRU");
	k->after = k->gru && gg_get_int(n, "linear_before_reset");
	k->gates = k->gru ? 3 : 4;
	k->seq = x->dim[0];
	k->batch = x->dim[1];
	k->in = x->dim[2];
	k->dirs = r->dim[0];
	k->hidden = r->dim[2];
	if (!k->batch || !k->hidden || !k->in || !k->seq)
		return true;
	k->packed = c->in_const[k->w] && c->in_const[k->r];
	for (int d = 0; d < k->dirs; d++)
		if (!make_products(c, k, d)) {
			release(c);
			return gg_node_error(c->d, GG_MACHINE, n, "oneDNN has no product for it");
		}
	return true;
}

/* Adds vector b to each of n rows; NULL: nothing. */
static void add_rows(int64_t n, int64_t cols, float *d, const float *b)
{
	for (int64_t i = 0; b && i < n; i++)
		vec->acc_sum(cols, d + i * cols, b);
}

typedef struct pass { /* one direction */
	dnn_op *state, *candidate;
	const float *rb; /* recurrence bias, or NULL */
	float *gates, *part, *h, *c, *tmp;
	void *scratch;
} pass;

static bool multiply(dnn_op *o, const float *x, float *y, const pass *p)
{
	return dnn_run(o, &(dnn_args){.src = x, .dst = y, .scratch = p->scratch});
}

static bool step_lstm(const rnn *k, const pass *p, float *g)
{
	int64_t n = k->hidden, row = 4 * n;
	if (!multiply(p->state, p->h, p->part, p))
		return false;
	for (int64_t b = 0; b < k->batch; b++) {
		vec->acc_sum(row, g + b * row, p->part + b * row);
		vec->lstm(n, g + b * row, p->c + b * n, p->h + b * n);
	}
	return true;
}

/* Gates z, r, h. */
static bool step_gru(const rnn *k, const pass *p, float *g)
{
	int64_t n = k->hidden, row = 3 * n, cols = k->after ? row : 2 * n;
	if (!multiply(p->state, p->h, p->part, p))
		return false;
	for (int64_t b = 0; b < k->batch; b++) {
		float *gate = g + b * row, *part = p->part + b * cols, *reset = gate + n;
		vec->acc_sum(2 * n, gate, part);
		if (p->rb)
			vec->acc_sum(2 * n, gate, p->rb);
		vec->sigmoid(n, reset, reset, reset, 0);
		if (!k->after) {
			vec->mul(n, p->tmp + b * n, reset, p->h + b * n, 0);
			continue;
		}
		if (p->rb)
			vec->acc_sum(n, part + 2 * n, p->rb + 2 * n);
		vec->mul(n, part + 2 * n, part + 2 * n, reset, 0);
		vec->acc_sum(n, gate + 2 * n, part + 2 * n);
	}
	if (!k->after && !multiply(p->candidate, p->tmp, p->part, p))
		return false;
	for (int64_t b = 0; b < k->batch; b++) {
		float *gate = g + b * row;
		if (!k->after)
			vec->acc_sum(n, gate + 2 * n, p->part + b * n);
		if (!k->after && p->rb)
			vec->acc_sum(n, gate + 2 * n, p->rb + 2 * n);
		vec->gru(n, gate, gate + 2 * n, p->h + b * n, p->h + b * n);
	}
	return true;
}

static void store_last(gg_call *c, int slot, int64_t at, const float *p, int64_t n)
{
	if (slot >= 0)
		memcpy((float *)c->out[slot].data + at, p, (size_t)n * sizeof *p);
}

static void load_first(gg_call *c, int slot, int64_t at, float *p, int64_t n)
{
	if (slot >= 0)
		memcpy(p, cpu_in(c, slot) + at, (size_t)n * sizeof *p);
	else
		vec->fill(n, p, 0);
}

static bool run_direction(gg_call *c, rnn *k, pass *p, int64_t dir, bool reverse)
{
	int64_t n = k->hidden, row = k->gates * n, state = k->batch * n;
	const float *bias = k->b < 0 ? 0 : cpu_in(c, k->b) + dir * 2 * row;
	p->state = k->state[dir];
	p->candidate = k->candidate[dir];
	if ((!k->packed && !pack(c, k, (int)dir)) || !multiply(k->input[dir], cpu_in(c, k->x), p->gates, p))
		return false;
	add_rows(k->seq * k->batch, row, p->gates, bias);
	p->rb = bias ? bias + row : 0;
	if (!k->gru)
		add_rows(k->seq * k->batch, row, p->gates, p->rb);
	load_first(c, k->h0, dir * state, p->h, state);
	load_first(c, k->c0, dir * state, p->c, state);
	for (int64_t s = 0; s < k->seq; s++) {
		int64_t t = reverse ? k->seq - 1 - s : s;
		float *g = p->gates + t * k->batch * row;
		if (!(k->gru ? step_gru(k, p, g) : step_lstm(k, p, g)))
			return false;
		store_last(c, k->out[0], (t * k->dirs + dir) * state, p->h, state);
	}
	store_last(c, k->out[1], dir * state, p->h, state);
	store_last(c, k->out[2], dir * state, p->c, state);
	return true;
}

/* No steps: the state goes through. */
static void run_empty(gg_call *c, const rnn *k)
{
	int from[] = {-1, k->h0, k->c0};
	for (int i = 1; i < 3; i++)
		if (k->out[i] >= 0 && gg_count(&c->out[k->out[i]]))
			load_first(c, from[i], 0, c->out[k->out[i]].data, gg_count(&c->out[k->out[i]]));
}

static bool run(gg_call *c)
{
	rnn *k = c->state;
	if (!k->input[0] && k->batch && k->hidden && k->seq)
		return gg_node_error(c->d, GG_UNSUPPORTED, c->node, "input of size 0");
	if (!k->input[0]) {
		run_empty(c, k);
		return true;
	}
	const char *mode = gg_get_string(c->node, "direction");
	size_t state = (size_t)(k->batch * k->hidden), scratch = 0;
	dnn_op *all[] = {k->input[0], k->state[0], k->candidate[0]}; /* the other direction's are alike */
	for (int i = 0; i < 3; i++)
		if (all[i] && dnn_scratch(all[i]) > scratch)
			scratch = dnn_scratch(all[i]);
	size_t floats = state * (size_t)(k->gates * (k->seq + 1) + 3);
	float *mem = gg_xaligned(floats * sizeof *mem), *own = gg_xaligned(scratch + 1);
	pass p = {.gates = mem, .scratch = own};
	p.part = p.gates + state * (size_t)(k->gates * k->seq);
	p.h = p.part + state * (size_t)k->gates;
	p.c = p.h + state;
	p.tmp = p.c + state;
	bool ok = true;
	for (int64_t d = 0; ok && d < k->dirs; d++)
		ok = run_direction(c, k, &p, d, d || !strcmp(mode, "reverse"));
	free(mem);
	free(own);
	return ok || gg_node_error(c->d, GG_MACHINE, c->node, "a product failed");
}

const gg_kernel cpu_lstm = {"cpu_lstm", prepare, run, release};
const gg_kernel cpu_gru = {"cpu_gru", prepare, run, release};
