// link: pipelined/spec
/* Pachyderm's form of a spec: what it becomes, and in which words it is refused. */
#include "pipelined/spec/spec.h"
#include "pipelined/spec/spec_documents.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_spec_errors problems;

static void assert_becomes(const char *theirs, const char *want)
{
    struct pl_spec *spec = NULL;
    struct pl_buf out = {0};
    struct pl_err err = {0};

    if (pl_spec_parse(theirs, strlen(theirs), "t.json", NULL, &spec, &problems, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(pl_spec_effective_json(spec, &out, NULL), 0);
    assert_string_equal(pl_buf_str(&out), want);
    pl_buf_finish(&out);
    pl_spec_destroy(spec);
}

static void the_form_becomes_one_pipeline_of_one_stage(void **state)
{
    (void)state;
    assert_becomes(
        "{\"pipeline\": {\"name\": \"edges\"}, \"transform\": {\"cmd\": [\"python3\", \"/edges.py\"], \"image\": \"p/opencv:1\"},"
        " \"input\": {\"pfs\": {\"repo\": \"images\", \"glob\": \"*/\"}}}",
        "{\"description\":\"\",\"pipeline\":\"edges\",\"project\":\"default\",\"stages\":[{\"cache\":true,\"datum\":{\"batch\":"
        "false,\"tries\":3}"
        ",\"gpu\":"
        "false,\"image\":\"p/opencv:1\",\"input\":{\"glob\":\"/*\",\"name\":\"images\",\"repo\":\"default/"
        "images@master\"},\"name\":"
        "\"edges\",\"on_error\":\"fail\",\"on_new\":\"queue\",\"output\":{\"copy_links\":true,\"prefix\":\"\"},\"run\":["
        "\"python3\",\"/edges.py\"],"
        "\"workers\":1}]}");
}

static void every_field_with_a_counterpart_is_mapped(void **state)
{
    (void)state;
    assert_becomes(
        "{\"$schema\": \"x\", \"pipeline\": {\"name\": \"m\", \"project\": {\"name\": \"team\"}}, \"description\": \"d\", "
        "\"transform\": {"
        "\"cmd\": [\"sh\"], \"stdin\": [\"echo 1\", \"echo 2\"], \"env\": {\"A\": \"b\"}, \"accept_return_code\": [0, \"7\"], "
        "\"errCmd\": [\"true\"], "
        "\"image\": null}, \"input\": {\"cross\": [{\"union\": [{\"pfs\": {\"repo\": \"a\", \"name\": \"x\", \"glob\": \"/\"}}, "
        "{\"pfs\": {\"repo\": "
        "\"b\", \"name\": \"x\", \"branch\": \"dev\", \"project\": \"other\", \"glob\": \"/\"}}]}, {\"pfs\": {\"repo\": \"c\", "
        "\"glob\": \"/d/*\", "
        "\"reference\": true}}]}, \"parallelismSpec\": {\"constant\": \"4\"}, \"datum_tries\": 5, \"datum_timeout\": \"90s\", "
        "\"jobTimeout\": "
        "\"1.5s\", \"resource_limits\": {\"gpu\": {\"type\": \"nvidia.com/gpu\", \"number\": 2}}}",
        "{\"description\":\"d\",\"pipeline\":\"m\",\"project\":\"team\",\"stages\":[{\"accept_codes\":[7],\"cache\":true,"
        "\"datum\":{\"batch\":false,\"timeout\":"
        "\"90s\",\"tries\":5},\"env\":{\"A\":\"b\"},\"gpu\":{\"count\":2,\"required\":true,\"wait\":\"10m\"},\"input\":{"
        "\"cross\":[{\"union\":[{"
        "\"glob\":\"/\",\"name\":\"x\",\"repo\":\"team/a@master\"},{\"glob\":\"/\",\"name\":\"x\",\"repo\":\"other/"
        "b@dev\"}]},{\"glob\":\"/d/*\","
        "\"name\":\"c\",\"reference\":true,\"repo\":\"team/"
        "c@master\"}]},\"name\":\"m\",\"on_error\":{\"run\":[\"true\"]},\"on_new\":\"queue\","
        "\"output\":{\"copy_links\":true,\"prefix\":\"\"},\"run\":[\"sh\"],\"stdin\":\"echo 1\\necho "
        "2\\n\",\"timeout\":\"1500ms\",\"workers\":4}]}");
}

/* Pachyderm has no variables and no escape in commands: they reach the command as they are written. The native form, which is
 * stored, spells "$${" with another "$". */
static void commands_and_variables_mean_what_they_say(void **state)
{
    static const char text[] =
        "{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\", \"${a.stem} ${params.lr} ${datum}\", "
        "\"$${HOME} $$${a}\"], \"env\": {\"A\": \"$${x}\"}, \"err_cmd\": [\"$${y}\"]}, "
        "\"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}}";
    static const struct pl_spec_context given;
    struct pl_spec *spec = NULL;
    const struct pl_stage *stage;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &given, &spec, &problems, NULL), 0);
    assert_int_equal(problems.n_warnings, 0);
    stage = &spec->stages[0];
    assert_string_equal(stage->run[1], "${a.stem} ${params.lr} ${datum}");
    assert_string_equal(stage->run[2], "$$${HOME} $$$${a}");
    assert_string_equal(stage->env[0].value, "$$${x}");
    assert_string_equal(stage->err_run[0], "$$${y}");
    pl_spec_destroy(spec);
}

