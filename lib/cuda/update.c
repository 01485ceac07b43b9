/* Optimiser updates: element by element over state, in double as the reference's, in place where the plan
 * lets them. A kernel updates one parameter. */
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Roles of an op's inputs as in lib/op/update.h: s a scalar, v state, g a gradient. A step makes v0 .. of
 * s0 .., v0 .. and g, all double; attributes are A_name. Inputs of further parameters follow one another,
 * or, `by_role`, those of all parameters behind the two scalars, role by role. */
typedef struct rule {
	const char *op, *roles, *first, *step;
	bool many, by_role;
} rule;

#define MOMENTUM(lr, m) \
	"v1 = " m " * v1 + g; v0 -= NESTEROV ? " lr " * g + " lr " * " m " * v1 : " lr " * v1;"
#define ADAM(correction) \
	"v1 = s0 * v1 + s1 * g; v2 = s2 * v2 + s3 * g * g;" \
	" const double u = v1 / (sqrt(v2) / " correction " + s4); "
static const rule rules[] = {
    {"ApplyMomentum", "vvsgs", "", MOMENTUM("s0", "s1")},
    {"FusedScaleApplyMomentum", "svvsgs", "", "g *= s0; " MOMENTUM("s1", "s2")},
    {"FusedWeightApplyMomentum", "svvsgs", "", "g += s0 * v0; " MOMENTUM("s1", "s2")},
    {"FusedWeightScaleApplyMomentum", "ssvvsgs", "", "g = (s0 * v0 + g) * s1; " MOMENTUM("s2", "s3")},
    {"CombineMomentum", "svvsgs", "", "g *= s0; " MOMENTUM("s1", "s2"), .many = true},
    {"CombineMomentumWeight", "ssvvsgs", "", "g = (s0 * v0 + g) * s1; " MOMENTUM("s2", "s3"), .many = true},
    {"FusedAdam", "ssssssvvvgs", "", ADAM("s6") "v0 -= s5 * u;"},
    {"FusedAdamWeightDecay", "ssssssvvvgss", "",
     ADAM("s7") "v0 = FACTOR ? s6 * v0 - s5 * u : v0 - s5 * (s6 * v0 + u);"},
    {"Adam", "ssvgvv",
     "const double rate = s1 > 0 ? s0 * (sqrt(1 - pow(A_beta, s1)) / (1 - pow(A_alpha, s1))) : s0;",
     "g += A_norm_coefficient * v0; v1 = A_alpha * v1 + (1 - A_alpha) * g;"
     " v2 = A_beta * v2 + (1 - A_beta) * g * g;"
     " v0 = (1 - A_norm_coefficient_post) * (v0 - rate * v1 / (sqrt(v2) + A_epsilon));",
     .by_role = true},
    {"Adagrad", "ssvgv", "const double rate = s0 / (1 + s1 * A_decay_factor);",
     "g += A_norm_coefficient * v0; v1 += g * g; v0 -= rate * g / (sqrt(v1) + A_epsilon);", .by_role = true},
    {"Momentum", "ssvgv", "const double beta = s1 > 0 ? A_beta : 1;",
     "g += A_norm_coefficient * v0; v1 = A_alpha * v1 + beta * g;"
     " v0 -= s0 * (NESTEROV ? g + A_alpha * v1 : v1);",
     .by_role = true},
};

static const rule *rule_of(const char *op)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!strcmp(rules[i].op, op))
			return &rules[i];
	gg_bug("op '%s' has a row for cuda_update but no rule", op);
}

enum { ARGS = 16 };
typedef struct update { /* of one parameter */
	cuda_kernel k;
	int nargs, nin, arg[ARGS]; /* inputs of the call, then outputs */
} update;
typedef struct updates {
	int n;
	update *of;
} updates;

static bool is_string(const gg_node *n, const char *attr, const char *text)
{
	return gg_op_attr(n->op, attr) && !strcmp(gg_get_string(n, attr), text);
}

