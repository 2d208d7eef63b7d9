/* engine_gpus: who holds the GPUs now, what waits for them, and what they did in the last 24 hours. The GPUs are looked at when workers got or
 * gave back some, at most every LOOK_APART_MS, and every LOOK_HELD_MS while one is held. A ledger sums that up
 * (gpus/gpu_ledger.h); its spans become rows of table gpu_span, and a change an event "gpu". */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/gpus/gpu_ledger.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#define LOOK_APART_MS 500
#define LOOK_HELD_MS  10000
#define LOOK_REST_MS  (PL_GPU_SPAN_IDLE_MINUTES * 60000)
#define LOOK_SHARE    50  /* a look that takes 10 ms is followed by a pause of 500 ms at least */
#define REPORT_MS     500 /* how long a report of this machine's driver stands for */
#define KEPT_US       (24 * 3600 * 1000000ll)
#define ENDED_KEPT    60   /* spans that wait for a database that fails: an hour */
#define ROWS_KEPT     4000 /* a span ends with its minute: more come only from many starts of the daemon */

struct pl_egpus {
    struct pl_gpu_ledger *ledger;
    struct pl_timer *timer;
    int64_t due_ms;  /* when the timer fires, monotonic; 0 = it is not started */
    int64_t next_ms; /* no look before this time */
    json_t *report;  /* the last one of this machine's driver; NULL = none, or workers are pods */
    int64_t report_ms;
    json_t *ended;              /* spans that have ended, of which it is not known that the database has them */
    uint64_t n_ended;           /* spans that have ended since the start; the last ones are in `ended` */
    _Atomic uint64_t n_written; /* of them, those that the database has; set by its thread */
    bool refused;               /* the last write failed; of the database's thread */
    bool changed;               /* a change was seen of which no event tells yet */
    int64_t open_ms;            /* when the span that goes on was written last, so that a crash loses LOOK_HELD_MS of it */
};

/* ---- who holds them ---- */

/* Returns the report's entry for the GPU's product; adds one if there is none. */
static json_t *product_row(json_t *rows, const json_t *out, const json_t *gpu)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        if (json_equal(json_object_get(row, "product"), json_object_get(gpu, "product")))
            return row;
    }
    row = json_pack("{s:O, s:s, s:O, s:i, s:i, s:[]}", "node", json_object_get(out, "node"), "resource", PL_GPU_RESOURCE,
                    "product", json_object_get(gpu, "product"), "capacity", 0, "allocated", 0, "by");
    json_array_append_new(rows, row);
    return row;
}

static void add_to(json_t *o, const char *key, json_int_t n)
{
    json_object_set_new(o, key, json_integer(json_integer_value(json_object_get(o, key)) + n));
}

/* Adds to the report, per product, how many GPUs this machine has and which stages hold them, in the form in
 * which a cluster's executor reports its nodes. */
static void add_nodes(json_t *out)
{
    json_t *rows = json_array(), *gpu, *row, *holder = NULL, *by;
    size_t i, k;

    json_array_foreach(json_object_get(out, "gpus"), i, gpu)
    {
        row = product_row(rows, out, gpu);
        add_to(row, "capacity", 1);
        by = json_object_get(gpu, "by");
        if (!by)
            continue;
        add_to(row, "allocated", 1);
        json_array_foreach(json_object_get(row, "by"), k, holder)
        {
            if (json_equal(json_object_get(holder, "stage"), json_object_get(by, "stage")) &&
                json_equal(json_object_get(holder, "project"), json_object_get(by, "project")))
                break;
        }
        if (k == json_array_size(json_object_get(row, "by"))) {
            holder = json_copy(by);
            json_array_append_new(json_object_get(row, "by"), holder);
        }
        add_to(holder, "count", 1);
        add_to(holder, "computing", json_is_true(json_object_get(gpu, "computing")));
    }
    json_object_set_new(out, "nodes", rows);
}

/* Returns the executor's report. That of this machine's driver may be REPORT_MS old: a device is read in 50 µs
 * (H200) to some milliseconds, on the loop, and pages ask often. */
static json_t *report_of(struct pl_engine *e)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct pl_egpus *g = e->gpus;

    if (!g || e->executor->ops->shape)
        return e->executor->ops->gpus(e->executor);
    if (!g->report || now_ms - g->report_ms >= REPORT_MS) {
        json_decref(g->report);
        g->report = e->executor->ops->gpus(e->executor);
        g->report_ms = now_ms;
    }
    return json_deep_copy(g->report);
}

