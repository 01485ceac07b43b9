/* Delta debugging. An edit makes the graph smaller in some of its places: it is tried on all of them at once,
 * on halves, quarters and so on down to single places, and kept where the command still ends as before. All
 * edits are tried again until none helps. */
#include "reduce.h"
#include "probe.h"
#include <stdlib.h>
#include <string.h>

extern const gg_pass gg_pass_dead_code;

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* the shell's exit status */

typedef struct job {
	gg_diag *d;
	const gg_model *like;
	const char *command;
	int status;
	gg_buf best;
	size_t nodes, length; /* of best: what must become less, in this order */
	size_t runs;
} job;

/* The places from `from` up to `to`. */
typedef struct range {
	size_t at, from, to;
} range;

static bool next_is_in(range *r)
{
	size_t i = r->at++;
	return i >= r->from && i < r->to;
}

/* ---- edits -------------------------------------------------------------------------------- */
/* Visits every node, bodies first, from the last to the first: readers before what they read. */
typedef void each_node(gg_node *n, range *r);

static void walk(gg_graph *g, each_node *f, range *r)
{
	gg_graph *b;
	for (gg_node *n = g->last, *prev; n; n = prev) {
		prev = n->prev;
		for (int i = 0; (b = gg_body(n, i)); i++)
			walk(b, f, r);
		f(n, r);
	}
}

static void pass_by(gg_node *n, range *r) { r->at++; }

static size_t count_nodes(gg_model *m)
{
	range r = {0};
	walk(m->main, pass_by, &r);
	return r.at;
}

/* Only what `stays` says of the results. */
static void keep_results(gg_graph *g, bool (*stays)(const gg_value *v, range *r), range *r)
{
	size_t nout = 0, nstate = 0;
	gg_value **out = gg_xcalloc(g->nout + 1, sizeof *out);
	gg_value **param = gg_xcalloc(g->nstate + 1, sizeof *param);
	gg_value **final = gg_xcalloc(g->nstate + 1, sizeof *final);
	for (size_t i = 0; i < g->nout; i++)
		if (stays(g->out[i]->value, r))
			out[nout++] = g->out[i]->value;
	for (size_t i = 0; i < g->nstate; i++)
		if (stays(g->state[i]->final.value, r)) {
			param[nstate] = g->state[i]->param;
			final[nstate++] = g->state[i]->final.value;
		}
	gg_clear_results(g);
	for (size_t i = 0; i < nout; i++)
		gg_add_output(g, out[i]);
	for (size_t i = 0; i < nstate; i++)
		gg_add_state(g, param[i], final[i]);
	free(out);
	free(param);
	free(final);
}

static size_t count_results(gg_model *m) { return m->main->nout + m->main->nstate; }
static bool outside(const gg_value *v, range *r) { return !next_is_in(r); }
static void drop_results(gg_model *m, range *r) { keep_results(m->main, outside, r); }

static bool made_by_another(const gg_value *v, range *r) { return v->mark != 1; }

static gg_value *known_const(gg_value *v)
{
	gg_tensor t = {v->dtype, v->shape, 0};
	int64_t n = v->content ? gg_count(&t) : 0;
	t.data = n ? gg_xaligned(gg_nbytes(&t)) : 0;
	for (int64_t i = 0; i < n; i++) {
		if (!gg_dim_number(v->content[i])) {
			free(t.data);
			return 0;
		}
		gg_set_i64(&t, i, v->content[i]);
	}
	gg_value *c = n ? gg_add_tensor(v->graph, v->name, &t) : 0;
	free(t.data);
	return c;
}

static gg_value *filled_const(gg_value *v)
{
	gg_graph *g = v->graph;
	bool floats = (GG_DT(v->dtype) & GG_FLOATS) != 0;
	if (!gg_shape_known(&v->shape) || gg_dtype_class((gg_dtype)v->dtype) == 'S')
		return 0;
	return gg_add_const(g, GG_CONST, gg_fresh_name(g, v->name), v->dtype, &v->shape,
	                    gg_data_fill(g->m, floats ? GG_FILL_NORMAL : GG_FILL_ZEROS, 1, 0, 1));
}

/* Its readers get a value from outside: a constant where its content is known or in a body, else an input of
 * its name. */
static bool cut(gg_value *v)
{
	gg_graph *g = v->graph;
	gg_value *to = known_const(v);
	if (!to && g->owner)
		to = filled_const(v);
	else if (!to && v->shape.rank >= 0) {
		const char *name = v->name;
		gg_rename(v, gg_fresh_name(g, name));
		to = gg_add_input(g, name, v->dtype, &v->shape);
		to->layout = v->layout;
	}
	if (to)
		gg_replace_uses(v, to);
	return to != 0;
}

