#include "gg.h"
#include "tap.h"
#include <stdlib.h>
#include <string.h>

/* Everything that the form has, as it is printed. */
static const char *const everything[] = {
    "graph \"test\"\n",
    "stage \"opt\"\n",
    "target \"cpu\"\n",
    "base \"/somewhere\"\n",
    "history \"gg-parse\" \"0.1.0\" \"--bind\" \"N=3\"\n",
    "history \"gg-opt\" \"0.1.0\"\n",
    "meta \"note\" {\"a\":[1,2.5,null,\"x>y,\"]}\n",
    "input %x : f32[N,3]\n",
    "input %\"odd:name/\\\"1\\\"\" : f32['a b',2*N+1,max(M,N)]<id=17, layout=nhwc>\n",
    "input %c : bool[]\n",
    "input %any : ?[*]\n",
    "param %w : f32[4,3] = normal(1, 0, 0.02)\n",
    "param %v : f32[4] = uniform(18446744073709551615, -0.5, 1e-30)\n",
    "const %z : f32[1000000,1000] = zeros\n",
    "const %o : f32[] = ones\n",
    "const %file : f32[2] = file(\"w.bin\", 4, 8, 100, 1700000000000000001, \"00ff\")\n",
    "const %i : i64[2] = [-9223372036854775808, 9223372036854775807]\n",
    "const %u : u64[1] = [18446744073709551615]\n",
    "const %f : f32[8] = [0.1, -0, nan, 0x7fc00001, inf, -inf, 1e-45, 3.4028235e+38]\n",
    "const %d : f64[4] = [0.1, 1e+300, 3.141592653589793, 5e-324]\n",
    "const %h : f16[4] = [0.1, 65504, 6e-08, 0x7e01]\n",
    "const %bf : bf16[3] = [0.1, 9e-41, 3.39e+38]\n",
    "const %e4 : f8e4m3[3] = [448, 0.002, nan]\n",
    "const %e5 : f8e5m2[2] = [57344, inf]\n",
    "const %b : bool[3] = [true, false, 0x02]\n",
    "const %i4 : i4[3] = [-8, 7, -1]\n",
    "const %u4 : u4[] = 15\n",
    "const %cx : c64[1] = [(1, -2.5)]\n",
    "const %s : string[2] = [\"a\\nb\", \"\\\"q\\\" \xc3\xa9\"]\n",
    "const %none : i8[0,3] = []\n",
    "const %k : i64[1] = [2]\n",
    "%y = Relu<kernel=cpu_relu, stream=1>(%x) : f32[N,3]<mem=0+256, alias=%x>  #@ \"m.onnx\" \"node 1\"\n",
    "%values, _ = TopK(%y, %k) {axis=1, largest=0} : f32[N,2]<\"k\"=7>, _\n",
    "%then = If<id=99, after=[%y]>(%c; %x, %y) {then_branch=graph \"yes\"(%p : f32[N,3], %q : f32[N,3]) {\n"
    "  const %one : f32[] = 1\n"
    "  const %cond : bool[] = true\n"
    "  %t = Add(%p, %one) : f32[N,3]\n"
    "  %r = If(%cond; %t) {then_branch=graph(%t : f32[N,3]) {\n"
    "    output %t\n"
    "  }, else_branch=graph(%u : f32[N,3]) {\n"
    "    %n = Neg(%u) : f32[N,3]\n"
    "    output %n\n"
    "  }} : f32[N,3]\n"
    "  output %r\n"
    "}, else_branch=graph(%p : f32[N,3], %q : f32[N,3]) {\n"
    "  output %q\n"
    "}} : f32[N,3]\n",
    "%\"_\" = Clip(%y, _, %o) : f32[N,3]\n",
    "output %then\n",
    "output %values\n",
    "state %w <- %w\n",
    "also \"key\" [1]\n",
    "record \"hint\" {\"x\":1}\n",
};

static gg_model *parse(gg_diag *d, const char *text, size_t len)
{
	gg_model *m = NULL;
	gg_source s = {.name = "t.gg", .p = text, .len = len};
	return gg_read_text(d, &s, &m) > 0 ? m : NULL;
}

