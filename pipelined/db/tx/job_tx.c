/* Writes the rows of jobs and runs, with an event for each change. Progress is written without the log; the
 * end of a job or run is a log record. */
#include "pipelined/db/tx/job_tx.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>

static json_t *or_empty(json_t *v, bool array)
{
    return v ? json_incref(v) : array ? json_array() : json_object();
}

static const char *text(const char *s)
{
    return s ? s : "";
}

json_t *pl_job_json(const struct pl_job_args *a)
{
    char code[PL_HASH_HEX + 1] = "";

    if (!pl_hash_is_zero(&a->code))
        pl_hash_hex(&a->code, code);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "run", a->run,
                     "project", a->project, "stage", a->stage, "pipeline", text(a->pipeline), "version", (json_int_t)a->version,
                     "state", a->state, "reason", text(a->reason), "base", text(a->base), "output", text(a->output), "code", code,
                     "inputs", or_empty(a->inputs, true), "warnings", or_empty(a->warnings, true), "counts",
                     or_empty(a->counts, false), "ms", or_empty(a->ms, false), "bytes", or_empty(a->bytes, false), "created",
                     (json_int_t)a->created_us, "started", (json_int_t)a->started_us, "finished", (json_int_t)a->finished_us);
}

/* Makes the event of a job: its state and figures, not its inputs. */
static int job_event(struct pl_tx *tx, const struct pl_job_args *a, struct pl_err *err)
{
    return pl_tx_event(tx, "job",
                       json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "run", a->run, "project", a->project, "stage", a->stage,
                                 "state", a->state, "reason", text(a->reason), "counts", or_empty(a->counts, false), "ms",
                                 or_empty(a->ms, false)),
                       err);
}

/* Makes the event of datums that ended: {"run", "project", "stage", "datums": {"total", "reused", "done", "failed"}}. */
static int progress_event(struct pl_tx *tx, const struct pl_job_args *a, struct pl_err *err)
{
    static const char *const figures[] = {"total", "reused", "done", "failed"};
    json_t *datums = json_object();

    for (size_t i = 0; i < PL_ARRAY_SIZE(figures); i++)
        json_object_set(datums, figures[i], json_object_get(a->counts, figures[i]));
    return pl_tx_event(
        tx, "progress",
        json_pack("{s:s, s:s, s:s, s:o}", "run", a->run, "project", a->project, "stage", a->stage, "datums", datums), err);
}

static char *dump(const json_t *v, const char *otherwise)
{
    return v ? pl_json_text(v, JSON_COMPACT | JSON_SORT_KEYS) : strdup(otherwise);
}

int pl_tx_job_progress(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_job_args *a = arg;
    _cleanup_free_ char *inputs = dump(a->inputs, "[]"), *warnings = dump(a->warnings, "[]"), *counts = dump(a->counts, "{}");
    _cleanup_free_ char *ms = dump(a->ms, "{}"), *bytes = dump(a->bytes, "{}");
    int r, written;

    if (!inputs || !warnings || !counts || !ms || !bytes)
        return pl_err_nomem(err);
    r = pl_sql_exec(
        pl_tx_conn(tx), err,
        "INSERT INTO job(run, project, stage, version, pipeline, state, reason, base, output, code, inputs, warnings, counts,"
        " ms, bytes, created_us, started_us, live, planned)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?)"
        " ON CONFLICT(run, project, stage) DO UPDATE SET version = excluded.version, state = excluded.state,"
        " reason = excluded.reason, base = CASE WHEN excluded.planned THEN excluded.base ELSE base END, code = excluded.code,"
        " inputs = CASE WHEN excluded.planned THEN excluded.inputs ELSE inputs END,"
        " warnings = excluded.warnings, counts = excluded.counts, ms = excluded.ms, bytes = excluded.bytes,"
        " started_us = excluded.started_us, live = excluded.live, planned = max(planned, excluded.planned) WHERE final = 0",
        "sssissssshsssssiiid", a->run, a->project, a->stage, a->version, text(a->pipeline), a->state, text(a->reason),
        text(a->base), text(a->output), &a->code, inputs, warnings, counts, ms, bytes, a->created_us, a->started_us,
        (int64_t)a->live, (int)a->planned);
    written = r;
    r = r < 0 ? r
              : pl_sql_int(pl_tx_conn(tx), err, &a->id, "SELECT id FROM job WHERE run = ? AND project = ? AND stage = ?", "sss",
                           a->run, a->project, a->stage);
    /* if the job had ended before, its row was not written: then write no event either */
    if (r < 0 || !written || a->tell == PL_JOB_TELL_NOTHING)
        return r;
    return a->tell == PL_JOB_TELL_PROGRESS ? progress_event(tx, a, err) : job_event(tx, a, err);
}

