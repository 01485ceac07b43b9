/* Diagnostics: said once, where the cause is known, on one line of stderr.
 *
 *     gg-opt: resnet.gg: node 'conv1' (Conv): weight has rank 3, expected 4
 *
 * A function that fails reports through its gg_diag and returns false or NULL;
 * its callers only return. The first error sets the exit status. */
#ifndef GG_DIAG_H
#define GG_DIAG_H

#include <stdbool.h>

typedef enum gg_status {
	GG_OK = 0,
	GG_DIFFERENT = 1, /* a comparison found a difference */
	GG_USAGE = 2,
	GG_MALFORMED = 3,   /* the input is malformed or inconsistent */
	GG_UNSUPPORTED = 4, /* op, dtype, opset or kernel that is not there */
	GG_MACHINE = 5      /* device, library, memory, disk */
} gg_status;

typedef struct gg_diag {
	const char *tool;  /* "gg-opt" */
	const char *where; /* file being read, or NULL */
	gg_status status;  /* of the first error */
	int errors;
	bool silent; /* probing: count, print nothing */
	bool quiet, verbose;
	const struct gg_node *at; /* at work: gg_error names it */
	struct gg_buf *hold;      /* errors go here, for who called to make one line of them; NULL: stderr */
} gg_diag;

struct gg_node;
struct gg_value;

/* After an error: the line of the text that is wrong, and a mark under its column (from 0). */
void gg_caret(gg_diag *d, const char *text, int len, int column);

/* All gg_error* return false, so that "report and fail" is one statement. */
bool gg_error(gg_diag *d, gg_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool gg_node_error(gg_diag *d, gg_status s, const struct gg_node *n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void gg_note(gg_diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));    /* not with -q */
void gg_verbose(gg_diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* with -v */

/* Puts who is at work in front of a bug's message; who's text may be empty. */
void gg_bug_by(void (*who)(struct gg_buf *out));
/* Our own fault, never the input's: file and line, then abort. */
#define gg_bug(...) gg_bug_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void gg_bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
