// link: pipelined/spec
/* The inputs of a stage: what is understood, what is refused and in which words. */
#include "pipelined/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char hp[] =
    "{\"pipeline\": \"hp\", \"stages\": [\n"
    "  {\"name\": \"sweep\", \"input\": {\"cross\": [{\"repo\": \"prepare\", \"files\": [\"*.npz\"]}, {\"params\": {\"lr\": "
    "[0.1], "
    "\"hidden\": [32]}}]}, \"code\": \"code\", \"gpu\": {\"required\": false},\n"
    "   \"run\": [\"python3\", \"train.py\"], \"workers\": 6, \"output\": {\"prefix\": \"lr=${params.lr}/\"}},\n"
    "  {\"name\": \"best\", \"input\": {\"repo\": \"sweep\"}, \"code\": \"code\", \"run\": [\"python3\", \"best.py\"]}]}\n";

static struct pl_spec_errors problems; /* large: not on the stack of every test */

static struct pl_spec *parse(const char *text)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
}

static void params_are_combinations_in_one_spelling(void **state)
{
    static const struct {
        const char *params, *want[5];
    } cases[] = {
        {"{\"lr\": [0.10, 3e-2], \"k\": [2, 1.0]}",
         {"{\"k\":1,\"lr\":0.03}", "{\"k\":1,\"lr\":0.1}", "{\"k\":2,\"lr\":0.03}", "{\"k\":2,\"lr\":0.1}"}},
        {"[{\"b\": \"x\\\"y\", \"a\": true}, {\"a\": false, \"b\": \"\"}]",
         {"{\"a\":false,\"b\":\"\"}", "{\"a\":true,\"b\":\"x\\\"y\"}"}},
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const struct pl_input *in;
        struct pl_spec *spec;

        (void)snprintf(text, sizeof(text),
                       "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"run\": [\"x\"], \"input\": {\"params\": %s}}]}",
                       cases[i].params);
        spec = parse(text);
        in = spec->stages[0].input;
        for (size_t k = 0; k < in->n_combinations; k++)
            assert_string_equal(in->combinations[k].json, cases[i].want[k]);
        assert_null(cases[i].want[in->n_combinations]);
        assert_int_equal(in->n_params, 2);
        pl_spec_destroy(spec);
    }
}

/* The spec is a user's, not one that was stored. */
static const struct pl_spec_context given;

/* Inputs that not every datum has cannot be named where every datum needs a value. */
static void what_a_datum_may_lack_is_not_named(void **state)
{
    static const char either[] = "{\"union\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"b\", \"glob\": \"/*\"}]}";
    static const char same[] =
        "{\"union\": [{\"repo\": \"a\", \"name\": \"x\", \"glob\": \"/(*)\"}, {\"repo\": \"b\", \"name\": \"x\"}]}";
    static const char params[] = "{\"union\": [{\"params\": {\"a\": [1], \"b\": [2]}}, {\"params\": {\"a\": [3]}}]}";
    static const struct {
        const char *input, *fields, *says; /* NULL: accepted */
    } cases[] = {
        {either, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${a.stem}/\"}", "not every datum has an input \"a\""},
        {either, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${datum}/\"}", NULL},
        {same, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${x.stem}/\"}", NULL},
        {same, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${x.1}/\"}", "has 0 captures"},
        {params, "\"run\": [\"x\", \"${params.a}\"], \"output\": {\"prefix\": \"${params.a}/\"}", NULL},
        {params, "\"run\": [\"x\", \"${params.b}\"]", "stages[0].run[1]: ${params.b}: not every datum has a parameter"},
        {params, "\"run\": [\"x\", \"${params.a}\"], \"datum\": {\"batch\": true}",
         "stages[0].run[1]: a batch command starts once"},
        {params, "\"run\": [\"x\"], \"env\": {\"B\": \"-${params.b}\"}", "stages[0].env.B: ${params.b}: not every datum"},
        {params, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${params.b}/\"}", "not every datum has a parameter \"b\""},
        {either, "\"run\": [\"x\"], \"output\": {\"prefix\": \"${params.b}/\"}", "there are no params"},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;
        int r;

        (void)snprintf(text, sizeof(text), "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": %s, %s}]}",
                       cases[i].input, cases[i].fields);
        r = pl_spec_parse(text, strlen(text), "t.json", &given, &spec, &problems, NULL);
        if ((r == 0) != (cases[i].says == NULL) || (r < 0 && strstr(problems.errors[0].text, cases[i].says) == NULL))
            fail_msg("%s\nsays: %s", text, r < 0 ? problems.errors[0].text : "nothing");
        pl_spec_destroy(spec);
    }
}

