/* pod_dry_run.c: asks the cluster whether it would accept a stage's pods. The pod is rendered on the loop and
 * sent as a dry run from another thread, each distinct body once per PL_POD_DRY_RUN_FRESH_MS. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns a hash of what the cluster's admission examines: the whole pod except its name, project and stage;
 * 0 without memory. */
static uint64_t number_of(const json_t *pod)
{
    static const char *const names[] = {PL_POD_LABEL "project", PL_POD_LABEL "stage"};
    _cleanup_(json_decrefp) json_t *what = json_deep_copy(pod);
    _cleanup_free_ char *text = NULL;
    json_t *metadata = json_object_get(what, "metadata");

    json_object_del(metadata, "name");
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        json_object_del(json_object_get(metadata, "labels"), names[i]);
    text = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS);
    return text ? pl_xxh64(text, strlen(text), 2) : 0;
}

/* Renders the pod and compares it with the nodes; leaves the rendered body in `ret` for
 * pl_pod_dry_run_ask. */
static int begin(struct kube *k, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                 struct pl_err *err)
{
    const struct pl_worker_spec spec = {.project = project,
                                        .stage = def->name,
                                        .def = def,
                                        .gpu = gpu,
                                        .network_off = pl_kube_network_off(k, project),
                                        .token = ""};
    struct pl_node_capacity_request request;
    struct pl_pod pod = {0};
    int r;

    *ret = (struct pl_executor_check){0};
    if (!k->cluster) {
        snprintf(ret->not_checked, sizeof ret->not_checked, "%s", k->away);
        return 0;
    }
    r = pl_kube_render(k, &spec, NULL, &pod, err);
    if (r == PL_EUNAVAILABLE) { /* something is unavailable for now, which is not an error of the spec */
        snprintf(ret->not_offered, sizeof ret->not_offered, "%s", err ? err->msg : "the cluster does not have it");
        return 0;
    }
    if (r < 0)
        return r;
    pl_node_capacity_request(pod.pod, &request);
    request.elsewhere = pod.elsewhere;
    if (!pl_kube_queue_of(pod.pod)) /* with a queue, Kueue decides whether there is capacity */
        (void)pl_node_capacity_has(pl_cluster_offer(k->cluster), &request, ret->not_offered);
    pl_cluster_own_limits(k->cluster, pod.pod, ret->own);
    snprintf(ret->name, sizeof ret->name, "%s", pod.name);
    ret->number = number_of(pod.pod);
    ret->body = json_dumps(pod.pod, JSON_COMPACT);
    pl_pod_finish(&pod);
    return ret->body ? 0 : pl_err_nomem(err);
}

/* Begins the check of a stage whose GPUs are on offer nowhere and are not required: the cluster is asked for the
 * pod without them, which is the one that will run. */
static int begin_on_cpu(struct kube *k, const char *project, const struct pl_stage *def, struct pl_executor_check *ret,
                        struct pl_err *err)
{
    struct pl_executor_check cpu;
    int r = begin(k, project, def, false, &cpu, err);

    free(TAKE_PTR(ret->body));
    if (r < 0)
        return r;
    if (!*cpu.not_offered) {
        memcpy(cpu.not_offered, ret->not_offered, sizeof cpu.not_offered);
        cpu.on_cpu = true;
    }
    *ret = cpu;
    return 0;
}

int pl_pod_dry_run_begin(struct kube *k, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                         struct pl_err *err)
{
    int r = begin(k, project, def, gpu, ret, err);

    return r == 0 && *ret->not_offered && gpu && !def->gpu.required ? begin_on_cpu(k, project, def, ret, err) : r;
}

/* Returns true if the cluster accepted a body with this hash recently. Forgets all hashes when they are too
 * old or too many. */
static bool is_known(struct kube *k, uint64_t number)
{
    bool known;

    pthread_mutex_lock(&k->admitted_lock);
    if (pl_clock_mono_ms() - k->admitted_ms > PL_POD_DRY_RUN_FRESH_MS || k->admitted.len >= PL_POD_DRY_RUN_MAX) {
        pl_map_finish(&k->admitted, NULL);
        k->admitted_ms = pl_clock_mono_ms();
    }
    known = number && pl_map_get(&k->admitted, &number, sizeof number);
    pthread_mutex_unlock(&k->admitted_lock);
    return known;
}

static void know(struct kube *k, uint64_t number)
{
    pthread_mutex_lock(&k->admitted_lock);
    if (number)
        /* without memory the hash is not stored, and the cluster is simply asked again */
        (void)!pl_map_put(&k->admitted, &number, sizeof number, k, NULL, NULL);
    pthread_mutex_unlock(&k->admitted_lock);
}

/* Returns true if a webhook prevents dry runs: one that does not declare `sideEffects` makes the API server
 * answer any dry run with 400. */
static bool refuses_dry_runs(const struct pl_kube_status *s)
{
    return strstr(s->message, "does not support dry run") != NULL;
}

/* Sends the dry run and waits for the answer. Only a refusal of the pod itself is an error. */
static int ask(struct kube *k, struct pl_executor_check *check, struct pl_err *err)
{
    struct pl_kube_object_create op = {.collection = k->pods_path,
                                       .name = check->name,
                                       .hash = "",
                                       .body = check->body,
                                       .body_len = strlen(check->body),
                                       .dry_run = true,
                                       .deadline_ms = PL_POD_DRY_RUN_WAIT_MS};
    int r = 0;

    if (pl_kube_object_create_run(k->client, &op) == 0)
        know(k, check->number);
    else if ((op.status.code == 400 || op.status.code == 422) && !refuses_dry_runs(&op.status))
        r = pl_err_set(err, PL_EINVAL, "the cluster rejects its pod: %.700s", op.err.msg);
    else if (*check->own && op.verdict != PL_KUBE_AGAIN)
        snprintf(check->not_checked, sizeof check->not_checked, "%s (%.400s)", check->own, op.err.msg);
    else
        snprintf(check->not_checked, sizeof check->not_checked, "%s", op.err.msg);
    check->away = op.verdict == PL_KUBE_AGAIN; /* temporary failures were retried until the deadline */
    pl_kube_object_create_finish(&op);
    return r;
}

static void say_away(const struct kube *k, struct pl_executor_check *check)
{
    snprintf(check->not_checked, sizeof check->not_checked, "%s was not asked, because it did not answer for the previous stage",
             pl_kube_client_name(k->client));
}

int pl_pod_dry_run_ask(struct kube *k, struct pl_executor_check *check, struct pl_err *err)
{
    const bool known = is_known(k, check->number);
    int r = known || check->away ? 0 : ask(k, check, err);

    if (check->away && !known && !*check->not_checked)
        say_away(k, check);
    free(TAKE_PTR(check->body));
    return r;
}
