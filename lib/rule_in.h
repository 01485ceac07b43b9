/* Inside of the rule engine: a compiled rule, and a match in the making.
 *
 *     rule ── root[] ──▶ pat ── arg[] ──▶ pat ...      left side, a tree for each root
 *          ── make[] ──▶ pat ...                       right side, in the order they are made
 *          ── map[]: left output => right value
 *          ── cond[]: what `where` asks
 *
 * Variables, nodes and bound attributes are numbered; a match is three arrays of what they stand for. */
#ifndef GG_RULE_IN_H
#define GG_RULE_IN_H

#include "rule.h"

enum { RULE_VARS = 32, RULE_NODES = 32, RULE_ATTRS = 16, RULE_ARGS = 16, RULE_ROOTS = 8, RULE_MAPS = 16 };

typedef enum pat_kind {
	PAT_ANY,
	PAT_NONE,
	PAT_VAR,
	PAT_TAIL,
	PAT_NUMBER,
	PAT_LIST,
	PAT_NODE,
	PAT_REF
} pat_kind;

typedef enum attr_kind {
	ATTR_TEST, /* left: equals `value`; right: is set to it */
	ATTR_BIND, /* left: bound to `slot`; right: what is bound there */
	ATTR_COPY, /* right: node[slot]'s attribute `from`; all of them where it is NULL */
	ATTR_EXPR, /* right: a number or text */
	ATTR_LIST  /* right: numbers */
} attr_kind;
typedef struct pat_attr {
	const char *name, *from; /* interned */
	attr_kind kind;
	int slot;
	gg_attr value;
	bool rounded; /* right: the number is no f32 */
	const struct rule_expr *expr, **list;
	int nlist;
} pat_attr;

typedef struct pat {
	pat_kind kind;
	bool maybe; /* a variable that may be absent: b? */
	bool keep;  /* a node that stays: others may read it */
	bool fixed; /* a commutative op whose inputs stand in this order */
	bool all;   /* every attribute is accounted for: {*}, or copied by node.* */
	int slot;   /* of the variable or the node */
	int out;    /* which output of the node */
	double number;
	gg_attr list;
	const gg_op *op;
	struct pat **arg;
	int narg, nattr;
	pat_attr *attr;
	const char **said; /* attributes that the rule mentions elsewhere: node.name */
	int nsaid;
} pat;

typedef enum expr_kind { EX_NUMBER, EX_TEXT, EX_ATTR, EX_BOUND, EX_VALUE, EX_NODE, EX_CALL, EX_OP } expr_kind;
typedef struct rule_expr {
	expr_kind kind;
	char op; /* + - * / and, with two letters made one: = ! < > l(<=) g(>=) & | n(not) m(minus) */
	int slot, out;
	double number;
	const char *text; /* EX_TEXT, EX_ATTR: interned */
	const struct rule_func *func;
	const struct rule_expr *arg[3];
	int narg;
	const char *from, *to; /* in the rule's text */
} rule_expr;

typedef struct rule_cond {
	const rule_expr *e;
	const char *text, *fails; /* fails: what is said when it does not hold */
	bool late;                /* asks about the replacement, so it is answered when that is made */
} rule_cond;

typedef struct rule_map {
	int node, out; /* of the left side */
	pat *to;       /* PAT_REF of the right side, or PAT_VAR */
} rule_map;

typedef struct rule_root {
	pat *p;
	/* Roots after the first are found from a value that the earlier ones bound, `up` readers above it. */
	pat *from;
	int up;
} rule_root;

typedef struct rule {
	const char *name, *pattern, *replacement, *where;
	rule_root root[RULE_ROOTS];
	pat *node[RULE_NODES]; /* left: slots below nleft; right: the rest, in the order they are made */
	rule_map map[RULE_MAPS];
	rule_cond *cond;
	int nroot, nvar, nleft, nnode, nbound, nmap, ncond;
	bool exact_left; /* has literals, tests or numbered outputs, so near misses are worth a second look */
	size_t tried, applied;
	bool stopped;
	struct rule *next; /* with the same root op */
} rule;

struct gg_rules {
	gg_arena arena;
	rule **rule;
	size_t nrule, cap_rule;
	gg_map by_op, last; /* op -> first and last rule with that root */
};

typedef struct rule_tail {
	const gg_use *in;
	int n;
} rule_tail;

typedef struct match {
	const rule *r;
	gg_value *value[RULE_VARS];
	rule_tail tail[RULE_VARS];
	bool bound[RULE_VARS];
	gg_node *node[RULE_NODES];
	const gg_attr *attr[RULE_ATTRS];
} match;

/* rule_parse.c */
gg_rule_stat rule_stat(const rule *r);

/* rule_match.c: finds a match with root `n` that `accept` takes; *why: what was in the way. */
typedef struct matcher {
	match m;
	bool (*accept)(struct matcher *k);
	void *ctx;
	const char *why;
	const char *soft; /* a literal or attribute that differs, where that is let through */
	bool lenient;
	int steps;
} matcher;
bool rule_match(matcher *k, const rule *r, gg_node *n);
bool rule_may_match(const rule *r, const gg_node *n); /* false at once where an input's op is another */
/* A fixed value of one element. */
bool rule_scalar(const gg_value *v, double *x);

/* rule_round.c: what changes about rounding from old nodes to new ones whose results have floats of so many
 * bits at most; NULL: nothing. */
const char *rule_rounding(gg_node *const *old, int nold, gg_node *const *now, int nnow, int result);

/* rule_expr.c */
typedef struct rule_result {
	bool known;
	double x;
	const char *s; /* text, or NULL: a number */
} rule_result;
rule_result rule_eval(const match *m, const rule_expr *e);
bool rule_holds(const match *m, const rule_expr *e);
gg_value *rule_value(const match *m, const rule_expr *e); /* EX_VALUE and EX_NODE */
typedef struct rule_func {
	const char *name, *args, *help; /* args: a letter each: v value, n node, x number */
	rule_result (*f)(const match *m, const rule_expr *const *arg);
} rule_func;
const rule_func *rule_func_find(const char *name);
const char *rule_func_nearest(const char *name);

/* rule_apply.c */
const char *rule_say(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* interned */

#endif