/* In commands and variables only ${params.NAME} is replaced. A text that looks like one of our variables and is none would
 * reach the command as it is. */
static void variables_that_name_nothing_are_refused_with_what_exists(void **state)
{
    static const char repo[] = "{\"repo\": \"data\", \"name\": \"r\", \"glob\": \"/*\"}";
    static const char both[] = "{\"cross\": [{\"repo\": \"r\"}, {\"params\": {\"lr\": [1], \"k\": [2]}}]}";
    static const struct {
        const char *input, *text, *says; /* NULL: accepted */
    } cases[] = {
        {both, "${params.lr} ${params.k}", NULL},
        {both, "${params.rate}",
         "${params.rate}: there is no parameter of that name; there is ${params.k}, ${params.lr}; $${params.rate} is the literal "
         "text"},
        {both, "--x=${params.}", "${params.}: there is no parameter of that name"},
        {both, "${params.lr", "${params.lr: it is never closed by }"},
        {both, "${param.lr}", "${param.lr}: the word is params; there is ${params.k}, ${params.lr}"},
        {both, "${r.stem}",
         "${r.stem}: only parameters are replaced here; the path of input \"r\" is in the variable PL_INPUT_R"},
        {repo, "${params.lr}", "${params.lr}: there is no parameter of that name; the stage has no params: add {"},
        {repo, "${param.lr}", "${param.lr}: the word is params; the stage has no params"},
        {repo, "a ${r.1}", "${r.1}: only parameters are replaced here"},
        /* the shell's own, and what is escaped */
        {repo, "${HOME} ${r} ${r%.*} ${r:-x} ${parameters.x} ${data.stem} ${params} $params.lr $(x) ${", NULL},
        {repo, "$${params.lr} $${param.lr} $${r.stem} $${r.stem", NULL},
        {repo, "$$${params.lr}", NULL}, /* "$" and an escape */
        {repo, "$$$${r.stem}", NULL},
    };
    static const struct {
        const char *before, *after, *place;
    } fields[] = {{"\"run\": [\"x\", \"", "\"]", "stages[0].run[1]: "},
                  {"\"run\": [\"x\"], \"env\": {\"V\": \"", "\"}", "stages[0].env.V: "},
                  {"\"run\": [\"x\"], \"on_error\": {\"run\": [\"y\", \"", "\"]}", "stages[0].on_error.run[1]: "}};
    char text[1024], says[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        for (size_t k = 0; k < PL_ARRAY_SIZE(fields); k++) {
            struct pl_spec *spec = NULL;
            int r;

            (void)snprintf(text, sizeof(text), "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": %s, %s%s%s}]}",
                           cases[i].input, fields[k].before, cases[i].text, fields[k].after);
            (void)snprintf(says, sizeof(says), "%s%s", fields[k].place, cases[i].says ? cases[i].says : "");
            r = pl_spec_parse(text, strlen(text), "t.json", &given, &spec, &problems, NULL);
            if ((r == 0) != (cases[i].says == NULL) || (r < 0 && strstr(problems.errors[0].text, says) == NULL))
                fail_msg("%s\nsays: %s", text, r < 0 ? problems.errors[0].text : "nothing");
            pl_spec_destroy(spec);
            spec = NULL;
            assert_int_equal(pl_spec_parse(text, strlen(text), "stored", NULL, &spec, NULL, NULL), 0); /* stays readable */
            pl_spec_destroy(spec);
        }
    }
}

