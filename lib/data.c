/* Constant data: bytes in the stream, in a file beside the model, or made by a generator. */
#include "graph.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 64 << 10 }; /* bytes of a tensor that is read, not mapped */

struct gg_mapping {
	struct gg_mapping *next;
	const char *file; /* interned, as in the stream */
	const char *p;
	int64_t size, mtime;
	bool mapped;
};

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static const char *base_of(const gg_model *m)
{
	const char *base = m->weights ? m->weights : m->base;
	return base && *base ? base : ".";
}

/* ".." or an absolute path leaves the base by its words, a symbolic link by what it leads to. */
static bool leaves_base(const char *base, const char *file, const char *path)
{
	if (*file == '/')
		return true;
	for (const char *s = file; s; s = strchr(s, '/'), s = s ? s + 1 : 0)
		if (!strncmp(s, "..", 2) && (!s[2] || s[2] == '/'))
			return true;
	char *b = realpath(base, 0), *p = realpath(path, 0);
	size_t n = b ? strlen(b) : 0;
	bool out = b && p && (strncmp(b, p, n) || (p[n] != '/' && n > 1));
	free(b);
	free(p);
	return out;
}

/* Finds the file and what it is now; maps nothing yet. */
static struct gg_mapping *find_file(gg_diag *d, gg_model *m, const char *what, const char *file)
{
	file = gg_intern(file);
	for (struct gg_mapping *f = m->maps; f; f = f->next)
		if (f->file == file)
			return f;
	const char *base = base_of(m);
	char *path = *file == '/' ? gg_strdup(&m->arena, file) : gg_printf(&m->arena, "%s/%s", base, file);
	struct stat st;
	if (!m->allow_outside && leaves_base(base, file, path)) {
		gg_error(
		    d, GG_MALFORMED,
		    "tensor '%s': its file '%s' lies outside the model's folder (--allow-outside reads it)",
		    what, file);
		return 0;
	}
	if (stat(path, &st) || !S_ISREG(st.st_mode)) {
		gg_error(d, GG_MALFORMED, "tensor '%s': cannot read its file '%s': %s", what, file,
		         errno && access(path, R_OK) ? strerror(errno) : "not a file");
		return 0;
	}
	struct gg_mapping *f = gg_alloc(&m->arena, sizeof *f);
	*f = (struct gg_mapping){.next = m->maps, .file = file, .size = st.st_size, .mtime = mtime_ns(&st)};
	return m->maps = f;
}

