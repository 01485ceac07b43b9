/* Arithmetic ops that the tables of cases do not reach: what must be refused, random numbers, and
 * the expansion of fused products. */
#include "op.h"
#include "stream.h"
#include "tap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct refused {
	const char *body;
	gg_status status;
} refused[] = {
    {"input %x : f32[2, 3]\ninput %y : f32[2]\n%z = Add(%x, %y)\n", GG_MALFORMED},
    {"input %x : f32[2]\ninput %y : f64[2]\n%z = Mul(%x, %y)\n", GG_MALFORMED},
    {"input %x : bool[2]\n%z = Add(%x, %x)\n", GG_UNSUPPORTED},
    {"input %x : i32[2]\n%z = Exp(%x)\n", GG_UNSUPPORTED},
    {"input %x : f32[2]\ninput %m : f32[0]\n%z = Clip(%x, %m)\n", GG_MALFORMED},
    {"input %x : f32[2]\ninput %m : f32[2]\n%z = Clip(%x, _, %m)\n", GG_MALFORMED},
    {"input %x : f32[2]\ninput %s : f32[3, 2]\n%z = PRelu(%x, %s)\n", GG_MALFORMED},
    {"input %x : u8[2]\n%z = BitShift(%x, %x) {direction=\"UP\"}\n", GG_MALFORMED},
    {"input %x : f32[2]\n%z = Cast(%x) {to=c64}\n", GG_UNSUPPORTED},
    {"input %a : f32[2, 3]\ninput %b : f32[4, 5]\n%z = MatMul(%a, %b)\n", GG_MALFORMED},
    {"input %a : f32[]\ninput %b : f32[4, 5]\n%z = MatMul(%a, %b)\n", GG_MALFORMED},
    {"input %a : f32[2, 2, 3]\ninput %b : f32[3, 3, 5]\n%z = MatMul(%a, %b)\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\ninput %b : f32[3, 5]\ninput %c : f32[2]\n%z = Gemm(%a, %b, %c)\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\ninput %b : f32[3, 5]\ninput %c : f32[4, 1, 5]\n%z = MatMulBias(%a, %b, %c)\n",
     GG_MALFORMED},
    {"input %a : f32[2]\n%z = MatMulBias(%a, %a, %a) {activation=\"Sine\"}\n", GG_UNSUPPORTED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"i\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ijk\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ii\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ij->k\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ij->ii\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ij,jk\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"i.j\"}\n", GG_MALFORMED},
    {"input %a : f32[2, 3]\n%z = Einsum(%a) {equation=\"ij-i\"}\n", GG_MALFORMED},
    {"input %x : f32[2, 3]\ninput %s : f32[4]\n%z = QuantizeLinear(%x, %s)\n", GG_MALFORMED},
    {"input %x : f32[2, 3]\ninput %s : f32[3]\n%z = QuantizeLinear(%x, %s) {axis=2}\n", GG_MALFORMED},
    {"input %x : f32[2, 3]\ninput %s : f32[]\n%z = QuantizeLinear(%x, %s) {output_dtype=i64}\n",
     GG_UNSUPPORTED},
    {"input %x : i8[2, 6]\ninput %s : f32[2, 2]\n%z = DequantizeLinear(%x, %s) {block_size=2}\n",
     GG_MALFORMED},
    {"input %x : i64[2]\n%z = LabelEncoder(%x) {keys_int64s=[1], values_int64s=[1, 2]}\n", GG_MALFORMED},
    {"input %x : f32[2]\n%z = LabelEncoder(%x) {keys_int64s=[1], values_int64s=[1]}\n", GG_MALFORMED},
    {"input %r : f32[]\ninput %t : i64[]\ninput %x : f32[2]\n%z, %v = Momentum(%r, %t, %x, %x) {alpha=1.0, "
     "beta=1.0, mode=\"standard\", norm_coefficient=0.0}\n",
     GG_MALFORMED},
    {"%z = RandomNormal() {shape=[2, -1]}\n", GG_MALFORMED},
    {"%z = RandomNormal() {shape=[2], dtype=i8}\n", GG_UNSUPPORTED},
};

