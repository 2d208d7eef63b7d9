// link: pipelined/kube/pod
/* Secrets of projects as a cluster keeps them: only those with the project's label are ours, and no value is told. */
#include "pipelined/kube/pod/secret_object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void is(json_t *got, const char *text)
{
    json_t *want = json_loads(text, 0, NULL);
    char *shown = json_dumps(got, JSON_SORT_KEYS);

    if (!want || !json_equal(got, want))
        fail_msg("%s\nis not %s", shown, text);
    free(shown);
    json_decref(want);
    json_decref(got);
}

static void a_secret_is_made_and_changed_with_its_label(void **state)
{
    json_t *values = json_pack("{s:s}", "dsn", "aHVudGVyMg==");
    const struct pl_secret_op op = {.what = PL_SECRET_CREATE, .project = "vision", .name = "pg", .values = values};

    (void)state;
    is(pl_secret_object(&op, "ml", "57"),
       "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"type\": \"Opaque\", \"metadata\": "
       "{\"name\": \"pg\", \"namespace\": \"ml\", "
       "\"labels\": {\"app.kubernetes.io/managed-by\": \"pipelined\", \"pipelined.io/project\": "
       "\"vision\", \"pipelined.io/store\": \"57\"}}, \"data\": {\"dsn\": "
       "\"aHVudGVyMg==\"}}");
    is(pl_secret_object_patch(&op), "{\"data\": {\"dsn\": \"aHVudGVyMg==\"}}");
    json_decref(values);
}

static void only_the_project_s_are_listed_and_no_value_is_told(void **state)
{
    json_t *items = json_loads(
        "[{\"metadata\": {\"name\": \"tls\", \"labels\": {\"pipelined.io/project\": \"vision\"}, \"creationTimestamp\": "
        "\"1970-01-02T00:00:01Z\"}, \"data\": {\"key\": \"eA==\", \"cert\": \"eQ==\"}},"
        " {\"metadata\": {\"name\": \"pg\", \"labels\": {\"pipelined.io/project\": \"vision\", \"pipelined.io/store\": \"57\"}}},"
        " {\"metadata\": {\"name\": \"theirs\", \"labels\": {\"pipelined.io/project\": \"other\"}}, \"data\": {\"a\": \"eA==\"}},"
        " {\"metadata\": {\"name\": \"twin\", \"labels\": {\"pipelined.io/project\": \"vision\", \"pipelined.io/store\": "
        "\"58\"}}},"
        " {\"metadata\": {\"name\": \"nobody's\"}, \"data\": {\"a\": \"eA==\"}}]",
        0, NULL);

    (void)state;
    assert_non_null(items);
    is(pl_secret_object_list(items, "vision", "57"),
       "[{\"name\": \"pg\", \"keys\": [], \"updated_us\": 0}, {\"name\": \"tls\", \"keys\": [\"key\", \"cert\"], \"updated_us\": "
       "86401000000}]");
    is(pl_secret_object_list(items, "none", "57"), "[]");
    assert_int_equal(pl_secret_object_whose(json_array_get(items, 0), "vision", "57"), PL_SECRET_LENT);
    assert_int_equal(pl_secret_object_whose(json_array_get(items, 1), "vision", "57"), PL_SECRET_OWN);
    assert_int_equal(pl_secret_object_whose(json_array_get(items, 1), "vision", "58"), PL_SECRET_OTHERS);
    assert_int_equal(pl_secret_object_whose(json_array_get(items, 2), "vision", "57"), PL_SECRET_OTHERS);
    assert_int_equal(pl_secret_object_whose(json_array_get(items, 4), "", "57"), PL_SECRET_OTHERS);
    assert_string_equal(pl_secret_object_label(json_array_get(items, 0), "57"), "vision");
    assert_string_equal(pl_secret_object_label(json_array_get(items, 3), "57"), "");
    json_decref(items);
}

