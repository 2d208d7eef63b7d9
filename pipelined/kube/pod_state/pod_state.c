/* pod_state.c: determines the state of a pod (enum pl_pod_verdict) from its phase, its conditions, its
 * containers' states and its events. Tables map the cluster's reasons to states. */
#include "pipelined/kube/pod_state/pod_state.h"

#include "pipelined/kube/pod_state/log_tail.h"
#include "pipelined/text/json_text.h"
#include "pipelined/text/quantity.h"

#include <stdarg.h>
#include <stdio.h>

/* exit code of a runner that ended because its agent was gone (net/agent_protocol/runner_protocol.h) */
#define RUNNER_LEFT_ALONE 75

struct look {
    const json_t *pod, *spec, *status, *events;
    const struct pl_pod_asked *asked;
    struct pl_pod_state *to;
};

static void say(struct look *l, enum pl_pod_verdict verdict, const char *fmt, ...) PL_PRINTF(3, 4);
static void say(struct look *l, enum pl_pod_verdict verdict, const char *fmt, ...)
{
    va_list ap;

    l->to->verdict = verdict;
    va_start(ap, fmt);
    (void)vsnprintf(l->to->why, sizeof(l->to->why), fmt, ap);
    va_end(ap);
}

/* Returns the cluster's message, or `fallback` if it is empty. */
static const char *words(const char *message, const char *fallback)
{
    return message[0] != '\0' ? message : fallback;
}

/* ---- events ---- */

static const char *when(const json_t *event)
{
    static const char *const keys[] = {"lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"};
    const char *series = pl_json_str(json_object_get(event, "series"), "lastObservedTime");

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys) && series[0] == '\0'; i++)
        series = pl_json_str(event, keys[i]);
    return series;
}

/* Returns an event's text: `message` in v1, `note` in events.k8s.io/v1. */
static const char *event_words(const json_t *event)
{
    return words(pl_json_str(event, "message"), pl_json_str(event, "note"));
}

/* True for the kubelet's event "Error: ErrImagePull", which only repeats the container's reason; the event
 * "Failed to pull image …" beside it says more. */
static bool says_nothing(const json_t *event)
{
    return strncmp(event_words(event), "Error: ", 7) == 0;
}

/* Returns the newest event that has one of the reasons and has a useful text; NULL = none. The first 19 bytes
 * of RFC 3339 times in UTC sort by time. */
static const json_t *newest_event(const struct look *l, const char *const *reasons, size_t n)
{
    const json_t *event, *best = NULL;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)l->events, i, event)
    {
        bool meant = false;

        for (size_t k = 0; k < n; k++)
            meant = meant || pl_streq(pl_json_str(event, "reason"), reasons[k]);
        if (meant && !says_nothing(event) && (best == NULL || strncmp(when(event), when(best), 19) >= 0))
            best = event;
    }
    return best;
}

/* ---- conditions and containers ---- */

static const json_t *condition(const struct look *l, const char *type)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(l->status, "conditions"), i, one)
    {
        if (pl_streq(pl_json_str(one, "type"), type))
            return one;
    }
    return NULL;
}

static const json_t *named(const json_t *list, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)list, i, one)
    {
        if (pl_streq(pl_json_str(one, "name"), name))
            return one;
    }
    return NULL;
}

static const json_t *state_of(const struct look *l, const char *list, const char *container, const char *state)
{
    return json_object_get(json_object_get(named(json_object_get(l->status, list), container), "state"), state);
}

static const json_t *terminated(const struct look *l, const char *container)
{
    return state_of(l, "containerStatuses", container, "terminated");
}

/* ---- why the pod waits ---- */

/* True if the pod has scheduling gates, which another program (such as Kueue) must remove first; then sets
 * the reason. */
