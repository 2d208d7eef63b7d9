/* disk_watch: checks the free space of the disks of the store and of the daemon's folder
 * (pipelined/policy/disk_space.h), at every push and on request. A change of state is logged, published as
 * event `store.low`, and shown in the status.
 *
 * If the store is a folder, pushes are refused when either of the two disks is full. If the store is a
 * bucket, only the disk of the daemon's folder is watched; when it is full, only bodies that must be
 * spooled there are refused. Any thread. One thread at a time calls statvfs for a disk; meanwhile the
 * other threads use the previous result. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/disk_space.h"

struct pl_disk_watch;

struct pl_disk_watch_config {
    struct pl_db *db;
    const char *data_dir;
    const char *store_dir; /* NULL or "" = the store is not a folder */
};

/* Creates the watch and checks the disks once. PL_EIO: a folder does not exist. */
PL_MUST_CHECK
int pl_disk_watch_create(const struct pl_disk_watch_config *config, struct pl_disk_watch **ret, struct pl_err *err);
/* Checks the disks. Also checks that the reserve stays free after a push of `bytes` bytes; 0 = a small push,
 * or an unknown size. PL_ENOSPC names the disk, its free space and the reserve. */
PL_MUST_CHECK
int pl_disk_watch_admit(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err);
/* Like pl_disk_watch_admit, for a body of `bytes` bytes that is spooled in the daemon's folder first
 * (body_spool.h) and stored when complete. */
PL_MUST_CHECK
int pl_disk_watch_admit_spooled(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err);
/* Checks the disks and returns their state: [{"of": "store" | "data" | "store, data", "path", "free_bytes",
 * "total_bytes", "low_bytes", "full_bytes", "state"}…]. */
json_t *pl_disk_watch_json(struct pl_disk_watch *w);
void pl_disk_watch_look(struct pl_disk_watch *w);
/* Frees the watch. NULL is allowed; returns NULL. */
struct pl_disk_watch *pl_disk_watch_destroy(struct pl_disk_watch *w);
