/* The field tables of pod fields: gpu, share, secret, scratch, toleration, placement. */
#include "pipelined/spec/spec_field.h"

static const char *const nothing[] = {NULL};

static const struct spec_field fields_of_gpu[] = {
    {.name = "count", FIELD(count, pl_gpu, count), .fallback = "1", .min = 1, .max = PL_GPUS_MAX, .doc = "Devices per worker."},
    {.name = "required",
     FIELD(bool, pl_gpu, required),
     .fallback = "true",
     .doc = "`false`: use a GPU if one is free within `wait`, else the CPU; `PL_DEVICE` says which."},
    {.name = "wait",
     FIELD(duration, pl_gpu, wait_ms),
     .fallback = "\"10m\"",
     .doc = "How long to wait for a GPU that is not required."},
    {.name = "product",
     .type = &pl_spec_type_texts,
     LIST(pl_gpu, product, n_product),
     .min = 1,
     .doc = "Globs for names of products, best first: `[\"*H100*\", \"*A100*\"]`. Any product by default."},
    {.name = "memory",
     FIELD(box_bytes, pl_gpu, memory_bytes),
     .doc =
         "Nominal memory of the device. `40G` and `40Gi` mean the same; a device fits if it reports nine tenths of this size."},
    {.name = "compute", FIELD(compute, pl_gpu, compute), .doc = "Minimum compute capability: `\"8.0\"`."},
    {.name = "share",
     FIELD(share, pl_gpu, share),
     .child = &pl_spec_object_share,
     .doc = "How devices are shared. By default a worker gets whole devices."},
    {.name = "resource",
     FIELD(resource, pl_gpu, resource),
     .doc = "Name of the resource in the cluster: `nvidia.com/gpu` by default, `amd.com/gpu`, `gpu.intel.com/xe`, …"},
};
OBJECT(gpu, "gpu",
       "GPUs of each worker. `product`, `memory` and `compute` choose among the devices; `share` is for clusters only.", nothing);

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
     .doc = "`none`: whole devices, of nodes that do not share them. `time-slicing`: time slices of a shared device. `mps`: a "
            "part of "
            "a shared device. `mig`: a MIG "
            "instance. `gpu-mem`: an amount of memory (`aliyun.com/gpu-mem`). `dra`: a resource claim. `custom`: what its fields "
            "say."},
    {.name = "memory", FIELD(bytes, pl_gpu_share, memory_bytes), .doc = "`mps`: memory of the worker. An equal part by default."},
    {.name = "threads",
     FIELD(count, pl_gpu_share, threads),
     .min = 1,
     .max = 100,
     .doc = "`mps`: per cent of the threads. An equal part by default."},
    {.name = "profile", FIELD(profile, pl_gpu_share, profile), .doc = "`mig`: the profile of the instance, such as `1g.10gb`."},
    {.name = "amount",
     FIELD(count, pl_gpu_share, amount),
     .min = 1,
     .max = 1 << 20,
     .doc = "`gpu-mem`: how much memory of one device, in `unit`s."},
    {.name = "unit",
     FIELD(word, pl_gpu_share, unit),
     .words = words_unit,
     .doc = "`gpu-mem`: the unit of `amount`, `GiB` by default; the cluster may count in the other one."},
    {.name = "class", FIELD(kube_name, pl_gpu_share, device_class), .doc = "`dra`: the DeviceClass, such as `gpu.nvidia.com`."},
    {.name = "selectors",
     .type = &pl_spec_type_texts,
     LIST(pl_gpu_share, selectors, n_selectors),
     .min = 1,
     .doc = "`dra`: CEL expressions; all must be true for a device."},
    {.name = "preset",
     FIELD(kube_name, pl_gpu_share, preset),
     .doc = "`custom`: name of one of the daemon's presets, such as `hami`, `kai` or `volcano`."},
    {.name = "values",
     FIELD(pairs, pl_gpu_share, values),
     .doc = "`custom`: values of the preset's `${NAME}`, such as `{\"memory\": \"3000\"}`."},
    {.name = "limits", FIELD(qualified, pl_gpu_share, limits), .doc = "`custom`: resource limits of the container."},
    {.name = "annotations", FIELD(pairs, pl_gpu_share, annotations), .doc = "With `custom`: annotations that the pod gets."},
    {.name = "labels", FIELD(qualified, pl_gpu_share, labels), .doc = "`custom`: labels of the pod."},
    {.name = "scheduler", FIELD(kube_name, pl_gpu_share, scheduler), .doc = "`custom`: the pod's `schedulerName`."},
};
OBJECT(share, "share", "How a GPU is shared. Each mode has fields of its own; on one machine GPUs are given whole.", nothing);

