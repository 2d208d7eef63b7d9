// link: pipelined/plan pipelined/spec
/* spec: what a pipeline spec may say, what is refused and with which words, and that schema, docs and the effective form come from the same
 * table. */
#include "pipelined/plan/datum_identity.h"
#include "pipelined/spec/spec.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* The four specs of the language's description. */
static const char digits[] =
    "{\"pipeline\": \"digits\", \"repos\": {\"digits\": {}}, \"stages\": [\n"
    "  {\"name\": \"prepare\", \"input\": {\"repo\": \"digits\", \"glob\": \"/train/*.csv\"}, "
    "\"code\": {\"path\": \"code\", \"files\": [\"prepare.py\", \"digits.py\"]}, \"run\": [\"python3\", \"prepare.py\"], "
    "\"workers\": 4, \"output\": {\"prefix\": \"${digits.stem}/\"}},\n"
    "  {\"name\": \"train\", \"input\": {\"repo\": \"prepare\", \"files\": [\"*.npz\"]}, "
    "\"code\": {\"path\": \"code\", \"files\": [\"train.py\", \"digits.py\"]}, \"run\": [\"python3\", \"train.py\"], "
    "\"gpu\": {\"count\": 1, \"required\": false}, \"output\": {\"expect\": [\"/model.npz\", \"/metrics.json\"]}},\n"
    "  {\"name\": \"infer\", \"input\": {\"cross\": [{\"repo\": \"digits\", \"name\": \"test\", \"glob\": \"/test/*.csv\"}, "
    "{\"repo\": \"train\", \"name\": \"model\", \"files\": [\"/model.npz\"]}]}, "
    "\"code\": {\"path\": \"code\", \"files\": [\"infer.py\", \"digits.py\"]}, "
    "\"run\": [\"python3\", \"infer.py\"], \"output\": {\"prefix\": \"${test.stem}/\"}},\n"
    "  {\"name\": \"report\", \"input\": {\"repo\": \"infer\", \"files\": [\"predictions.csv\"]}, "
    "\"code\": {\"path\": \"code\", \"files\": [\"report.py\", \"digits.py\"]}, \"run\": [\"python3\", \"report.py\"]}]}\n";

static const char cats[] =
    "{\"pipeline\": \"cats\", \"defaults\": {\"image\": \"reg.example/cats@sha256:0\", \"code\": \"src\"}, \"stages\": [\n"
    "  {\"name\": \"resize\", \"input\": {\"repo\": \"photos\", \"glob\": \"/**/*.jpg\"}, \"run\": [\"python3\", \"resize.py\"], "
    "\"workers\": 4, \"datum\": {\"batch\": true}, \"on_error\": \"skip\", \"max_failed\": \"0.1%\"},\n"
    "  {\"name\": \"fold\", \"input\": {\"cross\": [{\"repo\": \"resize\"}, {\"params\": {\"k\": [0, 1, 2, 3]}}]}, \"run\": "
    "[\"torchrun\", "
    "\"--fold\", \"${params.k}\"],\n"
    "   \"workers\": 4, \"gpu\": {\"count\": 2, \"memory\": \"40G\", \"product\": [\"*A100*\", \"*H100*\"]}, \"resources\": "
    "{\"cpu\": 16, "
    "\"memory\": \"120Gi\", \"shm\": \"16Gi\"},\n"
    "   \"checkpoint\": {\"every\": \"5m\"}, \"datum\": {\"tries\": 2, \"timeout\": \"12h\"}, \"output\": {\"prefix\": "
    "\"fold-${params.k}/\", \"expect\": [\"/fold-*/model.pt\"]}},\n"
    "  {\"name\": \"pick\", \"input\": {\"repo\": \"fold\", \"files\": [\"**/metrics.json\", \"**/model.pt\"]}, \"run\": "
    "[\"python3\", "
    "\"pick.py\"]}]}\n";

static const char nightly[] =
    "{\"pipeline\": \"nightly\", \"stages\": [\n"
    "  {\"name\": \"score\", \"image\": \"reg.example/score:7\", \"code\": \"score\", \"run\": [\"python3\", \"score.py\"], "
    "\"workers\": 8, "
    "\"datum\": {\"batch\": true},\n"
    "   \"input\": {\"cross\": [{\"join\": [{\"repo\": \"images\", \"glob\": \"/(*)/(*).jpg\", \"join_on\": \"$1/$2\", "
    "\"outer\": true}]},\n"
    "                       {\"repo\": \"pick\", \"name\": \"model\", \"files\": [\"/model.pt\"], \"reference\": true}]},\n"
    "   \"schedule\": {\"cron\": \"0 3 * * *\"}, \"gpu\": {\"share\": {\"mode\": \"mig\"}},\n"
    "   \"secrets\": [{\"name\": \"pg\"}], \"output\": {\"prefix\": \"${images.1}/\"}, \"egress\": {\"url\": "
    "\"s3://reports/\"}}]}\n";

static struct pl_spec_errors problems; /* large: not on the stack of every test */

static struct pl_spec *parse_with(const char *text, const struct pl_spec_context *ctx)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", ctx, &spec, &problems, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
}

static struct pl_spec *parse(const char *text)
{
    return parse_with(text, NULL);
}

