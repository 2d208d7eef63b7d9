// link: pipelined/kube/pod
/* pod_check: what a spec may not ask for is found on the rendered pod, by its name;  pod_patch: the three ways to patch. */
#include "tests/unit/kube/pod/pod_fixture.h"

#include "pipelined/kube/pod/pod_patch.h"

/* A stage's patch, what stands beside it in the stage, and whose cluster it is. */
struct ask {
    const char *key, *patch;                                  /* "pod_patch" or "pod_spec", of `placement`; NULL: neither */
    const char *beside, *template, *node_cache, *annotations; /* annotations: a prefix that the operator allows */
    enum pl_pod_level level;
    bool trusted;
};

static int render_ask(const struct ask *a, struct pl_pod *ret, struct pl_err *err)
{
    static const char *const claims[] = {"imagenet", "default/mine", "other/theirs"};
    char fields[8192] = "";
    struct pl_pod_cluster cluster = {.level = a->level};
    struct pl_pod_settings settings = plain_settings();
    json_t *template = a->template != NULL ? json_loads(a->template, 0, NULL) : NULL;
    struct pl_pod_worker worker;
    struct pl_spec *spec;
    int r;

    if (a->key != NULL)
        (void)snprintf(fields, sizeof(fields), "\"placement\": {\"%s\": %s}", a->key, a->patch);
    if (a->beside != NULL)
        (void)snprintf(fields + strlen(fields), sizeof(fields) - strlen(fields), "%s%s", fields[0] != '\0' ? ", " : "",
                       a->beside);
    assert_true(a->template == NULL || template != NULL);
    spec = pod_spec_of(fields);
    worker = worker_of(spec);
    worker.trusted = a->trusted;
    settings.pull_secrets = pull_secrets;
    settings.n_pull_secrets = 1;
    settings.ca = "pipelined-ca";
    settings.annotations = &a->annotations;
    settings.n_annotations = a->annotations != NULL;
    settings.claims = claims;
    settings.n_claims = PL_ARRAY_SIZE(claims);
    settings.node_cache = a->node_cache;
    settings.pod_template = template;
    r = pl_pod_render(&cluster, &settings, &worker, ret, err);
    json_decref(template);
    pl_spec_destroy(spec);
    return r;
}

/* The PL_ code. */
static int ask(const struct ask *a, struct pl_err *err)
{
    struct pl_pod pod = {0};
    int r = render_ask(a, &pod, err);

    if (r == 0)
        pl_pod_finish(&pod);
    return r;
}

/* Refused, with these words before the value and who may. */
static void is_refused(const struct ask *a, const char *field, const char *what)
{
    struct pl_err err = {0};
    char words[400];

    if (ask(a, &err) != PL_EFORBIDDEN)
        fail_msg("%s %s\nsays: %s", a->patch, a->beside, err.msg[0] != '\0' ? err.msg : "accepted");
    if (strcmp(err.field, field) != 0)
        fail_msg("%s\nnames %s: %s", a->patch, err.field, err.msg);
    (void)snprintf(words, sizeof(words), "stage Train_net: %s %s", field, what);
    if (strncmp(err.msg, words, strlen(words)) != 0 ||
        strstr(err.msg, ": leave it out; only projects in kubernetes.trusted_projects may have it") == NULL)
        fail_msg("%s\nsays: %s\nnot:  %s", a->patch, err.msg, words);
}

static void is_taken(const struct ask *a)
{
    struct pl_err err = {0};

    if (ask(a, &err) < 0)
        fail_msg("%s %s\nsays: %s", a->patch, a->beside != NULL ? a->beside : "", err.msg);
}

#define MAIN(text)     "{\"containers\": [{\"name\": \"main\", " text "}]}"
#define AGENT(text)    "{\"containers\": [{\"name\": \"agent\", " text "}]}"
#define ADDED(text)    "{\"containers\": [{\"name\": \"extra\", \"image\": \"i\", " text "}]}"
#define VOLUME(text)   "{\"volumes\": [{\"name\": \"v\", " text "}]}"

#define BESIDE         "requests devices other than the stage's \"gpu\""
#define GIVES          "gives devices other than the stage's \"gpu\""
#define NOT_THE_STAGES "mounts a volume that is not the stage's"
#define HIDES          "hides a folder of the agent"