static const struct spec_field fields_of_secret[] = {
    {.name = "name",
     FIELD(kube_name, pl_secret_use, name),
     .required = true,
     .doc = "Name of a secret of the project (`pipelinectl create secret`)."},
    {.name = "key", FIELD(text, pl_secret_use, key), .min = 1, .doc = "Key of the value, with `env`."},
    {.name = "env", FIELD(text, pl_secret_use, env), .min = 1, .doc = "The variable that holds the value."},
    {.name = "mount", FIELD(text, pl_secret_use, mount), .min = 1, .doc = "The folder that holds one file for each key."},
};
OBJECT(secret, "secret", "`{\"name\", \"key\", \"env\"}` or `{\"name\", \"mount\"}`.", nothing);

static const struct spec_field fields_of_scratch[] = {
    {.name = "size", FIELD(bytes, pl_scratch, size_bytes), .required = true, .doc = "Size of the volume."},
    {.name = "storage_class",
     FIELD(kube_name, pl_scratch, storage_class),
     .doc = "Storage class of the volume. The cluster's default if not given."},
};
OBJECT(scratch, "scratch", "A volume that lives as long as the pod.", nothing);

static const char *const words_operator[] = {[PL_TOLERATE_EQUAL] = "Equal", [PL_TOLERATE_EXISTS] = "Exists", NULL};
static const struct spec_field fields_of_toleration[] = {
    {.name = "key", FIELD(text, pl_toleration, key), .min = 1, .doc = "Key of the taint. Without it, every taint."},
    {.name = "operator",
     FIELD(word, pl_toleration, op),
     .words = words_operator,
     .fallback = "\"Equal\"",
     .doc = "As in Kubernetes."},
    {.name = "value", FIELD(text, pl_toleration, value), .doc = "Value of the taint, with `Equal`."},
    {.name = "effect", FIELD(effect, pl_toleration, effect), .doc = "Effect of the taint. All effects by default."},
    {.name = "toleration_seconds",
     FIELD(seconds, pl_toleration, seconds),
     .doc = "How long `NoExecute` is tolerated. For ever by default."},
};
OBJECT(toleration, "toleration", "As in Kubernetes.", nothing);

static const struct spec_field fields_of_placement[] = {
    {.name = "node_selector", FIELD(qualified, pl_placement, node_selector), .doc = "Labels that the node must have."},
    {.name = "tolerations",
     FIELD(tolerations, pl_placement, tolerations),
     .child = &pl_spec_object_toleration,
     .doc = "Taints that the pod tolerates. Those of its GPUs are tolerated without being listed."},
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
     .doc = "Time between SIGTERM and SIGKILL. The daemon's setting by default."},
    {.name = "pending",
     FIELD(duration, pl_placement, pending_ms),
     .min = 1,
     .doc =
         "How long the stage may wait until one of its pods has a node. Then the job fails with the last reason. Where a GPU is "
         "not required, `gpu.wait` passes first. No limit by default."},
    {.name = "labels", FIELD(qualified, pl_placement, labels), .doc = "Labels of the pod, in addition to the daemon's."},
    {.name = "annotations",
     FIELD(pairs, pl_placement, annotations),
     .doc = "Annotations of the pod, in addition to the daemon's."},
    {.name = "pod_spec",
     FIELD(pod_spec, pl_placement, pod_spec),
     .doc = "Merged over the pod's `spec` (RFC 7396: lists are replaced whole)."},
    {.name = "pod_patch",
     FIELD(pod_patch, pl_placement, pod_patch),
     .doc = "Applied after `pod_spec`. An object is merged over the pod's `spec`, lists of named things (`containers`, `env`, "
            "`volumes`, …) by "
            "their "
            "names; a list is a JSON Patch (RFC 6902). The command's container is `containers[0]`, `main`. What a patch may not "
            "ask for is refused by name when the pod is made (kubernetes.md, \"What specs may not ask for\")."},
};
OBJECT(placement, "placement", "Where pods run. On one machine it has no effect.", nothing);
