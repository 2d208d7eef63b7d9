/* file_cache: whole files on the worker's disk, found by content id, so that checkouts can use hard links.
 * All processes that use the same folder share it:
 *
 *   DIR/objects/<2 hex>/<64 hex content id>    mode 0444, mtime PL_CHECKOUT_MTIME_S
 *   DIR/objects/<2 hex>/<64 hex content id>x   the same bytes with mode 0555
 *   DIR/state                                  mapped: bytes used, boot id of the machine
 *
 * A file appears in the cache only when it is complete: as a hard link to a file that checkout has just
 * written from verified bytes, or as a copy of that file. Nothing is synced to disk: after a boot of the
 * machine each file is verified once before it is used again. Only files that no checkout links to (link
 * count 1) are evicted, the least recently used first. A program that can write to a linked checkout can
 * change the cache, so checkouts must be exposed through read-only mounts only. Thread-safe. */
#pragma once

#include "storage/tree/tree.h"

#define PL_FILE_CACHE_EVICT_MAX (1u << 18)

struct pl_file_cache;

/* Opens the cache, or makes it. `max_bytes` bounds the bytes of its files; 0 = no bound. If a new file does
 * not fit, unused files are evicted; if all files are in use, the new file is not cached. PL_EIO,
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_file_cache_open(const char *dir, uint64_t max_bytes, struct pl_file_cache **ret, struct pl_err *err);
struct pl_file_cache *pl_file_cache_close(struct pl_file_cache *c);
static inline void pl_file_cache_closep(struct pl_file_cache **c)
{
    *c = pl_file_cache_close(*c);
}
/* Makes `name` in the folder `dirfd` a link to the cached file of `entry` (FILE or EXEC with CHUNK or
 * LIST), or a copy where links are impossible (another mount). Returns 1 if `name` was made; 0 if the file is
 * not cached, or can be neither linked nor copied: the caller must then write the file itself. PL_EEXISTS:
 * `name` exists; PL_EIO. */
PL_MUST_CHECK
int pl_file_cache_link(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name, struct pl_err *err);
/* True if the file is cached now, so that its bytes need not be fetched. */
bool pl_file_cache_has(const struct pl_file_cache *c, const struct pl_entry *entry);
/* Adds the file `name` in `dirfd` to the cache, as a link, or as a copy where links are impossible. The
 * file must have just been written with the verified bytes of `entry`, its mode and its mtime. Cannot
 * fail: without space the file is not cached. */
void pl_file_cache_adopt(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name);
/* Evicts files until 9/10 of the bound are used, and counts the existing files again. At most
 * PL_FILE_CACHE_EVICT_MAX files per call. */
PL_MUST_CHECK
int pl_file_cache_evict(struct pl_file_cache *c, struct pl_err *err);
/* Returns the bytes of all cached files. */
uint64_t pl_file_cache_bytes(const struct pl_file_cache *c);
/* For tests: makes links fail with this errno from now on; 0 = stop failing. */
void pl_file_cache_fail_link(struct pl_file_cache *c, int errnum);
