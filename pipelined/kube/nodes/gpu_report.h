/* gpu_report: which GPUs the nodes of a cluster have, which pods hold them, and how they are used if an
 * exporter measures them (dcgm_metrics.h). The caller reports nodes and pods as they appear and disappear, as
 * for node_capacity.h; nodes and pods without GPUs are not kept. For the shared memory aliyun.com/gpu-mem the
 * allocation of each device is known too, counted as kubectl-inspect-gpushare does. Pure; not thread-safe.
 *
 * Fields that are read, of a node: metadata{name labels} status{allocatable capacity addresses}; of a pod:
 * metadata{name namespace uid labels annotations} spec{nodeName containers initContainers} status{phase
 * containerStatuses{allocatedResourcesStatus}}. */
#pragma once

#include "pipelined/kube/nodes/dcgm_metrics.h"
#include <jansson.h>

#define PL_GPU_REPORT_NODES_MAX 20000u
#define PL_GPU_REPORT_PODS_MAX  100000u
#define PL_GPUSHARE_GPUS_MAX    64u /* maximum number of devices of one node */

struct pl_gpu_report;

PL_MUST_CHECK
int pl_gpu_report_create(struct pl_gpu_report **ret, struct pl_err *err);
struct pl_gpu_report *pl_gpu_report_destroy(struct pl_gpu_report *g);

/* Reports a node or pod that is new or has changed. PL_ELIMIT (too many; it is left out), PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_report_node(struct pl_gpu_report *g, const json_t *node, struct pl_err *err);
void pl_gpu_report_node_gone(struct pl_gpu_report *g, const char *name);
PL_MUST_CHECK
int pl_gpu_report_pod(struct pl_gpu_report *g, const json_t *pod, struct pl_err *err);
void pl_gpu_report_pod_gone(struct pl_gpu_report *g, const char *uid);
/* Reports the latest measurements of a node's exporter. PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_report_use(struct pl_gpu_report *g, const char *node, const struct pl_dcgm_gpu *gpus, size_t n, struct pl_err *err);

/* How a pod of a stage used its GPUs since the last call of pl_gpu_report_take. */
struct pl_gpu_told {
    /* utilisation in per cent: mean over the pod's devices and over all measurements */
    double utilisation;
    int64_t mem_peak_bytes; /* peak memory of all the pod's devices together; 0 = unknown */
};
/* Returns and resets the measurements of a pod. False: there are none since the last call; `ret` is
 * untouched. */
bool pl_gpu_report_take(struct pl_gpu_report *g, const char *ns, const char *pod, struct pl_gpu_told *ret);

/* Returns the report as a new reference, sorted by node and resource; NULL if out of memory: [{"node",
 * "address", "resource", "product"?, "capacity", "unhealthy"?, "allocated", "unhealthy_held"?, "by":
 * [{"namespace", "pod", "project"?, "stage"?, "count", "unhealthy"?, "utilisation"?, "used_mib"?}]}]. "capacity":
 * devices that pods can get; "unhealthy": the node's other devices; "unhealthy_held": how many of these are
 * certainly held, also if no pod is known to hold them. A row of gpu-mem also has "gpus": [{"allocated",
 * "total"}] and "pending": units that pods hold on an unknown device. */
json_t *pl_gpu_report_json(const struct pl_gpu_report *g);

/* Writes the rows of gpu-mem as kubectl-inspect-gpushare prints them; with `details`, a table of pods for
 * each node. "" if there are no such rows. PL_ENOMEM. */
struct pl_buf;
PL_MUST_CHECK
int pl_gpushare_table(const json_t *rows, bool details, struct pl_buf *out, struct pl_err *err);
