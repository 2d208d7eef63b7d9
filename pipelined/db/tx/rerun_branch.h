/* aside: a run whose outputs go to a branch of their own in its stages' repos (`rerun --as`). It does the jobs of an earlier run over the
 * very commits that those read; its stages read each other's outputs from it. What it is stands in its record: `of` and `as`. */
#pragma once

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/spec/spec.h"

struct pl_rerun_branch {
    char run[PL_ID_HEX + 1];
    char of[PL_ID_HEX + 1];             /* the run that it does again */
    char branch[PL_NAME_MAX_BYTES + 1]; /* where its outputs go */
};

/* 1: the run is one, and what it is; 0: it is not. */
PL_MUST_CHECK
int pl_rerun_branch_find(struct pl_conn *c, const char *run, struct pl_rerun_branch *ret, struct pl_err *err);
/* The commit that input number `i` of a stage is read at: 1, or 0 when there was none. What the stage's job of the earlier run read;
 * where that was another stage's output in the same run, this run's output of it. A job that was never planned, because one before it
 * failed, would have read what was there when its run began. PL_ENOTFOUND: the commit is gone. */
PL_MUST_CHECK
int pl_rerun_branch_input(struct pl_conn *c, const struct pl_rerun_branch *a, const char *project, const struct pl_stage *stage,
                          size_t i, struct pl_commit_row *ret, struct pl_err *err);
/* Did a run that wrote aside leave the head of the branch? */
PL_MUST_CHECK
int pl_rerun_branch_made(struct pl_conn *c, int64_t repo, const char *branch, bool *ret, struct pl_err *err);
/* May the stage's output go there? PL_EINVAL: it is the branch that the stage writes; PL_EEXISTS: it holds what no such run left. */
PL_MUST_CHECK
int pl_rerun_branch_check(struct pl_conn *c, const char *project, const char *stage, const char *branch, struct pl_err *err);
