/* sched: Decides what runs, where and when. Pure.
 *
 * In:      One event per call.
 * Out:     Actions; a wait reason for each job.
 * Uses:    storage/base
 * Threads: The event loop owns its state.
 *
 * Inside:
 *   datum_ranges         set of datum numbers as ranges
 *   deadline_heap        heap of deadlines
 *   sched_admit          admits jobs and starts workers within limits
 *   sched_event          dispatches an event
 *   sched_fair_share     fair share between pipelines
 *   sched_graph          pipelines, stages and versions
 *   sched_internal       state shared by the scheduler's files
 *   sched_job            life of a job
 *   sched_node_failures  avoids nodes where workers of a job were lost
 *   sched_pod_shape      pod shapes and the limit on pending pods
 *   sched_restore        rebuilds the state after a restart
 *   sched_run            life of a run
 *   sched_task           leases datums to workers
 *   sched_view           read-only views of jobs and workers
 *   sched_wait_reason    why a job or stage waits, as a sentence
 *   sched_worker         life of a worker */

/* sched: decides what runs, where and when. Pure: every call is one event and gives back the actions that follow from it;
 * no I/O, no clock, no randomness, no threads inside. The daemon's engine feeds events and carries the actions out; a virtual
 * world does the same in tests/unit/sched/test_sched_simulation.c.
 *
 * A job is one stage in one run:
 *
 *            inputs ready, its turn          first lease          every datum ended well
 *   created ───────────────────────▶ starting ─────────▶ running ─────────────────────▶ finishing ──▶ success
 *      │      (PLAN)                    │  └─ nothing to run ──────────────────────────▶  (COMMIT)
 *      │                                │                    │                             │
 *      ├─▶ unrunnable (an input failed) └────────┬───────────┴──▶ failure (a datum, the    └──▶ failure (COMMIT_FAILED)
 *      └─▶ killed (stopped, superseded) ◀────────┘                plan, the worker's start)
 *
 * A worker belongs to one version of one stage and keeps its devices until it is reported gone:
 *
 *   starting ──ATTACHED, NEXT──▶ idle ──LEASE──▶ busy          any ──STOP_WORKER──▶ stopping ──EXITED──▶ (gone)
 *                                  ▲───NEXT───────┘
 *
 * Rows. A job's datums that must run are numbered 0 … to_run − 1 in spec order ("rows"; the engine's plan maps them to
 * datums). Each row is at any time in exactly one place: waiting (in a bin of equal history), in one leased task, or ended.
 * Sets of rows are ranges, so a job of 2^24 datums costs what its fragments cost.
 *
 * Rules
 *  - Order is `order`: rising, unique per run, taken from the log, never from the id. Jobs of one stage go one at a
 *    time in that order.
 *  - An input is read at the newest commit of its branch by a run whose order is ≤ the job's. A job waits for the job
 *    of the same run that writes an input (and does not run when that fails), else for the newest unfinished one
 *    before it (and then reads what is there).
 *  - on_new newest: a job whose inputs are all there kills the earlier ones of its stage that have leased nothing, back to the first that does
 *    not give way: one that is being planned (it runs sooner), or of the run that its pipeline carries. What waited for a killed one in its run
 *    goes with it. The first run to begin is carried, until the pipeline's jobs in it have ended: so stages that join others commit under any
 *    rate of pushes, too. restart: also those that run, carried or not; what they finished is the engine's to reuse.
 *  - What a run aside writes is on no branch that others read: nobody downstream has a job in it, no other run waits for it, and
 *    neither do its jobs wait for other runs' inputs. They take their turn, but supersede none and are superseded by none.
 *  - A lease lasts lease_ms of the time that the daemon is seen to be up: between two events at most PL_SCHED_GAP_MS
 *    count.
 *  - A try is an end of the user's command. Rows lost with a worker come back uncounted: back-off 10 s … 10 min, at
 *    most PL_SCHED_LOSSES_MAX times, in ever smaller tasks, so that the row at fault is soon alone. A failed row does
 *    not stop the others; once it used up its tries the job fails after them, or (skip_failed) commits without it; at once when
 *    more than max_failed have failed. A recovered row is left out and fails nothing.
 *  - Another node after two on one: where workers of a job were lost twice, PL_SCHED_BACKOFF_MIN_MS or more apart (together is once), its new pods
 *    do not go, and the workers that it has there get no rows that were lost before. After an hour without a loss that node will do
 *    again; all will when no other one took a pod for PL_SCHED_ELSEWHERE_MS. A restart forgets it.
 *  - Tasks are 1 row at first, then aim at PL_SCHED_AIM_MS of compute by the job's mean, growing at most fourfold on
 *    what was measured; ≤ PL_SCHED_TASK_ROWS_MAX, ≥ ⌈waiting / 32,768⌉, and never more than ⌈waiting / live workers⌉.
 *    A worker gets a task while another computes, so that it need not wait for its files: when no other worker lacks work, none of the
 *    rows failed before, and rows take at most PL_SCHED_AIM_MS or, before any was measured, many wait.
 *  - While a worker of the stage has nothing and no row is ready, one that holds several rows is asked to give back those that it has
 *    not begun (RECALL), the one whose task was leased first; as many at once as are idle. It gets nothing ahead until it has finished one.
 *  - Workers: at most min(stage's workers, waiting rows) as capacity admits; the stage with the most priority goes first, of
 *    equal ones the pipeline with the fewest workers, and who is first is not overtaken by smaller wishes of its kind. An idle
 *    worker lingers (for keep_warm_ms, if that is longer), then ends; at once when another stage lacks its place.
 *  - GPUs are exclusive slots. required: waits for them. Not required: takes them when enough are on offer and come
 *    within wait_ms; if not, and if no worker of the stage has a GPU then, goes to the CPU; at once when not enough
 *    are on offer. A stage without gpu never gets one. One that takes only some of them waits for these, and only those who
 *    want one of these, too, wait behind it.
 *  - On a cluster a worker is a pod of a shape: what all pods rendered alike ask for. Nobody here counts nodes: a shape says whether any node
 *    could take it, and how many pods of it may wait for a node at once. Shapes do not wait for each other; within one the pipeline with the
 *    fewest workers goes first. A pod may wait as long as it likes, unless its GPU is not required: then wait_ms, and the CPU's shape.
 *  - A pod that waits for a node goes, without blame, when the shape that its stage has by now needs something else of a node and is offered: another is
 *    made in its place. So does one without a GPU where the cluster comes to offer the GPU that its stage would rather have.
 *  - Every job that has not ended carries a sentence that says what it waits for or does; JOB_STATE is given whenever
 *    it changes.
 *
 * After a start the scheduler is restoring: STAGE_SET (all versions that unfinished jobs or workers have, ascending),
 * CAPACITY, RESTORE_… in the order RUN, JOB, WORKER, TASK, then RESTORE_DONE. Until then no actions are given and only these
 * events are taken. An empty store does the same without anything to restore.
 *
 * Not thread-safe: the loop owns it. */
