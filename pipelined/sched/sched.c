/* sched: creation, the clock, and the step. A step handles one event, then does queued work one transition at
 * a time, until nothing is left or the step's budget is used up. At the end it admits workers, updates wait
 * reasons, and asks for the next TICK. */
#include "pipelined/sched/sched_internal.h"

static int64_t config_ms(int64_t given, int64_t usual)
{
    return given == 0 ? usual : given;
}

int pl_sched_create(const struct pl_sched_config *config, struct pl_sched **ret, struct pl_err *err)
{
    struct pl_sched *s = calloc(1, sizeof(*s));

    if (!s)
        return pl_err_nomem(err);
    s->config.linger_ms = PL_MAX(config_ms(config->linger_ms, 2000), 0);
    s->config.lease_ms = config_ms(config->lease_ms, 30000);
    s->config.start_wait_ms = config_ms(config->start_wait_ms, 120000);
    s->config.transitions = config->transitions ? config->transitions : PL_SCHED_TRANSITIONS_MAX;
    s->last_id = config->first_id;
    s->restoring = true;
    s->mono = INT64_MIN;
    s->asked = PL_TIMER_NEVER;
    TAILQ_INIT(&s->run_list);
    TAILQ_INIT(&s->expanding);
    TAILQ_INIT(&s->looks);
    TAILQ_INIT(&s->ended);
    TAILQ_INIT(&s->dirty);
    TAILQ_INIT(&s->say);
    TAILQ_INIT(&s->idle);
    TAILQ_INIT(&s->starting);
    TAILQ_INIT(&s->ready);
    for (int d = 0; d < DEVICES; d++)
        pl_sched_fair_share_init(&s->lines[d]);
    *ret = s;
    return 0;
}

struct pl_sched *pl_sched_destroy(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    if (!s)
        return NULL;
    for (size_t i = 0; (slot = pl_map_next(&s->workers, &i)); i = 0) {
        struct worker *w = slot->value;

        while (w->n_tasks > 0)
            pl_sched_task_free(s, w->tasks[0]);
        pl_sched_worker_free(s, w);
    }
    while (!TAILQ_EMPTY(&s->run_list))
        pl_sched_run_free(s, TAILQ_FIRST(&s->run_list));
    pl_sched_graph_finish(s);
    pl_map_finish(&s->workers, NULL);
    pl_map_finish(&s->tasks, NULL);
    pl_map_finish(&s->jobs, NULL);
    pl_map_finish(&s->jobs_by_run, NULL);
    pl_map_finish(&s->runs, NULL);
    pl_map_finish(&s->pipelines, NULL);
    pl_sched_shapes_finish(s);
    for (int d = 0; d < DEVICES; d++)
        pl_sched_fair_share_finish(&s->lines[d]);
    pl_timers_finish(&s->timers);
    pl_arena_destroy(s->arena);
    free(s->actions);
    free(s);
    return NULL;
}

bool pl_sched_put(struct pl_sched *s, struct pl_map *m, const void *key, size_t key_len, void *value)
{
    if (pl_map_put(m, key, key_len, value, NULL, NULL) == 0)
        return true;
    s->oom = true;
    return false;
}

void *pl_sched_calloc(struct pl_sched *s, size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p)
        s->oom = true;
    return p;
}

size_t pl_sched_whole(const char *text, size_t n)
{
    size_t back = 1;
    uint8_t lead;

    while (back < 4 && back < n && ((uint8_t)text[n - back] & 0xc0) == 0x80)
        back++;
    if (n == 0)
        return 0;
    lead = (uint8_t)text[n - back];
    if (lead < 0xc0)
        return n;
    return back == (lead >= 0xf0 ? 4u : lead >= 0xe0 ? 3u : 2u) ? n : n - back;
}

char *pl_sched_strdup(struct pl_sched *s, const char *text)
{
    size_t n = text ? pl_sched_whole(text, strnlen(text, PL_SCHED_MESSAGE_MAX - 1)) : 0;
    char *copy = pl_sched_calloc(s, n + 1, 1);

    if (copy && n > 0)
        memcpy(copy, text, n);
    return copy;
}

bool pl_sched_grow(struct pl_sched *s, void *array_ptr, size_t n, size_t *cap, size_t size)
{
    size_t wish = *cap ? *cap * 2 : 4;
    void *array;

    if (n < *cap)
        return true;
    memcpy(&array, array_ptr, sizeof(array));
    array = realloc(array, wish * size);
    if (!array) {
        s->oom = true;
        return false;
    }
    memcpy(array_ptr, &array, sizeof(array));
    *cap = wish;
    return true;
}

struct pl_sched_action *pl_sched_action_new(struct pl_sched *s, enum pl_sched_action_kind kind)
{
    struct pl_sched_action *a = &s->thrown_away;

    if (pl_sched_grow(s, &s->actions, s->n_actions, &s->cap_actions, sizeof(*a)))
        a = &s->actions[s->n_actions++];
    *a = (struct pl_sched_action){.kind = kind};
    return a;
}

