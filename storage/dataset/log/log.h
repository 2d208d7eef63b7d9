/* storage/dataset/log: The store's truth: a hash-chained log of group commits, and its checkpoints.
 *
 * In:      Records of one group commit; a database file.
 * Out:     Durable log objects; records in order.
 * Uses:    storage/{base, object, system}
 * Threads: The SQLite writer appends; anyone reads.
 *
 * Headers for other rooms:
 *   log_checkpoint  database checkpoints in the store
 *   log_reader      reads log objects ahead with several threads
 *   log_record      the kinds of log records and their fields */

/* log: the store's truth. One object per group commit, `log/<16 hex seq>`, made once by put-if-absent; each names the hash of the one
 * before, so that a database, a log and a daemon that do not belong together are noticed. SQLite is this log's applied image.
 *
 *   offset  bytes  what
 *   0       4      "PLLG"
 *   4       2 LE   version, 1
 *   6       2 LE   0
 *   8       16     store id
 *   24      8 LE   epoch: the number of the daemon start that wrote it; never falls
 *   32      8 LE   seq: 1, 2, 3 …
 *   40      32     SHA-256 of the previous object's bytes (zero for seq 1)
 *   72      4 LE   number of records
 *   76             records: u16 LE kind, u16 LE 0, u32 LE length, payload (compact JSON, keys sorted; kinds and fields: record.h)
 *
 * At most PL_LOG_OBJECT_MAX_BYTES. Functions are not thread-safe on one struct; the database's writer thread owns the head. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_LOG_OBJECT_MAX_BYTES (8u << 20)
#define PL_LOG_HEADER_BYTES     76
#define PL_LOG_KEY_BYTES        24 /* "log/" + 16 digits + NUL, rounded up */

/* Where the log stands: what the next object follows. */
struct pl_log_head {
    uint8_t store_id[16];
    uint64_t epoch;
    uint64_t seq;        /* of the last object; 0 = none yet */
    struct pl_hash hash; /* of the last object's bytes; zero when seq is 0 */
};

/* One group of records in the making. `{0}` is empty. */
struct pl_log_batch {
    struct pl_buf records;
    uint32_t n;
};

struct pl_log_record {
    uint16_t kind;
    const char *payload; /* not NUL-terminated */
    size_t len;
};

/* What replay feeds. `begin` and `end` bracket one object; a negative return stops the replay with that error. */
struct pl_log_sink {
    void *self;
    int (*begin)(void *self, uint64_t seq, uint64_t epoch, struct pl_err *err);
    int (*record)(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err);
    int (*end)(void *self, const struct pl_log_head *head, struct pl_err *err);
    bool look_only; /* what is applied is thrown away: the store is only read */
};

void pl_log_key(uint64_t seq, char out[PL_LOG_KEY_BYTES]);
/* The seq that a key of that form names; false for any other key. */
bool pl_log_key_parse(const char *key, uint64_t *ret_seq);
void pl_log_batch_finish(struct pl_log_batch *b);
void pl_log_batch_clear(struct pl_log_batch *b);
/* Adds one record. PL_ETOOBIG with the size when the object would pass its limit. */
PL_MUST_CHECK
int pl_log_batch_add(struct pl_log_batch *b, uint16_t kind, const char *payload, size_t len, struct pl_err *err);
/* The first `records_bytes` of the batch stay, `n` records: undoes what was added since. */
void pl_log_batch_truncate(struct pl_log_batch *b, size_t records_bytes, uint32_t n);

/* The bytes of the object that follows `head` with this batch. */
PL_MUST_CHECK
int pl_log_encode(const struct pl_log_head *head, const struct pl_log_batch *b, struct pl_buf *ret, struct pl_err *err);
/* Checks the bytes of an object strictly against `head` (store id, seq = head.seq + 1, previous hash, epoch not lower) and moves
 * `head` on; feeds the records to `sink` (may be NULL). PL_EFORMAT, PL_ECORRUPT, PL_ELOG. */
PL_MUST_CHECK
int pl_log_decode(const void *bytes, size_t n, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err);

/* Puts the object that follows `head`; durable on return, and `head` moved on. PL_EFENCED when that seq is taken by another object:
 * another daemon owns the store. On another error the object is not there, unless `*ret_unknown`: then it may be, and the same call again,
 * with PL_ENET or PL_ETIMEOUT, or a replay can tell. */
PL_MUST_CHECK
int pl_log_append(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_batch *b, bool *ret_unknown,
                  struct pl_err *err);
/* Moves `*seq` over the objects behind it that are of `epoch`. PL_EFENCED: there is one of a higher epoch, another daemon's. Other errors:
 * nobody knows. */
PL_MUST_CHECK
int pl_log_owned(struct pl_object_store *objects, uint64_t epoch, uint64_t *seq, struct pl_err *err);
/* The seq of the last object there is (`after` when none follows that). PL_ELOG names the first object that is missing between `after` and
 * it. */
PL_MUST_CHECK
int pl_log_complete(struct pl_object_store *objects, uint64_t after, uint64_t *ret_last, struct pl_err *err);
/* Feeds every object after `head` up to number `last`, all of which are there, fetched ahead (log_reader.h). PL_ELOG names one that is
 * missing. */
PL_MUST_CHECK
int pl_log_replay_ahead(struct pl_object_store *objects, struct pl_log_head *head, uint64_t last, const struct pl_log_sink *sink,
                        struct pl_err *err);
/* Feeds every object after `head` that is there now to `sink`, and of those that another daemon adds meanwhile as many as come in time;
 * `head` ends at the last. */
PL_MUST_CHECK
int pl_log_replay(struct pl_object_store *objects, struct pl_log_head *head, const struct pl_log_sink *sink, struct pl_err *err);
/* Moves `head` over the object that follows it, whatever it holds. PL_ENOTFOUND: there is none. */
PL_MUST_CHECK
int pl_log_follow(struct pl_object_store *objects, struct pl_log_head *head, struct pl_err *err);