static char *print(gg_model *m, int64_t elide)
{
	gg_diag d = {.tool = "test"};
	gg_buf b = {0};
	gg_text_options o = {elide};
	gg_write_text(&d, &b, m, &o);
	return b.p;
}

/* Reads it, prints it, and does so again; then the records too must be the same. */
static void round_trip(const char *what, const char *text, const char *want)
{
	gg_diag d = {.tool = "test"};
	gg_model *m = parse(&d, text, strlen(text)), *again = NULL;
	char *once = m ? print(m, -1) : NULL, *twice = NULL;
	gg_buf a = {0}, b = {0};
	if (once && (again = parse(&d, once, strlen(once))) != NULL)
		twice = print(again, -1);
	bool same = twice && !strcmp(once, twice) && (!want || !strcmp(once, want));
	ok(same, "%s comes back", what);
	if (!same)
		printf("# got:\n%s# then:\n%s\n", once ? once : "", twice ? twice : "");
	bool records = again && gg_write(&d, &a, m) && gg_write(&d, &b, again) && a.len == b.len &&
	               !memcmp(a.p, b.p, a.len);
	ok(records, "%s: the same records", what);
	free(once);
	free(twice);
	gg_buf_fini(&a);
	gg_buf_fini(&b);
	gg_model_free(m);
	gg_model_free(again);
}

static char *whole(void)
{
	gg_buf b = {0};
	for (size_t i = 0; i < sizeof everything / sizeof *everything; i++)
		gg_buf_str(&b, everything[i]);
	return b.p;
}

static void refuse(const char *text, gg_status status, const char *message)
{
	gg_diag d = {.tool = NULL};
	char got[400] = "";
	fflush(stderr);
	FILE *f = tmpfile(), *keep = stderr;
	stderr = f;
	gg_model *m = parse(&d, text, strlen(text));
	stderr = keep;
	rewind(f);
	if (!fgets(got, sizeof got, f))
		got[0] = 0;
	fclose(f);
	got[strcspn(got, "\n")] = 0;
	bool good = !m && d.status == status && d.errors == 1 && !strcmp(got, message);
	ok(good, "refused: %s", message);
	if (!good)
		printf("# got %d: %s\n", (int)d.status, got);
	gg_model_free(m);
}

