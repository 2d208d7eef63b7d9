/* kubernetes: workers as pods. */
#pragma once

#include "pipelined/exec/exec.h"

struct pl_pod_settings;

struct pl_exec_kubernetes_config {
    struct pl_loop *loop;
    const char *kubeconfig, *context; /* files as in KUBECONFIG, and which context; "" = as kubectl, or the pod's own account */
    struct pl_pod_settings
        *settings; /* pod_render.h; what it points to outlives the executor. namespace NULL: the context's, filled in */
    const json_t *gpu_shapes;   /* offer.h; NULL = none; outlives the executor */
    const char *data_dir;       /* DIR: nodes.json (seen_nodes.h) is below; NULL = none is kept; outlives */
    const char *const *trusted; /* projects whose specs may ask for everything; outlives */
    size_t n_trusted;
    struct pl_executor_events events;
};

/* Workers are pods. They outlive the daemon: shutdown leaves them, the next start adopts them, and those that nobody adopts are removed. Asks
 * the cluster what it must know, and waits for that; while the API server is away no shape is offered, and it is asked again until it answers.
 * PL_ENOTFOUND (no kubeconfig), PL_EAUTH, PL_ETLS, PL_EPROTO (no API server), PL_EFORBIDDEN (pods may not be made), PL_EINVAL. */
PL_MUST_CHECK
int pl_exec_kubernetes_create(const struct pl_exec_kubernetes_config *config, struct pl_executor **ret, struct pl_err *err);
