/* Attention by tiles of queries and of keys: a matrix of scores never lies in memory, and sums are
 * corrected as larger scores come.
 *
 *     for a tile of queries of one head (heads of a group share their keys):
 *         for each tile of keys that one of them may see:
 *             scores = queries keys^T * scale, capped, masked
 *             sums   = sums * exp(most until now - most) + exp(scores - most) values
 *         y = sums / sum of powers; 0 where everything is masked
 *
 * Two kernels: one by tensor cores, for half types and for f32 that may be rounded to tf32, and one that
 * computes in f32 or f64, for all else. flash.c has a third. */
#include "cuda.h"
#include <math.h>

/* What all three have in common. C is what is computed in, M the mask's type. */
const char cuda_attend_text[] =
    "FN C low() { return (C)real(0xfff0000000000000ull); }\n"
    "FN long least(long a, long b) { return a < b ? a : b; }\n"
    /* The keys that queries i0 to i1 - 1 may see; query i stands at i + shift among the keys. */
    "struct reach { long from, to, shift, end; };\n"
    "FN reach reach_of(const i64 *len, long b, long i0, long i1) {\n"
    "\treach r = {0, KV, PAST, KV};\n"
    "\tif (LENGTHS) { r.shift = len[b] - LEN; r.end = least(len[b], KV); r.to = r.end; }\n"
    "\tif (COLUMNS > 1) r.to = least(r.to, COLUMNS);\n"
    "\tif (RIGHT >= 0) r.to = least(r.to, i1 + r.shift + RIGHT);\n"
    "\tif (LEFT >= 0 && i0 + r.shift > LEFT) r.from = i0 + r.shift - LEFT;\n"
    "\treturn r;\n}\n"
    "FN C capped(C s) { return CAP > 0 ? CAP * (C)tanh(s / CAP) : s; }\n"
    "FN C masked(C s, const M *m, long i, long j, reach r) {\n"
    "\tconst long at = i + r.shift;\n"
    "\tif (j >= r.end || (COLUMNS > 1 && j >= COLUMNS) || (LEFT >= 0 && at - j > LEFT) || (RIGHT >= 0 && j - "
    "at > RIGHT)) return low();\n"
    "#if MASKED\n"
    "\tconst M x = m[i * M2 + j * M3];\n"
    "\treturn CHOOSES ? ld(x) ? s : low() : s + (C)ld(x);\n"
    "#else\n\treturn s;\n#endif\n}\n"
    /* Where a kernel speaks to tensor cores, the host computes its rows one by one. */
    "#ifdef GG_HOST\n"
    "static void rows(const T *q, const T *k, const T *v, const M *m, const i64 *len, T *y, long b, long h, "
    "long i0, long i1) {\n"
    "\tk += b * K0 + h / GROUP * K1; v += b * V0 + h / GROUP * V1; m += b * M0 + h * M1;\n"
    "\tfor (long i = i0; i < least(i1, LEN); i++) {\n"
    "\t\tstatic C s[KV + 1];\n"
    "\t\tconst reach r = reach_of(len, b, i, i + 1);\n"
    "\t\tconst T *x = q + b * Q0 + h * Q1 + i * Q2;\n"
    "\t\tC most = low(), sum = 0;\n"
    "\t\tfor (long j = r.from; j < r.to; j++) {\n"
    "\t\t\ts[j] = 0;\n"
    "\t\t\tfor (int d = 0; d < SIZE; d++) s[j] += ld(x[d]) * ld(k[j * K2 + d]);\n"
    "\t\t\ts[j] = masked(capped(s[j] * SCALE), m, i, j, r); most = pick_max(most, s[j]);\n"
    "\t\t}\n"
    "\t\tfor (long j = r.from; j < r.to; j++) sum += s[j] = most == low() ? 0 : exp(s[j] - most);\n"
    "\t\tfor (int d = 0; d < VSIZE; d++) {\n"
    "\t\t\tC a = 0;\n"
    "\t\t\tfor (long j = r.from; j < r.to; j++) a += s[j] * ld(v[j * V2 + d]);\n"
    "\t\t\ty[b * Y0 + h * Y1 + i * Y2 + d] = st(sum == 0 ? 0 : a / sum, is<T>());\n"
    "\t\t}\n"
    "\t}\n}\n"
    "#endif\n"
    /* Tiles that see the most keys come first. */
    "#define PLACE const long tile = RIGHT < 0 ? blockIdx.x % TILES : TILES - 1 - blockIdx.x / (BATCH * "
    "HEADS), head = RIGHT < 0 ? blockIdx.x / TILES : blockIdx.x % (BATCH * HEADS), h = head % HEADS, b = "
    "head "
    "/ HEADS\n";

