/* join: several files one after another → one file, as if its bytes had come in one piece: the same entry, and so the same content id.
 * Only what lies about the joins is read and cut anew; a part's chunks are taken as they are from the first cut on that both have.
 *
 *   part 1 │c1│c2│c3│   part 2 │d1│d2│d3│d4│            a part's last chunk ends where the part does, not where the file is cut
 *   file   │c1│c2│ c3+d1 │e│d3│d4│                      from d3 on the cuts are those of part 2
 *
 * One thread; memory JOIN_BUFFER_BYTES and one list a level. */
#pragma once

#include "storage/dataset/file/file_write.h"
#include "storage/pack/chunk_reader.h"
#include "storage/tree/tree.h"

/* Chunks and lists that are new go to `sink`; those of the parts are where `reader` reads them, and stay there. `parts` are entries of
 * kind FILE or EXEC; `kind` of the result is one of the two. PL_ETOOBIG past PL_FILE_LIMIT_BYTES, PL_EINVAL for other entries, errors of
 * reader and sink. */
PL_MUST_CHECK
int pl_file_concat(const struct pl_entry *parts, size_t n, uint8_t kind, const struct pl_chunk_reader *reader,
                   const struct pl_file_write_sink *sink, struct pl_entry *ret, struct pl_err *err);
