/* workers: starts and stops workers for the scheduler, leases tasks to them, and answers their `next` requests. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/plan/plan_json.h"
#include "pipelined/text/json_text.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

struct pl_eworker *pl_engine_worker(struct pl_engine *e, uint64_t id)
{
    return pl_map_get(&e->workers, &id, sizeof id);
}

/* ---- start ---- */

void pl_engine_worker_free(void *worker)
{
    struct pl_eworker *w = worker;

    pl_timer_destroy(w->poll);
    pl_timer_destroy(w->renewal);
    free(w->ready);
    free(w->image);
    pl_engine_stage_unref(w->stage);
    free(w);
}

static void poll_over(void *arg);
static void renewal_over(void *arg);

/* Lists the other projects of which a stage reads repos: names that each end with NUL. */
static int other_projects(const struct pl_estage *stage, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < stage->def->n_leaves && r == 0; i++) {
        const struct pl_input *leaf = stage->def->leaves[i];

        if (pl_input_reads(leaf) && !pl_streq(leaf->project, stage->project))
            r = pl_buf_add(out, leaf->project, strlen(leaf->project) + 1, err);
    }
    return r;
}

int pl_engine_add_worker(struct pl_engine *e, uint64_t id, struct pl_estage *stage, const uint16_t *gpus, size_t n_gpus,
                         struct pl_eworker **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf reads = {0};
    struct pl_eworker *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return pl_err_nomem(err);
    w->id = id;
    w->stage = pl_engine_stage_ref(stage);
    w->n_gpus = (uint32_t)n_gpus;
    memcpy(w->gpus, gpus, n_gpus * sizeof *gpus);
    r = pl_timer_create(e->config.loop, "worker.poll", poll_over, w, &w->poll, err);
    r = r < 0 ? r : pl_timer_create(e->config.loop, "worker.renewal", renewal_over, w, &w->renewal, err);
    r = r < 0 ? r : other_projects(stage, &reads, err);
    r = r < 0 ? r
              : pl_worker_tokens_add(e->doors, id, stage->version, stage->project, stage->def->name, (const char *)reads.data,
                                     reads.len, err);
    r = r < 0 ? r : pl_map_put(&e->workers, &id, sizeof id, w, NULL, err);
    if (r < 0) {
        pl_worker_tokens_remove(e->doors, id);
        pl_engine_worker_free(w);
        return r;
    }
    *ret = w;
    return 0;
}

/* A report about a worker that is posted to the loop, because passing it to the scheduler at once would start
 * a step within an action. */
struct report {
    struct pl_engine *engine;
    uint64_t id;
    enum pl_sched_event_kind kind;
    bool on, counts;
    enum pl_sched_exit exit;
    uint64_t needs;
    char text[PL_SCHED_MESSAGE_MAX];
};

static void deliver(void *arg)
{
    struct report *p = arg;
    struct pl_sched_event ev = {.kind = p->kind,
                                .id = p->id,
                                .text = p->text,
                                .on = p->on,
                                .counts = p->counts,
                                .exit = p->exit,
                                .shape = {.needs = p->needs}};
    struct pl_err err = {0};

    if (pl_engine_feed(p->engine, &ev, &err) < 0)
        pl_log_warn("engine", "worker %" PRIu64 ": %s", p->id, err.msg);
    if (p->kind == PL_SCHED_EV_WORKER_EXITED)
        pl_worker_record_finish(p->engine, p->id);
    free(p);
}

/* Posts a report with the fields kind, on, counts, exit and needs of `what`. */
static void report_as(struct pl_engine *e, uint64_t id, struct report what, const char *text)
{
    struct report *p = malloc(sizeof *p);

    if (!p)
        return;
    *p = what;
    p->engine = e;
    p->id = id;
    snprintf(p->text, sizeof p->text, "%s", text);
    pl_engine_post(e, "engine.worker", deliver, p);
}

static void report(struct pl_engine *e, uint64_t id, enum pl_sched_event_kind kind, const char *text)
{
    report_as(e, id, (struct report){.kind = kind}, text);
}

