// link: pipelined/spec
/* spec: inputs from git repositories. */
#include "pipelined/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define STAGE(name, input) "{\"name\": \"" name "\", \"run\": [\"x\"], \"input\": " input "}"
#define DOCS               "{\"git\": {\"name\": \"docs\", \"url\": \"https://example.org/docs.git\", \"glob\": \"/*\"}}"

static struct pl_spec_errors problems;

static int parse(const char *stages, struct pl_spec **ret)
{
    char text[2048];

    snprintf(text, sizeof text, "{\"pipeline\": \"p\", \"project\": \"team\", \"stages\": [%s]}", stages);
    return pl_spec_parse(text, strlen(text), "t.json", NULL, ret, &problems, NULL);
}

static void an_input_from_git_is_a_repo_of_its_name(void **state)
{
    struct pl_spec *spec = NULL;
    const struct pl_input *in;

    (void)state;
    assert_int_equal(parse(STAGE("s", DOCS), &spec), 0);
    in = spec->stages[0].leaves[0];
    assert_int_equal(in->kind, PL_INPUT_LEAF);
    assert_true(pl_input_follows_git(in));
    assert_string_equal(in->project, "team");
    assert_string_equal(in->repo, "docs");
    assert_string_equal(in->branch, "master");
    assert_string_equal(in->name, "docs");
    assert_string_equal(in->glob, "/*");
    assert_string_equal(in->git_url, "https://example.org/docs.git");
    assert_null(in->git_source);
    assert_string_equal(in->git_branch, "");
    assert_string_equal(in->git_secret, "");
    pl_spec_destroy(spec);
}

/* The effective stage reads like one with a repo, so that all that reads it finds the repo. */
static void the_effective_form_is_read_again(void **state)
{
    static const struct {
        const char *input, *effective;
    } rows[] = {
        {DOCS, "{\"git\":{\"url\":\"https://example.org/docs.git\"},\"glob\":\"/*\",\"name\":\"docs\","
               "\"repo\":\"team/docs@master\"}"},
        {"{\"git\": {\"name\": \"a\", \"source\": \"team\", \"branch\": \"v2\", \"files\": [\"*.md\"], \"reference\": true}}",
         "{\"files\":[\"*.md\"],\"git\":{\"branch\":\"v2\",\"source\":\"team\"},\"glob\":\"/\",\"name\":\"a\",\"reference\":true,"
         "\"repo\":\"team/a@master\"}"},
        {"{\"git\": {\"name\": \"a\", \"url\": \"git@example.org:a.git\", \"secret\": \"key\", \"writable\": true}}",
         "{\"git\":{\"secret\":\"key\",\"url\":\"git@example.org:a.git\"},\"glob\":\"/\",\"name\":\"a\","
         "\"repo\":\"team/a@master\",\"writable\":true}"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_buf first = {0}, second = {0};
        struct pl_spec *spec = NULL, *again = NULL;
        char stage[1024];

        snprintf(stage, sizeof stage, STAGE("s", "%s"), rows[i].input);
        assert_int_equal(parse(stage, &spec), 0);
        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &first, NULL), 0);
        if (!strstr(pl_buf_str(&first), rows[i].effective))
            fail_msg("%s\nlacks %s", pl_buf_str(&first), rows[i].effective);
        if (parse(pl_buf_str(&first), &again) < 0)
            fail_msg("%s", problems.errors[0].text);
        assert_int_equal(pl_stage_effective_json(&again->stages[0], &second, NULL), 0);
        assert_string_equal(pl_buf_str(&first), pl_buf_str(&second));
        pl_spec_destroy(spec);
        pl_spec_destroy(again);
        pl_buf_finish(&first);
        pl_buf_finish(&second);
    }
}

static void wrong_inputs_are_refused_in_words(void **state)
{
    static const struct {
        const char *stages, *says;
    } rows[] = {
        {STAGE("s", "{\"git\": 1}"),
         "stages[0].input.git: 1 is not accepted: an object with \"name\", and \"source\" or \"url\""},
        {STAGE("s", "{\"git\": {\"url\": \"/a\"}}"), "stages[0].input.git: \"name\" is missing"},
        {STAGE("s", "{\"git\": {\"name\": \"a\"}}"), "stages[0].input.git: \"url\" is missing: the address of the repository"},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\", \"source\": \"b\"}}"),
         "stages[0].input.git: both \"source\" and \"url\" are given"},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"source\": \"b\", \"secret\": \"c\"}}"),
         "\"secret\" is only accepted with \"url\""},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\", \"secret\": \"C D\"}}"), "stages[0].input.git: secret: "},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"https://me:pw@example.org/a\"}}"),
         "stages[0].input.git.url: the address has a password: give it in a secret"},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\", \"branch\": \"a b\"}}"),
         "stages[0].input.git.branch: \"a b\" is not the name of a git branch"},
        {STAGE("s", "{\"git\": {\"name\": \"a b\", \"url\": \"/a\"}}"), "stages[0].input.git.name: "},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\", \"glob\": \"/a(b\"}}"), "stages[0].input.git.glob: "},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\", \"brunch\": \"x\"}}"),
         "unknown field \"brunch\"; did you mean \"branch\"?"},
        {STAGE("s", "{\"git\": {\"name\": \"a\", \"url\": \"/a\"}, \"glob\": \"/\"}"), "no other field may be beside \"git\""},
        {STAGE("s", "{\"repo\": \"a\", \"name\": \"a\", \"git\": {\"url\": \"/a\"}}"), "no other field may be beside \"git\""},
        {STAGE("s", "{\"cross\": [" DOCS ", " DOCS "]}"), "two inputs are named \"docs\""},
        {STAGE("docs", DOCS), "stages[0].input.git.name: the stage stages[0] writes a repo of that name"},
        {STAGE("s", DOCS) ", " STAGE("t", "{\"git\": {\"name\": \"docs\", \"url\": \"/docs\"}}"),
         "stages[1].input.git.name: stages[0] has a git input \"docs\" of another repository or branch"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_spec *spec = NULL;
        bool said = false;

        if (parse(rows[i].stages, &spec) == 0)
            fail_msg("accepted: %s", rows[i].stages);
        for (size_t k = 0; k < problems.n_errors; k++)
            said = said || strstr(problems.errors[k].text, rows[i].says) != NULL;
        if (!said)
            fail_msg("%s\nsays: %s", rows[i].stages, problems.errors[0].text);
    }
}

static bool no_repo(void *self, const char *project, const char *repo)
{
    (void)self;
    (void)project;
    (void)repo;
    return false;
}

/* The repo need not exist, and other stages may read it as a repo. */
static void its_repo_counts_as_declared(void **state)
{
    static const char text[] =
        "{\"pipeline\": \"p\", \"stages\": [" STAGE("a", "{\"repo\": \"docs\"}") ", " STAGE("b", DOCS) "]}";
    const struct pl_spec_context ctx = {.repo_exists = no_repo};
    struct pl_spec *spec = NULL;

    (void)state;
    if (pl_spec_parse(text, strlen(text), "t.json", &ctx, &spec, &problems, NULL) < 0)
        fail_msg("%s", problems.errors[0].text);
    pl_spec_destroy(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_input_from_git_is_a_repo_of_its_name),
                                       cmocka_unit_test(the_effective_form_is_read_again),
                                       cmocka_unit_test(wrong_inputs_are_refused_in_words),
                                       cmocka_unit_test(its_repo_counts_as_declared)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