#pragma once

#include "storage/base/err.h"

#define PL_SCHED_TRANSITIONS_MAX 1000       /* a call; the rest waits for the next one (CONTINUE) */
#define PL_SCHED_ROWS_MAX        (1u << 24) /* datums of a job */
#define PL_SCHED_TASK_ROWS_MAX   10000u
#define PL_SCHED_TASK_CUTS       32768u /* tasks that a job's waiting rows make at most, beside the small first and last ones */
#define PL_SCHED_AIM_MS          10000  /* compute of one task */
#define PL_SCHED_WORKER_LEASES   3      /* one is uploaded, one computes, one is fetched */
#define PL_SCHED_AHEAD_MS        1000   /* compute of what a worker holds, up to which it gets a third task */
#define PL_SCHED_AHEAD_ROWS      16     /* so many that wait for each worker: rows are leased ahead before one was measured */
#define PL_SCHED_LOSSES_MAX      20     /* times a row, or in a row the workers of a stage, may be lost */
#define PL_SCHED_BACKOFF_MIN_MS  10000
#define PL_SCHED_BACKOFF_MAX_MS  600000
#define PL_SCHED_NODE_LOSSES     2       /* of a job's workers on one node: then others are to have its rows */
#define PL_SCHED_NODES_AVOIDED   8       /* by one job, those of the last losses */
#define PL_SCHED_NODE_FORGET_MS  3600000 /* after the last loss there */
#define PL_SCHED_ELSEWHERE_MS    600000  /* so long a pod waits for other nodes */
#define PL_SCHED_GAP_MS          10000 /* time between two events counts up to this: a daemon that stood still expires nothing */
#define PL_SCHED_BEAT_MS         5000  /* a TICK is asked for at least so often while anything is timed */
#define PL_SCHED_GPUS_MAX        1024  /* slots of the executor */
#define PL_SCHED_WORKER_GPUS_MAX 64    /* slots of one worker */
#define PL_SCHED_STAGES_MAX      (1u << 20)
#define PL_SCHED_SHAPES_MAX      (1u << 16)
#define PL_SCHED_JOBS_MAX        (1u << 22) /* kept at once */
#define PL_SCHED_STOP_GRACE_MS   30000      /* between STOP_WORKER and the next, harder one */
#define PL_SCHED_MESSAGE_MAX     512        /* bytes kept of a message from outside */

