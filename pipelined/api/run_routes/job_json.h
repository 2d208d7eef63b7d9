/* job_json: converts database rows of runs, jobs, attempts and origins of versions to the JSON of the API. */
#pragma once

#include "pipelined/api/server/api_context.h"

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/glob.h"

/* The SELECT with the columns that pl_job_row_json reads; append "FROM job j …". */
#define PL_JOB_COLUMNS                                                                                                           \
    "SELECT j.id, j.run, j.project, j.stage, j.pipeline, coalesce((SELECT version FROM stage WHERE id = j.version), 0), "        \
    "j.state, j.reason, j.base, j.output, j.code, j.inputs, "                                                                    \
    "j.warnings,"                                                                                                                \
    " j.counts, j.ms, j.bytes, j.created_us, coalesce(j.started_us, 0), coalesce(j.finished_us, 0),"                             \
    " (SELECT as_branch FROM run WHERE id = j.run),"                                                                             \
    " CASE WHEN json_extract(j.counts, '$.attempts') > 0 THEN '' ELSE"                                                           \
    " coalesce((SELECT json_extract(spec, '$.gpu') FROM stage WHERE id = j.version), '') END,"                                   \
    " (SELECT v.origin FROM stage s JOIN pipeline_version v ON v.pipeline = s.pipeline AND v.version = s.version"                \
    " WHERE s.id = j.version)"

/* Since when a job waits: it could not begin before the other jobs of its run ended, and its last worker may have been lost
 * since. */
#define PL_JOB_WAITS_SINCE                                                                                                       \
    "max(j.created_us, coalesce((SELECT max(finished_us) FROM job u WHERE u.run = j.run), 0),"                                   \
    " coalesce((SELECT max(ended_us) FROM job_worker w WHERE w.job = j.id), 0))"

/* The reason and message of a run may name other repos and stages. They are shown only to principals that may
 * read all repos and stages of the run; PL_RUN_SEEN decides who sees the run itself. */
#define PL_RUN_SEEN_WHOLE "(readable(NULL, NULL) OR NOT " PL_RUN_OF("NOT ") ")"
/* Who set the run off: the author of the commit that was pushed, the user who asked for the run, or the author of the git commit
 * from which a pipeline's version came; "" = not known. */
#define PL_RUN_AUTHOR                                                                                                            \
    "coalesce((SELECT nullif(c.author, '') FROM commit_ c JOIN repo r ON r.id = c.repo WHERE c.run = run.id AND c.stage = ''"    \
    " AND readable(r.project, r.name) ORDER BY c.id LIMIT 1),"                                                                   \
    " iif(" PL_RUN_SEEN_WHOLE ", json_extract(" PL_RUN_ASKED ", '$.who'), NULL),"                                                \
    " (SELECT json_extract(v.origin, '$.author') FROM job j JOIN stage s ON s.id = j.version JOIN pipeline_version v"            \
    " ON v.pipeline = s.pipeline AND v.version = s.version WHERE j.run = run.id AND v.run = run.id"                              \
    " AND readable(j.project, j.stage) LIMIT 1), '')"
/* The columns of `run` that pl_run_row_json reads. The database reader must have pl_conn.readable set. */
#define PL_RUN_COLUMNS                                                                                                           \
    "id, state, iif(" PL_RUN_SEEN_WHOLE ", reason, ''), iif(" PL_RUN_SEEN_WHOLE                                                  \
    ", message, ''), cause, created_us, finished_us, " PL_RUN_TRACE ", " PL_RUN_AUTHOR ", iif(" PL_RUN_SEEN_WHOLE                \
    ", json_extract(" PL_RUN_ASKED ", '$.agent'), '')"

/* Returns who makes the request; the texts are the request's. */
struct pl_run_asker pl_api_asker(const struct pl_http_request *req);
/* Makes the JSON of a job; `whole` adds its inputs, code and attempts. New reference. */
json_t *pl_job_row_json(const struct pl_rows *rows, bool whole);
/* Adds live figures that only the engine knows, if the job has not ended. Blocks until the loop replies: call
 * it on the pool without a database reader, because the loop may be waiting for a reader. */
void pl_job_add_live(struct pl_api *a, json_t *job);
/* Adds `waits` to the job's JSON if it waits for resources: what it wants, what is free, who holds the rest and what would
 * let it start, as far as the request's principal may know. Blocks, as pl_job_add_live does. */
