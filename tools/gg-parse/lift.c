/* Every opset from 7 up to one form: the newest opset's.
 *
 * A row says for which op, below which opset, something has to change; the rows of an op run in
 * order, oldest first. A function turns attributes into inputs, renames, or puts nodes before the
 * one at hand, which always stays the last and keeps its outputs. What changed in ONNX without a
 * change of meaning (more dtypes, new attributes with neutral defaults) needs no row. */
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

/* ---- tools of the trade ---------------------------------------------------------------------- */
bool onnx_fail(const onnx_node *n, gg_status s, const char *fmt, ...)
{
	va_list ap;
	gg_buf b = {0};
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	gg_error(n->d, s, "node '%s' (%s): %s", n->name, n->op, b.p);
	gg_buf_fini(&b);
	return false;
}

static gg_attr *find(const onnx_node *n, const char *name)
{
	for (int i = 0; i < n->nattr; i++)
		if (!strcmp(n->attr[i].name, name))
			return &n->attr[i];
	return NULL;
}

static void set(onnx_node *n, gg_attr a)
{
	gg_attr *old = find(n, a.name);
	a.name = gg_intern(a.name);
	if (old) {
		*old = a;
		return;
	}
	gg_attr *more = gg_alloc_n(n->a, (size_t)n->nattr + 1, sizeof *more);
	if (n->nattr)
		memcpy(more, n->attr, (size_t)n->nattr * sizeof *more);
	more[n->nattr++] = a;
	n->attr = more;
}

static void set_int(onnx_node *n, const char *name, int64_t i)
{
	set(n, (gg_attr){.name = name, .type = GG_ATTR_INT, .i = i});
}

static void set_string(onnx_node *n, const char *name, const char *s)
{
	set(n, (gg_attr){.name = name, .type = GG_ATTR_STRING, .s = s});
}

static bool wrong_type(const onnx_node *n, const char *name)
{
	return onnx_fail(n, GG_MALFORMED, "attribute '%s' has the wrong type", name);
}

/* Removes an attribute. *out is NULL when it is not there; false when it has another type. */
static bool take(onnx_node *n, const char *name, gg_attr_type type, const gg_attr **out)
{
	gg_attr *a = find(n, name);
	*out = NULL;
	if (!a)
		return true;
	if (a->type != type)
		return wrong_type(n, name);
	gg_attr *kept = gg_alloc(n->a, sizeof *kept);
	*kept = *a;
	*out = kept;
	memmove(a, a + 1, (size_t)(n->attr + n->nattr - a - 1) * sizeof *a);
	n->nattr--;
	return true;
}

static void set_input(onnx_node *n, int i, gg_value *v)
{
	if (i >= n->nin) {
		gg_value **in = gg_alloc_n(n->a, (size_t)i + 1, sizeof *in);
		if (n->nin)
			memcpy(in, n->in, (size_t)n->nin * sizeof *in);
		n->in = in;
		n->nin = i + 1;
	}
	n->in[i] = v;
}

static gg_value *input(const onnx_node *n, int i) { return i < n->nin ? n->in[i] : NULL; }

static const char *base(const onnx_node *n, const char *what)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			return gg_printf(n->a, "%s.%s", n->out[i], what);
	return what;
}

static gg_value *tensor(onnx_node *n, const char *what, gg_dtype t, int rank, int64_t count, const void *data)
{
	gg_tensor x = {.dtype = t, .shape = gg_shape_of(rank, &count), .data = (void *)data};
	return gg_add_tensor(n->g, base(n, what), &x);
}

static gg_value *ints(onnx_node *n, const char *what, int count, const int64_t *v)
{
	return tensor(n, what, GG_I64, 1, count, v);
}

/* A scalar of the dtype of input 0. */
static gg_value *like(onnx_node *n, const char *what, double x)
{
	gg_tensor t = {.dtype = (gg_dtype)n->in[0]->dtype, .shape = gg_shape_of(0, NULL)};
	t.data = gg_alloc(n->a, 16);
	gg_set_f64(&t, 0, x);
	return gg_add_tensor(n->g, base(n, what), &t);
}