/* ---- rows of table `worker` ---- */

struct worker_row {
    int64_t id, stage, pid, pid_start;
    int pod; /* value of column `pod` (enum pl_pod_kind) */
    bool network_off;
    char gpus[8 * PL_SCHED_WORKER_GPUS_MAX], host[128], incarnation[64];
    enum { ROW_STARTED, ROW_ATTACHED, ROW_PLACED, ROW_GONE } what;
    pl_tx_done done; /* called after the write; may be NULL */
    void *arg;
};

/* Writes a change to the worker's row in the database, and an event about the change. */
static int worker_row_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct worker_row *w = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    int r = 0;

    switch (w->what) {
    case ROW_STARTED:
        r = pl_sql_exec(c, err,
                        "INSERT INTO worker(id, stage, pod, gpus, host, pid, pid_start, created_us, network_off)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        "iiissiiii", w->id, w->stage, (int64_t)w->pod, w->gpus, w->host, w->pid, w->pid_start, pl_tx_now_us(tx),
                        (int64_t)w->network_off);
        break;
    case ROW_PLACED:
        r = pl_sql_exec(c, err, "UPDATE worker SET host = ? WHERE id = ?", "si", w->host, w->id);
        break;
    case ROW_ATTACHED:
        r = pl_sql_exec(c, err, "UPDATE worker SET incarnation = ? WHERE id = ?", "si", w->incarnation, w->id);
        break;
    case ROW_GONE:
        r = pl_sql_exec(c, err, "DELETE FROM lease WHERE worker = ?", "i", w->id);
        r = r < 0 ? r : pl_sql_exec(c, err, "DELETE FROM worker WHERE id = ?", "i", w->id);
        break;
    }
    return r < 0 ? r
                 : pl_tx_event(tx, "worker",
                               json_pack("{s:I, s:s}", "id", (json_int_t)w->id, "change",
                                         w->what == ROW_STARTED    ? "started"
                                         : w->what == ROW_ATTACHED ? "attached"
                                         : w->what == ROW_PLACED   ? "placed"
                                                                   : "gone"),
                               err);
}

static void worker_row_done(void *arg, int r, const struct pl_err *err)
{
    struct worker_row *w = arg;

    if (r < 0)
        pl_log_error("engine", "cannot write the database row of worker %lld: %s", (long long)w->id, err->msg);
    if (w->done)
        w->done(w->arg, r, err);
    free(w);
}

static void write_worker(struct pl_engine *e, const struct worker_row *row)
{
    struct worker_row *copy = malloc(sizeof *copy);
    struct pl_err err = {0};

    if (!copy) {
        pl_err_nomem(&err);
        if (row->done)
            row->done(row->arg, PL_ENOMEM, &err);
        return;
    }
    *copy = *row;
    if (pl_db_submit(e->config.db, PL_TX_UNLOGGED, worker_row_tx, worker_row_done, copy, &err) < 0)
        worker_row_done(copy, err.code, &err);
}

void pl_engine_worker_attached_row(struct pl_engine *e, const struct pl_eworker *w, pl_tx_done done, void *arg)
{
    struct worker_row row = {.id = (int64_t)w->id, .what = ROW_ATTACHED, .done = done, .arg = arg};

    snprintf(row.incarnation, sizeof row.incarnation, "%s", w->incarnation);
    write_worker(e, &row);
}

static void on_started(void *self, uint64_t id, const char *host, int64_t pid, int64_t pid_start)
{
    struct pl_engine *e = self;
    struct pl_eworker *w = pl_engine_worker(e, id);
    struct worker_row row = {.id = (int64_t)id, .pid = pid, .pid_start = pid_start, .what = ROW_STARTED};
    size_t used = 1;

    if (!w)
        return;
    snprintf(w->host, sizeof w->host, "%s", host);
    snprintf(row.host, sizeof row.host, "%s", host);
    row.stage = (int64_t)w->stage->version;
    row.pod = w->pod;
    row.network_off = w->network_off;
    strcpy(row.gpus, "[");
    for (uint32_t i = 0; i < w->n_gpus; i++)
        used += (size_t)snprintf(row.gpus + used, sizeof row.gpus - used, "%s%u", i ? "," : "", w->gpus[i]);
    snprintf(row.gpus + used, sizeof row.gpus - used, "]");
    write_worker(e, &row);
}

