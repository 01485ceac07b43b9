/* The stages before gg-run, where the user left them out: gg-select, then gg-build. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int memory_file(gg_diag *d)
{
	int fd = memfd_create("gg", MFD_CLOEXEC);

	if (fd < 0)
		gg_error(d, GG_MACHINE, "cannot make a file in memory: %s", strerror(errno));
	return fd;
}

static bool write_all(gg_diag *d, int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return gg_error(d, GG_MACHINE, "cannot hold the graph in memory: %s",
			                strerror(errno));
		p += k;
		n -= (size_t)k;
	}
	return lseek(fd, 0, SEEK_SET) == 0;
}

static bool wait_for(gg_diag *d, const char *tool, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return gg_error(d, GG_MACHINE, "cannot wait for %s: %s", tool, strerror(errno));
	if (WIFSIGNALED(status))
		return gg_error(d, GG_MACHINE, "%s died of signal %d", tool, WTERMSIG(status));
	if (WEXITSTATUS(status)) { /* it has said why */
		if (!d->status)
			d->status = (gg_status)WEXITSTATUS(status);
		d->errors++;
	}
	return WEXITSTATUS(status) == 0;
}

/* One tool from one file to another. */
static bool run_tool(gg_diag *d, const char *tool, char *const *argv, int in, int out)
{
	gg_arena a = {0};
	const char *path = gg_printf(&a, "%s/bin/%s", gg_prefix(), tool);
	posix_spawn_file_actions_t acts;
	pid_t pid;
	int why;

	why = posix_spawn_file_actions_init(&acts);
	why = why ? why : posix_spawn_file_actions_adddup2(&acts, in, 0);
	why = why ? why : posix_spawn_file_actions_adddup2(&acts, out, 1);
	why = why ? why : posix_spawn(&pid, path, &acts, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&acts);
	if (why)
		gg_error(d, GG_MACHINE, "cannot run '%s': %s", path, strerror(why));
	gg_arena_fini(&a);
	return !why && wait_for(d, tool, pid) && lseek(out, 0, SEEK_SET) == 0;
}

static gg_model *read_memory(gg_diag *d, const char *name, int fd)
{
	struct stat st;
	gg_source s = {.name = name};
	gg_model *m = NULL;
	void *p;

	if (fstat(fd, &st) || st.st_size <= 0)
		return NULL;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED) {
		gg_error(d, GG_MACHINE, "cannot map the plan: %s", strerror(errno));
		return NULL;
	}
	s.p = p;
	s.len = (size_t)st.st_size;
	if (gg_read(d, &s, &m) <= 0)
		m = NULL;
	munmap(p, (size_t)st.st_size);
	return m;
}

static gg_model *through(job *j, const char *target, bool select)
{
	gg_diag *d = &j->t->d;
	int fd[3] = {-1, -1, -1};
	char *quiet = d->quiet ? (char *)"-q" : NULL;
	char *choose[] = {(char *)"gg-select", gg_printf(&j->a, "--target=%s", target),
	                  (char *)"--layout=auto", quiet, NULL};
	char *build[] = {(char *)"gg-build", (char *)"--no-kernels", quiet, NULL}; /* they are made here */
	gg_buf b = {0};
	gg_model *m = NULL;
	bool good = gg_write(d, &b, j->m);

	for (int i = 0; i < 3 && good; i++)
		good = (fd[i] = memory_file(d)) >= 0;
	good = good && write_all(d, fd[0], b.p, b.len);
	if (good && select && (good = run_tool(d, "gg-select", choose, fd[0], fd[1]))) {
		int swap = fd[0];
		fd[0] = fd[1];
		fd[1] = swap;
	}
	if (good && run_tool(d, "gg-build", build, fd[0], fd[2]))
		m = read_memory(d, j->source.name, fd[2]);
	for (int i = 0; i < 3; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	gg_buf_fini(&b);
	return m;
}

bool make_runnable(job *j)
{
	gg_diag *d = &j->t->d;
	const char *stage = j->m->stage ? j->m->stage : "parse";
	bool selected = !strcmp(stage, "select") || !strcmp(stage, "build");
	gg_model *m;

	j->prebuilt = !strcmp(stage, "build");
	if (selected && j->target && j->m->target && strcmp(j->target, j->m->target))
		return gg_error(d, GG_USAGE, "the graph was selected for target '%s', not '%s'", j->m->target,
		                j->target);
	if (j->prebuilt)
		return true;
	if (!selected && j->target && !strcmp(j->target, "ref"))
		/* the executor takes a node without a choice to ref, and plans by itself */
		return gg_write_out(d, j->m->main);
	m = through(j, j->target ? j->target : "cpu", !selected);
	if (!m)
		return false;
	m->weights = j->m->weights;
	m->allow_outside = j->m->allow_outside;
	gg_model_free(j->m);
	j->m = m;
	return true;
}

gg_model *read_again(job *j)
{
	gg_source s = j->source;
	gg_model *m;

	s.at = 0;
	s.count = 0;
	if (gg_read(&j->t->d, &s, &m) <= 0)
		return NULL;
	if (j->t->weights)
		m->weights = j->t->weights;
	m->allow_outside |= j->t->allow_outside;
	return m;
}
