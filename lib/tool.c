/* Input and output of a tool. */
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- bytes out -------------------------------------------------------------------------- */
static bool write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n > INT_MAX ? INT_MAX : n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

static bool cannot_write(gg_diag *d, const char *path, int why)
{
	const char *where = d->where;
	d->where = 0;
	gg_error(d, GG_MACHINE, "cannot write '%s': %s", path, strerror(why));
	d->where = where;
	return false;
}

/* A device, a pipe: nothing that could be half written and then found. */
static bool write_special(gg_diag *d, const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || !write_all(fd, p, n)) {
		int why = errno;
		if (fd >= 0)
			close(fd);
		return cannot_write(d, path, why);
	}
	return close(fd) == 0 || cannot_write(d, path, errno);
}

/* What a new file may be, or what the one that it replaces is. */
static mode_t mode_of(const char *path)
{
	struct stat st;
	mode_t mask = umask(0);
	umask(mask);
	return stat(path, &st) ? 0666 & ~mask : st.st_mode & 07777;
}

static bool write_temp(const char *temp, int fd, const void *p, size_t n, const char *path)
{
	bool good = write_all(fd, p, n) && fchmod(fd, mode_of(path)) == 0;
	int why = errno;
	if (close(fd) && good) {
		why = errno;
		good = false;
	}
	if (good && rename(temp, path)) {
		why = errno;
		good = false;
	}
	if (!good)
		unlink(temp);
	errno = why;
	return good;
}

/* Where a symbolic link leads, also to a file that is not there yet. */
static char *follow(const char *path)
{
	char link[PATH_MAX], *real = realpath(path, 0);
	gg_buf b = {0};
	gg_buf_str(&b, path);
	for (int i = 0; !real && i < 40; i++) {
		ssize_t n = readlink(b.p, link, sizeof link - 1);
		const char *slash = strrchr(b.p, '/');
		if (n <= 0)
			break;
		link[n] = 0;
		b.len = *link != '/' && slash ? (size_t)(slash + 1 - b.p) : 0;
		gg_buf_str(&b, link);
	}
	if (!real)
		return b.p;
	gg_buf_fini(&b);
	return real;
}

/* Room for what mkstemp needs, where the name is as long as names may be. */
static void temp_name(gg_buf *b, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	gg_buf_printf(b, "%.*s%.200s.XXXXXX", (int)(name - path), path, name);
}

/* Beside the file, then renamed over it. Signals wait, so that none leaves the temporary behind. */
bool gg_write_file(gg_diag *d, const char *path, const void *p, size_t n)
{
	struct stat st;
	if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return write_special(d, path, p, n);
	char *real = follow(path);
	gg_buf temp = {0};
	temp_name(&temp, real);
	sigset_t wait, old;
	sigemptyset(&wait);
	sigaddset(&wait, SIGINT);
	sigaddset(&wait, SIGTERM);
	sigaddset(&wait, SIGHUP);
	sigprocmask(SIG_BLOCK, &wait, &old);
	int fd = mkstemp(temp.p);
	bool good = fd >= 0 && write_temp(temp.p, fd, p, n, real);
	int why = errno;
	sigprocmask(SIG_SETMASK, &old, 0);
	gg_buf_fini(&temp);
	free(real);
	return good || cannot_write(d, path, why);
}

bool gg_emit(gg_tool *t, const gg_buf *b)
{
	if (t->output)
		return gg_write_file(&t->d, t->output, b->len ? b->p : "", b->len);
	if (fflush(stdout) || !write_all(1, b->p, b->len))
		return cannot_write(&t->d, "<stdout>", errno);
	return true;
}

int gg_finish(gg_tool *t)
{
	if (fflush(stdout) || ferror(stdout))
		cannot_write(&t->d, "<stdout>", errno);
	/* For what a file system says only on closing; and the next tool sees the end before this one
	 * has given its memory back. */
	else if (close(1) && errno != EBADF)
		cannot_write(&t->d, "<stdout>", errno);
	return (int)t->d.status;
}

bool gg_stdout_ok(gg_tool *t)
{
	if (t->output || !isatty(1))
		return true;
	return gg_error(
	    &t->d, GG_USAGE,
	    "a binary stream is not written to a terminal: pipe it, or use -o FILE (gg-dump shows it)");
}

const char *gg_prefix(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');
		if (slash)
			*slash = 0;
	}
	return gg_intern(*path ? path : "/");
}

/* ---- models in, models out ---------------------------------------------------------------- */
struct search {
	const char *sym;
	bool found;
};

static void match_symbol(const char *sym, void *arg)
{
	struct search *s = arg;
	s->found |= s->sym == sym || !strcmp(s->sym, sym);
}

