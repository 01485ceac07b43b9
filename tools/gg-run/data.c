/* Data files as one long table of rows: a .npy file, a member of an .npz archive, or a folder of .npy
 * shards in the order of their names. Files are mapped, so that only what a step reads is read. */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct shard {
	const char *rows;
	int64_t from, n; /* its first row and how many */
	void *map;
	size_t len;
	void *owned; /* rows that had to be converted */
};

static bool map_file(gg_diag *d, const char *path, shard *s)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		gg_error(d, GG_MALFORMED, "%s: cannot read it: %s", path,
		         fd < 0 ? strerror(errno) : "not a regular file");
		if (fd >= 0)
			close(fd);
		return false;
	}
	s->len = (size_t)st.st_size;
	s->map = s->len ? mmap(NULL, s->len, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	close(fd);
	if (s->map != MAP_FAILED)
		return true;
	s->map = NULL;
	return gg_error(d, GG_MACHINE, "%s: cannot map it: %s", path, strerror(errno));
}

static void drop_shard(shard *s)
{
	if (s->map)
		munmap(s->map, s->len);
	free(s->owned);
}

/* ---- archives --------------------------------------------------------------------------------- */
static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t x = 0;

	while (bytes-- > 0)
		x = x << 8 | p[bytes];
	return x;
}

typedef struct zip {
	const uint8_t *p;
	size_t len;
	uint64_t at, left; /* the next entry of the directory, and how many */
} zip;
typedef struct entry {
	const char *name;
	size_t nname;
	uint64_t method, size, off;
} entry;

/* The end record is the last thing in the file but for a comment. */
static bool open_zip(zip *z)
{
	size_t i = z->len < 22 ? 0 : z->len - 22, stop = i > 65535 ? i - 65535 : 0;

	if (z->len < 22)
		return false;
	while (number(z->p + i, 4) != 0x06054b50)
		if (i-- == stop)
			return false;
	z->left = number(z->p + i + 10, 2);
	z->at = number(z->p + i + 16, 4);
	if (z->at == 0xffffffff && i >= 20 && number(z->p + i - 20, 4) == 0x07064b50) {
		uint64_t far = number(z->p + i - 12, 8);
		if (z->len < 56 || far > z->len - 56)
			return false;
		z->left = number(z->p + far + 32, 8);
		z->at = number(z->p + far + 48, 8);
	}
	return z->at < z->len;
}

/* Sizes and offsets that do not fit in 32 bits stand in the extra field, in this order. */
static void long_fields(const uint8_t *p, size_t n, uint64_t *packed, entry *e)
{
	uint64_t *field[] = {&e->size, packed, &e->off};

	for (size_t i = 0; i + 4 <= n; i += 4 + (size_t)number(p + i + 2, 2)) {
		size_t at = i + 4, end = at + (size_t)number(p + i + 2, 2);
		for (int k = 0; number(p + i, 2) == 1 && k < 3; k++)
			if (*field[k] == 0xffffffff && at + 8 <= end && end <= n) {
				*field[k] = number(p + at, 8);
				at += 8;
			}
	}
}

/* 1: *e is the next one; 0: the end; -1: damaged. */
static int next_entry(zip *z, entry *e)
{
	const uint8_t *p = z->p + z->at;
	uint64_t room = z->len - z->at, packed, size;

	if (!z->left)
		return 0;
	if (room < 46 || number(p, 4) != 0x02014b50)
		return -1;
	packed = number(p + 20, 4);
	*e = (entry){(const char *)p + 46, (size_t)number(p + 28, 2), number(p + 10, 2), number(p + 24, 4),
	             number(p + 42, 4)};
	size = 46 + e->nname + number(p + 30, 2) + number(p + 32, 2);
	if (size > room)
		return -1;
	long_fields(p + 46 + e->nname, (size_t)number(p + 30, 2), &packed, e);
	z->at += size;
	z->left--;
	return 1;
}

static bool is_member(const entry *e, const char *name)
{
	size_t n = strlen(name);

	return e->nname == n + 4 && !memcmp(e->name, name, n) && !memcmp(e->name + n, ".npy", 4);
}

/* Where a member's bytes are in the mapped archive. */
static bool find_member(gg_diag *d, const char *path, const shard *s, const char *name, const char **out,
                        size_t *len)
{
	zip z = {.p = s->map, .len = s->len};
	gg_buf names = {0};
	entry e;
	int got = open_zip(&z) ? 1 : -1;
	bool good = false;

	while (got > 0 && (got = next_entry(&z, &e)) > 0 && !is_member(&e, name))
		gg_buf_printf(&names, "%s%.*s", names.len ? ", " : "", (int)e.nname, e.name);
	if (got < 0)
		gg_error(d, GG_MALFORMED, "%s: not a valid .npz file", path);
	else if (!got)
		gg_error(d, GG_MALFORMED, "%s: no array is named '%s'; it has %s", path, name,
		         names.len ? names.p : "none");
	else if (e.method)
		gg_error(d, GG_UNSUPPORTED, "%s: '%s' is compressed: write it with numpy.savez", path, name);
	else if (e.off > s->len || s->len - e.off < 30)
		gg_error(d, GG_MALFORMED, "%s: not a valid .npz file", path);
	else {
		const uint8_t *local = z.p + e.off;
		uint64_t at = e.off + 30 + number(local + 26, 2) + number(local + 28, 2);
		good = at <= s->len && e.size <= s->len - at;
		*out = (const char *)s->map + at;
		*len = (size_t)e.size;
		if (!good)
			gg_error(d, GG_MALFORMED, "%s: the file is cut short", path);
	}
	gg_buf_fini(&names);
	return good;
}