void *pl_sched_keep(struct pl_sched *s, const void *data, size_t n)
{
    void *copy = NULL;

    if (!s->arena)
        s->arena = pl_arena_create(0);
    if (s->arena)
        copy = pl_arena_alloc(s->arena, n);
    if (!copy)
        s->oom = true;
    else if (data && n > 0)
        memcpy(copy, data, n);
    return copy;
}

void pl_sched_stage_dirty(struct pl_sched *s, struct stage *stage)
{
    if (stage->dirty)
        return;
    stage->dirty = true;
    TAILQ_INSERT_TAIL(&s->dirty, stage, dirty_link);
}

void pl_sched_timer(struct pl_sched *s, struct pl_timer *t, int64_t at)
{
    if (!pl_timers_set(&s->timers, t, at))
        s->oom = true;
}

/* Adds the time since the last event to `s->now`, at most PL_SCHED_GAP_MS. */
static void clock_advance(struct pl_sched *s, int64_t mono)
{
    if (s->mono != INT64_MIN && mono > s->mono)
        s->now += PL_MIN(mono - s->mono, PL_SCHED_GAP_MS);
    s->mono = mono;
}

static bool timers_fire(struct pl_sched *s)
{
    struct pl_timer *t = pl_timers_first(&s->timers);

    if (!t || t->at > s->now)
        return false;
    pl_timers_clear(&s->timers, t);
    if (t->kind == TIMER_WORKER)
        pl_sched_worker_fire(s, PL_CONTAINER_OF(t, struct worker, timer));
    else
        pl_sched_stage_dirty(s, PL_CONTAINER_OF(t, struct job, timer)->stage);
    return true;
}

/* Does one transition from the first queue that has work; false if all queues are empty. */
static bool work_once(struct pl_sched *s)
{
    struct job *job;
    struct stage *stage;

    if ((job = TAILQ_FIRST(&s->ended))) {
        if (!pl_sched_job_tell(s, job)) {
            TAILQ_REMOVE(&s->ended, job, queue_link);
            pl_sched_run_close(s, job->run);
        }
        return true;
    }
    if ((job = TAILQ_FIRST(&s->looks))) {
        TAILQ_REMOVE(&s->looks, job, queue_link);
        job->queued = false;
        pl_sched_job_look(s, job);
        return true;
    }
    if ((stage = TAILQ_FIRST(&s->dirty))) {
        TAILQ_REMOVE(&s->dirty, stage, dirty_link);
        stage->dirty = false;
        pl_sched_stage_advance(s, stage);
        return true;
    }
    /* expired deadlines come last, so that a worker whose request arrives just before its deadline is still
     * served */
    if (timers_fire(s))
        return true;
    return pl_sched_run_expand(s);
}

static bool work_left(const struct pl_sched *s)
{
    const struct pl_timer *t = pl_timers_first(&s->timers);

    return (t && t->at <= s->now) || !TAILQ_EMPTY(&s->ended) || !TAILQ_EMPTY(&s->looks) || !TAILQ_EMPTY(&s->dirty) ||
           !TAILQ_EMPTY(&s->expanding) || s->admit_more;
}

static void work(struct pl_sched *s)
{
    s->budget = s->config.transitions;
    do {
        while (s->budget > 0 && !s->oom && work_once(s))
            s->budget--;
        pl_sched_admit(s);
    } while (s->budget > 0 && !s->oom && work_left(s));
    pl_sched_wait_reason_all(s);
}

static void ask_timer(struct pl_sched *s)
{
    const struct pl_timer *t = pl_timers_first(&s->timers);
    int64_t at = t ? s->mono + PL_MIN(PL_MAX(t->at - s->now, 0), PL_SCHED_BEAT_MS) : PL_TIMER_NEVER;

    /* the TICK that was requested earlier comes soon enough */
    if (at == s->asked || (t && s->asked > s->mono && s->asked < at))
        return;
    s->asked = at;
    pl_sched_action_new(s, PL_SCHED_TIMER)->at_ms = at;
}

static void check_drained(struct pl_sched *s)
{
    if (!s->draining || s->drained || s->tasks.len > 0 || s->planning > 0 || s->committing > 0 || work_left(s))
        return;
    s->drained = true;
    pl_sched_action_new(s, PL_SCHED_DRAINED);
}

int pl_sched_step(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_sched_actions *out, struct pl_err *err)
{
    int r;

    *out = (struct pl_sched_actions){0};
    s->n_actions = 0;
    s->arena = pl_arena_destroy(s->arena);
    if (s->oom)
        return pl_err_nomem(err);
    clock_advance(s, ev->now_ms);
    r = pl_sched_event_take(s, ev, err);
    if (r < 0)
        return r;
    if (!s->restoring) {
        work(s);
        check_drained(s);
        ask_timer(s);
        if (work_left(s))
            pl_sched_action_new(s, PL_SCHED_CONTINUE);
    }
    if (s->oom)
        return pl_err_nomem(err);
    *out = (struct pl_sched_actions){.items = s->actions, .n = s->n_actions};
    return 0;
}
