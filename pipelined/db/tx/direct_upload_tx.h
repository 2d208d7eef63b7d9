/* brought_tx: transactions on packs that writers put into the bucket by themselves: the daemon has seen their footers, and reads them back
 * (api/read_back.h). Unlogged: a recovered daemon takes every pack for one that was brought. `arg` is a struct pl_direct_upload. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/base/path.h"

struct pl_direct_upload {
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_hash pack;
    char session[PL_ID_HEX + 1];
    char writer[128]; /* who, for people */
    uint64_t bytes;
};

/* Somebody got a URL to put it: it may be there from now on, whether we are told or not. A pack that is noted already stays as it is, but one
 * that was quarantined may be put again, and be good. */
PL_MUST_CHECK
int pl_tx_direct_upload_expect(struct pl_tx *tx, void *arg, struct pl_err *err);
/* It is there, and not read yet, whatever was noted of it before. */
PL_MUST_CHECK
int pl_tx_direct_upload_add(struct pl_tx *tx, void *arg, struct pl_err *err);
/* All of these, within one transaction: `arg` is a struct pl_brought_many. */
struct pl_brought_many {
    const struct pl_direct_upload *packs;
    size_t n;
};
PL_MUST_CHECK
int pl_tx_brought_add_many(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Whether a recovery has forgotten which were read, so that all packs there are have to be added, which is then noted as done. */
PL_MUST_CHECK
int pl_brought_is_forgotten(struct pl_conn *c, bool *ret, struct pl_err *err);
/* `arg` is not looked at. */
PL_MUST_CHECK
int pl_tx_brought_remembered(struct pl_tx *tx, void *arg, struct pl_err *err);
/* It says the truth, or it is gone: nothing more needs to be known of it. */
PL_MUST_CHECK
int pl_tx_direct_upload_settle(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What was expected PL_DIRECT_UPLOAD_EXPECT_S ago and never came will not come: its URL has long expired. `arg` is not looked at. */
#define PL_DIRECT_UPLOAD_EXPECT_S 3600
PL_MUST_CHECK
int pl_tx_direct_upload_forget(struct pl_tx *tx, void *arg, struct pl_err *err);

/* It lies. */
struct pl_direct_upload_mismatch {
    const struct pl_direct_upload *pack;
    const char *why;
    json_t *told; /* borrowed; data of the event pack.quarantined; NULL = none */
};
/* Logged, so that a daemon that was taken over (PL_EFENCED) takes no object out, which may be another one by now. `arg` is a struct
 * pl_direct_upload_mismatch. */
PL_MUST_CHECK
int pl_tx_direct_upload_quarantine(struct pl_tx *tx, void *arg, struct pl_err *err);

/* 1: somebody got a URL to put it, put it, or put what lied under its name; 0: nothing is noted of it. */
PL_MUST_CHECK
int pl_direct_upload_is_noted(struct pl_conn *c, const char *project, const struct pl_hash *pack, struct pl_err *err);

/* Calls `visit` for each in that state, oldest first. */
enum pl_direct_upload_state { PL_BROUGHT_EXPECTED, PL_BROUGHT_UNREAD, PL_BROUGHT_QUARANTINED };
PL_MUST_CHECK
int pl_direct_upload_list(struct pl_conn *c, enum pl_direct_upload_state state,
                          int (*visit)(void *self, const struct pl_direct_upload *b, struct pl_err *err), void *self,
                          struct pl_err *err);