static bool waits_for_gate(struct look *l, const char *message)
{
    const json_t *gates = json_object_get(l->spec, "schedulingGates"), *one;
    const char *queue = pl_json_str(json_object_get(json_object_get(l->pod, "metadata"), "labels"), "kueue.x-k8s.io/queue-name");
    char names[200] = "";
    size_t i, at = 0;

    json_array_foreach((json_t *)(uintptr_t)gates, i, one)
    {
        if (at < sizeof(names))
            at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "", pl_json_str(one, "name"));
    }
    if (json_array_size(gates) == 0)
        return false;
    l->to->queued = queue[0] != '\0' && strstr(names, "kueue.x-k8s.io/") != NULL;
    if (l->to->queued && l->asked->queue_says != NULL)
        say(l, PL_POD_WAITS, "queue %s has not admitted the pod yet: %.500s", queue, l->asked->queue_says);
    else if (l->to->queued)
        say(l, PL_POD_WAITS, "queue %s has not admitted the pod yet: %.200s (%s)", queue, message, names);
    else
        say(l, PL_POD_WAITS, "%.300s (%s)", message, names);
    return true;
}

/* Returns the claim template of the first volume for which the cluster makes a claim of the pod's own; NULL =
 * none. */
static const json_t *own_claim(const struct look *l)
{
    const json_t *volume, *claim;
    size_t i;

    json_array_foreach(json_object_get(l->spec, "volumes"), i, volume)
    {
        claim = json_object_get(json_object_get(volume, "ephemeral"), "volumeClaimTemplate");
        if (claim != NULL)
            return claim;
    }
    return NULL;
}

/* Handles a pod whose claim has no volume. Neither the pod nor its events have the reason: the scheduler treats
 * a claim of a class that does not exist like one whose volume is still being made. */
static bool waits_for_volume(struct look *l, const char *message)
{
    const json_t *claim = own_claim(l);
    const char *class = pl_json_str(json_object_get(claim, "spec"), "storageClassName");

    if (claim == NULL || strstr(message, "unbound immediate PersistentVolumeClaims") == NULL)
        return false;
    if (class[0] != '\0')
        say(l, PL_POD_WAITS,
            "StorageClass \"%.250s\" has not provided the pod's volume: does the cluster have a class of that name? (%.250s)",
            class, message);
    else
        say(l, PL_POD_WAITS, "the default StorageClass has not provided the pod's volume: does the cluster have one? (%.350s)",
            message);
    return true;
}

/* Explains why the pod has no node: gates, or the scheduler's and the autoscaler's newest messages. */
static void wait_for_node(struct look *l)
{
    static const char *const scheduling[] = {"FailedScheduling"}, *const refused[] = {"NotTriggerScaleUp"},
                             *const grows[] = {"TriggeredScaleUp"};
    const json_t *scheduled = condition(l, "PodScheduled"), *event = newest_event(l, scheduling, 1),
                 *no = newest_event(l, refused, 1), *yes = newest_event(l, grows, 1);
    const char *message = words(pl_json_str(scheduled, "message"), event_words(event)),
               *scheduler = pl_json_str(l->spec, "schedulerName");

    if (waits_for_gate(l, words(message, "Scheduling is blocked due to non-empty scheduling gates")))
        return;
    if (no != NULL && yes != NULL && strncmp(when(yes), when(no), 19) >= 0)
        no = NULL;
    l->to->no_growth = no != NULL;
    if (waits_for_volume(l, message))
        return;
    if (message[0] == '\0' && *scheduler && !pl_streq(scheduler, "default-scheduler"))
        say(l, PL_POD_WAITS, "scheduler %.100s has not examined the pod yet: does the cluster have a scheduler of that name?",
            scheduler);
    else if (message[0] == '\0')
        say(l, PL_POD_WAITS, "the scheduler has not examined the pod yet");
    else if (no != NULL)
        say(l, PL_POD_WAITS, "%.300s; %.300s", message, event_words(no));
    else if (yes != NULL)
        say(l, PL_POD_WAITS, "%.300s; %.300s", message, event_words(yes));
    else
        say(l, PL_POD_WAITS, "%.600s", message);
}

