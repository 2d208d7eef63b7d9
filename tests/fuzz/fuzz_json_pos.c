// link: pipelined/text
/* Any bytes as JSON: jansson's verdict; an error lies in the text; every value and key of a good text is found where it stands. */
#include "pipelined/text/json_position.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static unsigned depth(const json_t *v)
{
    unsigned deepest = 0, below;
    const char *key;
    json_t *member;
    size_t i;

    if (!json_is_object(v) && !json_is_array(v))
        return 0;
    json_array_foreach(v, i, member)
    {
        below = depth(member); /* once: a macro would do it twice, at each level */
        deepest = PL_MAX(deepest, below);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        below = depth(member);
        deepest = PL_MAX(deepest, below);
    }
    return deepest + 1;
}

/* Line and column of an offset, counted the slow way. */
static void check_pos(const char *text, size_t n, const struct pl_json_pos *pos)
{
    uint32_t line = 1, column = 1;

    if (pos->offset > n)
        abort();
    for (size_t i = 0; i < pos->offset; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if (((uint8_t)text[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    if (pos->line != line || pos->column != column)
        abort();
}

/* What stands at the place is the value. */
static void check_value(const char *text, size_t n, const char *path, json_t *want)
{
    struct pl_json_pos key, value;
    json_t *got;

    if (!pl_json_find(text, n, path, &key, &value))
        abort();
    check_pos(text, n, &key);
    check_pos(text, n, &value);
    got = json_loadb(text + value.offset, n - value.offset, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
    if (!got || !json_equal(got, want))
        abort();
    json_decref(got);
}

static void check_all(const char *text, size_t n, struct pl_buf *path, json_t *v, unsigned *left)
{
    size_t len = path->len, i;
    const char *key;
    json_t *member;

    if (*left == 0 || pl_buf_str(path) == NULL)
        return;
    --*left;
    check_value(text, n, pl_buf_str(path), v);
    json_array_foreach(v, i, member)
    {
        if (pl_json_path_index(path, i, NULL) == 0)
            check_all(text, n, path, member, left);
        path->len = len;
    }
    json_object_foreach(v, key, member)
    {
        if (pl_json_path_key(path, key, NULL) == 0)
            check_all(text, n, path, member, left);
        path->len = len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = n > 0 ? (const char *)data : "";
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    bool good = v != NULL && depth(v) <= PL_JSON_DEPTH_MAX && memchr(text, '\0', n) == NULL;
    struct pl_json_pos at = {0};
    struct pl_buf path = {0};
    struct pl_err err = {0};
    unsigned left = 200;
    int r = pl_json_check(text, n, &at, &err);

    if ((r == 0) != good || (r < 0 && err.msg[0] == '\0'))
        abort();
    if (good)
        check_all(text, n, &path, v, &left);
    else
        check_pos(text, n, &at);
    (void)pl_json_find(text, n, "a[0].b", &at, NULL); /* in a bad text too: no crash */
    pl_buf_finish(&path);
    json_decref(v);
    return 0;
}
