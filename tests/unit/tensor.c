#include "tensor.h"
#include "tap.h"
#include <math.h>
#include <string.h>

/* Rounded by numpy (f16) and ml_dtypes (the others, which do not saturate): among them the points
 * halfway between two neighbours and what lies just beside these. */
static const struct {
	double x;
	uint16_t f16, bf16;
	uint8_t e4m3, e5m2;
} rounded[] = {
    {0x0.0p+0, 0x0000, 0x0000, 0x00, 0x00},
    {0x1.0000000000000p+0, 0x3c00, 0x3f80, 0x38, 0x3c},
    {-0x1.8000000000000p+0, 0xbe00, 0xbfc0, 0xbc, 0xbe},
    {0x1.ffc0000000000p+15, 0x7bff, 0x4780, 0x7f, 0x7c},
    {0x1.ffde000000000p+15, 0x7bff, 0x4780, 0x7f, 0x7c},
    {0x1.ffe0000000000p+15, 0x7c00, 0x4780, 0x7f, 0x7c},
    {0x1.86a0000000000p+16, 0x7c00, 0x47c3, 0x7f, 0x7c},
    {-0x1.dcd6500000000p+29, 0xfc00, 0xce6e, 0xff, 0xfc},
    {0x1.0000000000000p-24, 0x0001, 0x3380, 0x00, 0x00},
    {0x1.fff5ca0000000p-26, 0x0000, 0x3300, 0x00, 0x00},
    {0x1.0000000000000p-25, 0x0000, 0x3300, 0x00, 0x00},
    {0x1.01b2b20000000p-25, 0x0001, 0x3301, 0x00, 0x00},
    {-0x1.16c2000000000p-133, 0x8000, 0x8001, 0x80, 0x80},
    {0x1.c000000000000p+8, 0x5f00, 0x43e0, 0x7e, 0x5f},
    {0x1.cf00000000000p+8, 0x5f3c, 0x43e8, 0x7e, 0x5f},
    {0x1.d000000000000p+8, 0x5f40, 0x43e8, 0x7e, 0x5f},
    {0x1.d100000000000p+8, 0x5f44, 0x43e8, 0x7f, 0x5f},
    {0x1.c000000000000p+15, 0x7b00, 0x4760, 0x7f, 0x7b},
    {0x1.dffe000000000p+15, 0x7b80, 0x4770, 0x7f, 0x7b},
    {0x1.e000000000000p+15, 0x7b80, 0x4770, 0x7f, 0x7c},
    {0x1.fe00000000000p+127, 0x7c00, 0x7f7f, 0x7f, 0x7c},
    {0x1.ff933c0000000p+127, 0x7c00, 0x7f80, 0x7f, 0x7c},
    {INFINITY, 0x7c00, 0x7f80, 0x7f, 0x7c},
    {-INFINITY, 0xfc00, 0xff80, 0xff, 0xfc},
    {0x1.99999a0000000p-4, 0x2e66, 0x3dcd, 0x1d, 0x2e},
    {0x1.5555560000000p-2, 0x3555, 0x3eab, 0x2b, 0x35},
    {0x1.921fb60000000p+1, 0x4248, 0x4049, 0x45, 0x42},
    {-0x1.5bf09a0000000p+1, 0xc170, 0xc02e, 0xc3, 0xc1},
    {0x1.8000000000000p-24, 0x0002, 0x33c0, 0x00, 0x00},
    {0x1.4000000000000p-23, 0x0002, 0x3420, 0x00, 0x00},
    {0x1.fe00000000000p-18, 0x0080, 0x36ff, 0x00, 0x00},
    {0x1.0100000000000p-17, 0x0080, 0x3700, 0x00, 0x01},
    {0x1.ffc0000000000p-15, 0x0400, 0x3880, 0x00, 0x04},
    {0x1.0020000000000p-14, 0x0400, 0x3880, 0x00, 0x04},
    {0x1.0060000000000p-14, 0x0402, 0x3880, 0x00, 0x04},
    {0x1.04e0000000000p-13, 0x0814, 0x3902, 0x00, 0x08},
    {0x1.c5e0000000000p-12, 0x0f18, 0x39e3, 0x00, 0x0f},
    {0x1.4ca0000000000p-11, 0x1132, 0x3a26, 0x00, 0x11},
    {0x1.29a0000000000p-7, 0x20a6, 0x3c15, 0x05, 0x21},
    {0x1.25e0000000000p-3, 0x3098, 0x3e13, 0x21, 0x31},
    {0x1.6220000000000p-1, 0x3988, 0x3f31, 0x33, 0x3a},
    {0x1.1ca0000000000p+0, 0x3c72, 0x3f8e, 0x39, 0x3c},
    {0x1.daa0000000000p+0, 0x3f6a, 0x3fed, 0x3f, 0x3f},
    {0x1.36e0000000000p+3, 0x48dc, 0x411b, 0x52, 0x49},
    {0x1.d9e0000000000p+5, 0x5368, 0x426d, 0x67, 0x53},
    {0x1.59e0000000000p+9, 0x6168, 0x442d, 0x7f, 0x61},
    {0x1.70e0000000000p+9, 0x61c4, 0x4438, 0x7f, 0x62},
    {0x1.ac20000000000p+10, 0x66b0, 0x44d6, 0x7f, 0x67},
    {0x1.1e20000000000p+12, 0x6c78, 0x458f, 0x7f, 0x6c},
    {0x1.ffa0000000000p+15, 0x7bfe, 0x4780, 0x7f, 0x7c},
    {0x1.0000020000000p-25, 0x0001, 0x3300, 0x00, 0x00},
    {0x1.8000020000000p-24, 0x0002, 0x33c0, 0x00, 0x00},
    {0x1.4000020000000p-23, 0x0003, 0x3420, 0x00, 0x00},
    {0x1.fe00020000000p-18, 0x0080, 0x36ff, 0x00, 0x00},
    {0x1.0100020000000p-17, 0x0081, 0x3701, 0x00, 0x01},
    {0x1.ffc0020000000p-15, 0x0400, 0x3880, 0x00, 0x04},
    {0x1.fffffe0000000p-26, 0x0000, 0x3300, 0x00, 0x00},
    {0x1.7ffffe0000000p-24, 0x0001, 0x33c0, 0x00, 0x00},
    {0x1.3ffffe0000000p-23, 0x0002, 0x3420, 0x00, 0x00},
    {0x1.fdfffe0000000p-18, 0x007f, 0x36ff, 0x00, 0x00},
    {0x1.00fffe0000000p-17, 0x0080, 0x3700, 0x00, 0x01},
    {0x1.ffbffe0000000p-15, 0x03ff, 0x3880, 0x00, 0x04},
    {0x1.0000000000000p-134, 0x0000, 0x0000, 0x00, 0x00},
    {0x1.8000000000000p-133, 0x0000, 0x0002, 0x00, 0x00},
    {0x1.4000000000000p-132, 0x0000, 0x0002, 0x00, 0x00},
    {0x1.1600000000000p-127, 0x0000, 0x0046, 0x00, 0x00},
    {0x1.fe00000000000p-127, 0x0000, 0x0080, 0x00, 0x00},
    {0x1.0100000000000p-126, 0x0000, 0x0080, 0x00, 0x00},
    {0x1.4100000000000p-120, 0x0000, 0x03a0, 0x00, 0x00},
    {0x1.ff00000000000p-120, 0x0000, 0x0400, 0x00, 0x00},
    {0x1.0100000000000p-119, 0x0000, 0x0400, 0x00, 0x00},
    {0x1.0300000000000p-119, 0x0000, 0x0402, 0x00, 0x00},
    {0x1.0700000000000p-103, 0x0000, 0x0c04, 0x00, 0x00},
    {0x1.bf00000000000p-74, 0x0000, 0x1ae0, 0x00, 0x00},
    {0x1.cb00000000000p-28, 0x0000, 0x31e6, 0x00, 0x00},
    {0x1.c900000000000p-17, 0x00e4, 0x3764, 0x00, 0x01},
    {0x1.e500000000000p-3, 0x3394, 0x3e72, 0x27, 0x34},
    {0x1.8100000000000p+28, 0x7c00, 0x4dc0, 0x7f, 0x7c},
    {0x1.2300000000000p+51, 0x7c00, 0x5912, 0x7f, 0x7c},
    {0x1.2500000000000p+68, 0x7c00, 0x6192, 0x7f, 0x7c},
    {0x1.6500000000000p+69, 0x7c00, 0x6232, 0x7f, 0x7c},
    {0x1.e900000000000p+74, 0x7c00, 0x64f4, 0x7f, 0x7c},
    {0x1.f500000000000p+86, 0x7c00, 0x6afa, 0x7f, 0x7c},
    {0x1.b100000000000p+101, 0x7c00, 0x7258, 0x7f, 0x7c},
    {0x1.fd00000000000p+120, 0x7c00, 0x7bfe, 0x7f, 0x7c},
    {0x1.ff00000000000p+120, 0x7c00, 0x7c00, 0x7f, 0x7c},
    {0x1.fd00000000000p+127, 0x7c00, 0x7f7e, 0x7f, 0x7c},
    {0x1.0002000000000p-134, 0x0000, 0x0001, 0x00, 0x00},
    {0x1.8001000000000p-133, 0x0000, 0x0002, 0x00, 0x00},
    {0x1.4000800000000p-132, 0x0000, 0x0003, 0x00, 0x00},
    {0x1.1600040000000p-127, 0x0000, 0x0046, 0x00, 0x00},
    {0x1.fe00040000000p-127, 0x0000, 0x0080, 0x00, 0x00},
    {0x1.0100020000000p-126, 0x0000, 0x0081, 0x00, 0x00},
    {0x1.fffc000000000p-135, 0x0000, 0x0000, 0x00, 0x00},
    {0x1.7fff000000000p-133, 0x0000, 0x0001, 0x00, 0x00},
    {0x1.3fff800000000p-132, 0x0000, 0x0002, 0x00, 0x00},
    {0x1.15fffc0000000p-127, 0x0000, 0x0045, 0x00, 0x00},
    {0x1.fdfffc0000000p-127, 0x0000, 0x007f, 0x00, 0x00},
    {0x1.00fffe0000000p-126, 0x0000, 0x0080, 0x00, 0x00},
    {0x1.3000000000000p+0, 0x3cc0, 0x3f98, 0x3a, 0x3d},
    {0x1.5000000000000p-3, 0x3140, 0x3e28, 0x22, 0x31},
    {0x1.9000000000000p+4, 0x4e40, 0x41c8, 0x5c, 0x4e},
    {0x1.d000000000000p+5, 0x5340, 0x4268, 0x66, 0x53},
    {0x1.b000000000000p-4, 0x2ec0, 0x3dd8, 0x1e, 0x2f},
    {0x1.7000000000000p+2, 0x45c0, 0x40b8, 0x4c, 0x46},
    {0x1.1000000000000p+8, 0x5c40, 0x4388, 0x78, 0x5c},
    {0x1.b000000000000p-6, 0x26c0, 0x3cd8, 0x0e, 0x27},
    {0x1.7000000000000p+7, 0x59c0, 0x4338, 0x74, 0x5a},
    {0x1.1000000000000p-2, 0x3440, 0x3e88, 0x28, 0x34},
    {0x1.c000000000000p-8, 0x1f00, 0x3be0, 0x04, 0x1f},
    {0x1.4000000000000p-8, 0x1d00, 0x3ba0, 0x02, 0x1d},
    {0x1.3000020000000p+0, 0x3cc0, 0x3f98, 0x3a, 0x3d},
    {0x1.5000020000000p-3, 0x3140, 0x3e28, 0x23, 0x31},
    {0x1.9000020000000p+4, 0x4e40, 0x41c8, 0x5d, 0x4e},
    {0x1.d000020000000p+5, 0x5340, 0x4268, 0x67, 0x53},
    {0x1.b000020000000p-4, 0x2ec0, 0x3dd8, 0x1e, 0x2f},
    {0x1.7000020000000p+2, 0x45c0, 0x40b8, 0x4c, 0x46},
    {0x1.2ffffe0000000p+0, 0x3cc0, 0x3f98, 0x39, 0x3d},
    {0x1.4ffffe0000000p-3, 0x3140, 0x3e28, 0x22, 0x31},
    {0x1.8ffffe0000000p+4, 0x4e40, 0x41c8, 0x5c, 0x4e},
    {0x1.cffffe0000000p+5, 0x5340, 0x4268, 0x66, 0x53},
    {0x1.affffe0000000p-4, 0x2ec0, 0x3dd8, 0x1d, 0x2f},
    {0x1.6ffffe0000000p+2, 0x45c0, 0x40b8, 0x4b, 0x46},
    {0x1.c000000000000p-15, 0x0380, 0x3860, 0x00, 0x04},
    {0x1.e000000000000p+5, 0x5380, 0x4270, 0x67, 0x54},
    {0x1.6000000000000p+2, 0x4580, 0x40b0, 0x4b, 0x46},
    {0x1.8000000000000p-16, 0x0180, 0x37c0, 0x00, 0x02},
    {0x1.2000000000000p+15, 0x7880, 0x4710, 0x7f, 0x78},
    {0x1.2000000000000p+13, 0x7080, 0x4610, 0x7f, 0x70},
    {0x1.2000000000000p-3, 0x3080, 0x3e10, 0x21, 0x30},
    {0x1.e000000000000p+6, 0x5780, 0x42f0, 0x6f, 0x58},
    {0x1.e000000000000p-9, 0x1b80, 0x3b70, 0x02, 0x1c},
    {0x1.a000000000000p-2, 0x3680, 0x3ed0, 0x2d, 0x36},
    {0x1.2000000000000p+8, 0x5c80, 0x4390, 0x79, 0x5c},
    {0x1.e000000000000p+1, 0x4380, 0x4070, 0x47, 0x44},
    {0x1.c000020000000p-15, 0x0380, 0x3860, 0x00, 0x04},
    {0x1.e000020000000p+5, 0x5380, 0x4270, 0x67, 0x54},
    {0x1.6000020000000p+2, 0x4580, 0x40b0, 0x4b, 0x46},
    {0x1.8000020000000p-16, 0x0180, 0x37c0, 0x00, 0x02},
    {0x1.2000020000000p+15, 0x7880, 0x4710, 0x7f, 0x79},
    {0x1.2000020000000p+13, 0x7080, 0x4610, 0x7f, 0x71},
    {0x1.bffffe0000000p-15, 0x0380, 0x3860, 0x00, 0x03},
    {0x1.dffffe0000000p+5, 0x5380, 0x4270, 0x67, 0x53},
    {0x1.5ffffe0000000p+2, 0x4580, 0x40b0, 0x4b, 0x45},
    {0x1.7ffffe0000000p-16, 0x0180, 0x37c0, 0x00, 0x01},
    {0x1.1ffffe0000000p+15, 0x7880, 0x4710, 0x7f, 0x78},
    {0x1.1ffffe0000000p+13, 0x7080, 0x4610, 0x7f, 0x70},
};

