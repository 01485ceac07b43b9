/* The memory plan: where each value lies in its graph's arena.
 *
 * Every TEMP value with a known size gets mem_off and mem_len, unless it is an alias: a view
 * (GG_VIEW ops), an in-place result (GG_INPLACE), or state that overwrites its parameter; then
 * value->alias is the value whose buffer it shares. Params, consts and graph inputs have
 * buffers of their own. Graph outputs are planned like temps, and live to the end. Values whose
 * size is not known are left out (mem_len -1): the executor gives them a buffer when it knows.
 * Bodies are planned each for itself: gg_plan_graph does one graph. */
#ifndef GG_PLAN_H
#define GG_PLAN_H

#include "op.h"
#include "streams.h"

#define GG_ALIGN 64

typedef struct gg_plan_options {
	bool no_reuse; /* every value its own place */
	bool no_inplace;
	/* Concrete shape of a value, where the executor knows more than the graph; NULL: v->shape. */
	const gg_shape *(*shape)(const gg_value *v, void *arg);
	/* Values that somebody reads after the run, besides outputs and state; NULL: none. */
	bool (*keep)(const gg_value *v, void *arg);
	/* When a node runs, from 1 on and never falling along the list: nodes that one kernel covers
	 * run at one time. NULL: one after the other. */
	uint32_t (*step)(const gg_node *n, void *arg);
	const struct gg_target *target; /* whose kernels these nodes run on; NULL: not known */
	/* With streams: a buffer is used again only when every stream is past it. Its calls are the steps. */
	const gg_order *order;
	void *arg;
} gg_plan_options;
typedef struct gg_plan {
	int64_t arena; /* bytes needed */
	int64_t bound; /* the largest sum of live, aligned sizes over all points: no plan is smaller */
	int64_t total; /* bytes without any reuse */
	size_t planned, unplanned, aliased;
	int nstream;
	size_t waits;  /* gg_plan_for_target: between streams */
	size_t inside; /* gg_plan_for_target: values that only the kernel which covers them sees */
} gg_plan;
bool gg_plan_graph(gg_diag *d, gg_graph *g, const gg_plan_options *o, gg_plan *out);
/* The plan that a run on the model's target makes: nodes that one kernel covers run at one time, and
 * what only they see has no place (plan_target.c). */
bool gg_plan_for_target(gg_diag *d, gg_graph *g, bool no_reuse, gg_plan *out);
/* The same, and the order that goes with it: free it. step: see gg_order_make; o->step must tell the same. */
bool gg_plan_streams(gg_diag *d, gg_graph *g, const uint32_t *step, gg_plan_options *o, gg_order *order,
                     gg_plan *out);
/* Who waits for whom on the model's target; each node's mark is its call. One stream: no calls in *out. */
bool gg_order_for_target(gg_diag *d, gg_graph *g, gg_order *out);
/* Bytes of a value in its layout (blocked layouts pad the channels); -1 when not known. */
int64_t gg_value_bytes(const gg_value *v, const gg_shape *s);
gg_value *gg_storage(gg_value *v); /* follows alias to the value that owns the buffer */

#endif
