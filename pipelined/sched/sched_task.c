/* sched_task: the datums of jobs. It keeps waiting datums in bins of equal history, forms tasks from them,
 * leases tasks to workers, handles their results, and returns the datums of lost tasks. */
#include <stdio.h>

#include "pipelined/sched/sched_internal.h"

/* ---- waiting datums ---- */

/* Adds datums to a bin with the same history, or to an empty or new bin. */
void pl_sched_datums_wait(struct pl_sched *s, struct rows *rows, const struct pl_datum_ranges *which, uint32_t failures,
                          uint32_t losses, int64_t not_before)
{
    struct bin *bin = NULL;

    for (size_t i = 0; i < rows->n_bins && !bin; i++) {
        struct bin *b = &rows->bins[i];
        bool alike =
            (b->not_before <= s->now && not_before <= s->now) || b->not_before == not_before || rows->n_bins >= BINS_APART_MAX;

        if (b->rows.count == 0 || (b->failures == failures && b->losses == losses && alike))
            bin = b;
    }
    if (!bin) {
        if (!pl_sched_grow(s, &rows->bins, rows->n_bins, &rows->cap_bins, sizeof(*rows->bins)))
            return;
        bin = &rows->bins[rows->n_bins++];
        *bin = (struct bin){.not_before = not_before};
    }
    bin->not_before = bin->rows.count == 0 ? not_before : PL_MIN(bin->not_before, not_before);
    bin->failures = failures;
    bin->losses = losses;
    if (!pl_datum_ranges_add_all(&bin->rows, which))
        s->oom = true;
    rows->waiting += which->count;
}

struct rows *pl_sched_datums_make(struct pl_sched *s, uint64_t datums, uint32_t to_run)
{
    struct rows *rows = pl_sched_calloc(s, 1, sizeof(*rows));
    struct pl_sched_range all = {0, to_run};
    struct pl_datum_ranges which = {.items = &all, .n = 1, .count = to_run};

    if (!rows)
        return NULL;
    rows->datums = datums;
    rows->to_run = to_run;
    TAILQ_INIT(&rows->tasks);
    if (to_run > 0)
        pl_sched_datums_wait(s, rows, &which, 0, 0, 0);
    return rows;
}

void pl_sched_datums_leave(struct pl_sched *s, struct rows *rows, const struct pl_sched_plan *plan)
{
    const struct pl_sched_row *first = &plan->first_failed;

    for (size_t i = 0; i < plan->n_untried && rows->n_bins > 0; i++) {
        const struct pl_sched_range *r = &plan->untried[i];

        if (!pl_datum_ranges_remove(&rows->bins[0].rows, r->lo, r->hi))
            s->oom = true;
        rows->untried += r->hi - r->lo;
    }
    rows->waiting -= rows->untried;
    rows->recovered = plan->recovered;
    rows->failed = rows->untried_failed = rows->untried - plan->recovered;
    if (rows->failed == 0)
        return;
    rows->first_failed = first->index;
    rows->first_label = pl_sched_strdup(s, first->label);
    rows->first_message = pl_sched_strdup(s, first->message);
}

void pl_sched_datums_free(struct rows *rows)
{
    if (!rows)
        return;
    for (size_t i = 0; i < rows->n_bins; i++)
        pl_datum_ranges_finish(&rows->bins[i].rows);
    free(rows->bins);
    free(rows->first_label);
    free(rows->first_message);
    free(rows->last_loss);
    free(rows->disruption);
    pl_sched_nodes_forget(rows);
    free(rows);
}

uint32_t pl_sched_datums_ready(const struct pl_sched *s, const struct rows *rows)
{
    uint32_t ready = 0;

    for (size_t i = 0; i < rows->n_bins; i++)
        if (rows->bins[i].not_before <= s->now)
            ready += rows->bins[i].rows.count;
    return ready;
}

int64_t pl_sched_datums_next(const struct pl_sched *s, const struct rows *rows)
{
    int64_t next = PL_TIMER_NEVER;

    for (size_t i = 0; i < rows->n_bins; i++)
        if (rows->bins[i].rows.count > 0 && rows->bins[i].not_before > s->now)
            next = PL_MIN(next, rows->bins[i].not_before);
    return next;
}

/* Returns a bin with ready datums that the worker may have; if `w` is NULL, datums for any worker. */
static struct bin *bin_ready(const struct pl_sched *s, const struct rows *rows, const struct worker *w)
{
    const bool barred = w && pl_sched_node_is_avoided(s, rows, w);

