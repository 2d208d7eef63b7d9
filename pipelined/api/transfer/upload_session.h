/* upload_session: sessions of clients that upload packs. A session is a row in the database with a lease
 * (pl_tx_upload_session_open), which is renewed while packs of the session arrive. Memory has the number of
 * bytes received in the session, which the reply to the session's commit reports. Thread-safe. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/store.h"

/* number of sessions whose bytes are counted; the oldest is forgotten */
#define PL_UPLOAD_SESSIONS_COUNTED 1024
#define PL_UPLOAD_SESSION_PINS                                                                                                   \
    64u /* packs of a session that are remembered as pinned; pinning any other again is a harmless write */

struct pl_sessions;

PL_MUST_CHECK
int pl_upload_sessions_create(struct pl_sessions **ret, struct pl_err *err);
struct pl_sessions *pl_upload_sessions_destroy(struct pl_sessions *s);

/* Checks that the session belongs to the project, and renews its lease if needed. Blocks: call it on the
 * pool. PL_EINVAL (not an id), PL_ERETRY (it has ended). */
PL_MUST_CHECK
int pl_upload_session_use(struct pl_db *db, const char *id, const char *project, struct pl_err *err);

/* Pins packs: garbage collection keeps them until the session ends. Blocks: call it on the pool. PL_ERETRY:
 * it has ended. */
PL_MUST_CHECK
int pl_upload_session_pin(struct pl_db *db, const char *project, const char *id, const struct pl_hash *packs, size_t n,
                          struct pl_err *err);
/* Pins a pack that the session uploads, or that the session was told exists. Revives the pack if garbage
 * collection had condemned it. Call this before the pack becomes known to the store, so that garbage
 * collection cannot doom the pack in between (gc.h). Blocks: call it on the pool. PL_ERETRY: the session has
 * ended, or an earlier pack with this id was doomed. */
PL_MUST_CHECK
int pl_upload_session_add_pack(struct pl_db *db, const char *project, const char *id, const struct pl_hash *pack,
                               struct pl_err *err);
/* Pins packs, given by their numbers in the store, in which a look-up for the session has found records.
 * Revives the packs that garbage collection has condemned since the look-up. The caller must have a hold on
 * the store (pl_store_hold) that began before the look-up. Sorts `numbers`; ignores UINT32_MAX and repeated
 * numbers. Blocks; errors as pl_upload_session_pin. */
PL_MUST_CHECK
int pl_upload_session_pin_numbers(struct pl_sessions *s, struct pl_db *db, struct pl_store *store, const char *id,
                                  uint32_t *numbers, size_t n, struct pl_err *err);

/* Counts a pack that was received for the session. */
void pl_upload_sessions_count_bytes(struct pl_sessions *s, const char *id, uint64_t bytes);
/* Returns the bytes counted since the previous call; 0 for an unknown session. */
uint64_t pl_upload_sessions_take(struct pl_sessions *s, const char *id);
