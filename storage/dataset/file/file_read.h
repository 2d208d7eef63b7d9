/* file_read: reads the bytes of one file from its entry, in order, for checkout, cat and downloads. */
#pragma once

#include "storage/chunk/chunk_list.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Receives the bytes in pieces. A negative result ends the reading and is returned. */
typedef int (*pl_file_write_fn)(void *self, const void *bytes, size_t n, struct pl_err *err);

/* Reads `len` bytes from `offset` of a file or link; fewer if the file ends before that. `scratch` holds one
 * chunk at a time and can be reused. PL_ECORRUPT: stored data does not have the size that the entry says;
 * errors of the reader and of `write`. */
PL_MUST_CHECK
int pl_file_read(const struct pl_entry *entry, uint64_t offset, uint64_t len, const struct pl_chunk_reader *reader,
                 struct pl_buf *scratch, pl_file_write_fn write, void *self, struct pl_err *err);
/* Returns a source that reads chunk lists through a chunk reader. The reader must outlive the source. */
struct pl_list_source pl_reader_list_source(const struct pl_chunk_reader *reader);
/* Like pl_reader_list_source, for a caller that reads all chunks of each list next, with `get` and in order: tells the
 * reader so. */
struct pl_list_source pl_reader_list_source_ahead(const struct pl_chunk_reader *reader);
