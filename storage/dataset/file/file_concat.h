/* file_concat: joins several stored files into one. The entry of the result, and so its content id, is the
 * same as if the bytes had been written as one file. Only bytes near the joins are read and chunked again;
 * from the first chunk boundary on that a part and the new file have in common, the part's chunks are used
 * unchanged.
 *
 *   part 1 │c1│c2│c3│   part 2 │d1│d2│d3│d4│    a part's last chunk ends with the part, not at a boundary
 *   file   │c1│c2│ c3+d1 │e│d3│d4│              from d3 on the boundaries are those of part 2
 *
 * The caller's thread. Memory: a buffer of JOIN_BUFFER_BYTES, the arrays of pieces, and one node of the chunk
 * list per level. */
#pragma once

#include "storage/base/effort.h"
#include "storage/dataset/file/file_write.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Joins `n` parts, which are entries of kind FILE or EXEC, to an entry of `kind`, FILE or EXEC. New chunks
 * and lists go to `sink`. Chunks of the parts are read through `reader` and stay where they are. `effort`
 * limits the number of chunks of the parts; NULL = no limits. The limit is needed because a chunk list may
 * name the same node many times, so a few stored bytes can describe very many chunks. PL_ETOOBIG: the
 * result is not below PL_FILE_LIMIT_BYTES; PL_EINVAL: a part is not a FILE or EXEC; errors of effort,
 * reader and sink. */
PL_MUST_CHECK
int pl_file_concat(const struct pl_entry *parts, size_t n, uint8_t kind, const struct pl_chunk_reader *reader,
                   const struct pl_file_write_sink *sink, struct pl_effort *effort, struct pl_entry *ret, struct pl_err *err);