static void datum_in_a_command_is_warned_of(void **state)
{
    static const char text[] =
        "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\", "
        "\"${datum} $${datum}\"], \"output\": {\"prefix\": \"${datum}/\"}}]}";
    struct pl_spec *spec = NULL;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &given, &spec, &problems, NULL), 0);
    assert_int_equal(problems.n_warnings, 1);
    assert_non_null(strstr(problems.warnings[0].text, "stages[0].run[1]: ${datum} is not replaced here: the datum's id is in the "
                                                      "variable PL_DATUM_ID"));
    pl_spec_destroy(spec);
}

static void variables_in_a_script_are_warned_of(void **state)
{
    static const struct {
        const char *text, *variable, *instead; /* NULL: no warning */
    } cases[] = {
        {"train --lr ${params.lr}", "${params.lr}", "the value is in the variable PL_PARAM_LR"},
        {"train --lr ${param.lr}", "${param.lr}", "the value is in the variable PL_PARAM_LR"},
        {"cp f ${datum}/", "${datum}", "the datum's id is in the variable PL_DATUM_ID"},
        {"cp f ${r.stem}", "${r.stem}", "the path of input \"r\" is in the variable PL_INPUT_R"},
        {"datum=$(basename $r); cp f ${datum}", NULL, NULL},
        {"for datum in $r/*; do cp ${datum} $PL_OUT; done", NULL, NULL},
        {"echo ${r} ${PL_PARAM_LR} ${x.y} ${r%.*} ${ ${}", NULL, NULL},
    };
    static const struct {
        const char *before, *place, *where;
    } fields[] = {{"\"script\": ", "script", "a script"}, {"\"run\": [\"sh\"], \"stdin\": ", "stdin", "standard input"}};
    char text[1024], says[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        for (size_t k = 0; k < PL_ARRAY_SIZE(fields); k++) {
            struct pl_spec *spec = NULL;

            (void)snprintf(text, sizeof text,
                           "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"cross\": [{\"repo\": \"r\"}, "
                           "{\"params\": {\"lr\": [1]}}]}, %s\"%s\"}]}",
                           fields[k].before, cases[i].text);
            (void)snprintf(says, sizeof says, "stages[0].%s: %s is not replaced in %s: %s", fields[k].place,
                           cases[i].variable ? cases[i].variable : "", fields[k].where,
                           cases[i].variable ? cases[i].instead : "");
            assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &given, &spec, &problems, NULL), 0);
            assert_int_equal(problems.n_warnings, cases[i].variable != NULL);
            if (cases[i].variable && strstr(problems.warnings[0].text, says) == NULL)
                fail_msg("%s\nsays: %s", text, problems.warnings[0].text);
            pl_spec_destroy(spec);
        }
}

