/* pod_render.c: builds the pod's JSON from top to bottom: metadata, containers with their volumes and users,
 * placement. A failed allocation sets b->lack and is reported at the end. */
#include "pipelined/kube/pod/pod_internal.h"

#include "pipelined/text/quantity.h"
#include "storage/base/buf.h"

#include <ctype.h>
#include <stdio.h>

#define SECRETS_FOLDER "/pl-secrets" /* folder of the mounted secrets in the agent's container */
#define WORKER_PROGRAM "/usr/bin/pipelined-worker"
#define AGENT_MEMORY   (512LL << 20)
#define AGENT_CPU      "100m"
#define CA_FOLDER      "/etc/pipelined/ca"
#define TRUST_FOLDER   "/etc/pipelined/trust"

/* ---- building blocks ---- */

void pl_pod_put(struct pod_build *b, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0)
        b->lack = true;
}

void pl_pod_add(struct pod_build *b, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) < 0)
        b->lack = true;
}

void pl_pod_variable(struct pod_build *b, json_t *env, const char *name, const char *value)
{
    pl_pod_add(b, env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

json_t *pl_pod_expression(struct pod_build *b, const char *key, const char *op, json_t *values)
{
    json_t *expression = json_pack("{s:s, s:s}", "key", key, "operator", op);

    if (values != NULL)
        pl_pod_put(b, expression, "values", values);
    return expression;
}

void pl_pod_tolerate(struct pod_build *b, const char *key)
{
    json_t *one;
    size_t i;

    json_array_foreach(b->tolerations, i, one)
    {
        const char *other = json_string_value(json_object_get(one, "key"));

        if (other != NULL && pl_streq(other, key))
            return;
    }
    pl_pod_add(b, b->tolerations, json_pack("{s:s, s:s}", "key", key, "operator", "Exists"));
}

/* Adds a member unless it is empty; takes the reference to `value`. */
static void put_filled(struct pod_build *b, json_t *object, const char *key, json_t *value)
{
    bool empty = json_is_array(value) ? json_array_size(value) == 0 : json_object_size(value) == 0;

    if (empty && value != NULL)
        json_decref(value);
    else
        pl_pod_put(b, object, key, value);
}

static json_t *quantity(int64_t bytes)
{
    char text[32];

    return json_string(pl_quantity_bytes_text(bytes, text));
}

/* ---- names ---- */

void pl_pod_name(const char *store_id, const char *project, const char *stage, uint64_t version, uint32_t index,
                 uint32_t incarnation, char ret[PL_POD_NAME_BYTES])
{
    struct pl_hasher hasher, *h = pl_hasher_init(&hasher);
    char hex[PL_HASH_HEX + 1], rest[48], name[41], number[24];
    struct pl_hash hash;
    size_t n = 0;
    int room;

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)version);
    pl_hasher_add_field(h, store_id, strlen(store_id));
    pl_hasher_add_field(h, project, strlen(project));
    pl_hasher_add_field(h, stage, strlen(stage));
    pl_hasher_add_field(h, number, strlen(number));
    pl_hasher_get(h, &hash);
    (void)snprintf(rest, sizeof(rest), "-%.10s-%u-%u", pl_hash_hex(&hash, hex), index, incarnation);
    for (; stage[n] != '\0' && n < 40; n++)
        name[n] = isalnum((unsigned char)stage[n]) ? (char)tolower((unsigned char)stage[n]) : '-';
    name[n] = '\0';
    room = PL_POD_NAME_BYTES - 1 - (int)strlen(rest);
    (void)snprintf(ret, PL_POD_NAME_BYTES, "%.*s%.40s", room, name, rest);
}

/* Makes a label value from a name: labels must end with a letter or digit. */
static json_t *label_value(const char *name)
{
    size_t n = strlen(name);

    while (n > 0 && !isalnum((unsigned char)name[n - 1]))
        n--;
    return json_stringn(name, n);
}

/* True if the command has network access. */
static bool has_network(const struct pod_build *b)
{
    return b->stage->network && !b->worker->network_off;
}

/* ---- metadata ---- */

static void add_pairs(struct pod_build *b, const struct pl_pairs *pairs, json_t *to)
{
    for (size_t i = 0; i < pairs->n; i++)
        pl_pod_put(b, to, pairs->items[i].key, json_string(pairs->items[i].value));
}

/* Adds the stage's labels and annotations first, so that pipelined's own labels and annotations override
 * them. */