/* The reason of a job whose stage went. */
#define PL_SCHED_REMOVED "its pipeline was deleted or has no such stage any more"

enum pl_sched_state {
    PL_SCHED_CREATED,
    PL_SCHED_STARTING,
    PL_SCHED_RUNNING,
    PL_SCHED_FINISHING,
    PL_SCHED_SUCCESS, /* this and all that follow are final */
    PL_SCHED_FAILURE,
    PL_SCHED_KILLED,
    PL_SCHED_UNRUNNABLE,
    PL_SCHED_STATES
};

static inline bool pl_sched_state_final(enum pl_sched_state state)
{
    return state >= PL_SCHED_SUCCESS;
}
/* "created" …; NULL for no state. */
const char *pl_sched_state_name(enum pl_sched_state state);

enum pl_sched_on_new { PL_SCHED_NEWEST, PL_SCHED_QUEUE, PL_SCHED_RESTART };

struct pl_sched_config {
    uint64_t first_id; /* ids (jobs, tasks, workers) and fences given out are larger: e.g. the log's epoch << 32 */
    int64_t linger_ms; /* an idle worker is kept so long; 0 = 2,000; negative: not at all */
    int64_t lease_ms;  /* 0 = 30,000 */
    int64_t
        start_wait_ms; /* a worker that has not attached by then is killed; 0 = 120,000; negative: no limit. Of a pod: since all its
                            * containers run */
    unsigned transitions; /* a call at most; 0 = PL_SCHED_TRANSITIONS_MAX. Tests give less */
};

/* A branch of a repo, by the engine's numbers. */
struct pl_sched_head {
    uint64_t repo;
    uint64_t branch;
};

/* Rows lo … hi − 1. */
struct pl_sched_range {
    uint32_t lo;
    uint32_t hi;
};

/* One version of a stage. Copied. */
struct pl_sched_stage {
    uint64_t stage; /* the same for all its versions */
    uint64_t version;
    uint64_t since;    /* order of what set this version: runs before it (restored ones) make no job of it; 0 = all do */
    uint64_t pipeline; /* for fair share */
    int32_t priority;  /* of two that wish for the same kind of place the one with more goes first */
    const char *name;  /* for sentences */
    const struct pl_sched_head *inputs;
    size_t n_inputs;
    struct pl_sched_head output; /* no other stage may have it */
    uint32_t workers;            /* ≥ 1 */
    uint32_t tries;              /* ≥ 1 */
    uint32_t gpu_count;          /* per worker; 0 = a CPU stage */
    bool gpu_required;
    int64_t gpu_wait_ms;       /* when not required: how long a GPU is waited for; < 0 = 10 min */
    bool gpu_chosen;           /* not any slot will do, but: */
    const uint16_t *gpu_slots; /* … these, the one that is liked best first */
    size_t n_gpu_slots;
    const char
        *gpu_text; /* what it wants of them and what there is, for the sentence of a stage that finds too few; may be NULL */
    int64_t keep_warm_ms;   /* an idle worker of it is kept so long, if that is more than linger_ms */
    uint32_t cpu_milli;     /* 0 = 1,000, or none beside a GPU; more than there is takes all there is */
    uint64_t memory_bytes;  /* 0 = not counted */
    uint64_t shape;         /* of its pods; 0 = it runs on this machine. Until its SHAPE was given no pod starts */
    uint64_t cpu_shape;     /* of its pods without a GPU, when gpu_count > 0 and the GPU is not required; else 0 */
    int64_t job_timeout_ms; /* 0 = none; time with a leased task */
    enum pl_sched_on_new on_new;
    bool skip_failed;      /* rows that failed do not fail the job */
    bool max_failed_given; /* more failed rows than this fail it at once: */
    bool max_failed_share; /* … not so many, but so many millionths of its datums */
    uint32_t max_failed;
    uint32_t max_failed_ppm;
};

