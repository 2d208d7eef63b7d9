/* Starts a test pod built like the pod of a stage, but with test commands in its containers. Waits until the
 * pod has ended, and reports on its volume, its image and its connection to the daemon. */
#include "pipelined/cli/doctor/doctor.h"

#include "pipelined/cli/support/show.h"

#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/pod_state/pod_state.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"

#include <stdio.h>
#include <time.h>

#define LOOK_MS 300
#define GRACE   "?gracePeriodSeconds=0"

struct probe {
    struct pl_doctor *d;
    char name[64], path[600];
    json_t *pod; /* the pod object as last read from the API server */
    struct pl_pod_state state;
};

/* ---- the pod ---- */

static struct pl_spec *make_spec(const char *image, struct pl_err *err)
{
    static struct pl_spec_errors problems;
    _cleanup_(json_decrefp) json_t *document =
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:[s], s:s, s:{s:s}}]}", "pipeline", "doctor", "stages", "name", "doctor", "input",
                  "repo", "data", "run", "true", "image", image, "resources", "memory", "64Mi");
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    struct pl_spec *spec = NULL;

    if (!text)
        (void)pl_err_nomem(err);
    else if (pl_spec_parse(text, strlen(text), "doctor", NULL, &spec, &problems, err) < 0)
        spec = NULL;
    free(text);
    return spec;
}

/* Replaces the commands of the pod's containers by test commands, and sets the pod's name. */
static int set_commands(struct probe *p, json_t *pod)
{
    static const char *const names[] = {"main", "agent"};
    const char *url = p->d->asked.worker_url;
    json_t *containers = json_object_get(json_object_get(pod, "spec"), "containers"), *container;
    size_t i;
    int r = 0;

    json_array_foreach(containers, i, container)
    {
        const bool agent = pl_streq(pl_show_text_at(container, "name"), names[1]);
        json_t *command = !agent ? json_pack("[ssss]", "/pl/bin/pl-runner", "--probe", "/pfs/out", "/tmp")
                          : url  ? json_pack("[ssss]", "/usr/bin/pipelined-worker", "--probe-daemon", "--url", url)
                                 : json_pack("[ss]", "/usr/bin/pipelined-worker", "--help");

        r |= json_object_set_new(container, "command", command);
    }
    return r | json_object_set_new(json_object_get(pod, "metadata"), "name", json_string(p->name));
}

int pl_doctor_pod(struct pl_doctor *d, json_t **ret, struct pl_err *err)
{
    const struct pl_doctor_asked *a = &d->asked;
    const char *image = a->image ? a->image : "pipelined"; /* without an image the pod is not started */
    struct pl_spec *spec = make_spec(a->default_image ? a->default_image : image, err);
    const struct pl_pod_settings settings = {.store_id = "doctor",
                                             .namespace = d->space,
                                             .image = image,
                                             .agent_memory_bytes = a->agent_memory_bytes,
                                             .pod_template = a->pod_template,
                                             .pull_secrets = &a->pull_secret,
                                             .n_pull_secrets = a->pull_secret != NULL,
                                             .worker_url = a->worker_url ? a->worker_url : "",
                                             .ca = a->ca,
                                             .trust_bundle = a->trust_bundle,
                                             .node_cache = a->node_cache};
    struct pl_pod_worker worker = {.project = "doctor", .token = "", .version = 1, .incarnation = 1};
    struct pl_pod pod = {.pod = NULL};
    int r;

    if (!spec)
        return err ? err->code : PL_ENOMEM;
    worker.stage = &spec->stages[0];
    r = pl_pod_render(&d->facts, &settings, &worker, &pod, err);
    *ret = r < 0 ? NULL : json_incref(pod.pod);
    pl_pod_finish(&pod);
    pl_spec_destroy(spec);
    return r;
}

static int start(struct probe *p, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *pod = NULL;
    struct pl_kube_call call = {.method = "POST"};
    char collection[300], *body = NULL;
    uint64_t number;
    int r;

    pl_random_bytes(&number, sizeof number);
    snprintf(p->name, sizeof p->name, "pipelined-doctor-%08llx", (unsigned long long)(number & 0xffffffff));
    snprintf(collection, sizeof collection, "/api/v1/namespaces/%.200s/pods", p->d->space);
    snprintf(p->path, sizeof p->path, "%s/%s", collection, p->name);
    r = pl_doctor_pod(p->d, &pod, err);
    if (r == 0 && set_commands(p, pod) != 0)
        r = pl_err_nomem(err);
    if (r == 0 && !(body = json_dumps(pod, JSON_COMPACT)))
        r = pl_err_nomem(err);
    if (r < 0)
        return r;
    call.path = collection;
    call.body = body;
    call.body_len = strlen(body);
    r = pl_kube_client_run(p->d->client, &call, err);
    pl_kube_call_finish(&call);
    free(body);
    return r;
}

