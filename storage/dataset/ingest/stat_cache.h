/* stat_cache: what a file held when it was last read, by what stat says of it, so that unchanged files are not read again. One
 * file per (store, project) in the client's cache folder; losing it costs time, never correctness.
 *
 * An entry is recorded only when the file's ctime was at least PL_STAT_CACHE_SETTLE_NS before it was read: a change within the
 * clock's granule after the reading would not show otherwise. Nor one that someone has open for writing, mapped perhaps, when it is read, or
 * that lies in memory alone: a change would not move its times (ingest_read). What is found here must still be asked for in the store (ingest
 * does).
 *
 *   offset  bytes   what (numbers in the machine's own order: the file is mapped, not parsed)
 *   0       8       "PLSTAT1\n"
 *   8       4       0x01020304
 *   12      4       size of a record, 112
 *   16      8       number of records n
 *   24      8       number of buckets m, a power of two ≥ 2 n
 *   32      8       XXH64 of "<store id>/<project>"
 *   40      8       XXH64 of all from offset 64
 *   48      16      0
 *   64      4 m     buckets: 1 + index of a record, 0 = free; linear probing from XXH64(dev, ino)
 *   64+4m   112 n   records, the newest first
 *
 * Look-ups: any thread. The rest: one thread. */
#pragma once

#include "storage/tree/tree.h"
#include <sys/stat.h>

#define PL_STAT_CACHE_SETTLE_NS   2000000000ll
#define PL_STAT_CACHE_MAX_RECORDS (2u << 20) /* 235 MB of file; past it the longest known are left out */

struct pl_stat_cache;

/* What identifies a state of a file. */
struct pl_stat_key {
    uint64_t dev;
    uint64_t ino;
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
};

struct pl_stat_key pl_stat_key_of(const struct stat *st);
static inline bool pl_stat_key_eq(const struct pl_stat_key *a, const struct pl_stat_key *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* `$XDG_CACHE_HOME/pipelined`, else `~/.cache/pipelined`; PL_ENOTFOUND without either. Malloc'ed. */
PL_MUST_CHECK
int pl_stat_cache_default_dir(char **ret, struct pl_err *err);
/* Opens `dir`/stat/<store id>-<project>, mapping what is there; absent, foreign or damaged content counts as empty. Makes the
 * folders. `store_id`: hex digits. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_stat_cache_open(const char *dir, const char *store_id, const char *project, struct pl_stat_cache **ret,
                       struct pl_err *err);
struct pl_stat_cache *pl_stat_cache_close(struct pl_stat_cache *c);
static inline void pl_stat_cache_closep(struct pl_stat_cache **c)
{
    *c = pl_stat_cache_close(*c);
}
/* Number of records in the mapped file. */
uint64_t pl_stat_cache_len(const struct pl_stat_cache *c);
/* True and the entry (kind PL_KIND_FILE; whether it is EXEC is the mode's business) when this state of the file was recorded. */
bool pl_stat_cache_get(const struct pl_stat_cache *c, const struct pl_stat_key *key, struct pl_entry *ret);
/* Records what a file holds that was read beginning at wall time `read_ns` (ns since 1970). A file too fresh is left out. */
PL_MUST_CHECK
int pl_stat_cache_put(struct pl_stat_cache *c, const struct pl_stat_key *key, const struct pl_entry *entry, int64_t read_ns,
                      struct pl_err *err);
/* Writes old and new records by temp name and rename, without fsync. Does nothing when nothing was recorded. */
PL_MUST_CHECK
int pl_stat_cache_save(struct pl_stat_cache *c, struct pl_err *err);
