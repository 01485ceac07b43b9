/* Plans of random graphs: buffers alive together never overlap, and the arena is near the bound. */
#include "plan.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static gg_diag diag = {.tool = "plan"};
static uint64_t seed = 1;

static uint32_t pick(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

static void shape(gg_value *v, int64_t n)
{
	v->dtype = GG_F32;
	v->shape = gg_shape_of(1, (gg_dim[]){n});
}

static gg_value *add(gg_graph *g, const char *op, gg_value *a, gg_value *b, int64_t n)
{
	static unsigned count;
	char text[16];
	const char *name = text;
	snprintf(text, sizeof text, "t%u", count++);
	gg_node *node = gg_add_node(g, NULL, gg_op_find(op), b ? 2 : 1, (gg_value *[]){a, b}, 1, &name);
	shape(node->out[0], n);
	return node->out[0];
}

static gg_model *chain(int nodes, int width, int64_t unit)
{
	gg_model *m = gg_model_new("random");
	gg_shape s = gg_shape_of(1, (gg_dim[]){unit});
	gg_value *x = gg_add_input(m->main, "x", GG_F32, &s),
	         **recent = calloc((size_t)width, sizeof *recent);

	for (int i = 0; i < width; i++)
		recent[i] = x;
	for (int i = 0; i < nodes; i++) {
		gg_value *a = recent[pick((uint32_t)width)], *b = recent[pick((uint32_t)width)];
		bool same = pick(2);
		int64_t n = same ? a->shape.dim[0] : unit * (1 + pick(16));
		recent[pick((uint32_t)width)] = pick(3) ? add(m->main, "Add", a, b, n)
		                                        : add(m->main, "Relu", a, NULL, n);
	}
	for (int i = 0; i < width; i += 2)
		gg_add_output(m->main, recent[i]);
	free(recent);
	return m;
}

/* What a run sees: each buffer holds one storage from its birth to its last reader. */
static bool overlaps(gg_graph *g)
{
	struct life {
		int64_t off, end;
		uint32_t from, to;
	} *life = calloc(g->nnodes + 1, sizeof *life);
	size_t n = 0;
	bool bad = false;

	for (gg_node *node = g->first; node; node = node->next) {
		gg_value *v = node->out[0], *root = gg_storage(v);
		struct life *l;
		if (root->kind != GG_TEMP)
			continue;
		if (root == v) {
			l = &life[n++];
			*l = (struct life){v->mem_off, v->mem_off + v->mem_len, node->order, node->order};
			v->mark = n;
		}
		l = &life[root->mark - 1];
		for (gg_use *u = v->uses; u; u = u->next) {
			uint32_t t = u->node ? u->node->order : (uint32_t)g->nnodes + 1;
			l->to = t > l->to ? t : l->to;
		}
		bad |= root->mem_off < 0 || root->mem_off % GG_ALIGN != 0;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			bad |= life[i].from <= life[k].to && life[k].from <= life[i].to &&
			       life[i].off < life[k].end && life[k].off < life[i].end;
	free(life);
	return bad;
}

/* A value that is overwritten in place must have no later reader: values tell who wrote last. */
static bool clobbered(gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next) {
		gg_value *v = n->out[0], *root = v->alias;
		if (!root || (n->op->flags & GG_VIEW))
			continue;
		for (gg_node *k = n; k; k = k->next)
			for (int i = 0; k != n && i < k->nin; i++)
				if (k->in[i].value != v && k->in[i].value->alias == root &&
				    k->in[i].value->producer->order < n->order)
					return true;
		for (gg_use *u = root->uses; u; u = u->next)
			if (!u->node || u->node->order > n->order)
				return true;
	}
	return false;
}

static void random_graphs(void)
{
	double worst = 0, sum = 0;
	bool bad = false, lost = false;

	for (int i = 0; i < 60; i++) {
		gg_model *m = chain(20 + (int)pick(300), 2 + (int)pick(6), i % 2 ? 16 : 1000);
		gg_plan_options o = {.no_inplace = i % 3 == 0};
		gg_plan p;
		bad |= !gg_plan_graph(&diag, m->main, &o, &p) || overlaps(m->main);
		lost |= clobbered(m->main);
		if ((double)p.arena > worst * (double)p.bound)
			worst = (double)p.arena / (double)p.bound;
		sum += (double)p.arena / (double)p.bound;
		bad |= p.arena < p.bound || p.total < p.bound;
		gg_model_free(m);
	}
	ok(!bad, "60 random graphs: no live buffers overlap");
	ok(!lost, "nothing is overwritten before its last reader");
	ok(worst <= 1.10 && sum / 60 <= 1.02, "near the bound (worst %.4f, mean %.4f)", worst, sum / 60);
}

static void large(void)
{
	gg_model *m = chain(200000, 4, 16);
	gg_plan p;
	clock_t start = clock();
	double seconds;

	ok(gg_plan_graph(&diag, m->main, NULL, &p), "200,000 nodes are planned");
	seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	ok(seconds < 4, "in linear time (%.2f s)", seconds);
	ok((double)p.arena <= 1.3 * (double)p.bound, "the sweep alone stays near the bound (%.3f)",
	   (double)p.arena / (double)p.bound);
	gg_model_free(m);
}

static void by_hand(void)
{
	gg_model *m = gg_model_new("hand");
	gg_graph *g = m->main;
	gg_shape s = gg_shape_of(1, (gg_dim[]){64});
	gg_value *x = gg_add_input(g, "x", GG_F32, &s);
	gg_value *a = add(g, "Relu", x, NULL, 64), *b = add(g, "Relu", a, NULL, 64),
	         *c = add(g, "Add", a, b, 64);
	gg_plan p;

	gg_add_output(g, c);
	ok(gg_plan_graph(&diag, g, NULL, &p) && p.bound == 512 && p.arena == 512, "two buffers are enough");
	ok(!a->alias && !b->alias,
	   "an input of the graph is not overwritten, nor a value that is still read");
	ok(c->alias == a, "a value is overwritten by its last reader");
	ok(gg_plan_graph(&diag, g, &(gg_plan_options){.no_reuse = true}, &p) && p.arena == 768 && !c->alias,
	   "without reuse each value has its own place");
	ok(gg_plan_graph(&diag, g, &(gg_plan_options){.no_inplace = true}, &p) && p.arena == 768 && !c->alias,
	   "in-place can be turned off");
	b->shape = gg_shape_of(1, (gg_dim[]){gg_dim_sym("N")});
	ok(gg_plan_graph(&diag, g, NULL, &p) && b->mem_off == -1 && p.unplanned == 1,
	   "a value of unknown size is left out");
	gg_model_free(m);
}

int main(void)
{
	by_hand();
	random_graphs();
	large();
	return done();
}
