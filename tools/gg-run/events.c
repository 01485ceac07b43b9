/* --summary: what the graph's summary ops read, as an event file for TensorBoard. A file is a row of
 * records, each a length, its checksum, a protobuf message and its checksum:
 *
 *   Event   { wall_time = 1, step = 2, file_version = 3, summary = 5 }
 *   Summary { value = 1 { tag = 1, simple_value = 2, image = 4, histo = 5, tensor = 8 } ... } */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { IMAGES = 3, BUCKETS = 30, BLOCK = 65535 };

struct events {
	int fd;
	const char *path;
};

/* ---- checksums ------------------------------------------------------------------------------- */
static uint32_t crc(uint32_t poly, uint32_t sum, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (sum = ~sum; n--; b++) {
		sum ^= *b;
		for (int k = 0; k < 8; k++)
			sum = sum >> 1 ^ (sum & 1 ? poly : 0);
	}
	return ~sum;
}

/* Of records: Castagnoli's, turned and shifted so that a checksum of checksums is none. */
static uint32_t masked(const void *p, size_t n)
{
	uint32_t c = crc(0x82f63b78, 0, p, n);

	return (c >> 15 | c << 17) + 0xa282ead8;
}

/* ---- protobuf -------------------------------------------------------------------------------- */
static void varint(gg_buf *b, uint64_t x)
{
	uint8_t c;

	do {
		c = (uint8_t)(x & 127) | (x > 127 ? 128 : 0);
		gg_buf_add(b, &c, 1);
	} while (x >>= 7);
}

static void field(gg_buf *b, int number, int type) { varint(b, (uint64_t)number << 3 | (uint64_t)type); }

static void put_int(gg_buf *b, int number, int64_t x)
{
	field(b, number, 0);
	varint(b, (uint64_t)x);
}

static void put_double(gg_buf *b, int number, double x)
{
	field(b, number, 1);
	gg_buf_add(b, &x, sizeof x);
}

static void put_bytes(gg_buf *b, int number, const void *p, size_t n)
{
	field(b, number, 2);
	varint(b, n);
	if (n)
		gg_buf_add(b, p, n);
}

static void put_message(gg_buf *b, int number, gg_buf *inner)
{
	put_bytes(b, number, inner->p, inner->len);
	gg_buf_fini(inner);
}

