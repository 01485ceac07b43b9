/* Options: a tool's own rows first, then the ones every tool has. */
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef GG_VERSION
#define GG_VERSION "0"
#endif
const char gg_version[] = GG_VERSION;

enum { OUTPUT = 1, HELP, VERSION, QUIET, VERBOSE, COLOR, BIND, WEIGHTS, OUTSIDE };
static const gg_option common[] = {
    {BIND, "bind", 0, "SYM=N", "give the dim symbol SYM the value N; may be repeated"},
    {WEIGHTS, "weights", 0, "DIR", "read weight files from DIR, not from where the graph was made"},
    {OUTSIDE, "allow-outside", 0, 0, "allow weight files that lie outside that folder"},
    {OUTPUT, "output", 'o', "FILE", "write to FILE, whole or not at all (default: stdout)"},
    {QUIET, "quiet", 'q', 0, "no notes"},
    {VERBOSE, "verbose", 'v', 0, "say more"},
    {COLOR, "color", 0, "WHEN", "auto, always or never"},
    {HELP, "help", 'h', 0, "this text"},
    {VERSION, "version", 0, 0, "tool, stream version and what it was built with"},
    {0},
};

/* Options live as long as the process. */
static gg_arena kept;
#define KEEP(v, n, cap, x) ((v) = gg_grow_in(&kept, (v), (n), &(cap), sizeof *(v)), (v)[(n)++] = (x))

/* A number that stands for stdin, stdout or stderr must not become that of a file that is opened later:
 * messages would be written into it. What takes its place can be neither read nor written. */
static void hold_standard_files(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			return;
}

/* A file that was mapped and is shorter now: what is read there is no memory. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	static const char why[] = ": a file became shorter, or its disk failed, while it was read\n";
	if (info->si_code == BUS_ADRERR &&
	    write(2, program_invocation_short_name, strlen(program_invocation_short_name)) > 0 &&
	    write(2, why, sizeof why - 1) > 0)
		_exit(GG_MALFORMED);
	signal(sig, SIG_DFL);
	raise(sig);
}

void gg_args_start(gg_tool *t, int argc, char **argv)
{
	struct sigaction bus = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
	t->argc = argc;
	t->argv = argv;
	t->at = 1;
	t->d.tool = t->name;
	t->color = t->color_out = -1;
	hold_standard_files();
	sigaction(SIGBUS, &bus, 0);
	/* A parent may have it ignored; a tool whose reader has gone dies of it, quietly. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL); /* nor could it wait for what it starts */
	signal(SIGXFSZ, SIG_IGN); /* a limit on files is a full disk: said, and cleaned up */
}

void gg_usage(gg_tool *t, const char *fmt, ...)
{
	va_list ap;
	gg_buf b = {0};
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	t->d.where = 0;
	gg_error(&t->d, GG_USAGE, "%s (see %s --help)", b.p, t->name);
	exit(GG_USAGE);
}

static bool has_option(const gg_option *o, const char *name)
{
	for (; o && o->id; o++)
		if (o->name && !strcmp(o->name, name))
			return true;
	return false;
}

/* A long name that the tool has taken for itself (gg-run's --output) leaves the letter alone. */
static void help_rows(gg_buf *b, const gg_option *o, const gg_option *taken)
{
	for (; o->id; o++) {
		bool mine = o->name && !has_option(taken, o->name);
		gg_buf left = {0};
		if (o->letter)
			gg_buf_printf(&left, "-%c", o->letter);
		else
			gg_buf_str(&left, "  ");
		if (mine) {
			gg_buf_printf(&left, "%s --%s", o->letter ? "," : " ", o->name);
			if (o->arg)
				gg_buf_printf(&left, *o->arg == '[' ? "[=%s" : "=%s",
				              o->arg + (*o->arg == '['));
		} else if (o->arg) {
			gg_buf_printf(&left, o->name ? " %s" : "%s", o->arg);
		}
		gg_buf_printf(b, left.len < 27 ? "  %-27s %s\n" : "  %s\n                              %s\n",
		              left.p, o->help);
		gg_buf_fini(&left);
	}
}

static const char *compiler(void)
{
#ifdef __clang__
	return "clang " __clang_version__;
#else
	return "gcc " __VERSION__;
#endif
}

/* Help and version end the process: they are what was asked for. */
static _Noreturn void say(gg_tool *t, gg_buf *b)
{
	t->output = 0;
	exit(gg_emit(t, b) ? GG_OK : (int)t->d.status);
}

