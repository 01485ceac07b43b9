/* Recurrent nodes: shapes, activations by name, and the walk over directions, batch and steps. */
#include "recur.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

double gg_dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* ---- activations ---------------------------------------------------------------------------------- */
static double relu(double x, double a, double b) { return x < 0 ? 0 : x; }
static double tanh_of(double x, double a, double b) { return tanh(x); }
static double sigmoid(double x, double a, double b) { return 1 / (1 + exp(-x)); }
static double affine(double x, double a, double b) { return a * x + b; }
static double leaky(double x, double a, double b) { return x < 0 ? a * x : x; }
static double thresholded(double x, double a, double b) { return x >= a ? x : isnan(x) ? x : 0; }
static double scaled_tanh(double x, double a, double b) { return a * tanh(b * x); }
static double hard_sigmoid(double x, double a, double b)
{
	return a * x + b < 0 ? 0 : a * x + b > 1 ? 1 : a * x + b;
}
static double elu(double x, double a, double b) { return x < 0 ? a * expm1(x) : x; }
static double softsign(double x, double a, double b) { return x / (1 + fabs(x)); }
static double softplus(double x, double a, double b) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* params: how many of alpha, beta it takes from the attributes, and what they are by default. */
static const struct activation {
	const char *name;
	double (*f)(double x, double alpha, double beta);
	int params;
	double alpha, beta;
} activations[] = {
    {"Relu", relu, 0, 0, 0},
    {"Tanh", tanh_of, 0, 0, 0},
    {"Sigmoid", sigmoid, 0, 0, 0},
    {"Affine", affine, 2, 1, 0},
    {"LeakyRelu", leaky, 1, (double)0.01f, 0},
    {"ThresholdedRelu", thresholded, 1, 1, 0},
    {"ScaledTanh", scaled_tanh, 2, 1, 1},
    {"HardSigmoid", hard_sigmoid, 2, (double)0.2f, 0.5},
    {"Elu", elu, 1, 1, 0},
    {"Softsign", softsign, 0, 0, 0},
    {"Softplus", softplus, 0, 0, 0},
};

static const struct activation *find_activation(const char *name)
{
	for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
		if (!strcasecmp(activations[i].name, name)) /* the standard ignores case */
			return &activations[i];
	return 0;
}

static const char *activation_name(const gg_node *n, const gg_recur_op *op, int i)
{
	const gg_attr *a = gg_find_attr(n, "activations");
	return a && a->n ? a->strings[i] : op->defaults[i % op->funcs];
}

/* Alphas and betas are handed out in the order of the activations that take them. */
void gg_recur_activations(const gg_node *n, const gg_recur_op *op, int count, gg_squash *out)
{
	const gg_attr *alpha = gg_get_list(n, "activation_alpha"), *beta = gg_get_list(n, "activation_beta"),
	              *clip = gg_find_attr(n, "clip");
	int na = 0, nb = 0;
	for (int i = 0; i < count; i++) {
		const struct activation *a = find_activation(activation_name(n, op, i));
		out[i] = (gg_squash){a->name, a->f, a->alpha, a->beta, clip ? (double)clip->f : INFINITY};
		if (a->params > 0 && alpha && na < alpha->n)
			out[i].alpha = alpha->floats[na++];
		if (a->params > 1 && beta && nb < beta->n)
			out[i].beta = beta->floats[nb++];
	}
}

/* ---- shapes --------------------------------------------------------------------------------------- */
static int directions(const gg_node *n)
{
	const char *s = gg_get_string(n, "direction");
	return !strcmp(s, "forward") || !strcmp(s, "reverse") ? 1 : !strcmp(s, "bidirectional") ? 2 : 0;
}

static bool check_attrs(gg_infer *f, const gg_recur_op *op, int dirs)
{
	const gg_node *n = f->n;
	const gg_attr *names = gg_find_attr(n, "activations"), *clip = gg_find_attr(n, "clip");
	int64_t layout = gg_get_int(n, "layout");
	int need = dirs * op->funcs;
	if (!dirs)
		return gg_fail(f, "attribute 'direction' is '%s', expected forward, reverse or bidirectional",
		               gg_get_string(n, "direction"));
	if (layout != 0 && layout != 1)
		return gg_fail(f, "attribute 'layout' is %lld, expected 0 or 1", (long long)layout);
	if (clip && !(clip->f >= 0))
		return gg_fail(f, "attribute 'clip' is %g, expected a positive number", (double)clip->f);
	/* RNN's default names two whatever the direction. */
	if (names && names->n && names->n != need && !(op->funcs == 1 && names->n == 2))
		return gg_fail(f, "attribute 'activations' has %d elements, expected %d", names->n, need);
	for (int i = 0; i < need; i++)
		if (!find_activation(activation_name(n, op, i)))
			return gg_unsupported(f, "activation '%s'", activation_name(n, op, i));
	return true;
}

/* What the dims of the inputs are, as far as one of them says so. */
typedef struct sizes {
	gg_dim seq, batch, in, hidden, dirs;
	bool batch_first;
} sizes;

