/* The cuda backend, in reading order: api.h the libraries, device.c memory and the queue, jit.c
 * kernels compiled from generated source, then one file per kernel family.
 *
 * Kernels are prepared with numbers alone: source is generated for the shapes at hand, so that
 * all index arithmetic is by constants. Nothing is compiled or allocated at run. */
#ifndef CUDA_H
#define CUDA_H

#include "../backend.h"
#include "../exec.h"
#include "api.h"
#include <string.h>

extern CUstream cuda_stream; /* the queue */
extern int cuda_sm;          /* 90 */
extern int cuda_processors;
extern CUcontext cuda_context;
extern const char *cuda_description; /* of a device that need not be there; NULL: there is none */
const char *cuda_where(void);        /* ", NVIDIA H200, driver 13.0", or "" where there is no device */
extern const gg_device cuda_device;
bool cuda_open_device(gg_diag *d);
const char *cuda_version(void);
char *cuda_card_text(void); /* the device at hand; free it */
/* How many algorithms of a library are measured where there are several; up to 1: its first is taken. */
int cuda_tune(void);
/* Milliseconds of one run of what only puts work into the queue, the least of some; below 0: it fails. */
float cuda_measure(bool (*run)(void *p), void *p);

/* ---- offline.c: no device */
extern bool cuda_is_offline;
bool cuda_open_offline(gg_diag *d, int sm, int processors);
size_t cuda_deferred(size_t i, const char **what, bool *compiled);
void cuda_want(const char *what, const char *value);
/* ---- cache.c */
char *cuda_cached(const char *name, size_t *n); /* malloc'ed, a 0 behind it; NULL: it is not there */
void cuda_cache(const char *name, const void *p, size_t n);
/* ---- choices.c */
extern bool cuda_deterministic; /* what adds in another order each time is not for this process */
/* What `library` has chosen for `key`; NULL: nothing, or another version did. Good as long as the process. */
const char *cuda_choice(const char *library, const char *key);
bool cuda_has_choice(const char *key); /* of any library */
void cuda_choose(const char *library, const char *key, const char *text);
/* d, which must live on, is told when they do not hold. False: that is no such text. */
bool cuda_take_choices(gg_diag *d, const char *text, size_t n, void (*each)(const char *key));
char *cuda_choices(void); /* all of them; free it. NULL: there are none */
/* ---- versions.c: the libraries that made a plan */
void cuda_put_libraries(gg_buf *b);
bool cuda_take_libraries(gg_diag *d, const char *text,
                         size_t n); /* d lives on; false: that is no such text */
/* Of "cuDNN 9.14.0, ...": the one at hand, which is open, is older than the plan's. Says so once. */
bool cuda_is_older(const char *library);
const char *cuda_plans_library(const char *library, char text[32]); /* its version; NULL: the plan has none */
/* ---- cubin.c */
char *cuda_cubin(gg_diag *d, const char *text); /* malloc'ed; NULL: reported */
void cuda_cubin_later(const char *text);        /* cuda_built has it, unless it fails */
size_t cuda_failed_kernels(void);               /* of those */
char *cuda_nvrtc(gg_diag *d, const char *text, size_t *n);
bool cuda_give(gg_diag *d, const char *kind, const char *name, const void *bytes, size_t n);
const gg_built *cuda_given(const char *name); /* NULL: no plan brought it */
const gg_built *cuda_built(size_t *n);

/* ---- jit.c ------------------------------------------------------------------------------------- */
typedef struct cuda_kernel {
	CUfunction f;
	unsigned grid, block, shared;
} cuda_kernel;
/* Compiles `source`, whose kernel is named k; what every source may use is put before it. The same
 * source is compiled once. `defines` are lines that go before all; where the first is
 * "#define GG_EXACT_SM", it is compiled for sm_90a and the like. */
bool cuda_compile(gg_diag *d, const char *defines, const char *source, cuda_kernel *k);
/* All of a kernel's arguments are pointers. */
bool cuda_launch(gg_diag *d, const cuda_kernel *k, int n, void *const *arg);
/* Arguments of any type, each by its address. */
bool cuda_launch_at(gg_diag *d, const cuda_kernel *k, void **at);
/* Blocks get so many bytes of memory that they share. */
bool cuda_share(gg_diag *d, cuda_kernel *k, unsigned bytes);
/* Of a number, for generated source: real(...ull), whatever it is. */
static inline unsigned long long cuda_bits(double x)
{
	unsigned long long u;
	memcpy(&u, &x, sizeof u);
	return u;
}
/* Threads for `work` items, `block` a block, as many as keep the device busy. */
void cuda_spread(cuda_kernel *k, int64_t work, unsigned block);
const char *cuda_type(gg_dtype t);    /* how it lies in memory: "f16" */
const char *cuda_compute(gg_dtype t); /* what is computed in: "float" */

