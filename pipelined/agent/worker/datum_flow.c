/* Uses one mutex, and one condition variable for each thread. A thread is signalled only when it has
 * something to do. */
#include "pipelined/agent/worker/datum_flow.h"

#include "pipelined/agent/connection/task_lease.h"
#include "storage/base/clock.h"
#include "storage/system/timed_cond.h"
#include <pthread.h>
#include <time.h>

STAILQ_HEAD(rows, pl_datum_flow_item);

struct pl_flow {
    pthread_mutex_t lock;                  /* guards the fields below */
    pthread_cond_t fetch, compute, upload; /* condition variables, one for each thread */
    LIST_HEAD(, pl_datum_flow_task) tasks;
    unsigned n_tasks;
    struct pl_datum_flow_item *fetched; /* datum whose inputs wait or are being put in place; NULL = none */
    /* the compute thread is working on a datum */
    bool computing;
    int64_t computed_us; /* monotonic time up to which the worker's time was assigned to datums */
    /* datums that wait for the upload thread */
    struct rows computed;
    size_t under_way; /* number of datums that were fetched and are not yet uploaded */
    bool folder_used[PL_DATUM_FLOW_BEHIND];
    bool no_more;   /* no more datums to compute will follow */
    bool no_upload; /* no more datums to upload will follow */
    /* the fetch thread waits until no datum is in progress */
    bool waits_alone;
    int code; /* code of the failure; 0 = none */
    struct pl_err why;
};

int pl_datum_flow_create(struct pl_flow **ret, struct pl_err *err)
{
    struct pl_flow *f = calloc(1, sizeof(*f));

    if (!f)
        return pl_err_nomem(err);
    pthread_mutex_init(&f->lock, NULL);
    pl_timed_cond_init(&f->fetch);
    pl_timed_cond_init(&f->compute);
    pl_timed_cond_init(&f->upload);
    LIST_INIT(&f->tasks);
    STAILQ_INIT(&f->computed);
    *ret = f;
    return 0;
}

static void task_free(struct pl_datum_flow_task *t)
{
    for (size_t i = 0; t->outcomes && i < t->task.n_rows; i++)
        pl_agent_protocol_outcome_finish(&t->outcomes[i]);
    free(t->outcomes);
    free(t->rows);
    pl_agent_protocol_task_finish(&t->task);
    free(t);
}