/* Input i has these dims. */
static bool check_dims(gg_infer *f, int i, const char *what, int rank, const gg_dim *dim)
{
	const gg_shape *s = &f->in[i].shape;
	if (!gg_given(f, i) || s->rank < 0)
		return true;
	bool fits = s->rank == rank;
	for (int k = 0; fits && k < rank; k++)
		fits = !gg_dim_known(s->dim[k]) || !gg_dim_known(dim[k]) || s->dim[k] == dim[k];
	gg_shape want = gg_shape_of(rank, dim);
	return fits || gg_fail(f, "%s has shape %s, expected %s", what, gg_str(f, s), gg_str(f, &want));
}

static bool read_sizes(gg_infer *f, const gg_recur_op *op, int dirs, sizes *z)
{
	const gg_shape *x = &f->in[GG_RECUR_X].shape, *r = &f->in[GG_RECUR_R].shape;
	const gg_attr *hidden = gg_find_attr(f->n, "hidden_size");
	z->batch_first = gg_get_int(f->n, "layout");
	z->dirs = dirs;
	if (x->rank >= 0 && x->rank != 3)
		return gg_fail(f, "input has rank %d, expected 3", x->rank);
	if (r->rank >= 0 && r->rank != 3)
		return gg_fail(f, "recurrent weight has rank %d, expected 3", r->rank);
	z->seq = x->rank < 0 ? gg_unknown_dim(f, 0, 0) : x->dim[z->batch_first];
	z->batch = x->rank < 0 ? gg_unknown_dim(f, 0, 2) : x->dim[!z->batch_first];
	z->in = x->rank < 0 ? gg_unknown_dim(f, 0, 1) : x->dim[2];
	z->hidden = hidden ? hidden->i : r->rank < 0 ? gg_unknown_dim(f, 0, 3) : r->dim[2];
	if (hidden && (hidden->i < 1 || hidden->i > INT32_MAX))
		return gg_fail(f, "attribute 'hidden_size' is %lld, expected at least 1",
		               (long long)hidden->i);
	gg_dim rows = gg_dim_mul(op->gates, z->hidden);
	gg_dim state[] = {z->batch_first ? z->batch : z->dirs, z->batch_first ? z->dirs : z->batch,
	                  z->hidden};
	return check_dims(f, GG_RECUR_W, "weight", 3, (gg_dim[]){dirs, rows, z->in}) &&
	       check_dims(f, GG_RECUR_R, "recurrent weight", 3, (gg_dim[]){dirs, rows, z->hidden}) &&
	       check_dims(f, GG_RECUR_B, "bias", 2, (gg_dim[]){dirs, gg_dim_mul(2, rows)}) &&
	       check_dims(f, GG_RECUR_LENS, "sequence_lens", 1, &z->batch) &&
	       check_dims(f, GG_RECUR_H0, "initial_h", 3, state) &&
	       (!op->memory || (check_dims(f, GG_RECUR_C0, "initial_c", 3, state) &&
	                        check_dims(f, GG_RECUR_P, "peephole weight", 2,
	                                   (gg_dim[]){dirs, gg_dim_mul(3, z->hidden)})));
}

bool gg_infer_recur(gg_infer *f, const gg_recur_op *op)
{
	int dirs = directions(f->n);
	sizes z;
	if (!check_attrs(f, op, dirs) || !read_sizes(f, op, dirs, &z))
		return false;
	f->out[0].shape = z.batch_first ? (gg_shape){4, {z.batch, z.seq, z.dirs, z.hidden}}
	                                : (gg_shape){4, {z.seq, z.dirs, z.batch, z.hidden}};
	for (int i = 1; i < f->nout; i++)
		f->out[i].shape = z.batch_first ? (gg_shape){3, {z.batch, z.dirs, z.hidden}}
		                                : (gg_shape){3, {z.dirs, z.batch, z.hidden}};
	return true;
}

/* ---- running -------------------------------------------------------------------------------------- */
typedef struct walk {
	gg_eval *e;
	const gg_recur_op *op;
	int64_t seq, batch, in, hidden, dirs;
	bool batch_first;
	double *x, *w, *r, *b, *p;
} walk;

static int64_t length(const walk *k, int64_t batch)
{
	return gg_has(k->e, GG_RECUR_LENS) ? gg_get_i64(&k->e->in[GG_RECUR_LENS], batch) : k->seq;
}

bool gg_recur_lengths(gg_eval *e, int64_t steps)
{
	int64_t entries = gg_has(e, GG_RECUR_LENS) ? gg_count(&e->in[GG_RECUR_LENS]) : 0;
	for (int64_t b = 0; b < entries; b++) {
		int64_t n = gg_get_i64(&e->in[GG_RECUR_LENS], b);
		if (n < 0 || n > steps)
			return gg_fail(e, "sequence_lens has %lld, the input has %lld steps", (long long)n,
			               (long long)steps);
	}
	return true;
}

static int64_t state_at(const walk *k, int64_t dir, int64_t batch)
{
	return (k->batch_first ? batch * k->dirs + dir : dir * k->batch + batch) * k->hidden;
}

