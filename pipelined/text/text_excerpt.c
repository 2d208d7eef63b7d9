/* text_excerpt: walks to the first line that is shown, then cuts each line at characters. */
#include "pipelined/text/text_excerpt.h"

#include "storage/base/base.h"

#include <string.h>

#define ELLIPSIS "…"

/* Returns the bytes of the first `n` characters; `len` if there are not so many. */
static size_t chars_bytes(const char *s, size_t len, size_t n)
{
    size_t at = 0;

    while (at < len && n > 0) {
        at++;
        while (at < len && ((unsigned char)s[at] & 0xC0) == 0x80)
            at++;
        n--;
    }
    return at;
}

static size_t count_chars(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* Returns the length of the line that begins at `at`, without its end. */
static size_t line_len(const char *text, size_t len, size_t at)
{
    const char *end = at < len ? memchr(text + at, '\n', len - at) : NULL;
    size_t n = end ? (size_t)(end - text) - at : len - at;

    return n > 0 && text[at + n - 1] == '\r' ? n - 1 : n;
}

/* Makes what is shown of a line from its character `skip` on. */
static json_t *cut_line(const char *s, size_t len, size_t skip)
{
    const size_t from = chars_bytes(s, len, skip), n = chars_bytes(s + from, len - from, PL_EXCERPT_LINE_MAX);

    return json_sprintf("%s%.*s%s", from > 0 ? ELLIPSIS : "", (int)n, s + from, from + n < len ? ELLIPSIS : "");
}

static size_t next_line(const char *text, size_t len, size_t at)
{
    const char *end = at < len ? memchr(text + at, '\n', len - at) : NULL;

    return end ? (size_t)(end - text) + 1 : len;
}

json_t *pl_text_excerpt(const char *text, size_t len, uint32_t line, uint32_t column)
{
    _cleanup_(json_decrefp) json_t *lines = json_array(), *shown = NULL;
    size_t starts[PL_EXCERPT_AROUND + 1] = {0}; /* of the line that is meant and those before it; a ring */
    size_t at = 0, number = 1, first, chars, skip;

    /* walk to the line that is meant, or the last one, and remember where the lines before it begin */
    while (number < line && next_line(text, len, at) < len) {
        at = next_line(text, len, at);
        starts[number++ % PL_ARRAY_SIZE(starts)] = at;
    }
    if (number < line)
        column = UINT32_MAX;
    first = number > PL_EXCERPT_AROUND ? number - PL_EXCERPT_AROUND : 1;
    while (first < number && line_len(text, len, starts[(first - 1) % PL_ARRAY_SIZE(starts)]) == 0)
        first++;
    chars = count_chars(text + at, line_len(text, len, at));
    column = (uint32_t)PL_MIN((size_t)PL_MAX(column, 1u), chars + 1);
    skip = chars > PL_EXCERPT_LINE_MAX && column > PL_EXCERPT_BEFORE ? column - PL_EXCERPT_BEFORE : 0;
    at = starts[(first - 1) % PL_ARRAY_SIZE(starts)];
    for (size_t i = first; lines && i <= number + PL_EXCERPT_AROUND && (at < len || i <= number); i++) {
        if (json_array_append_new(lines, cut_line(text + at, line_len(text, len, at), i == number ? skip : 0)) < 0)
            return NULL;
        at = next_line(text, len, at);
    }
    shown = lines ? json_pack("{s:I, s:O, s:I}", "first", (json_int_t)first, "lines", lines, "mark",
                              (json_int_t)(column - skip + (skip > 0)))
                  : NULL;
    return TAKE_PTR(shown);
}
