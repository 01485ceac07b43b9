/* LD_PRELOAD: the NOMEM-th allocation of the process finds no memory, and says so in NOMEM_HIT. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static long left;

__attribute__((constructor)) static void start(void)
{
	const char *k = getenv("NOMEM");
	left = k ? atol(k) : 0;
}

static int fails(void)
{
	if (!left || __sync_sub_and_fetch(&left, 1))
		return 0;
	const char *path = getenv("NOMEM_HIT");
	int fd = path ? open(path, O_CREAT | O_WRONLY, 0600) : -1;
	if (fd >= 0)
		close(fd);
	return 1;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __libc_memalign(align, n); }