static void on_placed(void *self, uint64_t id, const char *node, bool up)
{
    struct pl_engine *e = self;
    struct pl_eworker *w = pl_engine_worker(e, id);
    struct worker_row row = {.id = (int64_t)id, .what = ROW_PLACED};

    if (w && !pl_streq(w->host, node)) {
        snprintf(w->host, sizeof w->host, "%s", node);
        snprintf(row.host, sizeof row.host, "%s", node);
        write_worker(e, &row);
    }
    pl_worker_record_placed(e, id, node);
    report_as(e, id, (struct report){.kind = PL_SCHED_EV_WORKER_PLACED, .on = up}, node);
}

/* ---- image of a pod ---- */

struct naming {
    int64_t since, worker;
    char image[];
};

static int name_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct naming *n = arg;
    int r = pl_sql_exec(
        pl_tx_conn(tx), err,
        "UPDATE attempt SET detail = json_set(detail, '$.image_id', ?), unnamed = NULL WHERE unnamed = ? AND job >= ?", "sii",
        n->image, n->worker, n->since);

    return r < 0 ? r : 0;
}

static void name_done(void *arg, int r, const struct pl_err *err)
{
    if (r < 0)
        pl_log_error("engine", "cannot save the image of attempts: %s", err->msg);
    free(arg);
}

/* Adds the image to attempts that were stored before the image was known: a command may end before the node
 * reports its image. */
static void name_kept(struct pl_engine *e, const struct pl_eworker *w)
{
    const size_t size = strlen(w->image) + 1;
    struct naming *n = malloc(sizeof *n + size);
    struct pl_err err = {0};

    if (!n)
        return;
    *n = (struct naming){.since = w->unnamed_since, .worker = (int64_t)w->id};
    memcpy(n->image, w->image, size);
    if (pl_db_submit(e->config.db, PL_TX_UNLOGGED, name_tx, name_done, n, &err) < 0)
        name_done(n, err.code, &err);
}

static void on_image(void *self, uint64_t id, const char *image)
{
    struct pl_engine *e = self;
    struct pl_eworker *w = pl_engine_worker(e, id);

    if (!w || w->image)
        return;
    w->image = strdup(image);
    if (w->image && w->unnamed_since)
        name_kept(e, w);
    if (w->image)
        w->unnamed_since = 0;
}

static void on_waits(void *self, uint64_t id, const char *text)
{
    report(self, id, PL_SCHED_EV_WORKER_WAITS, text);
}

static void on_leaves(void *self, uint64_t id, const char *why)
{
    pl_worker_record_leaves(self, id, why);
}

static void on_needs(void *self, uint64_t id, uint64_t needs)
{
    report_as(self, id, (struct report){.kind = PL_SCHED_EV_WORKER_NEEDS, .needs = needs}, "");
}

static void on_exited(void *self, uint64_t id, const struct pl_executor_end *end)
{
    struct pl_engine *e = self;
    struct pl_eworker *w = pl_map_remove(&e->workers, &id, sizeof id);
    struct worker_row row = {.id = (int64_t)id, .what = ROW_GONE};

    pl_worker_record_ended(e, id, w && w->attached, end);
    pl_worker_tokens_remove(e->doors, id);
    if (w && w->waiting)
        pl_http_reply_json(w->waiting, 200, json_pack("{s:b}", "end", 1));
    if (w) {
        w->stopping = true;
        pl_eworker_tell(w, 0);
        pl_engine_worker_free(w);
    }
    write_worker(e, &row);
    report_as(e, id,
              (struct report){.kind = PL_SCHED_EV_WORKER_EXITED, .on = end->hopeless, .counts = end->counts, .exit = end->exit},
              end->text);
}

/* ---- shapes of pods ---- */

