/* exec/kubernetes: Workers as pods: creates, watches, judges and deletes them.
 *
 * In:      Orders of the engine; events of the cluster.
 * Out:     Pods, and the reason why one waits.
 * Uses:    exec, policy, spec, text, kube/{client, nodes, pod, pod_state, watch}, net/loop, storage/{base, system}
 * Threads: The event loop; requests on the I/O thread.
 *
 * Inside:
 *   cluster_discovery   what must be known before the first pod, with retries
 *   cluster_state       nodes, permissions and interfaces of the cluster
 *   gpu_usage           GPU utilization from dcgm-exporter
 *   kueue_pending       pods that a Kueue queue holds back
 *   loop_informer       delivers informer events on the event loop
 *   namespace_limits    resource quotas and limit ranges of the namespace
 *   node_history        remembers node types of the last 30 days
 *   owner_object        the ConfigMap that owns all pods
 *   pod_attach_timeout  pods that run but whose agent does not attach
 *   pod_dry_run         asks the API server whether it would accept a stage's pods
 *   pod_logs            reads container logs for clients
 *   pod_poll            picks the pods to inspect next
 *   pod_shapes          pods of one shape: rendered once, checked, limited
 *   project_secrets     project secrets in the namespace of the pods
 *   worker_pod          one worker's pod: create, watch, judge, delete; shared state of the executor */

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
