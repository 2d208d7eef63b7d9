/* gpu_use: how busy GPUs are and how much of their memory is used, as dcgm-exporter tells (dcgm.h): one of its pods after the other is read over
 * the API server's proxy, each every PL_GPU_USAGE_MS. Its pods are known by their labels, in any namespace; who may not be read is
 * asked again seldom. Functions are the loop's. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/kube/nodes/dcgm_metrics.h"
#include "pipelined/kube/watch/kube_watch.h"
#include "pipelined/net/loop/loop.h"

#define PL_GPU_USAGE_MS       10000  /* between two readings of an exporter */
#define PL_GPU_USAGE_PACE_MS  100    /* between two readings: ten a second, however many exporters there are */
#define PL_GPU_USAGE_AGAIN_MS 60000  /* after one that failed */
#define PL_GPU_USAGE_SHUT_MS  600000 /* after one that we may not read */
#define PL_GPU_USAGE_WAIT_MS  5000
#define PL_GPU_USAGE_MAX      20000u /* exporters */
#define PL_GPU_USAGE_PORT     9400u  /* where a pod names none */
/* What is needed of a pod (kube_scan.h). */
#define PL_GPU_USAGE_LABELS "app app.kubernetes.io/name"

struct pl_gpu_use;

struct pl_gpu_usage_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    int64_t pace_ms; /* 0 = PL_GPU_USAGE_PACE_MS; what is said to be due later counts in it, too */
    /* What the exporter of a node says; `n` 0: nothing any more. Borrowed. */
    void (*told)(void *self, const char *node, const struct pl_dcgm_gpu *gpus, size_t n);
    void *self;
};

PL_MUST_CHECK
int pl_gpu_usage_create(const struct pl_gpu_usage_config *config, struct pl_gpu_use **ret, struct pl_err *err);
/* Before the client's end. Takes NULL, returns NULL. */
struct pl_gpu_use *pl_gpu_usage_destroy(struct pl_gpu_use *u);
/* A pod, of whatever kind: metadata {name namespace labels} spec {nodeName containers {ports}} status {phase}. */
void pl_gpu_usage_pod(struct pl_gpu_use *u, enum pl_kube_event e, const json_t *pod);
/* Why use is not measured, somewhere or at all; "" = it is. The object's. */
const char *pl_gpu_usage_problem(const struct pl_gpu_use *u);
