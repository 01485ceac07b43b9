/* Kernels compiled from generated source by NVRTC, for the device at hand. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

/* What generated source may use. Half types are bits here, so that no header has to be parsed.
 * GG_HOST: compiled as plain C++ with one thread a block, for tests without a device. */
static const char prelude[] =
    "#ifndef BD\n#define BD 512\n#endif\n"
    "struct f16 { unsigned short u; };\n"
    "struct bf16 { unsigned short u; };\n"
    "typedef double f64; typedef float f32; typedef long long i64; typedef int i32;\n"
    "typedef short i16; typedef signed char i8; typedef unsigned long long u64;\n"
    "typedef unsigned u32; typedef unsigned short u16; typedef unsigned char u8; typedef unsigned char b8;\n"
    "template <class T_, int V_> struct alignas(sizeof(T_) * V_ <= 16 ? sizeof(T_) * V_ : sizeof(T_)) vec { "
    "T_ v[V_]; };\n"
    "typedef vec<u32, 4> w128;\n"
    "template <class T_> struct is { };\n"
    "#ifndef GG_HOST\n"
    "#define FN static __device__ __forceinline__\n#define FN0 __device__ __forceinline__\n"
    "#define BLOCK (blockDim.x)\n#define SHARED __shared__\n#define MEET() __syncthreads()\n"
    "#define QUICK_EXP(x) __expf(x)\n"
    "FN float ld(f16 h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h.u)); return f; }\n"
    "FN float ld(bf16 h) { return __uint_as_float((unsigned)h.u << 16); }\n"
    "FN f16 st(float x, is<f16>) { f16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h.u) : \"f\"(x)); return "
    "h; }\n"
    "FN f16 st(double x, is<f16>) { f16 h; asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(h.u) : \"d\"(x)); return "
    "h; }\n"
    "FN bf16 st(float x, is<bf16>) { bf16 h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h.u) : \"f\"(x)); "
    "return h; }\n"
    "FN u32 max_pair(u32 a, u32 b, is<f16>) { u32 r; asm(\"max.NaN.f16x2 %0, %1, %2;\" : \"=r\"(r) : "
    "\"r\"(a), "
    "\"r\"(b)); return r; }\n"
    "FN u32 max_pair(u32 a, u32 b, is<bf16>) { u32 r; asm(\"max.NaN.bf16x2 %0, %1, %2;\" : \"=r\"(r) : "
    "\"r\"(a), \"r\"(b)); return r; }\n"
    "#else\n"
    "#define SHARED static\n#define MEET()\n#define QUICK_EXP(x) exp(x)\n"
    "FN float ld(f16 h) { return host_ld16(h.u); }\nFN float ld(bf16 h) { return host_ldb16(h.u); }\n"
    "FN f16 st(float x, is<f16>) { return f16{host_st16(x)}; }\n"
    "FN f16 st(double x, is<f16>) { return f16{host_st16(x)}; }\n"
    "FN bf16 st(float x, is<bf16>) { return bf16{host_stb16(x)}; }\n"
    "#endif\n"
    "#ifdef GG_HOST\n"
    "template <class T_> FN u16 max_bits(u32 a, u32 b, is<T_>) { const float x = ld(T_{(u16)a}), y = "
    "ld(T_{(u16)b}); return (u16)(x > y || x != x ? a : b); }\n"
    "template <class T_> FN u32 max_pair(u32 a, u32 b, is<T_> t) { return max_bits(a, b, t) | "
    "(u32)max_bits(a >> 16, b >> 16, t) << 16; }\n"
    "#endif\n"
    /* By way of the f32 that is odd where it is not exact: so it rounds once. */
    "FN bf16 st(double x, is<bf16>) {\n"
    "\tunion { float f; u32 u; } r; r.f = (float)x; const double d = r.f;\n"
    "\tif (d != x && x == x && r.u % 2 == 0) r.u += (d < 0 ? -d : d) < (x < 0 ? -x : x) ? 1 : -1;\n"
    "\treturn st(r.f, is<bf16>());\n}\n"
    "FN double real(u64 bits) { union { u64 u; double f; } b; b.u = bits; return b.f; }\n"
    "FN double ld(f64 x) { return x; }\n"
    "FN float ld(f32 x) { return x; }\n"
    "FN i64 ld(i64 x) { return x; }\nFN i64 ld(i32 x) { return x; }\nFN i64 ld(i16 x) { return x; }\n"
    "FN i64 ld(i8 x) { return x; }\nFN u64 ld(u64 x) { return x; }\nFN i64 ld(u32 x) { return x; }\n"
    "FN i64 ld(u16 x) { return x; }\nFN i64 ld(u8 x) { return x; }\n"
    "template <class C_> FN f16 st(C_ x, is<f16>) { return st((float)x, is<f16>()); }\n"
    "template <class C_> FN bf16 st(C_ x, is<bf16>) { return st((float)x, is<bf16>()); }\n"
    "template <class C_, class T_> FN T_ st(C_ x, is<T_>) { return (T_)x; }\n"
    "template <class C_> FN C_ pick_max(C_ a, C_ b) { return a > b || a != a ? a : b; }\n"
    "template <class C_> FN C_ pick_min(C_ a, C_ b) { return a < b || a != a ? a : b; }\n"
    /* By Abramowitz and Stegun's 7.1.26: as good as half types are. */
    "FN float quick_erfc(float x) {\n"
    "\tconst float y = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * y);\n"
    "\tconst float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * "
    "1.061405429f))));\n"
    "\tconst float e = p * QUICK_EXP(-y * y);\n"
    "\treturn x < 0 ? 2 - e : e;\n}\n"
    "#ifndef GG_HOST\n"
    "#define LANE (threadIdx.x)\n"
    "template <class C_, class F_> FN C_ fold_block(C_ x, C_ none, F_ f) {\n"
    "\tfor (int m = 16; m; m >>= 1) x = f(x, __shfl_xor_sync(~0u, x, m));\n"
    "\tif (blockDim.x > 32) {\n"
    "\t\t__shared__ C_ part[32];\n"
    "\t\t__syncthreads();\n"
    "\t\tif (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;\n"
    "\t\t__syncthreads();\n"
    "\t\tx = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : none;\n"
    "\t\tfor (int m = 16; m; m >>= 1) x = f(x, __shfl_xor_sync(~0u, x, m));\n"
    "\t}\n"
    "\treturn x;\n"
    "}\n"
    "#define KERNEL extern \"C\" __global__ void __launch_bounds__(BD) k\n"
    "#else\n"
    "#define LANE 0\n"
    "template <class C_, class F_> FN C_ fold_block(C_ x, C_ none, F_ f) { return x; }\n"
    "#define KERNEL extern \"C\" void k\n"
    "#endif\n"
    "#define SPREAD(i, n) for (INDEX i = blockIdx.x * (INDEX)BLOCK + LANE; i < (n); i += (INDEX)BLOCK * "
    "gridDim.x)\n";

