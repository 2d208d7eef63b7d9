/* object_cache: whole objects kept as files of a local folder, up to a bound: those used longest ago go first. What lies there is a copy:
 * nothing is lost with it, and who reads it verifies it. Any thread.
 *
 *   absent ──get──▶ loading (others wait) ──▶ ready ──bound reached, forget──▶ absent (open descriptors live on) */
#pragma once

#include "storage/base/buf.h"

#define PL_OBJECT_CACHE_LOADS 2u /* at a time: each has an object in memory */

struct pl_object_cache;

/* The folder is made; what lies in it already is taken over. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_object_cache_open(const char *dir, uint64_t max_bytes, struct pl_object_cache **ret, struct pl_err *err);
struct pl_object_cache *pl_object_cache_close(struct pl_object_cache *c);
/* A descriptor of the object's copy, the caller's to close; `load` gives its bytes when it is not there. Errors of `load`, PL_EIO,
 * PL_ENOSPC when all other copies have made way in vain; PL_EUNAVAILABLE for a key too long for a file name. An object larger than the bound
 * is given, and not kept. */
PL_MUST_CHECK
int pl_object_cache_get(struct pl_object_cache *c, const char *key,
                        int (*load)(void *self, const char *key, struct pl_buf *ret, struct pl_err *err), void *self, int *ret_fd,
                        struct pl_err *err);
/* Keeps a copy that the caller has; one that is there or comes stays. Failures are not told: it is a copy. */
void pl_object_cache_keep(struct pl_object_cache *c, const char *key, const void *bytes, size_t n);
void pl_object_cache_forget(struct pl_object_cache *c, const char *key);
bool pl_object_cache_has(struct pl_object_cache *c, const char *key);
/* What is there now. */
uint64_t pl_object_cache_bytes(struct pl_object_cache *c);
