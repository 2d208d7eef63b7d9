// link: pipelined/notify
/* The bodies of notifications, byte by byte, and their signature. */
#include "pipelined/notify/notify_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct pl_err err;

/* Formats an event of project "p" with `fn`; the body as text. */
static const char *body_of(int (*fn)(const struct pl_notify_message *, struct pl_buf *, struct pl_err *), const char *type,
                           const char *state, const char *data, const char *missed)
{
    static char out[1000];
    char event[PL_NOTIFY_EVENT_CHARS];
    json_t *value = json_loads(data, 0, NULL);
    struct pl_buf body = {0};
    const struct pl_notify_message m = {.rule = "chat",
                                        .project = "p",
                                        .delivery = "0-chat-7",
                                        .id = 7,
                                        .at_us = 1700000000123456,
                                        .event = pl_notify_event_name(type, state, event),
                                        .type = type,
                                        .state = state,
                                        .data = value,
                                        .missed = missed};

    assert_non_null(value);
    assert_int_equal(fn(&m, &body, &err), 0);
    snprintf(out, sizeof out, "%.*s", (int)body.len, (const char *)body.data);
    pl_buf_finish(&body);
    json_decref(value);
    return out;
}

static void programs_get_the_event_as_it_is(void **state)
{
    (void)state;
    assert_string_equal(
        body_of(pl_notify_format_json, "job", "failure", "{\"stage\":\"s\"}", ""),
        "{\"event\":\"job.failure\",\"delivery\":\"0-chat-7\",\"id\":7,\"at\":\"2023-11-14T22:13:20Z\",\"notify\":"
        "\"chat\",\"project\":\"p\",\"data\":{\"stage\":\"s\"}}");
    assert_non_null(strstr(body_of(pl_notify_format_json, "gc", "", "{}", "3 events"), "\"event\":\"gc\""));
    assert_non_null(strstr(body_of(pl_notify_format_json, "gc", "", "{}", "3 events"), ",\"missed\":\"3 events\"}"));
}

static void people_get_a_sentence(void **state)
{
    static const struct {
        const char *type, *state, *data, *text;
    } rows[] = {
        {"job", "failure",
         "{\"run\":\"0123456789abcdef0123456789abcdef\",\"project\":\"p\",\"stage\":\"train\",\"reason\":\"a <b> & \\\"c\\\"\"}",
         "job of stage train of run 01234567 in project p: failure: a &lt;b&gt; &amp; \\\"c\\\""},
        {"run", "success", "{\"id\":\"0123456789abcdef\",\"state\":\"success\",\"reason\":\"\"}", "run 01234567: success"},
        {"commit", "finished",
         "{\"project\":\"p\",\"repo\":\"in\",\"branch\":\"master\",\"commit\":\"0123456789\",\"files\":2,\"bytes\":10}",
         "commit 01234567 on branch master of repo in in project p: finished, 2 files, 10 bytes"},
        {"source", "invalid", "{\"project\":\"p\",\"source\":\"team\",\"state\":\"invalid\",\"error\":\"p.json:1:2: no\"}",
         "source team in project p: invalid: p.json:1:2: no"},
        {"store.low", "low", "{\"of\":\"data\",\"path\":\"/d\"}", "store.low of data at /d: low"},
        {"gc", "", "{\"freed_packs\":1}", "gc"},
    };
    char want[500];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        snprintf(want, sizeof want, "{\"text\":\"%s\"}", rows[i].text);
        assert_string_equal(body_of(pl_notify_format_slack, rows[i].type, rows[i].state, rows[i].data, ""), want);
    }
    assert_string_equal(body_of(pl_notify_format_slack, "gc", "", "{}", "3 <events>"),
                        "{\"text\":\"gc\\nNot delivered before: 3 &lt;events&gt;\"}");
}

static void a_record_has_the_form_of_s3(void **state)
{
    static const struct {
        const char *project, *branch, *bucket;
    } rows[] = {{"default", "master", "in"}, {"default", "dev", "dev.in"}, {"p", "master", "master.in.p"}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *data = json_pack("{s:s, s:s, s:s}", "repo", "in", "branch", rows[i].branch, "commit", "c1");
        const struct pl_notify_message m = {
            .rule = "files", .project = rows[i].project, .delivery = "d", .id = 255, .at_us = 1700000000123456, .data = data};
        json_t *record = pl_notify_s3_record(&m, "a b/\xc3\xa4+.txt", i == 1, 12), *s3 = json_object_get(record, "s3");
        json_t *object = json_object_get(s3, "object");

        assert_non_null(record);
        assert_string_equal(json_string_value(json_object_get(record, "eventVersion")), "2.1");
        assert_string_equal(json_string_value(json_object_get(record, "eventSource")), "aws:s3");
        assert_string_equal(json_string_value(json_object_get(record, "eventTime")), "2023-11-14T22:13:20.123Z");
        assert_string_equal(json_string_value(json_object_get(record, "eventName")),
                            i == 1 ? "ObjectRemoved:Delete" : "ObjectCreated:Put");
        assert_string_equal(json_string_value(json_object_get(json_object_get(s3, "bucket"), "name")), rows[i].bucket);
        assert_string_equal(json_string_value(json_object_get(object, "key")), "a%20b/%C3%A4%2B.txt");
        assert_string_equal(json_string_value(json_object_get(object, "sequencer")), "00000000000000FF");
        assert_int_equal(json_integer_value(json_object_get(object, "size")), i == 1 ? 0 : 12);
        json_decref(record);
        json_decref(data);
    }
}

/* RFC 4231, test case 2. */
static void the_signature_is_an_hmac(void **state)
{
    struct pl_buf key = {0}, body = {0};
    char out[PL_NOTIFY_SIGNATURE_CHARS + 1];

    (void)state;
    assert_int_equal(pl_buf_add(&key, "Jefe", 4, &err), 0);
    assert_int_equal(pl_buf_add(&body, "what do ya want for nothing?", 28, &err), 0);
    pl_notify_sign(&key, &body, out);
    assert_string_equal(out, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    pl_buf_finish(&key);
    pl_buf_finish(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_get_the_event_as_it_is),
        cmocka_unit_test(people_get_a_sentence),
        cmocka_unit_test(a_record_has_the_form_of_s3),
        cmocka_unit_test(the_signature_is_an_hmac),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
