/* kube_status: what an API server answers when it does not do what it was asked, and what to do then. Pure.
 *
 *   OK         it was done
 *   AGAIN      the same may work later: 429, 500 (but "request is too large"), 502, 503, 504, lost connections
 *   LOGIN      401: with fresh credentials, once
 *   PARK       403 of a quota, or for want of a service account: not before something else ends, or comes
 *   EXISTS     409 AlreadyExists          CONFLICT   409 otherwise: it changed, or a precondition does not hold
 *   GONE       404                        EXPIRED    410, or a resourceVersion that is too old
 *   AHEAD      a resourceVersion that the server has not reached: it was set back to an older backup
 *   ENDING     403 since its namespace is being deleted
 *   DENIED     403 of the authorizer: until our account is given that permission
 *   REFUSED    nothing will change it: 400, 403, 405, 413, 422 …; the message is the answer */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

/*  X(NAME, the code of our error) */
#define PL_KUBE_VERDICTS(X)                                                                                                      \
    X(OK, 0)                                                                                                                     \
    X(AGAIN, PL_ENET)                                                                                                            \
    X(LOGIN, PL_EAUTH)                                                                                                           \
    X(PARK, PL_ELIMIT)                                                                                                           \
    X(EXISTS, PL_EEXISTS)                                                                                                        \
    X(CONFLICT, PL_ECONFLICT)                                                                                                    \
    X(GONE, PL_ENOTFOUND)                                                                                                        \
    X(EXPIRED, PL_ERETRY)                                                                                                        \
    X(AHEAD, PL_ERETRY)                                                                                                          \
    X(ENDING, PL_EFORBIDDEN)                                                                                                     \
    X(DENIED, PL_EFORBIDDEN)                                                                                                     \
    X(REFUSED, PL_EINVAL)

enum pl_kube_verdict {
#define PL_KUBE_VERDICT_ENUM(name, code) PL_KUBE_##name,
    PL_KUBE_VERDICTS(PL_KUBE_VERDICT_ENUM)
#undef PL_KUBE_VERDICT_ENUM
};
const char *pl_kube_verdict_name(enum pl_kube_verdict v);

struct pl_kube_status {
    unsigned code;          /* HTTP's; 0 = no answer */
    uint32_t retry_after_s; /* 0 = not said */
    char reason[64];        /* "AlreadyExists"; "" */
    char cause[64];         /* reason of the first cause: "ResourceVersionTooLarge"; "" */
    char field[128];        /* of the first cause: "spec.containers[0].image"; "" */
    char message[900];      /* verbatim, cut at the size; of what is no Status its first line */
};

/* Reads a Status object into `ret`, all of it. False when it is none: then `ret` is empty. */
bool pl_kube_status_take(const json_t *object, struct pl_kube_status *ret);
/* The body of an answer with this HTTP status: a Status, or whatever a proxy says. */
void pl_kube_status_read(unsigned code, const void *body, size_t n, uint32_t retry_after_s, struct pl_kube_status *ret);
enum pl_kube_verdict pl_kube_status_verdict(const struct pl_kube_status *s);
/* Our error for it: the server's message as it is; returns its code (0 for OK). 403 is PL_EFORBIDDEN, 413 PL_ETOOBIG. */
int pl_kube_status_error(const struct pl_kube_status *s, struct pl_err *err);