/* Appends the stage's effective spec. */
static void effective(const char *text, struct pl_buf *out)
{
    struct pl_spec *spec = NULL;

    if (pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL) != 0)
        fail_msg("%s: %s", text, problems.errors[0].text);
    assert_int_equal(pl_stage_effective_json(&spec->stages[0], out, NULL), 0);
    pl_spec_destroy(spec);
}

static void the_gpu_of_1_x_is_understood_with_a_warning(void **state)
{
    static const char text[] =
        "{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"resource_limits\": {\"gpu\": 1},\n"
        "\"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}}";
    struct pl_spec *spec = NULL;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL), 0);
    assert_int_equal(spec->stages[0].gpu.count, 1);
    assert_int_equal(problems.n_warnings, 1);
    assert_string_equal(
        problems.warnings[0].text,
        "t.json:1:85: resource_limits.gpu: \"gpu\": 1 is the form of Pachyderm 1.x: {\"type\": \"nvidia.com/gpu\", "
        "\"number\": 1} says the same");
    pl_spec_destroy(spec);
}

/* "pod_patch" → "podPatch". */
static const char *in_camel_case(const char *name, char out[64])
{
    size_t n = 0;

    for (; *name != '\0'; name++)
        out[n++] = name[0] == '_' ? (char)toupper((unsigned char)*++name) : *name;
    out[n] = '\0';
    return out;
}

