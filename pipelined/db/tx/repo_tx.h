/* repo_tx: transactions on projects, repos, branches: each validates, then emits its records. The functions are pl_tx_fn bodies for
 * pl_db_run and pl_db_submit: `arg` is the struct named by the function. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/retention_rule.h"

#define PL_REPO_COMMIT_WINDOW_MIN_MS 100 /* commit_window, unless it is 0 */
#define PL_REPO_COMMIT_WINDOW_MAX_MS 60000

struct pl_repo_args {
    const char *project;
    const char *name;
    const char *description;
    bool exist_ok; /* create: an existing repo of the same kind is fine */
    bool output;   /* create: made for a stage */
    bool force;    /* delete: although a current stage reads it */
    bool empty;    /* delete: only when no branch's head has a file */
    bool look;     /* delete of a project: says whether it could be, and leaves it */
    bool changed;  /* out: something was made, set or removed */
    /* Of a project. */
    bool set_network; /* network_off counts */
    bool network_off; /* its stages have no network, whatever they say */
    int64_t id;       /* delete: out: the row that it was */
    /* Options, of input repos. */
    bool set_window;          /* commit_window_ms counts */
    int64_t commit_window_ms; /* 0..PL_REPO_COMMIT_WINDOW_MAX_MS */
    const char *durable;      /* "local" or "bucket"; NULL = as it is */
    /* Of all repos. */
    const struct pl_retention_rule *keep; /* NULL = as it is; an input repo has no results and logs */
};

/* arg: struct pl_repo_args, `name` is the project. */
PL_MUST_CHECK
int pl_tx_project_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Sets what is given; "default" is made on the way. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_project_update(struct pl_tx *tx, void *arg, struct pl_err *err);
/* PL_EINUSE while it has repos or pipelines. */
PL_MUST_CHECK
int pl_tx_project_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
/* The project "default" is made on the way. PL_EEXISTS; PL_ENAME. */
PL_MUST_CHECK
int pl_tx_repo_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Sets what is given of description (NULL = as it is) and options. PL_EINVAL, PL_EOUTPUT, PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_repo_update(struct pl_tx *tx, void *arg, struct pl_err *err);
/* PL_EINUSE: a stage of a pipeline reads it (unless force) or writes it (delete the pipeline). PL_ECONFLICT: it is not empty, but shall
 * be. */
PL_MUST_CHECK
int pl_tx_repo_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_branch_args {
    const char *project;
    const char *repo;
    const char *name;
    const char *from;            /* create: a ref of the same repo, "" = no commit */
    bool force;                  /* delete: although a current stage reads it */
    bool empty;                  /* delete: only when its head has no file */
    char started[PL_ID_HEX + 1]; /* out of create: the run of the stages that read it; "" = there are none, or no commit */
};

PL_MUST_CHECK
int pl_tx_branch_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* PL_EINUSE: a stage of a pipeline reads it (unless force). PL_EOUTPUT, PL_ENOTFOUND. PL_ECONFLICT: it is not empty, but shall be. */
PL_MUST_CHECK
int pl_tx_branch_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
