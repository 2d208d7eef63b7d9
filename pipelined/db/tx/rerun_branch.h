/* rerun_branch: a run whose outputs go to a separate branch of its stages' repos (`rerun --as`). It repeats
 * the jobs of an earlier run over the same commits that those jobs read. Among themselves, its stages read
 * each other's outputs from the separate branch. The run's record names the earlier run (`of`) and the branch
 * (`as`). */
#pragma once

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/spec/spec.h"

struct pl_rerun_branch {
    char run[PL_ID_HEX + 1];
    char of[PL_ID_HEX + 1];             /* the earlier run that it repeats */
    char branch[PL_NAME_MAX_BYTES + 1]; /* the branch of its outputs */
};

/* Returns 1 and fills `ret` if the run writes a separate branch, else 0. */
PL_MUST_CHECK
int pl_rerun_branch_find(struct pl_conn *c, const char *run, struct pl_rerun_branch *ret, struct pl_err *err);
/* Finds the commit at which input number `i` of a stage is read: 1, or 0 when there was none. Normally it is
 * the commit that the stage's job read in the earlier run. If another stage made that commit in the earlier
 * run, it is replaced by the output of that other stage in this run. If the job was never planned because an
 * earlier job failed, it is the commit that was there when the job's run began. PL_ENOTFOUND: the commit no
 * longer exists. */
PL_MUST_CHECK
int pl_rerun_branch_input(struct pl_conn *c, const struct pl_rerun_branch *a, const char *project, const struct pl_stage *stage,
                          size_t i, struct pl_commit_row *ret, struct pl_err *err);
/* Says whether the branch's head was made by a run with a separate branch. */
PL_MUST_CHECK
int pl_rerun_branch_made(struct pl_conn *c, int64_t repo, const char *branch, bool *ret, struct pl_err *err);
/* Checks that the stage's output may go to the branch. PL_EINVAL: the stage itself writes this branch; PL_EEXISTS:
 * its head was not made by such a run. */
PL_MUST_CHECK
int pl_rerun_branch_check(struct pl_conn *c, const char *project, const char *stage, const char *branch, struct pl_err *err);
