/* code_folder: stores the folder that the field `code` of a stage names, as a tree in the store of a project.
 * Files that git ignores are left out; the program pl-git lists them. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/base/hash.h"

#define PL_CODE_MAX_BYTES (256ull << 20)
#define PL_CODE_MAX_FILES 10000u

struct pl_pack_sink;

/* Stores the files of `folder`, a folder on this machine. `ret_root`: root of the resulting tree, which is
 * durable in the store. `*ret_git`: JSON object {"head", "dirty", "path"}, owned by the caller, or NULL if
 * the folder is not in a git repository. PL_ENOTFOUND: the folder does not exist; PL_EINVAL: it is a file;
 * PL_ELIMIT: it exceeds PL_CODE_MAX_BYTES or PL_CODE_MAX_FILES; errors of ingest. */
PL_MUST_CHECK
int pl_cli_code_store(const struct pl_pack_sink *sink, const char *project, const char *folder, struct pl_hash *ret_root,
                      json_t **ret_git, struct pl_err *err);
