#include "rules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which rule made which rewrites: --verify tells it, and holds some of them to every bit. */
static bool apply(void *ctx, const gg_node *n, const gg_rule_stat *rule)
{
	gg_pass_run *p = ctx;
	gg_made *last = p->nmade ? &p->made[p->nmade - 1] : 0;
	size_t at = p->applied - p->before;
	if (!gg_apply(p, n))
		return false;
	if (last && last->to == at && last->rule == rule->name && last->moves == rule->moves &&
	    last->rounding == rule->rounding)
		last->to++;
	else
		GG_PUSH(p->made, p->nmade, p->cap_made,
		        ((gg_made){rule->name, rule->moves, rule->rounding, at, at + 1}));
	return true;
}
static void refused(void *ctx, const gg_node *n, const char *why) { gg_refused(ctx, n, why); }

static gg_rules *compile(const gg_pass *p)
{
	gg_diag d = {.tool = "gg-opt"};
	gg_rules *r = gg_rules_compile(&d, p->name, p->name, p->rules);
	if (!r)
		gg_bug("the rules of pass '%s' are ill-formed", p->name);
	return r;
}

bool rules_reach(gg_pass_run *p, const gg_map *ops)
{
	if (p->pass->rules && !p->rules)
		p->rules = compile(p->pass);
	if (p->rules && gg_rules_reach(p->rules, ops))
		return true;
	if (!p->pass->run || !p->pass->ops)
		return p->pass->run;
	char name[64];
	for (const char *s = p->pass->ops; *s; s += strspn(s, " ")) {
		size_t n = strcspn(s, " ");
		snprintf(name, sizeof name, "%.*s", (int)n, s);
		const gg_op *op = gg_op_find(name);
		if (!op)
			gg_bug("pass '%s' looks for an op '%s'", p->pass->name, name);
		if (gg_map_get(ops, (uint64_t)(uintptr_t)op))
			return true;
		s += n;
	}
	return p->noption; /* wrong ones are told in any graph */
}

bool rules_run(gg_pass_run *p, gg_graph *g)
{
	gg_rule_host host = {p->d, apply, refused, p, p->replay};
	if (p->rules && !gg_rules_run(p->rules, g, &host))
		return false;
	return !p->pass->run || p->pass->run(p, g);
}

const gg_pass *rules_pass(gg_diag *d, gg_arena *a, const char *name, const char *from, const char *text,
                          gg_rules **out)
{
	gg_pass *p = gg_alloc(a, sizeof *p);
	if (!(*out = gg_rules_compile(d, from, 0, text)))
		return 0;
	*p = (gg_pass){.name = name, .help = "", .explain = "", .pipeline = "", .rules = text};
	return p;
}

void rules_explain(gg_buf *b, const gg_pass *p)
{
	gg_rules *r = p->rules ? compile(p) : 0;
	for (size_t i = 0; r && i < gg_rules_count(r); i++) {
		gg_rule_stat s = gg_rules_stat(r, i);
		gg_buf_printf(b, "\n%s\n  pattern      %s\n  replacement  %s\n", s.name, s.pattern,
		              s.replacement);
		if (s.where)
			gg_buf_printf(b, "  where        %s\n", s.where);
		if (s.moves && !p->exact)
			gg_buf_str(b, "  results      bit for bit equal: it only moves and casts\n");
	}
	if (r)
		gg_buf_str(
		    b,
		    "\nNo rule fires where a value between has a second reader or is an output, a dtype "
		    "or shape would\nchange, or an attribute, an effect or a declared name would be lost.\n");
	gg_rules_free(r);
}

/* Rules of one name are forms of one thing, and counted as one. */
void rules_stats(gg_buf *b, const gg_rules *r)
{
	size_t n = gg_rules_count(r);
	gg_rule_stat *sum = gg_xcalloc(n, sizeof *sum);
	gg_map first = {0};
	for (size_t i = 0; i < n; i++) {
		gg_rule_stat s = gg_rules_stat(r, i), *at = gg_map_gets(&first, s.name);
		if (!at)
			gg_map_puts(&first, s.name, at = &sum[i]);
		at->name = s.name;
		at->tried += s.tried;
		at->applied += s.applied;
	}
	for (size_t i = 0; n > 1 && i < n; i++)
		if (sum[i].name)
			gg_buf_printf(b, "  %-16s tried %zu, applied %zu, refused %zu\n", sum[i].name,
			              sum[i].tried, sum[i].applied, sum[i].tried - sum[i].applied);
	gg_map_fini(&first);
	free(sum);
}
