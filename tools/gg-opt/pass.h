/* A pass: one file in pass/, `const gg_pass gg_pass_NAME`, listed by the Makefile. Over `run`
 * stand two lines: what it needs and what it breaks. The driver runs the structural check after
 * every pass that changed something. A pass descends into bodies through gg_pass_graphs. */
#ifndef GG_PASS_H
#define GG_PASS_H

#include "../../lib/gg.h"

typedef struct gg_pass_run {
	gg_diag *d;
	gg_model *m;
	gg_arena scratch;         /* reset by the driver after the pass */
	const char *const *option; /* "key=value" texts, from --pass=NAME:key=value */
	int noption;
	/* counters of --stats: add through gg_tried, gg_applied, gg_refused */
	size_t tried, applied;
	struct gg_refusal { const char *why; size_t n; } *refusal;
	size_t nrefusal, cap_refusal;
} gg_pass_run;

typedef struct gg_pass {
	const char *name;
	const char *help;      /* one line */
	const char *explain;   /* pattern, replacement, guards, formula: for --explain */
	const char *pipeline;  /* the pipelines it is in and its place: "common:10 inference:20"; "" none */
	const char *options;   /* "size=N max elements (default 65536)", or NULL */
	bool exact;            /* results are bit-equal */
	bool (*run)(gg_pass_run *p, gg_graph *g); /* on one graph; the driver visits bodies, innermost first */
} gg_pass;

void gg_refused(gg_pass_run *p, const gg_node *n, const char *why); /* a near miss: counted by reason */
const char *gg_pass_option(const gg_pass_run *p, const char *key);  /* value or NULL */

#endif
