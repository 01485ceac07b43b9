/* GraphKernel nodes: made of nodes of a graph, taken apart again, looked into.
 *
 * A body is closed: it has no captures, and what it reads are its inputs and constants of its own.
 * It is pure: no random numbers, no effects, no updates of state, no bodies but GraphKernels'. Its
 * values are all plain; a kernel that takes another layout gives it to all values of full shape. */
#ifndef GG_GRAPH_KERNEL_H
#define GG_GRAPH_KERNEL_H

#include "op.h"

bool gg_is_gk(const gg_node *n);
gg_graph *gg_gk_body(const gg_node *n);
/* Why the node may not stand in a body; NULL: it may. */
const char *gg_gk_bars(const gg_node *n);

/* The nodes become one GraphKernel, and go; a GraphKernel among them gives its body. They are listed in
 * an order in which they could run, and no path may leave them and come back. The new node stands where
 * the last of them stood: sort the graph when all is done. Small constants move inside; outputs keep
 * their names. At least one output must be read by others. */
gg_node *gg_gk_make(gg_graph *g, gg_node *const *n, size_t count);
/* The same where the new node, which nobody reads yet, fits; NULL: it does not, and all is as it was. */
typedef bool gg_gk_fits(void *ctx, const gg_node *made);
gg_node *gg_gk_make_if(gg_graph *g, gg_node *const *n, size_t count, gg_gk_fits *fits, void *ctx);
/* The value is a constant that moves inside: axes, shapes, numbers. */
bool gg_gk_moves_inside(const gg_value *v);
/* The body's nodes instead of the node. */
bool gg_gk_inline(gg_diag *d, gg_node *n);
/* The same; made[], if not NULL, gets the new nodes in the order of the body's. */
bool gg_gk_spread(gg_diag *d, gg_node *n, gg_node **made);

/* Shapes in the body for the inputs given, by each value's mark; dims that hang on data stay unknown. */
bool gg_gk_shapes(gg_diag *d, const gg_graph *b, const gg_tensor *in, gg_arena *a, gg_tensor **out);

#endif
