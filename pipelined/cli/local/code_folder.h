/* code_folder: the folder that a stage's `code` names, put into a project's store: what git ignores stays out (pl-git tells), the rest
 * becomes a tree. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "storage/base/hash.h"

#define PL_CODE_MAX_BYTES (256ull << 20)
#define PL_CODE_MAX_FILES 10000u

struct pl_pack_sink;

/* `folder` on this machine. `ret_root`: the tree's root, durable in the store. `*ret_git` {"head", "dirty", "path"}, or NULL when the
 * folder is in no repository; the caller's reference. PL_ENOTFOUND, PL_ELIMIT past the limits, errors of ingest. */
PL_MUST_CHECK
int pl_cli_code_store(const struct pl_pack_sink *sink, const char *project, const char *folder, struct pl_hash *ret_root,
                      json_t **ret_git, struct pl_err *err);
