// link: pipelined/plan storage/tree
/* datum_text: the inputs of a datum are found from its text, also where paths look like names of inputs. */
#include "pipelined/plan/datum_identity.h"
#include "pipelined/plan/datum_text.h"
#include "storage/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_spec *spec_of(const char *input)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};
    char text[1024];

    (void)snprintf(text, sizeof text, "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": %s, \"run\": [\"x\"]}]}",
                   input);
    if (pl_spec_parse(text, strlen(text), "t", NULL, &spec, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
}

#define CROSS "{\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"b\"}, {\"params\": {\"k\": [1, 2]}}]}"
#define UNION "{\"union\": [{\"repo\": \"a\"}, {\"repo\": \"b\", \"name\": \"a\"}]}"

/* Datums as (leaf, path) and the text that the plan writes of them. */
static const struct {
    const char *input, *text;
    struct {
        size_t leaf;
        const char *path;
    } parts[3];
    size_t n;
} cases[] = {
    {"{\"repo\": \"a\"}", "a=/", {{0, ""}}, 1},
    {"{\"repo\": \"a\"}", "a=/x/y.jpg", {{0, "x/y.jpg"}}, 1},
    {"{\"repo\": \"a\"}", "a=/x, a=/y", {{0, "x, a=/y"}}, 1},
    {CROSS, "a=/x, b=/, params={\"k\":1}", {{0, "x"}, {1, ""}, {2, "{\"k\":1}"}}, 3},
    {CROSS, "a=/x, b=/q, b=/y, params={\"k\":2}", {{0, "x, b=/q"}, {1, "y"}, {2, "{\"k\":2}"}}, 3},
    {CROSS, "a=/x, b=/q, b=/y, params={\"k\":2}", {{0, "x"}, {1, "q, b=/y"}, {2, "{\"k\":2}"}}, 3},
    {UNION, "a=/x", {{0, "x"}}, 1},
    {UNION, "a=/x", {{1, "x"}}, 1},
};

static struct pl_hash id_of(const struct pl_stage *stage, size_t number)
{
    struct pl_datum_leaf leaves[3];
    struct pl_hash id;

    for (size_t i = 0; i < cases[number].n; i++)
        leaves[i] = (struct pl_datum_leaf){.input = stage->leaves[cases[number].parts[i].leaf],
                                           .path = cases[number].parts[i].path,
                                           .path_len = strlen(cases[number].parts[i].path)};
    pl_datum_id(leaves, cases[number].n, &id);
    return id;
}

static void the_id_decides_which_inputs_a_text_names(void **state)
{
    (void)state;
    for (size_t c = 0; c < PL_ARRAY_SIZE(cases); c++) {
        struct pl_spec *spec = spec_of(cases[c].input);
        const struct pl_stage *stage = &spec->stages[0];
        const struct pl_hash id = id_of(stage, c);
        struct pl_datum_text_part parts[PL_SPEC_LEAVES_MAX];
        struct pl_err err = {0};

        assert_int_equal(pl_datum_text_parse(stage, cases[c].text, &id, parts, &err), cases[c].n);
        for (size_t i = 0; i < cases[c].n; i++) {
            assert_ptr_equal(parts[i].input, stage->leaves[cases[c].parts[i].leaf]);
            assert_int_equal(parts[i].path_len, strlen(cases[c].parts[i].path));
            assert_memory_equal(parts[i].path, cases[c].parts[i].path, parts[i].path_len);
        }
        pl_spec_destroy(spec);
    }
}

static void a_text_of_another_datum_or_that_was_cut_off_is_refused(void **state)
{
    static const char *const texts[] = {"", "a", "a=", "c=/x", "a=/x, b=/", "a=/x, b=/q, b=/y, params={\"k\"", "b=/, a=/x"};
    struct pl_spec *spec = spec_of(CROSS);
    const struct pl_hash id = id_of(&spec->stages[0], 4);

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
        struct pl_datum_text_part parts[PL_SPEC_LEAVES_MAX];
        struct pl_err err = {0};

        assert_int_equal(pl_datum_text_parse(&spec->stages[0], texts[i], &id, parts, &err), PL_ENOTFOUND);
        assert_non_null(strstr(err.msg, "the inputs of the datum cannot be told from"));
    }
    pl_spec_destroy(spec);
}

/* A path that is made to have very many readings costs a bounded number of them. */
static void a_text_with_too_many_readings_is_given_up(void **state)
{
    struct pl_spec *spec = spec_of("{\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"b\"}, {\"repo\": \"c\"}, {\"repo\": \"d\"}]}");
    struct pl_datum_text_part parts[PL_SPEC_LEAVES_MAX];
    const struct pl_hash id = {{1}};
    struct pl_err err = {0};
    char text[1024] = "a=/";

    (void)state;
    while (strlen(text) < sizeof text - 20)
        strcat(text, ", b=/, c=/, d=/");
    assert_int_equal(pl_datum_text_parse(&spec->stages[0], text, &id, parts, &err), PL_ENOTFOUND);
    pl_spec_destroy(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_id_decides_which_inputs_a_text_names),
        cmocka_unit_test(a_text_of_another_datum_or_that_was_cut_off_is_refused),
        cmocka_unit_test(a_text_with_too_many_readings_is_given_up),
    };

    return cmocka_run_group_tests_name("datum_text", tests, NULL, NULL);
}
