/* A small graph that holds one of everything the stream can carry. */
#ifndef EVERYTHING_H
#define EVERYTHING_H

#include "../../lib/gg.h"
#include <string.h>

__attribute__((unused)) static gg_extra *extra(gg_model *m, const char *key, const char *bytes, size_t len,
                                               gg_extra *next)
{
	gg_extra *x = gg_alloc(&m->arena, sizeof *x);
	*x = (gg_extra){.key = gg_intern(key), .bytes = bytes, .len = len, .next = next};
	return x;
}
#define EXTRA(m, key, bytes, next) extra(m, key, bytes, sizeof bytes - 1, next)

static gg_node *add(gg_graph *g, const char *op, int nin, gg_value *const *in, int nout,
                    const char *const *out)
{
	return gg_add_node(g, 0, gg_op_find(op), nin, in, nout, out);
}

static gg_value *add1(gg_graph *g, const char *op, int nin, gg_value *const *in, const char *out)
{
	gg_value *v = add(g, op, nin, in, 1, &out)->out[0];
	v->dtype = GG_F32;
	v->shape = gg_shape_of(1, (gg_dim[]){3});
	return v;
}

static gg_graph *relus(gg_model *m, const char *name, int n)
{
	gg_shape s = gg_shape_of(1, (gg_dim[]){3});
	gg_graph *b = gg_graph_new(m, name);
	gg_value *v = gg_add_input(b, "captured", GG_F32, &s);
	for (int i = 0; i < n; i++)
		v = add1(b, "Relu", 1, &v, i ? "r1" : "r0");
	gg_add_output(b, v);
	return b;
}

static void add_consts(gg_model *m, gg_graph *g)
{
	static const char *const strings[] = {"", "two words", "\xc3\xa9t\xc3\xa9"};
	static const unsigned char nibbles[] = {0x21, 0xf3};
	static const uint32_t floats[] = {0x7fc00001, 0xff800000,
	                                  0x80000000}; /* NaN with payload, -inf, -0 */
	gg_shape three = gg_shape_of(1, (gg_dim[]){3}), none = gg_shape_of(2, (gg_dim[]){0, 4}), scalar = {0};
	gg_add_const(g, GG_PARAM, "w", GG_F32, &three, gg_data_fill(m, GG_FILL_NORMAL, ~0ull, 0.1, 0.02));
	gg_add_const(g, GG_PARAM, "zeros", GG_F16, &three, gg_data_fill(m, GG_FILL_ZEROS, 0, 0, 0));
	gg_data *file = gg_data_fill(m, GG_FILL_ONES, 0, 0, 0);
	*file = (gg_data){.kind = GG_DATA_FILE,
	                  .file = "weights.bin",
	                  .off = 4096,
	                  .len = 12,
	                  .size = 1 << 20,
	                  .mtime = 1700000000123456789,
	                  .hash = "00ff"};
	file->extra = EXTRA(m, "note", "\xa2hi", 0);
	gg_add_const(g, GG_PARAM, "filed", GG_F32, &three, file);
	gg_add_const(g, GG_CONST, "nibbles", GG_I4, &three, gg_data_inline(m, nibbles, 2));
	gg_add_const(g, GG_CONST, "floats", GG_F32, &three, gg_data_inline(m, floats, 12));
	gg_add_const(g, GG_CONST, "empty", GG_F32, &none, gg_data_inline(m, "", 0));
	gg_add_const(g, GG_CONST, "scalar", GG_BOOL, &scalar, gg_data_inline(m, "\1", 1));
	gg_add_const(g, GG_CONST, "strings", GG_STRING, &three, gg_data_inline(m, strings, sizeof strings));
}

static gg_node *add_if(gg_model *m, gg_graph *g, gg_value *cond, gg_value *x, const char *out)
{
	gg_node *n = add(g, "If", 1, &cond, 1, &out);
	gg_set_attr_graph(n, "then_branch", gg_graph_new(m, "yes"));
	gg_set_attr_graph(n, "else_branch", gg_graph_new(m, 0));
	gg_add_capture(n, x);
	for (int i = 0; i < 2; i++) {
		gg_graph *b = gg_body(n, i);
		gg_shape s = gg_shape_of(1, (gg_dim[]){2});
		gg_value *v = b->in[0],
		         *c = gg_add_const(b, GG_CONST, "inner", GG_U8, &s, gg_data_inline(m, "ab", 2));
		v = add1(b, "Relu", 1, &v, "r");
		if (i) {
			gg_value *args[] = {
			    gg_add_tensor(b, "c", &(gg_tensor){.dtype = GG_BOOL, .data = "\1"})};
			gg_node *deep = add(b, "If", 1, args, 1, &(const char *){"deep"});
			gg_set_attr_graph(deep, "then_branch", relus(m, "a", 1));
			gg_set_attr_graph(deep, "else_branch", relus(m, "b", 2));
			/* The bodies have the capture's input already: only the slot is wanted. */
			gg_set_input(deep, 1, v);
			deep->ncap = 1;
			v = deep->out[0];
		}
		gg_add_output(b, v);
		(void)c;
		b->records = EXTRA(m, "mystery", "\x81\xa1x\xc3", 0);
		b->extra = EXTRA(m, "hint", "\xcb\x3f\xf0\0\0\0\0\0\0", 0);
	}
	return n;
}

