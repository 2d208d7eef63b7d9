/* recover: a daemon's database anew from its store alone, in a folder that has none.
 *
 *   DIR/recover.db:  newest good checkpoint (broken ones are passed over) ─ the log after it, whole ─ what was under way and is over ─▶
 *   WAL into the file, quick_check, fsync, rename to DIR/pipelined.db
 *
 * It has then every logged record up to the last object of the log, and attempts, events, metrics and results of unfinished jobs as of
 * the checkpoint. A crash or an error on the way leaves no database: the same call begins anew. An object that is missing from the log
 * is an error that names it; nothing is left out in silence. Which packs were not read back yet nobody remembers: `unread` in meta says that all
 * count as such (brought_tx.h). Blocks. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "storage/dataset/log/log.h"

/* Ids of events go on this far behind those of the checkpoint: what followers have seen since is not given to other events. */
#define PL_RECOVER_EVENT_GAP 500000

struct pl_recover_report {
    bool recovered;       /* false: there was no log: a new store */
    uint64_t ckpt_seq;    /* 0: from the log alone */
    uint64_t log_seq;     /* where the log ends */
    unsigned passed_over; /* checkpoints that were broken … */
    char why[512];        /* … and what was wrong with the newest of them */
    json_t *anew;         /* texts: what this folder's next start, or a person, makes anew */
};
void pl_recover_report_finish(struct pl_recover_report *r);

/* DIR/pipelined.db from the store of id `store_id`. The folder's lock is held (open.h), or it is nobody else's. With `look_only` nothing
 * at all is written to the store, which may be read-only: for databases that no daemon goes on with. PL_ELOG (a gap, another chain),
 * PL_ECORRUPT, PL_EFORMAT, PL_ENOSPC. With an empty store nothing is done. */
PL_MUST_CHECK
int pl_db_recover(const char *dir, struct pl_object_store *objects, const uint8_t store_id[16], bool look_only,
                  struct pl_recover_report *ret, struct pl_err *err);