/* ---- without tensor cores ---------------------------------------------------------------------- */

/* Of 128 threads each has R rows of queries and 4 columns: of keys, then of each 64 of the values.
 * Queries, keys and powers lie column by column in shared memory, so that a thread reads what it needs of
 * one step side by side. On the host the threads go one after the other from MEET to MEET. */
static const char plain_text[] =
    "#ifdef GG_HOST\n"
    "#define EACH for (int t = 0; t < 128; t++)\n"
    "#define OWN(type, name, n) static type name##_own[128][n]\n"
    "#define MINE(name) name##_own[t]\n"
    "#else\n"
    "#define EACH\n"
    "#define OWN(type, name, n) type name[n]\n"
    "#define MINE(name) name\n"
    "#endif\n"
    "enum { BM = 8 * R, BN = 64, CHUNK = 64, PARTS = (VSIZE + 63) / 64, W = R % 2 ? 1 : 16 / sizeof(C) };\n"
    "template <int N_, int W_> FN void take(C *to, const C *from) {\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < N_; i += W_) {\n"
    "\t\tconst vec<C, W_> w = *(const vec<C, W_> *)(from + i);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int e = 0; e < W_; e++) to[i + e] = w.v[e];\n"
    "\t}\n}\n"
    /* Pieces of the powers of key j change places, so that writing them does not meet in one bank. */
    "FN int place(int j, int row) { return j * BM + (row / W ^ j / 4 % (BM / W)) * W; }\n"
    /* [rows, wide] of x as columns of `high`; rows past the last repeat it. */
    "FN void turn(C *to, const T *x, long step, long row, long last, int high, int wide, int t) {\n"
    "\tfor (int e = t; e < high * wide / VEC; e += 128) {\n"
    "\t\tconst int r = e % high, d = e / high * VEC;\n"
    "\t\tconst vec<T, VEC> w = *(const vec<T, VEC> *)(x + least(row + r, last) * step + d);\n"
    "\t\tfor (int u = 0; u < VEC; u++) to[(d + u) * high + r] = ld(w.v[u]);\n"
    "\t}\n}\n"
    "KERNEL(const T *q, const T *k, const T *v, const M *m, const i64 *len, T *y)\n{\n"
    "\tPLACE;\n"
    "#ifdef GG_HOST\n"
    "\tstatic C mem[SIZE * BM + BN * CHUNK + BN * BM + BM * 16];\n"
    "#else\n"
    "\textern __shared__ __align__(16) u8 bytes[];\n"
    "\tC *const mem = (C *)bytes;\n"
    "\tconst int t = LANE;\n"
    "#endif\n"
    "\tC *const qs = mem, *const ws = qs + SIZE * BM, *const ps = ws + BN * CHUNK, *const ts = ps + BN * "
    "BM;\n"
    "\tconst long i0 = tile * BM;\n"
    "\tconst reach see = reach_of(len, b, i0, least(i0 + BM, LEN));\n"
    "\tk += b * K0 + h / GROUP * K1; v += b * V0 + h / GROUP * V1; m += b * M0 + h * M1;\n"
    "\tOWN(C, s, R * 4); OWN(C, sums, PARTS * R * 4); OWN(C, most, R); OWN(C, sum, R);\n"
    "\tEACH {\n"
    "\t\tturn(qs, q + b * Q0 + h * Q1, Q2, i0, LEN - 1, BM, SIZE, t);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < PARTS * R * 4; i++) MINE(sums)[i] = 0;\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int r = 0; r < R; r++) { MINE(most)[r] = low(); MINE(sum)[r] = 0; }\n"
    "\t}\n"
    "\tfor (long j0 = see.from / BN * BN; j0 < see.to; j0 += BN) {\n"
    "\t\tEACH {\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < R * 4; i++) MINE(s)[i] = 0;\n"
    "\t\t}\n"
    "\t\tfor (int c = 0; c < SIZE; c += CHUNK) {\n"
    "\t\t\tconst int wide = SIZE - c < CHUNK ? SIZE - c : CHUNK;\n"
    "\t\t\tMEET();\n"
    "\t\t\tEACH turn(ws, k + c, K2, j0, see.end - 1, BN, wide, t);\n"
    "\t\t\tMEET();\n"
    "\t\t\tEACH {\n"
    "\t\t\t\t#pragma unroll 8\n"
    "\t\t\t\tfor (int d = 0; d < wide; d++) {\n"
    "\t\t\t\t\tC x[R], w[4];\n"
    "\t\t\t\t\ttake<R, W>(x, qs + (c + d) * BM + t / 16 * R);\n"
    "\t\t\t\t\ttake<4, 16 / sizeof(C)>(w, ws + d * BN + t % 16 * 4);\n"
    "\t\t\t\t\t#pragma unroll\n"
    "\t\t\t\t\tfor (int i = 0; i < R * 4; i++) MINE(s)[i] += x[i / 4] * w[i % 4];\n"
    "\t\t\t\t}\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\t\tEACH {\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int r = 0; r < R; r++) {\n"
    "\t\t\t\tconst int row = t / 16 * R + r;\n"
    "\t\t\t\tC top = low();\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int e = 0; e < 4; e++) {\n"
    "\t\t\t\t\tC *const x = &MINE(s)[r * 4 + e];\n"
    "\t\t\t\t\t*x = masked(capped(*x * SCALE), m, least(i0 + row, LEN - 1), j0 + t % 16 * 4 + e, see);\n"
    "\t\t\t\t\ttop = pick_max(top, *x);\n"
    "\t\t\t\t}\n"
    "\t\t\t\tts[row * 16 + t % 16] = top;\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\t\tMEET();\n"
    "\t\tEACH {\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int r = 0; r < R; r++) {\n"
    "\t\t\t\tC all[16], top = MINE(most)[r];\n"
    "\t\t\t\ttake<16, 16 / sizeof(C)>(all, ts + (t / 16 * R + r) * 16);\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int e = 0; e < 16; e++) top = pick_max(top, all[e]);\n"
    "\t\t\t\tconst C from = top == low() ? 0 : top, by = exp(MINE(most)[r] - from);\n"
    "\t\t\t\tMINE(most)[r] = top; MINE(sum)[r] *= by;\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int e = 0; e < 4; e++) MINE(sum)[r] += MINE(s)[r * 4 + e] = exp(MINE(s)[r * 4 + e] - "
    "from);\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int i = 0; i < PARTS * 4; i++) MINE(sums)[(i / 4 * R + r) * 4 + i % 4] *= by;\n"
    "\t\t\t}\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int e = 0; e < 4; e++)\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int r = 0; r < R; r += W) {\n"
    "\t\t\t\t\tvec<C, W> w;\n"
    "\t\t\t\t\t#pragma unroll\n"
    "\t\t\t\t\tfor (int u = 0; u < W; u++) w.v[u] = MINE(s)[(r + u) * 4 + e];\n"
    "\t\t\t\t\t*(vec<C, W> *)(ps + place(t % 16 * 4 + e, t / 16 * R + r)) = w;\n"
    "\t\t\t\t}\n"
    "\t\t}\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int p = 0; p < PARTS; p++) {\n"
    "\t\t\tconst int wide = VSIZE - p * 64 < 64 ? VSIZE - p * 64 : 64;\n"
    "\t\t\tMEET();\n"
    "\t\t\tEACH for (int e = t; e < BN * wide / VEC; e += 128) {\n"
    "\t\t\t\tconst int j = e / (wide / VEC), d = e % (wide / VEC) * VEC;\n"
    "\t\t\t\tconst vec<T, VEC> w = *(const vec<T, VEC> *)(v + least(j0 + j, see.end - 1) * V2 + p * 64 + "
    "d);\n"
    "\t\t\t\tfor (int u = 0; u < VEC; u++) ws[j * 64 + d + u] = ld(w.v[u]);\n"
    "\t\t\t}\n"
    "\t\t\tMEET();\n"
    "\t\t\tEACH {\n"
    "\t\t\t\t#pragma unroll 8\n"
    "\t\t\t\tfor (int j = 0; j < BN; j++) {\n"
    "\t\t\t\t\tC x[R], w[4];\n"
    "\t\t\t\t\t#pragma unroll\n"
    "\t\t\t\t\tfor (int r = 0; r < R; r += W) take<W, W>(x + r, ps + place(j, t / 16 * R + r));\n"
    "\t\t\t\t\ttake<4, 16 / sizeof(C)>(w, ws + j * 64 + t % 16 * 4);\n"
    "\t\t\t\t\t#pragma unroll\n"
    "\t\t\t\t\tfor (int i = 0; i < R * 4; i++) MINE(sums)[p * R * 4 + i] += x[i / 4] * w[i % 4];\n"
    "\t\t\t\t}\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\t}\n"
    "\tMEET();\n"
    "\tEACH {\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int r = 0; r < R; r++) ts[(t / 16 * R + r) * 16 + t % 16] = MINE(sum)[r];\n"
    "\t}\n"
    "\tMEET();\n"
    "\tEACH {\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int r = 0; r < R; r++) {\n"
    "\t\t\tconst int row = t / 16 * R + r;\n"
    "\t\t\tC all = 0;\n"
    "\t\t\tfor (int e = 0; e < 16; e++) all += ts[row * 16 + e];\n"
    "\t\t\tconst C by = all == 0 ? 0 : 1 / all;\n"
    "\t\t\tT *const o = y + b * Y0 + h * Y1 + (i0 + row) * Y2 + t % 16 * 4;\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < PARTS * 4; i++)\n"
    "\t\t\t\tif (i0 + row < LEN && i / 4 * 64 + t % 16 * 4 + i % 4 < VSIZE)\n"
    "\t\t\t\t\to[i / 4 * 64 + i % 4] = st(MINE(sums)[(i / 4 * R + r) * 4 + i % 4] * by, is<T>());\n"
    "\t\t}\n"
    "\t}\n}\n";