static int open_file(gg_model *m, const struct gg_mapping *f)
{
	const char *path = *f->file == '/' ? f->file : gg_printf(&m->arena, "%s/%s", base_of(m), f->file);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void *cannot_read(gg_diag *d, const char *what, const struct gg_mapping *f, int why)
{
	gg_error(d, GG_MALFORMED, "tensor '%s': cannot read its file '%s': %s", what, f->file, strerror(why));
	return 0;
}

static bool map_file(gg_diag *d, gg_model *m, const char *what, struct gg_mapping *f)
{
	if (f->mapped || !f->size)
		return true;
	int fd = open_file(m, f);
	void *p = fd < 0 ? MAP_FAILED : mmap(0, (size_t)f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	int why = errno;
	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		return cannot_read(d, what, f, why);
	f->p = p;
	f->mapped = true;
	return true;
}

/* A page touched in a mapping brings its neighbours: who wants only the small tensors of a file, as
 * a pass that folds scales does, would hold most of its weights in memory. */
static const void *read_small(gg_diag *d, gg_model *m, const char *what, struct gg_mapping *f,
                              const gg_data *data)
{
	char *p = gg_alloc(&m->arena, (size_t)data->len);
	int fd = open_file(m, f);
	int64_t at = 0;
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0 && at < data->len) {
		n = pread(fd, p + at, (size_t)(data->len - at), data->off + at);
		at += n > 0 ? n : 0;
	}
	int why = n < 0 ? errno : EIO;
	if (fd >= 0)
		close(fd);
	return at == data->len && fd >= 0 ? p : cannot_read(d, what, f, why);
}

static bool in_file(gg_diag *d, const char *what, const char *file, int64_t off, int64_t len, int64_t size)
{
	if (off >= 0 && len >= 0 && off <= size && len <= size - off)
		return true;
	return gg_error(d, GG_MALFORMED, "tensor '%s': its file '%s' has %lld bytes, %lld at %lld wanted",
	                what, file, (long long)size, (long long)len, (long long)off);
}

gg_data *gg_data_file(gg_diag *d, gg_model *m, const char *what, const char *file, int64_t off, int64_t len)
{
	struct gg_mapping *f = find_file(d, m, what, file);
	if (!f || !in_file(d, what, file, off, len, f->size))
		return 0;
	gg_data *data = gg_alloc(&m->arena, sizeof *data);
	*data = (gg_data){.kind = GG_DATA_FILE,
	                  .file = f->file,
	                  .off = off,
	                  .len = len,
	                  .size = f->size,
	                  .mtime = f->mtime};
	return data;
}

gg_data *gg_data_inline(gg_model *m, const void *bytes, int64_t len)
{
	gg_data *data = gg_alloc(&m->arena, sizeof *data);
	void *p = gg_alloc(&m->arena, (size_t)len);
	*data = (gg_data){
	    .kind = GG_DATA_INLINE, .len = len, .bytes = len ? memcpy(p, bytes, (size_t)len) : p};
	return data;
}

gg_data *gg_data_fill(gg_model *m, gg_fill f, uint64_t seed, double a, double b)
{
	gg_data *data = gg_alloc(&m->arena, sizeof *data);
	*data = (gg_data){.kind = GG_DATA_FILL, .fill = f, .seed = seed, .a = a, .b = b};
	return data;
}

static bool has_changed(const gg_model *m, const gg_data *data, const struct gg_mapping *f)
{
	bool moved = m->weights || data->hash; /* then the time says nothing */
	return f->size != data->size || (!moved && f->mtime != data->mtime);
}

static bool check_hash(gg_diag *d, const char *what, const gg_data *data, const char *p)
{
	char hex[17];
	snprintf(hex, sizeof hex, "%016llx", (unsigned long long)gg_hash(p, (size_t)data->len, 0));
	return !strcmp(hex, data->hash) ||
	       gg_error(d, GG_MALFORMED,
	                "tensor '%s': its bytes in the file '%s' have changed since the graph was made", what,
	                data->file);
}

/* Refuses a file that is not the one the graph was made from. With a hash the contents count, with
 * --weights only the size. */
static const void *file_bytes(gg_diag *d, gg_model *m, const char *what, const gg_data *data)
{
	struct gg_mapping *f = find_file(d, m, what, data->file);
	if (!f)
		return 0;
	if (has_changed(m, data, f)) {
		gg_buf how = {0};
		if (f->size != data->size)
			gg_buf_printf(&how, "%lld bytes, was %lld", (long long)f->size,
			              (long long)data->size);
		gg_error(d, GG_MALFORMED,
		         "tensor '%s': its file '%s' has changed since the graph was made (%s)", what,
		         data->file, how.len ? how.p : "its time is another");
		gg_buf_fini(&how);
		return 0;
	}
	if (!in_file(d, what, data->file, data->off, data->len, f->size))
		return 0;
	bool small = data->len <= SMALL && !f->mapped;
	if (!small && !map_file(d, m, what, f))
		return 0;
	const char *p = !data->len ? "" : small ? read_small(d, m, what, f, data) : f->p + data->off;
	return p && (!data->hash || check_hash(d, what, data, p)) ? p : 0;
}

bool gg_data_bytes(gg_diag *d, gg_model *m, const gg_value *v, const void **out, int64_t *out_len)
{
	const gg_data *data = v->data;
	*out_len = data->len;
	*out = data->kind == GG_DATA_INLINE ? data->bytes : file_bytes(d, m, v->name, data);
	return *out || !data->len;
}

static void *keep_loaded(gg_model *m, gg_data *data, size_t bytes)
{
	data->loaded = gg_xaligned(bytes);
	data->owned = true;
	data->next_loaded = m->loaded;
	m->loaded = data;
	return data->loaded;
}

static void unpack(gg_dtype t, const unsigned char *packed, int64_t n, unsigned char *out)
{
	for (int64_t i = 0; i < n; i++) {
		unsigned x = packed[i / 2] >> (i % 2 * 4) & 15;
		out[i] = (unsigned char)(t == GG_I4 && x & 8 ? x | 0xf0 : x);
	}
}

static bool is_clean_bool(const unsigned char *p, int64_t n)
{
	unsigned char any = 0;
	for (int64_t i = 0; i < n; i++)
		any |= p[i];
	return any <= 1;
}

static void fill(gg_tensor *t, const gg_data *data)
{
	switch (data->fill) {
	case GG_FILL_ZEROS:
		gg_fill_value(t, 0);
		break;
	case GG_FILL_ONES:
		gg_fill_value(t, 1);
		break;
	case GG_FILL_NORMAL:
		gg_fill_normal(t, data->seed, data->a, data->b);
		break;
	case GG_FILL_UNIFORM:
		gg_fill_uniform(t, data->seed, data->a, data->b);
		break;
	}
}

/* Memory form is file form, in place where it can be: aligned, not packed, bools 0 or 1. */
static bool load(gg_diag *d, gg_value *v, const gg_tensor *t)
{
	gg_model *m = v->graph->m;
	gg_data *data = v->data;
	int64_t n = gg_count(t), len;
	const void *bytes;
	gg_tensor to = *t;
	if (data->kind == GG_DATA_FILL) {
		to.data = keep_loaded(m, data, gg_nbytes(t));
		fill(&to, data);
		return true;
	}
	if (!gg_data_bytes(d, m, v, &bytes, &len))
		return false;
	if ((uint64_t)len != gg_packed_bytes(t->dtype, n))
		return gg_error(d, GG_MALFORMED,
		                "tensor '%s' has %lld bytes of data, its shape and dtype want %zu", v->name,
		                (long long)len, gg_packed_bytes(t->dtype, n));
	bool clean = t->dtype != GG_BOOL || is_clean_bool(bytes, n);
	if (gg_dtype_bits(t->dtype) == 4) {
		unpack(t->dtype, bytes, n, keep_loaded(m, data, gg_nbytes(t)));
	} else if (!clean) {
		unsigned char *out = keep_loaded(m, data, gg_nbytes(t));
		for (int64_t i = 0; i < n; i++)
			out[i] = ((const unsigned char *)bytes)[i] != 0;
	} else if ((uintptr_t)bytes % gg_dtype_size(t->dtype)) {
		void *out = keep_loaded(m, data, gg_nbytes(t));
		memcpy(out, bytes, (size_t)len);
	} else {
		data->loaded = (void *)bytes;
	}
	return true;
}

bool gg_value_tensor(gg_diag *d, gg_value *v, gg_tensor *out)
{
	*out = (gg_tensor){.dtype = v->dtype, .shape = v->shape};
	int64_t bytes;
	if (!gg_shape_known(&v->shape) || !gg_size_of(v->dtype, &v->shape, &bytes))
		return gg_error(d, GG_MALFORMED, "tensor '%s' has no size of its own", v->name);
	if (!v->data->loaded && !load(d, v, out))
		return false;
	out->data = v->data->loaded;
	return true;
}

void gg_unload(gg_model *m)
{
	for (gg_data *x = m->loaded; x; x = x->next_loaded) {
		free(x->loaded);
		x->loaded = 0;
	}
	m->loaded = 0;
	for (struct gg_mapping *f = m->maps; f; f = f->next)
		if (f->mapped)
			munmap((void *)f->p, (size_t)f->size);
	m->maps = 0;
}
