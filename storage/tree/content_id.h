/* content_id: identity of files and directories for datums. Equal content, equal id, wherever it lies; node ids are identity of
 * storage only and never used here but for a whole tree, whose root is unique to its content.
 *
 *   file        SHA-256 of its bytes when inline, else the id in its entry (the one chunk, or the root of the canonical chunk
 * list) directory   SHA-256 over fields, each as u64 LE length and bytes: "pl-dir-1", then for every entry below in order of
 * paths: path relative to the directory; u8 kind; u64 LE size; content id (links: the target, or the id of its chunk when it is
 *               longer than 64 bytes; empty directories: nothing)
 *   "" (root)   without a filter: the root's id; of the empty tree: that of a directory with nothing in it */
#pragma once

#include "storage/tree/tree.h"

/* Of a file or link; of a DIR that of an empty directory. PL_EINVAL for rows and malformed entries. */
PL_MUST_CHECK
int pl_content_id_file(const struct pl_entry *e, struct pl_hash *ret, struct pl_err *err);

/* Whether the file counts; `path` is relative to the directory, NUL-terminated. */
typedef bool (*pl_content_filter_fn)(void *self, const char *path, size_t path_len);

/* Of directory `dir` ("" = root, else without slash at the end). With `filter` only the files that it accepts are hashed, and
 * empty directories not at all. `ret_files` (may be NULL) counts what was hashed without empty directories: 0 with a filter means
 * that the directory is no datum. PL_ENOTFOUND when there is no such directory, PL_EINVAL when it is a file. */
PL_MUST_CHECK
int pl_content_id_dir(const struct pl_node_source *source, const struct pl_hash *root, const char *dir,
                      pl_content_filter_fn filter, void *self, struct pl_hash *ret, uint64_t *ret_files, struct pl_err *err);
