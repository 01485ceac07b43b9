/* The cpu backend, in reading order: vec.h loops over floats, dnn.h oneDNN in our words, chain.h
 * programs over tiles, then one file per kernel family: pointwise, graph_kernel, conv, matmul, pool, norm,
 * softmax, reduce, rnn, copy, resize.
 *
 * A kernel's output may lie over one of its inputs, exactly (in place) or not (the memory plan did
 * not know of the run). cpu_out_begin and cpu_out_end make that somebody else's problem: where it
 * would hurt, the kernel writes to a buffer of its own that is then copied. */
#ifndef CPU_H
#define CPU_H

#include "../backend.h"
#include "vec.h"

extern int cpu_threads;

/* Dims in the order of memory, outermost first: channels last for nhwc. */
int cpu_physical(const gg_shape *s, gg_layout l, int64_t *dim);
/* Channels-last and plain are the same bytes. */
bool cpu_same_bytes(const gg_shape *s);
/* One layout to another, float or not; both plain, nhwc or blocked. */
bool cpu_convert(const gg_tensor *src, gg_layout from, gg_tensor *dst, gg_layout to);
/* The call's first node on ref, into `out` in output 0's layout: for shapes not worth a kernel. */
bool cpu_reference(gg_call *c, float *out);
/* Says, when a call is prepared, that oneDNN does not take it and its (slow) reference will run. */
void cpu_say_reference(const gg_call *c);
/* Pieces of scratch begin at lines of the cache. */
static inline size_t cpu_round(size_t n) { return gg_round_up(n, 64); }
static inline int64_t cpu_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline const float *cpu_in(const gg_call *c, int i) { return i < c->nin ? c->in[i].data : 0; }

/* Index in c->in of what covered node n reads in slot i; -1: absent, or made inside the run. */
int cpu_slot(const gg_call *c, const gg_node *n, int i);

/* Where to write output 0. `reads` are inputs that are read after writing began; elementwise
 * reads at the same place are not among them. */
float *cpu_out_begin(gg_call *c, int nreads, const int *reads);
void cpu_out_end(gg_call *c, float *p);

/* --- runs of pointwise nodes (pointwise.c) ------------------------------------------------- */
typedef struct cpu_chain cpu_chain;
/* What the head of a run still wants done to its result first: + beta * in[add], an activation. */
typedef struct cpu_head {
	int add; /* input of the call, broadcast; -1: none */
	float beta;
	const char *activation; /* as in FusedConv and MatMulBias; NULL or "": none */
	float param[2];
} cpu_head;
#define CPU_HEAD ((cpu_head){.add = -1, .beta = 1})
/* The head's wishes, then the covered nodes from `from` on. Values made by earlier nodes of the run
 * (there is at most one) are read from the output itself: the head wrote them there.
 * NULL: there is nothing to do. */
cpu_chain *cpu_chain_new(gg_call *c, const cpu_head *h, int from);
void cpu_chain_run(const cpu_chain *k, const gg_call *c, float *out);
bool cpu_chain_overlaps(const cpu_chain *k, const gg_call *c);
void cpu_chain_free(cpu_chain *k);

/* What the states of convolutions and products begin with. */
typedef struct cpu_product {
	struct dnn_op *op; /* NULL: left to ref */
	cpu_chain *rest;   /* what follows over the output; NULL: nothing */
} cpu_product;
void cpu_product_release(gg_call *c);

#endif
