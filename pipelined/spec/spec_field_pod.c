/* The field tables of pod fields: gpu, share, secret, scratch, toleration, placement. */
#include "pipelined/spec/spec_field.h"

static const char *const nothing[] = {NULL};

static const struct spec_field fields_of_gpu[] = {
    {.name = "count", FIELD(count, pl_gpu, count), .fallback = "1", .min = 1, .max = PL_GPUS_MAX, .doc = "Devices per worker."},
    {.name = "required",
     FIELD(bool, pl_gpu, required),
     .fallback = "true",
     .doc = "`false`: a GPU when one comes within `wait`, else the CPU; `PL_DEVICE` says which."},
    {.name = "wait",
     FIELD(duration, pl_gpu, wait_ms),
     .fallback = "\"10m\"",
     .doc = "How long to wait for a GPU that is not required."},
    {.name = "product",
     .type = &pl_spec_type_texts,
     LIST(pl_gpu, product, n_product),
     .min = 1,
     .doc = "Globs over the names of products, best first: `[\"*H100*\", \"*A100*\"]`. Any by default."},
    {.name = "memory",
     FIELD(box_bytes, pl_gpu, memory_bytes),
     .doc = "Memory of the device, the size on the box: `40G` and `40Gi` alike, met by what reports nine tenths of so many GiB."},
    {.name = "compute", FIELD(compute, pl_gpu, compute), .doc = "Least compute capability: `\"8.0\"`."},
    {.name = "share",
     FIELD(share, pl_gpu, share),
     .child = &pl_spec_object_share,
     .doc = "How devices are shared. Whole ones by default."},
    {.name = "resource",
     FIELD(resource, pl_gpu, resource),
     .doc = "What the cluster calls them: `nvidia.com/gpu` by default, `amd.com/gpu`, `gpu.intel.com/xe`, …"},
};
OBJECT(gpu, "gpu",
       "GPUs of each worker. `product`, `memory` and `compute` choose among a cluster's or the machine's, `share` among a "
       "cluster's.",
       nothing);

static const char *const words_mode[] = {[PL_SHARE_NONE] = "none",       [PL_SHARE_TIME_SLICING] = "time-slicing",
                                         [PL_SHARE_MPS] = "mps",         [PL_SHARE_MIG] = "mig",
                                         [PL_SHARE_GPU_MEM] = "gpu-mem", [PL_SHARE_DRA] = "dra",
                                         [PL_SHARE_CUSTOM] = "custom",   NULL};
static const char *const words_unit[] = {[PL_UNIT_GIB] = "GiB", [PL_UNIT_MIB] = "MiB", NULL};
static const struct spec_field fields_of_share[] = {
    {.name = "mode",
     FIELD(word, pl_gpu_share, mode),
     .words = words_mode,
     .required = true,
     .doc = "`none`: whole devices, never of a node that shares them. `time-slicing`, `mps`: a turn or a part of one. `mig`: an "
            "instance. `gpu-mem`: an amount of memory (`aliyun.com/gpu-mem`). `dra`: a claim. `custom`: what is written here."},
    {.name = "memory", FIELD(bytes, pl_gpu_share, memory_bytes), .doc = "`mps`: memory of the worker. An equal part by default."},
    {.name = "threads",
     FIELD(count, pl_gpu_share, threads),
     .min = 1,
     .max = 100,
     .doc = "`mps`: per cent of the threads. An equal part by default."},
    {.name = "profile", FIELD(profile, pl_gpu_share, profile), .doc = "`mig`: the instance, such as `1g.10gb`."},
    {.name = "amount",
     FIELD(count, pl_gpu_share, amount),
     .min = 1,
     .max = 1 << 20,
     .doc = "`gpu-mem`: how much memory of one device, in `unit`s."},
    {.name = "unit",
     FIELD(word, pl_gpu_share, unit),
     .words = words_unit,
     .doc = "`gpu-mem`: `GiB` by default; the cluster may count in the other."},
    {.name = "class", FIELD(kube_name, pl_gpu_share, device_class), .doc = "`dra`: the DeviceClass, such as `gpu.nvidia.com`."},
    {.name = "selectors",
     .type = &pl_spec_type_texts,
     LIST(pl_gpu_share, selectors, n_selectors),
     .min = 1,
     .doc = "`dra`: CEL expressions that all must hold of a device."},
    {.name = "preset",
     FIELD(kube_name, pl_gpu_share, preset),
     .doc = "`custom`: a row of the daemon's presets, such as `hami`, `kai` or `volcano`."},
    {.name = "values",
     FIELD(pairs, pl_gpu_share, values),
     .doc = "`custom`: what the preset's `${NAME}` become, such as `{\"memory\": \"3000\"}`."},
    {.name = "limits", FIELD(qualified, pl_gpu_share, limits), .doc = "`custom`: resources of the container."},
    {.name = "annotations", FIELD(pairs, pl_gpu_share, annotations), .doc = "`custom`: of the pod."},
    {.name = "labels", FIELD(qualified, pl_gpu_share, labels), .doc = "`custom`: of the pod."},
    {.name = "scheduler", FIELD(kube_name, pl_gpu_share, scheduler), .doc = "`custom`: the pod's `schedulerName`."},
};
OBJECT(share, "share", "How a GPU is shared. Each mode has fields of its own; on one machine GPUs are given whole.", nothing);

