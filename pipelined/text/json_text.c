/* Uses json_dump_callback with a buffer that remembers whether an allocation failed. */
#include "pipelined/text/json_text.h"

#include "storage/base/alloc_failure.h"
#include "storage/base/buf.h"
#include "storage/base/path.h"

struct text {
    struct pl_buf buf;
    bool failed;
};

static int add(const char *part, size_t n, void *arg)
{
    struct text *t = arg;

    if (!t->failed && pl_buf_add(&t->buf, part, n, NULL) < 0)
        t->failed = true;
    return t->failed ? -1 : 0;
}

char *pl_json_text(const json_t *value, size_t flags)
{
    struct text t = {.buf = {.max = SIZE_MAX}};
    bool failed = json_dump_callback(value, add, &t, flags) < 0 || t.failed;
    char *text = failed ? NULL : pl_buf_take_str(&t.buf);

    pl_buf_finish(&t.buf);
    return text;
}

const char *pl_json_str(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

json_t *pl_json_bytes(const void *data, size_t n)
{
    struct pl_buf out = {.max = 3 * n + 1};
    const uint8_t *bytes = data;
    json_t *text = NULL;
    int r = 0;

    if (n == 0 || pl_utf8_ok(bytes, n))
        return json_stringn_nocheck(n ? (const char *)bytes : "", n);
    for (size_t i = 0, len; r == 0 && i < n; i += len) {
        const size_t expected = bytes[i] < 0x80 ? 1 : bytes[i] >= 0xf0 ? 4 : bytes[i] >= 0xe0 ? 3 : 2;

        len = PL_MIN(expected, n - i);
        if (len == expected && pl_utf8_ok(bytes + i, len)) {
            r = pl_buf_add(&out, bytes + i, len, NULL);
        } else {
            len = 1;
            r = pl_buf_add_str(&out, "\xef\xbf\xbd", NULL);
        }
    }
    if (r == 0)
        text = json_stringn_nocheck((const char *)out.data, out.len);
    pl_buf_finish(&out);
    return text;
}

void pl_json_note_lack(void)
{
    json_malloc_t now;

    json_get_alloc_funcs(&now, NULL);
    if (now != pl_alloc_failure_malloc)
        json_set_alloc_funcs(pl_alloc_failure_malloc, free);
}

int64_t pl_json_int(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *pl_json_text_at(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

int pl_json_add(json_t *list, json_t *item, struct pl_err *err)
{
    return json_array_append_new(list, item) < 0 ? pl_err_nomem(err) : 0;
}

bool pl_json_has_text(const json_t *list, const char *text)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (pl_streq(json_string_value(one), text))
            return true;
    }
    return false;
}
