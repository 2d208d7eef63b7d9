/* fsck_log: checks the log and its checkpoints. A quick check verifies that no log object is missing, the
 * newest log object, and the headers of the checkpoints. A full check also verifies every log object from the
 * first on, the chain of hashes, the JSON of every record, every byte of the checkpoints, and that each
 * checkpoint names an existing log object by its hash. Objects that are appended during the check are not
 * checked. */
#pragma once

#include "storage/dataset/fsck/fsck.h"
#include "storage/dataset/log/log.h"

/* Runs the check. `head`: the last log object that the database has applied, which is compared with the log;
 * NULL = no comparison. `store_id`: the store id that all objects must contain. Options, counts and result as
 * for pl_fsck. */
PL_MUST_CHECK
int pl_fsck_log(struct pl_object_store *objects, const uint8_t store_id[16], const struct pl_log_head *head,
                const struct pl_fsck_options *options, struct pl_fsck_report *sum, struct pl_err *err);
