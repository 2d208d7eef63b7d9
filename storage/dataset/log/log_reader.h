/* log_reader: log objects in order, fetched ahead by several threads where fetching one takes a while: in a bucket a thousand objects, one
 * after another, are a thousand round trips. Where the store has files they are simply read. One thread uses a reader. Memory:
 * PL_LOG_AHEAD objects of at most 8 MiB; most are a few hundred bytes. */
#pragma once

#include "storage/dataset/log/log.h"

#define PL_LOG_AHEAD 16u

struct pl_log_reader;

/* Objects `first` to `last`. */
PL_MUST_CHECK
int pl_log_reader_open(struct pl_object_store *objects, uint64_t first, uint64_t last, struct pl_log_reader **ret,
                       struct pl_err *err);
/* 1: the next object's number and bytes, which are good until the next call; 0: that was the last. Negative: what the driver said of
 * object `*ret_seq`; the next call goes on with the one after it. */
PL_MUST_CHECK
int pl_log_reader_next(struct pl_log_reader *r, uint64_t *ret_seq, const struct pl_buf **ret, struct pl_err *err);
/* Waits for what is being fetched. NULL is fine. */
struct pl_log_reader *pl_log_reader_close(struct pl_log_reader *r);
static inline void pl_log_reader_closep(struct pl_log_reader **r)
{
    *r = pl_log_reader_close(*r);
}
