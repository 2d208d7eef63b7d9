// link: pipelined/plan storage/tree
/* Versions of a stage and of a pipeline: which fields and stages differ, and which datums run anew. The versions are effective specs,
 * as the parser writes them. */
#include "pipelined/plan/stage_change.h"
#include "pipelined/plan/version_diff.h"
#include "pipelined/text/json_text.h"
#include "tests/support/fixtures/effective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* The effective spec of a stage "s" that reads "r", with more fields; ' stands for ". */
static json_t *stage_with(const char *fields)
{
    char text[2048];
    json_t *spec, *stage;

    snprintf(text, sizeof text, "{'pipeline':'p','stages':[{'name':'s'%s%s%s%s}]}", strstr(fields, "'run'") ? "" : ",'run':['x']",
             strstr(fields, "'input'") ? "" : ",'input':{'repo':'r'}", *fields ? "," : "", fields);
    spec = effective(text);
    stage = json_incref(json_array_get(json_object_get(spec, "stages"), 0));
    json_decref(spec);
    return stage;
}

/* "FIELD AGAIN" of each difference, with its values. */
static void fields_text(const json_t *fields, char out[1024])
{
    const json_t *one;
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach(fields, i, one)
    {
        char *before = json_dumps(json_object_get(one, "before"), JSON_ENCODE_ANY | JSON_COMPACT),
             *after = json_dumps(json_object_get(one, "after"), JSON_ENCODE_ANY | JSON_COMPACT);

        n += (size_t)snprintf(out + n, 1024 - n, "%s%s %s>%s %s%s", n ? "; " : "", pl_json_str(one, "field"),
                              before ? before : "", after ? after : "", pl_json_str(one, "again"),
                              json_is_true(json_object_get(one, "content")) ? " content" : "");
        free(before);
        free(after);
    }
}

static void each_field_that_differs_is_named_with_what_it_does(void **state)
{
    static const struct {
        const char *before, *after;
        bool code;
        const char *fields;
        enum pl_again again; /* with the identities differing if the fields or the code say so */
    } rows[] = {
        {"", "", false, "", PL_AGAIN_NONE},
        {"'workers':1", "'workers':4", false, "workers 1>4 none", PL_AGAIN_NONE},
        {"'image':'a:1'", "'image':'a:2'", false, "image \"a:1\">\"a:2\" all", PL_AGAIN_ALL},
        {"", "'image':'a:2'", false, "image >\"a:2\" all", PL_AGAIN_ALL},
        {"'image':'a:1'", "", false, "image \"a:1\"> all", PL_AGAIN_ALL},
        {"'run':['x']", "'run':['x','y']", false, "run [\"x\"]>[\"x\",\"y\"] all", PL_AGAIN_ALL},
        {"'env':{'A':'1','B':'2'}", "'env':{'A':'1','B':'3'}", false, "env.B \"2\">\"3\" all", PL_AGAIN_ALL},
        {"'env':{'A':'1'}", "'env':{'A':'1','C':'3'}", false, "env.C >\"3\" all", PL_AGAIN_ALL},
        {"'python':'/a'", "'python':'/b'", false, "python \"/a\">\"/b\" all", PL_AGAIN_ALL},
        {"'stdin':'a'", "'stdin':'b'", false, "stdin \"a\">\"b\" all", PL_AGAIN_ALL},
        {"'user':'1'", "'user':'2'", false, "user \"1\">\"2\" all", PL_AGAIN_ALL},
        /* the code counts by its content */
        {"'code':'a'", "'code':'b'", false, "code \"a\">\"b\" none", PL_AGAIN_NONE},
        {"'code':'a'", "'code':'a'", true, "code > all content", PL_AGAIN_ALL},
        {"'code':'a'", "'code':'b'", true, "code \"a\">\"b\" all content", PL_AGAIN_ALL},
        {"'code':{'path':'a','files':['x']}", "'code':{'path':'a','files':['y']}", true,
         "code.files [\"x\"]>[\"y\"] none; code > all content", PL_AGAIN_ALL},
        /* without the code in the keys nothing of it counts */
        {"'cache':{'code':false},'image':'a:1'", "'cache':{'code':false},'image':'a:2'", false, "image \"a:1\">\"a:2\" none",
         PL_AGAIN_NONE},
        {"'cache':{'code':false},'code':'a'", "'cache':{'code':false},'code':'a'", true, "code > none content", PL_AGAIN_NONE},
        {"", "'cache':{'salt':'x'}", false, "cache true>{\"code\":true,\"salt\":\"x\"} all", PL_AGAIN_ALL},
        {"'cache':{'salt':'x'}", "'cache':{'salt':'y'}", false, "cache.salt \"x\">\"y\" all", PL_AGAIN_ALL},
        {"'cache':false", "'cache':false,'workers':2", false, "workers 1>2 none", PL_AGAIN_ALL},
        /* inputs: some of the datums may have new keys */
        {"'input':{'repo':'r','glob':'/'}", "'input':{'repo':'r','glob':'/*'}", false, "input.glob \"/\">\"/*\" some",
         PL_AGAIN_SOME},
        {"'input':{'cross':[{'repo':'r'},{'repo':'q'}]}", "'input':{'cross':[{'repo':'r'},{'repo':'q','glob':'/*'}]}", false,
         "input.cross[1].glob \"/\">\"/*\" some", PL_AGAIN_SOME},
        {"'input':{'cross':[{'repo':'r'},{'params':{'a':[1]}}]}", "'input':{'cross':[{'repo':'r'},{'params':{'a':[1,2]}}]}",
         false, "input.cross[1].params.a [1]>[1,2] some", PL_AGAIN_SOME},
        /* what a reference with one match selects is in no key */
        {"'input':{'repo':'r','reference':true,'files':['a']}", "'input':{'repo':'r','reference':true,'files':['b']}", false,
         "input.files [\"a\"]>[\"b\"] none", PL_AGAIN_NONE},
        {"'input':{'repo':'r','reference':true,'files':['a']}", "'input':{'repo':'r','reference':true,'files':['b'],'name':'n'}",
         false, "input.files [\"a\"]>[\"b\"] none; input.name \"r\">\"n\" some", PL_AGAIN_SOME},
        {"'input':{'repo':'r','reference':true,'files':['a'],'glob':'/*'}",
         "'input':{'repo':'r','reference':true,'files':['b'],'glob':'/*'}", false, "input.files [\"a\"]>[\"b\"] some",
         PL_AGAIN_SOME},
        {"'gpu':1", "'gpu':{'count':2,'wait':'1m'}", false, "gpu.count 1>2 none; gpu.wait \"10m\">\"1m\" none", PL_AGAIN_NONE},
        {"", "'resources':{'memory':'1Gi'}", false, "resources >{\"memory\":\"1Gi\"} none", PL_AGAIN_NONE},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *before = stage_with(rows[i].before), *after = stage_with(rows[i].after), *list = json_array();
        char text[1024];
        struct pl_err err = {0};
        bool identity = rows[i].code || strstr(rows[i].fields, "image") || strstr(rows[i].fields, "run ") ||
                        strstr(rows[i].fields, "env") || strstr(rows[i].fields, "stdin") || strstr(rows[i].fields, "user") ||
                        strstr(rows[i].fields, "python");

        assert_int_equal(pl_stage_change_fields(before, after, rows[i].code, list, &err), 0);
        fields_text(list, text);
        if (strcmp(text, rows[i].fields) != 0)
            fail_msg("%s -> %s: \"%s\", not \"%s\"", rows[i].before, rows[i].after, text, rows[i].fields);
        if (pl_stage_again(before, after, identity) != rows[i].again)
            fail_msg("%s -> %s: %s", rows[i].before, rows[i].after, pl_again_name(pl_stage_again(before, after, identity)));
        json_decref(before);
        json_decref(after);
        json_decref(list);
    }
}

