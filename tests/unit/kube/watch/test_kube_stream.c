// link: pipelined/kube/watch
/* What an API server sends, cut anywhere: frames and items, less what nobody needs. */
#include "pipelined/kube/watch/kube_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* All that a scan handed on, a line each. */
struct heard {
    struct pl_buf text;
    size_t refuse_after; /* 0 = nothing is refused */
};

static int hear(struct heard *h, const char *what, json_t *value, struct pl_err *err)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    assert_non_null(text);
    assert_int_equal(pl_buf_addf(&h->text, NULL, "%s%s\n", what, text), 0);
    free(text);
    return h->refuse_after > 0 && --h->refuse_after == 0 ? pl_err_set(err, PL_EBUSY, "no more") : 0;
}

static int on_item(void *self, json_t *object, struct pl_err *err)
{
    return hear(self, "item ", object, err);
}

static int on_doc(void *self, json_t *doc, struct pl_err *err)
{
    return hear(self, "doc ", doc, err);
}

/* Feeds `text` in two parts cut at `cut`, or byte by byte (cut SIZE_MAX). Returns feed's result. */
static int feed(enum pl_kube_scan_kind kind, const char *keep, const char *text, size_t cut, struct heard *h, bool *whole,
                struct pl_err *err)
{
    const struct pl_kube_scan_sink sink = {on_item, on_doc, h};
    struct pl_kube_keep *k = NULL;
    struct pl_kube_scan *s = NULL;
    const size_t n = strlen(text);
    int r = 0;

    if (keep != NULL)
        assert_int_equal(pl_kube_keep_create(keep, &k, NULL), 0);
    assert_int_equal(pl_kube_scan_create(kind, k, &sink, &s, NULL), 0);
    if (cut == SIZE_MAX) {
        for (size_t i = 0; i < n && r == 0; i++)
            r = pl_kube_scan_feed(s, text + i, 1, err);
    } else {
        r = pl_kube_scan_feed(s, text, PL_MIN(cut, n), err);
        if (r == 0)
            r = pl_kube_scan_feed(s, text + PL_MIN(cut, n), n - PL_MIN(cut, n), err);
    }
    *whole = pl_kube_scan_is_whole(s);
    pl_kube_scan_destroy(s);
    pl_kube_keep_destroy(k);
    return r;
}

