// link: pipelined/spec
/* spec: `setup` becomes a stage that makes the environment and an input of the stage that uses it. */
#include "pipelined/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_spec_errors problems;

static bool off(void *self, const char *project)
{
    (void)self;
    (void)project;
    return true;
}

static struct pl_spec *parse_in(const char *text, const struct pl_spec_context *ctx)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", ctx, &spec, &problems, &err) < 0)
        fail_msg("%s\nsays: %s", text, err.msg);
    return spec;
}

static void wrap(const char *fields, char out[1024])
{
    snprintf(out, 1024,
             "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"train\", \"input\": {\"repo\": \"in\"}, \"run\": [\"x\"], %s}]}",
             fields);
}

/* One stage "train" with these fields. */
static struct pl_spec *parse_stage(const char *fields)
{
    char text[1024];

    wrap(fields, text);
    return parse_in(text, NULL);
}

static char *effective(const struct pl_stage *stage)
{
    struct pl_buf out = {0};

    assert_int_equal(pl_stage_effective_json(stage, &out, NULL), 0);
    return pl_buf_take_str(&out);
}

static void has(const struct pl_stage *stage, const char *what)
{
    char *json = effective(stage);

    if (!strstr(json, what))
        fail_msg("%s\nlacks %s", json, what);
    free(json);
}

static void lacks(const struct pl_stage *stage, const char *what)
{
    char *json = effective(stage);

    if (strstr(json, what))
        fail_msg("%s\nhas %s", json, what);
    free(json);
}

static void requirements_become_a_stage_and_an_input(void **state)
{
    struct pl_spec *spec = parse_stage("\"image\": \"i@sha256:1\", \"gpu\": true, \"network\": false, \"workers\": 3, \"setup\": "
                                       "{\"python\": \"src/requirements.txt\", \"files\": [\"base.txt\"], \"index\": "
                                       "\"http://127.0.0.1/simple\", \"secret\": {\"name\": \"pypi\", \"key\": \"token\"}}");
    const struct pl_stage *train, *maker;

    (void)state;
    assert_int_equal(spec->n_stages, 2);
    train = pl_spec_stage(spec, "train");
    maker = pl_spec_stage(spec, "train-setup");
    assert_non_null(maker);
    assert_int_equal(spec->order[0], maker - spec->stages);
    assert_int_equal(spec->order[1], train - spec->stages);
    assert_string_equal(pl_stage_environment(train)->repo, "train-setup");
    assert_null(pl_stage_environment(maker));
    lacks(train, "\"setup\"");
    has(train, "{\"environment\":true,\"glob\":\"/\",\"name\":\"train-setup\",\"repo\":\"default/train-setup@master\"}");
    has(maker, "\"run\":[\"python3\",\"-B\",\"/pl/bin/py/pl_setup.py\",\"requirements.txt\",\"http://127.0.0.1/simple\"]");
    has(maker, "\"code\":{\"files\":[\"base.txt\",\"/requirements.txt\"],\"path\":\"src\"}");
    has(maker, "\"secrets\":[{\"env\":\"SETUP_SECRET\",\"key\":\"token\",\"name\":\"pypi\"}]");
    has(maker, "\"image\":\"i@sha256:1\"");
    has(maker, "\"environment\":true");
    has(maker, "\"gpu\":false");
    has(maker, "\"workers\":1");
    has(maker, "\"timeout\":\"1h\"");
    lacks(maker, "\"network\"");
    pl_spec_destroy(spec);
}

static void a_script_is_run_as_it_is(void **state)
{
    struct pl_spec *spec = parse_stage(
        "\"setup\": {\"script\": \"make install\", \"files\": [\"lib/**\"], \"index\": \"http://h/\", \"timeout\": \"3h\"}");
    const struct pl_stage *maker = pl_spec_stage(spec, "train-setup");

    (void)state;
    has(maker, "\"script\":\"make install\"");
    has(maker, "\"code\":{\"files\":[\"lib/**\"],\"path\":\".\"}");
    has(maker, "\"PIP_INDEX_URL\":\"http://h/\"");
    has(maker, "\"timeout\":\"3h\"");
    pl_spec_destroy(spec);
}

/* What the daemon stores is read again, a stage at a time. */
static void the_effective_spec_is_read_again_as_it_is(void **state)
{
    struct pl_spec *spec = parse_stage("\"setup\": {\"python\": \"requirements.txt\"}");

    (void)state;
    for (size_t i = 0; i < spec->n_stages; i++) {
        char *once = effective(&spec->stages[i]), *twice, text[4096];
        struct pl_spec *again;

        snprintf(text, sizeof text, "{\"pipeline\": \"p\", \"stages\": [%s]}", once);
        again = parse_in(text, NULL);
        assert_int_equal(again->n_stages, 1);
        twice = effective(&again->stages[0]);
        assert_string_equal(once, twice);
        free(once);
        free(twice);
        pl_spec_destroy(again);
    }
    pl_spec_destroy(spec);
}

