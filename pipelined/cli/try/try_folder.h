/* try_folder: the temporary folder of a try. It holds a store with the datum's files from local folders and
 * the stage's code, the worker's work folder, its request and its answer. pl_cli_try_folder_finish removes
 * it. */
#pragma once

#include "pipelined/cli/try/try_inputs.h"
#include "storage/store/store.h"
#include <limits.h>

struct pl_cli_try_folder {
    char path[PATH_MAX]; /* below $TMPDIR, else /tmp; "" = not created yet */
    struct pl_object_store *objects;
    struct pl_store *store;
};

PL_MUST_CHECK
/* Creates the folder and opens a store for `project` in it. Call pl_cli_try_folder_finish also after an
 * error. PL_EIO. */
int pl_cli_try_folder_make(const char *project, struct pl_cli_try_folder *ret, struct pl_err *err);
void pl_cli_try_folder_finish(struct pl_cli_try_folder *f);
/* Returns PATH/NAME, malloc'ed; NULL without memory. */
char *pl_cli_try_folder_path(const struct pl_cli_try_folder *f, const char *name);

/* Stores the files of datum `datum` that come from local folders. `plan` was made over names (pl_name_tree).
 * Afterwards the inputs' roots are trees of the datum's files, and their node sources read this store. Errors
 * of an ingest. */
PL_MUST_CHECK
int pl_cli_try_folder_take(struct pl_cli_try_folder *f, struct pl_cli_try_inputs *in, const struct pl_plan *plan, size_t datum,
                           struct pl_err *err);
/* Stores the code folder in its present state; files that git ignores are left out. Errors of
 * pl_cli_code_store. */
PL_MUST_CHECK
int pl_cli_try_folder_take_code(struct pl_cli_try_folder *f, const char *project, const char *folder, struct pl_hash *ret_root,
                                struct pl_err *err);
