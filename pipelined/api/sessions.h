/* sessions: writers of packs. A session lives in the database with a lease (pl_tx_session_open), which goes on while its packs come; how
 * many bytes they were is kept here until its commit tells it. Thread-safe. */
#pragma once

#include "pipelined/db/db.h"

#define PL_SESSIONS_COUNTED 1024 /* the oldest is counted no more */

struct pl_sessions;

PL_MUST_CHECK
int pl_sessions_create(struct pl_sessions **ret, struct pl_err *err);
struct pl_sessions *pl_sessions_destroy(struct pl_sessions *s);

/* That the session is one of the project's and its lease goes on. Blocks: on the pool. PL_EINVAL (no id), PL_ERETRY (it has ended). */
PL_MUST_CHECK
int pl_session_use(struct pl_db *db, const char *id, const char *project, struct pl_err *err);

/* A pack of so many bytes was taken in for the session. */
void pl_sessions_brought(struct pl_sessions *s, const char *id, uint64_t bytes);
/* What was brought since this was last asked; 0 for a session that is not known. */
uint64_t pl_sessions_take(struct pl_sessions *s, const char *id);
