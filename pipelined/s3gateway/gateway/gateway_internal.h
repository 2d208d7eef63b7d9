/* gateway_internal: declarations shared by the gateway's files. A request object is created when the headers
 * are received and lives until the reply. Each step may refuse the request:
 *
 *   headers ──names──▶ operation ──verify──▶ principal ──before──▶ [body ──▶ checked] ──run──▶ reply */
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

struct pl_s3_cors;
struct pl_s3_upload_files;
struct pl_s3_request;

struct pl_s3 {
    struct pl_api_services *services;
    struct pl_http_server *server;
    struct pl_http_route routes[8];
    char *domain, *cors;
    char *url;                   /* URL at which clients reach the gateway; owned */
    struct pl_principal *daemon; /* principal of requests signed with the daemon's own key */
    struct pl_s3_upload_files *uploads;
    struct pl_s3_cors *rules;
};

enum pl_s3_level { PL_S3_SERVICE, PL_S3_BUCKET, PL_S3_OBJECT };

/* One S3 operation. The first row that matches a request is used. */
struct pl_s3_op {
    const char *name; /* S3's name of the operation */
    const char *method;
    enum pl_s3_level level;
    const char *query;  /* query argument that must be present; NULL = none required */
    const char *header; /* header that must be present; NULL = none required */
    uint64_t body_max;  /* largest body in bytes; 0 = no body */
    bool sum_elsewhere; /* true if a checksum header of the request does not describe its body */
    bool costly;        /* may take long: costly requests of one user run in turns (pool_turns.h) */
    bool brings;        /* the operation adds data to the store: it is refused if there is no disk space */
    /* Checks the request before its body is received; may be NULL. */
    int (*before)(struct pl_s3_request *q, struct pl_err *err);
    /* Runs the operation. 0: it has replied. PL_S3_ANSWERS_LATER: it will reply later, and keeps `q` until it
     * calls pl_s3_request_end. Negative: the reply is the error. NULL: not implemented. */
    int (*run)(struct pl_s3_request *q, struct pl_err *err);
};
#define PL_S3_ANSWERS_LATER 1
extern const struct pl_s3_op pl_s3_ops[];
extern const size_t pl_s3_n_ops;

/* The branch or commit that a bucket name stands for. */
struct pl_s3_target {
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    char commit[PL_ID_HEX + 1]; /* id of the commit; "" = the branch itself */
    struct pl_repo_row row;
    struct pl_store *store;
};

struct pl_s3_request {
    struct pl_s3 *s3;
    struct pl_api_services *services;
    struct pl_http_request *http;
    const struct pl_s3_op *op;
    const char *subresource; /* query argument that makes the request another operation than `op`; NULL = none */
    char *path;              /* decoded path of the request; owned */
    char bucket[PL_S3_BUCKET_MAX + 1];
    const char *key; /* object key; points into `path`; "" = none */
    size_t key_len;
    struct pl_principal *who;
    struct pl_sigv4_claim claim;
    struct pl_sigv4_key signing;
    const char *payload; /* value of x-amz-content-sha256 */
    struct pl_s3_target target;
    /* hold on the target's store while the request writes, so that garbage collection removes no pack to
     * which the request may refer; released while the body is received */
    struct pl_store_hold hold;
    struct pl_s3_body *body;
    bool forbidden;                  /* the principal's roles do not allow the request */
    int64_t head_us;                 /* DeleteObject: when the branch's head was created; it dates files that have no date */
    enum pl_s3_sum_kind default_sum; /* checksum to compute if the request has none for its body */
    /* state of the operation; exists from `before` until the reply; freed by drop_more */
    void *more;
    void (*drop_more)(void *more);
};

/* ---- s3_request ---- */

/* Handles a request: a pl_http_handler whose `arg` is the struct pl_s3. */
void pl_s3_on_request(struct pl_http_request *http, void *arg);
/* Frees the request. Operations that return PL_S3_ANSWERS_LATER call it after the reply. NULL is allowed. */
void pl_s3_request_end(struct pl_s3_request *q);
/* Checks that the request's principal may do `verb`; notes the refusal in q->forbidden. PL_EFORBIDDEN. */
PL_MUST_CHECK
int pl_s3_check_verb(struct pl_s3_request *q, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err);
/* Replies with the error as S3's XML document. Failures of the daemon's own store are logged, and told without
 * their text. */
void pl_s3_refuse(struct pl_s3_request *q, const struct pl_err *err);
/* Formats the request as the target of an audit entry; returns `out`. */
const char *pl_s3_audit_target(const struct pl_s3_request *q, char out[512]);
/* Returns the value of the query argument `name`; NULL if it is absent. */
const char *pl_s3_query(const struct pl_s3_request *q, const char *name);
/* Returns the value of a header; NULL if it is absent. An x-amz-* header of a presigned request may also be in its
 * query, without regard to case: clients that sign a URL move such headers there. The header itself wins. */
