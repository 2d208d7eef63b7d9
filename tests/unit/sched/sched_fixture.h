/* sched_kit: a scheduler under the test's hand. Runs are numbered from 1 (order = number), a run's id is 32 times its digit; stage n is
 * named by `names[n]`, reads what its definition says and writes repo 100 + n. Every step's actions are kept until the next one, and of
 * each job its latest state. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipelined/sched/sched.h"
#include <stdio.h>

enum { KIT_STAGES = 8, KIT_RUNS = 10, KIT_ACTIONS = 4096 };

struct kit_job {
    uint64_t id;
    enum pl_sched_state state;
    char reason[PL_SCHED_MESSAGE_MAX];
    char superseded_by[33];
};

struct kit {
    struct pl_sched *s;
    int64_t now;
    struct pl_sched_action actions[KIT_ACTIONS]; /* of the last event; texts and rows are gone */
    size_t n;
    struct kit_job jobs[KIT_STAGES][KIT_RUNS];
    enum pl_sched_state runs[KIT_RUNS];
    uint64_t committed[64]; /* jobs in the order of their COMMIT */
    size_t n_committed;
    int64_t timer_at;
    struct pl_sched_range rows[64]; /* of the last LEASE */
    enum pl_sched_verdict verdicts[64];
};

static inline const char *kit_run_id(unsigned run)
{
    static const char digits[] = "0123456789";
    static char ids[KIT_RUNS][33];

    memset(ids[run], digits[run], 32);
    return ids[run];
}

static inline unsigned kit_run_number(const char *id)
{
    return (unsigned)(id[0] - '0');
}

static inline void kit_note(struct kit *k, const struct pl_sched_action *a)
{
    if (a->kind == PL_SCHED_JOB_STATE && a->job.stage < KIT_STAGES) {
        struct kit_job *job = &k->jobs[a->job.stage][kit_run_number(a->job.run)];

        job->id = a->job.id;
        job->state = a->job.state;
        snprintf(job->reason, sizeof(job->reason), "%s", a->job.reason);
        snprintf(job->superseded_by, sizeof(job->superseded_by), "%s", a->job.superseded_by ? a->job.superseded_by : "");
    } else if (a->kind == PL_SCHED_RUN_STATE) {
        k->runs[kit_run_number(a->run.id)] = a->run.state;
    } else if (a->kind == PL_SCHED_COMMIT) {
        k->committed[k->n_committed++ % 64] = a->job.stage;
    } else if (a->kind == PL_SCHED_TIMER) {
        k->timer_at = a->at_ms;
    } else if (a->kind == PL_SCHED_LEASE) {
        memcpy(k->rows, a->lease.rows, PL_MIN(a->lease.n_rows, (size_t)64) * sizeof(k->rows[0]));
    } else if (a->kind == PL_SCHED_RESULT) {
        memcpy(k->verdicts, a->result.verdicts, PL_MIN(a->result.n, (size_t)64) * sizeof(k->verdicts[0]));
    }
}

static inline int kit_try(struct kit *k, struct pl_sched_event ev)
{
    struct pl_sched_actions out;
    bool more = true;
    int r = 0;

    k->n = 0;
    for (; more && r == 0; ev = (struct pl_sched_event){.kind = PL_SCHED_EV_TICK}) {
        ev.now_ms = k->now;
        r = pl_sched_step(k->s, &ev, &out, NULL);
        more = false;
        for (size_t i = 0; i < out.n; i++) {
            more = more || out.items[i].kind == PL_SCHED_CONTINUE;
            kit_note(k, &out.items[i]);
            assert_true(k->n < KIT_ACTIONS);
            k->actions[k->n++] = out.items[i];
        }
    }
    return r;
}

static inline void kit_do(struct kit *k, struct pl_sched_event ev)
{
    assert_int_equal(kit_try(k, ev), 0);
}

