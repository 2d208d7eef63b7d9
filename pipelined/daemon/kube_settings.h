/* kube_settings: the settings of pods, checked, and in the form that pl_pod_render takes. */
#pragma once

#include "pipelined/daemon/config.h"

#include "pipelined/kube/pod/pod_render.h"

#define PL_KUBE_NAMES_MAX     64u /* most names in one setting that is a list of names */
#define PL_KUBE_GRACE_MOST_MS 86400000

struct pl_kube_settings {
    struct pl_pod_settings pods; /* complete except for worker_url, which pl_kube_settings_url sets */
    const char *trusted[PL_KUBE_NAMES_MAX];
    size_t n_trusted;
    /* Arrays and strings that `pods` and `trusted` point to. They also point to strings of the
     * configuration. */
    const char *pull_secrets[PL_KUBE_NAMES_MAX], *arch[PL_KUBE_NAMES_MAX], *claims[PL_KUBE_NAMES_MAX],
        *annotations[PL_KUBE_NAMES_MAX];
    char *texts[5];
    char *worker_url;
};

/* Reads and checks the settings. `ret` borrows from `config` and `store_id`. PL_EINVAL: no image, a malformed
 * quantity or architecture, or too many names; the message names the setting. */
PL_MUST_CHECK
int pl_kube_settings_read(const struct pl_config *config, const char *store_id, struct pl_kube_settings *ret, struct pl_err *err);
/* Sets the URL by which pods reach the daemon: the one in the configuration, or else `url`, at which the
 * daemon listens. In the second case it logs a warning, because pods on other machines cannot use such a URL.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_settings_url(struct pl_kube_settings *s, const struct pl_config *config, const char *url, struct pl_err *err);
void pl_kube_settings_finish(struct pl_kube_settings *s);
