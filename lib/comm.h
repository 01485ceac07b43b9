/* Ranks in one process. Each has a thread, but only one runs at a time: a rank runs until it comes
 * to a collective and waits there; the last of the group to come does the work for all. So nothing
 * else need know of threads, and every run goes the same way. */
#ifndef GG_COMM_H
#define GG_COMM_H

#include "op.h"

enum { GG_MAX_WORLD = 64 };

typedef struct gg_world gg_world;
typedef struct gg_comm { /* what one rank sees */
	gg_world *world;
	int rank, size;
} gg_comm;

/* Runs f once for each rank and returns when all have ended; false when one failed. */
bool gg_world_run(int size, bool (*f)(gg_comm *c, void *arg), void *arg);

/* A group: "world", or a partition of the ranks, "0,1;2,3": each rank is in the part that names it.
 * Fills in the members of the rank's part; 0: reported. */
int gg_group_members(gg_diag *d, const gg_node *n, int world, int rank, int *member);
/* As far as attributes tell; 0: not known. */
int64_t gg_group_size(const gg_node *n);
bool gg_is_collective(const gg_node *n);
bool gg_has_collective(const gg_graph *g); /* bodies included */
/* Gives the symbols `rank` and `world` and the group of all ranks their numbers. */
bool gg_bind_world(gg_diag *d, gg_model *m, int rank, int world);

/* What a collective does: from the inputs of all members, in the order of the group, their outputs. */
typedef bool gg_collective(int n, gg_eval *const *member);
/* Waits for the group. False: reported, here or by another rank. */
bool gg_meet(gg_eval *e, gg_collective *work);

#endif
