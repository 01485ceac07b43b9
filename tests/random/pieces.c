/* The pieces: formulas as text, and what needs shapes as functions. Add a line or a function for each pattern
 * that a new pass looks for. */
#include "kit.h"
#include <stdlib.h>
#include <string.h>

#define F (GG_FLOATS)
#define I (GG_INDICES)
#define N (GG_FLOATS | GG_INDICES)
#define B (GG_DT(GG_BOOL))

/* y: an operand that broadcasts with x. Nothing may jump where x moves a little. */
static const struct {
	gg_dtypes set;
	int least; /* rank */
	const char *text;
} formulas[] = {
    {F, 0, "Relu(x)"},
    {F, 0, "Sigmoid(x)"},
    {F, 0, "Tanh(x)"},
    {F, 0, "Sqrt(Abs(x))"},
    {F, 0, "LeakyRelu(x){alpha=0.2}"},
    {F, 0, "HardSigmoid(x){alpha=0.16666667; beta=0.5}"},
    {F, 0, "HardSwish(x)"},
    {F, 0, "Clip(x, 0, 6)"},
    {F, 0, "Clip(x, -1, _)"},
    {F, 0, "Elu(x)"},
    {F, 0, "Exp(Neg(Abs(x)))"},
    {F, 0, "Log(Add(Abs(x), 1))"},
    {N, 0, "Add(x, y)"},
    {N, 0, "Sub(x, y)"},
    {N, 0, "Mul(x, y)"},
    {N, 0, "Add(y, x)"},
    {N, 0, "Sub(y, x)"},
    {N, 0, "Max(x, y)"},
    {N, 0, "Min(x, y, x)"},
    {F, 0, "Div(x, Add(Abs(y), 1))"},
    {F, 0, "Sum(x, y, x)"},
    {F, 0, "Mean(x, y)"},
    {F, 0, "Relu(Add(x, y))"},
    {F, 0, "Relu(Sub(x, Relu(y)))"},
    {N, 0, "Where(Greater(x, y), x, y)"},
    {N, 0, "Where(Less(x, 0), 0, x)"},
    /* what is nothing */
    {N, 0, "Add(x, 0)"},
    {F, 0, "Add(x, -0.0)"},
    {N, 0, "Sub(x, 0)"},
    {N, 0, "Mul(x, 1)"},
    {N, 0, "Div(x, 1)"},
    {N, 0, "Mul(x, 0)"},
    {F, 0, "Pow(x, 1)"},
    {N, 0, "Neg(Neg(x))"},
    {N, 0, "Identity(Identity(x))"},
    {N, 0, "Abs(Abs(x))"},
    {F, 0, "Relu(Relu(x))"},
    {N, 0, "Max(x, x)"},
    {F, 0, "Relu(Max(x, 0))"},
    {N, 0, "Sub(x, x)"},
    {B, 0, "Not(Not(x))"},
    {B, 0, "And(x, Not(x))"},
    {F, 0, "Dropout(x)"},
    {N, 1, "Concat(x){axis=0}"},
    {N, 1, "Pad(x, [0, 0])"},
    {N, 0, "Sum(x)"},
    {N, 0, "Squeeze(Unsqueeze(x, [0]), [0])"},
    {N, 0, "Unsqueeze(Unsqueeze(x, [0]), [1])"},
    {N, 0, "Reshape(x, Shape(x))"},
    {N, 0, "Reshape(Reshape(x, [-1]), Shape(x))"},
    {N, 0, "Expand(x, Shape(x))"},
    {N, 2, "Reshape(x, [0, -1])"},
    {N, 2, "Flatten(Flatten(x))"},
    {N, 0, "Reshape(Flatten(x), [-1])"},
    {F, 0, "Reciprocal(Add(Abs(x), 0.5))"},
    {F, 0, "Mul(Mul(x, 2), 0.25)"},
    {F, 0, "Add(Mul(x, 2), Mul(y, 2))"},
    {N, 0, "AddN(x, x)"},
    {F, 0, "Pow(x, 2)"},
    {F, 0, "Sqrt(Pow(x, 2))"},
    {F, 0, "Mul(Neg(x), Neg(y))"},
    {F, 0, "Exp(Log(Abs(x)))"},
    {F, 0, "Log(Exp(Tanh(x)))"},
    /* activations spelled out */
    {F, 0, "Mul(Mul(x, Add(Erf(Div(x, 1.4142135623730951)), 1)), 0.5)"},
    {F, 0, "Mul(Mul(x, 0.5), Add(Erf(Mul(x, 0.7071067811865476)), 1))"},
    {F, 0, "Mul(x, Mul(Add(Erf(Div(x, 1.4142135623730951)), 1), 0.5))"},
    {F, 0, "Mul(Mul(x, Add(Erf(Div(x, 1.5)), 1)), 0.5)"},
    {F, 0, "Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.7978845608028654)), 1))"},
    {F, 0,
     "Mul(x, Mul(Add(Tanh(Mul(x, Mul(Add(Mul(Mul(x, x), 0.044715), 1), 0.7978845608028654))), 1), 0.5))"},
    {F, 0, "Mul(x, Sigmoid(Mul(x, 1.702)))"},
    {F, 0, "Mul(x, Sigmoid(x))"},
    {F, 0, "Mul(y, Sigmoid(x))"},
    {F, 0, "Mul(x, HardSigmoid(x){alpha=0.16666667; beta=0.5})"},
    {F, 0, "Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)"},
    {F, 0, "Mul(x, Div(Clip(Add(x, 3), 0, 6), 6))"},
    {F, 0, "Mul(x, Mul(Clip(Add(x, 3), 0, 6), 0.16666666666666666))"},
    /* normalisations spelled out, over the last axis */
    {F, 1,
     "Mul(Div(Sub(x, ReduceMean(x, [-1])), Sqrt(Add(ReduceMean(Pow(Sub(x, ReduceMean(x, [-1])), 2), [-1]), "
     "1e-5))), y)"},
    {F, 1, "Div(x, Sqrt(Add(ReduceMean(Mul(x, x), [-1]), 1e-5)))"},
    {F, 1, "Div(Exp(Tanh(x)), ReduceSum(Exp(Tanh(x)), [-1]))"},
    {F, 1, "Softmax(x){axis=-1}"},
    {F, 1, "LogSoftmax(x){axis=0}"},
    {F, 1, "Log(Softmax(x){axis=-1})"},
    {F, 1, "LpNormalization(x){axis=-1}"},
    /* reductions */
    {N, 1, "ReduceSum(x, [-1]){keepdims=0}"},
    {N, 1, "ReduceMax(x, [0])"},
    {F, 1, "ReduceMean(ReduceSum(x, [0]), [-1])"},
    {F, 1, "ReduceL2(x, [-1]){keepdims=0}"},
    {F, 2, "ReduceSumSquare(Mul(x, y), [0, 1]){keepdims=0}"},
    {F, 0, "ReduceMean(x)"},
    {N, 1, "Sub(x, ReduceMin(x, [-1]))"},
    {F, 1, "CumSum(x, [0])"},
    /* casts */
    {F, 0, "Cast(Cast(x){to=f64}){to=f32}"},
    {F, 0, "Cast(Cast(x){to=f32}){to=f16}"},
    {F, 0, "Cast(Cast(x){to=f16}){to=f32}"},
    {F, 0, "Cast(Cast(x){to=bf16}){to=f32}"},
    {F, 0, "Cast(Relu(Cast(x){to=f32})){to=bf16}"},
    {F, 0, "CastLike(x, y)"},
    {I, 0, "Cast(Cast(x){to=i32}){to=i64}"},
    {I, 0, "Cast(Cast(x){to=i64}){to=i32}"},
    {I, 0, "Cast(Cast(x){to=u8}){to=i64}"},
    {I, 0, "Cast(Cast(x){to=f32}){to=f16}"},
    {I, 0, "Cast(Cast(x){to=bool}){to=f32}"},
    {I, 0, "Cast(Cast(x){to=f64}){to=i64}"},
    {B, 0, "Cast(Cast(x){to=i32}){to=f32}"},
    {B, 0, "Cast(Not(x)){to=f32}"},
    /* integers and truth */
    {I, 0, "Div(x, 3)"},
    {I, 0, "Mod(x, 4)"},
    {I, 0, "Add(Mul(x, 2), 1)"},
    {I, 0, "BitwiseAnd(x, 7)"},
    {N, 0, "Equal(x, y)"},
    {N, 0, "Not(Less(x, y))"},
    {B, 0, "Or(x, y)"},
    {B, 0, "Where(x, x, y)"},
    {F, 0, "IsNaN(x)"},
    {N, 1, "Gather(x, Mod(Size(x), [1]))"},
    {N, 1, "Cast(ArgMax(x){axis=-1}){to=f32}"},
    {N, 2, "Gather(x, [0, 0, -1]){axis=1}"},
    {N, 0, "Add(Size(x), 1)"},
    {N, 2, "Expand(Gather(Shape(x), [0, 1]), [3, 2])"},
    {N, 1, "TopK:2(x, [1])"},
    /* movement */
    {N, 2, "Tile(x, Shape(Shape(x)))"},
    {N, 2, "Slice(Slice(x, [1], [100], [0]), [0], [-1], [1])"},
    {N, 2, "Slice(x, [0], [1000], [1], [2])"},
    {N, 1, "Slice(x, [0], [2147483647], [0])"},
    {N, 1, "Slice(x, [-1], [-1000], [0], [-1])"},
    {N, 1, "Concat(x, x, x){axis=-1}"},
    {N, 2, "Concat(Slice(x, [0], [1], [1]), Slice(x, [1], [1000], [1])){axis=1}"},
    {N, 2, "Trilu(x, 0)"},
    {F, 4, "DepthToSpace(SpaceToDepth(x){blocksize=2}){blocksize=2}"},
    {F, 1, "Pad(Relu(x), [1, 1], _, [0])"},
    /* tokens, tuples */
    {N, 0, "Load(x, UpdateState(_, x))"},
    {N, 0, "Depend(x, UpdateState(UpdateState(_, y), x))"},
    {N, 0, "TupleGetItem(x, y){index=1}"},
    {N, 0, "TupleGetItem(x, MakeTuple:2(x, y)){index=1}"},
    {F, 0, "Neg(MakeTuple:2(x, y))"},
    {N, 0, "Depend(x, UpdateState(_, Print('a', x, 'b'), Neg(y), x))"},
    {F, 0, "Depend(Neg(x), UpdateState(Print(x), Relu(x), Add(x, y)))"},
    {N, 0, "Depend(Relu(Cast(x){to=f32}), Print(x){string_pos=[0]; string_value=[\"\"]})"},
    /* gradients */
    {F, 0, "ReluGrad(Sigmoid(Relu(x)), Relu(x))"},
    {GG_DT(GG_F32), 0, "ReluGrad(Add(x, Relu(Add(x, x))), Relu(Add(x, x)))"},
    {GG_DT(GG_F32), 0, "ReluV2:2(Add(x, x))"},
    {I, 1, "Concat(Cast(Cast(x){to=i32}){to=i64}, [1, 2147483647]){axis=0}"},
    {I, 0, "Max(Cast(x){to=i64}, Cast(y){to=i64})"},
    /* quantisation */
    {GG_DT(GG_F32), 0, "DequantizeLinear(QuantizeLinear(x, 0.05), 0.05)"},
    {F, 1, "BCEWithLogitsLoss(x, Sigmoid(x), _, _){reduction=\"mean\"}"},
    {F, 2, "MeanVarianceNormalization(x){axes=[0, 1]}"},
    {F, 1, "InstanceNormalization(Unsqueeze(x, [0, 1]), [1], [0])"},
};

