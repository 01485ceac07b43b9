/* What libraries chose, as text that people can read, compare and keep: a line of
 *
 *     library and device \t what it is for \t the choice
 *
 * behind the line "gg-choices 1", and behind "deterministic" where only such algorithms were to be chosen. A
 * choice holds for the library that made it; another one chooses again, which is said once. A choice "?"
 * is open: that there is something to choose is known, and it is chosen when the plan is loaded. One that was
 * measured ends in its time; the others are proposals, which give way where a run is to measure. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

static const char magic[] = "gg-choices 1";
bool cuda_deterministic;

typedef struct choice {
	const char *library, *key, *text;
	bool deterministic;
} choice;
static choice *all;
static size_t nall, cap_all;
static gg_map by_key;
static gg_arena kept;
static gg_diag *teller; /* of who brought choices; NULL: nobody did, or it was told */

static choice *find(const char *key)
{
	uintptr_t i = (uintptr_t)gg_map_gets(&by_key, key);
	return i ? &all[i - 1] : NULL;
}

static void put(const char *library, const char *key, const char *text, bool deterministic)
{
	choice *c = find(key);

	if (!c) {
		choice x = {.key = gg_strdup(&kept, key)};
		GG_PUSH(all, nall, cap_all, x);
		c = &all[nall - 1];
		gg_map_puts(&by_key, c->key, (void *)(uintptr_t)nall);
	}
	c->library = gg_strdup(&kept, library);
	c->text = gg_strdup(&kept, text);
	c->deterministic = deterministic;
}

void cuda_choose(const char *library, const char *key, const char *text)
{
	put(library, key, text, cuda_deterministic);
}

bool cuda_has_choice(const char *key) { return find(key); }

/* "cuDNN 9.14.0, sm_90" was made for any driver. */
static bool holds(const char *made, const char *now)
{
	size_t n = strlen(made);
	return !strncmp(made, now, n) && (!now[n] || now[n] == ',');
}

const char *cuda_choice(const char *library, const char *key)
{
	const choice *c = find(key);

	if (!c || !strcmp(c->text, "?") || (cuda_deterministic && !c->deterministic) ||
	    (cuda_tune() > 1 && !strstr(c->text, " ms")))
		return NULL;
	if (holds(c->library, library))
		return c->text;
	if (!cuda_is_older(library) && teller)
		gg_note(teller, "choices of %s are made again: here is %s", c->library, library);
	teller = NULL;
	return NULL;
}

static char *next_part(char **at, char end)
{
	char *s = *at, *e = s ? strchr(s, end) : NULL;

	if (e)
		*e = 0;
	*at = e ? e + 1 : NULL;
	return s;
}

bool cuda_take_choices(gg_diag *d, const char *text, size_t n, void (*each)(const char *key))
{
	gg_arena a = {0};
	char *at = gg_strndup(&a, text, n), *line = next_part(&at, '\n');
	bool good = line && !strcmp(line, magic), deterministic = false;

	teller = d;
	while (good && (line = next_part(&at, '\n'))) {
		char *library = next_part(&line, '\t'), *key = next_part(&line, '\t');
		if (!strcmp(library, "deterministic"))
			cuda_deterministic = deterministic = true;
		else if (key && line)
			put(library, key, line, deterministic);
		else
			good = !*library && !at;
		if (good && key && each)
			each(key);
	}
	gg_arena_fini(&a);
	return good;
}

static int by_line(const void *x, const void *y)
{
	const choice *a = x, *b = y;
	int n = strcmp(a->library, b->library);
	return n ? n : strcmp(a->key, b->key);
}

char *cuda_choices(void)
{
	gg_buf b = {0};
	choice *sorted;

	if (!nall && !cuda_deterministic)
		return NULL;
	sorted = gg_xcalloc(nall + 1, sizeof *sorted);
	if (nall)
		memcpy(sorted, all, nall * sizeof *sorted);
	qsort(sorted, nall, sizeof *sorted, by_line);
	gg_buf_printf(&b, "%s\n%s", magic, cuda_deterministic ? "deterministic\n" : "");
	for (size_t i = 0; i < nall; i++)
		gg_buf_printf(&b, "%s\t%s\t%s\n", sorted[i].library, sorted[i].key, sorted[i].text);
	free(sorted);
	return b.p;
}
