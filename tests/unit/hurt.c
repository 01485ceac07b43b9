/* Damaged streams: each must be refused with a message and status 3 or 4, whatever the damage. */
#include "../../lib/pack.h"
#include "everything.h"
#include "tap.h"
#include <stdlib.h>

static gg_diag d;

/* Reads a copy that ends where its allocation ends, so that the sanitizer sees one byte too far.
 * 1: read; 0: refused as it should be; -1: refused in another way. */
static int attempt(const char *p, size_t n)
{
	char *copy = gg_xmalloc(n);
	if (n)
		memcpy(copy, p, n);
	gg_source s = {.name = "<test>", .p = copy, .len = n};
	gg_model *m = 0;
	d = (gg_diag){.tool = "test", .silent = true};
	int got = gg_read(&d, &s, &m);
	gg_model_free(m);
	free(copy);
	if (got > 0)
		return 1;
	return got < 0 && d.errors == 1 && (d.status == GG_MALFORMED || d.status == GG_UNSUPPORTED) ? 0 : -1;
}

static void cut(const gg_buf *b, const char *what)
{
	size_t bad = 0;
	for (size_t n = 0; n < b->len; n++)
		bad += attempt(b->p, n) != 0;
	ok(!bad, "%s cut at each of %zu bytes is refused", what, b->len);
}

/* The sum covers all but the header and the end record, and those two have little to go wrong. */
static void flip(gg_buf *b, size_t from)
{
	size_t passed = 0, bad = 0;
	for (size_t i = 0; i < b->len * 8; i++) {
		b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
		int got = attempt(b->p, b->len);
		bad += got < 0 || (got > 0 && i / 8 >= from);
		passed += got > 0;
		b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
	}
	ok(!bad, "each flipped bit after the header is noticed (%zu in the header are other names)", passed);
}

/* The same without the sum, which would catch nearly all of them: through the loader itself. */
static void flip_unsummed(gg_buf *b)
{
	size_t bad = 0;
	for (size_t i = 0; i < b->len * 8; i++) {
		b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
		char *copy = gg_xmalloc(b->len);
		memcpy(copy, b->p, b->len);
		gg_reader r = {.d = &d, .start = copy, .p = copy, .end = copy + b->len};
		gg_model *m = 0;
		d = (gg_diag){.tool = "test", .silent = true};
		int got = gg_load(&r, true, &m);
		bad += got < 0 ? d.errors != 1 : !gg_check(&d, m);
		gg_buf out = {0};
		if (got > 0)
			gg_write(&d, &out, m);
		gg_buf_fini(&out);
		gg_model_free(m);
		free(copy);
		b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
	}
	ok(!bad, "without the sum each flipped bit is refused once or read as a good graph");
}

static void fuzz(const gg_buf *b, const char *what, unsigned rounds)
{
	size_t bad = 0;
	uint64_t x = 88172645463325252u;
	for (unsigned k = 0; k < rounds; k++) {
		gg_buf c = {0};
		gg_buf_add(&c, b->p, b->len);
		for (int edits = 0; edits < 1 + (int)(x >> 20) % 3; edits++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			size_t at = x % c.len, to = (x >> 24) % c.len, n = (x >> 48) % 16;
			if (at + n < c.len && to + n < c.len)
				memmove(c.p + to, c.p + at, n); /* a piece where another was */
			c.p[at] = (char)(x >> 56);
		}
		bad += attempt(c.p, c.len) < 0;
		gg_buf_fini(&c);
	}
	ok(!bad, "%s with pieces exchanged: %u rounds", what, rounds);
}

/* ---- by hand, as JSON lines --------------------------------------------------------------- */
#define GG "[\"gg\",{\"v\":1}]\n"
#define X "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"dtype\":\"f32\",\"shape\":[3]}]\n"
#define T(ID, NAME) \
	"[\"value\",{\"id\":" #ID ",\"name\":\"" NAME \
	"\",\"kind\":\"temp\",\"dtype\":\"f32\",\"shape\":[3]}]\n"
