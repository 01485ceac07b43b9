/* Targets: one row per kernel, host only. The rows drive gg-select, dispatch, the support table
 * in the docs, the kernel sweep and the bench list. */
#ifndef GG_TARGET_H
#define GG_TARGET_H

#include "op.h"

typedef struct gg_row {
	const char *kernel;   /* "cpu_conv" */
	const char *op;
	gg_dtypes dtypes;     /* allowed for input `slot` ... */
	int slot;             /* ... and its output 0, unless the op's schema says otherwise */
	uint32_t layouts;     /* bit per gg_layout that data inputs and outputs may have; bit 0 plain */
	const char *need;     /* the condition in words, for --explain and error messages; "" none */
	bool (*ok)(const gg_node *n, const char **why); /* NULL: always. *why: the slot or attribute in the way */
} gg_row;

typedef struct gg_target {
	const char *name;     /* "ref", "cpu" */
	const char *backend;  /* shared object, or NULL: built in */
	const gg_row *rows;
	int nrows;
	bool ref_fallback;    /* nodes without a row run on ref */
} gg_target;

const gg_target *gg_target_find(const char *name); /* "cuda:sm_90": up to the colon. NULL: unknown */
const gg_target *const *gg_target_list(int *n);
/* The first row that takes the node as it is now, or NULL. `ref` kernels are named "ref". */
const gg_row *gg_target_row(const gg_target *t, const gg_node *n);

typedef struct gg_select_options {
	const char *target, *precision, *layout;
	bool explain; /* one line a node, on stderr */
	const char *load_choices, *save_choices;
} gg_select_options;
/* Writes kernel on nodes, layout on values, target on the model. */
bool gg_select(gg_diag *d, gg_model *m, const gg_select_options *o);
/* Selects only nodes that have no kernel yet, for the model's target. */
bool gg_select_open(gg_diag *d, gg_model *m);
/* Adds a Transpose/Reorder node wherever a kernel needs another layout than its value has. */
bool gg_insert_formats(gg_diag *d, gg_model *m);

#endif
