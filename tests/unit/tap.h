/* A test program prints TAP: ok(condition, "what") for each fact, done() at the end of main. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool ok(bool pass, const char *fmt, ...)
{
	va_list ap;
	printf("%sok %d - ", pass ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	tap_failed += !pass;
	return pass;
}

__attribute__((unused)) static int done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed > 0 || tap_count == 0;
}

#endif