struct shape_report {
    struct pl_engine *engine;
    struct pl_sched_shape shape;
    char text[PL_SCHED_MESSAGE_MAX];
};

static void deliver_shape(void *arg)
{
    struct shape_report *p = arg;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_SHAPE, .shape = p->shape};
    struct pl_err err = {0};

    ev.shape.text = p->text;
    if (pl_engine_feed(p->engine, &ev, &err) < 0)
        pl_log_warn("engine", "pod shape %" PRIx64 " is refused: %s", p->shape.id, err.msg);
    free(p);
}

static void on_shape(void *self, const struct pl_sched_shape *shape)
{
    struct pl_engine *e = self;
    struct shape_report *p = malloc(sizeof *p);

    if (!p) {
        pl_engine_fail(e, "no memory to report a pod shape");
        return;
    }
    *p = (struct shape_report){.engine = e, .shape = *shape};
    snprintf(p->text, sizeof p->text, "%s", shape->text ? shape->text : "");
    if (e->restoring)
        deliver_shape(p); /* at once, because the workers that are restored next need the shape */
    else
        pl_engine_post(e, "engine.shape", deliver_shape, p);
}

static void on_reshape(void *self)
{
    pl_engine_reshape(self);
}

static bool has_shape(void *self, uint64_t id)
{
    return pl_sched_has_shape(((const struct pl_engine *)self)->sched, id);
}

static bool network_off(void *self, const char *project)
{
    return pl_engine_network_off(self, project);
}

static bool has_come(void *self, uint64_t id)
{
    const struct pl_eworker *w = pl_engine_worker(self, id);

    return !w || w->attached;
}

struct pl_executor_events pl_engine_executor_events(struct pl_engine *e)
{
    return (struct pl_executor_events){e,         on_started, on_exited, on_placed, on_waits,    on_shape, on_reshape,
                                       has_shape, has_come,   on_image,  on_needs,  network_off, on_leaves};
}

void pl_engine_worker_spec(const struct pl_engine *e, const struct pl_eworker *w, struct pl_engine_worker_texts *texts,
                           struct pl_worker_spec *ret)
{
    const struct pl_resources *resources = &w->stage->def->resources;

    snprintf(texts->name, sizeof texts->name, "%" PRIu64, w->id);
    pl_engine_worker_token(e, w->id, texts->token);
    *ret = (struct pl_worker_spec){.id = w->id,
                                   .name = texts->name,
                                   .project = w->stage->project,
                                   .stage = w->stage->def->name,
                                   .pipeline = w->stage->pipeline,
                                   .run = *w->run ? w->run : NULL,
                                   .def = w->stage->def,
                                   .version = w->stage->version,
                                   .gpu = w->pod == PL_POD_WITH_GPU,
                                   .network_off = w->network_off,
                                   .token = texts->token,
                                   .gpus = w->gpus,
                                   .n_gpus = w->n_gpus,
                                   .disk_bytes = (uint64_t)resources->disk_bytes,
                                   .input_bytes = PL_MIN(w->stage->datum_bytes, (uint64_t)1 << 50),
                                   .shm_bytes = (uint64_t)resources->shm_bytes};
}

void pl_engine_start_worker(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = pl_engine_job(e, a->worker.job);
    struct pl_engine_worker_texts texts;
    struct pl_estage *stage;
    struct pl_eworker *w;
    struct pl_worker_spec spec;
    struct pl_err err = {0};
    int r = pl_engine_stage(e, a->worker.version, &stage, &err);

    r = r < 0 ? r : pl_engine_add_worker(e, a->worker.id, stage, a->worker.gpus, a->worker.n_gpus, &w, &err);
    if (r < 0) {
        report(e, a->worker.id, PL_SCHED_EV_START_FAILED, err.msg);
        return;
    }
    w->network_off = pl_engine_network_off(e, stage->project);
    snprintf(w->run, sizeof w->run, "%s", j ? j->run : "");
    if (a->worker.shape)
        w->pod = a->worker.gpu ? PL_POD_WITH_GPU : PL_POD_WITHOUT_GPU;
    pl_engine_worker_spec(e, w, &texts, &spec);
    spec.cpu_milli = a->worker.cpu_milli;
    spec.memory_bytes = a->worker.memory_bytes;
    spec.avoid = a->worker.avoid;
    spec.n_avoid = a->worker.n_avoid;
    r = e->executor->ops->start(e->executor, &spec, &err);
    if (r < 0) {
        pl_map_remove(&e->workers, &a->worker.id, sizeof a->worker.id);
        pl_worker_tokens_remove(e->doors, a->worker.id);
        pl_engine_worker_free(w);
        report_as(e, a->worker.id, (struct report){.kind = PL_SCHED_EV_START_FAILED, .on = r == PL_ESTAGE}, err.msg);
        return;
    }
    pl_worker_record_begin(e, w, j, pl_clock_wall_us());
}

