/* worker_record: what is recorded of each worker: which jobs it served, where, for how long, what it was
 * given, why it ended, and what was lost with it.
 *
 * A record lives from the worker's start until its end was handed to the scheduler. For each job that a
 * worker serves, the record has a service. A service begins when the worker is started for the job, or gets
 * its first task of it. When it ends (the worker ends, gets a task of another job while it holds none of this
 * one, or the job ends), one row of table `job_worker` is written. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* most leases that a row names as lost with its worker */
#define HELD_MAX 16

/* A worker's part in one job. */
struct service {
    LIST_ENTRY(service) of_job, of_worker;
    struct pl_worker_record *worker;
    struct pl_ejob *job; /* a reference */
    int64_t from_us;     /* wall clock */
    uint32_t tasks;      /* how many tasks of the job the worker was given */
    json_t *held;        /* leases that were lost: [[task, fence, number of datums]…] */
};

struct pl_worker_record {
    struct pl_engine *engine;
    uint64_t id;
    char project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1];
    char node[128], pod[PL_EXEC_POD_NAME_BYTES];
    uint32_t gpus;
    int64_t started_us, placed_us; /* wall clock; placed_us: when a node accepted it, 0 = none did so far */
    uint32_t held;                 /* how many tasks it holds */
    /* monotonic time since which the time of its tasks is in no job's totals; 0 = it never held a task */
    int64_t since_ms;
    bool told, killed, lost; /* it was told to end; to end at once; a lease was lost with it */
    bool attached;
    bool unmade;                       /* its pod was never made */
    char reason[PL_SCHED_MESSAGE_MAX]; /* why it was told to end; else why it ended */
    char leaves[PL_SCHED_MESSAGE_MAX]; /* why the cluster takes its pod away, which still runs; "" = it does not */
    LIST_HEAD(, service) services;
};

static struct pl_worker_record *record_of(struct pl_engine *e, uint64_t worker)
{
    return pl_map_get(&e->records, &worker, sizeof worker);
}

static struct service *service_of(const struct pl_worker_record *w, const struct pl_ejob *j)
{
    struct service *s;

    LIST_FOREACH(s, &w->services, of_worker)
    {
        if (s->job == j)
            return s;
    }
    return NULL;
}

static void service_free(struct service *s)
{
    LIST_REMOVE(s, of_job);
    LIST_REMOVE(s, of_worker);
    pl_engine_job_unref(s->job);
    json_decref(s->held);
    free(s);
}

void pl_worker_record_free(void *record)
{
    struct pl_worker_record *w = record;
    struct service *s;

    while ((s = LIST_FIRST(&w->services)))
        service_free(s);
    free(w);
}

/* ---- rows of table `job_worker` ---- */

struct row {
    char run[PL_ID_HEX + 1], project[PL_NAME_MAX_BYTES + 1], stage[PL_NAME_MAX_BYTES + 1];
    int64_t worker, started_us, ended_us, tasks, gpus, gpu_ms;
    bool lost;
    char pod[PL_EXEC_POD_NAME_BYTES], node[128], reason[PL_SCHED_MESSAGE_MAX];
    char *held;
};

static int row_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct row *w = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    int64_t job = 0;
    int r = pl_sql_int(c, err, &job, "SELECT id FROM job WHERE run = ? AND project = ? AND stage = ?", "sss", w->run, w->project,
                       w->stage);

    if (r < 0) /* a job that ended before it was written down has no workers to show */
        return r == PL_ENOTFOUND ? 0 : r;
    r = pl_sql_exec(
        c, err,
        "INSERT INTO job_worker(job, worker, lost, pod, node, started_us, ended_us, reason, tasks, held, gpus, gpu_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "iiissiisisii", job, w->worker, (int64_t)w->lost, w->pod, w->node, w->started_us, w->ended_us, w->reason, w->tasks,
        w->held ? w->held : "[]", w->gpus, w->gpu_ms);
    r = r < 0 ? r
              : pl_sql_exec(c, err,
                            "DELETE FROM job_worker WHERE job = ?1 AND lost = ?2 AND id <= (SELECT id FROM job_worker"
                            " WHERE job = ?1 AND lost = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
                            "iii", job, (int64_t)w->lost, (int64_t)PL_JOB_WORKERS_KEPT);
    return PL_MIN(r, 0);
}