static void mistakes_are_told_with_pachyderms_paths(void **state)
{
#define WITH(more)                                                                                                               \
    "{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "     \
    "\"/\"}}, " more "}"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {WITH("\"egress\": {}"), "t.json:1:104: egress: \"egress\" of Pachyderm's form is not available yet"},
        {WITH("\"podPatch\": \"[\""), "podPatch: malformed PodPatch: use a string that contains a list"},
        {WITH("\"podPatch\": \"[{\\\"op\\\": \\\"set\\\"}]\""), "podPatch[0]: {\"op\":\"set\"} is not accepted: an operation"},
        {WITH("\"pod_spec\": \"[]\""), "pod_spec: malformed PodSpec: use a string that contains a JSON object"},
        {WITH("\"tolerations\": [{\"key\": \"a\"}]"),
         "tolerations[0]: cannot omit key/value comparison operator; specify EQUAL or EXISTS"},
        {WITH("\"tolerations\": [{\"operator\": \"Exists\"}]"),
         "tolerations[0].operator: \"Exists\" is not accepted: EQUAL or EXISTS"},
        {WITH("\"schedulingSpec\": {\"nodeSelector\": {\"a\": \"b c\"}}"),
         "schedulingSpec.nodeSelector.a: \"b c\" is not accepted"},
        {WITH("\"autoscaling\": 1"), "autoscaling: 1 is not accepted: true or false"},
        {WITH("\"resource_requests\": {\"memory\": \"2Gi\"}, \"resource_limits\": {\"memory\": \"1Gi\"}"),
         "resource_requests.memory: more than \"memory\""},
        {WITH("\"colour\": 1"), "colour: unknown field \"colour\": Pachyderm's form has no such field"},
        {WITH("\"resource_limits\": {\"cpu\": \"many\"}"), "resource_limits.cpu: \"many\" is not an amount of CPU"},
        {WITH("\"resource_limits\": {\"gpu\": {\"type\": \"gpu\", \"number\": 1}}"),
         "resource_limits.gpu.type: \"gpu\" is not accepted: the name of a resource"},
        {WITH("\"parallelism_spec\": {\"coefficient\": 1}"), "parallelism_spec.coefficient: unknown field"},
        {WITH("\"parallelism_spec\": {\"constant\": 99999}"),
         "parallelism_spec.constant: 99999 is not accepted: a whole number from 1"},
        {WITH("\"datum_tries\": \"x\""), "datum_tries: \"x\" is not accepted"},
        {WITH("\"job_timeout\": \"soon\""), "job_timeout: "},
        {WITH("\"datumTries\": \"x\""), "t.json:1:118: datumTries: \"x\" is not accepted"},
        {WITH("\"datum_timeout\": \"0s\""), "datum_timeout: \"0s\" is not accepted: a duration of more than 0"},
        {WITH("\"parallelismSpec\": {\"constant\": -1}"), "t.json:1:136: parallelismSpec.constant: -1 is not accepted"},
        {WITH("\"datum_tries\": 2, \"datumTries\": 3"),
         "t.json:1:122: datumTries: \"datum_tries\" and \"datumTries\" are the same field: give only one of them"},
        {WITH("\"parallelism_spec\": {\"constant\": \"99999999999999999999\"}"),
         "parallelism_spec.constant: \"99999999999999999999\" is not accepted"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\", 7]}, \"input\": {\"pfs\": {\"repo\": \"a\", "
         "\"glob\": \"/\"}}}",
         "t.json:1:56: transform.cmd[1]: 7 is not accepted: a string"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"image\": \"i\"}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "
         "\"/\"}}}",
         "\"transform\" is missing its \"cmd\""},
        {"{\"pipeline\": {}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}}",
         "no pipeline \"name\" specified"},
        {"{\"pipeline\": {\"name\": \"a b\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", "
         "\"glob\": \"/\"}}}",
         "t.json:1:23: pipeline.name: "},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}}", "\"input\" is missing"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\"}}}",
         "t.json:1:75: input.pfs: input must specify a \"glob\""},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"cron\": {}}}",
         "input.cron: \"cron\" of Pachyderm's form"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "
         "\"/\", \"s3\": true}}}",
         "input.pfs.s3: \"s3\" of Pachyderm's form is not available yet"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"cross\": [{\"pfs\": {\"repo\": "
         "\"a\", \"glob\": "
         "\"/[\"}}]}}",
         "input.cross[0].pfs.glob: glob \"/[\": column 2: [ is never closed"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "
         "\"/\"}, \"cross\": [{\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}]}}",
         "input: multiple input types set: one of pfs, cross and union"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;

        if (pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", NULL, &spec, &problems, NULL) != PL_ESPEC)
            fail_msg("accepted: %s", cases[i].text);
        if (strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].text, problems.errors[0].text);
    }
}

/* Every field that Pachyderm has ever had and that is in none of the tables above. */
static void every_other_field_is_refused_by_its_name_in_either_spelling(void **state)
{
    static const struct {
        const char *before, *path, *after, *names[40];
    } objects[] = {
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "
         "\"/\"}}",
         "",
         "}",
         {"tf_job", "output_branch", "s3_out", "sidecar_resource_limits", "sidecar_resource_requests", "service", "spout",
          "datum_set_spec", "salt", "reprocess_spec", "maximum_expected_uptime", "egress", "determined", "standby",
          "enable_stats", "cache_size", "chunk_spec", "max_queue_size", "hashtree_spec"}},
        {"{\"pipeline\": {\"name\": \"m\"}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}, \"transform\": {\"cmd\": "
         "[\"x\"]",
         "transform.",
         "}}",
         {"err_stdin", "image_pull_secrets", "debug", "working_dir", "dockerfile", "memory_volume", "datum_batching", "build"}},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": "
         "\"/\"",
         "input.pfs.",
         "}}}",
         {"repo_type", "commit", "join_on", "outer_join", "group_by", "lazy", "empty_files", "s3", "trigger",
          "propagation_spec"}},
        {"{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"cross\": [{\"pfs\": {\"repo\": "
         "\"a\", "
         "\"glob\": \"/\"}}]",
         "input.",
         "}}",
         {"join", "group", "cron", "git"}},
    };
    static const char *const values[] = {"true", "7", "\"x\"", "[1]", "{\"x\": 1}"};
    char camel[64], text[1024], says[200];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(objects); i++)
        for (size_t k = 0; k < 40 && objects[i].names[k] != NULL; k++)
            for (size_t spelling = 0; spelling < 2 * PL_ARRAY_SIZE(values); spelling++) {
                const char *name = objects[i].names[k], *key = spelling % 2 ? in_camel_case(name, camel) : name;
                struct pl_spec *spec = NULL;

                snprintf(text, sizeof text, "%s,\n \"%s\": %s%s", objects[i].before, key, values[spelling / 2], objects[i].after);
                snprintf(says, sizeof says, "t.json:2:2: %s%s: \"%s\" of Pachyderm's form is not available yet", objects[i].path,
                         key, name);
                assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL), PL_ESPEC);
                assert_int_equal(problems.n_errors, 1);
                assert_string_equal(problems.errors[0].text, says);
            }
}

