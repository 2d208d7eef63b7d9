/* job_results: handles the results that workers report. Passes them to the scheduler, and keeps them in
 * memory for the commit and in the database for a restart. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/db/gc/result_codec.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"
#include "storage/tree_edit/tree_ops.h"

#include <ctype.h>
#include <stdio.h>
#include <zstd.h>

/* Parses a datum's output, {"ops": base64 of an ops stream} or {"root": hex}; neither: the output is
 * empty. */
static int output_of_json(const json_t *output, struct pl_eresult *ret, struct pl_err *err)
{
    const char *ops = pl_json_str(output, "ops"), *root = pl_json_str(output, "root");
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_DATUM_ROW_INLINE_OPS_MAX};
    int r;

    if (*root) {
        ret->outputs = PL_ROW_TREE;
        return pl_hash_parse(root, &ret->root, err);
    }
    if (!*ops)
        return 0;
    r = pl_base64_decode(ops, &bytes, err);
    if (r < 0)
        return r;
    ret->outputs = PL_ROW_INLINE;
    ret->ops = TAKE_PTR(bytes.data);
    ret->ops_len = bytes.len;
    return 0;
}

int pl_result_of_json(const json_t *row, const char *run, struct pl_eresult *ret, struct pl_err *err)
{
    struct pl_eresult result = {0};
    int r = output_of_json(json_object_get(row, "output"), &result, err);

    if (r < 0)
        return pl_err_wrap(err, r, "output of row %lld", (long long)pl_json_int(row, "index"));
    if (!pl_hex_decode(run, result.run, sizeof result.run))
        return pl_err_set(err, PL_EINTERNAL, "malformed run id %s", run);
    *ret = result;
    return 0;
}

/* Adds the GPU use of one datum to the totals. Without "gpu" nothing was measured, which is not the same as a
 * use of 0. An agent measures only while the command runs; a measurement by the cluster ("whole") covers all
 * the time for which the datum held the worker. */
static void add_gpu(struct pl_etotals *t, const json_t *row, const json_t *ms)
{
    const json_t *gpu = json_object_get(row, "gpu");
    uint64_t n = (uint64_t)pl_json_int(row, "gpus"), held = (uint64_t)pl_json_int(ms, "held"),
             compute = (uint64_t)pl_json_int(ms, "compute"), measured;

    t->gpus = PL_MAX(t->gpus, n);
    t->gpu_ms += n * held;
    t->gpu_wait_ms += n * (held > compute ? held - compute : 0);
    if (!json_is_object(gpu))
        return;
    measured = n * (json_is_true(json_object_get(gpu, "whole")) ? held : compute);
    t->gpu_measured_ms += measured;
    t->gpu_used_ms += measured * PL_MIN((uint64_t)pl_json_int(gpu, "util"), 100u) / 100;
    t->gpu_mem_peak = PL_MAX(t->gpu_mem_peak, (uint64_t)pl_json_int(gpu, "mem_peak"));
}

void pl_totals_add(struct pl_etotals *t, const json_t *row)
{
    const json_t *ms = json_object_get(row, "ms"), *bytes = json_object_get(row, "bytes"),
                 *usage = json_object_get(row, "rusage");
    uint64_t rss = (uint64_t)pl_json_int(usage, "max_rss_kb");

    t->attempts++;
    t->wait_ms += (uint64_t)pl_json_int(ms, "wait");
    t->fetch_ms += (uint64_t)pl_json_int(ms, "fetch");
    t->compute_ms += (uint64_t)pl_json_int(ms, "compute");
    t->upload_ms += (uint64_t)pl_json_int(ms, "upload");
    t->bytes_in += (uint64_t)pl_json_int(bytes, "in");
    t->bytes_out += (uint64_t)pl_json_int(bytes, "out");
    t->user_us += (uint64_t)pl_json_int(usage, "user_us");
    t->sys_us += (uint64_t)pl_json_int(usage, "sys_us");
    t->max_rss_kb = PL_MAX(t->max_rss_kb, rss);
    t->oom += json_is_true(json_object_get(row, "oom"));
    t->held_ms += (uint64_t)pl_json_int(ms, "held");
    add_gpu(t, row, ms);
}

