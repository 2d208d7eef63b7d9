// link: pipelined/source
/* The settings of a source: defaults, what is refused and which field it names, and changes of some. */
#include "pipelined/source/source_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* Checks the settings in `text`; the normal form as text, or the field of the error after a "!". */
static const char *checked(const char *text, bool update)
{
    static char out[1000];
    json_t *settings = json_loads(text, JSON_DECODE_ANY, NULL), *ret = NULL;
    struct pl_err err = {0};
    char *line = NULL;

    assert_non_null(settings);
    if (pl_source_settings_check(settings, update, &ret, &err) == 0)
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
    assert_string_equal(
        checked("{\"git\": \"/srv/x.git\"}", false),
        "{\"branch\":\"\",\"git\":\"/srv/x.git\",\"hook_secret\":\"\",\"interval\":\"60s\",\"path\":\"pipelines/**/"
        "*.json\",\"paused\":false,\"preview\":false,\"prune\":\"off\",\"secret\":\"\",\"status\":\"off\"}");
    assert_string_equal(
        checked(
            "{\"git\": \"file:///x\", \"branch\": \"release/2\", \"path\": \"a/*.json\", \"interval\": \"1h\", \"paused\": true, "
            "\"prune\": \"stop\", \"secret\": \"deploy-key\", \"status\": \"gitea\", \"preview\": true}",
            false),
        "{\"branch\":\"release/2\",\"git\":\"file:///x\",\"hook_secret\":\"\",\"interval\":\"1h\",\"path\":\"a/"
        "*.json\",\"paused\":true,"
        "\"preview\":true,\"prune\":\"stop\",\"secret\":\"deploy-key\",\"status\":\"gitea\"}");
}

static void an_update_has_only_what_is_given(void **state)
{
    (void)state;
    assert_string_equal(checked("{}", true), "{}");
    assert_string_equal(checked("{\"paused\": false, \"interval\": \"5m\"}", true), "{\"interval\":\"5m\",\"paused\":false}");
    assert_string_equal(checked("{\"interval\": \"5 parsecs\"}", true), "!interval");
}

static void mistakes_name_their_field(void **state)
{
    static const struct {
        const char *settings, *field;
    } rows[] = {
        {"{}", "!git"},
        {"[]", "!"},
        {"{\"git\": \"\"}", "!git"},
        {"{\"git\": \"x.git\"}", "!git"},
        {"{\"git\": \"https://user:password@example.org/x.git\"}", "!git"},
        {"{\"git\": \"/x\", \"secret\": \"A B\"}", "!secret"},
        {"{\"git\": \"file://host/x\"}", "!git"},
        {"{\"git\": \"/a/../b\"}", "!git"},
        {"{\"git\": \"/a/..\"}", "!git"},
        {"{\"git\": null}", "!git"},
        {"{\"git\": \"/x\", \"branch\": \"a..b\"}", "!branch"},
        {"{\"git\": \"/x\", \"branch\": \"a b\"}", "!branch"},
        {"{\"git\": \"/x\", \"branch\": \"HEAD@{1}\"}", "!branch"},
        {"{\"git\": \"/x\", \"branch\": \"--upload-pack=x\"}", "!branch"},
        {"{\"git\": \"/x\", \"path\": \"[\"}", "!path"},
        {"{\"git\": \"/x\", \"path\": \"\"}", "!path"},
        {"{\"git\": \"/x\", \"path\": 1}", "!path"},
        {"{\"git\": \"/x\", \"interval\": \"999ms\"}", "!interval"},
        {"{\"git\": \"/x\", \"interval\": \"25h\"}", "!interval"},
        {"{\"git\": \"/x\", \"paused\": \"no\"}", "!paused"},
        {"{\"git\": \"/x\", \"prune\": \"never\"}", "!prune"},
        {"{\"git\": \"/x\", \"prune\": true}", "!prune"},
        {"{\"git\": \"/x\", \"hook_secret\": \"Upper\"}", "!hook_secret"},
        {"{\"git\": \"/x\", \"hook_secret\": \"../x\"}", "!hook_secret"},
        {"{\"git\": \"/x\", \"status\": \"svn\"}", "!status"},
        {"{\"git\": \"/x\", \"status\": \"\"}", "!status"},
        {"{\"git\": \"/x\", \"preview\": \"on\"}", "!preview"},
        {"{\"git\": \"/x\", \"colour\": \"red\"}", "!colour"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_string_equal(checked(rows[i].settings, false), rows[i].field);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_has_a_default),
        cmocka_unit_test(an_update_has_only_what_is_given),
        cmocka_unit_test(mistakes_name_their_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
