/* What runs on which stream, and who waits for whom. */
#include "dump.h"

#include "../../lib/streams.h"
#include <stdlib.h>

bool gg_dump_streams(gg_diag *d, gg_buf *b, gg_model *m)
{
	gg_graph *g = m->main;
	gg_order o;
	const gg_node **last;

	if (!gg_order_for_target(d, g, &o))
		return false;
	last = gg_xcalloc((size_t)o.ncall + 2, sizeof *last);
	for (const gg_node *n = g->first; n; n = n->next) {
		uint32_t call = (uint32_t)n->mark;
		bool begins = o.ncall && !last[call];
		gg_buf_printf(b, "%d\t%s\t%s", o.ncall ? o.stream[call] : 0, gg_node_name(n), n->op->name);
		for (uint32_t i = o.ncall ? o.first[call] : 0; begins && i < o.first[call + 1]; i++)
			gg_buf_printf(b, "\twaits for %s", gg_node_name(last[o.wait[i]]));
		gg_buf_str(b, "\n");
		if (o.ncall)
			last[call] = n;
	}
	gg_buf_printf(b, "streams\t%d\nwaits\t%zu\n", o.ncall ? o.nstream : 1, o.nwait);
	free(last);
	gg_order_free(&o);
	return true;
}