static void put_attributes(gg_buf *b, const gg_node *n)
{
	bool nesterov = gg_op_attr(n->op, "use_nesterov") && gg_get_int(n, "use_nesterov");
	for (const gg_attr_spec *a = n->op->attrs; a && a->name; a++)
		if (a->type == GG_ATTR_FLOAT)
			gg_buf_printf(b, "#define A_%s real(%lluull)\n", a->name,
			              cuda_bits(gg_get_float(n, a->name)));
	gg_buf_printf(b, "#define NESTEROV %d\n#define FACTOR %d\n",
	              nesterov || is_string(n, "mode", "nesterov"), is_string(n, "decay", "factor"));
}

/* The slot of role j for parameter i of n. */
static int in_slot(const rule *r, int i, int n, int j)
{
	return !r->by_role ? i * (int)strlen(r->roles) + j : j < 2 ? j : 2 + (j - 2) * n + i;
}

static bool make(gg_call *c, const rule *r, int i, int n, update *u)
{
	gg_buf defines = {0}, args = {0}, first = {0}, load = {0}, store = {0}, s = {0};
	int scalars = 0, states = 0, grad = 0;
	for (int j = 0; r->roles[j]; j++) {
		int at = in_slot(r, i, n, j);
		bool there = at < c->nin && c->in[at].dtype;
		char role = r->roles[j];
		if (there) {
			u->arg[u->nargs++] = at;
			gg_buf_printf(&args, "%sconst %s *a%d", args.len ? ", " : "",
			              cuda_type(c->in[at].dtype), j);
		}
		if (role == 's' && there)
			gg_buf_printf(&first, "\tconst double s%d = (double)ld(*a%d);\n", scalars++, j);
		else if (role == 's')
			gg_buf_printf(&first, "\tconst double s%d = 1;\n", scalars++);
		else if (role == 'v')
			gg_buf_printf(&load, "\tdouble v%d = ld(a%d[i]);\n", states++, j);
		else
			gg_buf_printf(&load, "\tdouble g = ld(a%d[i]);\n", j);
		grad = role == 'g' ? at : grad;
	}
	u->nin = u->nargs;
	for (int k = 0; k < states; k++) {
		int at = r->by_role ? k * n + i : i * states + k;
		if (at >= c->nout || !c->out[at].dtype)
			continue;
		const char *t = cuda_type(c->out[at].dtype);
		u->arg[u->nargs++] = at;
		gg_buf_printf(&args, ", %s *o%d", t, k);
		gg_buf_printf(&store, "\to%d[i] = st(v%d, is<%s>());\n", k, k, t);
	}
	int64_t total = gg_count(&c->in[grad]);
	gg_buf_str(&defines, "#define INDEX unsigned long\n");
	put_attributes(&defines, c->node);
	gg_buf_printf(&s, "KERNEL(%s)\n{\n%s\t%s\nSPREAD(i, %lluul) {\n%s\t%s\n%s}\n}\n", args.p, first.p,
	              r->first, (unsigned long long)total, load.p, r->step, store.len ? store.p : "");
	cuda_spread(&u->k, total, 256);
	bool good = !total || cuda_compile(c->d, defines.p, s.p, &u->k);
	gg_buf *all[] = {&defines, &args, &first, &load, &store, &s};
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		gg_buf_fini(all[k]);
	return good;
}

static bool prepare(gg_call *c)
{
	const rule *r = rule_of(c->node->op->name);
	updates *u = c->state = gg_xcalloc(1, sizeof *u);
	int width = (int)strlen(r->roles);
	bool good = true;
	u->n = r->by_role ? (c->nin - 2) / (width - 2) : r->many ? c->nin / width : 1;
	u->of = gg_xcalloc((size_t)u->n + 1, sizeof *u->of);
	for (int i = 0; i < u->n && good; i++)
		good = make(c, r, i, u->n, &u->of[i]);
	return good;
}

static bool run(gg_call *c)
{
	const updates *u = c->state;
	bool good = true;
	for (int i = 0; i < u->n && good; i++) {
		const update *k = &u->of[i];
		void *arg[ARGS];
		for (int j = 0; j < k->nargs; j++)
			arg[j] = j < k->nin ? c->in[k->arg[j]].data : c->out[k->arg[j]].data;
		good = !k->k.f || cuda_launch(c->d, &k->k, k->nargs, arg);
	}
	return good;
}

static void release(gg_call *c)
{
	updates *u = c->state;
	if (u)
		free(u->of);
	free(u);
}
const gg_kernel cuda_update = {"cuda_update", prepare, run, release};
