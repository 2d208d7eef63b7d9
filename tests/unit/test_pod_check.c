// link: pl_kube pl_core
/* pod_check: what a spec may not ask for is found on the rendered pod, by its name;  pod_patch: the three ways to patch. */
#include "pod_fixture.h"

#include "pipelined/kube/pod_patch.h"

static const char *node_cache; /* of the settings */

/* `patch` as the stage's pod_patch; the PL_ code. */
static int render_with(const char *key, const char *patch, const char *beside, bool trusted, struct pl_err *err)
{
    char fields[8192];
    struct pl_pod_cluster cluster = {0};
    struct pl_pod_settings settings = plain_settings();
    struct pl_pod pod = {0};
    struct pl_pod_worker worker;
    struct pl_spec *spec;
    int r;

    (void)snprintf(fields, sizeof(fields), "\"placement\": {\"%s\": %s}%s", key, patch, beside);
    spec = pod_spec_of(fields);
    worker = worker_of(spec);
    worker.trusted = trusted;
    settings.pull_secrets = pull_secrets;
    settings.n_pull_secrets = 1;
    settings.ca = "pipelined-ca";
    settings.node_cache = node_cache;
    r = pl_pod_render(&cluster, &settings, &worker, &pod, err);
    if (r == 0)
        pl_pod_finish(&pod);
    pl_spec_destroy(spec);
    return r;
}

#define MAIN(text)  "{\"containers\": [{\"name\": \"main\", " text "}]}"
#define AGENT(text) "{\"containers\": [{\"name\": \"agent\", " text "}]}"
#define ADDED(text)                                                                                                              \
    "{\"containers\": [{\"name\": \"extra\", \"image\": \"i\", \"securityContext\": {\"allowPrivilegeEscalation\": "             \
    "false}, " text "}]}"

