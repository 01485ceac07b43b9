/* Targets: one row per kernel, host only. The rows drive gg-select, dispatch, the support table
 * in the docs, the kernel sweep and the bench list. */
#ifndef GG_TARGET_H
#define GG_TARGET_H

#include "op.h"

/* In a row's layouts: inputs and outputs need not agree, the kernel reorders on its way. */
#define GG_MIXED (1u << 31)
#define GG_BEST_NHWC (1u << 29) /* with MIXED: the kernel works in nhwc, and reorders what lies otherwise */
#define GG_MOVES (1u << 28)     /* with MIXED: the kernel moves every element anyway, wherever to */
#define GG_PLAIN_OUT (1u << 30) /* output 0 is a weight's: plain unless somebody wants it otherwise */
/* In a row's layouts too: which nodes run as one call (gg_target_cover). */
#define GG_HEADS (1u << 27) /* a product: the pointwise nodes after it are computed in its call */
#define GG_JOINS (1u << 26) /* computed in such a call like a pointwise node, though its op is none */
#define GG_ALONE (1u << 25) /* the op is pointwise, the kernel has a call of its own */
#define GG_ADDS (1u << 24)  /* channels-last, it adds to a residual that lies in the result's buffer */

typedef struct gg_row {
	const char *kernel; /* "cpu_conv" */
	const char *op;
	gg_dtypes dtypes; /* allowed for input `slot` ... */
	int slot; /* ... and its output 0, unless the op's schema says otherwise; -1: it has no input */
	uint32_t layouts; /* bit per gg_layout that data inputs and outputs may have; bit 0 plain; the flags
	                     above */
	const char *need; /* the condition in words, for --explain and error messages; "" none */
	bool (*ok)(const gg_node *n,
	           const char **why); /* NULL: always. *why: the slot or attribute in the way */
} gg_row;

typedef struct gg_target {
	const char *name;    /* "ref", "cpu" */
	const char *backend; /* shared object, or NULL: built in */
	const gg_row *rows;
	int nrows;
	bool ref_fallback; /* nodes without a row run on ref */
	bool device;       /* kernels work in a memory of their own: bodies run on ref, on the host */
	int64_t call;      /* what one more call takes, in bytes moved meanwhile */
	/* Does the node behind a run of `len` from n on end it, though its output has another shape? It reads
	 * the run's result, which nobody else does. NULL: none does. */
	bool (*ends)(const gg_node *n, int len);
} gg_target;

extern const gg_target gg_target_cuda;

const gg_target *gg_target_find(const char *name); /* "cuda:sm_90": up to the colon. NULL: unknown */
const gg_target *gg_target_need(gg_diag *d, const char *name); /* the same; NULL: reported */
/* What kernels are made for: of "cuda:sm_90" 90, of "cuda:FILE" what the file says, of "cuda" an H200. */
typedef struct gg_device_kind {
	int arch, processors;
	const char *text; /* what describes it; NULL: nothing does */
} gg_device_kind;
bool gg_target_device(gg_diag *d, const char *target, gg_device_kind *out);
/* What "cuda:FILE" says goes along with the model, and is read again from there. */
bool gg_target_describe(gg_diag *d, gg_model *m, const char *target);
bool gg_model_device(gg_diag *d, gg_model *m, gg_device_kind *out);
/* The target as graphs name it: "cuda:FILE" is "cuda:sm_90" there. NULL: reported. */
const char *gg_target_name(gg_diag *d, const char *target);
const gg_target *const *gg_target_list(int *n);
/* The first row that takes the node as it is now, or NULL. `ref` kernels are named "ref". */
const gg_row *gg_target_row(const gg_target *t, const gg_node *n);
/* The same, and where it is NULL or ref's, what was in the way of the target's own rows. */
const gg_row *gg_target_why(const gg_target *t, const gg_node *n, const char **why);
bool gg_row_takes(const gg_row *r, const gg_node *n, const char **why);
bool gg_has_all_outputs(const gg_node *n, const char **why); /* a row's condition */
/* The row behind a node's choice, or NULL: not selected, or on ref. */
const gg_row *gg_target_chosen(const gg_target *t, const gg_node *n);
/* How many nodes from n on, in execution order, run as one call (a backend's `cover`): a product
 * or convolution with the pointwise nodes after it, or a chain of pointwise nodes. At least 1.
 * Only the last one's output is read outside. Host only, so that the memory plan can keep the inputs of
 * such a run until its end: a kernel whose output overlaps an input copies, which costs time. */
int gg_target_cover(const gg_target *t, const gg_node *n);
/* The input of such a run of `len` nodes whose buffer its result may take, as the kernel adds to what lies
 * there: a convolution's residual. NULL: none. Only this run may still need it. */
gg_value *gg_target_overwrites(const gg_target *t, const gg_node *n, int len);

/* gg-select's default layout is "keep"; gg-run's own pipe passes "auto", as users who name no
 * layout want speed. */
typedef struct gg_select_options {
	const char *target, *precision, *layout;
	bool explain; /* one line a node, on stderr */
	const char *load_choices, *save_choices;
} gg_select_options;
/* Writes kernel on nodes, layout on values, target on the model. */
/* Puts plain nodes in the place of what no target has a kernel for: Gradient. */
bool gg_write_out(gg_diag *d, gg_graph *g);
bool gg_select(gg_diag *d, gg_model *m, const gg_select_options *o);
/* Selects only nodes that have no kernel yet, for the model's target. */
bool gg_select_open(gg_diag *d, gg_model *m);
/* Adds a Transpose/Reorder node wherever a kernel needs another layout than its value has. */
bool gg_insert_formats(gg_diag *d, gg_model *m);
/* Takes back what gg-select, insert_format and gg-build said: kernels, layouts, Reorder nodes, the plan.
 * What is left computes the same and runs on ref. */
void gg_forget_choices(gg_model *m);

#endif