static const struct {
    const char *patch, *field;
    const char *what; /* NULL: any words */
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
    {MAIN("\"securityContext\": {\"runAsUser\": 10002.0}"), "containers[0].securityContext.runAsUser"},
    {MAIN("\"securityContext\": {\"runAsGroup\": \"10002\"}"), "containers[0].securityContext.runAsUser"},
    {MAIN("\"command\": [\"sh\"]"), "containers[0].command"},
    {MAIN("\"args\": [\"sh\"]"), "containers[0].args"},
    {MAIN("\"lifecycle\": {}"), "containers[0].lifecycle"},
    {MAIN("\"ports\": [{\"containerPort\": 1, \"hostPort\": 1}]"), "containers[0].ports[0].hostPort"},
    {MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"pipelined-key\", \"key\": \"k\"}}}]"),
     "containers[0].env[1]"},
    {MAIN("\"envFrom\": [{\"secretRef\": {\"name\": \"pipelined-key\"}}]"), "containers[0].envFrom[0]"},
    {MAIN("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[0].env[0]", GIVES},
    {MAIN("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"$patch\": \"delete\"}]"), "containers[0].env",
     "lacks a variable that limits the visible devices"},
    {"[{\"op\": \"add\", \"path\": \"/containers/0/env/-\", \"value\": {\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": "
     "\"all\"}}]",
     "containers[0].env[0]", "is defined twice"},
    {"[{\"op\": \"add\", \"path\": \"/containers/0/env/0\", \"value\": {\"name\": \"A\", \"value\": \"1\"}}, {\"op\": \"add\", "
     "\"path\": \"/containers/0/env/0\", \"value\": {\"name\": \"A\", \"value\": \"2\"}}]",
     "containers[0].env[0]", "is defined twice"},
    {MAIN("\"env\": [{\"name\": \"HABANA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[0].env[1]", GIVES},
    {MAIN("\"env\": [{\"name\": \"SOMEBODY_S_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[0].env[1]", GIVES},
    {ADDED("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[2].env[0]", GIVES},
    {ADDED("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"valueFrom\": {\"configMapKeyRef\": {\"name\": \"c\", \"key\": "
           "\"k\"}}}]"),
     "containers[2].env[0]", GIVES},
    {MAIN("\"resources\": {\"limits\": {\"habana.ai/gaudi\": 1}}"), "containers[0].resources.limits", BESIDE},
    {MAIN("\"resources\": {\"limits\": {\"google.com/tpu\": 4}}"), "containers[0].resources.limits", BESIDE},
    {MAIN("\"resources\": {\"limits\": {\"aws.amazon.com/neuron\": 1}}"), "containers[0].resources.limits", BESIDE},
    {MAIN("\"resources\": {\"limits\": {\"gpu.intel.com/xe\": 1}}"), "containers[0].resources.limits", BESIDE},
    {MAIN("\"resources\": {\"limits\": {\"example.com/board\": 1}}"), "containers[0].resources.limits", BESIDE},
    {MAIN("\"resources\": {\"requests\": {\"habana.ai/gaudi\": 1}}"), "containers[0].resources.requests", BESIDE},
    {ADDED("\"resources\": {\"limits\": {\"habana.ai/gaudi\": 1}}"), "containers[2].resources.limits", BESIDE},
    {"{\"initContainers\": [{\"name\": \"extra\", \"image\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}}]}",
     "initContainers[1].resources.limits", BESIDE},
    {"{\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}}", "resources", "is forbidden"},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/run/nvidia-container-devices/all\"}]"),
     "containers[0].volumeMounts[5]", GIVES},
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
    {"{\"initContainers\": [{\"name\": \"extra\", \"image\": \"i\", \"securityContext\": {\"privileged\": true}}]}",
     "initContainers[1].securityContext.privileged"},
    /* volumes of others */
    {VOLUME("\"persistentVolumeClaim\": {\"claimName\": \"train-0a1b2c3d4e-0-1-pl\"}"), "volumes[2].persistentVolumeClaim",
     "is a claim that kubernetes.claims does not name for the project ({\"claimName\":\"train-0a1b2c3d4e-0-1-pl\"})"},
    {VOLUME("\"persistentVolumeClaim\": {\"claimName\": \"theirs\"}"), "volumes[2].persistentVolumeClaim",
     "is a claim that kubernetes.claims does not name for the project"},
    {VOLUME("\"persistentVolumeClaim\": {\"claimName\": \"other/theirs\"}"), "volumes[2].persistentVolumeClaim",
     "is a claim that kubernetes.claims does not name for the project"},
    {VOLUME(
         "\"ephemeral\": {\"volumeClaimTemplate\": {\"spec\": {\"dataSource\": {\"kind\": \"PersistentVolumeClaim\", \"name\": "
         "\"theirs\"}}}}"),
     "volumes[2].ephemeral.volumeClaimTemplate.spec.dataSource", "is forbidden ({\"kind\":"},
    {VOLUME("\"ephemeral\": {\"volumeClaimTemplate\": {\"spec\": {\"dataSourceRef\": {\"kind\": \"VolumeSnapshot\"}}}}"),
     "volumes[2].ephemeral.volumeClaimTemplate.spec.dataSourceRef", "is forbidden"},
    {VOLUME("\"ephemeral\": {\"volumeClaimTemplate\": {\"spec\": {\"volumeName\": \"pv-7\"}}}"),
     "volumes[2].ephemeral.volumeClaimTemplate.spec.volumeName", "is forbidden (\"pv-7\")"},
    {VOLUME("\"ephemeral\": {\"volumeClaimTemplate\": {\"spec\": {\"selector\": {}}}}"),
     "volumes[2].ephemeral.volumeClaimTemplate.spec.selector", "is forbidden"},
    {VOLUME("\"ephemeral\": {\"volumeClaimTemplate\": {\"metadata\": {\"annotations\": {\"nfs.io/storage-path\": \"/\"}}}}"),
     "volumes[2].ephemeral.volumeClaimTemplate.metadata.annotations", "is forbidden"},
    {VOLUME("\"iscsi\": {}"), "volumes[2].iscsi", "is forbidden"},
    {VOLUME("\"projected\": {\"sources\": [{\"clusterTrustBundle\": {\"path\": \"t\"}}]}"), "volumes[2].projected",
     "projects something other than a configMap, secret or downwardAPI"},
    /* kubelets that call, and run, for a spec */
    {MAIN("\"livenessProbe\": {\"httpGet\": {\"host\": \"169.254.169.254\", \"port\": 80}}"),
     "containers[0].livenessProbe.httpGet.host", "would be called from the node's network (\"169.254.169.254\")"},
    {MAIN("\"startupProbe\": {\"tcpSocket\": {\"host\": \"10.0.0.1\", \"port\": 22}}"),
     "containers[0].startupProbe.tcpSocket.host", "would be called from the node's network"},
    {MAIN("\"readinessProbe\": {\"exec\": {\"command\": [\"sh\"]}}"), "containers[0].readinessProbe.exec",
     "would run outside of the runner"},
    {MAIN("\"lifecycle\": {\"postStart\": {\"exec\": {\"command\": [\"sh\"]}}}"), "containers[0].lifecycle", "is forbidden"},
    {ADDED("\"livenessProbe\": {\"httpGet\": {\"host\": \"10.0.0.1\", \"port\": 80}}"),
     "containers[2].livenessProbe.httpGet.host", "would be called from the node's network"},
    {ADDED("\"lifecycle\": {\"preStop\": {\"httpGet\": {\"host\": \"10.0.0.1\", \"port\": 80}}}"),
     "containers[2].lifecycle.preStop.httpGet.host", "would be called from the node's network"},
    {ADDED("\"lifecycle\": {\"postStart\": {\"tcpSocket\": {\"host\": \"10.0.0.1\", \"port\": 80}}}"),
     "containers[2].lifecycle.postStart.tcpSocket.host", "would be called from the node's network"},
    /* whom the agent takes for the daemon, and what it keeps */
    {"{\"hostAliases\": [{\"ip\": \"10.0.0.9\", \"hostnames\": [\"pipelined.ml.svc\"]}]}", "hostAliases", "is forbidden"},
    {"{\"dnsPolicy\": \"None\"}", "dnsPolicy", "is forbidden (\"None\")"},
    {"{\"dnsConfig\": {\"nameservers\": [\"10.0.0.9\"]}}", "dnsConfig", "is forbidden"},
    {"{\"hostname\": \"pipelined\"}", "hostname", "is the daemon's host name (\"pipelined\")"},
    {"{\"hostnameOverride\": \"pipelined.ml.svc\"}", "hostnameOverride", "is forbidden"},
    {MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"fileKeyRef\": {\"volumeName\": \"pl\", \"path\": \"x\", \"key\": "
          "\"k\"}}}]"),
     "containers[0].env[1]", "reads a volume that is not the stage's"},
    {MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"vaultRef\": {}}}]"), "containers[0].env[1]",
     "reads something other than a configMap, secret, file or field of the pod"},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/pl/bin/pl-runner\", \"subPath\": \"mine\"}]"),
     "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/pl\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/pl/bin/\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"x/..//./pl/sock\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/pfs/digits\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/tmp/\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/\"}]"), "containers[0].volumeMounts[5]", HIDES},
    {ADDED("\"volumeDevices\": [{\"name\": \"pl\", \"devicePath\": \"/dev/x\"}]"), "containers[2].volumeDevices[0]",
     "is a volume that is not the stage's"},
    /* privileges, by what was there and by what is new */
    {ADDED("\"securityContext\": {\"allowPrivilegeEscalation\": true}"), "containers[2].securityContext.allowPrivilegeEscalation",
     "is forbidden"},
    {ADDED("\"securityContext\": {\"futureField\": 1}"), "containers[2].securityContext.futureField", "is forbidden (1)"},
    {ADDED("\"env\": 7"), "containers[2].env", "is not a list (7)"},
    {ADDED("\"restartPolicyRules\": []"), "containers[2].restartPolicyRules", "is forbidden"},
    {"{\"hostNetwork\": null, \"HostNetwork\": true}", "HostNetwork", "is forbidden (true)"},
    {"{\"resourceClaims\": [{\"name\": \"g\", \"resourceClaimName\": \"theirs\"}]}", "resourceClaims", BESIDE},
    {"{\"initContainers\": [{\"name\": \"agent\", \"image\": \"mine\"}]}", "initContainers[1]",
     "has the name of another container"},
    {"{\"metadata\": {\"finalizers\": [\"f\"], \"ownerReferences\": []}}", "metadata",
     "is forbidden"}, /* patches are the spec's */
    {"{\"setHostnameAsFQDN\": true}", "setHostnameAsFQDN", "is forbidden"},
    {"{\"overhead\": {\"cpu\": \"0\"}}", "overhead", "is forbidden"},
    {"{\"containers\": {}}", "containers", "removes or moves an existing container"},
    {"{\"initContainers\": {}}", "initContainers", "removes or moves an existing container"},
    {"{\"volumes\": {}}", "volumes", "changes a volume that is not the stage's"},
    {MAIN("\"volumeMounts\": [{\"name\": \"pl\", \"mountPath\": \"/x\", \"subPathExpr\": \"$(HOME)\"}]"),
     "containers[0].volumeMounts[5]", NOT_THE_STAGES},
    {MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/d\", \"mountPropagation\": \"HostToContainer\"}]"),
     "containers[0].volumeMounts[5]", "requests mountPropagation"},
    {MAIN("\"volumeMounts\": [{\"mountPath\": \"/x\"}]"), "containers[0].volumeMounts[5]", NOT_THE_STAGES},
    {MAIN("\"restartPolicy\": \"Always\""), "containers[0].restartPolicy", "is forbidden"},
    {MAIN("\"stdin\": true"), "containers[0].stdin", "is forbidden"},
    {ADDED("\"securityContext\": {\"seccompProfile\": {\"type\": \"Unconfined\"}}"),
     "containers[2].securityContext.seccompProfile", "is forbidden"},
    {ADDED("\"ports\": [{\"containerPort\": 1, \"hostPort\": 1}]"), "containers[2].ports[0].hostPort", "is forbidden"},
};