static void rounding(void)
{
	int bad = 0;
	for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
		double x = rounded[i].x;
		bool good = gg_f16_from(x) == rounded[i].f16 && gg_bf16_from(x) == rounded[i].bf16 &&
		            gg_f8e4m3_from(x, false) == rounded[i].e4m3 &&
		            gg_f8e5m2_from(x, false) == rounded[i].e5m2;
		if (!good)
			printf("# %a: %04x %04x %02x %02x\n", x, gg_f16_from(x), gg_bf16_from(x),
			       gg_f8e4m3_from(x, false), gg_f8e5m2_from(x, false));
		bad += !good;
	}
	ok(bad == 0, "every row rounds as numpy does");
	ok(gg_f8e4m3_from(1e9, true) == 0x7e && gg_f8e4m3_from(-INFINITY, true) == 0xfe, "f8e4m3 saturates");
	ok(gg_f8e5m2_from(1e9, true) == 0x7b && gg_f8e5m2_from(-INFINITY, true) == 0xfb, "f8e5m2 saturates");
	ok(gg_f8e4m3_from(NAN, true) == 0x7f && isnan(gg_f8e4m3_to(0xff)), "f8e4m3 has a NaN");
	/* Rounding by way of f32 would land on a tie and give the even neighbour below. */
	ok(gg_bf16_from(1 + 0x1p-8 + 0x1p-40) == 0x3f81, "bf16 rounds once");
	ok(gg_f16_from(1 + 0x1p-11 + 0x1p-40) == 0x3c01, "f16 rounds once");
}