static const struct row {
    const char *what;
    enum pl_kube_scan_kind kind;
    const char *keep, *text, *want;
} rows[] = {
    {"nothing is kept back without a list", PL_KUBE_SCAN_WATCH, NULL,
     "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":[1,-2.5e3,true,null,\"s\"]}}"
     "}\n",
     "doc "
     "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":[1,-2500.0,true,null,\"s\"]}"
     "}}\n"},
    {"managedFields go in any case", PL_KUBE_SCAN_WATCH, NULL,
     "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"managedFields\":[{\"f:x\":{\"a\":\"}]\\\"\"}}],\"name\":\"a\"},"
     "\"spec\":{\"managedFields\":1}}}",
     "doc {\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\"},\"spec\":{\"managedFields\":1}}}\n"},
    {"members that are named, and those that always stay", PL_KUBE_SCAN_WATCH,
     "metadata{labels} spec{nodeName containers{name}} status",
     "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","
     "\"uid\":\"u\","
     "\"resourceVersion\":\"7\",\"labels\":{\"l\":\"1\"},\"annotations\":{\"big\":\"{[\"}},\"spec\":{\"nodeName\":\"w\","
     "\"volumes\":[{},{}],"
     "\"containers\":[{\"name\":\"m\",\"env\":[]},{\"env\":1},{\"name\":\"o\"}]},\"status\":{\"phase\":\"Running\"},\"rest\":0}}",
     "doc "
     "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","
     "\"uid\":\"u\","
     "\"resourceVersion\":\"7\",\"labels\":{\"l\":\"1\"}},\"spec\":{\"nodeName\":\"w\",\"containers\":[{\"name\":\"m\"},{},{"
     "\"name\":\"o\"}]},"
     "\"status\":{\"phase\":\"Running\"}}}\n"},
    {"any member, by a star", PL_KUBE_SCAN_WATCH, "status{*{a}}",
     "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"labels\":{}},\"status\":{\"x\":{\"a\":1,\"b\":2},\"y\":{"
     "\"b\":3}}}}",
     "doc {\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"},\"status\":{\"x\":{\"a\":1},\"y\":{}}}}\n"},
    {"an error stays whole", PL_KUBE_SCAN_WATCH, "spec",
     "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"m\"}}\n",
     "doc {\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"m\"}}\n"},
    {"an object before its type stays whole", PL_KUBE_SCAN_WATCH, "spec", "{\"object\":{\"status\":1},\"type\":\"ADDED\"}",
     "doc {\"object\":{\"status\":1},\"type\":\"ADDED\"}\n"},
    {"frames without a line between them", PL_KUBE_SCAN_WATCH, NULL, "{\"type\":\"A\"}{\"type\":\"B\"} \r\n\t {}\n\n",
     "doc {\"type\":\"A\"}\ndoc {\"type\":\"B\"}\ndoc {}\n"},
    {"texts of all kinds", PL_KUBE_SCAN_WATCH, NULL, "{\"a\\\"b\":\"\\\\\",\"c\":\"\\u00e9\\n\xc3\xa9\",\"d\":\"\\u0000x\"}",
     "doc {\"a\\\"b\":\"\\\\\",\"c\":\"\xc3\xa9\\n\xc3\xa9\",\"d\":\"\\u0000x\"}\n"},
    {"a list's items, then the rest", PL_KUBE_SCAN_LIST, "spec{a}",
     "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":[{\"metadata\":{\"name\":\"a\","
     "\"managedFields\":[]},"
     "\"spec\":{\"a\":1,\"b\":2}}, {\"spec\":{}}]}\n",
     "item {\"metadata\":{\"name\":\"a\"},\"spec\":{\"a\":1}}\nitem {\"spec\":{}}\n"
     "doc {\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"},\"items\":[]}\n"},
    {"a list without items", PL_KUBE_SCAN_LIST, NULL, "{\"items\":[],\"metadata\":{}}", "doc {\"items\":[],\"metadata\":{}}\n"},
    {"a list whose items are null", PL_KUBE_SCAN_LIST, NULL, "{\"items\":null,\"metadata\":{}}",
     "doc {\"items\":null,\"metadata\":{}}\n"},
};

static void each_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const size_t n = strlen(rows[i].text);

        for (size_t cut = 0; cut <= n + 1; cut++) {
            struct heard h = {0};
            struct pl_err err = {0};
            bool whole;
            int r = feed(rows[i].kind, rows[i].keep, rows[i].text, cut > n ? SIZE_MAX : cut, &h, &whole, &err);
            const char *got = pl_buf_str(&h.text);

            if (r != 0 || !whole || !pl_streq(got, rows[i].want))
                fail_msg("%s, cut at %zu: %d %s, whole %d\n%s\nnot\n%s", rows[i].what, cut, r, err.msg, whole, got, rows[i].want);
            pl_buf_finish(&h.text);
        }
    }
}

static void what_is_no_such_json_is_refused_with_the_reason(void **state)
{
    static const struct {
        enum pl_kube_scan_kind kind;
        const char *text, *words;
    } bad[] = {
        {PL_KUBE_SCAN_WATCH, "<html>", "an object is missing"},
        {PL_KUBE_SCAN_WATCH, "[]", "an object is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\" 1}", "a colon is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":1 \"b\":2}", "a comma is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":1,}", "the name of a member is missing"},
        {PL_KUBE_SCAN_WATCH, "{a:1}", "the name of a member is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":}", "a value is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":[1,]}", "a value is missing"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":[1}", "a bracket does not match"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":tru\"e\"}", "a number or literal is malformed"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":trew}", "the API server's answer is malformed"},
        {PL_KUBE_SCAN_WATCH, "{\"a\":\"\x01\"}", "the API server's answer is malformed"},
        {PL_KUBE_SCAN_LIST, "{\"items\":[1]}", "an item of a list is not an object"},
        {PL_KUBE_SCAN_LIST, "{\"items\":{}}", "the items of a list are not an array"},
        {PL_KUBE_SCAN_LIST, "{}{}", "data after the end of the list"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct heard h = {0};
        struct pl_err err = {0};
        bool whole;
        int r = feed(bad[i].kind, NULL, bad[i].text, SIZE_MAX, &h, &whole, &err);

        if (r != PL_EPROTO || whole || strstr(err.msg, bad[i].words) == NULL)
            fail_msg("%s: %d %s, not: %s", bad[i].text, r, err.msg, bad[i].words);
        pl_buf_finish(&h.text);
    }
}