static void an_output_is_of_another_stage_if_what_made_it_differs(void **state)
{
    static const struct {
        const char *before, *after;
        bool identity;
        enum pl_output_change change;
    } rows[] = {
        {"", "", false, PL_OUTPUT_SAME},
        {"'workers':1", "'workers':4", false, PL_OUTPUT_SAME},
        {"'image':'a:1'", "'image':'a:2'", true, PL_OUTPUT_BY_CODE},
        {"'cache':{'code':false},'image':'a:1'", "'cache':{'code':false},'image':'a:2'", true, PL_OUTPUT_SAME},
        {"'cache':false", "'cache':false,'workers':2", false, PL_OUTPUT_SAME},
        {"'cache':false,'image':'a:1'", "'cache':false,'image':'a:2'", true, PL_OUTPUT_BY_CODE},
        {"", "'cache':{'salt':'x'}", false, PL_OUTPUT_BY_CODE},
        {"'input':{'repo':'r','glob':'/'}", "'input':{'repo':'r','glob':'/*'}", false, PL_OUTPUT_BY_INPUT},
        {"'input':{'repo':'r','reference':true,'files':['a']}", "'input':{'repo':'r','reference':true,'files':['b']}", false,
         PL_OUTPUT_SAME},
        {"'image':'a:1','input':{'repo':'r','glob':'/'}", "'image':'a:2','input':{'repo':'r','glob':'/*'}", true,
         PL_OUTPUT_BY_BOTH},
        {"'input':{'repo':'r','glob':'/'}", "'cache':false,'input':{'repo':'r','glob':'/*'}", false, PL_OUTPUT_BY_BOTH},
        {"'output':{'prefix':'a/'}", "'output':{'prefix':'b/'}", false, PL_OUTPUT_BY_FORM},
        {"'output':{'expect':['/a']}", "'output':{'expect':['/b']}", false, PL_OUTPUT_SAME},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        json_t *before = stage_with(rows[i].before), *after = stage_with(rows[i].after);
        const enum pl_output_change change = pl_stage_output_change(before, after, rows[i].identity);

        if (change != rows[i].change)
            fail_msg("%s -> %s: %d", rows[i].before, rows[i].after, (int)change);
        json_decref(before);
        json_decref(after);
    }
}

