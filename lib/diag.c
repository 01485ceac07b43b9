#include "op.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One write for one line, so that the stages of a pipe do not mix theirs. Control characters in
 * names would make two lines of one: they are shown as '?'. */
static void line(const gg_diag *d, const char *prefix, const char *fmt, va_list ap)
{
	gg_buf b = {0};
	if (d->tool)
		gg_buf_printf(&b, "%s: ", d->tool);
	if (d->where)
		gg_buf_printf(&b, "%s: ", d->where);
	gg_buf_str(&b, prefix);
	gg_buf_vprintf(&b, fmt, ap);
	for (size_t i = 0; i < b.len; i++)
		if ((unsigned char)b.p[i] < ' ' || b.p[i] == 127)
			b.p[i] = '?';
	gg_buf_str(&b, "\n");
	fwrite(b.p, 1, b.len, stderr);
	gg_buf_fini(&b);
}

static void report(gg_diag *d, gg_status s, const char *prefix, const char *fmt, va_list ap)
{
	d->errors++;
	if (!d->status)
		d->status = s;
	if (d->hold) {
		gg_buf_printf(d->hold, "%s%s", d->hold->len ? "; " : "", prefix);
		gg_buf_vprintf(d->hold, fmt, ap);
	} else if (!d->silent)
		line(d, prefix, fmt, ap);
}

bool gg_error(gg_diag *d, gg_status s, const char *fmt, ...)
{
	va_list ap;
	gg_buf b = {0};
	if (d->at)
		gg_buf_printf(&b, "node '%s' (%s): ", gg_node_name(d->at), d->at->op->name);
	va_start(ap, fmt);
	report(d, s, b.len ? b.p : "", fmt, ap);
	va_end(ap);
	gg_buf_fini(&b);
	return false;
}

static bool inside_character(char c) { return (c & 0xc0) == 0x80; } /* of UTF-8 */

void gg_caret(gg_diag *d, const char *text, int len, int column)
{
	enum { BEFORE = 70, WIDE = 100 }; /* of a long line: bytes in front of the column, in all */
	gg_buf b = {0};
	int from = column > WIDE ? column - BEFORE : 0, at = 0;
	while (from < column && inside_character(text[from]))
		from++;
	for (int i = from; i < len && (i < from + WIDE || inside_character(text[i])); i++) {
		gg_buf_add(&b, (unsigned char)text[i] < ' ' || text[i] == 127 ? " " : &text[i], 1);
		at += i < column && !inside_character(text[i]);
	}
	if (!d->silent)
		fprintf(stderr, "  %s\n  %*s^\n", b.p ? b.p : "", at, "");
	gg_buf_fini(&b);
}

bool gg_node_error(gg_diag *d, gg_status s, const gg_node *n, const char *fmt, ...)
{
	va_list ap;
	gg_buf b = {0};
	gg_buf_printf(&b, "node '%s' (%s): ", gg_node_name(n), n->op->name);
	va_start(ap, fmt);
	report(d, s, b.p, fmt, ap);
	va_end(ap);
	gg_buf_fini(&b);
	return false;
}

void gg_note(gg_diag *d, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!d->quiet && !d->silent)
		line(d, "note: ", fmt, ap);
	va_end(ap);
}

void gg_verbose(gg_diag *d, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (d->verbose && !d->silent)
		line(d, "", fmt, ap);
	va_end(ap);
}

static void (*bug_by)(gg_buf *out);

void gg_bug_by(void (*who)(gg_buf *out)) { bug_by = who; }

void gg_bug_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	gg_buf b = {0};
	gg_buf_printf(&b, "%s: ", program_invocation_short_name);
	if (bug_by)
		bug_by(&b);
	gg_buf_printf(&b, "bug in gg at %s:%d: ", file, line);
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", b.p);
	abort();
}
