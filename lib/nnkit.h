/* What the reference kernels of neural network ops share: planes of doubles. */
#ifndef GG_NNKIT_H
#define GG_NNKIT_H

#include "move.h"
#include "window.h"

/* A tensor's elements as doubles; free() them. */
double *gg_doubles(const gg_tensor *t);
void gg_store_all(gg_tensor *t, const double *v);
/* Input i of a node at work is there. */
static inline bool gg_has(const gg_eval *e, int i) { return i < e->nin && e->in[i].dtype; }
static inline bool gg_given(const gg_infer *f, int i) { return i < f->nin && f->in[i].dtype; }
static inline bool gg_wanted(const gg_eval *e, int i) { return i < e->nout && e->out[i].dtype; }

/* A shape of one dim with `channels` elements; `what` names the input in the message. */
bool gg_check_vector(gg_infer *f, int i, const char *what, gg_dim channels);

/* y += the convolution of x by weight. x is [batch, cin, in...] and y [batch, cout, out...];
 * transposed: the same taps walked the other way, from the small side to the large one. */
void gg_convolve(const gg_window *w, bool transposed, int64_t batch, int64_t cin, int64_t cout,
                 const double *x, const double *weight, double *y);
/* dw += the gradient of the weight where dy is that of the convolution's result. */
void gg_convolve_weight(const gg_window *w, int64_t batch, int64_t cin, int64_t cout, const double *x,
                        const double *dy, double *dw);
bool gg_infer_conv(gg_infer *f, int x, int weight); /* out[0].shape */
/* Conv of in[0], in[1] and, where bias >= 0, in[bias], into out[0]. */
bool gg_eval_conv(gg_eval *e, int bias);

/* Pools: each window folded in the order of its taps. */
typedef struct gg_pool {
	int64_t p;      /* attribute p, for Lp */
	double acc;     /* set by start */
	int64_t at;     /* where in the plane the result came from, -1: nowhere */
	int64_t taps;   /* inside the input */
	double in_pads; /* inside the padded input: may be more than an int64_t holds */
	double *to;     /* a plane that is written to */
} gg_pool;
typedef struct gg_pool_op {
	double start;
	void (*step)(gg_pool *p, double x, int64_t at);
	double (*end)(const gg_pool *p, bool include_pad);
} gg_pool_op;
bool gg_infer_pool(gg_infer *f);
bool gg_infer_global_pool(gg_infer *f);
bool gg_eval_pool(gg_eval *e, const gg_pool_op *op);
bool gg_eval_global_pool(gg_eval *e, const gg_pool_op *op);
/* The gradient of a maximum (in[1]: what was pooled) or an average, from in[0] into out[0]. */
bool gg_eval_pool_grad(gg_eval *e, const gg_pool_op *op);
extern const gg_pool_op gg_pool_max, gg_pool_average, gg_pool_lp;

/* Rows: the tensor as [outer, n, inner] around one axis, each of the outer * inner rows of n
 * elements gathered, changed by f, and scattered back. */
typedef void gg_row_fn(double *v, int64_t n, const gg_node *node);
bool gg_eval_rows(gg_eval *e, int64_t axis, gg_row_fn *f);
bool gg_infer_rows(gg_infer *f); /* like the input; attribute 'axis' is in range */

/* Input i of an attention, a mask that broadcasts to full: its strides; the last axis may be shorter.
 * False: reported. */
bool gg_mask_strides(gg_eval *e, int i, const int64_t full[4], int64_t stride[4]);
/* The score s, masked. A mask of bools chooses, as the plain ops do: what it hides may be NaN. */
double gg_masked(double s, const gg_tensor *m, const int64_t stride[4], int64_t b, int64_t h, int64_t i,
                 int64_t j);

/* Mean and population variance of n numbers, in two passes; NaN where there are none. */
void gg_moments(const double *v, int64_t n, double *mean, double *var);

#endif
