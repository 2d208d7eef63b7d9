/* cluster_state: what is known of the cluster that runs the pods: the capacity of its nodes, the rules of the
 * namespace, the API groups that it serves. Some facts are read once; nodes and pods of others are watched.
 *
 *   create (loop) ─▶ ask (blocks: any thread) ─▶ follow (loop) ─▶ all other functions (loop) */
#pragma once

#include "pipelined/exec/kubernetes/gpu_usage.h"
#include "pipelined/exec/kubernetes/loop_informer.h"
#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/nodes/gpu_report.h"
#include "pipelined/kube/nodes/node_capacity.h"

#define PL_CLUSTER_CHANGED_MS 500 /* changes of nodes within this time are reported together */
/* Members of a pod's metadata to keep (a selection for kube_scan.h): they tell who holds GPUs and which pods
 * measure them. */
#define PL_CLUSTER_POD_KEEP                                                                                                      \
    "labels{" PL_GPU_USAGE_LABELS " pipelined.io/project pipelined.io/stage} annotations{ALIYUN_COM_GPU_MEM_IDX "                \
    "scheduler.framework.gpushare.allocation}"

/* Members of a pod's spec to keep: the resources that its init containers hold. */
#define PL_CLUSTER_HOLDS_KEEP "initContainers{name restartPolicy resources}"

struct pl_cluster;

struct pl_cluster_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    /* namespace of the stages' pods, and id of the store that they belong to; copied */
    const char *space, *store;
    /* list of node shapes that the cluster could have (node_capacity.h); NULL = none; borrowed for the
     * call */
    const json_t *gpu_shapes;
    const char *seen;            /* path of the node history file (node_history.h); copied; NULL = no history */
    void (*changed)(void *self); /* called when the offered capacity may have changed */
    void (*room)(void *self);    /* called when a quota of the namespace changed or has more room */
    void *self;
};

/* Creates the object, still without any facts. PL_EINVAL (gpu_shapes), PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_create(const struct pl_cluster_config *config, struct pl_cluster **ret, struct pl_err *err);
/* Asks the cluster for its facts and waits for the answers. A failed question is logged, and the usual answer
 * assumed. Any thread except the client's. After an error the object must be destroyed. PL_EAUTH, PL_ENET
 * (nothing could be asked), PL_EFORBIDDEN (the account may not make pods), PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_ask(struct pl_cluster *c, struct pl_err *err);
/* Begins to watch nodes, pods and limits. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_follow(struct pl_cluster *c, struct pl_err *err);
struct pl_cluster *pl_cluster_destroy(struct pl_cluster *c);
/* Returns the facts for pl_pod_render; the object owns them, and they are valid until the next change. */
const struct pl_pod_cluster *pl_cluster_facts(struct pl_cluster *c);
const struct pl_node_capacity *pl_cluster_offer(const struct pl_cluster *c);
/* Call after a quota has refused a pod; see pl_namespace_limits_refresh. */
void pl_cluster_look_at_limits(struct pl_cluster *c);
/* Schedules one call of `changed` within PL_CLUSTER_CHANGED_MS, for all requests until then. */
void pl_cluster_tell_soon(struct pl_cluster *c);
/* Reports a pod of this store, which the executor watches itself: this object watches only the pods of
 * others. `pod` has PL_CLUSTER_POD_KEEP of its metadata, its node, its containers' resources, and
 * PL_CLUSTER_HOLDS_KEEP. */
void pl_cluster_own_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod);
/* Returns the report of pl_executor_ops.gpus, with "not_measured": the reason why the use of some GPUs is
 * unknown, or "". New reference; NULL without memory. */
json_t *pl_cluster_gpus(const struct pl_cluster *c);
/* Returns how the pod used its GPUs since the last call for it; false: no measurement since then. */
bool pl_cluster_gpu_told(struct pl_cluster *c, const char *pod, struct pl_gpu_told *ret);
/* True if the daemon's account may use the feature. */
bool pl_cluster_may(const struct pl_cluster *c, enum pl_kube_feature feature);
