/* Making a frame: symbols are bound, shapes inferred, memory planned and kernels prepared. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

#define KNOWN_MAX 1024 /* elements of contents that are computed when the frame is made */

/* ---- do the inputs fit the graph? ---------------------------------------------------------- */
typedef struct bound {
	const char *sym;
	int64_t value;
	const gg_value *by;
} bound;

static bool bind_dim(gg_diag *d, const gg_value *v, int axis, int64_t size, gg_map *seen, bound *b, size_t *n)
{
	gg_dim dim = v->shape.dim[axis];
	const char *sym = gg_dim_symbol(dim);

	if (gg_dim_known(dim) && dim != size)
		return gg_error(d, GG_MALFORMED, "input '%s': axis %d has size %lld, expected %lld", v->name,
		                axis, (long long)size, (long long)dim);
	if (!sym)
		return true;
	const bound *first = gg_map_gets(seen, sym);
	if (!first) {
		gg_map_puts(seen, sym, &b[*n]);
		b[(*n)++] = (bound){sym, size, v};
		return true;
	}
	return first->value == size ||
	       gg_error(d, GG_MALFORMED, "input '%s': axis %d: %s is %lld, but input '%s' says %lld", v->name,
	                axis, gg_dim_str(dim), (long long)size, first->by->name, (long long)first->value);
}

static bool check_exprs(gg_diag *d, const gg_graph *g, const gg_tensor *in, const bound *b, size_t n)
{
	gg_binding *bind = gg_xcalloc(n + 1, sizeof *bind);
	bool good = true;

	for (size_t i = 0; i < n; i++)
		bind[i] = (gg_binding){b[i].sym, b[i].value};
	for (size_t i = 0; i < g->nin && good; i++)
		for (int k = 0; k < g->in[i]->shape.rank && good; k++) {
			gg_dim dim = gg_dim_bind(g->in[i]->shape.dim[k], bind, n);
			if (gg_dim_known(dim) && dim != in[i].shape.dim[k])
				good = gg_error(d, GG_MALFORMED,
				                "input '%s': axis %d has size %lld, but %s is %lld",
				                g->in[i]->name, k, (long long)in[i].shape.dim[k],
				                gg_dim_str(g->in[i]->shape.dim[k]), (long long)dim);
		}
	free(bind);
	return good;
}

static bool bind_inputs(gg_diag *d, const gg_graph *g, const gg_tensor *in)
{
	bound *b = gg_xcalloc(g->nin * GG_MAX_RANK + 1, sizeof *b);
	gg_map seen = {0};
	size_t n = 0;
	bool good = true;

	for (size_t i = 0; i < g->nin && good; i++) {
		const gg_value *v = g->in[i];
		if (v->dtype && v->dtype != in[i].dtype)
			good = gg_error(d, GG_MALFORMED, "input '%s' has dtype %s, expected %s", v->name,
			                gg_dtype_name(in[i].dtype), gg_dtype_name((gg_dtype)v->dtype));
		else if (v->shape.rank >= 0 && v->shape.rank != in[i].shape.rank)
			good = gg_error(d, GG_MALFORMED, "input '%s' has rank %d, expected %d", v->name,
			                in[i].shape.rank, v->shape.rank);
		for (int k = 0; k < v->shape.rank && good; k++)
			good = bind_dim(d, v, k, in[i].shape.dim[k], &seen, b, &n);
	}
	gg_map_fini(&seen);
	good = good && check_exprs(d, g, in, b, n);
	free(b);
	return good;
}

/* ---- shapes, and contents that follow from them -------------------------------------------- */
static bool is_shape_op(const gg_op *op) { return !strcmp(op->name, "Shape") || !strcmp(op->name, "Size"); }

/* May the node be computed now? All it reads is known, small, and shapes or integers. */
static bool can_know(const gg_frame *f, const gg_node *n, const gg_info *out)
{
	bool shape = is_shape_op(n->op), from_shape = shape, integers = true;
	int64_t count = 0;

	if ((n->op->flags & (GG_RANDOM | GG_EFFECT | GG_DATA_SHAPE | GG_NOFOLD)) || n->ncap ||
	    gg_body(n, 0) || !n->op->eval)
		return false;
	for (int i = 0; i < n->nin && !shape; i++) {
		uint32_t s = gg_slot(f->scope->x, n->in[i].value);
		if (s == GG_ABSENT)
			continue;
		if (!(f->know[s] & GG_HAS_DATA))
			return false;
		from_shape |= (f->know[s] & GG_FROM_SHAPE) != 0;
		count += gg_count(&f->val[s]);
	}
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		if (!gg_shape_known(&out[i].shape))
			return false;
		count += gg_shape_count(&out[i].shape);
		integers &= gg_dtype_class(out[i].dtype) != 'F';
	}
	return count <= KNOWN_MAX && (from_shape || integers);
}