static gg_model *parse(gg_diag *d, const char *body)
{
	gg_arena a = {0};
	gg_model *m = NULL;
	char *text = gg_printf(&a, "graph\n%soutput %%z\n", body);
	gg_source s = {.name = "text", .p = text, .len = strlen(text)};
	if (gg_read_text(d, &s, &m) != 1)
		m = NULL;
	gg_arena_fini(&a);
	return m;
}

static void check_refused(void)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		gg_diag d = {.tool = "arith", .silent = true};
		gg_model *m = parse(&d, refused[i].body);
		ok(!m && d.status == refused[i].status && d.errors == 1, "refused, %d: %.*s",
		   refused[i].status, (int)strcspn(strstr(refused[i].body, "%z"), "\n"),
		   strstr(refused[i].body, "%z"));
		gg_model_free(m);
	}
}

/* ---- random numbers ------------------------------------------------------------------------- */
static double mean, deviation, least, most;

static gg_tensor run(const char *body, int nin, const gg_tensor *in, int out)
{
	gg_diag d = {.tool = "arith"};
	gg_model *m = parse(&d, body);
	gg_tensor y[2] = {{0}};
	if (!m || !gg_eval_node(&d, m->main->last, nin, in, m->main->last->nout, y))
		ok(false, "runs: %s", body);
	gg_model_free(m);
	free(y[!out].data);
	return y[out];
}

static void measure(const gg_tensor *t)
{
	int64_t n = gg_count(t);
	mean = deviation = 0;
	least = INFINITY;
	most = -INFINITY;
	for (int64_t i = 0; i < n; i++) {
		double x = gg_get_f64(t, i);
		mean += x / (double)n;
		deviation += x * x / (double)n;
		least = fmin(least, x);
		most = fmax(most, x);
	}
	deviation = sqrt(deviation - mean * mean);
}

static bool near(double x, double want, double by) { return fabs(x - want) <= by; }

static void check_random(void)
{
	gg_tensor t = run("%z = RandomNormal() {shape=[100, 100], mean=3.0, scale=2.0}\n", 0, NULL, 0);
	measure(&t);
	ok(t.dtype == GG_F32 && near(mean, 3, 0.1) && near(deviation, 2, 0.1), "normal: mean and deviation");
	free(t.data);
	t = run("%z = RandomUniform() {shape=[100, 100], low=-1.0, high=3.0, dtype=f64}\n", 0, NULL, 0);
	measure(&t);
	ok(t.dtype == GG_F64 && least >= -1 && most < 3 && near(mean, 1, 0.1) &&
	       near(deviation, 4 / sqrt(12), 0.1),
	   "uniform: range, mean and deviation");
	free(t.data);
	t = run("input %x : f16[7]\n%z = RandomUniformLike(%x)\n", 1, &(gg_tensor){GG_F16, {1, {7}}, NULL},
	        0);
	ok(t.dtype == GG_F16 && gg_count(&t) == 7, "like its input");
	free(t.data);
	gg_tensor a = run("%z = RandomNormal() {shape=[9], seed=1.0}\n", 0, NULL, 0);
	gg_tensor b = run("%z = RandomNormal() {shape=[9], seed=1.0}\n", 0, NULL, 0);
	t = run("%z = RandomNormal() {shape=[9], seed=2.0}\n", 0, NULL, 0);
	ok(!memcmp(a.data, b.data, gg_nbytes(&a)) && memcmp(a.data, t.data, gg_nbytes(&a)), "seeds");
	free(a.data);
	free(b.data);
	free(t.data);
}

