/* object_cache: keeps copies of whole objects as files in a local folder, up to a maximum size.
 *
 *   absent ──get──▶ loading (others wait) ──▶ ready ──evict, forget──▶ absent
 *
 * The copies used longest ago are evicted first; open descriptors stay valid. Losing a copy loses no data,
 * and readers verify what they read. Any thread. */
#pragma once

#include "storage/base/buf.h"

/* maximum number of simultaneous loads; each load has a whole object in memory */
#define PL_OBJECT_CACHE_LOADS 2u

struct pl_object_cache;

/* Opens a cache; makes the folder, or adopts the copies in it. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_object_cache_open(const char *dir, uint64_t max_bytes, struct pl_object_cache **ret, struct pl_err *err);
/* Frees the cache and leaves its files. NULL is allowed. Returns NULL. */
struct pl_object_cache *pl_object_cache_close(struct pl_object_cache *c);
/* Opens the object's copy; the caller closes the descriptor. If there is none, `load` reads the object's
 * bytes. Returns the error of `load`, PL_EIO, PL_ENOSPC if the disk is full even after all other copies were
 * removed, or PL_EUNAVAILABLE if the key is too long for a file name. An object larger than the cache's
 * maximum is opened but not kept. */
PL_MUST_CHECK
int pl_object_cache_get(struct pl_object_cache *c, const char *key,
                        int (*load)(void *self, const char *key, struct pl_buf *ret, struct pl_err *err), void *self, int *ret_fd,
                        struct pl_err *err);
/* Adds a copy of an object whose bytes the caller has, unless there is a copy or one is being loaded.
 * Failures are ignored, because the copy is only an optimization. */
void pl_object_cache_keep(struct pl_object_cache *c, const char *key, const void *bytes, size_t n);
/* Removes the object's copy, if it is ready. */
void pl_object_cache_forget(struct pl_object_cache *c, const char *key);
/* Returns true if a copy is ready. */
bool pl_object_cache_has(struct pl_object_cache *c, const char *key);
/* Returns the total size of the copies in bytes. */
uint64_t pl_object_cache_bytes(struct pl_object_cache *c);