static void round_trips(void)
{
	int bad = 0;
	for (int i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i;
		bad += gg_f16_from(gg_f16_to(h)) != h;
		bad += gg_bf16_from(gg_bf16_to(h)) != h;
	}
	ok(bad == 0, "every f16 and bf16 pattern, NaNs too, comes back");
	bad = 0;
	for (int i = 0; i < 256; i++) {
		uint8_t h = (uint8_t)i;
		bad += gg_f8e4m3_from(gg_f8e4m3_to(h), false) != h;
		bad += gg_f8e5m2_from(gg_f8e5m2_to(h), false) != h;
	}
	ok(bad == 0, "every f8 pattern comes back");
	ok(gg_f16_to(0x0001) == 0x1p-24 && gg_f16_to(0x7bff) == 65504 && gg_f16_to(0xfc00) == -INFINITY,
	   "f16 values");
	ok(gg_bf16_to(0x0001) == 0x1p-133 && gg_bf16_to(0x7f80) == INFINITY, "bf16 values");
	ok(gg_f8e4m3_to(0x7e) == 448 && gg_f8e4m3_to(1) == 0x1p-9, "f8e4m3 values");
	ok(gg_f8e5m2_to(0x7b) == 57344 && gg_f8e5m2_to(1) == 0x1p-16 && gg_f8e5m2_to(0x7c) == INFINITY,
	   "f8e5m2 values");
}

