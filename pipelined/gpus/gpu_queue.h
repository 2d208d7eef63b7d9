/* gpu_queue: what a waiting job lacks, who holds it, and what would let the job start, in words.
 *
 *   entry of the queue (engine) + report on the GPUs ──▶ entry with "free", "of", "holders" and "start"
 *
 * An entry has "for" (gpu, cpu, pod, start, never), "ahead": stages that are served before it, "want": {"gpus",
 * "product": [globs], "resource"…}, and on a single machine "free", "of" and "holders". On a cluster these come from the
 * report: from the nodes whose product or resource is wanted. A holder: {"project", "stage", "run"?, "gpus",
 * "idle_since_us"?}, or {"namespace", "pod", "gpus"} of what is not ours, or {"gpus"} of what the reader may not see. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GPU_QUEUE_HOLDERS_MAX 16 /* most holders of an entry; the sentence names at most three */

struct pl_gpu_queue_reader {
    int64_t now_us;
    /* True if the reader may know of the stage, and of pods that are not ours. */
    bool (*may_see)(const void *who, const char *project, const char *stage);
    const void *who;
    bool sees_pods;
};

/* Completes the entry. `report`: {"gpus", "nodes"} as GET /api/v1/gpus shows them, not yet stripped of what the reader may not
 * see. PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_queue_explain(json_t *entry, const json_t *report, const struct pl_gpu_queue_reader *reader, struct pl_err *err);
/* True if the product, as a driver or a node's label spells it, matches one of the globs; without globs any does. */
bool pl_gpu_queue_matches(const json_t *globs, const char *product);
