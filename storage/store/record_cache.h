/* record_cache: the most recently used decoded records, bounded in bytes. Any thread. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/byte_view.h"
#include "storage/base/hash.h"

struct pl_record_cache;

/* NULL without memory. */
struct pl_record_cache *pl_record_cache_create(size_t max_bytes);
struct pl_record_cache *pl_record_cache_destroy(struct pl_record_cache *c);
/* True and the bytes in `ret` (replacing what it held) when they are here and fit its bound. */
bool pl_record_cache_get(struct pl_record_cache *c, const struct pl_hash *id, struct pl_buf *ret);
/* Shows the bytes where they lie: true and what `look` says in `*ret`; false when they are not here. Others go on meanwhile, and the cache
 * may forget the record, which goes when nobody looks any more. */
bool pl_record_cache_show(struct pl_record_cache *c, const struct pl_hash *id, pl_byte_view_fn look, void *arg, int *ret,
                          struct pl_err *err);
/* Copies the bytes; drops the least recently used to make room. Without memory, or when they are more than an eighth of the bound,
 * nothing happens. */
void pl_record_cache_put(struct pl_record_cache *c, const struct pl_hash *id, const void *bytes, size_t n);