/* ---- operands ----------------------------------------------------------------------------- */
static bool broadcasts(const gg_value *a, const gg_value *b)
{
	gg_shape s;
	return a->dtype == b->dtype && gg_broadcast(&a->shape, &b->shape, &s) &&
	       gg_shape_count(&s) <= MOST_ELEMENTS;
}

static gg_value *some_weight(gen *r, const gg_value *x)
{
	gg_dim dim[GG_MAX_RANK];
	int rank = x->shape.rank, from = rank && chance(r, 50) ? (int)below(r, (uint32_t)rank) : 0;
	for (int i = from; i < rank; i++)
		dim[i - from] = chance(r, 25) || !gg_dim_known(x->shape.dim[i]) ? 1 : x->shape.dim[i];
	return weight(r, x->dtype, rank - from, dim, 0, 2);
}

/* Something that can be added to x. */
static gg_value *operand(gen *r, gg_value *x)
{
	gg_value *v = 0;
	if (!x)
		return 0;
	switch (below(r, 5)) {
	case 0:
		v = pick_like(r, x);
		break;
	case 1:
		v = pick(r, GG_DT(x->dtype), 0, 4);
		v = v && broadcasts(x, v) ? v : 0;
		break;
	case 2:
		v = number(r, x->dtype, (double)below(r, 5));
		break;
	case 3:
		v = pick_like(r, x);
		v = v ? v : x;
	}
	return v ? v : some_weight(r, x);
}