static gg_map done; /* source -> CUfunction */
static gg_arena kept;

static bool failed(gg_diag *d, nvrtcResult r, nvrtcProgram p, const char *text)
{
	size_t n = 0;
	char *log = NULL;

	if (p && rtc.nvrtcGetProgramLogSize(p, &n) == NVRTC_SUCCESS && n > 1) {
		log = gg_xcalloc(n + 1, 1);
		rtc.nvrtcGetProgramLog(p, log);
	}
	gg_error(d, GG_MACHINE, "target 'cuda': NVRTC: %s: %.600s", rtc.nvrtcGetErrorString(r),
	         log ? log : "");
	gg_verbose(d, "%s", text);
	free(log);
	return false;
}

char *cuda_nvrtc(gg_diag *d, const char *text, size_t *size)
{
	gg_arena a = {0};
	/* Some instructions are those of one architecture alone, and say so at the head of their source. */
	const char *exact = strncmp(text, "#define GG_EXACT_SM", 19) ? "" : "a";
	const char *option[] = {gg_printf(&a, "-arch=sm_%d%s", cuda_sm, exact), "-std=c++17"};
	nvrtcProgram p = NULL;
	char *cubin = NULL;
	size_t n = 0;
	nvrtcResult r;

	if (!cuda_open_rtc(d))
		return NULL;
	r = rtc.nvrtcCreateProgram(&p, text, "k.cu", 0, NULL, NULL);
	r = r ? r : rtc.nvrtcCompileProgram(p, 2, option);
	r = r ? r : rtc.nvrtcGetCUBINSize(p, &n);
	if (!r) {
		cubin = gg_xmalloc(n + 1);
		r = rtc.nvrtcGetCUBIN(p, cubin);
	}
	if (r) {
		failed(d, r, p, text);
		free(cubin);
		cubin = NULL;
	}
	if (p)
		rtc.nvrtcDestroyProgram(&p);
	gg_arena_fini(&a);
	*size = n;
	return cubin;
}