struct pl_flow *pl_datum_flow_destroy(struct pl_flow *f)
{
    if (!f)
        return NULL;
    for (struct pl_datum_flow_task *t = LIST_FIRST(&f->tasks), *next; t; t = next) {
        next = LIST_NEXT(t, link);
        task_free(t);
    }
    pthread_cond_destroy(&f->fetch);
    pthread_cond_destroy(&f->compute);
    pthread_cond_destroy(&f->upload);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

/* ---- fetch ---- */

bool pl_datum_flow_may_ask(struct pl_flow *f, bool alone)
{
    bool may;

    pthread_mutex_lock(&f->lock);
    while (!f->code && f->n_tasks >= (alone ? 1 : PL_TASK_LEASE_TASKS_MAX))
        pthread_cond_wait(&f->fetch, &f->lock);
    may = !f->code;
    pthread_mutex_unlock(&f->lock);
    return may;
}

int pl_datum_flow_add(struct pl_flow *f, struct pl_agent_protocol_task *task, struct pl_datum_flow_task **ret, struct pl_err *err)
{
    struct pl_datum_flow_task *t = calloc(1, sizeof(*t));

    if (!t) {
        pl_agent_protocol_task_finish(task);
        return pl_err_nomem(err);
    }
    t->task = *task;
    *task = (struct pl_agent_protocol_task){0};
    t->outcomes = calloc(t->task.n_rows, sizeof(*t->outcomes));
    t->rows = calloc(t->task.n_rows, sizeof(*t->rows));
    if (!t->outcomes || !t->rows) {
        task_free(t);
        return pl_err_nomem(err);
    }
    for (size_t i = 0; i < t->task.n_rows; i++) {
        t->outcomes[i].index = t->task.rows[i].index;
        t->rows[i] = (struct pl_datum_flow_item){
            .task = t, .row = &t->task.rows[i], .outcome = &t->outcomes[i], .folder = -1, .last = i + 1 == t->task.n_rows};
    }
    pthread_mutex_lock(&f->lock);
    LIST_INSERT_HEAD(&f->tasks, t, link);
    f->n_tasks++;
    pthread_mutex_unlock(&f->lock);
    *ret = t;
    return 0;
}

bool pl_datum_flow_wait_room(struct pl_flow *f, bool alone)
{
    bool room;

    pthread_mutex_lock(&f->lock);
    while (!f->code && (f->fetched || (alone && f->under_way > 0))) {
        f->waits_alone = alone;
        if (alone)
            /* wake the upload thread, in whose queue datums without output may be waiting */
            pthread_cond_signal(&f->upload);
        pthread_cond_wait(&f->fetch, &f->lock);
    }
    f->waits_alone = false;
    room = !f->code;
    pthread_mutex_unlock(&f->lock);
    return room;
}

bool pl_datum_flow_is_full(struct pl_flow *f)
{
    bool full;

    pthread_mutex_lock(&f->lock);
    full = !f->code && f->fetched != NULL;
    pthread_mutex_unlock(&f->lock);
    return full;
}

bool pl_datum_flow_given_back(struct pl_flow *f, const struct pl_datum_flow_item *row)
{
    bool given_back;

    pthread_mutex_lock(&f->lock);
    given_back = row->given_back;
    pthread_mutex_unlock(&f->lock);
    return given_back;
}

bool pl_datum_flow_busy(struct pl_flow *f)
{
    bool busy;

    pthread_mutex_lock(&f->lock);
    busy = f->under_way > 0;
    pthread_mutex_unlock(&f->lock);
    return busy;
}

void pl_datum_flow_fetched(struct pl_flow *f, struct pl_datum_flow_item *row)
{
    pthread_mutex_lock(&f->lock);
    f->fetched = row;
    f->under_way++;
    pthread_cond_signal(&f->compute);
    pthread_mutex_unlock(&f->lock);
}

void pl_datum_flow_close_input(struct pl_flow *f)
{
    pthread_mutex_lock(&f->lock);
    f->no_more = true;
    pthread_cond_signal(&f->compute);
    pthread_mutex_unlock(&f->lock);
}

/* ---- compute ---- */

struct pl_datum_flow_item *pl_datum_flow_next(struct pl_flow *f)
{
    struct pl_datum_flow_item *row;

    pthread_mutex_lock(&f->lock);
    while (!f->code && !f->fetched && !f->no_more)
        pthread_cond_wait(&f->compute, &f->lock);
    row = f->code ? NULL : f->fetched;
    f->computing = row != NULL;
    if (row)
        row->begun = !row->given_back;
    if (!row) {
        f->no_upload = true;
        pthread_cond_signal(&f->upload);
    }
    pthread_mutex_unlock(&f->lock);
    return row;
}

void pl_datum_flow_placed(struct pl_flow *f)
{
    pthread_mutex_lock(&f->lock);
    f->fetched = NULL;
    pthread_cond_signal(&f->fetch);
    pthread_mutex_unlock(&f->lock);
}

static int free_folder(const struct pl_flow *f)
{
    for (unsigned i = 0; i < PL_DATUM_FLOW_BEHIND; i++)
        if (!f->folder_used[i])
            return (int)i;
    return -1;
}

bool pl_datum_flow_take_folder(struct pl_flow *f, struct pl_datum_flow_item *row)
{
    int folder;

    pthread_mutex_lock(&f->lock);
    while ((folder = free_folder(f)) < 0 && !f->code)
        pthread_cond_wait(&f->compute, &f->lock);
    if (folder >= 0)
        f->folder_used[folder] = true;
    pthread_mutex_unlock(&f->lock);
    row->folder = folder;
    return folder >= 0;
}

void pl_datum_flow_return_folder(struct pl_flow *f, struct pl_datum_flow_item *row)
{
    pthread_mutex_lock(&f->lock);
    f->folder_used[row->folder] = false;
    pthread_mutex_unlock(&f->lock);
    row->folder = -1;
}

int64_t pl_datum_flow_held(struct pl_flow *f, int64_t not_before_us, int64_t *ret_from_us)
{
    int64_t now_us = pl_clock_mono_us(), from_us;

    pthread_mutex_lock(&f->lock);
    from_us = PL_MAX(f->computed_us, not_before_us);
    f->computed_us = now_us;
    pthread_mutex_unlock(&f->lock);
    *ret_from_us = from_us;
    return now_us - from_us;
}

void pl_datum_flow_computed(struct pl_flow *f, struct pl_datum_flow_item *row)
{
    pthread_mutex_lock(&f->lock);
    f->computing = false;
    STAILQ_INSERT_TAIL(&f->computed, row, link);
    /* a datum without output does not wake the upload thread; it is handled together with the next one that
     * does */
    if (row->folder >= 0 || row->last || f->waits_alone)
        pthread_cond_signal(&f->upload);
    pthread_mutex_unlock(&f->lock);
}

/* ---- upload ---- */

struct pl_datum_flow_item *pl_datum_flow_to_upload(struct pl_flow *f, int64_t timeout_ms, bool *ret_over)
{
    const int64_t until_ms = pl_clock_mono_ms() + timeout_ms;
    const struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    struct pl_datum_flow_item *row;

