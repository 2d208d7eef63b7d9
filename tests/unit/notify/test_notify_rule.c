// link: pipelined/notify
/* The settings of a notification rule: defaults, what is refused and which field it names; which events a rule wants. */
#include "pipelined/notify/notify_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct pl_err err;

/* Checks the settings in `text`; the normal form as text, or the field of the error after a "!". */
static const char *checked(const char *text)
{
    static char out[1000];
    json_t *settings = json_loads(text, JSON_DECODE_ANY, NULL), *ret = NULL;
    char *line = NULL;

    assert_non_null(settings);
    err = (struct pl_err){0};
    if (pl_notify_settings_check(settings, &ret, &err) == 0)
        line = json_dumps(ret, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(out, sizeof out, "%s%s", line ? "" : "!", line ? line : err.field);
    assert_true(line || (err.code < 0 && *err.msg));
    free(line);
    json_decref(ret);
    json_decref(settings);
    return out;
}

static void what_is_not_given_has_a_default(void **state)
{
    (void)state;
    assert_string_equal(checked("{\"on\": [\"run.success\", \"job\"], \"url\": \"https://example.org/a?b=c\"}"),
                        "{\"format\":\"json\",\"on\":[\"run.success\",\"job\"],\"repo\":\"\",\"secret\":\"\",\"url\":\"https://"
                        "example.org/a?b=c\"}");
}

static void mistakes_name_their_field(void **state)
{
    static const struct {
        const char *settings, *field;
    } rows[] = {
        {"[]", "!"},
        {"{}", "!on"},
        {"{\"on\": [], \"url\": \"https://a/\"}", "!on"},
        {"{\"on\": \"job\", \"url\": \"https://a/\"}", "!on"},
        {"{\"on\": [1], \"url\": \"https://a/\"}", "!on"},
        {"{\"on\": [\"job\"]}", "!url"},
        {"{\"on\": [\"job\"], \"url\": 1}", "!url"},
        {"{\"on\": [\"job\"], \"url\": \"ftp://a/\"}", "!url"},
        {"{\"on\": [\"job\"], \"url\": \"https://a/\", \"format\": \"xml\"}", "!format"},
        {"{\"on\": [\"job\"], \"url\": \"https://a/\", \"format\": \"s3\"}", "!format"},
        {"{\"on\": [\"commit.deleted\"], \"url\": \"https://a/\", \"format\": \"s3\"}", "!format"},
        {"{\"on\": [\"job\"], \"url\": \"https://a/\", \"secret\": \"A/B\"}", "!secret"},
        {"{\"on\": [\"job\"], \"url\": \"https://a/\", \"repo\": \"a b\"}", "!repo"},
        {"{\"on\": [\"job\", \"run\"], \"url\": \"https://a/\", \"repo\": \"in\"}", "!repo"},
        {"{\"on\": [\"job\"], \"url\": \"https://a/\", \"events\": 1}", "!events"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_string_equal(checked(rows[i].settings), rows[i].field);
}

static void a_wrong_name_is_answered_with_the_right_ones(void **state)
{
    (void)state;
    checked("{\"on\": [\"jobs\"], \"url\": \"https://a/\"}");
    assert_non_null(strstr(err.msg, "\"jobs\": use job, run, commit"));
    assert_non_null(strstr(err.msg, "store.low"));
    checked("{\"on\": [\"job.failed\"], \"url\": \"https://a/\"}");
    assert_non_null(strstr(err.msg, "\"job.failed\": use job, job.created"));
    assert_non_null(strstr(err.msg, "job.failure"));
    checked("{\"on\": [\"store.low.empty\"], \"url\": \"https://a/\"}");
    assert_non_null(strstr(err.msg, "use store.low, store.low.ok, store.low.low, store.low.full"));
}

static void an_event_is_wanted_by_type_state_project_and_repo(void **state)
{
    static const struct {
        const char *on, *repo, *type, *data;
        enum pl_notify_match match;
    } rows[] = {
        {"[\"job\"]", "", "job", "{\"project\": \"p\", \"state\": \"running\"}", PL_NOTIFY_YES},
        {"[\"job.failure\"]", "", "job", "{\"project\": \"p\", \"state\": \"running\"}", PL_NOTIFY_NO},
        {"[\"job.success\", \"job.failure\"]", "", "job", "{\"project\": \"p\", \"state\": \"failure\"}", PL_NOTIFY_YES},
        {"[\"job\"]", "", "job", "{\"project\": \"q\", \"state\": \"running\"}", PL_NOTIFY_NO},
        {"[\"job\"]", "", "job", "{\"project\": \"p\", \"state\": \"a new one\"}", PL_NOTIFY_YES},
        {"[\"job.failure\"]", "", "job", "{\"project\": \"p\", \"state\": \"a new one\"}", PL_NOTIFY_NO},
        {"[\"job\"]", "", "run", "{\"id\": \"1\", \"state\": \"success\"}", PL_NOTIFY_NO},
        {"[\"run.success\"]", "", "run", "{\"id\": \"1\", \"state\": \"success\"}", PL_NOTIFY_IF_RUN},
        {"[\"commit.finished\"]", "", "commit", "{\"project\": \"p\", \"repo\": \"in\"}", PL_NOTIFY_YES},
        {"[\"commit.finished\"]", "", "commit", "{\"project\": \"p\", \"repo\": \"in\", \"change\": \"deleted\"}", PL_NOTIFY_NO},
        {"[\"commit\"]", "in", "commit", "{\"project\": \"p\", \"repo\": \"in\", \"change\": \"deleted\"}", PL_NOTIFY_YES},
        {"[\"commit\"]", "out", "commit", "{\"project\": \"p\", \"repo\": \"in\"}", PL_NOTIFY_NO},
        {"[\"job\"]", "copy", "job", "{\"project\": \"p\", \"stage\": \"copy\", \"state\": \"success\"}", PL_NOTIFY_YES},
        {"[\"store.low\"]", "", "store.low", "{\"state\": \"full\"}", PL_NOTIFY_YES},
        {"[\"store.low.low\"]", "", "store.low", "{\"state\": \"full\"}", PL_NOTIFY_NO},
        {"[\"gc\"]", "", "gc", "{\"freed_packs\": 1}", PL_NOTIFY_YES},
        {"[\"job\"]", "", "unheard of", "{\"project\": \"p\"}", PL_NOTIFY_NO},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *data = json_loads(rows[i].data, 0, NULL), *on = json_loads(rows[i].on, 0, NULL);
        json_t *settings = json_pack("{s:O, s:s, s:s}", "on", on, "repo", rows[i].repo, "format", "json");
        struct pl_notify_filter f;
        int index;

        pl_notify_filter_make(settings, "p", &f);
        if (pl_notify_match(&f, rows[i].type, data) != rows[i].match)
            fail_msg("row %zu", i);
        index = pl_notify_type_index(rows[i].type);
        assert_true((index >= 0 && f.states[index]) || rows[i].match == PL_NOTIFY_NO);
        json_decref(settings);
        json_decref(on);
        json_decref(data);
    }
}

static void the_form_of_s3_tells_of_finished_commits_only(void **state)
{
    json_t *settings = json_pack("{s:[s], s:s, s:s}", "on", "commit", "repo", "", "format", "s3");
    json_t *data = json_pack("{s:s, s:s}", "project", "p", "change", "deleted");
    struct pl_notify_filter f;

    (void)state;
    pl_notify_filter_make(settings, "p", &f);
    assert_int_equal(pl_notify_match(&f, "commit", data), PL_NOTIFY_NO);
    json_object_del(data, "change");
    assert_int_equal(pl_notify_match(&f, "commit", data), PL_NOTIFY_YES);
    assert_false(pl_notify_daemon_wide(settings));
    json_decref(data);
    json_decref(settings);
}

static void a_url_is_accepted_only_if_all_read_it_alike(void **state)
{
    static const struct {
        const char *url, *host; /* NULL = refused */
    } rows[] = {
        {"https://example.org", "example.org"},
        {"http://example.org:8080/a/b?c=d&e=%20", "example.org"},
        {"https://[::1]:7/x", "::1"},
        {"https://127.0.0.1?x", "127.0.0.1"},
        {"HTTPS://example.org", NULL},
        {"https:/example.org", NULL},
        {"https://", NULL},
        {"https:///x", NULL},
        {"https://good.org@127.0.0.1/", NULL},
        {"https://good.org\\@127.0.0.1/", NULL},
        {"https://good.org#@127.0.0.1/", NULL},
        {"https://a b/", NULL},
        {"https://a:port/", NULL},
        {"https://a:/", NULL},
        {"https://[::1/", NULL},
        {"https://\xc3\xa4.org/", NULL},
        {"https://a/\r\nX: y", NULL},
        {"file:///etc/passwd", NULL},
    };
    char scheme[8], host[PL_NOTIFY_HOST_MAX + 1];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const int r = pl_notify_url_split(rows[i].url, scheme, host, &err);

        if (rows[i].host) {
            assert_int_equal(r, 0);
            assert_string_equal(host, rows[i].host);
        } else if (r != PL_EINVAL || strcmp(err.field, "url") != 0) {
            fail_msg("%s", rows[i].url);
        }
    }
}

static void waits_double_up_to_ten_minutes(void **state)
{
    (void)state;
    assert_in_range(pl_notify_wait_ms(1, 0), 900, 1000);
    assert_in_range(pl_notify_wait_ms(1, 200), 1000, 1100);
    assert_in_range(pl_notify_wait_ms(4, 100), 8000, 8000);
    assert_in_range(pl_notify_wait_ms(1000000, 100), PL_NOTIFY_BACK_OFF_MAX_MS, PL_NOTIFY_BACK_OFF_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_has_a_default),
        cmocka_unit_test(mistakes_name_their_field),
        cmocka_unit_test(a_wrong_name_is_answered_with_the_right_ones),
        cmocka_unit_test(an_event_is_wanted_by_type_state_project_and_repo),
        cmocka_unit_test(the_form_of_s3_tells_of_finished_commits_only),
        cmocka_unit_test(a_url_is_accepted_only_if_all_read_it_alike),
        cmocka_unit_test(waits_double_up_to_ten_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
