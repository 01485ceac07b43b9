/* One pass of the plan, run on a model: what gg-opt does, and what --verify, --bisect and the tests do
 * again on copies. */
#ifndef GG_OPT_STEP_H
#define GG_OPT_STEP_H

#include "rules.h"

typedef struct step {
	const gg_pass *pass;
	const char **option;
	size_t noption;
	gg_pass_run run; /* its counters, over all models */
	double ms;
} step;

/* The ops that m has now (gg_op -> anything): a step whose ops are not there is left out. */
void step_find_ops(const gg_model *m, gg_map *ops);
/* Runs the pass on every graph of m, bodies first, selects what it made and checks what it left. At most
 * *left rewrites (negative: any number), which it counts down; keeps `ops` right. False: reported, with
 * the pass's name. */
bool step_run(step *s, gg_diag *d, gg_model *m, gg_map *ops, int64_t *left, bool check);
/* Frees what it noted, but not its rules. */
void step_fini(step *s);

/* A copy is made through the stream: what a pass may rely on is what stands there. */
bool model_save(gg_diag *d, gg_model *m, gg_buf *out);
gg_model *model_load(gg_diag *d, const gg_buf *bytes, const gg_model *like); /* like: --weights and so on */

/* A copy of the graph in `bytes` after the first `limit` rewrites of the steps, whose counters stay. NULL: a
 * pass fails by itself. *at: the step that made the last of them, its how manyth, and all. */
typedef struct replay {
	size_t step;
	int64_t in_step, total;
} replay;
gg_model *steps_replay(step *s, size_t n, const gg_buf *bytes, const gg_model *like, int64_t limit,
                       replay *at);

/* ": 'a' (Add), 'b' (Relu) => 'c' (AddRelu)": the nodes whose lines differ, at most `most` on each side. */
void put_rewritten(gg_buf *out, const gg_model *before, const gg_model *after, int most);
void put_text(gg_buf *out, gg_model *m);

#endif
