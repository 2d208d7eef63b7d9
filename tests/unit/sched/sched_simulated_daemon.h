/* sched_life: one life of a daemon in the virtual world: the engine that carries out the scheduler's actions, what its log and database
 * would hold, and what must hold at every action. */
#pragma once

#include "tests/unit/sched/sched_simulated_network.h"

struct def {
    uint64_t version;
    struct pl_sched_head inputs[INPUTS];
    size_t n_inputs;
    struct pl_sched_stage stage;
    char name[16];
};

struct wstage {
    struct def defs[VERSIONS];
    size_t n; /* the last one is current, unless removed */
    bool removed;
    unsigned commits;
    int64_t committed_at, longest_ms; /* between two commits */
};

struct wrow {
    unsigned datum;
    uint64_t fence; /* of the newest lease */
    uint32_t failures, losses;
    bool ended;
};

struct wtask {
    uint64_t id, fence, worker;
    uint32_t rows[DATUMS], n;
    uint32_t failures, losses;
    bool recalled;
    struct wtask *next;
};

struct wjob {
    uint64_t id; /* 0 = not known to the scheduler */
    unsigned stage;
    uint64_t version;
    struct wrun *run;
    enum pl_sched_state state;
    char reason[PL_SCHED_MESSAGE_MAX];
    char superseded_by[33];
    bool saved, planned, leased, committed;
    bool landing; /* its commit goes through, and this life will be told so */
    unsigned n_datums;
    bool done[DATUMS]; /* accepted once, and kept */
    uint32_t n_rows;
    struct wrow rows[DATUMS];
    struct wtask *tasks;
};

struct wrun {
    char id[33];
    uint64_t order;
    struct pl_sched_head heads[2];
    size_t n_heads;
    uint64_t stages[1];
    size_t n_stages;
    bool ended;
    struct wjob jobs[STAGES];
};

struct life {
    struct world w;
    struct pl_sched *s;
    uint64_t epoch;
    int64_t linger_ms;
    unsigned transitions; /* the scheduler's own bound a call */
    struct pl_sched_capacity capacity;
    bool cluster;          /* workers are pods */
    bool spot;             /* nothing but preemption of workers that have attached, and daemons that go, happens */
    struct pl_sched *twin; /* of a daemon that was taken over and does not know it yet */
    uint64_t twin_epoch;
    int64_t twin_until;
    struct pl_sched_shape shapes[SHAPES];
    struct wstage stages[STAGES];
    size_t n_stages;
    struct wrun *runs;
    size_t n_runs, max_runs;
    size_t oldest; /* of those that have not ended */
    int64_t tick_at, chaos_at;
    bool more, drained, draining, save_leases;
    int crash_in; /* actions; −1 = not */
    int64_t down_until;
    uint64_t last_fence;
};

static inline struct wjob *job_by_id(struct life *l, uint64_t id)
{
    for (size_t r = l->n_runs; r-- > 0;)
        for (size_t i = 0; i < STAGES; i++)
            if (l->runs[r].jobs[i].id == id && id)
                return &l->runs[r].jobs[i];
    return NULL;
}

static inline const struct def *def_of(const struct life *l, unsigned stage, uint64_t version)
{
    for (size_t i = 0; i < l->stages[stage].n; i++)
        if (l->stages[stage].defs[i].version == version)
            return &l->stages[stage].defs[i];
    return NULL;
}

static inline const struct def *def_now(const struct life *l, unsigned stage)
{
    return l->stages[stage].removed || l->stages[stage].n == 0 ? NULL : &l->stages[stage].defs[l->stages[stage].n - 1];
}

static inline struct wrun *run_by_id(struct life *l, const char *id)
{
    for (size_t i = l->n_runs; i-- > 0;)
        if (strcmp(l->runs[i].id, id) == 0)
            return &l->runs[i];
    world_die(&l->w, "a run that was never given");
    return NULL;
}

/* --- what must hold */

static inline bool unfinished(const struct wjob *j)
{
    return j->id && !pl_sched_state_final(j->state);
}

