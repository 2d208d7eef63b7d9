/* try_folder: the temporary folder of the subcommand try. It holds a store (with the stage's code, and the
 * datum's files from local folders), the worker's working folder, and the worker's request and answer.
 * pl_cli_try_folder_finish removes it. */
#pragma once

#include "pipelined/cli/try/try_inputs.h"
#include "storage/store/store.h"
#include <limits.h>

struct pl_cli_try_folder {
    char path[PATH_MAX]; /* path of the folder, below $TMPDIR or else /tmp; "" = not created yet */
    struct pl_object_store *objects;
    struct pl_store *store;
};

PL_MUST_CHECK
/* Creates the folder and opens a store for `project` in it. Call pl_cli_try_folder_finish also after an
 * error. PL_EIO. */
int pl_cli_try_folder_make(const char *project, struct pl_cli_try_folder *ret, struct pl_err *err);
void pl_cli_try_folder_finish(struct pl_cli_try_folder *f);
/* Returns the path of NAME in the folder, malloc'ed; NULL if memory runs out. */
char *pl_cli_try_folder_path(const struct pl_cli_try_folder *f, const char *name);

/* Stores those files of datum number `datum` that come from local folders. `plan` was made from the names of
 * the files (pl_name_tree). Afterwards, the root of each of these inputs is the root of a tree with the
 * datum's files, and the nodes of that tree are read from the store in the temporary folder. Errors of an
 * ingest. */
PL_MUST_CHECK
int pl_cli_try_folder_take(struct pl_cli_try_folder *f, struct pl_cli_try_inputs *in, const struct pl_plan *plan, size_t datum,
                           struct pl_err *err);
/* Stores the stage's code, which lies in `folder`, in its present state; ignored files are left out. Errors of
 * pl_cli_code_store. */
PL_MUST_CHECK
int pl_cli_try_folder_take_code(struct pl_cli_try_folder *f, const char *project, const struct pl_stage *stage,
                                const char *folder, struct pl_hash *ret_root, struct pl_err *err);