static const struct {
    const char *patch, *field;
} forbidden[] = {
    {"{\"hostNetwork\": true}", "hostNetwork"},
    {"{\"hostNetwork\": \"true\"}", "hostNetwork"},
    {"{\"hostPID\": true}", "hostPID"},
    {"{\"hostIPC\": true}", "hostIPC"},
    {"{\"hostUsers\": true}", "hostUsers"},
    {"{\"shareProcessNamespace\": true}", "shareProcessNamespace"},
    {"{\"automountServiceAccountToken\": true}", "automountServiceAccountToken"},
    {"{\"automountServiceAccountToken\": null}", "automountServiceAccountToken"},
    {"{\"serviceAccountName\": \"admin\"}", "serviceAccountName"},
    {"{\"serviceAccount\": \"admin\"}", "serviceAccount"},
    {"{\"nodeName\": \"n1\"}", "nodeName"},
    {"{\"restartPolicy\": \"Always\"}", "restartPolicy"},
    {"{\"ephemeralContainers\": [{\"name\": \"e\"}]}", "ephemeralContainers"},
    {"{\"priorityClassName\": \"system-node-critical\"}", "priorityClassName"},
    {"{\"priority\": 2000000000}", "priority"},
    {"{\"securityContext\": {\"sysctls\": [{\"name\": \"a\", \"value\": \"b\"}]}}", "securityContext.sysctls"},
    {"{\"securityContext\": {\"fsGroup\": 0}}", "securityContext.fsGroup"},
    {"{\"securityContext\": {\"supplementalGroups\": [0]}}", "securityContext.supplementalGroups"},
    {"{\"securityContext\": {\"seccompProfile\": {\"type\": \"Unconfined\"}}}", "securityContext.seccompProfile"},
    {"{\"securityContext\": {\"seccompProfile\": null}}", "securityContext.seccompProfile"},
    {"{\"securityContext\": {\"appArmorProfile\": {\"type\": \"Unconfined\"}}}", "securityContext.appArmorProfile"},
    {"{\"securityContext\": {\"windowsOptions\": {\"hostProcess\": true}}}", "securityContext.windowsOptions"},
    {"{\"securityContext\": 7}", "securityContext"},
    {"{\"volumes\": [{\"name\": \"h\", \"hostPath\": {\"path\": \"/\"}}]}", "volumes[2].hostPath"},
    {"{\"volumes\": [{\"name\": \"h\", \"emptyDir\": {}, \"hostPath\": {\"path\": \"/\"}}]}", "volumes[2].hostPath"},
    {"{\"volumes\": [{\"name\": \"h\", \"csi\": {\"driver\": \"d\"}}]}", "volumes[2].csi"},
    {"{\"volumes\": [{\"name\": \"h\", \"nfs\": {}}]}", "volumes[2].nfs"},
    {"{\"volumes\": [{\"name\": \"s\", \"secret\": {\"secretName\": \"pipelined-key\"}}]}", "volumes[2].secret"},
    {"{\"volumes\": [{\"name\": \"s\", \"projected\": {\"sources\": [{\"secret\": {\"name\": \"x\"}}]}}]}",
     "volumes[2].projected"},
    {"{\"volumes\": [{\"name\": \"s\", \"projected\": {\"sources\": [{\"serviceAccountToken\": {\"path\": \"t\"}}]}}]}",
     "volumes[2].projected"},
    {"{\"volumes\": [{\"name\": \"pl\", \"emptyDir\": {\"medium\": \"Memory\"}}]}", "volumes"},
    {"{\"volumes\": [{\"name\": \"ca\", \"$patch\": \"delete\"}]}", "volumes"},
    {"[{\"op\": \"add\", \"path\": \"/volumes/-\", \"value\": {\"name\": \"pl\", \"emptyDir\": {}}}]", "volumes"},
    {"[{\"op\": \"add\", \"path\": \"/volumes/-\", \"value\": {\"emptyDir\": {}}}]", "volumes[2]"},
    {"{\"imagePullSecrets\": [{\"name\": \"theirs\"}]}", "imagePullSecrets"},
    {MAIN("\"securityContext\": {\"privileged\": true}"), "containers[0].securityContext.privileged"},
    {MAIN("\"securityContext\": {\"capabilities\": {\"add\": [\"SYS_ADMIN\"]}}"),
     "containers[0].securityContext.capabilities.add"},
    {MAIN("\"securityContext\": {\"allowPrivilegeEscalation\": true}"), "containers[0].securityContext.allowPrivilegeEscalation"},
    {MAIN("\"securityContext\": {\"allowPrivilegeEscalation\": null}"), "containers[0].securityContext.allowPrivilegeEscalation"},
    {MAIN("\"securityContext\": {\"procMount\": \"Unmasked\"}"), "containers[0].securityContext.procMount"},
    {MAIN("\"securityContext\": {\"seccompProfile\": {\"type\": \"Localhost\"}}"),
     "containers[0].securityContext.seccompProfile"},
    {MAIN("\"securityContext\": {\"appArmorProfile\": {\"type\": \"Unconfined\"}}"),
     "containers[0].securityContext.appArmorProfile"},
    {MAIN("\"securityContext\": {\"seLinuxOptions\": {\"type\": \"spc_t\"}}"), "containers[0].securityContext.seLinuxOptions"},
    {MAIN("\"securityContext\": {\"windowsOptions\": {}}"), "containers[0].securityContext.windowsOptions"},
    {MAIN("\"securityContext\": {\"runAsUser\": 10002}"), "containers[0].securityContext.runAsUser"},
    {MAIN("\"command\": [\"sh\"]"), "containers[0].command"},
    {MAIN("\"args\": [\"sh\"]"), "containers[0].args"},
    {MAIN("\"lifecycle\": {}"), "containers[0].lifecycle"},
    {MAIN("\"ports\": [{\"containerPort\": 1, \"hostPort\": 1}]"), "containers[0].ports[0].hostPort"},
    {MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"pipelined-key\", \"key\": \"k\"}}}]"),
     "containers[0].env[1]"},
    {MAIN("\"envFrom\": [{\"secretRef\": {\"name\": \"pipelined-key\"}}]"), "containers[0].envFrom[0]"},
    {MAIN("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[0].env"},
    {MAIN("\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}"), "containers[0].resources.limits"},
    {MAIN("\"resources\": {\"limits\": {\"aliyun.com/gpu-mem\": 1}}"), "containers[0].resources.limits"},
    {MAIN("\"resources\": {\"claims\": [{\"name\": \"g\"}]}"), "containers[0].resources.claims"},
    {MAIN("\"volumeMounts\": [{\"name\": \"pl\", \"mountPath\": \"/all\"}]"), "containers[0].volumeMounts[5]"},
    {MAIN("\"volumeMounts\": [{\"mountPath\": \"/pfs\", \"readOnly\": false}]"), "containers[0].volumeMounts[0]"},
    {MAIN("\"volumeMounts\": [{\"mountPath\": \"/pfs/out\", \"$patch\": \"delete\"}]"), "containers[0].volumeMounts"},
    {MAIN("\"volumeMounts\": [{\"name\": \"ca\", \"mountPath\": \"/ca\"}]"), "containers[0].volumeMounts[5]"},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/d\", \"mountPropagation\": \"Bidirectional\"}]"),
     "containers[0].volumeMounts[5]"},
    {AGENT("\"image\": \"mine\""), "containers[1]"},
    {AGENT("\"env\": [{\"name\": \"LD_PRELOAD\", \"value\": \"/x\"}]"), "containers[1]"},
    {AGENT("\"$patch\": \"delete\""), "containers"},
    {"{\"initContainers\": [{\"name\": \"install\", \"image\": \"mine\"}]}", "initContainers[0]"},
    {"{\"initContainers\": [{\"name\": \"install\", \"$patch\": \"delete\"}]}", "initContainers"},
    {"[{\"op\": \"move\", \"from\": \"/containers/0\", \"path\": \"/containers/1\"}]", "containers"},
    {"[{\"op\": \"replace\", \"path\": \"/containers\", \"value\": []}]", "containers"},
    {"[{\"op\": \"remove\", \"path\": \"/containers/1/securityContext\"}]", "containers[1]"},
    {"[{\"op\": \"copy\", \"from\": \"/containers/0\", \"path\": \"/containers/-\"}]", "containers"},
    {ADDED("\"volumeMounts\": [{\"name\": \"pl\", \"mountPath\": \"/pl\"}]"), "containers[2].volumeMounts[0]"},
    {ADDED("\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}"), "containers[2].resources.limits"},
    {ADDED("\"envFrom\": [{\"secretRef\": {\"name\": \"x\"}}]"), "containers[2].envFrom[0]"},
    {"{\"containers\": [{\"name\": \"extra\", \"image\": \"i\"}]}", "containers[2].securityContext.allowPrivilegeEscalation"},
    {"{\"initContainers\": [{\"name\": \"extra\", \"image\": \"i\", \"securityContext\": {\"privileged\": true}}]}",
     "initContainers[1].securityContext.privileged"},
};

