#include "exec.h"
#include "frame.h"
#include "graph_kernel.h"
#include "pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scopes ------------------------------------------------------------------------------------ */
static void give_slots(gg_scope *s)
{
	gg_graph *g = s->g;
	size_t n = g->nin;

	for (gg_value *v = g->consts; v; v = v->next_const)
		n++;
	for (gg_node *k = g->first; k; k = k->next)
		n += (size_t)k->nout;
	s->value = gg_xcalloc(n + 1, sizeof *s->value);
	for (size_t i = 0; i < g->nin; i++)
		s->value[s->nval++] = g->in[i];
	for (gg_value *v = g->consts; v; v = v->next_const)
		s->value[s->nval++] = v;
	for (gg_node *k = g->first; k; k = k->next)
		for (int i = 0; i < k->nout; i++)
			if (k->out[i])
				s->value[s->nval++] = k->out[i];
	for (size_t i = 0; i < s->nval; i++)
		s->x->slot[s->value[i]->id] = (uint32_t)i;
}

static bool load_consts(gg_scope *s)
{
	s->base = gg_xcalloc(s->nval + 1, sizeof *s->base);
	s->know = gg_xcalloc(s->nval + 1, 1);
	for (gg_value *v = s->g->consts; v; v = v->next_const) {
		uint32_t i = gg_slot(s->x, v);
		if (v->nuses && !gg_value_tensor(s->x->d, v, &s->base[i]))
			return false;
		s->know[i] = v->nuses && !v->updated ? GG_HAS_SHAPE | GG_HAS_DATA : GG_HAS_SHAPE;
	}
	return true;
}

/* Streams can be written by anyone: a kernel gets only what its row claims. */
static bool check_layout(gg_scope *s, const gg_node *n, const gg_value *v, uint32_t allowed)
{
	if (!v || v->layout == GG_PLAIN || (v->kind == GG_TEMP && (allowed >> v->layout & 1)))
		return true;
	return gg_node_error(s->x->d, GG_MALFORMED, n, "its kernel '%s' does not take '%s' in layout %s",
	                     n->kernel ? n->kernel : "ref", v->name, gg_layout_name((gg_layout)v->layout));
}

static bool check_kernel(gg_scope *s, const gg_node *n)
{
	const gg_exec *x = s->x;
	bool ref = !n->kernel || !strcmp(n->kernel, "ref");
	const gg_row *row = !ref && x->target ? gg_target_chosen(x->target, n) : NULL;
	const char *why = "";
	bool good = true;

	if (ref && !n->op->eval)
		return gg_node_error(x->d, GG_UNSUPPORTED, n, "it has no reference kernel");
	if (!ref && (!row || !x->backend || !gg_backend_kernel(x->backend, n->kernel)))
		return gg_node_error(x->d, GG_UNSUPPORTED, n, "target '%s' has no kernel '%s' for it",
		                     x->target ? x->target->name : "ref", n->kernel);
	if (row && !gg_row_takes(row, n, &why))
		return gg_node_error(x->d, GG_UNSUPPORTED, n, "kernel '%s' does not take it: %s", n->kernel,
		                     why);
	for (int i = 0; i < n->nin && good; i++)
		good = check_layout(s, n, n->in[i].value, row ? row->layouts : 1);
	for (int i = 0; i < n->nout && good; i++)
		good = check_layout(s, n, n->out[i], row ? row->layouts : 1);
	return good;
}

static bool check_kernels(gg_scope *s)
{
	for (const gg_node *n = s->g->first; n; n = n->next)
		if (!check_kernel(s, n))
			return false;
	for (size_t i = 0; i < s->g->nout; i++)
		if (s->g->out[i]->value->layout != GG_PLAIN)
			return gg_error(s->x->d, GG_MALFORMED, "output '%s' is in layout %s",
			                s->g->out[i]->value->name,
			                gg_layout_name((gg_layout)s->g->out[i]->value->layout));
	return true;
}