static void a_part_is_not_whole(void **state)
{
    const char *frame = "{\"type\":\"ADDED\",\"object\":{\"a\":[1,{}]}}";

    (void)state;
    for (size_t n = 0; n <= strlen(frame); n++) {
        struct heard h = {0};
        char part[64];
        bool whole;

        (void)snprintf(part, sizeof part, "%.*s", (int)n, frame);
        assert_int_equal(feed(PL_KUBE_SCAN_WATCH, NULL, part, 0, &h, &whole, NULL), 0);
        assert_int_equal(whole, n == 0 || n == strlen(frame));
        pl_buf_finish(&h.text);
    }
}

static void bounds_hold(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct heard h = {0};
    struct pl_err err = {0};
    bool whole;

    (void)state;
    assert_int_equal(pl_buf_add_str(&text, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"},\"spec\":\"", NULL), 0);
    for (size_t i = 0; i < PL_KUBE_OBJECT_MAX / 8 + 1; i++)
        assert_int_equal(pl_buf_add(&text, "abcdefgh", 8, NULL), 0);
    assert_int_equal(pl_buf_add_str(&text, "\"}}", NULL), 0);
    assert_int_equal(feed(PL_KUBE_SCAN_WATCH, NULL, pl_buf_str(&text), 5, &h, &whole, &err), PL_ETOOBIG);
    assert_string_equal(err.msg, "an object in the API server's answer is larger than 8388608 bytes");
    /* what is not kept may be as large as it likes */
    assert_int_equal(feed(PL_KUBE_SCAN_WATCH, "status", pl_buf_str(&text), 5, &h, &whole, &err), 0);
    assert_string_equal(pl_buf_str(&h.text), "doc {\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n");
    pl_buf_finish(&h.text);

    pl_buf_clear(&text);
    assert_int_equal(pl_buf_add_str(&text, "{\"a\":", NULL), 0);
    for (size_t i = 0; i < PL_KUBE_DEPTH_MAX; i++)
        assert_int_equal(pl_buf_add_u8(&text, '[', NULL), 0);
    assert_int_equal(feed(PL_KUBE_SCAN_WATCH, NULL, pl_buf_str(&text), 0, &h, &whole, &err), PL_EPROTO);
    assert_non_null(strstr(err.msg, "nested too deeply"));

    pl_buf_clear(&text);
    assert_int_equal(pl_buf_add_str(&text, "{\"", NULL), 0);
    for (size_t i = 0; i <= PL_KUBE_KEY_MAX; i++)
        assert_int_equal(pl_buf_add_u8(&text, 'k', NULL), 0);
    assert_int_equal(feed(PL_KUBE_SCAN_WATCH, NULL, pl_buf_str(&text), 0, &h, &whole, &err), PL_EPROTO);
    assert_non_null(strstr(err.msg, "too long"));
}

static void a_sink_that_refuses_ends_it_for_good(void **state)
{
    struct heard h = {.refuse_after = 2};
    const struct pl_kube_scan_sink sink = {on_item, on_doc, &h};
    struct pl_kube_scan *s = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_kube_scan_create(PL_KUBE_SCAN_WATCH, NULL, &sink, &s, NULL), 0);
    assert_int_equal(pl_kube_scan_feed(s, "{}{}{}", 6, &err), PL_EBUSY);
    assert_string_equal(pl_buf_str(&h.text), "doc {}\ndoc {}\n");
    memset(&err, 0, sizeof err);
    assert_int_equal(pl_kube_scan_feed(s, "{}", 2, &err), PL_EBUSY);
    assert_string_equal(err.msg, "no more");
    assert_false(pl_kube_scan_is_whole(s));
    pl_kube_scan_destroy(s);
    pl_buf_finish(&h.text);
}

static void a_list_of_what_is_kept_is_checked(void **state)
{
    static const char *const bad[] = {"a{b", "a}", "{a}", "a,b", "a{{b}}", "\"a\""};
    struct pl_kube_keep *k = NULL;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct pl_err err = {0};

        assert_int_equal(pl_kube_keep_create(bad[i], &k, &err), PL_EINVAL);
        assert_non_null(strstr(err.msg, bad[i]));
    }
    assert_int_equal(pl_kube_keep_create("", &k, NULL), 0);
    pl_kube_keep_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_the_same_however_it_is_cut),
        cmocka_unit_test(what_is_no_such_json_is_refused_with_the_reason),
        cmocka_unit_test(a_part_is_not_whole),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(a_sink_that_refuses_ends_it_for_good),
        cmocka_unit_test(a_list_of_what_is_kept_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
