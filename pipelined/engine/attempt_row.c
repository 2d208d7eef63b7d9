/* attempt_row: makes and writes rows of table `attempt`, one for each kept attempt at a datum: those that workers
 * report (job_results.c), and those that ended with their worker (job_attempts.c). */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/text/json_text.h"

json_t *pl_attempt_row_make(const struct pl_ejob *j, size_t datum, const struct pl_attempt_source *source, json_t *outcome)
{
    char hex[PL_HASH_HEX + 1], text[1024];
    struct pl_hash id;

    pl_plan_datum_id(j->plan, datum, &id);
    pl_plan_datum_text(j->plan, datum, text, sizeof text);
    return json_pack("{s:s, s:s, s:I, s:I, s:O, s:I, s:s*, s:o*}", "datum", pl_hash_hex(&id, hex), "paths", text, "attempt",
                     (json_int_t)source->attempt, "fence", (json_int_t)source->fence, "row", outcome, "worker",
                     (json_int_t)source->worker, "pod", source->pod, "started_us",
                     source->started_us ? json_integer(source->started_us) : NULL);
}

int pl_attempt_row_write(struct pl_conn *c, int64_t job, const json_t *a, int64_t now_us, struct pl_err *err)
{
    const json_t *row = json_object_get(a, "row");
    _cleanup_(json_decrefp) json_t *detail =
        json_pack("{s:O, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O*}", "paths", json_object_get(a, "paths"),
                  "ms", json_object_get(row, "ms"), "bytes", json_object_get(row, "bytes"), "rusage",
                  json_object_get(row, "rusage"), "gpu", json_object_get(row, "gpu"), "gpus", json_object_get(row, "gpus"),
                  "node", json_object_get(row, "node"), "recovered", json_object_get(row, "recovered"), "worker",
                  json_object_get(a, "worker"), "pod", json_object_get(a, "pod"), "image_id", json_object_get(a, "image_id"),
                  "started_us", json_object_get(a, "started_us"));
    _cleanup_free_ char *text = detail ? pl_json_text(detail, JSON_COMPACT) : NULL;
    const char *state = pl_json_str(row, "state");
    const bool lost = pl_streq(state, "lost"), unnamed = !lost && json_object_get(a, "pod") && !json_object_get(a, "image_id");
    struct pl_hash datum;
    int r = text ? pl_hash_parse(pl_json_str(a, "datum"), &datum, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    r = pl_sql_exec(c, err,
                    "INSERT OR REPLACE INTO attempt(job, datum, attempt, fence, state, exit_code, signal, oom, timed_out, "
                    "reason, tail, detail,"
                    " finished_us, unnamed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0))",
                    "ibiisiiddsssii", job, datum.b, (size_t)PL_HASH_BYTES, pl_json_int(a, "attempt"), pl_json_int(a, "fence"),
                    lost || pl_streq(state, "failed") ? state : "success", pl_json_int(row, "exit_code"),
                    pl_json_int(row, "signal"), (int)json_is_true(json_object_get(row, "oom")),
                    (int)json_is_true(json_object_get(row, "timed_out")), pl_json_str(row, "reason"), pl_json_str(row, "tail"),
                    text, now_us, unnamed ? pl_json_int(a, "worker") : (int64_t)0);
    return r < 0 ? r : 0;
}