/* A driver loads what its own CUDA or an older one has compiled. */
static bool load(gg_diag *d, CUmodule *m, const char *cubin)
{
	CUresult r = cu.cuModuleLoadData(m, cubin);
	char made[32];
	const char *by = cuda_plans_library("NVRTC", made);
	int version = 0;

	if (r != CUDA_ERROR_UNSUPPORTED_PTX_VERSION && r != CUDA_ERROR_INVALID_IMAGE &&
	    r != CUDA_ERROR_NO_BINARY_FOR_GPU)
		return cuda_ok(d, r, "cannot load a kernel");
	cu.cuDriverGetVersion(&version);
	return gg_error(d, GG_MACHINE,
	                "target 'cuda': the driver, for CUDA %d.%d, does not load a kernel that a newer CUDA "
	                "compiled%s%s: build the plan with this machine's, or install a newer driver",
	                version / 1000, version % 1000 / 10, by ? ", NVRTC " : "", by ? by : "");
}

bool cuda_compile(gg_diag *d, const char *defines, const char *source, cuda_kernel *k)
{
	gg_buf b = {0};
	CUmodule m = NULL;
	char *cubin;
	bool good;

	gg_buf_printf(&b, "%s%s%s", defines, prelude, source);
	k->f = gg_map_gets(&done, b.p);
	if (k->f) {
		gg_buf_fini(&b);
		return true;
	}
	double start = gg_clock();
	if (cuda_is_offline) {
		cuda_cubin_later(b.p);
		cubin = NULL;
		good = true;
	} else {
		cubin = cuda_cubin(d, b.p);
		good = cubin && load(d, &m, cubin);
	}
	good = good && cuda_ok(d, cu.cuModuleGetFunction(&k->f, m, "k"), "cannot find a kernel");
	gg_verbose(d, "kernel compiled in %.1f ms", 1e3 * (gg_clock() - start));
	if (good)
		gg_map_puts(&done, gg_strdup(&kept, b.p), k->f);
	free(cubin);
	gg_buf_fini(&b);
	return good;
}

void cuda_spread(cuda_kernel *k, int64_t work, unsigned block)
{
	int64_t blocks = (work + block - 1) / block, most = (int64_t)cuda_processors * 32;

	k->block = block;
	k->grid = (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

bool cuda_share(gg_diag *d, cuda_kernel *k, unsigned bytes)
{
	k->shared = bytes;
	return cuda_ok(
	    d, cu.cuFuncSetAttribute(k->f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes),
	    "cannot give a kernel shared memory");
}

bool cuda_launch_at(gg_diag *d, const cuda_kernel *k, void **at)
{
	return cuda_ok(
	    d, cu.cuLaunchKernel(k->f, k->grid, 1, 1, k->block, 1, 1, k->shared, cuda_stream, at, NULL),
	    "cannot launch a kernel");
}

bool cuda_launch(gg_diag *d, const cuda_kernel *k, int n, void *const *arg)
{
	void *at[128];

	if (n > 128)
		gg_bug("a kernel with %d arguments", n);
	for (int i = 0; i < n; i++)
		at[i] = (void *)(uintptr_t)&arg[i];
	return cuda_launch_at(d, k, at);
}

static const struct type {
	gg_dtype t;
	const char *memory, *compute;
} types[] = {
    {GG_F64, "f64", "double"}, {GG_F32, "f32", "float"}, {GG_F16, "f16", "float"}, {GG_BF16, "bf16", "float"},
    {GG_I64, "i64", "i64"},    {GG_I32, "i32", "i64"},   {GG_I16, "i16", "i64"},   {GG_I8, "i8", "i64"},
    {GG_U64, "u64", "u64"},    {GG_U32, "u32", "i64"},   {GG_U16, "u16", "i64"},   {GG_U8, "u8", "i64"},
    {GG_BOOL, "b8", "i64"},
};

static const struct type *type_of(gg_dtype t)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].t == t)
			return &types[i];
	gg_bug("dtype %s has no type on cuda", gg_dtype_name(t));
}

const char *cuda_type(gg_dtype t) { return type_of(t)->memory; }
const char *cuda_compute(gg_dtype t) { return type_of(t)->compute; }
