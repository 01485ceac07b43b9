/* What a graph costs: per node (csv), in sum (stats), and where its values lie (memory). */
#include "dump.h"
#include "../../lib/cost.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t count(const gg_value *v) { return v && v->shape.rank >= 0 ? gg_shape_count(&v->shape) : -1; }

static int64_t bytes(const gg_value *v)
{
	int64_t n = count(v);
	if (n < 0 || !v->dtype)
		return -1;
	return n > INT64_MAX / (int64_t)gg_dtype_size(v->dtype) ? INT64_MAX
	                                                        : (int64_t)gg_packed_bytes(v->dtype, n);
}

/* ---- csv ---------------------------------------------------------------------------------- */
static void field(gg_buf *b, const char *s)
{
	gg_buf_str(b, "\"");
	for (; *s; s++)
		gg_buf_printf(b, *s == '"' ? "\"\"" : "%c", *s);
	gg_buf_str(b, "\",");
}

static void names(gg_buf *b, gg_value *const *v, const gg_use *u, int n)
{
	gg_buf list = {0};
	for (int i = 0; i < n; i++) {
		const gg_value *x = u ? u[i].value : v[i];
		gg_buf_printf(&list, "%s%s", i ? " " : "", x ? x->name : "_");
	}
	field(b, list.p ? list.p : "");
	gg_buf_fini(&list);
}

static void number(gg_buf *b, int64_t n, const char *end)
{
	if (n >= 0)
		gg_buf_printf(b, "%" PRId64, n);
	gg_buf_str(b, end);
}

static void csv_graph(gg_buf *b, const gg_graph *g)
{
	gg_graph *body;
	for (const gg_node *n = g->first; n; n = n->next) {
		const gg_value *y = gg_out(n, 0);
		gg_arena a = {0};
		gg_buf_printf(b, "%u,", n->id);
		field(b, n->op->name);
		field(b, gg_node_name(n));
		names(b, 0, n->in, n->nin);
		names(b, n->out, 0, n->nout);
		field(b, y ? gg_dtype_name(y->dtype) : "");
		field(b, y ? gg_shape_str(&a, &y->shape) : "");
		field(b, n->kernel ? n->kernel : "");
		number(b, gg_flops(n), ",");
		number(b, y ? bytes(y) : 0, "\n");
		gg_arena_fini(&a);
		for (int i = 0; (body = gg_body(n, i)); i++)
			csv_graph(b, body);
	}
}

bool gg_dump_csv(gg_diag *d, gg_buf *b, gg_model *m)
{
	gg_buf_str(b, "id,op,name,inputs,outputs,dtype,shape,kernel,flops,bytes\n");
	csv_graph(b, m->main);
	return true;
}

/* ---- stats -------------------------------------------------------------------------------- */
typedef struct totals {
	size_t nodes, launches, params, consts, unsized;
	int64_t param_elements, param_bytes, const_bytes, flops, value_bytes;
	gg_map ops; /* name -> count + 1, as a pointer */
	const char **op;
	size_t nop, cap_op;
} totals;

static void add_op(totals *t, const char *op)
{
	size_t n = (size_t)(uintptr_t)gg_map_gets(&t->ops, op);
	if (!n)
		GG_PUSH(t->op, t->nop, t->cap_op, op);
	gg_map_puts(&t->ops, op, (void *)(uintptr_t)(n + 1));
}

/* What is too much to say is said as the most there is; b < 0 is not known. */
static void add(int64_t *sum, int64_t b)
{
	if (b > 0 && __builtin_add_overflow(*sum, b, sum))
		*sum = INT64_MAX;
}