/* Another node before the one at hand, with one output. The attribute may be NULL. */
static gg_value *before(onnx_node *n, const char *op, int nin, gg_value **in, const gg_attr *attr)
{
	const char *out = gg_fresh_name(n->g, base(n, op));
	gg_attr copy = attr ? *attr : (gg_attr){0};
	onnx_node x = *n;
	x.op = gg_intern(op);
	x.in = in;
	x.nin = nin;
	x.out = &out;
	x.nout = 1;
	copy.name = attr ? gg_intern(attr->name) : NULL;
	x.attr = &copy;
	x.nattr = attr != NULL;
	gg_node *made = onnx_emit(&x);
	return made && gg_infer_node(n->d, made) ? made->out[0] : NULL;
}

static bool has_input(const onnx_node *n, int i)
{
	return input(n, i) || onnx_fail(n, GG_MALFORMED, "input %d is missing", i);
}

/* ---- attributes that became inputs ------------------------------------------------------------- */
static bool ints_to_input(onnx_node *n, const char *name, int i)
{
	const gg_attr *a;
	if (!take(n, name, GG_ATTR_INTS, &a))
		return false;
	if (a)
		set_input(n, i, ints(n, name, a->n, a->ints));
	return true;
}

static bool axes(onnx_node *n) { return ints_to_input(n, "axes", 1); }

static bool split(onnx_node *n) { return ints_to_input(n, "split", 1); }

/* Without sizes the parts were equal, as many as outputs. */
static bool split_parts(onnx_node *n)
{
	if (input(n, 1) || find(n, "num_outputs") || !has_input(n, 0))
		return n->d->errors == 0;
	const gg_attr *axis = find(n, "axis");
	const gg_shape *s = &n->in[0]->shape;
	int64_t k = axis && axis->type == GG_ATTR_INT ? axis->i : 0;
	k += k < 0 ? s->rank : 0;
	if (k >= 0 && k < s->rank && gg_dim_known(s->dim[k]) && n->nout && s->dim[k] % n->nout)
		return onnx_fail(n, GG_MALFORMED, "axis %lld has size %lld, which %d outputs do not divide",
		                 (long long)k, (long long)s->dim[k], n->nout);
	set_int(n, "num_outputs", n->nout);
	return true;
}

static bool slice(onnx_node *n)
{
	return ints_to_input(n, "starts", 1) && ints_to_input(n, "ends", 2) && ints_to_input(n, "axes", 3);
}

static bool pad(onnx_node *n)
{
	const gg_attr *value;
	if (!has_input(n, 0) || !take(n, "value", GG_ATTR_FLOAT, &value) || !ints_to_input(n, "pads", 1))
		return false;
	if (value)
		set_input(n, 2, like(n, "value", value->f));
	return true;
}

static bool topk(onnx_node *n)
{
	const gg_attr *k;
	if (!take(n, "k", GG_ATTR_INT, &k))
		return false;
	if (k)
		set_input(n, 1, ints(n, "k", 1, &k->i));
	return true;
}

/* The limits' defaults were the largest finite f32, which an infinite input is clipped to. */
static bool clip(onnx_node *n)
{
	const gg_attr *min, *max;
	if (!has_input(n, 0) || !take(n, "min", GG_ATTR_FLOAT, &min) || !take(n, "max", GG_ATTR_FLOAT, &max))
		return false;
	const double largest = 0x1.fffffep127;
	set_input(n, 1, like(n, "min", min ? min->f : -largest));
	set_input(n, 2, like(n, "max", max ? max->f : largest));
	return true;
}

/* There was no training mode; the ratio is kept for who trains later. The mask had x's dtype below 10. */
static bool dropout(onnx_node *n)
{
	const gg_attr *ratio;
	if (!take(n, "ratio", GG_ATTR_FLOAT, &ratio))
		return false;
	if (ratio)
		set_input(n, 1, tensor(n, "ratio", GG_F32, 0, 0, &ratio->f));
	if (n->version < 10 && n->nout > 1 && n->out[1])
		return onnx_fail(n, GG_UNSUPPORTED, "its mask output has no defined contents at opset %lld",
		                 (long long)n->version);
	return true;
}

