/* Rules as passes: a pass that is rules, and the rules that a user gives. */
#ifndef GG_OPT_RULES_H
#define GG_OPT_RULES_H

#include "pass.h"

/* A pass of the rules in `text`, which a message calls `from`; NULL: reported. */
const gg_pass *rules_pass(gg_diag *d, gg_arena *a, const char *name, const char *from, const char *text,
                          gg_rules **out);
/* Whether the pass has work in a graph with these ops (gg_op -> anything). *rules: compiled at the
 * first call. */
bool rules_reach(gg_pass_run *p, const gg_map *ops);
/* The pass on one graph: its rules, then its function. */
bool rules_run(gg_pass_run *p, gg_graph *g);
/* For --explain: pattern, replacement and guards of each rule. */
void rules_explain(gg_buf *b, const gg_pass *p);
/* For --stats, where a pass has several rules: a line for each. */
void rules_stats(gg_buf *b, const gg_rules *r);

/* Names what runs ("pass", "cse"), with the run's last rewrite, in the message of a crash, and leaves its
 * input and command line in `dir` (NULL: nowhere). what NULL: nothing runs. */
void crash_watch(const char *what, const char *name, const gg_pass_run *r, const char *dir,
                 const gg_buf *input, const gg_buf *command);
/* While it is on, what is written to stdout goes to stderr: around a plugin's loading, and from then on
 * while a pass runs. */
void crash_aside(bool on);

#endif
