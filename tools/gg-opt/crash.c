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
	bool on, told; /* told: in the message of a bug */
	char graph[4096], script[4096];
	const gg_buf *input, *command;
	const char *what, *name;
	const gg_pass_run *run;
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

/* ---- who it was ------------------------------------------------------------------------------ */
typedef struct text {
	char p[1024];
	size_t n;
} text;

static void add(text *t, const char *s)
{
	for (; *s && t->n < sizeof t->p - 1; s++)
		t->p[t->n++] = (unsigned char)*s < ' ' || *s == 127 ? '?' : *s;
}

static void add_number(text *t, size_t n)
{
	char digit[2] = {(char)('0' + n % 10), 0};
	if (n > 9)
		add_number(t, n / 10);
	add(t, digit);
}

static void add_quoted(text *t, const char *before, const char *s, const char *after)
{
	add(t, before);
	add(t, s);
	add(t, after);
}

/* "m.onnx: pass 'cse', rewrite 3, 'y' (Neg)": within a signal handler, so without the library's help. */
static void add_who(text *t)
{
	const gg_pass_run *r = watch.run;
	if (r && r->d && r->d->where)
		add_quoted(t, "", r->d->where, ": ");
	add(t, watch.what);
	add_quoted(t, " '", watch.name, "'");
	if (!r || !r->at)
		return;
	add(t, ", rewrite ");
	add_number(t, r->applied - r->before);
	add_quoted(t, ", '", r->at, "'");
	add_quoted(t, " (", r->at_op, ")");
}

static void tell_it(const char *what)
{
	text t = {.n = 0};
	add(&t, "gg-opt: ");
	add_who(&t);
	add(&t, what);
	t.p[t.n++] = '\n';
	if (!watch.told)
		put(2, t.p, t.n);
	leave(watch.graph, watch.input);
	leave(watch.script, watch.command);
}

static void on_bug(gg_buf *out)
{
	text t = {.n = 0};
	if (!watch.on)
		return;
	add_who(&t);
	gg_buf_add(out, t.p, t.n);
	gg_buf_str(out, ": ");
	watch.told = true;
}

static void on_crash(int sig)
{
	signal(sig, SIG_DFL);
	if (watch.on)
		tell_it(" crashed");
	raise(sig);
}

/* Nothing would be written, and all would look well. */
static void on_exit_of_pass(void)
{
	if (!watch.on)
		return;
	if (getpid() != watch.pid)
		_exit(0);
	tell_it(" ended the process");
	_exit(GG_MALFORMED);
}

/* With a stack of its own: a pass may have used up the other. */
static void install(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	static char stack[1 << 16];
	static bool installed;
	struct sigaction a = {.sa_handler = on_crash,
	                      .sa_flags = (int)(SA_NODEFER | SA_RESETHAND | SA_ONSTACK)};
	if (installed)
		return;
	installed = true;
	sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, 0);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &a, 0);
	atexit(on_exit_of_pass);
	gg_bug_by(on_bug);
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

void crash_watch(const char *what, const char *name, const gg_pass_run *r, const char *dir,
                 const gg_buf *input, const gg_buf *command)
{
	if (watch.on && getpid() != watch.pid)
		_exit(0);
	watch.on = what != 0;
	if (watch.loaded)
		crash_aside(watch.on);
	if (!what)
		return;
	watch.pid = getpid();
	watch.what = what;
	watch.name = name;
	watch.run = r;
	watch.told = false;
	*watch.graph = *watch.script = 0;
	if (dir) {
		snprintf(watch.graph, sizeof watch.graph, "%s/%s.gg", dir, name);
		snprintf(watch.script, sizeof watch.script, "%s/%s.sh", dir, name);
	}
	watch.input = input;
	watch.command = command;
	install();
}