struct pl_sched_capacity {
    uint64_t cpu_milli;
    uint64_t memory_bytes; /* 0 = not counted */
    uint32_t gpu_slots;    /* slots 0 … gpu_slots − 1 exist now */
    uint32_t gpu_offered;  /* could exist (≥ gpu_slots where nodes come and go) */
};

/* A kind of pod. */
struct pl_sched_shape {
    uint64_t id;          /* not 0 */
    bool offered;         /* some node could take it, now or when the cluster grows */
    uint32_t pending_max; /* so many of it may wait for a node at once */
    uint64_t needs;       /* a number of what a node must have for its pods (executor.h); 0 = not known */
    const char *text;     /* of one that is not offered: why, e.g. "no node offers nvidia.com/gpux; known: nvidia.com/gpu" */
};

struct pl_sched_lease {
    uint64_t task;
    uint64_t fence;
};

/* What rows lo … hi − 1 went through before. */
struct pl_sched_tried {
    struct pl_sched_range rows;
    uint32_t failures; /* tries that they used */
    uint32_t losses;   /* times that they were lost with a worker */
};

/* The end of one row's command, or (gave_back) its return unstarted. */
struct pl_sched_row {
    uint32_t index;
    bool failed;
    bool recovered; /* failed, but it is to be left out without failing the job */
    bool gave_back;
    const char *label;   /* of a failed one: the datum as a user knows it, e.g. "/train/b1.csv" */
    const char *message; /* of a failed one: "exit code 1: ValueError: …" */
};

/* Which fields of pl_sched_event count, and what may be refused. The agent's `next` with results in it is RESULT, then NEXT. */
enum pl_sched_event_kind {
    /* Time passed: the answer to TIMER and CONTINUE. */
    PL_SCHED_EV_TICK,

    /* .stage: a new stage, or a higher version of one: jobs of the older version go on, or are superseded by a run that follows, as
     * on_new says. PL_EINVAL: a cycle, an output of another stage, a bad value; PL_EEXISTS: not a higher version; PL_ELIMIT. */
    PL_SCHED_EV_STAGE_SET,
    /* .stage: stage, version, shape, cpu_shape alone: what its pods are like from now on. Those that there are stay of what they were. PL_ENOTFOUND:
     * no such version; PL_EINVAL, PL_ELIMIT. */
    PL_SCHED_EV_STAGE_SHAPES,
    /* .id = stage: its jobs are killed, its workers stopped. A job that commits ends with its answer: COMMIT_FAILED kills it.
     * PL_ENOTFOUND. */
    PL_SCHED_EV_STAGE_REMOVED,
    /* .run: heads moved, or stages are to run over the heads as they are: a job for each of them and for everything downstream.
     * PL_EEXISTS: known; PL_EINVAL: not after all others; PL_EBUSY: PL_SCHED_JOBS_MAX. */
    PL_SCHED_EV_RUN,
    /* .id = job, .plan. PL_ELIMIT: too many datums (give PLAN_FAILED then). */
    PL_SCHED_EV_JOB_PLANNED,
    /* .id = job, .text. */
    PL_SCHED_EV_PLAN_FAILED,
    /* .id = job: whether its output changed or not, what is downstream runs (and reuses). */
    PL_SCHED_EV_JOB_COMMITTED,
    /* .id = job, .text; .on: refused because the stage is gone, which STAGE_REMOVED has told or will: killed, no failure. */
    PL_SCHED_EV_COMMIT_FAILED,
    /* .id = job, .text = why ("stopped by a user"). PL_ENOTFOUND; PL_EBUSY while it commits. */
    PL_SCHED_EV_STOP_JOB,
    /* .run.id, .text: every job of it but those that commit. PL_ENOTFOUND. */
    PL_SCHED_EV_STOP_RUN,

