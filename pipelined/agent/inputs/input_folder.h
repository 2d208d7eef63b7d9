/* input_folder: writes the files of a match below a folder of the work folder. Files are hard links to the
 * cache of whole files where that is safe (behind a read-only mount), and copies otherwise. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_entries.h"

/* maximum number of files in a match that the calling thread writes itself; checkout's threads write larger
 * matches */
#define PL_INPUTS_FEW 64u
/* maximum bytes of a match that the calling thread writes itself; checkout's threads write larger matches */
#define PL_INPUTS_FEW_BYTES (4u << 20)
#define PL_INPUTS_PATH_MAX  8192 /* maximum bytes of a path in the work folder */

/* Everything that the functions need to write files. The owner must free `scratch`. */
struct pl_input_folder {
    struct pl_chunk_reader reader;
    const struct pl_uplink_user *user; /* connection for announcing chunks; NULL = do not announce */
    struct pl_file_cache *cache;       /* cache of whole files; NULL = none */
    struct pl_node_cache *nodes;
    struct pl_buf scratch;
};

/* Writes "folder/name" to `out`, or "folder" if the name is empty. PL_EINVAL: longer than
 * PL_INPUTS_PATH_MAX. */
PL_MUST_CHECK
int pl_input_path(char out[PL_INPUTS_PATH_MAX], const char *folder, const char *name, struct pl_err *err);
/* Creates the parent folders of `path` below the existing folder `dest_fd` and opens the innermost. Never
 * follows a link: PL_ECOLLISION if a parent folder is a link or file, as in a tree that has both "a" and
 * "a/b". PL_EPATH, PL_EIO. `*ret_fd` is closed by the caller. */
PL_MUST_CHECK
int pl_input_parents_open(int dest_fd, const char *path, int *ret_fd, struct pl_err *err);
/* Like pl_input_parents_open, without opening the innermost folder. */
PL_MUST_CHECK
int pl_input_parents(const char *dest, const char *path, struct pl_err *err);
/* Writes a file, link or folder as `path`, which must not exist: one name below the folder `at`, or any path
 * in a folder that only the agent writes to. PL_ENOSPC, PL_ECORRUPT, PL_EIO. */
PL_MUST_CHECK
int pl_input_entry(struct pl_input_folder *f, const struct pl_entry *e, int at, const char *path, struct pl_err *err);
/* Number and size of the files of a match. Both count all files of the match, even if the input selects only
 * some of them with `files`. */
struct pl_input_sums {
    uint64_t files, bytes;
};
/* Gets number and size of a match's files from the tree's nodes, without reading the files. */
PL_MUST_CHECK
int pl_input_sums_get(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, struct pl_input_sums *ret,
                      struct pl_err *err);
/* Writes the entries below the existing folder `dest`. `n` is their approximate number; it decides whether
 * this thread or checkout's threads write them. */
PL_MUST_CHECK
int pl_input_write(struct pl_input_folder *f, const struct pl_entry_source *entries, uint64_t n, const char *dest,
                   struct pl_err *err);
/* Writes the entries of `wi`, which matches a folder, below the existing empty folder `dest`. PL_ECANCELED if
 * the work is no longer wanted; otherwise errors as for pl_input_entry. */
PL_MUST_CHECK
int pl_input_build(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, const char *dest,
                   struct pl_input_sums *ret, struct pl_err *err);
/* Joins the globs of an input, each with its NUL, in `ret`: the same globs give the same bytes. PL_ENOMEM. */
PL_MUST_CHECK
int pl_input_files_key(const struct pl_agent_protocol_input *wi, struct pl_buf *ret, struct pl_err *err);
/* Makes the files of a folder writable for the command; `by_group`: it runs as another user of the folder's group. PL_EIO. */
PL_MUST_CHECK
int pl_input_make_writable(const char *folder, bool by_group, struct pl_err *err);