static void each_forbidden_field_is_refused_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(forbidden); i++) {
        is_refused(&(struct ask){"pod_patch", forbidden[i].patch}, forbidden[i].field,
                   forbidden[i].what != NULL ? forbidden[i].what : "");
        is_taken(&(struct ask){"pod_patch", forbidden[i].patch, .trusted = true});
    }
}

static void the_cache_of_the_node_is_the_agents_alone(void **state)
{
    static const char *const patches[][2] = {
        {MAIN("\"volumeMounts\": [{\"name\": \"cache\", \"mountPath\": \"/c\"}]"), "containers[0].volumeMounts[5]"},
        {"{\"initContainers\": [{\"name\": \"node-cache\", \"command\": [\"sh\"]}]}", "initContainers[1]"},
        {"{\"initContainers\": [{\"name\": \"node-cache\", \"image\": \"mine\"}]}", "initContainers[1]"},
        {"{\"initContainers\": [{\"name\": \"node-cache\", \"$patch\": \"delete\"}]}", "initContainers"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(patches); i++)
        is_refused(&(struct ask){"pod_patch", patches[i][0], .node_cache = "/var/cache/pipelined"}, patches[i][1], "");
}

static void what_is_allowed_goes_through(void **state)
{
    static const char *const cases[] = {
        "{\"hostNetwork\": false, \"shareProcessNamespace\": null}",
        "{\"priorityClassName\": \"high\", \"schedulerName\": \"other\", \"hostname\": \"h\", \"subdomain\": \"s\"}",
        "{\"affinity\": null, \"nodeSelector\": {\"a\": \"b\"}, \"activeDeadlineSeconds\": 60, \"runtimeClassName\": \"gvisor\"}",
        "{\"tolerations\": [{\"operator\": \"Exists\"}], \"topologySpreadConstraints\": [], \"schedulingGates\": [{\"name\": "
        "\"g\"}], "
        "\"terminationGracePeriodSeconds\": 5}",
        "{\"securityContext\": {\"runAsUser\": 7, \"runAsGroup\": 7, \"runAsNonRoot\": true, \"appArmorProfile\": {\"type\": "
        "\"RuntimeDefault\"}}}",
        VOLUME("\"persistentVolumeClaim\": {\"claimName\": \"imagenet\"}"),
        VOLUME("\"persistentVolumeClaim\": {\"claimName\": \"mine\", \"readOnly\": true}"),
        VOLUME("\"emptyDir\": {\"medium\": \"Memory\"}"),
        VOLUME(
            "\"ephemeral\": {\"volumeClaimTemplate\": {\"metadata\": {\"labels\": {\"a\": \"b\"}}, \"spec\": {\"accessModes\": "
            "[\"ReadWriteOnce\"], \"storageClassName\": \"fast\", \"resources\": {\"requests\": {\"storage\": \"1Gi\"}}}}}"),
        VOLUME("\"secret\": {\"secretName\": \"tls\"}"),
        VOLUME("\"projected\": {\"sources\": [{\"secret\": {\"name\": \"tls\"}}, {\"configMap\": {\"name\": \"c\"}}]}"),
        "{\"imagePullSecrets\": [{\"name\": \"registry\"}, {\"name\": \"tls\"}]}",
        MAIN("\"env\": [{\"name\": \"K\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"pg\", \"key\": \"k\"}}}]"),
        MAIN("\"env\": [{\"name\": \"IP\", \"valueFrom\": {\"fieldRef\": {\"fieldPath\": \"status.podIP\"}}}]"),
        MAIN("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"void\"}, {\"name\": \"CUDA_VISIBLE_DEVICES\", "
             "\"value\": "
             "\"\"}]"),
        MAIN("\"envFrom\": [{\"secretRef\": {\"name\": \"pg\"}}, {\"configMapRef\": {\"name\": \"c\"}, \"prefix\": \"C_\"}]"),
        MAIN("\"image\": \"other\", \"workingDir\": \"/w\", \"imagePullPolicy\": \"Always\", \"resources\": {\"limits\": "
             "{\"cpu\": 2, "
             "\"hugepages-2Mi\": \"4Mi\"}}"),
        MAIN("\"securityContext\": {\"runAsUser\": 7, \"readOnlyRootFilesystem\": true, \"privileged\": false, \"capabilities\": "
             "{\"drop\": [\"NET_RAW\"]}}"),
        MAIN("\"securityContext\": {\"seccompProfile\": {\"type\": \"RuntimeDefault\"}}"),
        MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/d\", \"mountPropagation\": \"None\"}, {\"name\": \"d\", "
             "\"mountPath\": \"/tmp/d\"}, {\"name\": \"d\", \"mountPath\": \"/plain\"}]"),
        MAIN("\"livenessProbe\": {\"httpGet\": {\"port\": 80}}, \"ports\": [{\"containerPort\": 80}]"),
        ADDED("\"env\": []"),
        ADDED("\"command\": [\"sh\"], \"livenessProbe\": {\"exec\": {\"command\": [\"true\"]}}, \"lifecycle\": {\"preStop\": "
              "{\"exec\": "
              "{\"command\": [\"true\"]}, \"httpGet\": {\"port\": 80}}}, \"tty\": true"),
        ADDED("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/pfs\"}]"),
        "{\"containers\": [{\"name\": \"extra\", \"image\": \"i\"}]}",
        "{\"initContainers\": [{\"name\": \"side\", \"image\": \"i\", \"restartPolicy\": \"Always\"}]}",
        MAIN("\"volumeMounts\": [{\"name\": \"d\", \"mountPath\": \"/d\", \"subPathExpr\": \"$(HOME)\"}, {\"name\": \"d\", "
             "\"mountPath\": "
             "\"/code\", \"readOnly\": true}], \"lifecycle\": null, \"resources\": null"),
        "{\"imagePullSecrets\": null, \"readinessGates\": [], \"preemptionPolicy\": \"Never\", \"enableServiceLinks\": true}",
    };
    static const char *const beside[] = {
        "\"gpu\": {\"share\": {\"mode\": \"mig\", \"profile\": \"1g.10gb\"}}",
        "\"gpu\": {\"share\": {\"mode\": \"mps\", \"memory\": \"8Gi\", \"threads\": 25}}",
        "\"gpu\": {\"share\": {\"mode\": \"gpu-mem\", \"amount\": 5, \"unit\": \"GiB\"}}",
        "\"gpu\": {\"share\": {\"mode\": \"custom\", \"preset\": \"hami\", \"values\": {\"memory\": 3000}}}",
        "\"gpu\": {\"memory\": \"40G\", \"required\": false}, \"scratch\": {\"size\": \"1Gi\"}, \"network\": false",
        "\"secrets\": [{\"name\": \"pg\", \"key\": \"k\", \"env\": \"PG\"}, {\"name\": \"tls\", \"mount\": \"/s\"}], \"user\": 7",
        "\"checkpoint\": true, \"resources\": {\"cpu\": 2, \"memory\": \"4Gi\", \"disk\": \"1Gi\", \"shm\": \"1Gi\"}",
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++)
        is_taken(&(struct ask){"pod_patch", cases[i]});
    for (size_t i = 0; i < PL_ARRAY_SIZE(beside); i++)
        is_taken(&(struct ask){"pod_patch", ADDED("\"tty\": true"), beside[i]});
}

