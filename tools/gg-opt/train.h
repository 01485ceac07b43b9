/* What the optimiser passes share. A pass says how one parameter is updated; here is the rest: which
 * parameters have gradients, the step counter, the learning rate and its schedule, clipping,
 * accumulation, the steps that are left out, and where the state goes.
 *
 *   grad.w ─ clipped, unscaled, accumulated ─ update ─▶ new w ─ (apply ? new : old) ─▶ state w
 *
 * Builders are sticky: after the first failure, which is reported, they give NULL. */
#ifndef GG_TRAIN_H
#define GG_TRAIN_H

#include "pass.h"
#include "../../lib/build.h"

typedef struct train {
	gg_pass_run *p;
	gg_builder b;          /* of new nodes */
	gg_node *head;         /* scalars of the step go before this one */
	gg_value *step, *next; /* updates before this one and with it, i64 */
	gg_value *rate;        /* the learning rate, f64; NULL: it is constant */
	gg_value *apply;       /* bool: false in a step without an update; NULL: there is none */
	double lr;
	gg_value **pending; /* pairs of a state and its next value, to be held back where apply is false */
	size_t npending, cap_pending;
	gg_value *memo[4]; /* of the pass: scalars that it makes once */
	size_t named;      /* of the pass grad: gradients that have their names */
} train;

#define train_make(t, ...) gg_put(&(t)->b, __VA_ARGS__)
#define train_done(t, v) gg_put_done(&(t)->b, v)
#define train_op(t, ...) gg_put_op(&(t)->b, __VA_ARGS__)
#define train_cast(t, ...) gg_put_cast(&(t)->b, __VA_ARGS__)
#define train_select(t, ...) gg_put_where(&(t)->b, __VA_ARGS__)
#define train_all(t, ...) gg_put_all(&(t)->b, __VA_ARGS__)
#define train_number(t, ...) gg_put_number(&(t)->b, __VA_ARGS__)

/* Makes the new value of a parameter from its old one and its gradient, both of the dtype to compute
 * in: f32, or f64 where the parameter is. `name` is the parameter's. */
typedef gg_value *train_update(train *t, const char *name, gg_value *w, gg_value *g);
bool train_run(gg_pass_run *p, gg_graph *g, double lr, train_update *update);

gg_value *train_count(train *t);               /* this update's number, from 1: f64 */
gg_value *train_rate(train *t, gg_dtype type); /* as the value 'lr' */
double train_option(train *t, const char *key, double or);
bool train_flag(train *t, const char *key);
/* a + s b, without the nodes that s 0 or 1 would make. */
gg_value *train_add_scaled(train *t, gg_value *a, const char *name, double s, gg_value *b);
/* From here on nodes are scalars of the step, before all others; gives the place and the name to go back to.
 */
gg_builder train_scalars(train *t);
void train_back(train *t, gg_builder to);

/* A state of the shape of w, called NAME.what, and its value after the step. */
gg_value *train_state(train *t, const char *name, const char *what, gg_value *w, double start);
void train_becomes(train *t, gg_value *state, gg_value *v);

#define TRAIN_OPTIONS(LR) \
	"lr=X: the learning rate (" LR "); " \
	"schedule=NAME: constant (the default), step, cosine or polynomial; " \
	"warmup=N: the rate grows from lr/N to lr in N updates, then the schedule starts; " \
	"every=N: step: updates between two falls; gamma=X: step: what each multiplies by (0.1); " \
	"over=N: cosine, polynomial: updates until the end; min_lr=X: the rate there (0); " \
	"power=X: polynomial: the exponent (1); " \
	"clip_value=X: gradients are cut to -X..X; clip_norm=X: to a global 2-norm of at most X; " \
	"accumulate=N: one update from the mean gradient of N steps"

#define TRAIN_EXPLAIN \
	"\nEach parameter with a gradient (a value 'grad.NAME') is updated once a step. State: 'step', the " \
	"updates done,\n" \
	"and what the rule keeps, as 'NAME.what'. Half precision parameters are updated in f32, which is " \
	"also what their state is\n" \
	"kept in, and rounded once. Constant rates stand in the graph as they are; others are computed in " \
	"f64 from s = step\n" \
	"as the value 'lr': step: lr gamma^floor(s/every); cosine: min_lr + (lr - min_lr) (1 + cos(pi " \
	"min(s/over, 1))) / 2;\n" \
	"polynomial: min_lr + (lr - min_lr) (1 - min(s/over, 1))^power; with warm-up lr (s+1)/warmup " \
	"first, " \
	"and s counted from\n" \
	"its end. clip_norm multiplies by min(1, clip_norm / (norm + 1e-6)), as clip_grad_norm_ does; " \
	"clip_value is before it.\n" \
	"After autocast with a loss scale gradients are divided by it, and an update with one that is not " \
	"finite " \
	"is left out:\n" \
	"parameters, moments and 'step' stay. " \
	"The first accumulate-1 steps of each group leave parameters, moments and 'step' as they are.\n" \
	"Refused: a parameter that is updated already; a name that is taken."

#endif
