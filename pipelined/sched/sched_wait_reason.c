/* sched_wait_reason: reports the states of runs and jobs, and describes in a sentence what a job waits for or
 * does. Sentences are computed once at the end of a step, and reported only if they changed. */
#include <stdarg.h>
#include <stdio.h>

#include "pipelined/sched/sched_internal.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"

const char *pl_sched_state_name(enum pl_sched_state state)
{
    static const char *const names[PL_SCHED_STATES] = {"created", "starting", "running", "finishing",
                                                       "success", "failure",  "killed",  "unrunnable"};

    return (unsigned)state < PL_SCHED_STATES ? names[state] : NULL;
}

struct pl_sched_action *pl_sched_job_action(struct pl_sched *s, const struct job *job, enum pl_sched_action_kind kind)
{
    struct pl_sched_action *a = pl_sched_action_new(s, kind);

    a->job.id = job->id;
    a->job.stage = job->stage->id;
    a->job.version = job->version->def.version;
    a->job.run = pl_sched_keep(s, job->run->id, sizeof(job->run->id));
    a->job.order = job->run->order;
    a->job.state = job->state;
    a->job.reason = "";
    return a;
}

/* Returns a hash of state and sentence, by which a change of either is detected. */
void pl_sched_wait_reason(struct pl_sched *s, struct job *job, const char *fmt, ...)
{
    const bool waits = job->rows && job->rows->leased == 0 && job->state < PL_SCHED_FINISHING;
    char text[PL_SCHED_MESSAGE_MAX];
    struct pl_sched_action *a;
    uint64_t hash;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (waits && job->rows->disruption)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " (%s)", job->rows->disruption);
    text[pl_sched_whole(text, strlen(text))] = 0;
    hash = pl_xxh64(text, strlen(text), job->state + 1u) | 1;
    if (hash == job->said || s->restoring)
        return;
    job->said = hash;
    a = pl_sched_job_action(s, job, PL_SCHED_JOB_STATE);
    a->job.reason = pl_sched_keep(s, text, strlen(text) + 1);
    a->job.unplaced = job->unplaced;
    if (job->superseded_by[0])
        a->job.superseded_by = pl_sched_keep(s, job->superseded_by, sizeof(job->superseded_by));
}

void pl_sched_wait_reason_defer(struct pl_sched *s, struct stage *stage)
{
    if (stage->say)
        return;
    stage->say = true;
    TAILQ_INSERT_TAIL(&s->say, stage, say_link);
}

void pl_sched_wait_reason_run(struct pl_sched *s, const struct run *run, enum pl_sched_state state)
{
    struct pl_sched_action *a = pl_sched_action_new(s, PL_SCHED_RUN_STATE);

    a->run.id = pl_sched_keep(s, run->id, sizeof(run->id));
    a->run.order = run->order;
    a->run.state = state;
    memcpy(a->run.jobs, run->states, sizeof(run->states));
}

void pl_sched_wait_reason_created(struct pl_sched *s, struct job *job)
{
    const struct job *up = job->blocked_on ? pl_sched_get(&s->jobs, job->blocked_on) : NULL;
    const struct job *before = TAILQ_PREV(job, job_list, lane_link);

    if (up)
        pl_sched_wait_reason(s, job, "waiting for stage %s of run %.8s", up->version->def.name, up->run->id);
    else if (before)
        pl_sched_wait_reason(s, job, "waiting for its turn: run %.8s goes first", before->run->id);
    else if (s->draining)
        pl_sched_wait_reason(s, job, "the daemon is stopping: nothing new is started");
    else
        pl_sched_wait_reason(s, job, "about to be planned");
}

/* ---- which resource a job lacks ---- */

/* most workers examined to find the stages that use the resource for which a job waits */
#define USERS_LOOKED_AT 64

struct users {
    char text[PL_SCHED_MESSAGE_MAX / 2];
    size_t len;
    const struct version *named[3];
    size_t n, more;
};

static void users_text(struct users *u, const char *before, const char *stage, const char *after, const char *run)
{
    int n = snprintf(u->text + u->len, sizeof(u->text) - u->len, "%s%s%s%.8s", before, stage, after, run);

    u->len = PL_MIN(u->len + (size_t)PL_MAX(n, 0), sizeof(u->text) - 1);
}

/* Appends the worker's stage to the list of users. Each stage is listed once, and at most three stages are
 * listed. */