/* ---- shapes ------------------------------------------------------------------------------------ */
/* Dims in the order of memory, outermost first: channels last for nhwc. */
int cuda_physical(const gg_shape *s, gg_layout l, int64_t *dim);
/* Strides of s in layout l, by physical axis of `out` in layout lout; 0 where it repeats. */
void cuda_strides(const gg_shape *s, gg_layout l, const gg_shape *out, gg_layout lout, int64_t *stride);
/* Merges dims that all n operands walk alike, and drops those of size 1. */
void cuda_merge(int *rank, int64_t *dim, int n, int64_t (*stride)[GG_MAX_RANK]);
/* Index in c->in of what covered node n reads in slot i; -1: absent, or made inside the run. */
int cuda_slot(const gg_call *c, const gg_node *n, int i);
/* Appends "long name = ...": the offset of element i of dims under the strides. */
void cuda_offset(gg_buf *b, const char *name, const char *i, int rank, const int64_t *dim,
                 const int64_t *stride);

/* ---- pointwise.c ------------------------------------------------------------------------------- */
typedef struct cuda_chain cuda_chain;
/* What the head of a run still wants done to its result: + in[channel] along the channels,
 * + beta * in[add] broadcast, an activation as in FusedConv and MatMulBias. */
typedef struct cuda_head {
	int channel, add; /* -1: none */
	float beta;
	const char *activation; /* NULL or "": none */
	int nparams;            /* 0: the op's defaults */
	float param[2];
} cuda_head;
#define CUDA_HEAD ((cuda_head){.channel = -1, .add = -1, .beta = 1})
/* The head's wishes, then the covered nodes from `from` on; the value before them is read from the
 * output. *out NULL: nothing to do. False: reported. */
bool cuda_chain_new(gg_call *c, const cuda_head *h, int from, cuda_chain **out);
bool cuda_chain_run(const cuda_chain *k, gg_call *c);
void cuda_chain_free(cuda_chain *k);

/* ---- matmul.c ---------------------------------------------------------------------------------- */
/* y [m, n] = a [m, k] times b [n, k] turned, as a part of another kernel's call. False: reported; it is to be
 * freed all the same. */
typedef struct cuda_product cuda_product;
bool cuda_product_new(gg_call *c, bool tf32, gg_dtype t, int64_t m, int64_t n, int64_t k, cuda_product **out);
size_t cuda_product_workspace(const cuda_product *p);
bool cuda_product_run(cuda_product *p, void *a, void *b, void *y, void *workspace);
void cuda_product_free(cuda_product *p);

/* ---- move.c ------------------------------------------------------------------------------------ */
/* out[i.to] = in[i.from] over dims, in elements of `size` bytes; offsets are added at run. */
typedef struct cuda_copy {
	cuda_kernel k;
	int64_t from, to; /* bytes */
	bool empty;
} cuda_copy;
bool cuda_copy_make(gg_diag *d, size_t size, int rank, const int64_t *dim, const int64_t *from,
                    int64_t from_off, const int64_t *to, int64_t to_off, cuda_copy *out);
bool cuda_copy_run(gg_diag *d, const cuda_copy *k, const void *in, void *out);
/* From one layout to another; to channels last with zeros for the channels that `channels` has more. */
bool cuda_reorder_make(gg_diag *d, gg_dtype t, const gg_shape *s, gg_layout from, gg_layout to,
                       int64_t channels, cuda_copy *out);
const char *cuda_word(size_t bytes); /* the type that moves so many, up to 16 */
/* Is input i absent, or known before the run? False: reported. */
bool cuda_known(const gg_call *c, int i);

/* ---- gather.c ---------------------------------------------------------------------------------- */
/* Input 1 holds tuples of k indices into the axes of input 0 from `axis` on: none outside, as far as one
 * knows before the run. False: reported, as the reference does. */
bool cuda_check_indices(gg_call *c, int axis, int k);

