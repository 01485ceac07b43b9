#include "opkit.h"
#include <math.h>
#include <string.h>

/* Keys and values come as lists of one of three types, or as tensors. */
static const struct list {
	const char *keys, *values, *standard; /* the default's attribute */
	gg_dtype dtype;                       /* GG_NONE: the tensor's */
} lists[] = {
    {"keys_int64s", "values_int64s", "default_int64", GG_I64},
    {"keys_floats", "values_floats", "default_float", GG_F32},
    {"keys_strings", "values_strings", "default_string", GG_STRING},
    {"keys_tensor", "values_tensor", "default_tensor", GG_NONE},
};

/* A list as a tensor of rank 1 over the attribute's memory. */
static gg_tensor as_tensor(const gg_attr *a, gg_dtype t)
{
	if (a->type == GG_ATTR_TENSOR)
		return *a->tensor;
	return (gg_tensor){t, {1, {a->n}}, (void *)a->ints};
}

static const struct list *find(const gg_node *n, bool keys, gg_tensor *out, int *found)
{
	const struct list *row = 0;
	*found = 0;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		const gg_attr *a = gg_find_attr(n, keys ? lists[i].keys : lists[i].values);
		if (!a)
			continue;
		row = &lists[i];
		*out = as_tensor(a, row->dtype);
		++*found;
	}
	return row;
}

static bool infer(gg_infer *f)
{
	gg_tensor keys, values;
	int nkeys, nvalues;
	find(f->n, true, &keys, &nkeys);
	find(f->n, false, &values, &nvalues);
	if (nkeys != 1 || nvalues != 1)
		return gg_fail(f, "%d lists of keys and %d of values, expected one of each", nkeys, nvalues);
	if (gg_count(&keys) != gg_count(&values))
		return gg_fail(f, "%lld keys and %lld values", (long long)gg_count(&keys),
		               (long long)gg_count(&values));
	if (keys.dtype != f->in[0].dtype)
		return gg_fail(f, "input has dtype %s, the keys %s", gg_dtype_name(f->in[0].dtype),
		               gg_dtype_name(keys.dtype));
	const gg_attr *def = gg_find_attr(f->n, "default_tensor");
	if (def && (gg_count(def->tensor) != 1 || def->tensor->dtype != values.dtype))
		return gg_fail(f, "default_tensor is not one element of %s", gg_dtype_name(values.dtype));
	f->out[0].dtype = values.dtype;
	f->out[0].shape = f->in[0].shape;
	return true;
}

/* Equal keys, equal codes: -0 is 0, all NaN are one, strings are interned. */
static uint64_t code_of(const gg_tensor *t, int64_t i)
{
	uint64_t code;
	if (t->dtype == GG_STRING)
		return (uint64_t)(uintptr_t)gg_intern(((const char *const *)t->data)[i]);
	if (gg_dtype_class(t->dtype) != 'F')
		return (uint64_t)gg_get_i64(t, i);
	double x = gg_get_f64(t, i);
	x = isnan(x) ? (double)NAN : x == 0 ? 0 : x;
	memcpy(&code, &x, sizeof code);
	return code;
}

/* What unknown keys become: default_tensor, or the default of the values' type. */
static void standard(const gg_node *n, gg_tensor *one)
{
	const gg_attr *a = gg_find_attr(n, "default_tensor");
	char class = gg_dtype_class(one->dtype);
	if (a)
		memcpy(one->data, a->tensor->data, gg_dtype_size(one->dtype));
	else if (class == 'S')
		*(const char **)one->data = gg_intern(gg_get_string(n, "default_string"));
	else if (class == 'F')
		gg_set_f64(one, 0, gg_get_float(n, "default_float"));
	else
		gg_set_i64(one, 0, gg_get_int(n, "default_int64"));
}

static bool eval(gg_eval *e)
{
	gg_tensor keys, values, *out = &e->out[0];
	int ignored;
	gg_map map = {0};
	uint64_t raw;
	gg_tensor unknown = {out->dtype, {.rank = 0}, &raw};
	size_t size = gg_dtype_size(out->dtype);
	find(e->n, true, &keys, &ignored);
	find(e->n, false, &values, &ignored);
	standard(e->n, &unknown);
	for (int64_t i = 0; i < gg_count(&keys); i++)
		gg_map_put(&map, code_of(&keys, i), (char *)values.data + (size_t)i * size);
	for (int64_t i = 0; i < gg_count(out); i++) {
		void *v = gg_map_get(&map, code_of(&e->in[0], i));
		memcpy((char *)out->data + (size_t)i * size, v ? v : unknown.data, size);
	}
	gg_map_fini(&map);
	return true;
}

#define TYPES \
	(GG_DT(GG_F64) | GG_DT(GG_F32) | GG_DT(GG_I64) | GG_DT(GG_I32) | GG_DT(GG_I16) | GG_DT(GG_STRING))
const gg_op gg_op_LabelEncoder = {
    .name = "LabelEncoder",
    .domain = "ai.onnx.ml",
    .doc = "the value that belongs to each key",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"default_float", GG_ATTR_FLOAT, false, "-0.0"},
                                    {"default_int64", GG_ATTR_INT, false, "-1"},
                                    {"default_string", GG_ATTR_STRING, false, "\"_Unused\""},
                                    {"default_tensor", GG_ATTR_TENSOR, false, 0},
                                    {"keys_floats", GG_ATTR_FLOATS, false, 0},
                                    {"keys_int64s", GG_ATTR_INTS, false, 0},
                                    {"keys_strings", GG_ATTR_STRINGS, false, 0},
                                    {"keys_tensor", GG_ATTR_TENSOR, false, 0},
                                    {"values_floats", GG_ATTR_FLOATS, false, 0},
                                    {"values_int64s", GG_ATTR_INTS, false, 0},
                                    {"values_strings", GG_ATTR_STRINGS, false, 0},
                                    {"values_tensor", GG_ATTR_TENSOR, false, 0},
                                    {0}},
    .in = {{TYPES}},
    .out = {{TYPES}},
    .infer = infer,
    .eval = eval};