static void seek_shape(struct search *s, const gg_shape *shape)
{
	for (int i = 0; i < shape->rank && !s->found; i++)
		gg_dim_symbols(shape->dim[i], match_symbol, s);
}

static bool has_symbol(const gg_graph *g, const char *sym)
{
	struct search s = {sym, false};
	for (size_t i = 0; i < g->nin; i++)
		seek_shape(&s, &g->in[i]->shape);
	for (const gg_node *n = g->first; n && !s.found; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				seek_shape(&s, &n->out[i]->shape);
	return s.found;
}

bool gg_open(gg_tool *t, gg_source *s, const char *path)
{
	if (!gg_source_open(&t->d, s, path))
		return false;
	s->weights = t->weights;
	s->allow_outside = t->allow_outside;
	return true;
}

bool gg_prepare_model(gg_tool *t, gg_model *m)
{
	m->weights = t->weights;
	m->allow_outside = t->allow_outside;
	if (!t->nbind)
		return true;
	for (size_t i = 0; i < t->nbind; i++)
		if (!has_symbol(m->main, t->bind[i].sym))
			gg_note(&t->d, "no dim is named '%s'", t->bind[i].sym);
	gg_bind(m, t->bind, t->nbind);
	return gg_infer_graph(&t->d, m->main);
}

bool gg_finish_model(gg_tool *t, gg_buf *b, gg_model *m)
{
	if (!gg_check(&t->d, m))
		return false;
	if (t->unrecorded)
		return gg_write(&t->d, b, m);
	gg_buf v = {0};
	gg_buf_printf(&v, "%s", gg_version);
	const char **word = gg_xcalloc(t->nwords + 1, sizeof *word);
	word[0] = v.p;
	for (size_t i = 0; i < t->nwords; i++)
		word[i + 1] = t->words[i];
	gg_model_history(m, t->name, (int)t->nwords + 1, word);
	free(word);
	gg_buf_fini(&v);
	return gg_write(&t->d, b, m);
}

/* Messages about a graph that came through a pipe name the file that it was made from. */
static const char *origin(const gg_source *s, const gg_model *m)
{
	if (strcmp(s->name, "<stdin>"))
		return s->name;
	for (const gg_node *n = m->main->first; n; n = n->next)
		if (n->nloc && *n->loc[0])
			return n->loc[0];
	return s->name;
}

void gg_done_with(gg_tool *t, gg_model *m)
{
	gg_model_free(t->last);
	t->last = m;
}

static bool each_in_source(gg_tool *t, gg_source *s, gg_each *f, void *arg, gg_buf *out)
{
	gg_model *m;
	int got;
	while ((got = gg_read(&t->d, s, &m)) > 0) {
		t->d.where = origin(s, m);
		bool good = gg_prepare_model(t, m) && (!f || f(t, m, arg)) &&
		            (!out || gg_finish_model(t, out, m));
		t->d.where = s->name;
		gg_done_with(t, m);
		if (!good)
			return false;
	}
	return got == 0;
}

/* Nothing is written unless all went well: half an output must not look like a whole one. */
int gg_each_model(gg_tool *t, gg_each *f, void *arg, bool write)
{
	gg_buf out = {0};
	bool good = !write || gg_stdout_ok(t);
	for (size_t i = 0; good && i < t->nfile; i++) {
		gg_source s;
		good = gg_open(t, &s, t->file[i]);
		if (!good)
			break;
		t->d.where = s.name;
		good = each_in_source(t, &s, f, arg, write ? &out : 0);
		t->d.where = 0;
		gg_source_close(&s);
	}
	if (good && write)
		good = gg_emit(t, &out);
	int status = write ? gg_finish(t) : (int)t->d.status;
	gg_buf_fini(&out);
	gg_done_with(t, 0);
	if (!good && !status)
		gg_bug("a failure was not reported");
	return status;
}

gg_model *gg_read_one(gg_tool *t, const char *path)
{
	gg_source s;
	gg_model *m = 0, *second = 0;
	const char *where = t->d.where;
	if (!gg_open(t, &s, path))
		return 0;
	t->d.where = s.name;
	if (gg_read(&t->d, &s, &m) <= 0) {
		m = 0;
	} else if (gg_read(&t->d, &s, &second) != 0 || !gg_prepare_model(t, m)) {
		if (second)
			gg_error(&t->d, GG_MALFORMED, "more than one graph, where one is wanted");
		gg_model_free(second);
		gg_model_free(m);
		m = 0;
	}
	t->d.where = where;
	gg_source_close(&s);
	return m;
}