/* ---- defaults and names that changed ----------------------------------------------------------- */
static bool batch_norm(onnx_node *n)
{
	const gg_attr *spatial;
	if (!take(n, "spatial", GG_ATTR_INT, &spatial))
		return false;
	if (spatial && spatial->i != 1)
		return onnx_fail(n, GG_UNSUPPORTED, "spatial=%lld, only 1 is supported",
		                 (long long)spatial->i);
	return true;
}

/* More than one output meant training. The saved statistics had no defined contents. */
static bool batch_norm_training(onnx_node *n)
{
	int nout = n->nout;
	while (nout > 1 && !n->out[nout - 1])
		nout--;
	if (nout > 1)
		set_int(n, "training_mode", 1);
	n->nout = nout > 3 ? 3 : nout;
	return true;
}

static bool grid_sample(onnx_node *n)
{
	const gg_attr *mode = find(n, "mode");
	if (mode && mode->type == GG_ATTR_STRING && !strcmp(mode->s, "bilinear"))
		set_string(n, "mode", "linear");
	if (mode && mode->type == GG_ATTR_STRING && !strcmp(mode->s, "bicubic"))
		set_string(n, "mode", "cubic");
	return true;
}

static bool scatter(onnx_node *n)
{
	n->op = gg_intern("ScatterElements");
	return true;
}

static bool scan(onnx_node *n)
{
	return onnx_fail(n, GG_UNSUPPORTED,
	                 "Scan of opset 8, with its batch axis, is not supported; opset 9 and up is");
}

/* One list of classes, read in either direction: strings to their places or places to strings. */
static bool label_encoder(onnx_node *n)
{
	const gg_attr *classes;
	if (!has_input(n, 0) || !take(n, "classes_strings", GG_ATTR_STRINGS, &classes) || !classes)
		return n->d->errors == 0;
	int64_t *place = gg_alloc_n(n->a, (size_t)classes->n + 1, sizeof *place);
	for (int i = 0; i < classes->n; i++)
		place[i] = i;
	bool from = n->in[0]->dtype == GG_STRING;
	gg_attr s = *classes, i = {.type = GG_ATTR_INTS, .n = classes->n, .ints = place};
	s.name = from ? "keys_strings" : "values_strings";
	i.name = from ? "values_int64s" : "keys_int64s";
	set(n, s);
	set(n, i);
	return true;
}

/* ---- Resize -------------------------------------------------------------------------------------- */
/* Below 13 roi, scales and sizes that are not used are empty tensors; exporters still write them so. */
static bool resize_empty(onnx_node *n)
{
	for (int i = 1; i < n->nin; i++)
		if (n->in[i] && n->in[i]->shape.rank == 1 && n->in[i]->shape.dim[0] == 0)
			n->in[i] = NULL;
	return true;
}

/* (x + 0.5) / scale, rounded down, is half_pixel's (x + 0.5) / scale - 0.5 to the nearest, ties up. */
static bool resize_tf_nearest(onnx_node *n)
{
	const gg_attr *how = find(n, "coordinate_transformation_mode"), *mode = find(n, "mode"),
	              *nearest = find(n, "nearest_mode");
	if (!how || how->type != GG_ATTR_STRING || strcmp(how->s, "tf_half_pixel_for_nn"))
		return true;
	if ((mode && (mode->type != GG_ATTR_STRING || strcmp(mode->s, "nearest"))) || !nearest ||
	    nearest->type != GG_ATTR_STRING || strcmp(nearest->s, "floor"))
		return onnx_fail(n, GG_UNSUPPORTED,
		                 "coordinate_transformation_mode 'tf_half_pixel_for_nn' is supported with "
		                 "mode 'nearest' and nearest_mode 'floor'");
	set_string(n, "coordinate_transformation_mode", "half_pixel");
	set_string(n, "nearest_mode", "round_prefer_ceil");
	return true;
}