void pl_engine_stop_worker(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_eworker *w = pl_engine_worker(e, a->worker.id);

    if (!w) {
        report(e, a->worker.id, PL_SCHED_EV_WORKER_EXITED, "it had already ended");
        return;
    }
    w->stopping = true;
    pl_worker_record_told(e, w->id, a->worker.kill, a->worker.reason);
    if (a->worker.kill)
        e->executor->ops->stop(e->executor, w->id, true);
    else if (w->attached)
        pl_engine_answer(w, strdup("{\"end\":true}\n"), 0);
    else
        e->executor->ops->stop(e->executor, w->id, false);
    pl_eworker_tell(w, 0);
}

/* ---- answers to `next` ---- */

void pl_engine_worker_drop_ready(struct pl_eworker *w)
{
    free(TAKE_PTR(w->ready));
    w->ready_task = 0;
}

void pl_engine_answer(struct pl_eworker *w, char *answer, uint64_t task)
{
    struct pl_http_request *req = TAKE_PTR(w->waiting);
    bool gone = req && pl_http_request_gone(req);

    pl_timer_stop(w->poll);
    if (req)
        pl_http_reply(req, 200, "application/json", answer ? answer : "{}", answer ? strlen(answer) : 2);
    if (req && !gone) {
        free(answer);
        return;
    }
    pl_engine_worker_drop_ready(w); /* the answer was not delivered: the worker asks again and gets it then */
    w->ready = answer;
    w->ready_task = task;
}

static void poll_over(void *arg)
{
    struct pl_eworker *w = arg;

    if (w->waiting)
        pl_http_reply_json(TAKE_PTR(w->waiting), 200, json_pack("{s:b}", "idle", 1));
}

static void renewal_over(void *arg)
{
    pl_eworker_tell(arg, 0);
}

void pl_engine_hang_up(struct pl_engine *e)
{
    const struct pl_map_slot *slot;

    e->hung_up = true;
    for (size_t i = 0; (slot = pl_map_next(&e->workers, &i));) {
        poll_over(slot->value);
        renewal_over(slot->value);
    }
}

/* ---- leases ---- */

void pl_etask_free(void *task)
{
    struct pl_etask *t = task;

    if (!t)
        return;
    pl_engine_job_unref(t->job);
    free(t);
}

/* Removes the task from the map of tasks and returns it; NULL if the worker does not hold it under this
 * fence. */
static struct pl_etask *take_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence)
{
    struct pl_etask *t = pl_map_get(&e->tasks, &task, sizeof task);

    /* a request may name a task of another worker */
    if (!t || t->worker != worker || t->fence != fence)
        return NULL;
    pl_worker_record_released(e, worker);
    return pl_map_remove(&e->tasks, &task, sizeof task);
}

void pl_engine_end_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence)
{
    pl_etask_free(take_task(e, worker, task, fence));
}