static void make_metadata(struct pod_build *b)
{
    const struct pl_placement *placement = &b->stage->placement;
    const struct pl_pod_settings *s = b->settings;
    json_t *metadata = json_pack("{s:s, s:s}", "name", b->name, "namespace", s->namespace);

    b->labels = json_object();
    b->annotations = json_object();
    add_pairs(b, &placement->labels, b->labels);
    add_pairs(b, &placement->annotations, b->annotations);
    pl_pod_put(b, b->labels, "app.kubernetes.io/managed-by", json_string("pipelined"));
    pl_pod_put(b, b->labels, PL_POD_LABEL "store", label_value(s->store_id));
    pl_pod_put(b, b->labels, PL_POD_LABEL "project", label_value(b->worker->project));
    pl_pod_put(b, b->labels, PL_POD_LABEL "stage", label_value(b->stage->name));
    if (b->worker->pipeline != NULL)
        pl_pod_put(b, b->labels, PL_POD_LABEL "pipeline", label_value(b->worker->pipeline));
    if (b->worker->run != NULL)
        pl_pod_put(b, b->labels, PL_POD_LABEL "run", label_value(b->worker->run));
    pl_pod_put(b, b->annotations, PL_POD_LABEL "worker", json_sprintf("%llu", (unsigned long long)b->worker->id));
    if (!has_network(b))
        pl_pod_put(b, b->labels, PL_POD_LABEL "network", json_string("none"));
    if (placement->queue != NULL)
        pl_pod_put(b, b->labels, "kueue.x-k8s.io/queue-name", json_string(placement->queue));
    if (!s->mesh) {
        pl_pod_put(b, b->labels, "sidecar.istio.io/inject", json_string("false"));
        pl_pod_put(b, b->annotations, "linkerd.io/inject", json_string("disabled"));
    }
    pl_pod_put(b, metadata, "labels", b->labels);
    pl_pod_put(b, metadata, "annotations", b->annotations);
    if (s->owner_uid != NULL) /* as controller: `kubectl drain` refuses to evict pods that have none */
        pl_pod_put(b, metadata, "ownerReferences",
                   json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion", "v1", "kind", "ConfigMap", "name", s->owner_name, "uid",
                             s->owner_uid, "controller", 1));
    b->pod = json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "Pod", "metadata", metadata);
    b->spec = json_object();
    pl_pod_put(b, b->pod, "spec", b->spec);
}

/* ---- volumes ---- */

static void mount(struct pod_build *b, json_t *mounts, const char *path, const char *sub, bool read_only)
{
    json_t *m = json_pack("{s:s, s:s, s:s}", "name", "pl", "mountPath", path, "subPath", sub);

    if (read_only)
        pl_pod_put(b, m, "readOnly", json_true());
    pl_pod_add(b, mounts, m);
}

/* Mounts in container main the folders of volume `pl` that the command needs. */
static void mount_volume(struct pod_build *b)
{
    const struct pl_stage *stage = b->stage;
    char path[80], sub[80];

    mount(b, b->mounts, "/pfs", "pfs", true);
    mount(b, b->mounts, "/pfs/out", "pfs/out", false);
    for (size_t i = 0; i < stage->n_leaves; i++) {
        if (!stage->leaves[i]->writable)
            continue;
        (void)snprintf(path, sizeof(path), "/pfs/%.60s", stage->leaves[i]->name);
        (void)snprintf(sub, sizeof(sub), "pfs/%.60s", stage->leaves[i]->name);
        mount(b, b->mounts, path, sub, false);
    }
    mount(b, b->mounts, "/tmp", "tmp", false);
    if (stage->code != NULL)
        mount(b, b->mounts, "/code", "code", false);
    mount(b, b->mounts, "/pl/bin", "bin", true);
    mount(b, b->mounts, "/pl/sock", "sock", true);
    if (stage->checkpoint_ms > 0)
        mount(b, b->mounts, "/pl/checkpoint", "checkpoint", false);
    if (stage->output.environment)
        mount(b, b->mounts, PL_ENVIRONMENT, "pfs/out", false);
    else if (pl_stage_environment(stage) != NULL)
        mount(b, b->mounts, PL_ENVIRONMENT, "env", true);
}

