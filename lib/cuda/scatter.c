/* Writing at indices: ScatterElements and ScatterND.
 *
 *     clear ──▶ mark: an update notes its place, and itself there as the last, and the first
 *                  └──▶ put: y = x, and the updates of this place from the first to the last, in their order
 *
 * What is noted are maxima, which come out the same in whatever order; so does a result that is folded in
 * the order of the updates. The same bits in each run then, without another way for plans that ask for it. It
 * costs a pass over all where no place is named twice, and where one is, as many steps as there are updates
 * between its first and its last. Beside the values it takes a number a place and, for a reduction, another
 * one and one an update.
 *
 * A place outside is refused where it is known before the run, in the words of the reference; an update for
 * one that only the device sees is left out. */
#include "cuda.h"
#include "../move.h"
#include <stdlib.h>
#include <string.h>

typedef struct scatter {
	cuda_kernel mark, put;
	bool folds;
	size_t at_first, at_where; /* in scratch, behind the last ones */
	size_t noted;              /* bytes that are cleared */
} scatter;

/* An update goes to place p, 0 .. PLACES-1, or to none. Update i is noted as i + 1 where the last one is
 * looked for, as UPDATES - i where it is the first, and nobody as 0. */
static const char mark_head[] =
    "#ifdef GG_HOST\ntemplate <class T_> FN void atomicMax(T_ *p, T_ x) { *p = *p > x ? *p : x; }\n#endif\n"
    "KERNEL(const T *at, N *last, N *first, N *where)\n{\nSPREAD(i, UPDATES) {\n"
    "\tlong p = 0;\n\tbool gone = false;\n";
static const char mark_tail[] = "\tif (FOLDS) where[i] = gone ? PLACES : p;\n"
                                "\tif (gone) continue;\n"
                                "\tatomicMax(last + p, (N)(i + 1));\n"
                                "\tif (FOLDS) atomicMax(first + p, (N)(UPDATES - i));\n"
                                "}\n}\n";

static const char put_text[] =
    "KERNEL(const W *x, const W *u, const N *last, const N *first, const N *where, W *y)\n{\n"
    "SPREAD(i, PLACES * INNER) {\n"
    "\tconst INDEX p = i / INNER, e = i % INNER;\n"
    "\tconst N end = last[p];\n"
    "#if FOLDS\n"
    "\tif (!end) { y[i] = x[i]; continue; }\n"
    "\tC s = ld(x[i]);\n"
    "\tfor (N r = UPDATES - first[p]; r < end; r += STEP) {\n"
    "\t\tif (where[r] != p) continue;\n"
    "\t\tconst C a = ld(u[(INDEX)r * INNER + e]);\n"
    "\t\ts = FOLD;\n"
    "\t}\n"
    "\ty[i] = st(s, is<W>());\n"
    "#else\n"
    "\ty[i] = end ? u[(INDEX)(end - 1) * INNER + e] : x[i];\n"
    "#endif\n"
    "}\n}\n";

