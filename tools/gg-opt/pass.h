/* A pass: one file in pass/, `const gg_pass gg_pass_NAME`, listed by the Makefile. It is rules
 * (docs/rules.md), or a function over which two lines stand: what it needs and what it breaks. The driver
 * visits bodies, innermost first, runs the structural check after every pass that changed something, and
 * counts for --stats.
 *
 * A plugin (--load=FILE.so) exports `const gg_pass *const gg_plugin_passes[]`, ended by NULL, and
 * `const int gg_plugin_abi = GG_PASS_ABI`. It finds libgg's functions in the tool. */
#ifndef GG_PASS_H
#define GG_PASS_H

#include "../../lib/gg.h"

#define GG_PASS_ABI 7

typedef struct gg_refusal {
	const char *why;
	size_t n;
} gg_refusal;

/* Rewrites [from,to) of a run, all by one rule. */
typedef struct gg_made {
	const char *rule;
	bool moves;           /* which only moves and casts */
	const char *rounding; /* what it changes about rounding, or NULL */
	size_t from, to;
} gg_made;

typedef struct gg_pass_run {
	const struct gg_pass *pass;
	gg_diag *d;
	gg_model *m;
	gg_arena scratch;          /* emptied by the driver after the pass */
	const char *const *option; /* "key=value" texts, from --pass=NAME:key=value */
	int noption;
	size_t applied, tried; /* tried: applied and refused */
	gg_refusal *refusal;
	size_t nrefusal, cap_refusal;
	struct gg_rules *rules; /* the pass's, compiled; the driver's */
	int64_t *left;          /* single rewrites that --limit still allows; negative: no limit */
	bool remarks;
	size_t before; /* applied, when this run began */
	gg_made *made; /* by rules, in this run; in order */
	size_t nmade, cap_made;
	const char *at, *at_op; /* the node of the last rewrite, and its op */
	bool replay;            /* of a run that was counted */
} gg_pass_run;

typedef struct gg_pass {
	const char *name;
	const char *help;     /* one line */
	const char *explain;  /* pattern, replacement, guards, formula: for --explain */
	const char *pipeline; /* the pipelines it is in and its place: "common:10 inference:20"; "" none */
	const char *options;  /* "size=N: most elements of a folded constant (65536)", or NULL */
	const char *ops;      /* there is work only where one of these ops is: "Pad Slice"; NULL: look */
	bool exact;           /* results are bit-equal */
	bool tames;           /* what was NaN may be a number now: explain says when */
	bool interface;    /* it changes what goes in, comes out or is computed: --verify compares nothing */
	const char *rules; /* rewrite rules, or NULL */
	bool (*run)(gg_pass_run *p,
	            gg_graph *g); /* on one graph, after the rules; false: reported. NULL: rules only */
} gg_pass;

/* Asked right before a rewrite: counts it; false when --limit forbids it. */
bool gg_apply(gg_pass_run *p, const gg_node *n);
/* The same for many at once: how many may be made, and how many were. */
size_t gg_allowed(const gg_pass_run *p);
void gg_applied(gg_pass_run *p, size_t n);
/* What gg_apply counted last did not come about. */
void gg_take_back(gg_pass_run *p, const gg_node *n, const char *why);
/* A near miss: counted by reason, told with --remarks. */
void gg_refused(gg_pass_run *p, const gg_node *n, const char *why);
const char *gg_pass_option(const gg_pass_run *p, const char *key); /* value or NULL */

/* Puts a node of `op` with first's inputs and attributes in first's place. It makes first's outputs,
 * but output 0 is that of `last`, the only reader of first's output 0; both go. What it makes keeps
 * its names, and the locations of both are merged. */
gg_node *gg_fuse(gg_node *first, gg_node *last, const gg_op *op);

#endif