static int take_away(const struct probe *p, struct pl_err *err)
{
    char path[700];
    struct pl_kube_call call = {.method = "DELETE", .path = path};
    struct pl_err why = {0};
    int r;

    snprintf(path, sizeof path, "%s" GRACE, p->path);
    r = pl_kube_client_run(p->d->client, &call, &why);
    pl_kube_call_finish(&call);
    if (r == 0 || r == PL_ENOTFOUND)
        return 0;
    return pl_doctor_say(p->d, PL_DOCTOR_WARN, "probe", "Delete it: kubectl delete pod", err,
                         "its pod %s could not be deleted: %s", p->name, why.msg);
}

/* ---- state of the pod ---- */

/* Reads the pod from the API server and, if allowed, its events; sets p->state. */
static int look(struct probe *p, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *events = NULL;
    const struct pl_pod_asked asked = {.memory_bytes = 0};
    char path[700];
    int r;

    json_decref(p->pod);
    p->pod = NULL;
    r = pl_kube_client_get(p->d->client, p->path, &p->pod, err);
    if (r < 0)
        return r;
    if (p->d->access.on[PL_KUBE_MAY_EVENTS]) {
        snprintf(path, sizeof path, "/api/v1/namespaces/%.200s/events?fieldSelector=involvedObject.name%%3D%s", p->d->space,
                 p->name);
        if (pl_kube_client_get(p->d->client, path, &events, NULL) < 0)
            events = NULL;
    }
    pl_pod_state(p->pod, json_object_get(events, "items"), &asked, &p->state);
    return 0;
}

/* Returns the object "terminated" of a container's state; NULL if the container has not ended. */
static const json_t *end_of(const struct probe *p, const char *list, const char *name)
{
    const json_t *status;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)json_object_get(json_object_get(p->pod, "status"), list), i, status)
    {
        if (pl_streq(pl_show_text_at(status, "name"), name))
            return pl_show_at(status, "state.terminated");
    }
    return NULL;
}

/* True if both containers have ended, or if they cannot run any more. A failed image pull does not end the
 * wait: the cluster may still report the reason. */
static bool has_ended(const struct probe *p)
{
    const json_t *install = end_of(p, "initContainerStatuses", "install");

    if (install && pl_show_int_at(install, "exitCode") != 0)
        return true;
    return (end_of(p, "containerStatuses", "main") && end_of(p, "containerStatuses", "agent")) ||
           p->state.verdict == PL_POD_GIVEN_UP || pl_streq(pl_show_text_at(p->pod, "status.phase"), "Failed");
}

static int wait_for_end(struct probe *p, struct pl_err *err)
{
    const int64_t until = pl_clock_mono_ms() + (int64_t)p->d->asked.wait_s * 1000;
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
    int r;

    for (;;) {
        r = look(p, err);
        if (r < 0 || has_ended(p) || pl_clock_mono_ms() > until)
            return r;
        if (pl_cli_interrupted())
            return pl_err_set(err, PL_ECANCELED, "interrupted");
        nanosleep(&pause, NULL);
    }
}

/* Copies the last line of a container's log to `out`; "" if there is none or the account may not read it. */
static void last_line(const struct probe *p, const char *container, char out[600])
{
    char path[700];
    struct pl_kube_call call = {.method = "GET", .path = path};
    const char *text, *line;
    size_t n;

    out[0] = 0;
    snprintf(path, sizeof path, "%s/log?container=%s&tailLines=1", p->path, container);
    if (p->d->access.on[PL_KUBE_MAY_LOGS] && pl_kube_client_run(p->d->client, &call, NULL) == 0 && call.reply.len &&
        (text = pl_buf_str(&call.reply)) != NULL) {
        n = strcspn(text, "\n");
        line = text;
        snprintf(out, 600, "%.*s", (int)PL_MIN(n, (size_t)590), line);
    }
    pl_kube_call_finish(&call);
}