/* Programs that write a whole spec write fields with their default value, too. */
static void a_default_value_says_as_much_as_no_value(void **state)
{
#define WHOLE(file, transform, pfs)                                                                                              \
    "{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]" transform                                               \
    "}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"" pfs "}}" file "}"
    static const char *const texts[] = {
        WHOLE(", \"outputBranch\": \"master\", \"s3Out\": false, \"reprocessSpec\": \"until_success\", \"salt\": \"\", "
              "\"datumSetSpec\": {}, \"standby\": false, \"enable_stats\": false, \"max_queue_size\": \"0\"",
              "", ""),
        WHOLE("",
              ", \"errStdin\": [], \"imagePullSecrets\": [], \"debug\": false, \"workingDir\": \"\", \"datumBatching\": false",
              ""),
        WHOLE("", "",
              ", \"repoType\": \"user\", \"commit\": \"\", \"joinOn\": \"\", \"outerJoin\": false, \"groupBy\": \"\", "
              "\"lazy\": false, \"emptyFiles\": false, \"s3\": false, \"propagation_spec\": {\"never\": false}"),
        WHOLE(", \"resource_limits\": {\"cpu\": 0, \"memory\": \"\"}, \"resource_requests\": {\"cpu\": 0.0, \"disk\": \"\"}", "",
              ""),
        WHOLE(", \"datum_tries\": 0, \"job_timeout\": \"\", \"datum_timeout\": \"\", \"resource_limits\": {\"memory\": \"0\", "
              "\"disk\": \"0Mi\", \"gpu\": {\"type\": \"\", \"number\": 0}}, \"resource_requests\": {\"cpu\": \"0\"}",
              "", ""),
        WHOLE(
            ", \"datum_set_spec\": {\"number\": \"0\", \"per_worker\": 0}, \"sidecar_resource_limits\": {\"cpu\": 0, \"memory\": "
            "\"\", \"gpu\": {\"number\": 0}}, \"scheduling_spec\": {\"priority_class_name\": \"\"}, \"cache_size\": \"\"",
            ", \"user\": \"\", \"image\": \"\", \"stdin\": []",
            ", \"branch\": \"\", \"project\": \"\", \"name\": \"\", \"propagation_spec\": {\"never\": false}"),
        ("{\"pipeline\": {\"name\": \"m\", \"project\": {\"name\": \"\"}}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": "
         "{\"cross\": [], \"union\": [], \"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}}"),
        ("{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"join\": [], \"group\": [], "
         "\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}}"),
    };
    struct pl_buf plain = {0}, given = {0};

    (void)state;
    effective(WHOLE("", "", ""), &plain);
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
        pl_buf_clear(&given);
        effective(texts[i], &given);
        assert_string_equal(pl_buf_str(&given), pl_buf_str(&plain));
    }
    pl_buf_finish(&plain);
    pl_buf_finish(&given);
}

