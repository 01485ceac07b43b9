#include "../../lib/pack.h"
#include "everything.h"
#include "tap.h"
#include <unistd.h>
#include <stdlib.h>

static gg_diag d = {.tool = "test"};

static gg_model *reread(const gg_buf *b)
{
	gg_source s = {.name = "<test>", .p = b->p, .len = b->len};
	gg_model *m = 0, *none;
	if (gg_read(&d, &s, &m) != 1)
		return 0;
	return gg_read(&d, &s, &none) == 0 ? m : 0;
}

static bool same(const gg_buf *a, const gg_buf *b) { return a->len == b->len && !memcmp(a->p, b->p, a->len); }

/* Through one form and back: the stream must be the same. */
static void round_trip(gg_model *m, const char *what)
{
	static const gg_text_options whole = {.elide = -1};
	for (int form = 0; form < 3; form++) {
		static const char *const name[] = {"stream", "json", "text"};
		gg_buf first = {0}, other = {0}, second = {0};
		ok(gg_check(&d, m) && gg_write(&d, &first, m), "%s: written", what);
		bool good = form == 0   ? gg_write(&d, &other, m)
		            : form == 1 ? gg_write_json(&d, &other, m)
		                        : gg_write_text(&d, &other, m, &whole);
		gg_model *back = good ? reread(&other) : 0;
		ok(back && gg_write(&d, &second, back) && (form == 2 || same(&first, &second)),
		   "%s: %s read and written is the same", what, name[form]);
		gg_model_free(back);
		gg_buf_fini(&first);
		gg_buf_fini(&other);
		gg_buf_fini(&second);
	}
}

static void contents(void)
{
	gg_model *m = everything();
	gg_buf b = {0};
	gg_write(&d, &b, m);
	gg_model_free(m);
	m = reread(&b);
	if (!ok(m, "everything is read"))
		return;
	gg_graph *g = m->main;
	gg_value *w = gg_find_value(g, "w"), *f = gg_find_value(g, "floats"), *sum = gg_find_value(g, "sum");
	uint32_t bits;
	memcpy(&bits, f->data->bytes, 4);
	ok(bits == 0x7fc00001, "a NaN keeps its payload");
	ok(w->data->seed == ~0ull && w->data->a == 0.1 && w->data->b == 0.02,
	   "a generator keeps seed and numbers");
	ok(gg_find_value(g, "filed")->data->mtime == 1700000000123456789, "times in nanoseconds");
	ok(sum->alias == gg_find_value(g, "a/b:0") && sum->producer->nafter == 1, "alias and control edge");
	ok(g->nstate == 1 && g->state[0]->param == w && g->state[0]->final.value->alias == w, "state");
	ok(g->nin == 3 && g->in[2]->dtype == GG_NONE && g->in[2]->shape.rank < 0, "unknown dtype and rank");
	ok(!strcmp(gg_dim_str(g->in[0]->shape.dim[1]), "2*N+1"), "dims are expressions");
	gg_node *branch = gg_find_value(g, "branch")->producer;
	ok(branch->ncap == 1 && gg_body(branch, 1)->owner == branch && gg_nargs(branch) == 1,
	   "bodies and captures");
	ok(m->nhistory == 1 && m->history[0].n == 3 && !strcmp(m->history[0].word[2], "--bind=N=4"),
	   "history");
	uint32_t next = m->next_id;
	ok(gg_add_input(g, "new", GG_F32, &w->shape)->id == next && !gg_find_value(g, "new")->uses,
	   "new ids come after all others");
	gg_model_free(m);
	gg_buf_fini(&b);
}

static void dropped(void)
{
	gg_model *m = everything();
	gg_buf b = {0};
	d.quiet = true;
	gg_value *r = gg_find_value(m->main, "a/b:0");
	gg_replace_value(r, m->main->in[0]);
	gg_find_value(m->main, "sum")->alias = 0;
	gg_remove_node(r->producer);
	ok(gg_write(&d, &b, m) && !memmem(b.p, b.len, "remark", 6),
	   "a record about a node goes with the node");
	ok(memmem(b.p, b.len, "other", 5), "other unknown records stay");
	gg_buf_fini(&b);
	gg_model_free(m);
	d.quiet = false;
}