static json_t *scratch_claim(struct pod_build *b)
{
    const struct pl_scratch *scratch = &b->stage->scratch;
    json_t *spec = json_pack("{s:[s], s:{s:{s:o}}}", "accessModes", "ReadWriteOnce", "resources", "requests", "storage",
                             quantity(scratch->size_bytes));

    if (scratch->storage_class != NULL)
        pl_pod_put(b, spec, "storageClassName", json_string(scratch->storage_class));
    return json_pack("{s:s, s:{s:{s:o}}}", "name", "pl", "ephemeral", "volumeClaimTemplate", "spec", spec);
}

/* Adds shared memory of a quarter of the memory limit, for data loaders and NCCL; a container has only 64 MB
 * by default. */
static void add_shm(struct pod_build *b)
{
    int64_t bytes = b->stage->resources.shm_bytes;
    json_t *memory = json_pack("{s:s}", "medium", "Memory");

    if (bytes == 0)
        bytes = b->stage->resources.memory_bytes / 4;
    if (bytes > 0)
        pl_pod_put(b, memory, "sizeLimit", quantity(bytes));
    pl_pod_add(b, b->volumes, json_pack("{s:s, s:o}", "name", "shm", "emptyDir", memory));
    pl_pod_add(b, b->mounts, json_pack("{s:s, s:s}", "name", "shm", "mountPath", "/dev/shm"));
}

/* Adds the stage's secrets to main, as variables or mounts. */
static void add_secrets(struct pod_build *b)
{
    char volume[32];

    for (size_t i = 0; i < b->stage->n_secrets; i++) {
        const struct pl_secret_use *use = &b->stage->secrets[i];

        if (use->env != NULL) {
            pl_pod_add(b, b->env,
                       json_pack("{s:s, s:{s:{s:s, s:s}}}", "name", use->env, "valueFrom", "secretKeyRef", "name", use->name,
                                 "key", use->key));
            continue;
        }
        (void)snprintf(volume, sizeof(volume), "secret-%zu", i);
        pl_pod_add(b, b->volumes,
                   json_pack("{s:s, s:{s:s, s:i}}", "name", volume, "secret", "secretName", use->name, "defaultMode", 0440));
        pl_pod_add(b, b->mounts, json_pack("{s:s, s:s, s:b}", "name", volume, "mountPath", use->mount, "readOnly", 1));
    }
}

/* Mounts each of the stage's secrets once, with all its keys, in the agent's container: the agent masks the
 * secrets' values in the command's output. */
static void add_secrets_of_agent(struct pod_build *b, json_t *command, json_t *mounts)
{
    char volume[32], folder[sizeof SECRETS_FOLDER + 256];

    for (size_t i = 0; i < b->stage->n_secrets; i++) {
        const char *name = b->stage->secrets[i].name;
        size_t first = 0;

        while (!pl_streq(b->stage->secrets[first].name, name))
            first++;
        if (first < i)
            continue;
        (void)snprintf(volume, sizeof(volume), "masked-%zu", i);
        (void)snprintf(folder, sizeof(folder), SECRETS_FOLDER "/%s", name);
        pl_pod_add(b, b->volumes,
                   json_pack("{s:s, s:{s:s, s:i}}", "name", volume, "secret", "secretName", name, "defaultMode", 0440));
        pl_pod_add(b, mounts, json_pack("{s:s, s:s, s:b}", "name", volume, "mountPath", folder, "readOnly", 1));
    }
    if (b->stage->n_secrets > 0) {
        pl_pod_add(b, command, json_string("--secrets"));
        pl_pod_add(b, command, json_string(SECRETS_FOLDER));
    }
}

static void add_config_map(struct pod_build *b, const char *name, const char *map, json_t *mounts, const char *folder)
{
    pl_pod_add(b, mounts, json_pack("{s:s, s:s}", "name", name, "mountPath", folder));
    for (size_t i = 0; i < json_array_size(b->volumes); i++)
        if (pl_streq(json_string_value(json_object_get(json_array_get(b->volumes, i), "name")), name))
            return;
    pl_pod_add(b, b->volumes, json_pack("{s:s, s:{s:s}}", "name", name, "configMap", "name", map));
}

/* Adds the proxy settings and certificates that the containers of commands and agents have in common. */
static void add_surroundings(struct pod_build *b, json_t *env, json_t *mounts, bool command)
{
    static const char *const variables[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};

    for (size_t i = 0; i < b->settings->proxy_env.n; i++)
        pl_pod_variable(b, env, b->settings->proxy_env.items[i].key, b->settings->proxy_env.items[i].value);
    if (b->settings->trust_bundle == NULL)
        return;
    add_config_map(b, "trust", b->settings->trust_bundle, mounts, TRUST_FOLDER);
    for (size_t i = 0; i < (command ? PL_ARRAY_SIZE(variables) : 1); i++)
        pl_pod_variable(b, env, variables[i], TRUST_FOLDER "/ca.crt");
}

