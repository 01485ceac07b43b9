/* Optimiser updates: element by element over state, in place where the plan lets them. */
#include "cpu.h"
#include <string.h>

enum { PIECE = 16384 }; /* elements of one thread's turn */

/* Where an op's inputs are: var and what follows it; the slots of scale and weight decay, or -1. */
typedef struct update {
	const char *op;
	int var, decay, scale, width; /* width: inputs of one parameter, 0: the op has one */
} update;

static const update updates[] = {
    {"ApplyMomentum", 0, -1, -1, 0},           {"FusedScaleApplyMomentum", 1, -1, 0, 0},
    {"FusedWeightApplyMomentum", 1, 0, -1, 0}, {"FusedWeightScaleApplyMomentum", 2, 0, 1, 0},
    {"CombineMomentum", 1, -1, 0, 6},          {"CombineMomentumWeight", 2, 0, 1, 7},
};

static const update *find_update(const char *op)
{
	for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
		if (!strcmp(updates[i].op, op))
			return &updates[i];
	return 0;
}

static float scalar(const gg_call *c, int i, float or)
{
	return i >= 0 && cpu_in(c, i) ? *cpu_in(c, i) : or ;
}

/* An output that nobody reads is written to scratch, which has room for a piece a thread. */
static float *result(const gg_call *c, int out, int64_t at, float *spare)
{
	float *p = out < c->nout && c->out[out].dtype ? c->out[out].data : 0;
	return p ? p + at : spare;
}

static void momentum(gg_call *c, const update *u, int in, int out)
{
	const float *w = cpu_in(c, in + u->var), *m = cpu_in(c, in + u->var + 1),
	            *g = cpu_in(c, in + u->var + 3);
	const gg_attr *nesterov = gg_find_attr(c->node, "use_nesterov");
	float p[] = {scalar(c, u->decay < 0 ? -1 : in + u->decay, 0),
	             scalar(c, u->scale < 0 ? -1 : in + u->scale, 1), scalar(c, in + u->var + 2, 0),
	             scalar(c, in + u->var + 4, 0), nesterov && nesterov->i};
	int64_t n = gg_count(&c->in[in + u->var]);
#pragma omp parallel for num_threads(cpu_threads) if (n > PIECE)
	for (int64_t at = 0; at < n; at += PIECE) {
		float spare[PIECE];
		vec->momentum(cpu_min(PIECE, n - at), result(c, out, at, spare),
		              result(c, out + 1, at, spare), w + at, m + at, g + at, p);
	}
}

static bool run_momentum(gg_call *c)
{
	const update *u = find_update(c->node->op->name);
	for (int i = 0, in = 0; u->width ? in < c->nin : i < 1; i++, in += u->width)
		momentum(c, u, in, 2 * i);
	return true;
}

static bool run_adam(gg_call *c)
{
	const float *w = cpu_in(c, 6), *m = cpu_in(c, 7), *v = cpu_in(c, 8), *g = cpu_in(c, 9);
	bool decay = !strcmp(c->node->op->name, "FusedAdamWeightDecay");
	bool factor = decay && !strcmp(gg_get_string(c->node, "decay"), "factor");
	float p[9], d = decay ? scalar(c, 10, 0) : 0;
	int64_t n = gg_count(&c->in[6]);
	for (int i = 0; i < 6; i++)
		p[i] = scalar(c, i, 0);
	p[6] = factor ? d : 1;
	p[7] = factor ? 0 : d;
	p[8] = scalar(c, decay ? 11 : 10, 1);
#pragma omp parallel for num_threads(cpu_threads) if (n > PIECE)
	for (int64_t at = 0; at < n; at += PIECE) {
		float spare[PIECE];
		vec->adam(cpu_min(PIECE, n - at), result(c, 0, at, spare), result(c, 1, at, spare),
		          result(c, 2, at, spare), w + at, m + at, v + at, g + at, p);
	}
	return true;
}

const gg_kernel cpu_momentum = {"cpu_momentum", 0, run_momentum, 0};
const gg_kernel cpu_adam = {"cpu_adam", 0, run_adam, 0};