static int64_t stored(gg_dtype t, double x)
{
	char buf[16] = {0};
	gg_tensor s = {t, {.rank = 0}, buf};
	gg_set_f64(&s, 0, x);
	return gg_get_i64(&s, 0);
}

static int64_t wrapped(gg_dtype t, int64_t x)
{
	char buf[16] = {0};
	gg_tensor s = {t, {.rank = 0}, buf};
	gg_set_i64(&s, 0, x);
	return gg_get_i64(&s, 0);
}

static void integers(void)
{
	ok(stored(GG_I32, 2.9) == 2 && stored(GG_I32, -2.9) == -2, "toward zero");
	ok(stored(GG_I32, NAN) == 0 && stored(GG_U64, NAN) == 0 && stored(GG_BOOL, NAN) == 1, "NaN");
	ok(stored(GG_I64, 1e300) == INT64_MAX && stored(GG_I64, -INFINITY) == INT64_MIN, "out of range");
	ok((uint64_t)stored(GG_U64, 0x1.8p63) == 0xc000000000000000u, "large u64");
	ok(stored(GG_U8, -1) == 255 && stored(GG_U8, 300) == 44, "u8 wraps");
	ok(wrapped(GG_I8, 200) == -56 && wrapped(GG_U16, -1) == 65535, "i8 and u16 wrap");
	ok(wrapped(GG_I4, 9) == -7 && wrapped(GG_I4, -8) == -8 && wrapped(GG_U4, 17) == 1,
	   "4-bit types wrap");
	ok(wrapped(GG_BOOL, 256) == 1 && wrapped(GG_BOOL, 0) == 0, "bool");
	ok(wrapped(GG_BF16, (1ll << 60) + (1ll << 52) + 1) == (1ll << 60) + (1ll << 53),
	   "i64 to bf16 rounds once");
	ok(wrapped(GG_F32, 16777217) == 16777216, "i64 to f32 rounds to even");
}

