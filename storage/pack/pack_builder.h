/* pack_session: everything that one ingest or one commit writes: hashes records, leaves out what is known, compresses, fills
 * packs and hands full ones to the sink.
 *
 *   add ──▶ batch (≤ 2 MiB raw) ──full──▶ ask the sink what it has ──▶ compress the rest ──▶ open pack ──full──▶ sealed, put
 *
 * add may be called from any number of threads; the thread that fills a batch does its work, while others go on. A full pack is put
 * by a thread of the session's own (pack_putter.h), or, while that one is busy, by the thread that filled it. The first error
 * sticks: every later call returns it. Memory: 2 MiB of batch a thread and at most one pack a thread and one more beside the two
 * being filled (data, tree); the set of ids seen is bounded (PL_PACK_BUILDER_RECENT_IDS), what falls out of it is found by asking the
 * sink. */
#pragma once

#include "storage/pack/pack_format.h"
#include "storage/pack/pack_sink.h"

#define PL_PACK_BUILDER_BATCH_BYTES ((size_t)2 << 20)
#define PL_PACK_BUILDER_BATCH_IDS   1024u
#define PL_PACK_BUILDER_RECENT_IDS  (1u << 19)

struct pl_pack_builder;

struct pl_pack_builder_stats {
    uint64_t records;     /* added, all */
    uint64_t new_records; /* of them stored */
    uint64_t raw_bytes;   /* of all added */
    uint64_t new_raw;     /* of those stored */
    uint64_t new_bytes;   /* bytes of the packs put */
    uint64_t packs;
};

/* `sink` is copied, what its self points to outlives the session. PL_ENAME, PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_builder_open(const struct pl_pack_sink *sink, const char *project, struct pl_pack_builder **ret, struct pl_err *err);
/* Smaller packs than PL_PACK_MAX_BYTES (at least 64 KiB). Before the first add. */
void pl_pack_builder_set_pack_bytes(struct pl_pack_builder *s, size_t bytes);
/* Adds a record of a kind (enum pl_rec_kind) and gives its id. The bytes are copied or stored when it returns. PL_EINVAL for an
 * unknown kind, PL_ETOOBIG past the kind's size, the sink's errors. Any thread. */
PL_MUST_CHECK
int pl_pack_builder_add(struct pl_pack_builder *s, uint8_t kind, const void *data, size_t n, struct pl_hash *ret_id,
                        struct pl_err *err);
/* Whether the session or its sink knows an id: for a caller that could save itself the bytes. Ids of this session's own records
 * are known. Errors count as no. Any thread. */
bool pl_pack_builder_knows(struct pl_pack_builder *s, const struct pl_hash *id);
/* Puts what is left (data and tree apart; together when that is less than PL_PACK_MIXED_BYTES) and flushes the sink: all that was
 * added is durable. No add may run or follow. */
PL_MUST_CHECK
int pl_pack_builder_finish(struct pl_pack_builder *s, struct pl_err *err);
/* Ids of the packs put so far, in the order put, for a commit that names what it stands on; valid until close. */
const struct pl_hash *pl_pack_builder_packs(struct pl_pack_builder *s, size_t *ret_n);
void pl_pack_builder_stats(struct pl_pack_builder *s, struct pl_pack_builder_stats *ret);
/* Frees it; what was not finished is dropped. */
struct pl_pack_builder *pl_pack_builder_close(struct pl_pack_builder *s);
static inline void pl_pack_builder_closep(struct pl_pack_builder **s)
{
    *s = pl_pack_builder_close(*s);
}

/* `put` of a pl_node_sink or pl_list_sink whose self is a struct pl_pack_builder *: adds PL_REC_NODE or PL_REC_LIST. */
PL_MUST_CHECK
int pl_pack_builder_node_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
PL_MUST_CHECK
int pl_pack_builder_list_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
