/* ingest_out: finished items, in order → operations, statistics, records of the stat cache; and the question whether the store still
 * has what the stat cache knew. Internal to storage/dataset. One thread. */
#pragma once

#include "storage/dataset/ingest/ingest_walk.h"

struct pl_ingest_out;

/* Sources, options and `ops` are borrowed. Operations of one source are written as they come; those of several are sorted at the end. */
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
/* Ends the stream. `*ret_missing`: the store lacks something that came from the stat cache; the operations are of no use then. */
PL_MUST_CHECK
int pl_ingest_out_end(struct pl_ingest_out *o, bool *ret_missing, struct pl_ingest_stats *stats, struct pl_err *err);
