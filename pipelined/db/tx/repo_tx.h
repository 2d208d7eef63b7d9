/* repo_tx: transactions on projects, repos and branches: each validates, then emits its records. The functions are
 * pl_tx_fn bodies for pl_db_run and pl_db_submit: `arg` is the struct named by the function. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/retention_rule.h"

#define PL_REPO_COMMIT_WINDOW_MIN_MS 100 /* minimum of commit_window, unless it is 0 */
#define PL_REPO_COMMIT_WINDOW_MAX_MS 60000
#define PL_BRANCH_LOSS_MAX           10000 /* commits that are looked at for what the delete of a branch takes away */

/* The user to whom a refusal is told. It names no stage that the user may not read. `readable` NULL: it is told to whoever
 * reads the project, and names only stages of the project itself. */
struct pl_told {
    pl_readable_fn readable;
    const void *who; /* borrowed */
};

/* What a delete takes away. Files and bytes are those of the branches' heads, which is what users see of a repo. The database
 * does not know open commits: pl_open_commits_loss counts those that have operations, and these operations. */
struct pl_delete_loss {
    int64_t repos, commits, files, bytes, open_commits, operations, notifications;
};

/* Returns {"repos", "commits", "files", "bytes", "open_commits", "operations"} as a new object. */
json_t *pl_delete_loss_json(const struct pl_delete_loss *loss);

struct pl_repo_args {
    const char *project;
    const char *name;
    const char *description;
    bool exist_ok; /* create: an existing repo of the same kind is no error */
    bool output;   /* create: the repo is a stage's output repo */
    bool force;    /* delete: even if a current stage reads it */
    bool empty;    /* delete: only if no branch's head has a file */
    bool look;     /* delete of a project: only check whether it is possible */
    bool changed;  /* out: something was created, set or deleted */
    /* Projects only. */
    bool set_network;           /* true: set network_off */
    bool network_off;           /* its stages have no network, whatever their specs say */
    int64_t id;                 /* out, for a delete: row id of the deleted repo */
    bool dry_run;               /* delete: do all, then return PL_ECANCELED, which undoes it */
    struct pl_told told;        /* delete: who gets the refusal */
    struct pl_delete_loss loss; /* out, for a delete: what it takes away */
    /* Options of input repos. */
    bool set_window;          /* true: set commit_window_ms */
    int64_t commit_window_ms; /* 0..PL_REPO_COMMIT_WINDOW_MAX_MS */
    const char *durable;      /* "local" or "bucket"; NULL = unchanged */
    /* create: where the files come from, {"source" | "url", "branch"?, "secret"?}; NULL = from pushes. An existing repo of the
     * same is no error with exist_ok. */
    const json_t *git;
    /* All repos. */
    const struct pl_retention_rule *keep; /* NULL = unchanged; an input repo has no results and logs */
};

/* Creates a project. arg: struct pl_repo_args, `name` is the project. */
PL_MUST_CHECK
int pl_tx_project_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Sets a project's options; creates the project "default" if needed. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_project_update(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a project. PL_EINUSE while it has repos or pipelines. */
PL_MUST_CHECK
int pl_tx_project_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Creates a repo, and the project "default" if needed. PL_EEXISTS; PL_ENAME; PL_ENOTFOUND: `git` names no source. */
PL_MUST_CHECK
int pl_tx_repo_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Sets the description (NULL = unchanged) and the options that are given. PL_EINVAL, PL_EOUTPUT, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_repo_update(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a repo. PL_EINUSE: a pipeline's stage reads it (unless force) or writes it (delete the pipeline).
 * PL_ECONFLICT: it has files, and `empty` is set. */
PL_MUST_CHECK
int pl_tx_repo_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_branch_args {
    const char *project;
    const char *repo;
    const char *name;
    const char *from;    /* create, move: a ref of the same repo; create: "" = start without a commit */
    bool force;          /* create: move the branch if it exists; delete: even if a current stage reads it */
    bool empty;          /* delete: only if its head has no file */
    bool dry_run;        /* delete: only count what would go, then return PL_ECANCELED */
    struct pl_told told; /* delete: who gets the refusal */
    /* out, for a delete: `commits` that the repo's rule no longer keeps without the branch, at most
     * PL_BRANCH_LOSS_MAX, and the files of the head if it is one of them. Those that something was made from, or that a job
     * reads, stay nevertheless. */
    struct pl_delete_loss loss;
    /* out, for a create or move: id of the run of the stages that read the branch; "" = no such stage, no commit, or the
     * branch was there already */
    char started[PL_ID_HEX + 1];
};

/* Creates a branch. PL_EEXISTS (unless force), PL_EOUTPUT, PL_EINVAL, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_branch_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Moves a branch to another commit of its repo; its present commits stay. PL_EOUTPUT: only the stage moves a branch of its
 * output; PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_branch_move(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a branch. PL_EINUSE: a pipeline's stage reads it (unless force). PL_EOUTPUT, PL_ENOTFOUND. PL_ECONFLICT:
 * it has files, and `empty` is set. */
PL_MUST_CHECK
int pl_tx_branch_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
