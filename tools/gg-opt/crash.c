/* A pass that crashes is named, and what it was given is left behind. What the handler needs is made
 * before the pass runs: it only opens and writes. */
#include "rules.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
	bool on;
	char said[256], graph[4096], script[4096];
	const gg_buf *input, *command;
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

static void on_crash(int sig)
{
	signal(sig, SIG_DFL);
	if (watch.on) {
		put(2, watch.said, strlen(watch.said));
		leave(watch.graph, watch.input);
		leave(watch.script, watch.command);
	}
	raise(sig);
}

void crash_watch(const char *name, const char *dir, const gg_buf *input, const gg_buf *command)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	static bool installed;
	struct sigaction a = {.sa_handler = on_crash, .sa_flags = (int)(SA_NODEFER | SA_RESETHAND)};
	watch.on = name != 0;
	if (!name)
		return;
	snprintf(watch.said, sizeof watch.said, "gg-opt: pass '%s' crashed\n", name);
	*watch.graph = *watch.script = 0;
	if (dir) {
		snprintf(watch.graph, sizeof watch.graph, "%s/%s.gg", dir, name);
		snprintf(watch.script, sizeof watch.script, "%s/%s.sh", dir, name);
	}
	watch.input = input;
	watch.command = command;
	for (size_t i = 0; !installed && i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &a, 0);
	installed = true;
}