/* A node of each op with all its attributes, none of them at its default. */
static void set_sample(gg_node *n, const gg_attr_spec *row)
{
	static const int64_t ints[] = {0, -1, 127, 128, -32769, 1ll << 40, INT64_MAX, INT64_MIN};
	static const float floats[] = {0.1f, 1, -0.0f, 3.4e38f, 1e-45f, 1e10f};
	static const char *strings[] = {"a", "", "\"q\" \\ \n", "\xe2\x82\xac"};
	static const double elements[] = {0.1, 1e300};
	gg_tensor t = {.dtype = GG_F64, .shape = gg_shape_of(2, (gg_dim[]){1, 2}), .data = (void *)elements};
	gg_attr a = {.name = row->name, .type = row->type};
	switch (row->type) {
	case GG_ATTR_INT:
		a.i = -129;
		break;
	case GG_ATTR_FLOAT:
		a.f = 1e-5f;
		break;
	case GG_ATTR_STRING:
		a.s = "it's";
		break;
	case GG_ATTR_INTS:
		a.n = 8, a.ints = ints;
		break;
	case GG_ATTR_FLOATS:
		a.n = 6, a.floats = floats;
		break;
	case GG_ATTR_STRINGS:
		a.n = 4, a.strings = strings;
		break;
	case GG_ATTR_DTYPE:
		a.dtype = GG_U4;
		break;
	case GG_ATTR_TENSOR:
		a.tensor = &t;
		break;
	case GG_ATTR_GRAPH:
		a.graph = relus(n->graph->m, "body", 1);
		break;
	}
	gg_set_attr(n, &a);
}

static gg_model *all_ops(void)
{
	gg_model *m = gg_model_new(0);
	gg_shape s = gg_shape_of(1, (gg_dim[]){3});
	gg_value *x[16];
	size_t nops;
	const gg_op *const *op = gg_op_list(&nops);
	for (int i = 0; i < 16; i++)
		x[i] = gg_add_input(m->main, gg_fresh_name(m->main, "x"), GG_F32, &s);
	for (size_t i = 0; i < nops; i++) {
		const char *out[16];
		for (int k = 0; k < op[i]->min_out; k++)
			out[k] = gg_intern(gg_printf(&m->arena, "%s.%d", op[i]->name, k));
		gg_node *n = gg_add_node(m->main, 0, op[i], op[i]->min_in, x, op[i]->min_out, out);
		for (const gg_attr_spec *row = op[i]->attrs; row && row->name; row++)
			set_sample(n, row);
	}
	return m;
}

static void large(void)
{
	gg_model *m = gg_model_new("large");
	gg_shape s = gg_shape_of(1, (gg_dim[]){(9 << 20) + 1});
	char *bytes = calloc((9 << 20) + 1, 1);
	bytes[8 << 20] = 7;
	gg_add_const(m->main, GG_CONST, "c", GG_U8, &s, gg_data_inline(m, bytes, (9 << 20) + 1));
	free(bytes);
	gg_buf b = {0};
	gg_write(&d, &b, m);
	gg_model *back = reread(&b);
	ok(back && ((const char *)back->main->consts->data->bytes)[8 << 20] == 7,
	   "inline data of several chunks");
	round_trip(m, "chunks");
	gg_buf_add(&b, b.p, 0);
	gg_buf twice = {0};
	gg_write(&d, &twice, m);
	gg_write(&d, &twice, m);
	gg_source in = {.name = "<test>", .p = twice.p, .len = twice.len};
	gg_model *a = 0, *c = 0, *none;
	ok(gg_read(&d, &in, &a) == 1 && gg_read(&d, &in, &c) == 1 && gg_read(&d, &in, &none) == 0,
	   "graphs follow one another");
	gg_model_free(a);
	gg_model_free(c);
	gg_buf_fini(&twice);
	gg_model_free(back);
	gg_model_free(m);
	gg_buf_fini(&b);
}

