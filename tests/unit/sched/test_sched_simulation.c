// link: pipelined/sched storage/base
/* The scheduler in a virtual world: random graphs, pushes, updates and stops; agents that crash, hang and answer late; a daemon that dies
 * between any two actions and comes back with what a log would hold. What must hold is checked at every action; when the world calms,
 * every run must end. PL_SEED=N runs one seed, PL_SEEDS=N so many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/sched/sched_simulated_daemon.h"

enum {
    CHAOS_MS = 6 * 60 * 1000,
    CALM_MS = 48 * 3600 * 1000,
    STEADY_MS = 20 * 60 * 1000,
    STEADY_GAP_MS = 5 * 60 * 1000,
    STEADY_RUNS = 6000
};

/* --- the daemon dies and comes back */

static void restore(struct life *l, struct pl_sched_event *ev)
{
    struct pl_sched_actions out;
    struct pl_err err = {0};

    ev->now_ms = l->w.now + l->w.skew;
    if (pl_sched_step(l->s, ev, &out, &err) < 0)
        world_die(&l->w, err.msg);
    MUST(&l->w, out.n == 0, "actions before all is restored");
}

static void restore_job(struct life *l, struct wjob *job)
{
    struct pl_sched_range ended[DATUMS];
    struct pl_sched_tried tried[DATUMS];
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_JOB};
    bool again = !pl_sched_state_final(job->state) && (job->n_rows == 0 || chance(&l->w, 30));

    job->planned = job->state > PL_SCHED_CREATED && !again && job->planned;
    job->landing = false;
    ev.job.id = job->id;
    ev.job.stage = job->stage + 1;
    ev.job.version = job->version;
    ev.job.run = job->run->id;
    ev.job.state = job->state;
    ev.job.text = job->reason;
    ev.job.superseded_by = job->superseded_by[0] ? job->superseded_by : NULL;
    ev.job.planned = job->planned;
    ev.job.leased = job->leased;
    ev.job.datums = job->n_datums;
    ev.job.to_run = job->planned ? job->n_rows : 0;
    ev.job.ended = ended;
    ev.job.tried = tried;
    ev.job.first_failed = (struct pl_sched_row){.label = "/a", .message = "exit code 1"};
    for (uint32_t i = 0; job->planned && i < job->n_rows; i++) {
        if (!job->rows[i].ended) {
            if (job->rows[i].failures + job->rows[i].losses > 0)
                tried[ev.job.n_tried++] = (struct pl_sched_tried){{i, i + 1}, job->rows[i].failures, job->rows[i].losses};
            continue;
        }
        ended[ev.job.n_ended++] = (struct pl_sched_range){i, i + 1};
        ev.job.failed += !job->done[job->rows[i].datum];
    }
    restore(l, &ev);
    if (!job->planned || !l->save_leases)
        tasks_drop(job, 0);
    if (!pl_sched_state_final(job->state))
        job->state = !job->planned ? PL_SCHED_CREATED : job->leased ? PL_SCHED_RUNNING : PL_SCHED_STARTING;
}

static void restore_jobs(struct life *l, struct wrun *run)
{
    for (unsigned i = 0; i < STAGES; i++) {
        struct wjob *job = &run->jobs[i];

        if (!job->id)
            continue;
        if (job->saved && !l->stages[i].removed) {
            restore_job(l, job);
            continue;
        }
        tasks_drop(job, 0);
        job->id = 0; /* follows from the run again, if its stage is still there */
    }
}

static void restore_tasks(struct life *l, struct wjob *job)
{
    /* they stand newest first; one whose rows were leased anew is refused */
    for (struct wtask *t = job->tasks, *next; t; t = next) {
        struct pl_sched_range rows[DATUMS];
        struct pl_sched_actions out;
        struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_TASK};
        bool in[DATUMS] = {0};

        next = t->next;
        for (uint32_t i = 0; i < t->n; i++)
            in[t->rows[i]] = true;
        for (uint32_t i = 0; i < DATUMS; i++)
            if (in[i])
                rows[ev.task.n_rows++] = (struct pl_sched_range){i, i + 1};
        ev.task.task = t->id;
        ev.task.fence = t->fence;
        ev.task.job = job->id;
        ev.task.worker = t->worker;
        ev.task.rows = rows;
        ev.task.failures = t->failures;
        ev.task.losses = t->losses;
        ev.now_ms = l->w.now + l->w.skew;
        if (pl_sched_step(l->s, &ev, &out, NULL) < 0) {
            tasks_drop(job, t->fence);
            continue;
        }
        t->recalled = false;
    }
}

