/* What of a GraphKernel's body one walk over memory computes: a loop nest over rows.
 *
 *     x [rows..., row...]  ──pointwise──▶  wide  ──Reduce over row...──▶  narrow [rows..., 1...]
 *                                           ▲                                │ pointwise
 *                                           └───── repeated along its row ◀──┘
 *
 * A wide value has an element for each of the walk, a narrow one for each row. A small one is computed
 * from inputs and constants alone and is repeated where it is read; views of wide and narrow values are
 * those values. Without reductions there are no rows. Nodes that hang together are one nest; a body may
 * hold several that have only inputs in common. */
#ifndef GG_NEST_H
#define GG_NEST_H

#include "graph.h"

typedef enum gg_role { GG_SMALL_VALUE, GG_WIDE_VALUE, GG_NARROW_VALUE } gg_role;

typedef struct gg_nest {
	const gg_value *full; /* what is walked */
	int row;              /* how many of its last axes are a row; 0: there are no rows */
} gg_nest;

typedef struct gg_nests {
	gg_nest *nest;
	size_t n;
	uint8_t *role;  /* by mark of a value: gg_role */
	uint32_t *part; /* by mark of a node's output 0: its nest */
} gg_nests;

/* Numbers the values of the body by their marks: inputs, constants, what nodes make. How many. */
size_t gg_body_number(const gg_graph *b);
/* The body as nests; its values are numbered. False: it is none, *why. Only shapes and axes are looked at:
 * which ops and dtypes a kernel takes is its own matter. */
bool gg_nests_of(const gg_graph *b, gg_arena *a, gg_nests *out, const char **why);
/* How many of the input's last axes a reduction folds, units apart; -1: others, or they are not constant. */
int gg_row_axes(const gg_node *reduction);
/* The value is an input, a constant, or a view of one. */
bool gg_is_given(const gg_value *v);

#endif
