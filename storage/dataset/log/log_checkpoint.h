/* log_checkpoint: checkpoints of the log, `ckpt/<16 hex seq>`: a copy of the database after that log
 * object was applied. Recovery reads the newest checkpoint and the log objects after it. docs/format.md
 * "Log checkpoint". This module does not interpret the database.
 *
 *   offset  bytes  contents
 *   0       4      "PLCK"
 *   4       2 LE   version, 1
 *   6       2 LE   0
 *   8       16     store id
 *   24      8 LE   epoch of the daemon that wrote it
 *   32      8 LE   seq: the last log object that the database has applied
 *   40      32     SHA-256 of that log object's bytes
 *   72      8 LE   time of the checkpoint, µs since 1970
 *   80      8 LE   n: size of the database in bytes
 *   88             one zstd frame of n uncompressed bytes
 *   end-32  32     SHA-256 of all bytes before
 *
 * A checkpoint makes recovery faster and keeps data that is not logged (attempts, events). The log alone
 * is enough to recover every logged record. Log objects are kept even after a checkpoint covers them: all
 * three checkpoints may turn out to be damaged, fsck follows the chain from its first object, and 1,000
 * objects have only a few hundred kilobytes.
 *
 * Bounds: PL_LOG_CHECKPOINT_MAX_BYTES per object, PL_LOG_CHECKPOINT_RAW_MAX_BYTES per database. Memory:
 * the windows of zstd, and two of PL_LOG_CHECKPOINT_IO_BYTES; the object is put from a mapped file. Any
 * thread. */
#pragma once

#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_LOG_CHECKPOINT_KEPT          3
#define PL_LOG_CHECKPOINT_MAX_BYTES     ((uint64_t)2 << 30)
#define PL_LOG_CHECKPOINT_RAW_MAX_BYTES ((uint64_t)64 << 30)
#define PL_LOG_CHECKPOINT_HEADER_BYTES  88u
#define PL_LOG_CHECKPOINT_IO_BYTES      ((size_t)4 << 20)
#define PL_LOG_CHECKPOINT_KEY_BYTES     24 /* "ckpt/" + 16 digits + NUL, rounded up */
/* maximum number of checkpoints listed; a store usually has PL_LOG_CHECKPOINT_KEPT, and one more while a new
 * one is written */
#define PL_LOG_CHECKPOINT_LISTED_MAX 256

struct pl_log_checkpoint_head {
    uint8_t store_id[16];
    uint64_t epoch;
    uint64_t seq;
    struct pl_hash log_hash;
    int64_t at_us;
    uint64_t raw_bytes;
};

void pl_log_checkpoint_key(uint64_t seq, char out[PL_LOG_CHECKPOINT_KEY_BYTES]);

/* Puts the file `path` as a checkpoint with this head, whose raw_bytes is set here; durable on return.
 * `temp`: name of a temporary file for the compressed bytes, removed afterwards. `stop` (may be NULL) is
 * called from time to time; true: PL_ECANCELED. If a checkpoint of that seq exists already, it stays and the
 * result is 0. PL_ETOOBIG, PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_log_checkpoint_put(struct pl_object_store *objects, struct pl_log_checkpoint_head *head, const char *path,
                          const char *temp, bool (*stop)(void *arg), void *arg, struct pl_err *err);
/* Lists the seqs of the newest checkpoints, at most PL_LOG_CHECKPOINT_LISTED_MAX, newest first. Returns
 * their number. */
PL_MUST_CHECK
int pl_log_checkpoint_list(struct pl_object_store *objects, uint64_t ret_seqs[PL_LOG_CHECKPOINT_LISTED_MAX], struct pl_err *err);
/* Reads the header of a checkpoint. PL_ENOTFOUND, PL_ECORRUPT, PL_EFORMAT. */
PL_MUST_CHECK
int pl_log_checkpoint_head_read(struct pl_object_store *objects, uint64_t seq, struct pl_log_checkpoint_head *ret,
                                struct pl_err *err);
/* Verifies every byte of a checkpoint and, unless `path` is NULL, writes the database to that file (not
 * synced). An existing file is replaced; on failure the file is removed. PL_ECORRUPT, PL_EFORMAT,
 * PL_ENOTFOUND, PL_ENOSPC. */
PL_MUST_CHECK
int pl_log_checkpoint_get(struct pl_object_store *objects, uint64_t seq, const char *path, struct pl_log_checkpoint_head *ret,
                          struct pl_err *err);
/* Removes all checkpoints but the newest PL_LOG_CHECKPOINT_KEPT. */
PL_MUST_CHECK
int pl_log_checkpoint_trim(struct pl_object_store *objects, struct pl_err *err);