static bool add_bodies(gg_scope *s)
{
	for (gg_node *n = s->g->first; n; n = n->next) {
		gg_scope **b;
		int count = 0;
		while (gg_body(n, count))
			count++;
		if (!count)
			continue;
		b = gg_xcalloc((size_t)count + 1, sizeof *b);
		gg_map_put(&s->bodies, n->id, b);
		for (int i = 0; i < count; i++) {
			const char *name = gg_node_name(n);
			uint64_t seed = gg_hash(name, strlen(name), s->seed + (uint64_t)i + 1);
			if (!(b[i] = gg_scope_new(s->x, gg_body(n, i), s, seed)))
				return false;
		}
	}
	return true;
}

gg_scope *gg_scope_new(gg_exec *x, gg_graph *g, gg_scope *outer, uint64_t seed)
{
	gg_scope *s = gg_xcalloc(1, sizeof *s);

	*s = (gg_scope){.x = x, .g = g, .outer = outer, .seed = seed};
	give_slots(s);
	for (int k = 0; k < 2; k++) {
		s->copy[k] = gg_xcalloc(g->nin + 1, sizeof *s->copy[k]);
		s->copy_len[k] = gg_xcalloc(g->nin + 1, sizeof *s->copy_len[k]);
	}
	if (load_consts(s) && check_kernels(s) && add_bodies(s))
		return s;
	gg_scope_free(s);
	return NULL;
}

void gg_scope_drop(gg_scope *s)
{
	while (s->nframe)
		gg_frame_free(s->frame[--s->nframe]);
	if (s->x->device && !s->outer)
		gg_device_drop(s->x);
	gg_scope_unfold(s);
	free(s->inner);
	free(s->step);
	free(s->cover);
	s->inner = NULL;
	s->step = NULL;
	s->cover = NULL;
	s->ready = false;
}

void gg_scope_free(gg_scope *s)
{
	if (!s)
		return;
	gg_scope_drop(s);
	for (gg_node *n = s->g->first; n; n = n->next) {
		gg_scope **b = s->bodies.n ? gg_map_get(&s->bodies, n->id) : NULL;
		for (int i = 0; b && b[i]; i++)
			gg_scope_free(b[i]);
		free(b);
	}
	gg_map_fini(&s->bodies);
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < s->g->nin; i++)
			free(s->copy[k][i]);
		free(s->copy[k]);
		free(s->copy_len[k]);
	}
	free(s->value);
	free(s->base);
	free(s->know);
	gg_arena_fini(&s->tmp);
	free(s);
}

/* All but the last node of a run write values that nobody else sees. */
static int cover_of(const gg_scope *s, const gg_node *n)
{
	const gg_exec *x = s->x;
	bool ref = !n->kernel || !strcmp(n->kernel, "ref") || gg_scope_folded(s, n);
	bool apart = x->o.apart || x->o.check_finite; /* so that it is the first node that is named */
	int cover = x->backend && !ref && !apart ? gg_target_cover(x->target, n) : 1;
	const gg_node *k = n;

	for (int i = 0; i < cover - 1; i++, k = k->next)
		for (int j = 0; j < k->nout; j++)
			if (k->out[j] && (x->kept[k->out[j]->id] || gg_is_output(k->out[j])))
				return 1;
	return cover;
}

static void group(gg_scope *s)
{
	const gg_node *n;
	uint32_t step = 0;

	gg_graph_number(s->g);
	s->step = gg_xcalloc(s->g->nnodes + 2, sizeof *s->step);
	s->cover = gg_xcalloc(s->g->nnodes + 2, sizeof *s->cover);
	s->inner = gg_xcalloc(s->nval + 1, sizeof *s->inner);
	for (n = s->g->first; n;) {
		int cover = s->cover[n->order] = cover_of(s, n);
		step++;
		for (int i = 0; i < cover; i++, n = n->next) {
			s->step[n->order] = step;
			for (int j = 0; i < cover - 1 && j < n->nout; j++)
				if (n->out[j])
					s->inner[gg_slot(s->x, n->out[j])] = true;
		}
	}
	s->ready = true;
}

