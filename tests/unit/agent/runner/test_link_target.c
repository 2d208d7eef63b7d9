// link: pipelined/agent/runner
/* Where a link of the output folder leads, by its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/runner/link_target.h"

static const struct {
    const char *path, *text;
    enum pl_link_where where;
    const char *input, *rest; /* WITHIN: rest is the text kept */
} cases[] = {
    /* kept as they are */
    {"a", "b", PL_LINK_WITHIN, "", "b"},
    {"d/a", "../b", PL_LINK_WITHIN, "", "../b"},
    {"d/a", "./b//c", PL_LINK_WITHIN, "", "./b//c"},
    {"a", "d/../b", PL_LINK_WITHIN, "", "d/../b"},
    {"a", "nowhere", PL_LINK_WITHIN, "", "nowhere"},
    {"d/a", "..", PL_LINK_WITHIN, "", ".."},
    /* made relative */
    {"a", "/pfs/out/b", PL_LINK_WITHIN, "", "b"},
    {"d/e/a", "/pfs/out/b", PL_LINK_WITHIN, "", "../../b"},
    {"d/a", "/pfs/out", PL_LINK_WITHIN, "", "../."},
    {"a", "../out/b", PL_LINK_WITHIN, "", "b"},
    /* into an input */
    {"a", "/pfs/images/x.png", PL_LINK_INPUT, "images", "x.png"},
    {"a", "/pfs/images", PL_LINK_INPUT, "images", ""},
    {"a", "/pfs/images/", PL_LINK_INPUT, "images", ""},
    {"a", "../images/d/x.png", PL_LINK_INPUT, "images", "d/x.png"},
    {"d/a", "../../images/x", PL_LINK_INPUT, "images", "x"},
    {"a", "/pfs/out/../images/x", PL_LINK_INPUT, "images", "x"},
    {"a", "//pfs/./images//x", PL_LINK_INPUT, "images", "x"},
    {"a", "/pfs/outside/x", PL_LINK_INPUT, "outside", "x"},
    /* elsewhere */
    {"a", "/etc/passwd", PL_LINK_ELSEWHERE, "", ""},
    {"a", "/", PL_LINK_ELSEWHERE, "", ""},
    {"a", "/pfs", PL_LINK_ELSEWHERE, "", ""},
    {"a", "..", PL_LINK_ELSEWHERE, "", ""},
    {"a", "../../etc/passwd", PL_LINK_ELSEWHERE, "", ""},
    {"a", "/pfs/images/../../etc/passwd", PL_LINK_ELSEWHERE, "", ""},
    {"a", "/pfs2/images/x", PL_LINK_ELSEWHERE, "", ""},
    {"d/a", "../../../tmp/x", PL_LINK_ELSEWHERE, "", ""},
    {"a", "/code/x", PL_LINK_ELSEWHERE, "", ""},
};

static void each_text_leads_where_it_says(void **state)
{
    (void)state;
    struct pl_link_target t;

    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        pl_link_target_find(cases[i].path, cases[i].text, "/pfs", &t);
        if (t.where != cases[i].where)
            fail_msg("%s -> %s: %d", cases[i].path, cases[i].text, (int)t.where);
        if (t.where == PL_LINK_INPUT)
            assert_string_equal(t.input, cases[i].input);
        if (t.where != PL_LINK_ELSEWHERE)
            assert_string_equal(t.path, cases[i].rest);
    }
}

static void without_a_sandbox_the_folder_is_a_deeper_one(void **state)
{
    (void)state;
    struct pl_link_target t;

    pl_link_target_find("a", "/w/1/pfs/in/x", "/w/1/pfs", &t);
    assert_int_equal(t.where, PL_LINK_INPUT);
    assert_string_equal(t.input, "in");
    pl_link_target_find("a", "/w/1/next/in/x", "/w/1/pfs", &t);
    assert_int_equal(t.where, PL_LINK_ELSEWHERE);
}

static void endless_texts_lead_nowhere(void **state)
{
    (void)state;
    char text[9000];
    struct pl_link_target t;

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    pl_link_target_find("a", text, "/pfs", &t);
    assert_int_equal(t.where, PL_LINK_ELSEWHERE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_leads_where_it_says),
        cmocka_unit_test(without_a_sandbox_the_folder_is_a_deeper_one),
        cmocka_unit_test(endless_texts_lead_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