static gg_value *vector(gen *r, gg_dtype t, gg_dim n, double mean, double spread)
{
	return weight(r, t, 1, &n, mean, spread);
}

static const char *ints_text(gen *r, int n, const int64_t *x)
{
	gg_buf b = {0};
	gg_buf_str(&b, "[");
	for (int i = 0; i < n; i++)
		gg_buf_printf(&b, "%s%lld", i ? ", " : "", (long long)x[i]);
	gg_buf_str(&b, "]");
	const char *s = gg_strdup(&r->a, b.p);
	gg_buf_fini(&b);
	return s;
}

static const char *perm_text(gen *r, int rank)
{
	int64_t p[GG_MAX_RANK];
	for (int i = 0; i < rank; i++) {
		int k = (int)below(r, (uint32_t)i + 1);
		p[i] = p[k];
		p[k] = i;
	}
	return ints_text(r, rank, p);
}

static gg_value *permuted(gen *r, gg_value *x, const char *perm)
{
	return expr(r, gg_printf(&r->a, "Transpose(x){perm=%s}", perm), x, 0, 0, 0);
}

/* ---- formulas ------------------------------------------------------------------------------- */
static gg_value *formula_of(gen *r, gg_value *x)
{
	for (int k = 0; x && k < 200; k++) {
		uint32_t i = below(r, sizeof formulas / sizeof *formulas);
		if (GG_DT(x->dtype) & formulas[i].set && x->shape.rank >= formulas[i].least)
			return expr(r, formulas[i].text, x, operand(r, x), 0, 0);
	}
	return 0;
}

static void formula(gen *r)
{
	for (int k = 0; k < 3; k++) {
		uint32_t i = below(r, sizeof formulas / sizeof *formulas);
		gg_value *x = pick(r, formulas[i].set, formulas[i].least, 4);
		expr(r, formulas[i].text, x, operand(r, x), 0, 0);
	}
}

static gg_value *activation(gen *r, gg_value *x)
{
	return expr(r,
	            one_of(r,
	                   "Relu(x) Relu(x) Relu(x) Sigmoid(x) Tanh(x) HardSwish(x) Clip(x,0,6) "
	                   "LeakyRelu(x){alpha=0.1} Mul(x,Sigmoid(x)) Gelu(x) Gelu(x){approximate=\"tanh\"} "
	                   "Swish(x) Identity(x) HardSigmoid(x)"),
	            x, 0, 0, 0);
}

/* ---- convolutions ----------------------------------------------------------------------------- */
static bool take_state(gen *r, const gg_value *v)
{
	for (size_t i = 0; i < r->ntaken; i++)
		if (r->taken[i] == v->name)
			return false;
	GG_PUSH(r->taken, r->ntaken, r->cap_taken, v->name);
	return true;
}

static void becomes(gen *r, gg_value *param, gg_value *final)
{
	if (param && final && param->kind == GG_PARAM && !r->g->owner && r->g == r->m->main &&
	    param->dtype == final->dtype && gg_shape_eq(&param->shape, &final->shape) && take_state(r, param))
		gg_add_state(r->g, param, final);
}

static gg_value *batch_norm(gen *r, gg_value *x)
{
	if (!x || x->shape.rank < 2 || !gg_dim_known(x->shape.dim[1]))
		return 0;
	gg_dim c = x->shape.dim[1];
	gg_dtype t = x->dtype;
	bool train = !r->train && chance(r, 20);
	gg_value *mean = vector(r, t, c, 0, 0.5), *var = vector(r, t, c, 1, 0.5);
	gg_value *in[] = {x, vector(r, t, c, 1, 1), vector(r, t, c, 0, 1), mean, var};
	gg_value *y = node(r, "BatchNormalization",
	                   train           ? "training_mode=1"
	                   : chance(r, 30) ? "epsilon=0.01"
	                                   : 0,
	                   train ? 3 : 1, 5, in);
	if (y && train && mean->kind == GG_PARAM && var->kind == GG_PARAM) {
		becomes(r, mean, y->producer->out[1]);
		becomes(r, var, y->producer->out[2]);
	}
	return y;
}

/* What follows a Conv or product in networks, or nearly. */
static gg_value *tail(gen *r, gg_value *x)
{
	if (x && chance(r, 30) && x->shape.rank > 1 && gg_dim_known(x->shape.dim[1])) {
		gg_dim dim[] = {x->shape.dim[1], 1, 1, 1, 1};
		x = expr(r, "Add(x, y)", x, weight(r, x->dtype, x->shape.rank - 1, dim, 0, 1), 0, 0);
	}
	if (chance(r, 50))
		x = batch_norm(r, x);
	if (x && chance(r, 35)) {
		gg_value *z = pick_like(r, x);
		x = expr(r, "Add(x, y)", x, z ? z : operand(r, x), 0, 0);
	}
	return chance(r, 75) ? activation(r, x) : x;
}

