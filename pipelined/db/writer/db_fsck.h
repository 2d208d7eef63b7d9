/* check: fsck of a whole store: the log and its checkpoints, then each project's packs, commits, specs, code and stage logs, as the database
 * has them. The database is that of a running daemon, or one made for the purpose from the log. Blocks: not on the loop.
 *
 * A full check writes down how far it is, once in PL_DB_FSCK_NOTE_MS, in a file of its own (JSON); the next one goes on from there, unless
 * that is older than PL_DB_FSCK_NOTE_DAYS. A check that came to its end removes the file. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/fsck/fsck.h"
#include "storage/store/project_stores.h"

#define PL_DB_FSCK_NOTE_MS   5000
#define PL_DB_FSCK_NOTE_DAYS 7
#define PL_DB_FSCK_BAD_MAX   1000 /* packs with findings that are noted; with more the next check begins anew */

struct pl_db_fsck {
    struct pl_project_stores *stores;
    struct pl_db *db;     /* whose readers are borrowed, or NULL and */
    struct pl_conn *conn; /* this one, which nobody else uses */
    bool full;
    bool anew;             /* does not go on with an interrupted check */
    const char *note_path; /* where it writes down how far it is; NULL = nowhere */
    unsigned threads;      /* 0 = as many as cores */
    /* As in pl_fsck_options; `project` is "" while the log is looked at. */
    int (*finding)(void *self, const struct pl_fsck_finding *finding, struct pl_err *err);
    void (*progress)(void *self, const char *project, const struct pl_fsck_progress *progress);
    bool (*stop)(void *self);
    void *self;
};

/* 0 also when things were found: sum->findings. */
PL_MUST_CHECK
int pl_db_fsck_run(const struct pl_db_fsck *c, struct pl_fsck_report *sum, struct pl_err *err);
