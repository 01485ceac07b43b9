/* What all tools share: options, input, output, exit status.
 *
 * A tool is one file: its option rows, its examples, and main. gg_args hands it its own options
 * one by one and deals with the common ones (-o -h -q -v --version --color --bind --weights
 * --allow-outside) itself. Output goes to a temporary file that is renamed when all went well. */
#ifndef GG_TOOL_H
#define GG_TOOL_H

#include "op.h"
#include "stream.h"

typedef struct gg_option {
	int id;           /* > 0; what gg_args_next returns */
	const char *name; /* "pass" for --pass */
	char letter;      /* 'O' for -O, or 0 */
	const char *arg;  /* "NAMES" when it takes a value, "[N]" when it may (--x=N only), NULL: a flag */
	const char *help;
} gg_option;

typedef struct gg_tool {
	const char *name;         /* "gg-opt" */
	const char *summary;      /* one line */
	const char *operands;     /* "[FILE]..." */
	const gg_option *options; /* ends with id 0 */
	const char *examples;     /* lines, indented by two */
	const char *built_with;   /* for --version */

	gg_diag d;
	const char *output; /* -o, or NULL: stdout */
	const char *weights;
	bool allow_outside;
	bool unrecorded; /* what was done is no step of the graph's history */
	int color;       /* 0 never, 1 always; already decided for stderr */
	int color_out;   /* the same for the output */
	gg_binding *bind;
	size_t nbind, cap_bind;
	const char **file; /* operands; never empty after gg_args_end: "-" */
	size_t nfile, cap_file;
	const char **words; /* every option as given, for the history; no file names */
	size_t nwords, cap_words;

	int argc;
	char **argv;
	int at;
	const char *rest;  /* of a cluster of short flags */
	const char *value; /* of the option just returned */

	gg_model *last; /* see gg_done_with */
} gg_tool;

void gg_args_start(gg_tool *t, int argc, char **argv);
int gg_args_next(gg_tool *t); /* the id of the next option, 0 at the end. Usage errors exit 2 */
void gg_usage(gg_tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn)); /* exit 2 */
bool gg_parse_int(const char *s, int64_t *out);
bool gg_parse_float(const char *s, double *out);
/* "a,b:c='x,y'": splits at commas outside quotes, into the arena; quotes are kept. */
char **gg_split(gg_arena *a, const char *s, char sep, size_t *n);
char *gg_unquote(gg_arena *a, const char *s);

/* Reads every model of every operand, applies --weights, --bind, calls f, and (write) checks and
 * writes it, with the tool's options added to its history when it changed something. Returns the
 * exit status. */
typedef bool gg_each(gg_tool *t, gg_model *m, void *arg);
int gg_each_model(gg_tool *t, gg_each *f, void *arg, bool write);
/* Reads one model from one operand the same way; NULL: reported. */
gg_model *gg_read_one(gg_tool *t, const char *path);
/* gg_source_open with --weights and --allow-outside. */
bool gg_open(gg_tool *t, gg_source *s, const char *path);
/* The two halves of gg_each_model, for tools that make models themselves: --weights, --bind and
 * inference; then the check, the history entry and the stream, appended to *b. */
bool gg_prepare_model(gg_tool *t, gg_model *m);
bool gg_finish_model(gg_tool *t, gg_buf *b, gg_model *m);

/* Bytes to -o FILE (whole or not at all) or stdout (flushed, checked). */
bool gg_emit(gg_tool *t, const gg_buf *b);
bool gg_write_file(gg_diag *d, const char *path, const void *p, size_t n);
/* Frees a model once there is another or NULL: the last one when its output is out already, since
 * the next tool waits for the end of the output and not for this one's memory. */
void gg_done_with(gg_tool *t, gg_model *m);
/* What ends main, but where gg_each_model wrote: flushes, checks and closes stdout, gives the exit status. */
int gg_finish(gg_tool *t);
/* Refuses a binary stream on a terminal. */
bool gg_stdout_ok(gg_tool *t);
/* "…/build/bin/gg-run" -> "…/build": where lib/ lies. */
const char *gg_prefix(void);

extern const char gg_version[];

#endif