/* ---- one call ---------------------------------------------------------------------------------- */
void *gg_run_alloc(gg_eval *e, int i, size_t bytes)
{
	gg_todo *t = e->ctx;
	uint32_t s = t->out_slot[i];
	void *p;

	if (s == GG_ABSENT || !t->dynamic)
		gg_bug("node '%s': a buffer for an output that has one", gg_node_name(e->n));
	free(t->frame->val[s].data);
	p = t->frame->val[s].data = gg_xaligned(bytes);
	if (t->scope->x->o.poison)
		memset(p, 0xff, bytes);
	return p;
}

static bool reserve(gg_diag *d, const gg_todo *t, int i, bool poison)
{
	gg_tensor *out = &t->out[i], *val = &t->frame->val[t->out_slot[i]];
	const gg_value *v = t->scope->value[t->out_slot[i]];
	int64_t bytes = gg_value_bytes(v, &out->shape);

	if (bytes < 0)
		return gg_node_error(d, GG_MALFORMED, t->node[0], "output '%s' is too large for memory",
		                     v->name);
	free(val->data);
	out->data = val->data = gg_xaligned((size_t)bytes);
	if (poison)
		memset(out->data, 0xff, (size_t)bytes);
	return true;
}

bool gg_todo_shapes(gg_todo *t)
{
	gg_exec *x = t->scope->x;
	const gg_node *n = t->node[0];
	gg_info *info = gg_alloc_n(&t->scope->tmp, (size_t)t->nout + 1, sizeof *info);

	for (int i = 0; i < t->nin; i++)
		if (t->in_slot[i] != GG_ABSENT)
			t->in[i] = t->frame->val[t->in_slot[i]];
	if (!gg_infer_tensors(x->d, n, gg_nargs(n), t->in, t->nout, info, &t->scope->tmp))
		return false;
	for (int i = 0; i < t->nout; i++) {
		uint32_t s = t->out_slot[i];
		if (s == GG_ABSENT)
			continue;
		t->out[i].dtype = info[i].dtype ? info[i].dtype : (gg_dtype)n->out[i]->dtype;
		t->out[i].shape = info[i].shape;
		if (!(t->frame->know[s] & GG_DYNAMIC) && (t->frame->know[s] & GG_HAS_SHAPE))
			t->out[i].data = t->frame->val[s].data;
		else if (!gg_shape_known(&info[i].shape))
			t->out[i].data = NULL;
		else if (!reserve(x->d, t, i, x->o.poison))
			return false;
	}
	return true;
}

bool gg_todo_prepare(gg_todo *t)
{
	gg_call *c = &t->call;
	gg_exec *x = t->scope->x;
	bool good;

	c->workspace = 0;
	x->d->at = c->node;
	good = !t->kernel->prepare || t->kernel->prepare(c);
	x->d->at = NULL;
	if (!good)
		return false;
	if (!x->device && c->workspace > x->scratch_len) {
		free(x->scratch);
		x->scratch = gg_xaligned(c->workspace);
		x->scratch_len = c->workspace;
	}
	return true;
}

void gg_todo_release(gg_todo *t)
{
	if (t->kernel && t->kernel->release && t->call.node)
		t->kernel->release(&t->call);
}

static bool run_kernel(gg_todo *t)
{
	gg_call *c = &t->call;

	c->seed = t->seed + t->scope->runs;
	c->scratch = t->scope->x->scratch;
	return t->kernel->run(c);
}

static bool run_dynamic(gg_todo *t)
{
	gg_exec *x = t->scope->x;
	bool good;

	if (!gg_todo_shapes(t))
		return false;
	if (t->kernel) {
		for (int i = 0; i < t->nout; i++)
			if (t->out_slot[i] != GG_ABSENT && !gg_shape_known(&t->out[i].shape))
				return gg_node_error(
				    x->d, GG_UNSUPPORTED, t->node[0],
				    "kernel '%s' cannot make an output whose size hangs on data",
				    t->kernel->name);
		good = gg_todo_prepare(t) && run_kernel(t);
		gg_todo_release(t);
		t->call.state = NULL;
	} else {
		t->eval.seed = t->seed + t->scope->runs;
		good = t->node[0]->op->eval(&t->eval);
	}
	for (int i = 0; i < t->nout && good; i++) {
		uint32_t s = t->out_slot[i];
		if (s == GG_ABSENT)
			continue;
		if (!gg_shape_known(&t->out[i].shape))
			gg_bug("node '%s': output %d has no shape after its kernel ran",
			       gg_node_name(t->node[0]), i);
		t->frame->val[s].dtype = t->out[i].dtype;
		t->frame->val[s].shape = t->out[i].shape;
	}
	return good;
}

