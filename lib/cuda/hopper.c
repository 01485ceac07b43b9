/* What kernels for Hopper's tensor cores are made of: its copies of tiles (TMA) with their barriers, and
 * the instruction whose operands lie in shared memory (wgmma). */
#include "cuda.h"

/* A barrier is an address in shared memory. 16-byte pieces of rows of 128 bytes change places by the row's
 * number, as TMA, wgmma and stmatrix agree: `matrix` describes such rows, `leading` bytes from one
 * piece of 64 columns to the next where they are many. */
const char cuda_hopper_text[] =
    "#ifdef GG_HOST\n"
    "FN float exp_of_2(float x) { return exp2f(x); }\n"
    "#else\n"
    "FN float exp_of_2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); "
    "return y; }\n"
    "struct alignas(64) map { u64 v[16]; };\n"
    "FN void foresee(const map *m) { asm volatile(\"prefetch.tensormap [%0];\" :: \"l\"(m) : \"memory\"); }\n"
    "FN void bar_init(u32 b, u32 n) { asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(b), "
    "\"r\"(n) : \"memory\"); }\n"
    "FN void bar_expect(u32 b, u32 n) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], "
    "%1;\" :: \"r\"(b), \"r\"(n) : \"memory\"); }\n"
    "FN void bar_arrive(u32 b) { asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(b) : "
    "\"memory\"); }\n"
    "FN void bar_wait(u32 b, u32 parity) { asm volatile(\"{ .reg .pred p; again: "
    "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }\" :: \"r\"(b), \"r\"(parity) : "
    "\"memory\"); }\n"
    "FN u64 matrix(u32 at, u32 leading) { return at >> 4 & 0x3fff | (u64)(leading >> 4) << 16 | (u64)(1024 "
    ">> 4) << 32 | 1ull << 62; }\n"
    "#define FENCE() asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\")\n"
    "#define SEND() asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\")\n"
    "#define DONE(n) asm volatile(\"wgmma.wait_group.sync.aligned \" #n \";\" ::: \"memory\")\n"
    "FN u32 pair(float a, float b, is<f16>) { u32 r; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) : "
    "\"f\"(b), \"f\"(a)); return r; }\n"
    "FN u32 pair(float a, float b, is<bf16>) { u32 r; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : "
    "\"f\"(b), \"f\"(a)); return r; }\n"
    "FN void put4(u32 at, const u32 *r) { asm volatile(\"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, "
    "%2, %3, %4};\" :: \"r\"(at), \"r\"(r[0]), \"r\"(r[1]), \"r\"(r[2]), \"r\"(r[3]) : \"memory\"); }\n"
    "#endif\n";

/* Its list of operands is as long as the result is wide. */
void cuda_put_wgmma(gg_buf *b, const char *name, const char *half, int wide, bool registers, bool turned)
{
	int n = wide / 2, next = n + (registers ? 4 : 1);
	gg_buf_printf(b,
	              "#ifndef GG_HOST\nFN void %s(float *d, %s a, u64 b, int more) {"
	              " asm volatile(\"{ .reg .pred p; setp.ne.b32 p, %%%d, 0;"
	              " wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {",
	              name, registers ? "const u32 *" : "u64", next + 1, wide, half, half);
	for (int i = 0; i < n; i++)
		gg_buf_printf(b, "%s%%%d", i ? ", " : "", i);
	gg_buf_str(b, registers ? "}, {" : "}, ");
	for (int i = n; i < next; i++)
		gg_buf_printf(b, "%s%%%d", i > n ? ", " : "", i);
	gg_buf_printf(b, "%s, %%%d, p, 1, 1, %s%d; }\" : ", registers ? "}" : "", next,
	              registers ? "" : "0, ", turned);
	for (int i = 0; i < n; i++)
		gg_buf_printf(b, "%s\"+f\"(d[%d])", i ? ", " : "", i);
	gg_buf_str(b, " : ");
	for (int i = n; i < next; i++)
		gg_buf_printf(b, registers ? "\"r\"(a[%d]), " : "\"l\"(a), ", i - n);
	gg_buf_str(b, "\"l\"(b), \"r\"(more)); }\n#endif\n");
}

bool cuda_describe(gg_diag *d, CUtensorMap *m, gg_dtype t, const void *p, int rank, const cuuint64_t *dim,
                   const cuuint64_t *stride, const cuuint32_t *box, const char *failed)
{
	static const cuuint32_t one[] = {1, 1, 1, 1, 1};
	CUtensorMapDataType type = t == GG_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
	                                       : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
	return cuda_ok(
	    d,
	    cu.cuTensorMapEncodeTiled(m, type, (cuuint32_t)rank, (void *)(uintptr_t)p, dim, stride, box, one,
	                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
	                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
	    failed);
}