/* ---- users and privileges ---- */

static json_t *security_of_ours(struct pod_build *b)
{
    json_t *security = json_pack("{s:b, s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1,
                                 "runAsNonRoot", 1, "capabilities", "drop", "ALL");

    if (!b->cluster->openshift)
        pl_pod_put(b, security, "runAsUser", json_integer(PL_AGENT_UID));
    return security;
}

/* Chooses the user of main: the stage's, else one that the namespace's level allows, else the image's. */
static int security_of_main(struct pod_build *b, struct pl_err *err)
{
    const struct pl_user *user = &b->stage->user;
    bool restricted = b->cluster->level == PL_LEVEL_RESTRICTED, given = user->given;
    int64_t uid = given ? user->uid : PL_MAIN_UID;
    json_t *security;

    if (given && uid == 0 && restricted)
        return pl_err_field(
            err,
            pl_err_set(err, PL_EINVAL,
                       "user \"0\" is root, which namespace %s forbids (Pod Security \"restricted\"): use another number, "
                       "or none",
                       b->settings->namespace),
            "user");
    security = json_pack("{s:b}", "allowPrivilegeEscalation", 0);
    if (given || (restricted && !b->cluster->openshift))
        pl_pod_put(b, security, "runAsUser", json_integer(uid));
    /* no image has an entry for this user in /etc/passwd, so without HOME the command's home folder would
     * be / */
    if (!given && restricted && !b->cluster->openshift)
        pl_pod_variable(b, b->env, "HOME", "/tmp/home");
    if (given && user->gid >= 0)
        pl_pod_put(b, security, "runAsGroup", json_integer(user->gid));
    if (restricted || (given && uid != 0)) {
        pl_pod_put(b, security, "runAsNonRoot", json_true());
        pl_pod_put(b, security, "capabilities", json_pack("{s:[s]}", "drop", "ALL"));
    }
    pl_pod_put(b, b->main, "securityContext", security);
    return 0;
}

static void security_of_pod(struct pod_build *b)
{
    json_t *security = json_pack("{s:{s:s}}", "seccompProfile", "type", "RuntimeDefault");

    if (!b->cluster->openshift) {
        pl_pod_put(b, security, "fsGroup", json_integer(PL_POD_GROUP));
        pl_pod_put(b, security, "fsGroupChangePolicy", json_string("OnRootMismatch"));
    }
    pl_pod_put(b, b->spec, "securityContext", security);
}

/* ---- containers ---- */

static int add_memory(struct pod_build *b, struct pl_err *err)
{
    const struct pl_resources *has = &b->stage->resources;

    if (has->memory_bytes == 0 && b->cluster->demands_memory_limit)
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "the quota of namespace %s requires a memory limit: set resources.memory",
                                       b->settings->namespace),
                            "resources.memory");
    if (has->memory_bytes > 0) {
        pl_pod_put(b, b->limits, "memory", quantity(has->memory_bytes));
        pl_pod_put(b, b->requests, "memory",
                   quantity(has->memory_request_bytes > 0 ? has->memory_request_bytes : has->memory_bytes));
    }
    return 0;
}

static int64_t whole_mib(int64_t bytes)
{
    return (bytes + (1 << 20) - 1) & ~((1LL << 20) - 1);
}

/* Returns the disk space to request from the node. Space for inputs is requested only up to what some node
 * has, because a larger request would keep the pod from all nodes. */
static int64_t disk_of(const struct pod_build *b)
{
    const int64_t own = b->stage->resources.disk_bytes, most = b->worker->disk_bytes > 0 ? b->worker->disk_bytes : INT64_MAX;

    return b->stage->scratch.size_bytes > 0 ? 0 : own + PL_MIN(whole_mib(b->worker->input_bytes), PL_MAX(most - own, 0));
}

