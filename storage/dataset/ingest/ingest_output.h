/* ingest_output: writes the operations of finished batches, counts statistics, updates the stat cache, and
 * checks that the store still has the records that entries from the stat cache refer to. Used only in this
 * room. Single-threaded. */
#pragma once

#include "storage/dataset/ingest/ingest_walk.h"

struct pl_ingest_out;

/* Creates the output. Sources, options and `ops` are borrowed. The operations of one source are written at
 * once; those of several sources are sorted at the end. */
PL_MUST_CHECK
int pl_ingest_out_create(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                         struct pl_buf *ops, struct pl_ingest_out **ret, struct pl_err *err);
struct pl_ingest_out *pl_ingest_out_destroy(struct pl_ingest_out *o);
static inline void pl_ingest_out_destroyp(struct pl_ingest_out **o)
{
    *o = pl_ingest_out_destroy(*o);
}
PL_MUST_CHECK
int pl_ingest_out_batch(struct pl_ingest_out *o, const struct pl_walk_batch *b, struct pl_err *err);
/* Ends the stream. `*ret_missing`: the store lacks a record that the stat cache knew, so the operations
 * must not be used. */
PL_MUST_CHECK
int pl_ingest_out_end(struct pl_ingest_out *o, bool *ret_missing, struct pl_ingest_stats *stats, struct pl_err *err);