/* One stage with `fields` beside a name, an input and a command. */
static char *stage_text(const char *fields)
{
    static char text[4096];

    (void)snprintf(text, sizeof(text),
                   "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]%s%s}]}",
                   fields[0] != '\0' ? ", " : "", fields);
    return text;
}

static void the_first_spec_of_the_language_is_understood(void **state)
{
    struct pl_spec *spec = parse(digits);
    const struct pl_stage *s;

    (void)state;
    assert_string_equal(spec->pipeline, "digits");
    assert_string_equal(spec->project, "default");
    assert_int_equal(spec->n_repos, 1);
    assert_string_equal(spec->repos[0].name, "digits");
    assert_int_equal(spec->n_stages, 4);
    s = pl_spec_stage(spec, "prepare");
    assert_non_null(s);
    assert_string_equal(s->code, "code");
    assert_int_equal(s->workers, 4);
    assert_int_equal(s->n_run, 2);
    assert_string_equal(s->run[1], "prepare.py");
    assert_string_equal(s->output.prefix, "${digits.stem}/");
    assert_string_equal(s->output.branch, "master");
    assert_int_equal(s->leaves[0]->stage, PL_SPEC_NO_STAGE);
    assert_string_equal(s->leaves[0]->glob, "/train/*.csv");
    assert_int_equal(s->gpu.count, 0);
    assert_int_equal(s->datum.tries, 1);
    assert_int_equal(s->on_new, PL_ON_NEW_NEWEST);
    assert_true(s->cache.enabled && s->cache.code);
    s = pl_spec_stage(spec, "train");
    assert_int_equal(s->gpu.count, 1);
    assert_false(s->gpu.required);
    assert_int_equal(s->gpu.wait_ms, 600000);
    assert_int_equal(s->leaves[0]->stage, 0);
    assert_int_equal(s->n_leaves, 1);
    assert_int_equal(s->leaves[0]->n_files, 1);
    assert_int_equal(s->output.n_expect, 2);
    s = pl_spec_stage(spec, "infer");
    assert_int_equal(s->input->kind, PL_INPUT_CROSS);
    assert_int_equal(s->n_leaves, 2);
    assert_string_equal(s->leaves[0]->name, "test");
    assert_string_equal(s->leaves[0]->repo, "digits");
    assert_string_equal(s->leaves[1]->name, "model");
    assert_int_equal(s->leaves[1]->stage, 1);
    assert_int_equal(s->leaves[1]->leaf, 1);
    assert_null(pl_spec_stage(spec, "nothing"));
    pl_spec_destroy(spec);
}

static void the_second_spec_of_the_language_is_understood(void **state)
{
    struct pl_spec *spec = parse(cats);
    const struct pl_stage *s = pl_spec_stage(spec, "fold");

    (void)state;
    assert_int_equal(s->gpu.count, 2);
    assert_int_equal(s->gpu.n_product, 2);
    assert_string_equal(s->gpu.product[1], "*H100*");
    assert_int_equal(s->gpu.memory_bytes, 40LL << 30);
    assert_int_equal(s->gpu.share.mode, PL_SHARE_NONE);
    assert_int_equal(s->resources.shm_bytes, 16LL << 30);
    assert_int_equal(s->n_leaves, 2);
    pl_spec_destroy(spec);
}

