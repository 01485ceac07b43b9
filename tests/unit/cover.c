/* Which nodes run as one call: a stem with its pool on cuda, and what keeps the two apart. */
#include "gg.h"
#include "tap.h"
#include <stdlib.h>
#include <string.h>

static gg_diag diag = {.tool = "cover"};

typedef struct stem {
	const char *what;
	int want; /* nodes in the call that begins with the convolution */
	const char *x, *w, *conv, *relu, *pool, *more;
} stem;

#define POOL "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"
#define CONV "strides=[2,2], pads=[3,3,3,3]"
static const stem stems[] = {
    {"a stem", 3, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"any number of images", 3, "f16[N,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"windows of 5, from an even place", 3, "f16[2,3,31,40]", "[64,3,5,5]", "strides=[2,2], pads=[2,2,2,2]",
     "Relu(%a)", POOL, ""},
    {"f32", 2, "f32[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"rows that are no pieces of 8", 2, "f16[2,3,32,44]", "[64,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"rows that are not known", 2, "f16[2,3,32,W]", "[64,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"a window of 8 that begins at an odd place", 2, "f16[2,3,32,40]", "[64,3,8,8]", CONV, "Relu(%a)", POOL,
     ""},
    {"32 channels out", 2, "f16[2,3,32,40]", "[32,3,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"many channels in", 2, "f16[2,4,32,40]", "[64,4,7,7]", CONV, "Relu(%a)", POOL, ""},
    {"stride 1", 2, "f16[2,3,32,40]", "[64,3,7,7]", "pads=[3,3,3,3]", "Relu(%a)", POOL, ""},
    {"groups", 2, "f16[2,4,32,40]", "[64,2,7,7]", CONV ", group=2", "Relu(%a)", POOL, ""},
    {"another activation", 2, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "LeakyRelu(%a)", POOL, ""},
    {"a pool of stride 1", 2, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)",
     "kernel_shape=[3,3], pads=[1,1,1,1]", ""},
    {"a pool that begins inside", 2, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)",
     "kernel_shape=[3,3], strides=[2,2]", ""},
    {"what lies between is an output", 2, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)", POOL,
     "output %c\n"},
    {"what lies between is read again", 2, "f16[2,3,32,40]", "[64,3,7,7]", CONV, "Relu(%a)", POOL,
     "%d = Neg(%c)\noutput %d\n"},
};

static int cover(const stem *s)
{
	gg_select_options o = {.target = "cuda:sm_90", .layout = "auto"};
	gg_model *m = NULL;
	gg_buf b = {0};
	int len = -1, n = atoi(s->w + 1);
	const char *half = strncmp(s->x, "f32", 3) ? "f16" : "f32";
	gg_buf_printf(&b,
	              "input %%x : %s\nparam %%w : %s%s = ones\nparam %%v : %s[64,%d,1,1] = ones\n"
	              "%%a = Conv(%%x, %%w) {%s}\n%%c = %s\n%%p = MaxPool(%%c) {%s}\n%%y = Conv(%%p, %%v)\n"
	              "output %%y\n%s",
	              s->x, half, s->w, half, n, s->conv, s->relu, s->pool, s->more);
	gg_source t = {.name = s->what, .p = b.p, .len = b.len};
	if (gg_read_text(&diag, &t, &m) == 1 && gg_infer_graph(&diag, m->main) && gg_select(&diag, m, &o)) {
		const gg_node *k = m->main->first;
		while (strcmp(k->op->name, "Conv"))
			k = k->next;
		len = gg_target_cover(gg_target_find("cuda"), k);
	}
	gg_model_free(m);
	gg_buf_fini(&b);
	return len;
}

int main(void)
{
	for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
		int got = cover(&stems[i]);
		ok(got == stems[i].want, "%s: %d nodes, expected %d", stems[i].what, got, stems[i].want);
	}
	return done();
}