static const struct {
    const char *reason;
    int64_t patience_ms; /* waiting time after which the pod is given up; -1 = never */
    const char *remedy;
} waiting_reasons[] = {
    {"ErrImagePull", PL_POD_PULL_MS, "check the image's name and the registry's secret"},
    {"ImagePullBackOff", PL_POD_PULL_MS, "check the image's name and the registry's secret"},
    {"ErrImageNeverPull", 0, "the image is not on the node and may not be pulled"},
    {"InvalidImageName", 0, "correct \"image\""},
    {"ImageInspectError", PL_POD_PULL_MS, "the image is damaged"},
    {"RegistryUnavailable", PL_POD_PULL_MS, "the registry does not answer"},
    {"SignatureValidationFailed", 0, "the cluster does not trust the image's signature"},
    {"CreateContainerConfigError", PL_POD_CONFIG_MS, "check the names and keys of \"secrets\""},
    {"CreateContainerError", PL_POD_CONFIG_MS, "the node cannot create the container"},
    {"PreCreateHookError", PL_POD_CONFIG_MS, "the node cannot create the container"},
    {"RunContainerError", PL_POD_CONFIG_MS, "the node cannot start the container"},
    {"PreStartHookError", PL_POD_CONFIG_MS, "the node cannot start the container"},
    {"CrashLoopBackOff", -1, ""},
    {"ContainerCreating", -1, ""},
    {"PodInitializing", -1, ""},
};

/* Explains what the node is doing before it has created the containers; only events tell. */
static void wait_for_containers(struct look *l)
{
    static const char *const troubles[] = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox",
                                           "FailedPrepareDynamicResources"},
                             *const steps[] = {"Pulling"};
    const json_t *event = newest_event(l, troubles, PL_ARRAY_SIZE(troubles));

    event = event != NULL ? event : newest_event(l, steps, 1);
    if (event != NULL)
        say(l, PL_POD_WAITS, "node %s: %.500s", words(l->to->node != NULL ? l->to->node : "", "?"), event_words(event));
    else
        say(l, PL_POD_WAITS, "node %s is creating the pod's containers", words(l->to->node != NULL ? l->to->node : "", "?"));
}

/* True if the container waits for a reason of table `waiting_reasons`; then sets the pod's state. */
static bool container_waits(struct look *l, const char *list, const json_t *status)
{
    static const char *const pulls[] = {"Failed", "FailedToPullImage"};
    const json_t *waiting = json_object_get(json_object_get(status, "state"), "waiting"), *event;
    const char *reason = pl_json_str(waiting, "reason"), *message = pl_json_str(waiting, "message"),
               *name = pl_json_str(status, "name"), *image = pl_json_str(named(json_object_get(l->spec, list), name), "image");

    for (size_t i = 0; i < PL_ARRAY_SIZE(waiting_reasons); i++) {
        int64_t waited_ms = l->asked->waited_ms;

        if (!pl_streq(waiting_reasons[i].reason, reason) || waiting_reasons[i].patience_ms < 0)
            continue;
        event =
            /* an event's text instead of ImagePullBackOff's own message, which only says that the node
             * waits */
            pl_streq(reason, "ImagePullBackOff") ? newest_event(l, pulls, PL_ARRAY_SIZE(pulls)) : NULL;
        message = words(event_words(event), message);
        l->to->no_image = waiting_reasons[i].patience_ms == PL_POD_PULL_MS && pl_streq(name, "main");
        if (l->to->no_image)
            waited_ms = PL_MAX(waited_ms, l->asked->no_image_ms);
        if (waited_ms < waiting_reasons[i].patience_ms)
            say(l, PL_POD_WAITS, "%s of %s: %.500s", reason, name, words(message, image));
        else
            say(l, PL_POD_GIVEN_UP, "%s of %s: %.400s: %s", reason, name, words(message, image), waiting_reasons[i].remedy);
        return true;
    }
    return false;
}

