// link: pipelined/plan pipelined/spec
/* What a spec says of pods: gpu, secrets, user, placement; what is refused and with which words; what one machine does not do. */
#include "pipelined/plan/datum_identity.h"
#include "pipelined/spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct pl_spec_errors problems; /* large: not on the stack of every test */

static struct pl_spec *parse(const char *text, const struct pl_spec_context *ctx)
{
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};

    if (pl_spec_parse(text, strlen(text), "t.json", ctx, &spec, &problems, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
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

static void wrong_fields_are_refused_in_words(void **state)
{
    static const struct {
        const char *fields, *says;
    } cases[] = {
        {"\"gpu\": {\"product\": []}", "stages[0].gpu.product: [] is not accepted: a list with at least one string"},
        {"\"gpu\": {\"memory\": \"40\"}", "stages[0].gpu.memory: \"40\" is not accepted: a size with its unit"},
        {"\"gpu\": {\"memory\": 40}", "stages[0].gpu.memory: 40 is not accepted: a size with its unit"},
        {"\"gpu\": {\"memory\": \"40m\"}", "\"40m\" is not accepted"},
        {"\"gpu\": {\"compute\": \"new\"}",
         "stages[0].gpu.compute: \"new\" is not accepted: a compute capability such as \"8.0\""},
        {"\"gpu\": {\"compute\": \"8.\"}", "\"8.\" is not accepted"},
        {"\"gpu\": {\"compute\": \"8.0.1\"}", "\"8.0.1\" is not accepted"},
        {"\"gpu\": {\"resource\": \"gpu\"}", "stages[0].gpu.resource: \"gpu\" is not accepted: the name of a resource"},
        {"\"gpu\": {\"share\": \"mig\"}", "stages[0].gpu.share: \"mig\" is not accepted: an object with a \"mode\""},
        {"\"gpu\": {\"share\": {}}", "stages[0].gpu.share: \"mode\" is missing: one of these words"},
        {"\"gpu\": {\"share\": {\"mode\": \"fraction\"}}", "stages[0].gpu.share.mode: \"fraction\" is not accepted: \"none\" or "
                                                           "\"time-slicing\" or \"mps\" or \"mig\" or \"gpu-mem\" or "
                                                           "\"dra\" or \"custom\""},
        {"\"gpu\": {\"share\": {\"mode\": \"mig\"}}", "stages[0].gpu.share: mode \"mig\" needs \"profile\": the instance"},
        {"\"gpu\": {\"share\": {\"mode\": \"mig\", \"profile\": \"half\"}}",
         "stages[0].gpu.share.profile: \"half\" is not accepted: a MIG profile such as \"1g.10gb\""},
        {"\"gpu\": {\"share\": {\"mode\": \"mig\", \"profile\": \"1g.5gb.you\"}}", "\"1g.5gb.you\" is not accepted"},
        {"\"gpu\": {\"share\": {\"mode\": \"mps\", \"profile\": \"1g.5gb\"}}",
         "stages[0].gpu.share.profile: mode \"mps\" has no \"profile\""},
        {"\"gpu\": {\"share\": {\"mode\": \"mps\", \"threads\": 101}}", "101 is not accepted: a whole number from 1 to 100"},
        {"\"gpu\": {\"share\": {\"mode\": \"gpu-mem\"}}", "mode \"gpu-mem\" needs \"amount\""},
        {"\"gpu\": {\"share\": {\"mode\": \"gpu-mem\", \"amount\": 1, \"unit\": \"GB\"}}",
         "stages[0].gpu.share.unit: \"GB\" is not accepted: \"GiB\" or \"MiB\""},
        {"\"gpu\": {\"count\": 2, \"share\": {\"mode\": \"gpu-mem\", \"amount\": 1}}",
         "stages[0].gpu.count: 2 is not accepted: mode \"gpu-mem\" requests memory of one device"},
        {"\"gpu\": {\"share\": {\"mode\": \"dra\"}}", "mode \"dra\" needs \"class\": the DeviceClass"},
        {"\"gpu\": {\"share\": {\"mode\": \"custom\"}}", "mode \"custom\" needs \"limits\""},
        {"\"gpu\": {\"share\": {\"mode\": \"custom\", \"limits\": {\"a b\": 1}}}",
         "stages[0].gpu.share.limits[\"a b\"]: \"a b\" is not a name for a label or resource"},
        {"\"gpu\": {\"share\": {\"mode\": \"custom\", \"limits\": {\"a\": 1}, \"values\": {\"x\": 1}}}",
         "stages[0].gpu.share.values: \"values\" is accepted only with a \"preset\": set one"},
        {"\"gpu\": {\"resource\": \"amd.com/gpu\", \"share\": {\"mode\": \"mig\", \"profile\": \"1g.5gb\"}}",
         "stages[0].gpu.resource: \"resource\" is only accepted with the modes none, time-slicing and mps"},
        {"\"resources\": {\"memory_request\": \"2Gi\", \"memory\": \"1Gi\"}",
         "stages[0].resources.memory_request: more than \"memory\", which is the limit"},
        {"\"resources\": {\"cpu\": 2, \"cpu_limit\": 1}", "stages[0].resources.cpu_limit: less than \"cpu\", which is reserved"},
        {"\"resources\": {\"shm\": \"2Gi\", \"memory\": \"1Gi\"}", "stages[0].resources.shm: more than \"memory\""},
        {"\"secrets\": {}", "stages[0].secrets: {} is not accepted: a list of"},
        {"\"secrets\": [{\"key\": \"k\", \"env\": \"E\"}]", "stages[0].secrets[0]: \"name\" is missing"},
        {"\"secrets\": [{\"name\": \"n\"}]", "stages[0].secrets[0]: exactly one of \"env\" and \"mount\" is accepted"},
        {"\"secrets\": [{\"name\": \"n\", \"env\": \"E\"}]", "stages[0].secrets[0]: \"env\" needs the \"key\""},
        {"\"secrets\": [{\"name\": \"n\", \"mount\": \"/s\", \"key\": \"k\"}]", "\"mount\" gives every key"},
        {"\"secrets\": [{\"name\": \"N\", \"mount\": \"/s\"}]",
         "stages[0].secrets[0].name: \"N\" is not accepted: a name of Kubernetes"},
        {"\"secrets\": [{\"name\": \"n\", \"mount\": \"/pfs/x\"}]", "stages[0].secrets[0].mount: \"/pfs/x\" is not accepted"},
        {"\"secrets\": [{\"name\": \"n\", \"mount\": \"/a/../pl\"}]", "\"/a/../pl\" is not accepted"},
        {"\"secrets\": [{\"name\": \"n\", \"key\": \"k\", \"env\": \"PL_X\"}]", "\"PL_X\" is set by pipelined"},
        {"\"env\": {\"E\": 1}, \"secrets\": [{\"name\": \"n\", \"key\": \"k\", \"env\": \"E\"}]", "\"E\" is in \"env\" as well"},
        {"\"secrets\": [{\"name\": \"n\", \"mount\": \"/s\"}, {\"name\": \"m\", \"mount\": \"/s\"}]",
         "stages[0].secrets[1]: secrets[0] has the same variable or folder"},
        {"\"network\": \"no\"", "stages[0].network: \"no\" is not accepted: true or false"},
        {"\"user\": \"alice\"", "stages[0].user: \"alice\" is not accepted: numeric ids such as \"1000\" or \"1000:1000\""},
        {"\"user\": \"1000:\"", "\"1000:\" is not accepted"},
        {"\"python\": \"venv\"",
         "stages[0].python: \"venv\" is not accepted: an absolute path without \":\", such as \"/home/ana/venv\""},
        {"\"python\": \"/a:/b\"", "stages[0].python: \"/a:/b\" is not accepted"},
        {"\"python\": 3", "stages[0].python: 3 is not accepted"},
        {"\"user\": 10002", "stages[0].user: 10002 is the user of pipelined's own containers"},
        {"\"priority\": 1001", "stages[0].priority: 1001 is not accepted: a whole number from -1000 to 1000"},
        {"\"keep_warm\": 5", "stages[0].keep_warm: 5 is not accepted: a duration"},
        {"\"scratch\": {}", "stages[0].scratch: \"size\" is missing"},
        {"\"placement\": {\"node_selector\": {\"a\": \"b c\"}}",
         "stages[0].placement.node_selector.a: \"b c\" is not accepted: at most 63 letters"},
        {"\"placement\": {\"tolerations\": [{}]}", "stages[0].placement.tolerations[0]: \"key\" is missing"},
        {"\"placement\": {\"tolerations\": [{\"operator\": \"Exists\", \"value\": \"x\"}]}", "\"Exists\" takes no \"value\""},
        {"\"placement\": {\"tolerations\": [{\"key\": \"a\", \"toleration_seconds\": 1}]}",
         "\"toleration_seconds\" is only accepted with \"effect\": \"NoExecute\""},
        {"\"placement\": {\"tolerations\": [{\"key\": \"a\", \"effect\": \"Never\"}]}",
         "tolerations[0].effect: \"Never\" is not accepted"},
        {"\"placement\": {\"arch\": []}", "stages[0].placement.arch: [] is not accepted: an architecture such as \"amd64\""},
        {"\"placement\": {\"queue\": \"My Queue\"}", "stages[0].placement.queue: \"My Queue\" is not accepted"},
        {"\"placement\": {\"pod_spec\": []}", "stages[0].placement.pod_spec: [] is not accepted: an object"},
        {"\"placement\": {\"pod_patch\": \"\"}", "stages[0].placement.pod_patch: \"\" is not accepted: an object or a list"},
        {"\"placement\": {\"pod_patch\": [{\"op\": \"set\"}]}",
         "stages[0].placement.pod_patch[0]: {\"op\":\"set\"} is not accepted: an operation"},
        {"\"placement\": {\"pod_patch\": [{\"op\": \"add\", \"path\": \"x\"}]}", "is not accepted: an operation with a \"path\""},
        {"\"placement\": {\"pod_patch\": [{\"op\": \"add\", \"path\": \"/x\"}]}",
         "is not accepted: an operation with a \"value\""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const char *text = stage_text(cases[i].fields);
        struct pl_spec *spec = NULL;
        struct pl_err err = {0};

        if (pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, &err) != PL_ESPEC)
            fail_msg("accepted: %s", cases[i].fields);
        if (strstr(problems.errors[0].text, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].fields, problems.errors[0].text);
        assert_int_equal(problems.n_errors, 1);
        assert_string_equal(err.field, problems.errors[0].path);
    }
}

/* fields → what the effective stage has of them */
static void the_effective_stage_has_one_spelling_of_each_field(void **state)
{
    static const struct {
        const char *fields, *has;
    } cases[] = {
        {"\"gpu\": {\"memory\": \"40G\", \"product\": [\"*A100*\", \"*H100*\"], \"compute\": 8.6}",
         "\"gpu\":{\"compute\":\"8.6\",\"count\":1,\"memory\":\"40Gi\",\"product\":[\"*A100*\",\"*H100*\"],\"required\":true,"
         "\"wait\":\"10m\"}"},
        {"\"gpu\": {\"memory\": \"40Gi\", \"compute\": \"9\"}", "\"compute\":\"9.0\",\"count\":1,\"memory\":\"40Gi\""},
        {"\"gpu\": {\"resource\": \"nvidia.com/gpu\", \"share\": {\"mode\": \"none\"}}",
         "\"gpu\":{\"count\":1,\"required\":true,\"wait\":\"10m\"}"},
        {"\"gpu\": {\"resource\": \"amd.com/gpu\"}", "\"resource\":\"amd.com/gpu\""},
        {"\"gpu\": {\"share\": {\"mode\": \"mig\", \"profile\": \"1g.10gb+me\"}}",
         "\"share\":{\"mode\":\"mig\",\"profile\":\"1g.10gb+me\"}"},
        {"\"gpu\": {\"share\": {\"mode\": \"mps\", \"threads\": 50, \"memory\": \"4Gi\"}}",
         "\"share\":{\"memory\":\"4Gi\",\"mode\":\"mps\",\"threads\":50}"},
        {"\"gpu\": {\"share\": {\"mode\": \"gpu-mem\", \"amount\": 5}}",
         "\"share\":{\"amount\":5,\"mode\":\"gpu-mem\",\"unit\":\"GiB\"}"},
        {"\"gpu\": {\"share\": {\"mode\": \"dra\", \"class\": \"gpu.nvidia.com\", \"selectors\": [\"true\"]}}",
         "\"share\":{\"class\":\"gpu.nvidia.com\",\"mode\":\"dra\",\"selectors\":[\"true\"]}"},
        {"\"gpu\": {\"share\": {\"mode\": \"custom\", \"preset\": \"hami\", \"values\": {\"memory\": 3000}, \"labels\": "
         "{\"x.io/q\": \"a\"}}}",
         "\"share\":{\"labels\":{\"x.io/q\":\"a\"},\"mode\":\"custom\",\"preset\":\"hami\",\"values\":{\"memory\":\"3000\"}}"},
        {"\"secrets\": [{\"name\": \"pg\", \"key\": \"dsn\", \"env\": \"PG_DSN\"}, {\"name\": \"tls\", \"mount\": "
         "\"/secrets/tls\"}]",
         "\"secrets\":[{\"env\":\"PG_DSN\",\"key\":\"dsn\",\"name\":\"pg\"},{\"mount\":\"/secrets/tls\",\"name\":\"tls\"}]"},
        {"\"network\": false", "\"network\":false"},
        {"\"user\": 1000", "\"user\":\"1000\""},
        {"\"user\": \"1000:50\"", "\"user\":\"1000:50\""},
        {"\"python\": \"/home/ana/venv\"", "\"python\":\"/home/ana/venv\""},
        {"\"priority\": -5", "\"priority\":-5"},
        {"\"keep_warm\": \"90s\"", "\"keep_warm\":\"90s\""},
        {"\"scratch\": {\"size\": \"100Gi\", \"storage_class\": \"fast\"}",
         "\"scratch\":{\"size\":\"100Gi\",\"storage_class\":\"fast\"}"},
        {"\"resources\": {\"cpu\": 1, \"cpu_limit\": 2, \"memory\": \"2Gi\", \"memory_request\": \"1Gi\"}",
         "\"resources\":{\"cpu\":\"1\",\"cpu_limit\":\"2\",\"memory\":\"2Gi\",\"memory_request\":\"1Gi\"}"},
        {"\"placement\": {\"arch\": \"arm64\", \"grace\": \"0s\", \"tolerations\": [{\"operator\": \"Exists\"}, {\"key\": \"a\", "
         "\"effect\": "
         "\"NoExecute\", \"toleration_seconds\": 60}], \"node_selector\": {\"pool\": \"big\"}}",
         "\"placement\":{\"arch\":[\"arm64\"],\"grace\":\"0s\",\"node_selector\":{\"pool\":\"big\"},\"tolerations\":[{"
         "\"operator\":\"Exists\"},"
         "{\"effect\":\"NoExecute\",\"key\":\"a\",\"operator\":\"Equal\",\"toleration_seconds\":60}]}"},
        {"\"placement\": {\"pod_patch\": [{\"path\": \"/tolerations/-\", \"op\": \"add\", \"value\": {}}], \"pod_spec\": {\"b\": "
         "1, \"a\": null}}",
         "\"placement\":{\"pod_patch\":[{\"op\":\"add\",\"path\":\"/tolerations/"
         "-\",\"value\":{}}],\"pod_spec\":{\"a\":null,\"b\":1}}"},
        {"", "\"output\":{\"copy_links\":false,\"prefix\":\"\"},\"run\":[\"x\"],\"workers\":1}"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_spec *spec = parse(stage_text(cases[i].fields), NULL), *again;
        struct pl_buf once = {0}, twice = {0}, text = {0};

        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &once, NULL), 0);
        if (strstr(pl_buf_str(&once), cases[i].has) == NULL)
            fail_msg("%s\ngives: %s", cases[i].fields, pl_buf_str(&once));
        assert_int_equal(pl_buf_addf(&text, NULL, "{\"pipeline\": \"p\", \"stages\": [%s]}", pl_buf_str(&once)), 0);
        again = parse(pl_buf_str(&text), NULL);
        assert_int_equal(pl_stage_effective_json(&again->stages[0], &twice, NULL), 0);
        assert_string_equal(pl_buf_str(&once), pl_buf_str(&twice));
        pl_spec_destroy(spec);
        pl_spec_destroy(again);
        pl_buf_finish(&once);
        pl_buf_finish(&twice);
        pl_buf_finish(&text);
    }
}

static void a_size_on_the_box_is_met_by_nine_tenths(void **state)
{
    struct pl_spec *spec = parse(stage_text("\"gpu\": {\"memory\": \"80G\"}"), NULL);

    (void)state;
    assert_int_equal(pl_gpu_memory_mib(&spec->stages[0].gpu), 73728);
    assert_true(81559 >= pl_gpu_memory_mib(&spec->stages[0].gpu)); /* what an "80 GB" device reports */
    pl_spec_destroy(spec);
}

static void the_resource_of_old_clusters_is_rewritten_with_a_warning(void **state)
{
    struct pl_spec *spec = parse(stage_text("\"gpu\": {\"resource\": \"alpha.kubernetes.io/nvidia-gpu\"}"), NULL);

    (void)state;
    assert_null(spec->stages[0].gpu.resource);
    assert_int_equal(problems.n_warnings, 1);
    assert_non_null(strstr(problems.warnings[0].text, "stages[0].gpu.resource: \"alpha.kubernetes.io/nvidia-gpu\" is the name "
                                                      "used up to Kubernetes 1.10: it is read as \"nvidia.com/gpu\""));
    pl_spec_destroy(spec);
}

static void one_machine_refuses_what_it_cannot_do_and_warns_of_what_it_does_not_look_at(void **state)
{
    static const struct {
        const char *fields;
        bool refused;
        const char *says;
    } cases[] = {
        {"\"gpu\": {\"share\": {\"mode\": \"mig\", \"profile\": \"1g.5gb\"}}", true,
         "stages[0].gpu.share.mode: parts of GPUs are only available on Kubernetes; on one machine a worker has whole ones: use "
         "\"none\""},
        {"\"gpu\": {\"resource\": \"amd.com/gpu\"}", true, "stages[0].gpu.resource: \"amd.com/gpu\" is not accepted"},
        {"\"secrets\": [{\"name\": \"a\", \"mount\": \"/usr/a\"}]", true,
         "stages[0].secrets[0].mount: \"/usr/a\" is a system folder of the machine"},
        {"\"gpu\": {\"share\": {\"mode\": \"time-slicing\"}}", false,
         "gpu.share: s: ignored on one machine: workers do not share GPUs"},
        {"\"gpu\": {\"product\": [\"*\"], \"memory\": \"1G\", \"compute\": \"8.0\"}", false, NULL},
        {"\"user\": 1", false, "user: s: ignored on one machine: the command runs as the daemon's user"},
        {"\"priority\": 1, \"keep_warm\": \"1m\"", false, NULL},
        {"\"scratch\": {\"size\": \"1Gi\"}", false, "scratch: s: ignored on one machine"},
        {"\"placement\": {\"queue\": \"a\"}", false, "placement: s: ignored on one machine: all workers run on this machine"},
        {"\"placement\": {}", false, NULL},
        {"\"network\": false", false, NULL},
    };
    const struct pl_spec_context local = {.local = true};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        const char *text = stage_text(cases[i].fields), *told;
        struct pl_spec *spec = NULL;

        assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &local, &spec, &problems, NULL),
                         cases[i].refused ? PL_ESPEC : 0);
        told = cases[i].refused ? problems.errors[0].text : problems.warnings[0].text;
        if (cases[i].says == NULL)
            assert_int_equal(problems.n_warnings, 0);
        else if (strstr(told, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", cases[i].fields, told);
        pl_spec_destroy(spec);
        spec = parse(text, NULL);
        assert_int_equal(problems.n_warnings, 0);
        pl_spec_destroy(spec);
    }
}

