/* kube/pod_state: What a pod's state means and who has to act; how many pods may be pending. Pure.
 *
 * In:      A pod and its events.
 * Out:     The state of the pod, and a sentence that explains it.
 * Uses:    text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   image_wait         for how long the image of a stage could not be pulled
 *   kueue_workload     why Kueue holds a pod back
 *   log_tail           end of a container's log as part of a sentence
 *   pending_pod_limit  how many pods of one shape may be pending
 *
 * pl_pod_state derives one of these states and one sentence from the pod's JSON and its events. The sentence
 * quotes the cluster's message if there is one.
 *
 *   waits ─────▶ runs ─────▶ over          both containers have ended: what the agent reported counts
 *     │  └────────┴────────▶ failed        caused by the command (memory, disk, time limit): counts as a try
 *     │  └────────┴────────▶ elsewhere     node lost, evicted, preempted, refused by the node: retried on another
 *     │                                    node, does not count as a try
 *     └────────────────────▶ given up      no other pod of the stage would do better (no such image): the stage
 *                                          must change
 *
 * A short pod may never be seen running: waits → over. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_POD_WHY_BYTES 640
/* waiting time for an image that cannot be pulled, because registries recover */
#define PL_POD_PULL_MS   600000
#define PL_POD_CONFIG_MS 120000 /* waiting time for a missing Secret or ConfigMap */

enum pl_pod_verdict { PL_POD_WAITS, PL_POD_RUNS, PL_POD_OVER, PL_POD_FAILED, PL_POD_ELSEWHERE, PL_POD_GIVEN_UP };

/* Facts that the pod's JSON does not have. */
struct pl_pod_asked {
    int64_t memory_bytes; /* memory limit that the stage requested; 0 = none */
    /* ms for which the pod's containers have waited for the same reason, by the caller's clock */
    int64_t waited_ms;
    /* ms for which no pod of the stage could pull the stage's image (image_wait.h); 0 = it is not known that they
     * cannot */
    int64_t no_image_ms;
    const char *queue_says; /* why Kueue has not admitted the pod (kueue_workload.h); NULL = unknown */
};

struct pl_pod_state {
    enum pl_pod_verdict verdict;
    bool bound;     /* the pod has a node */
    bool deleted;   /* the pod's deletion was requested */
    bool disrupted; /* the cluster took the pod away: preempted, evicted, drained, deleted, or its node is gone */
    bool queued;    /* a Kueue queue holds the pod back */
    bool no_image;  /* the pod waits for the image of container main, which could not be pulled so far */
    bool no_growth; /* the cluster's autoscaler will not add a node for the pod */
    int exit_code;  /* exit code of container main; -1 = the container has not ended */
    /* Name of the pod's node, and image of container main as the node resolved it. Both point into the pod's
     * JSON; NULL = unknown. */
    const char *node, *image;
    char why[PL_POD_WHY_BYTES]; /* sentence that explains the pod's state; "" if the pod runs or ended normally */
};

/* Determines the state of the pod. `events`: a list of v1 or events.k8s.io/v1 events of this pod in any
 * order; may be NULL. */
void pl_pod_state(const json_t *pod, const json_t *events, const struct pl_pod_asked *asked, struct pl_pod_state *ret);
/* Returns "waits", "runs", "over", … */
const char *pl_pod_verdict_name(enum pl_pod_verdict verdict);