static void a_variable_of_a_user_may_begin_as_pachyderms_do(void **state)
{
    static const struct {
        const char *name;
        bool accepted;
    } rows[] = {{"PACH_FOO", true}, {"PACH_", true},        {"PACHD_ADDRESS", true},          {"PACH_DATUM_ID", false},
                {"PL_FOO", false},  {"PACH_JOB_ID", false}, {"PACH_DATUM_in_JOIN_ON", false}, {"PACH_OUTPUT_COMMIT_ID", false}};
    char text[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_spec *spec = NULL;
        int r;

        snprintf(text, sizeof text, WHOLE("", ", \"env\": {\"%s\": \"x\"}", ""), rows[i].name);
        r = pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL);
        if (r != (rows[i].accepted ? 0 : PL_ESPEC))
            fail_msg("%s: %d %s", rows[i].name, r, problems.errors[0].text);
        if (!rows[i].accepted && !strstr(problems.errors[0].text, "is set by pipelined: choose another name"))
            fail_msg("%s", problems.errors[0].text);
        pl_spec_destroy(spec);
    }
}

/* In Pachyderm `**` is any text, so between slashes it is at least one folder. */
static void a_folder_of_two_stars_is_at_least_one_folder(void **state)
{
    static const struct {
        const char *theirs, *native;
    } rows[] = {{"/**/x", "/**/*/x"}, {"a/**/b/", "/a/**/*/b"}, {"/**", "/**"},       {"/**/", "/**"},
                {"/**.x", "/**.x"},   {"/a**/b", "/a**/b"},     {"/**/*", "/**/*/*"}, {"/", "/"}};
    char text[512];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_spec *spec = NULL;

        snprintf(text, sizeof text,
                 "{\"pipeline\": {\"name\": \"m\"}, \"transform\": {\"cmd\": [\"x\"]}, \"input\": {\"pfs\": {\"repo\": \"a\", "
                 "\"glob\": \"%s\"}}}",
                 rows[i].theirs);
        assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, NULL), 0);
        assert_string_equal(spec->stages[0].leaves[0]->glob, rows[i].native);
        pl_spec_destroy(spec);
    }
}

/* What Pachyderm says of pods → what the effective stage has of it. */
static void fields_of_pods_have_their_place(void **state)
{
    static const struct {
        const char *text, *has, *warns;
    } cases[] = {
        {WITH("\"resource_requests\": {\"cpu\": 0.5, \"memory\": \"1Gi\", \"disk\": \"2Gi\"}"),
         "\"resources\":{\"cpu\":\"500m\",\"disk\":\"2Gi\",\"memory\":\"1Gi\"}",
         "a memory request without a limit is also the limit"},
        {WITH("\"resource_limits\": {\"cpu\": 2, \"memory\": \"2Gi\"}, \"resource_requests\": {\"memory\": \"1Gi\"}"),
         "\"resources\":{\"cpu_limit\":\"2\",\"memory\":\"2Gi\",\"memory_request\":\"1Gi\"}", NULL},
        {WITH("\"resource_requests\": {}"), "\"run\":[\"x\"]", NULL},
        {WITH("\"resource_limits\": {\"gpu\": {\"type\": \"amd.com/gpu\", \"number\": 2}}"),
         "\"gpu\":{\"count\":2,\"required\":true,\"resource\":\"amd.com/gpu\",\"wait\":\"10m\"}", NULL},
        {WITH("\"resource_limits\": {\"gpu\": {\"type\": \"alpha.kubernetes.io/nvidia-gpu\", \"number\": 1}}"),
         "\"gpu\":{\"count\":1,\"required\":true,\"wait\":\"10m\"}",
         "resource_limits.gpu.type: \"alpha.kubernetes.io/nvidia-gpu\" is the name used"},
        {WITH("\"schedulingSpec\": {\"nodeSelector\": {\"pool\": \"a\"}, \"priorityClassName\": \"high\"}"),
         "\"placement\":{\"node_selector\":{\"pool\":\"a\"},\"priority_class\":\"high\"}", NULL},
        {WITH("\"tolerations\": [{\"operator\": \"EXISTS\", \"effect\": \"ALL_EFFECTS\"}, {\"key\": \"a\", \"operator\": "
              "\"EQUAL\", "
              "\"value\": \"b\", \"effect\": \"NO_EXECUTE\", \"tolerationSeconds\": \"60\"}]"),
         "\"tolerations\":[{\"operator\":\"Exists\"},{\"effect\":\"NoExecute\",\"key\":\"a\",\"operator\":\"Equal\",\"toleration_"
         "seconds\":60,"
         "\"value\":\"b\"}]",
         NULL},
        {WITH("\"metadata\": {\"labels\": {\"a\": \"b\"}, \"annotations\": {\"c\": \"d e\"}}"),
         "\"placement\":{\"annotations\":{\"c\":\"d e\"},\"labels\":{\"a\":\"b\"}}", NULL},
        {WITH("\"pod_spec\": \"{\\\"hostname\\\": \\\"h\\\"}\", \"podPatch\": \"[{\\\"op\\\": \\\"remove\\\", \\\"path\\\": "
              "\\\"/hostname\\\"}]\""),
         "\"placement\":{\"pod_patch\":[{\"op\":\"remove\",\"path\":\"/hostname\"}],\"pod_spec\":{\"hostname\":\"h\"}}", NULL},
        {WITH("\"pod_spec\": \"\""), "\"run\":[\"x\"]", NULL},
        {WITH("\"autoscaling\": true"), "\"run\":[\"x\"]", "autoscaling: workers always start when there are datums"},
        {"{\"pipeline\": {\"name\": \"m\"}, \"input\": {\"pfs\": {\"repo\": \"a\", \"glob\": \"/\"}}, \"transform\": {\"cmd\": "
         "[\"x\"], "
         "\"user\": \"1000\", \"secrets\": [{\"name\": \"s\", \"mount_path\": \"/s\"}, {\"name\": \"t\", \"key\": \"k\", "
         "\"envVar\": \"T\"}]}}",
         "\"secrets\":[{\"mount\":\"/s\",\"name\":\"s\"},{\"env\":\"T\",\"key\":\"k\",\"name\":\"t\"}],\"user\":\"1000\"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = NULL;
        struct pl_buf out = {0};
        struct pl_err err = {0};

        if (pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", NULL, &spec, &problems, &err) < 0)
            fail_msg("%s\nsays: %s", cases[i].text, err.msg);
        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &out, NULL), 0);
        if (strstr(pl_buf_str(&out), cases[i].has) == NULL)
            fail_msg("%s\ngives: %s", cases[i].text, pl_buf_str(&out));
        assert_int_equal(problems.n_warnings, cases[i].warns != NULL);
        if (cases[i].warns != NULL)
            assert_non_null(strstr(problems.warnings[0].text, cases[i].warns));
        pl_spec_destroy(spec);
        pl_buf_finish(&out);
    }
}