static void specs_with_fields_of_later_name_the_first_of_them(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {nightly, "t.json:3:25: stages[0].input.cross[0].join: \"join\" is not available yet"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;
        struct pl_err err = {0};

        assert_int_equal(pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", NULL, &spec, &problems, &err), PL_ESPEC);
        assert_null(spec);
        assert_string_equal(problems.errors[0].text, cases[i].says);
        assert_ptr_equal(strstr(err.msg, cases[i].says), err.msg);
    }
}

static void every_field_of_a_stage_is_read(void **state)
{
    struct pl_spec *spec = parse(stage_text(
        "\"image\": \"i@sha256:1\", \"code\": \"./a/b/\", \"env\": {\"B\": 0.1, \"A\": true, \"C\": \"x\", \"D\": -3}, \"gpu\": "
        "2,"
        "\"resources\": {\"cpu\": 0.5, \"memory\": \"40Gi\", \"disk\": 1000, \"shm\": \"1M\"}, \"workers\": 3,"
        "\"datum\": {\"tries\": 2, \"timeout\": \"1h30m\"}, \"timeout\": \"90s\", \"on_error\": \"fail\", \"on_new\": \"queue\","
        "\"output\": {\"prefix\": \"${datum}/\", \"expect\": [\"/*\"]}, \"cache\": {\"code\": false, \"salt\": \"1\"}"));
    const struct pl_stage *s = &spec->stages[0];

    (void)state;
    assert_string_equal(s->image, "i@sha256:1");
    assert_string_equal(s->code, "a/b");
    assert_int_equal(s->n_env, 4);
    assert_string_equal(s->env[0].key, "A");
    assert_string_equal(s->env[0].value, "true");
    assert_string_equal(s->env[1].value, "0.1");
    assert_string_equal(s->env[3].value, "-3");
    assert_int_equal(s->gpu.count, 2);
    assert_true(s->gpu.required);
    assert_int_equal(s->resources.cpu_milli, 500);
    assert_int_equal(s->resources.memory_bytes, 40ll << 30);
    assert_int_equal(s->resources.disk_bytes, 1000);
    assert_int_equal(s->resources.shm_bytes, 1000000);
    assert_int_equal(s->workers, 3);
    assert_int_equal(s->datum.tries, 2);
    assert_int_equal(s->datum.timeout_ms, 5400000);
    assert_int_equal(s->timeout_ms, 90000);
    assert_int_equal(s->on_new, PL_ON_NEW_QUEUE);
    assert_false(s->cache.code);
    assert_string_equal(s->cache.salt, "1");
    pl_spec_destroy(spec);
}

static void defaults_are_merged_under_each_stage(void **state)
{
    struct pl_spec *spec = parse("{\"pipeline\": \"p\", \"stages\": ["
                                 "{\"name\": \"a\", \"input\": {\"repo\": \"r\"}},"
                                 "{\"name\": \"b\", \"input\": {\"repo\": \"a\"}, \"env\": {\"X\": null, \"Z\": 3}, \"workers\": "
                                 "2, \"gpu\": {\"required\": false}},"
                                 "{\"name\": \"c\", \"input\": {\"repo\": \"a\"}, \"run\": null, \"script\": \"true\", \"env\": "
                                 "null, \"resources\": {\"cpu\": 2}}],"
                                 "\"defaults\": {\"run\": [\"d\"], \"env\": {\"X\": 1, \"Y\": 2}, \"workers\": 5, \"gpu\": true, "
                                 "\"resources\": {\"memory\": "
                                 "\"1Gi\"}}, \"project\": \"q\"}");

    (void)state;
    assert_string_equal(spec->stages[0].run[0], "d");
    assert_int_equal(spec->stages[0].n_env, 2);
    assert_int_equal(spec->stages[0].workers, 5);
    assert_int_equal(spec->stages[1].n_env, 2);
    assert_string_equal(spec->stages[1].env[0].key, "Y");
    assert_string_equal(spec->stages[1].env[1].key, "Z");
    assert_int_equal(spec->stages[1].workers, 2);
    assert_int_equal(spec->stages[1].gpu.count, 1);
    assert_false(spec->stages[1].gpu.required);
    assert_null(spec->stages[2].run);
    assert_string_equal(spec->stages[2].script, "true");
    assert_int_equal(spec->stages[2].n_env, 0);
    assert_int_equal(spec->stages[2].resources.memory_bytes, 1 << 30);
    assert_int_equal(spec->stages[2].resources.cpu_milli, 2000);
    assert_string_equal(spec->stages[2].leaves[0]->project, "q"); /* wherever "project" stands in the text */
    assert_int_equal(spec->stages[2].leaves[0]->stage, 0);
    pl_spec_destroy(spec);
}

static void repos_are_named_with_project_and_branch(void **state)
{
    static const struct {
        const char *text, *project, *repo, *branch;
        uint32_t stage;
    } cases[] = {
        {"r", "default", "r", "master", PL_SPEC_NO_STAGE},
        {"r@dev", "default", "r", "dev", PL_SPEC_NO_STAGE},
        {"q/r", "q", "r", "master", PL_SPEC_NO_STAGE},
        {"q/r@dev", "q", "r", "dev", PL_SPEC_NO_STAGE},
        {"s", "default", "s", "master", 0},
        {"default/s@master", "default", "s", "master", 0},
        {"s@old", "default", "s", "old", PL_SPEC_NO_STAGE},
        {"q/s", "q", "s", "master", PL_SPEC_NO_STAGE},
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec;
        const struct pl_input *leaf;

        (void)snprintf(text, sizeof(text),
                       "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]},"
                       "{\"name\": \"t\", \"input\": {\"repo\": \"%s\"}, \"run\": [\"x\"]}]}",
                       cases[i].text);
        spec = parse(text);
        leaf = spec->stages[1].leaves[0];
        assert_string_equal(leaf->project, cases[i].project);
        assert_string_equal(leaf->repo, cases[i].repo);
        assert_string_equal(leaf->branch, cases[i].branch);
        assert_string_equal(leaf->name, cases[i].repo);
        assert_int_equal(leaf->stage, cases[i].stage);
        pl_spec_destroy(spec);
    }
}

static void stages_are_ordered_by_what_they_read(void **state)
{
    struct pl_spec *spec =
        parse("{\"pipeline\": \"p\", \"defaults\": {\"run\": [\"x\"]}, \"stages\": ["
              "{\"name\": \"d\", \"input\": {\"cross\": [{\"repo\": \"b\"}, {\"cross\": [{\"repo\": \"c\"}]}]}},"
              "{\"name\": \"c\", \"input\": {\"repo\": \"a\"}}, {\"name\": \"b\", \"input\": {\"repo\": \"a\"}},"
              "{\"name\": \"a\", \"input\": {\"repo\": \"r\"}}]}");
    static const uint32_t order[] = {3, 1, 2, 0};

    (void)state;
    assert_memory_equal(spec->order, order, sizeof(order));
    assert_int_equal(spec->stages[0].n_leaves, 2);
    pl_spec_destroy(spec);
}

/* What is wrong with one field, and what the first message says. */
static void wrong_fields_are_refused_in_words(void **state)
{
    static const struct {
        const char *fields, *says;
    } cases[] = {
        {"\"wrokers\": 2", "t.json:1:82: stages[0].wrokers: unknown field \"wrokers\"; did you mean \"workers\"?"},
        {"\"retries\": 2", "stages[0].retries: unknown field \"retries\"; write \"datum\": {\"tries\": N}"},
        {"\"cmd\": [\"x\"]", "unknown field \"cmd\"; write \"run\": [\"PROGRAM\", \"ARGUMENT\", …]"},
        {"\"depends_on\": [\"x\"]", "unknown field \"depends_on\"; write \"input\": {\"repo\": \"STAGE\"}: a stage runs after"},
        {"\"datum\": {\"retries\": 2}", "stages[0].datum.retries: unknown field \"retries\"; write \"tries\": N"},
        {"\"zzzzzz\": 2", "stages[0].zzzzzz: unknown field \"zzzzzz\": a stage has no such field"},
        {"\"zzzzzz\": null", "stages[0].zzzzzz: unknown field \"zzzzzz\""},
        {"\"workers\": \"four\"", "t.json:1:93: stages[0].workers: \"four\" is not accepted: a whole number from 1 to 10000"},
        {"\"workers\": 0", "0 is not accepted: a whole number from 1 to 10000"},
        {"\"workers\": 1.5", "1.5 is not accepted"},
        {"\"datum\": {\"tries\": 0}", "stages[0].datum.tries: 0 is not accepted: a whole number from 1 to 100"},
        {"\"datum\": {\"timeout\": \"soon\"}", "stages[0].datum.timeout: "},
        {"\"timeout\": \"0s\"", "\"0s\" is not accepted: a duration of more than 0"},
        {"\"timeout\": 10", "10 is not accepted: a duration such as \"90s\""},
        {"\"script\": \"true\"", "stages[0]: both \"run\" and \"script\" are given"},

        {"\"image\": \"\"", "\"\" is not accepted: a string that is not empty"},
        {"\"code\": \"../x\"",
         "stages[0].code: path \"../x\" has a segment \"..\": the folder must be at or below the spec's folder"},
        {"\"code\": \"/abs\"", "\"/abs\" is not accepted: a folder at or below the spec's"},
        {"\"env\": {\"1A\": 1}", "stages[0].env.1A: \"1A\" is not a valid variable name"},
        {"\"env\": {\"PL_OUT\": 1}", "\"PL_OUT\" is set by pipelined"},
        {"\"env\": {\"r\": 1}", "\"r\" is the variable of the input of that name"},
        {"\"env\": {\"A\": [1]}", "[1] is not accepted: a string, a number, true or false"},
        {"\"gpu\": 0", "stages[0].gpu: 0 is not accepted: a whole number from 1 to 64"},
        {"\"gpu\": \"yes\"", "\"yes\" is not accepted: true, false, a number of devices or an object"},
        {"\"gpu\": {\"cuont\": 1}", "unknown field \"cuont\"; did you mean \"count\"?"},
        {"\"resources\": {\"cpu\": \"many\"}", "\"many\" is not an amount of CPU: use 2, 0.5 or \"500m\""},
        {"\"resources\": {\"memory\": \"40GB\"}", "\"40GB\" is not a size: use \"512Mi\""},
        {"\"resources\": {\"memory\": -1}", "\"-1\" is not a size"},
        {"\"on_error\": \"ignore\"", "stages[0].on_error: \"ignore\" is not accepted: \"fail\", \"skip\" or {\"run\": […]}"},
        {"\"on_error\": {}", "stages[0].on_error: \"run\" is missing"},
        {"\"on_error\": {\"run\": []}", "stages[0].on_error.run: [] is not accepted"},
        {"\"on_new\": \"kill\"", "\"kill\" is not accepted: \"queue\" or \"newest\" or \"restart\""},
        {"\"datum\": {\"batch\": true}, \"on_error\": {\"run\": [\"x\"]}",
         "stages[0].on_error: a command is not accepted with \"batch\""},
        {"\"datum\": {\"batch\": true}, \"output\": {\"copy_links\": true}",
         "stages[0].output.copy_links: not accepted with \"batch\""},
        {"\"checkpoint\": \"yes\"", "stages[0].checkpoint: \"yes\" is not accepted: true, false or an object"},
        {"\"checkpoint\": {\"every\": \"10ms\"}", "stages[0].checkpoint.every: \"10ms\" is not accepted: a duration"},
        {"\"accept_codes\": [256]", "stages[0].accept_codes[0]: 256 is not accepted: an exit code from 1 to 255"},
        {"\"max_failed\": -1", "stages[0].max_failed: -1 is not accepted: a whole number of datums, or a share of them"},
        {"\"max_failed\": \"1\"", "\"1\" is not accepted"},
        {"\"max_failed\": \"101%\"", "\"101%\" is not accepted"},
        {"\"max_failed\": \"1e1%\"", "\"1e1%\" is not accepted"},
        {"\"on_new\": \"latest\"", "\"latest\" is not accepted: \"queue\" or \"newest\""},
        {"\"output\": {\"prefix\": \"${x.stem}/\"}",
         "stages[0].output.prefix: prefix \"${x.stem}/\": ${x.stem}: there is no input \"x\""},
        {"\"output\": {\"prefix\": \"${r.1}/\"}", "the glob of input \"r\" has 0 captures"},
        {"\"output\": {\"expect\": [\"/a(\"]}", "stages[0].output.expect[0]: glob \"/a(\": column 3: ( is never closed"},
        {"\"output\": {\"branch\": \"x\"}", "\"branch\" is not available yet"},
        {"\"cache\": \"no\"", "\"no\" is not accepted: true, false or an object"},
        {"\"schedule\": {\"cron\": \"@daily\"}", "\"schedule\" is not available yet"},
        {"\"sweep\": {}", "\"sweep\" is not available yet"},
        {"\"replicas\": 4",
         "\"replicas\" is not available yet: a datum has one worker; \"workers\" says how many share the stage's datums"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const char *text = stage_text(cases[i].fields);
        struct pl_spec *spec = NULL;
        struct pl_err err = {0};

        assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, &err), PL_ESPEC);
        if (strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].fields, problems.errors[0].text);
        assert_int_equal(problems.n_errors, 1);
        assert_string_equal(err.field, problems.errors[0].path);
    }
}

