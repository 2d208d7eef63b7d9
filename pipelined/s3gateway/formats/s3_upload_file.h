/* s3_uploads: multipart uploads under way, each a file DIR/<id>.upload: who puts what where, and the parts that came, whose bytes are in packs.
 * What was answered survives a crash: a line is on the disk when its call returns.
 *
 *   line: 16 hex digits XXH64 of the JSON behind, a blank, JSON, newline. First the head {"bucket": …}, then a line a part, a number
 *   that comes again replaces the one before. A torn last line was never answered, and is cut off.
 *
 * Bounds: PL_S3_UPLOADS_MAX uploads, of one author PL_S3_UPLOADS_AUTHOR_MAX; PL_S3_PARTS_MAX parts of one, PL_S3_PARTS_ALL_MAX of all. Left
 * alone for PL_S3_UPLOAD_IDLE_US, by a clock that does not jump, an upload is dropped: with the next that begins, the next collection or start.
 * Any thread. */
#pragma once

#include "pipelined/s3gateway/formats/completed_uploads.h"
#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "storage/base/path.h"
#include "storage/tree/tree.h"

#define PL_S3_UPLOADS_MAX        10000u
#define PL_S3_UPLOADS_AUTHOR_MAX 2500u
#define PL_S3_PARTS_MAX          10000u
#define PL_S3_PARTS_ALL_MAX      2000000u
#define PL_S3_PART_MIN_BYTES     ((uint64_t)5 << 20) /* of all but the last */
#define PL_S3_UPLOAD_ID_HEX      32u
#define PL_S3_UPLOAD_IDLE_US     (7LL * 24 * 3600 * 1000000)

struct pl_s3_upload_files;
struct pl_s3_upload; /* one; a reference keeps it, also when it has ended */

struct pl_s3_upload_head {
    const char *project, *repo, *branch, *key, *author;
    int64_t repo_id, created_us;
    struct pl_buf attributes; /* without ETag */
    enum pl_s3_sum_kind sum;
    bool whole; /* the checksum of the object is that of its bytes, not of its parts' */
};
struct pl_s3_part {
    unsigned number;
    int64_t at_us;
    uint8_t md5[16];
    uint8_t sum[PL_S3_SUM_MAX_BYTES]; /* of the head's kind */
    struct pl_entry entry;            /* its bytes, as a file; entry.size */
};

/* Reads what lies in `dir`, which is made; `now_us`: wall time that has passed for sure (clock_trust.h). Files that cannot be read are renamed to *.damaged, and logged. PL_EIO. */
PL_MUST_CHECK
int pl_s3_upload_files_open(const char *dir, int64_t now_us, struct pl_s3_upload_files **ret, struct pl_err *err);
/* When all references are given back. NULL is fine. */
struct pl_s3_upload_files *pl_s3_upload_files_close(struct pl_s3_upload_files *u);

/* Begins one. Texts are copied. PL_S3_SLOW_DOWN at the bound. */
PL_MUST_CHECK
int pl_s3_upload_create(struct pl_s3_upload_files *u, const struct pl_s3_upload_head *head, struct pl_s3_upload **ret,
                        struct pl_err *err);
/* PL_S3_NO_SUCH_UPLOAD: none of that id, or one of another bucket or key. */
PL_MUST_CHECK
int pl_s3_upload_find(struct pl_s3_upload_files *u, const char *project, const char *repo, const char *branch, const char *key,
                      const char *id, struct pl_s3_upload **ret, struct pl_err *err);
struct pl_s3_upload *pl_s3_upload_ref(struct pl_s3_upload *u);
struct pl_s3_upload *pl_s3_upload_unref(struct pl_s3_upload *u);
static inline void pl_s3_upload_unrefp(struct pl_s3_upload **u)
{
    if (*u)
        *u = pl_s3_upload_unref(*u);
}
const char *pl_s3_upload_id(const struct pl_s3_upload *u);
const struct pl_s3_upload_head *pl_s3_upload_head(const struct pl_s3_upload *u);
/* A part that is in packs. PL_S3_NO_SUCH_UPLOAD: it has ended; PL_S3_SLOW_DOWN. Blocks until it is on the disk. */
PL_MUST_CHECK
int pl_s3_upload_add(struct pl_s3_upload *u, const struct pl_s3_part *part, struct pl_err *err);
/* The parts so far, by number; malloc'ed. */
PL_MUST_CHECK
int pl_s3_upload_parts(struct pl_s3_upload *u, struct pl_s3_part **ret, size_t *ret_n, struct pl_err *err);
/* It ends: parts are taken no more, its file goes. PL_S3_NO_SUCH_UPLOAD: it has ended. `result`: what came of it, kept for a while, over
 * restarts, for clients that ask again; NULL: nothing did. */
PL_MUST_CHECK
int pl_s3_upload_end(struct pl_s3_upload *u, const struct pl_s3_result *result, struct pl_err *err);
/* What came of one that is completed, of that bucket and key: true and `*ret`. */
bool pl_s3_upload_ended(struct pl_s3_upload_files *u, int64_t repo_id, const char *branch, const char *id, const char *key,
                        struct pl_s3_result *ret);
/* References of those of a bucket, by key, then id; malloc'ed. */
PL_MUST_CHECK
int pl_s3_upload_files_list(struct pl_s3_upload_files *u, const char *project, const char *repo, const char *branch,
                            struct pl_s3_upload ***ret, size_t *ret_n, struct pl_err *err);
/* Those of a repo that is gone end, and their parts may be collected. */
void pl_s3_upload_files_drop_repo(struct pl_s3_upload_files *u, int64_t repo_id);
/* Calls `fn` for the bytes of every part of a project: what must not be collected. */
PL_MUST_CHECK
int pl_s3_upload_files_keep(struct pl_s3_upload_files *u, const char *project,
                            int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self,
                            struct pl_err *err);