/* ---- report ---- */

static int say_install(struct probe *p, struct pl_err *err)
{
    const json_t *end = end_of(p, "initContainerStatuses", "install");
    char line[600];

    if (!end || pl_show_int_at(end, "exitCode") == 0)
        return 0;
    last_line(p, "install", line);
    return pl_doctor_say(p->d, PL_DOCTOR_FAIL, "volume", "The image must be that of pipelined, in this version", err,
                         "the pod's volume could not be prepared: %s", *line ? line : pl_show_text_at(end, "reason"));
}

static int say_main(struct probe *p, struct pl_err *err)
{
    const json_t *end = end_of(p, "containerStatuses", "main");
    const char *image = p->d->asked.default_image ? p->d->asked.default_image : p->d->asked.image;
    char line[600];

    if (!end)
        return 0;
    last_line(p, "main", line);
    if (pl_show_int_at(end, "exitCode") == 0)
        return pl_doctor_say(p->d, PL_DOCTOR_OK, "image", NULL, err, "%s runs on node %s%s%s", image,
                             p->state.node ? p->state.node : "?", *line ? ": " : "", line);
    return pl_doctor_say(p->d, PL_DOCTOR_FAIL, "image",
                         "Set another user in the stage (\"user\"), or use an image for this architecture", err, "%s: %s", image,
                         *line           ? line
                         : *p->state.why ? p->state.why
                                         : pl_show_text_at(end, "reason"));
}

static int say_agent(struct probe *p, struct pl_err *err)
{
    const json_t *end = end_of(p, "containerStatuses", "agent");
    const char *url = p->d->asked.worker_url;
    char line[600];

    if (!end)
        return 0;
    last_line(p, "agent", line);
    if (pl_show_int_at(end, "exitCode") != 0)
        return pl_doctor_say(
            p->d, PL_DOCTOR_FAIL, "daemon",
            "worker_url must lead from pods to the daemon, with a certificate that kubernetes.ca trusts; check the "
            "NetworkPolicies",
            err, "%s: %s", url ? url : p->d->asked.image, *line ? line : pl_show_text_at(end, "reason"));
    if (!url)
        return pl_doctor_say(p->d, PL_DOCTOR_WARN, "daemon", "Give --worker-url", err, "it was not tested whether pods reach it");
    return pl_doctor_say(p->d, PL_DOCTOR_OK, "daemon", NULL, err, "pods reach it at %s", url);
}

static int say(struct probe *p, struct pl_err *err)
{
    const bool whole = has_ended(p) && p->state.verdict != PL_POD_GIVEN_UP;
    const unsigned before = p->d->count[PL_DOCTOR_OK] + p->d->count[PL_DOCTOR_FAIL];
    int r = whole ? say_install(p, err) : 0;

    if (whole) {
        r = r < 0 ? r : say_main(p, err);
        r = r < 0 ? r : say_agent(p, err);
    }
    if (r < 0 || p->d->count[PL_DOCTOR_OK] + p->d->count[PL_DOCTOR_FAIL] > before)
        return r;
    return pl_doctor_say(p->d, PL_DOCTOR_FAIL, "probe",
                         p->state.bound ? "Nodes must be able to pull kubernetes.image and default_image with pull_secrets"
                                        : "Provide what the scheduler misses, or raise --wait if nodes take longer to start",
                         err, "its pod did not finish%s%s", *p->state.why ? ": " : "", p->state.why);
}

int pl_doctor_probe(struct pl_doctor *d, struct pl_err *err)
{
    struct probe p = {.d = d};
    struct pl_err why = {0};
    int r;

    if (!d->asked.image)
        return pl_doctor_say(d, PL_DOCTOR_WARN, "probe", "Give --image, or the daemon's configuration with --config", err,
                             "no pod was started: no image of pipelined was given");
    r = start(&p, &why);
    if (r < 0)
        return pl_doctor_say(d, PL_DOCTOR_FAIL, "probe", "Pods of stages would be refused for the same reason", err, "%s",
                             why.msg);
    r = wait_for_end(&p, err);
    r = r < 0 ? r : say(&p, err);
    json_decref(p.pod);
    if (take_away(&p, r < 0 ? NULL : err) < 0 && r == 0)
        r = PL_ENOMEM;
    return r;
}