    for (size_t i = 0; i < rows->n_bins; i++)
        if (rows->bins[i].rows.count > 0 && rows->bins[i].not_before <= s->now && !(barred && rows->bins[i].losses > 0))
            return &rows->bins[i];
    return NULL;
}

/* ---- leases ---- */

static uint32_t share(uint32_t rows, uint32_t among)
{
    return (uint32_t)(((uint64_t)rows + among - 1) / among);
}

static uint64_t mean_us(const struct rows *rows)
{
    return PL_MAX(rows->compute_us / rows->measured, 1);
}

/* Returns the number of datums for the next task from the bin; sched.h states the rule ("Task size"). */
static uint32_t task_size(const struct rows *rows, const struct version *v, const struct bin *bin)
{
    uint32_t live = v->starting + v->idle + v->busy;
    uint64_t size = 1;

    if (rows->measured > 0)
        size = PL_MIN(PL_SCHED_AIM_MS * UINT64_C(1000) / mean_us(rows), rows->measured * 4);
    size = PL_MAX(size, share(rows->waiting, PL_SCHED_TASK_CUTS));
    size = PL_MIN(size, bin->losses < 16 ? PL_SCHED_TASK_ROWS_MAX >> (2 * PL_MIN(bin->losses, 7u)) : 0);
    size = PL_MIN(size, share(rows->waiting, PL_MAX(live, 1u)));
    return (uint32_t)PL_MIN(PL_MAX(size, 1u), bin->rows.count);
}

static uint64_t held_rows(const struct worker *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < w->n_tasks; i++)
        n += w->tasks[i]->open.count;
    return n;
}

/* True if datums of the bin may be leased to a busy worker ahead of time. Datums that failed or were lost
 * before are not leased ahead: such a datum should not wait behind another datum, which may take long, while
 * a worker is about to become free. */
static bool may_fetch_ahead(const struct pl_sched *s, const struct rows *rows, const struct bin *bin, const struct worker *w)
{
    const struct version *v = w->version;
    const uint32_t ready = pl_sched_datums_ready(s, rows), lacking = v->starting + v->idle;

    if (bin->failures > 0 || bin->losses > 0 || ready <= lacking)
        return false;
    if (rows->measured == 0)
        return ready >= (uint64_t)PL_SCHED_AHEAD_ROWS * (lacking + v->busy);
    if (w->n_tasks > 1)
        return mean_us(rows) * held_rows(w) <= PL_SCHED_AHEAD_MS * UINT64_C(1000);
    return mean_us(rows) <= PL_SCHED_AIM_MS * UINT64_C(1000);
}

struct pl_sched_action *pl_sched_task_action(struct pl_sched *s, const struct task *task, enum pl_sched_action_kind kind)
{
    struct pl_sched_action *a = pl_sched_action_new(s, kind);

    a->lease.worker = task->worker->id;
    a->lease.task = task->id;
    a->lease.fence = task->fence;
    a->lease.job = task->job->id;
    return a;
}

static struct pl_sched_action *say_rows(struct pl_sched *s, const struct task *task, enum pl_sched_action_kind kind)
{
    struct pl_sched_action *a = pl_sched_task_action(s, task, kind);

    a->lease.rows = pl_sched_keep(s, pl_datum_ranges_items(&task->open), task->open.n * sizeof(struct pl_sched_range));
    a->lease.n_rows = a->lease.rows ? task->open.n : 0;
    a->lease.count = task->open.count;
    a->lease.failures = task->failures;
    a->lease.losses = task->losses;
    return a;
}

static bool works_for(const struct worker *w, const struct job *job)
{
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i]->job == job)
            return true;
    return false;
}

struct task *pl_sched_task_make(struct pl_sched *s, struct job *job, struct worker *w, struct bin *bin, uint32_t size)
{
    struct task *task = pl_sched_calloc(s, 1, sizeof(*task));

    if (!task)
        return NULL;
    task->job = job;
    task->worker = w;
    task->failures = bin->failures;
    task->losses = bin->losses;
    task->expires = s->now + s->config.lease_ms;
    if (size > 0 && !pl_datum_ranges_take(&bin->rows, size, &task->open))
        s->oom = true;
    job->rows->waiting -= size;
    pl_sched_job_leased(s, job, size);
    if (!works_for(w, job))
        job->workers++;
    w->tasks[w->n_tasks++] = task;
    TAILQ_INSERT_TAIL(&job->rows->tasks, task, link);
    return task;
}