/* ---- one RESULT: pass it to the scheduler, keep it, write it ---- */

/* The data that is written to the database for one RESULT. Holds a reference to the job. */
struct kept {
    struct pl_ejob *job;
    /* accepted datums with a result: [[row number, result as the worker sent it, datum key]…] */
    json_t *rows;
    json_t *attempts; /* rows to be inserted into table `attempt` */
    /* by state: the datums that ended or failed without a result */
    struct pl_etried tried[PL_TRIED_RECOVERED + 1];
    struct pl_sched_range *tried_rows[PL_TRIED_RECOVERED + 1];
    size_t n_tried[PL_TRIED_RECOVERED + 1];
    uint64_t task, fence, worker;
    bool task_done;
    /* tasks of the worker whose time counts from now on: the RESULT adds the worker's time until now to the totals */
    uint64_t timed[PL_SCHED_WORKER_LEASES];
    size_t n_timed;
    int64_t at_us; /* wall clock; since when the worker was held for the next datum of the RESULT */
    int64_t job_row;
    uint32_t id, attempt;
};

/* All results in one `next` request, and the function to call when they are written. */
struct reporting {
    struct pl_engine *engine;
    json_t *results;
    const json_t *row_list; /* results of single datums in the RESULT that is being handled */
    uint32_t attempt;       /* number of this attempt at its datums */
    uint32_t losses;        /* number of times its datums were lost before */
    struct pl_eworker *worker;
    bool leaving; /* it ends */
    json_t *gpu;  /* GPU use as measured from outside the worker; NULL = not measured */
    unsigned writes;
    void (*done)(void *arg);
    void *arg;
};

/* The request whose results are being passed to the scheduler: a RESULT action in this step belongs to it.
 * Loop only. */
static struct reporting *feeding;

/* Records in which image the command ran. As long as the cluster has not reported the image, the attempt
 * has only the id of its worker, by which the image is added later. */
static void name_image(const struct pl_ejob *j, struct pl_eworker *w, json_t *attempt)
{
    if (w->image)
        json_object_set_new(attempt, "image_id", json_string(w->image));
    else if (w->pod == PL_NO_POD)
        return;
    else if (w->unnamed_since == 0 || j->row < w->unnamed_since)
        w->unnamed_since = j->row;
}

static int64_t held_us(const json_t *row)
{
    return pl_json_int(json_object_get(row, "ms"), "held") * 1000;
}

static void keep_attempt(struct pl_ejob *j, struct pl_eworker *w, json_t *row, size_t datum, struct kept *k)
{
    const struct pl_attempt_source source = {.attempt = k->attempt,
                                             .fence = k->fence,
                                             .worker = w->id,
                                             .started_us = k->at_us,
                                             .pod = w->pod == PL_NO_POD ? NULL : pl_worker_record_pod(j->engine, w->id)};
    const char *state = pl_json_str(row, "state");
    uint32_t *kept = pl_streq(state, "failed") ? &j->failed_kept : pl_streq(state, "lost") ? &j->lost_kept : &j->good_kept;
    json_t *attempt;

    k->at_us += held_us(row);
    /* of a datum that failed before, the good attempt is kept, too: who reads of the failure must see that it was mended */
    if (*kept >= PL_JOB_ATTEMPTS_KEPT * (kept == &j->good_kept && k->attempt > 1 ? 2 : 1))
        return;
    ++*kept;
    attempt = pl_attempt_row_make(j, datum, &source, row);
    name_image(j, w, attempt);
    json_array_append_new(k->attempts, attempt);
}

/* Adds the row number of a datum without a result to the ranges of its state. Datums come in ascending order,
 * so the first one's reason is kept. */