/* ---- versions of a pipeline ---- */

struct version {
    json_t *spec;
    struct pl_version_stage items[8];
    size_t n;
};

/* The stages of a spec. `code`: one letter per stage, which stands for its code's root and identity. */
static struct version version_of(const char *text, const char *code)
{
    struct version v = {.spec = effective(text)};
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(v.spec, "stages"), i, one)
    {
        struct pl_hash hash = {.b = {(uint8_t)code[i]}};

        v.items[v.n++] = (struct pl_version_stage){
            .project = "default", .name = pl_json_str(one, "name"), .spec = one, .code_root = hash, .identity = hash};
    }
    return v;
}

#define A            "{'name':'a','input':{'repo':'in','glob':'/*'},'run':['x']}"
#define B            "{'name':'b','input':{'repo':'a'},'run':['x']}"
#define C            "{'name':'c','input':{'cross':[{'repo':'b'},{'repo':'in'}]},'run':['x']}"
#define C_REF        "{'name':'c','input':{'cross':[{'repo':'b','reference':true},{'repo':'in'}]},'run':['x']}"
#define SPEC(stages) "{'pipeline':'p','stages':[" stages "]}"

static void stages_that_read_what_runs_anew_run_anew_too(void **state)
{
    static const struct {
        const char *before, *code_before, *after, *code_after, *stages;
        size_t same;
    } rows[] = {
        {SPEC(A "," B), "xx", SPEC(A "," B), "xx", "", 2},
        {SPEC(A "," B "," C), "xxx", SPEC(A "," B "," C), "yxx", "a changed all; b unchanged some <a; c unchanged some <b", 0},
        {SPEC(C "," B "," A), "xxx", SPEC(C "," B "," A), "xxy", "c unchanged some <b; b unchanged some <a; a changed all", 0},
        {SPEC(A "," B "," C), "xxx", SPEC(A "," B "," C), "xxy", "c changed all", 2},
        /* its content is in no key */
        {SPEC(A "," B "," C_REF), "xxx", SPEC(A "," B "," C_REF), "xyx", "b changed all", 2},
        {SPEC(A), "x", SPEC(A "," B), "xx", "b new all", 1},
        {SPEC(A "," B), "xx", SPEC(A), "x", "b removed", 1},
        {SPEC(A "," B), "xx", SPEC("{'name':'a','input':{'repo':'in'},'run':['x']}," B), "xx",
         "a changed some; b unchanged some <a", 0},
        {SPEC(A "," B), "xx", SPEC("{'name':'a','input':{'repo':'in','glob':'/*'},'run':['x'],'workers':3}," B), "xx",
         "a changed none", 1},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct version before = version_of(rows[i].before, rows[i].code_before),
                       after = version_of(rows[i].after, rows[i].code_after);
        json_t *list = NULL, *one, *because;
        char text[512] = "";
        size_t same = 0, n = 0, k, m;
        struct pl_err err = {0};

        assert_int_equal(pl_version_diff((struct pl_version_stages){before.items, before.n},
                                         (struct pl_version_stages){after.items, after.n}, &list, &same, &err),
                         0);
        json_array_foreach(list, k, one)
        {
            n +=
                (size_t)snprintf(text + n, sizeof text - n, "%s%s %s%s%s", n ? "; " : "", pl_json_str(one, "stage"),
                                 pl_json_str(one, "change"), json_object_get(one, "again") ? " " : "", pl_json_str(one, "again"));
            json_array_foreach(json_object_get(one, "because"), m, because)
            {
                n += (size_t)snprintf(text + n, sizeof text - n, " <%s", json_string_value(because));
            }
        }
        if (strcmp(text, rows[i].stages) != 0 || same != rows[i].same)
            fail_msg("row %zu: \"%s\" and %zu the same, not \"%s\" and %zu", i, text, same, rows[i].stages, rows[i].same);
        json_decref(list);
        json_decref(before.spec);
        json_decref(after.spec);
    }
}

static void the_roots_of_code_that_differs_are_named(void **state)
{
    struct version before = version_of(SPEC(A), "x"), after = version_of(SPEC(A), "y");
    const json_t *code;
    json_t *list = NULL;
    struct pl_err err = {0};
    size_t same;

    (void)state;
    before.items[0].code_root = (struct pl_hash){0};
    assert_int_equal(pl_version_diff((struct pl_version_stages){before.items, 1}, (struct pl_version_stages){after.items, 1},
                                     &list, &same, &err),
                     0);
    code = json_object_get(json_array_get(list, 0), "code");
    assert_string_equal(json_string_value(json_array_get(code, 0)), "");
    assert_int_equal(json_string_length(json_array_get(code, 1)), PL_HASH_HEX);
    json_decref(list);
    json_decref(before.spec);
    json_decref(after.spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_that_differs_is_named_with_what_it_does),
        cmocka_unit_test(an_output_is_of_another_stage_if_what_made_it_differs),
        cmocka_unit_test(stages_that_read_what_runs_anew_run_anew_too),
        cmocka_unit_test(the_roots_of_code_that_differs_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
