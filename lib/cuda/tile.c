/* A product of half types by tensor cores, for those that memory bounds: y = relu(x w * scale + shift + add).
 *
 *     rows of x ──┬─ 128 a block, 64 columns of it a step, some steps ahead in shared memory
 *     w ──────────┘        │ mma.sync
 *     add ── its own tile, read meanwhile ──▶ + ──▶ y
 *
 * A row of x need not lie behind the last one: a convolution whose window is one place, or whose rows of
 * the window lie side by side, is such a product. The engines of cuDNN read `add` too late to keep memory
 * busy, and take twice the time there. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

/* 16-byte pieces of a row of 128 bytes change places by the row's number, so that neither writing rows nor
 * reading columns of pieces meets in one bank. */
static const char text[] =
    "FN long place(long m) {\n"
    "\treturn m / (OH * OW) * IMAGE + m / OW % OH * (long)ROW + m % OW * (long)COL;\n}\n"
    "KERNEL(const T *x, const T *w, const float *scale, const float *shift, const T *add, T *y)\n{\n"
    "\tconst long m0 = (long)(blockIdx.x / (N / BN)) * BM; const int n0 = blockIdx.x % (N / BN) * BN;\n"
    "#ifdef GG_HOST\n"
    "\tfor (long m = m0; m < m0 + BM && m < M; m++) for (int n = n0; n < n0 + BN; n++) {\n"
    "\t\tfloat s = 0;\n"
    "\t\tfor (int k = 0; k < STEPS * 64; k++)\n"
    "\t\t\ts += ld(x[place(m) + k / 64 * (long)STEP + k % 64]) * ld(w[n * (STEPS * 64) + k]);\n"
    "\t\ts = s * scale[n] + shift[n] + (ADD ? ld(add[m * N + n]) : 0);\n"
    "\t\ty[m * N + n] = st(RELU && s < 0 ? 0 : s, is<T>());\n"
    "\t}\n"
    "#else\n"
    "\textern __shared__ __align__(128) u8 mem[];\n"
    "\tconst int lane = LANE % 32, warp = LANE / 32, wm = warp / (BN / 32) * WM, wn = warp % (BN / 32) * "
    "32;\n"
    "\tu8 *const tile = mem + STAGES * STAGE;\n"
    "\tconst u32 at = (u32)__cvta_generic_to_shared(mem);\n"
    /* what each thread brings: a piece of every 32nd row */
    "\tconst int r0 = LANE / 8, piece = LANE % 8;\n"
    "\tlong from[BM / 32];\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < BM / 32; i++) { const long m = m0 + r0 + i * 32;"
    " from[i] = place(m < M ? m : M - 1) + piece * 8; }\n"
    "\tconst u32 to = r0 * 128 + ((piece ^ (r0 & 7)) << 4);\n"
    "#define BRING(s) { const u32 stage = at + (s) % STAGES * STAGE + to;"
    " _Pragma(\"unroll\") for (int i = 0; i < BM / 32; i++)"
    " copy16(stage + i * 4096, x + from[i] + (s) * (long)STEP);"
    " _Pragma(\"unroll\") for (int i = 0; i < BN / 32; i++)"
    " copy16(stage + BM * 128 + i * 4096, w + (long)(n0 + r0 + i * 32) * (STEPS * 64) + (s) * 64 + piece * "
    "8); }\n"
    "\t#pragma unroll\n"
    "\tfor (int s = 0; s < STAGES; s++) { if (s < STEPS) BRING(s) COMMIT(); }\n"
    "\tif (ADD)\n"
    "\t\tfor (int j = LANE; j < BM * BN / 8; j += 256) {\n"
    "\t\t\tconst int r = j / (BN / 8), c = j % (BN / 8); const long m = m0 + r < M ? m0 + r : M - 1;\n"
    "\t\t\tcopy16(at + STAGES * STAGE + r * PITCH + c * 16, add + m * N + n0 + c * 8);\n"
    "\t\t}\n"
    "\tCOMMIT();\n"
    "\tfloat acc[MT][4][4];\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < MT * 16; i++) acc[i / 16][i / 4 % 4][i % 4] = 0;\n"
    "\t#pragma unroll\n"
    "\tfor (int s = 0; s < STEPS; s++) {\n"
    "\t\tif (s < STAGES) WAIT(STAGES); else WAIT(STAGES - 1);\n"
    "\t\t__syncthreads();\n"
    "\t\tconst u32 a0 = at + s % STAGES * STAGE, b0 = a0 + BM * 128;\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int k = 0; k < 4; k++) {\n"
    "\t\t\tu32 a[MT][4], b[2][4];\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < MT; i++) { const int r = wm + i * 16 + lane % 16, c = k * 2 + lane / 16;"
    " fetch4(a[i], a0 + r * 128 + ((c ^ (r & 7)) << 4)); }\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < 2; i++) { const int r = wn + i * 16 + lane % 8 + lane / 16 * 8, c = k * 2 + "
    "lane / 8 % 2;"
    " fetch4(b[i], b0 + r * 128 + ((c ^ (r & 7)) << 4)); }\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < MT; i++)\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int j = 0; j < 4; j++) multiply(acc[i][j], a[i], b[j / 2] + j % 2 * 2);\n"
    "\t\t}\n"
    "\t\tif (s + STAGES < STEPS) { __syncthreads(); BRING(s + STAGES) }\n"
    "\t\tCOMMIT();\n"
    "\t}\n"
    "\tWAIT(0);\n"
    "\t__syncthreads();\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < 4; j++) {\n"
    "\t\tconst int c = wn + j * 8 + lane % 4 * 2;\n"
    "\t\tconst float s0 = scale[n0 + c], s1 = scale[n0 + c + 1], t0 = shift[n0 + c], t1 = shift[n0 + c + "
    "1];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < MT * 2; i++) {\n"
    "\t\t\tvec<T, 2> *p = (vec<T, 2> *)(tile + (wm + i * 8 + lane / 4) * PITCH + c * 2);\n"
    "\t\t\tfloat u = acc[i / 2][j][i % 2 * 2] * s0 + t0, v = acc[i / 2][j][i % 2 * 2 + 1] * s1 + t1;\n"
    "\t\t\tif (ADD) { const vec<T, 2> q = *p; u += ld(q.v[0]); v += ld(q.v[1]); }\n"
    "\t\t\tif (RELU) { u = u < 0 ? 0 : u; v = v < 0 ? 0 : v; }\n"
    "\t\t\tvec<T, 2> q; q.v[0] = st(u, is<T>()); q.v[1] = st(v, is<T>()); *p = q;\n"
    "\t\t}\n"
    "\t}\n"
    "\t__syncthreads();\n"
    "\t#pragma unroll 4\n"
    "\tfor (int j = LANE; j < BM * BN / 8; j += 256) {\n"
    "\t\tconst int r = j / (BN / 8), c = j % (BN / 8);\n"
    "\t\tif (m0 + r < M) *(w128 *)(y + (m0 + r) * N + n0 + c * 8) = *(const w128 *)(tile + r * PITCH + c * "
    "16);\n"
    "\t}\n"
    "#endif\n}\n";

