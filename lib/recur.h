/* RNN, GRU and LSTM: directions, layouts, lengths and activations; an op adds the cell.
 *
 * For each direction and batch entry the steps run in order; a cell gets the inputs' part of all
 * gates (bias of the input included) and turns the state before into the state after. */
#ifndef GG_RECUR_H
#define GG_RECUR_H

#include "nnkit.h"

enum { GG_RECUR_X, GG_RECUR_W, GG_RECUR_R, GG_RECUR_B, GG_RECUR_LENS, GG_RECUR_H0, GG_RECUR_C0, GG_RECUR_P };

typedef struct gg_squash { /* an activation with its parameters */
	const char *name;  /* of the op that is the same */
	double (*f)(double x, double alpha, double beta);
	double alpha, beta, clip; /* clip: |x| at most, before f */
} gg_squash;
static inline double gg_squash_at(const gg_squash *s, double x)
{
	x = x > s->clip ? s->clip : x < -s->clip ? -s->clip : x;
	return s->f(x, s->alpha, s->beta);
}

typedef struct gg_cell { /* one direction at work */
	int64_t hidden;
	bool flag;                   /* linear_before_reset, input_forget */
	const double *r, *rb, *peep; /* R [gates*hidden, hidden], bias of R, peepholes or NULL */
	gg_squash act[3];
	double *gate;           /* [gates*hidden]: the inputs' part */
	double *h, *c;          /* state: before, to be overwritten with after */
	double *next, *scratch; /* [hidden] and [gates*hidden] for the cell's use */
} gg_cell;

typedef struct gg_recur_op {
	int gates, funcs;
	const char *defaults[3]; /* activations */
	const char *flag;        /* attribute, or NULL */
	bool memory;             /* has the state c */
	void (*step)(gg_cell *k);
} gg_recur_op;

extern const gg_recur_op gg_recur_rnn, gg_recur_gru, gg_recur_lstm;

bool gg_infer_recur(gg_infer *f, const gg_recur_op *op);
bool gg_eval_recur(gg_eval *e, const gg_recur_op *op);
/* No entry of sequence_lens, where there are any, is outside of the input's steps. */
bool gg_recur_lengths(gg_eval *e, int64_t steps);
/* The first `count` activations, with what attributes say of them. */
void gg_recur_activations(const gg_node *n, const gg_recur_op *op, int count, gg_squash *out);
double gg_dot(const double *a, const double *b, int64_t n);

#define GG_RECUR_ATTRS \
	{"activation_alpha", GG_ATTR_FLOATS}, {"activation_beta", GG_ATTR_FLOATS}, \
	    {"activations", GG_ATTR_STRINGS}, {"clip", GG_ATTR_FLOAT}, \
	    {"direction", GG_ATTR_STRING, .def = "\"forward\""}, {"hidden_size", GG_ATTR_INT}, \
	{ \
		"layout", GG_ATTR_INT, .def = "0" \
	}
#define GG_RECUR_IN \
	{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_DT(GG_I32)}, \
	{ \
		GG_FLOATS, 'T' \
	}

#endif
