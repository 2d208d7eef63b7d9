/* chunk_list: the chunks of a file with more than one chunk, as objects with a canonical encoding
 * (docs/format.md "Chunk list"):
 *
 *   "PLCL"  u8 version 1  u8 level  varint n  n entries
 *   level 0:   {chunk id 32, u24 LE length}                 the chunks, in order
 *   level > 0: {id of the list below 32, u64 LE bytes}      the lists of level - 1, in order
 *
 * A sequence of at most 4,096 entries is one object, the root. A longer sequence is split: an object ends
 * after the first entry that is at least its 300th and has XXH64(its id, seed = level) < 2^64 / 300, or after
 * its 4,096th entry. These objects are the entries of the next level. Equal content therefore has equal
 * lists, and a change in a large file creates few new ones. The id of the root is the file's content id. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/effort.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"

#define PL_LIST_MAX_ENTRIES 4096u
#define PL_LIST_MIN_ENTRIES 300u
#define PL_LIST_MAX_LEVEL   4u /* 4,096 × 300^4 chunks: more than a file of 2^48 bytes has */
#define PL_LIST_MAX_BYTES   ((size_t)256 << 10)
#define PL_FILE_MAX_BYTES   (UINT64_C(1) << 48)

/* Callbacks that store and read list objects. The two structs have the same members as pl_node_sink and
 * pl_node_source (tree.h). */
struct pl_list_sink {
    void *self;
    int (*put)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
};
struct pl_list_source {
    void *self;
    int (*get)(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
};

/* Builder of the lists of a file. Used by one thread; keeps at most 4,097 entries per level in memory. */
struct pl_list_builder;
PL_MUST_CHECK
int pl_list_builder_create(const struct pl_list_sink *sink, struct pl_list_builder **ret, struct pl_err *err);
struct pl_list_builder *pl_list_builder_destroy(struct pl_list_builder *b);
static inline void pl_list_builder_destroyp(struct pl_list_builder **b)
{
    *b = pl_list_builder_destroy(*b);
}
/* Adds the next chunk of the file, 1 to PL_CHUNK_MAX_BYTES long. PL_EINVAL, PL_ETOOBIG beyond
 * PL_FILE_MAX_BYTES, PL_ENOMEM, the sink's errors. */
PL_MUST_CHECK
int pl_list_builder_add(struct pl_list_builder *b, const struct pl_hash *chunk, size_t len, struct pl_err *err);
/* Stores the remaining lists. `ret_root` receives the id of the root list, `ret_bytes` (may be NULL) the size
 * of the file. The builder is empty afterwards and can be used for another file. PL_EINVAL if no chunk was
 * added, the sink's errors. */
PL_MUST_CHECK
int pl_list_builder_finish(struct pl_list_builder *b, struct pl_hash *ret_root, uint64_t *ret_bytes, struct pl_err *err);

/* A decoded list object. `entries` points into the encoded bytes, which must outlive it. pl_list_decode
 * checks magic, version, level, count and lengths, and that no bytes follow. PL_ECORRUPT, PL_EFORMAT (a newer
 * version). */
struct pl_list {
    uint8_t level;
    size_t count;
    const uint8_t *entries;
    uint64_t bytes; /* sum of the lengths of the entries */
};
PL_MUST_CHECK
int pl_list_decode(const void *bytes, size_t n, struct pl_list *ret, struct pl_err *err);
/* Returns entry i < count: the id of a chunk or a list, and its length in bytes. */
void pl_list_entry(const struct pl_list *list, size_t i, struct pl_hash *ret_id, uint64_t *ret_bytes);

/* Cursor that reads a file's chunks in order. One thread. */
struct pl_list_cursor;
/* Opens a cursor before the first chunk; `source` is copied. PL_ENOTFOUND, PL_ECORRUPT, PL_EFORMAT,
 * PL_ENOMEM, the source's errors. */
PL_MUST_CHECK
int pl_list_cursor_open(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_cursor **ret,
                        struct pl_err *err);
struct pl_list_cursor *pl_list_cursor_close(struct pl_list_cursor *c);
static inline void pl_list_cursor_closep(struct pl_list_cursor **c)
{
    *c = pl_list_cursor_close(*c);
}
/* Returns the size of the file in bytes. */
uint64_t pl_list_cursor_bytes(const struct pl_list_cursor *c);
/* Moves the cursor to the chunk that contains byte `offset`; to the end if `offset` is not within the file.
 * Reads at most one list per level. */
PL_MUST_CHECK
int pl_list_cursor_seek(struct pl_list_cursor *c, uint64_t offset, struct pl_err *err);
/* Returns 1 and the next chunk (its id, its offset in the file, its length), or 0 at the end. `ret_offset`
 * may be NULL. */
PL_MUST_CHECK
int pl_list_cursor_next(struct pl_list_cursor *c, struct pl_hash *ret_chunk, uint64_t *ret_offset, size_t *ret_len,
                        struct pl_err *err);
/* Set of lists that walks have visited, with their level and size. `struct pl_list_seen s = {0}` is empty. */
struct pl_list_seen {
    struct pl_map lists;
};
void pl_list_seen_finish(struct pl_list_seen *s);

/* Visits every list object from the root down, parents before children, and every chunk in order; for garbage
 * collection and fsck. Lists can be shared by files and within a file: if a list is in `seen`, everything
 * below it was visited before and is skipped. Each list must have the level and size that its parent states,
 * at every place that refers to it. `ret_bytes` (may be NULL) receives the size of the file. A negative
 * result of `visit` ends the walk with that error. `effort` (effort.h; may be NULL) counts each entry.
 * PL_ECORRUPT, PL_EFORMAT, the errors of `effort` and of the source. */
PL_MUST_CHECK
int pl_list_visit(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_seen *seen,
                  struct pl_effort *effort,
                  int (*visit)(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err), void *arg,
                  uint64_t *ret_bytes, struct pl_err *err);
