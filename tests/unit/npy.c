/* .npy and TensorProto files. The bytes of good files are NumPy's and onnx's own. */
#include "npy.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gg_diag quiet = {.tool = "npy", .silent = true};

static size_t make(char *out, int version, const char *header, const void *data, size_t bytes)
{
	size_t n = strlen(header), start = version == 1 ? 10 : 12;

	memcpy(out, "\x93NUMPY", 6);
	out[6] = (char)version;
	out[7] = 0;
	out[8] = (char)n;
	out[9] = (char)(n >> 8);
	if (version > 1)
		out[10] = out[11] = 0;
	memcpy(out + start, header, n);
	if (bytes)
		memcpy(out + start + n, data, bytes);
	return start + n + bytes;
}

static bool parse(const char *header, const void *data, size_t bytes, gg_dtype want, gg_tensor *t)
{
	char file[4096], *exact;
	size_t n = make(file, 1, header, data, bytes);
	bool good;

	exact = malloc(n); /* so that a sanitizer sees reads beyond it */
	memcpy(exact, file, n);
	quiet = (gg_diag){.tool = "npy", .silent = true};
	good = gg_npy_parse(&quiet, "file", exact, n, want, t);
	free(exact);
	return good;
}

#define HEAD(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

static void forms(void)
{
	static const float columns[] = {0, 3, 1, 4, 2, 5};
	static const unsigned char big[] = {0x00, 0x01, 0xff, 0xfe, 0x01, 0x2c};
	static const unsigned char pair[] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0}, three[] = {1, 2, 3};
	static const uint32_t wide[] = {'a', 0, 'z', 0xe9};
	gg_tensor t;
	char file[512];
	double x = 1.5;

	ok(parse(HEAD("<f4", "True", "(2, 3)"), columns, sizeof columns, GG_F32, &t) && t.shape.rank == 2 &&
	       ((float *)t.data)[1] == 1 && ((float *)t.data)[3] == 3,
	   "column-major data is turned round");
	free(t.data);
	ok(parse(HEAD(">i2", "False", "(3,)"), big, sizeof big, GG_NONE, &t) && t.dtype == GG_I16 &&
	       ((int16_t *)t.data)[1] == -2 && ((int16_t *)t.data)[2] == 300,
	   "big-endian integers");
	free(t.data);
	ok(parse(HEAD(">c8", "False", "()"), pair, sizeof pair, GG_NONE, &t) && t.dtype == GG_C64 &&
	       t.shape.rank == 0 && ((float *)t.data)[0] == 1 && ((float *)t.data)[1] == 2,
	   "big-endian complex numbers");
	free(t.data);
	ok(parse(HEAD("<V2", "False", "(1,)"), "\x80\x3f", 2, GG_NONE, &t) && t.dtype == GG_BF16 &&
	       gg_get_f64(&t, 0) == 1,
	   "bf16 as <V2");
	free(t.data);
	ok(parse(HEAD("<u2", "False", "(1,)"), "\x80\x3f", 2, GG_BF16, &t) && t.dtype == GG_BF16,
	   "bf16 as uint16");
	free(t.data);
	ok(parse(HEAD("|V1", "False", "(1,)"), "\x38", 1, GG_F8E5M2, &t) && t.dtype == GG_F8E5M2,
	   "f8 as |V1");
	free(t.data);
	ok(parse(HEAD("|b1", "False", "(3,)"), "\0\1\7", 3, GG_NONE, &t) && ((uint8_t *)t.data)[2] == 1,
	   "bool is 0 or 1");
	free(t.data);
	ok(parse(HEAD("|u1", "False", "(3,)"), three, 3, GG_U4, &t) && t.dtype == GG_U4, "u4, one a byte");
	free(t.data);
	ok(!parse(HEAD("|i1", "False", "(1,)"), "\x09", 1, GG_I4, &t), "9 does not fit in i4");
	ok(parse(HEAD("<U2", "False", "(2,)"), wide, sizeof wide, GG_NONE, &t) && t.dtype == GG_STRING &&
	       !strcmp(((const char **)t.data)[0], "a") && !strcmp(((const char **)t.data)[1], "z\xc3\xa9"),
	   "strings become UTF-8");
	free(t.data);
	ok(parse(HEAD("<f4", "False", "(0, 5)"), NULL, 0, GG_NONE, &t) && gg_count(&t) == 0,
	   "an empty array");
	free(t.data);
	for (int v = 2; v <= 3; v++) {
		size_t n = make(file, v, HEAD("<f8", "False", "()"), &x, sizeof x);
		ok(gg_npy_parse(&quiet, "file", file, n, GG_NONE, &t) && gg_get_f64(&t, 0) == 1.5,
		   "version %d", v);
		free(t.data);
	}
}

