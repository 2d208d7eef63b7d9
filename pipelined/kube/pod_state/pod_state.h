/* kube/pod_state: What a pod's state means and who has to act; how many pods may be pending. Pure.
 *
 * In:      A pod and its events.
 * Out:     A verdict and a sentence.
 * Uses:    text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   kueue_workload     why Kueue holds a pod back
 *   log_tail           end of a container's log as part of a sentence
 *   pending_pod_limit  how many pods of one shape may be pending */

/* pod_state: what is the matter with a worker's pod, and whose business it is. Pure: the pod's JSON and its events in, a verdict and one
 * sentence out, in the cluster's words where it has any.
 *
 *   waits ─────▶ runs ─────▶ over          main and agent have ended, whatever the phase: what the agent reported counts
 *     │  └────────┴────────▶ failed        the user's doing (out of memory, out of its own time): a try is used
 *     │  └────────┴────────▶ elsewhere     node lost, evicted, preempted, refused by the node: again on another, no try is used
 *     └────────────────────▶ given up      what no other pod of the stage would do better (no such image): the stage must change
 *
 * Short pods are never seen running: waits → over. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_POD_WHY_BYTES 640
#define PL_POD_PULL_MS   600000 /* an image that cannot be had is waited for: registries come back */
#define PL_POD_CONFIG_MS 120000 /* the same of a Secret or ConfigMap */

enum pl_pod_verdict { PL_POD_WAITS, PL_POD_RUNS, PL_POD_OVER, PL_POD_FAILED, PL_POD_ELSEWHERE, PL_POD_GIVEN_UP };

/* What the pod cannot tell of itself. */
struct pl_pod_asked {
    int64_t memory_bytes;   /* limit that the stage asked for; 0 = none */
    int64_t waited_ms;      /* how long its containers wait for one thing, by the caller's clock */
    const char *queue_says; /* why its queue has not admitted it (workload.h); NULL: not known */
};

struct pl_pod_state {
    enum pl_pod_verdict verdict;
    bool bound;                 /* has a node */
    bool deleted;               /* somebody has asked for its end */
    bool queued;                /* a queue of Kueue holds it back */
    bool no_growth;             /* the cluster's autoscaler says that it will not grow for it */
    int exit_code;              /* of main; -1 = it has none */
    const char *node, *image;   /* of the pod's JSON; NULL; image: main's, as the node resolved it */
    char why[PL_POD_WHY_BYTES]; /* "" when it runs or is over as it should be */
};

/* `events` (a list of v1 or events.k8s.io/v1 events of this pod, in any order) may be NULL. */
void pl_pod_state(const json_t *pod, const json_t *events, const struct pl_pod_asked *asked, struct pl_pod_state *ret);
/* "waits", "runs", … */
const char *pl_pod_verdict_name(enum pl_pod_verdict verdict);
