/* sched_worker: the life of a worker from START_WORKER to its exit. Each state has a deadline; a worker that
 * misses it is stopped, and its tasks are returned. */
#include <stdio.h>

#include "pipelined/sched/sched_internal.h"
#include "storage/base/clock.h"

static uint32_t *state_count(struct worker *w)
{
    switch (w->state) {
    case WORKER_STARTING:
        return &w->version->starting;
    case WORKER_IDLE:
        return &w->version->idle;
    case WORKER_BUSY:
        return &w->version->busy;
    default:
        return &w->version->stopping;
    }
}

static void place_enter(struct pl_sched *s, struct worker *w)
{
    if (w->state == WORKER_IDLE)
        TAILQ_INSERT_TAIL(&s->idle, w, place_link);
    else if (w->state == WORKER_STARTING)
        TAILQ_INSERT_TAIL(&s->starting, w, place_link);
}

static void place_leave(struct pl_sched *s, struct worker *w)
{
    if (w->state == WORKER_IDLE)
        TAILQ_REMOVE(&s->idle, w, place_link);
    else if (w->state == WORKER_STARTING)
        TAILQ_REMOVE(&s->starting, w, place_link);
}

struct worker *pl_sched_worker_make(struct pl_sched *s, struct version *v, uint64_t id, enum worker_state state)
{
    struct worker *w = pl_sched_calloc(s, 1, sizeof(*w));

    if (!w || !pl_sched_put(s, &s->workers, &id, sizeof(id), w)) {
        free(w);
        return NULL;
    }
    w->id = id;
    w->version = v;
    w->state = state;
    w->since = w->seen = w->made = s->now;
    w->timer.kind = TIMER_WORKER;
    v->refs++;
    (*state_count(w))++;
    v->pipeline->workers++;
    pl_sched_fair_share_moved(v->pipeline);
    place_enter(s, w);
    TAILQ_INSERT_TAIL(&v->workers, w, version_link);
    return w;
}

void pl_sched_worker_stop_asking(struct worker *w)
{
    if (w->asking)
        TAILQ_REMOVE(&w->version->asking, w, asking_link);
    w->asking = false;
}

static void set_state(struct pl_sched *s, struct worker *w, enum worker_state state)
{
    if (state == w->state)
        return;
    place_leave(s, w);
    (*state_count(w))--;
    w->state = state;
    (*state_count(w))++;
    w->since = s->now;
    place_enter(s, w);
    pl_sched_stage_dirty(s, w->version->stage);
}

/* ---- deadlines ---- */

/* True if the worker must attach within a time limit. A pod that is not up has no such limit, nor has a process that waits
 * for its image: if they cannot start, the executor reports that. */
static bool has_limit(const struct pl_sched *s, const struct worker *w)
{
    return s->config.start_wait_ms >= 0 && (w->shape ? w->up : !w->why);
}

/* True if the worker has attached but does not ask for tasks: its command's container does not run yet. */
static bool is_unready(const struct worker *w)
{
    return w->state == WORKER_BUSY && w->n_tasks == 0 && !w->asking;
}

/* Returns the time at which a worker is stopped because its stage version has no unfinished job. */
static int64_t unused_until(const struct pl_sched *s, const struct worker *w)
{
    return w->version->unfinished > 0 ? PL_TIMER_NEVER : PL_MAX(w->version->unused_since, w->since) + s->config.linger_ms;
}

static int64_t starting_until(const struct pl_sched *s, const struct worker *w)
{
    int64_t at = has_limit(s, w) ? w->since + s->config.start_wait_ms : PL_TIMER_NEVER;

    if (w->avoids && w->pending)
        at = PL_MIN(at, w->since + PL_SCHED_ELSEWHERE_MS);
    return PL_MIN(at, unused_until(s, w));
}

