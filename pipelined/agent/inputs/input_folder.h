/* input_folder: the files of a match below a folder of the work folder. They come as hard links out of the cache of whole files where that is
 * safe (behind a read-only mount), else as copies. One thread. */
#pragma once

#include "pipelined/agent/inputs/input_entries.h"

#define PL_INPUTS_FEW       64u        /* up to so many files … */
#define PL_INPUTS_FEW_BYTES (4u << 20) /* … of so many bytes are written here; more by checkout's threads */
#define PL_INPUTS_PATH_MAX  8192       /* bytes of a path in the work folder */

/* Whoever writes them; `scratch` is finished by its owner. */
struct pl_input_folder {
    struct pl_chunk_reader reader;
    const struct pl_uplink_user *user; /* asked where chunks are; NULL = not asked */
    struct pl_file_cache *cache;       /* NULL = none */
    struct pl_node_cache *nodes;
    struct pl_buf scratch;
};

/* "folder/name" with its end cut off: PL_EINVAL. An empty name: the folder. */
PL_MUST_CHECK
int pl_input_path(char out[PL_INPUTS_PATH_MAX], const char *folder, const char *name, struct pl_err *err);
/* Makes the folders above `path` below `dest`, which is there. Each is reached from the one above it, and through no link: where a tree has
 * a link or file "a" beside "a/b" it is PL_ECOLLISION. */
PL_MUST_CHECK
int pl_input_parents_open(int dest_fd, const char *path, int *ret_fd, struct pl_err *err);
/* The same for what has not to be opened. */
PL_MUST_CHECK
int pl_input_parents(const char *dest, const char *path, struct pl_err *err);
/* Writes a file or link as `path`, one name below the folder `at` (or, of our own folders, any path), which is not there. PL_ENOSPC,
 * PL_ECORRUPT, PL_EIO. */
PL_MUST_CHECK
int pl_input_entry(struct pl_input_folder *f, const struct pl_entry *e, int at, const char *path, struct pl_err *err);
/* Of the files of a match; of a part of it (`files`) those of the whole. */
struct pl_input_sums {
    uint64_t files, bytes;
};
PL_MUST_CHECK
int pl_input_sums_get(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, struct pl_input_sums *ret,
                      struct pl_err *err);
/* Writes about `n` entries below `dest`, which is there and has nothing in their place. */
PL_MUST_CHECK
int pl_input_write(struct pl_input_folder *f, const struct pl_entry_source *entries, uint64_t n, const char *dest,
                   struct pl_err *err);
/* Writes what `wi`, which matches a folder, takes of it below `dest`, which is there and empty. */
PL_MUST_CHECK
int pl_input_build(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, const char *dest,
                   struct pl_input_sums *ret, struct pl_err *err);