static void conv(gen *r)
{
	bool deep = r->main == GG_F16 && chance(r, 25); /* three axes of space */
	gg_value *x = pick(r, F & ~(chance(r, 90) ? GG_DT(GG_F64) : 0), deep ? 5 : 3, 5);
	if (!x || !gg_dim_known(x->shape.dim[1]) || !x->shape.dim[1])
		return;
	int rank = x->shape.rank, sp = rank - 2;
	gg_dim c = x->shape.dim[1], m = 1 + (gg_dim)below(r, 6), dim[5], k = 1 + (gg_dim)below(r, 3);
	gg_dim group = chance(r, 20) ? c : 1;
	dim[0] = m = group > 1 ? group * (1 + below(r, 2)) : m;
	dim[1] = c / group;
	int64_t pads[6], strides[3];
	for (int i = 0; i < sp; i++) {
		dim[2 + i] = k;
		pads[i] = below(r, 2);
		pads[sp + i] = chance(r, 70) ? pads[i] : 1;
		strides[i] = chance(r, 75) ? 1 : 2;
	}
	const char *attrs = gg_printf(&r->a, "group=%lld; strides=%s; %s%s", (long long)group,
	                              ints_text(r, sp, strides),
	                              chance(r, 10) ? "auto_pad=\"SAME_UPPER\"" : "pads=", "");
	if (!strstr(attrs, "auto_pad"))
		attrs = gg_printf(&r->a, "%s%s", attrs, ints_text(r, 2 * sp, pads));
	if (chance(r, 25))
		x = expr(r, chance(r, 50) ? "Pad(x, [1, 0], _, [-1])" : "Pad(x, [1, 1, 2, 0], 0, [2, 1])", x,
		         0, 0, 0);
	gg_value *in[] = {x, weight(r, x ? x->dtype : GG_F32, rank, dim, 0, 0.7),
	                  chance(r, 50) && x ? vector(r, x->dtype, m, 0, 1) : &absent};
	x = node(r, "Conv", attrs, 1, in[2] == &absent ? 2 : 3, in);
	x = tail(r, x);
	if (x && rank == 4 && chance(r, 20))
		expr(
		    r,
		    one_of(r,
		           "MaxPool(x){kernel_shape=[2,2]} AveragePool(x){kernel_shape=[2,1];pads=[1,0,1,0]} "
		           "GlobalAveragePool(x) AveragePool(Pad(x,[0,1,0,1],_,[2,3])){kernel_shape=[2,2]} "
		           "MaxPool(Pad(x,[1,1],-inf,[2])){kernel_shape=[2,2];strides=[2,1]}"),
		    x, 0, 0, 0);
}

static void conv_transpose(gen *r)
{
	gg_value *x = pick(r, GG_DT(GG_F32), 4, 4);
	if (!x || !gg_dim_known(x->shape.dim[1]) || !x->shape.dim[1])
		return;
	gg_dim dim[] = {x->shape.dim[1], 2, 2, 2};
	tail(r, expr(r, "ConvTranspose(x, y){strides=[2, 1]}", x, weight(r, GG_F32, 4, dim, 0, 1), 0, 0));
}

static void norm(gen *r)
{
	gg_value *x = pick(r, F, 2, 5);
	x = batch_norm(r, chance(r, 30) ? activation(r, x) : x);
	if (x && chance(r, 50)) {
		gg_value *z = pick_like(r, x);
		x = expr(r, "Add(x, y)", x, z ? z : some_weight(r, x), 0, 0);
	}
	if (chance(r, 70))
		expr(r, "Relu(x)", x, 0, 0, 0);
}

static void layer_norm(gen *r)
{
	static const char *const square[] = {"Pow(w, 2)", "Mul(w, w)"};
	gg_value *x = pick(r, F, 2, 4), *d;
	if (!x || !gg_dim_known(x->shape.dim[x->shape.rank - 1]))
		return;
	int last = x->shape.rank - 1;
	const char *axes = chance(r, 70)   ? "[-1]"
	                   : chance(r, 50) ? ints_text(r, 1, (int64_t[]){last})
	                                   : "[-2, -1]";
	gg_dim dim[] = {x->shape.dim[last - 1], x->shape.dim[last]};
	int rank = strchr(axes, ',') && gg_dim_known(dim[0]) ? 2 : 1;
	gg_value *s = weight(r, x->dtype, rank, dim + 2 - rank, 1, 0.5);
	d = chance(r, 60) ? expr(r, gg_printf(&r->a, "Sub(x, ReduceMean(x, %s))", axes), x, 0, 0, 0) : x;
	const char *root = gg_printf(&r->a, "Sqrt(Add(ReduceMean(%s, %s), 1e-5))", square[below(r, 2)], axes);
	const char *form[] = {"Mul(Div(x, %s), y)", "Mul(Mul(x, Reciprocal(%s)), y)",
	                      "Mul(Mul(x, Div(1, %s)), y)"};
	x = expr(r, gg_printf(&r->a, form[below(r, 3)], root), d, s, 0, d);
	if (x && chance(r, 60))
		expr(r, "Add(x, y)", x,
		     chance(r, 80) ? weight(r, x->dtype, rank, dim + 2 - rank, 0, 1) : operand(r, x), 0, 0);
}