/* ---- arg.c ------------------------------------------------------------------------------------- */
/* key(x): what TopK and its like compare, of type cuda_key(dtype). */
extern const char cuda_order_text[];
const char *cuda_key(gg_dtype t);

/* ---- tile.c ------------------------------------------------------------------------------------ */
/* y[m, n] = relu(x w * scale + shift + add) of half types; w is [n, k], scale and shift are f32 by column.
 * Row i of x has k / 64 pieces of 64 elements, `step` apart; the first is at i / (rows * cols) * image
 * + i / cols % rows * row + i % cols * col. */
typedef struct cuda_tile {
	gg_dtype dtype;
	int64_t m, n, k, rows, cols, image, row, col, step;
	bool add, relu;
} cuda_tile;
/* What speaks to tensor cores in generated source; HALF is the dtype's name as text. */
extern const char cuda_tensor_text[];
bool cuda_tile_fits(const cuda_tile *o);
bool cuda_tile_make(gg_diag *d, const cuda_tile *o, cuda_kernel *k);
bool cuda_tile_run(gg_diag *d, const cuda_kernel *k, const void *x, const void *w, const void *scale,
                   const void *shift, const void *add, void *y);

/* ---- hopper.c ---------------------------------------------------------------------------------- */
extern const char cuda_hopper_text[]; /* device code that the sources of both kernels below begin with */
/* Puts void NAME(float *d, a, u64 b, int more): d [64, wide] += a b, or d = a b where `more` is 0, of 16 of
 * K. a is a matrix in shared memory (u64), or four registers; `turned`: b has a row for each of K. */
void cuda_put_wgmma(gg_buf *b, const char *name, const char *half, int wide, bool registers, bool turned);
/* For TMA: a tensor of halves in boxes, innermost axis first; strides in bytes, of all axes but that.
 * `failed` is what is said when it cannot be. */
bool cuda_describe(gg_diag *d, CUtensorMap *m, gg_dtype t, const void *p, int rank, const cuuint64_t *dim,
                   const cuuint64_t *stride, const cuuint32_t *box, const char *failed);

/* ---- wgmma.c ----------------------------------------------------------------------------------- */
/* y[m, n] = act(x w * scale + shift + add) of half types, x [m, k]; scale is f32, by column. */
typedef struct cuda_wgmma {
	gg_dtype dtype, shift; /* of shift, by column; 0: none */
	int64_t m, n, k;
	bool turned; /* w is [k, n], else [n, k] */
	bool scale, add, relu, gelu;
} cuda_wgmma;
typedef struct cuda_wgmma_plan {
	cuda_wgmma o;
	cuda_kernel k;
	int bm, bn, rows;
	float ms; /* as measured; 0: it was not */
} cuda_wgmma_plan;
/* Filled with zeros before its fields are set: it is compared by bytes. */
bool cuda_wgmma_fits(const cuda_wgmma *o);
double cuda_wgmma_us(const cuda_wgmma *o);   /* by estimate */
double cuda_library_us(const cuda_wgmma *o); /* of cuBLASLt or cuDNN, without its Gelu */
bool cuda_own(void);                         /* for tests: it is taken wherever it fits */
bool cuda_wgmma_make(gg_diag *d, const cuda_wgmma *o, cuda_wgmma_plan *p);
/* What was measured: is it better than the libraries? 0: nobody knows; below 0: it is not. */
int cuda_wgmma_known(const cuda_wgmma *o);
void cuda_wgmma_judge(const cuda_wgmma *o, bool better, float ms); /* for those who come later */
bool cuda_wgmma_run(gg_diag *d, const cuda_wgmma_plan *p, const void *x, const void *w, const void *scale,
                    const void *shift, const void *add, void *y);

/* ---- stem.c -------------------------------------------------------------------------------------- */
/* A convolution, Relu and the largest of neighbours as one call of cuda_conv. */
bool cuda_is_stem(const gg_call *c);
bool cuda_stem_prepare(gg_call *c);
bool cuda_stem_run(gg_call *c);
void cuda_stem_release(gg_call *c);
/* conv.c: scales and shifts by channel, then a Relu: is that all that follows the convolution? NULL: it is
 * not. False: reported. */
bool cuda_conv_norm(gg_call *c, void **norm);

