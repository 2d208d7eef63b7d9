/* code_folder: stores the folder that a stage's `code` names in a project's store, as a tree. Files that git or
 * .pipelinedignore files ignore are left out; the program pl-git lists them. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/base/hash.h"

#define PL_CODE_MAX_BYTES (256ull << 20)
#define PL_CODE_MAX_FILES 10000u

struct pl_pack_sink;

/* Stores the files of `folder`, a folder on this machine; with n_files > 0 only those that a glob of `files` matches
 * (pl_glob_set), without empty folders. `ret_root`: root of the tree, durable in the store. `*ret_git`: {"head",
 * "dirty", "path"}, or NULL if the folder is not in a git repository; the caller owns it. PL_ENOTFOUND: the folder
 * does not exist, or no file matches; PL_EINVAL: it is a file; PL_ELIMIT: it exceeds PL_CODE_MAX_BYTES or
 * PL_CODE_MAX_FILES; PL_EGLOB; errors of ingest. */
PL_MUST_CHECK
int pl_cli_code_store(const struct pl_pack_sink *sink, const char *project, const char *folder, const char *const *files,
                      size_t n_files, struct pl_hash *ret_root, json_t **ret_git, struct pl_err *err);
