/* file_write: writes a stream of bytes as chunks and a chunk list, and makes the file's entry. Only this
 * module decides whether a file is stored inline, as one chunk or as a list; ingest, uploads and the file
 * cache's verification all use it. Single-threaded. Memory: PL_FILE_WRITE_BUFFER_BYTES. */
#pragma once

#include "storage/base/err.h"
#include "storage/chunk/chunk_list.h"
#include "storage/tree/tree.h"

struct pl_pack_builder; /* declared in storage/pack/pack_builder.h */

#define PL_FILE_WRITE_BUFFER_BYTES ((size_t)1 << 20) /* at least 2 × PL_CHUNK_MAX_BYTES */

/* Receives chunks and chunk lists, stores them and returns their ids. */
struct pl_file_write_sink {
    void *self;
    int (*chunk)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
    int (*list)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
};

/* Returns a sink that stores into a pack builder. */
struct pl_file_write_sink pl_file_write_sink_pack(struct pl_pack_builder *session);
/* Returns a sink that stores nothing and only computes ids. */
struct pl_file_write_sink pl_file_write_sink_hash_only(void);

/* Reads up to `n` bytes; returns their number, 0 at the end, or a negative code. */
typedef ssize_t (*pl_file_read_fn)(void *self, void *out, size_t n, struct pl_err *err);
/* Writes one file from the bytes that `read` returns. `buffer` has PL_FILE_WRITE_BUFFER_BYTES. */
PL_MUST_CHECK
int pl_file_write_entry(const struct pl_file_write_sink *sink, uint8_t *buffer, uint8_t kind, pl_file_read_fn read, void *self,
                        struct pl_entry *ret, struct pl_err *err);
/* Writes a file of at most PL_CHUNK_WHOLE_BYTES that is in memory. */
PL_MUST_CHECK
int pl_file_write_entry_small(const struct pl_file_write_sink *sink, uint8_t kind, const void *bytes, size_t n,
                              struct pl_entry *ret, struct pl_err *err);
/* Writes one file from a stream (an HTTP body, standard input) of any length below PL_FILE_LIMIT_BYTES
 * into the pack builder. `kind` is PL_KIND_FILE or PL_KIND_EXEC. Runs entirely on the caller's thread. The
 * entry is the same as that of pl_ingest_tree for the same bytes. */
PL_MUST_CHECK
int pl_file_write_stream(struct pl_pack_builder *session, uint8_t kind, pl_file_read_fn read, void *self, struct pl_entry *ret,
                         struct pl_err *err);
