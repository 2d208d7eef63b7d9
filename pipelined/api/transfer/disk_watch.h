/* disk_watch: looks how much room is left where the store and the daemon's folder are (core/disk_room.h): at every push and when it
 * is told to. A change is logged, told as event `store.low`, and stands in the status.
 *
 * Of a store that is a folder both disks count. A bucket's room is its server's to tell: then the folder's disk is watched and told of, and
 * refuses but bodies that would be kept there until they are whole. Any thread; while a disk takes its time to answer one of them, the
 * others go by what it said before. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/disk_space.h"

struct pl_disk_watch;

struct pl_disk_watch_config {
    struct pl_db *db;
    const char *data_dir;
    const char *store_dir; /* NULL or "" = the store is no folder */
};

/* Looks at once. PL_EIO: there is no such folder. */
PL_MUST_CHECK
int pl_disk_watch_create(const struct pl_disk_watch_config *config, struct pl_disk_watch **ret, struct pl_err *err);
/* Whether a push may come of which so many bytes are to be stored (0: a little, or nobody knows): what must stay free stays so behind it.
 * PL_ENOSPC says which disk has how much, and how much it takes. Looks. */
PL_MUST_CHECK
int pl_disk_watch_admit(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err);
/* The same of bytes that lie in the daemon's folder first (spool.h), and are stored when all are there. */
PL_MUST_CHECK
int pl_disk_watch_admit_spooled(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err);
/* [{"of": "store" | "data" | "store, data", "path", "free_bytes", "total_bytes", "low_bytes", "full_bytes", "state"}…], as of now. */
json_t *pl_disk_watch_json(struct pl_disk_watch *w);
void pl_disk_watch_look(struct pl_disk_watch *w);
/* NULL is fine. */
struct pl_disk_watch *pl_disk_watch_destroy(struct pl_disk_watch *w);
