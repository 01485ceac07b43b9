/* A small program over registers of one tile each: what runs of pointwise nodes (pointwise.c) and bodies
 * of GraphKernel nodes (graph_kernel.c) become.
 *
 *     elements, by rows:   |── row ──|── row ──|── row ──| ...      tile = whole rows, or TILE elements
 *     narrow:              one       one       one
 *
 * An element is known by its number in the order of memory, so that views cost nothing. Each operand has
 * dims of its own, merged where it walks them alike: one that lies like the elements is read in place;
 * one that repeats is spread into a register, once per thread when every tile sees the same piece.
 * Steps work on the tile's elements or, narrow ones, on one number for each of its rows. */
#ifndef CPU_CHAIN_H
#define CPU_CHAIN_H

#include "cpu.h"
#include <stddef.h>

#define FN(f) offsetof(vec_table, f)

enum { CHAIN_HEAD = -2, CHAIN_DATA = -3 }; /* operand: what is in output 0 before; constant data */

typedef enum chain_kind { CHAIN_MAP, CHAIN_FOLD, CHAIN_REPEAT } chain_kind;
typedef float chain_fold_fn(int64_t n, const float *x);

/* row 0: there are no rows. */
cpu_chain *chain_new(int64_t total, int64_t row);
/* What lies at input `in` of the call with shape s, read for values of shape `out`. A register. */
int chain_operand(cpu_chain *k, int in, const float *data, const gg_shape *s, gg_layout l,
                  const gg_shape *out, gg_layout lout, bool narrow);
/* Each gives the register of its result. */
int chain_map(cpu_chain *k, size_t fn, int x, int y, const float *a, int na, bool narrow);
int chain_fold(cpu_chain *k, chain_fold_fn *f, int x); /* wide to narrow */
int chain_repeat(cpu_chain *k, int x);                 /* narrow to wide */
/* The register is output `out`. */
void chain_give(cpu_chain *k, int reg, int out, bool narrow);
void chain_finish(cpu_chain *k);
int chain_steps(const cpu_chain *k);

int64_t chain_tiles(const cpu_chain *k);
/* The most threads that are worth it, of one chain or several. */
int chain_threads(int64_t elements, int64_t tiles);
int64_t chain_elements(const cpu_chain *k);
/* Tiles a to b, for one thread. */
void chain_run(const cpu_chain *k, const gg_call *c, float *const *out, int64_t a, int64_t b);

#endif