static void wrong_files_are_refused_in_words(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "t.json:1:1: a { is expected, not the end of the text"},
        {"[]", "t.json:1:1: a spec is an object"},
        {"{\"pipeline\": \"p\",\n \"stages\": [],\n \"pipeline\": \"p\"}",
         "t.json:3:2: the key \"pipeline\" appears here a second time"},
        {"{\"pipeline\": \"p\", \"stages\": [}", "t.json:1:30: a value is expected, not '}'"},
        {"{\"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]}]}",
         "t.json:1:1: \"pipeline\" is missing"},
        {"{\"pipeline\": \"p\"}", "t.json:1:1: \"stages\" is missing"},
        {"{\"pipeline\": \"p\", \"stages\": []}", "stages: [] is not accepted: a list of at least one stage"},
        {"{\"pipeline\": \"p\", \"stages\": [7]}", "stages[0]: 7 is not accepted"},
        {"{\"pipeline\": \"p q\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]}]}",
         "t.json:1:14: pipeline: "},
        {"{\"pipeline\": \"p\", \"stages\": [{\"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]}]}",
         "t.json:1:30: stages[0]: \"name\" is missing"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"run\": [\"x\"]}]}",
         "stages[0]: \"input\" is missing: an input is"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}}]}", "stages[0]: \"run\" is missing"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": []}]}",
         "stages[0].run: [] is not accepted: a list with at least one string"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"\"]}]}",
         "stages[0].run[0]: \"\" is not accepted: give the name of a program"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"a\", 1]}]}",
         "stages[0].run[1]: 1 is not accepted: a string"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]}, {\"name\": "
         "\"s\", \"input\": "
         "{\"repo\": \"r\"}, \"run\": [\"x\"]}]}",
         "stages[1].name: two stages are named \"s\"; the first is stages[0]"},
        {"{\"pipeline\": \"p\", \"repos\": {\"s\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": "
         "[\"x\"]}]}",
         "repos.s: the stage stages[0] writes a repo of that name"},
        {"{\"pipeline\": \"p\", \"repos\": {\"r\": {\"keep\": {\"commits\": 0}}}, \"stages\": [{\"name\": \"s\", \"input\": "
         "{\"repo\": \"r\"}, "
         "\"output\": {}, \"run\": [\"x\"]}]}",
         "repos.r.keep.commits: 0 is not accepted: a whole number from 1 to 1000000"},
        {"{\"pipeline\": \"p\", \"repos\": {\"r\": {\"keep\": {\"logs\": 7}}}, \"stages\": [{\"name\": \"s\", \"input\": "
         "{\"repo\": \"r\"}, "
         "\"output\": {}, \"run\": [\"x\"]}]}",
         "repos.r.keep.logs: unknown field \"logs\""},
        {"{\"pipeline\": \"p\", \"repos\": {\"r\": {\"keep\": 5}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, "
         "\"output\": {}, \"run\": [\"x\"]}]}",
         "repos.r.keep: 5 is not accepted: an object, {} to keep everything"},
        {"{\"pipeline\": \"p\", \"repos\": {\"r\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, "
         "\"output\": {\"keep\": {\"days\": \"30\"}}, \"run\": [\"x\"]}]}",
         "stages[0].output.keep.days: \"30\" is not accepted: a whole number from 1 to 1000000"},
        {"{\"pipeline\": \"p\", \"repos\": {\"r\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, "
         "\"output\": {\"keep\": {\"result\": 3}}, \"run\": [\"x\"]}]}",
         "did you mean \"results\"?"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"a\", \"input\": {\"repo\": \"c\"}, \"run\": [\"x\"]}, {\"name\": "
         "\"b\", \"input\": "
         "{\"repo\": \"a\"}, \"run\": [\"x\"]}, {\"name\": \"c\", \"input\": {\"repo\": \"b\"}, \"run\": [\"x\"]}]}",
         "stages[0].input.repo: the stages form a circle: a reads c reads b reads a"},
        /* a mistake in the defaults is shown where it is, once */
        {"{\"pipeline\": \"p\",\n \"defaults\": {\"workers\": 0, \"run\": [\"x\"]}, \"stages\": [{\"name\": \"a\", \"input\": "
         "{\"repo\": "
         "\"r\"}}, {\"name\": \"b\", \"input\": {\"repo\": \"r\"}}]}",
         "t.json:2:26: defaults.workers: 0 is not accepted"},
        {"{\"pipeline\": \"p\",\n \"defaults\": {\"workres\": 1}, \"stages\": [{\"name\": \"a\", \"input\": {\"repo\": \"r\"}, "
         "\"run\": "
         "[\"x\"], \"workres\": null}]}",
         "t.json:2:15: defaults.workres: unknown field \"workres\"; did you mean \"workers\"?"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;

        assert_int_equal(pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", NULL, &spec, &problems, NULL), PL_ESPEC);
        if (strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].text, problems.errors[0].text);
    }
}

