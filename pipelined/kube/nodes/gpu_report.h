/* gpu_report: which GPUs the nodes of a cluster have, which pods hold them, and, where an exporter tells (dcgm.h), how they are used. Nodes and
 * pods are told as they come and go (the same events as offer.h's); what has no GPU is not kept. Of aliyun.com/gpu-mem it is also known how
 * much memory of which device is given away, as kubectl-inspect-gpushare counts it. Pure; not thread-safe.
 *
 * Needs of a node: metadata{name labels} status{allocatable addresses}; of a pod: metadata{name namespace uid labels annotations}
 * spec{nodeName containers initContainers} status{phase}. */
#pragma once

#include "pipelined/kube/nodes/dcgm_metrics.h"
#include <jansson.h>

#define PL_GPU_REPORT_NODES_MAX 20000u
#define PL_GPU_REPORT_PODS_MAX  100000u
#define PL_GPUSHARE_GPUS_MAX    64u /* of a node */

struct pl_gpu_report;

PL_MUST_CHECK
int pl_gpu_report_create(struct pl_gpu_report **ret, struct pl_err *err);
struct pl_gpu_report *pl_gpu_report_destroy(struct pl_gpu_report *g);

/* A node or pod is new or has changed. PL_ELIMIT (too many: it is left out), PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_report_node(struct pl_gpu_report *g, const json_t *node, struct pl_err *err);
void pl_gpu_report_node_gone(struct pl_gpu_report *g, const char *name);
PL_MUST_CHECK
int pl_gpu_report_pod(struct pl_gpu_report *g, const json_t *pod, struct pl_err *err);
void pl_gpu_report_pod_gone(struct pl_gpu_report *g, const char *uid);
/* What the exporter of a node told last. PL_ENOMEM. */
PL_MUST_CHECK
int pl_gpu_report_use(struct pl_gpu_report *g, const char *node, const struct pl_dcgm_gpu *gpus, size_t n, struct pl_err *err);

/* How a pod of a stage used its GPUs, as was told since the last time that this was asked. */
struct pl_gpu_told {
    double utilisation;     /* mean per cent, of its devices and over the times that it was told */
    int64_t mem_peak_bytes; /* most in use at a time, all its devices together; 0 = that was not told */
};
/* False: nothing was, and `ret` is untouched. */
bool pl_gpu_report_take(struct pl_gpu_report *g, const char *ns, const char *pod, struct pl_gpu_told *ret);

/* [{"node", "address", "resource", "product"?, "capacity", "allocated", "by": [{"namespace", "pod", "project"?, "stage"?, "count",
 *   "utilisation"?, "used_mib"?}]}], by node and resource; a node of gpu-mem has in its row of that resource also
 * "gpus": [{"allocated", "total"}], "pending": what pods hold of which it is not known of which device. New reference, NULL without memory. */
json_t *pl_gpu_report_json(const struct pl_gpu_report *g);

/* The rows of gpu-mem as kubectl-inspect-gpushare prints them, with `details` its table of pods for each node; "" when there are none. PL_ENOMEM. */
struct pl_buf;
PL_MUST_CHECK
int pl_gpushare_table(const json_t *rows, bool details, struct pl_buf *out, struct pl_err *err);
