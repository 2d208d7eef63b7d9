/* config: the daemon's configuration: defaults, then --config FILE (JSON), then options. One table yields the
 * parsers of both, --help and docs/config.md (`pipelined --print-config-doc`; a test keeps them equal). */
#pragma once

#include "storage/base/buf.h"

#include <jansson.h>

/* The keys "kubernetes.…"; lists of names are texts, separated by commas. */
struct pl_config_kube {
    char *kubeconfig, *context, *namespace;
    char *image, *default_image, *pull_secrets, *claims, *annotations, *arch;
    char *owner, *ca, *trust_bundle; /* names of ConfigMaps */
    char *cpu_on_gpu_nodes, *agent_memory, *node_cache, *trusted_projects;
    json_t *proxy_env, *pod_template, *gpu_shapes, *gpu_presets; /* never NULL */
    int64_t grace_ms;
    bool mesh;
};

struct pl_config {
    char *data;   /* DIR */
    char *listen; /* ADDRESS:PORT */
    char *store;  /* file:///DIR or s3://BUCKET/PREFIX */
    char *store_driver, *store_endpoint, *store_region, *store_style, *store_worker_endpoint, *store_ca,
        *store_profile; /* S3 only; "" = default */
    char *store_access_key, *store_secret_key, *store_session_token;
    bool store_exclusive;
    int64_t store_cache_mib;
    char *executor; /* local | kubernetes */
    struct pl_config_kube kube;
    char *sandbox;    /* bwrap | none */
    char *public_url; /* "" = the listening URL */
    char *s3_listen;  /* ADDRESS:PORT; "" = no S3 gateway */
    char *s3_domain;  /* "" = buckets only in paths */
    char *s3_cors;    /* "" = no origins */
    char *worker_url; /* "" = none */
    char *tls_cert;   /* "" = no TLS */
    char *tls_key;
    char *proxy_header;    /* "" = a proxy cannot log users in */
    char *proxy_addresses; /* addresses that may send the header */
    char *hosts;           /* additional names accepted in Host, separated by commas */
    char *log_level;       /* debug | info | warn | error */
    int64_t gpus;          /* -1 = as NVML counts */
    int64_t linger_ms;
    int64_t drain_ms;
    int64_t checkpoint_every; /* log objects */
    int64_t confirm_above;    /* GPU-hours; -1 = updates need no confirmation */
    int64_t gc_every_ms;      /* 0 = only on request */
    bool behind_proxy;
    bool show_help, show_version, show_doc;
};

/* Reads argv. PL_EUSAGE: an unknown option; PL_EINVAL names key, value and accepted values (for a key of a config
 * file, also the file). On success every text is non-NULL. */
PL_MUST_CHECK
int pl_config_read(int argc, char **argv, struct pl_config *ret, struct pl_err *err);
void pl_config_finish(struct pl_config *c);
/* Append the texts of --help and of docs/config.md. */
PL_MUST_CHECK
int pl_config_help(struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_config_markdown(struct pl_buf *out, struct pl_err *err);
