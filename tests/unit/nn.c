/* Neural network ops: shapes with symbols, what is refused and how, and fused ops against the plain
 * nodes that they expand into. */
#include "gg.h"
#include "tap.h"
#include "window.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define X "input %x : f32[N, 4, H, W]\n"
#define W3 "input %w : f32[8, 4, 3, 3]\n"

/* The shape of %y, or the message that ends its line. */
static const struct row {
	const char *body, *want;
} rows[] = {
    {X W3 "%y = Conv(%x, %w) {pads=[1, 1, 1, 1]}\n", "[N,8,H,W]"},
    {X W3 "%y = Conv(%x, %w) {pads=[1, 1, 1, 1], strides=[2, 2]}\n", "[N,8,(H+1)/2,(W+1)/2]"},
    {X W3 "%y = Conv(%x, %w) {dilations=[1, 2]}\n", "[N,8,H-2,W-4]"},
    {X W3 "%y = Conv(%x, %w) {auto_pad=\"SAME_UPPER\", strides=[2, 1]}\n", "[N,8,(H+1)/2,W]"},
    {"input %x : f32[*]\n" W3 "%y = Conv(%x, %w)\n", "[?y.0,8,?y.2,?y.3]"},
    {X "input %w : f32[*]\n%y = Conv(%x, %w) {kernel_shape=[1, 1]}\n", "[N,?y.1,H,W]"},
    {"input %x : f32[*]\ninput %w : f32[*]\n%y = Conv(%x, %w)\n", "[*]"},
    {"input %x : f32[N, C]\ninput %w : f32[6, C]\n%y = Conv(%x, %w)\n", "[N,6]"},
    {X "input %w : f32[4, 5, 2, 2]\n%y = ConvTranspose(%x, %w) {strides=[2, 2]}\n", "[N,5,2*H,2*W]"},
    {X "input %w : f32[4, 2, 3, 3]\n%y = ConvTranspose(%x, %w) {group=2, auto_pad=\"SAME_LOWER\", "
       "strides=[1, 3]}\n",
     "[N,4,H,3*W]"},
    {X "input %w : f32[4, 1, 3, 3]\n%y = ConvTranspose(%x, %w) {output_shape=[9, 7]}\n", "[N,1,9,7]"},
    {X "%y = MaxPool(%x) {kernel_shape=[2, 2], strides=[2, 2]}\n", "[N,4,H/2,W/2]"},
    {X "%y = AveragePool(%x) {kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1}\n", "[N,4,(H+1)/2,(W+1)/2]"},
    {"input %x : f32[*]\n%y = MaxPool(%x) {kernel_shape=[2, 2]}\n", "[*]"},
    {X "%y = GlobalAveragePool(%x)\n", "[N,4,1,1]"},
    {X "%y = DepthToSpace(%x) {blocksize=2}\n", "[N,1,2*H,2*W]"},
    {X "%y = SpaceToDepth(%x) {blocksize=2}\n", "[N,16,H/2,W/2]"},
    {X "const %s : f32[4] = [1, 1, 2, 0.5]\n%y = Resize(%x, _, %s)\n", "[N,4,2*H,W/2]"},
    {X "const %s : f32[2] = [1.5, 3]\n%y = Resize(%x, _, %s) {axes=[2, 3]}\n", "[N,4,(3*H)/2,3*W]"},
    {X "input %s : i64[2]\n%y = Resize(%x, _, _, %s) {axes=[-1, -2]}\n", "[N,4,?y.2,?y.3]"},
    {X "input %z : f32[1, 1, A, B]\n%s = Shape(%z) {start=2}\n%y = Resize(%x, _, _, %s) {axes=[2, 3]}\n",
     "[N,4,A,B]"},
    {"input %x : f32[T, N, 3]\ninput %w : f32[2, 20, 3]\ninput %r : f32[2, 20, 5]\n"
     "%y = LSTM(%x, %w, %r) {direction=\"bidirectional\", hidden_size=5}\n",
     "[T,2,N,5]"},
    {"input %x : f32[N, T, 3]\ninput %w : f32[1, 15, 3]\ninput %r : f32[1, 15, 5]\n"
     "%q, %y = GRU(%x, %w, %r) {layout=1, hidden_size=5}\n",
     "[N,1,5]"},
    {"input %x : f32[N, S, 8]\ninput %g : f32[8]\n%a, %y = LayerNormalization(%x, %g)\n", "[N,S,1]"},
    {"input %x : f32[N, C, D]\ninput %t : i64[N, D]\n%y = NegativeLogLikelihoodLoss(%x, %t)\n", "[]"},
    {"input %x : f32[N, C, H, W]\ninput %g : f32[N, A, B, 2]\n%y = GridSample(%x, %g)\n", "[N,C,A,B]"},
    /* refused */
    {X "input %w : f32[8, 4, 3]\n%y = Conv(%x, %w)\n", "weight has rank 3, expected 4"},
    {X "input %w : f32[8, 3, 1, 1]\n%y = Conv(%x, %w)\n",
     "input has 4 channels, the weight and group 1 expect 3"},
    {X "input %w : f32[9, 2, 1, 1]\n%y = Conv(%x, %w) {group=2}\n",
     "weight has 9 in axis 0, not a multiple of group 2"},
    {X W3 "%y = Conv(%x, %w) {strides=[0, 1]}\n", "attribute 'strides' has element 0, expected 1 to 4194304"},
    {X W3 "%y = Conv(%x, %w) {pads=[1, 1]}\n", "attribute 'pads' has 2 elements, expected 4"},
    {X W3 "%y = Conv(%x, %w) {auto_pad=\"SAME\"}\n",
     "attribute 'auto_pad' is 'SAME', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"},
    {X W3 "%y = Conv(%x, %w) {auto_pad=\"VALID\", pads=[0, 1, 0, 0]}\n",
     "attribute 'pads' cannot be given together with auto_pad 'VALID'"},
    {X W3 "%y = Conv(%x, %w) {kernel_shape=[3, 2]}\n",
     "attribute 'kernel_shape' says 2 on axis 3, the weight has 3"},
    {X W3 "input %b : f32[7]\n%y = Conv(%x, %w, %b)\n", "bias has 7 elements, expected 8"},
    {"input %x : f32[1, 4, 2, 2]\ninput %w : f32[8, 4, 5, 5]\n%y = Conv(%x, %w)\n",
     "window of axis 2 spans 5, the padded input has 2"},
    {"input %x : f32[1, 4, 5, 2]\n%y = MaxPool(%x) {kernel_shape=[3, 3], strides=[2, 2]}\n",
     "window of axis 3 spans 3, the padded input has 2"},
    {"input %x : f32[1, 4, 2, 0]\n%y = MaxPool(%x) {kernel_shape=[2, 3], strides=[2, 2]}\n", "[1,4,1,0]"},
    {"input %x : f32[1, 4, 2, 2]\ninput %w : f32[4, 1, 1, 1]\n%y = ConvTranspose(%x, %w) {pads=[2, 0, 1, "
     "0]}\n",
     "pads cut more from axis 2 than the result has"},
    {X "%y, %i = MaxPool(%x) {kernel_shape=[2, 2], storage_order=2}\n",
     "attribute 'storage_order' is 2, expected 0 or 1"},
    {X "input %c : f32[4]\n%y, %m, %v = BatchNormalization(%x, %c, %c, %c, %c)\n",
     "has output 1, which exists in training mode only"},
    {X "input %c : f32[4]\n%y = GroupNormalization(%x, %c, %c) {num_groups=3}\n",
     "input has 4 channels, not a multiple of num_groups 3"},
    {X "input %g : f32[7]\ninput %z : f32[2, 3, 5]\n%y = LayerNormalization(%z, %g)\n",
     "scale has shape [7], which cannot be broadcast to [2,3,5]"},
    {"input %x : f32[1, 6, 2, 2]\n%y = DepthToSpace(%x) {blocksize=2}\n",
     "axis 1 has 6 elements, not a multiple of 4"},
    {X "const %s : f32[4] = [1, 1, 2, 0]\n%y = Resize(%x, _, %s)\n", "scale 0 of axis 3 is out of range"},
    {X "%y = Resize(%x)\n", "has neither scales nor sizes"},
    {X "const %s : f32[4] = [1, 1, 2, 2]\n%y = Resize(%x, _, %s) {mode=\"lanczos\"}\n", "mode 'lanczos'"},
    {"input %x : f32[T, N, 3]\ninput %w : f32[1, 16, 3]\ninput %r : f32[1, 20, 5]\n"
     "%y = LSTM(%x, %w, %r) {hidden_size=5}\n",
     "weight has shape [1,16,3], expected [1,20,3]"},
    {"input %x : f32[T, N, 3]\ninput %w : f32[1, 5, 3]\ninput %r : f32[1, 5, 5]\n"
     "%y = RNN(%x, %w, %r) {activations=[\"Cosine\"]}\n",
     "activation 'Cosine'"},
    {X W3 "%y = FusedConv(%x, %w) {activation=\"Clip\"}\n",
     "attribute 'activation_params' has 0 elements, 'Clip' takes 2"},
};