static void blocks(void)
{
	double x[100], y[100];
	int bad = 0;
	char buf[100 * 8];
	for (int i = 0; i < 100; i++)
		x[i] = i % 7;
	for (int t = 1; t < GG_DTYPES; t++) {
		if (t == GG_STRING || t == GG_BOOL)
			continue;
		gg_store_f64((gg_dtype)t, buf, 3, 97, x);
		gg_load_f64((gg_dtype)t, buf, 3, 97, y);
		bad += memcmp(x, y, 97 * sizeof *x) != 0;
	}
	ok(bad == 0, "blocks of every dtype come back");
	ok(gg_packed_bytes(GG_I4, 5) == 3 && gg_packed_bytes(GG_F16, 5) == 10, "packed bytes");
	bad = 0;
	for (int t = 1; t < GG_DTYPES; t++)
		bad += gg_dtype_find(gg_dtype_name((gg_dtype)t)) != (gg_dtype)t ||
		       gg_dtype_from_onnx(gg_dtype_onnx((gg_dtype)t)) != (gg_dtype)t;
	ok(bad == 0 && gg_dtype_find("f33") == GG_NONE && gg_dtype_from_onnx(99) == GG_NONE,
	   "names and codes");
}

static void shapes(void)
{
	gg_dim n = gg_dim_sym("N"), m = gg_dim_sym("M");
	gg_shape a = gg_shape_of(2, (gg_dim[]){n, 1}), b = gg_shape_of(3, (gg_dim[]){4, n, 3}), out;
	gg_arena arena = {0};
	ok(gg_broadcast(&a, &b, &out) && !strcmp(gg_shape_str(&arena, &out), "[4,N,3]"),
	   "a symbol with itself and with 1");
	a = gg_shape_of(1, &n);
	b = gg_shape_of(1, (gg_dim[]){5});
	ok(gg_broadcast(&a, &b, &out) && out.dim[0] == 5, "a symbol with a number");
	b = gg_shape_of(1, &m);
	ok(gg_broadcast(&a, &b, &out) && out.dim[0] == gg_dim_max(n, m), "two symbols");
	a = gg_shape_of(1, (gg_dim[]){4});
	b = gg_shape_of(1, (gg_dim[]){5});
	ok(!gg_broadcast(&a, &b, &out), "4 with 5");
	b = gg_shape_of(1, (gg_dim[]){0});
	ok(!gg_broadcast(&a, &b, &out), "4 with 0");
	a = gg_shape_of(1, (gg_dim[]){1});
	ok(gg_broadcast(&a, &b, &out) && out.dim[0] == 0, "1 with 0");
	ok(gg_broadcast(&a, &gg_shape_unknown, &out) && out.rank == -1, "an unknown rank");
	int64_t bytes;
	a = gg_shape_of(3, (gg_dim[]){1ll << 31, 1ll << 31, 1ll << 2});
	ok(!gg_size_of(GG_F32, &a, &bytes) && gg_shape_count(&a) == -1, "a size that overflows");
	a.dim[2] = 0;
	ok(gg_size_of(GG_F32, &a, &bytes) && bytes == 0, "nothing, however large the rest");
	a = gg_shape_of(3, (gg_dim[]){n, 3, n});
	ok(!strcmp(gg_dim_str(gg_shape_count_dim(&a, 0, 3)), "3*N*N") && gg_shape_count(&a) == -1,
	   "a symbolic count");
	ok(!strcmp(gg_shape_str(&arena, &gg_shape_unknown), "[*]"), "text of an unknown shape");
	gg_arena_fini(&arena);
}