static void a_file_may_hold_several_documents(void **state)
{
    static const struct {
        const char *text, *want[4];
    } cases[] = {
        {"{\"a\": 1}", {"{\"a\": 1}"}},   {"{\"a\": \"}\\\"\"}\n---\n {\"b\": {}}\n", {"{\"a\": \"}\\\"\"}", "\n\n {\"b\": {}}"}},
        {"{}{}", {"{}", "  {}"}},         {"[{\"a\": [1]},\n {\"b\": 2}]\n", {" {\"a\": [1]}", "\n {\"b\": 2}"}},
        {"[{\"a\": 1}", {"[{\"a\": 1}"}}, {"{\"a\": 1", {"{\"a\": 1"}},
        {"nothing", {"nothing"}},         {"", {""}},
        {"{} x", {"{}", "   x"}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        size_t len = strlen(cases[i].text), at = 0, from, n, k = 0;

        for (; pl_spec_document_next(cases[i].text, len, &at, &from, &n); k++) {
            struct pl_buf out = {0};

            assert_non_null(cases[i].want[k]);
            assert_int_equal(pl_spec_document_text(cases[i].text, from, n, &out, NULL), 0);
            assert_string_equal(pl_buf_str(&out), cases[i].want[k]);
            pl_buf_finish(&out);
        }
        assert_null(cases[i].want[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_form_becomes_one_pipeline_of_one_stage),
        cmocka_unit_test(every_field_with_a_counterpart_is_mapped),
        cmocka_unit_test(commands_and_variables_mean_what_they_say),
        cmocka_unit_test(the_gpu_of_1_x_is_understood_with_a_warning),
        cmocka_unit_test(mistakes_are_told_with_pachyderms_paths),
        cmocka_unit_test(every_other_field_is_refused_by_its_name_in_either_spelling),
        cmocka_unit_test(a_default_value_says_as_much_as_no_value),
        cmocka_unit_test(a_variable_of_a_user_may_begin_as_pachyderms_do),
        cmocka_unit_test(a_folder_of_two_stars_is_at_least_one_folder),
        cmocka_unit_test(fields_of_pods_have_their_place),
        cmocka_unit_test(a_file_may_hold_several_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