void pl_engine_drop_task(struct pl_engine *e, uint64_t worker, uint64_t task, uint64_t fence)
{
    struct pl_etask *t = take_task(e, worker, task, fence);
    struct pl_eworker *w = t ? pl_engine_worker(e, worker) : NULL;

    if (w && t->told) {
        if (w->n_lost == PL_ENGINE_LOST_MAX)
            memmove(w->lost, w->lost + 1, --w->n_lost * sizeof *w->lost);
        w->lost[w->n_lost++] = (struct pl_sched_lease){.task = task, .fence = fence};
        pl_eworker_tell(w, 0);
    } else if (w && w->ready_task == task) {
        pl_engine_worker_drop_ready(w);
    } else if (w) { /* the task will not be sent, so answer the worker's open request to make it ask again */
        pl_timer_stop(w->poll);
        poll_over(w);
    }
    pl_etask_free(t);
}

void pl_engine_recall_task(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_etask *t = pl_map_get(&e->tasks, &a->lease.task, sizeof a->lease.task);
    struct pl_eworker *w;

    if (!t || t->fence != a->lease.fence)
        return;
    t->recalled = true;
    w = pl_engine_worker(e, t->worker);
    if (w && t->told)
        pl_eworker_tell(w, t->id);
}

struct leasing {
    struct pl_engine *engine;
    struct pl_ejob *job;
    uint64_t worker, task, fence;
    struct pl_sched_range *ranges;
    size_t n_ranges;
    uint32_t failures, losses;
    int64_t since_us; /* time since which a checkpoint is usable; older ones must not be used */
    char *rows;       /* row numbers as JSON text, for the lease's database row */
    char *trace;      /* traceparent of the run; NULL = none */
    char *answer;
};

static json_t *row_json(const struct leasing *l, uint32_t row)
{
    const struct pl_ejob *j = l->job;
    size_t datum = j->rows[row];
    json_t *inputs = json_array();
    json_t *left = j->stage->def->checkpoint_ms > 0 ? pl_checkpoint_json(j, &j->plan->keys[datum], l->since_us) : NULL;
    char id[PL_HASH_HEX + 1], key[PL_HASH_HEX + 1];
    struct pl_hash h;

    pl_plan_datum_id(j->plan, datum, &h);
    for (size_t i = 0; i < j->plan->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(j->plan, datum, i);

        if (m)
            json_array_append_new(inputs, pl_plan_input_json(j->plan, i, m, &j->roots[i], j->commits[i]));
    }
    return json_pack("{s:I, s:s, s:s, s:I, s:I, s:o, s:o*}", "index", (json_int_t)row, "datum", pl_hash_hex(&h, id), "key",
                     pl_hash_hex(&j->plan->keys[datum], key), "attempt", (json_int_t)l->failures + 1, "timeout_ms",
                     (json_int_t)j->stage->def->datum.timeout_ms, "inputs", inputs, "checkpoint", left);
}

static void leased(void *arg)
{
    struct leasing *l = arg;
    struct pl_eworker *w = pl_engine_worker(l->engine, l->worker);
    struct pl_etask *t = pl_map_get(&l->engine->tasks, &l->task, sizeof l->task);

    if (w && l->answer && t) {
        pl_engine_answer(w, TAKE_PTR(l->answer), l->task);
        t->told = w->ready_task != l->task;
    }
    free(l->answer);
    pl_engine_job_unref(l->job);
    free(l->ranges);
    free(l->rows);
    free(l->trace);
    free(l);
}

/* Makes the answer for the worker, once the lease is durable. Runs on the pool, because the answer for a
 * large task is large. */
