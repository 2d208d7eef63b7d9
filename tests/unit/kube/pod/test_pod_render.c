// link: pipelined/kube/pod storage/base storage/system
/* pod_render: which pod a stage becomes, for each way to ask for GPUs, each level of Pod Security and each kind of cluster. The pods stand in
 * data/pods: PL_UPDATE=1 writes them. */
#include "tests/unit/kube/pod/pod_fixture.h"

#include "storage/base/buf.h"
#include "storage/system/io.h"

#define PODS PL_TEST_DATA "/pods/"

struct golden {
    const char *name, *fields;
    enum pod_cluster_kind cluster;
    enum pl_pod_level level;
    bool full;            /* full_settings */
    bool goes_on;         /* a GPU stage that goes on without */
    const char *template; /* pod_template */
    int64_t input_bytes;
};

#define MAIN_PLACE  0 /* in spec.containers */

#define SHARE(text) "\"gpu\": {\"share\": {" text "}}"

static const struct golden goldens[] = {
    {"cpu", "", CLUSTER_UNKNOWN},
    {"cpu-baseline", "", CLUSTER_UNKNOWN, PL_LEVEL_BASELINE},
    {"cpu-restricted", "", CLUSTER_UNKNOWN, PL_LEVEL_RESTRICTED},
    {"cpu-openshift", "", CLUSTER_OPENSHIFT, PL_LEVEL_RESTRICTED},
    {"cpu-full", "\"network\": false, \"placement\": {\"grace\": \"5m\"}", CLUSTER_GFD, PL_LEVEL_PRIVILEGED, true},
    {"cpu-full-restricted", "", CLUSTER_GFD, PL_LEVEL_RESTRICTED, true},
    {"cpu-quota", "\"resources\": {\"memory\": \"1Gi\"}", CLUSTER_QUOTA},
    {"resources",
     "\"resources\": {\"cpu\": 2, \"cpu_limit\": 4, \"memory\": \"8Gi\", \"memory_request\": \"6Gi\", \"disk\": \"10Gi\", "
     "\"shm\": \"1Gi\"}",
     CLUSTER_UNKNOWN, .input_bytes = 1LL << 30},
    {"root", "\"user\": 0", CLUSTER_UNKNOWN},
    {"user-restricted", "\"user\": \"1000:50\"", CLUSTER_UNKNOWN, PL_LEVEL_RESTRICTED},
    {"user-openshift", "\"user\": \"1000\"", CLUSTER_OPENSHIFT, PL_LEVEL_RESTRICTED},
    {"secrets",
     "\"secrets\": [{\"name\": \"pg\", \"key\": \"dsn\", \"env\": \"PG_DSN\"}, {\"name\": \"tls\", \"mount\": \"/secrets/tls\"}]",
     CLUSTER_UNKNOWN},
    {"folders",
     "\"code\": \"src\", \"checkpoint\": true, \"input\": {\"repo\": null, \"cross\": [{\"repo\": \"digits\"}, {\"repo\": "
     "\"notes\", "
     "\"writable\": true}]}, "
     "\"scratch\": {\"size\": \"100Gi\", \"storage_class\": \"fast\"}, \"resources\": {\"disk\": \"10Gi\"}",
     CLUSTER_UNKNOWN},
    {"environment",
     "\"input\": {\"repo\": null, \"cross\": [{\"repo\": \"digits\"}, {\"repo\": \"tools\", \"environment\": true}]}",
     CLUSTER_UNKNOWN},
    {"environment-made", "\"output\": {\"environment\": true}", CLUSTER_UNKNOWN},
    {"placement",
     "\"placement\": {\"node_selector\": {\"pool\": \"big\"}, \"tolerations\": [{\"key\": \"batch\", \"value\": \"yes\", "
     "\"effect\": "
     "\"NoExecute\", \"toleration_seconds\": 60}, {\"operator\": \"Exists\", \"effect\": \"NoSchedule\"}], \"arch\": \"arm64\", "
     "\"priority_class\": \"high\", \"runtime_class\": \"kata\", \"queue\": \"team-a\", \"labels\": {\"team\": \"a\", "
     "\"pipelined.io/stage\": \"mine\"}, \"annotations\": {\"note\": \"for people\"}}",
     CLUSTER_GFD},
    {"gpu", "\"gpu\": true", CLUSTER_UNKNOWN},
    {"gpu-restricted", "\"gpu\": 1, \"resources\": {\"memory\": \"16Gi\"}", CLUSTER_UNKNOWN, PL_LEVEL_RESTRICTED},
    {"gpu-gfd", "\"gpu\": {\"count\": 2, \"product\": [\"*H100*\", \"*A100*\"], \"memory\": \"40G\", \"compute\": \"8.6\"}",
     CLUSTER_GFD},
    {"gpu-clouds", "\"gpu\": {\"product\": [\"*t4*\"], \"compute\": \"7.0\"}", CLUSTER_CLOUD},
    {"gpu-named", "\"gpu\": {\"memory\": \"22G\", \"compute\": \"8.6\"}", CLUSTER_NAMED},
    {"gpu-goes-on", "\"gpu\": {\"required\": false}", CLUSTER_GFD, .goes_on = true},
    {"gpu-amd", "\"gpu\": {\"resource\": \"amd.com/gpu\", \"count\": 4}", CLUSTER_GFD},
    {"gpu-intel", "\"gpu\": {\"resource\": \"gpu.intel.com/xe\"}", CLUSTER_GFD},
    {"gpu-gaudi", "\"gpu\": {\"resource\": \"habana.ai/gaudi\", \"count\": 8}", CLUSTER_GFD},
    {"gpu-gke", "\"gpu\": {\"memory\": \"22G\", \"compute\": \"8.6\"}", CLUSTER_GKE},
    {"gpu-eks", "\"gpu\": {\"memory\": \"22G\", \"compute\": \"8.6\"}", CLUSTER_EKS},
    {"gpu-karpenter", "\"gpu\": {\"memory\": \"22G\", \"compute\": \"8.6\"}", CLUSTER_KARPENTER},
    {"gpu-aks",
     "\"gpu\": {\"memory\": \"22G\", \"compute\": \"8.6\", \"product\": [\"*L4\"]}, \"placement\": {\"tolerations\": [{\"key\": "
     "\"sku\", \"value\": \"gpu\", \"effect\": \"NoSchedule\"}]}",
     CLUSTER_AKS},
    {"time-slicing", SHARE("\"mode\": \"time-slicing\""), CLUSTER_GFD},
    {"time-slicing-renamed", SHARE("\"mode\": \"time-slicing\""), CLUSTER_MIXED},
    {"mps", SHARE("\"mode\": \"mps\", \"memory\": \"4Gi\", \"threads\": 50"), CLUSTER_GFD, PL_LEVEL_BASELINE},
    {"mps-renamed", SHARE("\"mode\": \"mps\""), CLUSTER_MPS_RENAMED},
    {"mig-mixed", SHARE("\"mode\": \"mig\", \"profile\": \"1g.5gb\""), CLUSTER_MIXED},
    {"mig-single", SHARE("\"mode\": \"mig\", \"profile\": \"1g.5gb\""), CLUSTER_GFD},
    {"mig-media", SHARE("\"mode\": \"mig\", \"profile\": \"1g.5gb+me\""), CLUSTER_MIXED, PL_LEVEL_RESTRICTED},
    {"gpu-mem", SHARE("\"mode\": \"gpu-mem\", \"amount\": 5"), CLUSTER_UNKNOWN},
    {"gpu-mem-rounded-up", SHARE("\"mode\": \"gpu-mem\", \"amount\": 1500, \"unit\": \"MiB\""), CLUSTER_UNKNOWN},
    {"gpu-mem-in-mib", SHARE("\"mode\": \"gpu-mem\", \"amount\": 5, \"unit\": \"GiB\""), CLUSTER_MIXED},
    {"dra",
     "\"gpu\": {\"count\": 2, \"memory\": \"40G\", \"compute\": \"8.0\", \"product\": [\"*A100*\", \"NVIDIA H100?(x)\"], "
     "\"share\": {\"mode\": "
     "\"dra\", \"class\": \"gpu.nvidia.com\", \"selectors\": [\"device.attributes['gpu.nvidia.com'].type == 'gpu'\"]}}",
     CLUSTER_DRA},
    {"dra-v1beta1", SHARE("\"mode\": \"dra\", \"class\": \"mig.nvidia.com\""), CLUSTER_OLD_DRA, PL_LEVEL_RESTRICTED},
    {"hami", SHARE("\"mode\": \"custom\", \"preset\": \"hami\", \"values\": {\"memory\": 3000, \"cores\": 30}"), CLUSTER_UNKNOWN},
    {"kai", SHARE("\"mode\": \"custom\", \"preset\": \"kai\", \"values\": {\"fraction\": \"0.5\", \"queue\": \"research\"}"),
     CLUSTER_UNKNOWN},
    {"volcano", SHARE("\"mode\": \"custom\", \"preset\": \"volcano\", \"values\": {\"memory\": 1024}"), CLUSTER_UNKNOWN},
    {"custom",
     SHARE("\"mode\": \"custom\", \"limits\": {\"tencent.com/vcuda-core\": 50}, \"annotations\": {\"a\": \"b c\"}, \"labels\": "
           "{\"l\": \"m\"}, "
           "\"scheduler\": \"other\""),
     CLUSTER_UNKNOWN},
    {"patched",
     "\"placement\": {\"pod_spec\": {\"schedulerName\": \"other\", \"tolerations\": [{\"operator\": \"Exists\"}]}, "
     "\"pod_patch\": "
     "{\"containers\": "
     "[{\"name\": \"main\", \"env\": [{\"name\": \"A\", \"value\": \"b\"}], \"resources\": {\"limits\": {\"cpu\": 2}}}, "
     "{\"name\": \"extra\", \"image\": \"i\"}], "
     "\"volumes\": "
     "[{\"name\": \"data\", \"persistentVolumeClaim\": {\"claimName\": \"imagenet\"}}]}}",
     CLUSTER_UNKNOWN},
    {"patched-restricted",
     "\"placement\": {\"pod_patch\": {\"containers\": [{\"name\": \"extra\", \"image\": \"i\"}], \"initContainers\": [{\"name\": "
     "\"first\", \"image\": \"i\", \"securityContext\": {\"runAsUser\": 7}}]}}",
     CLUSTER_UNKNOWN, PL_LEVEL_RESTRICTED},
    {"json-patched",
     "\"placement\": {\"pod_patch\": [{\"op\": \"add\", \"path\": \"/tolerations\", \"value\": []}, {\"op\": \"add\", \"path\": "
     "\"/tolerations/-\", \"value\": {\"operator\": \"Exists\"}}, {\"op\": \"test\", \"path\": \"/containers/0/name\", "
     "\"value\": \"main\"}, "
     "{\"op\": \"remove\", \"path\": \"/affinity\"}]}",
     CLUSTER_UNKNOWN},
    {"template", "", CLUSTER_UNKNOWN,
     .template = "{\"metadata\": {\"annotations\": {\"cost-centre\": \"7\"}}, \"spec\": {\"serviceAccountName\": \"stages\", "
                 "\"volumes\": "
                 "[{\"name\": \"cuda\", \"hostPath\": {\"path\": \"/usr/local/nvidia\"}}], \"containers\": [{\"name\": \"main\", "
                 "\"volumeMounts\": [{\"name\": \"cuda\", \"mountPath\": \"/usr/local/nvidia\"}]}]}}"},
};