/* ---- tables ------------------------------------------------------------------------------------- */
static bool same_rows(const gg_shape *a, const gg_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 1; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* member: in an archive; NULL: the file is the array. */
static bool add_shard(gg_diag *d, table *t, const char *path, const char *member, gg_dtype want)
{
	shard s = {0};
	gg_tensor all = {0};
	bool owned = false, good = map_file(d, path, &s);
	const char *p = s.map;
	size_t len = s.len;

	if (good && member)
		good = find_member(d, path, &s, member, &p, &len);
	if (good && !member && len >= 2 && !memcmp(p, "PK", 2))
		good = gg_error(d, GG_MALFORMED, "%s: it is an .npz archive: name it so", path);
	good = good && gg_npy_view(d, path, p, len, want, &all, &owned);
	s.owned = owned ? all.data : NULL;
	if (good && !all.shape.rank)
		good = gg_error(d, GG_MALFORMED, "%s: a scalar has no rows", path);
	if (good && t->n && (all.dtype != t->dtype || !same_rows(&all.shape, &t->shape)))
		good = gg_error(d, GG_MALFORMED, "%s: its rows are not like those of the shards before it",
		                path);
	if (good && t->n && __builtin_add_overflow(t->shape.dim[0], all.shape.dim[0], &t->shape.dim[0]))
		good = gg_error(d, GG_MALFORMED, "%s: too many rows", path);
	if (!good) {
		drop_shard(&s);
		return false;
	}
	s.rows = all.data;
	s.n = all.shape.dim[0];
	s.from = t->n ? t->shape.dim[0] - s.n : 0;
	if (!t->n) {
		t->dtype = all.dtype;
		t->shape = all.shape;
		all.shape.dim[0] = 1;
		t->row = (int64_t)gg_nbytes(&all);
	}
	GG_PUSH(t->shard, t->n, t->cap, s);
	return true;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool add_folder(gg_diag *d, table *t, const char *path, gg_dtype want)
{
	DIR *dir = opendir(path);
	char **name = NULL;
	size_t n = 0, cap = 0;
	gg_arena a = {0};
	bool good = dir != NULL;

	if (!dir)
		return gg_error(d, GG_MALFORMED, "%s: cannot read it: %s", path, strerror(errno));
	for (struct dirent *e; (e = readdir(dir));) {
		size_t len = strlen(e->d_name);
		if (len > 4 && !strcmp(e->d_name + len - 4, ".npy"))
			GG_PUSH(name, n, cap, gg_printf(&a, "%s/%s", path, e->d_name));
	}
	closedir(dir);
	if (n)
		qsort(name, n, sizeof *name, by_name);
	else
		good = gg_error(d, GG_MALFORMED, "%s: the folder has no .npy files", path);
	for (size_t i = 0; i < n && good; i++)
		good = add_shard(d, t, name[i], NULL, want);
	free(name);
	gg_arena_fini(&a);
	return good;
}

bool table_open(gg_diag *d, table *t, const char *path, const char *input, gg_dtype want)
{
	const char *zip = strstr(path, ".npz"), *member = zip && zip[4] == ':' ? zip + 5 : input;
	gg_arena a = {0};
	struct stat st;
	bool good;

	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return add_folder(d, t, path, want);
	if (!zip || (zip[4] && zip[4] != ':'))
		return add_shard(d, t, path, NULL, want);
	good = add_shard(d, t, gg_printf(&a, "%.*s", (int)(zip + 4 - path), path), member, want);
	gg_arena_fini(&a);
	return good;
}

void table_split(table *t, int64_t every, bool held)
{
	int64_t out = t->shape.dim[0] / every;

	t->every = every;
	t->held = held;
	t->shape.dim[0] = held ? out : t->shape.dim[0] - out;
}

const char *table_row(const table *t, int64_t i)
{
	size_t lo = 0, hi = t->n;

	if (t->every)
		i = t->held ? i * t->every + t->every - 1 : i + i / (t->every - 1);

	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;
		if (t->shard[mid].from <= i)
			lo = mid;
		else
			hi = mid;
	}
	return t->shard[lo].rows + (i - t->shard[lo].from) * t->row;
}

void table_close(table *t)
{
	for (size_t i = 0; i < t->n; i++)
		drop_shard(&t->shard[i]);
	free(t->shard);
}