static void keep_tried(struct pl_ejob *j, const json_t *row, enum pl_tried_state state, struct kept *k)
{
    uint32_t index = (uint32_t)pl_json_int(row, "index");
    struct pl_sched_range *last = k->n_tried[state] ? &k->tried_rows[state][k->n_tried[state] - 1] : NULL;
    struct pl_sched_range *rows;

    if (last && last->hi == index) {
        last->hi++;
        return;
    }
    rows = realloc(k->tried_rows[state], (k->n_tried[state] + 1) * sizeof *rows);
    if (!rows) {
        pl_engine_fail(j->engine, "no memory for failed datums");
        return;
    }
    k->tried_rows[state] = rows;
    rows[k->n_tried[state]++] = (struct pl_sched_range){index, index + 1};
    if (!last && state == PL_TRIED_FAILED) {
        _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);

        k->tried[state].reason = arena ? strdup(pl_result_message(row, arena)) : NULL;
    }
}

/* Records a datum that the worker gave back after it had started the command: the attempt counts as lost. */
static void keep_begun(struct pl_ejob *j, const struct reporting *p, const json_t *row, size_t datum, struct kept *k)
{
    const struct pl_etotals before = j->totals;
    const int64_t held_ms = held_us(row) / 1000;
    json_t *attempt = held_ms > 0 ? pl_worker_record_given_back(j->engine, p->worker->id, p->leaving, j, held_ms) : NULL;

    if (!attempt)
        return;
    json_object_set_new(attempt, "state", json_string("lost"));
    pl_engine_count_attempts(j, &before, PL_ATTEMPT_LOST, 1);
    k->n_timed = pl_sched_worker_tasks(j->engine->sched, p->worker->id, k->timed);
    pl_engine_log_given_back(j, p->worker->id, k->fence, datum, pl_json_str(attempt, "reason"));
    keep_attempt(j, p->worker, attempt, datum, k);
    json_decref(attempt);
}

static enum pl_attempt_end end_of(enum pl_sched_verdict verdict)
{
    return verdict == PL_SCHED_ROW_DONE        ? PL_ATTEMPT_SUCCESS
           : verdict == PL_SCHED_ROW_FAILED    ? PL_ATTEMPT_FAILED
           : verdict == PL_SCHED_ROW_RECOVERED ? PL_ATTEMPT_RECOVERED
                                               : PL_ATTEMPT_RETRY;
}

/* Records an accepted datum: adds it to the totals, to the attempts, and to the results or the failed
 * datums. */
static void keep_row(struct pl_ejob *j, const struct reporting *p, json_t *row, enum pl_sched_verdict verdict, struct kept *k)
{
    struct pl_eworker *w = p->worker;
    uint32_t index = (uint32_t)pl_json_int(row, "index");
    size_t datum = j->rows[index];
    const struct pl_etotals before = j->totals;
    char key[PL_HASH_HEX + 1];
    struct pl_err err = {0};

    if (verdict == PL_SCHED_ROW_WAITING)
        keep_begun(j, p, row, datum, k);
    if (verdict == PL_SCHED_ROW_IGNORED || verdict == PL_SCHED_ROW_WAITING)
        return;
    json_object_set_new(row, "node", json_string(w->host));
    json_object_set_new(row, "gpus", json_integer(w->pod == PL_POD_WITH_GPU ? w->stage->def->gpu.count : w->n_gpus));
    /* a copy, since other threads read the datum's JSON */
    if (p->gpu && !json_object_get(row, "gpu"))
        json_object_set_new(row, "gpu", json_deep_copy(p->gpu));
    pl_totals_add(&j->totals, row);
    pl_engine_count_attempts(j, &before, end_of(verdict), 1);
    j->stage->datum_bytes = PL_MAX(j->stage->datum_bytes, (uint64_t)pl_json_int(json_object_get(row, "bytes"), "in"));
    keep_attempt(j, w, row, datum, k);
    j->totals.failed += verdict == PL_SCHED_ROW_FAILED;
    j->totals.recovered += verdict == PL_SCHED_ROW_RECOVERED;
    if (verdict != PL_SCHED_ROW_DONE) {
        keep_tried(j, row,
                   verdict == PL_SCHED_ROW_FAILED      ? PL_TRIED_FAILED
                   : verdict == PL_SCHED_ROW_RECOVERED ? PL_TRIED_RECOVERED
                                                       : PL_TRIED_WAITING,
                   k);
        return;
    }
    j->totals.done++;
    pl_engine_result_finish(&j->results[datum]);
    /* the JSON was parsed successfully before, so only a lack of memory can make this fail */
    if (pl_result_of_json(row, j->run, &j->results[datum], &err) < 0) {
        pl_engine_fail(j->engine, err.msg);
        return;
    }
    j->has_result[datum] = 1;
    json_array_append_new(k->rows, json_pack("[I, O, s]", (json_int_t)index, row, pl_hash_hex(&j->plan->keys[datum], key)));
}