static void errors(void)
{
	const gg_status bad = GG_MALFORMED, unknown = GG_UNSUPPORTED;
	refuse("", bad, "the text holds no graph");
	refuse("# nothing\n", bad, "the text holds no graph");
	refuse("input x : f32[3]", bad, "line 1, column 7: expected a value such as %x, found 'x'");
	refuse("input %x : f33[3]", unknown, "line 1, column 12: 'f33' is no dtype");
	refuse("input %x : f32[N,]", bad, "line 1, column 18: '' is no dim");
	refuse("input %x : f32[-3]", bad, "line 1, column 16: '-3' is no dim");
	refuse("input %x : f32[((((]", bad, "line 1, column 16: '((((]' is no dim");
	refuse("input %x : f32[1,1,1,1,1,1,1,1,1,1,1,1,1]", bad, "line 1, column 40: more than 12 dims");
	refuse("input %x : f32[2] output %x", bad,
	       "line 1, column 19: expected the end of the line, found 'output'");
	refuse("input %x : f32[2]\ninput %x : f32[2]", bad, "line 2, column 7: value 'x' is already defined");
	refuse("input %x : f32[2]\n\n%y = Relu(%v)", bad,
	       "line 3, column 11: value 'v' is not defined before this line");
	refuse("%y = Rellu()", unknown, "line 1, column 6: op 'Rellu' is not known; the nearest is 'Relu'");
	refuse("input %x : f32[2]\n%y = Relu(%x) {axis=1}", unknown,
	       "line 2, column 16: op 'Relu' has no attribute 'axis'");
	refuse("input %x : f32[2]\n%y = Relu(%x", bad, "line 2, column 13: expected ')', found the end");
	refuse("input %x : f32[2]\n%y = Transpose(%x) {perm=[0], perm=[0]}", bad,
	       "line 2, column 31: attribute 'perm' is given twice");
	refuse("input %x : f32[2]\n%y = Transpose(%x) {perm=0.5}", bad,
	       "line 2, column 26: expected '[', found '0.5'");
	refuse("const %c : f32[N] = zeros", bad,
	       "line 1, column 7: constant 'c' needs a dtype and a size in numbers");
	refuse("const %c : f32[9999999999,9999999999] = zeros", bad,
	       "line 1, column 7: constant 'c' needs a dtype and a size in numbers");
	refuse("const %c : f32[1000000000000] = [1]", bad,
	       "line 1, column 33: 1 elements, but the shape has 1000000000000");
	refuse("const %c : f32[1] = [1, 2]", bad, "line 1, column 25: more elements than the 1 of the shape");
	refuse("const %c : u8[1] = [256]", bad, "line 1, column 21: not a value of 'u8'");
	refuse("const %c : i4[1] = [8]", bad, "line 1, column 21: not a value of 'i4'");
	refuse("const %c : u64[1] = [18446744073709551616]", bad, "line 1, column 22: not a value of 'u64'");
	refuse("const %c : i64[1] = [1.5]", bad, "line 1, column 22: not a value of 'i64'");
	refuse("const %c : f16[1] = [0x10000]", bad, "line 1, column 22: more bits than 'f16' has");
	refuse("const %c : f8e4m3[1] = [500]", bad, "line 1, column 25: not a value of 'f8e4m3'");
	refuse("const %c : f32[1] = [1x]", bad, "line 1, column 22: bad number");
	refuse("const %c : f32[1] = [1", bad, "line 1, column 23: expected ',', found the end");
	refuse("const %c : f32[1] = elided(1, 00)", bad,
	       "line 1, column 21: 'c' was left out when this text was written; it cannot be read back");
	refuse("const %c : string[1] = [\"ab\n\"]", bad,
	       "line 1, column 25: a string that does not end on its line");
	refuse("const %c : string[1] = [\"\\x00\"]", bad, "line 1, column 26: bad escape in a string");
	refuse("const %c : f32[1] = file(\"../x\", 0)", bad,
	       "tensor 'c': its file '../x' lies outside the model's folder (--allow-outside reads it)");
	refuse("input %x : f32[2]<id=0>", bad, "line 1, column 22: an id is a number from 1 to 4294967294");
	refuse("input %x : f32[2]<id=3>\ninput %y : f32[2]<id=3>", bad, "the id 3 is given twice");
	refuse("input %x : f32[2]<kernel=a>", bad, "line 1, column 19: 'kernel' is no note of a value");
	refuse("input %x : f32[2]<alias=%y>", bad,
	       "line 1, column 25: value 'y' is not defined before this line");
	refuse("input %c : bool[]\n%y = If(%c) {then_branch=graph() {\nstate %a <- %b\n}}", bad,
	       "line 3, column 1: 'state' cannot stand in a body");
	refuse("meta \"k\" [1,", bad, "line 1, column 10: expected a JSON value");
	refuse("input %x : f32[2]\noutput %x\noutput %x", bad, "output 'x' is listed twice");
}

/* No prefix and no flipped byte may crash; each is read or refused with one message. */
static void mutations(const char *text)
{
	static const char odd[] = "\0\"%{}[]<>()#@\\\n,;:=-0e_\xff";
	size_t n = strlen(text), crashes = 0, quiet = 0;
	char *copy = malloc(n);
	for (size_t i = 0; i < n * 3; i++) {
		gg_diag d = {.silent = true};
		size_t len = i < n ? i : n;
		memcpy(copy, text, n);
		if (i >= n)
			copy[i % n] = odd[(i * 7 + i / n) % sizeof odd];
		gg_model *m = parse(&d, copy, len);
		quiet += !m && d.errors == 0;
		gg_model_free(m);
	}
	ok(crashes == 0 && quiet == 0, "no mutation is refused without a message");
	free(copy);
}