/* What device plugins give main is in its environment before what the pod says. */
static void a_stage_with_gpus_gets_those_that_it_asked_for_and_no_others(void **state)
{
    static const char *const refused[][3] = {
        {MAIN("\"resources\": {\"limits\": {\"nvidia.com/gpu\": 8}}"), "containers[0].resources.limits", BESIDE},
        {MAIN("\"resources\": {\"limits\": {\"nvidia.com/gpu\": null}}"), "containers[0].resources.limits", BESIDE},
        {MAIN("\"resources\": null"), "containers[0].resources.limits", BESIDE},
        {MAIN("\"resources\": {\"claims\": [{\"name\": \"g\"}]}"), "containers[0].resources.claims", BESIDE},
        {ADDED("\"resources\": {\"limits\": {\"nvidia.com/gpu\": 1}}"), "containers[2].resources.limits", BESIDE},
        {"{\"resourceClaims\": [{\"name\": \"g\", \"resourceClaimName\": \"theirs\"}]}", "resourceClaims", BESIDE},
        {MAIN("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[0].env[0]", GIVES},
        {MAIN("\"envFrom\": [{\"configMapRef\": {\"name\": \"c\"}}]"), "containers[0].envFrom[0]",
         "may bring variables that give devices (name those that are needed in \"env\")"},
        {ADDED("\"env\": [{\"name\": \"NVIDIA_VISIBLE_DEVICES\", \"value\": \"all\"}]"), "containers[2].env[0]", GIVES},
    };
    static const char *const taken[] = {
        MAIN("\"env\": [{\"name\": \"CUDA_VISIBLE_DEVICES\", \"value\": \"0\"}]"),
        ADDED("\"envFrom\": [{\"configMapRef\": {\"name\": \"c\"}}]"),
        "{\"volumes\": [{\"name\": \"shm\", \"emptyDir\": {\"medium\": \"Memory\", \"sizeLimit\": "
        "\"2Gi\"}}]}",
        MAIN("\"resources\": {\"limits\": {\"cpu\": 4}}")};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++)
        is_refused(&(struct ask){"pod_patch", refused[i][0], "\"gpu\": 1"}, refused[i][1], refused[i][2]);
    for (size_t i = 0; i < PL_ARRAY_SIZE(taken); i++)
        is_taken(&(struct ask){"pod_patch", taken[i], "\"gpu\": 1"});
}