/* ---- attend.c ---------------------------------------------------------------------------------- */
typedef struct cuda_attend {
	gg_dtype dtype, mask; /* mask: 0, there is none */
	bool tf32, lengths;
	int64_t batch, heads, group, q, kv, size, vsize; /* group: heads that share their keys */
	int64_t sq[4], sk[4], sv[4], sy[4], sm[4];       /* strides: batch, head, position, element */
	int64_t columns;           /* of the mask: later keys are not seen; up to 1: all are */
	int64_t past, left, right; /* query i stands at i + past; windows, -1: none */
	double scale, cap;         /* cap 0: none */
} cuda_attend;
/* What the sources of its kernels begin with, after the lines that say the shape. */
extern const char cuda_attend_text[];
void cuda_attend_defines(gg_buf *b, const cuda_attend *o);
/* All that is read lies in pieces of so many elements, at addresses that are multiples. */
bool cuda_attend_aligned(const cuda_attend *o, int64_t piece);
/* Its arguments: queries, keys, values, mask, lengths, y. */
bool cuda_attend_make(gg_diag *d, const cuda_attend *o, cuda_kernel *k);

/* ---- flash.c ----------------------------------------------------------------------------------- */
bool cuda_flash_fits(const cuda_attend *o);
bool cuda_flash_make(gg_diag *d, const cuda_attend *o, cuda_kernel *k);
bool cuda_flash_run(gg_diag *d, const cuda_attend *o, const cuda_kernel *k, const void *q, const void *key,
                    const void *v, const void *mask, void *y);

/* ---- dnn.c: cuDNN's graph API ------------------------------------------------------------------ */
/* `back`: x is what the convolution makes, y what it reads; the sizes are the convolution's all the same. */
typedef struct dnn_conv {
	gg_dtype dtype;
	bool nhwc, tf32, back;
	int nd; /* spatial axes */
	int64_t batch, cin, cout, group;
	int64_t in[3], kernel[3], out[3], stride[3], dilation[3], before[3], after[3];
	bool bias, add, relu;
	bool scale; /* by channel, before the bias; both are f32 then */
} dnn_conv;
typedef struct dnn_product { /* y = gelu(relu(x w + bias + add)) */
	gg_dtype dtype;
	int64_t batch, m, n, k, sx[3], sw[3]; /* y lies row by row */
	bool bias, add, relu, gelu;
} dnn_product;
/* ---- spec.c: as text */
typedef struct dnn_spec {
	enum { DNN_CONV, DNN_PRODUCT } kind;
	union {
		dnn_conv conv;
		dnn_product product;
	};
} dnn_spec;
void dnn_write(gg_buf *b, const dnn_spec *s);
bool dnn_read(const char *key, dnn_spec *s); /* false: that is none */

typedef struct dnn_plan dnn_plan;
float dnn_plan_ms(const dnn_plan *p); /* as measured; 0: it was not */
/* Measured before: below 0 a kernel of our own was better, tile.c's or a product, above 0 the engine; 0:
 * nobody knows. */
enum { DNN_TILE_BETTER = -1, DNN_PRODUCT_BETTER = -2 };
int dnn_conv_known(const dnn_conv *o);
int dnn_product_known(const dnn_product *o);
void dnn_plan_worse(dnn_plan *p, const char *better); /* for those who come later */
/* NULL: cuDNN has no engine for it, which only -v reports. Plans are never freed. */
dnn_plan *dnn_conv_plan(gg_diag *d, const dnn_conv *o, size_t *workspace);
bool dnn_conv_run(gg_diag *d, const dnn_plan *p, const void *x, const void *w, const void *scale,
                  const void *bias, const void *add, void *y, void *workspace);
dnn_plan *dnn_product_plan(gg_diag *d, const dnn_product *o, size_t *workspace);
bool dnn_product_run(gg_diag *d, const dnn_plan *p, const void *x, const void *w, const void *bias,
                     const void *add, void *y, void *workspace);
void dnn_expect(const char *key); /* of a choice: that plan will be wanted ... */
void dnn_start(void);             /* ... and is made meanwhile */
void dnn_settle(void);            /* but for what nobody has asked for by now */
void dnn_keep(void (*keep)(const char *name, const void *p, size_t n));
/* Without a device: how many engines are left to the load, to be compiled, or to be chosen too. */
size_t dnn_deferred(bool compile);
void dnn_use_stream(void); /* cuda_stream is another one now */

static inline size_t cuda_round(size_t n) { return gg_round_up(n, 256); }

#endif
