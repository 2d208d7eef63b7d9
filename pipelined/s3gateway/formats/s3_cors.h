/* s3_cors: which web pages may call which bucket: the CORS rules that clients have put, a file
 * DIR/<repo id>[-<when the branch was created>]-<branch in hex>.cors for each bucket, with the rules as S3's XML
 * document. They survive a restart. A branch that is made again has none of the rules of the one that was deleted.
 * Bounds: PL_S3_CORS_MAX buckets with rules, PL_S3_CORS_RULES_MAX rules of one, with PL_S3_CORS_ELEMENTS_MAX elements
 * each; PL_S3_CORS_HEADERS_MAX headers that a page asks for. Any thread. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/path.h"

#define PL_S3_CORS_MAX          10000u
#define PL_S3_CORS_RULES_MAX    100u
#define PL_S3_CORS_ELEMENTS_MAX 100u
#define PL_S3_CORS_HEADERS_MAX  100u
#define PL_S3_CORS_ID_MAX       255u

struct pl_s3_cors;
struct pl_s3_xml;

/* The bucket that has the rules. `created_us`: when its branch was created; 0 for master, whose bucket is as old as
 * the repo. */
struct pl_s3_cors_bucket {
    int64_t repo_id, created_us;
    const char *branch;
};

/* Reads the rules in `dir`, which must exist. Files that cannot be read are renamed to *.damaged and logged.
 * PL_EIO. */
PL_MUST_CHECK
int pl_s3_cors_open(const char *dir, struct pl_s3_cors **ret, struct pl_err *err);
/* NULL is allowed. */
struct pl_s3_cors *pl_s3_cors_close(struct pl_s3_cors *c);

/* Replaces the rules of a bucket; they are on the disk on return. Takes the document, also after an error.
 * PL_S3_MALFORMED_XML, PL_S3_INVALID_REQUEST: it is not a CORSConfiguration; PL_S3_SLOW_DOWN at the bound. */
PL_MUST_CHECK
int pl_s3_cors_put(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_s3_xml *xml, struct pl_err *err);
/* Appends the rules as an XML document. PL_S3_NO_SUCH_CORS. */
PL_MUST_CHECK
int pl_s3_cors_get(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_buf *out, struct pl_err *err);
/* Removes the rules of a bucket, if it has any. PL_EIO. */
PL_MUST_CHECK
int pl_s3_cors_delete(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_err *err);
/* Removes the rules of all branches of a deleted repo. */
void pl_s3_cors_drop_repo(struct pl_s3_cors *c, int64_t repo_id);
/* True if PL_S3_CORS_MAX buckets have rules. */
bool pl_s3_cors_is_full(struct pl_s3_cors *c);
/* Removes the rules of branches that are no more. `is_there` returns true if the repo has a branch that was created
 * at that time, or if it cannot find out. It is called without a lock, once for each bucket with rules. */
void pl_s3_cors_sweep(struct pl_s3_cors *c, bool (*is_there)(void *arg, int64_t repo_id, int64_t created_us), void *arg);

/* What a page asks for. */
struct pl_s3_cors_question {
    const char *origin, *method;
    const char *headers; /* list of header names; NULL = none */
};
/* The values of the reply's headers; "" = none. The caller finishes the buffers. */
struct pl_s3_cors_answer {
    bool any_origin; /* Access-Control-Allow-Origin is "*" */
    struct pl_buf methods, expose, max_age;
};
void pl_s3_cors_answer_finish(struct pl_s3_cors_answer *a);
/* Finds the bucket's first rule that allows the request. 1 = found, 0 = none; PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_cors_match(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, const struct pl_s3_cors_question *question,
                     struct pl_s3_cors_answer *ret, struct pl_err *err);
