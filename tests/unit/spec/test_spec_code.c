// link: pipelined/spec
/* spec: a stage's code, a folder or some of its files. */
#include "pipelined/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_spec_errors problems;

static struct pl_spec *parse(const char *text)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, &err) < 0)
        fail_msg("%s\nsays: %s", text, err.msg);
    return spec;
}

/* A pipeline of one stage with these fields. */
static struct pl_spec *parse_stage(const char *fields)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"in\"}, \"run\": [\"x\"], %s}]}",
             fields);
    return parse(text);
}

static const char shared[] = "{\"pipeline\": \"cats\", \"defaults\": {\"code\": \"src\"}, \"stages\": ["
                             "{\"name\": \"resize\", \"input\": {\"repo\": \"photos\"}, \"run\": [\"resize.py\"]},"
                             "{\"name\": \"again\", \"input\": {\"repo\": \"photos\"}, \"run\": [\"resize.py\"]},"
                             "{\"name\": \"fold\", \"input\": {\"repo\": \"resize\"}, \"run\": [\"fold.py\"]},"
                             "{\"name\": \"pick\", \"input\": {\"repo\": \"fold\"}, \"script\": \"python3 pick.py\"},"
                             "{\"name\": \"show\", \"input\": {\"repo\": \"fold\"}, \"script\": \"x\", \"code\": {\"path\": "
                             "\"src\", \"files\": [\"x\"]}}]}";

static void a_code_folder_of_stages_with_other_commands_is_warned_about(void **state)
{
    struct pl_spec *spec = parse(shared);

    (void)state;
    assert_int_equal(problems.n_warnings, 2);
    if (!strstr(problems.warnings[0].text,
                "fold: stage \"resize\" has the same code folder: a change of any file in it runs both again"))
        fail_msg("%s", problems.warnings[0].text);
    assert_non_null(strstr(problems.warnings[0].text, "{\"path\": \"src\", \"files\": [\"fold.py\", …]}"));
    assert_non_null(strstr(problems.warnings[1].text, "pick: stage \"resize\""));
    pl_spec_destroy(spec);
}

/* The order of globs counts: it is that of the text. */
static void code_is_a_folder_or_some_of_its_files(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } table[] = {
        {"\"code\": \"c\"", "\"code\": \"./c\"", true},
        {"\"code\": \"c\"", "\"code\": \"d\"", false},
        {"\"code\": \"c\"", "\"code\": {\"path\": \"c\", \"files\": [\"a\"]}", false},
        {"\"code\": {\"path\": \"./c\", \"files\": [\"a\"]}", "\"code\": {\"path\": \"c\", \"files\": [\"a\"]}", true},
        {"\"code\": {\"path\": \"c\", \"files\": [\"a\", \"b\"]}", "\"code\": {\"path\": \"c\", \"files\": [\"b\", \"a\"]}",
         false},
        {"\"workers\": 1", "\"workers\": 2", true},
        {"\"code\": \"c\"", "\"workers\": 2", false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_spec *a = parse_stage(table[i].a), *b = parse_stage(table[i].b);

        if (pl_stage_same_code(&a->stages[0], &b->stages[0]) != table[i].same)
            fail_msg("row %zu", i);
        pl_spec_destroy(a);
        pl_spec_destroy(b);
    }
}

/* The effective spec has the object only where files are named. */
static void the_effective_spec_keeps_its_form(void **state)
{
    static const char *const table[][2] = {
        {"\"code\": \"./c\"", "\"code\":\"c\""},
        {"\"code\": {\"path\": \"./c/d\", \"files\": [\"b\", \"a*\"]}", "\"code\":{\"files\":[\"b\",\"a*\"],\"path\":\"c/d\"}"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_spec *spec = parse_stage(table[i][0]);
        struct pl_buf out = {0};

        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &out, NULL), 0);
        if (!strstr(pl_buf_str(&out), table[i][1]))
            fail_msg("%s", pl_buf_str(&out));
        pl_buf_finish(&out);
        pl_spec_destroy(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_folder_of_stages_with_other_commands_is_warned_about),
        cmocka_unit_test(code_is_a_folder_or_some_of_its_files),
        cmocka_unit_test(the_effective_spec_keeps_its_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