    pthread_mutex_lock(&f->lock);
    while (!f->code && STAILQ_EMPTY(&f->computed) && !f->no_upload)
        if (pthread_cond_timedwait(&f->upload, &f->lock, &until) == ETIMEDOUT)
            break;
    row = f->code ? NULL : STAILQ_FIRST(&f->computed);
    if (row)
        STAILQ_REMOVE_HEAD(&f->computed, link);
    *ret_over = f->code || (!row && f->no_upload);
    pthread_mutex_unlock(&f->lock);
    return row;
}

void pl_datum_flow_uploaded(struct pl_flow *f, struct pl_datum_flow_item *row)
{
    pthread_mutex_lock(&f->lock);
    f->under_way--;
    if (row->folder >= 0) {
        f->folder_used[row->folder] = false;
        pthread_cond_signal(&f->compute);
    }
    if (f->waits_alone)
        pthread_cond_signal(&f->fetch);
    pthread_mutex_unlock(&f->lock);
}

int64_t pl_datum_flow_held_more(struct pl_flow *f)
{
    int64_t now_us = pl_clock_mono_us(), more_us = 0;

    pthread_mutex_lock(&f->lock);
    if (!f->computing && !f->fetched && STAILQ_EMPTY(&f->computed)) {
        more_us = now_us - f->computed_us;
        f->computed_us = now_us;
    }
    pthread_mutex_unlock(&f->lock);
    return more_us;
}

void pl_datum_flow_handed_in(struct pl_flow *f, struct pl_datum_flow_task *task)
{
    pthread_mutex_lock(&f->lock);
    LIST_REMOVE(task, link);
    f->n_tasks--;
    pthread_cond_signal(&f->fetch);
    pthread_mutex_unlock(&f->lock);
    task_free(task);
}

/* ---- giving back rows that other workers will run ---- */

static bool is_task(const struct pl_datum_flow_task *t, const struct pl_agent_protocol_lease *lease)
{
    return t->task.lease.fence == lease->fence && pl_streq(t->task.lease.task, lease->task);
}

uint32_t *pl_datum_flow_recall(struct pl_flow *f, const struct pl_agent_protocol_lease *lease, size_t *ret_n, bool *ret_whole)
{
    struct pl_datum_flow_task *t;
    uint32_t *rows;
    size_t n = 0;

    pthread_mutex_lock(&f->lock);
    for (t = LIST_FIRST(&f->tasks); t && !is_task(t, lease);)
        t = LIST_NEXT(t, link);
    rows = t ? malloc(t->task.n_rows * sizeof(*rows)) : NULL;
    for (size_t i = 0; rows && i < t->task.n_rows; i++) {
        struct pl_datum_flow_item *row = &t->rows[i];

        if (!row->begun && !row->given_back)
            /* `given_back` is never reset, so the compute thread may read it without the lock */
            row->given_back = true;
        if (row->given_back)
            rows[n++] = row->row->index;
    }
    *ret_whole = rows && n == t->task.n_rows;
    pthread_mutex_unlock(&f->lock);
    *ret_n = n;
    return rows;
}

/* ---- the end ---- */

void pl_datum_flow_fail(struct pl_flow *f, int code, const struct pl_err *why)
{
    pthread_mutex_lock(&f->lock);
    if (!f->code) {
        f->code = code;
        f->why = *why;
    }
    pthread_cond_broadcast(&f->fetch);
    pthread_cond_broadcast(&f->compute);
    pthread_cond_broadcast(&f->upload);
    pthread_mutex_unlock(&f->lock);
}

int pl_datum_flow_result(struct pl_flow *f, struct pl_err *err)
{
    int code;

    pthread_mutex_lock(&f->lock);
    code = f->code;
    if (code && err)
        *err = f->why;
    pthread_mutex_unlock(&f->lock);
    return code;
}
