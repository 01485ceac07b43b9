/* Rewrite rules: a pattern, what it becomes, and where that holds.
 *
 *     Relu(Add(a, b)) => AddRelu(a, b)
 *     Relu(BatchNormalization(x, *p) as bn) => BatchNormRelu(x, *p){bn.*} as f; bn:1 => f:1
 *
 * docs/rules.md has the language. Rules are compiled once. The engine itself refuses, with the
 * reason, what would drop a value that is read elsewhere, change a dtype or shape, make a cycle,
 * lose an attribute, an effect or a declared name: a rule's author cannot. */
#ifndef GG_RULE_H
#define GG_RULE_H

#include "op.h"

typedef struct gg_rules gg_rules;

/* One or more rules. `from` names the text in messages (a file, an option, a pass), `name` is the
 * name of rules without one. NULL: reported, with line, column and a caret. */
gg_rules *gg_rules_compile(gg_diag *d, const char *from, const char *name, const char *text);
void gg_rules_free(gg_rules *r);

typedef struct gg_rule_stat {
	const char *name, *pattern, *replacement, *where; /* where: NULL when there is none */
	bool moves;                                       /* both sides only move and cast: exact */
	size_t tried, applied;
	const char *rounding; /* what the rewrite at hand changes about it, or NULL */
} gg_rule_stat;

/* Who runs rules: asked right before each rewrite (false: stop here), and told of each refusal. */
typedef struct gg_rule_host {
	gg_diag *d;
	bool (*apply)(void *ctx, const gg_node *n, const gg_rule_stat *rule);
	void (*refused)(void *ctx, const gg_node *n, const char *why);
	void *ctx;
	bool uncounted; /* in the rules' own numbers */
} gg_rule_host;
/* All rules on one graph, bodies not included, until none applies. False: reported. */
bool gg_rules_run(gg_rules *r, gg_graph *g, const gg_rule_host *h);

/* Whether some rule has all the ops of its left side among those given (gg_op -> anything). */
bool gg_rules_reach(const gg_rules *r, const gg_map *ops);

size_t gg_rules_count(const gg_rules *r);
gg_rule_stat gg_rules_stat(const gg_rules *r, size_t i);
/* The predicates and functions of `where`, one a line with its help. */
void gg_rules_help(gg_buf *b);

#endif
