/* Devices by name: "cuda", "cuda:sm_90", or a file that describes one, as gg-run --describe-device prints it
 * (lib/target/h200.json is one). */
#include "../pack.h"
#include "../target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ARCH = 90, DEFAULT_PROCESSORS = 132, LONGEST = 16384 };
static const char default_text[] =
#include "h200.inc"
    ;

static bool read_number(const char *text, const char *key, int64_t *out)
{
	const char *at = strstr(text, key);
	char *end;

	if (!at)
		return false;
	at += strlen(key);
	at += strspn(at, " \t\r\n:");
	*out = strtoll(at, &end, 10);
	return end != at;
}

static bool read_text(gg_diag *d, const char *what, const char *text, gg_device_kind *out)
{
	int64_t version, processors;

	if (!read_number(text, "\"deviceVer\"", &version) ||
	    !read_number(text, "\"multiProcessorCount\"", &processors) || version < 300 || version > 9999 ||
	    processors < 1 || processors > 4096)
		return gg_error(
		    d, GG_MALFORMED,
		    "%s: it does not describe a device: deviceVer and multiProcessorCount are wanted", what);
	*out = (gg_device_kind){(int)version / 10, (int)processors, gg_intern(text)};
	return true;
}

static bool read_file(gg_diag *d, const char *path, gg_device_kind *out)
{
	char text[LONGEST];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return gg_error(d, GG_USAGE,
		                "target 'cuda:%s': neither sm_NN nor a file that describes a device: %s",
		                path, strerror(errno));
	n = fread(text, 1, sizeof text - 1, f);
	while (n && strchr(" \t\r\n", text[n - 1]))
		n--;
	text[n] = 0;
	fclose(f);
	return read_text(d, path, text, out);
}

bool gg_target_device(gg_diag *d, const char *target, gg_device_kind *out)
{
	const char *colon = target ? strchr(target, ':') : NULL;
	char *end;

	*out = (gg_device_kind){DEFAULT_ARCH, DEFAULT_PROCESSORS, default_text};
	if (!colon)
		return true;
	if (strncmp(colon + 1, "sm_", 3))
		return read_file(d, colon + 1, out);
	out->arch = (int)strtol(colon + 4, &end, 10);
	out->text = out->arch == DEFAULT_ARCH ? default_text : NULL;
	return (!*end && out->arch >= 30 && out->arch < 1000) ||
	       gg_error(d, GG_USAGE, "target '%s': 'sm_' is followed by a number", target);
}

const char *gg_target_name(gg_diag *d, const char *target)
{
	const gg_target *t = gg_target_find(target);
	gg_device_kind k;
	char name[64];

	if (!t || !strchr(target, ':'))
		return gg_intern(target);
	if (!t->device) {
		gg_error(d, GG_USAGE, "target '%s' has no kinds: '%s'", t->name, target);
		return NULL;
	}
	if (!gg_target_device(d, target, &k))
		return NULL;
	snprintf(name, sizeof name, "%s:sm_%d", t->name, k.arch);
	return gg_intern(name);
}

/* A key of the header, since names of files do not go into a stream. */
static gg_extra **find_text(gg_model *m)
{
	gg_extra **at = &m->extra;

	while (*at && strcmp((*at)->key, "device"))
		at = &(*at)->next;
	return at;
}

bool gg_target_describe(gg_diag *d, gg_model *m, const char *target)
{
	const char *colon = target ? strchr(target, ':') : NULL;
	gg_extra **at = find_text(m), *x;
	gg_buf b = {0};
	gg_writer w;
	gg_device_kind k;

	if (*at)
		*at = (*at)->next;
	if (!colon || !strncmp(colon + 1, "sm_", 3))
		return true;
	if (!gg_target_device(d, target, &k))
		return false;
	if (!strcmp(k.text, default_text))
		return true;
	gg_writer_init(&w, &b);
	gg_put_str(&w, k.text);
	x = gg_alloc(&m->arena, sizeof *x);
	*x = (gg_extra){.key = gg_intern("device"), .bytes = gg_alloc(&m->arena, b.len), .len = b.len};
	memcpy((void *)(uintptr_t)x->bytes, b.p, b.len);
	gg_buf_fini(&b);
	x->next = *at;
	*at = x;
	return true;
}

bool gg_model_device(gg_diag *d, gg_model *m, gg_device_kind *out)
{
	const gg_extra *x = *find_text(m);
	gg_reader r = {.d = d};
	char text[LONGEST];
	const char *s;
	size_t n;

	if (!x)
		return gg_target_device(d, m->target, out);
	r.start = r.p = x->bytes;
	r.end = (const char *)x->bytes + x->len;
	s = gg_take_str(&r, "device", &n);
	if (r.failed || n >= sizeof text)
		return r.failed ? false : gg_error(d, GG_MALFORMED, "the graph's device: %zu bytes", n);
	memcpy(text, s, n);
	text[n] = 0;
	return read_text(d, "the graph's device", text, out);
}
