/* Moving elements without looking at them: what Transpose, Slice, Concat, Tile, Gather and their
 * like share. An element is `size` bytes: 1, 2, 4 or 8; all dtypes move alike. */
#ifndef GG_MOVE_H
#define GG_MOVE_H

#include "op.h"

enum { GG_MOVE_RANK = 2 * GG_MAX_RANK, GG_MAX_CONTENT = 64 };

/* dst[i.to] = src[i.from] for every index i over dim. Strides are in elements, may be 0 or negative
 * (from); src and dst point to the element of index 0. */
void gg_move(size_t size, int rank, const int64_t *dim, const void *src, const int64_t *from, void *dst,
             const int64_t *to);
/* n times the element at `value`. */
void gg_move_fill(size_t size, void *dst, const void *value, int64_t n);
void gg_strides(const gg_shape *s, int64_t *stride);  /* row-major, in elements */
int64_t gg_span(const gg_shape *s, int from, int to); /* product of known dims [from,to) */

/* For rules. Integer input i as numbers, all of them known; NULL: not known. In f->a. */
const int64_t *gg_want_ints(gg_infer *f, int i, int *n);
/* Axes in input i, counted from the front, as bits; *known false when they are not known.
 * Duplicates are errors. */
bool gg_want_axes(gg_infer *f, int i, int rank, bool *known, uint32_t *bits);
/* Contents of the outputs by running the kernel on the contents of the inputs in `moved`; the other
 * inputs must be known. Does nothing where that cannot be done. Call it last. */
void gg_move_content(gg_infer *f, unsigned moved);
void gg_view_content(gg_infer *f); /* out[0] has the elements of in[0] in order */
/* All dims unknown, each with its own symbol. */
void gg_unknown_dims(gg_infer *f, int out, int rank);

/* For kernels. */
bool gg_eval_copy(gg_eval *e);                          /* out[0] has the bytes of in[0] */
int64_t *gg_eval_ints(gg_eval *e, int i);               /* input i as i64, in e->a */
int64_t gg_eval_int(gg_eval *e, int i, int64_t absent); /* the first element of input i */
/* Slice: where each axis begins and how far apart its elements are (0: there is one). */
bool gg_slice_bounds(gg_eval *e, int64_t *first, int64_t *step);
/* Indices into an axis of n elements, made >= 0; false when one is outside. */
bool gg_eval_indices(gg_eval *e, int64_t *v, int64_t count, int64_t n);

#endif
