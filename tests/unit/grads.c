/* Which ops have a gradient. One that has floats on both sides either has a rule, or becomes plain ops,
 * or stands below. With an argument: the ops that have a rule, one a line, for tests/grad.sh. */
#include "grad.h"
#include "tap.h"
#include <stdlib.h>

static const char *const none[] = {
    /* the business of optimisers, which nobody differentiates */
    "Adagrad",
    "Adam",
    "Momentum",
    /* floats as bits, as keys or as codes */
    "BitCast",
    "LabelEncoder",
    "Unique",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    /* tuples are undone by flatten_tuple, layouts are chosen later */
    "MakeTuple",
    "TupleGetItem",
    "Reorder",
};

static bool floats(const struct gg_slot_type *slot, int n)
{
	for (int i = 0; i < n; i++)
		if (slot[i].set & GG_FLOATS)
			return true;
	return false;
}

static bool listed(const char *name)
{
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		if (!strcmp(none[i], name))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	size_t n;
	const gg_op *const *op = gg_op_list(&n);
	for (size_t i = 0; i < n; i++) {
		const gg_op *o = op[i];
		bool can = floats(o->in, 12) && floats(o->out, 8) && !o->aliases;
		if (argc > 1 && o->grad)
			puts(o->name);
		if (argc > 1)
			continue;
		if (can)
			ok(o->grad || o->expand || listed(o->name), "%s has a gradient", o->name);
		if (listed(o->name))
			ok(!o->grad, "%s has none", o->name);
	}
	return argc > 1 ? 0 : done();
}
