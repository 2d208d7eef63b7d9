/* file_cache: whole files on the worker's disk, by content, for checkouts that are hard links. Shared by all processes that use
 * one folder:
 *
 *   DIR/objects/<2 hex>/<64 hex content id>    mode 0444, mtime PL_CHECKOUT_MTIME_S
 *   DIR/objects/<2 hex>/<64 hex content id>x   the same bytes with mode 0555
 *   DIR/state                                  mapped: bytes in use, boot of the machine
 *
 * A file enters complete, by a link to what checkout has just written from verified bytes, or by a copy of it. Nothing is fsynced: after a boot of
 * the machine each file is hashed once before it is used again. Only files with one name (in no checkout) are evicted, those
 * unused for longest first. Whoever can write to a checkout made of links can write to the cache: give it out behind a read-only
 * mount only. Thread-safe. */
#pragma once

#include "storage/tree/tree.h"

#define PL_FILE_CACHE_EVICT_MAX (1u << 18)

struct pl_file_cache;

/* Opens or makes it. `max_bytes` bounds the files' bytes: what has no room evicts, and is not taken when all that is there is in use;
 * 0 = without bound. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_file_cache_open(const char *dir, uint64_t max_bytes, struct pl_file_cache **ret, struct pl_err *err);
struct pl_file_cache *pl_file_cache_close(struct pl_file_cache *c);
static inline void pl_file_cache_closep(struct pl_file_cache **c)
{
    *c = pl_file_cache_close(*c);
}
/* Makes `name` in the folder `dirfd` a link to the cached file of `entry` (FILE or EXEC, CHUNK or LIST), or a copy where links do not reach
 * (another mount). 1 = done, 0 = not here, or neither possible: write the file. PL_EEXISTS when `name` is there, PL_EIO. */
PL_MUST_CHECK
int pl_file_cache_link(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name, struct pl_err *err);
/* Whether it is here now: what can be linked need not be fetched. */
bool pl_file_cache_has(const struct pl_file_cache *c, const struct pl_entry *entry);
/* Takes the file `name` in `dirfd`, just written with the verified bytes of `entry`, its mode and mtime, into the cache by a
 * link, or by a copy where links do not reach. Cannot fail: without room it is not taken. */
void pl_file_cache_adopt(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name);
/* Evicts down to 9/10 of the bound, counting anew what is there. At most PL_FILE_CACHE_EVICT_MAX files a call. */
PL_MUST_CHECK
int pl_file_cache_evict(struct pl_file_cache *c, struct pl_err *err);
/* Bytes of the cached files. */
uint64_t pl_file_cache_bytes(const struct pl_file_cache *c);
/* Tests: link() fails with this errno from now on (0 = no more). */
void pl_file_cache_fail_link(struct pl_file_cache *c, int errnum);
