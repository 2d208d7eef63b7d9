/* chunk_list: the pieces of a file that is more than one chunk, as objects of canonical bytes (docs/format.md "Chunk list"):
 *
 *   "PLCL"  u8 version 1  u8 level  varint n  n entries
 *   level 0:   {chunk id 32, u24 LE length}                 the chunks, in order
 *   level > 0: {id of the list below 32, u64 LE bytes}      the lists of level - 1, in order
 *
 * A sequence of at most 4,096 entries is one object, the root. A longer one is cut: an object ends with the entry that is at
 * least its 300th and whose XXH64(its id, seed = level) < 2^64 / 300, at the latest with its 4,096th; the objects are the
 * sequence one level up. So equal content has equal lists, and a change in a large file makes few new ones. The file's content id
 * is the root's id. */
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

/* Where the objects go and come from; both have the shape of pl_node_sink and pl_node_source (tree.h). */
struct pl_list_sink {
    void *self;
    int (*put)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
};
struct pl_list_source {
    void *self;
    int (*get)(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
};

/* Builder: one thread, memory bounded by 4,097 entries a level. */
struct pl_list_builder;
PL_MUST_CHECK
int pl_list_builder_create(const struct pl_list_sink *sink, struct pl_list_builder **ret, struct pl_err *err);
struct pl_list_builder *pl_list_builder_destroy(struct pl_list_builder *b);
static inline void pl_list_builder_destroyp(struct pl_list_builder **b)
{
    *b = pl_list_builder_destroy(*b);
}
/* The next chunk of the file, 1..PL_CHUNK_MAX_BYTES long. PL_ETOOBIG past PL_FILE_MAX_BYTES, the sink's errors. */
PL_MUST_CHECK
int pl_list_builder_add(struct pl_list_builder *b, const struct pl_hash *chunk, size_t len, struct pl_err *err);
/* Puts what is left; `ret_root` is the id of the root list, `ret_bytes` (may be NULL) the file's size. The builder is empty
 * afterwards and can be used for the next file. PL_EINVAL when nothing was added. */
PL_MUST_CHECK
int pl_list_builder_finish(struct pl_list_builder *b, struct pl_hash *ret_root, uint64_t *ret_bytes, struct pl_err *err);

/* One list object, checked: magic, level, count, lengths in range, no bytes left over. `entries` points into the bytes given.
 * PL_ECORRUPT, PL_EFORMAT (a newer version). */
struct pl_list {
    uint8_t level;
    size_t count;
    const uint8_t *entries;
    uint64_t bytes; /* sum of the entries */
};
PL_MUST_CHECK
int pl_list_decode(const void *bytes, size_t n, struct pl_list *ret, struct pl_err *err);
/* Entry i < count: chunk or list id, and its bytes. */
void pl_list_entry(const struct pl_list *list, size_t i, struct pl_hash *ret_id, uint64_t *ret_bytes);

/* Cursor over a file's chunks in order. One thread. */
struct pl_list_cursor;
/* Reads the root. PL_ENOTFOUND, PL_ECORRUPT. */
PL_MUST_CHECK
int pl_list_cursor_open(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_cursor **ret,
                        struct pl_err *err);
struct pl_list_cursor *pl_list_cursor_close(struct pl_list_cursor *c);
static inline void pl_list_cursor_closep(struct pl_list_cursor **c)
{
    *c = pl_list_cursor_close(*c);
}
/* The file's size in bytes. */
uint64_t pl_list_cursor_bytes(const struct pl_list_cursor *c);
/* So that next gives the chunk that holds byte `offset` (at or past the end: none). Reads one list a level. */
PL_MUST_CHECK
int pl_list_cursor_seek(struct pl_list_cursor *c, uint64_t offset, struct pl_err *err);
/* 1 and the next chunk (its offset in the file, its length), or 0 at the end. `ret_offset` may be NULL. */
PL_MUST_CHECK
int pl_list_cursor_next(struct pl_list_cursor *c, struct pl_hash *ret_chunk, uint64_t *ret_offset, size_t *ret_len,
                        struct pl_err *err);
/* Lists that a walk has been through, and what they were found to be. `struct pl_list_seen s = {0}` is empty. */
struct pl_list_seen {
    struct pl_map lists;
};
void pl_list_seen_finish(struct pl_list_seen *s);

/* Visits every list object from the root down and every chunk in order, parents before children, for marking and for fsck; what lies below
 * a list that `seen` has was visited before, and is left out: lists may be shared, by files and within one. Each list has to be what the
 * one above says of it, every time that it is named. `ret_bytes` (may be NULL) is the file's size. A negative result of `visit` ends it
 * with that error. PL_ECORRUPT, the errors of `effort` (effort.h; may be NULL), which counts each entry, and of the source. */
PL_MUST_CHECK
int pl_list_visit(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_seen *seen,
                  struct pl_effort *effort,
                  int (*visit)(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err), void *arg,
                  uint64_t *ret_bytes, struct pl_err *err);