static inline void must_be_its_turn(struct life *l, const struct wjob *job)
{
    const struct def *def = def_of(l, job->stage, job->version);

    for (size_t r = l->oldest; r < l->n_runs && l->runs[r].order <= job->run->order; r++) {
        const struct wrun *run = &l->runs[r];

        for (unsigned i = 0; i < STAGES; i++) {
            const struct wjob *up = &run->jobs[i];

            if (i == job->stage) {
                MUST(&l->w, run == job->run || !unfinished(up), "an older job of stage %u has not ended", i);
                continue;
            }
            for (size_t k = 0; k < def->n_inputs; k++)
                if (def_now(l, i) && def->inputs[k].repo == def_now(l, i)->stage.output.repo) {
                    MUST(&l->w, !unfinished(up), "stage %u reads stage %u, which has not ended in run %zu", job->stage, i, r);
                    MUST(&l->w, run != job->run || !up->id || up->state == PL_SCHED_SUCCESS, "stage %u failed in the same run",
                         i);
                }
        }
    }
}

static inline void must_be_alone(struct life *l, const struct wjob *job)
{
    for (size_t r = l->oldest; r < l->n_runs; r++) {
        const struct wjob *other = &l->runs[r].jobs[job->stage];

        MUST(&l->w, other == job || !unfinished(other) || other->state == PL_SCHED_CREATED, "two jobs of stage %u at once",
             job->stage);
    }
}

/* Pods that wait for a node, as far as the scheduler was told. */
static inline uint32_t pending_pods(const struct life *l, uint64_t shape)
{
    uint32_t n = 0;

    for (size_t i = 0; i < l->w.n_agents; i++) {
        const struct agent *a = l->w.agents[i];

        n += a->shape == shape && !a->told_gone && !a->told_placed && !a->told_to_end;
    }
    return n;
}

static inline void must_fit_the_cluster(struct life *l, const struct pl_sched_action *a, const struct pl_sched_stage *def)
{
    const struct pl_sched_shape *shape = &l->shapes[a->worker.shape - 1];

    MUST(&l->w, a->worker.shape == def->shape || (def->cpu_shape && a->worker.shape == def->cpu_shape),
         "a pod of a foreign shape");
    MUST(&l->w, shape->offered && pending_pods(l, shape->id) < shape->pending_max, "%u pods of shape %llu wait, at most %u",
         pending_pods(l, shape->id) + 1, (unsigned long long)shape->id, shape->pending_max);
    MUST(&l->w, a->worker.n_gpus == 0 && a->worker.cpu_milli == 0, "a pod takes nothing of this machine");
}

static inline void must_have_room(struct life *l, const struct pl_sched_action *a)
{
    const struct def *def = def_of(l, (unsigned)a->worker.stage - 1, a->worker.version);
    uint64_t cpu = a->worker.cpu_milli;

    MUST(&l->w, def, "a worker of no stage");
    MUST(&l->w, !a->worker.shape == !l->cluster, "a pod on a machine");
    if (a->worker.shape) {
        must_fit_the_cluster(l, a, &def->stage);
        return;
    }
    MUST(&l->w, a->worker.n_gpus == 0 || a->worker.n_gpus == def->stage.gpu_count, "a worker of stage with %u GPUs got %u",
         def->stage.gpu_count, a->worker.n_gpus);
    MUST(&l->w, !def->stage.gpu_required || a->worker.n_gpus == def->stage.gpu_count, "a GPU stage on the CPU");
    for (size_t i = 0; i < l->w.n_agents; i++) {
        const struct agent *other = l->w.agents[i];

        if (other->told_gone)
            continue;
        cpu += other->cpu_milli;
        for (uint32_t k = 0; k < other->n_gpus; k++)
            for (uint32_t m = 0; m < a->worker.n_gpus; m++)
                MUST(&l->w, other->gpus[k] != a->worker.gpus[m], "GPU %u given twice", a->worker.gpus[m]);
    }
    for (uint32_t m = 0; m < a->worker.n_gpus; m++)
        MUST(&l->w, a->worker.gpus[m] < l->capacity.gpu_slots, "GPU %u does not exist", a->worker.gpus[m]);
    MUST(&l->w, a->worker.cpu_milli == 0 || cpu <= l->capacity.cpu_milli, "%llu of %llu CPUs used", (unsigned long long)cpu,
         (unsigned long long)l->capacity.cpu_milli);
}

