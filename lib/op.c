/* The table of ops, made from the folder op/ by the Makefile. */
#include "op.h"
#include "stream.h"
#include <string.h>

#define X(NAME) extern const gg_op gg_op_##NAME;
#include "ops.inc"
#undef X

static const gg_op *const table[] = {
#define X(NAME) &gg_op_##NAME,
#include "ops.inc"
#undef X
};
#define NOPS (sizeof table / sizeof *table)

const gg_op *const *gg_op_list(size_t *n)
{
	*n = NOPS;
	return table;
}

const gg_op *gg_op_find(const char *name)
{
	static gg_map map;
	if (!map.n)
		for (size_t i = 0; i < NOPS; i++)
			gg_map_puts(&map, table[i]->name, (void *)table[i]);
	return gg_map_gets(&map, name);
}

int gg_op_row(const gg_op *op, const gg_op **ops, const void *rows, size_t n, size_t size)
{
	for (size_t i = 0; !ops[n - 1] && i < n; i++) {
		const char *name = *(const char *const *)((const char *)rows + i * size);
		if (!(ops[i] = gg_op_find(name)))
			gg_bug("a table names an op '%s'", name);
	}
	for (size_t i = 0; i < n; i++)
		if (ops[i] == op)
			return (int)i;
	return -1;
}

uint32_t gg_node_flags(const gg_node *n)
{
	uint32_t flags = n->op->flags;
	gg_graph *b;
	for (int i = 0; (b = gg_body(n, i)); i++)
		for (const gg_node *k = b->first; k; k = k->next)
			flags |= gg_node_flags(k) & (GG_RANDOM | GG_EFFECT);
	return flags;
}

bool gg_op_moves(const gg_op *op) { return op->flags & (GG_MOVES | GG_VIEW); }

/* Edits that turn a into b, ignoring case; two letters that changed places are one. Names are short. */
int gg_word_distance(const char *a, const char *b)
{
	enum { MAX = 64 };
	int rows[3][MAX + 1], *old = rows[0], *last = rows[1], *row = rows[2];
	size_t na = strlen(a), nb = strlen(b);
	if (na > MAX || nb > MAX)
		return MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (int)j;
	for (size_t i = 1; i <= na; i++) {
		int *free = old;
		old = last;
		last = row;
		row = free;
		row[0] = (int)i;
		for (size_t j = 1; j <= nb; j++) {
			char x = a[i - 1] | 32, y = b[j - 1] | 32;
			int best = last[j - 1] + (x != y);
			best = last[j] + 1 < best ? last[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && x == (b[j - 2] | 32) && y == (a[i - 2] | 32) &&
			    old[j - 2] + 1 < best)
				best = old[j - 2] + 1;
			row[j] = best;
		}
	}
	return row[nb];
}

int gg_word_near(const char *word)
{
	size_t n = strlen(word);
	return n < 4 ? 1 : n < 7 ? 2 : 3;
}

const char *gg_op_nearest(const char *name)
{
	const char *best = 0;
	int least = gg_word_near(name) + 1;
	for (size_t i = 0; i < NOPS; i++) {
		int k = gg_word_distance(name, table[i]->name);
		if (k < least) {
			least = k;
			best = table[i]->name;
		}
	}
	return best;
}

const gg_attr_spec *gg_op_attr(const gg_op *op, const char *name)
{
	for (const gg_attr_spec *s = op->attrs; s && s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return 0;
}

const gg_attr *gg_op_default(const gg_op *op, const char *name)
{
	static gg_map parsed;
	static gg_arena arena;
	const gg_attr_spec *s = gg_op_attr(op, name);
	if (!s || !s->def)
		return 0;
	gg_attr *a = gg_map_get(&parsed, (uint64_t)(uintptr_t)s);
	if (a)
		return a;
	gg_diag d = {.tool = op->name, .where = name};
	a = gg_alloc(&arena, sizeof *a);
	if (!gg_parse_attr(&d, &arena, s->def, s->type, a))
		gg_bug("default of attribute '%s' of %s does not parse: %s", name, op->name, s->def);
	a->name = gg_intern(name);
	gg_map_put(&parsed, (uint64_t)(uintptr_t)s, a);
	return a;
}