static bool know_outputs(gg_frame *f, const gg_node *n, const gg_tensor *in)
{
	gg_exec *x = f->scope->x;
	gg_tensor *out = gg_alloc_n(&f->scope->tmp, (size_t)n->nout + 1, sizeof *out);

	if (!gg_eval_node(x->d, n, gg_nargs(n), in, n->nout, out))
		return false;
	for (int i = 0; i < n->nout; i++) {
		uint32_t s = gg_slot(x, n->out[i]);
		if (s == GG_ABSENT)
			continue;
		f->val[s] = out[i];
		f->know[s] = GG_HAS_SHAPE | GG_HAS_DATA | GG_FROM_SHAPE;
		GG_PUSH(f->owned, f->nowned, f->cap_owned, out[i].data);
	}
	return true;
}

static bool infer_node(gg_frame *f, const gg_node *n)
{
	gg_exec *x = f->scope->x;
	int nin = gg_nargs(n);
	gg_tensor *in = gg_alloc_n(&f->scope->tmp, (size_t)nin + 1, sizeof *in);
	gg_info *out = gg_alloc_n(&f->scope->tmp, (size_t)n->nout + 1, sizeof *out);
	bool known = true;

	if (gg_scope_folded(f->scope, n))
		return true;
	for (int i = 0; i < nin; i++) {
		uint32_t s = gg_slot(x, n->in[i].value);
		if (s == GG_ABSENT)
			continue;
		known &= (f->know[s] & GG_HAS_SHAPE) != 0;
		in[i] = f->val[s];
		if (!(f->know[s] & GG_HAS_DATA))
			in[i].data = NULL;
	}
	if (known) {
		if (!gg_infer_tensors(x->d, n, nin, in, n->nout, out, &f->scope->tmp))
			return false;
		if (can_know(f, n, out))
			return know_outputs(f, n, in);
	}
	for (int i = 0; i < n->nout; i++) {
		uint32_t s = gg_slot(x, n->out[i]);
		if (s == GG_ABSENT)
			continue;
		f->val[s].dtype = out[i].dtype ? out[i].dtype : (gg_dtype)n->out[i]->dtype;
		if (!known || !gg_shape_known(&out[i].shape))
			continue;
		f->val[s].shape = out[i].shape;
		f->know[s] = GG_HAS_SHAPE;
	}
	return true;
}

static bool infer(gg_frame *f)
{
	bool good = true;

	for (const gg_node *n = f->scope->g->first; n && good; n = n->next) {
		good = infer_node(f, n);
		gg_arena_reset(&f->scope->tmp);
	}
	return good;
}

/* ---- memory ---------------------------------------------------------------------------------- */
static const gg_shape *planned_shape(const gg_value *v, void *arg)
{
	const gg_frame *f = arg;
	uint32_t s = gg_slot(f->scope->x, v);

	if (!(f->know[s] & GG_HAS_SHAPE) || f->scope->inner[s] ||
	    (v->kind == GG_TEMP && (f->know[s] & GG_HAS_DATA)))
		return &gg_shape_unknown;
	return &f->val[s].shape;
}

static bool is_kept(const gg_value *v, void *arg)
{
	const gg_frame *f = arg;
	return f->scope->x->kept[v->id];
}

static uint32_t planned_step(const gg_node *n, void *arg)
{
	const gg_frame *f = arg;
	return f->scope->step[n->order];
}

static void place(gg_frame *f, gg_value *v)
{
	uint32_t s = gg_slot(f->scope->x, v);
	gg_value *root = gg_storage(v);
	uint32_t r = gg_slot(f->scope->x, root);

	if ((f->know[s] & GG_HAS_DATA) || f->scope->inner[s])
		return;
	if (root->kind == GG_INPUT) {
		struct gg_follow w = {s, (uint32_t)root->index};
		GG_PUSH(f->follow, f->nfollow, f->cap_follow, w);
	} else if (root->kind != GG_TEMP || (f->know[r] & GG_HAS_DATA)) {
		f->val[s].data = f->val[r].data;
	} else if (root->mem_off >= 0) {
		f->val[s].data = f->arena + root->mem_off;
	} else {
		f->know[s] |= GG_DYNAMIC;
	}
}

