/* content_id: the identity of the content of a file or directory, used as the identity of data in datums.
 * Equal content has an equal content id, wherever it is stored. Ids of tree nodes identify storage only.
 * Content ids do not depend on them, with one exception: the content id of a whole tree is the id of its
 * root, which is unique for its content.
 *
 *   file        inline: SHA-256 of its bytes; otherwise: the id in its entry (of its single chunk, or of the
 *               root of its canonical chunk list)
 *   directory   SHA-256 over fields, each preceded by its length as u64 LE: "pl-dir-1", then for every entry
 *               below the directory, in order of path: the path relative to the directory; u8 kind; u64 LE
 *               size; content id. Links: the target instead of the content id, or the id of its chunk if it is
 *               longer than 64 bytes. Empty directories: an empty field instead of the content id.
 *   "" (root)   without a filter: the id of the tree's root; of an empty tree: that of an empty directory */
#pragma once

#include "storage/tree/tree.h"

/* Computes the content id of a file or link; for a DIR entry, the id of an empty directory. PL_EINVAL: the
 * entry is a row, or malformed. */
PL_MUST_CHECK
int pl_content_id_file(const struct pl_entry *e, struct pl_hash *ret, struct pl_err *err);

/* Returns true if the file should be hashed. `path` is relative to the directory and NUL-terminated. */
typedef bool (*pl_content_filter_fn)(void *self, const char *path, size_t path_len);

/* Computes the content id of the directory `dir` ("" = root, otherwise without a slash at the end). With
 * `filter`, only the files that the filter accepts are hashed; empty directories are not. `ret_files` (may be
 * NULL) receives the number of hashed files and links; 0 with a filter means that the directory is not a
 * datum. PL_ENOTFOUND: no such directory; PL_EINVAL: it is a file. */
PL_MUST_CHECK
int pl_content_id_dir(const struct pl_node_source *source, const struct pl_hash *root, const char *dir,
                      pl_content_filter_fn filter, void *self, struct pl_hash *ret, uint64_t *ret_files, struct pl_err *err);
