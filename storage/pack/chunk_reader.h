/* chunk_reader: where verified bytes come from, whoever keeps them: a store in this process, or one behind a daemon. Checkout, cat and
 * the agent read through it. `get` is called from several threads at once. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

struct pl_store;

struct pl_chunk_reader {
    void *self;
    /* Puts the raw bytes of record `id` of `kind` (PL_REC_CHUNK, PL_REC_LIST, …; 0 = any) into `ret`, whose former content goes and
     * whose memory is used again. The bytes match the hash: the reader verified them. PL_ENOTFOUND, PL_ECORRUPT, PL_EIO, PL_ENET. */
    int (*get)(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err);
};

/* Reads from `store`, which must outlive the reader. */
struct pl_chunk_reader pl_store_chunk_reader(struct pl_store *store);