/* A million brackets must be refused, not recursed into. */
static void depth(void)
{
	gg_buf b = {0};
	gg_diag d = {.silent = true};
	gg_buf_str(&b, "input %c : bool[]\n");
	for (int i = 0; i < 100000; i++)
		gg_buf_str(&b, "%y = If(%c) {then_branch=graph(%c : bool[]) {\n");
	ok(!parse(&d, b.p, b.len) && d.status == GG_MALFORMED, "bodies nested without end");
	gg_buf_fini(&b);
	d = (gg_diag){.silent = true};
	gg_buf_str(&b, "const %c : f32[1] = ");
	for (int i = 0; i < 100000; i++)
		gg_buf_str(&b, "[");
	ok(!parse(&d, b.p, b.len) && d.status == GG_MALFORMED, "lists nested without end");
	gg_buf_fini(&b);
}

static void attributes(void)
{
	static const struct {
		gg_attr_type type;
		const char *text;
	} rows[] = {{GG_ATTR_INT, "-5"},
	            {GG_ATTR_FLOAT, "1e-05"},
	            {GG_ATTR_FLOAT, "0x7f800001"},
	            {GG_ATTR_STRING, "\"NOT\\\"SET\""},
	            {GG_ATTR_INTS, "[1, 1]"},
	            {GG_ATTR_INTS, "[]"},
	            {GG_ATTR_FLOATS, "[0.5, inf]"},
	            {GG_ATTR_STRINGS, "[\"a\", \"b\"]"},
	            {GG_ATTR_DTYPE, "f16"},
	            {GG_ATTR_TENSOR, "i4[3] = [-1, 2, -8]"},
	            {GG_ATTR_TENSOR, "f32[] = 1.5"},
	            {GG_ATTR_TENSOR, "bf16[0] = []"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		gg_diag d = {.tool = "test"};
		gg_arena arena = {0};
		gg_attr a;
		gg_buf b = {0};
		if (gg_parse_attr(&d, &arena, rows[i].text, rows[i].type, &a))
			gg_print_attr(&b, &a);
		ok(b.p && !strcmp(b.p, rows[i].text), "attribute %s", rows[i].text);
		gg_buf_fini(&b);
		gg_arena_fini(&arena);
	}
	gg_diag d = {.silent = true};
	gg_arena arena = {0};
	gg_attr a;
	ok(!gg_parse_attr(&d, &arena, "1 2", GG_ATTR_INT, &a), "nothing may follow");
	ok(!gg_parse_attr(&d, &arena, "graph() {}", GG_ATTR_GRAPH, &a), "no body on its own");
	gg_arena_fini(&arena);
}

static void forms(void)
{
	const char *text = "# by hand\n\ninput %x : f32[N, (4*M+6)/4]   # spaces\n"
	                   "const %c : f32[2,2] = [[1, 2.50],\n [3e0, .25],]\n%y = Relu\n (%x)\noutput %y";
	round_trip("a text by hand", text,
	           "graph\nstage \"parse\"\ninput %x : f32[N,M+1]\nconst %c : f32[2,2] = [1, 2.5, 3, 0.25]\n"
	           "%y = Relu(%x) : f32[N,M+1]\noutput %y\n");
	gg_diag d = {.tool = "test"};
	gg_model *m = parse(&d, text, strlen(text));
	char *short_text = print(m, 3);
	ok(strstr(short_text, "const %c : f32[2,2] = elided(4, ") != NULL,
	   "a large constant is left out on request");
	free(short_text);
	gg_buf b = {0};
	gg_print_node(&b, m->main->first);
	ok(!strcmp(b.p, "%y = Relu(%x) : f32[N,M+1]"), "a node on its line");
	gg_buf_fini(&b);
	gg_model_free(m);

	gg_source s = {.name = "t.gg", .p = "graph \"a\"\ngraph \"b\"\n  input %x : f32[]\n", .len = 40};
	s.len = strlen(s.p);
	gg_model *one = NULL, *two = NULL, *three = NULL;
	ok(gg_read(&d, &s, &one) == 1 && gg_read(&d, &s, &two) == 1 && gg_read(&d, &s, &three) == 0,
	   "two graphs in one text");
	ok(one && two && !strcmp(two->name, "b") && two->main->nin == 1 && one->main->nin == 0,
	   "each has its own");
	gg_model_free(one);
	gg_model_free(two);
}

int main(void)
{
	char *text = whole();
	round_trip("everything", text, text);
	forms();
	attributes();
	errors();
	mutations(text);
	depth();
	free(text);
	return done();
}
