/* text_excerpt: the lines of a text around a position, for people who look at a mistake. Pure. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define PL_EXCERPT_AROUND   3u   /* lines before and after the line that is meant */
#define PL_EXCERPT_LINE_MAX 160u /* characters of a line that are shown */
#define PL_EXCERPT_BEFORE   80u  /* of the line that is meant, at most so many characters before the position */

/* Returns {"first", "lines", "mark"}, a new reference: the number of the first line that is shown, from 1; the lines; and
 * the character of the line that is meant, from 1, at which the position is. A line that is longer than
 * PL_EXCERPT_LINE_MAX is cut, with "…" where something is left out, and `mark` counts in what is shown. Empty lines before
 * the others are left out. `line` and `column` count from 1, columns in characters; a position outside of the text is
 * moved to its end. `text` is UTF-8. NULL: out of memory. Any thread. */
json_t *pl_text_excerpt(const char *text, size_t len, uint32_t line, uint32_t column);