    /* .id = worker, .text: it never ran and holds nothing. */
    PL_SCHED_EV_START_FAILED,
    /* .id = worker, .leases: what it says it holds. The rest of what it had is leased anew at once. */
    PL_SCHED_EV_WORKER_ATTACHED,
    /* .id = worker: asks for a task; stands until a LEASE or STOP_WORKER answers it. Repeating it is harmless, and a sign of life. */
    PL_SCHED_EV_WORKER_NEXT,
    /* .id = worker, .leases. */
    PL_SCHED_EV_RENEW,
    /* .id = worker, .result: some or all rows of one task; what they made is durable already. */
    PL_SCHED_EV_RESULT,
    /* .id = worker, .text: it is gone for certain and holds no device. Also the answer to STOP_WORKER. .on: another one would fare no
     * better (its image is not there): the job that it was for fails, with .text as the reason. .counts: what ended it is the command's
     * doing (its container ran out of memory): the row that it was at used a try, when that is known, for the worker held only that. */
    PL_SCHED_EV_WORKER_EXITED,
    /* .id = worker: a node has taken its pod, .text says which (NULL, "" = not known); it waits no longer. .on: all its containers run: it attaches within start_wait_ms from
     * now, or is killed. */
    PL_SCHED_EV_WORKER_PLACED,
    /* .id = worker, .text: why its pod is not up yet, or is and its agent has not come, in the cluster's words; NULL: nothing is known. */
    PL_SCHED_EV_WORKER_WAITS,
    /* .id = worker, .shape.needs: of one that was restored and waits for a node: what that must have, as its pod was made. */
    PL_SCHED_EV_WORKER_NEEDS,
    /* .id = worker: it gets no task any more, and what it has not begun comes back (RECALL). It is stopped once it holds nothing, at once if it
     * holds nothing now; one that has not attached is killed. */
    PL_SCHED_EV_WORKER_RETIRE,
    /* .capacity. */
    PL_SCHED_EV_CAPACITY,
    /* .shape: new, or changed. One that no stage or worker has is forgotten, and this then changes nothing: it is given (again) after a stage has
     * taken it. While restoring it comes before them, and is known until RESTORE_DONE. PL_EINVAL: id 0; PL_ELIMIT: PL_SCHED_SHAPES_MAX. */
    PL_SCHED_EV_SHAPE,
    /* Nothing new is planned, leased or started, idle workers end; for the rest of this life. */
    PL_SCHED_EV_DRAIN,

    /* .run: as RUN. Jobs that RESTORE_JOB does not give are made anew, as far as they follow from heads and stages. */
    PL_SCHED_EV_RESTORE_RUN,
    /* .job: of a run restored before; ended ones too, until the run has ended. PL_ENOTFOUND: its stage is gone. */
    PL_SCHED_EV_RESTORE_JOB,
    /* .worker: may still run; it is waited for once for lease_ms. PL_ENOTFOUND: its stage is gone; see to its end before
     * RESTORE_DONE. */
    PL_SCHED_EV_RESTORE_WORKER,
    /* .task: leased and not RETURNED; its lease is extended once. One that is not restored is lost: its rows run again, its fence is
     * refused. PL_ENOTFOUND: no such worker or job; PL_EINVAL: rows not waiting, or not of that history. */
    PL_SCHED_EV_RESTORE_TASK,
    PL_SCHED_EV_RESTORE_DONE,
};

struct pl_sched_event {
    enum pl_sched_event_kind kind;
    int64_t now_ms; /* monotonic; going back counts as standing still */
    uint64_t id;
    const char *text; /* may be NULL */
    bool on, counts;
    struct pl_sched_stage stage;
    struct pl_sched_capacity capacity;
    struct pl_sched_shape shape;
    struct {
        const char *id; /* 32 hex digits */
        uint64_t order; /* above every run's before */
        const struct pl_sched_head *heads;
        size_t n_heads;
        const uint64_t *stages;
        size_t n_stages;
        bool aside; /* jobs of `stages` alone, and what they write is read by themselves alone */
    } run;
    struct {
        uint64_t datums; /* all of the job */
        uint32_t to_run; /* rows; the others are reused */
    } plan;
    struct {
        const struct pl_sched_lease *items;
        size_t n;
    } leases;
    struct {
        uint64_t task, fence;
        const struct pl_sched_row *rows;
        size_t n;
        uint64_t compute_us; /* of the rows together */
    } result;
    struct {
        uint64_t id;
        uint64_t stage, version;
        const char *run;
        enum pl_sched_state state; /* final, or not: then what is below decides where it goes on */
        const char *text;          /* of a final one: its reason */
        const char *superseded_by; /* as it was given, or NULL */
        bool planned;              /* the engine still has the plan that rows and tasks refer to; else it is planned anew */
        bool leased;               /* some task was ever leased: it is not superseded */
        uint64_t datums;
        uint32_t to_run;
        const struct pl_sched_range *ended; /* rows that ended, well or not; ascending, disjoint */
        size_t n_ended;
        const struct pl_sched_tried
            *tried; /* of the others; ascending, disjoint; those that are not in it went through nothing */
        size_t n_tried;
        uint32_t failed;                  /* of those that ended */
        uint32_t recovered;               /* of them, beside the failed ones */
        struct pl_sched_row first_failed; /* when failed > 0 */
        int64_t busy_ms;                  /* it had a leased task for so long, as pl_sched_job_info said */
    } job;
    struct {
        uint64_t id;
        uint64_t stage, version;
        const uint16_t *gpus;
        size_t n_gpus;
        uint64_t shape;   /* of its pod: one of its version's; 0 = a process of this machine */
        bool starting;    /* it never attached: its pod may wait still, if no node is known */
        const char *node; /* that has its pod; NULL, "" = not known */
    } worker;
    struct {
        uint64_t task, fence, job, worker;
        const struct pl_sched_range *rows; /* ascending, disjoint, not ended */
        size_t n_rows;
        uint32_t failures, losses;
    } task;
};