static bool run_static(gg_todo *t)
{
	gg_tensor *val = t->frame->val;

	for (int i = 0; i < t->nin; i++)
		if (t->in_slot[i] != GG_ABSENT)
			t->in[i].data = val[t->in_slot[i]].data;
	if (t->kernel)
		return run_kernel(t);
	t->eval.seed = t->seed + t->scope->runs;
	for (int i = 0; i < t->nout; i++) /* a kernel may have written over its copy of them */
		if (t->out_slot[i] != GG_ABSENT)
			t->out[i].data = val[t->out_slot[i]].data;
	return t->node[0]->op->eval(&t->eval);
}

static bool is_finite(const gg_tensor *t, int64_t *at)
{
	double v[256];
	int64_t count = gg_count(t);

	for (int64_t i = 0; i < count; i += 256) {
		int64_t n = count - i < 256 ? count - i : 256;
		gg_load_f64(t->dtype, t->data, i, n, v);
		for (int64_t k = 0; k < n; k++)
			if (!isfinite(v[k])) {
				*at = i + k;
				return false;
			}
	}
	return true;
}

bool gg_todo_finite(const gg_todo *t)
{
	const gg_scope *s = t->scope;

	for (int i = 0; i < t->nout; i++) {
		const gg_tensor *v = t->out_slot[i] == GG_ABSENT ? NULL : &t->frame->val[t->out_slot[i]];
		int64_t at;
		if (!v || !v->data || gg_dtype_class(v->dtype) != 'F' || is_finite(v, &at))
			continue;
		return gg_node_error(s->x->d, GG_DIFFERENT, t->node[t->nnode - 1],
		                     "output '%s' is not finite: element %lld is %g in run %llu",
		                     s->value[t->out_slot[i]]->name, (long long)at, gg_get_f64(v, at),
		                     (unsigned long long)(s->outer ? (uint32_t)s->runs : s->runs));
	}
	return true;
}

bool gg_run_todo(gg_todo *t)
{
	gg_exec *x = t->scope->x;
	uint64_t run = t->scope->runs;
	double start = gg_watch_times(x) ? gg_clock() : 0;

	if (!(t->dynamic ? run_dynamic(t) : run_static(t)))
		return false;
	if (gg_watch_times(x))
		gg_watch_took(t, run, -1, start, gg_clock() - start);
	gg_arena_reset(&t->scope->tmp);
	if (!gg_watch_wrote(t))
		return false;
	if (x->o.check_finite && !gg_todo_finite(t))
		return false;
	for (size_t i = 0; i < t->ndead; i++) {
		free(t->frame->val[t->dead[i]].data);
		t->frame->val[t->dead[i]].data = NULL;
	}
	for (size_t i = 0; i < t->nfreed; i++)
		memset(t->freed[i].p, 0xff, t->freed[i].len);
	return true;
}

/* ---- one graph --------------------------------------------------------------------------------- */
static bool fits(const gg_frame *f, const gg_tensor *in)
{
	for (size_t i = 0; i < f->scope->g->nin; i++)
		if (f->in[i].dtype != in[i].dtype || !gg_shape_eq(&f->in[i].shape, &in[i].shape))
			return false;
	return true;
}

static gg_frame *find_frame(gg_scope *s, const gg_tensor *in)
{
	size_t i = 0;
	gg_frame *f;

	while (i < s->nframe && !fits(s->frame[i], in))
		i++;
	if (i < s->nframe) {
		f = s->frame[i];
	} else {
		if (!s->ready && !gg_scope_fold(s))
			return NULL;
		if (!s->ready)
			group(s);
		if (!(f = gg_frame_new(s, in)))
			return NULL;
		if (s->nframe == GG_FRAMES)
			gg_frame_free(s->frame[GG_FRAMES - 1]);
		else
			s->nframe++;
		i = s->nframe - 1;
	}
	memmove(s->frame + 1, s->frame, i * sizeof *s->frame);
	return s->frame[0] = f;
}