static void each_forbidden_field_is_refused_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(forbidden); i++) {
        struct pl_err err = {0};

        if (render_with("pod_patch", forbidden[i].patch, "", false, &err) != PL_EFORBIDDEN)
            fail_msg("%s\nsays: %s", forbidden[i].patch, err.msg[0] != '\0' ? err.msg : "accepted");
        if (strcmp(err.field, forbidden[i].field) != 0)
            fail_msg("%s\nnames %s: %s", forbidden[i].patch, err.field, err.msg);
        if (strstr(err.msg, "only projects that kubernetes.trusted_projects names may") == NULL)
            fail_msg("%s", err.msg);
        if (render_with("pod_patch", forbidden[i].patch, "", true, &err) < 0)
            fail_msg("%s of a trusted project: %s", forbidden[i].patch, err.msg);
    }
}

static void the_cache_of_the_node_is_the_agents_alone(void **state)
{
    static const char *const patches[][2] = {
        {MAIN("\"volumeMounts\": [{\"name\": \"cache\", \"mountPath\": \"/c\"}]"), "containers[0].volumeMounts"},
        {"{\"initContainers\": [{\"name\": \"node-cache\", \"command\": [\"sh\"]}]}", "initContainers[1]"},
        {"{\"initContainers\": [{\"name\": \"node-cache\", \"image\": \"mine\"}]}", "initContainers[1]"},
    };

    (void)state;
    node_cache = "/var/cache/pipelined";
    for (size_t i = 0; i < PL_ARRAY_SIZE(patches); i++) {
        struct pl_err err = {0};

        if (render_with("pod_patch", patches[i][0], "", false, &err) != PL_EFORBIDDEN ||
            strncmp(err.field, patches[i][1], strlen(patches[i][1])) != 0)
            fail_msg("%s\nnames %s: %s", patches[i][0], err.field, err.msg);
    }
    node_cache = NULL;
}