static int add_resources(struct pod_build *b, struct pl_err *err)
{
    const struct pl_resources *has = &b->stage->resources;
    int64_t limit = has->cpu_limit_milli, disk = disk_of(b);
    char text[32];

    if (limit == 0 && b->cluster->demands_cpu_limit)
        limit = has->cpu_milli > 0 ? has->cpu_milli : 1000;
    if (limit > 0)
        pl_pod_put(b, b->limits, "cpu", json_string(pl_quantity_cpu_text(limit, text)));
    if (has->cpu_milli > 0)
        pl_pod_put(b, b->requests, "cpu", json_string(pl_quantity_cpu_text(has->cpu_milli, text)));
    if (disk > 0)
        pl_pod_put(b, b->requests, "ephemeral-storage", quantity(disk));
    return add_memory(b, err);
}

/* Returns the command line of container main: the runner, followed by the folders that the runner opens
 * for the agent. */
static json_t *command_of_main(struct pod_build *b)
{
    json_t *command = json_pack("[sss]", "/pl/bin/pl-runner", "--pod", "/pl/sock/runner");
    const struct pl_stage *stage = b->stage;

    if (!has_network(b))
        pl_pod_add(b, command, json_string("--no-network"));
    pl_pod_add(b, command, json_string("/pfs/out"));
    for (size_t i = 0; i < stage->n_leaves; i++)
        if (stage->leaves[i]->writable)
            pl_pod_add(b, command, json_sprintf("/pfs/%s", stage->leaves[i]->name));
    if (stage->checkpoint_ms > 0)
        pl_pod_add(b, command, json_string("/pl/checkpoint"));
    return command;
}

/* Makes container main with its resources, variables, mounts and user. */
static int make_main(struct pod_build *b, struct pl_err *err)
{
    const char *image = b->stage->image != NULL ? b->stage->image : b->settings->default_image;
    json_t *resources = json_object();
    int r;

    if (image == NULL) {
        json_decref(resources);
        return pl_err_field(
            err,
            pl_err_set(err, PL_EINVAL,
                       "stage %s has no image and no default is set: set \"image\", or run pipelinectl update defaults",
                       b->stage->name),
            "image");
    }
    b->limits = json_object();
    b->requests = json_object();
    b->env = json_array();
    b->mounts = json_array();
    b->main = json_pack("{s:s, s:s, s:o}", "name", "main", "image", image, "command", command_of_main(b));
    pl_pod_put(b, b->main, "resources", resources);
    pl_pod_put(b, resources, "limits", b->limits);
    pl_pod_put(b, resources, "requests", b->requests);
    pl_pod_put(b, b->main, "env", b->env);
    pl_pod_put(b, b->main, "volumeMounts", b->mounts);
    mount_volume(b);
    add_secrets(b);
    if (b->worker->gpu || b->stage->resources.shm_bytes > 0)
        add_shm(b);
    add_surroundings(b, b->env, b->mounts, true);
    r = add_resources(b, err);
    return r < 0 ? r : security_of_main(b, err);
}

static json_t *resources_of_ours(struct pod_build *b)
{
    int64_t memory = b->settings->agent_memory_bytes > 0 ? b->settings->agent_memory_bytes : AGENT_MEMORY;
    json_t *limits = json_pack("{s:o}", "memory", quantity(memory));

    if (b->cluster->demands_cpu_limit)
        pl_pod_put(b, limits, "cpu", json_string("1"));
    return json_pack("{s:{s:s, s:o}, s:o}", "requests", "cpu", AGENT_CPU, "memory", quantity(memory / 4), "limits", limits);
}

static bool has_node_cache(const struct pod_build *b)
{
    return b->settings->node_cache != NULL && b->cluster->level == PL_LEVEL_PRIVILEGED;
}

