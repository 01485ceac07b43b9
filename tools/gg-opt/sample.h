/* Made-up inputs for --verify, and what a graph gives for them on ref. */
#ifndef GG_OPT_SAMPLE_H
#define GG_OPT_SAMPLE_H

#include "../../lib/gg.h"

typedef enum sample_kind { NORMAL, LOG_UNIFORM, SPECIAL, SAMPLE_KINDS } sample_kind;
extern const char *const sample_kind_name[SAMPLE_KINDS];

typedef struct sample {
	sample_kind kind;
	uint64_t seed;
	int turn;  /* special: an input that is tame in one turn is wild in the next */
	int world; /* ranks, each with inputs of its own; 0: one, without collectives */
	int steps;
	size_t nin;
	const char **name; /* of the inputs */
	gg_tensor *in;     /* those of rank 0, then those of rank 1, ... */
} sample;

typedef struct result {
	const char *name; /* of an output or a state, interned */
	bool state;
	int rank, step;
	gg_tensor t;
} result;

typedef struct outcome {
	size_t n, cap;
	result *r;
} outcome;

/* How many ranks and steps the graph wants: collectives need a world, states a second step. Then its
 * inputs: unbound symbols are 2 or 3, integers are what their readers accept. */
bool sample_draw(gg_diag *d, const gg_model *m, sample *s);
void sample_fini(sample *s);
/* Runs a copy of the model on the sample's inputs. `ulps`: floats that come in, parameters too, are moved by
 * so many units in the last place, up or down as `salt` has it, and what nodes make by one. */
bool sample_run(gg_diag *d, const gg_buf *bytes, const gg_model *like, const sample *s, int ulps,
                uint64_t salt, outcome *out);
void outcome_fini(outcome *o);

#endif
