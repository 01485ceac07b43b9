#include "dump.h"
#include "../../lib/tool.h"
#include <string.h>

/* A name splits at its commas only when no value bears the whole of it. */
static bool find_all(gg_diag *d, gg_graph *g, gg_arena *a, const char *list, gg_value ***out, size_t *n)
{
	size_t words;
	char **word = gg_split(a, list, ',', &words);
	*n = 0;
	*out = gg_alloc_n(a, words + 1, sizeof **out);
	for (size_t i = 0; i < words; i++) {
		const char *name = gg_unquote(a, word[i]);
		gg_value *v = gg_find_value(g, name);
		if (!v && *name)
			return gg_error(d, GG_USAGE, "--extract: no value is named '%s'", name);
		if (v)
			(*out)[(*n)++] = v;
	}
	return true;
}

static void become_input(gg_graph *g, gg_value *v)
{
	if (v->kind == GG_INPUT)
		return;
	const char *name = v->name;
	gg_rename(v, gg_fresh_name(g, name));
	gg_value *in = gg_add_input(g, name, v->dtype, &v->shape);
	in->layout = v->layout;
	gg_replace_uses(v, in);
}

static void drop_unread(gg_graph *g)
{
	for (gg_node *n = g->last, *prev; n; n = prev) {
		bool read = n->nfollow > 0;
		prev = n->prev;
		for (int i = 0; i < n->nout; i++)
			read |= n->out[i] && n->out[i]->uses;
		if (!read)
			gg_remove_node(n);
	}
	gg_sweep_consts(g, SIZE_MAX);
	for (size_t i = g->nin; i-- > 0;)
		if (!g->in[i]->uses)
			gg_remove_input(g, i);
}

bool gg_extract(gg_diag *d, gg_model *m, const char *range)
{
	gg_graph *g = m->main;
	gg_arena a = {0};
	gg_value **in, **out;
	size_t nin, nout;
	const char *dots = strstr(range, "..");
	if (!dots)
		return gg_error(d, GG_USAGE, "--extract=%s is not IN..OUT", range);
	bool good = find_all(d, g, &a, gg_strndup(&a, range, (size_t)(dots - range)), &in, &nin);
	for (size_t i = 0; good && i < nin; i++)
		become_input(g, in[i]);
	good = good && find_all(d, g, &a, dots + 2, &out, &nout);
	if (good && !nout)
		good = gg_error(d, GG_USAGE, "--extract=%s names no output", range);
	if (good) {
		gg_clear_results(g);
		for (size_t i = 0; i < nout; i++)
			gg_add_output(g, out[i]);
		drop_unread(g);
	}
	gg_arena_fini(&a);
	return good;
}
