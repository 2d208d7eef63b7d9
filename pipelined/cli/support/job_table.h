/* job_table: finds runs and jobs by the text that a user typed, and prints a run's jobs. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/cli/support/show.h"

/* Prints the jobs of a run as a table, in the order in which they started. With `whole` false, the table has
 * no titles and no reasons; the caller then prints the reasons with pl_cli_jobs_explain. */
PL_MUST_CHECK
int pl_cli_jobs_table(const json_t *jobs, bool whole, struct pl_err *err);
/* Finds the run that `text` names: a run's id, the start of an id, or "REPO@REF". For "REPO@REF" it is the
 * run with the same id as the commit; if a stage's branch has no commit yet, the run of the stage's newest
 * job. `ret`: the run's id or the start of it, malloc'ed. */
PL_MUST_CHECK
int pl_cli_run_id(struct pl_cli *c, const char *text, char **ret, struct pl_err *err);
/* Finds the newest unfinished run in which a stage's job will write the branch `ref`. `*ret` must be NULL
 * before the call; it receives the run's id, malloc'ed, and stays NULL if there is none. Waits at most 2 s
 * for the jobs of runs that have just begun. */
PL_MUST_CHECK
int pl_cli_run_to_come(struct pl_cli *c, const struct pl_commit_ref *ref, char **ret, struct pl_err *err);
/* A job, parsed from "STAGE[@RUN]" or "PROJECT/STAGE[@RUN]"; `run` is "" for the stage's newest job. */
struct pl_cli_job {
    char project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1], run[PL_NAME_MAX_BYTES + 1];
};
PL_MUST_CHECK
/* Parses a text that names a job. If its RUN has the form REPO@REF, the run is looked up on the server.
 * PL_ENAME, PL_EUSAGE. */
int pl_cli_job_arg(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err);
/* Like pl_cli_job_arg. If the text names no run, also looks up the run of the stage's newest job;
 * PL_ENOTFOUND if the stage has no job. */
PL_MUST_CHECK
int pl_cli_job_find(struct pl_cli *c, const char *text, struct pl_cli_job *ret, struct pl_err *err);
/* Prints to stderr why jobs failed or were killed: the reason, and for a failed datum the last lines that its
 * command printed. */
PL_MUST_CHECK
int pl_cli_jobs_explain(struct pl_cli *c, const json_t *jobs, struct pl_err *err);
