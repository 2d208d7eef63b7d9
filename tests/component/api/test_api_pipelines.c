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

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_dry_run_writes_nothing),
        TEST(a_project_that_does_not_exist_gets_no_store),
        TEST(code_that_fits_no_stage_is_refused_by_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
