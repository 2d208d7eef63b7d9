// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Pipelines over HTTP: what is refused before anything is kept, and what a dry run leaves. */
#include "tests/support/fixtures/api_fixture.h"

#define PIPELINES "/api/v1/pipelines"

/* The body that sets a pipeline of one stage "prepare" which reads "data"; `more` is added to the stage, `rest` to the body, with ' for
 * ". A static buffer. */
static const char *spec_body(const char *project, const char *more, const char *rest)
{
    static char body[4096];
    json_t *o;
    char spec[1024];

    snprintf(spec, sizeof spec,
             "{'pipeline': 'flow', 'project': '%s', 'repos': {'data': {}}, 'stages': [{'name': 'prepare', 'run': ['x'], 'input': "
             "{'repo': 'data'}%s}]}",
             project, more);
    for (char *p = spec; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    snprintf(body, sizeof body, "{'filename': 'f.json'%s}", rest);
    for (char *p = body; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    o = json_loads(body, 0, NULL);
    assert_non_null(o);
    json_object_set_new(o, "spec", json_string(spec));
    body[json_dumpb(o, body, sizeof body, 0)] = '\0';
    json_decref(o);
    return body;
}

/* All files of the object store. */
static unsigned objects(void)
{
    char command[256];
    unsigned n = 0;
    FILE *p;

    snprintf(command, sizeof command, "find %s/store -type f", t.dir);
    p = popen(command, "r");
    assert_non_null(p);
    for (int c; (c = getc(p)) != EOF;)
        n += c == '\n';
    pclose(p);
    return n;
}

static void a_dry_run_writes_nothing(void **state)
{
    json_t *o;
    unsigned before;

    (void)state;
    make_repo("data");
    before = objects();
    o = ask_json(200, "POST", PIPELINES, spec_body("default", "", ", 'dry_run': true"));
    assert_true(json_is_true(json_object_get(o, "changed")));
    assert_int_equal(number_at(o, "version"), 1);
    json_decref(o);
    assert_int_equal(objects(), before);
    refused("not_found", "flow", "GET", PIPELINES "/default/flow", NULL);
    does(200, "POST", PIPELINES, spec_body("default", "", ""));
    assert_true(objects() > before);
}

static void a_project_that_does_not_exist_gets_no_store(void **state)
{
    char index[128];

    (void)state;
    make_repo("data");
    refused("not_found", "project \"nowhere\" does not exist", "POST", PIPELINES, spec_body("nowhere", "", ""));
    refused("not_found", "project \"nowhere\" does not exist", "POST", PIPELINES, spec_body("nowhere", "", ", 'dry_run': true"));
    snprintf(index, sizeof index, "%s/index/nowhere", t.dir);
    assert_int_equal(access(index, F_OK), -1);
}

static void code_that_fits_no_stage_is_refused_by_field(void **state)
{
    static const struct {
        const char *stage, *rest, *part;
    } bad[] = {
        {"", ", 'code': []", "code"},
        {"", ", 'code': {'prepare': {'root': ''}}", "code.prepare"},
        {", 'code': 'src'", ", 'code': {'prepare': {'root': ''}, 'other': {}}", "code.other"},
        {", 'code': 'src'", ", 'code': {'prepare': 'abc'}", "code.prepare"},
        {", 'code': 'src'", ", 'code': {'prepare': {'rot': 'abc'}}", "code.prepare.rot"},
        {", 'code': 'src'", ", 'code': {'prepare': {'root': 7}}", "code.prepare.root"},
        {", 'code': 'src'", ", 'code': {'prepare': {'git': 'x'}}", "code.prepare.git"},
        {", 'code': 'src'", "", "code.prepare.root"},
    };

    (void)state;
    make_repo("data");
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        refused("invalid", bad[i].part, "POST", PIPELINES, spec_body("default", bad[i].stage, bad[i].rest));
}

/* ---- versions ---- */

/* Sets a version of the pipeline with more fields in its stage. */
static void set_version(const char *more)
{
    does(200, "POST", PIPELINES, spec_body("default", more, ", 'update': true"));
}

static void versions_are_listed_newest_first_in_pages(void **state)
{
    json_t *page, *versions, *first;

    (void)state;
    make_repo("data");
    set_version("");
    set_version(", 'workers': 2");
    set_version(", 'workers': 3");
    page = ask_json(200, "GET", PIPELINES "/default/flow/versions?limit=2", NULL);
    versions = json_object_get(page, "versions");
    assert_int_equal(json_array_size(versions), 2);
    assert_string_equal(text_at(page, "next"), "2");
    first = json_array_get(versions, 0);
    assert_int_equal(number_at(first, "version"), 3);
    assert_true(json_is_true(json_object_get(first, "current")));
    assert_string_equal(text_at(first, "filename"), "f.json");
    assert_int_equal(number_at(first, "stages"), 1);
    assert_int_equal(number_at(first, "changed"), 1);
    assert_int_equal(number_at(first, "new"), 0);
    assert_int_equal(number_at(first, "removed"), 0);
    assert_null(json_object_get(first, "origin"));
    assert_false(json_is_true(json_object_get(json_array_get(versions, 1), "current")));
    json_decref(page);
    page = ask_json(200, "GET", PIPELINES "/default/flow/versions?limit=2&after=2", NULL);
    versions = json_object_get(page, "versions");
    assert_int_equal(json_array_size(versions), 1);
    assert_int_equal(number_at(json_array_get(versions, 0), "new"), 1);
    assert_null(json_object_get(page, "next"));
    json_decref(page);
    page = ask_json(200, "GET", PIPELINES "/default/flow/versions?after=1", NULL);
    assert_int_equal(json_array_size(json_object_get(page, "versions")), 0);
    json_decref(page);
    refused("not_found", "pipeline \"none\" does not exist", "GET", PIPELINES "/default/none/versions", NULL);
    refused("invalid", "after", "GET", PIPELINES "/default/flow/versions?after=x", NULL);
}

/* The one stage of the difference, which the caller keeps with `ret`. */
static json_t *diff_stage(const char *query, json_t **ret)
{
    char target[128];

    snprintf(target, sizeof target, PIPELINES "/default/flow/diff%s", query);
    *ret = ask_json(200, "GET", target, NULL);
    return json_array_get(json_object_get(*ret, "stages"), 0);
}

static void two_versions_are_compared_by_field(void **state)
{
    json_t *diff, *stage, *field;

    (void)state;
    make_repo("data");
    set_version("");
    set_version(", 'workers': 2");
    set_version(", 'workers': 2, 'image': 'app:2'");
    /* the current one against the one before it */
    stage = diff_stage("", &diff);
    assert_int_equal(number_at(json_object_get(diff, "from"), "version"), 2);
    assert_int_equal(number_at(json_object_get(diff, "to"), "version"), 3);
    assert_string_equal(text_at(stage, "change"), "changed");
    assert_string_equal(text_at(stage, "again"), "all");
    field = json_array_get(json_object_get(stage, "fields"), 0);
    assert_string_equal(text_at(field, "field"), "image");
    assert_null(json_object_get(field, "before"));
    assert_string_equal(text_at(field, "after"), "app:2");
    assert_string_equal(text_at(field, "again"), "all");
    json_decref(diff);
    stage = diff_stage("?from=1&to=2", &diff);
    assert_string_equal(text_at(stage, "again"), "none");
    field = json_array_get(json_object_get(stage, "fields"), 0);
    assert_int_equal(json_integer_value(json_object_get(field, "before")), 1);
    assert_int_equal(json_integer_value(json_object_get(field, "after")), 2);
    json_decref(diff);
    /* backwards, too */
    stage = diff_stage("?from=3&to=2", &diff);
    field = json_array_get(json_object_get(stage, "fields"), 0);
    assert_string_equal(text_at(field, "before"), "app:2");
    assert_null(json_object_get(field, "after"));
    json_decref(diff);
    /* version 0 is what was before the first */
    stage = diff_stage("?to=1", &diff);
    assert_string_equal(text_at(stage, "change"), "new");
    assert_null(json_object_get(diff, "from"));
    json_decref(diff);
    stage = diff_stage("?from=2&to=2", &diff);
    assert_null(stage);
    assert_int_equal(number_at(diff, "same"), 1);
    json_decref(diff);
    refused("not_found", "has no version 9: its newest is 3", "GET", PIPELINES "/default/flow/diff?to=9", NULL);
    refused("not_found", "has no version 4: its newest is 3", "GET", PIPELINES "/default/flow/diff?from=4", NULL);
    refused("not_found", "pipeline \"none\" does not exist", "GET", PIPELINES "/default/none/diff", NULL);
    refused("invalid", "from", "GET", PIPELINES "/default/flow/diff?from=x", NULL);
}

static void an_earlier_version_is_shown_as_it_was(void **state)
{
    json_t *o, *stage;

    (void)state;
    make_repo("data");
    set_version("");
    set_version(", 'workers': 2");
    o = ask_json(200, "GET", PIPELINES "/default/flow?version=1", NULL);
    assert_int_equal(number_at(o, "version"), 1);
    assert_int_equal(number_at(o, "current"), 2);
    assert_null(strstr(text_at(o, "spec"), "workers"));
    stage = json_array_get(json_object_get(o, "stages"), 0);
    assert_int_equal(number_at(json_object_get(stage, "spec"), "workers"), 1);
    assert_null(json_object_get(stage, "origins"));
    json_decref(o);
    refused("not_found", "has no version 3: its newest is 2", "GET", PIPELINES "/default/flow?version=3", NULL);
    refused("not_found", "pipeline \"none\" does not exist", "GET", PIPELINES "/default/none?version=1", NULL);
}

/* The origin of a field of the pipeline's stage. */
static void origin_is(const char *query, const char *field, const char *want)
{
    char target[128];
    json_t *o;

    snprintf(target, sizeof target, PIPELINES "/default/flow?origins=1%s", query);
    o = ask_json(200, "GET", target, NULL);
    assert_string_equal(text_at(json_object_get(json_array_get(json_object_get(o, "stages"), 0), "origins"), field), want);
    json_decref(o);
}

/* Defaults are those of the time at which the version was set, whatever they are now. */
static void origins_are_those_of_the_versions_time(void **state)
{
    (void)state;
    make_repo("data");
    does(200, "PUT", "/api/v1/defaults", "{\"spec\": \"{\\\"priority\\\": 3}\"}");
    does(200, "PUT", "/api/v1/defaults", "{\"project\": \"default\", \"spec\": \"{\\\"env\\\": {\\\"A\\\": \\\"1\\\"}}\"}");
    set_version(", 'workers': 2");
    does(200, "PUT", "/api/v1/defaults", "{\"spec\": \"{}\"}");
    does(200, "PUT", "/api/v1/defaults", "{\"project\": \"default\", \"spec\": \"{\\\"priority\\\": 5}\"}");
    set_version(", 'env': {'A': '1'}, 'workers': 2");
    origin_is("&version=1", "priority", "cluster");
    origin_is("&version=1", "env.A", "project");
    origin_is("&version=1", "workers", "stage");
    origin_is("&version=1", "on_new", "language");
    origin_is("", "priority", "project");
    origin_is("", "env.A", "stage");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_dry_run_writes_nothing),
        TEST(a_project_that_does_not_exist_gets_no_store),
        TEST(code_that_fits_no_stage_is_refused_by_field),
        TEST(versions_are_listed_newest_first_in_pages),
        TEST(two_versions_are_compared_by_field),
        TEST(an_earlier_version_is_shown_as_it_was),
        TEST(origins_are_those_of_the_versions_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