static void restore_stages(struct life *l)
{
    for (size_t i = 0; i < l->n_stages; i++)
        for (size_t v = 0; v < l->stages[i].n && !l->stages[i].removed; v++)
            restore(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_SET, .stage = l->stages[i].defs[v].stage});
    restore(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = l->capacity});
    for (size_t i = 0; l->cluster && i < SHAPES; i++)
        restore(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = l->shapes[i]});
}

static void restore_runs(struct life *l)
{
    for (size_t r = 0; r < l->n_runs; r++) {
        struct wrun *run = &l->runs[r];
        struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_RUN};

        if (run->ended)
            continue;
        ev.run.id = run->id;
        ev.run.order = run->order;
        ev.run.heads = run->heads;
        ev.run.n_heads = run->n_heads;
        ev.run.stages = run->stages;
        ev.run.n_stages = run->n_stages;
        restore(l, &ev);
        restore_jobs(l, run);
    }
}

static void restore_workers(struct life *l)
{
    for (size_t i = 0; i < l->w.n_agents; i++) {
        struct agent *a = l->w.agents[i];
        struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_WORKER};

        if (a->told_gone)
            continue;
        if (l->stages[a->stage].removed) { /* the engine sees to its end before it goes on */
            a->alive = false;
            a->told_gone = true;
            continue;
        }
        ev.worker.id = a->worker;
        ev.worker.stage = a->stage + 1;
        ev.worker.version = a->version;
        ev.worker.gpus = a->gpus;
        ev.worker.n_gpus = a->n_gpus;
        ev.worker.shape = a->shape;
        ev.worker.starting = a->shape && !a->attached;
        a->told_placed = !ev.worker.starting || (a->told_placed && chance(&l->w, 70)); /* it was written down, or not any more */
        ev.worker.node = a->told_placed ? a->node : NULL;
        a->told_to_end = false; /* it is told again, when it is to */
        restore(l, &ev);
    }
}

static void daemon_start(struct life *l)
{
    struct pl_sched_config config = {.first_id = ++l->epoch << 32, .linger_ms = l->linger_ms, .transitions = l->transitions};

    if (pl_sched_create(&config, &l->s, NULL) < 0)
        world_die(&l->w, "no memory");
    l->tick_at = INT64_MAX;
    l->more = l->draining = l->drained = false;
    l->crash_in = -1;
    restore_stages(l);
    restore_runs(l);
    restore_workers(l);
    for (size_t r = 0; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES && !l->runs[r].ended; i++)
            if (l->runs[r].jobs[i].id)
                restore_tasks(l, &l->runs[r].jobs[i]);
    step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_DONE});
    for (size_t i = 0; i < l->w.n_agents; i++) { /* what a first look at the cluster tells */
        const struct agent *a = l->w.agents[i];

        if (!a->shape || a->told_gone || a->attached || l->w.now < a->placed_at)
            continue;
        *send(&l->w, ANSWER, 1 + (int64_t)rnd(&l->w, 1000)) = (struct message){
            .kind = ANSWER, .at = l->w.now + 1, .event = PL_SCHED_EV_WORKER_PLACED, .id = a->worker, .flag = true};
    }
}

static void daemon_die(struct life *l)
{
    l->s = pl_sched_destroy(l->s);
    l->tick_at = INT64_MAX;
    l->more = l->draining = false;
    l->down_until = l->w.now + (int64_t)rnd(&l->w, 60000);
    for (size_t i = 0; i < l->w.n_messages; i++)
        if (l->w.messages[i]->kind == ANSWER) {
            free(l->w.messages[i]);
            l->w.messages[i--] = l->w.messages[--l->w.n_messages];
        }
}

/* --- another daemon takes over, and the first does not know it yet */

/* The first one's pods are strays to the second, which knows the log only; its list of pods removes them. */
static void take_over(struct life *l)
{
    l->twin = pl_sched_destroy(l->twin);
    l->twin = l->s;
    l->twin_epoch = l->epoch;
    l->twin_until = l->w.now + (int64_t)rnd(&l->w, 5000);
    l->s = NULL;
    daemon_die(l);
    for (size_t i = 0; i < l->w.n_agents; i++) {
        struct agent *a = l->w.agents[i];

        if (a->told_gone)
            continue;
        a->alive = false;
        a->told_gone = true;
    }
    for (size_t r = 0; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES; i++)
            tasks_drop(&l->runs[r].jobs[i], 0);
    daemon_start(l);
}

