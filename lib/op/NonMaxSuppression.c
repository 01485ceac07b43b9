#include "move.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BOXES, SCORES, MOST, IOU, SCORE }; /* inputs */

static bool infer(gg_infer *f)
{
	const gg_shape *b = &f->in[BOXES].shape, *s = &f->in[SCORES].shape;
	f->out[0].dtype = GG_I64;
	f->out[0].shape = gg_shape_of(2, (gg_dim[]){gg_unknown_dim(f, 0, 0), 3});
	if (b->rank < 0 || s->rank < 0)
		return true;
	bool good = b->rank == 3 && s->rank == 3;
	const gg_dim pair[3][2] = {{b->dim[0], s->dim[0]}, {b->dim[1], s->dim[2]}, {b->dim[2], 4}};
	for (int i = 0; good && i < 3; i++)
		good = !gg_dim_known(pair[i][0]) || !gg_dim_known(pair[i][1]) || pair[i][0] == pair[i][1];
	return good ||
	       gg_fail(f, "boxes %s and scores %s are not [B,N,4] and [B,C,N]", gg_str(f, b), gg_str(f, s));
}

typedef struct box {
	double y0, x0, y1, x1;
} box;

static box box_at(const float *p, bool center)
{
	if (center)
		return (box){p[1] - p[3] / 2.0, p[0] - p[2] / 2.0, p[1] + p[3] / 2.0, p[0] + p[2] / 2.0};
	return (box){fmin(p[0], p[2]), fmin(p[1], p[3]), fmax(p[0], p[2]), fmax(p[1], p[3])};
}

static double area(box b) { return fmax(b.y1 - b.y0, 0) * fmax(b.x1 - b.x0, 0); }

static bool overlap(box a, box b, double limit)
{
	box both = {fmax(a.y0, b.y0), fmax(a.x0, b.x0), fmin(a.y1, b.y1), fmin(a.x1, b.x1)};
	double shared = area(both), all = area(a) + area(b) - shared;
	return shared > 0 && all > 0 && shared / all > limit;
}

/* Higher scores first, lower indices among equals. */
static int before(const void *a, const void *b, void *scores)
{
	int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
	double u = ((const float *)scores)[i], v = ((const float *)scores)[j];
	return u != v ? (u < v) - (u > v) : (i > j) - (i < j);
}

/* The boxes of one class that stay, in order of score; returns how many. */
static int64_t select_boxes(gg_eval *e, const float *boxes, float *scores, int64_t n, int64_t most,
                            int64_t *order)
{
	bool center = gg_get_int(e->n, "center_point_box"), limited = e->nin > SCORE && e->in[SCORE].data;
	double iou = e->nin > IOU && e->in[IOU].data ? gg_get_f64(&e->in[IOU], 0) : 0;
	double least = limited ? gg_get_f64(&e->in[SCORE], 0) : 0;
	int64_t kept = 0;
	for (int64_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, (size_t)n, sizeof *order, before, scores);
	for (int64_t i = 0; i < n && kept < most; i++) {
		bool keep = !limited || scores[order[i]] > least;
		for (int64_t k = 0; k < kept && keep; k++)
			keep = !overlap(box_at(boxes + 4 * order[i], center),
			                box_at(boxes + 4 * order[k], center), iou);
		if (keep)
			order[kept++] = order[i];
	}
	return kept;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *b = &e->in[BOXES], *s = &e->in[SCORES];
	int64_t batches = s->shape.dim[0], classes = s->shape.dim[1], n = s->shape.dim[2];
	int64_t most = gg_eval_int(e, MOST, 0), *order = gg_alloc_n(e->a, (size_t)n + 1, sizeof *order);
	gg_buf found = {0};
	for (int64_t i = 0; i < batches * classes && n > 0; i++) {
		const float *boxes = (const float *)b->data + i / classes * n * 4;
		int64_t kept = select_boxes(e, boxes, (float *)s->data + i * n, n, most, order);
		for (int64_t k = 0; k < kept; k++)
			gg_buf_add(&found, (int64_t[]){i / classes, i % classes, order[k]},
			           3 * sizeof *order);
	}
	int64_t rows = (int64_t)(found.len / (3 * sizeof *order));
	void *y = gg_eval_alloc(e, 0, 2, (int64_t[]){rows, 3});
	if (rows && y)
		memcpy(y, found.p, found.len);
	gg_buf_fini(&found);
	return y || !rows;
}

const gg_op gg_op_NonMaxSuppression = {
    .name = "NonMaxSuppression",
    .doc = "indices of boxes that no better box of their class overlaps",
    .min_in = 2,
    .max_in = 5,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"center_point_box", GG_ATTR_INT, false, "0"}, {0}},
    .flags = GG_DATA_SHAPE,
    .in = {{GG_DT(GG_F32)}, {GG_DT(GG_F32)}, {GG_DT(GG_I64)}, {GG_DT(GG_F32)}, {GG_DT(GG_F32)}},
    .out = {{GG_DT(GG_I64)}},
    .optional = 1 << MOST | 1 << IOU | 1 << SCORE,
    .infer = infer,
    .eval = eval};
