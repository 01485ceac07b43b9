/* What gg-run prints. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 4 /* values shown of an output */

void print_values(gg_buf *b, const gg_tensor *t)
{
	for (int64_t i = 0; i < gg_count(t); i++) {
		gg_buf_str(b, "\t");
		gg_put_element(b, t, i);
	}
}

void put_quoted(gg_buf *b, const char *s)
{
	gg_buf_str(b, "\"");
	for (; *s; s++)
		gg_buf_printf(b,
		              (unsigned char)*s < 32    ? "\\u%04x"
		              : *s == '"' || *s == '\\' ? "\\%c"
		                                        : "%c",
		              *s);
	gg_buf_str(b, "\"");
}

/* What JSON has no number for is null. */
static void put_json(gg_buf *b, const gg_tensor *t, int64_t i)
{
	char class = gg_dtype_class(t->dtype);

	if (class == 'S')
		put_quoted(b, ((const char *const *)t->data)[i]);
	else if ((class == 'F' && !isfinite(gg_get_f64(t, i))) || class == 'C')
		gg_buf_str(b, "null");
	else
		gg_put_element(b, t, i);
}

void print_json(gg_buf *b, const char *name, const gg_tensor *t)
{
	int64_t n = gg_count(t);

	gg_buf_str(b, ",");
	put_quoted(b, name);
	gg_buf_str(b, t->shape.rank ? ":[" : ":");
	for (int64_t i = 0; i < n; i++) {
		gg_buf_str(b, i ? "," : "");
		put_json(b, t, i);
	}
	gg_buf_str(b, t->shape.rank ? "]" : "");
}

void summary(gg_buf *b, const char *name, const gg_tensor *t)
{
	gg_arena a = {0};
	int64_t n = gg_count(t);
	double min = INFINITY, max = -INFINITY, sum = 0;
	char class = gg_dtype_class(t->dtype);
	bool nan = false;

	gg_buf_printf(b, "%s %s%s", name, gg_dtype_name(t->dtype), gg_shape_str(&a, &t->shape));
	gg_arena_fini(&a);
	if (n && class != 'S' && class != 'C') {
		for (int64_t i = 0; i < n; i++) {
			double x = gg_get_f64(t, i);
			nan |= isnan(x);
			min = x < min ? x : min;
			max = x > max ? x : max;
			sum += x;
		}
		if (nan) /* it hides in neither, so both say it */
			min = max = NAN;
		gg_buf_printf(b, " min %.6g max %.6g mean %.6g", min, max, sum / (double)n);
	}
	gg_buf_str(b, " [");
	for (int64_t i = 0; i < n && i < FIRST; i++) {
		gg_buf_str(b, i ? " " : "");
		gg_put_element(b, t, i);
	}
	gg_buf_str(b, n > FIRST ? " ...]\n" : "]\n");
}

bool list_io(job *j)
{
	gg_graph *g = j->m->main;
	gg_buf b = {0};
	bool good;

	for (size_t i = 0; i < g->nin; i++)
		gg_buf_printf(&b, "input\t%s\t%s\t%s\n", g->in[i]->name,
		              gg_dtype_name((gg_dtype)g->in[i]->dtype),
		              gg_shape_str(&j->a, &g->in[i]->shape));
	for (size_t i = 0; i < g->nout; i++)
		gg_buf_printf(&b, "output\t%s\t%s\t%s\n", g->out[i]->value->name,
		              gg_dtype_name((gg_dtype)g->out[i]->value->dtype),
		              gg_shape_str(&j->a, &g->out[i]->value->shape));
	for (size_t i = 0; i < g->nstate; i++)
		gg_buf_printf(&b, "state\t%s\t%s\t%s\n", g->state[i]->param->name,
		              gg_dtype_name((gg_dtype)g->state[i]->param->dtype),
		              gg_shape_str(&j->a, &g->state[i]->param->shape));
	good = gg_emit(j->t, &b);
	gg_buf_fini(&b);
	return good;
}

