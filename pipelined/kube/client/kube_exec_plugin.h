/* kube_exec: a kubeconfig's plugin, run: its environment has KUBERNETES_EXEC_INFO, its output is an ExecCredential. */
#pragma once

#include "pipelined/kube/client/kubeconfig.h"

#define PL_KUBE_PLUGIN_OUT_MAX (1u << 20)

struct pl_kube_credential {
    char *token;      /* NULL = none */
    char *cert, *key; /* PEM; NULL = none */
    int64_t until_s;  /* since 1970; INT64_MAX = it says nothing */
};
void pl_kube_credential_finish(struct pl_kube_credential *c);

/* What the plugin is told, a malloc'ed text; NULL only without memory. */
char *pl_kube_exec_info(const struct pl_kubeconfig *config);
/* What it printed. PL_EAUTH naming the plugin and what is missing. Pure. */
PL_MUST_CHECK
int pl_kube_credential_parse(const char *command, const char *api_version, const char *text, size_t n,
                             struct pl_kube_credential *ret, struct pl_err *err);
/* Runs it; blocks up to `timeout_ms`. `stop_fd` readable: it is killed, PL_ECANCELED. PL_EAUTH with what it said on stderr, or where to get
 * it. Any thread. */
PL_MUST_CHECK
int pl_kube_exec_run(const struct pl_kubeconfig *config, int64_t timeout_ms, int stop_fd, struct pl_kube_credential *ret,
                     struct pl_err *err);
/* RFC 3339 ("2026-01-02T03:04:05Z", with a fraction, with an offset) as µs since 1970; false for anything else. */
bool pl_kube_time_parse(const char *text, int64_t *ret_us);
