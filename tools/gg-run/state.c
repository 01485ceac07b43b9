/* State: what it was when a run stopped, and where in the data that was. */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the position: the steps done, as the header's key "run" --------------------------------- */
static gg_extra *find_extra(const gg_model *m, const char *key)
{
	for (gg_extra *x = m->extra; x; x = x->next)
		if (!strcmp(x->key, key))
			return x;
	return NULL;
}

bool read_position(job *j, const gg_model *m)
{
	const gg_extra *x = find_extra(m, "run");
	gg_buf b = {0};
	int64_t step;
	bool good = true;

	if (!x || !m->main->nstate)
		return true;
	good = gg_msgpack_to_json(&j->t->d, &b, x->bytes, x->len);
	if (good && (sscanf(b.p, "{\"step\":%" SCNd64 "}", &step) != 1 || step < 0))
		good = gg_error(&j->t->d, GG_MALFORMED, "the header's key 'run' holds no step: %s", b.p);
	if (good)
		j->first = step;
	gg_buf_fini(&b);
	return good;
}

static bool write_position(job *j, gg_model *m)
{
	gg_extra *x = find_extra(m, "run"), **tail = &m->extra;
	gg_buf text = {0}, b = {0};
	bool good;

	while (*tail)
		tail = &(*tail)->next;
	if (!x) {
		x = *tail = gg_alloc(&m->arena, sizeof *x);
		x->key = gg_intern("run");
	}
	gg_buf_printf(&text, "{\"step\":%lld}", (long long)j->done);
	good = gg_json_to_msgpack(&j->t->d, &b, text.p, text.len);
	x->len = b.len;
	x->bytes = memcpy(gg_alloc(&m->arena, b.len + 1), b.p, b.len);
	gg_buf_fini(&text);
	gg_buf_fini(&b);
	return good;
}

/* ---- from and to files ------------------------------------------------------------------------- */
/* State must be there; other parameters are taken where the file has them. */
bool load_state(job *j, gg_exec *x, gg_model *m)
{
	gg_model *from = gg_read_one(j->t, j->load_state);
	bool good = from != NULL;

	for (gg_value *to = m->main->consts; good && to; to = to->next_const) {
		gg_value *v = to->kind == GG_PARAM ? gg_find_value(from->main, to->name) : NULL;
		bool there = v && (v->kind == GG_PARAM || v->kind == GG_CONST), state = to->updated;
		gg_tensor t;
		if (!there && state)
			good = gg_error(&j->t->d, GG_MALFORMED, "%s: it has no state '%s'", j->load_state,
			                to->name);
		else if (there && (state || to->nuses))
			good = gg_value_tensor(&j->t->d, v, &t) && gg_exec_set_param(x, to, &t);
	}
	good = good && read_position(j, from);
	if (from)
		gg_model_free(from);
	return good;
}

static gg_data *pack(gg_model *m, const gg_tensor *t)
{
	int64_t n = gg_count(t);
	size_t bytes = gg_packed_bytes(t->dtype, n);
	uint8_t *p = gg_xcalloc(bytes + 1, 1);
	gg_data *data;

	if (gg_dtype_bits(t->dtype) == 4)
		for (int64_t i = 0; i < n; i++)
			p[i / 2] |= (uint8_t)((((const uint8_t *)t->data)[i] & 15) << i % 2 * 4);
	else if (bytes)
		memcpy(p, t->data, bytes);
	data = gg_data_inline(m, p, (int64_t)bytes);
	free(p);
	return data;
}

/* Writes a parameter into the graph as it came; one that is no state may have gone from there. */
static bool save_param(job *j, gg_model *m, gg_value *from, bool state)
{
	gg_value *to = gg_find_value(m->main, from->name);
	gg_tensor t;

	if (!to || to->kind != GG_PARAM)
		return !state ||
		       gg_error(&j->t->d, GG_MALFORMED, "the graph has no state '%s' to save to", from->name);
	if (!gg_exec_get_param(j->x, from, &t))
		return false;
	to->data = pack(m, &t);
	return true;
}

bool save_state(job *j)
{
	gg_model *m = read_again(j);
	gg_buf b = {0};
	bool good = m != NULL;

	if (!good)
		return false;
	if (j->prebuilt || !strcmp(m->stage, "select"))
		gg_forget_choices(m);
	for (gg_value *from = j->m->main->consts; good && from; from = from->next_const)
		if (from->updated)
			good = save_param(j, m, from, true);
		else if (from->kind == GG_PARAM && from->nuses && j->load_state)
			good = save_param(j, m, from, false);
	good = good && (!m->main->nstate || write_position(j, m)) && gg_write(&j->t->d, &b, m) &&
	       gg_write_file(&j->t->d, rank_path(j, j->save), b.p, b.len);
	gg_buf_fini(&b);
	gg_model_free(m);
	return good;
}

/* ---- aside ---------------------------------------------------------------------------------- */
bool keep_state(job *j, gg_tensor *s)
{
	for (size_t i = 0; i < j->m->main->nstate; i++) {
		gg_tensor t;
		size_t bytes;
		if (!gg_exec_get_param(j->x, j->m->main->state[i]->param, &t))
			return false;
		free(s[i].data);
		s[i] = t;
		bytes = gg_nbytes(&t);
		s[i].data = gg_xaligned(bytes);
		if (bytes)
			memcpy(s[i].data, t.data, bytes);
	}
	return true;
}

bool put_back(job *j, const gg_tensor *s)
{
	for (size_t i = 0; i < j->m->main->nstate; i++)
		if (!gg_exec_set_param(j->x, j->m->main->state[i]->param, &s[i]))
			return false;
	return true;
}

void drop_state(job *j, gg_tensor *s)
{
	for (size_t i = 0; i < j->m->main->nstate; i++)
		free(s[i].data);
	free(s);
}
