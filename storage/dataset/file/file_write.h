/* stream: bytes in order → chunks, chunk list, entry. The one place that decides whether a file is inline, one chunk or a list; ingest,
 * uploads and the file cache's check go through it. Single-threaded; memory PL_FILE_WRITE_BUFFER_BYTES. */
#pragma once

#include "storage/base/err.h"
#include "storage/chunk/chunk_list.h"
#include "storage/tree/tree.h"

struct pl_pack_builder; /* pack/pack_session.h */

#define PL_FILE_WRITE_BUFFER_BYTES ((size_t)1 << 20) /* ≥ 2 × PL_CHUNK_MAX_BYTES */

/* Where chunks and lists go. */
struct pl_file_write_sink {
    void *self;
    int (*chunk)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
    int (*list)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
};

/* Into a pack session. */
struct pl_file_write_sink pl_file_write_sink_pack(struct pl_pack_builder *session);
/* Nowhere: for the ids alone. */
struct pl_file_write_sink pl_file_write_sink_hash_only(void);

/* Gives up to `n` bytes, 0 at the end, or a negative code. */
typedef ssize_t (*pl_file_read_fn)(void *self, void *out, size_t n, struct pl_err *err);
/* Reads all that `read` gives. `buffer` holds PL_FILE_WRITE_BUFFER_BYTES. */
PL_MUST_CHECK
int pl_file_write_entry(const struct pl_file_write_sink *sink, uint8_t *buffer, uint8_t kind, pl_file_read_fn read, void *self,
                        struct pl_entry *ret, struct pl_err *err);
/* The entry of a file of at most PL_CHUNK_WHOLE_BYTES that lies in memory. */
PL_MUST_CHECK
int pl_file_write_entry_small(const struct pl_file_write_sink *sink, uint8_t kind, const void *bytes, size_t n,
                              struct pl_entry *ret, struct pl_err *err);
/* Writes one file from a stream (an HTTP body, standard input) of any length below PL_FILE_LIMIT_BYTES into the session; `kind` is
 * PL_KIND_FILE or PL_KIND_EXEC. The caller's thread does all of it. Gives the same entry as pl_ingest_tree for the same bytes. */
PL_MUST_CHECK
int pl_file_write_stream(struct pl_pack_builder *session, uint8_t kind, pl_file_read_fn read, void *self, struct pl_entry *ret,
                         struct pl_err *err);
