/* What the passes on GraphKernel nodes share. */
#ifndef GG_PASS_KERNEL_H
#define GG_PASS_KERNEL_H

#include "../../../lib/graph_kernel.h"
#include "../../../lib/target.h"
#include "../../../lib/opkit.h"
#include "../groups.h"
#include "../pass.h"
#include <stdlib.h>
#include <string.h>

/* The body of a kernel: no kernels are made in it. */
static inline bool in_kernel(const gg_graph *g) { return gg_is_gk(g->owner); }

static inline const gg_target *target_of(const gg_pass_run *p)
{
	return p->m->target ? gg_target_find(p->m->target) : 0;
}

/* On a device bodies run on the host, so there must be a kernel for them. */
static inline bool makes_kernels(const gg_target *t)
{
	for (int i = 0; t && t->device && i < t->nrows; i++)
		if (!strcmp(t->rows[i].op, "GraphKernel"))
			return true;
	return !t || !t->device;
}

static inline bool has_prefix(const gg_node *n, const char *s) { return !strncmp(n->op->name, s, strlen(s)); }
static inline bool is_op(const gg_node *n, const char *s) { return !strcmp(n->op->name, s); }

/* A reduction over axes with one output: ReduceSum, ReduceMax, ... */
static inline bool is_reduction(const gg_node *n) { return has_prefix(n, "Reduce"); }
static inline bool is_pointwise(const gg_node *n) { return n->op->flags & GG_POINTWISE; }
static inline bool is_view(const gg_node *n) { return n->op->flags & GG_VIEW; }

/* The node may stand in a kernel: pointwise, a reduction, a view, Expand, a GraphKernel. */
bool gg_may_fuse(const gg_node *n);
/* The target has a kernel of its own for the GraphKernel, or there is no target with kernels. */
bool gg_target_takes(const gg_target *t, const gg_node *kernel, const char **why);
/* The target has a kernel of its own for the node, and so may have one for a GraphKernel with it. */
bool gg_on_target(const gg_target *t, const gg_node *n);
/* By number: those of them that no convolution or product computes on its way. */
void gg_fusable(const gg_target *t, const gg_groups *w, bool *may);

/* Costs, in additions of one element: of a kernel of its own, of one result of the node. */
enum { GG_LAUNCH = 4096 };
double gg_weight(const gg_node *n);
/* A number of elements, with a guess for what is not known. */
double gg_elements(gg_dim d);

static inline const char *kernel_refusal(gg_pass_run *p, const char *what, const char *why)
{
	return gg_printf(&p->scratch, "%s: %s", what, why);
}

#endif
