/* reused_datums: the datums of a job whose results come from earlier runs: the rows of the datum table of its output commit
 * (datum_table.h) that name another run. The table of a job of a million datums is read row by row, never as a whole. */
#pragma once

#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/datum_table.h"
#include "storage/base/effort.h"

#define PL_REUSED_STATE "reused"

/* A job as its datum table needs it. */
struct pl_reused_job {
    int64_t id;
    char run[PL_ID_HEX + 1];
    json_t *inputs;       /* [{name, project, repo, branch, commit, root}…], one for each leaf */
    bool params;          /* one of the inputs is a `params` */
    struct pl_hash table; /* zero: the job has no output commit yet, or has none any more */
};
/* Reads the job that the request's path names. Errors of pl_api_job_find. */
PL_MUST_CHECK
int pl_reused_job_read(struct pl_conn *c, const struct pl_http_request *req, struct pl_reused_job *ret, struct pl_err *err);
void pl_reused_job_finish(struct pl_reused_job *j);

/* Reads the rows of a job's table in order. The caller initializes it with zeros and calls pl_reused_rows_finish. */
struct pl_reused_rows {
    const struct pl_reused_job *job;
    struct pl_tree_cursor *cursor;
    struct pl_node_source source;
    struct pl_effort effort;
    /* the current row; the bytes are the cursor's until the next call */
    struct pl_tree_item item;
    struct pl_datum_row row;
    char run[2 * PL_RUN_ID_BYTES + 1]; /* that computed it */
    bool reused;                       /* it succeeded, in another run than the job's */
};
/* Begins at the first row whose key is `from` or greater. `job` and `req` must outlive `ret`. Blocks: call it on the pool,
 * without a database reader. */
PL_MUST_CHECK
int pl_reused_rows_open(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, const uint8_t *from,
                        size_t from_len, struct pl_reused_rows *ret, struct pl_err *err);
/* Returns 1, or 0 at the end. Errors of the store; PL_ELIMIT and PL_ESTOPPING of the request's effort. */
PL_MUST_CHECK
int pl_reused_rows_next(struct pl_reused_rows *rows, struct pl_err *err);
void pl_reused_rows_finish(struct pl_reused_rows *rows);
/* Makes the JSON of the current row, like that of an attempt that was never made (job_json.h), with the run that computed the
 * result. If the datum's key was too long to be stored, its id and paths are not known. */
PL_MUST_CHECK
int pl_reused_row_json(const struct pl_reused_rows *rows, json_t **ret, struct pl_err *err);

/* Finds the reused datum that `text` names, by its id, a prefix of it, or its paths, and makes its JSON. PL_ENOTFOUND: the
 * table has none; the message says so of the kept attempts, too, where the caller has looked before. Looks at every row in
 * front of the datum. Blocks, as pl_reused_rows_open does. */
PL_MUST_CHECK
int pl_reused_datum_find(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, const char *text,
                         json_t **ret, struct pl_err *err);