static void delete_node(gg_node *n, bool keep_inputs)
{
	gg_graph *g = n->graph;
	bool all = true;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			n->out[i]->mark = 1;
	if (!g->owner)
		keep_results(g, made_by_another, 0);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			n->out[i]->mark = 0;
			all &= !n->out[i]->uses || cut(n->out[i]);
		}
	for (int i = 0; keep_inputs && !g->owner && i < n->nin; i++)
		if (n->in[i].value && n->in[i].value->kind == GG_TEMP && !gg_is_output(n->in[i].value))
			gg_add_output(g, n->in[i].value);
	if (all)
		gg_remove_node(n);
}

static void cut_one(gg_node *n, range *r)
{
	if (next_is_in(r))
		delete_node(n, false);
}

static void cut_and_show(gg_node *n, range *r)
{
	if (next_is_in(r))
		delete_node(n, true);
}

/* What a node makes becomes an input; what only it read goes. */
static void cut_nodes(gg_model *m, range *r) { walk(m->main, cut_one, r); }
/* The same, and what it read becomes an output. */
static void cut_tails(gg_model *m, range *r) { walk(m->main, cut_and_show, r); }

static void bypass_one(gg_node *n, range *r)
{
	if (!next_is_in(r))
		return;
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i], *to = 0;
		for (int k = 0; v && v->uses && !to && k < n->nin; k++)
			if (n->in[k].value && n->in[k].value->dtype == v->dtype && v->shape.rank >= 0 &&
			    gg_shape_eq(&n->in[k].value->shape, &v->shape) &&
			    gg_can_replace(v, n->in[k].value))
				to = n->in[k].value;
		if (to)
			gg_replace_value(v, to);
		else if (v && v->uses)
			return;
	}
	gg_remove_node(n);
}

static void bypass_nodes(gg_model *m, range *r) { walk(m->main, bypass_one, r); }

static size_t count_inputs(gg_model *m) { return m->main->nin; }

static void drop_inputs(gg_model *m, range *r)
{
	gg_graph *g = m->main;
	for (size_t i = g->nin; i-- > 0;)
		if (next_is_in(r) && !g->in[i]->uses)
			gg_remove_input(g, i);
}

static void drop_optional(gg_node *n, range *r)
{
	for (int i = gg_nargs(n) - 1; i >= n->op->min_in; i--)
		if (n->in[i].value && next_is_in(r))
			gg_set_input(n, i, 0);
	for (int i = n->nattr; i-- > 0;) {
		const gg_attr_spec *s = gg_op_attr(n->op, n->attr[i].name);
		if (next_is_in(r) && s && !s->required)
			gg_del_attr(n, n->attr[i].name);
	}
}

static void count_one(gg_node *n, range *r)
{
	for (int i = n->op->min_in; i < gg_nargs(n); i++)
		r->at += n->in[i].value != 0;
	r->at += (size_t)n->nattr;
}

static size_t count_optional(gg_model *m)
{
	range r = {0};
	walk(m->main, count_one, &r);
	return r.at;
}

static void drop_optionals(gg_model *m, range *r) { walk(m->main, drop_optional, r); }

static size_t count_consts(gg_model *m)
{
	size_t n = 0;
	for (gg_value *v = m->main->consts; v; v = v->next_const)
		n++;
	return n;
}

/* Weights that were read from somewhere become random ones. */
static void fill_consts(gg_model *m, range *r)
{
	for (gg_value *v = m->main->consts; v; v = v->next_const)
		if (next_is_in(r) && (GG_DT(v->dtype) & GG_FLOATS) && gg_shape_known(&v->shape) &&
		    v->data->kind != GG_DATA_FILL)
			v->data = gg_data_fill(m, GG_FILL_NORMAL, 1, 0, 1);
}

static size_t count_notes(gg_model *m) { return 2; }

static void forget_place(gg_node *n, range *r)
{
	n->nloc = 0;
	n->extra = 0;
}

static void drop_notes(gg_model *m, range *r)
{
	if (next_is_in(r))
		m->base = 0; /* where files with weights are */
	if (!next_is_in(r))
		return;
	walk(m->main, forget_place, r);
	m->nhistory = 0;
	m->records = 0;
}

