/* Are two tensors the same? What gg-run's comparisons and gg-opt --verify share. */
#ifndef GG_COMPARE_H
#define GG_COMPARE_H

#include "tensor.h"

/* The default tolerance of a dtype: |got - want| <= atol + rtol * |want|. Zeros where not a float. */
void gg_tolerance(gg_dtype t, double *rtol, double *atol);
/* A number of a float or complex tensor; of c64 the parts count one by one. */
double gg_part(const gg_tensor *t, int64_t i);
int64_t gg_parts(const gg_tensor *t);
/* Element i, bit for bit; NaN equals NaN. */
bool gg_same_bits(const gg_tensor *a, const gg_tensor *b, int64_t i);
/* "[1,0,3]" and the value of (part) i. */
void gg_put_index(gg_buf *b, const gg_tensor *t, int64_t i);
void gg_put_part(gg_buf *b, const gg_tensor *t, int64_t i);

#endif
