/* file_copy: copies the records of one file from the store of one project into packs for another project. The copy has the
 * same chunks and lists, so its entry is the same. */
#pragma once

#include "storage/pack/chunk_reader.h"
#include "storage/pack/pack_builder.h"
#include "storage/tree/tree.h"

/* Adds the chunks and lists of a file or link to `to`, reading them from `from`, except chunks that `to` or its sink has. Does nothing for an entry whose bytes
 * are inline. PL_ECORRUPT: a record is not what the entry says; errors of the reader and of the builder. */
PL_MUST_CHECK
int pl_file_copy(const struct pl_entry *entry, const struct pl_chunk_reader *from, struct pl_pack_builder *to,
                 struct pl_err *err);