static void finish_tried(const struct reporting *p, struct kept *k)
{
    for (unsigned s = 0; s < PL_ARRAY_SIZE(k->tried); s++) {
        struct pl_etried *t = &k->tried[s];

        t->failures = p->attempt;
        t->losses = p->losses;
        t->state = s;
        if (k->n_tried[s] > 0 && !(t->rows = pl_ranges_text(k->tried_rows[s], k->n_tried[s])))
            pl_engine_fail(p->engine, "no memory for failed datums");
    }
}

static void persist(struct reporting *p, struct kept *k);

/* Submits the write before the step's other actions are carried out, so that a client that sees the job's end
 * also finds its attempts. */
void pl_engine_result_action(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = pl_engine_job(e, a->result.job);
    struct reporting *p = feeding;
    struct kept *k;
    bool counted = false;

    if (!p || !j || !j->plan)
        return;
    k = calloc(1, sizeof *k);
    if (!k) {
        pl_engine_fail(e, "no memory for results");
        return;
    }
    *k = (struct kept){.job = pl_engine_job_ref(j), .rows = json_array(), .attempts = json_array(), .task = a->result.task};
    k->task_done = a->result.task_done;
    k->fence = a->result.fence;
    k->worker = a->result.worker;
    k->job_row = j->row;
    k->id = j->next_result++;
    k->attempt = p->attempt;
    k->at_us = pl_clock_wall_us();
    for (size_t i = 0; i < a->result.n; i++) /* a worker is held for one datum after the other */
        k->at_us -= a->result.verdicts[i] == PL_SCHED_ROW_IGNORED ? 0 : held_us(json_array_get(p->row_list, i));
    for (size_t i = 0; i < a->result.n; i++) {
        keep_row(j, p, json_array_get(p->row_list, i), a->result.verdicts[i], k);
        counted = counted || (a->result.verdicts[i] != PL_SCHED_ROW_IGNORED && a->result.verdicts[i] != PL_SCHED_ROW_WAITING);
    }
    finish_tried(p, k);
    if (counted) { /* a result that only gives datums back adds no time to the totals */
        pl_worker_record_reported(e, a->result.worker);
        k->n_timed = pl_sched_worker_tasks(e->sched, a->result.worker, k->timed);
    }
    if (k->task_done)
        pl_engine_end_task(e, a->result.worker, a->result.task, a->result.fence);
    persist(p, k);
    pl_engine_job_changed(j);
}

/* Makes "exit code 1: ValueError: …": the reason, and the last line that the command printed, which usually
 * explains the failure. A reason other than the command's exit code is returned alone. */