static void drop_dynamic(gg_frame *f)
{
	for (size_t i = 0; i < f->scope->nval; i++)
		if (f->scope->value[i]->kind == GG_TEMP &&
		    ((f->know[i] & GG_DYNAMIC) || !(f->know[i] & GG_HAS_SHAPE))) {
			free(f->val[i].data);
			f->val[i].data = NULL;
		}
}

/* A body's trips are counted anew in each run of what is around it, so that what random nodes in it
 * draw depends on where the run is, and not on how it got there. */
static void count_run(gg_scope *s)
{
	if (s->outer && s->outer_run != s->outer->runs) {
		s->outer_run = s->outer->runs;
		s->runs = s->outer->runs << 32;
	}
	s->runs++;
}

bool gg_scope_run(gg_scope *s, const gg_tensor *in, size_t nout, gg_tensor *out)
{
	gg_frame *f = find_frame(s, in);
	bool good = true;

	if (!f)
		return false;
	count_run(s);
	for (size_t i = 0; i < s->g->nin; i++)
		f->val[gg_slot(s->x, s->g->in[i])].data = in[i].data;
	for (size_t i = 0; i < f->nfollow; i++)
		f->val[f->follow[i].slot].data = in[f->follow[i].input].data;
	if (s->x->o.poison)
		memset(f->arena, 0xff, f->arena_size);
	if (!s->outer && !gg_watch_start(f))
		return false;
	if (f->twin) {
		good = gg_twin_run(f, in, out ? nout : 0);
	} else {
		for (size_t i = 0; i < f->ntodo && good; i++)
			good = gg_run_todo(&f->todo[i]);
	}
	if (!good) {
		drop_dynamic(f);
		return false;
	}
	for (size_t i = 0; out && i < nout; i++)
		out[i] = f->val[gg_slot(s->x, s->g->out[i]->value)];
	return true;
}

/* Inputs of a body may be its own outputs of the trip before, which this run will overwrite:
 * all but captures are copied, and none of a GraphKernel, whose body makes one trip. Two sets of copies take
 * turns, as an output may be a view of one. */
bool gg_run_body(gg_eval *e, int b, int nin, const gg_tensor *in, int nout, gg_tensor *out)
{
	gg_todo *t = e->ctx;
	gg_scope *s = t->body[b];
	gg_tensor own[64], *given = s->g->nin <= 64 ? own : gg_xcalloc(s->g->nin, sizeof *given);
	size_t ncap = (size_t)t->node[0]->ncap;
	int k = s->turn ^= 1;
	bool good, once = gg_is_gk(e->n);

	if ((size_t)nin != s->g->nin || (size_t)nout > s->g->nout)
		gg_bug("node '%s': body %d run with %d inputs and %d outputs, it has %zu and %zu",
		       gg_node_name(e->n), b, nin, nout, s->g->nin, s->g->nout);
	for (size_t i = 0; i < s->g->nin; i++) {
		size_t bytes;
		given[i] = in[i];
		if (once || i + ncap >= s->g->nin || !in[i].data)
			continue;
		bytes = gg_nbytes(&in[i]);
		if (bytes > s->copy_len[k][i] || !s->copy[k][i]) {
			free(s->copy[k][i]);
			s->copy[k][i] = gg_xaligned(bytes);
			s->copy_len[k][i] = bytes;
		}
		given[i].data = s->copy[k][i];
		if (bytes)
			memmove(given[i].data, in[i].data, bytes);
	}
	good = gg_scope_run(s, given, (size_t)nout, out);
	if (given != own)
		free(given);
	return good;
}

/* ---- the whole model --------------------------------------------------------------------------- */
static bool own_params(gg_exec *x)
{
	gg_graph *g = x->m->main;

	x->param = gg_xcalloc(g->nstate + 1, sizeof *x->param);
	x->old = gg_xcalloc(g->nout + 1, sizeof *x->old);
	for (size_t i = 0; i < g->nstate; i++) {
		gg_tensor *t = &x->main->base[gg_slot(x, g->state[i]->param)];
		size_t bytes;
		if (!t->dtype && !gg_value_tensor(x->d, g->state[i]->param, t))
			return false;
		bytes = gg_nbytes(t);
		x->param[i] = gg_xaligned(bytes);
		if (bytes)
			memcpy(x->param[i], t->data, bytes);
		t->data = x->param[i];
		gg_map_put(&x->state_of, (uint64_t)(uintptr_t)t->data, g->state[i]);
	}
	return true;
}

