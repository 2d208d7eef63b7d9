/* chunk_reader: an interface for reading verified records. One implementation reads from a store in this
 * process, the other from a daemon over HTTP. Checkout, cat and the worker agent read through it. Several
 * threads call `get` at the same time. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

/* Receives the bytes of record `i` of the caller's list. A negative result ends the reading. */
typedef int (*pl_chunk_take)(void *arg, size_t i, const uint8_t *bytes, size_t n, struct pl_err *err);

struct pl_chunk_reader {
    void *self;
    /* Reads the raw bytes of the record `id`, whose kind must be `kind` (PL_REC_CHUNK, PL_REC_LIST, …; 0 =
     * any), into `ret`. The former content of `ret` is replaced and its memory reused. The implementation
     * has verified that the bytes match the hash. PL_ENOTFOUND, PL_ECORRUPT, PL_EIO, PL_ENET. */
    int (*get)(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err);
    /* Says that `get` will be called for these records soon, in this order. NULL = it makes no difference. */
    void (*will_read)(void *self, const struct pl_hash *ids, size_t n);
    /* Reads the records in any order, with few requests, and passes each one's verified bytes to `take` as they
     * arrive, on the caller's thread. Records that it cannot read are not passed on: read them with `get`. NULL =
     * `get` is as good. Use pl_chunk_reader_each. */
    void (*stream)(void *self, const struct pl_hash *ids, size_t n, pl_chunk_take take, void *arg);
    unsigned streams; /* most calls of `stream` at the same time that are of use; 0 if it is NULL */
};

/* Reads the records in any order and passes each one to `take` once. Returns the first error of `take`, or of `get`.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_chunk_reader_each(const struct pl_chunk_reader *reader, const struct pl_hash *ids, size_t n, pl_chunk_take take, void *arg,
                         struct pl_err *err);

/* Returns a reader that reads from `store`, which must outlive it. */
struct pl_chunk_reader pl_store_chunk_reader(struct pl_store *store);