#define SIDECAR                                                                                                                  \
    "{\"name\": \"vpn\", \"image\": \"ops\", \"securityContext\": {\"privileged\": true}, \"resources\": {\"limits\": "          \
    "{\"nvidia.com/gpu\": 1}}, \"volumeMounts\": [{\"name\": \"driver\", \"mountPath\": \"/d\", \"mountPropagation\": "          \
    "\"HostToContainer\"}]}"
/* Folders of nodes, devices, profiles and names as an operator has them. */
#define OPERATORS                                                                                                                \
    "{\"metadata\": {\"annotations\": {\"cdi.k8s.io/all\": \"vendor.com/d=0\"}}, \"spec\": {\"priorityClassName\": "             \
    "\"system-cluster-critical\", \"runtimeClassName\": \"gvisor\", \"dnsPolicy\": \"None\", \"dnsConfig\": {\"nameservers\": "  \
    "[\"10.0.0.1\"]}, \"hostAliases\": [{\"ip\": \"10.0.0.2\", \"hostnames\": [\"a\"]}], \"securityContext\": "                  \
    "{\"appArmorProfile\": {\"type\": \"Localhost\", \"localhostProfile\": \"p\"}, \"supplementalGroups\": [44]}, \"volumes\": " \
    "[{\"name\": \"driver\", \"hostPath\": {\"path\": \"/opt/driver\"}}, {\"name\": \"data\", \"persistentVolumeClaim\": "       \
    "{\"claimName\": \"any\"}}, {\"name\": \"key\", \"secret\": {\"secretName\": \"ops-key\"}}], \"containers\": [{\"name\": "   \
    "\"main\", \"env\": [{\"name\": \"KEY\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"ops-key\", \"key\": \"k\"}}}], "     \
    "\"resources\": {\"limits\": {\"rdma/hca\": 1}}, \"securityContext\": {\"readOnlyRootFilesystem\": true, \"capabilities\": " \
    "{\"add\": [\"IPC_LOCK\"], \"drop\": [\"ALL\"]}}, \"livenessProbe\": {\"exec\": {\"command\": [\"true\"]}}, "                \
    "\"volumeMounts\": [{\"name\": \"driver\", \"mountPath\": \"/usr/local/nvidia\", \"readOnly\": true, \"mountPropagation\": " \
    "\"HostToContainer\"}]}, " SIDECAR "]}}"

static void what_the_operators_template_brings_is_no_specs_to_answer_for(void **state)
{
    static const char *const patches[] = {
        "{\"activeDeadlineSeconds\": 60, \"securityContext\": {\"runAsUser\": 7}}",
        MAIN("\"env\": [{\"name\": \"A\", \"value\": \"b\"}], \"resources\": {\"limits\": {\"cpu\": 1}}"),
        MAIN("\"securityContext\": {\"runAsUser\": 7}"),
        ADDED("\"tty\": true"),
    };

    (void)state;
    is_taken(&(struct ask){.template = OPERATORS});
    is_taken(&(struct ask){.template = OPERATORS, .beside = "\"gpu\": 1"});
    for (size_t i = 0; i < PL_ARRAY_SIZE(patches); i++)
        is_taken(&(struct ask){"pod_patch", patches[i], .template = OPERATORS});
}

