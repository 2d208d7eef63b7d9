/* file_read: the bytes of one file from its entry, in order, for checkout, cat and downloads. */
#pragma once

#include "storage/chunk/chunk_list.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Gets the bytes piece by piece; a negative result ends the reading and is returned. */
typedef int (*pl_file_write_fn)(void *self, const void *bytes, size_t n, struct pl_err *err);

/* `len` bytes from `offset` of a file or link (cut at its end). `scratch` holds one chunk at a time and may be used again.
 * PL_ECORRUPT when what is stored is not of the size that the entry says; the reader's errors. */
PL_MUST_CHECK
int pl_file_read(const struct pl_entry *entry, uint64_t offset, uint64_t len, const struct pl_chunk_reader *reader,
                 struct pl_buf *scratch, pl_file_write_fn write, void *self, struct pl_err *err);
/* Chunk lists by way of a chunk reader, which must outlive the source. */
struct pl_list_source pl_reader_list_source(const struct pl_chunk_reader *reader);
