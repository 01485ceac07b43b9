/* Labels are letters and the axes of the ellipsis. Each output element is the sum, over the labels
 * that the output lacks, of products of one element of each operand. A label's stride in an operand
 * is the sum of the strides of its dims there, so that a repeated label walks a diagonal. */
#include "opkit.h"
#include "grad.h"
#include <ctype.h>
#include <string.h>

enum { LETTERS = 52, DOTS = LETTERS, LABELS = LETTERS + GG_MAX_RANK };

typedef struct einsum {
	gg_diag *d;
	const gg_node *n;
	int nin;
	const gg_shape **in;
	signed char (*label)[GG_MAX_RANK]; /* of each dim of each operand */
	int count[LABELS];                 /* how often a label occurs in the operands */
	gg_dim size[LABELS];
	int out[GG_MAX_RANK], nout;
	int dots; /* rank of the ellipsis */
} einsum;

static int letter(char c) { return isupper((unsigned char)c) ? c - 'A' : c - 'a' + 26; }

static bool bad(einsum *s, const char *why)
{
	return gg_node_error(s->d, GG_MALFORMED, s->n, "equation '%s': %s", gg_get_string(s->n, "equation"),
	                     why);
}

static bool join(einsum *s, int label, gg_dim n)
{
	gg_dim *size = &s->size[label];
	if (s->count[label]++ == 0 || *size == 1)
		*size = n;
	else if (gg_dim_known(n) && n != 1 && gg_dim_known(*size) && *size != n)
		return bad(s, "one label stands for axes of different sizes");
	else if (gg_dim_known(n) && n != 1)
		*size = n;
	return true;
}

/* Labels of the term at *p for an axis each; the ellipsis takes the axes left over. */
static bool read_term(einsum *s, const char **p, int i)
{
	const gg_shape *x = s->in[i];
	int letters = 0, axis = 0;
	bool dotted = false;
	for (const char *q = *p; *q && *q != ',' && *q != '-'; q++)
		letters += isalpha((unsigned char)*q) != 0;
	for (; **p && **p != ',' && **p != '-'; ++*p) {
		int rest = x->rank - letters;
		if (**p == ' ')
			continue;
		if (isalpha((unsigned char)**p) && axis < x->rank) {
			s->label[i][axis] = (signed char)letter(**p);
			if (!join(s, s->label[i][axis], x->dim[axis]))
				return false;
			axis++;
			continue;
		}
		if (strncmp(*p, "...", 3) || dotted || rest < 0)
			return bad(s, isalpha((unsigned char)**p)
			                  ? "an operand has fewer axes than its term has labels"
			                  : "it is not a list of terms of letters");
		dotted = true;
		*p += 2;
		s->dots = rest > s->dots ? rest : s->dots;
		for (int k = 0; k < rest; k++, axis++) { /* counted from the end, as broadcasting does */
			s->label[i][axis] = (signed char)(DOTS + rest - 1 - k);
			if (!join(s, s->label[i][axis], x->dim[axis]))
				return false;
		}
	}
	return axis == x->rank || bad(s, "an operand has more axes than its term has labels");
}

static bool put(einsum *s, int label)
{
	if (s->nout == GG_MAX_RANK)
		return bad(s, "its result has too many axes");
	s->out[s->nout++] = label;
	return true;
}

static bool put_dots(einsum *s)
{
	for (int k = s->dots - 1; k >= 0; k--)
		if (!put(s, DOTS + k))
			return false;
	return true;
}

static bool read_output(einsum *s, const char *p)
{
	bool dotted = false;
	for (; *p; p++) {
		if (*p == ' ')
			continue;
		if (!strncmp(p, "...", 3) && !dotted) {
			dotted = true;
			p += 2;
			if (!put_dots(s))
				return false;
			continue;
		}
		if (!isalpha((unsigned char)*p))
			return bad(s, "its result is not a term of letters");
		for (int k = 0; k < s->nout; k++)
			if (s->out[k] == letter(*p))
				return bad(s, "a label occurs twice in its result");
		if (!s->count[letter(*p)])
			return bad(s, "a label of its result occurs in no operand");
		if (!put(s, letter(*p)))
			return false;
	}
	return true;
}

/* Without an arrow: the ellipsis, then the letters that occur once, in order. */
static bool implicit_output(einsum *s)
{
	if (!put_dots(s))
		return false;
	for (int k = 0; k < LETTERS; k++)
		if (s->count[k] == 1 && !put(s, k))
			return false;
	return true;
}

