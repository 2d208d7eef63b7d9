/* epoch: how a start makes the log its own. An object with the next higher epoch number fences whoever wrote before, for that one finds the
 * number taken that it wanted next; without clocks, and without asking it. */
#pragma once

#include "storage/dataset/log/log.h"

#define PL_LOG_EPOCH_TRIES 10000 /* against a daemon that writes all the time: each is as good as a coin */

/* Puts the object that opens epoch head->epoch + 1 behind all that is in the log, following it as it grows; nothing is applied: a
 * replay from `head` on does that, and ends at `*ret`, unless yet another daemon has started. On PL_ENET and PL_ETIMEOUT it may be there all the same: it fences others, and
 * does no harm. PL_EFENCED: others were faster each time. */
PL_MUST_CHECK
int pl_log_epoch_open(struct pl_object_store *objects, const struct pl_log_head *head, struct pl_log_head *ret,
                      struct pl_err *err);