static void wait_on_node(struct look *l)
{
    static const char *const lists[][2] = {{"initContainerStatuses", "initContainers"}, {"containerStatuses", "containers"}};
    const json_t *status;
    size_t i;

    for (size_t k = 0; k < PL_ARRAY_SIZE(lists); k++) {
        json_array_foreach(json_object_get(l->status, lists[k][0]), i, status)
        {
            if (container_waits(l, lists[k][1], status))
                return;
        }
    }
    wait_for_containers(l);
}

/* ---- how the pod ended ---- */

/* Says that the cluster took the pod away, and why. */
static void preempted(struct look *l, const char *reason, const char *message)
{
    say(l, PL_POD_ELSEWHERE, "its pod was preempted: %s: %.540s", reason, words(message, "the cluster gives no details"));
    l->to->disrupted = true;
}

/* Reasons with which the node or the scheduler ends a whole pod. `prefix`: the pod's reason only begins with
 * this text, as in "OutOfcpu" or "OutOfnvidia.com/gpu". `disrupts`: the pod was taken away; the other reasons
 * are those of a node that refuses the pod. */
static const struct {
    const char *reason;
    bool prefix, disrupts;
    enum pl_pod_verdict verdict;
} pod_reasons[] = {
    {"Evicted", false, true, PL_POD_ELSEWHERE},
    {"NodeLost", false, true, PL_POD_ELSEWHERE},
    {"Preempt", true, true, PL_POD_ELSEWHERE}, /* for Preempted and Preempting */
    {"Shutdown", false, true, PL_POD_ELSEWHERE},
    {"NodeShutdown", false, false, PL_POD_ELSEWHERE},
    {"Terminated", false, true, PL_POD_ELSEWHERE},
    {"UnexpectedAdmissionError", false, false, PL_POD_ELSEWHERE},
    {"OutOf", true, false, PL_POD_ELSEWHERE},
    {"NodeAffinity", false, false, PL_POD_ELSEWHERE},
    {"NodeName", false, false, PL_POD_ELSEWHERE},
    {"NodePorts", false, false, PL_POD_ELSEWHERE},
    {"AdmissionError", true, false, PL_POD_ELSEWHERE},
    {"TopologyAffinityError", false, false, PL_POD_ELSEWHERE},
    {"ContainerStatusUnknown", false, true, PL_POD_ELSEWHERE},
    {"DeadlineExceeded", false, false, PL_POD_FAILED},
};

/* Parts of the messages with which a kubelet evicts a pod that exceeded a limit of its own, or what it had
 * requested, and what the stage must change. A message must have both parts. */
static const struct {
    const char *part, *and, *remedy;
} own_evictions[] = {
    {"Usage of EmptyDir volume \"shm\" exceeds", "", "the command needs more shared memory: increase resources.shm"},
    {"Usage of EmptyDir volume", "", "the stage needs more disk: increase resources.disk"},
    {"ephemeral local storage usage exceeds", "", "the stage needs more disk: increase resources.disk"},
    {"exceeded its local ephemeral storage limit", "", "the stage needs more disk: increase resources.disk"},
    {"low on resource: ephemeral-storage", "ontainer main was using", "the stage needs more disk: increase resources.disk"},
};

/* Handles the eviction of a pod that exceeded a limit of its own: the stage would be evicted on every node. */
static bool evicted_by_own_fault(struct look *l, const char *message)
{
    size_t n = strlen(message);

    while (n > 0 && (message[n - 1] == ' ' || message[n - 1] == '.'))
        n--;
    for (size_t i = 0; i < PL_ARRAY_SIZE(own_evictions); i++) {
        if (!strstr(message, own_evictions[i].part) || !strstr(message, own_evictions[i].and))
            continue;
        say(l, PL_POD_FAILED, "Evicted: %.*s: %s", (int)PL_MIN(n, (size_t)500), message, own_evictions[i].remedy);
        return true;
    }
    /* a node without memory evicts who uses the most beyond its request; that may happen on each node, so it is
     * a loss with a limit */
    if (strstr(message, "low on resource: memory") && strstr(message, "ontainer main was using")) {
        say(l, PL_POD_ELSEWHERE, "Evicted: %.*s", (int)PL_MIN(n, (size_t)500), message);
        return true;
    }
    return false;
}