static void hostile(void)
{
	static const char *const bad[] = {
	    "",
	    "{",
	    "{}",
	    "{'descr': '<f4'}",
	    HEAD("<f4", "Maybe", "(1,)"),
	    HEAD("<f4", "False", "(-1,)"),
	    HEAD("<f4", "False", "(1"),
	    HEAD("<f4", "False", "1"),
	    HEAD("<f4", "False", "(99999999999999999999,)"),
	    HEAD("<f4", "False", "(4611686018427387904, 4611686018427387904)"),
	    HEAD("<f4", "False", "(4611686018427387904,)"),
	    HEAD("<f4", "False", "(2,)"),
	    HEAD("", "False", "(1,)"),
	    HEAD("<U0", "False", "(999999999999,)"),
	    "{'descr': '<f4",
	    "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
	    "{'x': 1}",
	    "{'descr'",
	    "{'shape': (1 1)}",
	};
	static const char *const missing[] = {
	    HEAD("|O", "False", "(1,)"),
	    HEAD("<M8", "False", "(1,)"),
	    HEAD("<f16", "False", "(1,)"),
	    HEAD("<f", "False", "(1,)"),
	    HEAD("<c16", "False", "(1,)"),
	    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
	    HEAD("<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1)"),
	    HEAD("<f99999999999999999999", "False", "(1,)"),
	};
	const char *good = HEAD("<f4", "False", "(1,)");
	gg_tensor t;
	char file[512];
	size_t n;
	bool refused = true;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(!parse(bad[i], "abcd", 4, GG_NONE, &t) && quiet.errors == 1 &&
		       quiet.status == GG_MALFORMED,
		   "malformed: %zu", i);
	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
		ok(!parse(missing[i], "abcdefghijklmnop", 16, GG_NONE, &t) && quiet.status == GG_UNSUPPORTED,
		   "not supported: %zu", i);
	n = make(file, 1, good, "abcd", 4);
	for (size_t i = 0; i < n; i++) {
		char *cut = malloc(i ? i : 1);
		memcpy(cut, file, i);
		refused &= !gg_npy_parse(&quiet, "file", cut, i, GG_NONE, &t);
		free(cut);
	}
	ok(refused, "a file cut anywhere is refused");
	file[6] = 4;
	ok(!gg_npy_parse(&quiet, "file", file, n, GG_NONE, &t), "version 4 is refused");
	ok(!gg_tensor_read(&quiet, "/nonexistent.npy", GG_NONE, &t) &&
	       !gg_tensor_read(&quiet, "/", GG_NONE, &t),
	   "no file, or a folder");
}

