/* direct_upload_tx: transactions on packs that clients upload straight to the bucket. The daemon has checked their
 * footers and reads the packs back later. Unlogged: after a recovery every pack counts as uploaded and unread.
 * `arg` is a struct pl_direct_upload unless stated otherwise. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/base/path.h"

struct pl_direct_upload {
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_hash pack;
    char session[PL_ID_HEX + 1];
    char writer[128]; /* the client, for display */
    uint64_t bytes;
};

/* Records that a client got a URL for uploading the pack: the pack may exist from now on, whether the client
 * confirms the upload or not. A pack that is already recorded stays as it is, except that a quarantined one
 * is expected again, since its new upload may be correct. */
PL_MUST_CHECK
int pl_tx_direct_upload_expect(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Records that the pack exists and has not been read back. A pack that is already recorded as unread stays as it
 * is. */
PL_MUST_CHECK
int pl_tx_direct_upload_add(struct pl_tx *tx, void *arg, struct pl_err *err);
/* The same for several packs in one transaction: `arg` is a struct pl_brought_many. */
struct pl_brought_many {
    const struct pl_direct_upload *packs;
    size_t n;
};
PL_MUST_CHECK
int pl_tx_brought_add_many(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Says whether a recovery lost the information which packs were read back. If so, the caller must add a row
 * for every existing pack and then run pl_tx_brought_remembered. */
PL_MUST_CHECK
int pl_brought_is_forgotten(struct pl_conn *c, bool *ret, struct pl_err *err);
/* Records that a row was added for every existing pack after a recovery. `arg` is ignored. */
PL_MUST_CHECK
int pl_tx_brought_remembered(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes the record of the pack: it was read back and is correct, or it no longer exists. */
PL_MUST_CHECK
int pl_tx_direct_upload_settle(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Deletes the records of packs that were expected PL_DIRECT_UPLOAD_EXPECT_S ago: their URLs expired long before.
 * `arg` is ignored. */
#define PL_DIRECT_UPLOAD_EXPECT_S 3600
PL_MUST_CHECK
int pl_tx_direct_upload_forget(struct pl_tx *tx, void *arg, struct pl_err *err);

/* A pack whose content does not match its footer. */
struct pl_direct_upload_mismatch {
    const struct pl_direct_upload *pack;
    const char *why;
    json_t *told; /* borrowed; data of the event pack.quarantined; NULL = no event */
};
/* Records a quarantine. Logged, so that a daemon that has lost the log to another one (PL_EFENCED) removes no
 * object: the other daemon may have replaced it. `arg` is a struct pl_direct_upload_mismatch. */
PL_MUST_CHECK
int pl_tx_direct_upload_quarantine(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Returns 1 if the pack is recorded as expected, unread or quarantined, else 0. */
PL_MUST_CHECK
int pl_direct_upload_is_noted(struct pl_conn *c, const char *project, const struct pl_hash *pack, struct pl_err *err);

/* Calls `visit` for each pack in that state, oldest first. */
enum pl_direct_upload_state { PL_BROUGHT_EXPECTED, PL_BROUGHT_UNREAD, PL_BROUGHT_QUARANTINED };
PL_MUST_CHECK
int pl_direct_upload_list(struct pl_conn *c, enum pl_direct_upload_state state,
                          int (*visit)(void *self, const struct pl_direct_upload *b, struct pl_err *err), void *self,
                          struct pl_err *err);