/* ---- products -------------------------------------------------------------------------------- */
static void linear(gen *r)
{
	gg_value *x = pick(r, F, 1, 4), *b = &absent;
	if (!x || !gg_dim_known(x->shape.dim[x->shape.rank - 1]))
		return;
	gg_dim m = 1 + (gg_dim)below(r, 8), dim[] = {x->shape.dim[x->shape.rank - 1], m};
	gg_dtype t = x->dtype;
	if (x->shape.rank == 2 && chance(r, 40)) {
		gg_dim turned[] = {dim[1], dim[0]};
		bool trans = chance(r, 50);
		if (chance(r, 70))
			b = chance(r, 70) ? vector(r, t, m, 0, 1) : number(r, t, 0.5);
		x = expr(r,
		         gg_printf(&r->a, "Gemm(x, y, z){transB=%d; alpha=%s; beta=%s}", trans,
		                   one_of(r, "1 1 0.5"), one_of(r, "1 1 2 0")),
		         x, weight(r, t, 2, trans ? turned : dim, 0, 1), b, 0);
	} else {
		x = expr(r, "MatMul(x, y)", x, weight(r, t, 2, dim, 0, 1), 0, 0);
		if (x && chance(r, 75))
			x = expr(r, "Add(x, y)", x, chance(r, 80) ? vector(r, t, m, 0, 1) : operand(r, x), 0,
			         0);
	}
	tail(r, x);
}

static void attention(gen *r)
{
	gg_dim b = 1 + (gg_dim)below(r, 2), h = 1 + (gg_dim)below(r, 2), s = 1 + (gg_dim)below(r, 5), d = 4;
	gg_dtype t = r->main == GG_F64 ? GG_F32 : r->main;
	gg_dim dim[] = {b, h, s, d}, flat[] = {b, s, h * d}, mask[] = {s, s};
	const char *split = gg_printf(&r->a, "Transpose(Reshape(x, [%d, %d, %d, 4])){perm=[0, 2, 1, 3]}",
	                              (int)b, (int)s, (int)h);
	gg_value *q[3];
	for (int i = 0; i < 3; i++)
		q[i] = chance(r, 60) ? expr(r, split, fresh(r, t, 3, flat), 0, 0, 0) : fresh(r, t, 4, dim);
	gg_value *w = chance(r, 50) /* no row is masked everywhere: its NaN need not stay */
	                  ? weight(r, t, 2, mask, 0, 3)
	                  : expr(r, "Or(x, EyeLike(x))", fresh(r, GG_BOOL, 2, mask), 0, 0, 0);
	const char *scores = chance(r, 50)   ? "Mul(MatMul(x, Transpose(y){perm=[0, 1, 3, 2]}), 0.5)"
	                     : chance(r, 50) ? "Div(MatMul(x, Transpose(y){perm=[0, 1, 3, 2]}), 2)"
	                                     : "MatMul(Mul(x, 0.5), Transpose(y){perm=[0, 1, 3, 2]})";
	if (w && chance(r, 60))
		scores = gg_printf(&r->a, w->dtype == GG_BOOL ? "Where(w, %s, -inf)" : "Add(%s, w)", scores);
	gg_value *y = expr(r, gg_printf(&r->a, "MatMul(Softmax(%s){axis=-1}, z)", scores), q[0], q[1], q[2],
	                   w);
	if (chance(r, 60))
		expr(r, "Reshape(Transpose(x){perm=[0, 2, 1, 3]}, [0, 0, -1])", y, 0, 0, 0);
}

/* ---- layouts ---------------------------------------------------------------------------------- */
static void transposes(gen *r)
{
	gg_value *x = pick(r, chance(r, 80) ? F : GG_FLOATS | GG_INDICES | B, 2, 5), *y;
	if (!x)
		return;
	int rank = x->shape.rank;
	const char *p = perm_text(r, rank), *last;
	x = permuted(r, x, p);
	for (int k = (int)below(r, 3); x && k; k--)
		x = formula_of(r, x);
	if (!x)
		return;
	rank = x->shape.rank;
	y = chance(r, 40) ? pick_like(r, x) : 0;
	y = y ? permuted(r, y, perm_text(r, rank)) : 0;
	last = perm_text(r, rank);
	if (y && chance(r, 50))
		x = node(r, "Concat", gg_printf(&r->a, "axis=%d", (int)below(r, (uint32_t)rank)), 1, 2,
		         (gg_value *[]){x, x});
	x = permuted(r, x, last);
	if (x && chance(r, 30))
		permuted(r, x, perm_text(r, rank));
}

static void images(gen *r) /* channels last, and back */
{
	gg_value *x = pick(r, GG_DT(r->main), 4, 4);
	x = expr(r, "Transpose(x){perm=[0, 2, 3, 1]}", x, 0, 0, 0);
	for (int k = (int)below(r, 3); x && k; k--) {
		gg_value *y = formula_of(r, x);
		x = y && y->shape.rank == 4 ? y : x;
	}
	expr(r, chance(r, 80) ? "Transpose(x){perm=[0, 3, 1, 2]}" : "Transpose(x){perm=[0, 2, 3, 1]}", x, 0,
	     0, 0);
}

static void shapes(gen *r)
{
	gg_value *x = pick(r, GG_FLOATS | GG_INDICES, 2, 4);
	expr(r,
	     one_of(r, "Reshape(x,Concat(Gather(Shape(x),[0]),[-1]){axis=0}) "
	               "Unsqueeze(Reshape(x,[-1]),[0]) "
	               "Reshape(x,Concat(Mul(Gather(Shape(x),[0]),Gather(Shape(x),[1])),[-1]){axis=0}) "
	               "Squeeze(Slice(x,[0],[1],[0]),[0]) "
	               "Reshape(Transpose(Reshape(x,[1,0,-1])),[-1]) "
	               "Reshape(x,Slice(Concat(Shape(x),[1]){axis=0},[0],[100])) "
	               "Expand(x,Concat([2],Shape(x)){axis=0}) "
	               "Cast(ConstantOfShape(Shape(x))){to=f32}"),
	     x, 0, 0, 0);
}

static void parts(gen *r)
{
	gg_value *x = pick(r, F, 2, 4), *all[4];
	if (!x || x->shape.rank < 2)
		return;
	int axis = (int)below(r, (uint32_t)x->shape.rank), n = 2;
	if (!gg_dim_known(x->shape.dim[axis]) || x->shape.dim[axis] < 2)
		return;
	gg_value *y = node(r, "Split", gg_printf(&r->a, "axis=%d; num_outputs=%d", axis, n), n, 1, &x);
	if (!y || !chance(r, 70))
		return;
	for (int i = 0; i < n; i++) {
		gg_value *part = y->producer->out[i];
		all[i] = chance(r, 50) ? activation(r, part) : part;
	}
	if (all[0] && all[1])
		node(r, "Concat", gg_printf(&r->a, "axis=%d", axis - (chance(r, 30) ? x->shape.rank : 0)), 1,
		     n, all);
}