static const char *fold_of(const char *how, gg_dtype t)
{
	static const char *const row[][3] = {{"add", "s + a", "s | a"},
	                                     {"mul", "s * a", "s & a"},
	                                     {"max", "pick_max(s, a)", "pick_max(s, a)"},
	                                     {"min", "pick_min(s, a)", "pick_min(s, a)"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (!strcmp(row[i][0], how))
			return row[i][t == GG_BOOL ? 2 : 1];
	return NULL;
}

static size_t take(gg_call *c, size_t bytes)
{
	size_t at = c->workspace;
	c->workspace = cuda_round(at + bytes);
	return at;
}

/* place: what makes p, the place of update i, or says that it is gone. Updates of one place are multiples of
 * `step` apart. */
static bool build(gg_call *c, const char *place, int64_t places, int64_t inner, int64_t updates, int64_t step)
{
	scatter *k = c->state;
	gg_dtype t = c->out[0].dtype;
	const char *fold = fold_of(gg_get_string(c->node, "reduction"), t);
	bool wide = (places * inner | updates * inner) >> 31;
	size_t size = wide ? 8 : 4, v = fold ? 1 : 16 / gg_dtype_size(t);
	while (v > 1 && inner % (int64_t)v)
		v /= 2;
	k->folds = fold;
	take(c, (size_t)places * size);
	k->at_first = fold ? take(c, (size_t)places * size) : 0;
	k->noted = c->workspace;
	k->at_where = fold ? take(c, (size_t)updates * size) : 0;
	gg_buf b = {0}, mark = {0};
	gg_buf_printf(&b,
	              "#define INDEX unsigned%s\n#define N %s\n#define T %s\n#define W %s\n"
	              "#define C %s\n#define PLACES %lldu\n#define UPDATES %lldu\n#define INNER %lldu\n"
	              "#define STEP %lldu\n#define FOLDS %d\n#define FOLD %s\n",
	              wide ? " long" : "", wide ? "u64" : "u32", cuda_type(c->in[1].dtype),
	              fold ? cuda_type(t) : cuda_word(gg_dtype_size(t) * v),
	              !fold                      ? "int"
	              : gg_dtype_class(t) == 'F' ? "double"
	                                         : cuda_compute(t),
	              (long long)places, (long long)updates, (long long)(inner / (int64_t)v), (long long)step,
	              fold != NULL, fold ? fold : "");
	gg_buf_printf(&mark, "%s%s%s", mark_head, place, mark_tail);
	cuda_spread(&k->mark, updates, 256);
	cuda_spread(&k->put, places * inner / (int64_t)v, 256);
	bool good = (!updates || cuda_compile(c->d, b.p, mark.p, &k->mark)) &&
	            cuda_compile(c->d, b.p, put_text, &k->put);
	gg_buf_fini(&b);
	gg_buf_fini(&mark);
	return good;
}

/* Adds to s: index at[i], of an axis of n, is taken by `take`. */
static void put_index(gg_buf *s, const char *i, int64_t n, const char *take)
{
	gg_buf_printf(s,
	              "\t{ long k = at[%s]; k += k < 0 ? %lldL : 0;"
	              " gone = gone || k < 0 || k >= %lldL; %s }\n",
	              i, (long long)n, (long long)n, take);
}

static bool prepare_elements(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *idx = &c->in[1].shape;
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), x->rank);
	int64_t to[GG_MAX_RANK], step = gg_span(idx, axis + 1, idx->rank);
	gg_buf s = {0};
	char take[64];
	c->state = gg_xcalloc(1, sizeof(scatter));
	if (!cuda_check_indices(c, axis, 1))
		return false;
	if (!gg_count(&c->out[0]))
		return true;
	gg_strides(x, to);
	snprintf(take, sizeof take, "p = o + k * %lldL;", (long long)to[axis]);
	to[axis] = 0;
	cuda_offset(&s, "o", "i", idx->rank, idx->dim, to);
	put_index(&s, "i", x->dim[axis], take);
	bool good = build(c, s.p, gg_count(&c->in[0]), 1, gg_count(&c->in[1]), step ? step : 1);
	gg_buf_fini(&s);
	return good;
}

static bool prepare_nd(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *idx = &c->in[1].shape;
	int k = (int)idx->dim[idx->rank - 1];
	gg_buf s = {0};
	c->state = gg_xcalloc(1, sizeof(scatter));
	if (!cuda_check_indices(c, 0, k))
		return false;
	if (!gg_count(&c->out[0]))
		return true;
	gg_buf_str(&s, "");
	for (int j = 0; j < k; j++) {
		char at[64], take[64];
		snprintf(at, sizeof at, "(long)i * %d + %d", k, j);
		snprintf(take, sizeof take, "p = p * %lldL + k;", (long long)x->dim[j]);
		put_index(&s, at, x->dim[j], take);
	}
	bool good = build(c, s.p, gg_span(x, 0, k), gg_span(x, k, x->rank), gg_span(idx, 0, idx->rank - 1),
	                  1);
	gg_buf_fini(&s);
	return good;
}

static bool run(gg_call *c)
{
	const scatter *k = c->state;
	char *at = c->scratch;
	if (!k->put.f)
		return true;
	void *first = k->folds ? at + k->at_first : NULL, *where = k->folds ? at + k->at_where : NULL;
	void *mark[] = {c->in[1].data, at, first, where};
	void *put[] = {c->in[0].data, c->in[2].data, at, first, where, c->out[0].data};
	return cuda_device.fill(c->d, at, 0, k->noted) &&
	       (!k->mark.f || cuda_launch(c->d, &k->mark, 4, mark)) && cuda_launch(c->d, &k->put, 6, put);
}

static void release(gg_call *c) { free(c->state); }

const gg_kernel cuda_scatter_elements = {"cuda_scatter_elements", prepare_elements, run, release};
const gg_kernel cuda_scatter_nd = {"cuda_scatter_nd", prepare_nd, run, release};