static void round_trip(void)
{
	static const gg_dtype types[] = {GG_F64, GG_F32, GG_F16,  GG_BF16, GG_I64,   GG_I8,
	                                 GG_U4,  GG_U64, GG_BOOL, GG_C64,  GG_F8E4M3};
	gg_tensor t, back;
	gg_buf b = {0};
	const char *words[] = {"", "z\xc3\xa9", "\xf0\x9f\x99\x82", "plain"};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		t = (gg_tensor){types[i], gg_shape_of(2, (gg_dim[]){2, 3}), NULL};
		t.data = calloc(6, 16);
		for (size_t k = 0; k < gg_nbytes(&t); k++)
			((uint8_t *)t.data)[k] = (uint8_t)(k % 2);
		b.len = 0;
		gg_npy_print(&b, &t);
		ok(gg_npy_parse(&quiet, "file", b.p, b.len, types[i], &back) && back.dtype == t.dtype &&
		       gg_shape_eq(&back.shape, &t.shape) && !memcmp(back.data, t.data, gg_nbytes(&t)),
		   "%s is read as it was written", gg_dtype_name(types[i]));
		free(back.data);
		free(t.data);
	}
	t = (gg_tensor){GG_STRING, gg_shape_of(1, (gg_dim[]){4}), words};
	b.len = 0;
	gg_npy_print(&b, &t);
	ok(gg_npy_parse(&quiet, "file", b.p, b.len, GG_STRING, &back) &&
	       !strcmp(((const char **)back.data)[2], words[2]),
	   "strings are read as they were written");
	free(back.data);
	gg_buf_fini(&b);
}

static size_t from_hex(const char *s, uint8_t *out)
{
	size_t n = 0;

	for (unsigned x; s[0] && sscanf(s, "%2x", &x) == 1; s += 2)
		out[n++] = (uint8_t)x;
	return n;
}

static bool proto(const char *hex, gg_tensor *t)
{
	uint8_t b[256], *exact;
	size_t n = from_hex(hex, b);
	bool good;

	exact = malloc(n + 1);
	memcpy(exact, b, n);
	quiet = (gg_diag){.tool = "npy", .silent = true};
	good = gg_pb_parse(&quiet, "file", exact, n, t);
	free(exact);
	return good;
}

static void protos(void)
{
	static const char raw[] = "0802080210014201784a100000803f000000400000404000008040";
	gg_tensor t;
	bool refused = true;

	ok(proto(raw, &t) && t.dtype == GG_F32 && t.shape.rank == 2 && gg_get_f64(&t, 3) == 4, "raw f32");
	free(t.data);
	ok(proto("0802100a2a058078808003420178", &t) && t.dtype == GG_F16 && gg_get_f64(&t, 1) == -2,
	   "f16 as integers");
	free(t.data);
	ok(proto("080310073a0c01feffffffffffffffff0103420178", &t) && gg_get_i64(&t, 1) == -2, "i64");
	free(t.data);
	ok(proto("0802100832016132026263420178", &t) && !strcmp(((const char **)t.data)[1], "bc"), "strings");
	free(t.data);
	ok(proto("080310162a03e10103420178", &t) && gg_get_i64(&t, 1) == -2 && gg_get_i64(&t, 2) == 3, "i4");
	free(t.data);
	ok(proto("080310164201784a02e103", &t) && gg_get_i64(&t, 1) == -2, "raw i4");
	free(t.data);
	ok(proto("0801100e22080000803f00000040420178", &t) && ((float *)t.data)[1] == 2, "c64");
	free(t.data);
	ok(proto("0802100c4201785a060180d0acf30e", &t) && gg_get_i64(&t, 1) == 4000000000, "u32");
	free(t.data);
	for (size_t i = 0; i < sizeof raw - 2; i += 2) {
		char cut[sizeof raw];
		memcpy(cut, raw, i);
		cut[i] = 0;
		refused &= !proto(cut, &t);
	}
	ok(refused, "a message cut anywhere is refused");
	ok(!proto("08ffffffffffffffff7f10014a00", &t), "a shape that overflows");
	ok(!proto("08feffffffffffffffff0110014a00", &t), "a negative size");
	ok(!proto("1063", &t) && quiet.status == GG_UNSUPPORTED, "a data type that does not exist");
	ok(!proto("0801100122040000803f6a00", &t) && quiet.status == GG_UNSUPPORTED, "external data");
}

int main(void)
{
	forms();
	hostile();
	round_trip();
	protos();
	return done();
}