/* Who waits for a run waits for one that is still under way. */
static inline void must_wait_for_something(struct life *l, const struct wjob *job)
{
    static const char *const forms[] = {"waiting for its turn: run ", " of run "};
    const char *at = NULL;

    for (size_t i = 0; i < PL_ARRAY_SIZE(forms) && !at; i++)
        if ((at = strstr(job->reason, forms[i])))
            at += strlen(forms[i]);
    for (size_t r = 0; r < l->n_runs && at && job->state == PL_SCHED_CREATED; r++)
        MUST(&l->w, strncmp(l->runs[r].id, at, 8) != 0 || !l->runs[r].ended, "it says \"%s\", which has ended", job->reason);
}

static inline void must_have_sums(struct life *l)
{
    struct pl_sched_job_info info;

    for (size_t r = l->oldest; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES; i++) {
            const struct wjob *j = &l->runs[r].jobs[i];

            if (!unfinished(j))
                continue;
            MUST(&l->w, j->reason[0], "job %llu waits without a reason", (unsigned long long)j->id);
            must_wait_for_something(l, j);
            MUST(&l->w, pl_sched_job_info(l->s, j->id, &info, NULL) == 0, "job %llu is not known", (unsigned long long)j->id);
            MUST(&l->w, !info.planned || info.waiting + info.leased + info.done + info.failed == info.to_run,
                 "job %llu: %u waiting, %u leased, %u done, %u failed of %u", (unsigned long long)j->id, info.waiting,
                 info.leased, info.done, info.failed, info.to_run);
        }
}

/* --- the engine: carries out actions; what it keeps here is what a log and a database would hold */

static inline void tasks_drop(struct wjob *job, uint64_t fence)
{
    for (struct wtask **p = &job->tasks; *p;) {
        struct wtask *t = *p;

        if (fence && t->fence != fence) {
            p = &t->next;
            continue;
        }
        *p = t->next;
        free(t);
    }
}

static inline struct wjob *engine_job(struct life *l, const struct pl_sched_action *a)
{
    struct wrun *run = run_by_id(l, a->job.run);
    struct wjob *job = &run->jobs[a->job.stage - 1];

    MUST(&l->w, !run->ended, "the run has ended");
    MUST(&l->w, !job->id || job->id == a->job.id, "two jobs of one stage in a run");
    if (!job->id)
        *job = (struct wjob){.id = a->job.id, .stage = (unsigned)a->job.stage - 1, .version = a->job.version, .run = run};
    return job;
}

static inline void stage_committed(struct life *l, struct wstage *st)
{
    st->commits++;
    st->longest_ms = PL_MAX(st->longest_ms, l->w.now - st->committed_at);
    st->committed_at = l->w.now;
}

static inline void do_job_state(struct life *l, const struct pl_sched_action *a)
{
    struct wjob *job = engine_job(l, a);

    MUST(&l->w, !pl_sched_state_final(job->state), "job %llu ended twice", (unsigned long long)job->id);
    MUST(&l->w, a->job.state >= job->state, "job %llu goes from %s to %s", (unsigned long long)job->id,
         pl_sched_state_name(job->state), pl_sched_state_name(a->job.state));
    MUST(&l->w, a->job.reason[0], "no reason");
    job->state = a->job.state;
    snprintf(job->reason, sizeof(job->reason), "%s", a->job.reason);
    MUST(&l->w, !l->spot || !strstr(job->reason, "failed to start"), "a preemption counts as a failed start: %s", job->reason);
    if (a->job.superseded_by)
        snprintf(job->superseded_by, sizeof(job->superseded_by), "%s", a->job.superseded_by);
    if (job->state > PL_SCHED_CREATED) {
        job->saved = true;
        if (job->state < PL_SCHED_SUCCESS)
            must_be_alone(l, job);
    }
    if (!pl_sched_state_final(job->state))
        return;
    MUST(&l->w, !job->landing || job->state == PL_SCHED_SUCCESS, "job %llu ended while its commit landed",
         (unsigned long long)job->id);
    tasks_drop(job, 0);
    if (job->state == PL_SCHED_SUCCESS)
        stage_committed(l, &l->stages[job->stage]);
    for (unsigned i = 0; job->state == PL_SCHED_SUCCESS && i < job->n_datums; i++)
        MUST(&l->w, job->done[i], "success without datum %u", i);
}

