/* gg-build: order, layouts still open, memory plan. Its output is what gg-run runs. */
#include "../../lib/gg.h"
#include "kernels.h"
#include "memory.h"
#include "streams.h"

#include <string.h>

enum { STREAMS = 1, NO_REUSE, EMBED, DUMP_KERNELS, TUNE, NO_KERNELS, DETERMINISTIC, CHOICES, SAVE_CHOICES };

static const gg_option options[] = {
    {NO_REUSE, "no-reuse", 0, NULL, "give every value a place of its own in memory"},
    {EMBED, "embed", 0, NULL, "put all weights into the output: it needs no other file"},
    {STREAMS, "streams", 0, "N",
     "compute streams, or auto (default): as many as pay; 1: all in order (always so on ref and cpu)"},
    {DUMP_KERNELS, "dump-kernels", 0, "DIR", "write the source of generated kernels to DIR"},
    {NO_KERNELS, "no-kernels", 0, NULL, "leave generated kernels to be compiled when the plan is loaded"},
    {TUNE, "tune", 0, "N", "on the device: keep the fastest of N algorithms of each product and convolution"},
    {CHOICES, "choices", 0, "FILE", "make the choices of this file, and measure only what it leaves open"},
    {SAVE_CHOICES, "save-choices", 0, "FILE", "write which algorithms were chosen, as text"},
    {DETERMINISTIC, "deterministic", 0, NULL, "only algorithms that give the same bits each time"},
    {0},
};

typedef struct request {
	bool no_reuse, embed, no_kernels;
	int64_t streams;
	kernel_request kernels;
} request;

static bool sort(gg_diag *d, gg_graph *g)
{
	gg_graph *b;

	if (!gg_graph_sort(d, g))
		return false;
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (!sort(d, b))
				return false;
	return true;
}

/* What only a device with its own compiler and streams can do. */
static bool check_request(gg_diag *d, const gg_model *m, const request *r)
{
	const kernel_request *k = &r->kernels;

	if (!m->target)
		return gg_error(d, GG_MALFORMED, "the graph has no target: gg-select comes before gg-build");
	if (!gg_target_find(m->target))
		return gg_error(d, GG_UNSUPPORTED, "unknown target '%s'", m->target);
	if (r->streams > 1 && !gg_target_find(m->target)->device)
		return gg_error(d, GG_UNSUPPORTED, "target '%s' has one stream, not %lld", m->target,
		                (long long)r->streams);
	if (gg_target_find(m->target)->device)
		return true;
	if (k->tune || k->choices || k->save)
		return gg_error(d, GG_UNSUPPORTED, "target '%s' has no algorithms to choose", m->target);
	if (k->dump)
		gg_note(d, "target '%s' has no generated kernels: nothing is written to '%s'", m->target,
		        k->dump);
	return true;
}

static bool build(gg_tool *t, gg_model *m, void *arg)
{
	const request *r = arg;
	const char *kind[GG_MAX_STREAMS] = {"compute"};
	int n = 1;

	if (!check_request(&t->d, m, r) || !sort(&t->d, m->main) || !gg_select_open(&t->d, m) ||
	    !gg_insert_formats(&t->d, m))
		return false;
	if (gg_target_find(m->target)->device && !assign_streams(&t->d, m, r->streams, kind, &n))
		return false;
	if (!plan_memory(&t->d, m, r->no_reuse, kind, n))
		return false;
	m->stage = "build";
	if (gg_target_find(m->target)->device && !r->no_kernels && !build_kernels(&t->d, m, &r->kernels))
		return false;
	return !r->embed || gg_embed(&t->d, m);
}

int main(int argc, char **argv)
{
	static gg_tool t = {
	    .name = "gg-build",
	    .summary = "turn a selected graph into a plan that gg-run runs",
	    .operands = "[FILE]...",
	    .options = options,
	    .examples = "  gg-parse m.onnx | gg-opt | gg-select --target=cpu | gg-build -o m.plan\n"
	                "  gg-build --embed m.gg | ssh host gg-run --input x=x.npy\n"
	                "  gg-parse m.onnx | gg-select --target=ref | gg-build | gg-dump --memory\n"
	                "  gg-build --tune=6 --save-choices=h200.txt m.gg -o m.plan\n",
	};
	request r = {.streams = STREAMS_AUTO};

	gg_args_start(&t, argc, argv);
	for (int id; (id = gg_args_next(&t));)
		switch (id) {
		case STREAMS:
			if (!strcmp(t.value, "auto"))
				r.streams = STREAMS_AUTO;
			else if (!gg_parse_int(t.value, &r.streams) || r.streams < 1)
				gg_usage(&t, "--streams takes a number from 1 on or auto, not '%s'", t.value);
			break;
		case NO_REUSE:
			r.no_reuse = true;
			break;
		case EMBED:
			r.embed = true;
			break;
		case DUMP_KERNELS:
			r.kernels.dump = t.value;
			break;
		case NO_KERNELS:
			r.no_kernels = true;
			break;
		case TUNE:
			if (!gg_parse_int(t.value, &r.kernels.tune) || r.kernels.tune < 1 ||
			    r.kernels.tune > 24)
				gg_usage(&t, "--tune takes a number from 1 to 24, not '%s'", t.value);
			break;
		case CHOICES:
			r.kernels.choices = t.value;
			break;
		case SAVE_CHOICES:
			r.kernels.save = t.value;
			break;
		case DETERMINISTIC:
			r.kernels.deterministic = true;
			break;
		}
	if (r.no_kernels &&
	    (r.kernels.tune || r.kernels.choices || r.kernels.save || r.kernels.deterministic))
		gg_usage(&t, "--no-kernels leaves nothing to choose: it does not go with --tune, --choices, "
		             "--save-choices or --deterministic");
	return gg_each_model(&t, build, &r, true);
}