/* Adds to the holders of a cluster's GPUs that are pods of stages the run, and on how many of the GPUs a datum runs. */
static void add_pods(struct pl_engine *e, const json_t *rows)
{
    const struct pl_map_slot *slot;
    json_t *row, *holder, *pods = json_object(), *run;
    size_t i, k;

    for (i = 0; (slot = pl_map_next(&e->workers, &i));) {
        const struct pl_eworker *w = slot->value;
        uint64_t tasks[PL_SCHED_WORKER_LEASES];
        const size_t n = w->pod == PL_POD_WITH_GPU ? pl_sched_worker_tasks(e->sched, w->id, tasks) : 0;
        const struct pl_etask *t = n > 0 ? pl_map_get(&e->tasks, &tasks[0], sizeof tasks[0]) : NULL;

        if (w->pod == PL_POD_WITH_GPU)
            json_object_set_new(pods, pl_worker_record_pod(e, w->id), json_pack("[b, s]", n > 0, t ? t->job->run : w->run));
    }
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        json_array_foreach(json_object_get(row, "by"), k, holder)
        {
            if (!pl_json_text_at(holder, "stage"))
                continue;
            run = json_object_get(pods, pl_json_str(holder, "pod"));
            json_object_set_new(
                holder, "computing",
                json_integer(json_is_true(json_array_get(run, 0)) ? json_integer_value(json_object_get(holder, "count")) : 0));
            if (json_string_length(json_array_get(run, 1)) > 0)
                json_object_set(holder, "run", json_array_get(run, 1));
        }
    }
    json_decref(pods);
}

json_t *pl_engine_gpus_json(struct pl_engine *e)
{
    json_t *out = report_of(e), *gpu;
    uint64_t stage = 0, job = 0;
    size_t i;

    json_array_foreach(json_object_get(out, "gpus"), i, gpu)
    {
        const uint64_t worker = pl_sched_gpu_holder(e->sched, (uint32_t)i, &stage, &job);
        const struct pl_eworker *w = worker ? pl_engine_worker(e, worker) : NULL;
        const struct pl_ejob *j = worker ? pl_engine_job(e, job) : NULL;

        json_object_set_new(gpu, "state", json_string(worker ? "held" : "free"));
        if (!worker)
            continue;
        json_object_set_new(gpu, "computing", json_boolean(job != 0));
        json_object_set_new(gpu, "by",
                            json_pack("{s:s*, s:s*, s:s*}", "project", w ? w->stage->project : NULL, "stage",
                                      w ? w->stage->def->name : NULL, "run", j ? j->run : NULL));
    }
    if (json_object_get(out, "nodes"))
        add_pods(e, json_object_get(out, "nodes"));
    else
        add_nodes(out);
    if (e->gpus)
        pl_gpu_ledger_mark(e->gpus->ledger, out);
    return out;
}

/* ---- what waits for them ---- */

#define QUEUE_MAX 256 /* most jobs that the queue lists */

struct queue {
    struct pl_engine *engine;
    const char *run, *project, *stage; /* NULL = all jobs */
    json_t *result;
};

/* Returns what one worker of the stage wants. */
static json_t *want_json(const struct pl_estage *s, const struct pl_sched_wait *w)
{
    const struct pl_gpu *gpu = &s->def->gpu;
    json_t *o = json_pack("{s:i, s:I}", "gpus", (int)w->gpus, "cpu_milli", (json_int_t)w->cpu_milli), *products;

    if (w->memory_bytes)
        json_object_set_new(o, "memory_bytes", json_integer((json_int_t)w->memory_bytes));
    if (w->gpus == 0)
        return o;
    products = json_array();
    for (size_t i = 0; i < gpu->n_product; i++)
        json_array_append_new(products, json_string(gpu->product[i]));
    json_object_set_new(o, "product", products);
    json_object_set_new(o, "resource", json_string(gpu->resource ? gpu->resource : PL_GPU_RESOURCE));
    if (gpu->memory_bytes)
        json_object_set_new(o, "gpu_memory_mib", json_integer(pl_gpu_memory_mib(gpu)));
    if (gpu->compute)
        json_object_set_new(o, "compute", json_sprintf("%u.%u", gpu->compute / 100, gpu->compute % 100));
    return o;
}