static bool ended_by_reason(struct look *l)
{
    const char *reason = pl_json_str(l->status, "reason"), *message = pl_json_str(l->status, "message");

    if (pl_streq(reason, "Evicted") && evicted_by_own_fault(l, message))
        return true;
    for (size_t i = 0; i < PL_ARRAY_SIZE(pod_reasons) && reason[0] != '\0'; i++) {
        size_t n = strlen(pod_reasons[i].reason);

        if (strncmp(reason, pod_reasons[i].reason, n) != 0 || (!pod_reasons[i].prefix && reason[n] != '\0'))
            continue;
        if (pod_reasons[i].disrupts)
            preempted(l, reason, message);
        else
            say(l, pod_reasons[i].verdict, "%s: %.580s", reason, words(message, "the cluster gives no details"));
        return true;
    }
    return false;
}

/* Handles the condition DisruptionTarget, with reasons such as PreemptionByScheduler, DeletionByTaintManager,
 * EvictionByEvictionAPI, DeletionByPodGC, TerminationByKubelet. */
static bool ended_by_disruption(struct look *l)
{
    const json_t *disrupted = condition(l, "DisruptionTarget");

    if (!pl_streq(pl_json_str(disrupted, "status"), "True"))
        return false;
    /* a kubelet names its reason here, too, and this look may be at a status without the pod's own reason */
    if (pl_streq(pl_json_str(disrupted, "reason"), "TerminationByKubelet") &&
        evicted_by_own_fault(l, pl_json_str(disrupted, "message")))
        return true;
    preempted(l, pl_json_str(disrupted, "reason"), pl_json_str(disrupted, "message"));
    return true;
}

static void was_deleted(struct look *l)
{
    say(l, PL_POD_ELSEWHERE, "its pod was deleted");
    l->to->disrupted = true;
}

/* Explains which limit the command exceeded: that of the stage, a LimitRange or a webhook, or the node's
 * memory. */
static void ran_out_of_memory(struct look *l)
{
    const json_t *main = named(json_object_get(l->spec, "containers"), "main");
    const char *limit = pl_json_str(json_object_get(json_object_get(main, "resources"), "limits"), "memory"),
               *ranger =
                   pl_json_str(json_object_get(json_object_get(l->pod, "metadata"), "annotations"), "kubernetes.io/limit-ranger"),
               *namespace = pl_json_str(json_object_get(l->pod, "metadata"), "namespace");
    int64_t bytes = 0;

    if (limit[0] == '\0' || pl_quantity_bytes(limit, &bytes, NULL) < 0)
        say(l, PL_POD_FAILED, "OOMKilled: node %s had no memory left, and the stage has no limit: set resources.memory",
            words(l->to->node != NULL ? l->to->node : "", "?"));
    else if (l->asked->memory_bytes == bytes)
        say(l, PL_POD_FAILED, "OOMKilled: the command needs more than the %s of its resources.memory", limit);
    else if (strstr(ranger, "memory limit for container main") != NULL || l->asked->memory_bytes == 0)
        say(l, PL_POD_FAILED,
            "OOMKilled: the command needs more than %s, the limit that %s of namespace %s sets: set resources.memory", limit,
            ranger[0] != '\0' ? "a LimitRange" : "a LimitRange or webhook", namespace);
    else
        say(l, PL_POD_FAILED,
            "OOMKilled: the command needs more than %s, the limit by which a patch or webhook replaced resources.memory", limit);
}

/* Handles a container that could not be started. If its image is wrong, the pod is given up, because the
 * container would not start on another node either; otherwise the cause is the node. */
