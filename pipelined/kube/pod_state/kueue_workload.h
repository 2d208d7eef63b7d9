/* kueue_workload: reads why Kueue holds a pod back, from the Workload object that Kueue makes for the pod
 * (kueue.x-k8s.io/v1beta1). Pure. */
#pragma once

#include "storage/base/base.h"

#include <jansson.h>

#define PL_KUEUE_WORKLOAD_PATH_MAX 700

/* Makes the path, with query, that lists at most one Workload of the pod with that uid. */
void pl_kueue_workload_path(const char *space, const char *pod_uid, char ret[PL_KUEUE_WORKLOAD_PATH_MAX]);
/* Writes why the pod is not admitted, in Kueue's words, from the list in the answer; "" if the list does not
 * say. The text is cut at a character boundary. */
void pl_kueue_workload_reason(const json_t *list, char *out, size_t size);