static _Noreturn void help(gg_tool *t)
{
	gg_buf b = {0};
	gg_buf_printf(&b, "usage: %s [OPTION]...%s%s\n%s\n\noptions:\n", t->name, t->operands ? " " : "",
	              t->operands ? t->operands : "", t->summary ? t->summary : "");
	if (t->options)
		help_rows(&b, t->options, NULL);
	help_rows(&b, common, t->options);
	if (t->examples)
		gg_buf_printf(&b, "\nexamples:\n%s", t->examples);
	if (b.p[b.len - 1] != '\n')
		gg_buf_str(&b, "\n");
	say(t, &b);
}

static _Noreturn void version(gg_tool *t)
{
	gg_buf b = {0};
	gg_buf_printf(&b, "%s %s\nstream version %d\nbuilt with %s", t->name, gg_version, GG_STREAM_VERSION,
	              compiler());
	for (b.len = strlen(b.p); b.len && b.p[b.len - 1] == ' ';)
		b.p[--b.len] = 0;
	if (t->built_with)
		gg_buf_printf(&b, ", %s", t->built_with);
	gg_buf_str(&b, "\n");
	say(t, &b);
}

static bool can_color(int fd)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
	return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb");
}

static void set_color(gg_tool *t, const char *when)
{
	if (!strcmp(when, "always"))
		t->color = t->color_out = 1;
	else if (!strcmp(when, "never"))
		t->color = t->color_out = 0;
	else if (!strcmp(when, "auto"))
		t->color = t->color_out = -1; /* when -o is known */
	else
		gg_usage(t, "--color takes auto, always or never, not '%s'", when);
}

static void add_binding(gg_tool *t, const char *text)
{
	const char *eq = strrchr(text, '=');
	gg_binding b = {0};
	if (!eq || eq == text || !gg_parse_int(eq + 1, &b.value) || b.value < 0)
		gg_usage(t, "--bind takes SYM=N with N >= 0, not '%s'", text);
	b.sym = gg_intern(gg_unquote(&kept, gg_strndup(&kept, text, (size_t)(eq - text))));
	for (size_t i = 0; i < t->nbind; i++)
		if (t->bind[i].sym == b.sym && t->bind[i].value != b.value)
			gg_usage(t, "symbol '%s' is bound twice", b.sym);
	KEEP(t->bind, t->nbind, t->cap_bind, b);
}

static void do_common(gg_tool *t, int id)
{
	switch (id) {
	case OUTPUT:
		t->output = strcmp(t->value, "-") ? t->value : 0;
		break;
	case HELP:
		help(t);
	case VERSION:
		version(t);
	case QUIET:
		t->d.quiet = true;
		break;
	case VERBOSE:
		t->d.verbose = true;
		break;
	case COLOR:
		set_color(t, t->value);
		break;
	case BIND:
		add_binding(t, t->value);
		break;
	case WEIGHTS:
		t->weights = t->value;
		break;
	case OUTSIDE:
		t->allow_outside = true;
		break;
	}
}

/* What goes into the history: options that change the result, spelled one way, without file names. */
static void remember(gg_tool *t, const gg_option *o)
{
	if (o >= common && o < common + sizeof common / sizeof *common && o->id != BIND)
		return;
	bool file = o->arg && (strstr(o->arg, "FILE") || strstr(o->arg, "DIR"));
	gg_buf b = {0};
	if (o->name)
		gg_buf_printf(&b, "--%s", o->name);
	else
		gg_buf_printf(&b, "-%c", o->letter);
	if (t->value && !file)
		gg_buf_printf(&b, "%s%s", o->name ? "=" : "", t->value);
	const char *word = gg_intern(b.p);
	gg_buf_fini(&b);
	KEEP(t->words, t->nwords, t->cap_words, word);
}

static const gg_option *find_long(const gg_option *o, const char *name, size_t n)
{
	for (; o && o->id; o++)
		if (o->name && !strncmp(o->name, name, n) && !o->name[n])
			return o;
	return 0;
}

static const gg_option *find_short(const gg_option *o, char letter)
{
	for (; o && o->id; o++)
		if (o->letter == letter)
			return o;
	return 0;
}