/* ---- images ------------------------------------------------------------------------------------ */
static void big32(gg_buf *b, uint32_t x)
{
	const uint8_t c[] = {(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x};

	gg_buf_add(b, c, 4);
}

static void chunk(gg_buf *b, const char *type, const gg_buf *data)
{
	uint32_t sum = crc(0xedb88320, 0, type, 4);

	big32(b, (uint32_t)data->len);
	gg_buf_add(b, type, 4);
	if (data->len)
		gg_buf_add(b, data->p, data->len);
	big32(b, crc(0xedb88320, sum, data->p, data->len));
}

/* zlib's form without compression: these pictures are small. */
static void stored(gg_buf *b, const gg_buf *raw)
{
	uint32_t lo = 1, hi = 0;

	gg_buf_add(b, "\x78\x01", 2);
	for (size_t at = 0; at < raw->len; at += BLOCK) {
		size_t n = raw->len - at < BLOCK ? raw->len - at : BLOCK;
		const uint8_t head[] = {at + n == raw->len, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n,
		                        (uint8_t)(~n >> 8)};
		gg_buf_add(b, head, 5);
		gg_buf_add(b, raw->p + at, n);
	}
	for (size_t i = 0; i < raw->len; i++) {
		lo = (lo + (uint8_t)raw->p[i]) % 65521;
		hi = (hi + lo) % 65521;
	}
	big32(b, hi << 16 | lo);
}

static uint8_t pixel(const gg_tensor *t, int64_t i)
{
	double x = t->dtype == GG_U8 ? gg_get_f64(t, i) : gg_get_f64(t, i) * 255;

	return (uint8_t)(x >= 255 ? 255 : x > 0 ? x + 0.5 : 0);
}

/* Image number k of a batch, as PNG. */
static void png(gg_buf *b, const gg_tensor *t, int64_t k)
{
	int64_t c = t->shape.dim[1], h = t->shape.dim[2], w = t->shape.dim[3];
	gg_buf head = {0}, raw = {0}, data = {0}, none = {0};
	const uint8_t kind[] = {8, c == 1 ? 0 : c == 3 ? 2 : 6, 0, 0, 0}, filter = 0;

	gg_buf_add(b, "\x89PNG\r\n\x1a\n", 8);
	big32(&head, (uint32_t)w);
	big32(&head, (uint32_t)h);
	gg_buf_add(&head, kind, 5);
	for (int64_t y = 0; y < h; y++) {
		gg_buf_add(&raw, &filter, 1);
		for (int64_t x = 0; x < w; x++)
			for (int64_t i = 0; i < c; i++) {
				uint8_t p = pixel(t, ((k * c + i) * h + y) * w + x);
				gg_buf_add(&raw, &p, 1);
			}
	}
	stored(&data, &raw);
	chunk(b, "IHDR", &head);
	chunk(b, "IDAT", &data);
	chunk(b, "IEND", &none);
	gg_buf_fini(&head);
	gg_buf_fini(&raw);
	gg_buf_fini(&data);
}

static void put_images(gg_buf *summary, const char *tag, const gg_tensor *t)
{
	for (int64_t k = 0; k < t->shape.dim[0] && k < IMAGES && gg_count(t); k++) {
		gg_buf value = {0}, image = {0}, bytes = {0}, name = {0};
		gg_buf_printf(&name, "%s/image/%lld", tag, (long long)k);
		png(&bytes, t, k);
		put_int(&image, 1, t->shape.dim[2]);
		put_int(&image, 2, t->shape.dim[3]);
		put_int(&image, 3, t->shape.dim[1]);
		put_message(&image, 4, &bytes);
		put_message(&value, 1, &name);
		put_message(&value, 4, &image);
		put_message(summary, 1, &value);
	}
}

/* ---- the other kinds --------------------------------------------------------------------------- */
/* Equal buckets from the least to the greatest finite value. */
static void put_histogram(gg_buf *value, const gg_tensor *t)
{
	double min = INFINITY, max = -INFINITY, sum = 0, squares = 0, limit[BUCKETS], count[BUCKETS] = {0};
	int64_t n = gg_count(t), counted = 0;
	gg_buf h = {0};

	for (int64_t i = 0; i < n; i++) {
		double x = gg_get_f64(t, i);
		if (!isfinite(x))
			continue;
		min = x < min ? x : min;
		max = x > max ? x : max;
		sum += x;
		squares += x * x;
		counted++;
	}
	min = counted ? min : 0;
	max = counted ? max : 0;
	for (int k = 0; k < BUCKETS; k++)
		limit[k] = k + 1 == BUCKETS ? max : min + (max - min) * (k + 1) / BUCKETS;
	for (int64_t i = 0; i < n; i++) {
		double x = gg_get_f64(t, i), at = max > min ? (x - min) / (max - min) * BUCKETS : 0;
		if (isfinite(x))
			count[at < BUCKETS ? (int)at : BUCKETS - 1]++;
	}
	put_double(&h, 1, min);
	put_double(&h, 2, max);
	put_double(&h, 3, (double)counted);
	put_double(&h, 4, sum);
	put_double(&h, 5, squares);
	put_bytes(&h, 6, limit, sizeof limit);
	put_bytes(&h, 7, count, sizeof count);
	put_message(value, 5, &h);
}

/* As TensorFlow's TensorProto of floats: dtype = 1, shape = 2, content = 4. */
static void put_tensor(gg_buf *value, const gg_tensor *t)
{
	gg_buf proto = {0}, shape = {0}, bytes = {0};

	for (int i = 0; i < t->shape.rank; i++) {
		gg_buf dim = {0};
		put_int(&dim, 1, t->shape.dim[i]);
		put_message(&shape, 2, &dim);
	}
	for (int64_t i = 0; i < gg_count(t); i++) {
		float x = (float)gg_get_f64(t, i);
		gg_buf_add(&bytes, &x, sizeof x);
	}
	put_int(&proto, 1, 1);
	put_message(&proto, 2, &shape);
	put_message(&proto, 4, &bytes);
	put_message(value, 8, &proto);
}

static void put_value(gg_buf *summary, const gg_node *n, const gg_tensor *t)
{
	const char *tag = gg_get_string(n, "tag"), *op = n->op->name;
	gg_buf value = {0};

	tag = *tag ? tag : n->in[0].value->name;
	if (!strcmp(op, "ImageSummary")) {
		put_images(summary, tag, t);
		return;
	}
	put_bytes(&value, 1, tag, strlen(tag));
	if (!strcmp(op, "ScalarSummary")) {
		float x = (float)gg_get_f64(t, 0);
		field(&value, 2, 5);
		gg_buf_add(&value, &x, sizeof x);
	} else if (!strcmp(op, "HistogramSummary")) {
		put_histogram(&value, t);
	} else {
		put_tensor(&value, t);
	}
	put_message(summary, 1, &value);
}

/* ---- the file ----------------------------------------------------------------------------------- */
static bool is_summary(const gg_node *n)
{
	size_t len = strlen(n->op->name);

	return n->op->domain && !strcmp(n->op->domain, "gg") && len > 7 &&
	       !strcmp(n->op->name + len - 7, "Summary");
}

static bool put_record(job *j, events *e, const gg_buf *event)
{
	uint64_t len = event->len;
	uint32_t sum = masked(&len, sizeof len);
	gg_buf b = {0};
	const char *p;
	size_t left;
	bool good = true;

	gg_buf_add(&b, &len, sizeof len);
	gg_buf_add(&b, &sum, sizeof sum);
	gg_buf_add(&b, event->p, event->len);
	sum = masked(event->p, event->len);
	gg_buf_add(&b, &sum, sizeof sum);
	for (p = b.p, left = b.len; good && left;) {
		ssize_t k = write(e->fd, p, left);
		if (k < 0 && errno == EINTR)
			continue;
		good = k > 0 ||
		       gg_error(&j->t->d, GG_MACHINE, "cannot write '%s': %s", e->path, strerror(errno));
		p += good ? k : 0;
		left -= good ? (size_t)k : 0;
	}
	gg_buf_fini(&b);
	return good;
}

static double wall(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool open_events(job *j, events **out)
{
	events *e = gg_xcalloc(1, sizeof *e);
	gg_buf event = {0};
	size_t n = 0;
	bool good = true;

	*out = e;
	e->fd = -1;
	for (gg_node *k = j->m->main->first; k && good; k = k->next)
		if (is_summary(k)) {
			gg_value *v = gg_in(k, 0);
			n++;
			good = v->kind != GG_TEMP || gg_exec_keep(j->x, v);
		}
	if (!good)
		return false;
	if (!n)
		return gg_error(&j->t->d, GG_USAGE, "--summary: the graph has no summary ops");
	if (mkdir(j->summary, 0777) && errno != EEXIST)
		return gg_error(&j->t->d, GG_MACHINE, "cannot make the folder '%s': %s", j->summary,
		                strerror(errno));
	e->path = gg_printf(&j->a, "%s/events.out.tfevents.%010lld.gg", j->summary, (long long)wall());
	e->fd = open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (e->fd < 0)
		return gg_error(&j->t->d, GG_MACHINE, "cannot write '%s': %s", e->path, strerror(errno));
	put_double(&event, 1, wall());
	put_bytes(&event, 3, "brain.Event:2", 13);
	good = put_record(j, e, &event);
	gg_buf_fini(&event);
	return good;
}

bool write_events(job *j, events *e, int64_t step)
{
	gg_buf event = {0}, summary = {0};
	bool good = true;

	for (gg_node *n = j->m->main->first; n && good; n = n->next) {
		gg_tensor t;
		if (!is_summary(n))
			continue;
		if ((good = gg_exec_value(j->x, gg_in(n, 0), &t)))
			put_value(&summary, n, &t);
	}
	put_double(&event, 1, wall());
	put_int(&event, 2, step);
	put_message(&event, 5, &summary);
	good = good && put_record(j, e, &event);
	gg_buf_fini(&event);
	return good;
}

bool close_events(job *j, events *e)
{
	bool good = !e || e->fd < 0 || !close(e->fd) ||
	            gg_error(&j->t->d, GG_MACHINE, "cannot write '%s': %s", e->path, strerror(errno));

	free(e);
	return good;
}
