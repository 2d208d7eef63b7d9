/* cluster_state: what is known of the cluster that runs the pods: the capacity of its nodes, the limits of
 * the namespace, the API groups that the server offers. Some facts are read once; nodes, and pods that are
 * not this store's, are watched. The functions are called in this order: create (on the loop), ask (blocks;
 * any thread), follow (on the loop), then all others (on the loop). */
#pragma once

#include "pipelined/exec/kubernetes/gpu_usage.h"
#include "pipelined/exec/kubernetes/loop_informer.h"
#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/nodes/gpu_report.h"
#include "pipelined/kube/nodes/node_capacity.h"

#define PL_CLUSTER_CHANGED_MS 500 /* changes of nodes within this time cause one report */
/* first pause between two listings of the runtime classes; doubles up to PL_CLUSTER_CLASSES_MOST_MS */
#define PL_CLUSTER_CLASSES_MS       4000
#define PL_CLUSTER_CLASSES_MOST_MS  60000
#define PL_CLUSTER_OWN_LIMITS_BYTES 512
/* Members of a pod's metadata to keep (a selection for kube_scan.h). From these members the object knows
 * which stage holds the pod's GPUs, and whether the pod measures GPU use. */
#define PL_CLUSTER_POD_KEEP                                                                                                      \
    "labels{" PL_GPU_USAGE_LABELS " pipelined.io/project pipelined.io/stage} annotations{ALIYUN_COM_GPU_MEM_IDX "                \
    "scheduler.framework.gpushare.allocation}"

/* Members of a pod's spec to keep: the resources that its init containers request. */
#define PL_CLUSTER_HOLDS_KEEP "initContainers{name restartPolicy resources}"

struct pl_cluster;

struct pl_cluster_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    /* namespace of the stages' pods, and id of this daemon's store, which its pods carry as a label;
     * copied */
    const char *space, *store;
    /* list of the shapes of nodes that the cluster could add (node_capacity.h); NULL = none; borrowed during
     * the call */
    const json_t *gpu_shapes;
    const char *seen;            /* path of the node history file (node_history.h); copied; NULL = no history */
    void (*changed)(void *self); /* called when the capacity that the cluster offers may have changed */
    void (*room)(void *self);    /* called when a quota of the namespace changed or has more room */
    void *self;
};

/* Creates the object, which contains no facts so far. PL_EINVAL (gpu_shapes), PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_create(const struct pl_cluster_config *config, struct pl_cluster **ret, struct pl_err *err);
/* Asks the cluster for its facts and waits for the answers. A failed request is logged, and the fact keeps
 * its default. May be called on any thread except the client's I/O thread. After an error the object must be
 * destroyed. PL_EAUTH, PL_ENET (no request succeeded), PL_EFORBIDDEN (the account may not create pods),
 * PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_ask(struct pl_cluster *c, struct pl_err *err);
/* Begins to watch nodes, pods and limits. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_follow(struct pl_cluster *c, struct pl_err *err);
struct pl_cluster *pl_cluster_destroy(struct pl_cluster *c);
/* Returns the facts that pl_pod_render needs; the object owns them, and they are valid until the next
 * change. */
const struct pl_pod_cluster *pl_cluster_facts(struct pl_cluster *c);
const struct pl_node_capacity *pl_cluster_offer(const struct pl_cluster *c);
/* Call this after a quota has refused a pod; see pl_namespace_limits_refresh. */
void pl_cluster_look_at_limits(struct pl_cluster *c);
/* If the namespace's limits refuse every pod because of pipelined's own containers, as they are in `pod`, writes which
 * container that is and what to do to `out` ("" otherwise). The API server's refusal names neither. */
void pl_cluster_own_limits(const struct pl_cluster *c, const json_t *pod, char out[PL_CLUSTER_OWN_LIMITS_BYTES]);
/* Call this at each timer tick. `lacking`: number of pod shapes that wait for a runtime class. While there are any, lists
 * the runtime classes again, if the account may, with a pause that doubles from PL_CLUSTER_CLASSES_MS up to
 * PL_CLUSTER_CLASSES_MOST_MS; it starts anew if more shapes wait. */
void pl_cluster_refresh_runtime_classes(struct pl_cluster *c, size_t lacking);
/* Schedules a call of `changed` within PL_CLUSTER_CHANGED_MS; further requests until then are covered by the
 * same call. */
void pl_cluster_tell_soon(struct pl_cluster *c);
/* Informs the object of a change to a pod of this store. The executor watches the pods of its own store; the
 * object watches only all other pods. `pod` has the members PL_CLUSTER_POD_KEEP of its metadata, its node,
 * its containers' resources, and PL_CLUSTER_HOLDS_KEEP. */
void pl_cluster_own_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod);
/* Returns the report of pl_executor_ops.gpus, with "not_measured": the reason why the use of some GPUs is
 * unknown, or "". New reference; NULL without memory. */
json_t *pl_cluster_gpus(const struct pl_cluster *c);
/* Returns how the pod used its GPUs since the last call for this pod; false if there was no measurement since
 * then. */
bool pl_cluster_gpu_told(struct pl_cluster *c, const char *pod, struct pl_gpu_told *ret);
/* Returns true if the daemon's account may use the feature. */
bool pl_cluster_may(const struct pl_cluster *c, enum pl_kube_feature feature);