/* ---- the same again, bodies ------------------------------------------------------------------- */
static void again(gen *r)
{
	gg_value *v = r->npool ? r->pool[below(r, (uint32_t)r->npool)] : 0;
	gg_value *in[64];
	const char *name[8];
	gg_node *n = v ? v->producer : 0;
	if (!n || n->nout > 8 || n->nin > 64 || n->ncap || gg_body(n, 0) || n->op->flags & GG_RANDOM)
		return;
	for (int i = 0; i < n->nin; i++)
		in[i] = n->in[i].value;
	for (int i = 0; i < n->nout; i++)
		name[i] = gg_fresh_name(r->g, gg_printf(&r->a, "t%d", i));
	gg_node *copy = gg_add_node(n->graph, 0, n->op, n->nin, in, n->nout, name);
	gg_copy_attrs(copy, n);
	if (gg_infer_node(&r->d, copy))
		for (int i = 0; i < copy->nout; i++)
			GG_PUSH(r->pool, r->npool, r->cap_pool, copy->out[i]);
	else
		gg_remove_node(copy);
}

/* Some nodes in a body, whose result is like x: v, an input of the body, at the least. */
static void fill(gen *r, gg_graph *g, size_t from, const gg_value *x)
{
	gen b = *r;
	b.pool = 0;
	b.npool = b.cap_pool = 0;
	b.g = g;
	for (size_t i = from; i < g->nin; i++)
		GG_PUSH(b.pool, b.npool, b.cap_pool, g->in[i]);
	gg_value *y = g->in[from];
	for (int k = 1 + (int)below(&b, 4); k; k--)
		piece(&b);
	for (size_t i = from; i < b.npool; i++)
		if (b.pool[i]->dtype == x->dtype && gg_shape_eq(&b.pool[i]->shape, &x->shape) &&
		    chance(&b, 70))
			y = b.pool[i];
	gg_add_output(g, y);
	r->drawn = b.drawn;
	r->a = b.a;
	free(b.pool);
}

static void finish(gen *r, gg_node *n)
{
	if (!gg_infer_node(&r->d, n)) {
		gg_remove_node(n);
		return;
	}
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]->shape.rank >= 0)
			GG_PUSH(r->pool, r->npool, r->cap_pool, n->out[i]);
}

static void branch(gen *r)
{
	gg_value *x = pick(r, F, 1, 4), *y = x ? pick_like(r, x) : 0, *test = pick(r, B, 0, 0);
	const char *name = gg_fresh_name(r->g, "t0");
	if (!x || !test || r->g != r->m->main)
		return;
	gg_graph *yes = gg_graph_new(r->m, "then"), *no = gg_graph_new(r->m, "else");
	gg_node *n = gg_add_node(r->g, 0, gg_op_find("If"), 1, &test, 1, &name);
	gg_set_attr_graph(n, "then_branch", yes);
	gg_set_attr_graph(n, "else_branch", no);
	gg_add_capture(n, x);
	if (y)
		gg_add_capture(n, y);
	fill(r, yes, 0, x);
	fill(r, no, 0, x);
	finish(r, n);
}

static void loop(gen *r)
{
	gg_value *x = pick(r, F, 1, 3), *y = x ? pick_like(r, x) : 0;
	gg_shape scalar = {0};
	const char *name = gg_fresh_name(r->g, "t0");
	if (!x || r->g != r->m->main)
		return;
	int64_t trips[] = {1 + below(r, 3)};
	gg_value *in[] = {ints(r, 1, trips), 0, x};
	gg_graph *b = gg_graph_new(r->m, "body");
	gg_node *n = gg_add_node(r->g, 0, gg_op_find("Loop"), 3, in, 1, &name);
	gg_set_attr_graph(n, "body", b);
	gg_add_input(b, "i", GG_I64, &scalar);
	gg_add_output(b, gg_add_input(b, "go", GG_BOOL, &scalar));
	gg_add_input(b, "v", x->dtype, &x->shape);
	if (y)
		gg_add_capture(n, y);
	fill(r, b, 2, x);
	finish(r, n);
}

/* ---- state ------------------------------------------------------------------------------------ */
static gg_value *parameter(gen *r, const gg_value *like, double mean)
{
	gg_data *d = gg_data_fill(r->m, GG_FILL_UNIFORM, 1 + below(r, 1000), mean, mean + 1);
	return gg_add_const(r->g, GG_PARAM, gg_fresh_name(r->g, "p"), like->dtype, &like->shape, d);
}

static gg_value *gradient(gen *r, gg_dtypes set)
{
	gg_value *g = r->g == r->m->main && !r->train ? pick(r, set, 0, 3) : 0;
	return g && gg_shape_known(&g->shape) ? g : 0;
}

static void momentum_step(gen *r)
{
	static const char *const forms[] = {"z",
	                                    "Mul(z, 0.5)",
	                                    "Add(Mul(x, 0.01), z)",
	                                    "Mul(Add(Mul(x, 0.01), z), 0.5)",
	                                    "Mul(AddN(Mul(x, 0.01), z), 0.5)",
	                                    "Mul(Sum(Mul(x, w), z), 0.5)",
	                                    "Cast(Cast(z){to=f16}){to=f32}"};
	bool fused = chance(r, 30);
	for (int k = 1 + (int)below(r, 3); k; k--) {
		gg_value *g = gradient(r, chance(r, 80) ? GG_DT(GG_F32) : GG_DT(GG_F16));
		if (!g)
			return;
		gg_value *p = parameter(r, g, -0.5), *a = parameter(r, g, 0);
		const char *form = gg_printf(&r->a, "ApplyMomentum:2(x, y, 0.1, %s, 0.9){use_nesterov=%d}",
		                             forms[below(r, 7)], chance(r, 10));
		if (fused)
			form = "FusedScaleApplyMomentum:2(0.5, x, y, 0.1, z, 0.9)";
		gg_value *y = expr(r, form, p, a, g, parameter(r, g, 0));
		becomes(r, p, y);
		if (y)
			becomes(r, a, y->producer->out[1]);
	}
}