static json_t *holder_json(struct pl_engine *e, const struct pl_sched_wait_holder *h)
{
    const struct pl_eworker *w = pl_engine_worker(e, h->worker);
    uint64_t tasks[PL_SCHED_WORKER_LEASES];
    const size_t n = w ? pl_sched_worker_tasks(e->sched, h->worker, tasks) : 0;
    const struct pl_etask *t = n > 0 ? pl_map_get(&e->tasks, &tasks[0], sizeof tasks[0]) : NULL;
    json_t *o;

    if (!w)
        return NULL;
    o = json_pack("{s:s, s:s, s:i, s:i}", "project", w->stage->project, "stage", w->stage->def->name, "gpus", (int)h->gpus,
                  "computing", n > 0 ? (int)h->gpus : 0);
    if (t || *w->run)
        json_object_set_new(o, "run", json_string(t ? t->job->run : w->run));
    return o;
}

/* Returns since when all GPUs of this machine that the holder's stage has stand idle; NULL = one of them computes, or none is
 * its. Slots name the stage, not the worker. */
static json_t *idle_since(const json_t *holder, const json_t *report)
{
    json_t *slot, *latest = NULL;
    size_t k;

    json_array_foreach(json_object_get(report, "gpus"), k, slot)
    {
        const json_t *by = json_object_get(slot, "by");
        json_t *since = json_object_get(slot, "idle_since_us");

        if (!pl_streq(pl_json_str(by, "stage"), pl_json_str(holder, "stage")) ||
            !pl_streq(pl_json_str(by, "project"), pl_json_str(holder, "project")))
            continue;
        if (!since)
            return NULL;
        if (!latest || json_integer_value(since) > json_integer_value(latest))
            latest = since;
    }
    return latest;
}

/* Adds to the holders of this machine's GPUs since when they stand idle, from the report. */
static void mark_idle(json_t *holders, const json_t *report)
{
    json_t *holder, *since;
    size_t i;

    json_array_foreach(holders, i, holder)
    {
        since = idle_since(holder, report);
        if (since)
            json_object_set(holder, "idle_since_us", since);
    }
}

static json_t *wait_json(struct pl_engine *e, const struct pl_ejob *j, const struct pl_sched_wait *w, const json_t *report)
{
    static const char *const names[] = {[PL_SCHED_WAITS_GPU] = "gpu",
                                        [PL_SCHED_WAITS_CPU] = "cpu",
                                        [PL_SCHED_WAITS_POD] = "pod",
                                        [PL_SCHED_WAITS_START] = "start",
                                        [PL_SCHED_WAITS_EVER] = "never"};
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:o}", "project", j->stage->project, "stage", j->stage->def->name,
                          "run", j->run, "reason", j->reason, "for", names[w->what], "ahead", (int)w->ahead, "want",
                          want_json(j->stage, w)),
           *holders;

    if (w->what != PL_SCHED_WAITS_GPU && w->what != PL_SCHED_WAITS_CPU)
        return o;
    holders = json_array();
    for (size_t i = 0; i < w->n_holders; i++) {
        json_t *holder = holder_json(e, &w->holders[i]);

        if (holder)
            json_array_append_new(holders, holder);
    }
    mark_idle(holders, report);
    json_object_set_new(o, "holders", holders);
    if (w->what == PL_SCHED_WAITS_GPU) {
        json_object_set_new(o, "free", json_integer(w->free));
        json_object_set_new(o, "of", json_integer(w->slots));
    }
    return o;
}

static void do_queue(void *arg)
{
    struct queue *q = arg;
    struct pl_engine *e = q->engine;
    const struct pl_ejob *only = q->run ? pl_engine_job_by_key(e, q->run, q->project, q->stage) : NULL;
    _cleanup_free_ struct pl_sched_wait *waits = q->run && !only ? NULL : calloc(QUEUE_MAX, sizeof *waits);
    const size_t n = waits ? pl_sched_queue(e->sched, only ? only->id : 0, waits, QUEUE_MAX) : 0;
    json_t *list = json_array(), *report = n > 0 ? pl_engine_gpus_json(e) : json_object();

    for (size_t i = 0; i < n; i++) {
        const struct pl_ejob *j = pl_engine_job(e, waits[i].job);

        if (j)
            json_array_append_new(list, wait_json(e, j, &waits[i], report));
    }
    q->result = json_pack("{s:o, s:o}", "queue", list, "gpus", report);
}