static gg_model *parse(gg_arena *a, gg_diag *d, const char *body, const char *end)
{
	gg_model *m = NULL;
	char *text = gg_printf(a, "graph\n%s%s", body, end);
	gg_source s = {.name = "row", .p = text, .len = strlen(text)};
	return gg_read_text(d, &s, &m) == 1 ? m : NULL;
}

/* stderr while the graph is read. */
static const char *message(gg_arena *a, const char *body)
{
	gg_diag d = {.tool = "nn"};
	FILE *file = tmpfile();
	int old = dup(2);
	char *line = gg_alloc(a, 1024);
	fflush(stderr);
	dup2(fileno(file), 2);
	gg_model_free(parse(a, &d, body, "output %y\n"));
	fflush(stderr);
	dup2(old, 2);
	close(old);
	rewind(file);
	if (!fgets(line, 1024, file))
		strcpy(line, "no message");
	fclose(file);
	line[strcspn(line, "\n")] = 0;
	return line;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && !strcmp(s + n - k, end);
}

static void check_row(const struct row *r)
{
	gg_arena a = {0};
	gg_diag d = {.tool = "nn", .silent = true};
	gg_model *m = parse(&a, &d, r->body, "output %y\n");
	gg_value *y = m ? gg_find_value(m->main, "y") : NULL;
	const char *got = y ? gg_shape_str(&a, &y->shape) : message(&a, r->body);
	if (!ok(y ? !strcmp(got, r->want) : ends_with(got, r->want), "%s", r->want))
		printf("# got %s\n", got);
	gg_model_free(m);
	gg_arena_fini(&a);
}