static int64_t busy_until(const struct pl_sched *s, const struct worker *w)
{
    int64_t at = w->seen + s->config.lease_ms;

    for (size_t i = 0; i < w->n_tasks; i++)
        at = PL_MIN(at, w->tasks[i]->expires);
    return is_unready(w) ? PL_MIN(at, unused_until(s, w)) : at;
}

static int64_t linger_ms(const struct pl_sched *s, const struct worker *w)
{
    return PL_MAX(s->config.linger_ms, w->version->def.keep_warm_ms);
}

static int64_t worker_until(const struct pl_sched *s, const struct worker *w)
{
    switch (w->state) {
    case WORKER_STARTING:
        return starting_until(s, w);
    case WORKER_IDLE:
        return PL_MIN(w->since + linger_ms(s, w), w->seen + 2 * s->config.lease_ms);
    case WORKER_BUSY:
        return busy_until(s, w);
    default:
        return w->since + PL_SCHED_STOP_GRACE_MS;
    }
}

void pl_sched_worker_timer(struct pl_sched *s, struct worker *w)
{
    pl_sched_timer(s, &w->timer, worker_until(s, w));
}

static void say_stop(struct pl_sched *s, const struct worker *w, const char *reason)
{
    struct pl_sched_action *a = pl_sched_action_new(s, PL_SCHED_STOP_WORKER);

    a->worker.id = w->id;
    a->worker.stage = w->version->def.stage;
    a->worker.version = w->version->def.version;
    a->worker.kill = w->kill;
    a->worker.reason = pl_sched_keep(s, reason, strlen(reason) + 1);
}

void pl_sched_worker_stop(struct pl_sched *s, struct worker *w, bool kill, const char *reason)
{
    if (w->state == WORKER_STOPPING)
        return;
    pl_sched_worker_stop_asking(w);
    while (w->n_tasks > 0)
        pl_sched_task_return(s, w->tasks[0], reason);
    pl_sched_admit_leaving(s, w);
    set_state(s, w, WORKER_STOPPING);
    w->kill = kill;
    say_stop(s, w, reason);
    pl_sched_worker_timer(s, w);
}

/* Counts a failed start: the stage starts its next worker after a back-off that grows with each failure in a
 * row. Workers that were started together and fail together, for example with their node, count once. */
static void count_failure(struct pl_sched *s, struct version *v, const char *text)
{
    if (v->retry_at <= s->now) {
        v->start_failures++;
        v->retry_at = s->now + pl_sched_backoff(v->start_failures);
    }
    free(v->last_failure);
    v->last_failure = pl_sched_strdup(s, text);
}

static void idle_expired(struct pl_sched *s, struct worker *w)
{
    const struct job *next = TAILQ_FIRST(&w->version->stage->lane);

    if (s->now >= w->seen + 2 * s->config.lease_ms) {
        pl_sched_node_lost(s, w);
        pl_sched_worker_stop(s, w, true, "it stopped responding");
    } else if (next && next->version == w->version && (next->planning || w->version->recalls > 0)) {
        /* the worker will soon get work: keep it */
        pl_sched_timer(s, &w->timer, s->now + PL_MAX(s->config.linger_ms, 1000));
    } else {
        pl_sched_worker_stop(s, w, false, "nothing is left to do");
    }
}

static void busy_expired(struct pl_sched *s, struct worker *w)
{
    if (s->now >= w->seen + s->config.lease_ms) {
        pl_sched_node_lost(s, w);
        pl_sched_worker_stop(s, w, true, "its worker stopped responding");
        return;
    }
    if (is_unready(w) && s->now >= unused_until(s, w)) {
        pl_sched_worker_stop(s, w, !w->productive, "nothing is left to do");
        return;
    }
    for (size_t i = 0; i < w->n_tasks;) {
        if (w->tasks[i]->expires <= s->now)
            pl_sched_task_return(s, w->tasks[i], "its worker did not renew the lease");
        else
            i++;
    }
    pl_sched_worker_settle(s, w);
}

