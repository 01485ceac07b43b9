/* Streams: which calls run beside one another, and who waits for whom.
 *
 * A call is a node, or nodes that one kernel covers, in the order of the graph. node->stream says
 * where it runs; calls of one stream run one after the other. A call that reads what another stream
 * made waits for an event there, unless something that it waits for anyway has waited for it: the
 * waits are the transitive reduction of what is read, over what streams order by themselves.
 *
 *     stream 0   a ──── c ──── e          c reads a; d reads a and b; e reads c and d.
 *                 \            ↑          d waits for a, e for d. Nothing else needs an event.
 *     stream 1     └→ b ── d ──┘
 *
 * A call without work (a view) is no place to wait for: whoever reads it waits for what made it. */
#ifndef GG_STREAMS_H
#define GG_STREAMS_H

#include "op.h"

#define GG_MAX_STREAMS 8
#define GG_COPY_STREAM GG_MAX_STREAMS /* of a device, for the inputs of the next run */

typedef struct gg_order {
	uint32_t ncall; /* calls 1 .. ncall */
	int nstream;
	uint8_t *stream; /* by call */
	uint32_t *pos;   /* by call: its number on its stream, from 1 on; idle: that of the one before */
	uint32_t *clock; /* by call and stream: up to where that stream has come when the call starts */
	bool *signals;   /* by call: somebody waits for it */
	uint32_t *first; /* by call: it waits for the calls wait[first[c]] .. wait[first[c + 1] - 1] */
	uint32_t *wait;
	size_t nwait;
} gg_order;

/* step: by node->order, the number of its call, never falling along the list. idle: by call, or NULL: it
 * does no work, as its output is its first input by another name. False: a stream that cannot be, reported.
 */
bool gg_order_make(gg_diag *d, const gg_graph *g, const uint32_t *step, const bool *idle, gg_order *out);
void gg_order_free(gg_order *o);
bool gg_has_streams(const gg_graph *g); /* some node is not on stream 0 */
/* A view: no work is needed where its output may share its input's bytes. */
bool gg_is_view(const gg_node *n);
static inline const uint32_t *gg_clock_at(const gg_order *o, uint32_t call)
{
	return o->clock + (size_t)call * (size_t)o->nstream;
}

#endif
