/* pack_session: everything that one ingest or one commit writes: hashes records, leaves out what is known, compresses, fills
 * packs and hands full ones to the sink.
 *
 *   add ──▶ batch (≤ 2 MiB raw) ──full──▶ ask the sink what it has ──▶ compress the rest ──▶ open pack ──full──▶ sealed, put
 *
 * add may be called from any number of threads; the thread that fills a batch does its work, while others go on. A full pack is put
 * by a thread of the session's own (pack_putter.h), or, while that one is busy, by the thread that filled it. The first error
 * sticks: every later call returns it. Memory: 2 MiB of batch a thread and at most one pack a thread and one more beside the two
 * being filled (data, tree); the set of ids seen is bounded (PL_SESSION_SEEN_IDS), what falls out of it is found by asking the
 * sink. */
#pragma once

#include "storage/pack/pack_format.h"
#include "storage/pack/pack_sink.h"

#define PL_SESSION_BATCH_BYTES ((size_t)2 << 20)
#define PL_SESSION_BATCH_IDS   1024u
#define PL_SESSION_SEEN_IDS    (1u << 19)

struct pl_pack_session;

struct pl_pack_session_stats {
    uint64_t records;     /* added, all */
    uint64_t new_records; /* of them stored */
    uint64_t raw_bytes;   /* of all added */
    uint64_t new_raw;     /* of those stored */
    uint64_t new_bytes;   /* bytes of the packs put */
    uint64_t packs;
};

/* `sink` is copied, what its self points to outlives the session. PL_ENAME, PL_ENOMEM. */
PL_MUST_CHECK
int pl_pack_session_open(const struct pl_pack_sink *sink, const char *project, struct pl_pack_session **ret, struct pl_err *err);
/* Smaller packs than PL_PACK_MAX_BYTES (at least 64 KiB). Before the first add. */
void pl_pack_session_set_pack_bytes(struct pl_pack_session *s, size_t bytes);
/* Adds a record of a kind (enum pl_rec_kind) and gives its id. The bytes are copied or stored when it returns. PL_EINVAL for an
 * unknown kind, PL_ETOOBIG past the kind's size, the sink's errors. Any thread. */
PL_MUST_CHECK
int pl_pack_session_add(struct pl_pack_session *s, uint8_t kind, const void *data, size_t n, struct pl_hash *ret_id,
                        struct pl_err *err);
/* Whether the session or its sink knows an id: for a caller that could save itself the bytes. Ids of this session's own records
 * are known. Errors count as no. Any thread. */
bool pl_pack_session_knows(struct pl_pack_session *s, const struct pl_hash *id);
/* Puts what is left (data and tree apart; together when that is less than PL_PACK_MIXED_BYTES) and flushes the sink: all that was
 * added is durable. No add may run or follow. */
PL_MUST_CHECK
int pl_pack_session_finish(struct pl_pack_session *s, struct pl_err *err);
/* Ids of the packs put so far, in the order put, for a commit that names what it stands on; valid until close. */
const struct pl_hash *pl_pack_session_packs(struct pl_pack_session *s, size_t *ret_n);
void pl_pack_session_stats(struct pl_pack_session *s, struct pl_pack_session_stats *ret);
/* Frees it; what was not finished is dropped. */
struct pl_pack_session *pl_pack_session_close(struct pl_pack_session *s);
static inline void pl_pack_session_closep(struct pl_pack_session **s)
{
    *s = pl_pack_session_close(*s);
}

/* `put` of a pl_node_sink or pl_list_sink whose self is a struct pl_pack_session *: adds PL_REC_NODE or PL_REC_LIST. */
PL_MUST_CHECK
int pl_pack_session_node_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
PL_MUST_CHECK
int pl_pack_session_list_put(void *session, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
