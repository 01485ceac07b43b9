/* Ops that can as well be computed on tensors with their axes in another order. */
#ifndef GG_OPT_CARRY_H
#define GG_OPT_CARRY_H

#include "pass/perm.h"

/* Whether n can be computed with its tensors transposed by `to`; *in gets a bit for each input that
 * is transposed with it. Outputs of rank to->n are transposed too; others keep their order. */
bool gg_carries(const gg_node *n, const perm *to, uint64_t *in);
/* Maps n's axes and replaces its small constant operands by transposed ones, before the inputs that
 * *in names are; a product's may change places. False: reported. */
bool gg_carry(gg_pass_run *p, gg_node *n, const perm *to, uint64_t *in);

#endif
