/* source_look: a look at a source: the tip of its branch, and what a new commit there sets. */
#pragma once

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/forge/status_poster.h"
#include "pipelined/source/git_child.h"
#include "pipelined/source/source_address.h"
#include "pipelined/source/source_commit.h"
#include "storage/base/path.h"
#include <jansson.h>

#define PL_SOURCE_PACKS_MAX 256u /* packs in a copy */

/* A look. The first part is set by the caller; strings and pointers are borrowed, but `settings` is owned. */
struct pl_source_look {
    const struct pl_pipeline_host *host;
    const struct pl_source_addresses *addresses;
    const char *folder; /* of the copies */
    struct pl_git_child *git;
    char name[2 * PL_NAME_MAX_BYTES + 2], project[PL_NAME_MAX_BYTES + 1]; /* `name` is also that of the copy */
    int64_t created_us;                                                   /* of the source */
    struct pl_status_poster *poster;
    json_t *settings;
    bool asked;   /* it was asked for, not only due */
    bool afresh;  /* read the commit again even if it is applied: the settings changed, or a look was asked for */
    bool changed; /* its settings changed: another repository or branch has nothing in common with the tip before */
    bool compare; /* only find out what the tip's commit would change */

    bool gone;                    /* out, of a git input: its repo was deleted */
    json_t *compared;             /* the result of that */
    char *error, *seen, *applied; /* of the look before, "" = none */
    json_t *tip;                  /* {id, author, message, at, forced} */
    char *warning;                /* pl_source_told.warning, of the look before */
    json_t *posted, *previews;    /* pl_source_told, as the look before left them; NULL = none */
};

/* What pl_source_look_ask asks pl-git about (git_serve.h). */
struct pl_source_ask {
    const char *what;   /* "look", "branches" */
    const char *branch; /* "" = the default branch */
    const char *have;   /* tip seen before, "" = none */
    bool preview;       /* it is not the branch that the source follows */
};
/* Asks pl-git about the source's repository, with the credentials of its secret; the caller reads the answer. PL_EFORBIDDEN: the
 * daemon's settings exclude the repository. Errors of git_child, and of the secret. */
PL_MUST_CHECK
int pl_source_look_ask(struct pl_source_look *l, const struct pl_source_ask *ask, struct pl_err *err);
/* Reads the specs of the commit `tip` and sets their pipelines, or with `dry_run` finds out what that would change. `c` must be
 * finished, and done->left be released, after errors, too. Errors of source_commit. */
PL_MUST_CHECK
int pl_source_look_set(struct pl_source_look *l, const json_t *tip, bool dry_run, struct pl_source_commit *c,
                       struct pl_source_apply *done, struct pl_err *err);
/* Sends the status that a note says (status_poster.h), named "pipelined/SOURCE" and `ending`. Errors as of pl_status_post; the first in a
 * row is logged. */
int pl_source_look_post(struct pl_source_look *l, const char *ending, json_t *note);
/* True if an error of pl_source_look_set says something about the commit, not about the daemon or the way to the repository. */
bool pl_source_look_blames(int code);

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

/* Removes the copy of the repository if fetches have left more than PL_SOURCE_PACKS_MAX packs in it, each of a push or a preview:
 * nothing collects git's objects there, and the next look fetches it anew. */
void pl_source_bound_copy(struct pl_source_look *l);
/* Removes the copy of a repository from the folder of the copies. */
void pl_source_remove_copy(const char *folder, const char *name);
/* The same in two steps: the first gives the copy another name, and is quick; the second removes it. */
void pl_source_set_copy_aside(const char *folder, const char *name);
void pl_source_remove_aside(const char *folder, const char *name);
