/* db_recover: rebuilds a daemon's database from its store alone, in a folder that has none.
 *
 *   DIR/recover.db:  newest good checkpoint (broken ones are skipped) ─ the complete log after it ─▶
 *   drop unfinished jobs of ended runs ─ WAL into the file, quick_check, fsync, rename to DIR/pipelined.db
 *
 * The result has every logged record up to the end of the log, and the attempts, events, metrics and results of
 * unfinished jobs as of the checkpoint. A crash or an error on the way leaves no database: the same call starts
 * over. If an object of the log is missing, recovery fails with an error that names it; no gap is skipped. The log
 * does not say which packs are still to be read back, so meta key `unread` makes all packs count as unread
 * (direct_upload_tx.h). Blocks. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "storage/dataset/log/log.h"

/* Event ids continue this far after those of the checkpoint, so that no new event gets an id that a client saw
 * before the crash. */
#define PL_RECOVER_EVENT_GAP 500000

struct pl_recover_report {
    bool recovered;       /* false: the store has no log, it is new */
    uint64_t ckpt_seq;    /* the checkpoint used; 0 = none, rebuilt from the log alone */
    uint64_t log_seq;     /* last object of the log */
    unsigned passed_over; /* number of broken checkpoints that were skipped */
    char why[512];        /* what was wrong with the newest broken checkpoint */
    json_t *anew;         /* array of texts, one for each thing that the next start or an administrator must create again */
};
void pl_recover_report_finish(struct pl_recover_report *r);

/* Rebuilds DIR/pipelined.db from the store with id `store_id`. The caller holds the folder's lock (db_open.h), or
 * owns the folder. With `look_only` nothing is written to the store, which may be read-only: for databases that no
 * daemon will continue. An empty store is left alone (ret->recovered is false). PL_ELOG (a gap, another chain),
 * PL_ECORRUPT, PL_EFORMAT, PL_ENOSPC. */
PL_MUST_CHECK
int pl_db_recover(const char *dir, struct pl_object_store *objects, const uint8_t store_id[16], bool look_only,
                  struct pl_recover_report *ret, struct pl_err *err);
