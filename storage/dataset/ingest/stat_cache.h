/* stat_cache: remembers the entry of each file with the file's stat, so that unchanged files are not read
 * again. One cache file per store and project in the client's cache folder. Losing it costs only time.
 *
 * A file is recorded only if its ctime was at least PL_STAT_CACHE_SETTLE_NS before it was read: otherwise
 * a change shortly after the read could have the same time stamp. A file is also not recorded if a process
 * had it open for writing, or if its filesystem is in memory: a change might not update its times
 * (ingest_read). The caller must still check that the store has the records of an entry found here; ingest
 * does.
 *
 *   offset  bytes   contents (numbers in the machine's byte order: the file is mapped, not parsed)
 *   0       8       "PLSTAT1\n"
 *   8       4       0x01020304
 *   12      4       size of a record, 112
 *   16      8       number of records n
 *   24      8       number of buckets m, a power of two ≥ 2 n
 *   32      8       XXH64 of "<store id>/<project>"
 *   40      8       XXH64 of everything from offset 64 on
 *   48      16      0
 *   64      4 m     buckets: 1 + index of a record, 0 = free; linear probing from XXH64(dev, ino)
 *   64+4m   112 n   records, newest first
 *
 * Lookups: any thread. Other functions: one thread at a time. */
#pragma once

#include "storage/tree/tree.h"
#include <sys/stat.h>

#define PL_STAT_CACHE_SETTLE_NS   2000000000ll
#define PL_STAT_CACHE_MAX_RECORDS (2u << 20) /* 235 MB of file; beyond it the oldest records are omitted */

struct pl_stat_cache;

/* Identifies a state of a file. */
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

/* Returns `$XDG_CACHE_HOME/pipelined`, or `~/.cache/pipelined`; the caller frees it. PL_ENOTFOUND: neither
 * variable is set. */
PL_MUST_CHECK
int pl_stat_cache_default_dir(char **ret, struct pl_err *err);
/* Opens `dir`/stat/<store id>-<project> and maps it. A missing, foreign or damaged file counts as empty.
 * Makes the folders. `store_id`: hex digits. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_stat_cache_open(const char *dir, const char *store_id, const char *project, struct pl_stat_cache **ret,
                       struct pl_err *err);
struct pl_stat_cache *pl_stat_cache_close(struct pl_stat_cache *c);
static inline void pl_stat_cache_closep(struct pl_stat_cache **c)
{
    *c = pl_stat_cache_close(*c);
}
/* Returns the number of records in the mapped file. */
uint64_t pl_stat_cache_len(const struct pl_stat_cache *c);
/* Finds the entry for this state of a file. Its kind is PL_KIND_FILE; the caller sets EXEC from the file's
 * mode. */
bool pl_stat_cache_get(const struct pl_stat_cache *c, const struct pl_stat_key *key, struct pl_entry *ret);
/* Records the entry of a file whose reading began at wall time `read_ns` (ns since 1970). Does nothing if the
 * file changed less than PL_STAT_CACHE_SETTLE_NS before that. */
PL_MUST_CHECK
int pl_stat_cache_put(struct pl_stat_cache *c, const struct pl_stat_key *key, const struct pl_entry *entry, int64_t read_ns,
                      struct pl_err *err);
/* Writes old and new records to a temporary file and renames it, without fsync. Does nothing if no record
 * was added. */
PL_MUST_CHECK
int pl_stat_cache_save(struct pl_stat_cache *c, struct pl_err *err);