/* It goes on with its pods, of which it sees that they are gone. Whatever it asks of the cluster is about workers of its own start, or of earlier
 * ones, and so never about a pod of the daemon that took over. */
static void twin_lives(struct life *l)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_TICK, .now_ms = l->w.now + l->w.skew};
    struct pl_sched_actions out;
    struct pl_err err;

    if (chance(&l->w, 50) && l->w.n_agents > 0) {
        ev.kind = PL_SCHED_EV_WORKER_EXITED;
        ev.id = l->w.agents[rnd(&l->w, l->w.n_agents)]->worker;
        ev.exit = PL_SCHED_EXIT_DISRUPTED;
        ev.text = "its pod was deleted";
    }
    if (pl_sched_step(l->twin, &ev, &out, &err) < 0)
        world_die(&l->w, err.msg);
    for (size_t i = 0; i < out.n; i++) {
        const struct pl_sched_action *a = &out.items[i];
        const bool cluster = a->kind == PL_SCHED_START_WORKER || a->kind == PL_SCHED_STOP_WORKER;

        MUST(&l->w, !cluster || a->worker.id >> 32 <= l->twin_epoch, "a daemon that was taken over acts on worker %llu",
             (unsigned long long)a->worker.id);
        MUST(&l->w, a->kind != PL_SCHED_LEASE || a->lease.fence <= l->last_fence || a->lease.fence >> 32 <= l->twin_epoch,
             "its fence is as high as that of the one that took over");
    }
    if (l->w.now >= l->twin_until)
        l->twin = pl_sched_destroy(l->twin);
}

/* --- what happens from outside */

static void add_version(struct life *l, unsigned i)
{
    struct wstage *st = &l->stages[i];
    struct def *def = &st->defs[st->n];
    struct world *w = &l->w;
    uint32_t gpus = chance(w, 60) ? 0 : 1 + (uint32_t)rnd(w, 2);

    *def = (struct def){.version = st->n + 1};
    def->n_inputs = 1 + rnd(w, INPUTS);
    for (size_t k = 0; k < def->n_inputs; k++) {
        uint64_t from = rnd(w, SOURCES + i);

        def->inputs[k] = (struct pl_sched_head){from < SOURCES ? from : 100 + from - SOURCES, 1};
    }
    snprintf(def->name, sizeof(def->name), "stage%u", i);
    def->stage = (struct pl_sched_stage){
        .stage = i + 1,
        .version = def->version,
        .since = l->n_runs ? l->runs[l->n_runs - 1].order + 1 : 0,
        .pipeline = 1 + i % 3,
        .name = def->name,
        .inputs = def->inputs,
        .n_inputs = def->n_inputs,
        .output = {100 + i, 1},
        .workers = 1 + (uint32_t)rnd(w, 4),
        .tries = 1 + (uint32_t)rnd(w, 3),
        .gpu_count = gpus,
        .gpu_required = gpus && chance(w, 50),
        .gpu_wait_ms = (int64_t)rnd(w, 120000),
        .cpu_milli = chance(w, 70) ? 0 : 500 + (uint32_t)rnd(w, 1500),
        .job_timeout_ms = chance(w, 90) ? 0 : 1000 + (int64_t)rnd(w, 60000),
        .on_new = chance(w, 50) ? PL_SCHED_QUEUE : PL_SCHED_NEWEST,
    };
    if (l->cluster) {
        def->stage.shape = gpus ? 3 + rnd(w, 2) : 1 + rnd(w, 2);
        def->stage.cpu_shape = gpus && !def->stage.gpu_required ? 1 + rnd(w, 2) : 0;
    }
    st->n++;
}