enum pl_sched_action_kind {
    /* .run: at its start (running) and at its end (a final state). */
    PL_SCHED_RUN_STATE,
    /* .job: state or sentence changed; the first one is its creation. */
    PL_SCHED_JOB_STATE,
    /* .job: answer JOB_PLANNED or PLAN_FAILED. Answers after the job's end are ignored. */
    PL_SCHED_PLAN,
    /* .job: all rows ended well: answer JOB_COMMITTED or COMMIT_FAILED. May come again after a start. */
    PL_SCHED_COMMIT,
    /* .worker: id new. Answer ATTACHED (through the agent), START_FAILED or WORKER_EXITED. */
    PL_SCHED_START_WORKER,
    /* .worker: kill false: answer its NEXT with `end`; true: kill it. Answered by WORKER_EXITED, also when it is not known. Comes
     * again, with kill, after PL_SCHED_STOP_GRACE_MS. */
    PL_SCHED_STOP_WORKER,
    /* .lease: the answer to the worker's NEXT; kept for its next one when none is open now. */
    PL_SCHED_LEASE,
    /* .lease worker, task, fence: a result is refused with PL_ELEASE, a renewal told `lost`. */
    PL_SCHED_LEASE_LOST,
    /* .lease worker, task, fence, job: the job ended; the worker should stop at it, its results will be refused. */
    PL_SCHED_CANCEL,
    /* .lease worker, task, fence, job: the lease is over, its rows wait again or are given up. When they were lost, or ended their worker, rows,
     * failures and losses say which and what they went through now. */
    PL_SCHED_RETURNED,
    /* .lease worker, task, fence, job: others are idle; the rows of the task that it has not begun should come back, as a RESULT with
     * gave_back (without rows when it has begun them all). To be told with every renewal until a RESULT of the task comes. */
    PL_SCHED_RECALL,
    /* .lease job, rows, failures, losses: lost too often with their workers, or the cause of the end of one too often, they count as
     * failed; .lease.message: the reason. */
    PL_SCHED_GIVE_UP,
    /* .result: what became of the rows of a RESULT that was taken, in its order. */
    PL_SCHED_RESULT,
    /* .at_ms: give a TICK then, instead of at the time asked for before; INT64_MAX: no need. */
    PL_SCHED_TIMER,
    /* Give a TICK soon: there is more to do now. */
    PL_SCHED_CONTINUE,
    /* Draining, and no plan, task or commit is under way. */
    PL_SCHED_DRAINED,
};

enum pl_sched_verdict {
    PL_SCHED_ROW_IGNORED, /* not (or no longer) of this task: keep nothing of it */
    PL_SCHED_ROW_DONE,
    PL_SCHED_ROW_RETRY, /* the command failed and is tried again */
    PL_SCHED_ROW_FAILED,
    PL_SCHED_ROW_RECOVERED, /* it failed for good, and fails nothing */
    PL_SCHED_ROW_WAITING,   /* given back */
};

