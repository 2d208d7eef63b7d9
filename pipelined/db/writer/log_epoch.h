/* log_epoch: how a starting daemon takes over the log. It appends an object with the next higher epoch number. The
 * earlier daemon then finds the key of its next object taken and knows that it is fenced. This needs no clocks and
 * no answer from the earlier daemon. */
#pragma once

#include "storage/dataset/log/log.h"

/* maximum attempts to append the epoch object while another daemon keeps writing; about half of them succeed */
#define PL_LOG_EPOCH_TRIES 10000

/* Appends the object that opens epoch head->epoch + 1 after the end of the log, following the log as it grows.
 * Applies nothing: a replay from `head` does that and ends at `*ret`, unless yet another daemon has started. After
 * PL_ENET and PL_ETIMEOUT the object may exist: it fences other daemons and does no harm. PL_EFENCED: other
 * daemons took the next key at every attempt. */
PL_MUST_CHECK
int pl_log_epoch_open(struct pl_object_store *objects, const struct pl_log_head *head, struct pl_log_head *ret,
                      struct pl_err *err);
