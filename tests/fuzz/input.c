/* A fuzz target: any bytes as a tool's input (stream, JSON or text, as sniffed). What is refused
 * must be reported; what is read must be good for all that a tool does with it: inference, every
 * form of output, and a stream that reads back to the same bytes.
 *
 *     make fuzz */
#include "../../lib/pack.h"
#include "../../lib/gg.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static gg_diag d;

/* The sum would stop nearly every change to a stream, so it is not looked at. */
static gg_model *parse(const char *p, size_t n)
{
	gg_model *m = 0;
	d = (gg_diag){.tool = "fuzz", .silent = true};
	if (n && (unsigned char)*p == 0x92) {
		gg_reader r = {.d = &d, .start = p, .p = p, .end = p + n};
		gg_load(&r, true, &m);
	} else {
		gg_source s = {.name = "<fuzz>", .p = p, .len = n};
		if (gg_read(&d, &s, &m) == 0 && !m)
			return 0; /* nothing in it */
	}
	if (!m && !d.errors)
		gg_bug("an input is refused without a message");
	return m;
}

static void same_stream(const gg_buf *want, gg_model *m)
{
	gg_buf b = {0};
	if (!m || !gg_write(&d, &b, m) || b.len != want->len || memcmp(b.p, want->p, b.len))
		gg_bug("a graph does not come back as it was");
	gg_buf_fini(&b);
	gg_model_free(m);
}

/* Inference may look at the contents of a constant; to have no memory for them is no fault. */
static bool is_small(const gg_graph *g)
{
	for (const gg_value *v = g->consts; v; v = v->next_const)
		if (gg_shape_count(&v->shape) > 1 << 16)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const gg_text_options whole = {.elide = -1};
	gg_model *m = parse((const char *)p, n);
	gg_buf b = {0}, json = {0}, text = {0};
	if (!m)
		return 0;
	if (!gg_write(&d, &b, m))
		gg_bug("a graph that was read cannot be written");
	same_stream(&b, parse(b.p, b.len));
	if (gg_write_json(&d, &json, m))
		same_stream(&b, parse(json.p, json.len));
	if (gg_write_text(&d, &text, m, &whole))
		gg_model_free(parse(text.p, text.len));
	if (is_small(m->main))
		gg_infer_graph(&d, m->main);
	gg_buf_fini(&b);
	gg_buf_fini(&json);
	gg_buf_fini(&text);
	gg_model_free(m);
	return 0;
}