static void adam_step(gen *r)
{
	gg_value *g = gradient(r, GG_DT(GG_F32));
	if (!g)
		return;
	gg_value *p = parameter(r, g, -0.5), *m = parameter(r, g, -0.5), *v = parameter(r, g, 0);
	m->data->a = -0.5;
	gg_value *nm = expr(r, "Add(Mul(x, 0.9), Mul(y, 0.1))", m, g, 0, 0);
	gg_value *nv = expr(r,
	                    chance(r, 50) ? "Add(Mul(x, 0.999), Mul(Mul(y, y), 0.001))"
	                                  : "Add(Mul(x, 0.999), Mul(Square(y), 0.001))",
	                    v, g, 0, 0);
	gg_value *u = nm ? expr(r,
	                        chance(r, 70) ? "Div(x, Add(Sqrt(y), 1e-6))"
	                                      : "Div(x, Add(Div(Sqrt(y), 0.5), 1e-6))",
	                        nm, nv, 0, 0)
	                 : 0;
	static const char *const forms[] = {"Sub(x, Mul(y, 0.01))", "Sub(x, Mul(Add(Mul(x, 0.01), y), 0.01))",
	                                    "Sub(Mul(x, 0.99), Mul(y, 0.01))"};
	becomes(r, p, u ? expr(r, forms[below(r, 3)], p, u, 0, 0) : 0);
	becomes(r, m, nm);
	becomes(r, v, nv);
}

static void assign(gen *r)
{
	gg_value *x = gradient(r, GG_NUMBERS), *p = x ? parameter(r, x, 0) : 0;
	if (x)
		expr(r, "Add(Load(x, _), y)", p, x, 0, 0);
	becomes(r, p,
	        x ? expr(r, chance(r, 70) ? "Assign(x, y)" : "Assign(x, Depend(y, UpdateState(_, x)))", p, x,
	                 0, 0)
	          : 0);
}

static void casts_of_parameters(gen *r)
{
	gg_value *x = gradient(r, GG_DT(GG_F32));
	for (int k = 1 + (int)below(r, 3); x && k; k--)
		expr(r, one_of(r, "Cast(x){to=f16} Cast(x){to=f16} Cast(x){to=bf16}"), parameter(r, x, 0), 0,
		     0, 0);
}

/* ---- ranks, chance, what is rare ---------------------------------------------------------------- */
/* A parameter that is gathered again for the gradients, as a parallel optimiser does: copies of one number
 * that wait for something. */
static void recomputed(gen *r, gg_value *x)
{
	static const char *const copies[] = {
	    "AllGather(Depend(x, UpdateState(_, Relu(x)))){rank_size=3; fusion=1; duplicated=1}",
	    "AllGather(Cast(Depend(x, UpdateState(_, Abs(x)))){to=f32}){rank_size=3; fusion=1; duplicated=1}",
	    "AllGather(Exp(x)){rank_size=3; fusion=1; duplicated=1}"};
	for (int k = 0; k < 4; k++) {
		const char *form = k ? copies[chance(r, 80) ? k % 2 : 2]
		                     : "AllGather(Sin(x)){rank_size=3; fusion=1}";
		gg_value *y = expr(r, form, x, 0, 0, 0);
		if (!y)
			return;
		gg_set_loc(y->producer, 2, (const char *const[]){"random", "parallel_optimizer"});
		expr(r, "Neg(x)", y, 0, 0, 0);
	}
}

void collectives(gen *r)
{
	static const char *const forms[] = {
	    "AllReduce(x){fusion=1; rank_size=3}",
	    "AllReduce(Relu(x)){fusion=1; rank_size=3}",
	    "AllReduce(x){reduction=\"mean\"; rank_size=3}",
	    "AllReduce(x){reduction=\"max\"; fusion=2}",
	    "Add(AllReduce(x){fusion=3; rank_size=3}, AllReduce(Tanh(x)){fusion=3; rank_size=3})",
	    "AllReduce(Neg(AllReduce(x){fusion=3; rank_size=3})){fusion=3; rank_size=3}",
	    "AllGather(x){rank_size=3; fusion=1}",
	    "AllGather(Neg(x)){rank_size=3; fusion=1}",
	    "AllGather:2(x, Tanh(x)){rank_size=3; fusion=2}",
	    "AllGather(Depend(x, UpdateState(_, Relu(x)))){rank_size=3; fusion=1; duplicated=1}",
	    "AllToAll(Concat(x, x, x){axis=-1}){split_count=3; split_dim=-1; concat_dim=-2; rank_size=3}",
	    "ReduceScatter(Concat(x, x, x){axis=0}){rank_size=3}",
	    "Broadcast(x){root=1}"};
	gg_value *x[3]; /* chains of them alone would merge nothing */
	for (int k = 0; k < 3; k++)
		x[k] = pick(r, GG_DT(GG_F32), 2, 3);
	if (chance(r, 50))
		recomputed(r, x[0]);
	for (int k = 3 + (int)below(r, 5); k; k--)
		expr(r, forms[below(r, sizeof forms / sizeof *forms)], x[below(r, 3)], 0, 0, 0);
}

