/* remote_stream: reads many records of packs with few requests, and passes each one on as soon as its bytes have
 * arrived: nothing but the record that arrives is kept in memory.
 *
 *   records ──sort──▶ ranges of packs ──one request each──▶ bytes ──verified records──▶ take
 *
 * Any thread; each call has its own requests. */
#pragma once

#include "pipelined/net/remote/remote_prefetch.h"
#include "storage/pack/chunk_reader.h"

/* A record to read, and its number in the caller's list. */
struct pl_remote_wanted {
    struct pl_hash id;
    struct pl_location where;
    size_t i;
};

/* Passes on bytes in the order of the range. A negative result ends the request and is returned. */
typedef int (*pl_remote_write)(void *self, const void *data, size_t n, struct pl_err *err);

/* The source of the packs' bytes. */
struct pl_remote_stream_source {
    void *self;
    /* Says that these ranges will be fetched, in this order. NULL = it makes no difference. */
    void (*plan)(void *self, const struct pl_remote_range *ranges, size_t n);
    /* Makes one request for a range, and passes on its bytes, or the first of them. Returns 0 if all were passed on; the
     * negative result of `write`; another negative code or 1 if it failed. */
    int (*fetch)(void *self, const struct pl_remote_range *range, pl_remote_write write, void *to);
};

/* Reads the records, which are sorted here, and passes each one to `take` once, by its number. A range whose request
 * breaks off is requested again from there, if that request brought a record. The records of a range that cannot be read
 * are left out. All later ranges are left out, too, if `take` refused a record, or if a request ended with PL_ENET,
 * PL_ETIMEOUT or PL_ECANCELED and brought none. If memory runs out, nothing is read. */
void pl_remote_stream_read(const struct pl_remote_stream_source *source, struct pl_remote_wanted *list, size_t n,
                           pl_chunk_take take, void *arg);