static int render(const struct golden *g, struct pl_pod *ret, struct pl_err *err)
{
    static const char *const claims[] = {"imagenet"};
    struct pl_spec *spec = pod_spec_of(g->fields);
    struct pl_pod_worker worker = worker_of(spec);
    struct pl_pod_cluster cluster = cluster_of(g->cluster);
    struct pl_pod_settings settings = g->full ? full_settings() : plain_settings();
    json_t *template = g->template != NULL ? json_loads(g->template, 0, NULL) : NULL;
    int r;

    cluster.level = g->level;
    settings.pod_template = template;
    settings.claims = claims;
    settings.n_claims = 1;
    worker.gpu = worker.gpu && !g->goes_on;
    worker.input_bytes = g->input_bytes;
    r = pl_pod_render(&cluster, &settings, &worker, ret, err);
    json_decref(template);
    pl_spec_destroy(spec);
    return r;
}

static void pods_are_what_the_goldens_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(goldens); i++) {
        struct pl_pod pod = {0}, again = {0};
        struct pl_err err = {0};
        struct pl_buf want = {0}, got = {0};
        char path[512], *text;

        if (render(&goldens[i], &pod, &err) < 0)
            fail_msg("%s: %s", goldens[i].name, err.msg);
        if (pod.claim_template != NULL)
            assert_int_equal(json_object_set(pod.pod, "claim template beside it", pod.claim_template), 0);
        text = json_dumps(pod.pod, JSON_INDENT(1) | JSON_SORT_KEYS);
        assert_int_equal(pl_buf_addf(&got, NULL, "%s\n", text), 0);
        free(text);
        (void)snprintf(path, sizeof(path), PODS "%s.json", goldens[i].name);
        if (getenv("PL_UPDATE"))
            assert_int_equal(pl_io_write_file(path, got.data, got.len, 0644, &err), 0);
        if (pl_io_read_file(path, &want, &err) < 0)
            fail_msg("%s (PL_UPDATE=1 writes it)", err.msg);
        if (want.len != got.len || memcmp(want.data, got.data, got.len) != 0)
            fail_msg("data/pods/%s.json is not what is rendered: PL_UPDATE=1 and this test write it", goldens[i].name);
        assert_int_equal(render(&goldens[i], &again, &err), 0);
        if (pod.claim_template != NULL)
            assert_int_equal(json_object_del(pod.pod, "claim template beside it"), 0);
        assert_true(json_equal(pod.pod, again.pod));
        pl_pod_finish(&pod);
        pl_pod_finish(&again);
        pl_buf_finish(&want);
        pl_buf_finish(&got);
    }
}

