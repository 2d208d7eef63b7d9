/* status_poster: sends statuses of commits to servers of repositories, within the daemon's rules for outbound connections, and notes
 * which were sent. A note goes into the source's details and comes back from there at the next look:
 *
 *   {"commit", "state": "success" | "failure", "text", "done", "error"?, "tries", "again_us"}
 *
 * `done`: the server has it. Otherwise `error` says why not, after `tries` tries, and the next one is made from `again_us` on. */
#pragma once

#include "pipelined/forge/commit_status.h"
#include "pipelined/policy/project_secret.h"
#include "storage/http/outbound.h"
#include <jansson.h>

#define PL_STATUS_POST_MS    10000
#define PL_STATUS_AGAIN_US   (60 * INT64_C(1000000))   /* wait after the first failure; doubled after each */
#define PL_STATUS_AGAIN_MAX  (3600 * INT64_C(1000000)) /* but at most this */
#define PL_STATUS_TEXT_BYTES 1000u

#define PL_STATUS_TOKEN_KEY  "token" /* of the source's secret */

struct pl_status_poster;

/* `outbound` must outlive the poster. `url`: the daemon's page, "" = none. PL_ENOMEM. */
PL_MUST_CHECK
int pl_status_poster_create(const struct pl_outbound *outbound, const char *url, struct pl_status_poster **ret,
                            struct pl_err *err);
/* Makes requests that run, and all later ones, fail with PL_ECANCELED. Any thread; does not block. */
void pl_status_poster_cancel(struct pl_status_poster *p);
/* NULL is allowed. Returns NULL. */
struct pl_status_poster *pl_status_poster_destroy(struct pl_status_poster *p);

/* Checks the settings of a source, {git, status, secret}: whether statuses can be sent to its server. PL_EINVAL, PL_EFORBIDDEN; the
 * errors have the field. */
PL_MUST_CHECK
int pl_status_poster_check(const struct pl_outbound *outbound, const json_t *settings, struct pl_err *err);

/* Returns the note of a status to send, a new reference: that of `before` if it is of the same commit, state and text. NULL: no
 * memory. */
json_t *pl_status_note(const char *commit, bool good, const char *text, const json_t *before);

/* A source whose statuses are sent; borrowed. */
struct pl_status_source {
    struct pl_status_poster *poster;
    /* reads a secret, as in pl_engine_ops (engine.h), with `self` */
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    void *self;
    const char *project, *context;
    const json_t *settings; /* {git, status, secret} */
    bool now;               /* do not wait until again_us */
};

/* Sends the status of the note, unless it is done or its time has not come, and changes the note. Returns 1 if it was sent, 0 if
 * nothing was to be done. Errors are in the note, too; PL_ECANCELED: the daemon stops, and the note stays as it was. Blocks for up to
 * PL_STATUS_POST_MS. */
PL_MUST_CHECK
int pl_status_post(const struct pl_status_source *s, json_t *note, struct pl_err *err);
