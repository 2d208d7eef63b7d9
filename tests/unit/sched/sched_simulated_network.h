/* sched_world: the virtual world around the scheduler: a clock, a network that loses, doubles and reorders, agents that compute, give back
 * what they have not begun, crash and hang. Everything comes from one seed. The engine with its durable log, and what must hold, are in test_sched_world.c. */
#pragma once

#include "pipelined/sched/sched.h"
#include "storage/base/hash.h"
#include <stdio.h>

enum {
    STAGES = 9,
    VERSIONS = 8,
    SHAPES = 4, /* of pods, numbered from 1 */
    INPUTS = 3,
    SOURCES = 3,
    RUNS = 96,
    JOBS = RUNS * STAGES,
    DATUMS = 40,
    AGENTS = 4096,
    MESSAGES = 8192
};

enum message_kind {
    TO_DAEMON, /* from an agent: may be lost */
    ANSWER,    /* from the engine's own pools and processes: never lost, but gone with the daemon */
    EXITED,    /* a process ended: the engine sees it, also after its own restart */
    TO_AGENT,
    WAKE /* an agent's own clock */
};

struct message {
    int64_t at;
    enum message_kind kind;
    enum pl_sched_event_kind event;
    enum pl_sched_action_kind action; /* TO_AGENT */
    uint64_t id;                      /* worker or job */
    uint64_t task, fence;
    uint64_t datums;
    uint32_t to_run;
    bool flag;               /* kill; task_done */
    enum pl_sched_exit exit; /* EXITED */
    struct pl_sched_lease leases[PL_SCHED_WORKER_LEASES];
    size_t n_leases;
    uint32_t n_rows;
    struct pl_sched_row rows[DATUMS];
};

struct held {
    uint64_t task, fence;
    uint32_t n_rows;
    struct pl_sched_row rows[DATUMS]; /* with how they will end */
    uint32_t begun;                   /* rows, when it was asked for the rest; else 0 */
    int64_t ready_at, sent_at;
};

struct agent {
    uint64_t worker;
    unsigned stage;
    uint64_t version;
    uint32_t n_gpus;
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    uint32_t cpu_milli;
    uint64_t shape; /* of a pod; it runs from placed_at on */
    int64_t placed_at;
    char node[2];
    bool placed;                   /* said so */
    bool told_placed, told_to_end; /* what the scheduler knows */
    bool alive, hung, attached, told_gone;
    struct held tasks[PL_SCHED_WORKER_LEASES + 1];
    size_t n_tasks;
    int64_t asked_at, renewed_at;
};

struct world {
    uint64_t seed, rng;
    int64_t now;  /* of the world */
    int64_t skew; /* of the daemon's clock */
    bool calm;
    unsigned loss_percent, fail_percent;
    int64_t plan_ms, row_ms; /* a plan, and a row, take up to that; 0 = as it comes */
    struct message *messages[MESSAGES];
    size_t n_messages;
    struct agent *agents[AGENTS];
    size_t n_agents;
};

static inline uint64_t rnd(struct world *w, uint64_t below)
{
    return pl_splitmix64(&w->rng) % below;
}

static inline bool chance(struct world *w, unsigned percent)
{
    return rnd(w, 100) < percent;
}

static inline void world_die(const struct world *w, const char *what)
{
    fprintf(stderr, "seed %llu at %lld ms: %s\nagain: PL_SEED=%llu\n", (unsigned long long)w->seed, (long long)w->now, what,
            (unsigned long long)w->seed);
    abort();
}

