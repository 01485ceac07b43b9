/* --dump: every value that a step makes, as .npy.
 *
 *   DIR/values.tsv         a line a value: file, name, dtype, shape, node, op
 *   DIR/NAME.npy           of several steps: DIR/STEP/values.tsv, DIR/STEP/NAME.npy
 *
 * A name is a file's name but for bytes that are unwelcome there, which become %XX. */
#include "run.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST 200 /* bytes of a file's name before it is cut, and told apart by a hash */

static bool welcome(unsigned char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_-+@=,:", c)) || (c == '.' && !first);
}

static const char *file_name(gg_arena *a, const char *name)
{
	gg_buf b = {0};
	const char *out;

	for (const char *s = name; *s; s++)
		gg_buf_printf(&b, welcome((unsigned char)*s, s == name) ? "%c" : "%%%02X", (unsigned char)*s);
	if (b.len > LONGEST)
		out = gg_printf(a, "%.*s~%016llx.npy", LONGEST, b.p,
		                (unsigned long long)gg_hash(name, strlen(name), 0));
	else
		out = gg_printf(a, "%s.npy", b.len ? b.p : "%");
	gg_buf_fini(&b);
	return out;
}

static bool make_folder(job *j, const char *path)
{
	return !mkdir(path, 0777) || errno == EEXIST ||
	       gg_error(&j->t->d, GG_MACHINE, "cannot make the folder '%s': %s", path, strerror(errno));
}

static const char *folder(job *j, gg_arena *a, const pair *p)
{
	const char *dir = rank_path(j, p->file);
	bool many = j->steps > 1 || j->epochs;

	return many ? gg_printf(a, "%s/%lld", dir, (long long)j->done) : dir;
}

static bool put(job *j, gg_arena *a, pair *p, const gg_node *n, const gg_value *v, const gg_tensor *t)
{
	const char *file = file_name(a, v->name);
	bool text = t->dtype == GG_STRING;

	p->matched = true;
	gg_buf_printf(&p->list, "%s\t%s\t%s\t%s\t%s\t%s\n", text ? "" : file, v->name,
	              gg_dtype_name(t->dtype), gg_shape_str(a, &t->shape), n ? gg_node_name(n) : "",
	              n ? n->op->name : "");
	return text || gg_npy_write(&j->t->d, gg_printf(a, "%s/%s", folder(j, a, p), file), t);
}

bool dump_value(job *j, const gg_value *v, const gg_tensor *t)
{
	gg_arena a = {0};
	bool good = true;

	for (size_t i = 0; i < j->dump.n && good; i++)
		if (!fnmatch(j->dump.p[i].name, v->name, 0))
			good = put(j, &a, &j->dump.p[i], v->producer, v, t);
	gg_arena_fini(&a);
	return good;
}

/* Constants and parameters as they are before the step. */
static bool dump_constants(job *j)
{
	for (gg_value *v = j->m->main->consts; v; v = v->next_const) {
		gg_tensor t;
		if (v->nuses && (!gg_exec_get_param(j->x, v, &t) || !dump_value(j, v, &t)))
			return false;
	}
	return true;
}

bool dump_start(job *j)
{
	gg_arena a = {0};
	bool good = true;

	for (size_t i = 0; i < j->dump.n && good; i++)
		good = make_folder(j, rank_path(j, j->dump.p[i].file)) &&
		       make_folder(j, folder(j, &a, &j->dump.p[i]));
	gg_arena_fini(&a);
	return good && (!j->dump.n || dump_constants(j));
}

bool dump_end(job *j)
{
	gg_arena a = {0};
	bool good = true;

	for (size_t i = 0; i < j->dump.n && good; i++) {
		pair *p = &j->dump.p[i];
		good = gg_write_file(&j->t->d, gg_printf(&a, "%s/values.tsv", folder(j, &a, p)),
		                     p->list.len ? p->list.p : "", p->list.len);
		if (!p->matched && j->done == j->first)
			gg_note(&j->t->d, "--dump: no value's name matches '%s'", p->name);
		p->list.len = 0;
	}
	gg_arena_fini(&a);
	return good;
}