#define RELU(ID, IN, OUT) "[\"node\",{\"id\":" #ID ",\"op\":\"Relu\",\"in\":[" #IN "],\"out\":[" #OUT "]}]\n"
#define C(DATA) \
	"[\"value\",{\"id\":5,\"name\":\"c\",\"kind\":\"const\",\"dtype\":\"f32\",\"shape\":[1]}]\n[" \
	"\"data\",{\"id\":5," DATA "}]\n"
#define OUT(IN, OUT) "[\"graph\",{\"in\":[" #IN "],\"out\":[" #OUT "]}]\n"
#define END "[\"end\",{}]\n"
#define EYE(ATTR) \
	GG X T(2, "y") "[\"node\",{\"id\":3,\"op\":\"EyeLike\",\"in\":[1],\"out\":[2],\"attr\":" ATTR \
	               "}]\n" OUT(1, 2) END

static const struct {
	const char *what, *text, *message;
	gg_status status;
} rows[] = {
    {"good", GG X T(2, "y") RELU(3, 1, 2) OUT(1, 2) END, 0, GG_OK},
    {"good constants", GG X C("\"off\":0,\"bytes\":{\"$bin\":\"AAAAAA==\"}") OUT(1, 5) END, 0, GG_OK},
    {"no end", GG X OUT(1, 1), "stream ends after 3 records", GG_MALFORMED},
    {"no graph", GG X END, "no graph record", GG_MALFORMED},
    {"no header", X OUT(1, 1) END, "not a gg stream", GG_MALFORMED},
    {"two headers", GG GG OUT(, ) END, "second header", GG_MALFORMED},
    {"version", "[\"gg\",{\"v\":2}]\n", "version 2", GG_UNSUPPORTED},
    {"no version", "[\"gg\",{}]\n", "'v' is missing", GG_MALFORMED},
    {"version twice", "[\"gg\",{\"v\":1,\"v\":1}]\n", "twice", GG_MALFORMED},
    {"duplicate id", GG X "[\"value\",{\"id\":1,\"name\":\"y\",\"kind\":\"input\"}]\n" OUT(1, ) END,
     "id 1 is taken", GG_MALFORMED},
    {"duplicate name",
     GG X
     "[\"value\",{\"id\":2,\"name\":\"x\",\"kind\":\"input\"}]\n[\"graph\",{\"in\":[1,2],\"out\":[]}]\n" END,
     "'x'", GG_MALFORMED},
    {"id of node and value", GG X T(2, "y") RELU(1, 1, 2) OUT(1, 2) END, "id 1 is taken", GG_MALFORMED},
    {"id 0", GG "[\"value\",{\"id\":0,\"name\":\"x\",\"kind\":\"input\"}]\n", "out of range", GG_MALFORMED},
    {"huge id", GG "[\"value\",{\"id\":4294967295,\"name\":\"x\",\"kind\":\"input\"}]\n", "out of range",
     GG_MALFORMED},
    {"no name", GG "[\"value\",{\"id\":1,\"kind\":\"input\"}]\n", "'name' is missing", GG_MALFORMED},
    {"empty name", GG "[\"value\",{\"id\":1,\"name\":\"\",\"kind\":\"input\"}]\n" OUT(1, ) END, "empty",
     GG_MALFORMED},
    {"zero byte", GG "[\"value\",{\"id\":1,\"name\":\"a\\u0000\",\"kind\":\"input\"}]\n", "zero byte",
     GG_MALFORMED},
    {"kind", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"hat\"}]\n", "'hat'", GG_MALFORMED},
    {"dtype", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"dtype\":\"f33\"}]\n", "'f33'",
     GG_UNSUPPORTED},
    {"layout", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"layout\":\"zz\"}]\n", "'zz'",
     GG_UNSUPPORTED},
    {"rank",
     GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1]}]\n",
     "rank 13", GG_MALFORMED},
    {"dim", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"shape\":[-1]}]\n", "-1",
     GG_MALFORMED},
    {"dim text", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"shape\":[\"N+\"]}]\n", "'N+'",
     GG_MALFORMED},
    {"mem", GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"mem\":[1]}]\n", "mem", GG_MALFORMED},
    {"alias to nothing",
     GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"alias\":9}]\n" OUT(1, 1) END, "9",
     GG_MALFORMED},
    {"alias to itself",
     GG "[\"value\",{\"id\":1,\"name\":\"x\",\"kind\":\"input\",\"alias\":1}]\n" OUT(1, 1) END, "itself",
     GG_MALFORMED},
    {"value without node", GG X T(2, "y") OUT(1, 1) END, "'y' is made by no node", GG_MALFORMED},
    {"value made twice", GG X T(2, "y") RELU(3, 1, 2) RELU(4, 1, 2) OUT(1, 2) END, "made twice",
     GG_MALFORMED},
    {"cycle", GG X T(2, "y") T(3, "z") RELU(4, 3, 2) RELU(5, 2, 3) OUT(1, 2) END,
     "'z' is read before it is made", GG_MALFORMED},
    {"own input", GG X T(2, "y") RELU(3, 2, 2) OUT(1, 2) END, "'y' is read before it is made", GG_MALFORMED},
    {"missing value", GG X T(2, "y") RELU(3, 9, 2) OUT(1, 2) END, "no value 9", GG_MALFORMED},
    {"arity", GG X T(2, "y") "[\"node\",{\"id\":3,\"op\":\"Relu\",\"in\":[1,1],\"out\":[2]}]\n" OUT(1, 2) END,
     "2 input", GG_MALFORMED},
    {"op", GG X T(2, "y") "[\"node\",{\"id\":3,\"op\":\"Rely\",\"in\":[1],\"out\":[2]}]\n",
     "node 'y' (Rely): there is no op 'Rely'; did you mean 'Relu'?", GG_UNSUPPORTED},
    {"after nothing",
     GG X T(2, "y") "[\"node\",{\"id\":3,\"op\":\"Relu\",\"in\":[1],\"out\":[2],\"after\":[3]}]\n",
     "no node 3", GG_MALFORMED},
    {"captures",
     GG X T(2, "y") "[\"node\",{\"id\":3,\"op\":\"Relu\",\"in\":[1],\"out\":[2],\"captures\":2}]\n",
     "captures", GG_MALFORMED},
    {"good attribute", EYE("{\"dtype\":{\"dtype\":\"f32\"},\"k\":1}"), 0, GG_OK},
    {"unknown attribute", EYE("{\"j\":1}"), "'j'", GG_UNSUPPORTED},
    {"attribute twice", EYE("{\"k\":1,\"k\":1}"), "'k' is given twice", GG_MALFORMED},
    {"attribute type", EYE("{\"k\":1.5}"), "k: expected an int", GG_MALFORMED},
    {"attribute form", EYE("{\"dtype\":\"f32\"}"), "dtype", GG_MALFORMED},
    {"attribute list", EYE("[1]"), "attr: expected a map", GG_MALFORMED},
    {"no data",
     GG "[\"value\",{\"id\":5,\"name\":\"c\",\"kind\":\"const\",\"dtype\":\"f32\",\"shape\":[1]}]\n" OUT(, 5)
         END,
     "no data", GG_MALFORMED},
    {"data of an input", GG X "[\"data\",{\"id\":1,\"fill\":\"zeros\"}]\n", "neither param nor const",
     GG_MALFORMED},
    {"data twice", GG C("\"fill\":\"zeros\"") "[\"data\",{\"id\":5,\"fill\":\"zeros\"}]\n", "already",
     GG_MALFORMED},
    {"data of two forms", GG C("\"fill\":\"zeros\",\"file\":\"f\""), "expected one of", GG_MALFORMED},
    {"data of no form", GG C("\"off\":0"), "expected one of", GG_MALFORMED},
    {"data too long", GG C("\"off\":0,\"bytes\":{\"$bin\":\"AAAAAAA=\"}"), "do not continue", GG_MALFORMED},
    {"data too short", GG C("\"off\":0,\"bytes\":{\"$bin\":\"AAA=\"}") OUT(, 5) END, "2 bytes", GG_MALFORMED},
    {"data with a gap", GG C("\"off\":1,\"bytes\":{\"$bin\":\"AAA=\"}"), "not that many", GG_MALFORMED},
    {"huge constant",
     GG "[\"value\",{\"id\":5,\"name\":\"c\",\"kind\":\"const\",\"dtype\":\"f32\",\"shape\":[1000000000000]}]"
        "\n[\"data\",{\"id\":5,\"off\":0,\"bytes\":{\"$bin\":\"\"}}]\n",
     "has not that many", GG_MALFORMED},
    {"overflowing constant",
     GG "[\"value\",{\"id\":5,\"name\":\"c\",\"kind\":\"const\",\"dtype\":\"f32\",\"shape\":[4294967296,"
        "4294967296]}]\n[\"data\",{\"id\":5,\"fill\":\"zeros\"}]\n" OUT(, 5) END,
     "'c'", GG_MALFORMED},
    {"constant of unknown size",
     GG "[\"value\",{\"id\":5,\"name\":\"c\",\"kind\":\"const\",\"dtype\":\"f32\",\"shape\":[\"N\"]}]\n["
        "\"data\",{\"id\":5,\"off\":0,\"bytes\":{\"$bin\":\"\"}}]\n",
     "no size", GG_MALFORMED},
    {"strings for numbers", GG C("\"strings\":[\"a\"]"), "no strings", GG_MALFORMED},
    {"file range", GG C("\"file\":\"f\",\"off\":9223372036854775807,\"len\":4,\"size\":1,\"mtime\":0"),
     "out of range", GG_MALFORMED},
    {"inputs not all listed", GG X OUT(, ) END, "0 listed", GG_MALFORMED},
    {"input listed twice",
     GG X "[\"value\",{\"id\":2,\"name\":\"y\",\"kind\":\"input\"}]\n[\"graph\",{\"in\":[1,1],\"out\":[]}]\n",
     "listed twice", GG_MALFORMED},
    {"output twice", GG X T(2, "y") RELU(3, 1, 2) "[\"graph\",{\"in\":[1],\"out\":[2,2]}]\n" END,
     "listed twice", GG_MALFORMED},
    {"state of an input", GG X "[\"graph\",{\"in\":[1],\"out\":[],\"state\":{\"x\":1}}]\n",
     "'x' is not a param", GG_MALFORMED},
    {"value after graph", GG X OUT(1, 1) T(2, "y"), "after the graph record", GG_MALFORMED},
    {"record form", GG "[\"value\"]\n", "[tag, map]", GG_MALFORMED},
    {"record map", GG "[\"mystery\",1]\n", "expected a map", GG_MALFORMED},
    {"line of the fault", GG X "\n\n[\"value\",{\"id\":1}]\n", "line 5: ", GG_MALFORMED},
};

