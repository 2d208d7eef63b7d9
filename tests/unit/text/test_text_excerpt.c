// link: pipelined/text
/* The lines around a position: which, how they are cut, and where the mark stands. */
#include "pipelined/text/text_excerpt.h"
#include "storage/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* "FIRST:MARK" and the lines, each after "|". */
static void shown(const char *text, uint32_t line, uint32_t column, char out[4096])
{
    json_t *excerpt = pl_text_excerpt(text, strlen(text), line, column), *one;
    size_t i, n;

    assert_non_null(excerpt);
    n = (size_t)snprintf(out, 4096, "%d:%d", (int)json_integer_value(json_object_get(excerpt, "first")),
                         (int)json_integer_value(json_object_get(excerpt, "mark")));
    json_array_foreach(json_object_get(excerpt, "lines"), i, one)
    {
        n += (size_t)snprintf(out + n, 4096 - n, "|%s", json_string_value(one));
    }
    json_decref(excerpt);
}

static void the_lines_around_are_shown(void **state)
{
    static const struct {
        const char *text;
        uint32_t line, column;
        const char *want;
    } rows[] = {
        {"a\nb\nc\n", 2, 1, "1:1|a|b|c"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", 5, 1, "2:1|2|3|4|5|6|7|8"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", 1, 1, "1:1|1|2|3|4"},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9", 9, 2, "6:2|6|7|8|9"},
        {"abc", 1, 3, "1:3|abc"},
        {"a\r\nb\r\n", 2, 1, "1:1|a|b"},
        /* columns count characters */
        {"\xc3\xa4\xc3\xb6x", 1, 3, "1:3|\xc3\xa4\xc3\xb6x"},
        /* outside of the text */
        {"", 1, 1, "1:1|"},
        {"ab\n", 7, 9, "1:3|ab"},
        {"ab", 1, 90, "1:3|ab"},
        {"ab", 1, 0, "1:1|ab"},
        /* a document in the middle of a file has empty lines before it */
        {"\n\n\n\n{\n}\n", 6, 1, "5:1|{|}"},
        {"\n\n\n  x\n", 4, 3, "4:3|  x"},
        {"a\n\n\nx\n", 4, 1, "1:1|a|||x"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char text[4096];

        shown(rows[i].text, rows[i].line, rows[i].column, text);
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("row %zu: \"%s\", not \"%s\"", i, text, rows[i].want);
    }
}

/* The character at the mark is that of the position, also in a line that is cut, before and behind. */
static void a_long_line_is_cut_around_the_position(void **state)
{
    static const uint32_t columns[] = {1, 80, 81, 160, 500, 940, 1000};
    char line[1001], text[4096];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(columns); i++) {
        json_t *excerpt;
        const char *part;
        size_t mark, chars = 0, at = 0;

        memset(line, 'x', sizeof line - 1);
        line[sizeof line - 1] = '\0';
        line[columns[i] - 1] = '!';
        snprintf(text, sizeof text, "%s\n%s\n", line, line);
        excerpt = pl_text_excerpt(text, strlen(text), 2, columns[i]);
        part = json_string_value(json_array_get(json_object_get(excerpt, "lines"), 1));
        mark = (size_t)json_integer_value(json_object_get(excerpt, "mark"));
        for (const char *c = part; *c; c++)
            if (((unsigned char)*c & 0xC0) != 0x80 && ++chars == mark)
                at = (size_t)(c - part);
        if (part[at] != '!' || chars > PL_EXCERPT_LINE_MAX + 2)
            fail_msg("column %u: mark %zu in \"%s\"", columns[i], mark, part);
        json_decref(excerpt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lines_around_are_shown),
        cmocka_unit_test(a_long_line_is_cut_around_the_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