/* Appends LEASE, and JOB_STATE if this is the job's first lease. */
bool pl_sched_task_lease(struct pl_sched *s, struct job *job, struct worker *w)
{
    struct rows *rows = job->rows;
    struct bin *bin = bin_ready(s, rows, w);
    struct task *task;

    if (!bin || w->n_tasks >= PL_SCHED_WORKER_LEASES)
        return false;
    if (w->n_tasks > 0 && (w->recall || !may_fetch_ahead(s, rows, bin, w)))
        return false;
    task = pl_sched_task_make(s, job, w, bin, task_size(rows, w->version, bin));
    if (!task)
        return false;
    task->id = ++s->last_id;
    task->fence = ++s->last_id;
    (void)pl_sched_put(s, &s->tasks, &task->id, sizeof(task->id), task);
    job->leased = true;
    free(TAKE_PTR(rows->disruption));
    if (job->state == PL_SCHED_STARTING) {
        pl_sched_job_state(job, PL_SCHED_RUNNING);
        /* this comes before the LEASE, so that an observer sees the job running first */
        pl_sched_wait_reason_state(s, job);
    }
    pl_sched_worker_leased(s, w);
    say_rows(s, task, PL_SCHED_LEASE);
    return true;
}

/* ---- recall of datums behind a datum that takes long ---- */

static uint32_t idle_workers(const struct version *v)
{
    const struct worker *w;
    uint32_t n = 0;

    for (w = TAILQ_FIRST(&v->asking); w && w->n_tasks == 0; w = TAILQ_NEXT(w, asking_link))
        n++;
    return n;
}

void pl_sched_worker_ask_back(struct pl_sched *s, struct worker *w)
{
    for (size_t i = 0; i < w->n_tasks; i++) {
        w->tasks[i]->recalled = true;
        pl_sched_task_action(s, w->tasks[i], PL_SCHED_RECALL);
    }
    pl_sched_worker_recall(w, RECALL_ASKED);
}

void pl_sched_task_recall(struct pl_sched *s, struct job *job)
{
    struct version *v = job->version;
    uint32_t idle = idle_workers(v);
    struct task *task;

    if (v->recalls >= idle || bin_ready(s, job->rows, NULL))
        return;
    /* a worker that holds a single datum is running it, and has no datum to give back */
    for (task = TAILQ_FIRST(&job->rows->tasks); task && v->recalls < idle; task = TAILQ_NEXT(task, link))
        if (!task->worker->recall && held_rows(task->worker) > 1)
            pl_sched_worker_ask_back(s, task->worker);
}

void pl_sched_task_free(struct pl_sched *s, struct task *task)
{
    struct worker *w = task->worker;
    struct job *job = task->job;

    pl_sched_job_leased(s, job, -(int64_t)task->open.count);
    for (size_t i = 0; i < w->n_tasks; i++)
        if (w->tasks[i] == task)
            w->tasks[i] = w->tasks[--w->n_tasks];
    if (w->n_tasks == 0)
        pl_sched_worker_recall(w, NOT_RECALLED);
    if (!works_for(w, job))
        job->workers--;
    TAILQ_REMOVE(&job->rows->tasks, task, link);
    pl_sched_drop(&s->tasks, task->id);
    pl_datum_ranges_finish(&task->open);
    free(task);
    pl_sched_stage_dirty(s, job->stage);
}

int64_t pl_sched_backoff(uint32_t times)
{
    return PL_MIN(PL_SCHED_BACKOFF_MAX_MS, (int64_t)PL_SCHED_BACKOFF_MIN_MS << PL_MIN(PL_MAX(times, 1u) - 1, 10u));
}

/* Counts a failed datum. The job's reason names the failed datum with the lowest number. */
static void note_failed(struct pl_sched *s, struct rows *rows, uint32_t index, const char *label, const char *message)
{
    char number[32];

    rows->failed++;
    if (rows->first_message && rows->first_failed < index)
        return;
    if (!label) {
        snprintf(number, sizeof(number), "number %u", index);
        label = number;
    }
    free(rows->first_label);
    free(rows->first_message);
    rows->first_failed = index;
    rows->first_label = pl_sched_strdup(s, label);
    rows->first_message = pl_sched_strdup(s, message);
}

