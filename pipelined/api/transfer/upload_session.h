/* upload_session: sessions of clients that upload packs. A session is a row in the database with a lease
 * (pl_tx_upload_session_open), which is renewed while its packs arrive. The bytes received are counted in
 * memory, for the reply to its commit. Thread-safe. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/store.h"

#define PL_UPLOAD_SESSIONS_COUNTED 1024 /* sessions counted; the oldest is forgotten */
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
/* Pins a pack that the session uploads or was told to exist, and revives it if garbage collection had
 * condemned it. Call it before the pack becomes known to the store, so that garbage collection cannot doom
 * it in between (gc.h). Blocks: call it on the pool. PL_ERETRY: the session has ended, or an earlier pack
 * with this id was doomed. */
PL_MUST_CHECK
int pl_upload_session_add_pack(struct pl_db *db, const char *project, const char *id, const struct pl_hash *pack,
                               struct pl_err *err);
/* Pins the packs in which a look-up for the session found records, given by their numbers in the store, and
 * revives those that were condemned meanwhile. Call it with the store held since before the look-up.
 * UINT32_MAX is ignored, repeated numbers are allowed. Sorts `numbers`. Blocks; errors as
 * pl_upload_session_pin. */
PL_MUST_CHECK
int pl_upload_session_pin_numbers(struct pl_sessions *s, struct pl_db *db, struct pl_store *store, const char *id,
                                  uint32_t *numbers, size_t n, struct pl_err *err);

/* Counts a pack that was received for the session. */
void pl_upload_sessions_count_bytes(struct pl_sessions *s, const char *id, uint64_t bytes);
/* Returns the bytes counted since the previous call; 0 for an unknown session. */
uint64_t pl_upload_sessions_take(struct pl_sessions *s, const char *id);