static void users_add(struct users *u, const struct worker *w)
{
    const struct job *job = w->n_tasks > 0 ? w->tasks[0]->job : TAILQ_FIRST(&w->version->stage->lane);
    const char *before = u->n > 0 ? ", stage " : ", used by stage ";

    for (size_t i = 0; i < u->n; i++)
        if (u->named[i] == w->version)
            return;
    if (u->n == PL_ARRAY_SIZE(u->named)) {
        if (u->more++ == 0)
            users_text(u, " and others", "", "", "");
        return;
    }
    u->named[u->n++] = w->version;
    if (w->state == WORKER_STOPPING || !job)
        users_text(u, before, w->version->def.name, ", which is ending", "");
    else
        users_text(u, before, w->version->def.name, " of run ", job->run->id);
}

/* Writes the wait reason of a job that waits for GPU slots of this machine: the number of free slots and the
 * stages that use the rest. */
static void say_gpu(struct pl_sched *s, struct job *job)
{
    const struct pl_sched_stage *def = &job->version->def;
    uint32_t available = pl_sched_gpus_for(s, job->version, false);
    const size_t slots = def->gpu_chosen ? def->n_gpu_slots : s->capacity.gpu_slots;
    char tail[64] = "", duration[32];
    struct users users = {0};

    if (!def->gpu_required)
        snprintf(tail, sizeof(tail), "; after %s it runs on the CPU", pl_duration_text(def->gpu_wait_ms, duration));
    if (available >= def->gpu_count) {
        pl_sched_wait_reason(s, job, "waiting for %u GPU%s: %u of %zu free, but %s%s", def->gpu_count,
                             def->gpu_count == 1 ? "" : "s", available, slots,
                             pl_sched_admit_missing_resource(s, job->version) ? "too little CPU or memory is free"
                                                                              : "another stage is first",
                             tail);
        return;
    }
    for (uint32_t i = 0; i < s->capacity.gpu_slots; i++)
        if (s->gpus[i] && pl_sched_slot_is_allowed(job->version, i))
            users_add(&users, s->gpus[i]);
    pl_sched_wait_reason(s, job, "waiting for %u GPU%s: %u of %zu free%s%s", def->gpu_count, def->gpu_count == 1 ? "" : "s",
                         available, slots, users.text, tail);
}

/* Writes the wait reason of a job that waits for CPU of this machine: the free amount and some of the stages
 * that use the rest. */
static void say_cpu(struct pl_sched *s, struct job *job)
{
    uint64_t need = pl_sched_cpu_need(s, job->version, CPU);
    uint64_t have = s->capacity.cpu_milli;
    uint64_t available = have > s->cpu_used ? have - s->cpu_used : 0;
    struct users users = {0};
    const struct pl_map_slot *slot;
    const struct worker *w;
    int looked = 0;

    if (available >= need) {
        pl_sched_wait_reason(s, job, "waiting for %g CPU%s: %s", (double)need / 1000, need == 1000 ? "" : "s",
                             pl_sched_admit_missing_resource(s, job->version) ? "too little memory is free"
                                                                              : "another stage is first");
        return;
    }
    for (size_t i = 0; looked++ < USERS_LOOKED_AT && (slot = pl_map_next(&s->workers, &i));) {
        w = slot->value;
        if (w->cpu_milli > 0)
            users_add(&users, w);
    }
    pl_sched_wait_reason(s, job, "waiting for %g CPU%s: %g of %g free%s", (double)need / 1000, need == 1000 ? "" : "s",
                         (double)available / 1000, (double)have / 1000, users.text);
}

/* Writes the wait reason of a job whose pod shape is full: the limit of pods that wait for a node is
 * reached. */
static void say_pod(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    const struct shape *shape = v->wish_device == CPU && v->cpu_shape ? v->cpu_shape : v->shape;

    if (!shape->told)
        pl_sched_wait_reason(s, job, "waiting until the cluster reports what it offers");
    else
        pl_sched_wait_reason(s, job, "waiting for room on the cluster: other pods of its kind wait%s%s",
                             shape->why ? ": " : " for a node", shape->why ? shape->why : "");
}

/* Returns the cluster's reason why a worker of the version is not up, or NULL. `starting`: looks at workers
 * that have not attached; otherwise at those that have. */
static const char *why_not_up(const struct version *v, bool starting)
{
    const char *why = NULL;
    const struct worker *w;
    int looked = 0;

    for (w = TAILQ_FIRST(&v->workers); w && !why && looked++ < USERS_LOOKED_AT; w = TAILQ_NEXT(w, version_link))
        why = (w->state == WORKER_STARTING) == starting && w->state != WORKER_STOPPING ? w->why : NULL;
    return why;
}