/* What a stage says it needs is asked for whatever nodes have: no other will do. */
static void room_for_inputs_is_asked_for_as_far_as_a_node_has_it(void **state)
{
    static const struct {
        const char *fields;
        int64_t input_bytes, node_bytes;
        const char *asked; /* NULL: nothing */
    } rows[] = {
        {"", 0, 0, NULL},
        {"", 1, 0, "1Mi"},
        {"", 3LL << 40, 0, "3Ti"}, /* nodes do not tell */
        {"", 3LL << 40, 100LL << 30, "100Gi"},
        {"", 3LL << 40, 94580335255, "94580335255"},
        {"\"resources\": {\"disk\": \"10Gi\"}", 1LL << 30, 100LL << 30, "11Gi"},
        {"\"resources\": {\"disk\": \"10Gi\"}", 3LL << 40, 100LL << 30, "100Gi"},
        {"\"resources\": {\"disk\": \"200Gi\"}", 1LL << 30, 100LL << 30, "200Gi"},
        {"\"scratch\": {\"size\": \"1Ti\"}", 1LL << 30, 100LL << 30, NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_spec *spec = pod_spec_of(rows[i].fields);
        struct pl_pod_worker worker = worker_of(spec);
        const struct pl_pod_cluster cluster = {0};
        const struct pl_pod_settings settings = plain_settings();
        struct pl_pod pod = {0};
        const json_t *main;

        worker.input_bytes = rows[i].input_bytes;
        worker.disk_bytes = rows[i].node_bytes;
        assert_int_equal(pl_pod_render(&cluster, &settings, &worker, &pod, NULL), 0);
        main = json_array_get(json_object_get(json_object_get(pod.pod, "spec"), "containers"), MAIN_PLACE);
        main = json_object_get(json_object_get(json_object_get(main, "resources"), "requests"), "ephemeral-storage");
        if (!pl_streq(json_string_value(main) ? json_string_value(main) : "nothing", rows[i].asked ? rows[i].asked : "nothing"))
            fail_msg("row %zu: %s is asked for", i, json_string_value(main) ? json_string_value(main) : "nothing");
        pl_pod_finish(&pod);
        pl_spec_destroy(spec);
    }
}

/* What Pod Security makes of a pod, that devices have nothing to do with. */
static void forget_security(json_t *pod)
{
    json_t *main = json_array_get(json_object_get(json_object_get(pod, "spec"), "containers"), MAIN_PLACE),
           *env = json_object_get(main, "env");
    size_t i = 0;

    (void)json_object_del(main, "securityContext");
    while (i < json_array_size(env))
        if (strcmp(json_string_value(json_object_get(json_array_get(env, i), "name")), "HOME") == 0)
            (void)json_array_remove(env, i);
        else
            i++;
    if (env != NULL && json_array_size(env) == 0)
        (void)json_object_del(main, "env");
}

static void write_pod(const struct pl_pod *pod, const char *folder, const char *name, const char *level)
{
    json_t *all = json_deep_copy(pod->pod);
    char path[512], *text;

    if (pod->claim_template != NULL)
        assert_int_equal(json_object_set(all, "claim template beside it", pod->claim_template), 0);
    text = json_dumps(all, JSON_COMPACT);
    (void)snprintf(path, sizeof(path), "%s/%s.%s.json", folder, name, level);
    assert_int_equal(pl_io_write_file(path, text, strlen(text), 0644, NULL), 0);
    free(text);
    json_decref(all);
}

/* PL_PODS_OUT=FOLDER writes them, for an API server to say what it thinks of them: tests/kube/test_golden.py. */
static void devices_are_asked_for_in_the_same_way_at_each_level(void **state)
{
    static const char *const levels[] = {"privileged", "baseline", "restricted"};
    unsigned ways = 0;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(goldens); i++) {
        struct golden g = goldens[i];
        struct pl_pod pods[PL_ARRAY_SIZE(levels)] = {0};

        if (strstr(g.fields, "\"gpu\"") == NULL || g.goes_on)
            continue;
        for (size_t k = 0; k < PL_ARRAY_SIZE(levels); k++) {
            g.level = (enum pl_pod_level)k;
            assert_int_equal(render(&g, &pods[k], NULL), 0);
            if (getenv("PL_PODS_OUT"))
                write_pod(&pods[k], getenv("PL_PODS_OUT"), g.name, levels[k]);
            forget_security(pods[k].pod);
            if (!json_equal(pods[0].pod, pods[k].pod) ||
                (pods[0].claim_template != NULL && !json_equal(pods[0].claim_template, pods[k].claim_template)))
                fail_msg("%s is another at level %s", g.name, levels[k]);
        }
        for (size_t k = 0; k < PL_ARRAY_SIZE(levels); k++)
            pl_pod_finish(&pods[k]);
        ways++;
    }
    assert_in_range(ways, 25, 60);
}