static int64_t output_at(const walk *k, int64_t t, int64_t dir, int64_t batch)
{
	return (k->batch_first ? (batch * k->seq + t) * k->dirs + dir
	                       : (t * k->dirs + dir) * k->batch + batch) *
	       k->hidden;
}

/* The inputs' part of the gates at step t. */
static void input_part(const walk *k, const gg_cell *cell, int64_t dir, int64_t batch, int64_t t)
{
	int64_t rows = k->op->gates * k->hidden;
	const double *x = k->x + (k->batch_first ? batch * k->seq + t : t * k->batch + batch) * k->in;
	const double *w = k->w + dir * rows * k->in, *b = k->b ? k->b + dir * 2 * rows : 0;
	for (int64_t i = 0; i < rows; i++)
		cell->gate[i] = gg_dot(w + i * k->in, x, k->in) + (b ? b[i] : 0);
}

static void load_state(const walk *k, int input, int64_t at, double *v)
{
	memset(v, 0, (size_t)k->hidden * sizeof *v);
	if (gg_has(k->e, input) && k->hidden)
		gg_load_f64(k->e->in[input].dtype, k->e->in[input].data, at, k->hidden, v);
}

static void store_state(const walk *k, int output, int64_t at, const double *v)
{
	if (gg_wanted(k->e, output) && k->hidden)
		gg_store_f64(k->e->out[output].dtype, k->e->out[output].data, at, k->hidden, v);
}

static void run_entry(const walk *k, gg_cell *cell, int64_t dir, int64_t batch)
{
	bool back = dir == 1 || !strcmp(gg_get_string(k->e->n, "direction"), "reverse");
	int64_t n = length(k, batch), state = state_at(k, dir, batch);
	load_state(k, GG_RECUR_H0, state, cell->h);
	if (k->op->memory)
		load_state(k, GG_RECUR_C0, state, cell->c);
	for (int64_t s = 0; s < n; s++) {
		int64_t t = back ? n - 1 - s : s;
		input_part(k, cell, dir, batch, t);
		k->op->step(cell);
		store_state(k, 0, output_at(k, t, dir, batch), cell->h);
	}
	store_state(k, 1, state, cell->h);
	if (k->op->memory)
		store_state(k, 2, state, cell->c);
	memset(cell->next, 0, (size_t)k->hidden * sizeof *cell->next);
	for (int64_t t = n; t < k->seq; t++) /* past its end an entry is 0 */
		store_state(k, 0, output_at(k, t, dir, batch), cell->next);
}

static void run_direction(const walk *k, int64_t dir, const gg_squash *act, double *room)
{
	int64_t rows = k->op->gates * k->hidden;
	gg_cell cell = {.hidden = k->hidden, .flag = k->op->flag && gg_get_int(k->e->n, k->op->flag)};
	double *no_bias = room;
	memset(no_bias, 0, (size_t)rows * sizeof *no_bias);
	cell.r = k->r + dir * rows * k->hidden;
	cell.rb = k->b ? k->b + dir * 2 * rows + rows : no_bias;
	cell.peep = k->p ? k->p + dir * 3 * k->hidden : 0;
	for (int i = 0; i < k->op->funcs; i++)
		cell.act[i] = act[dir * k->op->funcs + i];
	cell.gate = room + rows;
	cell.scratch = room + 2 * rows;
	cell.h = room + 3 * rows;
	cell.c = cell.h + k->hidden;
	cell.next = cell.c + k->hidden;
	for (int64_t b = 0; b < k->batch; b++)
		run_entry(k, &cell, dir, b);
}

bool gg_eval_recur(gg_eval *e, const gg_recur_op *op)
{
	const gg_shape *x = &e->in[GG_RECUR_X].shape, *r = &e->in[GG_RECUR_R].shape;
	gg_squash act[6];
	walk k = {.e = e, .op = op, .in = x->dim[2], .hidden = r->dim[2], .dirs = r->dim[0]};
	k.batch_first = gg_get_int(e->n, "layout");
	k.seq = x->dim[k.batch_first];
	k.batch = x->dim[!k.batch_first];
	if (!gg_recur_lengths(e, k.seq))
		return false;
	gg_recur_activations(e->n, op, (int)k.dirs * op->funcs, act);
	k.x = gg_doubles(&e->in[GG_RECUR_X]);
	k.w = gg_doubles(&e->in[GG_RECUR_W]);
	k.r = gg_doubles(&e->in[GG_RECUR_R]);
	k.b = gg_has(e, GG_RECUR_B) ? gg_doubles(&e->in[GG_RECUR_B]) : 0;
	k.p = op->memory && gg_has(e, GG_RECUR_P) ? gg_doubles(&e->in[GG_RECUR_P]) : 0;
	double *room = gg_xaligned((size_t)(3 * op->gates + 3) * (size_t)k.hidden * sizeof *room);
	for (int64_t dir = 0; dir < k.dirs; dir++)
		run_direction(&k, dir, act, room);
	free(room);
	free(k.x);
	free(k.w);
	free(k.r);
	free(k.b);
	free(k.p);
	return true;
}
