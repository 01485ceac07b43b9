#include "tensor.h"
#include "tap.h"
#include <string.h>

/* The text is read, its canonical form compared, and that read again to the same dim. */
static void same(const char *text, const char *want)
{
	gg_dim d = 0, e = 0;
	bool good = gg_dim_parse(text, &d) && !strcmp(gg_dim_str(d), want);
	good = good && gg_dim_parse(want, &e) && d == e;
	ok(good, "%s is %s", text, want);
	if (!good)
		printf("# got %s\n", gg_dim_str(d));
}

static void refused(const char *text)
{
	gg_dim d;
	ok(!gg_dim_parse(text, &d), "refused: %.40s", text);
}

static int64_t bound(const char *text, int64_t n, int64_t m)
{
	gg_binding b[] = {{gg_intern("N"), n}, {gg_intern("M"), m}};
	gg_dim d = 0;
	gg_dim_parse(text, &d);
	return gg_dim_bind(d, b, 2);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whatever was simplified must still count the same. */
static void values(void)
{
	int bad = 0;
	for (int64_t n = 1; n < 40; n++) {
		for (int64_t m = 1; m < 12; m++) {
			bad += bound("(N+3)/4", n, m) != floor_div(n + 3, 4);
			bad += bound("((N-1)/2-1)/3+M", n, m) != floor_div(floor_div(n - 1, 2) - 1, 3) + m;
			bad += bound("(6*N+9)/12", n, m) != floor_div(6 * n + 9, 12);
			bad += bound("(N*M+N+5)/M", n, m) != floor_div(n * m + n + 5, m);
			bad += bound("(5-3*N)/6", n, m) != floor_div(5 - 3 * n, 6);
			bad += bound("max(N,max(M,3))", n, m) != larger(n, larger(m, 3));
			bad += bound("min(N-M,2*(M/2))", n, m) != -larger(m - n, -2 * floor_div(m, 2));
			bad += bound("(N*N-M*M)/(N+M)", n, m) != n - m;
		}
	}
	ok(bad == 0, "simplified expressions count the same");
}

static void count_symbol(const char *sym, void *arg) { *(int *)arg += sym[0] == 'N'; }

int main(void)
{
	same("1+N*2", "2*N+1");
	same("N-N+3", "3");
	same("M*N*2+N-1", "2*M*N+N-1");
	same("(H-1)/2+1", "(H+1)/2");
	same("(((H-1)/2+1)-1)/2+1", "(H+3)/4");
	same("N*768/N", "768");
	same("2*(N/3)", "2*(N/3)");
	same("2*N/3", "(2*N)/3");
	same("(4*N+6)/4", "N+1");
	same("(N*M+N)/(M+1)", "N");
	same("(N+7)/N", "7/N+1");
	same("(N+M)*(N-M)", "-M*M+N*N");
	same("max(N,1)", "max(1,N)");
	same("max(N+1,N)", "N+1");
	same("max(max(N,M),N)", "max(M,N)");
	same("min(N,0)", "0");
	same("'odd name'*2", "2*'odd name'");
	same("'it\\'s\\x0a'", "'it\\'s\\x0a'");
	same("-(N/3)", "-(N/3)");
	same("max", "max");
	same("-1", "-1");
	same("?nz.3 + 0", "?nz.3");
	ok(gg_dim_ceildiv(gg_dim_sym("N"), 4) == gg_dim_div(gg_dim_add(gg_dim_sym("N"), 3), 4), "ceil-div");
	ok(gg_dim_sub(3, 5) == -2 && gg_dim_div(-1, 2) == -1 && gg_dim_mul(-1, -1) == 1,
	   "small negative numbers");
	gg_dim quoted = gg_dim_sym("batch-size?");
	gg_binding five = {gg_intern("batch-size?"), 5};
	ok(!strcmp(gg_dim_symbol(quoted), "batch-size?") && !gg_dim_symbol(gg_dim_add(quoted, 1)) &&
	       gg_dim_bind(gg_dim_mul(quoted, 2), &five, 1) == 10,
	   "a symbol is its name, the text has quotes");
	ok(gg_dim_natural(quoted) && !gg_dim_natural(gg_dim_sub(quoted, 1)) &&
	       gg_dim_natural(gg_dim_max(0, gg_dim_sub(quoted, 1))) && !gg_dim_natural(-1) &&
	       gg_dim_natural(0),
	   "what is never negative");
	ok(!gg_dim_from_data(quoted) && gg_dim_from_data(gg_dim_add(gg_dim_sym("?n"), quoted)) &&
	       !gg_dim_from_data(7),
	   "what hangs on data");
	ok(gg_dim_is_symbol(gg_dim_sym("N")) && !gg_dim_is_symbol(gg_dim_add(gg_dim_sym("N"), 1)), "symbols");
	values();

	int n = 0;
	gg_dim d;
	gg_dim_parse("N*M + max(N,3)/2", &d);
	gg_dim_symbols(d, count_symbol, &n);
	ok(n == 2, "every symbol is seen");

	refused("");
	refused("N+");
	refused("N N");
	refused("N/0");
	refused("(N");
	refused("max(N)");
	refused("''");
	refused("99999999999999999999");
	refused("N*9000000000000000000*9");
	refused("1-9000000000000000000");
	char deep[600];
	memset(deep, '(', sizeof deep - 1);
	deep[sizeof deep - 1] = 0;
	refused(deep);
	char wide[1000] = "(a+b+c+d)";
	for (int i = 0; i < 20; i++)
		strcat(wide, "*(a+b+c+d)");
	refused(wide);
	return done();
}