static bool as_resize(onnx_node *n, gg_value *scales, const char *nearest)
{
	n->op = gg_intern("Resize");
	n->nin = n->nin > 1 ? 1 : n->nin;
	set_input(n, 2, scales);
	set_string(n, "coordinate_transformation_mode", "asymmetric");
	set_string(n, "nearest_mode", nearest);
	return true;
}

static bool upsample_scales(onnx_node *n)
{
	const gg_attr *a;
	if (!take(n, "scales", GG_ATTR_FLOATS, &a))
		return false;
	if (a)
		set_input(n, 1, tensor(n, "scales", GG_F32, 1, a->n, a->floats));
	return true;
}

static bool upsample(onnx_node *n)
{
	return has_input(n, 0) && has_input(n, 1) && as_resize(n, n->in[1], "floor");
}

/* Opset 10 took the pixel below when it enlarged and the one above when it reduced. */
static bool resize_10(onnx_node *n)
{
	if (!has_input(n, 0) || !has_input(n, 1))
		return false;
	const gg_attr *mode = find(n, "mode");
	bool linear = mode && mode->type == GG_ATTR_STRING && !strcmp(mode->s, "linear");
	bool known = n->in[1]->kind == GG_CONST || n->in[1]->kind == GG_PARAM, up = false, down = false;
	gg_tensor t;
	if (known && !gg_value_tensor(n->d, n->in[1], &t))
		return false;
	for (int64_t i = 0; known && i < gg_count(&t); i++) {
		up |= gg_get_f64(&t, i) > 1;
		down |= gg_get_f64(&t, i) < 1;
	}
	if (!linear && (!known || (up && down)))
		return onnx_fail(
		    n, GG_UNSUPPORTED,
		    "nearest Resize of opset 10 needs constant scales, all enlarging or all reducing");
	return as_resize(n, n->in[1], down ? "ceil" : "floor");
}

/* ---- the one axis that was all from axis on ---------------------------------------------------------- */
static bool softmax(onnx_node *n)
{
	const gg_attr *a;
	if (!has_input(n, 0) || !take(n, "axis", GG_ATTR_INT, &a))
		return false;
	gg_value *x = n->in[0];
	const gg_shape *s = &x->shape;
	int64_t axis = a ? a->i : 1;
	int64_t k = axis < 0 && s->rank >= 0 ? axis + s->rank : axis;
	set_int(n, "axis", -1);
	if (k >= 0 && k < s->rank && gg_shape_count_dim(s, (int)k + 1, s->rank) == 1) {
		set_int(n, "axis", k);
		return true;
	}
	if (axis == -1)
		return true;
	gg_value *shape = gg_shape_known(s) ? ints(n, "shape", s->rank, s->dim)
	                                    : before(n, "Shape", 1, &x, NULL);
	gg_attr at = {.name = "axis", .type = GG_ATTR_INT, .i = axis},
	        last = {.name = "axis", .type = GG_ATTR_INT, .i = -1};
	gg_value *flat = before(n, "Flatten", 1, &x, &at);
	gg_value *y = shape && flat ? before(n, n->op, 1, &flat, &last) : NULL;
	if (!y)
		return false;
	n->op = gg_intern("Reshape");
	n->nattr = 0;
	set_input(n, 0, y);
	set_input(n, 1, shape);
	return true;
}

/* ---- GroupNormalization: one scale a group becomes one a channel -----------------------------------------
 */
static gg_value *per_channel(onnx_node *n, gg_value *v, gg_value *repeat)
{
	int64_t column[] = {-1, 1}, all[] = {-1};
	gg_value *reshape[] = {v, ints(n, "column", 2, column)};
	gg_value *expand[] = {before(n, "Reshape", 2, reshape, NULL), repeat};
	gg_value *flat[] = {expand[0] ? before(n, "Expand", 2, expand, NULL) : NULL, ints(n, "all", 1, all)};
	return flat[0] ? before(n, "Reshape", 2, flat, NULL) : NULL;
}

