/* cluster: what is known of the cluster that pods run on: what its nodes can offer, what a namespace enforces, which interfaces it serves.
 * Asked once; nodes and others' pods are followed.
 *
 *   create (loop) ─▶ ask (blocks: any thread) ─▶ follow (loop) ─▶ whatever else (loop)
 */
#pragma once

#include "pipelined/exec/kubernetes/gpu_usage.h"
#include "pipelined/exec/kubernetes/loop_informer.h"
#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/nodes/gpu_report.h"
#include "pipelined/kube/nodes/node_capacity.h"

#define PL_CLUSTER_CHANGED_MS 500 /* changes of nodes are told together */
/* Of pods' metadata (kube_scan.h): whose GPUs they hold, and whether they measure them. */
#define PL_CLUSTER_POD_KEEP                                                                                                      \
    "labels{" PL_GPU_USAGE_LABELS " pipelined.io/project pipelined.io/stage} annotations{ALIYUN_COM_GPU_MEM_IDX "                \
    "scheduler.framework.gpushare.allocation}"

/* Of a pod's specification: what it holds. */
#define PL_CLUSTER_HOLDS_KEEP "initContainers{name restartPolicy resources}"

struct pl_cluster;

struct pl_cluster_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space, *store;   /* copied; of the stages' pods, and whose pods they are */
    const json_t *gpu_shapes;    /* list of shapes that nodes could have (offer.h); NULL = none; borrowed for the call */
    const char *seen;            /* file of what nodes were seen (seen_nodes.h); copied; NULL = none is kept */
    void (*changed)(void *self); /* what is offered may be another now */
    void (*room)(void *self);    /* a quota of the namespace is another, or less of it is used */
    void *self;
};

/* Nothing is known yet. PL_EINVAL (shapes), PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_create(const struct pl_cluster_config *config, struct pl_cluster **ret, struct pl_err *err);
/* Asks the cluster what must be known, and waits for that; what is not answered is said in the log and taken for the usual. Any thread but the
 * client's. After an error it is destroyed. PL_EAUTH, PL_ENET (nothing could be asked), PL_EFORBIDDEN (pods may not be made), PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_ask(struct pl_cluster *c, struct pl_err *err);
/* Begins to follow it. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_cluster_follow(struct pl_cluster *c, struct pl_err *err);
struct pl_cluster *pl_cluster_destroy(struct pl_cluster *c);
/* For pl_pod_render; the cluster's until it changes. */
const struct pl_pod_cluster *pl_cluster_facts(struct pl_cluster *c);
const struct pl_node_capacity *pl_cluster_offer(const struct pl_cluster *c);
/* A quota has refused a pod: as pl_namespace_limits_refresh. */
void pl_cluster_look_at_limits(struct pl_cluster *c);
/* `changed` is to be called, a little later and once for all who say so until then. */
void pl_cluster_tell_soon(struct pl_cluster *c);
/* A pod of this store, which its own follower brings: others' alone are followed here. `pod` has PL_CLUSTER_POD_KEEP of its metadata, its node, what
 * its containers ask for, and PL_CLUSTER_HOLDS_KEEP. */
void pl_cluster_own_pod(struct pl_cluster *c, enum pl_kube_event e, const json_t *pod);
/* As `gpus` of an executor, with "not_measured": why it is not known of all of them how they are used, or "". New reference, NULL without memory. */
json_t *pl_cluster_gpus(const struct pl_cluster *c);
/* How the pod of a stage used its GPUs since this was asked of it last; false: nothing was told. */
bool pl_cluster_gpu_told(struct pl_cluster *c, const char *pod, struct pl_gpu_told *ret);
bool pl_cluster_may(const struct pl_cluster *c, enum pl_kube_feature feature);