#define MUST(w, what, ...)                                                                                                       \
    do {                                                                                                                         \
        if (!(what)) {                                                                                                           \
            char why_[1200];                                                                                                     \
            snprintf(why_, sizeof(why_), "must hold: " #what ": " __VA_ARGS__);                                                  \
            world_die((w), why_);                                                                                                \
        }                                                                                                                        \
    } while (0)

/* --- the network */

static inline struct message *send(struct world *w, enum message_kind kind, int64_t delay)
{
    struct message *m = calloc(1, sizeof(*m));

    MUST(w, m && w->n_messages < MESSAGES, "too much is under way");
    m->kind = kind;
    m->at = w->now + delay;
    w->messages[w->n_messages++] = m;
    return m;
}

/* The next message by time; among equals by chance. NULL when there is none before `until`. */
static inline struct message *next_message(struct world *w, int64_t until)
{
    size_t best = w->n_messages;
    struct message *m;

    for (size_t i = 0; i < w->n_messages; i++)
        if (best == w->n_messages || w->messages[i]->at < w->messages[best]->at ||
            (w->messages[i]->at == w->messages[best]->at && chance(w, 30)))
            best = i;
    if (best == w->n_messages || w->messages[best]->at > until)
        return NULL;
    m = w->messages[best];
    w->messages[best] = w->messages[--w->n_messages];
    return m;
}

static inline int64_t net_delay(struct world *w)
{
    return w->calm || chance(w, 80) ? 1 + (int64_t)rnd(w, 20) : (int64_t)rnd(w, 15000);
}

/* A message over the network: a copy may be lost, another one may come too. */
static inline void post(struct world *w, const struct message *m)
{
    unsigned copies = w->calm ? 1 : chance(w, w->loss_percent) ? 0 : chance(w, w->loss_percent) ? 2 : 1;

    for (unsigned i = 0; i < copies; i++) {
        struct message *copy = send(w, m->kind, 0);
        int64_t at = w->now + net_delay(w);

        *copy = *m;
        copy->at = at;
    }
}

/* --- agents */

static inline struct agent *agent_of(struct world *w, uint64_t worker)
{
    for (size_t i = w->n_agents; i-- > 0;)
        if (w->agents[i]->worker == worker)
            return w->agents[i];
    return NULL;
}

/* Once; or as one of its regular looks, each of which brings the next. */
static inline void agent_wake(struct world *w, const struct agent *a, int64_t delay, bool regular)
{
    struct message *m = send(w, WAKE, delay);

    m->id = a->worker;
    m->flag = regular;
}

static inline void agent_end(struct world *w, struct agent *a)
{
    if (!a->alive)
        return;
    a->alive = false;
    send(w, EXITED, 1 + (int64_t)rnd(w, 50))->id = a->worker;
}

static inline void agent_say(struct world *w, const struct agent *a, enum pl_sched_event_kind event)
{
    struct message m = {.kind = TO_DAEMON, .event = event, .id = a->worker};

    for (size_t i = 0; i < a->n_tasks && i < PL_SCHED_WORKER_LEASES; i++)
        m.leases[m.n_leases++] = (struct pl_sched_lease){a->tasks[i].task, a->tasks[i].fence};
    post(w, &m);
}

static inline void agent_report(struct world *w, struct agent *a, struct held *t)
{
    struct message m = {.kind = TO_DAEMON, .event = PL_SCHED_EV_RESULT, .id = a->worker, .task = t->task, .fence = t->fence};
    bool part = !w->calm && t->n_rows > 1 && chance(w, 20); /* what is finished so far */

    m.n_rows = part ? 1 + (uint32_t)rnd(w, t->n_rows) : t->n_rows;
    memcpy(m.rows, t->rows, m.n_rows * sizeof(m.rows[0]));
    t->sent_at = w->now;
    post(w, &m);
}

/* A node takes its pod, and then its containers run: the engine sees both. */
static inline void agent_placed(struct world *w, struct agent *a)
{
    for (int up = 0; up < 2 && a->shape && !a->placed; up++) {
        struct message *m = send(w, ANSWER, (int64_t)rnd(w, 3000) + up * 3000);

        m->event = PL_SCHED_EV_WORKER_PLACED;
        m->id = a->worker;
        m->flag = up == 1;
    }
    a->placed = true;
}

/* The cluster takes its pod away, as it takes back a spot node: at once, or with a grace, in which it gives back what it has. */
static inline void agent_preempted(struct world *w, struct agent *a)
{
    const bool graceful = chance(w, 60);
    struct message *m;

    if (!a->alive)
        return;
    for (size_t i = 0; graceful && a->attached && !a->hung && i < a->n_tasks; i++) {
        for (uint32_t k = 0; k < a->tasks[i].n_rows; k++)
            a->tasks[i].rows[k].gave_back = true;
        agent_report(w, a, &a->tasks[i]);
    }
    a->alive = false;
    m = send(w, EXITED, graceful ? 20 + (int64_t)rnd(w, 5000) : 1 + (int64_t)rnd(w, 50));
    m->id = a->worker;
    m->exit = PL_SCHED_EXIT_DISRUPTED;
}

/* A node is drained: all pods on it. */
static inline void drain_node(struct world *w, const char *node)
{
    for (size_t i = 0; i < w->n_agents; i++)
        if (w->agents[i]->placed && pl_streq(w->agents[i]->node, node))
            agent_preempted(w, w->agents[i]);
}

static inline void agent_act(struct world *w, struct agent *a, bool regular)
{
    if (!a->alive)
        return;
    if (w->calm)
        a->placed_at = PL_MIN(a->placed_at, w->now + 2000);
    if (w->now < a->placed_at) {
        if (regular)
            agent_wake(w, a, 500 + (int64_t)rnd(w, 1500), true);
        return;
    }
    agent_placed(w, a);
    if (a->hung)
        return;
    if (!a->attached) {
        agent_say(w, a, PL_SCHED_EV_WORKER_ATTACHED);
        a->attached = true;
    }
    for (size_t i = 0; i < a->n_tasks; i++)
        if (w->now >= a->tasks[i].ready_at && w->now - a->tasks[i].sent_at >= 5000)
            agent_report(w, a, &a->tasks[i]);
    if (a->n_tasks > 0 && w->now - a->renewed_at >= 10000) {
        a->renewed_at = w->now;
        agent_say(w, a, PL_SCHED_EV_RENEW);
    }
    if (a->n_tasks < PL_SCHED_WORKER_LEASES && w->now - a->asked_at >= (a->n_tasks ? 4000 : 2500)) {
        a->asked_at = w->now;
        agent_say(w, a, PL_SCHED_EV_WORKER_NEXT);
    }
    if (regular)
        agent_wake(w, a, 500 + (int64_t)rnd(w, 1500), true);
}

static inline void agent_drop(struct agent *a, uint64_t task, uint64_t fence)
{
    for (size_t i = 0; i < a->n_tasks; i++)
        if (a->tasks[i].task == task && a->tasks[i].fence == fence)
            a->tasks[i--] = a->tasks[--a->n_tasks];
}

static inline void agent_lease(struct world *w, struct agent *a, const struct message *m)
{
    struct held *t = &a->tasks[a->n_tasks];
    int64_t cost = 1 + (int64_t)rnd(w, w->row_ms ? (uint64_t)w->row_ms : chance(w, 10) ? 60000 : 500);

    for (size_t i = 0; i < a->n_tasks; i++)
        if (a->tasks[i].task == m->task)
            return; /* it came twice */
    if (a->n_tasks >= PL_SCHED_WORKER_LEASES)
        return;
    a->n_tasks++;
    *t = (struct held){.task = m->task, .fence = m->fence, .n_rows = m->n_rows, .sent_at = INT64_MIN / 2};
    for (uint32_t i = 0; i < m->n_rows; i++) {
        t->rows[i] = (struct pl_sched_row){.index = m->rows[i].index, .label = "/a", .message = "exit code 1"};
        t->rows[i].failed = chance(w, w->fail_percent);
        t->rows[i].gave_back = !w->calm && chance(w, 2);
    }
    t->ready_at = w->now + cost * m->n_rows;
    a->renewed_at = w->now;
    agent_wake(w, a, t->ready_at - w->now, false);
}

/* Of the task that it computes it has begun some rows, of the others none. */
static inline void agent_recall(struct world *w, struct agent *a, const struct message *told)
{
    struct message m = {
        .kind = TO_DAEMON, .event = PL_SCHED_EV_RESULT, .id = a->worker, .task = told->task, .fence = told->fence};

    for (size_t i = 0; i < a->n_tasks; i++) {
        struct held *t = &a->tasks[i];

        if (t->task != told->task || t->fence != told->fence)
            continue;
        if (w->now < t->ready_at && t->begun == 0)
            t->begun = i > 0 ? 0 : 1 + (uint32_t)rnd(w, t->n_rows);
        else if (t->begun == 0)
            t->begun = t->n_rows;
        for (uint32_t k = t->begun; k < t->n_rows; k++) {
            t->rows[k].gave_back = true; /* so says the last result too */
            m.rows[m.n_rows++] = t->rows[k];
        }
        if (m.n_rows == t->n_rows)
            t->ready_at = w->now;
        post(w, &m);
        return;
    }
}

static inline void agent_hear(struct world *w, const struct message *m)
{
    struct agent *a = agent_of(w, m->id);

    if (!a || !a->alive || a->hung)
        return;
    switch (m->action) {
    case PL_SCHED_LEASE:
        agent_lease(w, a, m);
        break;
    case PL_SCHED_RESULT:
        if (m->flag)
            agent_drop(a, m->task, m->fence);
        break;
    case PL_SCHED_RECALL:
        agent_recall(w, a, m);
        break;
    case PL_SCHED_LEASE_LOST:
    case PL_SCHED_CANCEL:
        agent_drop(a, m->task, m->fence);
        a->asked_at = 0;
        break;
    default:
        agent_end(w, a);
    }
    agent_wake(w, a, 0, false);
}
