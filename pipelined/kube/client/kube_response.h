/* kube_response: classifies the answers of an API server by what to do next. Pure.
 *
 *   OK         the request succeeded
 *   AGAIN      the same request may work later: 429, 500 (except "request is too large"), 502, 503, 504, no answer
 *   LOGIN      401: retry once with fresh credentials
 *   PARK       403 because of a quota or a missing service account: retry after pods end or objects change
 *   EXISTS     409 AlreadyExists
 *   CONFLICT   other 409: the object changed, or a precondition does not hold
 *   GONE       404
 *   EXPIRED    410, or a resourceVersion that is too old
 *   AHEAD      a resourceVersion newer than any that the server has, because its database was restored from a backup
 *   ENDING     403 because the namespace is being deleted
 *   DENIED     403 by the authorizer: works only after the daemon's account is granted the permission
 *   REFUSED    final: 400, 403, 405, 413, 422 …; the message says why */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

/* X(NAME, error code for pl_kube_status_error) */
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
    unsigned code;          /* HTTP status; 0 = no answer */
    uint32_t retry_after_s; /* seconds of the Retry-After header; 0 = not given */
    char reason[64];        /* reason of the Status, such as "AlreadyExists"; "" = not given */
    /* reason of the Status's first cause, such as "ResourceVersionTooLarge"; "" = not given */
    char cause[64];
    /* field of the Status's first cause, such as "spec.containers[0].image"; "" = not given */
    char field[128];
    /* the server's message, cut at the size; the first line of a body that is not a Status object */
    char message[900];
};

/* Reads a Status object into `ret`. False if `object` is not one; `ret` is empty then. */
bool pl_kube_status_take(const json_t *object, struct pl_kube_status *ret);
/* Reads the body of an answer with this HTTP status: a Status object, or any text that a proxy sent. */
void pl_kube_status_read(unsigned code, const void *body, size_t n, uint32_t retry_after_s, struct pl_kube_status *ret);
enum pl_kube_verdict pl_kube_status_verdict(const struct pl_kube_status *s);
/* Sets `err` to the server's message and returns the error code (0 for OK): 403 is PL_EFORBIDDEN or
 * PL_ELIMIT, 413 PL_ETOOBIG, 429 PL_EBUSY. */
int pl_kube_status_error(const struct pl_kube_status *s, struct pl_err *err);