/* The first message of reading these lines, from a child's stderr. */
static void by_hand(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[4096] = "";
		FILE *old = stderr, *f = fmemopen(text, sizeof text - 1, "w");
		gg_source s = {.name = "t", .p = rows[i].text, .len = strlen(rows[i].text)};
		gg_model *m = 0;
		d = (gg_diag){.tool = "test"};
		stderr = f;
		gg_read(&d, &s, &m);
		stderr = old;
		fclose(f);
		gg_model_free(m);
		bool good = d.status == rows[i].status && d.errors == (rows[i].status != GG_OK) &&
		            (!rows[i].message || strstr(text, rows[i].message));
		if (!ok(good, "%s", rows[i].what))
			printf("# status %d, %s", (int)d.status, text);
	}
}

/* ---- absurd sizes ------------------------------------------------------------------------- */
static void absurd(void)
{
	static const struct {
		const char *what, *p;
		size_t n;
	} sizes[] = {
	    {"an array of 4e9", "\x92\xa5value\xdf\xff\xff\xff\xff", 12},
	    {"a string of 4e9", "\x92\xa5value\x81\xdb\xff\xff\xff\xff", 13},
	    {"bytes of 4e9", "\x92\xa5value\x81\xa1x\xc6\xff\xff\xff\xff", 15},
	    {"an ext of 4e9", "\x92\xa5value\x81\xa1x\xc9\xff\xff\xff\xff\1", 16},
	    {"0xc1", "\x92\xa5value\x81\xa1x\xc1", 11},
	};
	gg_buf b = {0};
	gg_writer w;
	gg_writer_init(&w, &b);
	gg_json_to_msgpack(&d, &b, GG, strlen(GG));
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		gg_buf c = {0};
		gg_buf_add(&c, b.p, b.len);
		gg_buf_add(&c, sizes[i].p, sizes[i].n);
		ok(attempt(c.p, c.len) == 0, "%s", sizes[i].what);
		gg_buf_fini(&c);
	}
	size_t header = b.len;
	gg_buf_str(&b, "\x92\xa1?\x81\xa1x");
	for (int i = 0; i < 100000; i++)
		gg_buf_str(&b, "\x91");
	gg_buf_str(&b, "\xc0");
	ok(attempt(b.p, b.len) == 0, "an unknown record nested 100,000 deep");
	b.len = header;
	gg_put_array(&w, 2);
	gg_put_str(&w, "value");
	gg_put_map(&w, 1);
	gg_put_str(&w, "name");
	gg_buf_str(&b, "\xdb"
	               "\1"); /* 17 MiB of zeros follow */
	char *zeros = calloc(17, 1 << 20);
	gg_buf_add(&b, zeros, 17 << 20);
	ok(attempt(b.p, b.len) == 0, "a name of 16 MiB");
	free(zeros);
	gg_buf_fini(&b);
	gg_buf j = {0};
	for (int i = 0; i < 100000; i++)
		gg_buf_str(&j, "[");
	ok(attempt(j.p, j.len) == 0, "JSON nested 100,000 deep");
	gg_buf_fini(&j);
}

