/* sessions: writers of packs. A session lives in the database with a lease (pl_tx_upload_session_open), which goes on while its packs come; how
 * many bytes they were is kept here until its commit tells it. Thread-safe. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/store.h"

#define PL_UPLOAD_SESSIONS_COUNTED 1024 /* the oldest is counted no more */
#define PL_UPLOAD_SESSION_PINS                                                                                                   \
    64u /* packs of a session that are remembered as pinned; others are written again, which does nothing */

struct pl_sessions;

PL_MUST_CHECK
int pl_upload_sessions_create(struct pl_sessions **ret, struct pl_err *err);
struct pl_sessions *pl_upload_sessions_destroy(struct pl_sessions *s);

/* That the session is one of the project's and its lease goes on. Blocks: on the pool. PL_EINVAL (no id), PL_ERETRY (it has ended). */
PL_MUST_CHECK
int pl_upload_session_use(struct pl_db *db, const char *id, const char *project, struct pl_err *err);

/* Packs stay until the session ends. Blocks: on the pool. PL_ERETRY: it has ended. */
PL_MUST_CHECK
int pl_upload_session_pin(struct pl_db *db, const char *project, const char *id, const struct pl_hash *packs, size_t n,
                          struct pl_err *err);
/* The session brings a pack, or was told that it is there: it stays until the session ends, and lives again if it was condemned. Before
 * the pack is known, so that nothing can be doomed in between. Blocks: on the pool. PL_ERETRY: the session has ended, or a pack of that id
 * came before and was doomed. */
PL_MUST_CHECK
int pl_upload_session_add_pack(struct pl_db *db, const char *project, const char *id, const struct pl_hash *pack,
                               struct pl_err *err);
/* What the session was told is there, by the numbers that the store has for the packs: they stay until it ends, and live again if they were
 * condemned just now. While the store is held, from the look-up on. UINT32_MAX is nothing, any may come any number of times. Sorts
 * `numbers`. As pl_upload_session_pin. */
PL_MUST_CHECK
int pl_upload_session_pin_numbers(struct pl_sessions *s, struct pl_db *db, struct pl_store *store, const char *id,
                                  uint32_t *numbers, size_t n, struct pl_err *err);

/* A pack of so many bytes was taken in for the session. */
void pl_upload_sessions_count_bytes(struct pl_sessions *s, const char *id, uint64_t bytes);
/* What was brought since this was last asked; 0 for a session that is not known. */
uint64_t pl_upload_sessions_take(struct pl_sessions *s, const char *id);
