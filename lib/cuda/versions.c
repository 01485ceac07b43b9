/* Which libraries made what a plan brings: a line of name and version each. A plan is told apart from the
 * libraries at hand by them; what an older one cannot use is made again, which is said once for each. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

static long nvrtc(void)
{
	int major = 0, minor = 0;
	return rtc.nvrtcVersion && !rtc.nvrtcVersion(&major, &minor) ? major * 10000 + minor * 100 : 0;
}

static long cudnn(void) { return dnn.cudnnGetVersion ? (long)dnn.cudnnGetVersion() : 0; }
static long cublas(void) { return lt.cublasLtGetVersion ? (long)lt.cublasLtGetVersion() : 0; }

static long driver(void)
{
	int v = 0;
	return cu.cuDriverGetVersion && !cu.cuDriverGetVersion(&v) ? v / 1000 * 10000 + v % 1000 * 10 : 0;
}

enum { LIBRARIES = 4 };
static const struct {
	const char *name;
	long (*here)(void); /* 91400: 9.14.0; 0: it is not open */
} row[LIBRARIES] = {{"NVRTC", nvrtc}, {"cuDNN", cudnn}, {"cuBLASLt", cublas}, {"driver", driver}};
static struct {
	long version; /* 0: the plan says nothing of it */
	bool told;
} plans[LIBRARIES];
static gg_diag *teller;

static const char *text_of(long v, char text[32])
{
	snprintf(text, 32, "%ld.%ld.%ld", v / 10000, v % 10000 / 100, v % 100);
	return text;
}

void cuda_put_libraries(gg_buf *b)
{
	char text[32];

	for (int i = 0; i < LIBRARIES; i++)
		if (row[i].here() > 0)
			gg_buf_printf(b, "%s %s\n", row[i].name, text_of(row[i].here(), text));
}

bool cuda_take_libraries(gg_diag *d, const char *text, size_t n)
{
	gg_arena a = {0};
	const char *at = gg_strndup(&a, text, n);
	int used = 0;
	long v[3];
	char name[16];

	teller = d;
	for (; sscanf(at, "%15s %ld.%ld.%ld%n", name, &v[0], &v[1], &v[2], &used) == 4; at += used)
		for (int i = 0; i < LIBRARIES; i++)
			if (!strcmp(name, row[i].name))
				plans[i].version = v[0] * 10000 + v[1] * 100 + v[2];
	at += strspn(at, "\n");
	bool good = !*at;
	gg_arena_fini(&a);
	return good;
}

/* The one whose name `text` begins with; -1: none. */
static int find(const char *text)
{
	size_t n = strcspn(text, " ");

	for (int i = 0; i < LIBRARIES; i++)
		if (strlen(row[i].name) == n && !strncmp(row[i].name, text, n))
			return i;
	return -1;
}

bool cuda_is_older(const char *library)
{
	int i = find(library);
	char here[32], made[32];

	if (i < 0 || row[i].here() <= 0 || row[i].here() >= plans[i].version)
		return false;
	if (teller && !plans[i].told)
		gg_note(teller,
		        "%s %s is older than the plan's %s: what that chose and compiled is made again",
		        row[i].name, text_of(row[i].here(), here), text_of(plans[i].version, made));
	plans[i].told = true;
	return true;
}

const char *cuda_plans_library(const char *library, char text[32])
{
	int i = find(library);
	return i < 0 || !plans[i].version ? NULL : text_of(plans[i].version, text);
}