static inline void do_plan(struct life *l, const struct pl_sched_action *a)
{
    struct wjob *job = engine_job(l, a);
    struct message *m;

    must_be_its_turn(l, job);
    MUST(&l->w, !l->draining, "planned while draining");
    m = send(&l->w, ANSWER, (int64_t)rnd(&l->w, l->w.plan_ms ? (uint64_t)l->w.plan_ms : l->w.calm ? 10 : 2000));
    m->event = !l->w.calm && chance(&l->w, 2) ? PL_SCHED_EV_PLAN_FAILED : PL_SCHED_EV_JOB_PLANNED;
    m->id = job->id;
    if (job->n_datums == 0)
        job->n_datums = (unsigned)rnd(&l->w, 8) == 0 ? 0 : 1 + (unsigned)rnd(&l->w, DATUMS - 1);
    job->n_rows = 0;
    for (unsigned i = 0; i < job->n_datums; i++) {
        if (job->done[i] || (!job->planned && chance(&l->w, 20)))
            job->done[i] = true; /* reused */
        else
            job->rows[job->n_rows++] = (struct wrow){.datum = i};
    }
    m->datums = job->n_datums;
    m->to_run = job->n_rows;
}

static inline void do_commit(struct life *l, const struct pl_sched_action *a)
{
    struct wjob *job = engine_job(l, a);
    struct message *m = send(&l->w, ANSWER, (int64_t)rnd(&l->w, 1000));

    must_be_its_turn(l, job);
    for (unsigned i = 0; i < job->n_datums; i++)
        MUST(&l->w, job->done[i], "commit without datum %u", i);
    m->id = job->id;
    m->event = !l->w.calm && !job->committed && chance(&l->w, 2) ? PL_SCHED_EV_COMMIT_FAILED : PL_SCHED_EV_JOB_COMMITTED;
    job->committed = job->landing = m->event == PL_SCHED_EV_JOB_COMMITTED;
}

/* One of three nodes that it does not avoid; where it avoids them all it waits for longer than it may. */
static inline void choose_node(struct life *l, const struct pl_sched_action *a, struct agent *agent)
{
    unsigned first = (unsigned)rnd(&l->w, 3);

    MUST(&l->w, a->worker.n_avoid <= PL_SCHED_NODES_AVOIDED, "avoids too many nodes");
    for (unsigned i = 0; i < 3; i++) {
        bool avoided = false;

        agent->node[0] = (char)('a' + (first + i) % 3);
        for (size_t k = 0; k < a->worker.n_avoid; k++)
            avoided = avoided || pl_streq(a->worker.avoid[k], agent->node);
        if (!avoided)
            return;
    }
    agent->placed_at += 2 * PL_SCHED_ELSEWHERE_MS;
}

static inline void do_start(struct life *l, const struct pl_sched_action *a)
{
    struct agent *agent = calloc(1, sizeof(*agent));

    must_have_room(l, a);
    MUST(&l->w, !l->draining, "started while draining");
    MUST(&l->w, agent && l->w.n_agents < AGENTS, "too many agents");
    agent->worker = a->worker.id;
    agent->stage = (unsigned)a->worker.stage - 1;
    agent->version = a->worker.version;
    agent->n_gpus = a->worker.n_gpus;
    memcpy(agent->gpus, a->worker.gpus, sizeof(agent->gpus));
    agent->cpu_milli = a->worker.cpu_milli;
    agent->asked_at = INT64_MIN / 2;
    agent->shape = a->worker.shape;
    if (agent->shape)
        agent->placed_at = l->w.now + (int64_t)rnd(&l->w, l->w.calm ? 2000 : chance(&l->w, 20) ? 600000 : 10000);
    if (agent->shape)
        choose_node(l, a, agent);
    l->w.agents[l->w.n_agents++] = agent;
    if (agent->shape && chance(&l->w, 30)) {
        struct message *m = send(&l->w, ANSWER, (int64_t)rnd(&l->w, 5000));

        m->event = PL_SCHED_EV_WORKER_WAITS;
        m->id = agent->worker;
    }
    if (!l->w.calm && chance(&l->w, 4)) {
        struct message *m = send(&l->w, EXITED, (int64_t)rnd(&l->w, 500));

        m->id = agent->worker;
        m->event = PL_SCHED_EV_START_FAILED;
        m->flag = agent->shape && chance(&l->w, 30); /* none would fare better */
        return;
    }
    agent->alive = true;
    agent->hung = !l->w.calm && chance(&l->w, 2);
    agent_wake(&l->w, agent, (int64_t)rnd(&l->w, 300), true);
}