/* Handles a pod that avoids nodes and got no other node in time: forgets the losses, so that all nodes are
 * used again, and stops the pod so that a new one is made. */
static void nowhere_else(struct pl_sched *s, struct worker *w)
{
    struct job *job = TAILQ_FIRST(&w->version->stage->lane);
    char text[120], duration[32];

    if (job && job->rows)
        pl_sched_nodes_forget(job->rows);
    snprintf(text, sizeof(text), "only nodes on which workers were lost had room for it within %s",
             pl_duration_text(PL_SCHED_ELSEWHERE_MS, duration));
    pl_sched_worker_stop(s, w, true, text);
}

static void starting_expired(struct pl_sched *s, struct worker *w)
{
    char text[PL_SCHED_MESSAGE_MAX], duration[32];

    if (has_limit(s, w) && s->now >= w->since + s->config.start_wait_ms) {
        snprintf(text, sizeof(text), "it did not attach within %s%s%s", pl_duration_text(s->config.start_wait_ms, duration),
                 w->why ? ": " : "", w->why ? w->why : "");
        count_failure(s, w->version, text);
        pl_sched_node_lost(s, w);
        pl_sched_worker_stop(s, w, true, text);
    } else if (w->version->unfinished > 0 && w->avoids && w->pending) {
        nowhere_else(s, w);
    } else {
        pl_sched_worker_stop(s, w, true, "nothing is left to do");
    }
}

void pl_sched_worker_fire(struct pl_sched *s, struct worker *w)
{
    if (worker_until(s, w) > s->now) { /* the deadline was moved to a later time */
        pl_sched_worker_timer(s, w);
        return;
    }
    switch (w->state) {
    case WORKER_STARTING:
        starting_expired(s, w);
        break;
    case WORKER_IDLE:
        idle_expired(s, w);
        break;
    case WORKER_BUSY:
        busy_expired(s, w);
        break;
    default:
        w->kill = true;
        w->since = s->now;
        say_stop(s, w, "it did not end when it was told to");
        pl_sched_worker_timer(s, w);
    }
}

static bool is_fresh(const struct worker *w)
{
    return w->state == WORKER_STARTING || (is_unready(w) && !w->productive); /* the worker holds no task */
}

static void stop_retired(struct pl_sched *s, struct worker *w)
{
    pl_sched_worker_stop(s, w, is_fresh(w), "the settings with which it was started have changed");
}

void pl_sched_worker_retire(struct pl_sched *s, struct worker *w)
{
    if (w->state == WORKER_STOPPING || w->retired)
        return;
    w->retired = true;
    if (w->n_tasks == 0) {
        stop_retired(s, w);
        return;
    }
    pl_sched_worker_stop_asking(w);
    if (!w->recall && !s->draining) /* while the daemon drains, datums are not leased again */
        pl_sched_worker_ask_back(s, w);
}

/* ---- what the worker reports ---- */

static void start_asking(struct worker *w)
{
    struct worker_list *asking = &w->version->asking;

    if (w->asking)
        TAILQ_REMOVE(asking, w, asking_link);
    w->asking = true;
    if (w->n_tasks == 0) /* the worker that was busy last is served first: its caches are warm */
        TAILQ_INSERT_HEAD(asking, w, asking_link);
    else
        TAILQ_INSERT_TAIL(asking, w, asking_link);
}

void pl_sched_worker_recall(struct worker *w, enum recall recall)
{
    w->version->recalls += (recall == RECALL_ASKED) - (w->recall == RECALL_ASKED);
    w->recall = recall;
}

void pl_sched_worker_leased(struct pl_sched *s, struct worker *w)
{
    pl_sched_worker_stop_asking(w);
    set_state(s, w, WORKER_BUSY);
    pl_sched_worker_timer(s, w);
}