/* Makes the agent's container with its options, certificates, secrets and cache. */
static json_t *make_agent(struct pod_build *b)
{
    const struct pl_pod_settings *s = b->settings;
    json_t *env = json_array(), *mounts = json_pack("[{s:s, s:s}]", "name", "pl", "mountPath", "/pl");
    json_t *agent = json_pack("{s:s, s:s, s:[sss], s:o, s:o, s:o, s:o}", "name", "agent", "image", s->image, "command",
                              WORKER_PROGRAM, "--sandbox", "pod", "env", env, "volumeMounts", mounts, "resources",
                              resources_of_ours(b), "securityContext", security_of_ours(b));
    json_t *command = json_object_get(agent, "command");
    char id[24];
    const char *options[][2] = {{"--url", s->worker_url}, {"--worker", id}, {"--work", "/pl"}};

    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)b->worker->id);
    for (size_t i = 0; i < PL_ARRAY_SIZE(options); i++) {
        pl_pod_add(b, command, json_string(options[i][0]));
        pl_pod_add(b, command, json_string(options[i][1]));
    }
    pl_pod_add(b, command, json_string("--incarnation"));
    pl_pod_add(b, command, json_sprintf("%u", b->worker->incarnation));
    if (s->mesh)
        pl_pod_add(b, command, json_string("--mesh"));
    pl_pod_variable(b, env, PL_POD_TOKEN, ""); /* filled in by give_token after all patches */
    if (s->ca != NULL) {
        pl_pod_variable(b, env, "PIPELINED_CA", CA_FOLDER "/ca.crt");
        add_config_map(b, "ca", s->ca, mounts, CA_FOLDER);
    }
    add_surroundings(b, env, mounts, false);
    add_secrets_of_agent(b, command, mounts);
    if (has_node_cache(b)) {
        pl_pod_add(b, command, json_string("--cache"));
        pl_pod_add(b, command, json_string("/cache"));
        pl_pod_add(b, mounts, json_pack("{s:s, s:s}", "name", "cache", "mountPath", "/cache"));
        pl_pod_add(b, b->volumes,
                   json_pack("{s:s, s:{s:s, s:s}}", "name", "cache", "hostPath", "path", s->node_cache, "type",
                             "DirectoryOrCreate"));
    }
    return agent;
}

static json_t *make_install(struct pod_build *b)
{
    const struct pl_stage *stage = b->stage;
    json_t *command = json_pack("[sss]", WORKER_PROGRAM, "--install", "/pl");

    for (size_t i = 0; i < stage->n_leaves; i++) {
        if (!stage->leaves[i]->writable)
            continue;
        pl_pod_add(b, command, json_string("--writable"));
        pl_pod_add(b, command, json_string(stage->leaves[i]->name));
    }
    return json_pack("{s:s, s:s, s:o, s:[{s:s, s:s}], s:o, s:o}", "name", "install", "image", b->settings->image, "command",
                     command, "volumeMounts", "name", "pl", "mountPath", "/pl", "resources", resources_of_ours(b),
                     "securityContext", security_of_ours(b));
}

/* Makes the init container that gives the cache folder to the agent: kubelets create a hostPath folder for
 * root only. */
static json_t *make_cache_owner(struct pod_build *b)
{
    char owner[32];

    (void)snprintf(owner, sizeof(owner), "%d:%d", PL_AGENT_UID, PL_AGENT_UID);
    return json_pack("{s:s, s:s, s:[sss], s:[{s:s, s:s}], s:o, s:{s:b, s:b, s:i, s:b, s:{s:[s], s:[s]}}}", "name",
                     PL_POD_CACHE_OWNER, "image", b->settings->image, "command", "/bin/chown", owner, "/cache", "volumeMounts",
                     "name", "cache", "mountPath", "/cache", "resources", resources_of_ours(b), "securityContext",
                     "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1, "runAsUser", 0, "runAsNonRoot", 0,
                     "capabilities", "drop", "ALL", "add", "CHOWN");
}

static json_t *init_containers(struct pod_build *b)
{
    json_t *list = json_pack("[o]", make_install(b));

    if (has_node_cache(b) && !b->cluster->openshift)
        pl_pod_add(b, list, make_cache_owner(b));
    return list;
}

/* ---- the pod ---- */

/* Excludes nodes by name, with one expression per node, because a field selector accepts only one value per
 * expression. */
static void avoid_nodes(struct pod_build *b, json_t *term)
{
    json_t *fields = b->worker->n_avoid > 0 ? json_array() : NULL;

    for (size_t i = 0; i < b->worker->n_avoid; i++)
        pl_pod_add(b, fields,
                   json_pack("{s:s, s:s, s:[s]}", "key", "metadata.name", "operator", "NotIn", "values", b->worker->avoid[i]));
    if (fields)
        pl_pod_put(b, term, "matchFields", fields);
}