/* ---- fused and plain ------------------------------------------------------------------------------ */
#define DATA(T) \
	"const %x : " T "[2, 4, 5, 3] = normal(1, 0, 1)\nconst %w : " T "[6, 2, 3, 2] = normal(2, 0, 1)\n" \
	"const %b : " T "[6] = normal(3, 0, 1)\nconst %z : " T "[2, 6, 5, 2] = normal(4, 0, 1)\n" \
	"const %s : " T "[4] = normal(5, 1, 1)\nconst %v : " T "[4] = uniform(6, 0.5, 2)\n"
#define CONV "group=2, pads=[1, 0, 1, 0]"

static const char *const fused[] = {
    "%y = FusedConv(%x, %w) {" CONV "}\n",
    "%y = FusedConv(%x, %w, %b) {" CONV ", activation=\"Relu\"}\n",
    "%y = FusedConv(%x, %w, _, %z) {" CONV ", activation=\"Sigmoid\"}\n",
    "%y = FusedConv(%x, %w, %b, %z) {" CONV ", activation=\"LeakyRelu\", activation_params=[0.3]}\n",
    "%y = FusedConv(%x, %w, %b, %z) {" CONV ", activation=\"Clip\", activation_params=[-0.3, 0.7]}\n",
    "%y = FusedConv(%x, %w, %b, %z) {" CONV ", activation=\"HardSigmoid\", activation_params=[0.3, 0.4]}\n",
    "%y = FusedConv(%x, %w, %b, %z) {" CONV ", activation=\"HardSwish\"}\n",
    "%y = FusedConv(%x, %w, %b, %z) {" CONV ", activation=\"Tanh\"}\n",
    "%y = BatchNormRelu(%x, %s, %s, %s, %v) {epsilon=0.125}\n",
    "%y, %m, %n = BatchNormRelu(%x, %s, %s, %s, %v) {training_mode=1, momentum=0.75}\n",
};

static bool run(gg_model *m, gg_tensor *out)
{
	gg_diag d = {.tool = "nn"};
	gg_exec_options o = {.threads = 1};
	gg_exec *x = gg_exec_new(&d, m, &o);
	gg_tensor y[3];
	bool good = x && gg_exec_run(x, NULL, y);
	for (size_t i = 0; good && i < m->main->nout; i++) {
		out[i] = y[i];
		out[i].data = memcpy(gg_xaligned(gg_nbytes(&y[i])), y[i].data, gg_nbytes(&y[i]));
	}
	if (x)
		gg_exec_free(x);
	return good;
}

static void check_fused(const char *type, const char *data, const char *node)
{
	gg_arena a = {0};
	gg_diag d = {.tool = "nn"};
	gg_tensor before[3] = {0}, after[3] = {0};
	const char *outs = strstr(node, "%n") ? "output %y\noutput %m\noutput %n\n" : "output %y\n";
	gg_model *m = parse(&a, &d, gg_printf(&a, "%s%s", data, node), outs);
	bool good = m && run(m, before);
	if (m) {
		gg_node *n = m->main->last;
		bool expanded = n->op->expand && n->op->expand(&d, n) && gg_check(&d, m);
		for (n = m->main->first; n; n = n->next)
			expanded = expanded && !n->op->expand;
		good = good && expanded && run(m, after);
	}
	for (size_t i = 0; good && i < m->main->nout; i++)
		good = gg_shape_eq(&before[i].shape, &after[i].shape) &&
		       !memcmp(before[i].data, after[i].data, gg_nbytes(&after[i]));
	ok(good, "%s: expanded, the same bits: %.*s", type, (int)strcspn(node, "\n"), node);
	for (int i = 0; i < 3; i++) {
		free(before[i].data);
		free(after[i].data);
	}
	gg_model_free(m);
	gg_arena_fini(&a);
}

int main(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		check_row(&rows[i]);
	for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
		check_fused("f32", DATA("f32"), fused[i]);
		check_fused("f16", DATA("f16"), fused[i]);
		check_fused("bf16", DATA("bf16"), fused[i]);
	}
	return done();
}
