/* jobs: runs with their jobs, shown. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/cli/support/show.h"

/* A run's jobs as a table, in the order in which they began; without reasons and titles for who gets them by pl_cli_jobs_explain. */
PL_MUST_CHECK
int pl_cli_jobs_table(const json_t *jobs, bool whole, struct pl_err *err);
/* "ID", the start of one, or "REPO@REF" (the commit's id is the run's; of a stage's branch without a commit yet: the run of the stage's
 * newest job): what the server calls the run, malloc'ed. */
PL_MUST_CHECK
int pl_cli_run_id(struct pl_cli *c, const char *text, char **ret, struct pl_err *err);
/* The newest unfinished run whose job of the stage is going to write the branch `ref`, malloc'ed; NULL: none is. Of a run that has just
 * begun its jobs are awaited (2 s at most). */
PL_MUST_CHECK
int pl_cli_run_to_come(struct pl_cli *c, const struct pl_commit_ref *ref, char **ret, struct pl_err *err);
/* "STAGE[@RUN]", "PROJECT/STAGE[@RUN]": `ret_run` "" = the newest. */
struct pl_cli_job {
    char project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1], run[PL_NAME_MAX_BYTES + 1];
};
PL_MUST_CHECK
int pl_cli_job_arg(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err);
/* The same with the run found: of the newest job when none was given. */
PL_MUST_CHECK
int pl_cli_job_find(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err);
/* Jobs that failed, each with its reason and the last lines that its command printed. */
PL_MUST_CHECK
int pl_cli_jobs_explain(struct pl_cli *c, const json_t *jobs, struct pl_err *err);