/* Bodies in bodies: 64 are read, one more is not. */
static bool nested(int depth)
{
	gg_model *m = gg_model_new(0);
	gg_shape s = {0};
	gg_graph *g = m->main;
	gg_add_input(g, "c", GG_BOOL, &s);
	for (int i = 0; i <= depth; i++) {
		gg_value *c = i ? gg_add_tensor(g, "k", &(gg_tensor){.dtype = GG_BOOL, .data = "\1"})
		                : g->in[0];
		if (i == depth) {
			gg_add_output(g, c);
			break;
		}
		gg_node *n = add(g, "If", 1, &c, 1, &(const char *){"o"});
		gg_graph *deeper = gg_graph_new(m, 0), *other = gg_graph_new(m, 0);
		gg_add_output(other, gg_add_tensor(other, "k", &(gg_tensor){.dtype = GG_BOOL, .data = "\1"}));
		gg_set_attr_graph(n, "then_branch", deeper);
		gg_set_attr_graph(n, "else_branch", other);
		gg_add_output(g, n->out[0]);
		g = deeper;
	}
	gg_buf b = {0};
	gg_write(&d, &b, m);
	gg_model_free(m);
	int got = attempt(b.p, b.len);
	gg_buf_fini(&b);
	return got == 1;
}

int main(void)
{
	gg_buf b = {0}, j = {0}, head = {0};
	gg_model *m = everything();
	gg_write(&d, &b, m);
	gg_write_json(&d, &j, m);
	gg_model_free(m);
	gg_reader r = {.d = &d, .start = b.p, .p = b.p, .end = b.p + b.len};
	gg_skip(&r, GG_PACK_DEPTH);
	cut(&b, "a stream");
	flip(&b, (size_t)(r.p - b.p));
	flip_unsummed(&b);
	j.len--; /* without the last newline it is whole */
	j.p[j.len] = 0;
	cut(&j, "JSON");
	fuzz(&b, "a stream", 4000);
	fuzz(&j, "JSON", 4000);
	by_hand();
	absurd();
	ok(nested(60), "bodies 60 deep");
	ok(!nested(70) && d.status == GG_MALFORMED, "bodies 70 deep are too many");
	gg_buf_fini(&b);
	gg_buf_fini(&j);
	gg_buf_fini(&head);
	return done();
}