static void make_answer(void *arg)
{
    struct leasing *l = arg;
    json_t *rows = json_array(), *answer;
    char job[32];

    for (size_t i = 0; i < l->n_ranges; i++)
        for (uint32_t row = l->ranges[i].lo; row < l->ranges[i].hi; row++)
            json_array_append_new(rows, row_json(l, row));
    snprintf(job, sizeof job, "%" PRId64, l->job->row);
    answer = json_pack("{s:{s:I, s:I, s:s, s:s, s:s, s:s, s:s*, s:o}}", "task", "id", (json_int_t)l->task, "fence",
                       (json_int_t)l->fence, "job", job, "run", l->job->run, "stage", l->job->stage->def->name, "pipeline",
                       l->job->stage->pipeline, "traceparent", l->trace, "rows", rows);
    l->answer = answer ? pl_json_text(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    if (!l->answer) /* without an answer the lease expires, and its datums are leased again */
        pl_log_error("engine", "lease %" PRIu64 ": no memory to send its datums to the worker", l->task);
    pl_engine_post(l->engine, "engine.leased", leased, l);
}

static int lease_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct leasing *l = arg;
    int r = pl_sql_exec(
        pl_tx_conn(tx), err,
        "INSERT OR REPLACE INTO lease(task, fence, job, worker, rows, failures, losses, leased_us, seq, renewed_seq)"
        " SELECT ?, ?, ?, ?, ?, ?, ?, ?, s, s FROM (SELECT CAST(value AS INTEGER) AS s FROM meta WHERE key = 'log_seq')",
        "iiiisiii", (int64_t)l->task, (int64_t)l->fence, l->job->row, (int64_t)l->worker, l->rows, (int64_t)l->failures,
        (int64_t)l->losses, pl_tx_now_us(tx));

    free(TAKE_PTR(l->trace)); /* the transaction may run again */
    return r < 0 ? r : pl_db_run_trace_read(pl_tx_conn(tx), l->job->run, &l->trace, err);
}

static void lease_written(void *arg, int r, const struct pl_err *err)
{
    struct leasing *l = arg;

    if (r < 0) {
        /* the worker gets no answer: the lease expires, and its datums are leased again */
        pl_log_error("engine", "cannot write lease %" PRIu64 ": %s", l->task, err->msg);
        pl_engine_post(l->engine, "engine.leased", leased, l);
        return;
    }
    pl_engine_pool(l->engine, make_answer, l);
}

static struct pl_sched_range *copy_ranges(const struct pl_sched_range *ranges, size_t n)
{
    struct pl_sched_range *copy = malloc((n + 1) * sizeof *copy);

    if (copy && n)
        memcpy(copy, ranges, n * sizeof *copy);
    return copy;
}

static struct pl_etask *new_task(const struct pl_sched_action *a, struct pl_ejob *j)
{
    struct pl_etask *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    *t = (struct pl_etask){.id = a->lease.task, .fence = a->lease.fence, .worker = a->lease.worker, .job = pl_engine_job_ref(j)};
    t->failures = a->lease.failures;
    t->losses = a->lease.losses;
    return t;
}

/* Carries out action LEASE. If any step fails, the worker gets no answer: the lease expires, and its datums
 * are leased again. */
void pl_engine_lease(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = pl_engine_job(e, a->lease.job);
    struct leasing *l = j ? calloc(1, sizeof *l) : NULL;
    struct pl_etask *t = l ? new_task(a, j) : NULL;
    struct pl_err err = {0};
    int r;

    if (!t) {
        free(l);
        return;
    }
    *l = (struct leasing){.engine = e, .job = pl_engine_job_ref(j), .worker = t->worker, .task = t->id, .fence = t->fence};
    l->failures = t->failures;
    l->losses = a->lease.losses;
    /* a forced run uses only checkpoints of this job's own attempts */
    l->since_us = !j->forced ? 0 : j->started_us ? j->started_us : pl_clock_wall_us();
    l->ranges = copy_ranges(a->lease.rows, a->lease.n_rows);
    l->n_ranges = a->lease.n_rows;
    l->rows = pl_ranges_text(a->lease.rows, a->lease.n_rows);
    if (pl_engine_worker(e, t->worker))
        pl_engine_job_device(j, pl_engine_worker(e, t->worker));
    r = l->ranges && l->rows ? pl_map_put(&e->tasks, &t->id, sizeof t->id, t, NULL, &err) : pl_err_nomem(&err);
    if (r < 0)
        pl_etask_free(t);
    else
        pl_worker_record_leased(e, t->worker, j, pl_clock_wall_us());
    r = r < 0 ? r : pl_db_submit(e->config.db, PL_TX_UNLOGGED, lease_tx, lease_written, l, &err);
    if (r < 0) {
        pl_log_error("engine", "cannot lease a task of job %s: %s", j->stage->def->name, err.msg);
        leased(l);
    }
}