static const struct edit {
	const char *what;
	size_t (*count)(gg_model *m);
	void (*make)(gg_model *m, range *r);
} edits[] = {
    {"results", count_results, drop_results}, {"nodes", count_nodes, cut_nodes},
    {"tails", count_nodes, cut_tails},        {"bypassed nodes", count_nodes, bypass_nodes},
    {"inputs", count_inputs, drop_inputs},    {"options", count_optional, drop_optionals},
    {"weights", count_consts, fill_consts},   {"notes", count_notes, drop_notes},
};
enum { EDITS = sizeof edits / sizeof *edits };

/* ---- trying ------------------------------------------------------------------------------- */
/* Removes what nobody reads, bodies included, and checks. */
static bool sweep(gg_model *m)
{
	gg_diag silent = {.silent = true, .quiet = true};
	step clean = {.pass = &gg_pass_dead_code};
	gg_map ops = {0};
	int64_t left = -1;
	bool good = step_run(&clean, &silent, m, &ops, &left, true);
	gg_map_fini(&ops);
	step_fini(&clean);
	return good;
}

static void measure(gg_model *m, size_t *nodes, size_t *length)
{
	gg_buf text = {0};
	put_text(&text, m);
	*nodes = count_nodes(m);
	*length = text.len;
	gg_buf_fini(&text);
}

/* Keeps the edit when the graph is smaller for it and the command still ends as before. */
static bool try_edit(job *j, const struct edit *e, size_t from, size_t to)
{
	gg_diag silent = {.silent = true, .quiet = true};
	gg_buf bytes = {0};
	size_t nodes, length;
	range r = {0, from, to};
	gg_model *m = model_load(&silent, &j->best, j->like);
	if (!m)
		return false;
	e->make(m, &r);
	bool good = sweep(m);
	if (good) {
		measure(m, &nodes, &length);
		good = (nodes < j->nodes || (nodes == j->nodes && length < j->length)) &&
		       model_save(&silent, m, &bytes) &&
		       (j->runs++, probe(j->d, j->command, &bytes) == j->status);
	}
	gg_model_free(m);
	if (!good) {
		gg_buf_fini(&bytes);
		return false;
	}
	gg_buf_fini(&j->best);
	j->best = bytes;
	j->nodes = nodes;
	j->length = length;
	gg_verbose(j->d, "--reduce: %zu nodes left, without some %s", nodes, e->what);
	return true;
}

static size_t count(job *j, const struct edit *e)
{
	gg_diag silent = {.silent = true, .quiet = true};
	gg_model *m = model_load(&silent, &j->best, j->like);
	size_t n = m ? e->count(m) : 0;
	gg_model_free(m);
	return n;
}

static bool try_all(job *j, const struct edit *e)
{
	bool helped = false;
	size_t n = count(j, e);
	for (size_t part = n; part; part = part / 2)
		for (size_t at = 0; at < n && !j->d->errors;) {
			if (try_edit(j, e, at, at + part)) {
				helped = true;
				n = count(j, e);
			} else {
				at += part;
			}
		}
	return helped;
}

static bool put_result(job *j, gg_buf *out, size_t nodes)
{
	gg_model *m = model_load(j->d, &j->best, j->like);
	bool good = m && gg_write_text(j->d, out, m, &(gg_text_options){.elide = -1, .new_ids = true});
	if (good)
		gg_note(j->d, "--reduce: from %zu to %zu nodes in %zu runs, exit status %d", nodes, j->nodes,
		        j->runs, j->status);
	gg_model_free(m);
	return good;
}

bool reduce(gg_diag *d, gg_model *m, const char *command, gg_buf *out)
{
	job j = {.d = d, .like = m, .command = command};
	size_t nodes;
	bool good = model_save(d, m, &j.best) && (j.status = probe(d, command, &j.best)) >= 0;
	if (good && !j.status)
		good = gg_error(d, GG_USAGE, "--reduce: the command does not fail on the graph as it is");
	if (good && (j.status == NOT_FOUND || j.status == NOT_EXECUTABLE))
		good = gg_error(d, GG_USAGE, "--reduce: '%s' cannot be run (exit status %d)", command,
		                j.status);
	measure(m, &j.nodes, &j.length);
	nodes = j.nodes;
	for (bool helped = good; helped && !d->errors;) {
		helped = false;
		for (int i = 0; i < EDITS; i++)
			helped |= try_all(&j, &edits[i]);
	}
	good = good && !d->errors && put_result(&j, out, nodes);
	gg_buf_fini(&j.best);
	return good;
}