/* [1, channels a group]: what one group's scale is repeated to. */
static gg_value *group_repeat(onnx_node *n, int64_t groups)
{
	const gg_shape *s = &n->in[0]->shape;
	if (s->rank > 1 && gg_dim_known(s->dim[1])) {
		int64_t repeat[] = {1, s->dim[1] / groups};
		return ints(n, "repeat", 2, repeat);
	}
	int64_t one = 1;
	gg_attr axis = {.name = "axis", .type = GG_ATTR_INT, .i = 0};
	gg_value *shape = before(n, "Shape", 1, n->in, NULL);
	gg_value *gather[] = {shape, ints(n, "channel", 1, &one)};
	gg_value *divide[] = {shape ? before(n, "Gather", 2, gather, &axis) : NULL,
	                      ints(n, "groups", 1, &groups)};
	gg_value *concat[] = {ints(n, "one", 1, &one), divide[0] ? before(n, "Div", 2, divide, NULL) : NULL};
	return concat[1] ? before(n, "Concat", 2, concat, &axis) : NULL;
}

static bool group_norm(onnx_node *n)
{
	const gg_attr *groups = find(n, "num_groups");
	if (!has_input(n, 0) || !has_input(n, 1) || !has_input(n, 2))
		return false;
	if (!groups || groups->type != GG_ATTR_INT || groups->i <= 0)
		return onnx_fail(n, GG_MALFORMED, "attribute 'num_groups' is missing or not positive");
	gg_value *repeat = group_repeat(n, groups->i);
	for (int i = 1; repeat && i < 3; i++)
		n->in[i] = per_channel(n, n->in[i], repeat);
	return repeat && n->in[1] && n->in[2];
}

/* ---- Gradient: names of the graph become inputs -------------------------------------------------- */
static bool named_value(onnx_node *n, const char *name, gg_value **out)
{
	*out = gg_find_value(n->g, name);
	return *out || onnx_fail(n, GG_MALFORMED, "it names '%s', which nothing before it makes", name);
}

/* The values that it is taken at are the inputs, in the order of xs, then zs. */
static bool gradient(onnx_node *n)
{
	const gg_attr *list[2], *y;
	gg_value **at = n->in;
	int given = n->nin, k = 0;
	if (!take(n, "xs", GG_ATTR_STRINGS, &list[0]) || !take(n, "zs", GG_ATTR_STRINGS, &list[1]) ||
	    !take(n, "y", GG_ATTR_STRING, &y))
		return false;
	if (!list[0] || !y)
		return onnx_fail(n, GG_MALFORMED, "attribute '%s' is missing", y ? "xs" : "y");
	if (given != list[0]->n + (list[1] ? list[1]->n : 0) || n->nout > list[0]->n)
		return onnx_fail(n, GG_MALFORMED,
		                 "%d inputs and %d outputs do not fit its attributes xs and zs", given,
		                 n->nout);
	n->in = gg_alloc_n(n->a, 2 * (size_t)given + 1, sizeof *n->in);
	n->nin = 2 * given + 1;
	if (!named_value(n, y->s, &n->in[0]))
		return false;
	for (int l = 0; l < 2; l++)
		for (int i = 0; list[l] && i < list[l]->n; i++, k++) {
			n->in[2 * k + 2] = at[k];
			if (!named_value(n, list[l]->strings[i], &n->in[2 * k + 1]))
				return false;
		}
	return true;
}

/* ---- the table
 * --------------------------------------------------------------------------------------------- */
enum { EVER = ONNX_NEWEST + 1 };

