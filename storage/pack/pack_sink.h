/* pack_sink: where a session's packs go: the store of this process (pl_store_sink), or a daemon over HTTP. Thread-safe
 * implementations. */
#pragma once

#include "storage/base/hash.h"

#define PL_PACK_SINK_HAS_MAX 65536u /* ids a question */

struct pl_pack_sink {
    void *self;
    /* Bit i of ret_bitmap (LSB first) = ids[i] is there and stays there until the session ends. NULL: nothing is. */
    int (*has)(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err);
    /* Takes a whole pack; `bytes` are the caller's again when it returns. A pack that is there already: success. */
    int (*put_pack)(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err);
    /* All packs put before are durable. May be NULL. */
    int (*flush)(void *self, struct pl_err *err);
};