static void did_not_start(struct look *l, const char *container, const json_t *end)
{
    static const char *const stubborn[] = {"no such file or directory", "permission denied", "executable file not found",
                                           "not a directory"};
    const char *message = pl_json_str(end, "message");

    if (strstr(message, "exec format error") != NULL) {
        say(l, PL_POD_GIVEN_UP, "%s of %s: %.400s: the image is for another architecture than node %s: set placement.arch",
            pl_json_str(end, "reason"), container, message, words(l->to->node != NULL ? l->to->node : "", "?"));
        return;
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(stubborn); i++) {
        if (strstr(message, stubborn[i]) != NULL) {
            say(l, PL_POD_GIVEN_UP, "%s of %s: %.560s", pl_json_str(end, "reason"), container, message);
            return;
        }
    }
    say(l, PL_POD_ELSEWHERE, "%s of %s: %.560s", pl_json_str(end, "reason"), container,
        words(message, "the cluster gives no details"));
}

/* Evaluates how one container terminated. Returns true if that determines the result of the pod. */
static bool container_ended(struct look *l, const char *container, const json_t *end)
{
    const char *reason = pl_json_str(end, "reason");
    int code = (int)json_integer_value(json_object_get(end, "exitCode"));
    const char *printed = pl_json_str(end, "message"); /* end of a failed container's output */
    char message[512];

    pl_log_tail(printed, strlen(printed), strlen(printed) >= PL_LOG_TAIL_BYTES, message, sizeof message);
    if (pl_streq(reason, "StartError") || pl_streq(reason, "ContainerCannotRun"))
        did_not_start(l, container, end);
    else if (pl_streq(reason, "OOMKilled") && pl_streq(container, "main"))
        ran_out_of_memory(l);
    else if (pl_streq(reason, "OOMKilled"))
        say(l, PL_POD_ELSEWHERE, "%s ran out of memory: increase the daemon's setting for agent memory", container);
    else if (pl_streq(reason, "DeadlineExceeded"))
        say(l, PL_POD_FAILED, "DeadlineExceeded: %.560s", words(message, "the pod exceeded its activeDeadlineSeconds"));
    else if (pl_streq(reason, "ContainerStatusUnknown"))
        preempted(l, reason, words(message, "its node is gone"));
    else if (code == 137)
        say(l, PL_POD_ELSEWHERE, "%s was killed%s%.500s", container, message[0] != '\0' ? ": " : "", message);
    else if (code != 0)
        say(l, PL_POD_ELSEWHERE, "%s ended with exit code %d%s%.500s", container, code, message[0] != '\0' ? ": " : "", message);
    else
        return false;
    return true;
}

/* True for an init container with restartPolicy Always (a sidecar, such as a mesh's proxy): it is restarted
 * when it fails, and its exit code at the pod's end means nothing. */
static bool runs_beside(const struct look *l, const char *init)
{
    return pl_streq(pl_json_str(named(json_object_get(l->spec, "initContainers"), init), "restartPolicy"), "Always");
}

static const json_t *failed_init(const struct look *l, const char **ret_name)
{
    const json_t *status, *end;
    size_t i;

    json_array_foreach(json_object_get(l->status, "initContainerStatuses"), i, status)
    {
        end = json_object_get(json_object_get(status, "state"), "terminated");
        *ret_name = pl_json_str(status, "name");
        if (end != NULL && json_integer_value(json_object_get(end, "exitCode")) != 0 && !runs_beside(l, *ret_name))
            return end;
    }
    return NULL;
}

/* True if the container has ended with a failure. If the agent has failed, the results of the command are
 * lost, and the runner soon ends the command. */
static bool failed(const json_t *end)
{
    return end != NULL && json_integer_value(json_object_get(end, "exitCode")) != 0;
}

/* True if the agent has failed by itself. If the node kills all of a pod, its agent may be seen ended first, in
 * a status that does not say yet why: wait for main's end, with which the pod's own reason comes. */
static bool agent_failed(const json_t *agent)
{
    return failed(agent) &&
           !(json_integer_value(json_object_get(agent, "exitCode")) == 137 && pl_streq(pl_json_str(agent, "reason"), "Error"));
}

