#include "dump.h"

static void quoted(gg_buf *b, const char *s)
{
	gg_buf_str(b, "\"");
	for (; *s; s++) {
		if (*s == '\n')
			gg_buf_str(b, "\\n");
		else
			gg_buf_printf(b, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
	}
	gg_buf_str(b, "\"");
}

static void edge(gg_buf *b, const gg_value *v, const char *to, uint32_t id)
{
	gg_arena a = {0};
	char *label = gg_printf(&a, "%s\n%s%s", v->name, gg_dtype_name(v->dtype),
	                        gg_shape_str(&a, &v->shape));
	if (v->producer)
		gg_buf_printf(b, "  n%u", v->producer->id);
	else
		gg_buf_printf(b, "  v%u", v->id);
	gg_buf_printf(b, " -> %s%u [label=", to, id);
	quoted(b, label);
	gg_buf_str(b, "];\n");
	gg_arena_fini(&a);
}

static void graph(gg_buf *b, const gg_graph *g, const char *label, int depth)
{
	gg_graph *body;
	if (depth) {
		gg_buf_printf(b, "  subgraph cluster_%u { label=", g->owner->id * 16 + (unsigned)depth);
		quoted(b, label);
		gg_buf_str(b, ";\n");
	}
	for (size_t i = 0; i < g->nin; i++) {
		gg_buf_printf(b, "  v%u [shape=oval,label=", g->in[i]->id);
		quoted(b, g->in[i]->name);
		gg_buf_str(b, "];\n");
	}
	for (const gg_node *n = g->first; n; n = n->next) {
		gg_buf_printf(b, "  n%u [shape=box,label=", n->id);
		quoted(b, n->op->name);
		gg_buf_str(b, "];\n");
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value && (n->in[i].value->producer || n->in[i].value->kind == GG_INPUT))
				edge(b, n->in[i].value, "n", n->id);
		for (int i = 0; i < n->nafter; i++)
			gg_buf_printf(b, "  n%u -> n%u [style=dashed];\n", n->after[i]->id, n->id);
		int k = 0;
		for (int i = 0; i < n->nattr; i++)
			if (n->attr[i].type == GG_ATTR_GRAPH && (body = gg_body(n, k++)))
				graph(b, body, n->attr[i].name, depth + k);
	}
	for (size_t i = 0; i < g->nout; i++) {
		const gg_value *v = g->out[i]->value;
		gg_buf_printf(b, "  o%u [shape=oval,label=", v->id);
		quoted(b, v->name);
		gg_buf_str(b, "];\n");
		edge(b, v, "o", v->id);
	}
	if (depth)
		gg_buf_str(b, "  }\n");
}

bool gg_dump_dot(gg_diag *d, gg_buf *b, gg_model *m)
{
	gg_buf_str(b, "digraph ");
	quoted(b, m->name ? m->name : "");
	gg_buf_str(b, " {\n");
	graph(b, m->main, "", 0);
	gg_buf_str(b, "}\n");
	return true;
}
