/* gg-dump: one file per form it prints. Each appends to a buffer; false: reported. */
#ifndef GG_DUMP_H
#define GG_DUMP_H

#include "../../lib/gg.h"

bool gg_dump_dot(gg_diag *d, gg_buf *b, gg_model *m);
bool gg_dump_csv(gg_diag *d, gg_buf *b, gg_model *m);
bool gg_dump_stats(gg_diag *d, gg_buf *b, gg_model *m);
bool gg_dump_memory(gg_diag *d, gg_buf *b, gg_model *m);
bool gg_dump_streams(gg_diag *d, gg_buf *b, gg_model *m);
bool gg_write_onnx(gg_diag *d, gg_buf *b, gg_model *m);
/* Cuts m down to what makes `out` from `in` ("a,b..c,d", names may be quoted). */
bool gg_extract(gg_diag *d, gg_model *m, const char *range);

#endif