/* Combines `require` with each of `alternatives` into the terms of the node affinity. */
static void put_affinity(struct pod_build *b)
{
    json_t *node = json_object(), *terms = json_array(), *term;
    size_t n = json_array_size(b->alternatives), i;

    for (i = 0; i < n; i++) {
        json_t *expressions = json_deep_copy(b->require);

        if (json_array_extend(expressions, json_array_get(b->alternatives, i)) < 0)
            b->lack = true;
        pl_pod_add(b, terms, json_pack("{s:o}", "matchExpressions", expressions));
    }
    if (n == 0 && json_array_size(b->require) > 0)
        pl_pod_add(b, terms, json_pack("{s:O}", "matchExpressions", b->require));
    if (json_array_size(terms) == 0 && b->worker->n_avoid > 0)
        pl_pod_add(b, terms, json_object());
    json_array_foreach(terms, i, term) avoid_nodes(b, term);
    if (json_array_size(terms) > 0)
        pl_pod_put(b, node, "requiredDuringSchedulingIgnoredDuringExecution", json_pack("{s:o}", "nodeSelectorTerms", terms));
    else
        json_decref(terms);
    put_filled(b, node, "preferredDuringSchedulingIgnoredDuringExecution", json_incref(b->prefer));
    if (json_object_size(node) > 0)
        pl_pod_put(b, b->spec, "affinity", json_pack("{s:o}", "nodeAffinity", node));
    else
        json_decref(node);
}

/* Requires an architecture for which both the command's image and pipelined's image exist. */
static int want_arch(struct pod_build *b, struct pl_err *err)
{
    const struct pl_placement *placement = &b->stage->placement;
    const struct pl_pod_settings *s = b->settings;
    json_t *values = json_array();

    for (size_t i = 0; i < placement->n_arch; i++) {
        bool ours = s->n_arch == 0;

        for (size_t k = 0; k < s->n_arch; k++)
            ours = ours || pl_streq(s->arch[k], placement->arch[i]);
        if (ours)
            pl_pod_add(b, values, json_string(placement->arch[i]));
    }
    for (size_t k = 0; k < s->n_arch && placement->n_arch == 0; k++)
        pl_pod_add(b, values, json_string(s->arch[k]));
    if (json_array_size(values) > 0) {
        pl_pod_add(b, b->require, pl_pod_expression(b, "kubernetes.io/arch", "In", values));
        return 0;
    }
    json_decref(values);
    if (placement->n_arch == 0)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EUNAVAILABLE, "arch %s: the agent's image does not support it", placement->arch[0]),
                        "placement.arch");
}

static int put_runtime_class(struct pod_build *b, struct pl_err *err)
{
    const struct pl_pod_cluster *c = b->cluster;
    const char *wanted = b->stage->placement.runtime_class, *resource = b->stage->gpu.resource;
    bool nvidia = b->worker->gpu && resource == NULL, named = wanted != NULL, served = false;

    wanted = named ? wanted : nvidia ? "nvidia" : NULL;
    for (size_t i = 0; i < c->n_runtime_classes && wanted != NULL; i++)
        served = served || pl_streq(c->runtime_classes[i], wanted);
    if (served || (named && !c->runtime_classes_known))
        pl_pod_put(b, b->spec, "runtimeClassName", json_string(wanted));
    else if (named)
        return pl_err_field(err, pl_err_set(err, PL_EUNAVAILABLE, "the cluster has no runtime class \"%s\"", wanted),
                            "placement.runtime_class");
    return 0;
}

/* Adds the stage's tolerations to those that were collected. */
static void put_tolerations(struct pod_build *b)
{
    const struct pl_placement *placement = &b->stage->placement;

    for (size_t i = 0; i < placement->n_tolerations; i++) {
        const struct pl_toleration *t = &placement->tolerations[i];
        json_t *one = json_pack("{s:s}", "operator", t->op == PL_TOLERATE_EXISTS ? "Exists" : "Equal");

        if (t->key != NULL)
            pl_pod_put(b, one, "key", json_string(t->key));
        if (t->value != NULL && t->value[0] != '\0')
            pl_pod_put(b, one, "value", json_string(t->value));
        if (t->effect != NULL)
            pl_pod_put(b, one, "effect", json_string(t->effect));
        if (t->seconds >= 0)
            pl_pod_put(b, one, "tolerationSeconds", json_integer(t->seconds));
        pl_pod_add(b, b->tolerations, one);
    }
    put_filled(b, b->spec, "tolerations", json_incref(b->tolerations));
}

static void put_placement(struct pod_build *b)
{
    const struct pl_placement *placement = &b->stage->placement;
    const struct pl_pod_settings *s = b->settings;
    int64_t grace = placement->grace_ms >= 0 ? placement->grace_ms : s->grace_ms > 0 ? s->grace_ms : PL_POD_GRACE_MS;
    json_t *selector = json_object(), *pull = json_array();

    add_pairs(b, &placement->node_selector, selector);
    put_filled(b, b->spec, "nodeSelector", selector);
    if (placement->priority_class != NULL)
        pl_pod_put(b, b->spec, "priorityClassName", json_string(placement->priority_class));
    if (grace != PL_POD_GRACE_MS)
        pl_pod_put(b, b->spec, "terminationGracePeriodSeconds", json_integer((grace + 999) / 1000));
    for (size_t i = 0; i < s->n_pull_secrets; i++)
        pl_pod_add(b, pull, json_pack("{s:s}", "name", s->pull_secrets[i]));
    put_filled(b, b->spec, "imagePullSecrets", pull);
}