static bool read_equation(einsum *s, gg_arena *a)
{
	const char *p = gg_get_string(s->n, "equation");
	s->label = gg_alloc_n(a, (size_t)s->nin + 1, sizeof *s->label);
	for (int i = 0; i < s->nin; i++) {
		if (!read_term(s, &p, i))
			return false;
		if ((*p == ',') != (i + 1 < s->nin))
			return bad(s, "it has not one term for each operand");
		p += *p == ',';
	}
	if (!*p)
		return implicit_output(s);
	return strncmp(p, "->", 2) ? bad(s, "'-' without '>'") : read_output(s, p + 2);
}

static bool infer(gg_infer *f)
{
	einsum s = {f->d, f->n, f->nin, gg_alloc_n(f->a, (size_t)f->nin + 1, sizeof(gg_shape *))};
	for (int i = 0; i < f->nin; i++) {
		s.in[i] = &f->in[i].shape;
		if (s.in[i]->rank < 0)
			return true;
	}
	if (!read_equation(&s, f->a))
		return false;
	f->out[0].shape.rank = s.nout;
	for (int k = 0; k < s.nout; k++)
		f->out[0].shape.dim[k] = s.size[s.out[k]];
	return true;
}

/* ---- evaluation ------------------------------------------------------------------------------- */

typedef struct axis {
	int64_t n;
	int64_t *stride; /* in each operand */
} axis;

typedef struct nest {
	int nin, naxes, nout; /* the first nout axes are the output's */
	axis axes[LABELS];
	void **x; /* operands as double or int64_t */
	void *out;
	int64_t **at; /* positions in the operands at each depth */
} nest;

static int64_t stride_of(const einsum *s, int i, int label)
{
	int64_t stride = 0, step = 1;
	for (int k = s->in[i]->rank - 1; k >= 0; k--) {
		if (s->label[i][k] == label && s->in[i]->dim[k] != 1)
			stride += step;
		step *= s->in[i]->dim[k];
	}
	return stride;
}

static void add_axis(nest *t, const einsum *s, gg_arena *a, int label)
{
	axis *x = &t->axes[t->naxes++];
	x->n = s->size[label];
	x->stride = gg_alloc_n(a, (size_t)s->nin, sizeof *x->stride);
	for (int i = 0; i < s->nin; i++)
		x->stride[i] = stride_of(s, i, label);
}

/* The sum over the axes from k on at positions p; one for each number type. */
#define SUM(NAME, T, W) \
	static T NAME(nest *t, int k, const int64_t *p) \
	{ \
		if (k == t->naxes) { \
			W y = 1; \
			for (int i = 0; i < t->nin; i++) \
				y *= (W)((const T *)t->x[i])[p[i]]; \
			return (T)y; \
		} \
		W sum = 0; \
		const axis *a = &t->axes[k]; \
		if (k == t->naxes - 1 && t->nin == 2) { \
			const T *x = (const T *)t->x[0] + p[0], *y = (const T *)t->x[1] + p[1]; \
			for (int64_t j = 0; j < a->n; j++) \
				sum += (W)x[j * a->stride[0]] * (W)y[j * a->stride[1]]; \
			return (T)sum; \
		} \
		int64_t *q = t->at[k]; \
		memcpy(q, p, (size_t)t->nin * sizeof *q); \
		for (int64_t j = 0; j < a->n; j++) { \
			sum += (W)NAME(t, k + 1, q); \
			for (int i = 0; i < t->nin; i++) \
				q[i] += a->stride[i]; \
		} \
		return (T)sum; \
	}
SUM(sum_f64, double, double)
SUM(sum_i64, int64_t, uint64_t)

static void run(nest *t, gg_tensor *out, bool floats, int64_t *p)
{
	int64_t idx[GG_MAX_RANK] = {0}, at = 0;
	for (bool more = gg_count(out) > 0; more; more = gg_next_index(&out->shape, idx), at++) {
		memset(p, 0, (size_t)t->nin * sizeof *p);
		for (int k = 0; k < t->nout; k++)
			for (int i = 0; i < t->nin; i++)
				p[i] += idx[k] * t->axes[k].stride[i];
		if (floats)
			gg_set_f64(out, at, sum_f64(t, t->nout, p));
		else
			gg_set_i64(out, at, sum_i64(t, t->nout, p));
	}
}

static void *widened(gg_eval *e, const gg_tensor *x, bool floats)
{
	int64_t n = gg_count(x);
	void *v = gg_alloc_n(e->a, (size_t)n, 8);
	if (n && floats)
		gg_load_f64(x->dtype, x->data, 0, n, v);
	else if (n)
		gg_load_i64(x->dtype, x->data, 0, n, v);
	return v;
}

