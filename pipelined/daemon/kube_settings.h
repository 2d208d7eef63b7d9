/* kube_settings: what the configuration says of pods, as pod_render takes it. */
#pragma once

#include "pipelined/daemon/config.h"

#include "pipelined/kube/pod/pod_render.h"

#define PL_KUBE_NAMES_MAX     64u /* in one list */
#define PL_KUBE_GRACE_MOST_MS 86400000

struct pl_kube_settings {
    struct pl_pod_settings pods; /* worker_url: pl_kube_settings_url */
    const char *trusted[PL_KUBE_NAMES_MAX];
    size_t n_trusted;
    /* What `pods` and `trusted` point to, beside the configuration. */
    const char *pull_secrets[PL_KUBE_NAMES_MAX], *arch[PL_KUBE_NAMES_MAX], *claims[PL_KUBE_NAMES_MAX],
        *annotations[PL_KUBE_NAMES_MAX];
    char *texts[5];
    char *worker_url;
};

/* Borrows from `config` and `store_id`. PL_EINVAL naming the key: no image, a quantity or architecture that is none, too many names. */
PL_MUST_CHECK
int pl_kube_settings_read(const struct pl_config *config, const char *store_id, struct pl_kube_settings *ret, struct pl_err *err);
/* By which pods reach the daemon: what the configuration says, else `url`, at which it listens. Said in the log when pods of other machines
 * cannot use it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_settings_url(struct pl_kube_settings *s, const struct pl_config *config, const char *url, struct pl_err *err);
void pl_kube_settings_finish(struct pl_kube_settings *s);