static bool any_kernel(const gg_graph *g)
{
	for (const gg_node *n = g->first; n; n = n->next) {
		gg_graph *b;
		if (n->kernel && strcmp(n->kernel, "ref"))
			return true;
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (any_kernel(b))
				return true;
	}
	return false;
}

/* Kernels, engines and choices that a plan brings along. What is no such record is somebody else's. */
static void give_blob(gg_diag *d, const gg_backend *b, const gg_extra *e)
{
	gg_diag silent = {.silent = true};
	gg_reader r = {
	    .d = &silent, .start = e->bytes, .p = e->bytes, .end = (const char *)e->bytes + e->len};
	const char *name = NULL, *kind = NULL, *bytes = NULL;
	size_t len = 0;

	for (uint32_t n = gg_take_map(&r, "blob"); n > 0 && !r.failed; n--) {
		const char *key = gg_take_name(&r, "key");
		if (r.failed)
			return;
		if (!strcmp(key, "name")) {
			name = gg_take_name(&r, "name");
		} else if (!strcmp(key, "kind")) {
			kind = gg_take_name(&r, "kind");
		} else if (!strcmp(key, "bytes") && gg_peek(&r) == GG_PACK_BIN) {
			gg_token t = gg_take(&r);
			bytes = t.s;
			len = (size_t)t.n;
		} else {
			gg_skip(&r, 8);
		}
	}
	if (!r.failed && kind && name && bytes && len && !b->offline->give(d, kind, name, bytes, len))
		gg_note(d, "the plan's %s cannot be read", kind);
}

/* Kernels were chosen for a kind of device where the target says which. */
static bool is_device(gg_exec *x)
{
	gg_device_kind k;

	if (!x->device || x->o.arch > 0 || !strchr(x->m->target, ':'))
		return true;
	return gg_target_device(x->d, x->m->target, &k) &&
	       (k.arch == x->device->arch() ||
	        gg_error(x->d, GG_MACHINE,
	                 "the graph is selected for sm_%d, and this machine's device is an sm_%d: select it "
	                 "for '%s' or '%s:sm_%d'",
	                 k.arch, x->device->arch(), x->target->name, x->target->name, x->device->arch()));
}

static bool load_backend(gg_exec *x)
{
	const char *name = x->target->backend;

	x->backend = x->o.arch > 0 ? gg_backend_load_offline(x->d, name, x->o.arch, x->o.processors)
	                           : gg_backend_load(x->d, name, x->o.threads);
	if (!x->backend)
		return false;
	x->device = x->backend->device;
	if (!is_device(x))
		return false;
	for (const gg_extra *e = x->m->blobs; e && x->backend->offline; e = e->next)
		if (!strcmp(e->key, "blob"))
			give_blob(x->d, x->backend, e);
	return !x->device || x->device->start(x->d);
}

gg_exec *gg_exec_new(gg_diag *d, gg_model *m, const gg_exec_options *o)
{
	gg_exec *x = gg_xcalloc(1, sizeof *x);
	uint64_t seed = gg_hash("gg", 2, o->seed);

	*x = (gg_exec){.d = d, .m = m, .o = *o};
	x->slot = gg_xcalloc((size_t)m->next_id + 1, sizeof *x->slot);
	x->kept = gg_xcalloc((size_t)m->next_id + 1, sizeof *x->kept);
	if (any_kernel(m->main)) {
		x->target = m->target ? gg_target_find(m->target) : NULL;
		if (!x->target) {
			gg_error(d, GG_UNSUPPORTED, "unknown target '%s'", m->target ? m->target : "");
			goto fail;
		}
		if (x->target->backend && !load_backend(x))
			goto fail;
	}
	if ((x->main = gg_scope_new(x, m->main, NULL, seed)) && own_params(x))
		return x;
fail:
	gg_exec_free(x);
	return NULL;
}

