/* gg-dump: prints a graph, what it costs, or how two of them differ. */
#include "dump.h"
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, STATS, MEMORY, STREAMS, EXTRACT, DIFF, ELIDE };

static const gg_option options[] = {
    {FORMAT, "format", 0, "NAME", "text (default), json, dot, csv, onnx"},
    {STATS, "stats", 0, 0, "count ops, parameters, operations and bytes"},
    {MEMORY, "memory", 0, 0, "print the memory plan and the lower bound"},
    {STREAMS, "streams", 0, 0, "print what runs on which stream, and who waits for whom"},
    {EXTRACT, "extract", 0, "IN..OUT", "only what makes OUT from IN: a,b..c, as a graph"},
    {DIFF, "diff", 0, 0, "compare two graphs: gg-dump --diff A B"},
    {ELIDE, "elide", 0, "[N]", "print constants of more than N elements (16) by length and hash"},
    {0},
};

static gg_tool tool = {
    .name = "gg-dump",
    .summary = "print a graph",
    .operands = "[FILE]...",
    .options = options,
    .examples = "  gg-parse model.onnx | gg-dump --elide\n"
                "  gg-parse model.onnx | gg-opt | gg-dump --stats\n"
                "  gg-parse model.onnx | gg-dump --extract=conv1..relu5 | gg-run\n"
                "  gg-dump --diff before.gg after.gg\n",
};

static struct {
	const char *format, *extract;
	bool stats, memory, streams, diff;
	int64_t elide;
	gg_buf out;
} opt = {.elide = -1};

static bool dump_text(gg_diag *d, gg_buf *b, gg_model *m)
{
	return gg_write_text(d, b, m, &(gg_text_options){.elide = opt.elide});
}

static const struct {
	const char *name;
	bool (*dump)(gg_diag *d, gg_buf *b, gg_model *m);
} formats[] = {
    {"text", dump_text},  {"json", gg_write_json}, {"dot", gg_dump_dot},
    {"csv", gg_dump_csv}, {"onnx", gg_write_onnx},
};
enum { NFORMATS = sizeof formats / sizeof *formats };

static int find_format(const char *name)
{
	int i = 0;
	while (i < NFORMATS && strcmp(formats[i].name, name))
		i++;
	return i;
}

static bool dump(gg_tool *t, gg_model *m, void *arg)
{
	gg_diag *d = &t->d;
	if (opt.extract && !gg_extract(d, m, opt.extract))
		return false;
	if (opt.stats && !gg_dump_stats(d, &opt.out, m))
		return false;
	if (opt.memory && !gg_dump_memory(d, &opt.out, m))
		return false;
	if (opt.streams && !gg_dump_streams(d, &opt.out, m))
		return false;
	return opt.stats || opt.memory || opt.streams ||
	       formats[find_format(opt.format)].dump(d, &opt.out, m);
}

static int diff(void)
{
	gg_buf text[2] = {{0}, {0}};
	if (tool.nfile != 2)
		gg_usage(&tool, "--diff compares two files, %zu given", tool.nfile);
	for (int i = 0; i < 2; i++) {
		gg_model *m = gg_read_one(&tool, tool.file[i]);
		if (!m || !dump_text(&tool.d, &text[i], m))
			return tool.d.status;
		gg_model_free(m);
	}
	bool differ = gg_diff_text(&opt.out, text[0].p, text[1].p, tool.color_out);
	gg_buf_fini(&text[0]);
	gg_buf_fini(&text[1]);
	return !gg_emit(&tool, &opt.out) ? tool.d.status : differ ? GG_DIFFERENT : GG_OK;
}

static void take_option(int id, const char *value)
{
	switch (id) {
	case FORMAT:
		opt.format = value;
		if (find_format(value) == NFORMATS)
			gg_usage(&tool, "--format=%s is not one of text, json, dot, csv, onnx", value);
		break;
	case STATS:
		opt.stats = true;
		break;
	case MEMORY:
		opt.memory = true;
		break;
	case STREAMS:
		opt.streams = true;
		break;
	case EXTRACT:
		opt.extract = value;
		break;
	case DIFF:
		opt.diff = true;
		break;
	case ELIDE:
		opt.elide = 16;
		if (value && (!gg_parse_int(value, &opt.elide) || opt.elide < 0))
			gg_usage(&tool, "--elide=%s is not a count", value);
		break;
	}
}

int main(int argc, char **argv)
{
	gg_args_start(&tool, argc, argv);
	for (int id; (id = gg_args_next(&tool));)
		take_option(id, tool.value);
	if ((opt.stats || opt.memory || opt.streams || opt.diff) && opt.format)
		gg_usage(
		    &tool,
		    "--format is of a graph: it does not go with --stats, --memory, --streams or --diff");
	if (!opt.format)
		opt.format = "text";
	if (opt.diff)
		return diff();
	if (!strcmp(opt.format, "onnx") && !gg_stdout_ok(&tool))
		return tool.d.status;
	if (gg_each_model(&tool, dump, 0, false) == GG_OK)
		gg_emit(&tool, &opt.out);
	gg_buf_fini(&opt.out);
	return gg_finish(&tool);
}
