/* source_look: a look at a source: the tip of its branch, and what a new commit there sets. */
#pragma once

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/source/git_child.h"
#include "pipelined/source/source_address.h"
#include "storage/base/path.h"
#include <jansson.h>

/* A look. The first part is set by the caller; strings and pointers are borrowed, but `settings` is owned. */
struct pl_source_look {
    const struct pl_pipeline_host *host;
    const struct pl_source_addresses *addresses;
    const char *folder; /* of the copies */
    struct pl_git_child *git;
    char name[2 * PL_NAME_MAX_BYTES + 2], project[PL_NAME_MAX_BYTES + 1]; /* `name` is also that of the copy */
    int64_t created_us;                                                   /* of the source */
    json_t *settings;
    bool asked;   /* it was asked for, not only due */
    bool afresh;  /* read the commit again even if it is applied: the settings changed, or a look was asked for */
    bool changed; /* its settings changed: another repository or branch has nothing in common with the tip before */
    bool compare; /* only find out what the tip's commit would change */

    bool gone;                    /* out, of a git input: its repo was deleted */
    json_t *compared;             /* the result of that */
    char *error, *seen, *applied; /* of the look before, "" = none */
    json_t *tip;                  /* {id, author, message, at, forced} */
};

/* Looks at the source, and records what was found, or with `compare` leaves it in `compared`. A damaged copy of the repository is removed and fetched
 * once more. Returns false if the repository was not reached or kept pl-git busy for too long: the next look then waits longer. */
bool pl_source_look(struct pl_source_look *l);
void pl_source_look_finish(struct pl_source_look *l);

/* Asks for the tip, l->tip, and fetches it, with the secret that the settings name. `have`: the commit of the look before, "" =
 * none. PL_EIO, PL_ETIMEOUT, PL_EUNAVAILABLE, PL_ECANCELED; errors of pl-git, of the address and of the secret. */
PL_MUST_CHECK
int pl_source_look_tip(struct pl_source_look *l, const char *have, struct pl_err *err);
/* Removes a damaged copy, and drops what was found, so that the look can begin again. */
void pl_source_look_afresh(struct pl_source_look *l);

/* Removes the copy of a repository from the folder of the copies. */
void pl_source_remove_copy(const char *folder, const char *name);
/* The same in two steps: the first gives the copy another name, and is quick; the second removes it. */
void pl_source_set_copy_aside(const char *folder, const char *name);
void pl_source_remove_aside(const char *folder, const char *name);
