/* try_folder: a temporary folder with all that trying one datum leaves behind: a store of the files that the datum takes from folders
 * of this machine and of the stage's code, the work folder of the agent, its request and answer. Gone with pl_cli_try_folder_finish. */
#pragma once

#include "pipelined/cli/try/try_inputs.h"
#include "storage/store/store.h"
#include <limits.h>

struct pl_cli_try_folder {
    char path[PATH_MAX]; /* below $TMPDIR, else /tmp; "": not made yet */
    struct pl_object_store *objects;
    struct pl_store *store;
};

PL_MUST_CHECK
int pl_cli_try_folder_make(const char *project, struct pl_cli_try_folder *ret, struct pl_err *err);
void pl_cli_try_folder_finish(struct pl_cli_try_folder *f);
/* PATH/NAME, malloc'ed. */
char *pl_cli_try_folder_path(const struct pl_cli_try_folder *f, const char *name);

/* Takes what datum `datum` of `plan` (over names) has of each folder into the store: the leaves' roots are those of its files then, their
 * sources read the store. Errors of an ingest. */
PL_MUST_CHECK
int pl_cli_try_folder_take(struct pl_cli_try_folder *f, struct pl_cli_try_inputs *in, const struct pl_plan *plan, size_t datum,
                           struct pl_err *err);
/* The code folder as it lies on disk. */
PL_MUST_CHECK
int pl_cli_try_folder_take_code(struct pl_cli_try_folder *f, const char *project, const char *folder, struct pl_hash *ret_root,
                                struct pl_err *err);