static void wrong_inputs_are_refused_in_words(void **state)
{
    static const struct {
        const char *input, *says;
    } cases[] = {
        {"{}", "stages[0].input: \"repo\" is missing: an input is {\"repo\": \"NAME\", …}, {\"git\": {…}}, {\"cross\": […]}, "
               "{\"union\": […]} or {\"params\": {…}}"},
        {"[]", "[] is not accepted: an input is"},
        {"{\"repo\": \"a b\"}", "stages[0].input.repo: "},
        {"{\"repo\": \"a@b@c\"}", "stages[0].input.repo: "},
        {"{\"repo\": \"a@\"}", "the name of the branch is empty"},
        {"{\"rep\": \"a\"}", "unknown field \"rep\"; did you mean \"repo\"?"},
        {"{\"repo\": \"a\", \"glob\": \"/a(b\"}", "stages[0].input.glob: glob \"/a(b\": column 3: ( is never closed"},
        {"{\"repo\": \"a\", \"glob\": \"\"}", "the glob is empty"},
        {"{\"repo\": \"a\", \"files\": [\"x\", \"[\"]}", "stages[0].input.files[1]: glob \"[\": column 1: [ is never closed"},
        {"{\"repo\": \"a\", \"files\": []}", "stages[0].input.files: "},
        {"{\"repo\": \"a\", \"join_on\": \"$1\"}", "\"join_on\" is not available yet"},
        {"{\"union\": []}", "stages[0].input.union: [] is not accepted: a list of 1 to 64 inputs"},
        {"{\"union\": [{\"repo\": \"a\"}], \"cross\": [{\"repo\": \"a\"}]}",
         "no other field may be beside \"union\": move the other fields into its inputs"},
        {"{\"cross\": [{\"union\": [{\"repo\": \"a\"}, {\"repo\": \"b\"}]}, {\"repo\": \"b\"}]}",
         "stages[0].input.cross[1].name: two inputs are named \"b\""},
        {"{\"pfs\": {\"repo\": \"a\", \"glob\": 7}}", "stages[0].input.pfs.glob: 7 is not accepted"},
        {"{\"pfs\": {\"repo\": \"a\"}, \"glob\": \"/\"}", "no other field may be beside \"pfs\""},
        {"{\"pfs\": {\"cross\": []}}", "stages[0].input.pfs: {\"cross\":[]} is not accepted: an input with a \"repo\""},
        {"{\"params\": {}}", "stages[0].input.params: {} is not accepted: an object of lists"},
        {"{\"params\": {\"lr\": 0.1}}", "stages[0].input.params.lr: 0.1 is not accepted: a list of values such as [0.1, 0.03]"},
        {"{\"params\": {\"lr\": [0.1, [2]]}}", "stages[0].input.params.lr[1]: [2] is not accepted: a string, a number"},
        {"{\"params\": {\"lr\": [0.1, 0.10]}}", "the combination {\"lr\":0.1} is given twice"},
        {"{\"params\": {\"l r\": [1]}}", "stages[0].input.params[\"l r\"]: "},
        {"{\"params\": {\"a-b\": [1], \"a_b\": [1]}}", "would share the variable PL_PARAM_A_B"},
        {"{\"params\": [{\"a\": 1}, {\"b\": 1}]}",
         "stages[0].input.params[1]: the names differ from those of the first combination"},
        {"{\"params\": [7]}", "stages[0].input.params[0]: 7 is not accepted: an object of 1 to 64 values"},
        {"{\"params\": {\"a\": [1]}, \"glob\": \"/\"}",
         "no other field may be beside \"params\": combine it with other inputs in a \"cross\""},
        {"{\"cross\": [{\"params\": {\"a\": [1]}}, {\"params\": {\"b\": [1]}}]}",
         "stages[0].input.cross[1].params: two inputs are named \"params\""},
        {"{\"union\": [{\"params\": {\"a\": [1]}}, {\"repo\": \"params\"}]}", "two inputs are named \"params\""},
        {"{\"repo\": \"a\", \"previous\": true}",
         "stages[0].input.previous: only the stage's own output can be read as previous: use \"repo\": \"s\""},
        {"{\"repo\": \"s\", \"previous\": true, \"glob\": \"/*\"}", "the previous output is always read as a whole"},
        {"{\"union\": [{\"repo\": \"a\", \"name\": \"x\"}, {\"repo\": \"b\", \"name\": \"x\", \"writable\": true}]}",
         "of two inputs named \"x\" only one is writable"},
        {"{\"union\": [{\"repo\": \"a\", \"glob\": \"/*\"}, {\"repo\": \"a@master\", \"name\": \"a\", \"glob\": \"/f*\"}]}",
         "stages[0].input.union[1]: a@master is already an input of this union, with the name \"a\": a match of both would "
         "give two datums with the same id: make them one input, or set another \"name\" for one"},
        {"{\"union\": [{\"union\": [{\"repo\": \"b\"}, {\"repo\": \"a\"}]}, {\"cross\": [{\"repo\": \"a\"}]}]}",
         "stages[0].input.union[1].cross[0]: a@master is already an input of this union"},
        {"{\"union\": [{\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"b\"}]}, {\"cross\": [{\"repo\": \"a\"}, {\"union\": "
         "[{\"repo\": \"c\"}, {\"repo\": \"b\"}]}]}]}",
         "stages[0].input.union[1].cross[0]: a@master is already an input of this union"},
        {"{\"union\": [{\"params\": {\"k\": [1, 2]}}, {\"params\": {\"k\": [3, 2]}}]}",
         "stages[0].input.union[1]: one of these combinations is in this union already"},
        {"{\"repo\": \"a\", \"reference\": 1}", "stages[0].input.reference: 1 is not accepted: true or false"},
        {"{\"cross\": []}", "[] is not accepted: a list of 1 to 64 inputs"},
        {"{\"cross\": [{\"repo\": \"a\"}], \"glob\": \"/\"}", "no other field may be beside \"cross\""},
        {"{\"cross\": [{\"repo\": \"a\"}, 7]}", "stages[0].input.cross[1]: 7 is not accepted"},
        {"{\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"a\"}]}", "stages[0].input.cross[1].name: two inputs are named \"a\""},
        {"{\"cross\": [{\"repo\": \"a-b\"}, {\"repo\": \"a_b\"}]}", "would share the variable PL_INPUT_A_B"},
        {"{\"repo\": \"out\"}", "an input cannot be named \"out\""},
        {"{\"repo\": \"a\", \"name\": \"PATH\"}", "would replace the variable of that name"},
        {"{\"repo\": \"a\", \"name\": \"_x\"}", "stages[0].input.name: "},
        {"{\"repo\": \"s\"}", "stages[0].input.repo: the stages form a circle: s reads s"},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;

        (void)snprintf(text, sizeof(text),
                       "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"run\": [\"x\"], \"input\": %s}]}", cases[i].input);
        assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL), PL_ESPEC);
        if (strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].input, problems.errors[0].text);
        assert_int_equal(problems.n_errors, 1);
    }
}