__attribute__((unused)) static gg_model *everything(void)
{
	gg_model *m = gg_model_new("every 'thing'");
	gg_graph *g = m->main;
	gg_dim n = gg_dim_sym("N");
	gg_shape s = gg_shape_of(3, (gg_dim[]){n, gg_dim_add(gg_dim_mul(2, n), 1), 3});
	gg_shape scalar = {0};
	m->stage = "build";
	m->target = "cpu";
	m->base = "/a b";
	gg_model_history(m, "gg-parse", 2, (const char *[]){"0.1.0", "--bind=N=4"});
	m->extra = EXTRA(m, "meta", "\x81\xa1k\x01", 0);
	gg_value *x = gg_add_input(g, "x", GG_F32, &s), *cond = gg_add_input(g, "cond", GG_BOOL, &scalar);
	gg_add_input(g, "any", GG_NONE, &gg_shape_unknown);
	add_consts(m, g);
	gg_value *w = gg_find_value(g, "w");

	gg_value *r = add1(g, "Relu", 1, &x, "a/b:0");
	r->layout = GG_NHWC;
	r->mem_off = 64;
	r->mem_len = 12;
	r->extra = EXTRA(m, "cost", "\xca\x3f\x80\0\0", EXTRA(m, "tags", "\x92\xa1q\xc4\x01z", 0));
	gg_node *first = r->producer;
	first->kernel = "cpu_relu";
	first->stream = 2;
	first->extra = EXTRA(m, "why", "\xd4\x05!", 0);
	gg_set_loc(first, 3, (const char *[]){"m.onnx", "relu one", "relu two"});
	gg_value *sum = add1(g, "Add", 2, (gg_value *[]){r, r}, "sum");
	sum->alias = r;
	gg_add_after(sum->producer, first);
	gg_node *slice = add(g, "Slice", 5, (gg_value *[]){sum, cond, cond, 0, cond}, 1,
	                     &(const char *){"slice"});
	gg_node *unique = add(g, "Unique", 1, &slice->out[0], 3, (const char *[]){"u", 0, "u2"});
	gg_set_attr_int(unique, "axis", INT64_MIN);
	gg_node *eye = add(g, "EyeLike", 1, &r, 1, &(const char *){"eye"});
	gg_set_attr_dtype(eye, "dtype", GG_BF16);
	gg_set_attr_int(eye, "k", -3);
	static const signed char four[] = {7, -8, 1};
	gg_tensor t = {.dtype = GG_I4, .shape = gg_shape_of(1, (gg_dim[]){3}), .data = (void *)four};
	gg_set_attr(add(g, "ConstantOfShape", 1, &cond, 1, &(const char *){"full"}),
	            &(gg_attr){.name = "value", .type = GG_ATTR_TENSOR, .tensor = &t});
	gg_node *branch = add_if(m, g, cond, x, "branch");
	gg_value *next = add1(g, "Assign", 2, (gg_value *[]){w, sum}, "w.next");
	next->alias = w;
	gg_add_output(g, branch->out[0]);
	gg_add_output(g, unique->out[2]);
	gg_add_state(g, w, next);
	g->extra = EXTRA(m, "order", "\xc0", 0);
	char *bytes = gg_printf(&m->arena, "\x82\xa2id%c\xa4text\xa3yes", (char)first->id);
	m->records = extra(m, "remark", bytes, 14, EXTRA(m, "other", "\x80", 0));
	m->blobs = EXTRA(m, "plan",
	                 "\x81\xa5"
	                 "arena\xcd\x01\0",
	                 EXTRA(m, "blob",
	                       "\x81\xa5"
	                       "bytes\xc4\0",
	                       0));
	return m;
}

#endif