static void add_graph(totals *t, const gg_graph *g)
{
	gg_graph *body;
	for (const gg_value *v = g->consts; v; v = v->next_const) {
		bool param = v->kind == GG_PARAM;
		t->params += param;
		t->consts += !param;
		add(&t->param_elements, param ? count(v) : 0);
		add(param ? &t->param_bytes : &t->const_bytes, bytes(v));
	}
	for (const gg_node *n = g->first; n; n = n->next) {
		int64_t f = gg_flops(n);
		t->nodes++;
		t->launches += !(n->op->flags & GG_VIEW);
		t->unsized += f < 0;
		add(&t->flops, f);
		add_op(t, n->op->name);
		for (int i = 0; i < n->nout; i++)
			add(&t->value_bytes, n->out[i] ? bytes(n->out[i]) : 0);
		for (int i = 0; (body = gg_body(n, i)); i++)
			add_graph(t, body);
	}
}

static const totals *sorting;

static int by_count(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t nx = (size_t)(uintptr_t)gg_map_gets(&sorting->ops, x),
	       ny = (size_t)(uintptr_t)gg_map_gets(&sorting->ops, y);
	return nx != ny ? (nx < ny) - (nx > ny) : strcmp(x, y);
}

static size_t count_of(const totals *t, const char *op)
{
	return (size_t)(uintptr_t)gg_map_gets(&t->ops, op);
}

bool gg_dump_stats(gg_diag *d, gg_buf *b, gg_model *m)
{
	totals t = {0};
	add_graph(&t, m->main);
	gg_buf_printf(b, "graph       %s\n", m->name ? m->name : "");
	gg_buf_printf(b, "nodes       %zu\n", t.nodes);
	gg_buf_printf(b, "parameters  %zu, %" PRId64 " elements, %" PRId64 " bytes\n", t.params,
	              t.param_elements, t.param_bytes);
	gg_buf_printf(b, "constants   %zu, %" PRId64 " bytes\n", t.consts, t.const_bytes);
	gg_buf_printf(b, "flops       %" PRId64 "%s\n", t.flops,
	              t.unsized ? " (without nodes of unknown size)" : "");
	gg_buf_printf(b, "bytes       %" PRId64 " written by nodes\n", t.value_bytes);
	gg_buf_printf(b, "launches    %zu\n", t.launches);
	gg_buf_printf(b, "transposes  %zu\n", count_of(&t, "Transpose"));
	gg_buf_printf(b, "reorders    %zu\n", count_of(&t, "Reorder"));
	gg_buf_printf(b, "casts       %zu\n", count_of(&t, "Cast"));
	sorting = &t;
	if (t.nop)
		qsort(t.op, t.nop, sizeof *t.op, by_count);
	for (size_t i = 0; i < t.nop; i++)
		gg_buf_printf(b, "%8zu %s\n", count_of(&t, t.op[i]), t.op[i]);
	gg_map_fini(&t.ops);
	free(t.op);
	return true;
}

/* ---- memory ------------------------------------------------------------------------------- */
/* The nodes that the loss hangs on get mark 1, the others 0. */
static void mark_forward(gg_graph *g, gg_node *loss)
{
	for (gg_node *n = g->first; n; n = n->next) {
		n->mark = n == loss;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				gg_storage(n->out[i])->mark = 0;
	}
	for (gg_node *n = loss; n; n = n->prev)
		for (int i = 0; n->mark && i < n->nin; i++)
			if (n->in[i].value && n->in[i].value->producer)
				n->in[i].value->producer->mark = 1;
}

static bool read_backward(const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (u->node && !u->node->mark)
			return true;
	return false;
}

/* What lies in the arena from the forward part on, because the gradients of `loss` read it. */
static void put_kept(gg_buf *b, gg_graph *g)
{
	gg_value *loss = g->owner ? 0 : gg_find_value(g, "loss");
	int64_t bytes = 0;
	size_t count = 0;
	if (!loss || !loss->producer)
		return;
	mark_forward(g, loss->producer);
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; n->mark && i < n->nout; i++) {
			gg_value *v = n->out[i], *s = v ? gg_storage(v) : 0;
			if (!v || v == loss || s->mark || s->mem_off < 0 || !read_backward(v))
				continue;
			s->mark = 1;
			bytes += (int64_t)gg_round_up((size_t)s->mem_len, GG_ALIGN);
			count++;
		}
	if (count)
		gg_buf_printf(b,
		              "kept        %" PRId64
		              " bytes (%zu buffers of the forward part that the gradients read)\n",
		              bytes, count);
}

