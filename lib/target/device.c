/* Devices by name: "cuda", "cuda:sm_90", or a file that describes one, as gg-run --describe-device prints it
 * (lib/target/h200.json is one). */
#include "../target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ARCH = 90, DEFAULT_PROCESSORS = 132 };

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

static bool read_file(gg_diag *d, const char *path, gg_device_kind *out)
{
	char text[16384];
	int64_t version, processors;
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return gg_error(d, GG_USAGE,
		                "target 'cuda:%s': neither sm_NN nor a file that describes a device: %s",
		                path, strerror(errno));
	n = fread(text, 1, sizeof text - 1, f);
	text[n] = 0;
	fclose(f);
	if (!read_number(text, "\"deviceVer\"", &version) ||
	    !read_number(text, "\"multiProcessorCount\"", &processors) || version < 300 || version > 9999 ||
	    processors < 1 || processors > 4096)
		return gg_error(
		    d, GG_MALFORMED,
		    "%s: it does not describe a device: deviceVer and multiProcessorCount are wanted", path);
	out->arch = (int)version / 10;
	out->processors = (int)processors;
	return true;
}

bool gg_target_device(gg_diag *d, const char *target, gg_device_kind *out)
{
	const char *colon = target ? strchr(target, ':') : NULL;
	char *end;

	*out = (gg_device_kind){.arch = DEFAULT_ARCH, .processors = DEFAULT_PROCESSORS};
	if (!colon)
		return true;
	if (strncmp(colon + 1, "sm_", 3))
		return read_file(d, colon + 1, out);
	out->arch = (int)strtol(colon + 4, &end, 10);
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
