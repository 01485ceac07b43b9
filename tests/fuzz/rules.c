/* A fuzz target: any bytes as rules, and behind a line "graph ..." the graph they run on; else it is the
 * one below, after selection where the rules begin with '#'. What is refused must be reported; what
 * compiles must leave a good graph with the same outputs, state, effects and random nodes, whatever the
 * rules say.
 *
 *     make fuzz FUZZ=rules */
#include "../../lib/gg.h"
#include "../../lib/rule.h"
#include "../../lib/target.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { REWRITES = 200, INTERFACE = 64 };

static const char plain[] = "graph \"g\"\n"
                            "input %x : f32[N,4]\n"
                            "param %s : f32[4] = ones\n"
                            "param %w : f32[4,4] = normal(1, 0, 1)\n"
                            "const %half : f32[] = 0.5\n"
                            "const %axes : i64[1] = [-1]\n"
                            "input %cond : bool[]\n"
                            "%n, %rm, %rv = BatchNormalization(%x, %s, %s, %s, %s) {training_mode=1}\n"
                            "%a = Add(%n, %x)\n"
                            "%r = Relu(%a)\n"
                            "%p = MatMul(%r, %w)\n"
                            "%q = MatMul(%r, %w)\n"
                            "%b = Add(%p, %s)\n"
                            "%t = Add(%b, %b)\n"
                            "%m = ReduceMean(%t, %axes)\n"
                            "%e = Sub(%t, %m)\n"
                            "%l = Softmax(%e) {axis=1}\n"
                            "%u = RandomUniformLike(%l)\n"
                            "%v = Mul(%u, %half)\n"
                            "%c = Concat(%v, %e, %x) {axis=1}\n"
                            "%sum = AddN(%v, %q, %e)\n"
                            "%g = AllReduce<after=[%c]>(%sum)\n"
                            "%h = If(%cond; %g) {then_branch=graph(%o : f32[N,4]) {\n"
                            "  %o1 = Neg(%o)\n"
                            "  %o2 = Neg(%o1)\n"
                            "  output %o2\n"
                            "}, else_branch=graph(%o : f32[N,4]) {\n"
                            "  %o3 = Abs(%o)\n"
                            "  output %o3\n"
                            "}}\n"
                            "%y = Neg(%h)\n"
                            "%z = Neg(%y)\n"
                            "output %z\n"
                            "output %r\n"
                            "output %c\n"
                            "state %s <- %rm\n";

static gg_diag d;

/* What no rule may change. */
typedef struct facts {
	size_t nout, nstate;
	int random, effects;
	const char *name[INTERFACE];
	uint8_t dtype[INTERFACE];
	gg_shape shape[INTERFACE];
} facts;

static void count(const gg_graph *g, facts *f)
{
	gg_graph *body;
	for (const gg_node *n = g->first; n; n = n->next) {
		f->random += (n->op->flags & GG_RANDOM) != 0;
		f->effects += (n->op->flags & GG_EFFECT) != 0;
		for (int i = 0; (body = gg_body(n, i)); i++)
			count(body, f);
	}
}

static facts facts_of(const gg_graph *g)
{
	facts f = {.nout = g->nout, .nstate = g->nstate};
	count(g, &f);
	for (size_t i = 0; i < g->nout && i < INTERFACE; i++) {
		const gg_value *v = g->out[i]->value;
		f.name[i] = v->name;
		f.dtype[i] = v->dtype;
		f.shape[i] = v->shape;
	}
	return f;
}

static void compare(const facts *a, const facts *b)
{
	if (a->nout != b->nout || a->nstate != b->nstate || a->random != b->random ||
	    a->effects != b->effects)
		gg_bug("an output, a state, an effect or a random node came or went");
	for (size_t i = 0; i < a->nout && i < INTERFACE; i++)
		if (a->name[i] != b->name[i] || a->dtype[i] != b->dtype[i] ||
		    !gg_shape_eq(&a->shape[i], &b->shape[i]))
			gg_bug("output '%s' changed", a->name[i]);
}

static bool apply(void *ctx, const gg_node *n, const gg_rule_stat *r) { return --*(int *)ctx > 0; }
static void refused(void *ctx, const gg_node *n, const char *why) {}

static void run(gg_rules *r, gg_graph *g, int *left)
{
	const gg_rule_host host = {&d, apply, refused, left};
	gg_graph *body;
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; (body = gg_body(n, i)); i++)
			run(r, body, left);
	if (!gg_rules_run(r, g, &host) && !d.errors)
		gg_bug("rules stop without a message");
}

static gg_model *model(const char *text)
{
	gg_model *m = 0;
	gg_source s = {.name = "<graph>", .p = text, .len = strlen(text)};
	return gg_read(&d, &s, &m) > 0 && gg_infer_graph(&d, m->main) ? m : (gg_model_free(m), (gg_model *)0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = gg_xcalloc(n + 1, 1), *behind;
	memcpy(text, p, n);
	if ((behind = strstr(text, "\ngraph ")))
		*behind++ = 0;
	d = (gg_diag){.tool = "fuzz", .silent = true};
	gg_rules *r = gg_rules_compile(&d, "<rules>", 0, text);
	if (!r && !d.errors)
		gg_bug("rules are refused without a message");
	gg_model *m = r ? model(behind ? behind : plain) : 0;
	if (m && *text == '#' && !m->target &&
	    !gg_select(&d, m,
	               &(gg_select_options){.target = "cpu", .precision = "strict", .layout = "auto"})) {
		gg_model_free(m);
		m = 0;
	}
	if (m) {
		facts before = facts_of(m->main), after;
		int left = REWRITES;
		run(r, m->main, &left);
		d = (gg_diag){.tool = "fuzz"};
		if (!gg_check(&d, m) || !gg_infer_graph(&d, m->main))
			gg_bug("rules broke the graph");
		after = facts_of(m->main);
		compare(&before, &after);
	}
	gg_model_free(m);
	gg_rules_free(r);
	free(text);
	return 0;
}