static void push(struct life *l, unsigned stage_or_none)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};
    struct wrun *run = &l->runs[l->n_runs];

    if (l->n_runs == l->max_runs)
        return;
    snprintf(run->id, sizeof(run->id), "%032llx", (unsigned long long)(l->n_runs + 1) * 0x123456789);
    memmove(run->id, run->id + 16, 8); /* its first digits differ */
    run->order = 10 * ++l->n_runs;
    if (stage_or_none < STAGES)
        run->stages[run->n_stages++] = stage_or_none + 1;
    else
        for (size_t i = 0; i <= rnd(&l->w, 2); i++)
            run->heads[run->n_heads++] = (struct pl_sched_head){rnd(&l->w, SOURCES), 1};
    ev.run.id = run->id;
    ev.run.order = run->order;
    ev.run.heads = run->heads;
    ev.run.n_heads = run->n_heads;
    ev.run.stages = run->stages;
    ev.run.n_stages = run->n_stages;
    step(l, &ev);
}

static void update(struct life *l)
{
    unsigned i = (unsigned)rnd(&l->w, l->n_stages);

    if (l->stages[i].removed || l->stages[i].n == VERSIONS)
        return;
    add_version(l, i);
    step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_SET, .stage = def_now(l, i)->stage});
    for (size_t shape = 0; l->cluster && shape < SHAPES && l->crash_in != 0; shape++) /* who takes one is told what it is like */
        step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = l->shapes[shape]});
    if (l->crash_in != 0)
        push(l, i);
}

static void stop_something(struct life *l)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STOP_JOB, .text = "stopped by a user"};
    struct wrun *run;

    if (l->n_runs == 0)
        return;
    run = &l->runs[rnd(&l->w, l->n_runs)];
    if (chance(&l->w, 50)) {
        ev.kind = PL_SCHED_EV_STOP_RUN;
        ev.run.id = run->id;
    } else {
        ev.id = run->jobs[rnd(&l->w, STAGES)].id;
    }
    step(l, &ev);
}

static void remove_stage(struct life *l)
{
    unsigned i = (unsigned)rnd(&l->w, l->n_stages);

    if (l->stages[i].removed)
        return;
    l->stages[i].removed = true;
    step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_REMOVED, .id = i + 1});
}

static void change_shape(struct life *l, size_t i, bool calm)
{
    l->shapes[i] = (struct pl_sched_shape){.id = i + 1,
                                           .offered = calm || chance(&l->w, 80),
                                           .pending_max = calm ? 1 + (uint32_t)rnd(&l->w, 3) : (uint32_t)rnd(&l->w, 5),
                                           .needs = rnd(&l->w, 3),
                                           .text = "no node offers that"};
    if (l->s)
        step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = l->shapes[i]});
}

static void change_capacity(struct life *l, bool calm)
{
    for (size_t i = 0; l->cluster && i < SHAPES && l->crash_in != 0; i++)
        if (calm || !l->s || chance(&l->w, 50))
            change_shape(l, i, calm);
    if (l->crash_in == 0)
        return;
    l->capacity =
        (struct pl_sched_capacity){.cpu_milli = 2000 + rnd(&l->w, 3) * 1000, .gpu_slots = calm ? 2 : (uint32_t)rnd(&l->w, 4)};
    l->capacity.gpu_offered = l->capacity.gpu_slots + (uint32_t)rnd(&l->w, 2);
    if (l->s)
        step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = l->capacity});
}

static void hurt_agent(struct life *l)
{
    struct agent *a = l->w.n_agents ? l->w.agents[rnd(&l->w, l->w.n_agents)] : NULL;

    for (size_t i = l->w.n_agents; a && !a->alive && i-- > 0;)
        a = l->w.agents[i];
    if (!a)
        return;
    if (a->shape && chance(&l->w, 40)) {
        if (a->placed && chance(&l->w, 30))
            drain_node(&l->w, a->node);
        else
            agent_preempted(&l->w, a);
    } else if (l->s && chance(&l->w, 20))
        step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_RETIRE, .id = a->worker});
    else if (chance(&l->w, 60))
        agent_end(&l->w, a);
    else
        a->hung = true;
}

/* It ends once it is still, or is killed. */
static void drain(struct life *l)
{
    if (l->draining) {
        daemon_die(l);
        return;
    }
    l->draining = true;
    step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_DRAIN});
}