static void a_cluster_warns_of_a_python_of_one_machine(void **state)
{
    const struct pl_spec_context cluster = {.cluster = true}, local = {.local = true};
    const char *text = stage_text("\"python\": \"/home/ana/venv\"");
    struct pl_spec *spec = NULL;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &cluster, &spec, &problems, NULL), 0);
    assert_int_equal(problems.n_warnings, 1);
    assert_non_null(strstr(problems.warnings[0].text, "python: s: not used in a cluster, where the image has the Python"));
    pl_spec_destroy(spec);
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &local, &spec, &problems, NULL), 0);
    assert_int_equal(problems.n_warnings, 0);
    pl_spec_destroy(spec);
}

static void without_a_sandbox_the_network_cannot_be_taken_away(void **state)
{
    const struct pl_spec_context bare = {.local = true, .no_sandbox = true};
    const char *text = stage_text("\"network\": false");
    struct pl_spec *spec = NULL;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &bare, &spec, &problems, NULL), PL_ESPEC);
    assert_non_null(strstr(problems.errors[0].text, "stages[0].network: without a sandbox"));
}

static bool off_in_vision(void *self, const char *project)
{
    (void)self;
    return strcmp(project, "vision") == 0;
}

static const char *const *network_by_default(void *self, const char *project)
{
    static const char *const texts[] = {"{\"network\": true}", NULL};

    (void)self;
    (void)project;
    return texts;
}

