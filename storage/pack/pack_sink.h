/* pack_sink: an interface that receives packs: implemented by the store of this process (pl_store_sink)
 * and by a client of a daemon (HTTP). Implementations are thread-safe. */
#pragma once

#include "storage/base/hash.h"

#define PL_PACK_SINK_HAS_MAX 65536u /* maximum number of ids per call of `has` */

struct pl_pack_sink {
    void *self;
    /* Sets bit i of ret_bitmap (least significant bit first) if the record ids[i] exists and garbage
     * collection will not remove it before the upload session ends. May be NULL: then the builder assumes
     * that the sink has no records. */
    int (*has)(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err);
    /* Stores a whole pack. The bytes are copied or written before it returns. A pack that exists already
     * is a success. */
    int (*put_pack)(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err);
    /* Makes all packs durable that were put before this call. May be NULL. */
    int (*flush)(void *self, struct pl_err *err);
};