/* ---- by tensor cores --------------------------------------------------------------------------- */

/* A warp has 16 queries. A row of queries or keys is steps of 32 bytes: 16 halves, or 8 f32. Of a product's
 * accumulators a lane has two neighbours in rows lane / 4 and 8 below; f32 takes the two as columns
 * lane % 4 and 4 behind of the next product, whose rows change places likewise. */
static const char tensor_text[] =
    "#ifndef GG_HOST\n"
    "#if TF32\n"
    "FN u32 rounded(float x) { u32 r; asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(r) : \"f\"(x)); return r; }\n"
    "FN void round4(u32 *r) {\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < 4; i++) r[i] = rounded(__uint_as_float(r[i]));\n"
    "}\n"
    "FN void product(float *d, const u32 *a, const u32 *b) {"
    " asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3},"
    " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\""
    " : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"
    " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }\n"
    "#else\n"
    "FN void round4(u32 *r) { }\n"
    "FN void product(float *d, const u32 *a, const u32 *b) { multiply(d, a, b); }\n"
    "#endif\n"
    "#endif\n"
    "enum { E = 16 / sizeof(T), STEPS = (SIZE + 2 * E - 1) / (2 * E), DV = (VSIZE + 15) / 16 * 16,"
    " PK = STEPS * 32 + 16, PV = DV * sizeof(T) + 16, STAGE = BN * (PK + PV), HELD = STEPS <= 8 };\n"
    "KERNEL(const T *q, const T *k, const T *v, const M *m, const i64 *len, T *y)\n{\n"
    "\tPLACE;\n"
    "#ifdef GG_HOST\n"
    "\trows(q, k, v, m, len, y, b, h, tile * 64, tile * 64 + 64);\n"
    "#else\n"
    "\textern __shared__ __align__(128) u8 mem[];\n"
    "\tconst u32 at = (u32)__cvta_generic_to_shared(mem);\n"
    "\tconst int lane = LANE % 32, warp = LANE / 32;\n"
    "\tconst long row[2] = {tile * 64 + warp * 16 + lane / 4, row[0] + 8};\n"
    "\tconst long i0[2] = {least(row[0], LEN - 1), least(row[1], LEN - 1)};\n"
    "\tconst reach see = reach_of(len, b, tile * 64, least(tile * 64 + 64, LEN));\n"
    "\tq += b * Q0 + h * Q1; k += b * K0 + h / GROUP * K1; v += b * V0 + h / GROUP * V1; m += b * M0 + h * "
    "M1;\n"
    "\ty += b * Y0 + h * Y1;\n"
    "#define PIECES(r, c, high, wide) for (int j = LANE, r, c; r = j / (wide), c = j % (wide), j < (high) * "
    "(wide); j += 128)\n"
    "#define BRING(t) { const u32 to = at + 64 * PK + (t) % 2 * STAGE;"
    " PIECES(r, c, BN, SIZE / E) copy16(to + r * PK + c * 16, k + least((t) * BN + r, see.end - 1) * K2 + c "
    "* "
    "E);"
    " PIECES(r, c, BN, VSIZE / E) copy16(to + BN * PK + r * PV + c * 16, v + least((t) * BN + r, see.end - "
    "1) * V2 + c * E); }\n"
    "\tconst long t0 = see.from / BN, t1 = (see.to + BN - 1) / BN;\n"
    "\tif (SIZE % (2 * E))\n"
    "\t\tfor (int r = LANE; r < 64 + 2 * BN; r += 128)\n"
    "\t\t\t*(w128 *)(mem + (r < 64 ? r * PK : 64 * PK + (r - 64) / BN * STAGE + (r - 64) % BN * PK) + SIZE * "
    "sizeof(T)) = w128();\n"
    "\tif (t0 < t1) {\n"
    "\t\tPIECES(r, c, 64, SIZE / E) copy16(at + r * PK + c * 16, q + least(tile * 64 + r, LEN - 1) * Q2 + c "
    "* "
    "E);\n"
    "\t\tBRING(t0)\n"
    "\t}\n"
    "\tCOMMIT();\n"
    "\tu32 x[HELD ? STEPS : 1][4];\n"
    "\tfloat o[DV / 8][4], most[2] = {low(), low()}, sum[2] = {0, 0};\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < DV / 2; i++) o[i / 4][i % 4] = 0;\n"
    "\tfor (long t = t0; t < t1; t++) {\n"
    "\t\tif (t + 1 < t1) BRING(t + 1)\n"
    "\t\tCOMMIT();\n"
    "\t\tWAIT(1);\n"
    "\t\t__syncthreads();\n"
    "\t\tconst u32 x0 = at + (warp * 16 + lane % 16) * PK + lane / 16 * 16;\n"
    "\t\tif (HELD && t == t0)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < STEPS; d++) { fetch4(x[d], x0 + d * 32); round4(x[d]); }\n"
    "\t\tconst u32 k0 = at + 64 * PK + t % 2 * STAGE, v0 = k0 + BN * PK;\n"
    "\t\tfloat s[BN / 8][4];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < BN / 2; i++) s[i / 4][i % 4] = 0;\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int d = 0; d < STEPS; d++) {\n"
    "\t\t\tu32 *const xd = x[HELD ? d : 0];\n"
    "\t\t\tif (!HELD) { fetch4(xd, x0 + d * 32); round4(xd); }\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int j = 0; j < BN / 16; j++) {\n"
    "\t\t\t\tu32 w[4];\n"
    "\t\t\t\tfetch4(w, k0 + (j * 16 + lane % 8 + lane / 16 * 8) * PK + d * 32 + lane / 8 % 2 * 16);\n"
    "\t\t\t\tround4(w);\n"
    "\t\t\t\tproduct(s[2 * j], xd, w); product(s[2 * j + 1], xd, w + 2);\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\t\tconst bool inner = !MASKED && (t + 1) * BN <= see.to &&"
    " (RIGHT < 0 || (t + 1) * BN - 1 <= tile * 64 + see.shift + RIGHT) &&"
    " (LEFT < 0 || tile * 64 + 63 + see.shift - t * BN <= LEFT);\n"
    "\t\tfloat top[2] = {most[0], most[1]}, from[2];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < BN / 2; i++) s[i / 4][i % 4] = capped(s[i / 4][i % 4] * SCALE);\n"
    "\t\tif (!inner)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < BN / 2; i++)\n"
    "\t\t\t\ts[i / 4][i % 4] = masked(s[i / 4][i % 4], m, i0[i / 2 % 2], t * BN + i / 4 * 8 + lane % 4 * 2 + "
    "i % 2, see);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < BN / 2; i++) top[i / 2 % 2] = pick_max(top[i / 2 % 2], s[i / 4][i % 4]);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int r = 0; r < 2; r++) {\n"
    "\t\t\ttop[r] = pick_max(top[r], __shfl_xor_sync(~0u, top[r], 1));\n"
    "\t\t\ttop[r] = pick_max(top[r], __shfl_xor_sync(~0u, top[r], 2));\n"
    "\t\t\tfrom[r] = top[r] == low() ? 0 : top[r];\n"
    "\t\t\tconst float by = QUICK_EXP(most[r] - from[r]);\n"
    "\t\t\tmost[r] = top[r]; sum[r] *= by;\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < DV / 8; d++) { o[d][2 * r] *= by; o[d][2 * r + 1] *= by; }\n"
    "\t\t}\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < BN / 2; i++) {\n"
    "\t\t\tfloat *const a = &s[i / 4][i % 4];\n"
    "\t\t\t*a = QUICK_EXP(*a - from[i / 2 % 2]); sum[i / 2 % 2] += *a;\n"
    "\t\t}\n"
    "#if TF32\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int j = 0; j < BN / 8; j++) {\n"
    "\t\t\tconst u32 p[4] = {rounded(s[j][0]), rounded(s[j][2]), rounded(s[j][1]), rounded(s[j][3])};\n"
    "\t\t\tconst u8 *const w0 = mem + (v0 - at) + (j * 8 + lane % 4 * 2) * PV + lane / 4 * 4;\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < DV / 8; d++) {\n"
    "\t\t\t\tconst u32 w[2] = {rounded(*(const float *)(w0 + d * 32)), rounded(*(const float *)(w0 + PV + d "
    "* "
    "32))};\n"
    "\t\t\t\tproduct(o[d], p, w);\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "#else\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int j = 0; j < BN / 16; j++) {\n"
    "\t\t\tu32 p[4];\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int e = 0; e < 4; e++) {\n"
    "\t\t\t\tconst float *const a = &s[2 * j + e / 2][e % 2 * 2];\n"
    "\t\t\t\tp[e] = (u32)st(a[0], is<T>()).u | (u32)st(a[1], is<T>()).u << 16;\n"
    "\t\t\t}\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < DV / 16; d++) {\n"
    "\t\t\t\tu32 w[4];\n"
    "\t\t\t\tfetch4_turned(w, v0 + (j * 16 + lane % 16) * PV + d * 32 + lane / 16 * 16);\n"
    "\t\t\t\tproduct(o[2 * d], p, w); product(o[2 * d + 1], p, w + 2);\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "#endif\n"
    "\t\t__syncthreads();\n"
    "\t}\n"
    "\t#pragma unroll\n"
    "\tfor (int r = 0; r < 2; r++) {\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 1);\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 2);\n"
    "\t\tconst float by = sum[r] == 0 ? 0 : 1 / sum[r];\n"
    "\t\tif (row[r] < LEN)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < VSIZE / 8; d++) {\n"
    "\t\t\t\tvec<T, 2> w;\n"
    "\t\t\t\tw.v[0] = st(o[d][2 * r] * by, is<T>()); w.v[1] = st(o[d][2 * r + 1] * by, is<T>());\n"
    "\t\t\t\t*(vec<T, 2> *)(y + row[r] * Y2 + lane % 4 * 2 + d * 8) = w;\n"
    "\t\t\t}\n"
    "\t}\n"
    "#endif\n}\n";

