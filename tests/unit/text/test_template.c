// link: pipelined/text
/* template: output prefixes: what they render to, what is refused when the spec is read. */
#include "pipelined/text/template.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct pl_template_input inputs[] = {{"test", 2}, {"model", 0}};
static const struct pl_span spans[] = {{0, 1}, {PL_SPAN_NONE, PL_SPAN_NONE}};

static void variables_become_parts_of_the_match(void **state)
{
    static const struct {
        const char *template, *path, *text;
    } cases[] = {
        {"", "a/b.csv", ""},
        {"x/", "a/b.csv", "x/"},
        {"/x/", "a/b.csv", "x/"},
        {"${test.path}/", "a/b.csv", "a/b.csv/"},
        {"${test.dir}/", "a/c/b.csv", "a/c/"},
        {"${test.dir}-", "b.csv", "-"},
        {"${test.stem}/", "a/b.csv", "b/"},
        {"${test.stem}/", "a/b.tar.gz", "b.tar/"},
        {"${test.stem}/", ".rc", ".rc/"},
        {"${test.stem}", "", ""},
        {"${test.1}-${test.2}/", "a/b.csv", "a-/"},
        {"${datum}/", "a", "ab0000000000/"},
        {"$x/{y}/", "a", "$x/{y}/"},
        {"${model.path}${test.stem}", "b1.csv", "mb1"},
    };
    struct pl_hash id = {{0xab}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_template_value values[] = {{cases[i].path, strlen(cases[i].path), spans}, {"m", 1, NULL}};
        struct pl_template *t = NULL;
        struct pl_err err = {0};
        struct pl_buf out = {0};

        if (pl_template_compile(cases[i].template, inputs, PL_ARRAY_SIZE(inputs), &t, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(pl_template_render(t, values, &id, &out, NULL), 0);
        assert_string_equal(pl_buf_str(&out), cases[i].text);
        pl_buf_finish(&out);
        pl_template_destroy(t);
    }
}

static void what_cannot_be_rendered_is_refused(void **state)
{
    static const struct {
        const char *template, *says;
    } cases[] = {
        {"${tset.stem}/", "prefix \"${tset.stem}/\": ${tset.stem}: there is no input \"tset\"; did you mean \"test\"?"},
        {"${images.1}/", "there is no input \"images\"; the inputs are: test, model"},
        {"${test.3}/", "the glob of input \"test\" has 2 captures, so capture 3 does not exist"},
        {"${model.1}/", "put ( ) around a part of the glob"},
        {"${test.0}/", "capture 0 does not exist"},
        {"${test.02}/", "\"02\" is not accepted after the input's name: path, dir, stem or the number of a capture"},
        {"${test.name}/", "\"name\" is not accepted after the input's name: path, dir, stem"},
        {"${test}/", "a variable must be ${INPUT.path}"},
        {"${test.stem/", "${ is never closed by }"},
        {"${params.k}/", "there are no params: add {\"params\": {\"k\": […]}} to the input"},
        {"../", "a segment \"..\""},
        {"a//", "an empty segment"},
        {"a\n", "control byte 0x0a"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_template *t = NULL;
        struct pl_err err = {0};

        assert_true(pl_template_compile(cases[i].template, inputs, PL_ARRAY_SIZE(inputs), &t, &err) < 0);
        if (strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s", err.msg);
    }
}

static void which_inputs_it_names(void **state)
{
    struct pl_template *t = NULL;

    (void)state;
    assert_int_equal(pl_template_compile("${model.path}/x", inputs, PL_ARRAY_SIZE(inputs), &t, NULL), 0);
    assert_false(pl_template_names(t, 0));
    assert_true(pl_template_names(t, 1));
    assert_false(pl_template_wants_datum(t));
    t = pl_template_destroy(t);
    assert_int_equal(pl_template_compile("${datum}", inputs, PL_ARRAY_SIZE(inputs), &t, NULL), 0);
    assert_false(pl_template_names(t, 0));
    assert_true(pl_template_wants_datum(t));
    pl_template_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_become_parts_of_the_match),
        cmocka_unit_test(what_cannot_be_rendered_is_refused),
        cmocka_unit_test(which_inputs_it_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