void gg_exec_free(gg_exec *x)
{
	if (!x)
		return;
	for (size_t i = 0; x->param && i < x->m->main->nstate; i++)
		free(x->param[i]);
	free(x->param);
	x->param = NULL; /* they need not come back from a device */
	gg_scope_free(x->main);
	for (size_t i = 0; x->old && i < x->m->main->nout; i++)
		free(x->old[i]);
	gg_map_fini(&x->state_of);
	free(x->old);
	free(x->stage);
	free(x->slot);
	free(x->kept);
	free(x->scratch);
	gg_map_each(&x->plain, free);
	gg_map_fini(&x->plain);
	free(x);
}

static const gg_state *state_at(const gg_exec *x, const void *p)
{
	return p ? gg_map_get(&x->state_of, (uint64_t)(uintptr_t)p) : NULL;
}

static bool is_other_state(const gg_exec *x, const void *p, size_t i)
{
	const gg_state *s = state_at(x, p);
	return s && s != x->m->main->state[i];
}

/* An output that is a parameter's old value must survive the update. */
static void save_outputs(gg_exec *x, gg_tensor *out)
{
	gg_graph *g = x->m->main;

	for (size_t i = 0; i < g->nout; i++) {
		const gg_state *s = state_at(x, out[i].data);
		if (!s || s->final.value == g->out[i]->value)
			continue;
		size_t bytes = gg_nbytes(&out[i]);
		if (!x->old[i])
			x->old[i] = gg_xaligned(bytes);
		if (bytes)
			memcpy(x->old[i], out[i].data, bytes);
		out[i].data = x->old[i];
	}
}

/* Finals that lie in another parameter's buffer (two that swap) are set aside first. */
static bool update_state(gg_exec *x)
{
	gg_graph *g = x->m->main;
	gg_frame *f = x->main->frame[0];
	size_t stage = 0;

	for (int pass = 0; pass < 2; pass++) {
		size_t at = 0;
		for (size_t i = 0; i < g->nstate; i++) {
			const gg_tensor *p = &f->val[gg_slot(x, g->state[i]->param)];
			const gg_tensor *t = &f->val[gg_slot(x, g->state[i]->final.value)];
			size_t bytes = gg_nbytes(p), room = gg_round_up(bytes, GG_ALIGN);
			if (!gg_shape_eq(&p->shape, &t->shape) || p->dtype != t->dtype)
				return gg_error(x->d, GG_MALFORMED,
				                "state '%s': its new value '%s' has another shape or dtype",
				                g->state[i]->param->name, g->state[i]->final.value->name);
			if (!bytes || !is_other_state(x, t->data, i))
				continue;
			if (pass == 0)
				stage += room;
			else
				memcpy((char *)x->stage + at, t->data, bytes);
			at += room;
		}
		if (stage > x->stage_len) {
			free(x->stage);
			x->stage = gg_xaligned(stage);
			x->stage_len = stage;
		}
	}
	stage = 0;
	for (size_t i = 0; i < g->nstate; i++) {
		const gg_tensor *t = &f->val[gg_slot(x, g->state[i]->final.value)];
		size_t bytes = gg_nbytes(t);
		const void *from = t->data;
		if (is_other_state(x, from, i)) {
			from = (char *)x->stage + stage;
			stage += gg_round_up(bytes, GG_ALIGN);
		}
		if (bytes && from != x->param[i])
			memcpy(x->param[i], from, bytes);
	}
	return true;
}

bool gg_exec_prepare(gg_exec *x)
{
	gg_graph *g = x->m->main;
	gg_tensor *in = gg_xcalloc(g->nin + 1, sizeof *in);
	bool good;

	for (size_t i = 0; i < g->nin; i++)
		in[i] = (gg_tensor){.dtype = (gg_dtype)g->in[i]->dtype, .shape = g->in[i]->shape};
	good = find_frame(x->main, in) != NULL;
	free(in);
	return good;
}