static void what_is_allowed_goes_through(void **state)
{
    static const char *const cases[] = {
        "{\"hostNetwork\": false, \"shareProcessNamespace\": null}",
        "{\"priorityClassName\": \"high\", \"schedulerName\": \"other\", \"dnsPolicy\": \"None\", \"hostname\": \"h\"}",
        "{\"affinity\": null, \"nodeSelector\": {\"a\": \"b\"}, \"activeDeadlineSeconds\": 60}",
        "{\"volumes\": [{\"name\": \"d\", \"persistentVolumeClaim\": {\"claimName\": \"c\"}}, {\"name\": \"m\", \"emptyDir\": "
        "{}}]}",
        "{\"volumes\": [{\"name\": \"s\", \"secret\": {\"secretName\": \"tls\"}}]}",
        "{\"volumes\": [{\"name\": \"s\", \"projected\": {\"sources\": [{\"secret\": {\"name\": \"tls\"}}, {\"configMap\": "
        "{\"name\": "
        "\"c\"}}]}}]}",
        "{\"imagePullSecrets\": [{\"name\": \"registry\"}, {\"name\": \"tls\"}]}",
        MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"pg\", \"key\": \"k\"}}}]"),
        MAIN("\"image\": \"other\", \"resources\": {\"limits\": {\"rdma/hca\": 1}}"),
        MAIN("\"securityContext\": {\"runAsUser\": 7, \"readOnlyRootFilesystem\": true}"),
        MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/d\"}]"),
        ADDED("\"env\": []"),
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_err err = {0};

        if (render_with("pod_patch", cases[i], "", false, &err) < 0)
            fail_msg("%s\nsays: %s", cases[i], err.msg);
    }
}

static void secrets_of_the_stage_are_the_projects_too(void **state)
{
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(render_with("pod_spec", "{}", ", \"secrets\": [{\"name\": \"tls\", \"mount\": \"/t\"}]", false, &err), 0);
    assert_int_equal(render_with("pod_spec", "{}", ", \"secrets\": [{\"name\": \"theirs\", \"mount\": \"/t\"}]", false, &err),
                     PL_EFORBIDDEN);
    assert_string_equal(err.field, "secrets[0]");
    assert_int_equal(render_with("pod_spec", "{}", ", \"secrets\": [{\"name\": \"x\", \"key\": \"k\", \"env\": \"X\"}]", false,
                                 &err),
                     PL_EFORBIDDEN);
    assert_int_equal(render_with("pod_spec", "{\"hostPID\": true}", "", false, &err), PL_EFORBIDDEN);
    assert_string_equal(err.field, "hostPID");
    assert_int_equal(render_with("pod_spec", "{\"containers\": [{\"name\": \"main\"}]}", "", false, &err), PL_EFORBIDDEN);
}

static void patch(const char *from, const char *text, const char *want, int (*how)(json_t **, const json_t *, struct pl_err *))
{
    json_t *doc = json_loads(from, JSON_DECODE_ANY, NULL), *p = json_loads(text, JSON_DECODE_ANY, NULL),
           *wanted = want[0] != '!' ? json_loads(want, JSON_DECODE_ANY, NULL) : NULL;
    struct pl_err err = {0};
    int r = how(&doc, p, &err);

    if (want[0] == '!' && (r == 0 || strstr(err.msg, want + 1) == NULL))
        fail_msg("%s\nsays: %s", text, r == 0 ? "accepted" : err.msg);
    if (want[0] != '!' && (r < 0 || !json_equal(doc, wanted))) {
        char *got = json_dumps(doc, JSON_ENCODE_ANY);

        fail_msg("%s over %s\ngives %s %s", text, from, got, err.msg);
    }
    json_decref(doc);
    json_decref(p);
    json_decref(wanted);
}

