/* --profile: a trace that chrome://tracing, Perfetto and jq read. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1000000 /* calls written */

struct profile {
	job *j;
	gg_buf text;
	double zero;
	size_t n, left_out;
	uint64_t run; /* the one at hand, from `first` to `last` */
	double first, last;
};

enum { HOST_ROW, DEVICE_ROW };

static void put_event(profile *p, const char *name, const char *cat, int row, double start, double seconds)
{
	gg_buf_str(&p->text, ",\n{\"name\":");
	put_quoted(&p->text, name);
	gg_buf_printf(&p->text,
	              ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":0,\"tid\":%d,\"args\":{",
	              cat, (start - p->zero) * 1e6, seconds * 1e6, row);
}

static void put_row(profile *p, int row, const char *name)
{
	gg_buf_printf(
	    &p->text,
	    "%s{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
	    row ? ",\n" : "", row, name);
}

static void end_run(profile *p)
{
	if (!p->run)
		return;
	put_event(p, "run", "run", HOST_ROW, p->first, p->last - p->first);
	gg_buf_printf(&p->text, "\"run\":%llu}}", (unsigned long long)p->run);
}

static void put_nodes(profile *p, const gg_ran *r)
{
	gg_buf_str(&p->text, "\"op\":\"");
	for (int i = 0; i < r->nnode; i++)
		gg_buf_printf(&p->text, "%s%s", i ? "+" : "", r->node[i]->op->name);
	gg_buf_str(&p->text, "\",\"nodes\":[");
	for (int i = 0; i < r->nnode; i++) {
		gg_buf_str(&p->text, i ? "," : "");
		put_quoted(&p->text, gg_node_name(r->node[i]));
	}
	gg_buf_str(&p->text, "],\"kernel\":");
	put_quoted(&p->text, r->node[0]->kernel ? r->node[0]->kernel : "ref");
	if (r->nout && r->out[0].dtype) {
		gg_arena a = {0};
		gg_buf_printf(&p->text, ",\"output\":\"%s%s\"", gg_dtype_name(r->out[0].dtype),
		              gg_shape_str(&a, &r->out[0].shape));
		gg_arena_fini(&a);
	}
	gg_buf_printf(&p->text, ",\"run\":%llu}}", (unsigned long long)r->run);
}

void profile_call(profile *p, const gg_ran *r, double start, double seconds)
{
	if (r->depth == 0 && r->run != p->run) {
		end_run(p);
		p->run = r->run;
		p->first = start;
	}
	if (r->depth == 0)
		p->last = start + seconds;
	if (p->n == MOST) {
		p->left_out++;
		return;
	}
	p->n++;
	put_event(p, gg_node_name(r->node[0]), r->node[0]->op->name,
	          r->device ? DEVICE_ROW + r->stream : HOST_ROW, start, seconds);
	put_nodes(p, r);
}

profile *profile_open(job *j)
{
	profile *p = gg_xcalloc(1, sizeof *p);

	p->j = j;
	p->zero = gg_clock();
	gg_buf_str(&p->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
	put_row(p, HOST_ROW, "host");
	put_row(p, DEVICE_ROW, "device");
	for (int i = 1; i < GG_MAX_STREAMS; i++) {
		char name[32];
		snprintf(name, sizeof name, "device, stream %d", i);
		put_row(p, DEVICE_ROW + i, name);
	}
	return p;
}

bool profile_write(profile *p, const char *path)
{
	end_run(p);
	p->run = 0;
	if (p->left_out)
		gg_note(&p->j->t->d, "--profile: %zu calls after the first %d are left out", p->left_out,
		        MOST);
	gg_buf_str(&p->text, "\n]}\n");
	return gg_write_file(&p->j->t->d, path, p->text.p, p->text.len);
}

void profile_close(profile *p)
{
	if (p)
		gg_buf_fini(&p->text);
	free(p);
}
