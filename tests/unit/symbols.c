/* Shape arithmetic over symbols: what the movement ops' rules make of it. */
#include "op.h"
#include "stream.h"
#include "tap.h"
#include <string.h>

static const struct row {
	const char *body, *want;
} rows[] = {
    /* Shape, Gather, Unsqueeze, Concat, Reshape: as exporters write a flattening */
    {"input %x : f32[N, 3, H]\nconst %z : i64[] = [0]\nconst %a : i64[1] = [0]\nconst %m : i64[1] = [-1]\n"
     "%s = Shape(%x)\n%n = Gather(%s, %z)\n%u = Unsqueeze(%n, %a)\n%c = Concat(%u, %m) {axis=0}\n"
     "%y = Reshape(%x, %c)\n",
     "[N,3*H]"},
    {"input %x : f32[N, 12, S, 64]\nconst %k : i64[3] = [0, -1, 768]\n%t = Transpose(%x) {perm=[0, 2, 1, "
     "3]}\n"
     "%y = Reshape(%t, %k)\n",
     "[N,S,768]"},
    {"input %x : f32[N, S, 768]\nconst %k : i64[4] = [0, 0, 12, 64]\n%y = Reshape(%x, %k)\n", "[N,S,12,64]"},
    {"input %x : f32[N, S]\nconst %k : i64[1] = [-1]\n%y = Reshape(%x, %k)\n", "[N*S]"},
    {"input %x : f32[N, S]\n%s = Shape(%x) {start=1}\n%y = ConstantOfShape(%s)\n", "[S]"},
    {"input %x : f32[N, 4]\n%a, %y = Split(%x) {axis=1, num_outputs=2}\n", "[N,2]"},
    {"input %x : f32[2*N, 4]\n%a, %y = Split(%x) {axis=0, num_outputs=2}\n", "[N,4]"},
    {"input %x : f32[N, 4]\nconst %r : i64[2] = [3, 2]\n%y = Tile(%x, %r)\n", "[3*N,8]"},
    {"input %x : f32[N, 4]\n%y = Concat(%x, %x) {axis=0}\n", "[2*N,4]"},
    {"input %x : f32[N, 4]\nconst %p : i64[4] = [1, 0, 2, 0]\n%y = Pad(%x, %p)\n", "[N+3,4]"},
    {"input %x : f32[N, S]\nconst %o : i64[1] = [1]\nconst %e : i64[1] = [9223372036854775807]\n"
     "const %a : i64[1] = [1]\n%y = Slice(%x, %o, %e, %a)\n",
     "[N,max(0,S-1)]"},
    {"input %x : f32[N, S]\nconst %o : i64[1] = [0]\nconst %e : i64[1] = [9223372036854775807]\n"
     "const %a : i64[1] = [1]\nconst %t : i64[1] = [2]\n%y = Slice(%x, %o, %e, %a, %t)\n",
     "[N,(S+1)/2]"},
    {"input %x : f32[N, S]\nconst %o : i64[1] = [-1]\nconst %e : i64[1] = [-9223372036854775807]\n"
     "const %a : i64[1] = [0]\nconst %t : i64[1] = [-1]\n%y = Slice(%x, %o, %e, %a, %t)\n",
     "[N,S]"},
    /* the first S of 512 positions */
    {"input %x : f32[1, S]\ninput %p : i64[1, 512]\n%s = Shape(%x)\nconst %o : i64[1] = [1]\nconst %z : "
     "i64[1] = [0]\n"
     "%e = Gather(%s, %o)\n%y = Slice(%p, %z, %e, %o)\n",
     "[1,min(512,S)]"},
    {"input %x : f32[N, S]\n%s = Shape(%x)\n%a, %b = Split(%s)\nconst %z : i64[] = [0]\nconst %o : i64[] = "
     "[1]\n"
     "%l = Squeeze(%b)\n%y = Range(%z, %l, %o)\n",
     "[S]"},
    {"input %x : f32[N, S]\ninput %v : f32[1, 1]\n%s = Shape(%x)\n%y = Expand(%v, %s)\n", "[N,S]"},
    {"input %x : f32[N, S]\ninput %i : i64[M, 2]\n%y = Gather(%x, %i) {axis=1}\n", "[N,M,2]"},
    {"input %x : f32[N, S]\ninput %i : i64[M, 1]\n%y = GatherND(%x, %i)\n", "[M,S]"},
    {"input %x : f32[N, S]\nconst %a : i64[1] = [-1]\n%y = ReduceSum(%x, %a) {keepdims=0}\n", "[N]"},
    {"input %x : f32[N, S]\n%y = ArgMax(%x) {axis=1}\n", "[N,1]"},
    {"input %x : i64[N]\nconst %d : i64[] = [7]\nconst %v : f32[2] = [0, 1]\n%y = OneHot(%x, %d, %v)\n",
     "[N,7]"},
    {"input %x : f32[N, S]\n%y = NonZero(%x)\n", "[2,?y.1]"},
    {"input %x : f32[N, S]\ninput %k : i64[3]\n%y = Reshape(%x, %k)\n", "[?y.0,?y.1,?y.2]"},
    {"input %x : f32[N, 3]\ninput %k : i64[2]\n%y = Expand(%x, %k)\n", "[?y.0,3]"},
    {"input %x : f32[*]\ninput %k : i64[2]\n%y = Squeeze(%x, %k)\n", "[*]"},
    {"input %x : f32[N, 1, 3, 1]\ninput %k : i64[2]\n%y = Squeeze(%x, %k)\n", "[?y.0,?y.1]"},
    {"input %x : f32[*]\n%y = Flatten(%x)\n", "[?y.0,?y.1]"},
    /* carried values: one that stays, one that grows */
    {"input %x : f32[N, 2]\nconst %m : i64[] = [5]\n"
     "%a, %b, %y = Loop(%m, _, %x, %x) {body=graph (%i : i64[], %c : bool[], %p : f32[*], %q : f32[*]) {\n"
     "%g = Concat(%q, %q) {axis=0}\noutput %c\noutput %p\noutput %g\noutput %p\n}}\n",
     "[5,N,2]"},
    {"input %x : f32[N, 2]\nconst %m : i64[] = [5]\n"
     "%a, %y = Loop(%m, _, %x, %x) {body=graph (%i : i64[], %c : bool[], %p : f32[*], %q : f32[*]) {\n"
     "%g = Concat(%q, %q) {axis=0}\noutput %c\noutput %p\noutput %g\n}}\n",
     "[?y.0,2]"},
    {"input %c : bool[]\ninput %x : f32[N, 2]\n"
     "%y = If(%c; %x) {then_branch=graph (%p : f32[*]) {\n%g = Concat(%p, %p) {axis=0}\noutput %g\n}, "
     "else_branch=graph (%q : f32[*]) {\noutput %q\n}}\n",
     "[?y.0,2]"},
    {"input %c : bool[]\ninput %x : f32[N, 6]\nconst %k : i64[2] = [-1, 3]\n"
     "%y = If(%c; %x, %k) {then_branch=graph (%p : f32[*], %s : i64[2]) {\n%g = Reshape(%p, %s)\noutput "
     "%g\n}, "
     "else_branch=graph (%q : f32[*], %t : i64[2]) {\n%h = Reshape(%q, %t)\noutput %h\n}}\n",
     "[2*N,3]"},
    {"input %x : f32[T, N, 2]\n%y = Scan(%x) {num_scan_inputs=1, scan_output_axes=[1], "
     "body=graph (%p : f32[*]) {\n%g = Flatten(%p) {axis=0}\noutput %g\n}}\n",
     "[1,T,2*N]"},
    /* arithmetic on sizes */
    {"input %x : f32[N, S]\n%s = Shape(%x)\nconst %k : i64[2] = [2, 3]\n%t = Mul(%s, %k)\n%u = Add(%t, %s)\n"
     "%y = ConstantOfShape(%u)\n",
     "[3*N,4*S]"},
    {"input %x : f32[H, W]\n%s = Shape(%x)\nconst %p : i64[] = [3]\nconst %d : i64[1] = [2]\n%t = Add(%s, "
     "%p)\n"
     "%u = Div(%t, %d)\n%y = ConstantOfShape(%u)\n",
     "[(H+1)/2+1,(W+1)/2+1]"},
    {"input %x : f32[H, 9]\n%s = Shape(%x)\nconst %d : i64[] = [4]\n%t = Mod(%s, %d)\n%u = Max(%s, %d)\n"
     "%v = Concat(%t, %u) {axis=0}\n%y = ConstantOfShape(%v)\n",
     "[H-4*(H/4),1,max(4,H),9]"},
    {"input %x : f32[N, S]\n%s = Shape(%x)\n%i = Cast(%s) {to=i32}\n%l = CastLike(%i, %s)\n%k = "
     "Identity(%l)\n"
     "%y = ConstantOfShape(%k)\n",
     "[N,S]"},
    /* a difference may be negative: its quotient is not followed */
    {"input %x : f32[H]\n%s = Shape(%x)\nconst %p : i64[] = [5]\nconst %d : i64[1] = [2]\n%t = Sub(%s, %p)\n"
     "%u = Div(%t, %d)\n%y = ConstantOfShape(%u)\n",
     "[?y.0]"},
    /* exporters' Expand: where the target is -1, take 1 */
    {"input %x : f32[N, S]\n%s = Shape(%x)\nconst %m : i64[2] = [-1, -1]\nconst %o : i64[2] = [1, 1]\n"
     "%e = Equal(%s, %m)\n%w = Where(%e, %o, %s)\n%y = ConstantOfShape(%w)\n",
     "[N,S]"},
    {"const %s : i64[2] = [-1, 7]\nconst %m : i64[2] = [-1, -1]\nconst %o : i64[2] = [1, 1]\n"
     "%e = Equal(%s, %m)\n%w = Where(%e, %o, %s)\n%y = ConstantOfShape(%w)\n",
     "[1,7]"},
    /* products */
    {"input %a : f32[B, 1, M, K]\ninput %b : f32[H, K, 8]\n%y = MatMul(%a, %b)\n", "[B,H,M,8]"},
    {"input %a : f32[B, M, K]\ninput %b : f32[K]\n%y = MatMul(%a, %b)\n", "[B,M]"},
    {"input %a : f32[*]\ninput %b : f32[K]\n%y = MatMul(%a, %b)\n", "[*]"},
    {"input %a : f32[K, M]\ninput %b : f32[7, K]\n%y = Gemm(%a, %b) {transA=1, transB=1}\n", "[M,7]"},
    {"input %a : f32[B, I, J]\ninput %b : f32[J, 4]\n%y = Einsum(%a, %b) {equation=\"...j,jk\"}\n",
     "[B,I,4]"},
    {"input %a : f32[B, I, I]\n%y = Einsum(%a) {equation=\"bii->ib\"}\n", "[I,B]"},
    {"input %a : f32[*]\n%y = Einsum(%a) {equation=\"bii->ib\"}\n", "[*]"},
    {"input %a : u8[N, K]\ninput %b : i8[K, 3]\n%y = MatMulInteger(%a, %b)\n", "[N,3]"},
    {"input %x : f32[N, C]\ninput %s : f32[C]\n%y = QuantizeLinear(%x, %s)\n", "[N,C]"},
    {"input %x : f32[N, 1]\ninput %z : f32[3]\ninput %w : f32[*]\n%a = Max(%x, %z)\n%y = Sum(%a, %w)\n",
     "[*]"},
};

int main(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		gg_diag d = {.tool = "symbols"};
		gg_arena a = {0};
		gg_model *m = NULL;
		char *text = gg_printf(&a, "graph\n%soutput %%y\n", rows[i].body);
		gg_source s = {.name = "row", .p = text, .len = strlen(text)};
		bool good = gg_read_text(&d, &s, &m) == 1;
		gg_value *y = good ? gg_find_value(m->main, "y") : NULL;
		const char *got = y ? gg_shape_str(&a, &y->shape) : "an error";
		if (!ok(!strcmp(got, rows[i].want), "row %zu is %s", i, rows[i].want))
			printf("# got %s from\n# %s\n", got, rows[i].body);
		gg_model_free(m);
		gg_arena_fini(&a);
	}
	return done();
}