static void check_draws(void)
{
	static float x[10000];
	gg_tensor in[3] = {{GG_F32, {1, {10000}}, x},
	                   {GG_F32, {.rank = 0}, (float[]){0.25f}},
	                   {GG_BOOL, {.rank = 0}, (uint8_t[]){1}}};
	for (int i = 0; i < 10000; i++)
		x[i] = 0.3f;
	gg_tensor t = run("input %x : f32[10000]\n%z = Bernoulli(%x) {dtype=i32}\n", 1, in, 0);
	measure(&t);
	ok(t.dtype == GG_I32 && least == 0 && most == 1 && near(mean, 0.3, 0.02), "Bernoulli");
	free(t.data);
	const char *dropout =
	    "input %x : f32[10000]\ninput %r : f32[]\ninput %t : bool[]\n%z, %m = Dropout(%x, %r, %t)\n";
	t = run(dropout, 3, in, 0);
	measure(&t);
	ok(least == 0 && near(most, 0.4, 1e-6) && near(mean, 0.3, 0.01), "Dropout scales what it keeps");
	free(t.data);
	t = run(dropout, 3, in, 1);
	measure(&t);
	ok(t.dtype == GG_BOOL && near(mean, 0.75, 0.02), "its mask");
	free(t.data);
	float logs[] = {-INFINITY, 0, logf(3)};
	t = run("input %x : f32[1, 3]\n%z = Multinomial(%x) {sample_size=10000, dtype=i64}\n", 1,
	        &(gg_tensor){GG_F32, {2, {1, 3}}, logs}, 0);
	measure(&t);
	ok(least == 1 && most == 2 && near(mean, 1.75, 0.02), "Multinomial");
	free(t.data);
}

/* ---- fused products ------------------------------------------------------------------------- */
static void check_expand(const char *activation, int nodes, const char *last)
{
	gg_diag d = {.tool = "arith"};
	gg_arena a = {0};
	gg_model *m = parse(&d, gg_printf(&a,
	                                  "input %%a : f16[N, 3]\ninput %%b : f16[3, 2]\ninput %%c : f16[2]\n"
	                                  "%%z = MatMulBias(%%a, %%b, %%c) {activation=\"%s\"}\n",
	                                  activation));
	gg_node *n = m->main->first;
	ok(n->op->expand(&d, n) && gg_check(&d, m), "MatMulBias with '%s' expands", activation);
	const gg_value *z = m->main->out[0]->value;
	ok(m->main->nnodes == (size_t)nodes && !strcmp(m->main->last->op->name, last) &&
	       !strcmp(z->name, "z") && z->dtype == GG_F16 && !strcmp(gg_shape_str(&a, &z->shape), "[N,2]"),
	   "into %d nodes", nodes);
	gg_model_free(m);
	gg_arena_fini(&a);
}

/* Scalars of more dims than the state: what the update gives keeps the state's shape. */
static void check_update(const char *op)
{
	gg_diag d = {.tool = "arith"};
	gg_arena a = {0};
	gg_model *m = parse(
	    &d, gg_printf(&a,
	                  "input %%g : f32[]\nparam %%w : f32[] = ones\nparam %%a : f32[] = zeros\n"
	                  "param %%b : f32[] = zeros\nconst %%s : f32[1, 1] = 0.5\n%s\n"
	                  "state %%w <- %%z\nstate %%a <- %%y\n",
	                  op));
	gg_node *n = m->main->first;
	ok(n->op->expand(&d, n) && gg_check(&d, m) && m->main->out[0]->value->shape.rank == 0, "%.40s", op);
	gg_model_free(m);
	gg_arena_fini(&a);
}

int main(void)
{
	check_refused();
	check_random();
	check_draws();
	check_expand("", 2, "Add");
	check_expand("Relu", 3, "Relu");
	check_expand("GeluTanh", 3, "Gelu");
	check_update("%z, %y = ApplyMomentum(%w, %a, %s, %g, %s)");
	check_update("%z, %y = FusedWeightScaleApplyMomentum(%s, %s, %w, %a, %s, %g, %s)");
	check_update("%z, %y, %x = FusedAdam(%s, %s, %s, %s, %s, %s, %w, %a, %b, %g)\nstate %b <- %x");
	check_update(
	    "%z, %y, %x = FusedAdamWeightDecay(%s, %s, %s, %s, %s, %s, %w, %a, %b, %g, %s)\nstate %b <- %x");
	return done();
}
