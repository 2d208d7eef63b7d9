/* kube_exec_plugin: runs the credential plugin of a kubeconfig. The plugin's input is the environment
 * variable KUBERNETES_EXEC_INFO; its output is an ExecCredential object. */
#pragma once

#include "pipelined/kube/client/kubeconfig.h"

#define PL_KUBE_PLUGIN_OUT_MAX (1u << 20)

struct pl_kube_credential {
    char *token;      /* bearer token; NULL = none */
    char *cert, *key; /* client certificate and its key, PEM; NULL = none */
    int64_t until_s;  /* expiry in seconds since 1970; INT64_MAX = not given */
};
void pl_kube_credential_finish(struct pl_kube_credential *c);

/* Returns the value of KUBERNETES_EXEC_INFO, which the caller frees; NULL if out of memory. */
char *pl_kube_exec_info(const struct pl_kubeconfig *config);
/* Parses the plugin's output. PL_EAUTH: the error names the plugin and what is missing. Pure. */
PL_MUST_CHECK
int pl_kube_credential_parse(const char *command, const char *api_version, const char *text, size_t n,
                             struct pl_kube_credential *ret, struct pl_err *err);
/* Runs the plugin; blocks for at most `timeout_ms`. If `stop_fd` becomes readable the plugin is killed:
 * PL_ECANCELED. PL_EAUTH: the error contains what the plugin wrote to standard error, or the kubeconfig's
 * install hint. Any thread. */
PL_MUST_CHECK
int pl_kube_exec_run(const struct pl_kubeconfig *config, int64_t timeout_ms, int stop_fd, struct pl_kube_credential *ret,
                     struct pl_err *err);
/* Parses an RFC 3339 time ("2026-01-02T03:04:05Z", also with a fraction or an offset) to µs since 1970; false
 * if it is malformed. */
bool pl_kube_time_parse(const char *text, int64_t *ret_us);