void pl_sched_worker_settle(struct pl_sched *s, struct worker *w)
{
    if (w->state == WORKER_STOPPING)
        return;
    if (w->retired && w->n_tasks == 0) {
        stop_retired(s, w);
        return;
    }
    if (w->state == WORKER_BUSY && w->asking && w->n_tasks == 0) {
        start_asking(w);
        set_state(s, w, WORKER_IDLE);
    }
    pl_sched_worker_timer(s, w);
}

static bool lists(const struct pl_sched_event *ev, const struct task *task)
{
    for (size_t i = 0; i < ev->leases.n; i++)
        if (ev->leases.items[i].task == task->id && ev->leases.items[i].fence == task->fence)
            return true;
    return false;
}

static void renew(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev)
{
    for (size_t i = 0; i < ev->leases.n; i++) {
        struct task *task = pl_sched_task_held(s, w, ev->leases.items[i]);

        if (task)
            task->expires = s->now + s->config.lease_ms;
        else
            pl_sched_task_lost(s, w->id, ev->leases.items[i]);
    }
}

void pl_sched_worker_up(struct pl_sched *s, struct worker *w)
{
    if (w->up)
        return;
    w->up = true;
    pl_sched_shape_waits(s, w, NULL);
    if (w->state != WORKER_STARTING)
        return;
    w->since = s->now;
    pl_sched_worker_timer(s, w);
}

/* Handles ATTACHED: returns the tasks that the worker does not hold, and counts it as busy until it asks for
 * a task. */
void pl_sched_worker_attached(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev)
{
    renew(s, w, ev);
    if (w->state == WORKER_STOPPING) {
        say_stop(s, w, "it was told to end");
        return;
    }
    for (size_t i = 0; i < w->n_tasks;) {
        if (lists(ev, w->tasks[i]))
            i++;
        else
            pl_sched_task_return(s, w->tasks[i], NULL);
    }
    pl_sched_worker_stop_asking(w); /* an open request from before the worker attached can no longer be answered */
    if (w->up)
        pl_sched_shape_waits(s, w, NULL);
    pl_sched_shape_placed(s, w);
    set_state(s, w, WORKER_BUSY);
    pl_sched_worker_timer(s, w);
}

/* Stops the worker if it is no longer needed; else notes that it asks for a task. */
void pl_sched_worker_next(struct pl_sched *s, struct worker *w)
{
    struct version *v = w->version;
    bool needed = v->unfinished > 0 || v == v->stage->current;

    if (w->state == WORKER_STOPPING) {
        say_stop(s, w, "it was told to end");
        return;
    }
    if (!w->came_up) { /* the count of failed starts begins again */
        w->came_up = true;
        v->start_failures = 0;
        v->retry_at = 0;
    }
    if (w->n_tasks == 0 && w->retired) {
        stop_retired(s, w);
        return;
    }
    if (w->n_tasks == 0 && (s->draining || !needed)) {
        pl_sched_worker_stop(s, w, false, s->draining ? "the daemon is stopping" : "its stage was changed or deleted");
        return;
    }
    if (!w->asking && !w->retired) {
        start_asking(w);
        if (w->n_tasks == 0)
            set_state(s, w, WORKER_IDLE);
    }
    pl_sched_worker_timer(s, w);
    pl_sched_stage_dirty(s, v->stage);
}

void pl_sched_worker_renew(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev)
{
    renew(s, w, ev);
    if (w->state != WORKER_STOPPING)
        pl_sched_worker_timer(s, w);
}

/* ---- end of a worker ---- */

void pl_sched_worker_free(struct pl_sched *s, struct worker *w)
{
    struct version *v = w->version;

    pl_sched_worker_stop_asking(w);
    place_leave(s, w);
    (*state_count(w))--;
    pl_sched_admit_give(s, w);
    pl_sched_shape_unref(s, w->shape);
    pl_timers_clear(&s->timers, &w->timer);
    TAILQ_REMOVE(&v->workers, w, version_link);
    v->pipeline->workers--;
    pl_sched_fair_share_moved(v->pipeline);
    pl_sched_drop(&s->workers, w->id);
    free(w->why);
    free(w->node);
    free(w);
    pl_sched_stage_dirty(s, v->stage);
    pl_sched_version_unref(s, v);
}