static void row_done(void *arg, int r, const struct pl_err *err)
{
    struct row *w = arg;

    if (r < 0)
        pl_log_warn("engine", "cannot record that worker %" PRId64 " served stage %s: %s", w->worker, w->stage, err->msg);
    free(w->held);
    free(w);
}

/* Returns the time for which the worker held its GPUs for the job until `to_us`, times their number, in ms. A
 * pod holds none before a node accepts it. */
static int64_t gpu_ms_of(const struct service *s, int64_t to_us)
{
    const struct pl_worker_record *w = s->worker;
    const int64_t from_us = PL_MAX(s->from_us, w->placed_us);

    return w->placed_us && to_us > from_us ? (to_us - from_us) / 1000 * w->gpus : 0;
}

/* Writes the row of a service, and ends the service. */
static void service_end(struct service *s, const char *reason, bool lost)
{
    const struct pl_worker_record *w = s->worker;
    struct row *row = calloc(1, sizeof *row);

    if (row) { /* without memory the service is not recorded */
        *row = (struct row){.worker = (int64_t)w->id, .started_us = s->from_us, .tasks = s->tasks, .gpus = w->gpus, .lost = lost};
        row->ended_us = pl_clock_wall_us();
        row->gpu_ms = gpu_ms_of(s, row->ended_us);
        row->held = pl_json_text(s->held, JSON_COMPACT);
        snprintf(row->run, sizeof row->run, "%s", s->job->run);
        snprintf(row->project, sizeof row->project, "%s", w->project);
        snprintf(row->stage, sizeof row->stage, "%s", w->stage);
        snprintf(row->pod, sizeof row->pod, "%s", w->pod);
        snprintf(row->node, sizeof row->node, "%s", w->node);
        snprintf(row->reason, sizeof row->reason, "%s", reason);
        pl_engine_submit(w->engine, PL_TX_UNLOGGED, row_tx, row_done, row);
    }
    service_free(s);
}

/* Returns the worker's service for the job; begins it if there is none, and then ends those for jobs of which
 * the worker holds no task. NULL without memory. */
static struct service *serve(struct pl_worker_record *w, struct pl_ejob *j, int64_t from_us)
{
    struct service *s = service_of(w, j), *next;

    if (s || j->over)
        return s;
    for (struct service *old = w->held ? NULL : LIST_FIRST(&w->services); old; old = next) {
        char text[64];

        next = LIST_NEXT(old, of_worker);
        snprintf(text, sizeof text, "it went on to run %.8s", j->run);
        service_end(old, text, false);
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct service){.worker = w, .job = pl_engine_job_ref(j), .from_us = from_us, .held = json_array()};
    LIST_INSERT_HEAD(&j->services, s, of_job);
    LIST_INSERT_HEAD(&w->services, s, of_worker);
    return s;
}

/* ---- a worker's life ---- */

void pl_worker_record_begin(struct pl_engine *e, const struct pl_eworker *w, struct pl_ejob *j, int64_t started_us)
{
    struct pl_worker_record *record = calloc(1, sizeof *record);
    const char *pod = e->executor->ops->pod_name ? e->executor->ops->pod_name(e->executor, w->id) : NULL;

    if (!record || pl_map_put(&e->records, &w->id, sizeof w->id, record, NULL, NULL) < 0) {
        free(record);
        return;
    }
    *record = (struct pl_worker_record){.engine = e, .id = w->id, .started_us = started_us};
    LIST_INIT(&record->services);
    snprintf(record->project, sizeof record->project, "%s", w->stage->project);
    snprintf(record->stage, sizeof record->stage, "%s", w->stage->def->name);
    snprintf(record->node, sizeof record->node, "%s", w->host);
    snprintf(record->pod, sizeof record->pod, "%s", pod ? pod : "");
    record->gpus = w->pod == PL_POD_WITH_GPU ? w->stage->def->gpu.count : w->n_gpus;
    record->placed_us = w->pod == PL_NO_POD || *w->host ? started_us : 0;
    record->attached = w->attached || *w->incarnation;
    if (j)
        serve(record, j, started_us);
}

void pl_worker_record_placed(struct pl_engine *e, uint64_t worker, const char *node)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (!w || !*node)
        return;
    snprintf(w->node, sizeof w->node, "%s", node);
    if (!w->placed_us)
        w->placed_us = pl_clock_wall_us();
}