/* True if the runner in container main ended only because the agent had failed: then the reason why the
 * agent terminated explains why the pod ended. */
static bool left_by_agent(const json_t *main, const json_t *agent)
{
    return failed(agent) && json_integer_value(json_object_get(main, "exitCode")) == RUNNER_LEFT_ALONE;
}

/* Determines what ended a pod of which a container has ended. */
static void ended_by_container(struct look *l)
{
    const json_t *main = terminated(l, "main"), *agent = terminated(l, "agent"), *init;
    const char *name = "install";

    init = failed_init(l, &name);
    if (init != NULL && container_ended(l, name, init))
        return;
    if (left_by_agent(main, agent) && container_ended(l, "agent", agent))
        return;
    if (failed(main) && container_ended(l, "main", main))
        return;
    if (agent != NULL && container_ended(l, "agent", agent))
        return;
    if (main == NULL && agent == NULL)
        say(l, PL_POD_ELSEWHERE, "%s: %.560s", words(pl_json_str(l->status, "phase"), "it ended"),
            words(pl_json_str(l->status, "message"), "the cluster gives no details"));
}

/* Determines the state of a pod that has ended, or that will end because a container failed. Evictions and
 * other actions of the cluster on the pod are examined first, because they are the cause if its containers
 * terminated. The containers of a deleted pod were told to end, unless the command did so on its own. */
static void ended(struct look *l)
{
    l->to->verdict = PL_POD_OVER;
    if (ended_by_reason(l) || ended_by_disruption(l))
        return;
    ended_by_container(l);
    if (l->to->deleted && (l->to->verdict == PL_POD_OVER || l->to->verdict == PL_POD_ELSEWHERE))
        was_deleted(l);
}

/* Handles a pod that was deleted before its containers ran. The pod is not waited for: its containers will
 * not be started, and on a lost node the pod may stay for ever. */
static void leaves(struct look *l)
{
    if (!ended_by_disruption(l))
        was_deleted(l);
}

/* Examines the states of the containers besides the pod's phase, because the phase may change late. */
void pl_pod_state(const json_t *pod, const json_t *events, const struct pl_pod_asked *asked, struct pl_pod_state *ret)
{
    struct look l = {pod, json_object_get(pod, "spec"), json_object_get(pod, "status"), events, asked, ret};
    const char *phase = pl_json_str(l.status, "phase"), *node = pl_json_str(l.spec, "nodeName");
    const json_t *main = terminated(&l, "main"), *agent = terminated(&l, "agent"), *init;
    const char *image = pl_json_str(named(json_object_get(l.status, "containerStatuses"), "main"), "imageID"), *name;

    *ret = (struct pl_pod_state){.exit_code = -1};
    ret->node = node[0] != '\0' ? node : NULL;
    ret->image = image[0] != '\0' ? image : NULL;
    ret->bound = ret->node != NULL;
    ret->deleted = json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") != NULL;
    if (main != NULL)
        ret->exit_code = (int)json_integer_value(json_object_get(main, "exitCode"));
    init = failed_init(&l, &name);
    if (pl_streq(phase, "Failed") || pl_streq(phase, "Succeeded") || (main != NULL && agent != NULL) || init != NULL ||
        agent_failed(agent))
        ended(&l);
    else if (main != NULL || agent != NULL || state_of(&l, "containerStatuses", "main", "running") != NULL)
        ret->verdict = PL_POD_RUNS;
    else if (ret->deleted)
        leaves(&l);
    else if (ret->bound)
        wait_on_node(&l);
    else
        wait_for_node(&l);
    if (ret->verdict == PL_POD_RUNS && main == NULL && agent == NULL && ended_by_disruption(&l))
        /* the pod still runs, although its disruption was announced: keep only the reason */
        ret->verdict = PL_POD_RUNS;
}

const char *pl_pod_verdict_name(enum pl_pod_verdict verdict)
{
    static const char *const names[] = {"waits", "runs", "over", "failed", "elsewhere", "given up"};

    return names[verdict];
}
