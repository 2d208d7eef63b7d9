/* kubeconfig: finds the API server and the credentials for it, from the files that kubectl reads, or from the
 * service account of the pod that this program runs in. The function that merges the files is pure: it gets
 * their texts and returns one configuration.
 *
 * Several files (KUBECONFIG=a:b) are read as one: of two entries with the same kind and name, and of two
 * current-contexts, the first counts. Relative paths are relative to the file that contains them. If both a
 * path and its -data are given, -data counts.
 *
 * Refused with a reason: auth-provider (removed in Kubernetes 1.26), an exec plugin that needs a terminal, a
 * certificate without its key, a context, cluster or user that no file defines. */
#pragma once

#include "storage/base/buf.h"

#define PL_KUBECONFIG_MAX   (4u << 20) /* maximum bytes of a kubeconfig file */
#define PL_KUBECONFIG_FILES 32u
#define PL_KUBE_EXEC_ARGS   64u
#define PL_KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

enum pl_kube_interactive { PL_KUBE_IF_AVAILABLE, PL_KUBE_NEVER, PL_KUBE_ALWAYS };

/* A credential plugin: a program that prints credentials. The configuration owns all strings. */
struct pl_kube_plugin {
    char *api_version; /* "client.authentication.k8s.io/v1" or …/v1beta1 */
    char *command;     /* a path if it contains a slash, else searched in PATH */
    char *args[PL_KUBE_EXEC_ARGS + 1];
    char *env[PL_KUBE_EXEC_ARGS + 1]; /* "NAME=value", added to the daemon's environment */
    char *install_hint;               /* advice if the plugin cannot be started; NULL = none */
    bool wants_cluster;               /* provideClusterInfo: the plugin's input describes the cluster */
};

/* A resolved configuration. NULL = not given. Members `x_data` are PEM texts, `x_file` absolute paths. */
struct pl_kubeconfig {
    char *context, *cluster, *user; /* names, for messages; context "in-cluster" for a pod's service account */
    char *server;                   /* "https://host:port/path" without a trailing slash */
    char *name_space;               /* namespace; "default" if none is given */
    char *ca_data, *ca_file;        /* CA certificates as text or path; both NULL = those of the machine */
    char *tls_server_name, *proxy_url;
    bool insecure;
    char *cert_data, *cert_file, *key_data, *key_file;
    /* token_file counts if both are given; `token` is then used only while the file cannot be read */
    char *token, *token_file;
    char *username, *password;
    struct pl_kube_plugin *plugin;
};

void pl_kubeconfig_finish(struct pl_kubeconfig *c);

/* The text of one file and its path. */
struct pl_kubeconfig_text {
    const char *path; /* path of the file, for messages and for relative paths in it */
    const char *text;
    size_t len;
};
/* Merges `n` texts and resolves `context` (NULL = current-context). PL_EINVAL: the error names file and
 * field; PL_ENOTFOUND: the error names what exists; PL_ENOMEM. Pure. */
PL_MUST_CHECK
int pl_kubeconfig_resolve(const struct pl_kubeconfig_text *texts, size_t n, const char *context, struct pl_kubeconfig *ret,
                          struct pl_err *err);

/* The places to search for the configuration. All NULL = search as kubectl does for this user on this
 * machine. */
struct pl_kubeconfig_where {
    const char *files; /* list of files "a:b"; NULL = $KUBECONFIG, else ~/.kube/config */
    const char *context;
    const char *account_dir; /* folder of the service account; NULL = PL_KUBE_ACCOUNT_DIR */
    /* use only the pod's service account; false = use the service account only if no kubeconfig file
     * exists */
    bool in_cluster;
};
/* Loads the configuration. Files of a list that do not exist are skipped, as kubectl does. PL_ENOTFOUND:
 * neither a file nor a service account; the error names the places that were searched. Errors of
 * pl_kubeconfig_resolve. */
PL_MUST_CHECK
int pl_kubeconfig_load(const struct pl_kubeconfig_where *where, struct pl_kubeconfig *ret, struct pl_err *err);
/* Loads the service account of this pod from the folder `dir`; `host` and `port` are those of the API server.
 * PL_ENOTFOUND: not in a pod, or without a service account. */
PL_MUST_CHECK
int pl_kubeconfig_in_cluster(const char *dir, const char *host, const char *port, struct pl_kubeconfig *ret, struct pl_err *err);
