/* job_json: rows of runs, jobs and attempts as the interface gives them. */
#pragma once

#include "api_internal.h"

/* Columns for pl_job_row_json, to be followed by FROM job j …. */
#define PL_JOB_COLUMNS                                                                                                           \
    "SELECT j.id, j.run, j.project, j.stage, j.pipeline, j.version, j.state, j.reason, j.base, j.output, j.code, j.inputs, "     \
    "j.warnings,"                                                                                                                \
    " j.counts, j.ms, j.bytes, j.final, j.created_us, coalesce(j.started_us, 0), coalesce(j.finished_us, 0)"

/* A job: figures from the row, or, while it runs, from the engine. New reference. */
json_t *pl_job_row_json(struct pl_api *a, const struct pl_rows *rows, bool whole);
/* Columns id, state, reason, message, cause, created_us, finished_us. */
json_t *pl_run_row_json(const struct pl_rows *rows);
/* Row id of a job; PL_ENOTFOUND names stage and run. `run` may be the start of an id, or "" = the stage's newest job. */
PL_MUST_CHECK
int pl_api_job_find(struct pl_conn *c, const char *project, const char *stage, const char *run, int64_t *ret_id,
                    char ret_run[PL_ID_HEX + 1], struct pl_err *err);