const char *pl_result_message(const json_t *row, struct pl_arena *arena)
{
    const char *reason = pl_json_str(row, "reason"), *tail = pl_json_str(row, "tail"), *end = tail + strlen(tail), *line;
    char *text;
    size_t size;

    while (end > tail && isspace((unsigned char)end[-1]))
        end--;
    for (line = end; line > tail && line[-1] != '\n' && line[-1] != '\r'; line--)
        ;
    if (line == end || pl_json_int(row, "exit_code") == 0)
        return reason;
    size = strlen(reason) + (size_t)(end - line) + 3;
    text = pl_arena_alloc(arena, size);
    if (text)
        snprintf(text, size, "%s: %.*s", reason, (int)(end - line), line);
    return text ? text : reason;
}

/* Converts the datums of a RESULT for the scheduler. Texts belong to the JSON and the arena. PL_EPROTO if a
 * datum's JSON is malformed. */
static int sched_rows(struct pl_etask *t, const json_t *list, struct pl_arena *arena, struct pl_sched_row **ret,
                      uint64_t *ret_compute_us, struct pl_err *err)
{
    size_t n = json_array_size(list);
    struct pl_sched_row *rows = pl_arena_alloc(arena, (n + 1) * sizeof *rows);
    struct pl_eresult check;
    int r;

    if (!rows)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        const char *state = pl_json_str(o, "state");
        int64_t index = pl_json_int(o, "index");

        if (index < 0 || index >= t->job->n_rows)
            return pl_err_set(err, PL_EPROTO, "row %lld does not exist: the job has %u rows", (long long)index, t->job->n_rows);
        rows[i] = (struct pl_sched_row){.index = (uint32_t)index};
        rows[i].gave_back = pl_streq(state, "gave_back");
        rows[i].failed = pl_streq(state, "failed");
        rows[i].recovered = json_is_true(json_object_get(o, "recovered"));
        *ret_compute_us += (uint64_t)pl_json_int(json_object_get(o, "ms"), "compute") * 1000;
        if (rows[i].failed) {
            char *label = pl_arena_alloc(arena, 256);

            if (!label)
                return pl_err_nomem(err);
            rows[i].label = pl_plan_datum_text(t->job->plan, t->job->rows[index], label, 256);
            rows[i].message = pl_result_message(o, arena);
        } else if (!rows[i].gave_back) {
            r = pl_result_of_json(o, t->job->run, &check, err);
            if (r < 0)
                return r;
            pl_engine_result_finish(&check);
        }
    }
    *ret = rows;
    return 0;
}

/* Returns for how many ms the worker was held for a row that it gave back after it had started the command; 0: it had not.
 * Rows come in the same order in both lists; `*at` is the position in the list "begun". */
static json_int_t begun_ms(const json_t *result, json_int_t index, size_t *at)
{
    const json_t *one = json_array_get(json_object_get(result, "begun"), *at);

    if (!one || json_integer_value(json_array_get(one, 0)) != index)
        return 0;
    ++*at;
    return json_integer_value(json_array_get(one, 1));
}

/* Turns the list "gave_back": [row number…] into entries of state gave_back. */
static json_t *rows_of_result(const json_t *result)
{
    json_t *rows = json_copy(json_object_get(result, "rows"));
    const json_t *index;
    size_t i, begun = 0;

    if (!rows)
        rows = json_array();
    json_array_foreach(json_object_get(result, "gave_back"), i, index)
        json_array_append_new(rows, json_pack("{s:I, s:s, s:{s:I}}", "index", json_integer_value(index), "state", "gave_back",
                                              "ms", "held", begun_ms(result, json_integer_value(index), &begun)));
    return rows;
}

