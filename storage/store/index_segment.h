/* index_segment: a sorted, memory-mapped file of index entries, immutable once written; and the manifest,
 * which lists the segments and packs of an index. Layouts: docs/format.md "Index segment". Used by
 * index.c. */
#pragma once

#include "storage/store/index.h"

#include <endian.h>
#include <limits.h>

/* An index entry, the same in memory and on disk: 32 bytes, numbers little-endian. */
struct pl_index_entry {
    uint8_t key[16]; /* first 16 bytes of the record's id */
    uint32_t pack_no;
    uint32_t offset;
    uint32_t stored_codec; /* stored size | codec << 28 */
    uint32_t raw_kind;     /* raw size | kind << 28 */
};

struct pl_index_entry pl_index_entry_make(const struct pl_pack_entry *e, uint32_t pack_no);
/* Decodes all fields of a location except the pack's id and its flags. */
void pl_index_entry_location(const struct pl_index_entry *e, struct pl_location *ret);
static inline uint32_t pl_index_entry_pack(const struct pl_index_entry *e)
{
    return le32toh(e->pack_no);
}
/* Compares by key, then pack, then offset. For qsort. */
int pl_index_entry_cmp(const void *a, const void *b);

struct pl_segment {
    uint64_t number; /* number of the segment, from which the file name is made: <16 hex digits>.seg */
    uint32_t level;
    uint64_t count;
    const struct pl_index_entry *entries; /* array of entries, inside the mapping */
    void *map;
    size_t map_size;
};

/* Opens and verifies a segment file of `count` entries. PL_ECORRUPT, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_segment_open(const char *dir, uint64_t number, uint32_t level, uint64_t count, struct pl_segment *ret, struct pl_err *err);
/* Unmaps a segment; its file stays. */
void pl_segment_close(struct pl_segment *s);
/* Unmaps a segment and deletes its file. */
void pl_segment_remove(const char *dir, struct pl_segment *s);

/* Returns the number of the first entry whose key is not below `key`; s->count if there is none. */
uint64_t pl_segment_lower_bound(const struct pl_segment *s, const uint8_t key[16]);

/* A source of entries in order. `next` returns NULL at the end. */
struct pl_segment_feed {
    void *self;
    const struct pl_index_entry *(*next)(void *self);
};
/* Writes a segment, makes it durable and opens it. Leaves no file on failure. PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_segment_write(const char *dir, uint64_t number, uint32_t level, const struct pl_segment_feed *feed, struct pl_segment *ret,
                     struct pl_err *err);

struct pl_manifest {
    /* only number, level and count are written to the manifest; pl_manifest_read sets these fields and does
     * not open the segments */
    struct pl_segment *segments;
    size_t segment_count;
    struct pl_hash *packs; /* ids by pack number; all zero = a dropped pack */
    size_t pack_count;
};
void pl_manifest_finish(struct pl_manifest *m);
PL_MUST_CHECK
int pl_manifest_write(const char *dir, const struct pl_manifest *m, struct pl_err *err);
/* Reads the manifest; free it with pl_manifest_finish. PL_ENOTFOUND, PL_ECORRUPT. */
PL_MUST_CHECK
int pl_manifest_read(const char *dir, struct pl_manifest *ret, struct pl_err *err);
/* Deletes those index files in the folder that the manifest does not list, which a crash may have left. With
 * a NULL manifest, deletes all index files. */
void pl_manifest_sweep(const char *dir, const struct pl_manifest *m);
