/* pack_builder: writes all records of one ingest or commit: hashes records, drops those that the sink already
 * has, compresses the others, fills packs, and hands full packs to the sink.
 *
 *   add ──▶ batch (≤ 2 MiB raw) ──full──▶ ask what the sink has ──▶ compress the rest ──▶ pack ──full──▶ put
 *
 * Any number of threads may call pl_pack_builder_add. The thread that fills a batch processes it, while
 * other threads continue with the next batch. A full pack is put by the builder's upload thread
 * (pack_uploader.h) or, if that is busy, by the thread that filled the pack. The first error is permanent:
 * every later call returns it.
 *
 * Memory: one batch of 2 MiB per thread; the two packs being filled (data, tree), at most one more per
 * thread, and one in the upload thread. The set of recently added ids holds at most
 * PL_PACK_BUILDER_RECENT_IDS; for an id that has dropped out of the set, the sink is asked again. */
#pragma once

#include "storage/pack/pack_format.h"
#include "storage/pack/pack_sink.h"

#define PL_PACK_BUILDER_BATCH_BYTES ((size_t)2 << 20)
#define PL_PACK_BUILDER_BATCH_IDS   1024u
#define PL_PACK_BUILDER_RECENT_IDS  (1u << 19)

struct pl_pack_builder;

struct pl_pack_builder_stats {
    uint64_t records;     /* records added, including duplicates */
    uint64_t new_records; /* records that were new and have been stored */
    uint64_t raw_bytes;   /* uncompressed bytes of all records added */
    uint64_t new_raw;     /* uncompressed bytes of the records stored */
    uint64_t new_bytes;   /* total size of the packs put */
    uint64_t packs;
};

/* Opens a builder. `sink` is copied; the object that its `self` points to must outlive the builder.
 * PL_ENAME (project), PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_builder_open(const struct pl_pack_sink *sink, const char *project, struct pl_pack_builder **ret, struct pl_err *err);
/* Sets the maximum size of a pack in bytes, which is PL_PACK_MAX_BYTES by default; at least 64 KiB. Call it
 * before the first add. */
void pl_pack_builder_set_pack_bytes(struct pl_pack_builder *s, size_t bytes);
/* Adds a record of `kind` (enum pl_rec_kind) and returns its id. The bytes are copied; the caller may
 * reuse `data`. PL_EINVAL: unknown kind; PL_ETOOBIG: larger than the kind allows; also the errors of the
 * sink. Any thread. */
PL_MUST_CHECK
int pl_pack_builder_add(struct pl_pack_builder *s, uint8_t kind, const void *data, size_t n, struct pl_hash *ret_id,
                        struct pl_err *err);
/* Asks the sink in one call which of these records it has, at most PL_PACK_SINK_HAS_MAX, and remembers them as if they had been
 * added. Leaves out those that were added recently. Errors of the sink and of earlier calls; PL_ENOMEM. Any thread. */
PL_MUST_CHECK
int pl_pack_builder_look_up(struct pl_pack_builder *s, const struct pl_hash *ids, size_t n, struct pl_err *err);
/* True if the record `id` was added recently, or found by pl_pack_builder_look_up, so that the caller need not produce its bytes.
 * A record that was added may not be durable yet. False after an error. Any thread. */
bool pl_pack_builder_knows(struct pl_pack_builder *s, const struct pl_hash *id);
/* Puts the remaining records and flushes the sink: on success all added records are durable. Data and tree
 * records go into separate packs, or into one mixed pack if they need less than PL_PACK_MIXED_BYTES
 * together. No other thread may be adding, and nothing may be added afterwards. */
PL_MUST_CHECK
int pl_pack_builder_finish(struct pl_pack_builder *s, struct pl_err *err);
/* Returns the ids of the packs put so far, in the order in which they were put, for a commit that lists
 * the packs it needs. Valid until close. No other thread may add records during the call. */
const struct pl_hash *pl_pack_builder_packs(struct pl_pack_builder *s, size_t *ret_n);
/* Copies the counters. Any thread. */
void pl_pack_builder_stats(struct pl_pack_builder *s, struct pl_pack_builder_stats *ret);
/* Stops and frees the builder. Records that were not finished are dropped. NULL is allowed. Returns NULL. */
struct pl_pack_builder *pl_pack_builder_close(struct pl_pack_builder *s);
static inline void pl_pack_builder_closep(struct pl_pack_builder **s)
{
    *s = pl_pack_builder_close(*s);
}

/* Functions for `put` of a pl_node_sink or pl_list_sink whose self is a struct pl_pack_builder *: they add
 * a record of kind PL_REC_NODE or PL_REC_LIST. */
PL_MUST_CHECK
int pl_pack_builder_node_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
PL_MUST_CHECK
int pl_pack_builder_list_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
