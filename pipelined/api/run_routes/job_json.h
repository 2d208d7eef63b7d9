/* job_json: rows of runs, jobs and attempts as the interface gives them. */
#pragma once

#include "pipelined/api/server/api_context.h"

/* Columns for pl_job_row_json, to be followed by FROM job j …. */
#define PL_JOB_COLUMNS                                                                                                           \
    "SELECT j.id, j.run, j.project, j.stage, j.pipeline, coalesce((SELECT version FROM stage WHERE id = j.version), 0), "        \
    "j.state, j.reason, j.base, j.output, j.code, j.inputs, "                                                                    \
    "j.warnings,"                                                                                                                \
    " j.counts, j.ms, j.bytes, j.created_us, coalesce(j.started_us, 0), coalesce(j.finished_us, 0),"                             \
    " (SELECT as_branch FROM run WHERE id = j.run),"                                                                             \
    " CASE WHEN json_extract(j.counts, '$.attempts') > 0 THEN '' ELSE"                                                           \
    " coalesce((SELECT json_extract(spec, '$.gpu') FROM stage WHERE id = j.version), '') END"

/* A job as its row has it. New reference. */
json_t *pl_job_row_json(const struct pl_rows *rows, bool whole);
/* Adds to a job that is not over what only the engine knows. Blocks until the loop answers: on the pool, holding no reader, for what
 * keeps the loop waiting may itself wait for one. */
void pl_job_add_live(struct pl_api *a, json_t *job);
/* The same to each of an array. */
void pl_jobs_add_live(struct pl_api *a, json_t *jobs);
/* Columns id, state, reason, message, cause, created_us, finished_us. */
json_t *pl_run_row_json(const struct pl_rows *rows);
/* Row id of a job; PL_ENOTFOUND names stage and run, alike whether the run is there or not. `run` may be the start of an id, among the runs
 * that the stage has jobs in, or "" = the stage's newest job. */
PL_MUST_CHECK
int pl_api_job_find(struct pl_conn *c, const char *project, const char *stage, const char *run, int64_t *ret_id,
                    char ret_run[PL_ID_HEX + 1], struct pl_err *err);