static const struct row {
	const char *op;
	int below; /* applies to opsets below this one */
	bool (*lift)(onnx_node *n);
} rows[] = {
    {"BatchNormalization", 9, batch_norm},
    {"BatchNormalization", 14, batch_norm_training},
    {"Clip", 11, clip},
    {"Dropout", 12, dropout},
    {"GridSample", 20, grid_sample},
    {"GroupNormalization", 21, group_norm},
    {"Hardmax", 13, softmax},
    {"LogSoftmax", 13, softmax},
    {"Pad", 11, pad},
    {"ReduceL1", 18, axes},
    {"ReduceL2", 18, axes},
    {"ReduceLogSum", 18, axes},
    {"ReduceLogSumExp", 18, axes},
    {"ReduceMax", 18, axes},
    {"ReduceMean", 18, axes},
    {"ReduceMin", 18, axes},
    {"ReduceProd", 18, axes},
    {"ReduceSum", 13, axes},
    {"ReduceSumSquare", 18, axes},
    {"Resize", 11, resize_10},
    {"Resize", 13, resize_tf_nearest},
    {"Resize", EVER, resize_empty},
    {"Scan", 9, scan},
    {"Scatter", 11, scatter},
    {"Slice", 10, slice},
    {"Softmax", 13, softmax},
    {"Split", 13, split},
    {"Split", 18, split_parts},
    {"Squeeze", 13, axes},
    {"TopK", 10, topk},
    {"Unsqueeze", 13, axes},
    {"Upsample", 9, upsample_scales},
    {"Upsample", 10, upsample},
};
static const struct row ml_rows[] = {
    {"LabelEncoder", 2, label_encoder},
};

static bool run_rows(onnx_node *n, const struct row *r, size_t count)
{
	const char *op = n->op; /* a row may rename the node */
	for (size_t i = 0; i < count; i++)
		if (n->version < r[i].below && !strcmp(r[i].op, op) && !r[i].lift(n))
			return false;
	return true;
}

bool onnx_lift(onnx_node *n)
{
	if (!*n->domain)
		return run_rows(n, rows, sizeof rows / sizeof *rows);
	if (!strcmp(n->domain, "ai.onnx.ml"))
		return run_rows(n, ml_rows, sizeof ml_rows / sizeof *ml_rows);
	if (!strcmp(n->domain, "ai.onnx.preview.training") && !strcmp(n->op, "Gradient"))
		return gradient(n);
	return true;
}

/* ---- which ops an opset has
 * ---------------------------------------------------------------------------------- */
static const struct known {
	const char *name, *domain;
	int since, removed;
} table[] = {
#define X(NAME, DOMAIN, SINCE, REMOVED) {#NAME, DOMAIN, SINCE, REMOVED},
#include "opset.inc"
#undef X
};

static const struct known *find_known(const onnx_node *n)
{
	static gg_map map;
	if (!map.n)
		for (size_t i = 0; i < sizeof table / sizeof *table; i++)
			gg_map_puts(&map, table[i].name, (void *)&table[i]);
	const struct known *k = gg_map_gets(&map, n->op);
	return k && !strcmp(k->domain, n->domain) ? k : NULL;
}

static const char *shown(const char *domain) { return *domain ? domain : "ai.onnx"; }

bool onnx_check_opset(const onnx_node *n)
{
	const struct known *k = find_known(n);
	if (k && n->version >= k->since && (!k->removed || n->version < k->removed))
		return true;
	if (k && k->removed && n->version >= k->removed)
		return onnx_fail(n, GG_UNSUPPORTED,
		                 "opset %lld of %s has no op '%s' any more (removed in opset %d)",
		                 (long long)n->version, shown(k->domain), n->op, k->removed);
	if (k)
		return onnx_fail(n, GG_UNSUPPORTED,
		                 "opset %lld of %s has no op '%s' yet (it came with opset %d)",
		                 (long long)n->version, shown(k->domain), n->op, k->since);
	const gg_op *op = gg_op_find(n->op);
	if (op && op->domain && *n->domain && !strcmp(op->domain, n->domain))
		return true; /* a domain whose opsets are not numbered as ONNX's are */
	const char *near = gg_op_nearest(n->op);
	return onnx_fail(n, GG_UNSUPPORTED, "there is no op '%s' in domain %s%s%s%s", n->op, shown(n->domain),
	                 near && !*n->domain ? "; did you mean '" : "", near && !*n->domain ? near : "",
	                 near && !*n->domain ? "'?" : "");
}