json_t *pl_engine_queue(void *self, const char *run, const char *project, const char *stage)
{
    struct queue q = {.engine = self, .run = run, .project = project, .stage = stage};

    (void)!pl_engine_call(self, do_queue, &q, NULL);
    return q.result ? q.result : json_pack("{s:[], s:{}}", "queue", "gpus");
}

/* ---- their history ---- */

struct write {
    struct pl_egpus *gpus;
    json_t *spans;    /* NULL = none */
    json_t *event;    /* NULL = nothing has changed */
    uint64_t n_ended; /* spans that have ended since the start, with those of this write */
    int64_t now_us;
};

static int write_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct write *w = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    json_t *span;
    size_t i;
    int r = 0;

    json_array_foreach(w->spans, i, span)
    {
        _cleanup_free_ char *series = pl_json_text(json_object_get(span, "series"), JSON_COMPACT);

        r = r < 0     ? r
            : !series ? pl_err_nomem(err)
                      : pl_sql_exec(c, err, "INSERT OR REPLACE INTO gpu_span(from_us, to_us, series) VALUES (?, ?, ?)", "iis",
                                    json_integer_value(json_object_get(span, "from_us")),
                                    json_integer_value(json_object_get(span, "to_us")), series);
    }
    if (r >= 0 && w->spans) /* what lies ahead of now was recorded before the clock was set back */
        r = pl_sql_exec(c, err,
                        "DELETE FROM gpu_span WHERE to_us < ?1 OR from_us > ?2"
                        " OR from_us <= (SELECT from_us FROM gpu_span ORDER BY from_us DESC LIMIT 1 OFFSET ?3)",
                        "iii", w->now_us - KEPT_US, w->now_us, (int64_t)ROWS_KEPT);
    if (r >= 0 && w->event)
        r = pl_tx_event(tx, "gpu", json_incref(w->event), err);
    return PL_MIN(r, 0);
}

static void write_done(void *arg, int r, const struct pl_err *err)
{
    struct write *w = arg;

    if (r < 0 && !w->gpus->refused)
        pl_log_warn("engine", "cannot record what the GPUs did, will be tried again: %s", err->msg);
    if (r >= 0 && w->spans)
        atomic_store(&w->gpus->n_written, w->n_ended);
    if (r < 0 || w->spans)
        w->gpus->refused = r < 0;
    json_decref(w->spans);
    json_decref(w->event);
    free(w);
}

/* Takes the spans that have ended from the ledger, and forgets those that the database has. */
static void take_spans(struct pl_egpus *g)
{
    json_t *ended = pl_gpu_ledger_take(g->ledger);

    g->n_ended += json_array_size(ended);
    if (ended)
        json_array_extend(g->ended, ended);
    json_decref(ended);
    while (json_array_size(g->ended) > PL_MIN(g->n_ended - atomic_load(&g->n_written), (uint64_t)ENDED_KEPT))
        json_array_remove(g->ended, 0);
}

static void write_spans(struct pl_engine *e, bool changed)
{
    struct pl_egpus *g = e->gpus;
    const struct pl_gpu_counts n = pl_gpu_ledger_counts(g->ledger);
    struct write *w = calloc(1, sizeof *w);

    if (!w)
        return;
    take_spans(g);
    *w = (struct write){.gpus = g, .n_ended = g->n_ended, .now_us = pl_clock_wall_us()};
    if (json_array_size(g->ended) > 0)
        w->spans = json_deep_copy(g->ended);
    if (n.held > 0 && pl_clock_mono_ms() - g->open_ms >= LOOK_HELD_MS) {
        json_t *open = pl_gpu_ledger_open(g->ledger);

        g->open_ms = pl_clock_mono_ms();
        w->spans = w->spans ? w->spans : json_array();
        if (open)
            json_array_append_new(w->spans, open);
    }
    if (changed)
        w->event = json_pack("{s:I, s:I, s:I, s:I}", "capacity", (json_int_t)n.capacity, "held", (json_int_t)n.held, "computing",
                             (json_int_t)n.computing, "idle", (json_int_t)n.idle);
    if ((!w->spans && !w->event) || pl_db_submit(e->config.db, PL_TX_UNLOGGED, write_tx, write_done, w, NULL) < 0) {
        json_decref(w->spans); /* the next write has them too */
        json_decref(w->event);
        free(w);
    }
}

