/* log_sealed: loads sealed segments, which are compressed blobs in packs, and keeps those in memory that are read now. Any
 * thread. Blocks on the store: without a database reader. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/project_stores.h"
#include "storage/store/record_cache.h"

/* Memory for segments that are being read: a reader takes many small parts of each. record_cache keeps no record of more
 * than an eighth of it. */
#define PL_LOG_SEALED_CACHE_BYTES ((size_t)40 << 20)

/* Where the segments are. Borrows all but the cache. */
struct pl_log_sealed {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_record_cache *cache;
};

/* Loads a segment into `ret`, which is empty. Returns 1; or 1 with an empty `ret` if its content was dropped before a
 * recovery (recovery_prune.h); 0 if no sealed segment has that number. Errors of the store. */
PL_MUST_CHECK
int pl_log_sealed_load(const struct pl_log_sealed *s, const char *project, int64_t job, uint64_t segment, struct pl_buf *ret,
                       struct pl_err *err);
/* Like pl_log_sealed_load, but calls `look` with the bytes and keeps them for the next call. Does not call `look` if the
 * content was dropped. Also errors of `look`. */
PL_MUST_CHECK
int pl_log_sealed_show(const struct pl_log_sealed *s, const char *project, int64_t job, uint64_t segment, pl_byte_view_fn look,
                       void *arg, struct pl_err *err);
/* Sets `*ret` to the number of sealed segments. */
PL_MUST_CHECK
int pl_log_sealed_count(const struct pl_log_sealed *s, int64_t job, int64_t *ret, struct pl_err *err);