static inline void do_stop(struct life *l, const struct pl_sched_action *a)
{
    struct agent *agent = agent_of(&l->w, a->worker.id);
    struct message m = {.kind = TO_AGENT, .action = a->kind, .id = a->worker.id};

    if (agent)
        agent->told_to_end = true;
    if (!agent || (!agent->alive && agent->told_gone)) {
        send(&l->w, EXITED, 1)->id = a->worker.id;
    } else if (a->worker.kill) {
        agent_end(&l->w, agent);
    } else {
        post(&l->w, &m);
    }
}

static inline void do_lease(struct life *l, const struct pl_sched_action *a)
{
    struct wjob *job = job_by_id(l, a->lease.job);
    struct agent *agent = agent_of(&l->w, a->lease.worker);
    struct message m = {
        .kind = TO_AGENT, .action = a->kind, .id = a->lease.worker, .task = a->lease.task, .fence = a->lease.fence};
    struct wtask *task = calloc(1, sizeof(*task));

    MUST(&l->w, job && agent && task && !l->draining, "a lease of nothing");
    MUST(&l->w, job->state == PL_SCHED_RUNNING, "a lease of a job that is %s", pl_sched_state_name(job->state));
    MUST(&l->w, agent->stage == job->stage && agent->version == job->version, "a worker of another stage");
    MUST(&l->w, a->lease.fence > l->last_fence, "a fence that does not rise");
    must_be_its_turn(l, job);
    l->last_fence = task->fence = a->lease.fence;
    task->id = a->lease.task;
    task->worker = a->lease.worker;
    task->failures = a->lease.failures;
    task->losses = a->lease.losses;
    for (size_t i = 0; i < a->lease.n_rows; i++)
        for (uint32_t k = a->lease.rows[i].lo; k < a->lease.rows[i].hi; k++) {
            struct wrow *row = &job->rows[k];

            MUST(&l->w, k < job->n_rows && !row->ended, "row %u is leased again", k);
            MUST(&l->w, row->failures == a->lease.failures && row->losses == a->lease.losses,
                 "row %u failed %u times and was lost %u times, not %u and %u", k, row->failures, row->losses, a->lease.failures,
                 a->lease.losses);
            for (const struct wtask *t = job->tasks; t; t = t->next)
                for (uint32_t n = 0; n < t->n; n++)
                    MUST(&l->w, t->rows[n] != k, "row %u is leased twice", k);
            row->fence = a->lease.fence;
            task->rows[task->n] = k;
            m.rows[task->n++].index = k;
        }
    MUST(&l->w, task->n == a->lease.count, "%u rows, not %u", task->n, a->lease.count);
    m.n_rows = task->n;
    task->next = job->tasks;
    job->tasks = task;
    job->leased = true;
    post(&l->w, &m);
}

static inline void task_forget_row(struct wjob *job, uint64_t fence, uint32_t row)
{
    for (struct wtask *t = job->tasks; t; t = t->next)
        for (uint32_t i = 0; t->fence == fence && i < t->n; i++)
            if (t->rows[i] == row)
                t->rows[i--] = t->rows[--t->n];
}