void pl_worker_record_leased(struct pl_engine *e, uint64_t worker, struct pl_ejob *j, int64_t since_us)
{
    struct pl_worker_record *w = record_of(e, worker);
    const int64_t ago_us = pl_clock_wall_us() - since_us;
    struct service *s = w ? serve(w, j, since_us) : NULL;
    int64_t from_ms;

    if (!w)
        return;
    from_ms = pl_clock_mono_ms() - PL_MAX(ago_us, 0) / 1000;
    w->since_ms = w->held++ == 0 ? from_ms : PL_MIN(w->since_ms, from_ms); /* after a restart the newest lease comes first */
    w->attached = true;
    if (s)
        s->tasks++;
}

void pl_worker_record_reported(struct pl_engine *e, uint64_t worker)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (w)
        w->since_ms = pl_clock_mono_ms();
}

void pl_worker_record_released(struct pl_engine *e, uint64_t worker)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (w && w->held > 0)
        w->held--;
}

static void count_lost(const struct pl_worker_record *w, struct pl_ejob *j, int64_t ms, uint32_t datums)
{
    j->totals.lost += datums;
    j->totals.lost_ms += (uint64_t)ms;
    j->totals.held_ms += (uint64_t)ms;
    j->totals.gpu_lost_ms += (uint64_t)ms * w->gpus;
    j->totals.gpu_ms += (uint64_t)ms * w->gpus;
    j->totals.gpus = PL_MAX(j->totals.gpus, w->gpus);
}

/* Returns what is known of an attempt that ended with its worker. */
static json_t *outcome_of(const struct pl_worker_record *w, const char *reason, int64_t ms)
{
    return json_pack("{s:s, s:s, s:I, s:s*, s:I, s:{s:I}}", "reason", reason, "node", w->node, "worker", (json_int_t)w->id, "pod",
                     *w->pod ? w->pod : NULL, "gpus", (json_int_t)w->gpus, "ms", "held", (json_int_t)ms);
}

json_t *pl_worker_record_given_back(struct pl_engine *e, uint64_t worker, bool leaving, struct pl_ejob *j, int64_t ms)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (!w)
        return NULL;
    count_lost(w, j, ms, 1);
    w->since_ms = pl_clock_mono_ms();
    return outcome_of(w,
                      w->told && *w->reason ? w->reason
                      : *w->leaves          ? w->leaves
                      : leaving             ? "its worker was told to end"
                                            : "its worker gave it back",
                      ms);
}

json_t *pl_worker_record_lost(struct pl_engine *e, const struct pl_sched_action *a, struct pl_ejob *j)
{
    struct pl_worker_record *w = record_of(e, a->lease.worker);
    struct service *s = w ? service_of(w, j) : NULL;
    const int64_t now_ms = pl_clock_mono_ms();
    int64_t ms;

    if (!w)
        return NULL;
    ms = w->since_ms ? now_ms - w->since_ms : 0;
    w->since_ms = now_ms;
    w->lost = true;
    if (a->lease.lost)
        count_lost(w, j, ms, a->lease.count);
    if (s && json_array_size(s->held) < HELD_MAX)
        json_array_append_new(s->held, json_pack("[I, I, I]", (json_int_t)a->lease.task, (json_int_t)a->lease.fence,
                                                 (json_int_t)a->lease.count));
    return outcome_of(w, a->lease.message ? a->lease.message : "", ms);
}

const char *pl_worker_record_pod(struct pl_engine *e, uint64_t worker)
{
    const struct pl_worker_record *w = record_of(e, worker);

    return w ? w->pod : "";
}

void pl_worker_record_where(struct pl_engine *e, uint64_t worker, char out[PL_WORKER_WHERE_BYTES])
{
    const struct pl_worker_record *w = record_of(e, worker);

    *out = '\0';
    if (w && *w->node)
        snprintf(out, PL_WORKER_WHERE_BYTES, *w->pod ? "pod %s, node %s" : "%snode %s", w->pod, w->node);
}

/* Copies a reason. It may have come cut in the midst of a character, of which no JSON can be made. */
static void copy_reason(char out[PL_SCHED_MESSAGE_MAX], const char *reason)
{
    snprintf(out, PL_SCHED_MESSAGE_MAX, "%s", reason);
    pl_utf8_clean(out);
}

void pl_worker_record_leaves(struct pl_engine *e, uint64_t worker, const char *why)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (w)
        copy_reason(w->leaves, why);
}

void pl_worker_record_told(struct pl_engine *e, uint64_t worker, bool kill, const char *reason)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (!w)
        return;
    if (!w->told)
        copy_reason(w->reason, reason ? reason : "");
    w->told = true;
    w->killed |= kill;
}