static void stages_that_cannot_be_pods_say_why(void **state)
{
    static const struct {
        struct golden g;
        int code;
        const char *says, *field;
    } cases[] = {
        {{.fields = "\"image\": null"},
         PL_EINVAL,
         "stage Train_net has no image and no default is set: set \"image\", or run pipelinectl update defaults",
         "image"},
        {{.fields = "\"user\": 0", .level = PL_LEVEL_RESTRICTED},
         PL_EINVAL,
         "user \"0\" is root, which namespace ml forbids",
         "user"},
        {{.fields = "", .cluster = CLUSTER_QUOTA},
         PL_EINVAL,
         "the quota of namespace ml requires a memory limit",
         "resources.memory"},
        {{.fields = "\"gpu\": {\"product\": [\"*B200*\", \"*B300*\"]}", .cluster = CLUSTER_GFD},
         PL_EUNAVAILABLE,
         "no node has a GPU product *B200* or *B300*; known: NVIDIA-A100-SXM4-40GB, NVIDIA-H100-80GB-HBM3",
         "gpu.product"},
        {{.fields = "\"gpu\": {\"product\": [\"*B200*\"]}", .cluster = CLUSTER_TWICE},
         PL_EUNAVAILABLE,
         "no node has a GPU product *B200*; known: nvidia-tesla-t4, nvidia-l4",
         "gpu.product"},
        {{.fields = "\"gpu\": {\"compute\": \"9.0\"}", .cluster = CLUSTER_TWICE},
         PL_EUNAVAILABLE,
         "; nvidia-tesla-t4 has 15360 MiB, 7.5, nvidia-l4 has 23034 MiB, 8.9; install",
         "gpu.compute"},
        {{.fields = "\"gpu\": {\"product\": [\"*B200*\"]}"},
         PL_EUNAVAILABLE,
         "no node has a GPU product *B200*; no GPU product is known",
         "gpu.product"},
        {{.fields = "\"gpu\": {\"compute\": \"9.0\"}", .cluster = CLUSTER_NAMED},
         PL_EUNAVAILABLE,
         "no GPU of the cluster is known to have compute capability 9.0; nvidia-tesla-t4 has 15360 MiB, 7.5, nvidia-l4 has 23034 "
         "MiB, "
         "8.9, a10g has 22731 MiB, 8.6, nvidia has unknown memory and capability; install GPU Feature Discovery, which labels "
         "nodes with both",
         "gpu.compute"},
        {{.fields = "\"gpu\": {\"memory\": \"80G\", \"product\": [\"*l4\"]}", .cluster = CLUSTER_NAMED},
         PL_EUNAVAILABLE,
         "no GPU of the cluster is known to have 73728 MiB; ",
         "gpu.memory"},
        {{.fields = SHARE("\"mode\": \"dra\", \"class\": \"c\"")},
         PL_EUNAVAILABLE,
         "the cluster does not serve resource.k8s.io",
         "gpu.share.mode"},
        {{.fields = SHARE("\"mode\": \"custom\", \"preset\": \"nobody\"")},
         PL_EINVAL,
         "there is no preset \"nobody\"; known presets: hami, kai, volcano",
         "gpu.share.preset"},
        {{.fields = SHARE("\"mode\": \"custom\", \"preset\": \"kai\", \"values\": {\"cores\": 1}")},
         PL_EINVAL,
         "preset \"kai\" does not use a value \"cores\"",
         "gpu.share.values"},
        {{.fields = "\"placement\": {\"runtime_class\": \"gvisor\"}", .cluster = CLUSTER_GFD},
         PL_EUNAVAILABLE,
         "the cluster has no runtime class \"gvisor\"",
         "placement.runtime_class"},
        {{.fields = "\"placement\": {\"arch\": \"riscv64\"}", .full = true}, PL_EUNAVAILABLE, "arch riscv64", "placement.arch"},
        {{.fields = "\"placement\": {\"pod_patch\": [{\"op\": \"remove\", \"path\": \"/x\"}]}"},
         PL_EINVAL,
         "placement.pod_patch: [0]: path \"/x\": there is no value",
         "placement.pod_patch"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_pod pod = {0};
        struct pl_err err = {0};
        struct golden g = cases[i].g;
        int r = render(&g, &pod, &err);

        if (r != cases[i].code || strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s\nsays: %s", g.fields, err.msg);
        assert_string_equal(err.field, cases[i].field);
    }
}

/* As the labels of nodes say, else as the name says; what nobody says is not compared. */
static void memory_and_capability_are_compared_with_what_nodes_have(void **state)
{
    static const struct {
        const char *gpu;
        enum pod_cluster_kind cluster;
        const char *says; /* NULL: it can run */
    } rows[] = {
        {"\"memory\": \"40G\"", CLUSTER_LABELLED, NULL},
        {"\"memory\": \"80G\"", CLUSTER_LABELLED,
         "no GPU of the cluster is known to have 73728 MiB; NVIDIA-A100-SXM4-40GB has 40960 MiB, 8.0, NVIDIA-X1 has 8192 MiB, "
         "unknown capability, Tesla-T4 has 15360 MiB, 7.5; install"},
        {"\"compute\": \"9.0\"", CLUSTER_LABELLED, NULL}, /* the X1's is not known */
        {"\"compute\": \"9.0\", \"memory\": \"16G\"", CLUSTER_LABELLED,
         "no GPU of the cluster is known to have 14745 MiB and compute capability 9.0; NVIDIA"},
        {"\"memory\": \"16G\", \"product\": [\"*T4*\"]", CLUSTER_LABELLED, NULL},
        {"\"memory\": \"40G\", \"product\": [\"*T4*\"]", CLUSTER_LABELLED, "no GPU of the cluster is known to have 36864 MiB; "},
        {"\"memory\": \"80G\"", CLUSTER_GFD, NULL}, /* the H100's name says it */
        {"\"memory\": \"160G\"", CLUSTER_GFD, "NVIDIA-H100-80GB-HBM3 has 81559 MiB, 9.0"},
        {"\"memory\": \"24G\"", CLUSTER_WEIGHED, NULL},
        {"\"memory\": \"40G\"", CLUSTER_WEIGHED, "; l4 has 22888 MiB, 8.9, t4 has 15360 MiB, 7.5"},
        {"\"memory\": \"40G\"", CLUSTER_UNKNOWN, NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char fields[200];
        const struct golden g = {.fields = fields, .cluster = rows[i].cluster};
        struct pl_pod pod = {0};
        struct pl_err err = {0};
        int r;

        (void)snprintf(fields, sizeof(fields), "\"gpu\": {%s}", rows[i].gpu);
        r = render(&g, &pod, &err);
        if (r != (rows[i].says ? PL_EUNAVAILABLE : 0) || (rows[i].says && !strstr(err.msg, rows[i].says)))
            fail_msg("row %zu, %s: %d, %s", i, rows[i].gpu, r, err.msg);
        pl_pod_finish(&pod);
    }
}

static void names_fit_and_tell_workers_apart(void **state)
{
    static const char long_name[] = "A_stage_with_a_name_that_is_as_long_as_names_may_be";
    char a[PL_POD_NAME_BYTES], b[PL_POD_NAME_BYTES];

    (void)state;
    pl_pod_name("store", "default", "Train_net", 3, 0, 1, a);
    assert_int_equal(strncmp(a, "train-net-", 10), 0);
    assert_int_equal(strlen(a), 10 + 10 + 4);
    pl_pod_name("store", "default", "Train_net", 3, 0, 1, b);
    assert_string_equal(a, b);
    pl_pod_name("store", "other", "Train_net", 3, 0, 1, b);
    assert_string_not_equal(a, b);
    pl_pod_name("store", "default", "Train_net", 4, 0, 1, b);
    assert_string_not_equal(a, b);
    pl_pod_name("store", "default", "Train_net", 3, 0, 2, b);
    assert_string_not_equal(a, b);
    pl_pod_name("store", "default", long_name, 3, 9999, 4294967295u, b);
    assert_int_equal(strlen(b), 63);
    assert_non_null(strstr(b, "-9999-4294967295"));
    for (const char *p = b; *p != '\0'; p++)
        assert_non_null(strchr("abcdefghijklmnopqrstuvwxyz0123456789-", *p));
}

/* Which plugin of a cluster renames is its admin's choice, node by node. */
static void turns_are_asked_for_by_the_name_that_nodes_of_their_strategy_have(void **state)
{
    static const struct {
        const char *mode;
        enum pod_cluster_kind cluster;
        const char *resource;
    } cases[] = {
        {"time-slicing", CLUSTER_SLICING_RENAMED, "nvidia.com/gpu.shared"},
        {"mps", CLUSTER_SLICING_RENAMED, "nvidia.com/gpu"},
        {"time-slicing", CLUSTER_MPS_RENAMED, "nvidia.com/gpu"},
        {"mps", CLUSTER_MPS_RENAMED, "nvidia.com/gpu.shared"},
        {"mps", CLUSTER_MIXED, "nvidia.com/gpu.shared"}, /* no node is known to do that: the name that there is */
        {"mps", CLUSTER_UNKNOWN, "nvidia.com/gpu"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        char fields[100];
        const struct golden g = {.name = cases[i].mode, .fields = fields, .cluster = cases[i].cluster};
        struct pl_pod pod = {0};
        const json_t *limits;

        (void)snprintf(fields, sizeof(fields), SHARE("\"mode\": \"%s\""), cases[i].mode);
        assert_int_equal(render(&g, &pod, NULL), 0);
        limits =
            json_object_get(json_object_get(json_array_get(json_object_get(json_object_get(pod.pod, "spec"), "containers"), 0),
                                            "resources"),
                            "limits");
        assert_int_equal(json_object_size(limits), 1);
        if (json_object_get(limits, cases[i].resource) == NULL)
            fail_msg("%s asks for %s, not %s", cases[i].mode, json_object_iter_key(json_object_iter((json_t *)(uintptr_t)limits)),
                     cases[i].resource);
        pl_pod_finish(&pod);
    }
}

/* The API server charges for the body. */
static void a_plain_pod_is_small(void **state)
{
    struct pl_pod pod = {0};

    (void)state;
    assert_int_equal(render(&goldens[0], &pod, NULL), 0);
    assert_in_range(json_dumpb(pod.pod, NULL, 0, JSON_COMPACT), 1500, 3000);
    pl_pod_finish(&pod);
}

/* In each of the alternatives, for one that holds is enough; and where nothing else is asked of a node. */
static void nodes_that_are_avoided_are_in_every_term(void **state)
{
    static const char *const fields[] = {"\"gpu\": {\"compute\": \"8.6\"}", "\"cache\": true"};
    static const char *const nodes[] = {"node-a", "node-b.example"};
    static const char want[] = "[{\"key\":\"metadata.name\",\"operator\":\"NotIn\",\"values\":[\"node-a\"]},"
                               "{\"key\":\"metadata.name\",\"operator\":\"NotIn\",\"values\":[\"node-b.example\"]}]";

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(fields); i++) {
        struct pl_spec *spec = pod_spec_of(fields[i]);
        struct pl_pod_cluster cluster = {0};
        struct pl_pod_settings settings = plain_settings();
        struct pl_pod_worker worker = worker_of(spec);
        struct pl_pod pod = {0};
        const json_t *terms, *term;
        size_t n;

        worker.avoid = nodes;
        worker.n_avoid = 2;
        assert_int_equal(pl_pod_render(&cluster, &settings, &worker, &pod, NULL), 0);
        terms = json_object_get(json_object_get(json_object_get(json_object_get(json_object_get(pod.pod, "spec"), "affinity"),
                                                                "nodeAffinity"),
                                                "requiredDuringSchedulingIgnoredDuringExecution"),
                                "nodeSelectorTerms");
        assert_int_equal(json_array_size(terms), i == 0 ? 2 : 1);
        json_array_foreach(terms, n, term)
        {
            char *text = json_dumps(json_object_get(term, "matchFields"), JSON_COMPACT | JSON_SORT_KEYS);

            assert_string_equal(text, want);
            free(text);
        }
        pl_pod_finish(&pod);
        pl_spec_destroy(spec);
    }
}

static void presets_of_the_daemon_go_over_ours(void **state)
{
    struct pl_spec *spec = pod_spec_of(SHARE("\"mode\": \"custom\", \"preset\": \"own\", \"values\": {\"part\": \"half\"}"));
    struct pl_pod_cluster cluster = {0};
    struct pl_pod_settings settings = plain_settings();
    struct pl_pod_worker worker = worker_of(spec);
    struct pl_pod pod = {0};
    json_t *rows = json_loads(
               "{\"own\": {\"limits\": {\"own.io/gpu\": \"${count}\"}, \"labels\": {\"own.io/part\": \"${part}\", \"x\": "
               "\"${not-given}\"}}}",
               0, NULL),
           *limits;

    (void)state;
    settings.gpu_presets = rows;
    assert_int_equal(pl_pod_render(&cluster, &settings, &worker, &pod, NULL), 0);
    limits = json_object_get(json_object_get(json_array_get(json_object_get(json_object_get(pod.pod, "spec"), "containers"), 0),
                                             "resources"),
                             "limits");
    assert_string_equal(json_string_value(json_object_get(limits, "own.io/gpu")), "1");
    limits = json_object_get(json_object_get(pod.pod, "metadata"), "labels");
    assert_string_equal(json_string_value(json_object_get(limits, "own.io/part")), "half");
    assert_null(json_object_get(limits, "x"));
    json_decref(rows);
    pl_pod_finish(&pod);
    pl_spec_destroy(spec);
}

/* By its labels and annotations the daemon knows whose a pod is. */
static void a_custom_share_cannot_make_a_pod_anothers(void **state)
{
    static const struct golden g = {
        "g", SHARE("\"mode\": \"custom\", \"limits\": {\"own.io/gpu\": 1}, \"labels\": {\"pipelined.io/store\": \"theirs\", "
                   "\"pipelined.io/project\": \"theirs\", \"app.kubernetes.io/managed-by\": \"me\", \"sidecar.istio.io/inject\": "
                   "\"true\", \"team\": \"a\"}, \"annotations\": {\"pipelined.io/worker\": \"7\", \"linkerd.io/inject\": "
                   "\"enabled\", \"note\": \"b\"}")};
    struct pl_pod pod = {0};
    const json_t *metadata;
    char *labels, *annotations;

    (void)state;
    assert_int_equal(render(&g, &pod, NULL), 0);
    metadata = json_object_get(pod.pod, "metadata");
    labels = json_dumps(json_object_get(metadata, "labels"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(labels, "{\"app.kubernetes.io/managed-by\":\"pipelined\",\"pipelined.io/project\":\"default\","
                                "\"pipelined.io/stage\":\"Train_net\",\"pipelined.io/store\":\"5f3a90b1c2d3e4f5\","
                                "\"sidecar.istio.io/inject\":\"false\",\"team\":\"a\"}");
    annotations = json_dumps(json_object_get(metadata, "annotations"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(annotations, "{\"cluster-autoscaler.kubernetes.io/safe-to-evict\":\"false\",\"karpenter.sh/"
                                     "do-not-disrupt\":\"true\",\"linkerd.io/inject\":\"disabled\",\"note\":\"b\","
                                     "\"pipelined.io/worker\":\"42\"}");
    free(labels);
    free(annotations);
    pl_pod_finish(&pod);
}

/* The pod of a stage with these fields in a project whose network is off. */
static int render_off(const char *fields, bool off, const json_t *template, struct pl_pod *ret, struct pl_err *err)
{
    struct pl_spec *spec = pod_spec_of(fields);
    struct pl_pod_worker worker = worker_of(spec);
    const struct pl_pod_cluster cluster = cluster_of(CLUSTER_UNKNOWN);
    struct pl_pod_settings settings = plain_settings();
    int r;

    worker.network_off = off;
    settings.pod_template = template;
    r = pl_pod_render(&cluster, &settings, &worker, ret, err);
    pl_spec_destroy(spec);
    return r;
}

static char *text_of(const struct pl_pod *pod)
{
    return json_dumps(pod->pod, JSON_COMPACT | JSON_SORT_KEYS);
}

static void in_a_project_without_network_a_pod_is_that_of_a_stage_without(void **state)
{
    static const char *const says[] = {"", "\"network\": true", "\"network\": false"};
    struct pl_pod pod = {0};
    char *wanted, *is;

    (void)state;
    assert_int_equal(render_off("\"network\": false", false, NULL, &pod, NULL), 0);
    wanted = text_of(&pod);
    assert_non_null(strstr(wanted, "\"--no-network\""));
    pl_pod_finish(&pod);
    for (size_t i = 0; i < PL_ARRAY_SIZE(says); i++) {
        assert_int_equal(render_off(says[i], true, NULL, &pod, NULL), 0);
        is = text_of(&pod);
        assert_string_equal(is, wanted);
        free(is);
        pl_pod_finish(&pod);
    }
    free(wanted);
}

#define PATCH(text) "\"placement\": {\"pod_patch\": {" text "}}"
#define BESIDE                                                                                                                   \
    "is an additional container (\"extra\"), which would have network access, but the network is off in project \"default\""

static void no_patch_gives_the_network_back(void **state)
{
    static const char *const refused[][3] = {
        {PATCH("\"containers\": [{\"name\": \"extra\", \"image\": \"i\"}]"), "containers[2]", BESIDE},
        {PATCH("\"initContainers\": [{\"name\": \"extra\", \"image\": \"i\"}]"), "initContainers[1]", BESIDE},
        {PATCH("\"initContainers\": [{\"name\": \"extra\", \"image\": \"i\", \"restartPolicy\": \"Always\"}]"),
         "initContainers[1]", BESIDE},
        {"\"placement\": {\"pod_spec\": {\"hostNetwork\": true}}", "hostNetwork",
         "(true): leave it out; only projects in kubernetes.trusted_projects may have it, and only if their network is not "
         "off"},
        {"\"placement\": {\"pod_patch\": [{\"op\": \"remove\", \"path\": \"/containers/0/command/3\"}]}", "containers[0].command",
         "is changed"},
        {PATCH("\"containers\": [{\"name\": \"main\", \"command\": [\"sh\"]}]"), "containers[0].command", "is changed"},
        {PATCH("\"containers\": [{\"name\": \"main\", \"args\": [\"x\"]}]"), "containers[0].args", "is forbidden"},
        {PATCH("\"containers\": [{\"name\": \"main\", \"lifecycle\": {\"postStart\": {\"exec\": {\"command\": "
               "[\"sh\"]}}}}]"),
         "containers[0].lifecycle", "is forbidden"},
        {PATCH("\"containers\": [{\"name\": \"main\", \"startupProbe\": {\"exec\": {\"command\": [\"sh\"]}}}]"),
         "containers[0].startupProbe.exec", "would run outside of the runner"},
        {PATCH("\"containers\": [{\"name\": \"agent\", \"image\": \"i\"}]"), "containers[1]",
         "changes a container that is not the stage's"},
        {PATCH("\"shareProcessNamespace\": true"), "shareProcessNamespace", "is forbidden"},
    };
    static const char *const taken[] = {
        PATCH("\"containers\": [{\"name\": \"main\", \"env\": [{\"name\": \"A\", \"value\": \"b\"}], \"image\": \"j\"}]"),
        PATCH("\"nodeSelector\": {\"pool\": \"big\"}")};
    json_t *template = json_pack("{s:{s:[{s:s, s:s}]}}", "spec", "containers", "name", "vpn", "image", "ops");
    struct pl_pod pod = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++) {
        struct pl_err err = {0};

        if (render_off(refused[i][0], true, NULL, &pod, &err) != PL_EFORBIDDEN)
            fail_msg("%s\nsays: %s", refused[i][0], err.msg[0] != '\0' ? err.msg : "accepted");
        assert_string_equal(err.field, refused[i][1]);
        if (strstr(err.msg, refused[i][2]) == NULL)
            fail_msg("%s\nsays: %s", refused[i][0], err.msg);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(taken); i++) {
        assert_int_equal(render_off(taken[i], true, NULL, &pod, NULL), 0);
        pl_pod_finish(&pod);
    }
    assert_int_equal(render_off("", true, template, &pod, NULL), 0); /* the operator's are the operator's */
    pl_pod_finish(&pod);
    json_decref(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_custom_share_cannot_make_a_pod_anothers),
        cmocka_unit_test(pods_are_what_the_goldens_say),
        cmocka_unit_test(in_a_project_without_network_a_pod_is_that_of_a_stage_without),
        cmocka_unit_test(no_patch_gives_the_network_back),
        cmocka_unit_test(room_for_inputs_is_asked_for_as_far_as_a_node_has_it),
        cmocka_unit_test(devices_are_asked_for_in_the_same_way_at_each_level),
        cmocka_unit_test(stages_that_cannot_be_pods_say_why),
        cmocka_unit_test(memory_and_capability_are_compared_with_what_nodes_have),
        cmocka_unit_test(names_fit_and_tell_workers_apart),
        cmocka_unit_test(turns_are_asked_for_by_the_name_that_nodes_of_their_strategy_have),
        cmocka_unit_test(a_plain_pod_is_small),
        cmocka_unit_test(nodes_that_are_avoided_are_in_every_term),
        cmocka_unit_test(presets_of_the_daemon_go_over_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