struct pl_sched_action {
    enum pl_sched_action_kind kind;
    union {
        struct {
            const char *id;
            uint64_t order;
            enum pl_sched_state state;      /* running, success, failure (a job failed or was unrunnable), killed */
            uint32_t jobs[PL_SCHED_STATES]; /* how many jobs are in which state */
        } run;
        struct {
            uint64_t id;
            uint64_t stage, version;
            const char *run;
            uint64_t order; /* the run's: inputs are read as of it */
            enum pl_sched_state state;
            const char *reason;
            const char *superseded_by; /* id of the run, or NULL */
        } job;
        struct {
            uint64_t id;
            uint64_t stage, version;
            uint64_t job; /* START_WORKER: for which it was started */
            bool kill;
            uint64_t shape;  /* of its pod; 0 = a process of this machine, with what is below */
            bool gpu;        /* of a pod: it has the stage's GPUs */
            uint32_t n_gpus; /* 0 = CPU */
            uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
            uint32_t cpu_milli;
            uint64_t memory_bytes;
            const char *const *avoid; /* START_WORKER of a pod: nodes that it should not go to while there are others */
            size_t n_avoid;
            const char *reason; /* STOP_WORKER */
        } worker;
        struct {
            uint64_t worker, task, fence, job;
            const struct pl_sched_range *rows;
            size_t n_rows;
            uint32_t count;    /* of single rows */
            uint32_t failures; /* tries already used: the attempt's number − 1 */
            uint32_t losses;
            const char *message; /* GIVE_UP */
        } lease;
        struct {
            uint64_t worker, task, fence, job;
            bool task_done; /* no row of the task is open any more */
            const enum pl_sched_verdict *verdicts;
            size_t n;
        } result;
        int64_t at_ms;
    };
};

/* Filled by a step; what it points to is the scheduler's and holds until the next step. Start with {0}. Carry out in order. */
struct pl_sched_actions {
    const struct pl_sched_action *items;
    size_t n;
};

struct pl_sched;

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_sched_create(const struct pl_sched_config *config, struct pl_sched **ret, struct pl_err *err);
struct pl_sched *pl_sched_destroy(struct pl_sched *s);
static inline void pl_sched_destroyp(struct pl_sched **s)
{
    *s = pl_sched_destroy(*s);
}

/* Takes one event. An event that is refused (PL_EINVAL, PL_ENOTFOUND, PL_EBUSY, PL_EEXISTS, PL_ELIMIT as said above) changes
 * nothing and gives no actions. Late answers about jobs and workers that have ended are no errors. After PL_ENOMEM the scheduler
 * refuses everything: start anew from what is durable. */
PL_MUST_CHECK
int pl_sched_step(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_sched_actions *out, struct pl_err *err);

/* What the API shows beside the stored rows. */
struct pl_sched_job_info {
    enum pl_sched_state state;
    bool planned;
    uint64_t datums;
    uint32_t to_run;
    uint32_t waiting, leased, done, failed; /* rows; their sum is to_run */
    uint32_t workers;                       /* with a leased task of it */
    int64_t busy_ms;                        /* time with a leased task */
};
/* PL_ENOTFOUND once its run has ended. */
PL_MUST_CHECK
int pl_sched_job_info(const struct pl_sched *s, uint64_t job, struct pl_sched_job_info *ret, struct pl_err *err);

/* What its commands run on now, "gpu" or "cpu"; NULL while none runs. */
const char *pl_sched_job_device(const struct pl_sched *s, uint64_t job);
/* Why a worker of the job has no GPU although its stage wants one if it can: "no GPU came within 10m", "no GPU is on offer: …", "no GPU was on offer"; ""
 * where it does not, or there is no such job. */
void pl_sched_without_gpu(const struct pl_sched *s, uint64_t job, char out[PL_SCHED_MESSAGE_MAX]);

/* Whether the worker holds the task under that fence, and has the row still before it. */
bool pl_sched_holds(const struct pl_sched *s, uint64_t worker, const struct pl_sched_lease *lease, uint32_t row);

/* Is anything of that shape? */
bool pl_sched_has_shape(const struct pl_sched *s, uint64_t shape);

struct pl_sched_counts {
    uint32_t stages, runs, jobs, tasks; /* jobs: also those ended whose run has not */
    uint32_t workers_starting, workers_idle, workers_busy, workers_stopping;
    uint32_t gpus, gpus_used;
};
void pl_sched_counts(const struct pl_sched *s, struct pl_sched_counts *ret);
/* The worker that holds a GPU slot, 0 when it is free or does not exist; and the worker's stage and job (0 while it has none). */
uint64_t pl_sched_gpu_holder(const struct pl_sched *s, uint32_t slot, uint64_t *ret_stage, uint64_t *ret_job);