int pl_tx_job_may_commit(struct pl_tx *tx, const struct pl_job_args *a, struct pl_err *err)
{
    int64_t ended = 0, there = 0, runs = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &ended,
                       "SELECT EXISTS (SELECT 1 FROM job WHERE run = ? AND project = ? AND stage = ? AND final = 1)", "sss",
                       a->run, a->project, a->stage);

    r = r < 0 ? r
              : pl_sql_int(pl_tx_conn(tx), err, &there,
                           "SELECT EXISTS (SELECT 1 FROM stage v JOIN stage s ON s.project = v.project AND s.name = v.name"
                           " WHERE v.id = ? AND s.current = 1)",
                           "i", a->version);
    r = r < 0 ? r
              : pl_sql_int(pl_tx_conn(tx), err, &runs,
                           "SELECT NOT EXISTS (SELECT 1 FROM stage v JOIN pipeline p ON p.id = v.pipeline"
                           " WHERE v.id = ? AND p.stopped <> '')",
                           "i", a->version);
    if (r < 0)
        return r;
    if (ended)
        return pl_err_set(err, PL_ECANCELED, "the job of stage %s in run %.8s has ended already", a->stage, a->run);
    if (!there)
        return pl_err_set(err, PL_ECANCELED, "stage %s was deleted while its job committed", a->stage);
    if (!runs)
        return pl_err_set(err, PL_ECANCELED, "the pipeline of stage %s was stopped while its job committed", a->stage);
    return 0;
}

int pl_tx_job_end(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_job_args *a = arg;
    int r;

    a->finished_us = pl_tx_now_us(tx);
    r = pl_tx_emit(tx, PL_RECORD_JOB, pl_job_json(a), err);
    return r < 0 ? r : job_event(tx, a, err);
}

static int run_event(struct pl_tx *tx, const struct pl_run_args *a, struct pl_err *err)
{
    return pl_tx_event(tx, "run", json_pack("{s:s, s:s, s:s}", "id", a->id, "state", a->state, "reason", text(a->reason)), err);
}

/* Makes the record of a run. Does not use the format s* of jansson's json_pack, which omits a key not only
 * for NULL but also when memory runs out: a record without its "of" or "as" would describe a different run. */
static json_t *run_record(const struct pl_run_args *a, int64_t at)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:I}", "id", a->id, "cause", a->cause, "message", text(a->message), "stages",
                          or_empty(a->stages, true), "at", (json_int_t)at);

    if (o && ((a->of && json_object_set_new(o, "of", json_string(a->of)) < 0) ||
              (a->as && json_object_set_new(o, "as", json_string(a->as)) < 0))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

int pl_tx_run_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args *a = arg;
    int r = pl_tx_emit(tx, PL_RECORD_RUN, run_record(a, pl_tx_now_us(tx)), err);

    return r < 0 ? r : run_event(tx, a, err);
}

/* Finds the current stages whose spec names one of the branches as an input PROJECT/REPO@BRANCH, and whose pipeline is not
 * stopped. */
static int readers_of(struct pl_conn *c, const char *project, const char *repo, const json_t *branches, json_t *ret,
                      struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_free_ char *names = dump(branches, "[]");
    int r = names ? pl_sql_query(c, err, &rows,
                                 "SELECT DISTINCT s.project, s.name FROM stage s, json_tree(s.spec, '$.input') t"
                                 " WHERE s.current = 1 AND t.key = 'repo'"
                                 " AND NOT EXISTS (SELECT 1 FROM pipeline p WHERE p.id = s.pipeline AND p.stopped <> '')"
                                 " AND t.value IN (SELECT ?1 || '/' || ?2 || '@' || value FROM json_each(?3)) ORDER BY 1, 2",
                                 "sss", project, repo, names)
                  : pl_err_nomem(err);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        if ((r = pl_json_add(ret, json_pack("[s, s]", pl_col_text(&rows, 0), pl_col_text(&rows, 1)), err)) < 0)
            break;
    return r;
}

int pl_tx_run_readers(struct pl_tx *tx, const char *project, const char *repo, const json_t *branches, const char *cause,
                      const char *message, char ret_run[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = json_array();
    struct pl_run_args run = {.id = ret_run, .cause = cause, .message = message, .state = "running", .stages = stages};
    int r = stages ? readers_of(pl_tx_conn(tx), project, repo, branches, stages, err) : pl_err_nomem(err);

    *ret_run = '\0';
    if (r < 0 || json_array_size(stages) == 0)
        return r;
    pl_id_make((uint64_t)(pl_tx_now_us(tx) / 1000), ret_run);
    return pl_tx_run_create(tx, &run, err);
}

/* Finds why most of the run's jobs that were stopped were stopped: "superseded by run 62b66563"; "" if none was. */
static int why_stopped(struct pl_tx *tx, const char *run, char **ret, struct pl_err *err)
{
    return pl_sql_text(pl_tx_conn(tx), err, ret,
                       "SELECT coalesce((SELECT reason FROM job WHERE run = ? AND state = 'killed' GROUP BY reason"
                       " ORDER BY count(*) DESC, min(id) LIMIT 1), '')",
                       "s", run);
}

int pl_tx_run_end(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args a = *(const struct pl_run_args *)arg;
    _cleanup_free_ char *why = NULL;
    int r = *text(a.reason) || !pl_streq(a.state, "killed") ? 0 : why_stopped(tx, a.id, &why, err);

    a.reason = why ? why : a.reason;
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_RUN_END,
                           json_pack("{s:s, s:s, s:s, s:I}", "id", a.id, "state", a.state, "reason", text(a.reason), "at",
                                     (json_int_t)pl_tx_now_us(tx)),
                           err);
    return r < 0 ? r : run_event(tx, &a, err);
}
