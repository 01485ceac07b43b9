/* Inside a frame's twin: device.c makes it, replay.c runs it. */
#ifndef GG_TWIN_H
#define GG_TWIN_H

#include "frame.h"

/* Calls of a segment that go to the device as one recording, or, where they cannot be recorded, one by one.
 */
typedef struct gg_piece {
	size_t from, to; /* of the frame's calls */
	void *recorded;
	bool loose;
} gg_piece;

typedef struct gg_segment { /* one host call, or device calls in a row */
	bool host;
	size_t from, to; /* of the frame's calls */
	gg_piece *piece; /* from the second run on */
	size_t npiece, cap_piece;
	uint32_t *down, *up; /* slots */
	size_t ndown, nup, cap_down, cap_up;
} gg_segment;

enum { GG_STAGED, GG_TAKEN, GG_FIRST_EVENT }; /* events of staged inputs come first */

typedef struct gg_twin {
	char *arena;
	void *scratch[GG_MAX_STREAMS];
	size_t workspace; /* bytes of all of it */
	size_t *event;    /* by call of the order that somebody waits for */
	size_t nevent;
	void **in;        /* by graph input; NULL: no call on the device reads it */
	void **stage;     /* the inputs of the next run, while this one reads `in` ... */
	const void **fed; /* ... where they are on the host ... */
	bool full;        /* ... and whether they are there */
	void **owned;
	size_t nowned, cap_owned;
	uint8_t *where;  /* by slot, at the end of a run */
	uint32_t *maker; /* by slot: the segment that made it */
	gg_segment *seg;
	size_t nseg, cap_seg;
	uint64_t runs;
	size_t *draws; /* calls that draw, and their seeds: on the host for the next run, on the device */
	uint64_t *seed, *seed_at;
	size_t ndraws, cap_draws;
	size_t *timed; /* calls between marks 2i + 1 and 2i + 2 of this run */
	size_t ntimed, cap_timed;
	double started; /* when mark 0 was made */
} gg_twin;

enum { GG_ON_HOST = 1, GG_ON_DEVICE = 2 }; /* in `where` */

static inline uint32_t gg_twin_call(const gg_frame *f, size_t at)
{
	return f->scope->step[f->todo[at].node[0]->order];
}
static inline int gg_twin_stream(const gg_frame *f, size_t at)
{
	return f->order.ncall ? f->order.stream[gg_twin_call(f, at)] : 0;
}
/* Where the device has the value of a slot; NULL: it has no bytes. False: reported. */
bool gg_twin_find(gg_frame *f, uint32_t slot, void **out);
bool gg_twin_constant(const gg_frame *f, uint32_t slot);
void gg_twin_forget(gg_frame *f); /* what was recorded */

#endif