/* One name is no reason: another repo, branch, project, partner or combination makes another id. */
static void what_is_told_apart_in_a_union_is_taken(void **state)
{
    static const char *const inputs[] = {
        "[{\"repo\": \"a\", \"name\": \"x\"}, {\"repo\": \"b\", \"name\": \"x\"}]",
        "[{\"repo\": \"a\"}, {\"repo\": \"a@dev\", \"name\": \"a\"}]",
        "[{\"repo\": \"a\"}, {\"repo\": \"other/a\", \"name\": \"a\"}]",
        "[{\"repo\": \"a\"}, {\"repo\": \"a\", \"name\": \"again\"}]",
        "[{\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"b\"}]}, {\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"c\"}]}]",
        "[{\"repo\": \"a\"}, {\"cross\": [{\"repo\": \"a\"}, {\"repo\": \"c\"}]}]",
        ("[{\"cross\": [{\"repo\": \"a\"}, {\"params\": {\"k\": [1]}}]}, "
         "{\"cross\": [{\"repo\": \"a\"}, {\"params\": {\"k\": [2]}}]}]"),
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(inputs); i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"run\": [\"x\"], \"input\": {\"union\": %s}}]}",
                       inputs[i]);
        pl_spec_destroy(parse(text));
    }
}

static void the_last_spec_of_the_language_is_understood(void **state)
{
    struct pl_spec *spec = parse(hp);
    const struct pl_input *params = spec->stages[0].leaves[1];

    (void)state;
    assert_int_equal(params->n_combinations, 1);
    assert_string_equal(params->combinations[0].json, "{\"hidden\":32,\"lr\":0.1}");
    assert_string_equal(params->param_names[1], "lr");
    assert_string_equal(params->combinations[0].values[1], "0.1");
    assert_int_equal(spec->stages[1].leaves[0]->stage, 0);
    pl_spec_destroy(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_spec_of_the_language_is_understood),
        cmocka_unit_test(params_are_combinations_in_one_spelling),
        cmocka_unit_test(what_a_datum_may_lack_is_not_named),
        cmocka_unit_test(variables_that_name_nothing_are_refused_with_what_exists),
        cmocka_unit_test(datum_in_a_command_is_warned_of),
        cmocka_unit_test(variables_in_a_script_are_warned_of),
        cmocka_unit_test(what_is_told_apart_in_a_union_is_taken),
        cmocka_unit_test(wrong_inputs_are_refused_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