const char *pl_s3_header(const struct pl_s3_request *q, const char *name);
/* Collects all headers whose names begin with `prefix`, which is "x-amz-…", from the same places, in their order; `ret`
 * points into the request, whose signature was verified. Returns their number. A header may occur again. */
#define PL_S3_AMZ_MAX (2 * PL_SIGV4_PAIRS_MAX)
size_t pl_s3_amz_headers(const struct pl_s3_request *q, const char *prefix, const struct pl_http_pair *ret[PL_S3_AMZ_MAX]);
const char *pl_s3_query_or_empty(const struct pl_s3_request *q, const char *name);
/* Parses a decimal number of digits only; false if it is malformed or does not fit. */
bool pl_s3_number(const char *text, uint64_t *ret);
/* Reads a number from 0 to `max`; larger values become `max`, an absent one becomes `fallback`.
 * PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_query_number(const struct pl_s3_request *q, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                       struct pl_err *err);
void pl_s3_reply_header(struct pl_s3_request *q, const char *name, const char *value);
/* Replies 200 with the XML document. Takes the buffer's memory. */
void pl_s3_reply_xml(struct pl_s3_request *q, struct pl_buf *xml);

/* Reads bucket and key from the request's path and host. q->path belongs to the request.
 * PL_S3_INVALID_BUCKET_NAME. */
PL_MUST_CHECK
int pl_s3_read_names(struct pl_s3_request *q, struct pl_err *err);

/* ---- s3_cors_rules ---- */

/* Reads the rules in `dir` into s3->rules. Errors of pl_s3_cors_open. */
PL_MUST_CHECK
int pl_s3_cors_start(struct pl_s3 *s3, const char *dir, struct pl_err *err);
/* Sets the headers that let a page of another origin read the reply, if the bucket's rules or --s3-cors allow its
 * request. */
void pl_s3_add_cors(struct pl_s3 *s3, struct pl_http_request *http);
/* Replies to OPTIONS, which a browser sends, unsigned, before a page's request. PL_S3_ACCESS_FORBIDDEN,
 * PL_S3_INVALID_REQUEST. */
PL_MUST_CHECK
int pl_s3_preflight(struct pl_s3 *s3, struct pl_http_request *http, struct pl_err *err);

/* ---- s3_target ---- */

/* Resolves the request's bucket into q->target and checks that the principal may do `verb` on it. If `verb`
 * is not a read, q->hold becomes a hold on the target's store. PL_S3_NO_SUCH_BUCKET,
 * PL_S3_INVALID_BUCKET_NAME, PL_S3_ACCESS_DENIED; PL_S3_METHOD_NOT_ALLOWED: the bucket is a commit and `verb`
 * writes. */
PL_MUST_CHECK
int pl_s3_target(struct pl_s3_request *q, enum pl_verb verb, struct pl_err *err);
/* Like pl_s3_target, but for any bucket and without a hold on its store; used for the source of a copy. */
PL_MUST_CHECK
int pl_s3_target_of(struct pl_s3_request *q, const char *bucket, enum pl_verb verb, struct pl_s3_target *ret, struct pl_err *err);
/* Parses a bucket name; looks nothing up. PL_S3_INVALID_BUCKET_NAME. */
PL_MUST_CHECK
int pl_s3_target_name(const char *bucket, struct pl_s3_target *ret, struct pl_err *err);
/* Opens a view of the bucket's files. `version` is a commit id; "" or NULL = the newest state.
 * PL_S3_NO_SUCH_VERSION, PL_S3_NO_SUCH_BUCKET. */
PL_MUST_CHECK
int pl_s3_view(struct pl_s3_request *q, const struct pl_s3_target *t, const char *version, struct pl_branch_view *ret,
               struct pl_err *err);
/* Calls pl_open_commit_put_run for the request's bucket. Returns PL_S3_ANSWERS_LATER if `put` returned 0; `q`
 * may then be freed already. PL_S3_NO_SUCH_BUCKET: the branch was deleted meanwhile. */
PL_MUST_CHECK
int pl_s3_open_commit_put(struct pl_s3_request *q, int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err),
                          void *self, struct pl_err *err);
/* Makes the bucket name of a branch. */
void pl_s3_bucket_name(const char *project, const char *repo, const char *branch, char ret[PL_S3_BUCKET_MAX + 1]);
/* Finds the principal and the secret of an access key; q->who gets a new reference.
 * PL_S3_INVALID_ACCESS_KEY. */
PL_MUST_CHECK
int pl_s3_authenticate(struct pl_s3_request *q, const char *access_key, char ret_secret[PL_S3_SECRET_MAX + 1],
                       struct pl_err *err);
