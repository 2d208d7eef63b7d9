/* s3_internal: what the files of the S3 gateway share. A request is made when its head is there and lives until its answer:
 *
 *   head ──read──▶ operation ──verify──▶ principal ──before──▶ [body ──▶ checked] ──run──▶ answer       any step may refuse
 */
#pragma once

#include "pipelined/api/transfer/transfer.h"
#include "pipelined/db/open_commits/branch_view.h"
#include "pipelined/s3gateway/formats/s3_error.h"
#include "pipelined/s3gateway/gateway/gateway.h"
#include "pipelined/s3gateway/gateway/s3_body.h"
#include "storage/s3/sigv4_verify.h"

#define PL_S3_BUCKET_MAX 255u
#define PL_S3_KEY_MAX    1024u
#define PL_S3_SECRET_MAX 64u
#define PL_S3_XML        "application/xml"

struct pl_s3_upload_files;
struct pl_s3_request;

struct pl_s3 {
    struct pl_api_services *services;
    struct pl_http_server *server;
    struct pl_http_route routes[8];
    char *domain, *cors;
    char *url;                   /* where others reach it */
    struct pl_principal *daemon; /* who has the daemon's own key */
    struct pl_s3_upload_files *uploads;
};

enum pl_s3_level { PL_S3_SERVICE, PL_S3_BUCKET, PL_S3_OBJECT };

/* One operation. The first row that fits is it. */
struct pl_s3_op {
    const char *name; /* S3's */
    const char *method;
    enum pl_s3_level level;
    const char *query;  /* this argument is there; NULL: whatever */
    const char *header; /* so is this header */
    uint64_t body_max;  /* 0 = it has none */
    bool sum_elsewhere; /* a checksum in its head is not that of its body */
    bool costly;        /* it may take long: those of one key's user by turns (turns.h) */
    bool brings;        /* it makes the store larger: refused when there is no room */
    /* Before a body is taken; may be NULL. */
    int (*before)(struct pl_s3_request *q, struct pl_err *err);
    /* Answers: 0, or PL_S3_ANSWERS_LATER when it will and keeps `q` until pl_s3_request_end. A negative result is the answer. NULL: not
     * implemented. */
    int (*run)(struct pl_s3_request *q, struct pl_err *err);
};
#define PL_S3_ANSWERS_LATER 1
extern const struct pl_s3_op pl_s3_ops[];
extern const size_t pl_s3_n_ops;

/* What a bucket's name stands for. */
struct pl_s3_target {
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    char commit[PL_ID_HEX + 1]; /* "" = the branch */
    struct pl_repo_row row;
    struct pl_store *store;
};

struct pl_s3_request {
    struct pl_s3 *s3;
    struct pl_api_services *services;
    struct pl_http_request *http;
    const struct pl_s3_op *op;
    char *path; /* decoded; its bucket with a NUL behind when it is named there */
    char bucket[PL_S3_BUCKET_MAX + 1];
    const char *key; /* "" = none */
    size_t key_len;
    struct pl_principal *who;
    struct pl_sigv4_claim claim;
    struct pl_sigv4_key signing;
    const char *payload; /* what x-amz-content-sha256 says */
    struct pl_s3_target target;
    struct pl_store_hold hold; /* of the target's store, of a request that writes; not while its body comes */
    struct pl_s3_body *body;
    enum pl_s3_sum_kind default_sum; /* of a body that brings none: made, not checked */
    void *more;                      /* the operation's own, between before, run and later */
    void (*drop_more)(void *more);
};

/* ---- s3_request ---- */

/* pl_http_handler; `arg` is the struct pl_s3. */
void pl_s3_on_request(struct pl_http_request *http, void *arg);
/* After the answer of an operation that took its time. */
void pl_s3_request_end(struct pl_s3_request *q);
/* The error is the answer. */
void pl_s3_refuse(struct pl_s3_request *q, const struct pl_err *err);
/* The request as the audit tells it; returns `out`. */
const char *pl_s3_audit_target(const struct pl_s3_request *q, char out[512]);
const char *pl_s3_query(const struct pl_s3_request *q, const char *name); /* NULL: not there */
const char *pl_s3_header(const struct pl_s3_request *q, const char *name);
const char *pl_s3_query_or_empty(const struct pl_s3_request *q, const char *name);
/* Digits alone, of a number that fits. */
bool pl_s3_number(const char *text, uint64_t *ret);
/* A number from 0 to `max`; more is `max`. PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_query_number(const struct pl_s3_request *q, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                       struct pl_err *err);
void pl_s3_reply_header(struct pl_s3_request *q, const char *name, const char *value);
/* Takes the buffer's memory. */
void pl_s3_reply_xml(struct pl_s3_request *q, struct pl_buf *xml);

/* ---- s3_target ---- */

/* The bucket of the request, and that it may be used so; into q->target. PL_S3_NO_SUCH_BUCKET, PL_S3_INVALID_BUCKET_NAME,
 * PL_S3_ACCESS_DENIED; to write: PL_S3_METHOD_NOT_ALLOWED for a commit. */
PL_MUST_CHECK
int pl_s3_target(struct pl_s3_request *q, enum pl_verb verb, struct pl_err *err);
/* The same of any bucket: what a copy is made of. */
PL_MUST_CHECK
int pl_s3_target_of(struct pl_s3_request *q, const char *bucket, enum pl_verb verb, struct pl_s3_target *ret, struct pl_err *err);
/* A bucket's name taken apart; nothing is looked up. */
PL_MUST_CHECK
int pl_s3_target_name(const char *bucket, struct pl_s3_target *ret, struct pl_err *err);
/* What the bucket shows. `version`: of a commit, "" or NULL: the newest. PL_S3_NO_SUCH_VERSION. */
PL_MUST_CHECK
int pl_s3_view(struct pl_s3_request *q, const struct pl_s3_target *t, const char *version, struct pl_branch_view *ret,
               struct pl_err *err);
/* pl_open_commit_put_run into the request's bucket: PL_S3_ANSWERS_LATER when `put` has given 0. PL_S3_NO_SUCH_BUCKET: it is gone by now. */
PL_MUST_CHECK
int pl_s3_open_commit_put(struct pl_s3_request *q, int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err),
                          void *self, struct pl_err *err);
/* The bucket's name of a branch. */
void pl_s3_bucket_name(const char *project, const char *repo, const char *branch, char ret[PL_S3_BUCKET_MAX + 1]);
/* Whose access key it is, into q->who, and its secret. PL_S3_INVALID_ACCESS_KEY. */
PL_MUST_CHECK
int pl_s3_authenticate(struct pl_s3_request *q, const char *access_key, char ret_secret[PL_S3_SECRET_MAX + 1],
                       struct pl_err *err);
