/* kube_identity: who we are to the API server at this moment. A token file is read again after PL_KUBE_TOKEN_S and when the server says
 * 401; a plugin runs again when its credential has ended or was refused. Keys that came as text lie in memory files, never on a disk.
 *
 * One thread (the I/O thread) but for create and destroy; plugins run on a thread of their own meanwhile. */
#pragma once

#include "pipelined/kube/client/kubeconfig.h"
#include "storage/http/http_io.h"

#define PL_KUBE_TOKEN_S 60
#define PL_KUBE_EARLY_S 10 /* a credential counts as ended so long before it does */
#define PL_KUBE_SKEWED_S                                                                                                         \
    60 /* a plugin's newest one is in force for so long at least, whatever our clock says of its end: the server's counts */
#define PL_KUBE_PLUGIN_MS 60000
#define PL_KUBE_TOKEN_MAX (64u << 10)

/* What a request needs; shared, counted; never changes. */
struct pl_kube_auth {
    _Atomic unsigned refs;
    struct pl_http_io_route route;
    char *authorization; /* "Authorization: …"; NULL = none */
    char *host;          /* "Host: …"; NULL = the URL's */
    char *texts_[6];     /* what route points to */
    int fds_[3];         /* memory files; -1 */
};
void pl_kube_auth_unref(struct pl_kube_auth *a);

struct pl_kube_identity;

/* Takes `config`'s contents over, also on failure. `changed(arg)` is called on any thread after PL_EBUSY, when get has something else to
 * say. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_identity_create(struct pl_kubeconfig *config, void (*changed)(void *arg), void *arg, struct pl_kube_identity **ret,
                            struct pl_err *err);
/* A plugin that runs is killed. Takes NULL, returns NULL. */
struct pl_kube_identity *pl_kube_identity_destroy(struct pl_kube_identity *id);
/* A reference to what is in force. PL_EBUSY: a plugin runs, `changed` will come. PL_EAUTH and others: why there is none. */
PL_MUST_CHECK
int pl_kube_identity_get(struct pl_kube_identity *id, int64_t now_ms, struct pl_kube_auth **ret, struct pl_err *err);
/* The server said 401 to it. True when there is, or may be, another: ask again. */
bool pl_kube_identity_refused(struct pl_kube_identity *id, const struct pl_kube_auth *refused, int64_t now_ms);
/* "https://host:port" to put paths behind: the URL that is asked, which names who must vouch for itself. */
const char *pl_kube_identity_base(const struct pl_kube_identity *id);
const struct pl_kubeconfig *pl_kube_identity_config(const struct pl_kube_identity *id);
