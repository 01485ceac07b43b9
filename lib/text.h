/* What printing and reading the text form share. */
#ifndef GG_TEXT_H
#define GG_TEXT_H

#include <stdbool.h>

/* Characters of a name that needs no quotes. */
static inline bool gg_text_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       c == '.';
}

/* The powers of ten that a double holds exactly: digits below 2^53 times or over one of them is
 * the nearest double, with one rounding. */
#define GG_TEXT_POW10 22
extern const double gg_text_pow10[GG_TEXT_POW10 + 1];

#endif
