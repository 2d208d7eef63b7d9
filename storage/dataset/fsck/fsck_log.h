/* fsck_log: checks the log and its checkpoints. Quick: that no number is missing, the newest object, and
 * the headers of the checkpoints. Full: the bytes of every object from the first on, the chain of hashes,
 * the JSON of every record, every byte of the checkpoints, and that each checkpoint names an existing log
 * object by its hash. Objects appended meanwhile are not checked. */
#pragma once

#include "storage/dataset/fsck/fsck.h"
#include "storage/dataset/log/log.h"

/* Runs the check. `head`: the state of the database, whose last object must be the log's; NULL = not
 * checked. `store_id`: the id that all objects must have. Options, counts and result as for pl_fsck. */
PL_MUST_CHECK
int pl_fsck_log(struct pl_object_store *objects, const uint8_t store_id[16], const struct pl_log_head *head,
                const struct pl_fsck_options *options, struct pl_fsck_report *sum, struct pl_err *err);