/* Starts the timer, unless it fires earlier already. */
static void look_in(struct pl_egpus *g, int64_t ms)
{
    const int64_t now_ms = pl_clock_mono_ms(), due_ms = PL_MAX(now_ms + ms, g->next_ms);

    if (g->due_ms && g->due_ms <= due_ms)
        return;
    g->due_ms = due_ms;
    pl_timer_start(g->timer, (uint64_t)(due_ms - now_ms));
}

static void look(void *arg)
{
    struct pl_engine *e = arg;
    struct pl_egpus *g = e->gpus;
    const int64_t from_us = pl_clock_mono_us();
    json_t *report = e->failed ? NULL : pl_engine_gpus_json(e);
    bool changed = false;
    int64_t took_ms;

    g->due_ms = 0;
    if (!report)
        return;
    if (pl_gpu_ledger_see(g->ledger, pl_clock_wall_us(), report, &changed, NULL) == 0) {
        write_spans(e, changed || g->changed);
        g->changed = false;
    }
    json_decref(report);
    took_ms = e->executor->ops->shape ? (pl_clock_mono_us() - from_us) / 1000 : 0;
    g->next_ms = pl_clock_mono_ms() + PL_MAX((int64_t)LOOK_APART_MS, LOOK_SHARE * took_ms);
    /* who holds the GPUs of a cluster changes without the engine: other people's pods come and go */
    look_in(g, e->executor->ops->shape || pl_gpu_ledger_counts(g->ledger).held > 0 ? LOOK_HELD_MS : LOOK_REST_MS);
}

void pl_engine_gpus_touch(struct pl_engine *e)
{
    if (e->gpus)
        look_in(e->gpus, 0);
}

struct asked {
    struct pl_engine *engine;
    json_t *spans;
};

static void do_spans(void *arg)
{
    struct asked *a = arg;
    struct pl_egpus *g = a->engine->gpus;
    json_t *open, *report, *copy;
    bool changed = false;

    if (!g)
        return;
    report = pl_engine_gpus_json(a->engine);
    /* the sums are to go up to now; the next look tells of a change, which keeps the pace of the events */
    if (pl_gpu_ledger_see(g->ledger, pl_clock_wall_us(), report, &changed, NULL) == 0 && changed) {
        g->changed = true;
        look_in(g, 0);
    }
    json_decref(report);
    take_spans(g);
    open = pl_gpu_ledger_open(g->ledger);
    copy = json_deep_copy(g->ended); /* the caller is another thread */
    json_array_extend(a->spans, copy);
    json_decref(copy);
    if (open)
        json_array_append_new(a->spans, open);
}

json_t *pl_engine_gpu_spans(void *self)
{
    struct asked a = {.engine = self, .spans = json_array()};

    (void)!pl_engine_call(self, do_spans, &a, NULL);
    return a.spans;
}

/* ---- start and end ---- */

int pl_engine_gpus_start(struct pl_engine *e, uint32_t slots, struct pl_err *err)
{
    struct pl_egpus *g;
    int r;

    if (slots == 0 && !e->executor->ops->shape)
        return 0;
    g = calloc(1, sizeof *g);
    if (!g)
        return pl_err_nomem(err);
    e->gpus = g;
    g->ended = json_array();
    r = pl_gpu_ledger_create(&g->ledger, err);
    r = r < 0 ? r : pl_timer_create(e->config.loop, "engine.gpus", look, e, &g->timer, err);
    if (r < 0) {
        pl_engine_gpus_finish(e);
        return r;
    }
    look_in(g, 0);
    return 0;
}

void pl_engine_gpus_end(struct pl_engine *e)
{
    if (!e->gpus)
        return;
    pl_timer_stop(e->gpus->timer);
    pl_gpu_ledger_end(e->gpus->ledger, pl_clock_wall_us());
    write_spans(e, false);
}

void pl_engine_gpus_finish(struct pl_engine *e)
{
    struct pl_egpus *g = e->gpus;

    if (!g)
        return;
    pl_timer_destroy(g->timer);
    pl_gpu_ledger_destroy(g->ledger);
    json_decref(g->report);
    json_decref(g->ended);
    free(g);
    e->gpus = NULL;
}