#define NOT_TRUE                                                                                                                 \
    "true is not accepted: the network is off in project \"vision\"; leave it out, or ask an admin of the project for "          \
    "pipelinectl update project vision --network on"
#define ONE_STAGE(more) "\"stages\": [{\"name\": \"s\", \"input\": {\"repo\": \"r\"}, \"run\": [\"x\"]" more "}]}"

static void where_the_network_is_off_no_spec_may_ask_for_it(void **state)
{
    static const struct {
        const char *text, *says; /* NULL: it is taken, and is the spec that it was */
    } cases[] = {
        {"{\"pipeline\": \"p\", \"project\": \"vision\", " ONE_STAGE(", \"network\": true"),
         "t.json:1:114: stages[0].network: " NOT_TRUE},
        {"{\"pipeline\": \"p\", \"project\": \"vision\", \"defaults\": {\"network\": true}, " ONE_STAGE(""),
         "t.json:1:64: defaults.network: " NOT_TRUE},
        {"{\"pipeline\": \"p\", \"project\": \"vision\", " ONE_STAGE(""), NULL},
        {"{\"pipeline\": \"p\", \"project\": \"vision\", " ONE_STAGE(", \"network\": false"), NULL},
        {"{\"pipeline\": \"p\", \"project\": \"vision\", " ONE_STAGE(", \"network\": null"), NULL},
        {"{\"pipeline\": \"p\", \"project\": \"other\", " ONE_STAGE(", \"network\": true"), NULL},
        {"{\"pipeline\": {\"name\": \"s\", \"project\": {\"name\": \"vision\"}}, \"input\": {\"pfs\": {\"repo\": \"r\", "
         "\"glob\": \"/\"}}, "
         "\"transform\": {\"cmd\": [\"x\"], \"image\": \"i@sha256:1\"}}",
         NULL}, /* Pachyderm's form has no word for it */
    };
    const struct pl_spec_context context = {.network_off = off_in_vision, .defaults = network_by_default};
    struct pl_buf is = {0}, was = {0};
    struct pl_spec *spec;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        int r = pl_spec_parse(cases[i].text, strlen(cases[i].text), "t.json", &context, &spec, &problems, NULL);

        if (cases[i].says != NULL) {
            assert_int_equal(r, PL_ESPEC);
            assert_string_equal(problems.errors[0].text, cases[i].says);
            continue;
        }
        assert_int_equal(r, 0);
        is.len = was.len = 0;
        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &is, NULL), 0);
        pl_spec_destroy(spec);
        spec = parse(cases[i].text, NULL);
        assert_int_equal(pl_stage_effective_json(&spec->stages[0], &was, NULL), 0);
        pl_spec_destroy(spec);
        assert_int_equal(is.len, was.len);
        assert_memory_equal(is.data, was.data, was.len);
    }
    pl_buf_finish(&is);
    pl_buf_finish(&was);
}