/* The value that must follow as the next word. */
static const char *next_word(gg_tool *t, const char *dash, const char *name, size_t n)
{
	if (t->at == t->argc)
		gg_usage(t, "option '%s%.*s' needs a value", dash, (int)n, name);
	return t->argv[t->at++];
}

static const gg_option *long_option(gg_tool *t, const char *word)
{
	const char *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	const gg_option *o = find_long(t->options, word, n);
	if (!o)
		o = find_long(common, word, n);
	if (!o)
		gg_usage(t, "unknown option '--%.*s'", (int)n, word);
	t->value = eq ? eq + 1 : 0;
	if (eq && !o->arg)
		gg_usage(t, "option '--%s' takes no value", o->name);
	if (!eq && o->arg && *o->arg != '[')
		t->value = next_word(t, "--", word, n);
	return o;
}

/* One letter of a cluster; a value is the rest of the word, or the next one. */
static const gg_option *short_option(gg_tool *t)
{
	char letter = *t->rest++;
	const gg_option *o = find_short(t->options, letter);
	if (!o)
		o = find_short(common, letter);
	if (!o)
		gg_usage(t, "unknown option '-%c'", letter);
	t->value = 0;
	if (o->arg) {
		if (*t->rest)
			t->value = t->rest;
		else if (*o->arg != '[')
			t->value = next_word(t, "-", &letter, 1);
		t->rest = 0;
	}
	return o;
}

/* Most likely a variable of a script that is not set: to take it for "nothing" would hide that. */
static void check_value(gg_tool *t, const gg_option *o)
{
	if (t->value && !*t->value)
		gg_usage(
		    t, o->name ? "option '--%s' needs a value, not ''" : "option '-%s' needs a value, not ''",
		    o->name ? o->name : (char[]){o->letter, 0});
}

static void operand(gg_tool *t, const char *word)
{
	if (!t->operands || !*t->operands)
		gg_usage(t, "unexpected operand '%s'", word);
	KEEP(t->file, t->nfile, t->cap_file, word);
}

static int end_of_args(gg_tool *t)
{
	if (t->color < 0) {
		t->color = can_color(2);
		t->color_out = !t->output && can_color(1);
	}
	if (!t->nfile)
		KEEP(t->file, t->nfile, t->cap_file, "-");
	return 0;
}

int gg_args_next(gg_tool *t)
{
	for (;;) {
		const gg_option *o;
		if (t->rest && *t->rest) {
			o = short_option(t);
		} else if (t->at >= t->argc) {
			return end_of_args(t);
		} else {
			const char *word = t->argv[t->at++];
			if (!strcmp(word, "--")) {
				while (t->at < t->argc)
					operand(t, t->argv[t->at++]);
				continue;
			}
			if (word[0] != '-' || !word[1]) {
				operand(t, word);
				continue;
			}
			if (word[1] != '-') {
				t->rest = word + 1;
				continue;
			}
			o = long_option(t, word + 2);
		}
		check_value(t, o);
		remember(t, o);
		if (o < common || o >= common + sizeof common / sizeof *common)
			return o->id;
		do_common(t, o->id);
	}
}

bool gg_parse_int(const char *s, int64_t *out)
{
	char *end;
	if (!*s || strchr(" \t\n+", *s))
		return false;
	errno = 0;
	long long x = strtoll(s, &end, 10);
	*out = x;
	return !*end && !errno;
}

bool gg_parse_float(const char *s, double *out)
{
	char *end;
	if (!*s || strchr(" \t\n+", *s))
		return false;
	*out = strtod(s, &end);
	return !*end;
}

char **gg_split(gg_arena *a, const char *s, char sep, size_t *n)
{
	char **part = 0, quote = 0;
	size_t cap = 0;
	const char *from = s;
	*n = 0;
	if (!*s)
		return gg_alloc(a, sizeof *part);
	for (;; s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? 0 : *s;
		if (*s && (quote || *s != sep))
			continue;
		part = gg_grow_in(a, part, *n, &cap, sizeof *part);
		part[(*n)++] = gg_strndup(a, from, (size_t)(s - from));
		if (!*s)
			return part;
		from = s + 1;
	}
}

/* As in the shell: quotes go wherever they stand, and what they enclose stays. */
char *gg_unquote(gg_arena *a, const char *s)
{
	char *out = gg_strdup(a, s), *to = out, quote = 0;
	for (; *s; s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? 0 : *s;
		else
			*to++ = *s;
	}
	*to = 0;
	return out;
}
