/* What a pass must not do while it runs. One that crashes, or ends the process, is named, and what it was
 * given is left behind; what the handler needs is made before: it only opens and writes. What one that is
 * loaded prints goes to stderr, and a copy of the process that it leaves running ends with it. */
#include "rules.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	bool on;
	char said[256], graph[4096], script[4096];
	const gg_buf *input, *command;
	const char *name;
	bool loaded; /* there are passes that are not ours */
	int out;     /* where stdout is while they run; 0: in its place */
	pid_t pid;
} watch;

static void put(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k <= 0)
			return;
		p += k;
		n -= (size_t)k;
	}
}

static void leave(const char *path, const gg_buf *b)
{
	int fd = b && *path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	if (fd < 0)
		return;
	put(fd, b->p, b->len);
	close(fd);
	put(2, "gg-opt: wrote '", 15);
	put(2, path, strlen(path));
	put(2, "'\n", 2);
}

static void tell_it(void)
{
	put(2, watch.said, strlen(watch.said));
	leave(watch.graph, watch.input);
	leave(watch.script, watch.command);
}

static void on_crash(int sig)
{
	signal(sig, SIG_DFL);
	if (watch.on)
		tell_it();
	raise(sig);
}

/* Nothing would be written, and all would look well. */
static void on_exit_of_pass(void)
{
	if (!watch.on)
		return;
	if (getpid() != watch.pid)
		_exit(0);
	snprintf(watch.said, sizeof watch.said, "gg-opt: pass '%s' ended the process\n", watch.name);
	tell_it();
	_exit(GG_MALFORMED);
}

static void install(void)
{
	static const int fatal[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT};
	static bool installed;
	struct sigaction a = {.sa_handler = on_crash, .sa_flags = (int)(SA_NODEFER | SA_RESETHAND)};
	for (size_t i = 0; !installed && i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &a, 0);
	if (!installed)
		atexit(on_exit_of_pass);
	installed = true;
}

void crash_aside(bool on)
{
	fflush(stdout);
	if (on && !watch.out) {
		watch.loaded = true;
		watch.out = dup(1);
		dup2(2, 1);
	} else if (!on && watch.out) {
		dup2(watch.out, 1);
		close(watch.out);
		watch.out = 0;
	}
}

void crash_watch(const char *name, const char *dir, const gg_buf *input, const gg_buf *command)
{
	if (watch.on && getpid() != watch.pid)
		_exit(0);
	watch.on = name != 0;
	if (watch.loaded)
		crash_aside(watch.on);
	if (!name)
		return;
	watch.pid = getpid();
	watch.name = name;
	snprintf(watch.said, sizeof watch.said, "gg-opt: pass '%s' crashed\n", name);
	*watch.graph = *watch.script = 0;
	if (dir) {
		snprintf(watch.graph, sizeof watch.graph, "%s/%s.gg", dir, name);
		snprintf(watch.script, sizeof watch.script, "%s/%s.sh", dir, name);
	}
	watch.input = input;
	watch.command = command;
	install();
}