/* ---- which of them, and how -------------------------------------------------------------------- */

static void put_strides(gg_buf *b, char name, const int64_t *s)
{
	for (int i = 0; i < 4; i++)
		gg_buf_printf(b, "#define %c%d %lldL\n", name, i, (long long)s[i]);
}

static void put_number(gg_buf *b, const char *name, int64_t x)
{
	gg_buf_printf(b, "#define %s %lldL\n", name, (long long)x);
}

void cuda_attend_defines(gg_buf *b, const cuda_attend *o)
{
	gg_buf_printf(b,
	              "#define INDEX unsigned long\n#define T %s\n#define HALF \"%s\"\n#define C %s\n"
	              "#define M %s\n#define MASKED %d\n#define CHOOSES %d\n#define LENGTHS %d\n"
	              "#define SIZE %d\n#define VSIZE %d\n#define CAP ((C)%a)\n",
	              cuda_type(o->dtype), cuda_type(o->dtype), cuda_compute(o->dtype),
	              cuda_type(o->mask ? o->mask : GG_BOOL), o->mask != 0, o->mask == GG_BOOL, o->lengths,
	              (int)o->size, (int)o->vsize, o->cap);
	put_number(b, "KV", o->kv);
	put_number(b, "LEN", o->q);
	put_number(b, "BATCH", o->batch);
	put_number(b, "HEADS", o->heads);
	put_number(b, "GROUP", o->group);
	put_number(b, "PAST", o->past);
	put_number(b, "LEFT", o->left);
	put_number(b, "RIGHT", o->right);
	put_number(b, "COLUMNS", o->columns);
	put_strides(b, 'Q', o->sq);
	put_strides(b, 'K', o->sk);
	put_strides(b, 'V', o->sv);
	put_strides(b, 'Y', o->sy);
	put_strides(b, 'M', o->sm);
}