/* Checks that the worker holds the task, and passes the result to the scheduler. */
static int feed_result(struct reporting *p, const json_t *result, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(json_decrefp) json_t *rows = rows_of_result(result);
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESULT};
    uint64_t id = (uint64_t)pl_json_int(result, "task");
    struct pl_etask *t = pl_map_get(&p->engine->tasks, &id, sizeof id);
    struct pl_sched_row *list = NULL;
    int r;

    if (!t || t->worker != p->worker->id || t->fence != (uint64_t)pl_json_int(result, "fence"))
        return pl_err_set(err, PL_ELEASE, "task %llu was given to another worker or has ended", (unsigned long long)id);
    if (!arena)
        return pl_err_nomem(err);
    r = sched_rows(t, rows, arena, &list, &ev.result.compute_us, err);
    if (r < 0)
        return r;
    ev.id = t->worker;
    ev.result.task = id;
    ev.result.fence = t->fence;
    ev.result.rows = list;
    ev.result.n = json_array_size(rows);
    ev.result.leaving = p->leaving;
    p->row_list = rows;
    p->attempt = t->failures + 1;
    p->losses = t->losses;
    t->recalled = false;
    feeding = p;
    r = pl_engine_feed(p->engine, &ev, err);
    feeding = NULL;
    p->row_list = NULL;
    return r;
}

/* ---- writing to the database ---- */

struct write {
    struct reporting *reporting;
    struct kept *kept;
};

static int write_rows(struct pl_conn *c, const struct kept *k, struct pl_err *err)
{
    _cleanup_free_ char *text = pl_json_text(k->rows, JSON_COMPACT);
    _cleanup_free_ void *packed = NULL;
    size_t n, bound;

    if (!text)
        return pl_err_nomem(err);
    bound = ZSTD_compressBound(strlen(text));
    packed = malloc(bound);
    n = packed ? ZSTD_compress(packed, bound, text, strlen(text), 1) : 0;
    if (!packed || ZSTD_isError(n))
        return pl_err_nomem(err);
    return pl_sql_exec(c, err, "INSERT OR REPLACE INTO result(job, id, rows) VALUES (?, ?, ?)", "iib", k->job_row, (int64_t)k->id,
                       packed, n);
}

/* Writes the attempts, and for an unfinished job also results and history; deletes the lease of a finished
 * task. */
static int write_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct kept *k = ((struct write *)arg)->kept;
    struct pl_conn *c = pl_tx_conn(tx);
    int64_t final = 0;
    const json_t *a;
    size_t i;
    int r = pl_sql_int(c, err, &final, "SELECT final FROM job WHERE id = ?", "i", k->job_row);

    if (r < 0)
        return r;
    json_array_foreach(k->attempts, i, a)
    {
        r = pl_attempt_row_write(c, k->job_row, a, pl_tx_now_us(tx), err);
        if (r < 0)
            return r;
    }
    for (size_t t = 0; r >= 0 && t < k->n_timed; t++)
        r = pl_sql_exec(c, err, "UPDATE lease SET leased_us = ?1 WHERE task = ?2 AND leased_us < ?1", "ii", pl_tx_now_us(tx),
                        (int64_t)k->timed[t]);
    if (r < 0 || final)
        return PL_MIN(r, 0);
    for (unsigned s = 0; r >= 0 && s < PL_ARRAY_SIZE(k->tried); s++)
        r = k->tried[s].rows ? pl_job_attempts_write(c, k->job_row, &k->tried[s], err) : 0;
    r = r >= 0 && json_array_size(k->rows) ? write_rows(c, k, err) : r;
    if (r >= 0 && k->job->stage->def->checkpoint_ms > 0)
        r = pl_checkpoints_drop(k->job, c, k->rows, err);
    if (r >= 0 && k->task_done)
        r = pl_sql_exec(c, err, "DELETE FROM lease WHERE task = ?", "i", (int64_t)k->task);
    return r < 0 ? r : 0;
}

static void kept_free(struct kept *k)
{
    json_decref(k->rows);
    json_decref(k->attempts);
    for (unsigned s = 0; s < PL_ARRAY_SIZE(k->tried); s++) {
        pl_job_attempts_finish(&k->tried[s]);
        free(k->tried_rows[s]);
    }
    pl_engine_job_unref(k->job);
    free(k);
}

static void one_over(struct reporting *p)
{
    if (--p->writes)
        return;
    json_decref(p->results);
    json_decref(p->gpu);
    p->done(p->arg);
    free(p);
}