PL_MUST_CHECK
int pl_job_add_waits(struct pl_api *a, const struct pl_http_request *req, json_t *job, struct pl_err *err);
/* Completes an entry of the engine's queue for the request's principal; `gpus` is the engine's report with it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_wait_explain(const struct pl_http_request *req, json_t *entry, const json_t *gpus, struct pl_err *err);
/* Adds to the job's JSON which workers served it, those that were lost first (`workers`), and how many were lost
 * (`workers_lost`). */
#define PL_JOB_WORKERS_LISTED 300 /* most ended workers in `workers` */
PL_MUST_CHECK
int pl_job_workers_add(struct pl_conn *c, int64_t job, json_t *out, struct pl_err *err);
/* Calls pl_job_add_live for each job of an array. */
void pl_jobs_add_live(struct pl_api *a, json_t *jobs);
/* Makes the JSON of a run from PL_RUN_COLUMNS. */
json_t *pl_run_row_json(const struct pl_rows *rows);
/* Refuses a stage that there never was. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_api_stage_check(struct pl_conn *c, const char *project, const char *stage, struct pl_err *err);
/* Finds a job's row id. `run` may be a prefix of an id, among the runs in which the stage has jobs, or "" for
 * the stage's newest job. PL_ENOTFOUND: there is no such stage, or it has no such job; it does not reveal whether the run exists;
 * PL_ECONFLICT: ambiguous prefix. */
PL_MUST_CHECK
int pl_api_job_find(struct pl_conn *c, const char *project, const char *stage, const char *run, int64_t *ret_id,
                    char ret_run[PL_ID_HEX + 1], struct pl_err *err);
/* Returns the input with that number of a stage's effective spec, counted over its tree of inputs as the job's `inputs`
 * are; NULL if there is none. */
const json_t *pl_job_input_leaf(const json_t *stage, size_t index);
/* Compiles `files` of such an input; `*ret` NULL = all files. The caller destroys it. Errors of pl_glob_set_compile. */
PL_MUST_CHECK
int pl_job_input_files(const json_t *leaf, struct pl_glob_set **ret, struct pl_err *err);
/* Computes a datum's id, as attempts store it, from its enumeration key (plan.h) and its job's `inputs`. If the key is a
 * hash, the id does not belong to any datum. */
void pl_job_datum_id(const uint8_t *key, size_t len, const json_t *inputs, struct pl_hash *ret);

/* ---- datums ---- */

/* The SELECT with the columns that pl_attempt_row_json reads; append "WHERE …". */
#define PL_ATTEMPT_COLUMNS                                                                                                       \
    "SELECT datum, attempt, state, coalesce(exit_code, 0), coalesce(signal, 0), oom, timed_out, reason, detail, finished_us, "   \
    "tail, fence FROM attempt"
/* Makes the JSON of an attempt. `params`: the job has a `params` input, whose values are added; `whole`: adds the end of its
 * output. New reference; NULL: out of memory. */
json_t *pl_attempt_row_json(const struct pl_rows *rows, bool params, bool whole);
/* Returns the values of the datum's `params` input, which its text has as "params={…}" among its inputs. New reference; NULL if
 * there are none, as in a text that was cut off. */
json_t *pl_datum_params(const char *paths);
/* Says whether one of the job's inputs is a `params`. */
PL_MUST_CHECK
int pl_job_has_params(struct pl_conn *c, int64_t job, bool *ret, struct pl_err *err);

/* An SQL condition over a row of table attempt: it is of the datum that ?2 names, by its id, a prefix of it, or its paths. */
#define PL_ATTEMPT_NAMED "(substr(lower(hex(datum)), 1, length(?2)) = lower(?2) OR json_extract(detail, '$.paths') = ?2)"

/* ---- versions of a pipeline ---- */

#define PL_VERSION_MAX INT64_MAX

/* Returns the git commit of an origin that a version recorded (docs/format.md, record `pipeline`), without what else is
 * recorded there; {} if it does not come from git. New reference; NULL: out of memory. */
json_t *pl_api_origin_json(const json_t *origin);
/* Sets and returns PL_ENOTFOUND for a pipeline that does not exist, or has no such version; `version` 0 = none was
 * named. Returns errors of the database as they are. */
PL_MUST_CHECK
int pl_api_no_version(struct pl_conn *c, const char *project, const char *pipeline, int64_t version, struct pl_err *err);