static void more_stages_than_the_writer_makes_in_a_moment_are_refused(void **state)
{
    struct pl_spec *spec = NULL;
    struct pl_buf text = {0};

    (void)state;
    for (unsigned n = PL_SPEC_STAGES_MAX; n <= PL_SPEC_STAGES_MAX + 1; n++) {
        pl_buf_clear(&text);
        assert_int_equal(pl_buf_add_str(&text, "{\"pipeline\": \"p\", \"stages\": [", NULL), 0);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(pl_buf_addf(&text, NULL, "%s{\"name\": \"s%u\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]}",
                                         i ? ", " : "", i),
                             0);
        assert_int_equal(pl_buf_add_str(&text, "]}", NULL), 0);
        assert_int_equal(pl_spec_parse((const char *)text.data, text.len, "t.json", NULL, &spec, &problems, NULL),
                         n > PL_SPEC_STAGES_MAX ? PL_ESPEC : 0);
    }
    assert_non_null(
        strstr(problems.errors[0].text, "stages: 1001 stages are not accepted: at most 1000; make several pipelines"));
    pl_spec_destroy(spec);
    pl_buf_finish(&text);
}

static void several_mistakes_are_told_at_once_in_order(void **state)
{
    static const char text[] = "{\"pipeline\": \"p\",\n"
                               " \"stages\": [{\"name\": \"s\",\n"
                               "  \"wrokers\": 1,\n"
                               "  \"gpu\": \"x\",\n"
                               "  \"input\": {\"repo\": \"r\", \"glob\": \"[\"}}]}";
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};
    uint32_t lines[] = {2, 3, 4, 5};

    (void)state;
    assert_int_equal(pl_spec_parse(text, sizeof(text) - 1, "t.json", NULL, &spec, &problems, &err), PL_ESPEC);
    assert_int_equal(problems.n_errors, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(problems.errors[i].line, lines[i]);
    assert_non_null(strstr(err.msg, "(and 3 more)"));
}

