/* docs_file: pages of docs/ that are made from tables of the program. PL_UPDATE=1 writes them, a test keeps them equal. */
#pragma once

#include "tests/unit/store_fixture.h"

#define DOCS(name) PL_TEST_DATA "/../../../docs/" name

/* The page at `path` is exactly `want`. */
static UNUSED void assert_docs(const char *path, const struct pl_buf *want)
{
    struct pl_buf got = {0};
    struct pl_err err = {0};

    if (getenv("PL_UPDATE"))
        assert_ok(pl_io_write_file(path, want->data, want->len, 0644, &err), &err);
    assert_ok(pl_io_read_file(path, &got, &err), &err);
    if (got.len != want->len || memcmp(got.data, want->data, got.len) != 0)
        fail_msg("%s is not what the program's table says: PL_UPDATE=1 and this test write it", path);
    pl_buf_finish(&got);
}

/* The part of the page between the lines `begin` and `end` is exactly `want`. */
static UNUSED void assert_docs_part(const char *path, const char *begin, const char *end, const struct pl_buf *want)
{
    struct pl_buf page = {0}, whole = {0};
    struct pl_err err = {0};
    char *from, *to;

    assert_ok(pl_io_read_file(path, &page, &err), &err);
    from = strstr(pl_buf_str(&page), begin);
    assert_non_null(from);
    from += strlen(begin);
    to = strstr(from, end);
    assert_non_null(to);
    assert_ok(pl_buf_add(&whole, page.data, (size_t)(from - (char *)page.data), &err), &err);
    assert_ok(pl_buf_add_str(&whole, "\n", &err), &err);
    assert_ok(pl_buf_add(&whole, want->data, want->len, &err), &err);
    assert_ok(pl_buf_add_str(&whole, to, &err), &err);
    assert_docs(path, &whole);
    pl_buf_finish(&page);
    pl_buf_finish(&whole);
}
