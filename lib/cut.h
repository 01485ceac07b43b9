/* The least cut: which of many yes-or-no choices cost least together. An arc from a to b costs its
 * capacity when a stays with the source ("no") and b goes with the sink ("yes"). */
#ifndef GG_CUT_H
#define GG_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gg_cut {
	struct gg_arc {
		int to, back; /* where it leads, its way back */
		int64_t left;
	} * arc;
	int *first, *level, *at, *way; /* first: of the arcs of a node, once they are sorted by it */
	size_t nnode, narc, cap_arc;
} gg_cut;

enum { GG_CUT_NO = 0, GG_CUT_YES = 1 };
#define GG_CUT_NEVER (INT64_C(1) << 60)

void gg_cut_init(gg_cut *c);
int gg_cut_node(gg_cut *c);
void gg_cut_arc(gg_cut *c, int from, int to, int64_t cost);
int64_t gg_cut_solve(gg_cut *c);         /* the cost of the best choices */
bool gg_cut_yes(const gg_cut *c, int n); /* after it; of equals the fewest are yes */
void gg_cut_fini(gg_cut *c);

#endif
