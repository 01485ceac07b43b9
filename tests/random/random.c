#include "kit.h"
#include "../../tools/gg-opt/step.h"
#include <stdlib.h>
#include <string.h>

#define X(NAME) extern const gg_pass gg_pass_##NAME;
#include "passes.inc"
#undef X

void add_result(gen *r, gg_value *v)
{
	gg_graph *g = r->m->main;
	for (size_t i = 0; i < g->nout; i++)
		if (g->out[i]->value == v)
			return;
	gg_add_output(g, v);
}

/* What nobody reads is a result, mostly, and so are some inner values; one of the inputs, rarely. */
static void choose_results(gen *r)
{
	gg_graph *g = r->m->main;
	for (size_t i = 0; i < r->npool; i++) {
		gg_value *v = r->pool[i];
		if (v->kind == GG_TEMP && v->graph == g && (v->uses ? chance(r, 3) : chance(r, 93)))
			add_result(r, v);
	}
	if (g->nin && chance(r, 10))
		add_result(r, g->in[below(r, (uint32_t)g->nin)]);
	if (!g->nout && r->npool)
		add_result(r, r->pool[r->npool - 1]);
}

static gg_model *draw(gen *r, uint64_t seed, bool train)
{
	static const gg_dtype main[] = {GG_F32, GG_F32, GG_F32, GG_F32, GG_F32, GG_F16, GG_BF16, GG_F64};
	*r = (gen){.seed = seed * 2654435761u + 1, .d = {.silent = true, .quiet = true}, .train = train};
	r->m = gg_model_new(gg_printf(&r->a, "random%llu", (unsigned long long)seed));
	r->g = r->m->main;
	r->main = train ? GG_F32 : main[below(r, 8)];
	r->batch = chance(r, 20) ? gg_dim_sym("N") : 1 + (gg_dim)below(r, 4);
	for (int k = 3 + (int)below(r, train ? 5 : 12); k; k--)
		piece(r);
	if (!train && chance(r, 20))
		collectives(r);
	choose_results(r);
	free(r->pool);
	free(r->taken);
	gg_arena_fini(&r->a);
	return r->m;
}

static bool apply(gen *r, const gg_pass *pass, const char *const *option, int noption)
{
	gg_map ops = {0};
	int64_t left = -1;
	step s = {.pass = pass, .option = (const char **)(uintptr_t)option, .noption = (size_t)noption};
	step_find_ops(r->m, &ops);
	bool good = step_run(&s, &r->d, r->m, &ops, &left, true);
	gg_map_fini(&ops);
	gg_rules_free(s.run.rules);
	bool made = s.run.applied;
	step_fini(&s);
	return good && made;
}

static bool add_step(gen *r)
{
	static const gg_pass *const by[] = {&gg_pass_momentum, &gg_pass_momentum, &gg_pass_adam,
	                                    &gg_pass_adamw,    &gg_pass_sgd,      &gg_pass_rmsprop,
	                                    &gg_pass_lamb,     &gg_pass_adagrad};
	uint32_t k = below(r, 8);
	const char *kind[] = {"kind=mse", "target=target"};
	const char *rates[] = {"lr=0.01", "weight_decay=0.1"};
	if (chance(r, 20) && !apply(r, &gg_pass_autocast, (const char *[]){"dtype=bf16"}, 1))
		return false;
	return apply(r, &gg_pass_loss, kind, 2) && apply(r, &gg_pass_grad, 0, 0) &&
	       apply(r, by[k], rates, k < 4 && chance(r, 50) ? 2 : 1);
}

gg_model *random_graph(uint64_t seed)
{
	gen r = {0};
	bool train = seed % 6 == 0;
	draw(&r, seed, train);
	if (train && !add_step(&r)) {
		gg_model_free(r.m);
		draw(&r, seed, false);
	}
	return r.m;
}
