/* libgg, in reading order. A header may include only those above it. */
#include "mem.h"     /* arena, buffers, maps, interned strings */
#include "diag.h"    /* messages and exit codes */
#include "tensor.h"  /* dtypes, symbolic dims, shapes, tensors */
#include "graph.h"   /* values, nodes, graphs, the structural check */
#include "op.h"      /* op descriptors, inference, reference kernels */
#include "move.h"    /* moving elements: what movement ops share */
#include "fold.h"    /* constant folding */
#include "stream.h"  /* msgpack, JSON and text forms */
#include "target.h"  /* host-only kernel tables and selection */
#include "rule.h"    /* rewrite rules */
#include "plan.h"    /* memory plan */
#include "backend.h" /* shared objects with kernels */
#include "exec.h"    /* running */
#include "tool.h"    /* what tools share */
