/* config: the daemon's configuration. An option overrides the file that --config names (JSON), and the file
 * overrides the default. One table generates both parsers, --help and docs/config.md (`pipelined
 * --print-config-doc`; a test compares them). */
#pragma once

#include "storage/base/buf.h"

#include <jansson.h>

/* The settings with keys "kubernetes.…". A setting that is a list of names is one text, with the names
 * separated by commas. */
struct pl_config_kube {
    char *kubeconfig, *context, *namespace;
    char *image, *default_image, *pull_secrets, *claims, *annotations, *arch;
    char *owner, *ca, *trust_bundle; /* names of ConfigMaps of the cluster */
    char *cpu_on_gpu_nodes, *agent_memory, *node_cache, *trusted_projects;
    json_t *proxy_env, *pod_template, *gpu_shapes, *gpu_presets; /* JSON trees of the file, never NULL */
    int64_t grace_ms;
    bool mesh;
};

struct pl_config {
    char *data;   /* path of the data folder */
    char *listen; /* ADDRESS:PORT on which the daemon listens */
    char *store;  /* file:///DIR or s3://BUCKET/PREFIX */
    char *store_driver, *store_endpoint, *store_region, *store_style, *store_worker_endpoint, *store_ca,
        *store_profile; /* settings of a store in S3; "" = the default of the setting */
    char *store_access_key, *store_secret_key, *store_session_token;
    bool store_exclusive;
    int64_t store_cache_mib;
    char *executor; /* how workers are started: local or kubernetes */
    struct pl_config_kube kube;
    char *sandbox;           /* sandbox of the local executor: bwrap or none */
    char *podman;            /* gets images for the local executor; "" = none does */
    char *sandbox_read_only; /* folders that sandboxes show, separated by commas */
    char *public_url;        /* URL that people use; "" = the URL of the listener */
    char *s3_listen;         /* ADDRESS:PORT of the S3 gateway; "" = no S3 gateway */
    /* domain below which each bucket is a host; "" = buckets only appear in the path of URLs */
    char *s3_domain;
    char *s3_cors;    /* origins whose pages may use the S3 gateway; "" = no origins */
    char *worker_url; /* URL by which workers on other machines reach the daemon; "" = none */
    char *tls_cert;   /* files of the TLS certificate and its key; "" = no TLS */
    char *tls_key;
    char *proxy_header;    /* header in which a proxy names the user; "" = a proxy cannot log users in */
    char *proxy_addresses; /* addresses from which that header is accepted */
    char *hosts;           /* additional names accepted in Host, separated by commas */
    struct {
        char *schemes, *hosts, *networks, *ca;
    } outbound;      /* servers that the daemon may connect to for its users (storage/http/outbound.h) */
    char *git_local; /* folders below which sources may have local repositories, separated by commas */
    char *log_level; /* lowest level that is logged: debug, info, warn or error */
    int64_t gpus;    /* number of GPUs to use; -1 = all that NVML finds */
    int64_t linger_ms;
    int64_t drain_ms;
    int64_t checkpoint_every; /* number of log objects after which a log checkpoint is due */
    /* GPU-hours above which an update must be confirmed; -1 = updates need no confirmation */
    int64_t confirm_above;
    int64_t gc_every_ms; /* time between garbage collections in ms; 0 = only on request */
    bool behind_proxy;
    bool show_help, show_version, show_doc;
};

/* Reads the command line, and the file that --config names. PL_EUSAGE: an unknown option; PL_EINVAL: a wrong
 * value; the message names the key, the value and the accepted values, and the file if the key is in one. On
 * success no text in `ret` is NULL. */
PL_MUST_CHECK
int pl_config_read(int argc, char **argv, struct pl_config *ret, struct pl_err *err);
void pl_config_finish(struct pl_config *c);
/* Sets PIPELINED_SANDBOX_RO in the environment to sandbox_read_only: workers inherit it. Call it before other threads
 * exist. PL_ENOMEM. */
PL_MUST_CHECK
int pl_config_show_folders(const struct pl_config *c, struct pl_err *err);
/* Append the text of --help, or of docs/config.md, to `out`. */
PL_MUST_CHECK
int pl_config_help(struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_config_markdown(struct pl_buf *out, struct pl_err *err);