static void chaos(struct life *l)
{
    uint64_t what = l->drained ? 80 : rnd(&l->w, 100);

    l->chaos_at = l->w.now + (int64_t)rnd(&l->w, 20000);
    if (what < 45)
        push(l, STAGES);
    else if (what < 60)
        hurt_agent(l);
    else if (what < 66)
        update(l);
    else if (what < 73)
        stop_something(l);
    else if (what < 75)
        remove_stage(l);
    else if (what < 79)
        change_capacity(l, false);
    else if (what < 83)
        drain(l);
    else if (what < 88)
        l->w.skew += chance(&l->w, 70) ? (int64_t)rnd(&l->w, 600000) : -(int64_t)rnd(&l->w, 60000);
    else if (what < 92)
        l->w.now += (int64_t)rnd(&l->w, 120000); /* nothing came in for so long */
    else if (what < 94 && l->cluster)
        take_over(l);
    else
        l->crash_in = (int)rnd(&l->w, 12);
}

/* --- time */

static void deliver(struct life *l, struct message *m)
{
    struct agent *agent = agent_of(&l->w, m->id);
    struct pl_sched_event ev = {.kind = m->event, .id = m->id, .text = "exit code 137"};

    if (m->event == PL_SCHED_EV_WORKER_WAITS)
        ev.text = chance(&l->w, 80) ? "0/3 nodes are available: 3 Insufficient nvidia.com/gpu." : NULL;
    if (m->event == PL_SCHED_EV_WORKER_PLACED)
        ev.text = agent ? agent->node : NULL;
    if (m->kind == WAKE && agent)
        agent_act(&l->w, agent, m->flag);
    else if (m->kind == TO_AGENT)
        agent_hear(&l->w, m);
    if (m->kind == WAKE || m->kind == TO_AGENT || !l->s)
        return;
    ev.on = m->flag && m->event == PL_SCHED_EV_WORKER_PLACED;
    if (m->kind == EXITED) {
        ev.kind = m->event == PL_SCHED_EV_START_FAILED && !m->flag ? m->event : PL_SCHED_EV_WORKER_EXITED;
        ev.on = m->flag;
        ev.exit = m->exit;
        ev.counts = l->cluster && m->exit == PL_SCHED_EXIT_OWN && chance(&l->w, l->spot ? 0 : 30);
        if (agent)
            agent->told_gone = true;
    }
    if (m->event == PL_SCHED_EV_JOB_PLANNED && job_by_id(l, m->id))
        job_by_id(l, m->id)->planned = true;
    if (agent && (ev.kind == PL_SCHED_EV_WORKER_PLACED || ev.kind == PL_SCHED_EV_WORKER_ATTACHED))
        agent->told_placed = true;
    ev.plan.datums = m->datums;
    ev.plan.to_run = m->to_run;
    ev.leases.items = m->leases;
    ev.leases.n = m->n_leases;
    ev.result.task = m->task;
    ev.result.fence = m->fence;
    ev.result.rows = m->rows;
    ev.result.n = m->n_rows;
    ev.result.compute_us = 1 + rnd(&l->w, 20000000);
    step(l, &ev);
}

static bool all_ended(const struct life *l)
{
    for (size_t r = 0; r < l->n_runs; r++)
        if (!l->runs[r].ended)
            return false;
    return true;
}

