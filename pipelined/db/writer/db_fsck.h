/* db_fsck: fsck of a whole store: the log and its checkpoints, then each project's packs, commits, specs,
 * code and stage logs, as the database lists them. The database is that of a running daemon, or one rebuilt
 * from the log for the check. Blocks; do not call it on the event loop's thread.
 *
 * A full check saves its progress in a JSON file every PL_DB_FSCK_NOTE_MS; the next check resumes from it unless
 * it is older than PL_DB_FSCK_NOTE_DAYS. A completed check removes the file. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/fsck/fsck.h"
#include "storage/store/project_stores.h"

#define PL_DB_FSCK_NOTE_MS   5000
#define PL_DB_FSCK_NOTE_DAYS 7
/* most damaged packs that the progress file lists; with more the progress is dropped, and the next check
 * starts over */
#define PL_DB_FSCK_BAD_MAX 1000

struct pl_db_fsck {
    struct pl_project_stores *stores;
    struct pl_db *db;     /* the check borrows its readers; NULL = use `conn` */
    struct pl_conn *conn; /* used when `db` is NULL; exclusive to the check */
    bool full;
    bool anew;             /* true = ignore the progress of an interrupted check */
    const char *note_path; /* progress file; NULL = save no progress */
    unsigned threads;      /* 0 = one per core */
    /* Callbacks as in pl_fsck_options; `project` is "" while the log is checked. */
    int (*finding)(void *self, const struct pl_fsck_finding *finding, struct pl_err *err);
    void (*progress)(void *self, const char *project, const struct pl_fsck_progress *progress);
    bool (*stop)(void *self);
    void *self;
};

/* Checks the store. Returns 0 also when the check found damage: see sum->findings. */
PL_MUST_CHECK
int pl_db_fsck_run(const struct pl_db_fsck *c, struct pl_fsck_report *sum, struct pl_err *err);
