/* notify_send: one delivery of an event: its request, made of the rule's settings, and what came of it.
 *
 * Bounds: PL_NOTIFY_SENDS_MAX deliveries at a time, each PL_NOTIFY_SEND_MS long; PL_NOTIFY_REPLY_MAX bytes of a reply are read. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/notify/notify_events.h"
#include "pipelined/notify/notify_format.h"
#include "pipelined/policy/project_secret.h"
#include "storage/http/http_io.h"
#include "storage/http/outbound.h"
#include "storage/store/project_stores.h"

#define PL_NOTIFY_SENDS_MAX 32u
#define PL_NOTIFY_SEND_MS   10000
#define PL_NOTIFY_REPLY_MAX 4096u
#define PL_NOTIFY_KEY       "hook" /* key of a secret that signs */

/* What deliveries need; must outlive the sender. */
struct pl_notify_sender_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    const struct pl_outbound *outbound;
    /* reads a secret (PL_SECRET_READ) */
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    void *secrets_self;
};

struct pl_notify_sender;
PL_MUST_CHECK
int pl_notify_sender_create(const struct pl_notify_sender_config *config, struct pl_notify_sender **ret, struct pl_err *err);
/* Ends running deliveries with PL_ECANCELED, and each later one. Blocks until they have ended. */
void pl_notify_sender_stop(struct pl_notify_sender *s);
struct pl_notify_sender *pl_notify_sender_destroy(struct pl_notify_sender *s);

/* Checks what a URL names. PL_EFORBIDDEN, PL_EINVAL, with the field "url". */
PL_MUST_CHECK
int pl_notify_send_check_url(const struct pl_notify_sender *s, const char *url, struct pl_err *err);

struct pl_notify_send {
    char rule[PL_NAME_MAX_BYTES + 1];
    int64_t created_us; /* of the rule */
    int64_t id, at_us;  /* of the event */
    char event[PL_NOTIFY_EVENT_CHARS];
    char *next_part; /* format s3: the path up to which this delivery goes, if more follow; NULL = it is the whole event */
    bool doubtful;   /* the rule's last attempt failed */
    bool nothing;    /* there is nothing to send: the commit changed no file, */
    bool gone;       /* or was deleted */
    int64_t took_ms; /* set when it has ended */
    struct pl_notify_send *next; /* for the owner's list */

    struct pl_http_exchange x;
    char *url;
    struct pl_buf body;
    struct iovec iov;
    char delivery[PL_NAME_MAX_BYTES + 64], event_header[PL_NOTIFY_EVENT_CHARS + 32], delivery_header[PL_NAME_MAX_BYTES + 96];
    char signature_header[PL_NOTIFY_SIGNATURE_CHARS + 32];
    const char *headers[6];
    int64_t began_ms;
    size_t received; /* bytes of the reply's body */
    bool accepted;   /* the head of a reply with status 200 to 299 has come */
    void (*ended)(struct pl_notify_send *send);
    void *arg;
};

/* What to send. */
struct pl_notify_parcel {
    const char *rule, *project;
    int64_t created_us;
    const json_t *settings;              /* in normal form */
    const struct pl_notify_event *event; /* NULL = a test */
    const char *missed;                  /* "" = nothing */
    const char *part;                    /* format s3: begin after this path; NULL = at the first */
};

/* Makes the request; checks what its URL names. Reads the secret and, for format s3, the commit: blocks. PL_EFORBIDDEN: the
 * URL is not allowed; PL_ENOTFOUND: the secret does not exist. */
PL_MUST_CHECK
int pl_notify_send_make(struct pl_notify_sender *s, const struct pl_notify_parcel *p, struct pl_notify_send **ret,
                        struct pl_err *err);
/* Sends it; calls `ended` once, on a thread that must not be held up. */
void pl_notify_send_start(struct pl_notify_sender *s, struct pl_notify_send *send, void (*ended)(struct pl_notify_send *send),
                          void *arg);
/* Sends it and waits for the end. */
void pl_notify_send_run(struct pl_notify_sender *s, struct pl_notify_send *send);
/* Returns 0 if it was delivered, else an error that says what happened. PL_ECANCELED: the daemon stops. */
PL_MUST_CHECK
int pl_notify_send_result(const struct pl_notify_send *send, struct pl_err *err);
struct pl_notify_send *pl_notify_send_free(struct pl_notify_send *send);
