/* kubeconfig: which API server, and who we are to it. From the files that kubectl reads, or from what a pod finds inside itself. The
 * merging is pure: texts in, one cluster out.
 *
 *   Several files (KUBECONFIG=a:b) are read as one: of two entries of the same kind and name, and of two current-contexts, the first
 *   counts. Relative paths are meant from the file that they stand in. In front of a path and its -data, the -data counts.
 *
 * Refused with the reason: auth-provider (Kubernetes 1.26 removed it), an exec plugin that must have a terminal, certificates without
 * their key, a context, cluster or user that no file has. */
#pragma once

#include "storage/base/buf.h"

#define PL_KUBECONFIG_MAX   (4u << 20) /* bytes of a file */
#define PL_KUBECONFIG_FILES 32u
#define PL_KUBE_EXEC_ARGS   64u
#define PL_KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

enum pl_kube_interactive { PL_KUBE_IF_AVAILABLE, PL_KUBE_NEVER, PL_KUBE_ALWAYS };

/* A program that says who we are. All strings are the config's. */
struct pl_kube_plugin {
    char *api_version; /* "client.authentication.k8s.io/v1" or …/v1beta1 */
    char *command;     /* a path when it has a slash, else looked up in PATH */
    char *args[PL_KUBE_EXEC_ARGS + 1];
    char *env[PL_KUBE_EXEC_ARGS + 1]; /* "NAME=value", beside the environment */
    char *install_hint;               /* NULL = none */
    bool wants_cluster;               /* provideClusterInfo */
};

/* NULL = not given. A thing in `x_data` is PEM text, in `x_file` an absolute path. */
struct pl_kubeconfig {
    char *context, *cluster, *user; /* names, for messages; "in-cluster" */
    char *server;                   /* "https://host:port/path" without a slash at its end */
    char *name_space;               /* "default" when nothing says another */
    char *ca_data, *ca_file;        /* neither = the machine's */
    char *tls_server_name, *proxy_url;
    bool insecure;
    char *cert_data, *cert_file, *key_data, *key_file;
    char *token, *token_file; /* both: the file counts, the other until it can be read */
    char *username, *password;
    struct pl_kube_plugin *plugin;
};

void pl_kubeconfig_finish(struct pl_kubeconfig *c);

/* One file's text and where it lies. */
struct pl_kubeconfig_text {
    const char *path; /* for messages and relative paths */
    const char *text;
    size_t len;
};
/* Reads `n` texts as one and takes `context` (NULL = current-context) out of them. PL_EINVAL naming file and field, PL_ENOTFOUND naming
 * what there is, PL_ENOMEM. Pure. */
PL_MUST_CHECK
int pl_kubeconfig_resolve(const struct pl_kubeconfig_text *texts, size_t n, const char *context, struct pl_kubeconfig *ret,
                          struct pl_err *err);

/* Where to look. NULL everywhere = as a program of this user on this machine. */
struct pl_kubeconfig_where {
    const char *files; /* "a:b"; NULL = $KUBECONFIG, else ~/.kube/config */
    const char *context;
    const char *account_dir; /* NULL = PL_KUBE_ACCOUNT_DIR */
    bool in_cluster;         /* only the pod's own account; else it is taken when there is no file at all */
};
/* PL_ENOTFOUND when there is neither a file nor an account, naming where it looked; as pl_kubeconfig_resolve. Files of a list that are
 * not there are passed over, as kubectl does. */
PL_MUST_CHECK
int pl_kubeconfig_load(const struct pl_kubeconfig_where *where, struct pl_kubeconfig *ret, struct pl_err *err);
/* The identity of the pod that this program runs in, from `dir` and KUBERNETES_SERVICE_HOST and _PORT. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_kubeconfig_in_cluster(const char *dir, const char *host, const char *port, struct pl_kubeconfig *ret, struct pl_err *err);
