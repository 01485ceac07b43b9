#include "kernels.h"
#include "../../lib/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool shapes_known(const gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++)
		if (!g->in[i]->dtype || !gg_shape_known(&g->in[i]->shape))
			return false;
	return true;
}

static void add_blob(gg_model *m, gg_extra ***end, const gg_built *k)
{
	gg_extra *x = gg_alloc(&m->arena, sizeof *x);
	gg_buf buf = {0};
	gg_writer w;
	void *bytes;

	gg_writer_init(&w, &buf);
	gg_put_map(&w, 3);
	gg_put_str(&w, "name");
	gg_put_str(&w, k->name);
	gg_put_str(&w, "kind");
	gg_put_str(&w, "cubin");
	gg_put_str(&w, "bytes");
	gg_put_bin(&w, k->bytes, k->n);
	bytes = gg_alloc(&m->arena, buf.len);
	memcpy(bytes, buf.p, buf.len);
	*x = (gg_extra){.key = gg_intern("blob"), .bytes = bytes, .len = buf.len};
	gg_buf_fini(&buf);
	**end = x;
	*end = &x->next;
}

static void drop_blobs(gg_model *m)
{
	gg_extra **at = &m->blobs;

	while (*at)
		if (!strcmp((*at)->key, "blob"))
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

static bool write_source(gg_diag *d, const char *dir, const gg_built *k)
{
	gg_arena a = {0};
	bool good = gg_write_file(d, gg_printf(&a, "%s/%s.cu", dir, k->name), k->source, strlen(k->source));

	gg_arena_fini(&a);
	return good;
}

static void say_deferred(gg_diag *d, const gg_offline *o)
{
	const char *what;
	gg_buf b = {0};
	size_t n;

	for (size_t i = 0; n = o->deferred(i, &what), what; i++)
		if (n)
			gg_buf_printf(&b, "%s%zu %s%s", b.len ? ", " : "", n, what, n > 1 ? "s" : "");
	if (b.len)
		gg_note(d, "chosen when the plan is loaded: %s", b.p);
	gg_buf_fini(&b);
}

static bool keep_built(gg_diag *d, gg_model *m, const gg_offline *o, const char *dump)
{
	size_t n;
	const gg_built *k = o->built(&n);
	gg_extra **end = &m->blobs;
	bool good = true;

	while (*end)
		end = &(*end)->next;
	if (dump && mkdir(dump, 0777) && errno != EEXIST)
		return gg_error(d, GG_MACHINE, "cannot make the folder '%s': %s", dump, strerror(errno));
	for (size_t i = 0; i < n && good; i++) {
		add_blob(m, &end, &k[i]);
		good = !dump || write_source(d, dump, &k[i]);
	}
	gg_verbose(d, "%zu kernels compiled for %s", n, m->target);
	say_deferred(d, o);
	return good;
}

bool build_kernels(gg_diag *d, gg_model *m, const char *dump)
{
	static bool done; /* kernels are kept by process */
	gg_diag silent = {.tool = d->tool, .where = d->where, .silent = true};
	gg_exec_options o = {.threads = 1};
	gg_device_kind kind;
	const gg_backend *b;
	gg_exec *x = NULL;

	drop_blobs(m);
	if (!shapes_known(m->main) || done) {
		gg_verbose(d, "kernels are compiled when the plan is loaded%s",
		           done ? "" : ": shapes are not known yet");
		return true;
	}
	if (!gg_target_device(d, m->target, &kind))
		return false;
	o.arch = kind.arch;
	o.processors = kind.processors;
	done = true;
	b = gg_backend_load_offline(&silent, gg_target_find(m->target)->backend, o.arch, o.processors);
	if (!b) {
		gg_verbose(d,
		           "kernels are compiled when the plan is loaded: the compiler cannot be used here");
		return true;
	}
	if (!(x = gg_exec_new(&silent, m, &o)) || !gg_exec_prepare(x))
		gg_note(d, "some kernels are compiled when the plan is loaded");
	gg_exec_free(x);
	return keep_built(d, m, b->offline, dump);
}