void pl_worker_record_ended(struct pl_engine *e, uint64_t worker, bool attached, const struct pl_executor_end *end)
{
    struct pl_worker_record *w = record_of(e, worker);

    if (!w)
        return;
    w->attached |= attached;
    /* a pod that had a node, or whose agent attached, was made, though nothing is left of it */
    w->unmade = end->exit == PL_SCHED_EXIT_UNMADE && !w->attached && !w->placed_us;
    if (!w->told)
        copy_reason(w->reason, end->text);
}

/* Ends the record of a worker that was only written down: it served no job, so no row is written. */
static void finish_unmade(struct pl_worker_record *w)
{
    pl_log_info("engine", "worker %" PRIu64 " of stage %s/%s was not started: %s", w->id, w->project, w->stage, w->reason);
    pl_worker_record_free(w);
}

void pl_engine_tell(const struct pl_engine *e, const char *reason, const char *fmt, ...)
{
    char text[PL_SCHED_MESSAGE_MAX + 2 * PL_NAME_MAX_BYTES];
    va_list ap;

    if (!e->executor->ops->tell)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e->executor->ops->tell(e->executor, reason, pl_utf8_clean(text));
}

/* A worker was lost if it was not told to end, or was killed before it attached, or held datums. */
void pl_worker_record_finish(struct pl_engine *e, uint64_t worker)
{
    struct pl_worker_record *w = pl_map_remove(&e->records, &worker, sizeof worker);
    char took[32];
    bool lost;

    if (!w)
        return;
    if (w->unmade && !w->lost) {
        finish_unmade(w);
        return;
    }
    lost = w->lost || !w->told || (w->killed && !w->attached && !LIST_EMPTY(&w->services));
    pl_log_info("engine", "worker %" PRIu64 " of stage %s/%s%s%s on %s %s after %s: %s", w->id, w->project, w->stage,
                *w->pod ? ", pod " : "", w->pod, *w->node ? w->node : "no node", lost ? "was lost" : "ended",
                pl_duration_text(PL_MAX(pl_clock_wall_us() - w->started_us, 0) / 1000, took), w->reason);
    if (lost && *w->pod && (*w->node || !w->told)) /* else the daemon itself took back a pod that waited */
        pl_engine_tell(e, "WorkerLost", "pod %s of stage %s/%s on %s was lost: %s", w->pod, w->project, w->stage,
                       *w->node ? w->node : "no node", w->reason);
    for (struct service *s; (s = LIST_FIRST(&w->services));)
        service_end(s, w->reason, lost);
    free(w);
}

void pl_worker_records_job_over(struct pl_ejob *j)
{
    for (struct service *s; (s = LIST_FIRST(&j->services));)
        service_end(s, "the job ended", json_array_size(s->held) > 0);
}

/* ---- after a restart ---- */

/* When the newest service ended that a worker of the engine has a row of: worker id → wall clock. */
struct ends {
    struct pl_map map;
    int64_t oldest_us; /* no worker of the engine is older */
};

/* Reads the ends. Rows are written as services end, so the search stops at the first row before all workers. */
static int read_ends(struct pl_engine *e, struct ends *ends, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const struct pl_map_slot *slot;
    int r;

    ends->oldest_us = INT64_MAX;
    for (size_t i = 0; (slot = pl_map_next(&e->records, &i));)
        ends->oldest_us = PL_MIN(ends->oldest_us, ((const struct pl_worker_record *)slot->value)->started_us);
    r = pl_sql_query(e->conn, err, &rows, "SELECT worker, ended_us FROM job_worker ORDER BY id DESC", "");
    while (r >= 0 && (r = pl_sql_next(e->conn, &rows, err)) > 0 && pl_col_int(&rows, 1) >= ends->oldest_us) {
        const uint64_t worker = (uint64_t)pl_col_int(&rows, 0);
        int64_t *at_us;

        if (!record_of(e, worker) || pl_map_get(&ends->map, &worker, sizeof worker))
            continue;
        at_us = malloc(sizeof *at_us);
        if (!at_us || pl_map_put(&ends->map, &worker, sizeof worker, at_us, NULL, NULL) < 0) {
            free(at_us);
            return pl_err_nomem(err);
        }
        *at_us = pl_col_int(&rows, 1);
    }
    return PL_MIN(r, 0);
}