/* The nth (from 0) action of a kind in the last event; NULL. */
static inline const struct pl_sched_action *kit_nth(const struct kit *k, enum pl_sched_action_kind kind, size_t n)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->actions[i].kind == kind && n-- == 0)
            return &k->actions[i];
    return NULL;
}

static inline size_t kit_count(const struct kit *k, enum pl_sched_action_kind kind)
{
    size_t n = 0;

    while (kit_nth(k, kind, n))
        n++;
    return n;
}

static inline const struct pl_sched_action *kit_the(const struct kit *k, enum pl_sched_action_kind kind)
{
    assert_int_equal(kit_count(k, kind), 1);
    return kit_nth(k, kind, 0);
}

static inline void kit_open(struct kit *k, unsigned cpus, unsigned gpus)
{
    struct pl_sched_config config = {.first_id = 1000};

    *k = (struct kit){.now = 5000};
    assert_int_equal(pl_sched_create(&config, &k->s, NULL), 0);
    kit_do(k, (struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY,
                                      .capacity = {.cpu_milli = cpus * 1000, .gpu_slots = gpus, .gpu_offered = gpus}});
}

static inline void kit_ready(struct kit *k)
{
    kit_do(k, (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_DONE});
}

static inline void kit_close(struct kit *k)
{
    k->s = pl_sched_destroy(k->s);
}

/* Stage `id` reads repo `from` (1 … 9 users', 100 + n of stage n); what `more` leaves 0 is 1, or none. */
static inline struct pl_sched_event kit_stage(unsigned id, uint64_t from, struct pl_sched_stage more)
{
    static const char *const names[KIT_STAGES] = {"", "prepare", "train", "infer", "report", "five", "six", "seven"};
    static struct pl_sched_head inputs[KIT_STAGES][2];

    inputs[id][0] = (struct pl_sched_head){from, 1};
    more.stage = id;
    more.version = more.version ? more.version : 1;
    more.pipeline = more.pipeline ? more.pipeline : 1;
    more.name = names[id];
    if (!more.inputs) {
        more.inputs = inputs[id];
        more.n_inputs = 1;
    }
    more.output = (struct pl_sched_head){100 + id, 1};
    more.workers = more.workers ? more.workers : 1;
    more.tries = more.tries ? more.tries : 1;
    return (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_SET, .stage = more};
}

static inline void kit_push(struct kit *k, unsigned run, uint64_t repo)
{
    struct pl_sched_head head = {repo, 1};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};

    ev.run.id = kit_run_id(run);
    ev.run.order = run;
    ev.run.heads = &head;
    ev.run.n_heads = 1;
    kit_do(k, ev);
}

/* A run aside of stages 1 … n. */
static inline void kit_aside(struct kit *k, unsigned run, size_t n)
{
    static const uint64_t stages[] = {1, 2, 3};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};

    ev.run.id = kit_run_id(run);
    ev.run.order = run;
    ev.run.stages = stages;
    ev.run.n_stages = n;
    ev.run.aside = true;
    kit_do(k, ev);
}

/* A next life begins with run 1, and with what is returned, to be completed and given: job 10, its job of stage 1, planned. */
static inline struct pl_sched_event kit_restored_job(struct kit *k, uint32_t datums)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_RUN};

    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    kit_do(k, ev);
    ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_JOB};
    ev.job.id = 10;
    ev.job.stage = ev.job.version = 1;
    ev.job.run = kit_run_id(1);
    ev.job.planned = true;
    ev.job.datums = ev.job.to_run = datums;
    return ev;
}

static inline const struct kit_job *kit_job(const struct kit *k, unsigned stage, unsigned run)
{
    return &k->jobs[stage][run];
}

static inline void kit_planned(struct kit *k, unsigned stage, unsigned run, uint32_t to_run)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_JOB_PLANNED, .id = kit_job(k, stage, run)->id};

    ev.plan.datums = to_run;
    ev.plan.to_run = to_run;
    kit_do(k, ev);
}