static inline void do_result(struct life *l, const struct pl_sched_action *a, const struct pl_sched_event *ev)
{
    struct wjob *job = job_by_id(l, a->result.job);
    struct message m = {
        .kind = TO_AGENT, .action = a->kind, .id = a->result.worker, .task = a->result.task, .fence = a->result.fence};

    m.flag = a->result.task_done;
    post(&l->w, &m);
    MUST(&l->w, job && a->result.n == ev->result.n, "a result of nothing");
    for (size_t i = 0; i < a->result.n; i++) {
        const struct pl_sched_row *got = &ev->result.rows[i];
        struct wrow *row = &job->rows[got->index];

        if (a->result.verdicts[i] == PL_SCHED_ROW_IGNORED)
            continue;
        MUST(&l->w, got->index < job->n_rows && !row->ended, "row %u ended twice", got->index);
        MUST(&l->w, row->fence == a->result.fence, "row %u: fence %llu counts, not %llu", got->index,
             (unsigned long long)row->fence, (unsigned long long)a->result.fence);
        task_forget_row(job, a->result.fence, got->index);
        if (a->result.verdicts[i] == PL_SCHED_ROW_DONE) {
            MUST(&l->w, !job->done[row->datum] && !got->failed, "a datum twice");
            job->done[row->datum] = row->ended = true;
        } else if (a->result.verdicts[i] == PL_SCHED_ROW_FAILED) {
            MUST(&l->w, row->failures + 1 == def_of(l, job->stage, job->version)->stage.tries, "tries left");
            row->ended = true;
        } else if (a->result.verdicts[i] == PL_SCHED_ROW_RETRY) {
            row->failures++;
        }
    }
    if (a->result.task_done)
        tasks_drop(job, a->result.fence);
}

static inline void do_give_up(struct life *l, const struct pl_sched_action *a)
{
    struct wjob *job = job_by_id(l, a->lease.job);

    MUST(&l->w,
         a->lease.losses == PL_SCHED_LOSSES_MAX + 1 || a->lease.failures == def_of(l, job->stage, job->version)->stage.tries,
         "given up before its time");
    MUST(&l->w, a->lease.message, "given up for no reason");
    for (size_t i = 0; i < a->lease.n_rows; i++)
        for (uint32_t k = a->lease.rows[i].lo; k < a->lease.rows[i].hi; k++)
            job->rows[k].ended = true;
}

static inline void do_run_state(struct life *l, const struct pl_sched_action *a)
{
    struct wrun *run = run_by_id(l, a->run.id);
    uint32_t states[PL_SCHED_STATES] = {0};

    MUST(&l->w, !run->ended, "a run ended twice");
    if (a->run.state == PL_SCHED_RUNNING)
        return;
    run->ended = true;
    while (l->oldest < l->n_runs && l->runs[l->oldest].ended)
        l->oldest++;
    for (size_t i = 0; i < STAGES; i++)
        if (run->jobs[i].id)
            states[run->jobs[i].state]++;
    for (int i = 0; i < PL_SCHED_STATES; i++)
        MUST(&l->w, states[i] == a->run.jobs[i], "%u jobs are %s, not %u", states[i], pl_sched_state_name((enum pl_sched_state)i),
             a->run.jobs[i]);
    MUST(&l->w,
         a->run.state == (states[PL_SCHED_FAILURE]      ? PL_SCHED_FAILURE
                          : states[PL_SCHED_KILLED]     ? PL_SCHED_KILLED
                          : states[PL_SCHED_UNRUNNABLE] ? PL_SCHED_FAILURE
                                                        : PL_SCHED_SUCCESS),
         "a run ended as %s", pl_sched_state_name(a->run.state));
    MUST(&l->w, states[PL_SCHED_CREATED] + states[PL_SCHED_STARTING] + states[PL_SCHED_RUNNING] + states[PL_SCHED_FINISHING] == 0,
         "a run ended before its jobs");
}

static inline void do_lost(struct life *l, const struct pl_sched_action *a)
{
    struct message m = {
        .kind = TO_AGENT, .action = a->kind, .id = a->lease.worker, .task = a->lease.task, .fence = a->lease.fence};
    struct wjob *job = job_by_id(l, a->lease.job);

    for (size_t i = 0; a->kind == PL_SCHED_RETURNED && i < a->lease.n_rows; i++)
        for (uint32_t k = a->lease.rows[i].lo; k < a->lease.rows[i].hi; k++) {
            const uint32_t before = job->rows[k].failures + job->rows[k].losses, now = a->lease.failures + a->lease.losses;

            /* a loss by which the cluster took the pod away leaves the history as it was */
            MUST(&l->w, now == before + 1 || (a->lease.lost && now == before), "a return of nothing");
            job->rows[k].failures = a->lease.failures;
            job->rows[k].losses = a->lease.losses;
        }
    if (a->kind != PL_SCHED_LEASE_LOST && job)
        tasks_drop(job, a->lease.fence);
    if (a->kind != PL_SCHED_RETURNED)
        post(&l->w, &m);
}

