/* kube_settings: the configuration of pods, checked and in the form that pod_render takes. */
#pragma once

#include "pipelined/daemon/config.h"

#include "pipelined/kube/pod/pod_render.h"

#define PL_KUBE_NAMES_MAX     64u /* names in one list */
#define PL_KUBE_GRACE_MOST_MS 86400000

struct pl_kube_settings {
    struct pl_pod_settings pods; /* worker_url is set by pl_kube_settings_url */
    const char *trusted[PL_KUBE_NAMES_MAX];
    size_t n_trusted;
    /* Memory to which `pods` and `trusted` point, besides the configuration. */
    const char *pull_secrets[PL_KUBE_NAMES_MAX], *arch[PL_KUBE_NAMES_MAX], *claims[PL_KUBE_NAMES_MAX],
        *annotations[PL_KUBE_NAMES_MAX];
    char *texts[5];
    char *worker_url;
};

/* Reads and checks the settings; borrows from `config` and `store_id`. PL_EINVAL names the key: no image, a
 * malformed quantity or architecture, too many names. */
PL_MUST_CHECK
int pl_kube_settings_read(const struct pl_config *config, const char *store_id, struct pl_kube_settings *ret, struct pl_err *err);
/* Sets the URL by which pods reach the daemon: the configured one, else `url`, at which it listens; the log warns
 * that pods on other machines cannot use the latter. PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_settings_url(struct pl_kube_settings *s, const struct pl_config *config, const char *url, struct pl_err *err);
void pl_kube_settings_finish(struct pl_kube_settings *s);