static inline void kit_committed(struct kit *k, unsigned stage, unsigned run)
{
    kit_do(k, (struct pl_sched_event){.kind = PL_SCHED_EV_JOB_COMMITTED, .id = kit_job(k, stage, run)->id});
}

static inline void kit_worker(struct kit *k, enum pl_sched_event_kind kind, uint64_t worker)
{
    kit_do(k, (struct pl_sched_event){.kind = kind, .id = worker, .text = "killed by signal 9"});
}

/* Attaches and asks. */
static inline void kit_up(struct kit *k, uint64_t worker)
{
    kit_worker(k, PL_SCHED_EV_WORKER_ATTACHED, worker);
    kit_worker(k, PL_SCHED_EV_WORKER_NEXT, worker);
}

/* All rows of the lease end well, each in `us`; then it asks again. */
static inline void kit_finish(struct kit *k, struct pl_sched_action lease, uint64_t us)
{
    static struct pl_sched_row rows[PL_SCHED_TASK_ROWS_MAX];
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESULT, .id = lease.lease.worker};

    for (uint32_t i = 0; i < lease.lease.count; i++)
        rows[i] = (struct pl_sched_row){.index = k->rows[0].lo + i};
    ev.result.task = lease.lease.task;
    ev.result.fence = lease.lease.fence;
    ev.result.rows = rows;
    ev.result.n = lease.lease.count;
    ev.result.compute_us = us * lease.lease.count;
    kit_do(k, ev);
}

/* The result of one datum; `leaving`: the worker ends. */
static inline void kit_result_of(struct kit *k, const struct pl_sched_action *lease, struct pl_sched_row row, bool leaving)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESULT, .id = lease->lease.worker, .result.leaving = leaving};

    ev.result.task = lease->lease.task;
    ev.result.fence = lease->lease.fence;
    ev.result.rows = &row;
    ev.result.n = 1;
    ev.result.compute_us = 1000;
    kit_do(k, ev);
}

static inline void kit_result(struct kit *k, const struct pl_sched_action *lease, struct pl_sched_row row)
{
    kit_result_of(k, lease, row, false);
}

/* Time passes; ticks come as the scheduler asked for them, and its actions are those of the last one. */
static inline void kit_wait(struct kit *k, int64_t ms)
{
    int64_t until = k->now + ms;

    while (k->timer_at <= until) {
        k->now = PL_MAX(k->now, k->timer_at);
        k->timer_at = INT64_MAX;
        kit_do(k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    }
    k->now = until;
}

#define SAYS(k, stage, run, text)   assert_string_equal(kit_job(&(k), stage, run)->reason, text)
#define IS(k, stage, run, is_state) assert_int_equal(kit_job(&(k), stage, run)->state, is_state)

/* The one of the test that runs. */
static struct kit k;

/* One stage, one worker that has attached and asked; the lease of its first task. */
static inline struct pl_sched_action one_lease(unsigned run, uint32_t rows)
{
    kit_push(&k, run, 1);
    kit_planned(&k, 1, run, rows);
    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    return *kit_the(&k, PL_SCHED_LEASE);
}

static inline void open_one(struct pl_sched_stage def)
{
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, def));
    kit_ready(&k);
}

/* prepare → train → evaluate; each takes its turn. */
static inline void open_chain(void)
{
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.on_new = PL_SCHED_QUEUE}));
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){.on_new = PL_SCHED_QUEUE}));
    kit_do(&k, kit_stage(3, 102, (struct pl_sched_stage){.on_new = PL_SCHED_QUEUE}));
    kit_ready(&k);
}

static inline struct pl_sched_event renewal(const struct pl_sched_action *lease, struct pl_sched_lease *held)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RENEW, .id = lease->lease.worker};

    *held = (struct pl_sched_lease){lease->lease.task, lease->lease.fence};
    ev.leases.items = held;
    ev.leases.n = 1;
    return ev;
}
