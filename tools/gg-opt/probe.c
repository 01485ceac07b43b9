#include "probe.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void child(const char *command, int in, bool quiet)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(in, 0);
	dup2(quiet ? null : 2, 1);
	if (quiet)
		dup2(null, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)0);
	_exit(127);
}

/* A file, not a pipe: the command need not read all of it. */
int probe(gg_diag *d, const char *command, const gg_buf *graph)
{
	FILE *f = tmpfile();
	int status = 0;
	bool good = f && fwrite(graph->p, 1, graph->len, f) == graph->len && !fflush(f);
	if (good)
		rewind(f);
	pid_t pid = good ? fork() : -1;
	if (!pid)
		child(command, fileno(f), !d->verbose);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		gg_error(d, GG_MACHINE, "cannot run '%s': %s", command, strerror(errno));
		status = -1;
	} else {
		status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
	if (f)
		fclose(f);
	return status;
}