/* Marks all datums of the task that have not ended as failed, and appends an action for them. Returns the
 * action; the caller must add the last failure or the last loss to the counts in it. */
static struct pl_sched_action *give_up(struct pl_sched *s, struct task *task, const char *text)
{
    struct pl_sched_action *a = say_rows(s, task, PL_SCHED_GIVE_UP);
    const struct pl_sched_range *v = pl_datum_ranges_items(&task->open);

    a->lease.message = pl_sched_keep(s, text, strlen(text) + 1);
    for (size_t i = 0; i < task->open.n; i++)
        for (uint32_t row = v[i].lo; row < v[i].hi; row++)
            note_failed(s, task->job->rows, row, NULL, text);
    return a;
}

void pl_sched_task_failed(struct pl_sched *s, struct task *task, const char *text)
{
    const struct pl_sched_stage *def = &task->job->version->def;

    if (task->failures + 1 >= def->tries) {
        pl_sched_task_action(s, task, PL_SCHED_RETURNED);
        give_up(s, task, text)->lease.failures++;
    } else {
        struct pl_sched_action *a = say_rows(s, task, PL_SCHED_RETURNED);

        a->lease.failures++;
        a->lease.message = pl_sched_keep(s, text, strlen(text) + 1);
        pl_sched_datums_wait(s, task->job->rows, &task->open, task->failures + 1, task->losses, s->now);
    }
    pl_sched_task_free(s, task);
}

/* Returns how long datums wait that were lost `losses` times, the latest loss included. The first loss most often comes
 * from outside, so the datum is leased again at once. A datum that is lost again may be what ends its workers. */
static int64_t loss_backoff(uint32_t losses)
{
    return losses > 1 ? pl_sched_backoff(losses - 1) : 0;
}

/* A datum that was lost for the first time is leased again at once, one that was lost more often after a back-off;
 * after too many losses it counts as failed. */
void pl_sched_task_return(struct pl_sched *s, struct task *task, const char *loss)
{
    struct rows *rows = task->job->rows;
    struct pl_sched_action *a;
    char text[PL_SCHED_MESSAGE_MAX];

    if (!loss) {
        pl_sched_task_action(s, task, PL_SCHED_RETURNED);
        pl_sched_datums_wait(s, rows, &task->open, task->failures, task->losses, s->now);
    } else if (task->losses >= PL_SCHED_LOSSES_MAX) {
        a = pl_sched_task_action(s, task, PL_SCHED_RETURNED);
        a->lease.lost = true;
        a->lease.message = pl_sched_keep(s, loss, strlen(loss) + 1);
        snprintf(text, sizeof(text), "lost %u times with its worker: %s", task->losses + 1, loss);
        a = give_up(s, task, text);
        a->lease.losses++;
        a->lease.lost = true;
    } else {
        a = say_rows(s, task, PL_SCHED_RETURNED);
        a->lease.losses++;
        a->lease.lost = true;
        a->lease.message = pl_sched_keep(s, loss, strlen(loss) + 1);
        free(rows->last_loss);
        rows->last_loss = pl_sched_strdup(s, loss);
        free(TAKE_PTR(rows->disruption));
        if (loss_backoff(task->losses + 1) == 0)
            rows->disruption = pl_sched_strdup(s, loss);
        pl_sched_datums_wait(s, rows, &task->open, task->failures, task->losses + 1, s->now + loss_backoff(task->losses + 1));
    }
    pl_sched_task_free(s, task);
}

void pl_sched_task_disrupted(struct pl_sched *s, struct task *task, const char *why)
{
    struct pl_sched_action *a = say_rows(s, task, PL_SCHED_RETURNED);

    a->lease.lost = true;
    a->lease.message = pl_sched_keep(s, why, strlen(why) + 1);
    pl_sched_datums_wait(s, task->job->rows, &task->open, task->failures, task->losses, s->now);
    pl_sched_task_free(s, task);
}

struct task *pl_sched_task_held(const struct pl_sched *s, const struct worker *w, struct pl_sched_lease lease)
{
    struct task *task = pl_sched_get(&s->tasks, lease.task);

    return task && task->worker == w && task->fence == lease.fence ? task : NULL;
}