static bool plan(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_graph *g = f->scope->g;
	gg_plan_options o = {.no_reuse = x->o.no_reuse,
	                     .shape = planned_shape,
	                     .keep = is_kept,
	                     .step = planned_step,
	                     .target = x->backend ? x->target : NULL,
	                     .arg = f};

	bool streams = x->device && x->device->use && !f->scope->outer && gg_has_streams(g);

	if (streams ? !gg_plan_streams(x->d, g, f->scope->step, &o, &f->order, &f->plan)
	            : !gg_plan_graph(x->d, g, &o, &f->plan))
		return false;
	f->arena_size = f->plan.arena > 0 ? (size_t)f->plan.arena : GG_ALIGN;
	f->arena = gg_xaligned(f->arena_size);
	for (const gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				place(f, n->out[i]);
	return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */
static gg_todo *add_todo(gg_frame *f, const gg_node *const *node, int n)
{
	gg_exec *x = f->scope->x;
	gg_todo *t;
	const char *k = node[0]->kernel;

	f->todo = gg_grow_in(&f->mem, f->todo, f->ntodo, &f->cap_todo, sizeof *f->todo);
	t = &f->todo[f->ntodo++];
	memset(t, 0, sizeof *t);
	t->node = node;
	t->nnode = n;
	t->scope = f->scope;
	t->frame = f;
	t->kernel = x->backend && k && strcmp(k, "ref") ? gg_backend_kernel(x->backend, k) : NULL;
	t->seed = gg_hash(gg_node_name(node[0]), strlen(gg_node_name(node[0])), f->scope->seed);
	t->body = gg_map_get(&f->scope->bodies, node[0]->id);
	return t;
}

static bool made_before(const gg_todo *t, int upto, const gg_value *v)
{
	for (int i = 0; i < upto; i++)
		if (v->producer == t->node[i])
			return true;
	return false;
}

/* The operands of a run of nodes: see gg_call. */
static void collect(gg_todo *t, gg_value **in, gg_value **out)
{
	gg_exec *x = t->scope->x;

	for (int k = 0; k < t->nnode; k++) {
		const gg_node *n = t->node[k];
		for (int i = 0; i < n->nin; i++) {
			gg_value *v = n->in[i].value;
			bool skip = k > 0 && (!v || made_before(t, k, v));
			for (int j = 0; k > 0 && j < t->nin && !skip; j++)
				skip = in[j] == v;
			if (!skip)
				in[t->nin++] = v;
		}
		for (int i = 0; i < n->nout; i++)
			if (t->nnode == 1 || (n->out[i] && !t->scope->inner[gg_slot(x, n->out[i])]))
				out[t->nout++] = n->out[i];
	}
}

static void fill_call(gg_todo *t, gg_value **in, gg_value **out)
{
	gg_frame *f = t->frame;
	gg_call *c = &t->call;
	uint8_t *il = gg_alloc(&f->mem, (size_t)t->nin + 1), *ol = gg_alloc(&f->mem, (size_t)t->nout + 1);
	bool *fixed = gg_alloc_n(&f->mem, (size_t)t->nin + 1, sizeof *fixed);

	for (int i = 0; i < t->nin; i++) {
		il[i] = in[i] ? in[i]->layout : 0;
		fixed[i] = in[i] && (f->know[t->in_slot[i]] & GG_HAS_DATA);
	}
	for (int i = 0; i < t->nout; i++)
		ol[i] = out[i] ? out[i]->layout : 0;
	*c = (gg_call){.d = t->scope->x->d,
	               .node = t->node[0],
	               .cover = t->node,
	               .ncover = t->nnode,
	               .nin = t->nin,
	               .nout = t->nout,
	               .in_value = in,
	               .out_value = out,
	               .in = t->in,
	               .out = t->out,
	               .in_layout = il,
	               .out_layout = ol,
	               .in_const = fixed,
	               .check = t->scope->x->o.check_finite,
	               .seed = t->seed};
}

/* What the device cannot do after all runs on ref: bodies, and sizes that hang on data. */
static bool leave_device(gg_todo *t)
{
	const gg_node *n = t->node[0];

	for (int i = 0; i < t->nin + t->nout; i++) {
		uint32_t s = i < t->nin ? t->in_slot[i] : t->out_slot[i - t->nin];
		if (s != GG_ABSENT && t->scope->value[s]->layout != GG_PLAIN)
			return gg_node_error(t->scope->x->d, GG_UNSUPPORTED, n,
			                     "its size hangs on data, and '%s' is in layout %s",
			                     t->scope->value[s]->name,
			                     gg_layout_name((gg_layout)t->scope->value[s]->layout));
	}
	if (!n->op->eval)
		return gg_node_error(t->scope->x->d, GG_UNSUPPORTED, n, "it has no reference kernel");
	t->kernel = NULL;
	return true;
}

static bool build_todo(gg_frame *f, gg_todo *t)
{
	gg_exec *x = f->scope->x;
	size_t nin = 1, nout = 1;
	gg_value **in, **out;
	bool far = f->scope->outer != NULL; /* from where the device works */

	for (int k = 0; k < t->nnode; k++) {
		nin += (size_t)t->node[k]->nin;
		nout += (size_t)t->node[k]->nout;
	}
	in = gg_alloc_n(&f->mem, nin, sizeof *in);
	out = gg_alloc_n(&f->mem, nout, sizeof *out);
	collect(t, in, out);
	t->in = gg_alloc_n(&f->mem, nin, sizeof *t->in);
	t->out = gg_alloc_n(&f->mem, nout, sizeof *t->out);
	t->in_slot = gg_alloc_n(&f->mem, nin, sizeof *t->in_slot);
	t->out_slot = gg_alloc_n(&f->mem, nout, sizeof *t->out_slot);
	for (int i = 0; i < t->nin; i++) {
		uint32_t s = t->in_slot[i] = gg_slot(x, in[i]);
		if (s == GG_ABSENT)
			continue;
		t->in[i] = f->val[s];
		t->dynamic |= !(f->know[s] & GG_HAS_SHAPE);
		far |= (f->know[s] & GG_DYNAMIC) != 0;
	}
	for (int i = 0; i < t->nout; i++) {
		uint32_t s = t->out_slot[i] = gg_slot(x, out[i]);
		if (s == GG_ABSENT)
			continue;
		t->out[i] = f->val[s];
		t->dynamic |= !(f->know[s] & GG_HAS_SHAPE) || (f->know[s] & GG_DYNAMIC);
	}
	if (x->device && t->kernel && (far || t->dynamic) && !leave_device(t))
		return false;
	if (t->kernel)
		fill_call(t, in, out);
	else
		t->eval = (gg_eval){.n = t->node[0],
		                    .d = x->d,
		                    .a = &t->scope->tmp,
		                    .nin = t->nin,
		                    .nout = t->nout,
		                    .in = t->in,
		                    .out = t->out,
		                    .run_body = gg_run_body,
		                    .alloc = gg_run_alloc,
		                    .comm = x->o.comm,
		                    .ctx = t};
	return !t->kernel || t->dynamic || gg_todo_prepare(t);
}

/* A node whose outputs are known already, or share the input's bytes, has nothing to do. */
static bool nothing_to_do(const gg_frame *f, const gg_node *n)
{
	bool known = n->nout > 0;

	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			known &= (f->know[gg_slot(f->scope->x, n->out[i])] & GG_HAS_DATA) != 0;
	if (known)
		return true;
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return false;
	return (n->op->flags & GG_VIEW) && gg_out(n, 0) && n->out[0]->alias &&
	       n->out[0]->alias == gg_storage(gg_in(n, 0));
}

/* One call can do the run only when no size in it hangs on data. */
static bool all_static(const gg_frame *f, const gg_node *const *node, int n)
{
	for (int k = 0; k < n; k++) {
		for (int i = 0; i < node[k]->nin; i++) {
			uint32_t s = gg_slot(f->scope->x, node[k]->in[i].value);
			if (s != GG_ABSENT && !(f->know[s] & GG_HAS_SHAPE))
				return false;
		}
		for (int i = 0; i < node[k]->nout; i++) {
			uint32_t s = gg_slot(f->scope->x, node[k]->out[i]);
			if (s != GG_ABSENT &&
			    ((f->know[s] & (GG_DYNAMIC | GG_HAS_DATA)) || !(f->know[s] & GG_HAS_SHAPE)))
				return false;
		}
	}
	return true;
}

static void list_todos(gg_frame *f)
{
	gg_scope *s = f->scope;
	const gg_node *n = s->g->first;

	while (n) {
		int cover = s->cover[n->order];
		const gg_node **node = gg_alloc_n(&f->mem, (size_t)cover, sizeof *node);
		for (int k = 0; k < cover; k++, n = n->next)
			node[k] = n;
		if (cover > 1 && all_static(f, node, cover)) {
			add_todo(f, node, cover);
			continue;
		}
		for (int k = 0; k < cover; k++) {
			for (int i = 0; cover > 1 && i < node[k]->nout; i++) {
				uint32_t slot = gg_slot(s->x, node[k]->out[i]);
				if (slot != GG_ABSENT && s->inner[slot] && !(f->know[slot] & GG_HAS_DATA))
					f->know[slot] |= GG_DYNAMIC;
			}
			if (!nothing_to_do(f, node[k]))
				add_todo(f, node + k, 1);
		}
	}
}

/* ---- who is read last where ------------------------------------------------------------------ */
static void mark_last(gg_frame *f, uint32_t *last)
{
	gg_exec *x = f->scope->x;
	gg_graph *g = f->scope->g;

	for (size_t k = 0; k < f->ntodo; k++) {
		gg_todo *t = &f->todo[k];
		for (int i = 0; i < t->nin + t->nout; i++) {
			uint32_t s = i < t->nin ? t->in_slot[i] : t->out_slot[i - t->nin];
			if (s != GG_ABSENT)
				last[gg_slot(x, gg_storage(f->scope->value[s]))] = (uint32_t)k + 1;
		}
	}
	for (size_t i = 0; i < f->scope->nval; i++)
		if (x->kept[f->scope->value[i]->id] || gg_is_output(f->scope->value[i]))
			last[gg_slot(x, gg_storage(f->scope->value[i]))] = 0;
	for (size_t i = 0; i < g->nout; i++)
		last[gg_slot(x, gg_storage(g->out[i]->value))] = 0;
}

static void list_deaths(gg_frame *f)
{
	gg_scope *s = f->scope;
	uint32_t *last = gg_xcalloc(s->nval + 1, sizeof *last);

	mark_last(f, last);
	for (size_t i = 0; i < s->nval; i++) {
		gg_value *v = s->value[i];
		gg_todo *t;
		bool dynamic = (f->know[i] & GG_DYNAMIC) || !(f->know[i] & GG_HAS_SHAPE);
		if (!last[i] || v->kind != GG_TEMP || (f->know[i] & GG_HAS_DATA) || (s->inner[i] && !dynamic))
			continue;
		t = &f->todo[last[i] - 1];
		if (dynamic) {
			t->dead = gg_grow_in(&f->mem, t->dead, t->ndead, &t->cap_dead, sizeof *t->dead);
			t->dead[t->ndead++] = (uint32_t)i;
		} else if (s->x->o.poison && v->mem_off >= 0 && v->mem_len > 0) {
			t->freed = gg_grow_in(&f->mem, t->freed, t->nfreed, &t->cap_freed, sizeof *t->freed);
			t->freed[t->nfreed++] = (struct gg_span){f->arena + v->mem_off, (size_t)v->mem_len};
		}
	}
	free(last);
}

/* ---- frames ---------------------------------------------------------------------------------- */
static bool build(gg_frame *f, const gg_tensor *in)
{
	gg_scope *s = f->scope;
	gg_graph *g = s->g;

	if (!s->outer && !bind_inputs(s->x->d, g, in))
		return false;
	for (size_t i = 0; i < g->nin; i++) {
		uint32_t slot = gg_slot(s->x, g->in[i]);
		f->in[i] = f->val[slot] = in[i];
		f->val[slot].data = NULL;
		f->know[slot] = in[i].dtype ? GG_HAS_SHAPE : 0;
	}
	if (!infer(f) || !plan(f))
		return false;
	list_todos(f);
	for (size_t i = 0; i < f->ntodo; i++)
		if (!build_todo(f, &f->todo[i]))
			return false;
	list_deaths(f);
	return !s->x->device || s->outer || gg_twin_make(f);
}

gg_frame *gg_frame_new(gg_scope *s, const gg_tensor *in)
{
	gg_frame *f = gg_xcalloc(1, sizeof *f);

	f->scope = s;
	f->in = gg_alloc_n(&f->mem, s->g->nin + 1, sizeof *f->in);
	f->val = gg_xcalloc(s->nval + 1, sizeof *f->val);
	f->know = gg_xcalloc(s->nval + 1, 1);
	memcpy(f->val, s->base, s->nval * sizeof *f->val);
	memcpy(f->know, s->know, s->nval);
	if (build(f, in))
		return f;
	gg_frame_free(f);
	return NULL;
}

void gg_frame_free(gg_frame *f)
{
	if (!f)
		return;
	gg_twin_free(f);
	gg_order_free(&f->order);
	for (size_t i = 0; i < f->ntodo; i++)
		gg_todo_release(&f->todo[i]);
	for (size_t i = 0; f->arena && i < f->scope->nval; i++) {
		bool planned = (f->know[i] & GG_HAS_SHAPE) && !(f->know[i] & GG_DYNAMIC);
		if (f->scope->value[i]->kind == GG_TEMP && !planned)
			free(f->val[i].data);
	}
	for (size_t i = 0; i < f->nowned; i++)
		free(f->owned[i]);
	free(f->owned);
	free(f->follow);
	free(f->arena);
	free(f->val);
	free(f->know);
	gg_arena_fini(&f->mem);
	free(f);
}
