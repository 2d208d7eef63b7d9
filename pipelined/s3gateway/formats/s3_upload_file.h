/* s3_upload_file: multipart uploads in progress, each a file DIR/<id>.upload. It records the upload's target
 * and author, and the parts received so far, whose bytes are in packs. What was acknowledged survives a
 * crash: a line is on the disk when the call that wrote it returns.
 *
 *   file: head line, part line…      line: 16 hex digits (XXH64 of the JSON), a blank, JSON, newline
 *
 * A later line with the same part number replaces an earlier one. A torn last line was never acknowledged and
 * is cut off.
 *
 * Bounds: PL_S3_UPLOADS_MAX uploads, PL_S3_UPLOADS_AUTHOR_MAX of one author; PL_S3_PARTS_MAX parts of one
 * upload, PL_S3_PARTS_ALL_MAX of all. An upload without a new part for PL_S3_UPLOAD_IDLE_US, by a clock that
 * does not jump, is dropped when the next upload begins, at the next garbage collection, or at the next
 * start. Any thread. */
#pragma once

#include "pipelined/s3gateway/formats/completed_uploads.h"
#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "storage/base/path.h"
#include "storage/tree/tree.h"

#define PL_S3_UPLOADS_MAX        10000u
#define PL_S3_UPLOADS_AUTHOR_MAX 2500u
#define PL_S3_PARTS_MAX          10000u
#define PL_S3_PARTS_ALL_MAX      2000000u
#define PL_S3_PART_MIN_BYTES     ((uint64_t)5 << 20) /* smallest size of all parts but the last */
#define PL_S3_UPLOAD_ID_HEX      32u
#define PL_S3_UPLOAD_IDLE_US     (7LL * 24 * 3600 * 1000000)

struct pl_s3_upload_files;
struct pl_s3_upload; /* one upload; each reference keeps the struct alive, even after the upload has ended */

struct pl_s3_upload_head {
    const char *project, *repo, *branch, *key, *author;
    int64_t repo_id, created_us;
    /* attributes of the object that the completed upload becomes; without its ETag */
    struct pl_buf attributes;
    enum pl_s3_sum_kind sum;
    /* true if the object's checksum is computed from its bytes, false if from the checksums of its parts */
    bool whole;
};
struct pl_s3_part {
    unsigned number;
    int64_t at_us;
    uint8_t md5[16];
    /* the checksum with which the part was checked or that was computed for it; if the head has a kind, it is of that */
    enum pl_s3_sum_kind sum_kind;
    bool sum_unknown; /* an older daemon checked the part with a checksum whose kind it did not write */
    uint8_t sum[PL_S3_SUM_MAX_BYTES];
    struct pl_entry entry; /* file entry of the part's bytes; entry.size is the number of bytes */
};

/* Reads the uploads in `dir`; creates the folder if it is missing. `now_us` is a wall time that has certainly
 * passed (clock_trust.h); the age of the uploads is measured against it. Damaged files are renamed to
 * *.damaged and logged. PL_EIO. */
PL_MUST_CHECK
int pl_s3_upload_files_open(const char *dir, int64_t now_us, struct pl_s3_upload_files **ret, struct pl_err *err);
/* Frees the object. Call it when all references to uploads were released. NULL is allowed. */
struct pl_s3_upload_files *pl_s3_upload_files_close(struct pl_s3_upload_files *u);

/* Begins an upload; copies the texts. `ret` is a reference, owned by the caller. PL_S3_SLOW_DOWN at a
 * bound. */
PL_MUST_CHECK
int pl_s3_upload_create(struct pl_s3_upload_files *u, const struct pl_s3_upload_head *head, struct pl_s3_upload **ret,
                        struct pl_err *err);
/* Finds an upload; `ret` is a new reference. PL_S3_NO_SUCH_UPLOAD: no upload has this id, or it is for
 * another bucket or key. */
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
/* Records a part whose bytes are in packs. Blocks until the record is on the disk. PL_S3_NO_SUCH_UPLOAD: the
 * upload has ended; PL_S3_SLOW_DOWN at the bound of all parts. */
PL_MUST_CHECK
int pl_s3_upload_add(struct pl_s3_upload *u, const struct pl_s3_part *part, struct pl_err *err);
/* Gives a malloc'ed copy of the parts received so far, sorted by number. */
PL_MUST_CHECK
int pl_s3_upload_parts(struct pl_s3_upload *u, struct pl_s3_part **ret, size_t *ret_n, struct pl_err *err);
/* Ends the upload: it accepts no more parts, and its file is removed. `result` is the result of a completed
 * upload; it is kept for a while, also over restarts, so that a client that repeats the request gets the same
 * reply. NULL: the upload was aborted or dropped. PL_S3_NO_SUCH_UPLOAD: the upload has ended already. */
PL_MUST_CHECK
int pl_s3_upload_end(struct pl_s3_upload *u, const struct pl_s3_result *result, struct pl_err *err);
/* Finds the result of a completed upload of this bucket and key. Returns false if no result is kept. */
bool pl_s3_upload_ended(struct pl_s3_upload_files *u, int64_t repo_id, const char *branch, const char *id, const char *key,
                        struct pl_s3_result *ret);
/* Lists the uploads of a bucket, sorted by key, then id. `ret` is a malloc'ed array with a reference to each
 * upload; the caller owns both. */
PL_MUST_CHECK
int pl_s3_upload_files_list(struct pl_s3_upload_files *u, const char *project, const char *repo, const char *branch,
                            struct pl_s3_upload ***ret, size_t *ret_n, struct pl_err *err);
/* Ends the uploads of a deleted repo; garbage collection may then remove their parts. */
void pl_s3_upload_files_drop_repo(struct pl_s3_upload_files *u, int64_t repo_id);
/* Calls `fn` for the bytes of every part of a project's uploads, which garbage collection must keep. Drops
 * idle uploads first. */
PL_MUST_CHECK
int pl_s3_upload_files_keep(struct pl_s3_upload_files *u, const char *project,
                            int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self,
                            struct pl_err *err);