static void no_more_mistakes_are_kept_than_the_bound(void **state)
{
    char text[8192] = "{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]";
    struct pl_spec *spec = NULL;

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",\n\"zzzzzz%u\": 1", i);
    strcat(text, "}]}");
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL), PL_ESPEC);
    assert_int_equal(problems.n_errors, PL_SPEC_ERRORS_MAX);
    assert_int_equal(problems.more_errors, 50 - PL_SPEC_ERRORS_MAX);
    assert_int_equal(problems.errors[0].line, 2);
    assert_int_equal(problems.errors[PL_SPEC_ERRORS_MAX - 1].line, 21);
}

static bool not_nosuch(void *self, const char *project)
{
    (void)self;
    return strcmp(project, "nosuch") != 0;
}

static bool only_photos(void *self, const char *project, const char *repo)
{
    (void)self;
    return pl_streq(project, "default") && (pl_streq(repo, "photos") || pl_streq(repo, "train"));
}

static const char *train_is_of_digits(void *self, const char *project, const char *stage)
{
    (void)self;
    (void)project;
    return pl_streq(stage, "train") ? "digits" : NULL;
}

static void what_the_store_knows_is_asked(void **state)
{
    static const struct {
        const char *text, *says; /* NULL: fine */
    } cases[] = {
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"photos\"}, \"run\": [\"x\"]}]}", NULL},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"digits\"}, \"run\": [\"x\"]}]}",
         "stages[0].input.repo: repo \"digits\" does not exist: pipelinectl create repo digits, or add \"repos\": {\"digits\": "
         "{}}"},
        {"{\"pipeline\": \"p\", \"repos\": {\"digits\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"digits\"}, "
         "\"run\": [\"x\"]}]}",
         NULL},
        {"{\"pipeline\": \"p\", \"repos\": {\"digits\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"digts\"}, "
         "\"run\": [\"x\"]}]}",
         "repo \"digts\" does not exist; did you mean \"digits\"?"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"q/photos\"}, \"run\": [\"x\"]}]}",
         "repo \"photos\" does not exist in project \"q\": pipelinectl create repo q/photos"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"nosuch/photos\"}, \"run\": [\"x\"]}]}",
         "project \"nosuch\" does not exist: pipelinectl create project nosuch"},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"train\", \"input\": {\"repo\": \"photos\"}, \"run\": [\"x\"]}]}",
         "stages[0].name: stage \"train\" already belongs to pipeline \"digits\" in project \"default\": rename it, or set "
         "\"project\" in the "
         "spec"},
        {"{\"pipeline\": \"digits\", \"stages\": [{\"name\": \"train\", \"input\": {\"repo\": \"photos\"}, \"run\": [\"x\"]}]}",
         NULL},
        {"{\"pipeline\": \"p\", \"stages\": [{\"name\": \"photos\", \"input\": {\"repo\": \"train\"}, \"run\": [\"x\"]}]}",
         "there is a repo \"photos\" in project \"default\" that no stage writes"},
    };
    const struct pl_spec_context ctx = {.repo_exists = only_photos,
                                        .project_exists = not_nosuch,
                                        .stage_owner = train_is_of_digits};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;
        int r = pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", &ctx, &spec, &problems, NULL);

        assert_int_equal(r, cases[i].says == NULL ? 0 : PL_ESPEC);
        if (cases[i].says != NULL && strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s", problems.errors[0].text);
        pl_spec_destroy(spec);
    }
}

