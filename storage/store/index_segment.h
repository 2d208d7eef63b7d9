/* index_segment: one sorted, mmapped file of index entries, never changed once written, and the manifest that names the segments and packs
 * of an index. Layouts: docs/format.md "Index segment". For index.c. */
#pragma once

#include "storage/store/index.h"

#include <endian.h>
#include <limits.h>

/* An entry, in memory as on the disk: 32 bytes, numbers little-endian. */
struct pl_index_entry {
    uint8_t key[16]; /* the first bytes of the id */
    uint32_t pack_no;
    uint32_t offset;
    uint32_t stored_codec; /* stored size | codec << 28 */
    uint32_t raw_kind;     /* raw size | kind << 28 */
};

struct pl_index_entry pl_index_entry_make(const struct pl_pack_entry *e, uint32_t pack_no);
/* All but the pack's id. */
void pl_index_entry_location(const struct pl_index_entry *e, struct pl_location *ret);
static inline uint32_t pl_index_entry_pack(const struct pl_index_entry *e)
{
    return le32toh(e->pack_no);
}
/* By key, then pack, then offset. For qsort. */
int pl_index_entry_cmp(const void *a, const void *b);

struct pl_segment {
    uint64_t number; /* its file's name */
    uint32_t level;
    uint64_t count;
    const struct pl_index_entry *entries; /* in the map */
    void *map;
    size_t map_size;
};

/* Opens and verifies a segment file of `count` entries. PL_ECORRUPT, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_segment_open(const char *dir, uint64_t number, uint32_t level, uint64_t count, struct pl_segment *ret, struct pl_err *err);
/* Unmaps it. */
void pl_segment_close(struct pl_segment *s);
/* Removes its file too. */
void pl_segment_remove(const char *dir, struct pl_segment *s);

/* The first entry whose key is not below `key`; s->count when there is none. */
uint64_t pl_segment_lower_bound(const struct pl_segment *s, const uint8_t key[16]);

/* Gives the next entry in order, NULL at the end. */
struct pl_segment_feed {
    void *self;
    const struct pl_index_entry *(*next)(void *self);
};
/* Writes a segment, durable, and opens it. Nothing is left behind on failure. PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_segment_write(const char *dir, uint64_t number, uint32_t level, const struct pl_segment_feed *feed, struct pl_segment *ret,
                     struct pl_err *err);

struct pl_manifest {
    struct pl_segment *segments; /* number, level, count: as written; read: not opened yet */
    size_t segment_count;
    struct pl_hash *packs; /* by number; zero: forgotten */
    size_t pack_count;
};
void pl_manifest_finish(struct pl_manifest *m);
PL_MUST_CHECK
int pl_manifest_write(const char *dir, const struct pl_manifest *m, struct pl_err *err);
/* PL_ENOTFOUND, PL_ECORRUPT. */
PL_MUST_CHECK
int pl_manifest_read(const char *dir, struct pl_manifest *ret, struct pl_err *err);
/* Removes files of the folder that the manifest does not name: what a crash left. NULL: all of ours. */
void pl_manifest_sweep(const char *dir, const struct pl_manifest *m);