/* All that is read lies in pieces of so many elements, at addresses that are multiples. */
bool cuda_attend_aligned(const cuda_attend *o, int64_t piece)
{
	const int64_t *all[] = {o->sq, o->sk, o->sv, o->sy};
	bool good = o->size % piece == 0 && o->vsize % piece == 0;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 3; j++)
			good = good && all[i][j] % piece == 0;
	return good;
}

static bool make_plain(gg_diag *d, const cuda_attend *o, gg_buf *b, cuda_kernel *k)
{
	int64_t word = o->dtype == GG_F64 ? 8 : 4, rows = o->q <= 8 ? 1 : word == 8 ? 4 : 8, bm = 8 * rows;
	int64_t vec = 16 / (int64_t)gg_dtype_size(o->dtype);
	gg_buf s = {0};
	put_number(b, "TILES", (o->q + bm - 1) / bm);
	gg_buf_printf(b, "#define BD 128\n#define R %d\n#define VEC %d\n#define SCALE ((C)%a)\n", (int)rows,
	              cuda_attend_aligned(o, vec) ? (int)vec : 1, o->scale);
	gg_buf_printf(&s, "%s%s", cuda_attend_text, plain_text);
	bool good = cuda_compile(d, b->p, s.p, k);
	k->block = 128;
	k->grid = (unsigned)(o->batch * o->heads * ((o->q + bm - 1) / bm));
	gg_buf_fini(&s);
	return good && cuda_share(d, k, (unsigned)(word * (o->size * bm + 64 * 64 + 64 * bm + bm * 16)));
}