/* One line a target; one that cannot be used says why. */
bool list_devices(job *j)
{
	int n;
	const gg_target *const *t = gg_target_list(&n);
	int threads = j->exec.threads > 0 ? j->exec.threads : gg_threads();
	gg_buf b = {0};
	bool good;

	for (int i = 0; i < n; i++) {
		const gg_backend *back = NULL;
		gg_diag silent = {.tool = j->t->d.tool, .silent = true};
		if (!t[i]->backend) {
			gg_buf_printf(&b, "%s\tbuilt in, gg %s\n", t[i]->name, gg_version);
			continue;
		}
		back = gg_backend_load(&silent, t[i]->backend, threads);
		if (!back)
			gg_buf_printf(&b, "%s\tnot available: gg-%s.so cannot be loaded\n", t[i]->name,
			              t[i]->backend);
		else
			gg_buf_printf(&b, "%s\t%s, %d thread%s\n", t[i]->name,
			              back->version ? back->version() : back->name, threads,
			              threads == 1 ? "" : "s");
	}
	good = gg_emit(j->t, &b);
	gg_buf_fini(&b);
	return good;
}

bool describe_device(job *j)
{
	gg_diag *d = &j->t->d;
	const char *name = gg_target_find(j->target ? j->target : "cuda")->backend;
	const gg_backend *b = name ? gg_backend_load(d, name, 1) : NULL;
	gg_buf text = {0};
	char *s;

	if (name && !b)
		return false;
	if (!b || !b->describe)
		return gg_error(d, GG_UNSUPPORTED, "target '%s' has no device to describe", j->target);
	s = b->describe();
	gg_buf_str(&text, s);
	free(s);
	bool good = gg_emit(j->t, &text);
	gg_buf_fini(&text);
	return good;
}

static int by_size(const void *x, const void *y)
{
	const double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* The smallest time that p percent of the runs do not exceed. */
static double percentile(const double *sorted, size_t n, double p)
{
	size_t i = (size_t)ceil(p / 100 * (double)n);

	return sorted[i > 0 ? i - 1 : 0];
}

static void memory_line(gg_buf *b, const char *what, size_t bytes, const char *more)
{
	gg_buf_printf(b, "%-10s %14zu  %s\n", what, bytes, more);
}

void memory_lines(const job *j, gg_buf *b)
{
	gg_memory m;
	size_t beyond, libraries;
	char over[128];

	if (!gg_exec_memory(j->x, &m)) {
		gg_note(&j->t->d, "--memory is of a device: none is at work");
		return;
	}
	beyond = m.arena + m.workspace;
	libraries = m.device.used - m.device.context;
	libraries = libraries > m.device.own ? libraries - m.device.own : 0;
	snprintf(over, sizeof over, "the memory plan, %.3f of its lower bound",
	         m.bound ? (double)m.arena / (double)m.bound : 1);
	memory_line(b, "weights", m.weights, "constants, parameters, and what kernels made of them");
	memory_line(b, "arena", m.arena, over);
	memory_line(b, "workspace", m.workspace, "of kernels, one a stream");
	memory_line(b, "inputs", m.inputs, "");
	snprintf(over, sizeof over, "at most at one time; beyond weights and inputs %.3f of the plan",
	         beyond ? (double)(m.device.peak - m.weights - m.inputs) / (double)m.arena : 1);
	memory_line(b, "peak", m.device.peak, over);
	memory_line(b, "libraries", libraries, "kernels, graphs, and what cuDNN and cuBLASLt keep");
	memory_line(b, "context", m.device.context, "in use before, by others too");
	memory_line(b, "total", m.device.total, "of the device");
}

void timing(const job *j, gg_buf *b, double *seconds, size_t n)
{
	static const double at[] = {50, 90, 95, 99};
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += seconds[i];
	qsort(seconds, n, sizeof *seconds, by_size);
	if (j->json)
		gg_buf_printf(
		    b, "{\"runs\":%zu,\"warmup\":%lld,\"unit\":\"s\",\"mean\":%.9g,\"min\":%.9g,\"max\":%.9g",
		    n, (long long)j->warmup, sum / (double)n, seconds[0], seconds[n - 1]);
	else
		gg_buf_printf(b, "%zu run%s: mean %.6g ms, min %.6g ms, max %.6g ms", n, n == 1 ? "" : "s",
		              sum / (double)n * 1e3, seconds[0] * 1e3, seconds[n - 1] * 1e3);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		if (j->json)
			gg_buf_printf(b, ",\"p%g\":%.9g", at[i], percentile(seconds, n, at[i]));
		else
			gg_buf_printf(b, ", p%g %.6g ms", at[i], percentile(seconds, n, at[i]) * 1e3);
	gg_buf_str(b, j->json ? "}\n" : "\n");
}
