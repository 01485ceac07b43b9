#include "bisect.h"
#include "probe.h"
#include <stdlib.h>

enum { NAMED = 6 };

typedef struct job {
	gg_diag *d;
	gg_model *m;
	gg_buf bytes; /* of m */
	step *s;
	size_t nstep;
	const char *command;
} job;

/* The command's exit status on the graph after `limit` rewrites; a pass that fails there by itself counts
 * as 128. -1: reported. */
static int status_at(job *j, int64_t limit)
{
	replay at;
	gg_buf bytes = {0};
	gg_model *m = steps_replay(j->s, j->nstep, &j->bytes, j->m, limit, &at);
	if (!m)
		return 128;
	int status = model_save(j->d, m, &bytes) ? probe(j->d, j->command, &bytes) : -1;
	gg_verbose(j->d, "--bisect: exit status %d after %lld rewrites", status, (long long)limit);
	gg_model_free(m);
	gg_buf_fini(&bytes);
	return status;
}

static void tell(const job *j, int64_t bad, int64_t total, int color, gg_buf *out)
{
	replay before, at;
	gg_model *one = steps_replay(j->s, j->nstep, &j->bytes, j->m, bad - 1, &before);
	gg_model *two = steps_replay(j->s, j->nstep, &j->bytes, j->m, bad, &at);
	gg_buf was = {0}, is = {0};
	gg_buf_printf(out, "pass '%s', rewrite %lld (--limit=%lld of %lld)", j->s[at.step].pass->name,
	              (long long)at.in_step, (long long)bad, (long long)total);
	if (one && two) {
		put_rewritten(out, one, two, NAMED);
		gg_buf_str(out, "\n");
		put_text(&was, one);
		put_text(&is, two);
		gg_diff_text(out, was.p, is.p, color);
	} else {
		gg_buf_str(out, ": the pass itself fails\n");
	}
	gg_model_free(one);
	gg_model_free(two);
	gg_buf_fini(&was);
	gg_buf_fini(&is);
}

/* How many rewrites there are. */
static int64_t count(const job *j, int64_t limit)
{
	replay all;
	gg_model_free(steps_replay(j->s, j->nstep, &j->bytes, j->m, limit, &all));
	return all.total;
}

static bool search(job *j, int64_t total, int64_t *out)
{
	int64_t good = 0, bad = total;
	int status = status_at(j, 0);
	if (status > 0)
		return gg_error(j->d, GG_USAGE,
		                "--bisect: the command fails on the graph as it is (exit status %d)", status);
	status = status < 0 ? status : status_at(j, total);
	if (!status)
		return gg_error(j->d, GG_USAGE, "--bisect: the command does not fail after all %lld rewrites",
		                (long long)total);
	while (status >= 0 && bad - good > 1) {
		int64_t mid = good + (bad - good) / 2;
		status = status_at(j, mid);
		*(status ? &bad : &good) = mid;
	}
	*out = bad;
	return status >= 0;
}

bool bisect(gg_diag *d, gg_model *m, step *s, size_t nstep, int64_t limit, const char *command, int color,
            gg_buf *out)
{
	job j = {.d = d, .m = m, .s = s, .nstep = nstep, .command = command};
	int64_t total = 0, bad = 0;
	bool good = model_save(d, m, &j.bytes);
	if (good && !(total = count(&j, limit < 0 ? INT64_MAX : limit)))
		good = gg_error(d, GG_USAGE, "--bisect: the passes make no rewrite");
	good = good && search(&j, total, &bad);
	if (good)
		tell(&j, bad, total, color, out);
	gg_buf_fini(&j.bytes);
	return good;
}
