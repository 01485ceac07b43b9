#include "../pass.h"
#include <stdlib.h>
#include <string.h>

static bool is_text(const gg_value *v)
{
	return gg_is_const(v) && v->dtype == GG_STRING && gg_shape_known(&v->shape) &&
	       gg_shape_count(&v->shape) == 1;
}

static const gg_attr *list(const gg_node *n, const char *name) { return gg_find_attr(n, name); }

/* Its texts so far and its operands, merged by position. */
static bool reduce(gg_pass_run *p, gg_node *n)
{
	const gg_attr *pos = list(n, "string_pos"), *text = list(n, "string_value");
	int had = pos ? pos->n : 0, all = had + n->nin, npos = 0, k = 0;
	int64_t *at = gg_alloc_n(&p->scratch, (size_t)all, sizeof *at);
	const char **say = gg_alloc_n(&p->scratch, (size_t)all, sizeof *say);
	gg_attr value = {.name = gg_intern("string_value"), .type = GG_ATTR_STRINGS, .strings = say};
	for (int i = 0, t = 0; i < all; i++) {
		bool old = k < had && pos->ints[k] == i;
		gg_tensor s;
		if (!old && !is_text(n->in[t].value)) {
			t++;
			continue;
		}
		if (!old && !gg_value_tensor(p->d, n->in[t].value, &s))
			return false;
		at[npos] = i;
		say[npos++] = old ? text->strings[k++] : ((const char *const *)s.data)[0];
		if (!old)
			gg_remove_input_slot(n, t);
	}
	value.n = npos;
	gg_set_attr_ints(n, "string_pos", npos, at);
	gg_set_attr(n, &value);
	return true;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next) {
		bool some = false;
		if (strcmp(n->op->name, "Print"))
			continue;
		if (!gg_infer_node(p->d, n))
			return false;
		for (int i = 0; i < n->nin; i++) {
			const gg_value *v = n->in[i].value;
			some |= is_text(v);
			if (v->dtype == GG_STRING && !is_text(v))
				gg_refused(p, n,
				           gg_is_const(v) ? "a constant operand holds several texts"
				                          : "a text operand is not constant");
		}
		if (some && gg_apply(p, n) && !reduce(p, n))
			return false;
	}
	return true;
}

const gg_pass gg_pass_print_reduce = {
    .name = "print_reduce",
    .help = "constant texts of Print become attributes",
    .explain =
        "Print(\"loss\", x, \"of\", n) => Print(x, n){string_pos=[0, 2], string_value=[\"loss\", \"of\"]}\n"
        "Refused for texts that are no constant, and constants of several texts: they stay operands.",
    .ops = "Print",
    .pipeline = "optimize:120",
    .exact = true,
    .run = run,
};