static void a_command_that_names_pfs_is_refused_where_there_is_no_sandbox(void **state)
{
    static const struct {
        const char *stage, *says;
    } cases[] = {
        {"\"run\": [\"cp\", \"/pfs/in/f\"]",
         "stages[0].run[1]: \"/pfs/in/f\" names /pfs, which does not exist without a sandbox"},
        {"\"run\": [\"sh\", \"-c\", \"ls /pfs\"]", "stages[0].run[2]: "},
        {"\"script\": \"ls '/pfs/out'\"", "stages[0].script: "},
        {"\"run\": [\"x\"], \"env\": {\"A\": \"a:/pfs/in\"}", "stages[0].env.A: "},
        {"\"run\": [\"ls\", \"/data/pfs\", \"/pfs2\", \"/pfs-old\", \"./pfs/x\", \"$D/pfs\"]", NULL},
    };
    const struct pl_spec_context ctx = {.no_sandbox = true};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;
        char text[512];
        int r;

        snprintf(
            text, sizeof text,
            "{\"pipeline\": \"p\", \"repos\": {\"in\": {}}, \"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"in\"}, %s}]}",
            cases[i].stage);
        r = pl_spec_parse(text, strlen(text), "t.json", &ctx, &spec, &problems, NULL);
        assert_int_equal(r, cases[i].says == NULL ? 0 : PL_ESPEC);
        if (cases[i].says != NULL && strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s", problems.errors[0].text);
        pl_spec_destroy(spec);
    }
}

static void doubtful_things_are_warned_about(void **state)
{
    struct pl_spec *spec = parse(stage_text("\"workers\": 4, \"image\": \"x:7\""));

    (void)state;
    assert_int_equal(problems.n_warnings, 2);
    assert_string_equal(problems.warnings[0].text,
                        "t.json:1:93: stages[0].workers: s: 1 datum (glob \"/\"), workers 4: only one worker will have work");
    assert_non_null(strstr(problems.warnings[1].text, "stages[0].image: s: image \"x:7\" has no digest"));
    pl_spec_destroy(spec);
    spec = parse(digits);
    assert_int_equal(problems.n_warnings, 0);
    pl_spec_destroy(spec);
}

static void the_effective_spec_is_one_spelling_and_reads_as_itself(void **state)
{
    static const char *const fields[] = {
        "",
        "\"gpu\": true, \"cache\": false",
        "\"gpu\": {\"count\": 2, \"wait\": \"90m\"}, \"cache\": {\"salt\": \"x\"}, \"timeout\": \"1500ms\"",
        "\"env\": {\"A\": 0.1}",
        "\"resources\": {\"cpu\": \"1500m\", \"memory\": \"1.5Gi\"}, \"output\": {\"prefix\": \"${r.path}\"}, \"code\": \".\"",
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(fields) + 1; i++) {
        struct pl_spec *spec = parse(i < PL_ARRAY_SIZE(fields) ? stage_text(fields[i]) : digits), *again;
        struct pl_buf once = {0}, twice = {0};

        assert_int_equal(pl_spec_effective_json(spec, &once, NULL), 0);
        again = parse(pl_buf_str(&once));
        assert_int_equal(pl_spec_effective_json(again, &twice, NULL), 0);
        assert_string_equal(pl_buf_str(&once), pl_buf_str(&twice));
        pl_buf_finish(&once);
        pl_buf_finish(&twice);
        pl_spec_destroy(spec);
        pl_spec_destroy(again);
    }
}

static void the_effective_stage_is_written_out(void **state)
{
    struct pl_spec *spec = parse(stage_text("\"gpu\": true, \"env\": {\"A\": 1}"));
    struct pl_buf out = {0};

    (void)state;
    assert_int_equal(pl_stage_effective_json(&spec->stages[0], &out, NULL), 0);
    assert_string_equal(
        pl_buf_str(&out),
        "{\"cache\":true,\"datum\":{\"batch\":false,\"tries\":1},\"env\":{\"A\":\"1\"},\"gpu\":{\"count\":1,\"required\":true,"
        "\"wait\":\"10m\"},\"input\":{\"glob\":\"/\",\"name\":\"r\",\"repo\":\"default/r@master\"},"
        "\"name\":\"s\",\"on_error\":\"fail\",\"on_new\":\"newest\",\"output\":{\"copy_links\":false,\"prefix\":\"\"},"
        "\"run\":[\"x\"],\"workers\":1}");
    pl_buf_finish(&out);
    pl_spec_destroy(spec);
}

