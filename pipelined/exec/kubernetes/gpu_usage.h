/* gpu_usage: utilisation and memory use of GPUs, as dcgm-exporter measures them (dcgm_metrics.h). The
 * exporter's pods are found by their labels, in any namespace, and are read one after the other through the
 * API server's proxy, each every PL_GPU_USAGE_MS. An exporter that the daemon may not read is retried after a
 * longer pause. All functions are called on the loop's thread. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/kube/nodes/dcgm_metrics.h"
#include "pipelined/kube/watch/kube_watch.h"
#include "pipelined/net/loop/loop.h"

#define PL_GPU_USAGE_MS       10000  /* interval between two readings of one exporter */
#define PL_GPU_USAGE_PACE_MS  100    /* pause between any two readings: at most ten a second */
#define PL_GPU_USAGE_AGAIN_MS 60000  /* pause after a reading of an exporter failed */
#define PL_GPU_USAGE_SHUT_MS  600000 /* pause after a reading of an exporter was forbidden */
#define PL_GPU_USAGE_WAIT_MS  5000
#define PL_GPU_USAGE_MAX      20000u /* most exporters that are read; further exporters are ignored */
#define PL_GPU_USAGE_PORT     9400u  /* port of an exporter whose pod declares none */
/* Labels that the selection for kube_scan.h must keep of each pod. */
#define PL_GPU_USAGE_LABELS "app app.kubernetes.io/name"

struct pl_gpu_use;

struct pl_gpu_usage_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    int64_t pace_ms; /* pause between readings; 0 = PL_GPU_USAGE_PACE_MS; the other intervals are scaled with it */
    /* Reports the measurements of a node; `n` = 0: the node has no current measurements. `gpus` is
     * borrowed. */
    void (*told)(void *self, const char *node, const struct pl_dcgm_gpu *gpus, size_t n);
    void *self;
};

PL_MUST_CHECK
int pl_gpu_usage_create(const struct pl_gpu_usage_config *config, struct pl_gpu_use **ret, struct pl_err *err);
/* Frees the object. Call it before the client is destroyed. NULL is allowed; returns NULL. */
struct pl_gpu_use *pl_gpu_usage_destroy(struct pl_gpu_use *u);
/* Informs the object of a pod, whether or not it is an exporter. `pod` must have metadata {name namespace
 * labels} spec {nodeName containers {ports}} status {phase}. */
void pl_gpu_usage_pod(struct pl_gpu_use *u, enum pl_kube_event e, const json_t *pod);
/* Returns why the use of some or all GPUs is not measured; "" = all are measured. The object owns the
 * text. */
const char *pl_gpu_usage_problem(const struct pl_gpu_use *u);