/* The next thing that happens, in the order of time. */
static void live_once(struct life *l)
{
    int64_t until = PL_MIN(l->tick_at, l->w.calm ? INT64_MAX : l->chaos_at);
    struct message *m;

    if (!l->s)
        until = PL_MIN(until, l->down_until);
    if (l->more && (l->w.n_messages == 0 || chance(&l->w, 70)))
        until = l->w.now;
    m = next_message(&l->w, until);
    if (!m && until == INT64_MAX)
        world_die(&l->w, "nothing will ever happen again, and not all runs have ended");
    l->w.now = PL_MAX(l->w.now, m ? m->at : until);
    if (m) {
        if (m->kind == EXITED && !l->s) {
            m->at = l->down_until + 1;
            l->w.messages[l->w.n_messages++] = m;
        } else {
            deliver(l, m);
            free(m);
        }
    } else if (!l->s && l->w.now >= l->down_until) {
        daemon_start(l);
    } else if (l->s && (l->more || l->w.now >= l->tick_at)) {
        l->more = false;
        step(l, &(struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    } else if (!l->w.calm && l->w.now >= l->chaos_at) {
        if (l->s)
            chaos(l);
        else
            l->chaos_at = l->down_until;
    }
    if (l->s && l->crash_in == 0)
        daemon_die(l);
    if (l->twin)
        twin_lives(l);
}

static void life_finish(struct life *l)
{
    l->s = pl_sched_destroy(l->s);
    l->twin = pl_sched_destroy(l->twin);
    for (size_t i = 0; i < l->w.n_messages; i++)
        free(l->w.messages[i]);
    for (size_t i = 0; i < l->w.n_agents; i++)
        free(l->w.agents[i]);
    for (size_t r = 0; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES; i++)
            tasks_drop(&l->runs[r].jobs[i], 0);
    free(l->runs);
    free(l);
}

static void calm_down(struct life *l)
{
    l->w.calm = true;
    l->w.fail_percent /= 4;
    l->crash_in = -1;
    if (l->draining)
        daemon_die(l);
    if (!l->s)
        daemon_start(l);
    change_capacity(l, true);
}

static struct life *life_create(uint64_t seed, size_t max_runs)
{
    struct life *l = calloc(1, sizeof(*l));

    assert_non_null(l);
    l->runs = calloc(max_runs, sizeof(*l->runs));
    assert_non_null(l->runs);
    l->max_runs = max_runs;
    l->w.seed = l->w.rng = seed;
    l->cluster = seed % 2 == 0;
    l->crash_in = -1;
    return l;
}

static void live(uint64_t seed)
{
    struct life *l = life_create(seed, RUNS);
    int64_t end;

    l->w.loss_percent = (unsigned)rnd(&l->w, 3) * 5;
    l->w.fail_percent = (unsigned)rnd(&l->w, 4) * 10;
    l->transitions = chance(&l->w, 50) ? 0 : 1 + (unsigned)rnd(&l->w, 20);
    l->linger_ms = (int64_t)rnd(&l->w, 3) * 1000 - 1000;
    l->save_leases = chance(&l->w, 60);
    l->n_stages = 1 + rnd(&l->w, STAGES);
    for (unsigned i = 0; i < l->n_stages; i++)
        add_version(l, i);
    change_capacity(l, false);
    daemon_start(l);
    while (l->w.now < CHAOS_MS)
        live_once(l);
    calm_down(l);
    end = l->w.now + CALM_MS;
    while (!all_ended(l) || l->more) {
        live_once(l);
        MUST(&l->w, l->w.now < end, "not all runs end");
    }
    life_finish(l);
}

static void live_all(void (*one_life)(uint64_t seed), uint64_t seeds)
{
    const char *one = getenv("PL_SEED"), *many = getenv("PL_SEEDS");

    if (one) {
        one_life(strtoull(one, NULL, 10));
        return;
    }
    seeds = many ? strtoull(many, NULL, 10) : seeds;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        one_life(seed);
}

static void every_life_keeps_the_rules_and_ends(void **state)
{
    (void)state;
    live_all(live, 500);
}

/* Pushes come steadily, at any rate, and each stage takes the newest: all of them commit again and again, those too that join others of which each
 * is done with another run by then; and when no more is pushed, the last that was is reached. */
static void push_steadily(uint64_t seed)
{
    struct life *l = life_create(seed, STEADY_RUNS);
    const int64_t every_ms = 100ll << rnd(&l->w, 8);
    int64_t next_ms = 0, end_ms = PL_MIN((int64_t)STEADY_MS, every_ms * (STEADY_RUNS - 1));

    l->w.calm = true;
    l->w.plan_ms = 1 + (int64_t)rnd(&l->w, 1500);
    l->w.row_ms = 1 + (int64_t)rnd(&l->w, 100);
    l->linger_ms = 1000;
    l->n_stages = 2 + rnd(&l->w, STAGES - 1);
    for (unsigned i = 0; i < l->n_stages; i++) {
        add_version(l, i);
        l->stages[i].defs[0].stage.on_new = PL_SCHED_NEWEST;
        l->stages[i].defs[0].stage.job_timeout_ms = 0;
    }
    change_capacity(l, true); /* enough for all, who waits does so for others' data */
    l->capacity = (struct pl_sched_capacity){.cpu_milli = 100000, .gpu_slots = 80, .gpu_offered = 80};
    daemon_start(l);
    while (l->w.now < end_ms) {
        if (l->w.now >= next_ms) {
            push(l, STAGES);
            next_ms += every_ms;
        }
        *send(&l->w, WAKE, PL_MAX(next_ms - l->w.now, 0)) = (struct message){.kind = WAKE, .at = next_ms};
        while (l->w.now < next_ms)
            live_once(l);
    }
    for (unsigned i = 0; i < l->n_stages; i++) {
        const struct wstage *st = &l->stages[i];

        MUST(&l->w, st->commits >= 3 && PL_MAX(st->longest_ms, l->w.now - st->committed_at) <= STEADY_GAP_MS,
             "stage %u starves: a push every %lld ms, %u commits, %lld s without one", i, (long long)every_ms, st->commits,
             (long long)PL_MAX(st->longest_ms, l->w.now - st->committed_at) / 1000);
    }
    end_ms = l->w.now + CALM_MS;
    while (!all_ended(l) || l->more) {
        live_once(l);
        MUST(&l->w, l->w.now < end_ms, "not all runs end");
    }
    for (unsigned i = 0; i < l->n_stages; i++) {
        size_t r = l->n_runs - 1;

        while (l->runs[r].jobs[i].id == 0)
            r--;
        MUST(&l->w, l->runs[r].jobs[i].state == PL_SCHED_SUCCESS, "stage %u did not reach the newest data: %s", i,
             l->runs[r].jobs[i].reason);
    }
    life_finish(l);
}

static void steady_pushes_starve_no_stage(void **state)
{
    (void)state;
    live_all(push_steadily, 30);
}

/* One that works, or all that work on its node. Who works has attached, and the scheduler has heard of it. */
static void take_back(struct life *l)
{
    struct agent *a = NULL;

    for (size_t i = 0, n = rnd(&l->w, l->w.n_agents + 1); i < l->w.n_agents; i++) {
        struct agent *one = l->w.agents[(n + i) % l->w.n_agents];

        if (one->alive && one->n_tasks > 0)
            a = one;
    }
    if (!a)
        return;
    agent_preempted(&l->w, a);
    for (size_t i = 0, drained = rnd(&l->w, 2); drained && i < l->w.n_agents; i++)
        if (l->w.agents[i]->n_tasks > 0 && pl_streq(l->w.agents[i]->node, a->node))
            agent_preempted(&l->w, l->w.agents[i]);
}

/* Spot nodes come and go for half an hour, faster than most datums are computed; daemons are killed and taken over. Nothing fails for it, and no stage
 * waits for it. */
static void live_on_spot(uint64_t seed)
{
    struct life *l = life_create(seed, RUNS);
    int64_t next_ms = 0, end_ms = 1800 * 1000;

    l->cluster = l->spot = l->w.calm = l->save_leases = true;
    l->w.row_ms = 60000;
    l->linger_ms = 1000;
    l->n_stages = 1 + rnd(&l->w, 4);
    for (unsigned i = 0; i < l->n_stages; i++) {
        add_version(l, i);
        l->stages[i].defs[0].stage.on_new = PL_SCHED_QUEUE;
        l->stages[i].defs[0].stage.job_timeout_ms = 0;
        l->stages[i].defs[0].stage.tries = 1;
    }
    change_capacity(l, true);
    daemon_start(l);
    for (unsigned i = 0; i < 4; i++)
        push(l, STAGES);
    while (l->w.now < end_ms) {
        const uint64_t what = rnd(&l->w, 1000);

        next_ms += (int64_t)rnd(&l->w, 3000);
        *send(&l->w, WAKE, PL_MAX(next_ms - l->w.now, 0)) = (struct message){.kind = WAKE, .at = next_ms};
        while (l->w.now < next_ms)
            live_once(l);
        if (!l->s)
            continue;
        if (what < 5)
            daemon_die(l);
        else if (what < 10)
            take_over(l);
        else
            take_back(l);
    }
    end_ms = l->w.now + CALM_MS;
    while (!all_ended(l) || l->more) {
        live_once(l);
        MUST(&l->w, l->w.now < end_ms, "not all runs end");
    }
    for (size_t r = 0; r < l->n_runs; r++)
        for (size_t i = 0; i < STAGES; i++)
            MUST(&l->w, !l->runs[r].jobs[i].id || l->runs[r].jobs[i].state == PL_SCHED_SUCCESS, "a job is %s: %s",
                 pl_sched_state_name(l->runs[r].jobs[i].state), l->runs[r].jobs[i].reason);
    life_finish(l);
}

static void preemption_fails_no_job_and_holds_up_no_stage(void **state)
{
    (void)state;
    live_all(live_on_spot, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_life_keeps_the_rules_and_ends),
                                       cmocka_unit_test(steady_pushes_starve_no_stage),
                                       cmocka_unit_test(preemption_fails_no_job_and_holds_up_no_stage)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
