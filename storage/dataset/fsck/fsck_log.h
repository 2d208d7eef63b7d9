/* fsck_log: is the log whole, and are its checkpoints good? Quick: that no number is missing, the newest object, what checkpoints say of
 * themselves. Full: every object from the first on: bytes, chain of hashes, every record's JSON; every byte of the checkpoints, and that
 * each stands on the log object that it names. What is appended meanwhile is not looked at. */
#pragma once

#include "storage/dataset/fsck/fsck.h"
#include "storage/dataset/log/log.h"

/* `head`: where the database stands, whose object must be the log's (NULL: not asked). As pl_fsck for the rest. */
PL_MUST_CHECK
int pl_fsck_log(struct pl_object_store *objects, const uint8_t store_id[16], const struct pl_log_head *head,
                const struct pl_fsck_options *options, struct pl_fsck_report *sum, struct pl_err *err);
