/* failure_text: prints the failure groups of a job, as the reply of its failures route has them: how many datums, what went
 * wrong, and what they have in common. */
#pragma once

#include "pipelined/cli/support/job_table.h"

/* Reads the job's failures from the server; a new reference. */
PL_MUST_CHECK
int pl_failure_text_read(struct pl_cli *c, const struct pl_cli_job *job, json_t **ret, struct pl_err *err);
/* Prints the groups, and how each can be tried again. Prints nothing if no datum failed. */
void pl_failure_text_print(const struct pl_cli_job *job, const json_t *failures);
/* Writes "decode@c41d7e90", or "vision/decode@c41d7e90" outside the default project, into `out` and returns it. */
#define PL_FAILURE_TEXT_JOB (2 * PL_NAME_MAX_BYTES + 16)
char *pl_failure_text_job(const struct pl_cli_job *job, char out[PL_FAILURE_TEXT_JOB]);
