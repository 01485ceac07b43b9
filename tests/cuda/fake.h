/* Put before generated kernels that are compiled for the host: one thread a block. */
#include <cmath>
#include <cstring>
using std::exp, std::log, std::sqrt, std::pow;
#define GG_HOST
#define FN static inline
#define FN0 inline
#define BLOCK 1u
static struct {
	unsigned x;
} blockIdx, gridDim;
static inline float host_ld16(unsigned short h)
{
	int e = h >> 10 & 31, m = h & 1023;
	float x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
	return h >> 15 ? -x : x;
}
static inline unsigned short host_st16(double x)
{
	unsigned s = std::signbit(x) ? 0x8000 : 0;
	int e;
	x = fabs(x);
	if (x != x)
		return s | 0x7e00;
	if (x == 0)
		return s;
	if (x >= 65520)
		return s | 0x7c00;
	frexp(x, &e);
	e = e < -13 ? -13 : e;
	unsigned m = (unsigned)rint(ldexp(x, 11 - e)); /* 1024..2048 of a normal number */
	return s | (unsigned)(((e + 13) << 10) + (int)m);
}
static inline float host_ldb16(unsigned short h)
{
	unsigned u = (unsigned)h << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}
static inline unsigned short host_stb16(float f)
{
	unsigned u;
	memcpy(&u, &f, 4);
	return f != f ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