static void written(void *arg)
{
    struct write *w = arg;
    struct reporting *p = w->reporting;

    kept_free(w->kept);
    free(w);
    one_over(p);
}

static void write_done(void *arg, int r, const struct pl_err *err)
{
    struct write *w = arg;

    if (r < 0)
        pl_log_error("engine", "cannot write the results of task %llu: %s", (unsigned long long)w->kept->task, err->msg);
    pl_engine_post(w->reporting->engine, "engine.results", written, w);
}

static void persist(struct reporting *p, struct kept *k)
{
    struct write *w = calloc(1, sizeof *w);

    if (!w) {
        pl_engine_fail(p->engine, "no memory for results");
        kept_free(k);
        return;
    }
    *w = (struct write){p, k};
    p->writes++;
    pl_engine_submit(p->engine, PL_TX_UNLOGGED, write_tx, write_done, w);
}

/* Returns the worker's GPU use since its previous results, which is attributed to the datums of these
 * results; NULL if it is not measured. */
static json_t *gpu_told(struct pl_engine *e, const struct pl_eworker *w)
{
    const struct pl_executor_ops *ops = e->executor->ops;
    int64_t mem_peak_bytes;
    double utilisation;

    if (w->pod != PL_POD_WITH_GPU || !ops->gpu_use || !ops->gpu_use(e->executor, w->id, &utilisation, &mem_peak_bytes))
        return NULL;
    return json_pack("{s:i, s:o*, s:b}", "util", (int)(utilisation + 0.5), "mem_peak",
                     mem_peak_bytes > 0 ? json_integer(mem_peak_bytes) : NULL, "whole", 1);
}

void pl_engine_results(struct pl_engine *e, struct pl_eworker *w, const json_t *body, void (*done)(void *arg), void *arg)
{
    json_t *results = json_object_get(body, "results");
    struct reporting *p = calloc(1, sizeof *p);
    struct pl_err err = {0};
    const json_t *result;
    size_t i;

    if (!p) {
        done(arg);
        return;
    }
    *p = (struct reporting){.engine = e, .results = json_incref(results), .worker = w, .done = done, .arg = arg, .writes = 1};
    p->leaving = json_is_true(json_object_get(body, "leaving"));
    if (json_array_size(results) > 0)
        p->gpu = gpu_told(e, w);
    json_array_foreach(results, i, result)
    {
        if (feed_result(p, result, &err) < 0)
            pl_log_info("engine", "a result of worker %llu is refused: %s", (unsigned long long)w->id, err.msg);
    }
    one_over(p);
}

/* ---- after a restart ---- */

/* Loads one stored result, if the plan still has the row number and its datum still has the stored key. */
static int load_row(struct pl_ejob *j, const json_t *pair, struct pl_err *err)
{
    json_int_t index = json_integer_value(json_array_get(pair, 0));
    const char *text = json_string_value(json_array_get(pair, 2));
    const json_t *row = json_array_get(pair, 1);
    struct pl_hash key;
    size_t datum;
    int r;

    if (index < 0 || index >= j->n_rows || !text || pl_hash_parse(text, &key, NULL) < 0)
        return 0;
    datum = j->rows[index];
    if (j->has_result[datum] || !pl_hash_eq(&j->plan->keys[datum], &key))
        return 0;
    r = pl_result_of_json(row, j->run, &j->results[datum], err);
    if (r < 0)
        return r;
    j->has_result[datum] = 1;
    j->totals.done++;
    pl_totals_add(&j->totals, row);
    return 0;
}

static int load_rows(struct pl_ejob *j, const struct pl_rows *rows, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    const json_t *pair;
    size_t i;
    int r = pl_result_codec_column(rows, 1, &list, err);

    json_array_foreach(list, i, pair)
    {
        r = r < 0 ? r : load_row(j, pair, err);
    }
    return r;
}