static inline struct wtask *task_of(struct life *l, uint64_t id, uint64_t fence)
{
    for (size_t r = l->oldest; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES; i++)
            for (struct wtask *t = l->runs[r].jobs[i].tasks; t; t = t->next)
                if (t->id == id && t->fence == fence)
                    return t;
    return NULL;
}

static inline void do_recall(struct life *l, const struct pl_sched_action *a)
{
    struct wtask *task = task_of(l, a->lease.task, a->lease.fence);

    MUST(&l->w, task && task->worker == a->lease.worker && !l->draining, "a recall of nothing");
    task->recalled = true;
}

/* A renewal tells what stands; a result takes it away. */
static inline void recalls_told(struct life *l, const struct pl_sched_event *ev)
{
    struct wtask *task;

    if (ev->kind == PL_SCHED_EV_RESULT && (task = task_of(l, ev->result.task, ev->result.fence)))
        task->recalled = false;
    for (size_t i = 0; ev->kind == PL_SCHED_EV_RENEW && i < ev->leases.n; i++) {
        const struct pl_sched_lease *lease = &ev->leases.items[i];
        struct message m = {
            .kind = TO_AGENT, .action = PL_SCHED_RECALL, .id = ev->id, .task = lease->task, .fence = lease->fence};

        task = task_of(l, lease->task, lease->fence);
        if (task && task->recalled && task->worker == ev->id)
            post(&l->w, &m);
    }
}

static inline void carry_out(struct life *l, const struct pl_sched_action *a, const struct pl_sched_event *ev)
{
    static void (*const simple[])(struct life *, const struct pl_sched_action *) = {
        [PL_SCHED_RUN_STATE] = do_run_state, [PL_SCHED_JOB_STATE] = do_job_state, [PL_SCHED_PLAN] = do_plan,
        [PL_SCHED_COMMIT] = do_commit,       [PL_SCHED_START_WORKER] = do_start,  [PL_SCHED_STOP_WORKER] = do_stop,
        [PL_SCHED_LEASE] = do_lease,         [PL_SCHED_LEASE_LOST] = do_lost,     [PL_SCHED_CANCEL] = do_lost,
        [PL_SCHED_RETURNED] = do_lost,       [PL_SCHED_RECALL] = do_recall,       [PL_SCHED_GIVE_UP] = do_give_up,
    };

    switch (a->kind) {
    case PL_SCHED_RESULT:
        do_result(l, a, ev);
        break;
    case PL_SCHED_TIMER:
        l->tick_at = a->at_ms == INT64_MAX ? INT64_MAX : a->at_ms - l->w.skew;
        break;
    case PL_SCHED_CONTINUE:
        l->more = true;
        break;
    case PL_SCHED_DRAINED:
        MUST(&l->w, l->draining && !l->drained, "drained of its own");
        l->drained = true;
        break;
    default:
        simple[a->kind](l, a);
    }
}

static inline int step(struct life *l, struct pl_sched_event *ev)
{
    struct pl_sched_actions out;
    struct pl_err err;
    int r;

    ev->now_ms = l->w.now + l->w.skew;
    recalls_told(l, ev);
    r = pl_sched_step(l->s, ev, &out, &err);
    if (r == PL_ENOMEM || r == PL_EINVAL)
        world_die(&l->w, err.msg);
    l->more = l->more && ev->kind != PL_SCHED_EV_TICK;
    if (l->tick_at <= l->w.now)
        l->tick_at = INT64_MAX; /* its TICK is this event, or comes by another TIMER */
    for (size_t i = 0; i < out.n; i++) {
        if (l->crash_in == 0)
            return r;
        l->crash_in -= l->crash_in > 0 ? 1 : 0;
        carry_out(l, &out.items[i], ev);
    }
    if (!l->more && r == 0 && chance(&l->w, 12))
        must_have_sums(l);
    return r;
}