static const struct spec_field fields_of_secret[] = {
    {.name = "name",
     FIELD(kube_name, pl_secret_use, name),
     .required = true,
     .doc = "The secret of the project (`pipelinectl create secret`)."},
    {.name = "key", FIELD(text, pl_secret_use, key), .min = 1, .doc = "Its key, with `env`."},
    {.name = "env", FIELD(text, pl_secret_use, env), .min = 1, .doc = "The variable that holds the value."},
    {.name = "mount", FIELD(text, pl_secret_use, mount), .min = 1, .doc = "The folder that holds a file of each key."},
};
OBJECT(secret, "secret", "`{\"name\", \"key\", \"env\"}` or `{\"name\", \"mount\"}`.", nothing);

static const struct spec_field fields_of_scratch[] = {
    {.name = "size", FIELD(bytes, pl_scratch, size_bytes), .required = true, .doc = "Its size."},
    {.name = "storage_class", FIELD(kube_name, pl_scratch, storage_class), .doc = "Of what storage; the cluster's default."},
};
OBJECT(scratch, "scratch", "A volume that lives as long as the pod.", nothing);

static const char *const words_operator[] = {[PL_TOLERATE_EQUAL] = "Equal", [PL_TOLERATE_EXISTS] = "Exists", NULL};
static const struct spec_field fields_of_toleration[] = {
    {.name = "key", FIELD(text, pl_toleration, key), .min = 1, .doc = "Of the taint; without it every one."},
    {.name = "operator", FIELD(word, pl_toleration, op), .words = words_operator, .fallback = "\"Equal\"", .doc = "As there."},
    {.name = "value", FIELD(text, pl_toleration, value), .doc = "With `Equal`."},
    {.name = "effect", FIELD(effect, pl_toleration, effect), .doc = "All by default."},
    {.name = "toleration_seconds",
     FIELD(seconds, pl_toleration, seconds),
     .doc = "How long `NoExecute` is borne. For ever by default."},
};
OBJECT(toleration, "toleration", "As in Kubernetes.", nothing);

static const struct spec_field fields_of_placement[] = {
    {.name = "node_selector", FIELD(qualified, pl_placement, node_selector), .doc = "Labels that the node has."},
    {.name = "tolerations",
     FIELD(tolerations, pl_placement, tolerations),
     .child = &pl_spec_object_toleration,
     .doc = "Taints that the pod bears. Those of its GPUs go without saying."},
    {.name = "arch",
     FIELD(arch, pl_placement, arch),
     .doc = "Architectures that the image is for: `amd64`, `arm64` or a list. Those of the daemon's own image by default."},
    {.name = "priority_class", FIELD(kube_name, pl_placement, priority_class), .doc = "`priorityClassName`."},
    {.name = "runtime_class", FIELD(kube_name, pl_placement, runtime_class), .doc = "`runtimeClassName`."},
    {.name = "queue", FIELD(kube_name, pl_placement, queue), .doc = "The queue of Kueue that admits its pods."},
    {.name = "grace",
     FIELD(duration, pl_placement, grace_ms),
     .min = 0,
     .max = 86400000,
     .doc = "Between SIGTERM and SIGKILL. The daemon's by default."},
    {.name = "labels", FIELD(qualified, pl_placement, labels), .doc = "Of the pod, beside the daemon's."},
    {.name = "annotations", FIELD(pairs, pl_placement, annotations), .doc = "Of the pod, beside the daemon's."},
    {.name = "pod_spec",
     FIELD(pod_spec, pl_placement, pod_spec),
     .doc = "Merged over the pod's `spec` (RFC 7396: lists are replaced whole)."},
    {.name = "pod_patch",
     FIELD(pod_patch, pl_placement, pod_patch),
     .doc = "Then this: an object is merged over the pod's `spec`, lists of named things (`containers`, `env`, `volumes`, …) by "
            "their "
            "names; a list is a JSON Patch (RFC 6902). The command's container is `containers[0]`, `main`. What a patch may not "
            "ask for is refused by name when the pod is made (kubernetes.md, \"What specs may not ask for\")."},
};
OBJECT(placement, "placement", "Where pods run. On one machine it says nothing.", nothing);
