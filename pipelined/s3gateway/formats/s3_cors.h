/* s3_cors: which web pages may call which bucket: the CORS rules that clients have put, a file
 * DIR/<repo id>[-<when the branch was created>]-<branch in hex>.cors for each bucket, with the rules as S3's XML
 * document. They survive a restart. A branch that is made again has none of the rules of the one that was deleted.
 * Bounds: PL_S3_CORS_MAX buckets with rules, PL_S3_CORS_RULES_MAX rules of one, with PL_S3_CORS_ELEMENTS_MAX elements
 * each; PL_S3_CORS_HEADERS_MAX headers that a page asks for. Any thread.
 *
 * Strangers ask whether a page may call a bucket, because preflights have no signature. Rules are therefore found by
 * the bucket's names, in memory: the question costs no look-up elsewhere, and takes as long for a bucket without
 * rules as for one that does not exist. */
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
    const char *project, *repo, *branch;
};

/* Finds the names of a repo. PL_ENOTFOUND. */
typedef int (*pl_s3_cors_repo_fn)(void *arg, int64_t repo_id, char ret_project[PL_NAME_MAX_BYTES + 1],
                                  char ret_repo[PL_NAME_MAX_BYTES + 1], struct pl_err *err);

/* Reads the rules in `dir`, which must exist, and removes those of repos that are no more. Files that cannot be read
 * are renamed to *.damaged and logged. PL_EIO, errors of `name_repo`. */
PL_MUST_CHECK
int pl_s3_cors_open(const char *dir, pl_s3_cors_repo_fn name_repo, void *arg, struct pl_s3_cors **ret, struct pl_err *err);
/* NULL is allowed. */
struct pl_s3_cors *pl_s3_cors_close(struct pl_s3_cors *c);

/* Replaces the rules of a bucket; they are on the disk on return. Takes the document, also after an error.
 * PL_S3_MALFORMED_XML, PL_S3_INVALID_REQUEST: it is not a CORSConfiguration; PL_S3_SLOW_DOWN at the bound;
 * PL_S3_NO_SUCH_BUCKET: a bucket that was made later with its names has rules. */
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
/* Removes the rules of buckets that are no more. `is_there` returns true if the repo has a branch that was created at
 * that time (0: if there is the repo), or if it cannot find out. It is called without a lock, once for each bucket with rules. */
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
/* Finds the first rule that allows the request, of the bucket with the names in `b`. 1 = found: `b` gets repo_id and
 * created_us of the bucket for which the rule was put, which may be another one by now; 0 = none; PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_cors_match(struct pl_s3_cors *c, struct pl_s3_cors_bucket *b, const struct pl_s3_cors_question *question,
                     struct pl_s3_cors_answer *ret, struct pl_err *err);
