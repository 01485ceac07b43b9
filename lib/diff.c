/* A line diff: Myers' O(ND) algorithm ("An O(ND) difference algorithm and its variations", 1986),
 * forward pass with a trace. Common lines at both ends are cut off first. */
#include "stream.h"
#include <stdlib.h>
#include <string.h>

#define MAX_EDITS 4000 /* beyond: one block out, one block in */

typedef struct lines {
	const char **p;
	size_t *len, n, cap;
} lines;

static lines split(const char *s)
{
	lines l = {0};
	for (size_t cap_len = 0; *s; l.n++) {
		size_t n = strcspn(s, "\n");
		l.p = gg_grow(l.p, l.n, &l.cap, sizeof *l.p);
		l.len = gg_grow(l.len, l.n, &cap_len, sizeof *l.len);
		l.p[l.n] = s;
		l.len[l.n] = n;
		s += n + (s[n] == '\n');
	}
	return l;
}

typedef struct diff {
	const lines *a, *b;
	long from, na, nb; /* the middle part: lines from.. of both, so many of each */
	gg_buf *out;
	int color;
} diff;

static bool same(const diff *d, long i, long j)
{
	size_t x = (size_t)(d->from + i), y = (size_t)(d->from + j);
	return d->a->len[x] == d->b->len[y] && !memcmp(d->a->p[x], d->b->p[y], d->a->len[x]);
}

static void print(const diff *d, char sign, const lines *l, long i)
{
	size_t k = (size_t)(d->from + i);
	gg_buf_printf(d->out, "%s%c %.*s%s\n", d->color ? sign == '-' ? "\33[31m" : "\33[32m" : "", sign,
	              (int)l->len[k], l->p[k], d->color ? "\33[m" : "");
}

static void print_blocks(const diff *d)
{
	for (long i = 0; i < d->na; i++)
		print(d, '-', d->a, i);
	for (long j = 0; j < d->nb; j++)
		print(d, '+', d->b, j);
}

/* Rows of the trace: furthest x on diagonal k after e edits, k in -e..e, at trace[e][k + e]. */
static long **search(const diff *d, long *edits)
{
	long **trace = gg_xcalloc(MAX_EDITS + 1, sizeof *trace);
	for (long e = 0; e <= MAX_EDITS; e++) {
		trace[e] = gg_xcalloc((size_t)(2 * e + 1), sizeof **trace);
		for (long k = -e; k <= e; k += 2) {
			long *last = e ? trace[e - 1] + e - 1 : 0; /* indexed by diagonal */
			bool down = e && (k == -e || (k != e && last[k - 1] < last[k + 1]));
			long x = !e ? 0 : down ? last[k + 1] : last[k - 1] + 1;
			while (x < d->na && x - k < d->nb && same(d, x, x - k))
				x++;
			trace[e][k + e] = x;
			if (x >= d->na && x - k >= d->nb) {
				*edits = e;
				return trace;
			}
		}
	}
	*edits = -1;
	return trace;
}

/* Walks back from the end, then prints the edits forward. */
static void print_edits(const diff *d, long **trace, long edits)
{
	struct {
		char sign;
		long at;
	} *edit = gg_xcalloc((size_t)edits + 1, sizeof *edit);
	long x = d->na, y = d->nb;
	for (long e = edits; e > 0; e--) {
		long k = x - y, *last = trace[e - 1] + e - 1;
		bool down = k == -e || (k != e && last[k - 1] < last[k + 1]);
		x = down ? last[k + 1] : last[k - 1];
		y = x - (down ? k + 1 : k - 1);
		edit[e - 1].sign = down ? '+' : '-';
		edit[e - 1].at = down ? y : x;
	}
	for (long e = 0; e < edits; e++)
		print(d, edit[e].sign, edit[e].sign == '-' ? d->a : d->b, edit[e].at);
	free(edit);
}

bool gg_diff_text(gg_buf *out, const char *a, const char *b, int color)
{
	lines la = split(a), lb = split(b);
	diff d = {&la, &lb, 0, (long)la.n, (long)lb.n, out, color};
	while (d.na && d.nb && same(&d, 0, 0))
		d.from++, d.na--, d.nb--;
	while (d.na && d.nb && same(&d, d.na - 1, d.nb - 1))
		d.na--, d.nb--;
	bool differ = d.na || d.nb;
	if (differ) {
		long edits, **trace = search(&d, &edits);
		if (edits < 0)
			print_blocks(&d);
		else
			print_edits(&d, trace, edits);
		for (long e = 0; e <= MAX_EDITS; e++)
			free(trace[e]);
		free(trace);
	}
	free(la.p);
	free(la.len);
	free(lb.p);
	free(lb.len);
	return differ;
}
