/* kueue_workload.c: selects the condition of a Workload that best explains why the pod waits, and copies
 * its message. */
#include "pipelined/kube/pod_state/kueue_workload.h"

#include "pipelined/kube/pod_state/log_tail.h"
#include "pipelined/text/json_text.h"

#include <stdio.h>

void pl_kueue_workload_path(const char *space, const char *pod_uid, char ret[PL_KUEUE_WORKLOAD_PATH_MAX])
{
    (void)snprintf(
        ret, PL_KUEUE_WORKLOAD_PATH_MAX,
        "/apis/kueue.x-k8s.io/v1beta1/namespaces/%.253s/workloads?limit=1&labelSelector=kueue.x-k8s.io%%2Fjob-uid%%3D%.63s",
        space, pod_uid);
}

/* Returns the message of the condition with this type and status; "" = none. */
static const char *message_of(const json_t *conditions, const char *type, const char *status)
{
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)conditions, i, one)
    {
        if (pl_streq(pl_json_str(one, "type"), type) && pl_streq(pl_json_str(one, "status"), status))
            return pl_json_str(one, "message");
    }
    return "";
}

void pl_kueue_workload_reason(const json_t *list, char *out, size_t size)
{
    /* Conditions that say why the pod waits, in the order in which they are tried: no quota is reserved;
     * quota is reserved, but an admission check is pending; the pod was preempted. */
    static const char *const telling[][2] = {{"QuotaReserved", "False"}, {"Admitted", "False"}, {"Evicted", "True"}};
    const json_t *workload = json_array_get(json_object_get(list, "items"), 0),
                 *conditions = json_object_get(json_object_get(workload, "status"), "conditions");
    const char *message = "";

    for (size_t i = 0; i < PL_ARRAY_SIZE(telling) && *message == '\0'; i++)
        message = message_of(conditions, telling[i][0], telling[i][1]);
    pl_log_tail(message, strlen(message), false, out, size);
}