void pl_sched_task_lost(struct pl_sched *s, uint64_t worker, struct pl_sched_lease lease)
{
    struct pl_sched_action *a = pl_sched_action_new(s, PL_SCHED_LEASE_LOST);

    a->lease.worker = worker;
    a->lease.task = lease.task;
    a->lease.fence = lease.fence;
}

/* ---- results ---- */

static void row_wait(struct pl_sched *s, const struct task *task, uint32_t index, uint32_t failures, int64_t not_before)
{
    struct pl_sched_range one = {index, index + 1};
    struct pl_datum_ranges which = {.items = &one, .n = 1, .count = 1};

    pl_sched_datums_wait(s, task->job->rows, &which, failures, task->losses, not_before);
}

/* Handles the result of one datum: updates the counts, or lets the datum wait again. */
static enum pl_sched_verdict take_row(struct pl_sched *s, struct task *task, const struct pl_sched_row *row)
{
    struct rows *rows = task->job->rows;

    if (row->index >= rows->to_run || !pl_datum_ranges_has(&task->open, row->index, row->index + 1))
        return PL_SCHED_ROW_IGNORED;
    if (!pl_datum_ranges_remove(&task->open, row->index, row->index + 1))
        s->oom = true;
    pl_sched_job_leased(s, task->job, -1);
    /* a worker that is told to end gives back what it has; if it does so again, the datum waits a second, so
     * that it is not leased and given back in a fast loop */
    if (row->gave_back) {
        row_wait(s, task, row->index, task->failures, s->now + (task->worker->gave_back && !task->recalled ? 1000 : 0));
        return PL_SCHED_ROW_WAITING;
    }
    task->worker->productive = true;
    rows->measured++;
    if (!row->failed) {
        rows->done++;
        return PL_SCHED_ROW_DONE;
    }
    if (task->failures + 1 < task->worker->version->def.tries) {
        row_wait(s, task, row->index, task->failures + 1, s->now);
        return PL_SCHED_ROW_RETRY;
    }
    if (row->recovered) {
        rows->recovered++;
        return PL_SCHED_ROW_RECOVERED;
    }
    note_failed(s, rows, row->index, row->label, row->message);
    return PL_SCHED_ROW_FAILED;
}

/* Called after a result: a worker that ends gets nothing more, although it may have asked. One that finished a datum may
 * fetch ahead again, and a recalled worker that only gave datums back has answered the recall. */
static void note_given_back(struct worker *w, const struct task *task, const struct pl_sched_event *ev)
{
    if (ev->result.leaving)
        pl_sched_worker_stop_asking(w);
    for (size_t i = 0; i < ev->result.n; i++)
        if (!ev->result.rows[i].gave_back) {
            pl_sched_worker_recall(w, NOT_RECALLED);
            w->gave_back = false;
            return;
        }
    w->gave_back |= ev->result.n > 0 && !task->recalled;
    if (w->recall)
        pl_sched_worker_recall(w, RECALL_ANSWERED);
}

/* Handles event RESULT: appends an action RESULT with the outcome for each datum. Ends the task when all its
 * datums have ended. */
void pl_sched_task_result(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev)
{
    struct pl_sched_lease lease = {ev->result.task, ev->result.fence};
    struct task *task = pl_sched_task_held(s, w, lease);
    enum pl_sched_verdict *verdicts;
    struct pl_sched_action *a;

    if (!task) { /* this also covers the repeated result of a task that has ended */
        pl_sched_task_lost(s, w->id, lease);
        return;
    }
    verdicts = pl_sched_keep(s, NULL, PL_MAX(ev->result.n, 1u) * sizeof(*verdicts));
    if (!verdicts)
        return;
    for (size_t i = 0; i < ev->result.n; i++)
        verdicts[i] = take_row(s, task, &ev->result.rows[i]);
    a = pl_sched_action_new(s, PL_SCHED_RESULT);
    a->result.worker = w->id;
    a->result.task = lease.task;
    a->result.fence = lease.fence;
    a->result.job = task->job->id;
    a->result.task_done = task->open.count == 0;
    a->result.verdicts = verdicts;
    a->result.n = ev->result.n;
    note_given_back(w, task, ev);
    task->job->rows->compute_us += ev->result.compute_us;
    task->expires = s->now + s->config.lease_ms;
    pl_sched_stage_dirty(s, task->job->stage);
    if (task->open.count == 0)
        pl_sched_task_free(s, task);
    pl_sched_worker_settle(s, w);
}
