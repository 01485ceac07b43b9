/* Layouts: on small random graphs no other choice costs less than the one that is made. */
#include "gg.h"
#include "cut.h"
#include "layout.h"
#include "tap.h"
#include <stdlib.h>
#include <string.h>

static gg_diag diag = {.tool = "layout"};

static unsigned next(unsigned *seed) { return (*seed = *seed * 1103515245 + 12345) >> 16; }

/* A graph of n steps, each on values that are there. */
static void write_graph(gg_buf *b, const char *dtype, unsigned seed, int n)
{
	static const char *const form[] = {
	    "%%v%d = Conv(%%v%d, %%w) {pads=[1,1,1,1]}\n",
	    "%%v%d = Relu(%%v%d)\n",
	    "%%v%d = Softmax(%%v%d) {axis=1}\n",
	    "%%v%d = Add(%%v%d, %%v%d)\n",
	    "%%v%d = Mul(%%v%d, %%v%d)\n",
	    "%%v%d = MaxPool(%%v%d) {kernel_shape=[3,3], pads=[1,1,1,1]}\n",
	    "%%v%d = Add(%%v%d, %%p)\n",
	    "%%v%d = BatchNormalization(%%v%d, %%s, %%s, %%s, %%s)\n",
	};
	gg_buf_printf(
	    b,
	    "graph \"g\"\ninput %%v0 : %s[1,8,6,6]\ninput %%p : %s[1,8,1,6]\nparam %%s : %s[8] = ones\n"
	    "param %%w : %s[8,8,3,3] = ones\nparam %%w2 : %s[8,16,1,1] = ones\n",
	    dtype, dtype, dtype, dtype, dtype);
	for (int i = 1; i <= n; i++) {
		unsigned back = i < 4 ? (unsigned)i : 4;
		int x = i - 1 - (int)(next(&seed) % back), y = i - 1 - (int)(next(&seed) % back);
		unsigned which = next(&seed) % (sizeof form / sizeof *form + 1);
		if (which < sizeof form / sizeof *form)
			gg_buf_printf(b, form[which], i, x, y);
		else
			gg_buf_printf(b, "%%c%d = Concat(%%v%d, %%v%d) {axis=1}\n%%v%d = Conv(%%c%d, %%w2)\n",
			              i, x, y, i, i);
		if (which == 1 && i > 3) {
			gg_buf_printf(b,
			              "%%d%d, %%e%d, %%f%d, %%g%d = BatchNormAddReluGrad(%%v%d, %%v%d, "
			              "%%v%d, %%s) {training_mode=1}\n",
			              i, i, i, i, i, x, y);
			gg_buf_printf(b, "%%h%d = Add(%%d%d, %%v%d)\noutput %%g%d\noutput %%h%d\n", i, i, x,
			              i, i);
		}
		if (i == n || next(&seed) % 6 == 0)
			gg_buf_printf(b, "output %%v%d\n", i);
	}
}

/* The least that any choices cost. */
static int64_t least(const gg_layouts *l)
{
	gg_node *free_node[20];
	int n = 0;
	int64_t best = INT64_MAX;
	for (gg_node *k = l->g->first; k; k = k->next)
		if (l->pick[k->order].side > GG_CUT_YES)
			free_node[n++] = k;
	for (unsigned bits = 0; bits < 1u << n; bits++) {
		for (int i = 0; i < n; i++)
			gg_set_node_layout(free_node[i], bits >> i & 1 ? GG_NHWC : GG_PLAIN);
		int64_t cost = gg_graph_layout_cost(l).cost;
		best = cost < best ? cost : best;
	}
	return best;
}

static void check(const char *target, const char *dtype, unsigned seed)
{
	gg_buf text = {0};
	gg_model *m;
	write_graph(&text, dtype, seed, 9);
	gg_source s = {.name = "graph", .p = text.p, .len = text.len};
	if (!ok(gg_read_text(&diag, &s, &m) == 1 && gg_infer_graph(&diag, m->main), "graph %u reads", seed)) {
		gg_buf_fini(&text);
		return;
	}
	gg_layouts l = {gg_target_find(target), m->main, gg_xcalloc(m->main->nnodes + 1, sizeof *l.pick)};
	gg_graph_number(m->main);
	for (gg_node *n = m->main->first; n; n = n->next)
		l.pick[n->order].row = gg_target_row(l.t, n);
	int choices = gg_choose_layouts(&l, false);
	int64_t cost = gg_graph_layout_cost(&l).cost, best = least(&l);
	ok(cost == best, "%s, %s, graph %u, %d choices: %lld, and the best is %lld", target, dtype, seed,
	   choices, (long long)cost, (long long)best);
	free(l.pick);
	gg_model_free(m);
	gg_buf_fini(&text);
}

int main(void)
{
	for (unsigned seed = 1; seed <= 60; seed++) {
		check("cpu", "f32", seed);
		check("cuda", "f32", seed);
		check("cuda", "f16", seed);
	}
	return done();
}