/* Keeps the end of a failed container's output in the pod's status. */
static void keep_last_words(struct pod_build *b, json_t *containers)
{
    json_t *one;
    size_t i;

    json_array_foreach(containers, i, one) pl_pod_put(b, one, "terminationMessagePolicy", json_string("FallbackToLogsOnError"));
}

/* Removes empty objects and lists of main. */
static void tidy_main(struct pod_build *b)
{
    json_t *resources = json_object_get(b->main, "resources");

    if (json_object_size(b->limits) == 0)
        (void)json_object_del(resources, "limits");
    if (json_object_size(b->requests) == 0)
        (void)json_object_del(resources, "requests");
    if (json_object_size(resources) == 0)
        (void)json_object_del(b->main, "resources");
    if (json_array_size(b->env) == 0)
        (void)json_object_del(b->main, "env");
}

/* Builds the pod without template, patches and token. */
static int build(struct pod_build *b, struct pl_err *err)
{
    json_t *containers;
    int r;

    make_metadata(b);
    b->volumes = json_array();
    pl_pod_put(b, b->spec, "volumes", b->volumes);
    pl_pod_add(b, b->volumes,
               b->stage->scratch.size_bytes > 0 ? scratch_claim(b) : json_pack("{s:s, s:{}}", "name", "pl", "emptyDir"));
    r = make_main(b, err);
    containers = json_array();
    pl_pod_put(b, b->spec, "containers", containers);
    if (b->main != NULL)
        pl_pod_add(b, containers, b->main);
    if (r < 0)
        return r;
    pl_pod_add(b, containers, make_agent(b));
    pl_pod_put(b, b->spec, "initContainers", init_containers(b));
    keep_last_words(b, containers);
    keep_last_words(b, json_object_get(b->spec, "initContainers"));
    r = want_arch(b, err);
    if (r == 0 && b->worker->gpu)
        r = pl_pod_gpu(b, err);
    else if (r == 0)
        pl_pod_cpu(b);
    r = r < 0 ? r : put_runtime_class(b, err);
    put_placement(b);
    put_tolerations(b);
    put_affinity(b);
    security_of_pod(b);
    pl_pod_put(b, b->spec, "restartPolicy", json_string("Never"));
    pl_pod_put(b, b->spec, "automountServiceAccountToken", json_false());
    pl_pod_put(b, b->spec, "enableServiceLinks", json_false());
    tidy_main(b);
    return r;
}

int pl_pod_render(const struct pl_pod_cluster *cluster, const struct pl_pod_settings *settings,
                  const struct pl_pod_worker *worker, struct pl_pod *ret, struct pl_err *err)
{
    struct pod_build b = {.cluster = cluster,
                          .settings = settings,
                          .worker = worker,
                          .stage = worker->stage,
                          .tolerations = json_array(),
                          .require = json_array(),
                          .alternatives = json_array(),
                          .prefer = json_array()};
    int r;

    pl_pod_name(settings->store_id, worker->project, worker->stage->name, worker->version, worker->index, worker->incarnation,
                b.name);
    r = build(&b, err);
    if (b.lack)
        r = pl_err_nomem(err);
    r = r < 0 ? r : pl_pod_patch(&b, err);
    json_decref(b.tolerations);
    json_decref(b.require);
    json_decref(b.alternatives);
    json_decref(b.prefer);
    if (r < 0) {
        json_decref(b.pod);
        json_decref(b.claim);
        return r;
    }
    *ret = (struct pl_pod){.pod = b.pod,
                           .claim_template = b.claim,
                           .elsewhere = worker->gpu && worker->stage->gpu.share.mode == PL_SHARE_CUSTOM};
    memcpy(ret->name, b.name, sizeof(ret->name));
    return 0;
}

void pl_pod_finish(struct pl_pod *pod)
{
    json_decref(pod->pod);
    json_decref(pod->claim_template);
    *pod = (struct pl_pod){0};
}