static void memory_graph(gg_buf *b, gg_graph *g, const gg_plan *p)
{
	gg_buf_printf(b, "arena       %" PRId64 " bytes\n", p->arena);
	gg_buf_printf(b, "bound       %" PRId64 " bytes (largest sum of live values; arena is %.3f of it)\n",
	              p->bound, p->bound ? (double)p->arena / (double)p->bound : 1);
	gg_buf_printf(b, "no reuse    %" PRId64 " bytes\n", p->total);
	gg_buf_printf(b,
	              "values      %zu planned, %zu share another's buffer, %zu inside a kernel, %zu sized "
	              "at run time\n",
	              p->planned, p->aliased, p->inside, p->unplanned);
	put_kept(b, g);
	for (const gg_node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nout; i++) {
			gg_value *v = n->out[i];
			if (!v)
				continue;
			if (v->alias)
				gg_buf_printf(b, "%12s %12s  %s = %s\n", "", "", v->name,
				              gg_storage(v)->name);
			else if (v->mem_off >= 0)
				gg_buf_printf(b, "%12" PRId64 " %12" PRId64 "  %s\n", v->mem_off, v->mem_len,
				              v->name);
			else
				gg_buf_printf(b, "%12s %12s  %s\n", gg_shape_known(&v->shape) ? "-" : "?",
				              gg_shape_known(&v->shape) ? "-" : "?", v->name);
		}
	}
}

typedef struct place {
	gg_value *v, *alias;
	int64_t off, len;
} place;

/* The places that gg-build gave stay; only the bound is computed, which is the same for every plan. */
static bool plan_of_built(gg_diag *d, gg_graph *g, gg_plan *p)
{
	place *had = 0;
	size_t n = 0, cap = 0;
	for (const gg_node *k = g->first; k; k = k->next)
		for (int i = 0; i < k->nout; i++)
			if (k->out[i])
				GG_PUSH(had, n, cap,
				        ((place){k->out[i], k->out[i]->alias, k->out[i]->mem_off,
				                 k->out[i]->mem_len}));
	bool good = gg_plan_for_target(d, g, false, p);
	p->arena = 0;
	p->planned = p->aliased = 0;
	for (place *x = had; x < had + n; x++) {
		int64_t end = x->off < 0 ? 0 : x->off + x->len;
		x->v->alias = x->alias;
		x->v->mem_off = x->off;
		x->v->mem_len = x->len;
		p->aliased += x->alias != 0;
		p->planned += !x->alias && x->off >= 0;
		p->arena = end > p->arena ? end : p->arena;
	}
	p->arena += (GG_ALIGN - p->arena % GG_ALIGN) % GG_ALIGN;
	free(had);
	return good;
}

static bool plan_graph(gg_diag *d, gg_buf *b, gg_graph *g, bool built)
{
	gg_plan p = {0};
	gg_graph *body;
	if (built ? !plan_of_built(d, g, &p) : !gg_plan_for_target(d, g, false, &p))
		return false;
	memory_graph(b, g, &p);
	for (gg_node *n = g->first; n; n = n->next) {
		int k = 0;
		for (int i = 0; i < n->nattr; i++) {
			if (n->attr[i].type != GG_ATTR_GRAPH || !(body = gg_body(n, k++)))
				continue;
			gg_buf_printf(b, "\nbody %s of '%s'\n", n->attr[i].name, gg_node_name(n));
			if (!plan_graph(d, b, body, built))
				return false;
		}
	}
	return true;
}

bool gg_dump_memory(gg_diag *d, gg_buf *b, gg_model *m)
{
	return plan_graph(d, b, m->main, m->stage && !strcmp(m->stage, "build"));
}