/* Gradients of convolutions that are added, of a normalisation and its activation, of Relu by its mask. */
static void gradients(gen *r)
{
	gg_value *x = pick(r, GG_DT(GG_F32), 4, 4), *v;
	if (!x || !gg_shape_known(&x->shape) || !x->shape.dim[1])
		return;
	gg_dim c = x->shape.dim[1], out[] = {c, 3, 2, 2};
	v = expr(r, "Relu(Add(ConvTranspose(x, y), ConvTranspose(Tanh(x), z)))", x,
	         weight(r, GG_F32, 4, out, 0, 1), weight(r, GG_F32, 4, out, 0, 1), 0);
	gg_value *s = vector(r, GG_F32, c, 1, 0.5), *b = vector(r, GG_F32, c, 0, 1),
	         *mean = vector(r, GG_F32, c, 0, 1);
	gg_value *in[] = {x, s, b, mean, vector(r, GG_F32, c, 1, 0.5), x};
	bool add = chance(r, 40);
	v = node(r, add ? "BatchNormAddRelu" : "BatchNormRelu", "training_mode=1", 3, add ? 6 : 5, in);
	v = expr(r, chance(r, 70) ? "ReluGrad(Tanh(y), x)" : "ReluGrad(y, x)", v, x, 0, 0);
	node(r, "BatchNormGrad", "training_mode=1", 3, 3, (gg_value *[]){v, x, s});
	v = expr(r, "ReluV2:2(Add(x, x))", x, 0, 0, 0);
	if (v)
		expr(r, "ReluGradV2(Add(x, y), z)", x, v, v->producer->out[1], 0);
}

static void packed(gen *r) /* queries, keys and values from one input, and heads where they lie */
{
	gg_dim b = 1 + (gg_dim)below(r, 2), s = 1 + (gg_dim)below(r, 4), in[] = {b, s, 8}, w[] = {8, 8};
	gg_dtype t = r->main == GG_F64 ? GG_F16 : r->main;
	gg_value *x = fresh(r, t, 3, in), *q[3];
	bool plain = chance(r, 50);
	for (int i = 0; i < 3; i++) {
		q[i] = expr(r, plain ? "Add(MatMul(x, y), z)" : "MatMulBias(x, y, z)", x,
		            weight(r, t, 2, w, 0, 0.5), vector(r, t, 8, 0, 1), 0);
		if (plain)
			q[i] = expr(r, "Transpose(Reshape(x, [0, 0, 2, 4])){perm=[0, 2, 1, 3]}", q[i], 0, 0,
			            0);
	}
	if (plain)
		expr(r,
		     "Reshape(Transpose(MatMul(Softmax(Mul(MatMul(x, Transpose(y){perm=[0, 1, 3, 2]}), "
		     "0.5)){axis=-1}, z)"
		     "){perm=[0, 2, 1, 3]}, [0, 0, 8])",
		     q[0], q[1], q[2], 0);
	else
		expr(r, "Attention(x, y, z){q_num_heads=2; kv_num_heads=2; scale=0.5}", q[0], q[1], q[2], 0);
}

static void integers(gen *r) /* that surely fit into 32 bits, and some that may not */
{
	expr(r,
	     one_of(r, "Max(Cast(x){to=i64},[5]) Concat(Cast(Reshape(x,[-1])){to=i64},[1,2]){axis=0} "
	               "Min(Cast(x){to=i64},[3000000000]) Where(Greater(x,3),Cast(x){to=i64},[7]) "
	               "Gather(Cast(Reshape(x,[-1])){to=i64},[0]) Sub(Cast(x){to=i64},[2])"),
	     pick(r, GG_INDICES | GG_DT(GG_I8), 1, 3), 0, 0, 0);
}

static void columns(gen *r) /* sums over long axes */
{
	gg_dim dim[] = {64, 4};
	gg_value *x = fresh(r, r->main, 2, dim);
	expr(r, "ReduceSum(Abs(x), [0]){keepdims=0}", x, 0, 0, 0);
}

static void by_chance(gen *r)
{
	expr(r,
	     one_of(r, "Add(x,RandomNormalLike(x){seed=1}) Add(x,RandomUniformLike(x){seed=2}) "
	               "Dropout(x,0.5,_) Mul(x,RandomNormalLike(x))"),
	     pick(r, GG_DT(GG_F32), 1, 3), 0, 0, 0);
}

static void rare(gen *r)
{
	gg_value *x = pick(r, GG_DT(GG_F16) | GG_DT(GG_F32), 3, 5);
	if (!x || !gg_dim_known(x->shape.dim[1]))
		return;
	expr(r,
	     one_of(r, "GroupNormalization(x,y,z){num_groups=1} InstanceNormalization(x,y,z) PRelu(x,0.25) "
	               "GlobalMaxPool(x) LRN(x){size=3} Einsum(x,x){equation=\"abc,abc->ab\"} "
	               "ReduceLogSumExp(x,[1]) Resize(x,_,_,[2,2,4]) OneHot(ArgMax(x){axis=0},[3],[0,1])"),
	     x, vector(r, x->dtype, x->shape.dim[1], 1, 1), vector(r, x->dtype, x->shape.dim[1], 0, 1), 0);
}

static void reader(gen *r) /* a second reader of something inside */
{
	gg_value *v = r->npool ? r->pool[below(r, (uint32_t)r->npool)] : 0;
	if (v && chance(r, 50))
		formula_of(r, v);
	else if (v && r->g == r->m->main)
		add_result(r, v);
}

static const struct {
	int weight;
	void (*make)(gen *r);
} pieces[] = {
    {30, formula},
    {12, conv},
    {8, linear},
    {5, norm},
    {5, layer_norm},
    {3, attention},
    {8, transposes},
    {3, images},
    {4, shapes},
    {3, parts},
    {6, again},
    {2, branch},
    {2, loop},
    {4, momentum_step},
    {2, adam_step},
    {1, assign},
    {2, casts_of_parameters},
    {1, by_chance},
    {2, rare},
    {5, reader},
    {1, conv_transpose},
    {2, gradients},
    {2, packed},
    {1, columns},
    {2, integers},
};

void piece(gen *r)
{
	int total = 0, at;
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
		total += pieces[i].weight;
	at = (int)below(r, (uint32_t)total);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
		if ((at -= pieces[i].weight) < 0) {
			pieces[i].make(r);
			return;
		}
}