static void json_values(void)
{
	static const struct {
		const char *msgpack;
		size_t n;
		const char *json;
	} rows[] = {
	    {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, "{\"$int\":\"18446744073709551615\"}"},
	    {"\xd3\x80\0\0\0\0\0\0\0", 9, "{\"$int\":\"-9223372036854775808\"}"},
	    {"\xcf\0\x20\0\0\0\0\0\0", 9, "9007199254740992"},
	    {"\xca\x3d\xcc\xcc\xcd", 5, "0.1"},
	    {"\xca\x80\0\0\0", 5, "-0.0"},
	    {"\xca\x7f\x80\0\0", 5, "{\"$f32\":\"inf\"}"},
	    {"\xca\xff\xc0\0\1", 5, "{\"$f32\":\"0xffc00001\"}"},
	    {"\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", 9, "{\"$f64\":\"0.1\"}"},
	    {"\xcb\xff\xf0\0\0\0\0\0\0", 9, "{\"$f64\":\"-inf\"}"},
	    {"\xcb\x7f\xf8\0\0\0\0\0\1", 9, "{\"$f64\":\"0x7ff8000000000001\"}"},
	    {"\xa2\xff\xfe", 3, "{\"$str\":\"//4=\"}"},
	    {"\xa3\x01\"\\", 4, "\"\\u0001\\\"\\\\\""},
	    {"\xa4\xf0\x9f\x98\x80", 5, "\"\xf0\x9f\x98\x80\""},
	    {"\xc4\x03xyz", 5, "{\"$bin\":\"eHl6\"}"},
	    {"\xc4\0", 2, "{\"$bin\":\"\"}"},
	    {"\xd4\xff!", 3, "{\"$ext\":[-1,\"IQ==\"]}"},
	    {"\x81\x01\x02", 3, "{\"$map\":[[1,2]]}"},
	    {"\x81\xa2$a\xc0", 5, "{\"$map\":[[\"$a\",null]]}"},
	    {"\x93\xc2\xc3\x80", 4, "[false,true,{}]"},
	    {"\x82\xa1"
	     "a\x90\xa1"
	     "b\x91\xe0",
	     8, "{\"a\":[],\"b\":[-32]}"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		gg_buf j = {0}, p = {0};
		bool there = gg_msgpack_to_json(&d, &j, rows[i].msgpack, rows[i].n) &&
		             !strcmp(j.p, rows[i].json);
		bool back = gg_json_to_msgpack(&d, &p, rows[i].json, strlen(rows[i].json)) &&
		            p.len == rows[i].n && !memcmp(p.p, rows[i].msgpack, p.len);
		ok(there && back, "json: %s", rows[i].json);
		gg_buf_fini(&j);
		gg_buf_fini(&p);
	}
	gg_buf p = {0};
	ok(gg_json_to_msgpack(&d, &p, "\"\\ud83d\\ude00\\u20ac\"", 20) &&
	       !strcmp(p.p, "\xa7\xf0\x9f\x98\x80\xe2\x82\xac"),
	   "json: escapes of any plane");
	static const char *const broken[] = {"",
	                                     "[",
	                                     "[1,]",
	                                     "{\"a\"}",
	                                     "{\"a\":1,}",
	                                     "\"",
	                                     "01x",
	                                     "\"\\ud800\"",
	                                     "tru",
	                                     "1e999",
	                                     "{\"$bin\":\"a\"}",
	                                     "1 2",
	                                     "-",
	                                     "{\"$q\":1}",
	                                     "\"\\u12\"",
	                                     "18446744073709551616",
	                                     "[1 2]",
	                                     "\"\n\"",
	                                     "{1:2}",
	                                     "{\"$ext\":[300,\"\"]}",
	                                     "1.2.3"};
	d.silent = true;
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		d.status = d.errors = 0;
		ok(!gg_json_to_msgpack(&d, &p, broken[i], strlen(broken[i])) && d.status == GG_MALFORMED,
		   "not json: %zu", i);
	}
	d = (gg_diag){.tool = "test"};
	gg_buf_fini(&p);
}

/* As passes do that make a constant of one name for each node. */
static void fresh_names(void)
{
	enum { N = 50000 };
	gg_model *m = gg_model_new(0);
	gg_shape s = gg_shape_of(0, 0);
	gg_value *last = 0;
	bool good = true;
	alarm(20); /* a second and less, unless each name tries all before it */
	for (int i = 0; i < N; i++) {
		const char *name = gg_fresh_name(m->main, "zero");
		char want[32];
		snprintf(want, sizeof want, i ? "zero.%d" : "zero", i);
		good = good && !strcmp(name, want) && !gg_find_value(m->main, name);
		last = gg_add_input(m->main, name, GG_F32, &s);
	}
	alarm(0);
	ok(good, "many names of one base are counted");
	gg_rename(last, "other");
	ok(!gg_find_value(m->main, gg_fresh_name(m->main, "zero")), "a name given up leaves a new one");
	gg_model_free(m);
}

static bool sums(void)
{
	unsigned char text[300];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (unsigned char)(i * i * 7 + i / 5);
	for (size_t n = 0; n <= sizeof text; n++) {
		uint32_t c = 0xffffffffu;
		for (size_t i = 0; i < n; i++) {
			c ^= text[i];
			for (int k = 0; k < 8; k++)
				c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		}
		if (gg_crc32(text, n) != ~c)
			return false;
	}
	return true;
}

int main(void)
{
	ok(gg_crc32("123456789", 9) == 0xcbf43926, "the sum is the usual crc32");
	ok(sums(), "and so it is of every length, bit by bit");
	gg_model *m = everything();
	round_trip(m, "everything");
	gg_model_free(m);
	m = all_ops();
	round_trip(m, "all ops");
	gg_model_free(m);
	contents();
	dropped();
	large();
	fresh_names();
	json_values();
	return done();
}
