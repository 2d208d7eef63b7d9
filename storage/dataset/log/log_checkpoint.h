/* ckpt: log checkpoints, `ckpt/<16 hex seq>`: the database as the log made it up to that object, so that recovery reads the newest one
 * and the log after it. docs/format.md "Log checkpoint". What the database in it is, this module does not know.
 *
 *   offset  bytes  what
 *   0       4      "PLCK"
 *   4       2 LE   version, 1
 *   6       2 LE   0
 *   8       16     store id
 *   24      8 LE   epoch of the daemon that wrote it
 *   32      8 LE   seq: the last log object that the database has applied
 *   40      32     SHA-256 of that log object's bytes
 *   72      8 LE   µs since 1970 when it was made
 *   80      8 LE   raw bytes n of the database
 *   88             one zstd frame of n bytes
 *   end-32  32     SHA-256 of all bytes before
 *
 * A checkpoint saves time and keeps what is not logged (attempts, events); the log alone gives every logged record. That is why log
 * objects stay when a checkpoint covers them: each of the three may turn out to be broken, fsck follows the chain from its first
 * object, and 1,000 objects are a few hundred kilobytes.
 *
 * Bounds: PL_LOG_CHECKPOINT_MAX_BYTES of an object, PL_LOG_CHECKPOINT_RAW_MAX_BYTES of a database; memory: zstd's windows and two of PL_LOG_CHECKPOINT_IO_BYTES (the
 * object goes to the driver mapped from a file). Any thread. */
#pragma once

#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_LOG_CHECKPOINT_KEPT          3
#define PL_LOG_CHECKPOINT_MAX_BYTES     ((uint64_t)2 << 30)
#define PL_LOG_CHECKPOINT_RAW_MAX_BYTES ((uint64_t)64 << 30)
#define PL_LOG_CHECKPOINT_HEADER_BYTES  88u
#define PL_LOG_CHECKPOINT_IO_BYTES      ((size_t)4 << 20)
#define PL_LOG_CHECKPOINT_KEY_BYTES     24  /* "ckpt/" + 16 digits + NUL, rounded up */
#define PL_LOG_CHECKPOINT_LISTED_MAX    256 /* looked at; a store has PL_LOG_CHECKPOINT_KEPT, and one more while one is written */

struct pl_log_checkpoint_head {
    uint8_t store_id[16];
    uint64_t epoch;
    uint64_t seq;
    struct pl_hash log_hash;
    int64_t at_us;
    uint64_t raw_bytes;
};

void pl_log_checkpoint_key(uint64_t seq, char out[PL_LOG_CHECKPOINT_KEY_BYTES]);

/* Puts the file `path` as checkpoint of `head` (whose raw_bytes is set here); durable on return. `temp`: a name beside it for the
 * compressed bytes, removed afterwards. `stop` (may be NULL) is asked now and then: PL_ECANCELED. A checkpoint of that seq that is
 * there already stays: success. PL_ETOOBIG, PL_EIO, PL_ENOSPC. */
PL_MUST_CHECK
int pl_log_checkpoint_put(struct pl_object_store *objects, struct pl_log_checkpoint_head *head, const char *path,
                          const char *temp, bool (*stop)(void *arg), void *arg, struct pl_err *err);
/* The seqs of the checkpoints that there are, newest first, at most PL_LOG_CHECKPOINT_LISTED_MAX of the newest; the count. */
PL_MUST_CHECK
int pl_log_checkpoint_list(struct pl_object_store *objects, uint64_t ret_seqs[PL_LOG_CHECKPOINT_LISTED_MAX], struct pl_err *err);
/* What a checkpoint says of itself. PL_ENOTFOUND; PL_ECORRUPT, PL_EFORMAT. */
PL_MUST_CHECK
int pl_log_checkpoint_head_read(struct pl_object_store *objects, uint64_t seq, struct pl_log_checkpoint_head *ret,
                                struct pl_err *err);
/* Verifies every byte and, unless `path` is NULL, writes the database there (not synced); a file that is there is replaced, and removed
 * on failure. PL_ECORRUPT, PL_EFORMAT, PL_ENOTFOUND, PL_ENOSPC. */
PL_MUST_CHECK
int pl_log_checkpoint_get(struct pl_object_store *objects, uint64_t seq, const char *path, struct pl_log_checkpoint_head *ret,
                          struct pl_err *err);
/* Removes all but the newest PL_LOG_CHECKPOINT_KEPT. */
PL_MUST_CHECK
int pl_log_checkpoint_trim(struct pl_object_store *objects, struct pl_err *err);