static bool run_once(gg_exec *x, const gg_tensor *in, gg_tensor *out)
{
	if (!gg_scope_run(x->main, in, x->m->main->nout, out))
		return false;
	if (!x->m->main->nstate)
		return true;
	if (out)
		save_outputs(x, out);
	return x->main->frame[0]->twin ? gg_twin_update(x) : update_state(x);
}

bool gg_exec_run(gg_exec *x, const gg_tensor *in, gg_tensor *out)
{
	x->again = false;
	x->more = !out;
	return run_once(x, in, out);
}

void gg_exec_meanwhile(gg_exec *x, bool (*f)(void *arg), void *arg)
{
	x->meanwhile = f;
	x->meanwhile_arg = arg;
}

bool gg_exec_feed(gg_exec *x, const gg_tensor *in)
{
	const gg_scope *s = x->main;

	for (size_t i = 0; i < s->nframe; i++)
		if (s->frame[i]->twin && fits(s->frame[i], in))
			return gg_twin_feed(s->frame[i], in);
	return true;
}

bool gg_exec_run_n(gg_exec *x, const gg_tensor *in, int64_t n, bool again)
{
	bool good = true;

	for (int64_t i = 0; i < n && good; i++) {
		x->again = again || i > 0;
		x->more = i + 1 < n;
		good = run_once(x, in, NULL);
	}
	return good;
}

void gg_exec_watch(gg_exec *x, const gg_watch *w) { x->watch = w; }

void gg_exec_start_at(gg_exec *x, uint64_t n) { x->main->runs = n; }

bool gg_exec_set_param(gg_exec *x, gg_value *param, const gg_tensor *t)
{
	gg_tensor *base = &x->main->base[gg_slot(x, param)];
	gg_arena a = {0};
	size_t bytes = gg_nbytes(t);

	if (t->dtype != param->dtype || !gg_shape_eq(&t->shape, &param->shape)) {
		gg_error(x->d, GG_MALFORMED, "'%s' is %s%s, expected %s%s", param->name,
		         gg_dtype_name(t->dtype), gg_shape_str(&a, &t->shape),
		         gg_dtype_name((gg_dtype)param->dtype), gg_shape_str(&a, &param->shape));
		gg_arena_fini(&a);
		return false;
	}
	if (!param->updated) { /* kernels may have prepared it */
		gg_scope_drop(x->main);
		base->dtype = t->dtype;
		base->shape = t->shape;
		base->data = memset(gg_alloc(&x->m->arena, bytes + GG_ALIGN), 0, bytes);
		base->data = (char *)base->data + (GG_ALIGN - (uintptr_t)base->data % GG_ALIGN) % GG_ALIGN;
		x->main->know[gg_slot(x, param)] = GG_HAS_SHAPE | GG_HAS_DATA;
	}
	if (bytes)
		memcpy(base->data, t->data, bytes);
	return !param->updated || !x->device || gg_param_to_device(x, base);
}

bool gg_exec_get_param(gg_exec *x, gg_value *param, gg_tensor *out)
{
	*out = x->main->base[gg_slot(x, param)];
	if (x->device && out->data && !gg_param_to_host(x, out))
		return false;
	return out->dtype || gg_value_tensor(x->d, param, out);
}

bool gg_exec_keep(gg_exec *x, gg_value *v)
{
	if (v->graph != x->m->main)
		return gg_error(x->d, GG_UNSUPPORTED, "'%s' is inside a body", v->name);
	x->kept[v->id] = true;
	gg_scope_drop(x->main);
	return true;
}

bool gg_exec_value(gg_exec *x, gg_value *v, gg_tensor *out)
{
	if (!x->main->nframe)
		return gg_error(x->d, GG_MALFORMED, "'%s' has no value before the first run", v->name);
	*out = x->main->frame[0]->val[gg_slot(x, v)];
	if (x->main->frame[0]->twin && !gg_twin_fetch(x->main->frame[0], gg_slot(x, v)))
		return false;
	if (v->layout != GG_PLAIN && out->shape.rank > 1) {
		void *p = gg_xaligned(gg_nbytes(out));
		gg_copy_plain(out, (gg_layout)v->layout, p);
		free(gg_map_get(&x->plain, v->id));
		gg_map_put(&x->plain, v->id, p);
		out->data = p;
	}
	return true;
}