/* Returns since when the worker has served the job, if it serves no other one longer: since its own start, or since it
 * served another job. */
static int64_t serves_since(const struct ends *ends, const struct pl_worker_record *w, const struct pl_ejob *j)
{
    const int64_t *end_us = pl_map_get(&ends->map, &w->id, sizeof w->id);

    return end_us ? PL_MAX(*end_us, j->started_us) : w->started_us;
}

/* Adds the tasks that ended before the restart to the services of the job. */
static int count_tasks(struct pl_engine *e, struct pl_ejob *j, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = LIST_EMPTY(&j->services) ? 0
                                     : pl_sql_query(e->conn, err, &rows,
                                                    "SELECT json_extract(detail, '$.worker') AS worker, count(DISTINCT fence)"
                                                    " FROM attempt WHERE job = ?1 AND worker IS NOT NULL"
                                                    " AND fence NOT IN (SELECT fence FROM lease WHERE job = ?1) GROUP BY worker",
                                                    "i", j->row);

    while (r >= 0 && !LIST_EMPTY(&j->services) && (r = pl_sql_next(e->conn, &rows, err)) > 0) {
        struct pl_worker_record *w = record_of(e, (uint64_t)pl_col_int(&rows, 0));
        struct service *s = w ? service_of(w, j) : NULL;

        if (s)
            s->tasks += (uint32_t)pl_col_int(&rows, 1);
    }
    return PL_MIN(r, 0);
}

/* Finds for each stage version its unfinished job with the lowest order. */
static void first_jobs(struct pl_engine *e, struct pl_map *first)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&e->jobs, &i));) {
        struct pl_ejob *j = slot->value;
        const struct pl_ejob *other = pl_map_get(first, &j->stage->version, sizeof j->stage->version);

        if (j->planned && (!other || j->order < other->order))
            (void)!pl_map_put(first, &j->stage->version, sizeof j->stage->version, j, NULL, NULL);
    }
}

int pl_worker_records_restored(struct pl_engine *e, struct pl_err *err)
{
    struct pl_map first = {0}; /* stage version → its first unfinished job */
    struct ends ends = {0};
    const struct pl_map_slot *slot;
    int r = read_ends(e, &ends, err);

    first_jobs(e, &first);
    for (size_t i = 0; r == 0 && (slot = pl_map_next(&e->workers, &i));) {
        const struct pl_eworker *w = slot->value;
        struct pl_worker_record *record = record_of(e, w->id);
        struct pl_ejob *j = pl_map_get(&first, &w->stage->version, sizeof w->stage->version);
        struct service *longest = NULL, *s;

        if (!record)
            continue;
        LIST_FOREACH(s, &record->services, of_worker)
        {
            if (!longest || s->from_us < longest->from_us)
                longest = s;
        }
        if (longest) /* it began with its first task of the job; the lease is that of the last one */
            longest->from_us = PL_MIN(longest->from_us, serves_since(&ends, record, longest->job));
        else if (j)
            serve(record, j, serves_since(&ends, record, j));
    }
    for (size_t i = 0; r == 0 && (slot = pl_map_next(&e->jobs, &i));)
        r = count_tasks(e, slot->value, err);
    pl_map_finish(&first, NULL);
    pl_map_finish(&ends.map, free);
    return r;
}

/* ---- for the API ---- */

static const char *state_of(const struct pl_worker_record *w)
{
    return w->told || *w->leaves ? "stopping" : w->held > 0 ? "running" : w->attached ? "idle" : "starting";
}

json_t *pl_worker_records_json(const struct pl_ejob *j)
{
    const int64_t now_us = pl_clock_wall_us();
    json_t *list = json_array();
    const struct service *s;

    LIST_FOREACH(s, &j->services, of_job)
    {
        const struct pl_worker_record *w = s->worker;

        if (json_array_size(list) == PL_JOB_WORKERS_SHOWN)
            break;
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:s*, s:s, s:I, s:n, s:s, s:I, s:o, s:I, s:I}", "worker", (json_int_t)w->id, "state",
                            state_of(w), "pod", *w->pod ? w->pod : NULL, "node", w->node, "started_us", (json_int_t)s->from_us,
                            "ended_us", "reason", w->told ? w->reason : w->leaves, "tasks", (json_int_t)s->tasks, "held",
                            json_copy(s->held), "gpus", (json_int_t)w->gpus, "gpu_ms", (json_int_t)gpu_ms_of(s, now_us)));
    }
    return list;
}
