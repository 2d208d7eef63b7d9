/* record_cache: the most recently used decoded records, bounded in bytes. Any thread. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/byte_view.h"
#include "storage/base/hash.h"

struct pl_record_cache;

/* Creates a cache of at most `max_bytes`. NULL without memory. */
struct pl_record_cache *pl_record_cache_create(size_t max_bytes);
struct pl_record_cache *pl_record_cache_destroy(struct pl_record_cache *c);
/* Copies a record's bytes into `ret`, replacing its content. False if they are not cached or exceed the
 * bound of `ret`. */
bool pl_record_cache_get(struct pl_record_cache *c, const struct pl_hash *id, struct pl_buf *ret);
/* Calls `look` with the cached bytes, without copying them, and stores its result in `*ret`. False if they
 * are not cached. The cache's lock is not held while `look` runs, so other threads can use the cache. A
 * record that is evicted meanwhile is freed after the last `look` on it has returned. */
bool pl_record_cache_show(struct pl_record_cache *c, const struct pl_hash *id, pl_byte_view_fn look, void *arg, int *ret,
                          struct pl_err *err);
/* Adds a copy of the bytes and evicts the least recently used records until the cache is within its bound.
 * Does nothing without memory, or if the bytes are more than an eighth of the bound. */
void pl_record_cache_put(struct pl_record_cache *c, const struct pl_hash *id, const void *bytes, size_t n);
