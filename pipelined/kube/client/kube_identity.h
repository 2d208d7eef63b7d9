/* kube_identity: the daemon's current credentials for the API server. A token file is read again after
 * PL_KUBE_TOKEN_S and after a 401 answer; a plugin is run again when its credential has expired or was
 * refused. Keys that the kubeconfig holds as text are kept in memory files, never on disk.
 *
 * All functions except create and destroy are called on one thread (the I/O thread); a plugin runs on a
 * thread of its own meanwhile. */
#pragma once

#include "pipelined/kube/client/kubeconfig.h"
#include "storage/http/http_io.h"

#define PL_KUBE_TOKEN_S 60
#define PL_KUBE_EARLY_S 10 /* seconds before its expiry at which a credential is renewed */
#define PL_KUBE_SKEWED_S                                                                                                         \
    60 /* minimum seconds for which a plugin's new credential is used, even if the daemon's clock says that it has expired */
#define PL_KUBE_PLUGIN_MS 60000
#define PL_KUBE_TOKEN_MAX (64u << 10)

/* Credentials and route of a request; reference-counted, immutable. */
struct pl_kube_auth {
    _Atomic unsigned refs;
    struct pl_http_io_route route;
    char *authorization; /* header "Authorization: …"; NULL = none */
    char *host;          /* header "Host: …"; NULL = the URL's host is used */
    char *texts_[6];     /* texts that `route` points to */
    int fds_[3];         /* memory files with certificates and keys; -1 = unused */
};
void pl_kube_auth_unref(struct pl_kube_auth *a);

struct pl_kube_identity;

/* Creates the object; takes the contents of `config`, also on failure. After pl_kube_identity_get returned
 * PL_EBUSY, `changed(arg)` is called, on any thread, when a new call of pl_kube_identity_get may give a
 * different result. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_identity_create(struct pl_kubeconfig *config, void (*changed)(void *arg), void *arg, struct pl_kube_identity **ret,
                            struct pl_err *err);
/* Kills a running plugin and frees the object. NULL is allowed; returns NULL. */
struct pl_kube_identity *pl_kube_identity_destroy(struct pl_kube_identity *id);
/* Returns a reference to the current credentials. PL_EBUSY: the plugin runs, and `changed` will be called
 * when it has ended. PL_EAUTH and other errors: why there are no credentials. */
PL_MUST_CHECK
int pl_kube_identity_get(struct pl_kube_identity *id, int64_t now_ms, struct pl_kube_auth **ret, struct pl_err *err);
/* Reports that the server answered 401 to these credentials. Returns true if other credentials exist or may
 * exist: call pl_kube_identity_get again. */
bool pl_kube_identity_refused(struct pl_kube_identity *id, const struct pl_kube_auth *refused, int64_t now_ms);
/* Returns "https://host:port", with which every request URL begins. Its host is the name that the server's
 * certificate must have. */
const char *pl_kube_identity_base(const struct pl_kube_identity *id);
const struct pl_kubeconfig *pl_kube_identity_config(const struct pl_kube_identity *id);