static void what_the_operators_template_brings_is_no_specs_to_use(void **state)
{
    static const char *const refused[][3] = {
        {"{\"containers\": [{\"name\": \"vpn\", \"image\": \"mine\"}]}", "containers[2]",
         "changes a container that is not the stage's"},
        {"{\"containers\": [{\"name\": \"vpn\", \"command\": [\"sh\"]}]}", "containers[2]",
         "changes a container that is not the stage's"},
        {"{\"containers\": [{\"name\": \"vpn\", \"$patch\": \"delete\"}]}", "containers",
         "removes or moves an existing container"},
        {MAIN("\"volumeMounts\": [{\"name\": \"driver\", \"mountPath\": \"/w\"}]"), "containers[0].volumeMounts[6]",
         NOT_THE_STAGES},
        {MAIN("\"volumeMounts\": [{\"name\": \"driver\", \"mountPath\": \"/usr/local/nvidia\", \"readOnly\": false}]"),
         "containers[0].volumeMounts[5]", NOT_THE_STAGES},
        {MAIN("\"volumeMounts\": [{\"name\": \"key\", \"mountPath\": \"/k\"}]"), "containers[0].volumeMounts[6]", NOT_THE_STAGES},
        {MAIN("\"volumeMounts\": [{\"name\": \"data\", \"mountPath\": \"/k\"}]"), "containers[0].volumeMounts[6]",
         NOT_THE_STAGES},
        {"{\"volumes\": [{\"name\": \"key\", \"secret\": null, \"configMap\": {\"name\": \"mine\"}}]}", "volumes",
         "changes a volume that is not the stage's"},
        {"{\"volumes\": [{\"name\": \"driver\", \"hostPath\": {\"path\": \"/\"}}]}", "volumes",
         "changes a volume that is not the stage's"},
        {MAIN("\"env\": [{\"name\": \"MINE\", \"valueFrom\": {\"secretKeyRef\": {\"name\": \"ops-key\", \"key\": \"k\"}}}]"),
         "containers[0].env[2]", "reads a secret that is not labelled for the project"},
        {MAIN("\"securityContext\": {\"readOnlyRootFilesystem\": false}"), "containers[0].securityContext.readOnlyRootFilesystem",
         "is forbidden (false)"},
        {MAIN("\"securityContext\": {\"capabilities\": {\"drop\": []}}"), "containers[0].securityContext.capabilities.drop",
         "is forbidden ([])"},
        {MAIN("\"securityContext\": {\"capabilities\": {\"add\": [\"SYS_ADMIN\", \"IPC_LOCK\"]}}"),
         "containers[0].securityContext.capabilities.add", "is forbidden"},
        {MAIN("\"securityContext\": {\"appArmorProfile\": {\"type\": \"RuntimeDefault\"}}"),
         "containers[0].securityContext.appArmorProfile", "is forbidden"},
        {MAIN("\"resources\": {\"limits\": {\"rdma/hca\": 2}}"), "containers[0].resources.limits", BESIDE},
        {"{\"runtimeClassName\": \"runc\"}", "runtimeClassName", "is changed (\"runc\")"},
        {"{\"dnsPolicy\": null}", "dnsPolicy", "is changed"},
        {"{\"priorityClassName\": \"system-node-critical\"}", "priorityClassName", "is a system priority class"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++)
        is_refused(&(struct ask){"pod_patch", refused[i][0], .template = OPERATORS}, refused[i][1], refused[i][2]);
}

#define NOT_LISTED "is not an annotation that specs may set or that kubernetes.annotations allows"
/* Of what the stage itself brings a part stands in the pod before its patches do. */
static void a_stages_placement_and_gpu_ask_for_no_more_than_its_patches(void **state)
{
    static const char *const refused[][3] = {
        {"\"placement\": {\"priority_class\": \"system-node-critical\"}", "priorityClassName", "is a system priority class"},
        {"\"placement\": {\"annotations\": {\"cdi.k8s.io/x\": \"nvidia.com/gpu=all\"}}", "metadata.annotations.cdi.k8s.io/x",
         NOT_LISTED},
        {"\"placement\": {\"annotations\": {\"io.kubernetes.cri-o.Devices\": \"/dev/nvidia0\"}}",
         "metadata.annotations.io.kubernetes.cri-o.Devices", NOT_LISTED},
        {"\"placement\": {\"annotations\": {\"sidecar.istio.io/userVolume\": \"[]\"}}",
         "metadata.annotations.sidecar.istio.io/userVolume", NOT_LISTED},
        {"\"placement\": {\"annotations\": {\"gpu-fraction\": \"0.5\"}}", "metadata.annotations.gpu-fraction", BESIDE},
        {"\"placement\": {\"labels\": {\"app.kubernetes.io/name\": \"pipelined\"}}", "metadata.labels.app.kubernetes.io/name",
         "is reserved for other programs"},
        {"\"placement\": {\"annotations\": {\"k8s.v1.cni.cncf.io/networks\": \"kube-system/host\"}}",
         "metadata.annotations.k8s.v1.cni.cncf.io/networks", NOT_LISTED},
        {"\"placement\": {\"annotations\": {\"cni.projectcalico.org/ipAddrs\": \"[]\"}}",
         "metadata.annotations.cni.projectcalico.org/ipAddrs", NOT_LISTED},
        {"\"placement\": {\"annotations\": {\"iam.amazonaws.com/role\": \"admin\"}}",
         "metadata.annotations.iam.amazonaws.com/role", NOT_LISTED},
        {"\"placement\": {\"labels\": {\"aadpodidbinding\": \"admin\"}}", "metadata.labels.aadpodidbinding",
         "is reserved for other programs"},
        {"\"placement\": {\"labels\": {\"azure.workload.identity/use\": \"true\"}}",
         "metadata.labels.azure.workload.identity/use", "is reserved for other programs"},
        {"\"placement\": {\"labels\": {\"app\": \"dcgm-exporter\"}}", "metadata.labels.app", "is reserved for other programs"},
        {"\"gpu\": {\"share\": {\"mode\": \"custom\", \"limits\": {\"own.io/gpu\": 1}, \"labels\": {\"app\": "
         "\"nvidia-dcgm-exporter\"}}}",
         "metadata.labels.app", "is reserved for other programs"},
        {"\"secrets\": [{\"name\": \"pg\", \"key\": \"k\", \"env\": \"NVIDIA_VISIBLE_DEVICES\"}]", "secrets[0].env",
         "is a variable that gives devices to the container"},
        {"\"gpu\": 1, \"secrets\": [{\"name\": \"pg\", \"key\": \"k\", \"env\": \"NVIDIA_VISIBLE_DEVICES\"}]", "secrets[0].env",
         "is a variable that gives devices to the container"},
    };

    /* CRI-O hands annotations of pods on to runc, crun and its hooks, meshes make containers by them */
    static const char *const powers[] = {"org.systemd.property.SuccessAction",
                                         "org.criu.config",
                                         "run.oci.seccomp_bpf_data",
                                         "io.containers.trace-syscall",
                                         "seccomp-profile.kubernetes.cri-o.io",
                                         "nvidia.cdi.k8s.io/all",
                                         "proxy.istio.io/overrides",
                                         "sidecar.istio.io/bootstrapOverride",
                                         "config.linkerd.io/debug-image",
                                         "devices.nri.io/container.main",
                                         "dapr.io/sidecar-image",
                                         "vault.hashicorp.com/agent-inject",
                                         "consul.hashicorp.com/connect-inject",
                                         "kuma.io/sidecar-env-vars",
                                         "ad.datadoghq.com/main.checks",
                                         "a-webhook-of-tomorrow.example/root"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(refused); i++)
        is_refused(&(struct ask){.patch = "", .beside = refused[i][0]}, refused[i][1], refused[i][2]);
    for (size_t i = 0; i < 2 * PL_ARRAY_SIZE(powers); i++) {
        char beside[256], field[128];

        (void)snprintf(beside, sizeof(beside), "%s\"annotations\": {\"%s\": \"x\"}}%s",
                       i % 2 ? "\"placement\": {"
                             : "\"gpu\": {\"share\": {\"mode\": \"custom\", \"limits\": {\"own.io/gpu\": 1}, ",
                       powers[i / 2], i % 2 ? "" : "}");
        (void)snprintf(field, sizeof(field), "metadata.annotations.%s", powers[i / 2]);
        is_refused(&(struct ask){.patch = "", .beside = beside}, field, NOT_LISTED);
    }
    is_taken(&(struct ask){.beside = "\"placement\": {\"labels\": {\"app\": \"mine\", \"app.kubernetes.io/name\": \"train\"}}"});
    is_taken(&(struct ask){.beside = "\"placement\": {\"annotations\": {\"sidecar.istio.io/proxyCPU\": \"1\", "
                                     "\"karpenter.sh/x\": \"1\", \"note\": \"\"}}"});
    is_taken(&(struct ask){.beside = "\"placement\": {\"annotations\": {\"our.x/team\": \"a\"}}", .annotations = "our.x/"});
    is_taken(&(struct ask){.beside =
                               "\"gpu\": {\"share\": {\"mode\": \"custom\", \"preset\": \"kai\", \"values\": {\"fraction\": "
                               "0.5}}}"});
}

static void what_containers_of_a_spec_do_not_say_is_filled_in(void **state)
{
    static const struct {
        enum pl_pod_level level;
        const char *patch, *beside, *security;
    } cases[] = {
        {PL_LEVEL_PRIVILEGED, "", "\"cache\": true", "{\"allowPrivilegeEscalation\":false}"},
        {PL_LEVEL_PRIVILEGED, "", "\"gpu\": 1", "{\"allowPrivilegeEscalation\":false}"},
        {PL_LEVEL_BASELINE, ", \"securityContext\": {\"runAsUser\": 7}", "\"cache\": true",
         "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]},\"runAsNonRoot\":true,\"runAsUser\":7}"},
        {PL_LEVEL_RESTRICTED, "", "\"cache\": true",
         "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]},\"runAsNonRoot\":true,\"runAsUser\":10001}"},
        {PL_LEVEL_RESTRICTED, ", \"securityContext\": {\"runAsUser\": 7, \"readOnlyRootFilesystem\": true}", "\"cache\": true",
         "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]},\"readOnlyRootFilesystem\":true,"
         "\"runAsNonRoot\":"
         "true,\"runAsUser\":7}"},
    };
    static const char *const lists[] = {"containers", "initContainers"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases) * PL_ARRAY_SIZE(lists); i++) {
        const char *list = lists[i % 2];
        struct pl_pod pod = {0};
        char patch_text[512], *security, *env;
        const json_t *one;

        (void)snprintf(patch_text, sizeof(patch_text), "{\"%s\": [{\"name\": \"extra\", \"image\": \"i\"%s}]}", list,
                       cases[i / 2].patch);
        assert_int_equal(
            render_ask(&(struct ask){"pod_patch", patch_text, cases[i / 2].beside, .level = cases[i / 2].level}, &pod, NULL), 0);
        one = json_object_get(json_object_get(pod.pod, "spec"), list);
        one = json_array_get(one, json_array_size(one) - 1);
        security = json_dumps(json_object_get(one, "securityContext"), JSON_COMPACT | JSON_SORT_KEYS);
        env = json_dumps(json_object_get(one, "env"), JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(security, cases[i / 2].security);
        assert_string_equal(env, "[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"void\"}]");
        free(security);
        free(env);
        pl_pod_finish(&pod);
    }
}

/* A patch that copies may put what it finds anywhere, and refusals show what they found. */
static void no_patch_sees_the_token_of_the_worker(void **state)
{
    static const char *const to[] = {"/containers/0/env/0",
                                     "/containers/0/workingDir",
                                     "/containers/0/env/0/value",
                                     "/nodeSelector",
                                     "/hostname",
                                     "/hostNetwork",
                                     "/priorityClassName",
                                     "/terminationMessagePath",
                                     "/containers/0/image",
                                     "/initContainers/0/x",
                                     "/containers/1/env/0/value2",
                                     "/volumes/0/name",
                                     "/containers/0/command"};
    static const char *const from[] = {"/containers/1/env/0", "/containers/1/env/0/value", "/containers/1/env", "/containers/1"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(to) * PL_ARRAY_SIZE(from); i++) {
        const struct ask copy = {"pod_patch", (char[256]){0}};
        struct pl_pod pod = {0};
        struct pl_err err = {0};

        (void)snprintf((char *)(uintptr_t)copy.patch, 256, "[{\"op\": \"copy\", \"from\": \"%s\", \"path\": \"%s\"}]",
                       from[i % 4], to[i / 4]);
        if (render_ask(&copy, &pod, &err) == 0) {
            json_t *agent = json_array_get(json_object_get(json_object_get(pod.pod, "spec"), "containers"), 1);
            const json_t *token = json_array_get(json_object_get(agent, "env"), 0);
            char *text;

            assert_string_equal(json_string_value(json_object_get(token, "value")), "plw_secret");
            assert_int_equal(json_object_del(agent, "env"), 0);
            text = json_dumps(pod.pod, JSON_COMPACT);
            if (strstr(text, "plw_secret") != NULL)
                fail_msg("%s\ngives the token: %s", copy.patch, text);
            free(text);
            pl_pod_finish(&pod);
        }
        if (strstr(err.msg, "plw_secret") != NULL)
            fail_msg("%s\nsays the token: %s", copy.patch, err.msg);
    }
}

static void secrets_of_the_stage_are_the_projects_too(void **state)
{
    const struct ask theirs = {"pod_spec", "{}", "\"secrets\": [{\"name\": \"theirs\", \"mount\": \"/t\"}]"},
                     nobodys = {"pod_spec", "{}", "\"secrets\": [{\"name\": \"x\", \"key\": \"k\", \"env\": \"X\"}]"};

    (void)state;
    is_taken(&(struct ask){"pod_spec", "{}", "\"secrets\": [{\"name\": \"tls\", \"mount\": \"/t\"}]"});
    is_refused(&theirs, "secrets[0]", "is not labelled for the project");
    is_refused(&nobodys, "secrets[0]", "is not labelled for the project");
    is_refused(&(struct ask){"pod_spec", "{\"hostPID\": true}"}, "hostPID", "is forbidden (true)");
    is_refused(&(struct ask){"pod_spec", "{\"containers\": [{\"name\": \"main\"}]}"}, "containers",
               "removes or moves an existing container");
    /* what the agent masks them by is its own */
    is_refused(&(struct ask){"pod_patch", "{\"volumes\": [{\"name\": \"masked-0\", \"secret\": null, \"emptyDir\": {}}]}",
                             "\"secrets\": [{\"name\": \"tls\", \"mount\": \"/t\"}]"},
               "volumes", "changes a volume that is not the stage's");
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
        {"{\"a\": 1}", "[{\"op\": \"test\", \"path\": \"/a\", \"value\": 2}]", "![0]: test of \"/a\" failed: the value differs"},
        {"{\"a\": 1}", "[{\"op\": \"remove\", \"path\": \"/b\"}]", "![0]: path \"/b\": there is no value"},
        {"{\"a\": 1}", "[{\"op\": \"replace\", \"path\": \"/b\", \"value\": 1}]", "!there is no value"},
        {"{\"a\": [1]}", "[{\"op\": \"add\", \"path\": \"/a/2\", \"value\": 1}]", "!\"2\" is not an index of a list of 1"},
        {"{\"a\": [1]}", "[{\"op\": \"add\", \"path\": \"/a/01\", \"value\": 1}]", "!\"01\" is not an index of a list of 1"},
        {"{\"a\": [1]}", "[{\"op\": \"remove\", \"path\": \"/a/-\"}]", "!there is no value"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/a/b\", \"value\": 1}]", "!\"b\" has no parent object or list"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/x/b\", \"value\": 1}]", "!\"b\" has no parent object or list"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/~2\", \"value\": 1}]", "!is not a JSON pointer"},
        {"{\"a\": {}}", "[{\"op\": \"move\", \"from\": \"/a\", \"path\": \"/a/b\"}]", "!cannot be moved into itself"},
        {"{\"a\": 1}", "[{\"op\": \"remove\", \"path\": \"\"}]", "!the document itself cannot be removed"},
        {"{\"a\": 1}", "[{\"op\": \"add\", \"path\": \"/b\"}]", "!\"value\" is missing"},
        {"{\"a\": 1}", "[{\"op\": \"set\", \"path\": \"/b\"}]", "!operation \"set\" is not supported"},
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
        {"{\"volumes\": []}", "{\"volumes\": [{\"emptyDir\": {}}]}", "!a list element needs \"name\""},
        {"{\"volumes\": []}", "{\"volumes\": [{\"name\": \"a\", \"$patch\": \"merge\"}]}",
         "!\"$patch\" must be \"delete\" or \"replace\""},
        {"{}", "{\"a\": {\"$retainKeys\": []}}", "!directive \"$retainKeys\" is not supported"},
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
        cmocka_unit_test(a_stage_with_gpus_gets_those_that_it_asked_for_and_no_others),
        cmocka_unit_test(what_the_operators_template_brings_is_no_specs_to_answer_for),
        cmocka_unit_test(what_the_operators_template_brings_is_no_specs_to_use),
        cmocka_unit_test(a_stages_placement_and_gpu_ask_for_no_more_than_its_patches),
        cmocka_unit_test(what_containers_of_a_spec_do_not_say_is_filled_in),
        cmocka_unit_test(no_patch_sees_the_token_of_the_worker),
        cmocka_unit_test(secrets_of_the_stage_are_the_projects_too),
        cmocka_unit_test(json_patches_are_those_of_rfc_6902),
        cmocka_unit_test(merges_are_those_of_rfc_7396_and_of_kubernetes),
        cmocka_unit_test(a_patch_cannot_grow_a_pod_beyond_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
