/* pod_fixture: stages, clusters and settings that pods are rendered for. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* One stage with `fields` over a name, an input, a command and an image. */
static inline struct pl_spec *pod_spec_of(const char *fields)
{
    static struct pl_spec_errors problems;
    struct pl_spec *spec = NULL;
    struct pl_err err = {0};
    char text[16384];

    (void)snprintf(
        text, sizeof(text),
        "{\"pipeline\": \"p\", \"defaults\": {\"input\": {\"repo\": \"digits\"}, \"run\": [\"python3\", \"train.py\"], "
        "\"image\": \"reg.example/train:7\"}, \"stages\": [{\"name\": \"Train_net\"%s%s}]}",
        fields[0] != '\0' ? ", " : "", fields);
    if (pl_spec_parse(text, strlen(text), "t.json", NULL, &spec, &problems, &err) < 0)
        fail_msg("%s", err.msg);
    return spec;
}

static const struct pl_gpu_product gfd_products[] = {{PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB"},
                                                     {PL_GPU_PRODUCT, "NVIDIA-H100-80GB-HBM3"},
                                                     {PL_GPU_PRODUCT, "Tesla-T4"},
                                                     {PL_GPU_PRODUCT, "Tesla-T4-SHARED"},
                                                     {PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}};
static const struct pl_gpu_product cloud_products[] = {{"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"},
                                                       {PL_GPU_PRODUCT, "Tesla-T4"},
                                                       {"cloud.google.com/gke-accelerator", "nvidia-l4"}};
static const struct pl_gpu_product named_products[] = {{"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"},
                                                       {"cloud.google.com/gke-accelerator", "nvidia-l4"},
                                                       {"karpenter.k8s.aws/instance-gpu-name", "a10g"},
                                                       {"kubernetes.azure.com/accelerator", "nvidia"}};
/* One cloud's label each; Azure's says no product, so GPU Feature Discovery's are set by hand beside it. */
static const struct pl_gpu_product gke_products[] = {{"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"},
                                                     {"cloud.google.com/gke-accelerator", "nvidia-l4"}};
static const struct pl_gpu_product eks_products[] = {{"k8s.amazonaws.com/accelerator", "nvidia-tesla-t4"},
                                                     {"k8s.amazonaws.com/accelerator", "nvidia-l4"}};
static const struct pl_gpu_product karpenter_products[] = {{"karpenter.k8s.aws/instance-gpu-name", "t4"},
                                                           {"karpenter.k8s.aws/instance-gpu-name", "l4"}};
static const struct pl_gpu_product aks_products[] = {{"kubernetes.azure.com/accelerator", "nvidia"},
                                                     {PL_GPU_PRODUCT, "Tesla-T4"},
                                                     {PL_GPU_PRODUCT, "NVIDIA-L4"}};
/* Nodes of two clouds that write the same names. */
static const struct pl_gpu_product twice_products[] = {{"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"},
                                                       {"k8s.amazonaws.com/accelerator", "nvidia-tesla-t4"},
                                                       {"k8s.amazonaws.com/accelerator", "nvidia-l4"}};
/* With what GPU Feature Discovery, and Karpenter, say of them. */
static const struct pl_gpu_product labelled_products[] = {
    {PL_GPU_PRODUCT, "NVIDIA-A100-SXM4-40GB", 40960, 800},
    {PL_GPU_PRODUCT, "NVIDIA-X1", 8192, 0},
    {PL_GPU_PRODUCT, "Tesla-T4", 15360, 705},
};
static const struct pl_gpu_product weighed_products[] = {{"karpenter.k8s.aws/instance-gpu-name", "l4", 22888, 0},
                                                         {"karpenter.k8s.aws/instance-gpu-name", "t4", 15360, 0}};
static const char *const gpu_labels[] = {"nvidia.com/gpu.present"};
static const char *const runtime_classes[] = {"nvidia", "kata"};
static const char *const mixed_resources[] = {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.me",
                                              "nvidia.com/gpu.shared"};
static const char *const secrets_of_project[] = {"pg", "tls"};
static const char *const pull_secrets[] = {"registry"};
static const char *const both_arch[] = {"amd64", "arm64"};
static struct pl_env_var proxies[] = {{"HTTPS_PROXY", "http://proxy.example:3128"}};

/* Some nodes' plugins rename, others do not. */
static const struct pl_gpu_turns renamed_slicing[] = {{"time-slicing", "nvidia.com/gpu.shared"}, {"mps", "nvidia.com/gpu"}};
static const struct pl_gpu_turns renamed_mps[] = {{"mps", "nvidia.com/gpu.shared"}, {"time-slicing", "nvidia.com/gpu"}};
static const char *const shared_resources[] = {"nvidia.com/gpu", "nvidia.com/gpu.shared"};

enum pod_cluster_kind {
    CLUSTER_UNKNOWN,
    CLUSTER_GFD,
    CLUSTER_MIXED,
    CLUSTER_SLICING_RENAMED,
    CLUSTER_MPS_RENAMED,
    CLUSTER_CLOUD,
    CLUSTER_NAMED, /* clouds' labels alone */
    CLUSTER_GKE,
    CLUSTER_EKS,
    CLUSTER_KARPENTER,
    CLUSTER_AKS,
    CLUSTER_TWICE,
    CLUSTER_LABELLED,
    CLUSTER_WEIGHED,
    CLUSTER_DRA,
    CLUSTER_OLD_DRA,
    CLUSTER_OPENSHIFT,
    CLUSTER_QUOTA
};

static inline struct pl_pod_cluster cluster_of(enum pod_cluster_kind kind)
{
    static const struct {
        const struct pl_gpu_product *products;
        size_t n;
    } clouds[] = {[CLUSTER_CLOUD] = {cloud_products, PL_ARRAY_SIZE(cloud_products)},
                  [CLUSTER_NAMED] = {named_products, PL_ARRAY_SIZE(named_products)},
                  [CLUSTER_GKE] = {gke_products, PL_ARRAY_SIZE(gke_products)},
                  [CLUSTER_EKS] = {eks_products, PL_ARRAY_SIZE(eks_products)},
                  [CLUSTER_KARPENTER] = {karpenter_products, PL_ARRAY_SIZE(karpenter_products)},
                  [CLUSTER_AKS] = {aks_products, PL_ARRAY_SIZE(aks_products)},
                  [CLUSTER_TWICE] = {twice_products, PL_ARRAY_SIZE(twice_products)},
                  [CLUSTER_LABELLED] = {labelled_products, PL_ARRAY_SIZE(labelled_products)},
                  [CLUSTER_WEIGHED] = {weighed_products, PL_ARRAY_SIZE(weighed_products)}};
    struct pl_pod_cluster c = {0};

    if ((size_t)kind < PL_ARRAY_SIZE(clouds)) {
        c.products = clouds[kind].products;
        c.n_products = clouds[kind].n;
    }

    if (kind == CLUSTER_GFD || kind == CLUSTER_MIXED || kind == CLUSTER_DRA) {
        c.products = gfd_products;
        c.n_products = PL_ARRAY_SIZE(gfd_products);
        c.gpu_labels = gpu_labels;
        c.n_gpu_labels = 1;
        c.runtime_classes = runtime_classes;
        c.n_runtime_classes = PL_ARRAY_SIZE(runtime_classes);
        c.runtime_classes_known = true;
    }
    if (kind == CLUSTER_MIXED) {
        c.resources = mixed_resources;
        c.n_resources = PL_ARRAY_SIZE(mixed_resources);
        c.gpu_mem_unit = PL_UNIT_MIB;
    }
    if (kind == CLUSTER_SLICING_RENAMED || kind == CLUSTER_MPS_RENAMED) {
        c.resources = shared_resources;
        c.n_resources = PL_ARRAY_SIZE(shared_resources);
        c.turns = kind == CLUSTER_MPS_RENAMED ? renamed_mps : renamed_slicing;
        c.n_turns = PL_ARRAY_SIZE(renamed_slicing);
    }
    if (kind == CLUSTER_DRA || kind == CLUSTER_OLD_DRA)
        c.dra = kind == CLUSTER_DRA ? "v1" : "v1beta1";
    c.openshift = kind == CLUSTER_OPENSHIFT;
    c.demands_cpu_limit = c.demands_memory_limit = kind == CLUSTER_QUOTA;
    return c;
}

static inline struct pl_pod_settings plain_settings(void)
{
    return (struct pl_pod_settings){.store_id = "5f3a90b1c2d3e4f5",
                                    .namespace = "ml",
                                    .image = "reg.example/pipelined:1",
                                    .worker_url = "https://pipelined.ml.svc:7380",
                                    .owner_name = "pipelined",
                                    .owner_uid = "7d1c0f3e-0000-4000-8000-000000000001"};
}

static inline struct pl_pod_settings full_settings(void)
{
    struct pl_pod_settings s = plain_settings();

    s.arch = both_arch;
    s.n_arch = 2;
    s.pull_secrets = pull_secrets;
    s.n_pull_secrets = 1;
    s.ca = "pipelined-ca";
    s.trust_bundle = "corporate-ca";
    s.proxy_env = (struct pl_pairs){proxies, 1};
    s.cpu_on_gpu_nodes = PL_CPU_NEVER_ON_GPU;
    s.mesh = true;
    s.grace_ms = 120000;
    s.node_cache = "/var/cache/pipelined";
    return s;
}

static inline struct pl_pod_worker worker_of(const struct pl_spec *spec)
{
    return (struct pl_pod_worker){.stage = &spec->stages[0],
                                  .project = "default",
                                  .id = 42,
                                  .version = 3,
                                  .index = 0,
                                  .incarnation = 1,
                                  .token = "plw_secret",
                                  .gpu = spec->stages[0].gpu.count > 0,
                                  .secrets = secrets_of_project,
                                  .n_secrets = PL_ARRAY_SIZE(secrets_of_project)};
}