/* One that says to keep everything is not one that says nothing. */
static void a_rule_is_written_as_it_was_said(void **state)
{
    static const struct {
        const char *output, *effective;
    } table[] = {
        {"{}", "{\"copy_links\":false,\"prefix\":\"\"}"},
        {"{\"keep\": {}}", "{\"copy_links\":false,\"keep\":{},\"prefix\":\"\"}"},
        {"{\"keep\": {\"logs\": 7, \"commits\": 3}}",
         "{\"copy_links\":false,\"keep\":{\"commits\":3,\"logs\":7},\"prefix\":\"\"}"},
    };
    char fields[128];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_spec *spec;
        struct pl_buf out = {0};

        snprintf(fields, sizeof fields, "\"output\": %s", table[i].output);
        spec = parse(stage_text(fields));
        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &out, NULL), 0);
        if (!strstr(pl_buf_str(&out), table[i].effective))
            fail_msg("%s: %s", table[i].output, pl_buf_str(&out));
        assert_int_equal(spec->stages[0].output.keep.said, i > 0);
        pl_buf_finish(&out);
        pl_spec_destroy(spec);
    }
}

/* All that it refers to is there. */
static void the_schema_knows_every_object(void **state)
{
    static const char ref[] = "\"#/$defs/";
    struct pl_buf out = {0};
    json_t *schema;
    unsigned refs = 0;

    (void)state;
    assert_int_equal(pl_spec_schema(&out, NULL), 0);
    schema = json_loads(pl_buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(schema);
    for (const char *at = strstr(pl_buf_str(&out), ref); at; at = strstr(at, ref), refs++) {
        char name[64];

        at += strlen(ref);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""), at);
        if (!json_object_get(json_object_get(schema, "$defs"), name))
            fail_msg("it refers to %s, which is not there", name);
    }
    assert_true(refs > 15);
    assert_int_equal(json_object_size(json_object_get(schema, "properties")), 6);
    json_decref(schema);
    pl_buf_finish(&out);
}

/* PL_UPDATE=1 writes the file. */
static void the_docs_are_made_from_the_table(void **state)
{
    static const char path[] = PL_SOURCE "/docs/spec.md";
    struct pl_buf out = {0};
    char *text;
    FILE *f;
    size_t n;

    (void)state;
    assert_int_equal(pl_spec_markdown(&out, NULL), 0);
    if (getenv("PL_UPDATE") != NULL) {
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
        assert_int_equal(fclose(f), 0);
    }
    text = calloc(1, out.len + 2);
    f = fopen(path, "r");
    assert_true(text != NULL && f != NULL);
    n = fread(text, 1, out.len + 1, f);
    (void)fclose(f);
    if (n != out.len || memcmp(text, out.data, n) != 0)
        fail_msg("docs/spec.md is not what the field table says: PL_UPDATE=1 test_spec writes it");
    free(text);
    pl_buf_finish(&out);
}

static void a_chain_of_as_many_stages_as_may_be_is_ordered(void **state)
{
    struct pl_buf text = {0};
    struct pl_spec *spec;

    (void)state;
    assert_int_equal(pl_buf_add_str(&text, "{\"pipeline\": \"p\", \"defaults\": {\"run\": [\"x\"]}, \"stages\": [", NULL), 0);
    for (unsigned i = 0; i < PL_SPEC_STAGES_MAX; i++)
        assert_int_equal(
            pl_buf_addf(&text, NULL, "%s{\"name\": \"s%u\", \"input\": {\"repo\": \"s%u\"}}", i > 0 ? "," : "", i, i + 1), 0);
    assert_int_equal(pl_buf_add_str(&text, "]}", NULL), 0);
    spec = parse(pl_buf_str(&text));
    assert_int_equal(spec->n_stages, PL_SPEC_STAGES_MAX);
    assert_int_equal(spec->order[0], PL_SPEC_STAGES_MAX - 1);
    assert_int_equal(spec->order[PL_SPEC_STAGES_MAX - 1], 0);
    pl_buf_finish(&text);
    pl_spec_destroy(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_spec_of_the_language_is_understood),
        cmocka_unit_test(the_second_spec_of_the_language_is_understood),
        cmocka_unit_test(specs_with_fields_of_later_name_the_first_of_them),
        cmocka_unit_test(every_field_of_a_stage_is_read),
        cmocka_unit_test(defaults_are_merged_under_each_stage),
        cmocka_unit_test(repos_are_named_with_project_and_branch),
        cmocka_unit_test(stages_are_ordered_by_what_they_read),
        cmocka_unit_test(wrong_fields_are_refused_in_words),
        cmocka_unit_test(wrong_files_are_refused_in_words),
        cmocka_unit_test(more_stages_than_the_writer_makes_in_a_moment_are_refused),
        cmocka_unit_test(several_mistakes_are_told_at_once_in_order),
        cmocka_unit_test(no_more_mistakes_are_kept_than_the_bound),
        cmocka_unit_test(what_the_store_knows_is_asked),
        cmocka_unit_test(a_command_that_names_pfs_is_refused_where_there_is_no_sandbox),
        cmocka_unit_test(doubtful_things_are_warned_about),
        cmocka_unit_test(the_effective_spec_is_one_spelling_and_reads_as_itself),
        cmocka_unit_test(the_effective_stage_is_written_out),
        cmocka_unit_test(a_rule_is_written_as_it_was_said),
        cmocka_unit_test(the_schema_knows_every_object),
        cmocka_unit_test(the_docs_are_made_from_the_table),
        cmocka_unit_test(a_chain_of_as_many_stages_as_may_be_is_ordered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
