/* What was made once is kept by content, for this user: a folder of files, each "ggcache1", a hash of the
 * rest, the rest. What is damaged is made again; a cache that cannot be written is none. Files that were
 * not used for longest go when it grows beyond its limit. */
#include "cuda.h"
#include "../tool.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "ggcache1";
enum { HEAD = 16, LONGEST = 64 << 20, LIMIT_MIB = 512 };

/* NULL: no cache is wanted, or there is no place for it. */
static const char *folder(gg_arena *a)
{
	const char *own = getenv("GG_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (own)
		return *own && strcmp(own, "off") ? own : NULL;
	if (xdg && *xdg == '/')
		return gg_printf(a, "%s/gg", xdg);
	return home && *home ? gg_printf(a, "%s/.cache/gg", home) : NULL;
}

static void make_folder(const char *path)
{
	gg_arena a = {0};
	char *s = gg_strdup(&a, path);

	for (char *p = s + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(s, 0777);
			*p = '/';
		}
	mkdir(s, 0777);
	gg_arena_fini(&a);
}

/* ---- the limit --------------------------------------------------------------------------------- */

typedef struct entry {
	char *path;
	int64_t size;
	struct timespec used;
} entry;

static int64_t limit(void)
{
	const char *s = getenv("GG_CACHE_LIMIT");
	int64_t mib;

	return (s && gg_parse_int(s, &mib) && mib >= 0 && mib < 1 << 30 ? mib : LIMIT_MIB) << 20;
}

static int by_use(const void *x, const void *y)
{
	const struct timespec a = ((const entry *)x)->used, b = ((const entry *)y)->used;

	if (a.tv_sec != b.tv_sec)
		return (a.tv_sec > b.tv_sec) - (a.tv_sec < b.tv_sec);
	return (a.tv_nsec > b.tv_nsec) - (a.tv_nsec < b.tv_nsec);
}

/* Our own files only: a folder that was named by mistake loses nothing else. */
static bool is_ours(const char *name)
{
	const char *end = strrchr(name, '.');

	return end && (!strcmp(end, ".cubin") || !strcmp(end, ".engine"));
}

static entry *list(gg_arena *a, const char *dir, size_t *n, int64_t *total)
{
	DIR *f = opendir(dir);
	entry *e = NULL;
	size_t cap = 0;
	struct stat st;

	*n = 0;
	*total = 0;
	for (struct dirent *x; f && (x = readdir(f));) {
		char *path = is_ours(x->d_name) ? gg_printf(a, "%s/%s", dir, x->d_name) : NULL;
		if (!path || stat(path, &st) || !S_ISREG(st.st_mode))
			continue;
		e = gg_grow_in(a, e, *n, &cap, sizeof *e);
		e[(*n)++] = (entry){path, st.st_size, st.st_mtim};
		*total += st.st_size;
	}
	if (f)
		closedir(f);
	return e;
}

/* Down to three quarters, so that it is not done for each file. */
static int64_t trim(const char *dir, int64_t most)
{
	gg_arena a = {0};
	int64_t total;
	size_t n;
	entry *e = list(&a, dir, &n, &total);

	if (total > most) {
		qsort(e, n, sizeof *e, by_use);
		for (size_t i = 0; i < n && total > most / 4 * 3; i++)
			if (!unlink(e[i].path))
				total -= e[i].size;
	}
	gg_arena_fini(&a);
	return total;
}

/* ---- files ------------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	char head[HEAD];
	uint64_t hash;
	char *p = NULL;

	if (!f)
		return NULL;
	if (!fstat(fileno(f), &st) && st.st_size > HEAD && st.st_size < LONGEST &&
	    fread(head, HEAD, 1, f) == 1 && !memcmp(head, magic, 8)) {
		*n = (size_t)st.st_size - HEAD;
		p = gg_xcalloc(*n + 1, 1);
		memcpy(&hash, head + 8, 8);
		if (fread(p, *n, 1, f) != 1 || gg_hash(p, *n, 0) != hash) {
			free(p);
			p = NULL;
		}
	}
	fclose(f);
	if (p)
		utimensat(AT_FDCWD, path, NULL, 0); /* it is used now */
	return p;
}

char *cuda_cached(const char *name, size_t *n)
{
	gg_arena a = {0};
	const char *dir = folder(&a);
	char *p = dir ? read_file(gg_printf(&a, "%s/%s", dir, name), n) : NULL;

	gg_arena_fini(&a);
	return p;
}

void cuda_cache(const char *name, const void *p, size_t n)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int64_t total = -1; /* as far as this process knows */
	gg_diag silent = {.tool = "gg", .silent = true};
	gg_arena a = {0};
	const char *dir = folder(&a);
	uint64_t hash = gg_hash(p, n, 0);
	gg_buf b = {0};

	if (dir && n && n < LONGEST - HEAD) {
		make_folder(dir);
		gg_buf_add(&b, magic, 8);
		gg_buf_add(&b, &hash, 8);
		gg_buf_add(&b, p, n);
		pthread_mutex_lock(&lock); /* gg_write_file looks at the umask */
		gg_write_file(&silent, gg_printf(&a, "%s/%s", dir, name), b.p, b.len);
		total += total < 0 ? 0 : (int64_t)b.len;
		if (total < 0 || total > limit())
			total = trim(dir, limit());
		pthread_mutex_unlock(&lock);
	}
	gg_buf_fini(&b);
	gg_arena_fini(&a);
}