const char cuda_tensor_text[] =
    "#ifndef GG_HOST\n"
    "FN void copy16(u32 to, const void *from) {"
    " asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(to), \"l\"(from) : \"memory\"); }\n"
    "#define COMMIT() asm volatile(\"cp.async.commit_group;\" ::: \"memory\")\n"
    "#define WAIT(n) asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(n) : \"memory\")\n"
    "FN void fetch4(u32 *r, u32 at) {"
    " asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\""
    " : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(at) : \"memory\"); }\n"
    "FN void fetch4_turned(u32 *r, u32 at) {"
    " asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\""
    " : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(at) : \"memory\"); }\n"
    "FN void multiply(float *d, const u32 *a, const u32 *b) {"
    " asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.\" HALF \".\" HALF \".f32 {%0, %1, %2, %3},"
    " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\""
    " : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"
    " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }\n"
    "#endif\n";

bool cuda_tile_fits(const cuda_tile *o)
{
	return gg_dtype_size(o->dtype) == 2 && o->n % 64 == 0 && o->k % 64 == 0 && o->k <= 512 && o->m > 0 &&
	       o->col % 8 == 0 && o->row % 8 == 0 && o->image % 8 == 0 && o->step % 8 == 0;
}

bool cuda_tile_make(gg_diag *d, const cuda_tile *o, cuda_kernel *k)
{
	enum { BM = 128 };
	int bn = o->n % 128 ? 64 : 128, steps = (int)(o->k / 64), pitch = bn * 2 + 16,
	    stage = (BM + bn) * 128;
	int most = bn == 64 ? 3 : 2, stages = steps < most ? steps : most, wm = BM / (8 / (bn / 32));
	gg_buf b = {0}, s = {0};
	gg_buf_printf(
	    &b,
	    "#define BD 256, 2\n#define INDEX unsigned long\n#define T %s\n#define HALF \"%s\"\n"
	    "#define M %lldL\n#define N %lldL\n#define BM %d\n#define BN %d\n#define WM %d\n"
	    "#define MT %d\n#define STEPS %d\n#define STAGES %d\n#define STAGE %d\n#define PITCH %d\n",
	    cuda_type(o->dtype), cuda_type(o->dtype), (long long)o->m, (long long)o->n, BM, bn, wm, wm / 16,
	    steps, stages, stage, pitch);
	gg_buf_printf(&b,
	              "#define OH %lldL\n#define OW %lldL\n#define IMAGE %lldL\n#define ROW %lldL\n"
	              "#define COL %lldL\n#define STEP %lldL\n#define ADD %d\n#define RELU %d\n",
	              (long long)o->rows, (long long)o->cols, (long long)o->image, (long long)o->row,
	              (long long)o->col, (long long)o->step, o->add, o->relu);
	gg_buf_printf(&s, "%s%s", cuda_tensor_text, text);
	bool good = cuda_compile(d, b.p, s.p, k);
	k->block = 256;
	k->grid = (unsigned)((o->m + BM - 1) / BM * (o->n / bn));
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good && cuda_share(d, k, (unsigned)(stages * stage + BM * pitch));
}

bool cuda_tile_run(gg_diag *d, const cuda_kernel *k, const void *x, const void *w, const void *scale,
                   const void *shift, const void *add, void *y)
{
	void *arg[] = {(void *)(uintptr_t)x,     (void *)(uintptr_t)w,   (void *)(uintptr_t)scale,
	               (void *)(uintptr_t)shift, (void *)(uintptr_t)add, y};
	return cuda_launch(d, k, 6, arg);
}