/* ---- into the graph
 * ------------------------------------------------------------------------------------------ */
/* Reads an attribute as the schema has it: ONNX writes dtypes as numbers. */
static bool convert(const onnx_node *n, const gg_op *op, gg_attr *a)
{
	const gg_attr_spec *s = gg_op_attr(op, a->name);
	if (!s)
		return onnx_fail(n, GG_UNSUPPORTED, "attribute '%s' is not supported", a->name);
	if (s->type == GG_ATTR_DTYPE && a->type == GG_ATTR_INT) {
		gg_dtype t = gg_dtype_from_onnx(a->i);
		if (!t && a->i)
			return onnx_fail(n, GG_UNSUPPORTED,
			                 "attribute '%s' is ONNX dtype %lld, which is not supported", a->name,
			                 (long long)a->i);
		*a = (gg_attr){.name = a->name, .type = GG_ATTR_DTYPE, .dtype = t};
	}
	bool list = s->type == GG_ATTR_INTS || s->type == GG_ATTR_FLOATS || s->type == GG_ATTR_STRINGS;
	if (list && a->n == 0 &&
	    (a->type == GG_ATTR_INTS || a->type == GG_ATTR_FLOATS || a->type == GG_ATTR_STRINGS))
		a->type = s->type;
	return a->type == s->type || wrong_type(n, a->name);
}

static const gg_op *op_of(const onnx_node *n)
{
	const gg_op *op = gg_op_find(n->op);
	const char *domain = op && op->domain ? op->domain : "";
	if (op && !strcmp(domain, n->domain))
		return op;
	onnx_fail(n, GG_UNSUPPORTED, "op '%s' of domain %s is not supported", n->op, shown(n->domain));
	return NULL;
}

/* What the shape rules take for granted. */
static bool check_arity(const onnx_node *n, const gg_op *op)
{
	if (n->nin < op->min_in || (op->max_in >= 0 && n->nin > op->max_in))
		return onnx_fail(n, GG_MALFORMED, "it has %d inputs, at %s %d expected", n->nin,
		                 n->nin < op->min_in ? "least" : "most",
		                 n->nin < op->min_in ? op->min_in : op->max_in);
	if (n->nout < op->min_out || (op->max_out >= 0 && n->nout > op->max_out))
		return onnx_fail(n, GG_MALFORMED, "it has %d outputs, at %s %d expected", n->nout,
		                 n->nout < op->min_out ? "least" : "most",
		                 n->nout < op->min_out ? op->min_out : op->max_out);
	for (int i = 0; i < op->min_in; i++)
		if (!n->in[i] && !(i < 64 && op->optional >> i & 1))
			return onnx_fail(n, GG_MALFORMED, "input %d is missing", i);
	return true;
}

gg_node *onnx_emit(onnx_node *n)
{
	const gg_op *op = op_of(n);
	if (!op)
		return NULL;
	while (n->nin && !n->in[n->nin - 1])
		n->nin--;
	while (n->nout && !n->out[n->nout - 1])
		n->nout--;
	for (int i = 0; i < n->nattr; i++)
		if (!convert(n, op, &n->attr[i]))
			return NULL;
	if (!check_arity(n, op))
		return NULL;
	gg_node *made = gg_add_node(n->g, NULL, op, n->nin, n->in, n->nout, n->out);
	for (const gg_attr_spec *s = op->attrs; s && s->name; s++) {
		const gg_attr *a = find(n, s->name);
		bool given = a && !(a->type == GG_ATTR_DTYPE && !a->dtype);
		if (given)
			gg_set_attr(made, a);
		else if (s->required && s->type != GG_ATTR_GRAPH)
			return onnx_fail(n, GG_MALFORMED, "required attribute '%s' is missing", s->name),
			       NULL;
	}
	gg_set_loc(made, n->nloc, n->loc);
	return made;
}