static void random_numbers(void)
{
	double s = 0, s2 = 0, s4 = 0, u = 0, lo = 1, hi = 0;
	const int n = 200000;
	for (int i = 0; i < n; i++) {
		double x = gg_normal(7, (uint64_t)i), y = gg_uniform(7, (uint64_t)i);
		s += x, s2 += x * x, s4 += x * x * x * x, u += y;
		lo = y < lo ? y : lo;
		hi = y > hi ? y : hi;
	}
	ok(fabs(s / n) < 0.01 && fabs(s2 / n - 1) < 0.015 && fabs(s4 / n - 3) < 0.1, "moments of the normal");
	ok(fabs(u / n - 0.5) < 0.003 && lo >= 0 && hi < 1, "the uniform");
	ok(gg_normal(7, 5) == gg_normal(7, 5) && gg_normal(7, 5) != gg_normal(8, 5), "the seed decides");
	/* Where the distribution function of Python's statistics.NormalDist puts them. */
	int below = 0;
	for (int i = 0; i < n; i++)
		below += gg_normal(3, (uint64_t)i) < 1.6448536269514722;
	ok(fabs((double)below / n - 0.95) < 0.002, "the 95th percentile");
	float f[600];
	gg_tensor t = {GG_F32, gg_shape_of(1, (gg_dim[]){600}), f};
	gg_fill_uniform(&t, 1, -2, 3);
	ok(f[599] == (float)(-2 + 5 * gg_uniform(1, 599)), "a fill is element by element");
}

int main(void)
{
	rounding();
	round_trips();
	integers();
	blocks();
	shapes();
	random_numbers();
	return done();
}
