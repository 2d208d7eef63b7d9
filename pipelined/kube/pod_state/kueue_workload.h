/* workload: what Kueue says of a pod that it holds back: the Workload that it makes for it (kueue.x-k8s.io/v1beta1). Pure but for the path. */
#pragma once

#include "storage/base/base.h"

#include <jansson.h>

#define PL_KUEUE_WORKLOAD_PATH_MAX 700

/* The path and query of the Workloads of the pod with that uid in a namespace, one at most. */
void pl_kueue_workload_path(const char *space, const char *pod_uid, char ret[PL_KUEUE_WORKLOAD_PATH_MAX]);
/* Of such a list: why the pod is not admitted, in Kueue's words; "" when it says nothing. Cut at a whole character. */
void pl_kueue_workload_reason(const json_t *list, char *out, size_t size);