/* Before anything else sees the text. */
static void values_are_blanked_where_they_come_and_keys_are_not(void **state)
{
    static const char *const cases[][2] = {
        {"{\"kind\": \"Secret\", \"metadata\": {\"name\": \"pg\", \"labels\": {\"data\": \"x\"}}, \"data\": {\"dsn\": \"aHVu\", "
         "\"e\": \"\"}}",
         "{\"kind\": \"Secret\", \"metadata\": {\"name\": \"pg\", \"labels\": {\"data\": \"*\"}}, \"data\": {\"dsn\": \"****\", "
         "\"e\": \"\"}}"},
        {"{\"items\": [{\"data\": {\"a\": \"b\"}}, {\"metadata\": {\"annotations\": {\"last\": \"{\\\"data\\\": 1}\"}, \"uid\": "
         "\"u\"}}]}",
         "{\"items\": [{\"data\": {\"a\": \"*\"}}, {\"metadata\": {\"annotations\": {\"last\": \"*************\"}, \"uid\": "
         "\"u\"}}]}"},
        {"{\"stringData\": {\"a\": {\"deep\": [\"b\", {\"c\": \"d\"}]}}, \"f:data\": \"no\"}",
         "{\"stringData\": {\"a\": {\"deep\": [\"*\", {\"c\": \"*\"}]}}, \"f:data\": \"no\"}"},
        {"{\"d\\u0061ta\": {\"a\": \"b\"}}", "{\"d\\u0061ta\": {\"a\": \"*\"}}"},
        {"{\"data\": {\"a\": \"cut", "{\"data\": {\"a\": \"***"},
        {"{\"data\": {\"a\": \"\\", "{\"data\": {\"a\": \"*"},
        {"]}\"x\"", "]}\"x\""},
        {"", ""},
    };
    char text[256], deep[200];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        (void)snprintf(text, sizeof text, "%s", cases[i][0]);
        pl_secret_object_blank(text, strlen(text));
        assert_string_equal(text, cases[i][1]);
    }
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    memcpy(deep + 100, "\"value\"", 7);
    pl_secret_object_blank(deep, strlen(deep));
    assert_null(strstr(deep, "value"));
}

static void names_and_keys_are_those_that_a_cluster_takes(void **state)
{
    static const struct {
        const char *name, *values, *says;
    } cases[] = {
        {"pg", "{\"dsn\": \"eA==\"}", NULL},
        {"a.b-c", "{\".dockerconfigjson\": \"\", \"tls.crt\": \"eA==\"}", NULL},
        {"Pg", "{\"dsn\": \"eA==\"}", "\"Pg\" is not accepted as the name of a secret"},
        {"-a", "{\"dsn\": \"eA==\"}", "\"-a\" is not accepted"},
        {"a..b", "{\"dsn\": \"eA==\"}", "\"a..b\" is not accepted"},
        {"", "{\"dsn\": \"eA==\"}", "\"\" is not accepted"},
        {"pg", "{\"../x\": \"eA==\"}", "\"../x\" is not accepted as a key"},
        {"pg", "{\"..\": \"eA==\"}", "\"..\" is not accepted as a key"},
        {"pg", "{\"dsn\": \"?\"}", "values.dsn is not base64"},
        {"pg", "{\"dsn\": 1}", "values.dsn is not base64"},
        {"pg", "{}", "at least one key"},
        {"pg", "[]", "at least one key"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        json_t *values = json_loads(cases[i].values, 0, NULL);
        const struct pl_secret_op op = {.what = PL_SECRET_CREATE, .project = "p", .name = cases[i].name, .values = values};
        struct pl_err err = {0};
        int r = pl_secret_op_check(&op, &err);

        if ((r < 0) != (cases[i].says != NULL) || (cases[i].says && strstr(err.msg, cases[i].says) == NULL))
            fail_msg("%s %s: %s", cases[i].name, cases[i].values, err.msg);
        json_decref(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_made_and_changed_with_its_label),
        cmocka_unit_test(only_the_project_s_are_listed_and_no_value_is_told),
        cmocka_unit_test(values_are_blanked_where_they_come_and_keys_are_not),
        cmocka_unit_test(names_and_keys_are_those_that_a_cluster_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
