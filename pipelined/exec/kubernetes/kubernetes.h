/* exec/kubernetes: Workers as pods: creates, watches, evaluates and deletes them.
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
 *   outage              notices that the API server, or the right to use it, is gone
 *   owner_object        the ConfigMap that owns all pods, and the Events about it
 *   pod_attach_timeout  pods that run but whose agent does not attach
 *   pod_dry_run         asks the API server whether it would accept a stage's pods
 *   pod_logs            reads container logs for clients
 *   pod_poll            queues of requests to the API server about single pods
 *   pod_shapes          groups pods that need the same of a node; limits pending pods
 *   project_secrets     project secrets in the namespace of the pods
 *   worker_pod          one worker's pod: create, watch, evaluate, delete; shared state of the executor */
#pragma once

#include "pipelined/exec/exec.h"

struct pl_pod_settings;

struct pl_exec_kubernetes_config {
    struct pl_loop *loop;
    /* kubeconfig files (as in KUBECONFIG) and the name of a context; "" = kubectl's defaults, or inside a pod
     * its service account */
    const char *kubeconfig, *context;
    /* pod settings (pod_render.h); all strings and objects in the settings must outlive the executor; a
     * `namespace` of NULL is replaced by the context's namespace */
    struct pl_pod_settings *settings;
    /* list of the shapes of nodes that the cluster could add (node_capacity.h); NULL = none; must outlive the
     * executor */
    const json_t *gpu_shapes;
    /* folder for nodes.json (node_history.h); NULL = no history; must outlive the executor */
    const char *data_dir;
    /* names of trusted projects, whose specs may request everything; must outlive the executor */
    const char *const *trusted;
    size_t n_trusted;
    /* number of this start of the daemon; the workers that it starts have ids above epoch << 32 */
    uint64_t epoch;
    /* Called on the loop. With `look`: the cluster has a new pod of this store that a later start made, by which another
     * daemon may have taken over the store; the caller must find out soon. Returns true once it is known that none has, and
     * false until then; meanwhile no pod is created or deleted. Must not block. NULL: none ever does. */
    bool (*is_owner)(void *arg, bool look);
    void *is_owner_arg;
    struct pl_executor_events events;
};

/* Creates the executor: asks the cluster for what it must know and waits for the answers. If the API server
 * is unreachable the executor is created anyway; it offers no shape until the server answers. Pods outlive
 * the daemon: shutdown leaves them running, and the next daemon adopts them. Its first listing of the pods
 * removes those of its own and of earlier starts that have no worker. A pod of a later start is never deleted; if one
 * is seen, pods are neither created nor deleted until the log was found to be still this daemon's.
 * PL_ENOTFOUND (no kubeconfig), PL_EAUTH, PL_ETLS, PL_EPROTO (not an API server), PL_EFORBIDDEN (the
 * account may not create pods), PL_EINVAL. */
PL_MUST_CHECK
int pl_exec_kubernetes_create(const struct pl_exec_kubernetes_config *config, struct pl_executor **ret, struct pl_err *err);
