/* completed_uploads: the results of completed multipart uploads, kept so that a client that lost the reply
 * and repeats the request gets the same reply, also after a restart. Each result is a JSON file
 * DIR/<id>.ended. Bound: PL_S3_ENDED_MAX results; the oldest are dropped. Not thread-safe. */
#pragma once

#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_S3_ENDED_MAX 256u

/* The result of a completed upload: the data of the reply that the request itself does not contain. */
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

/* Reads the results in `dir`, which must exist. Files that cannot be read are removed and logged. */
PL_MUST_CHECK
int pl_s3_ended_open(const char *dir, struct pl_s3_ended_list **ret, struct pl_err *err);
struct pl_s3_ended_list *pl_s3_ended_close(struct pl_s3_ended_list *l);
/* Adds a copy of `e` to the results in memory; pl_s3_ended_write writes its file. If the oldest result was
 * dropped to make room, `ret_gone` is that result's id, else "". */
void pl_s3_ended_add(struct pl_s3_ended_list *l, const struct pl_s3_ended *e, char ret_gone[PL_ID_HEX + 1]);
/* Returns the result with this id, or NULL. */
const struct pl_s3_ended *pl_s3_ended_find(const struct pl_s3_ended_list *l, const char *id);

/* Writes the result `e` to its file in `dir`; the file is durable on return. Removes the file of the result
 * with the id `gone` ("" = none). Any thread. PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_s3_ended_write(const char *dir, const struct pl_s3_ended *e, const char *gone, struct pl_err *err);
