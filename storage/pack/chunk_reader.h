/* chunk_reader: an interface for reading verified records. One implementation reads from a store in this
 * process, the other from a daemon over HTTP. Checkout, cat and the worker agent read through it. Several
 * threads call `get` at the same time. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

struct pl_chunk_reader {
    void *self;
    /* Reads the raw bytes of the record `id`, whose kind must be `kind` (PL_REC_CHUNK, PL_REC_LIST, …; 0 =
     * any), into `ret`. The former content of `ret` is replaced and its memory reused. The implementation
     * has verified that the bytes match the hash. PL_ENOTFOUND, PL_ECORRUPT, PL_EIO, PL_ENET. */
    int (*get)(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err);
};

/* Returns a reader that reads from `store`, which must outlive it. */
struct pl_chunk_reader pl_store_chunk_reader(struct pl_store *store);
