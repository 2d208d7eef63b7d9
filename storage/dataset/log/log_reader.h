/* log_reader: reads log objects in order. If the store has no local files, several threads fetch objects
 * ahead: without that, a thousand objects in a bucket would cost a thousand round trips, one after another.
 * Only one thread may use a reader. Memory: PL_LOG_AHEAD objects of at most 8 MiB; most have a few hundred
 * bytes. */
#pragma once

#include "storage/dataset/log/log.h"

#define PL_LOG_AHEAD 16u

struct pl_log_reader;

/* Opens a reader of the objects `first` to `last`. */
PL_MUST_CHECK
int pl_log_reader_open(struct pl_object_store *objects, uint64_t first, uint64_t last, struct pl_log_reader **ret,
                       struct pl_err *err);
/* Returns 1 with the number and bytes of the next object, valid until the next call; 0 after the last one.
 * On an error, `*ret_seq` is the object that could not be read, and the next call continues with the one
 * after it. */
PL_MUST_CHECK
int pl_log_reader_next(struct pl_log_reader *r, uint64_t *ret_seq, const struct pl_buf **ret, struct pl_err *err);
/* Waits for the fetches in progress and frees the reader. NULL is allowed. */
struct pl_log_reader *pl_log_reader_close(struct pl_log_reader *r);
static inline void pl_log_reader_closep(struct pl_log_reader **r)
{
    *r = pl_log_reader_close(*r);
}