static bool eval(gg_eval *e)
{
	size_t n = (size_t)e->nin;
	bool floats = gg_dtype_class(e->in[0].dtype) == 'F', used[LABELS] = {0};
	einsum s = {e->d, e->n, e->nin, gg_alloc_n(e->a, n, sizeof(gg_shape *))};
	nest t = {.nin = e->nin, .x = gg_alloc_n(e->a, n, sizeof(void *))};
	for (size_t i = 0; i < n; i++) {
		s.in[i] = &e->in[i].shape;
		t.x[i] = widened(e, &e->in[i], floats);
	}
	if (!read_equation(&s, e->a))
		return false;
	for (t.nout = 0; t.nout < s.nout; t.nout++) {
		add_axis(&t, &s, e->a, s.out[t.nout]);
		used[s.out[t.nout]] = true;
	}
	for (int k = 0; k < LABELS; k++)
		if (s.count[k] && !used[k])
			add_axis(&t, &s, e->a, k);
	t.at = gg_alloc_n(e->a, (size_t)t.naxes + 1, sizeof *t.at);
	for (int k = 0; k < t.naxes; k++)
		t.at[k] = gg_alloc_n(e->a, n, sizeof(int64_t));
	run(&t, &e->out[0], floats, gg_alloc_n(e->a, n, sizeof(int64_t)));
	return true;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* A letter for each label; those of the ellipsis take letters that are not used. */
static bool name_labels(const einsum *s, char *name)
{
	int spare = 0;
	for (int k = 0; k < LABELS; k++) {
		while (k >= LETTERS && spare < LETTERS && s->count[spare])
			spare++;
		if (k < LETTERS)
			name[k] = letters[k];
		else if (s->count[k])
			name[k] = spare < LETTERS ? letters[spare++] : 0;
		if (s->count[k] && !name[k])
			return false;
	}
	return true;
}

static bool has(const signed char *label, int n, int k)
{
	for (int i = 0; i < n; i++)
		if (label[i] == k)
			return true;
	return false;
}

/* Of operand i: the product of dy and the other operands, summed over what it lacks. What it alone has
 * was summed, and is repeated. */
static void operand(gg_builder *t, gg_node *n, const einsum *s, const char *name, int i, gg_value *dy)
{
	gg_value *x = IN(i), **in = gg_alloc_n(&t->g->m->arena, (size_t)s->nin, sizeof *in), *y;
	int64_t lost[GG_MAX_RANK];
	int count = 0, nin = 0;
	bool shared[LABELS] = {false};
	gg_buf b = {0};
	in[nin++] = dy;
	for (int k = 0; k < s->nout; k++) {
		gg_buf_printf(&b, "%c", name[s->out[k]]);
		shared[s->out[k]] = true;
	}
	for (int j = 0; j < s->nin; j++) {
		if (j == i)
			continue;
		in[nin++] = IN(j);
		gg_buf_printf(&b, ",");
		for (int k = 0; k < s->in[j]->rank; k++) {
			gg_buf_printf(&b, "%c", name[(int)s->label[j][k]]);
			shared[(int)s->label[j][k]] = true;
		}
	}
	gg_buf_printf(&b, "->");
	for (int k = 0; k < x->shape.rank; k++) {
		int label = s->label[i][k];
		if (has(s->label[i], k, label))
			gg_grad_lacks(t, n, "a label occurs twice in an operand");
		if (shared[label])
			gg_buf_printf(&b, "%c", name[label]);
		else
			lost[count++] = k;
	}
	y = gg_put(t, "Einsum", nin, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "equation", b.p);
	gg_buf_fini(&b);
	y = gg_put_done(t, y);
	if (count)
		y = gg_put_expand(t, OP("Unsqueeze", y, gg_put_ints(t, count, lost)), x);
	gg_give_like(t, n, x, y);
}

GG_GRAD(grad)
{
	gg_arena *a = &t->g->m->arena;
	char name[LABELS] = {0};
	einsum s = {t->d, n, gg_nargs(n), gg_alloc_n(a, (size_t)gg_nargs(n) + 1, sizeof(gg_shape *))};
	for (int i = 0; i < s.nin; i++) {
		s.in[i] = &IN(i)->shape;
		if (s.in[i]->rank < 0) {
			gg_grad_lacks(t, n, "the rank of an operand is not known");
			return;
		}
	}
	if (!read_equation(&s, a))
		t->bad = true;
	else if (!name_labels(&s, name))
		gg_grad_lacks(t, n, "its labels are too many");
	for (int i = 0; i < s.nin && !t->bad; i++)
		if (gg_grad_wanted(IN(i)))
			operand(t, n, &s, name, i, dy);
}

const gg_op gg_op_Einsum = {.name = "Einsum",
                            .doc = "sums of products by Einstein's notation",
                            .min_in = 1,
                            .max_in = -1,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = (const gg_attr_spec[]){{"equation", GG_ATTR_STRING, true, 0}, {0}},
                            .in = {{GG_NUMBERS, 'T'}},
                            .out = {{GG_NUMBERS, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