static bool make_tensor(gg_diag *d, const cuda_attend *o, gg_buf *b, cuda_kernel *k)
{
	int64_t word = (int64_t)gg_dtype_size(o->dtype), tiles = (o->q + 63) / 64;
	int64_t pk = (o->size * word + 31) / 32 * 32 + 16, pv = (o->vsize + 15) / 16 * 16 * word + 16;
	int64_t keys = pk + pv > 1200 ? 32 : 64;
	gg_buf s = {0};
	put_number(b, "TILES", tiles);
	gg_buf_printf(b, "#define BD 128\n#define BN %d\n#define TF32 %d\n#define SCALE ((C)%a)\n", (int)keys,
	              word == 4, o->scale);
	gg_buf_printf(&s, "%s%s%s", cuda_tensor_text, cuda_attend_text, tensor_text);
	bool good = cuda_compile(d, b->p, s.p, k);
	k->block = 128;
	k->grid = (unsigned)(o->batch * o->heads * tiles);
	gg_buf_fini(&s);
	return good && cuda_share(d, k, (unsigned)(64 * pk + 2 * keys * (pk + pv)));
}

bool cuda_attend_make(gg_diag *d, const cuda_attend *o, cuda_kernel *k)
{
	gg_buf b = {0};
	bool tensor = (gg_dtype_size(o->dtype) == 2 || o->tf32) && cuda_attend_aligned(o, 8);
	cuda_attend_defines(&b, o);
	bool good = tensor ? make_tensor(d, o, &b, k) : make_plain(d, o, &b, k);
	gg_buf_fini(&b);
	return good;
}
