/* storage/dataset/log: The store's authoritative, hash-chained log of group commits, and its checkpoints.
 *
 * In:      Records of one group commit; a database file.
 * Out:     Durable log objects; records in order.
 * Uses:    storage/{base, object, system}
 * Threads: The database's writer thread appends; any thread reads.
 *
 * Headers for other rooms:
 *   log_checkpoint  database checkpoints in the store
 *   log_reader      reads log objects ahead with several threads
 *   log_record      the kinds of log records and their fields */

/* The log is the authoritative record of a store's metadata. It has one object per group commit, `log/<16
 * hex seq>`, each created once by put-if-absent. Each object contains the hash of the previous object, so
 * that a database or a daemon that does not belong to this log is detected. The SQLite database is the result
 * of applying the log.
 *
 *   offset  bytes  contents
 *   0       4      "PLLG"
 *   4       2 LE   version, 1
 *   6       2 LE   0
 *   8       16     store id
 *   24      8 LE   epoch: number of the daemon start that wrote it; never decreases
 *   32      8 LE   seq: 1, 2, 3 …
 *   40      32     SHA-256 of the previous object's bytes (zero for seq 1)
 *   72      4 LE   number of records
 *   76             records: u16 LE kind, u16 LE 0, u32 LE length, payload (compact JSON with sorted
 *                  keys; kinds and fields: log_record.h)
 *
 * An object has at most PL_LOG_OBJECT_MAX_BYTES. Functions are not thread-safe on the same struct. The
 * database's writer thread owns the head. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_LOG_OBJECT_MAX_BYTES (8u << 20)
#define PL_LOG_HEADER_BYTES     76
#define PL_LOG_KEY_BYTES        24 /* "log/" + 16 digits + NUL, rounded up */

/* The last object of the log; the next object must continue from it. */
struct pl_log_head {
    uint8_t store_id[16];
    uint64_t epoch;
    uint64_t seq;        /* number of the last object; 0 = none */
    struct pl_hash hash; /* SHA-256 of the last object's bytes; zero if seq is 0 */
};

/* The records of one object being built. `{0}` is empty. */
struct pl_log_batch {
    struct pl_buf records;
    uint32_t n;
};

struct pl_log_record {
    uint16_t kind;
    const char *payload; /* JSON, not NUL-terminated */
    size_t len;
};

/* Receives replayed records. `begin` and `end` are called before and after the records of each object. Each
 * function may be NULL. A negative result stops the replay and is returned. */
struct pl_log_sink {
    void *self;
    int (*begin)(void *self, uint64_t seq, uint64_t epoch, struct pl_err *err);
    int (*record)(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err);
    int (*end)(void *self, const struct pl_log_head *head, struct pl_err *err);
    /* true: the replay writes nothing to the store, and does not make names of objects durable; for a
     * database that will be discarded */
    bool look_only;
};

void pl_log_key(uint64_t seq, char out[PL_LOG_KEY_BYTES]);
/* Returns the number of the object with this key; false for any other key. */
bool pl_log_key_parse(const char *key, uint64_t *ret_seq);
void pl_log_batch_finish(struct pl_log_batch *b);
void pl_log_batch_clear(struct pl_log_batch *b);
/* Adds a record. PL_ETOOBIG, with the size: the object would exceed its limit. */
PL_MUST_CHECK
int pl_log_batch_add(struct pl_log_batch *b, uint16_t kind, const char *payload, size_t len, struct pl_err *err);
/* Shortens the batch to its first `records_bytes` and `n` records, to undo later additions. */
void pl_log_batch_truncate(struct pl_log_batch *b, size_t records_bytes, uint32_t n);

/* Encodes the object that follows `head` with the records of the batch, and appends it to `ret`. */
PL_MUST_CHECK
int pl_log_encode(const struct pl_log_head *head, const struct pl_log_batch *b, struct pl_buf *ret, struct pl_err *err);
/* Checks the bytes of an object against `head` (store id, seq = head.seq + 1, previous hash, epoch not
 * lower), passes the records to `sink` (may be NULL) and advances `head`. PL_EFORMAT, PL_ECORRUPT,
 * PL_ELOG. */
PL_MUST_CHECK
int pl_log_decode(const void *bytes, size_t n, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err);

/* Puts the object that follows `head`. On success it is durable and `head` is advanced. PL_EFENCED: another
 * object has this number, so another daemon owns the store. After another error the object does not exist,
 * unless `*ret_unknown` is set: then the object may exist. To find out, repeat the same call (after PL_ENET
 * or PL_ETIMEOUT) or replay the log. */
PL_MUST_CHECK
int pl_log_append(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_batch *b, bool *ret_unknown,
                  struct pl_err *err);
/* Advances `*seq` past the following objects as long as they were written by `epoch`. PL_EFENCED: an object
 * has a higher epoch, so it is another daemon's. After any other error it is unknown which daemon owns the
 * store. */
PL_MUST_CHECK
int pl_log_owned(struct pl_object_store *objects, uint64_t epoch, uint64_t *seq, struct pl_err *err);
/* Returns the number of the last object; `after` if no object follows it. PL_ELOG names the first missing
 * object in between. */
PL_MUST_CHECK
int pl_log_complete(struct pl_object_store *objects, uint64_t after, uint64_t *ret_last, struct pl_err *err);
/* Replays the objects after `head` up to number `last`, all of which must exist, with several fetches
 * ahead (log_reader.h). PL_ELOG names a missing one. */
PL_MUST_CHECK
int pl_log_replay_ahead(struct pl_object_store *objects, struct pl_log_head *head, uint64_t last, const struct pl_log_sink *sink,
                        struct pl_err *err);
/* Replays every object after `head` that exists now, and a bounded number of objects that another daemon adds
 * meanwhile. `head` then describes the last object replayed. */
PL_MUST_CHECK
int pl_log_replay(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err);
/* Advances `head` past the next object, without passing on its records. PL_ENOTFOUND: there is none. */
PL_MUST_CHECK
int pl_log_follow(struct pl_object_store *objects, struct pl_log_head *head, struct pl_err *err);