static void stages_with_one_setup_share_it(void **state)
{
    static const char text[] =
        "{\"pipeline\": \"p\", \"defaults\": {\"setup\": {\"python\": \"requirements.txt\"}}, \"stages\": ["
        "{\"name\": \"a\", \"input\": {\"cross\": [{\"repo\": \"in\"}, {\"params\": {\"k\": [1]}}]}, \"run\": [\"x\"]},"
        "{\"name\": \"b\", \"input\": {\"union\": [{\"repo\": \"a\"}, {\"repo\": \"in\"}]}, \"run\": [\"x\"]},"
        "{\"name\": \"c\", \"input\": {\"repo\": \"b\"}, \"run\": [\"x\"], \"image\": \"other@sha256:2\"},"
        "{\"name\": \"d\", \"input\": {\"repo\": \"b\"}, \"run\": [\"x\"], \"setup\": null}]}";
    struct pl_spec *spec = parse_in(text, NULL);

    (void)state;
    assert_int_equal(spec->n_stages, 6);
    assert_string_equal(pl_stage_environment(pl_spec_stage(spec, "a"))->repo, "a-setup");
    assert_string_equal(pl_stage_environment(pl_spec_stage(spec, "b"))->repo, "a-setup");
    assert_string_equal(pl_stage_environment(pl_spec_stage(spec, "c"))->repo, "c-setup");
    assert_null(pl_stage_environment(pl_spec_stage(spec, "d")));
    pl_spec_destroy(spec);
}

/* The first problem has this text, at this place of the file. */
static void refuses(const char *text, const struct pl_spec_context *ctx, const char *says)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", ctx, &spec, &problems, &err) != PL_ESPEC)
        fail_msg("%s\nwas accepted or failed otherwise: %s", text, err.msg);
    if (!strstr(err.msg, says))
        fail_msg("%s\nsays: %s\nnot: %s", text, err.msg, says);
}

static void mistakes_are_told_where_they_are(void **state)
{
    static const struct {
        const char *fields, *says;
    } table[] = {
        {"\"setup\": 1", "stages[0].setup: "},
        {"\"setup\": {}", "stages[0].setup: \"python\" is missing: a file such as \"requirements.txt\", or \"script\""},
        {"\"setup\": {\"python\": \"r.txt\", \"script\": \"x\"}", "stages[0].setup: both \"python\" and \"script\" are given"},
        {"\"setup\": {\"python\": \"/r.txt\"}", "stages[0].setup.python: "},
        {"\"setup\": {\"python\": \"../r.txt\"}", "stages[0].setup.python: "},
        {"\"setup\": {\"python\": \"Pipfile\"}",
         "\"requirements.txt\" (any .txt), \"pyproject.toml\", \"uv.lock\" or \"environment.yml\""},
        {"\"setup\": {\"python\": \"r.txt\", \"secret\": {\"name\": \"a\", \"key\": \"b\"}}", "\"secret\" needs the \"index\""},
        {"\"setup\": {\"python\": \"r.txt\", \"secret\": {\"name\": \"a\"}, \"index\": \"http://h\"}", "\"key\""},
        {"\"setup\": {\"pip\": \"r.txt\"}", "\"pip\""},
        {"\"output\": {\"environment\": true, \"prefix\": \"x\"}", "stages[0].output.environment: "},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        wrap(table[i].fields, text);
        refuses(text, NULL, table[i].says);
    }
}

static void environments_of_ones_own_have_rules(void **state)
{
    static const struct {
        const char *input, *says;
    } table[] = {
        {"{\"cross\": [{\"repo\": \"e\", \"environment\": true}, {\"repo\": \"f\", \"environment\": true}]}",
         "input \"e\" is the environment already"},
        {"{\"cross\": [{\"repo\": \"e\", \"environment\": true, \"glob\": \"/*\"}, {\"repo\": \"f\"}]}", "read as a whole"},
        {"{\"union\": [{\"repo\": \"e\", \"environment\": true}, {\"repo\": \"f\"}]}", "every datum needs the environment"},
        {"{\"repo\": \"e\", \"environment\": true, \"writable\": true}", "not accepted with \"writable\""},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        snprintf(text, sizeof text, "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": %s, \"run\": [\"x\"]}]}",
                 table[i].input);
        refuses(text, NULL, table[i].says);
    }
}

static void what_an_environment_needs_is_asked_for(void **state)
{
    static const char name[] = "a234567890123456789012345678901234567890123456789";
    const struct pl_spec_context no_network = {.network_off = off}, no_sandbox = {.no_sandbox = true};
    char text[1024];

    (void)state;
    wrap("\"setup\": {\"python\": \"r.txt\"}", text);
    refuses(text, &no_network, "an environment is made with network, which is off in project \"default\"");
    refuses(text, &no_sandbox, "/pl/env, which does not exist without a sandbox");
    snprintf(text, sizeof text,
             "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"%s\", \"input\": {\"repo\": \"in\"}, \"run\": [\"x\"], \"setup\": "
             "{\"python\": \"r.txt\"}}]}",
             name);
    refuses(text, NULL, "that makes the environment");
    refuses("{\"pipeline\": \"p\", \"stages\": [{\"name\": \"a\", \"input\": {\"repo\": \"in\"}, \"run\": [\"x\"], \"setup\": "
            "{\"python\": \"r.txt\"}}, {\"name\": \"a-setup\", \"input\": {\"repo\": \"in\"}, \"run\": [\"x\"]}]}",
            NULL, "two stages are named \"a-setup\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requirements_become_a_stage_and_an_input),  cmocka_unit_test(a_script_is_run_as_it_is),
        cmocka_unit_test(the_effective_spec_is_read_again_as_it_is), cmocka_unit_test(stages_with_one_setup_share_it),
        cmocka_unit_test(mistakes_are_told_where_they_are),          cmocka_unit_test(environments_of_ones_own_have_rules),
        cmocka_unit_test(what_an_environment_needs_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
