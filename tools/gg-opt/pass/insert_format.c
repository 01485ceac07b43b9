#include "../pass.h"

/* Needs the choices of gg-select; does nothing before them.
 * Breaks nothing: values read in several layouts get one conversion for each. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	if (g != p->m->main || !p->m->target || *p->left == 0)
		return true; /* the library visits the bodies itself */
	uint32_t before = p->m->next_id;
	if (!gg_insert_formats(p->d, p->m))
		return false;
	if (p->m->next_id != before)
		gg_apply(p, 0);
	return true;
}

const gg_pass gg_pass_insert_format = {
    .name = "insert_format",
    .help = "add a Reorder wherever a kernel needs another layout than its input has",
    .explain =
        "k(v) where the kernel of k takes layout l and v lies in another => k(Reorder(v))\n"
        "One conversion for each value and layout, however many read it; none where both layouts are the\n"
        "same bytes: C is 1, or every spatial dim is 1 (a batch of 1 says nothing). A weight that is read\n"
        "in two layouts is converted for the reader that differs and stays what it is for the others.\n"
        "Outputs and states keep the layout declared. Counts as one rewrite.",
    .pipeline = "hardware:60",
    .exact = true,
    .run = run,
};