static void json_patches_are_those_of_rfc_6902(void **state)
{
    static const char *const cases[][3] = {
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/b\", \"value\": 2}]", "{\"a\": 1, \"b\": 2}"},
        {"{\"a\": [1, 3]}", "[{\"op\": \"add\", \"path\": \"/a/1\", \"value\": 2}]", "{\"a\": [1, 2, 3]}"},
        {"{\"a\": [1]}", "[{\"op\": \"add\", \"path\": \"/a/-\", \"value\": [2]}]", "{\"a\": [1, [2]]}"},
        {"{\"a\": 1}", "[{\"op\": \"remove\", \"path\": \"/a\"}]", "{}"},
        {"{\"a\": [1, 2]}", "[{\"op\": \"remove\", \"path\": \"/a/0\"}]", "{\"a\": [2]}"},
        {"{\"a\": 1}", "[{\"op\": \"replace\", \"path\": \"/a\", \"value\": {\"b\": 1}}]", "{\"a\": {\"b\": 1}}"},
        {"{\"a\": [1, 2]}", "[{\"op\": \"replace\", \"path\": \"/a/1\", \"value\": 3}]", "{\"a\": [1, 3]}"},
        {"{\"a\": {\"b\": 1}, \"c\": {}}", "[{\"op\": \"move\", \"from\": \"/a/b\", \"path\": \"/c/d\"}]",
         "{\"a\": {}, \"c\": {\"d\": 1}}"},
        {"{\"a\": [1, 2, 3]}", "[{\"op\": \"move\", \"from\": \"/a/0\", \"path\": \"/a/2\"}]", "{\"a\": [2, 3, 1]}"},
        {"{\"a\": {\"b\": 1}}", "[{\"op\": \"copy\", \"from\": \"/a\", \"path\": \"/a/c\"}]",
         "{\"a\": {\"b\": 1, \"c\": {\"b\": 1}}}"},
        {"{\"a/b\": 1, \"m~n\": 2}",
         "[{\"op\": \"test\", \"path\": \"/a~1b\", \"value\": 1}, {\"op\": \"test\", \"path\": \"/m~0n\", \"value\": 2}]",
         "{\"a/b\": 1, \"m~n\": 2}"},
        {"{\"\": 1}", "[{\"op\": \"replace\", \"path\": \"/\", \"value\": 2}]", "{\"\": 2}"},
        {"{\"a\": 1}", "[{\"op\": \"replace\", \"path\": \"\", \"value\": {\"b\": 1}}]", "{\"b\": 1}"},
        {"{\"a\": 1}", "[{\"op\": \"test\", \"path\": \"/a\", \"value\": 2}]", "![0]: test of \"/a\": another value is there"},
        {"{\"a\": 1}", "[{\"op\": \"remove\", \"path\": \"/b\"}]", "![0]: path \"/b\": nothing is there"},
        {"{\"a\": 1}", "[{\"op\": \"replace\", \"path\": \"/b\", \"value\": 1}]", "!nothing is there"},
        {"{\"a\": [1]}", "[{\"op\": \"add\", \"path\": \"/a/2\", \"value\": 1}]", "!\"2\" is no place of a list of 1"},
        {"{\"a\": [1]}", "[{\"op\": \"add\", \"path\": \"/a/01\", \"value\": 1}]", "!\"01\" is no place of a list of 1"},
        {"{\"a\": [1]}", "[{\"op\": \"remove\", \"path\": \"/a/-\"}]", "!nothing is there"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/a/b\", \"value\": 1}]", "!there is nothing that has a \"b\""},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/x/b\", \"value\": 1}]", "!there is nothing that has a \"b\""},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/~2\", \"value\": 1}]", "!is no JSON pointer"},
        {"{\"a\": {}}", "[{\"op\": \"move\", \"from\": \"/a\", \"path\": \"/a/b\"}]", "!cannot be moved into itself"},
        {"{\"a\": 1}", "[{\"op\": \"remove\", \"path\": \"\"}]", "!the document itself cannot go"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/b\"}]", "!\"value\" is missing"},
        {"{\"a\": 1}", "[{\"op\": \"set\", \"path\": \"/b\"}]", "!\"set\" is not accepted"},
        {"{\"a\": 1}", "{}", "!a list of operations is expected"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        patch(cases[i][0], cases[i][1], cases[i][2], pl_json_patch);
}