static void without_a_sandbox_a_project_s_network_cannot_be_taken_away_either(void **state)
{
    const struct pl_spec_context bare = {.local = true, .no_sandbox = true, .network_off = off_in_vision, .project = "vision"};
    const char *text = stage_text("");
    struct pl_spec *spec = NULL;

    (void)state;
    assert_int_equal(pl_spec_parse(text, strlen(text), "t.json", &bare, &spec, &problems, NULL), PL_ESPEC);
    assert_non_null(
        strstr(problems.errors[0].text, "stages[0].network: the network is off in project \"vision\", and without a sandbox"));
}

static void the_user_is_in_the_identity_of_the_code_and_placement_is_not(void **state)
{
    static const struct {
        const char *fields;
        bool same;
    } cases[] = {
        {"\"user\": 1000", false},
        {"\"user\": \"1000:0\"", false},
        {"\"gpu\": {\"memory\": \"8G\"}", true},
        {"\"placement\": {\"queue\": \"q\"}", true},
        {"\"priority\": 1", true},
        {"\"secrets\": [{\"name\": \"a\", \"mount\": \"/a\"}]", true},
        {"\"network\": false", true},
    };
    struct pl_hash plain, other;
    struct pl_spec *spec = parse(stage_text(""), NULL);

    (void)state;
    pl_stage_code_identity(&spec->stages[0], NULL, &plain);
    pl_spec_destroy(spec);
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        spec = parse(stage_text(cases[i].fields), NULL);
        pl_stage_code_identity(&spec->stages[0], NULL, &other);
        assert_int_equal(memcmp(&plain, &other, sizeof(plain)) == 0, cases[i].same);
        pl_spec_destroy(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_fields_are_refused_in_words),
        cmocka_unit_test(the_effective_stage_has_one_spelling_of_each_field),
        cmocka_unit_test(a_size_on_the_box_is_met_by_nine_tenths),
        cmocka_unit_test(the_resource_of_old_clusters_is_rewritten_with_a_warning),
        cmocka_unit_test(one_machine_refuses_what_it_cannot_do_and_warns_of_what_it_does_not_look_at),
        cmocka_unit_test(without_a_sandbox_the_network_cannot_be_taken_away),
        cmocka_unit_test(where_the_network_is_off_no_spec_may_ask_for_it),
        cmocka_unit_test(without_a_sandbox_a_project_s_network_cannot_be_taken_away_either),
        cmocka_unit_test(a_cluster_warns_of_a_python_of_one_machine),
        cmocka_unit_test(the_user_is_in_the_identity_of_the_code_and_placement_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