/* Fails the stage's first job if no other worker of the version is up or starting, because another worker
 * would fail in the same way. A pod that waits for a node does not count: it may wait for ever. */
static void fail_first(struct pl_sched *s, const struct version *v, const char *text)
{
    struct job *job = TAILQ_FIRST(&v->stage->lane);
    const struct worker *w;

    TAILQ_FOREACH(w, &v->workers, version_link)
    {
        if (w->state != WORKER_STOPPING && !w->pending)
            return;
    }
    if (job && job->version == v && job->rows && job->state != PL_SCHED_FINISHING)
        pl_sched_job_end(s, job, PL_SCHED_FAILURE, text, NULL);
}

static bool is_failed_start(const struct worker *w, const struct pl_sched_event *ev)
{
    if (w->state == WORKER_STOPPING || w->came_up || ev->exit == PL_SCHED_EXIT_UNMADE)
        return false;
    return ev->exit == PL_SCHED_EXIT_OWN || w->state == WORKER_STARTING;
}

/* Ends the worker's tasks. Datums of a pod that the cluster took away are leased again at once. */
static void return_tasks(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev, const char *text)
{
    struct job *job = w->n_tasks > 0 ? w->tasks[0]->job : TAILQ_FIRST(&w->version->stage->lane);
    char loss[PL_SCHED_MESSAGE_MAX];

    if (w->state != WORKER_STOPPING && job && job->version == w->version && job->rows) {
        free(TAKE_PTR(job->rows->disruption));
        if (ev->exit == PL_SCHED_EXIT_DISRUPTED && !is_failed_start(w, ev))
            job->rows->disruption = pl_sched_strdup(s, text);
    }
    snprintf(loss, sizeof(loss), "its worker ended: %s", text);
    loss[pl_sched_whole(loss, strlen(loss))] = 0;
    while (w->n_tasks > 0)
        if (ev->exit == PL_SCHED_EXIT_OWN)
            pl_sched_task_return(s, w->tasks[0], loss);
        else
            pl_sched_task_disrupted(s, w->tasks[0], loss);
}

/* Handles the end of a worker: returns its tasks, counts a failed start, frees the worker. */
void pl_sched_worker_gone(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev)
{
    const char *text = ev->text ? ev->text : "no reason was given";
    struct version *v = w->version;

    if (!ev->counts && w->state != WORKER_STOPPING && ev->exit != PL_SCHED_EXIT_UNMADE)
        pl_sched_node_lost(s, w);
    if (ev->counts && w->n_tasks == 1 && w->tasks[0]->open.count == 1) {
        w->came_up = true; /* the worker has run something, so this is not a failed start */
        pl_sched_task_failed(s, w->tasks[0], text);
    }
    return_tasks(s, w, ev, text);
    if (is_failed_start(w, ev))
        count_failure(s, v, ev->text);
    v->refs++;
    pl_sched_worker_free(s, w);
    if (ev->on)
        fail_first(s, v, text);
    pl_sched_version_unref(s, v);
}

void pl_sched_workers_trim(struct pl_sched *s, struct version *v)
{
    bool retired = v != v->stage->current || s->draining;
    struct worker *w;

    if (v->unfinished > 0 && !s->draining)
        return;
    for (w = TAILQ_FIRST(&v->workers); w; w = TAILQ_NEXT(w, version_link)) {
        const bool fresh = is_fresh(w);

        if (retired && (w->state == WORKER_IDLE || fresh))
            pl_sched_worker_stop(s, w, fresh, s->draining ? "the daemon is stopping" : "its stage was changed or deleted");
        else if (fresh || is_unready(w))
            pl_sched_worker_timer(s, w);
    }
}