static void merges_are_those_of_rfc_7396_and_of_kubernetes(void **state)
{
    static const char *const plain[][3] = {
        {"{\"a\": \"b\", \"c\": {\"d\": \"e\", \"f\": \"g\"}}", "{\"a\": \"z\", \"c\": {\"f\": null}}",
         "{\"a\": \"z\", \"c\": {\"d\": \"e\"}}"},
        {"{\"a\": [{\"name\": \"x\"}]}", "{\"a\": [1]}", "{\"a\": [1]}"},
        {"{\"a\": 1}", "{\"b\": {\"c\": null, \"d\": 1}}", "{\"a\": 1, \"b\": {\"d\": 1}}"},
        {"{\"containers\": [{\"name\": \"a\"}]}", "{\"containers\": [{\"name\": \"b\"}]}",
         "{\"containers\": [{\"name\": \"b\"}]}"},
    };
    static const char *const by_name[][3] = {
        {"{\"containers\": [{\"name\": \"a\", \"x\": 1}, {\"name\": \"b\"}]}", "{\"containers\": [{\"name\": \"a\", \"y\": 2}]}",
         "{\"containers\": [{\"name\": \"a\", \"x\": 1, \"y\": 2}, {\"name\": \"b\"}]}"},
        {"{\"volumes\": [{\"name\": \"a\"}]}", "{\"volumes\": [{\"name\": \"c\", \"emptyDir\": {}}]}",
         "{\"volumes\": [{\"name\": \"a\"}, {\"name\": \"c\", \"emptyDir\": {}}]}"},
        {"{\"volumes\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}", "{\"volumes\": [{\"name\": \"a\", \"$patch\": \"delete\"}]}",
         "{\"volumes\": [{\"name\": \"b\"}]}"},
        {"{\"env\": [{\"name\": \"a\", \"value\": \"1\"}]}",
         "{\"env\": [{\"name\": \"a\", \"$patch\": \"replace\", \"valueFrom\": {}}]}",
         "{\"env\": [{\"name\": \"a\", \"valueFrom\": {}}]}"},
        {"{\"tolerations\": [{\"key\": \"a\"}]}", "{\"tolerations\": [{\"key\": \"b\"}]}",
         "{\"tolerations\": [{\"key\": \"b\"}]}"},
        {"{}", "{\"containers\": [{\"name\": \"a\", \"env\": [{\"name\": \"b\"}]}]}",
         "{\"containers\": [{\"name\": \"a\", \"env\": [{\"name\": \"b\"}]}]}"},
        {"{\"affinity\": {\"a\": 1}}", "{\"affinity\": {\"$patch\": \"replace\", \"b\": 1}}", "{\"affinity\": {\"b\": 1}}"},
        {"{\"affinity\": {\"a\": 1}}", "{\"affinity\": {\"$patch\": \"delete\"}}", "{}"},
        {"{\"volumes\": []}", "{\"volumes\": [{\"emptyDir\": {}}]}", "!an element without \"name\" is not accepted"},
        {"{\"volumes\": []}", "{\"volumes\": [{\"name\": \"a\", \"$patch\": \"merge\"}]}",
         "!\"$patch\" is not accepted: \"delete\" or \"replace\""},
        {"{}", "{\"a\": {\"$retainKeys\": []}}", "!\"$retainKeys\" is not accepted"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(plain); i++)
        patch(plain[i][0], plain[i][1], plain[i][2], pl_json_merge);
    for (size_t i = 0; i < PL_ARRAY_SIZE(by_name); i++)
        patch(by_name[i][0], by_name[i][1], by_name[i][2], pl_pod_merge);
}

/* Each copy doubles the document. */
static void a_patch_cannot_grow_a_pod_beyond_its_bound(void **state)
{
    json_t *doc = json_pack("{s:s}", "a", "0123456789"), *operations = json_array();
    struct pl_err err = {0};

    (void)state;
    for (int i = 0; i < 64; i++)
        assert_int_equal(json_array_append_new(operations, json_pack("{s:s, s:s, s:s+}", "op", "copy", "from", "", "path", "/c",
                                                                     i % 2 ? "x" : "y")),
                         0);
    assert_int_equal(pl_json_patch(&doc, operations, &err), PL_ETOOBIG);
    assert_non_null(strstr(err.msg, "at most 262144"));
    json_decref(doc);
    json_decref(operations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_forbidden_field_is_refused_by_its_name),
        cmocka_unit_test(the_cache_of_the_node_is_the_agents_alone),
        cmocka_unit_test(what_is_allowed_goes_through),
        cmocka_unit_test(secrets_of_the_stage_are_the_projects_too),
        cmocka_unit_test(json_patches_are_those_of_rfc_6902),
        cmocka_unit_test(merges_are_those_of_rfc_7396_and_of_kubernetes),
        cmocka_unit_test(a_patch_cannot_grow_a_pod_beyond_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