const char *pl_sched_wait_reason_place(const struct pl_sched *s, const struct version *v, const struct shape *shape)
{
    const char *why = why_not_up(v, true);

    if (why)
        return why;
    if (v->retry_at > s->now && v->last_failure)
        return v->last_failure;
    if (!shape->offered && shape->text)
        return shape->text;
    return shape->why ? shape->why : "the cluster gave no reason";
}

static void say_starting(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    const char *why = why_not_up(v, true);

    pl_sched_wait_reason(s, job, "starting %u worker%s%s%s", v->starting, v->starting == 1 ? "" : "s", why ? ": " : "",
                         why ? why : "");
}

static void say_impossible(struct pl_sched *s, struct job *job)
{
    const struct pl_sched_stage *def = &job->version->def;

    if (job->version->shape)
        pl_sched_wait_reason(s, job, "waiting for the cluster: %s", job->version->shape->text);
    else if (def->gpu_required && def->gpu_chosen && !pl_sched_gpus_offered(s, job->version))
        pl_sched_wait_reason(s, job, "waiting for %u GPU%s per worker %s", def->gpu_count, def->gpu_count == 1 ? "" : "s",
                             def->gpu_text);
    else if (def->gpu_required && def->gpu_count > s->capacity.gpu_offered)
        pl_sched_wait_reason(s, job, "waiting for %u GPU%s per worker: the executor offers %u", def->gpu_count,
                             def->gpu_count == 1 ? "" : "s", s->capacity.gpu_offered);
    else
        pl_sched_wait_reason(s, job, "waiting for %llu MiB of memory per worker: the executor offers %llu MiB",
                             (unsigned long long)(def->memory_bytes >> 20), (unsigned long long)(s->capacity.memory_bytes >> 20));
}

/* Describes why a planned job without a leased task waits. */
static void say_waiting(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    char duration[32];

    if (s->draining)
        pl_sched_wait_reason(s, job, "the daemon is stopping: nothing new is started");
    else if (pl_sched_datums_ready(s, job->rows) == 0)
        pl_sched_wait_reason(s, job, "waiting before trying again: %s",
                             job->rows->last_loss ? job->rows->last_loss : "a worker returned the datums without running them");
    else if (v->starting > 0)
        say_starting(s, job);
    else if (v->retry_at > s->now)
        pl_sched_wait_reason(s, job, "a worker failed to start (%u in a row; the next one starts after %s): %s",
                             v->start_failures, pl_duration_text(pl_sched_backoff(v->start_failures), duration), v->last_failure);
    else if (!pl_sched_admit_possible(s, v))
        say_impossible(s, job);
    else if (v->wish && v->shape)
        say_pod(s, job);
    else if (v->wish && v->wish_device == GPU)
        say_gpu(s, job);
    else if (v->wish)
        say_cpu(s, job);
    else if (why_not_up(v, false)) /* the agent has attached, but the command's container does not run yet */
        pl_sched_wait_reason(s, job, "waiting for its worker: %s", why_not_up(v, false));
    else
        pl_sched_wait_reason(s, job, "waiting until its worker asks for work");
}

void pl_sched_wait_reason_state(struct pl_sched *s, struct job *job)
{
    if (job->state == PL_SCHED_CREATED)
        pl_sched_wait_reason_created(s, job);
    else if (job->state == PL_SCHED_FINISHING)
        pl_sched_wait_reason(s, job, "committing its output");
    else if (!job->rows)
        pl_sched_wait_reason(s, job, "being planned: which datums must run");
    else if (job->workers > 0)
        pl_sched_wait_reason(s, job, "running on %u worker%s", job->workers, job->workers == 1 ? "" : "s");
    else
        say_waiting(s, job);
}

void pl_sched_wait_reason_queue_head(struct pl_sched *s, const struct line *line)
{
    const struct version *v = pl_sched_fair_share_first(line);

    for (int n = 0; v && n < SAY_WAITING; n++, v = pl_sched_fair_share_next(v))
        pl_sched_wait_reason_defer(s, v->stage);
}

void pl_sched_wait_reason_all(struct pl_sched *s)
{
    struct stage *stage;

    if (s->devices_changed) {
        pl_sched_wait_reason_queue_head(s, &s->lines[CPU]);
        pl_sched_wait_reason_queue_head(s, &s->lines[GPU]);
    }
    s->devices_changed = false;
    while ((stage = TAILQ_FIRST(&s->say))) {
        struct job *job = TAILQ_FIRST(&stage->lane);

        TAILQ_REMOVE(&s->say, stage, say_link);
        stage->say = false;
        if (job && job->linked)
            pl_sched_wait_reason_state(s, job);
    }
}
