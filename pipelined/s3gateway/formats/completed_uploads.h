/* s3_ended: what came of multipart uploads that are completed, for clients that ask again because the answer was lost, also after a restart.
 * Each is a file DIR/<id>.ended, JSON. Bound: PL_S3_ENDED_MAX, the oldest go. Not thread-safe. */
#pragma once

#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_S3_ENDED_MAX 256u

/* The answer but for what the request says itself. */
struct pl_s3_result {
    char etag[PL_S3_ETAG_MAX + 1], version[PL_ID_HEX + 1], sum_text[PL_S3_SUM_TEXT];
    enum pl_s3_sum_kind sum;
};
struct pl_s3_ended {
    char id[PL_ID_HEX + 1], branch[PL_NAME_MAX_BYTES + 1], key[PL_PATH_MAX_BYTES + 2];
    int64_t repo_id, at_us;
    struct pl_s3_result result;
};
struct pl_s3_ended_list;

/* Reads what lies in `dir`, which is there; a file that cannot be read is removed, and logged. */
PL_MUST_CHECK
int pl_s3_ended_open(const char *dir, struct pl_s3_ended_list **ret, struct pl_err *err);
struct pl_s3_ended_list *pl_s3_ended_close(struct pl_s3_ended_list *l);
/* Copies `e`; its file is not written yet. `ret_gone`: the id of the one that went for it, or "". */
void pl_s3_ended_add(struct pl_s3_ended_list *l, const struct pl_s3_ended *e, char ret_gone[PL_ID_HEX + 1]);
/* NULL: none of that id. */
const struct pl_s3_ended *pl_s3_ended_find(const struct pl_s3_ended_list *l, const char *id);

/* Writes the file in `dir`, durable on return, and removes that of `gone`. Any thread. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_s3_ended_write(const char *dir, const struct pl_s3_ended *e, const char *gone, struct pl_err *err);
