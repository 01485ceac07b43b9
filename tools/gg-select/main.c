/* gg-select: decides kernel and layout for the whole graph, from host-only tables. */
#include "../../lib/gg.h"

enum { TARGET = 1, PRECISION, LAYOUT, EXPLAIN, SAVE, LOAD };

static const gg_option options[] = {
    {TARGET, "target", 't', "NAME", "ref, cpu (default), cuda"},
    {PRECISION, "precision", 0, "NAME", "strict (default); tf32, f16, bf16 where the target has them"},
    {LAYOUT, "layout", 0, "NAME", "keep (default), auto, nchw or nhwc"},
    {EXPLAIN, "explain", 0, 0,
     "a line a node on stderr: node, op, kernel or why there is none, layout and why"},
    {SAVE, "save-choices", 0, "FILE", "write the choices as text, a line a node"},
    {LOAD, "load-choices", 0, "FILE", "make the choices of this file"},
    {0},
};

static bool select_model(gg_tool *t, gg_model *m, void *arg) { return gg_select(&t->d, m, arg); }

int main(int argc, char **argv)
{
	static gg_tool t = {
	    .name = "gg-select",
	    .summary = "choose kernels and layouts",
	    .operands = "[FILE]...",
	    .options = options,
	    .examples =
	        "  gg-parse m.onnx | gg-opt | gg-select --target=cpu --layout=auto | gg-build | gg-run\n"
	        "  gg-parse m.onnx | gg-select --explain >/dev/null\n"
	        "  gg-select --save-choices=a.txt m.gg >/dev/null\n",
	    .built_with = "targets ref, cpu, cuda",
	};
	gg_select_options o = {.target = "cpu", .precision = "strict", .layout = "keep"};
	gg_args_start(&t, argc, argv);
	for (int id; (id = gg_args_next(&t));)
		switch (id) {
		case TARGET:
			o.target = t.value;
			break;
		case PRECISION:
			o.precision = t.value;
			break;
		case LAYOUT:
			o.layout = t.value;
			break;
		case EXPLAIN:
			o.explain = true;
			break;
		case SAVE:
			o.save_choices = t.value;
			break;
		case LOAD:
			o.load_choices = t.value;
			break;
		}
	return gg_each_model(&t, select_model, &o, true);
}
