/* Tensors in files: NumPy's .npy (versions 1 to 3) and ONNX's TensorProto (.pb).
 *
 * Tensors read own their data: free(t->data). A file that cannot be opened is malformed input
 * (exit 3), like one that is damaged. Bit patterns of bf16 and f8 are `<V2` and `|V1`; uint16 and
 * uint8 are read too where such a dtype is wanted; i4 and u4 are one number a byte. */
#ifndef GG_NPY_H
#define GG_NPY_H

#include "tensor.h"

/* Reads either form, told apart by the first bytes. `want` settles what a bit pattern means and
 * is otherwise only a wish: compare out->dtype. GG_NONE: no wish. */
bool gg_tensor_read(gg_diag *d, const char *path, gg_dtype want, gg_tensor *out);
/* The same from memory; `name` is for messages. */
bool gg_npy_parse(gg_diag *d, const char *name, const void *p, size_t len, gg_dtype want, gg_tensor *out);
/* The same without a copy where it can: *owned false: out->data points into p, where nothing is
 * aligned. */
bool gg_npy_view(gg_diag *d, const char *name, const void *p, size_t len, gg_dtype want, gg_tensor *out,
                 bool *owned);
bool gg_pb_parse(gg_diag *d, const char *name, const void *p, size_t len, gg_tensor *out);

void gg_npy_print(gg_buf *b, const gg_tensor *t);
bool gg_npy_write(gg_diag *d, const char *path, const gg_tensor *t); /* whole or not at all */

#endif
