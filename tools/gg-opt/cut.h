/* The least cut: which of many yes-or-no choices cost least together. An arc from a to b costs its
 * capacity when a stays with the source ("no") and b goes with the sink ("yes"). */
#ifndef GG_OPT_CUT_H
#define GG_OPT_CUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gg_cut {
	struct gg_arc {
		int to, next, left;
	} * arc; /* 2k and 2k+1 are an arc and its way back */
	int *head, *level, *at, *way;
	size_t nnode, cap_node, narc, cap_arc;
} gg_cut;

enum { GG_CUT_NO = 0, GG_CUT_YES = 1, GG_CUT_NEVER = 1 << 28 };

void gg_cut_init(gg_cut *c);
int gg_cut_node(gg_cut *c);
void gg_cut_arc(gg_cut *c, int from, int to, int cost);
long gg_cut_solve(gg_cut *c);            /* the cost of the best choices */
bool gg_cut_yes(const gg_cut *c, int n); /* after it; of equals the fewest are yes */
void gg_cut_fini(gg_cut *c);

#endif