int pl_job_load_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT id, rows FROM result WHERE job = ? ORDER BY id", "i", j->row);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        j->next_result = (uint32_t)pl_col_int(&rows, 0) + 1;
        r = load_rows(j, &rows, err);
    }
    return r;
}

/* ---- results of jobs that failed or were killed ---- */

/* Returns the first position in j->rows, sorted by datum key, of a datum with the given key or a greater key;
 * n_rows if there is no such datum. */
static uint32_t find_key(const struct pl_ejob *j, const struct pl_hash *key)
{
    uint32_t lo = 0, hi = j->n_rows;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (memcmp(j->plan->keys[j->rows[mid]].b, key->b, PL_HASH_BYTES) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Uses the stored result `item` for each datum that has the same key and no result so far. Must be called for
 * newer results first. Returns 1 if any datum uses the result. */
static int keep_one(struct pl_ejob *j, const json_t *item, const char *run, struct pl_err *err)
{
    const char *text = json_string_value(json_array_get(item, 2));
    struct pl_hash key;
    int r = 0, used = 0;

    if (!text || pl_hash_parse(text, &key, NULL) < 0)
        return 0;
    for (uint32_t i = find_key(j, &key); i < j->n_rows && pl_hash_eq(&j->plan->keys[j->rows[i]], &key); i++) {
        if (j->has_result[j->rows[i]])
            continue;
        r = pl_result_of_json(json_array_get(item, 1), run, &j->results[j->rows[i]], err);
        if (r < 0)
            return r;
        j->results[j->rows[i]].reused = true;
        j->has_result[j->rows[i]] = 1;
        used = 1;
    }
    return used;
}

/* Also collects in j->stale the rows of table `result` that no datum uses. */
int pl_kept_results(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    /* lowest row id among the stage's last PL_KEPT_JOBS_ALL kept jobs, whose results are never deleted */
    int64_t first = INT64_MIN;
    int r = pl_sql_int(c, err, &first,
                       "SELECT id FROM job WHERE project = ? AND stage = ? AND kept = 1 ORDER BY id DESC LIMIT 1 OFFSET ?", "ssi",
                       j->stage->project, j->stage->def->name, (int64_t)PL_KEPT_JOBS_ALL - 1);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    j->stale.len = 0;
    r = pl_sql_query(c, err, &rows,
                     "SELECT r.rows, j.run, r.job, r.id FROM job j JOIN result r ON r.job = j.id"
                     " WHERE j.project = ? AND j.stage = ? AND j.kept = 1 ORDER BY j.id DESC, r.id DESC",
                     "ss", j->stage->project, j->stage->def->name);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        const struct pl_result_key key = {pl_col_int(&rows, 2), pl_col_int(&rows, 3)};
        _cleanup_(json_decrefp) json_t *list = NULL;
        bool used = false;

        r = pl_result_codec_column(&rows, 0, &list, err);
        for (size_t i = json_array_size(list); r >= 0 && i-- > 0; used = used || r > 0)
            r = keep_one(j, json_array_get(list, i), pl_col_text(&rows, 1), err);
        if (r >= 0 && !used && key.job < first && !*j->aside.branch)
            r = pl_buf_add(&j->stale, &key, sizeof key, err);
    }
    return r;
}

int pl_kept_drop_stale(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    const struct pl_result_key *keys = (const struct pl_result_key *)j->stale.data;
    const size_t n = j->stale.len / sizeof *keys;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        r = pl_sql_exec(c, err, "DELETE FROM result WHERE job = ? AND id = ?", "ii", keys[i].job, keys[i].id);
        if (r >= 0 && (i + 1 == n || keys[i + 1].job != keys[i].job))
            r = pl_sql_exec(c, err, "UPDATE job SET kept = EXISTS (SELECT 1 FROM result WHERE job = ?1) WHERE id = ?1", "i",
                            keys[i].job);
    }
    if (r >= 0)
        pl_buf_finish(&j->stale);
    return PL_MIN(r, 0);
}
