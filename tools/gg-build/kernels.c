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
	gg_put_str(&w, k->kind);
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
	static const char *const how[] = {"chosen", "compiled"};
	const char *what;
	bool compiled;
	size_t n;

	for (int k = 0; k < 2; k++) {
		gg_buf b = {0};
		for (size_t i = 0; n = o->deferred(i, &what, &compiled), what; i++)
			if (n && compiled == k)
				gg_buf_printf(&b, "%s%zu %s%s", b.len ? ", " : "", n, what, n > 1 ? "s" : "");
		if (b.len)
			gg_note(d, "%s when the plan is loaded: %s", how[k], b.p);
		gg_buf_fini(&b);
	}
}

static const gg_built *find_choices(const gg_built *k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(k[i].kind, "choices"))
			return &k[i];
	return NULL;
}

/* The open lines of the choices, each with what it is for. */
static void name_deferred(gg_diag *d, const gg_built *choices)
{
	gg_arena a = {0};
	char *at = choices ? gg_strndup(&a, choices->bytes, choices->n) : NULL;

	for (char *line; (line = strsep(&at, "\n"));) {
		char *library = strsep(&line, "\t"), *key = strsep(&line, "\t");
		if (line && !strcmp(line, "?"))
			gg_verbose(d, "chosen when the plan is loaded, by %s: %s", library, key);
	}
	gg_arena_fini(&a);
}

static bool save_choices(gg_diag *d, const char *path, const gg_built *choices)
{
	if (choices)
		return gg_write_file(d, path, choices->bytes, choices->n);
	return gg_error(d, GG_UNSUPPORTED, "there are no choices to write to '%s'", path);
}

static bool keep_built(gg_diag *d, gg_model *m, const gg_offline *o, const kernel_request *r)
{
	size_t n, kernels = 0;
	const gg_built *k = o->built(&n);
	gg_extra **end = &m->blobs;
	bool good = true;

	while (*end)
		end = &(*end)->next;
	if (r->dump && mkdir(r->dump, 0777) && errno != EEXIST)
		return gg_error(d, GG_MACHINE, "cannot make the folder '%s': %s", r->dump, strerror(errno));
	for (size_t i = 0; i < n && good; i++) {
		add_blob(m, &end, &k[i]);
		kernels += k[i].source != NULL;
		good = !r->dump || !k[i].source || write_source(d, r->dump, &k[i]);
	}
	gg_verbose(d, "%zu kernels compiled for %s", kernels, m->target);
	say_deferred(d, o);
	name_deferred(d, find_choices(k, n));
	return good && (!r->save || save_choices(d, r->save, find_choices(k, n)));
}

/* A text file, which stays: the backend keeps no copy. */
static char *read_whole(gg_diag *d, const char *path, size_t *n)
{
	enum { MOST = 64 << 20 };
	gg_source s;
	char *p = NULL;

	if (!gg_source_open(d, &s, path))
		return NULL;
	if (s.len < MOST) {
		p = gg_xmalloc(s.len + 1);
		memcpy(p, s.p, *n = s.len);
	} else {
		gg_error(d, GG_MALFORMED, "%s: %zu bytes are no choices", path, s.len);
	}
	gg_source_close(&s);
	return p;
}

/* The device itself where something is to be measured. NULL: reported. */
static const gg_backend *open_backend(gg_diag *d, const gg_model *m, const gg_device_kind *kind,
                                      const kernel_request *r)
{
	const char *name = gg_target_find(m->target)->backend;
	gg_diag silent = {.tool = d->tool, .silent = true};
	const gg_backend *b = r->tune ? gg_backend_load(d, name, 0)
	                              : gg_backend_load_offline(&silent, name, kind->arch, kind->processors);

	if (b && r->tune && b->arch() != kind->arch) {
		gg_error(d, GG_MACHINE, "--tune: the device here is an sm_%d, the graph is for '%s'",
		         b->arch(), m->target);
		return NULL;
	}
	return b;
}

static bool tell_wishes(gg_diag *d, const gg_offline *o, const gg_device_kind *kind, const kernel_request *r)
{
	static char tune[24];
	char *text;
	size_t n;

	snprintf(tune, sizeof tune, "%lld", (long long)r->tune);
	o->want("tune", tune);
	if (kind->text)
		o->want("device", kind->text);
	if (r->deterministic)
		o->want("deterministic", "");
	if (!r->choices)
		return true;
	if (!(text = read_whole(d, r->choices, &n)))
		return false;
	return o->give(d, "choices", r->choices, text, n) ||
	       gg_error(d, GG_MALFORMED, "%s: these are no choices of gg-build", r->choices);
}

bool build_kernels(gg_diag *d, gg_model *m, const kernel_request *r)
{
	static bool done; /* kernels are kept by process */
	gg_diag silent = {.tool = d->tool, .where = d->where, .silent = true};
	gg_exec_options o = {.threads = 1};
	gg_device_kind kind;
	const gg_backend *b;
	gg_exec *x = NULL;
	bool good;

	drop_blobs(m);
	if (!shapes_known(m->main) || done) {
		if (r->tune || r->save)
			return gg_error(d, GG_UNSUPPORTED,
			                done ? "--tune and --save-choices take one graph"
			                     : "--tune and --save-choices want shapes that are known");
		gg_verbose(d, "kernels are compiled when the plan is loaded%s",
		           done ? "" : ": shapes are not known yet");
		return true;
	}
	if (!gg_model_device(d, m, &kind))
		return false;
	if (!r->tune) {
		o.arch = kind.arch;
		o.processors = kind.processors;
	}
	done = true;
	b = open_backend(d, m, &kind, r);
	if (!b && r->tune)
		return false;
	if (!b) {
		gg_verbose(d,
		           "kernels are compiled when the plan is loaded: the compiler cannot be used here");
		return true;
	}
	if (!tell_wishes(d, b->offline, &kind, r))
		return false;
	good = (x = gg_exec_new(r->tune ? d : &silent, m, &o)) && gg_exec_prepare(x);
	if (!good && !r->tune)
		gg_note(d, "some kernels are compiled when the plan is loaded");
	good = (good || !r->tune) && keep_built(d, m, b->offline, r);
	gg_exec_free(x);
	return good;
}
