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
 *   sched_names          names of events and actions
 *   sched_node_failures  avoids nodes where workers of a job were lost
 *   sched_pod_shape      pod shapes and the limit on pending pods
 *   sched_queue          what waits for resources, in order
 *   sched_restore        rebuilds the state after a restart
 *   sched_run            life of a run
 *   sched_task           leases datums to workers
 *   sched_view           read-only views of jobs and workers
 *   sched_wait_reason    why a job or stage waits, as a sentence
 *   sched_worker         life of a worker */

/* sched: decides what runs, where and when. The scheduler is pure: each call takes one event and returns the
 * actions that follow from it. It does no I/O, reads no clock, uses no random numbers and starts no threads.
 * The daemon's engine feeds events and carries out the actions; tests/unit/sched/test_sched_simulation.c does
 * the same in a simulated world.
 *
 * A job is one stage in one run:
 *
 *            inputs ready, its turn          first lease          every datum ended well
 *   created ───────────────────────▶ starting ─────────▶ running ─────────────────────▶ finishing ──▶ success
 *      │      (PLAN)                    │  └─ nothing to run ──────────────────────────▶  (COMMIT)
 *      │                                │                    │                             │
 *      ├─▶ unrunnable (an input failed) └────────┬───────────┴──▶ failure (a datum, the    └──▶ failure
 *      └─▶ killed (stopped, superseded) ◀────────┘                plan, the worker's start)   (COMMIT_FAILED)
 *
 * A worker belongs to one version of one stage and keeps its devices until the engine reports that it is
 * gone:
 *
 *   starting ──ATTACHED, NEXT──▶ idle ──LEASE──▶ busy        any ──STOP_WORKER──▶ stopping ──EXITED──▶ (gone)
 *                                  ▲───NEXT───────┘
 *
 * Rows. The datums of a job that must run are numbered 0 … to_run − 1 in spec order. In identifiers these
 * numbers are called rows; the engine's plan maps them to the numbers of all the job's datums. Each of these
 * datums is always in exactly one state: waiting (in a bin of datums with the same history), part of one
 * leased task, or ended. Sets of them are stored as ranges, so the cost of a job depends on the number of
 * ranges, even with 2^24 datums.
 *
 * Rules
 *  - Order: each run has a number, `order`, which is unique and rises from run to run. It comes from the
 *    log, never from the run's id. The jobs of one stage run one at a time, in this order.
 *  - Inputs: a job reads each input at the newest commit of its branch that was made by a run whose order is
 *    at most the job's own. If a stage of the same run writes the input, the job waits for that stage's job,
 *    and does not run if that job fails. Otherwise it waits for the newest unfinished earlier job that
 *    writes the input, and then reads the branch as it is.
 *  - on_new = newest: a job with complete inputs kills earlier jobs of its stage that have leased nothing,
 *    starting with the one directly before it. It stops at the first job that must be kept: a job that is
 *    being planned (it will run sooner), or a job of the run that the pipeline carries through (see below).
 *    Jobs that wait for a killed job of the same run are killed too. Each pipeline carries through the first
 *    of its runs that begins: it keeps the jobs of that run until all of them have ended. This way a stage
 *    that joins the outputs of other stages still commits, however fast new pushes come. on_new = restart:
 *    also kills running jobs, and jobs of the carried run; the engine reuses the results of datums that the
 *    killed jobs finished.
 *  - Runs with a separate branch (`aside`) write to a branch that other stages do not read. Such a run has
 *    no jobs of downstream stages, no other run waits for it, and its jobs do not wait for inputs from other
 *    runs. Its jobs take their turn, but supersede no job and are superseded by none.
 *  - Leases: a lease lasts lease_ms, measured in time during which the daemon was seen to run: at most
 *    PL_SCHED_GAP_MS count between two events.
 *  - Tries and losses: a try is used up when the user's command ends. Datums lost with their worker
 *    do not use up a try. After the first loss they are leased again at once, after each further one with a
 *    back-off of 10 s … 10 min. This happens at most PL_SCHED_LOSSES_MAX times, and in smaller tasks each time,
 *    so that a datum that crashes its worker is soon alone in its task. Datums of a pod that the cluster took
 *    away (PL_SCHED_EXIT_DISRUPTED) were not lost in this sense: they are leased again at once, however often
 *    that happens. A failed datum does not stop the other datums. If a datum has used up its tries, the job
 *    fails after the other datums have ended, or commits without that datum (skip_failed). If more than
 *    max_failed datums have failed, the job fails at once. A recovered datum is left out of the output and does
 *    not fail the job.
 *  - Failed starts: a worker that ends before its agent and its command's container have come up is a failed
 *    start, unless its agent had attached and the cluster took its pod away. The stage starts its next worker
 *    after a back-off of 10 s … 10 min, and its job fails after PL_SCHED_LOSSES_MAX failed starts in a row. The
 *    count begins again with the first worker that asks for a task.
 *  - Nodes: if workers of a job were lost on one node twice, at least PL_SCHED_BACKOFF_MIN_MS apart or the second
 *    one started after the first loss (losses at the same time count once), the job's new pods avoid that node, and its workers already there get no
 *    datums that were lost before. The node is used again after an hour without a loss. All nodes are used
 *    again if no other node has taken a pod for PL_SCHED_ELSEWHERE_MS. A restart of the daemon forgets these
 *    losses.
 *  - Task size: a task has 1 datum at first. Later tasks aim at PL_SCHED_AIM_MS of compute time, by the mean
 *    of the job's measured datums, and have at most four times as many datums as were measured so far. A task
 *    has at most PL_SCHED_TASK_ROWS_MAX and at least ⌈waiting / 32,768⌉ datums, but never more than
 *    ⌈waiting / live workers⌉. A worker may get a further task while one computes, so that input files are
 *    fetched ahead. It gets one only if no other worker lacks work, none of the task's datums failed or was
 *    lost before, and datums take at most PL_SCHED_AIM_MS on average. If no datum was measured so far, many
 *    datums must be waiting instead.
 *  - Recall: if a worker of the stage is idle and no datum is ready, a worker that holds several datums is
 *    asked to give back those that it has not begun (RECALL). Workers are asked in the order in which their
 *    tasks were leased, as many at a time as there are idle workers. A recalled worker gets no task ahead
 *    until it has finished a datum.
 *  - Workers: a stage has at most min(stage's workers, waiting datums), as far as capacity allows. The stage
 *    with the highest priority is served first; at equal priority, the pipeline with the fewest workers. A
 *    smaller request of the same kind does not overtake the first one in the queue. An idle worker is kept
 *    for linger_ms, or keep_warm_ms if that is longer; it is stopped at once if another stage needs its
 *    resources.
 *  - GPUs are exclusive slots. A stage with a required GPU waits for a free slot. A stage whose GPU is not
 *    required takes a GPU if the executor offers enough and they become free within wait_ms. Otherwise, if no
 *    worker of the stage has a GPU when wait_ms has passed, the stage runs on the CPU. If the executor offers
 *    too few GPUs, the stage runs on the CPU at once. A stage without `gpu` never gets a GPU. A stage that
 *    accepts only certain slots waits for these; only stages that want one of the same slots wait behind it.
 *  - Pods: on a cluster a worker is a pod, and pods that ask for the same things have the same shape. The
 *    scheduler does not count nodes. A shape says whether any node could take such a pod, and how many of its
 *    pods may wait for a node at the same time. Requests for pods of different shapes do not wait for each
 *    other; within a shape, the pipeline with the fewest workers goes first. A pod may wait for a node
 *    without limit, unless its GPU is not required: then it waits wait_ms, and is replaced by a pod of the
 *    CPU shape. With pending_ms, a job whose datums are ready fails when no pod of its stage has had a node for
 *    so long. The time for which it waits for a GPU that is not required does not count. A restart of the
 *    daemon begins the time anew.
 *  - Replaced pods: a pod that still waits for a node is replaced, and not counted as a failure, if pods of
 *    the stage now require other properties of a node, and a node with these could take them. A pod without a
 *    GPU that still waits is also replaced if the cluster comes to offer the GPU that its stage prefers.
 *  - Wait reasons: every unfinished job has a sentence that says what it does or waits for. JOB_STATE reports
 *    each change.
 *
 * After a start of the daemon the scheduler restores its state from events: STAGE_SET (all versions that
 * unfinished jobs or workers use, in ascending order), CAPACITY, then RESTORE_… in the order RUN, JOB,
 * WORKER, TASK, and at the end RESTORE_DONE. Until then it accepts only these events (and SHAPE) and returns
 * no actions. With an empty store the same sequence has nothing to restore.
 *
 * Not thread-safe: the event loop owns it. */
#pragma once

#include "storage/base/err.h"

/* most transitions per call; the remaining work is done in the next call (action CONTINUE) */
#define PL_SCHED_TRANSITIONS_MAX 1000
#define PL_SCHED_ROWS_MAX        (1u << 24) /* most datums that one job runs */
#define PL_SCHED_TASK_ROWS_MAX   10000u
/* a job's waiting datums are cut into about this many tasks at most; small first and last tasks are not
 * counted */
#define PL_SCHED_TASK_CUTS 32768u
#define PL_SCHED_AIM_MS    10000 /* target for the compute time of one task */
/* most tasks that one worker holds: one is uploaded, one computes, one is fetched */
#define PL_SCHED_WORKER_LEASES 3
/* a worker gets a third task only while the datums that it holds need at most this much compute time */
#define PL_SCHED_AHEAD_MS 1000
/* if no datum was measured so far, tasks are leased ahead only while at least this many datums per worker are
 * ready */
#define PL_SCHED_AHEAD_ROWS 16
/* most losses of one datum, and most failed starts in a row of a stage's workers */
#define PL_SCHED_LOSSES_MAX     20
#define PL_SCHED_BACKOFF_MIN_MS 10000
#define PL_SCHED_BACKOFF_MAX_MS 600000
/* losses of one job's workers on a node after which the job avoids the node */
#define PL_SCHED_NODE_LOSSES    2
#define PL_SCHED_NODES_AVOIDED  8       /* most nodes that one job remembers: those with the latest losses */
#define PL_SCHED_NODE_FORGET_MS 3600000 /* an avoided node is used again this long after its last loss */
/* how long a pod waits for a node that is not avoided, before avoided nodes may be used again */
#define PL_SCHED_ELSEWHERE_MS 600000
/* longest time between two events that counts: no lease expires because the daemon stood still */
#define PL_SCHED_GAP_MS          10000
#define PL_SCHED_BEAT_MS         5000 /* longest time until the next TICK while any deadline is set */
#define PL_SCHED_GPUS_MAX        1024 /* most GPU slots of the executor */
#define PL_SCHED_WORKER_GPUS_MAX 64   /* most GPU slots of one worker */
#define PL_SCHED_STAGES_MAX      (1u << 20)
#define PL_SCHED_SHAPES_MAX      (1u << 16)
#define PL_SCHED_JOBS_MAX        (1u << 22) /* most jobs in memory */
/* time between a STOP_WORKER and its repetition, which kills the worker */
#define PL_SCHED_STOP_GRACE_MS 30000
#define PL_SCHED_MESSAGE_MAX   512 /* bytes kept of a message from a worker or the cluster */

/* Reason of a job that was killed because its stage was removed. */
#define PL_SCHED_REMOVED "its pipeline was stopped or deleted, or has no such stage any more"

enum pl_sched_state {
    PL_SCHED_CREATED,
    PL_SCHED_STARTING,
    PL_SCHED_RUNNING,
    PL_SCHED_FINISHING,
    PL_SCHED_SUCCESS, /* final states: this one and all that follow */
    PL_SCHED_FAILURE,
    PL_SCHED_KILLED,
    PL_SCHED_UNRUNNABLE,
    PL_SCHED_STATES
};

static inline bool pl_sched_state_final(enum pl_sched_state state)
{
    return state >= PL_SCHED_SUCCESS;
}
/* Returns the state's name ("created" …); NULL if `state` is not a state. */
const char *pl_sched_state_name(enum pl_sched_state state);

enum pl_sched_on_new { PL_SCHED_NEWEST, PL_SCHED_QUEUE, PL_SCHED_RESTART };

struct pl_sched_config {
    /* exclusive lower bound: all ids (of jobs, tasks, workers) and all fences that the scheduler assigns are
     * larger than this number, for example the log's epoch << 32 */
    uint64_t first_id;
    int64_t linger_ms; /* time that an idle worker is kept; 0 = 2,000; negative: it is stopped at once */
    int64_t lease_ms;  /* duration of a lease; 0 = 30,000 */
    /* time within which a new worker must attach, otherwise it is killed; 0 = 120,000; negative: no limit.
     * For a pod the time starts when all its containers run */
    int64_t start_wait_ms;
    unsigned transitions; /* most transitions per call; 0 = PL_SCHED_TRANSITIONS_MAX. Tests set less */
};

/* A branch of a repo: both are numbers that the engine assigns. */
struct pl_sched_head {
    uint64_t repo;
    uint64_t branch;
};

/* The datum numbers lo … hi − 1 (datums, see above). */
struct pl_sched_range {
    uint32_t lo;
    uint32_t hi;
};

/* One version of a stage. The scheduler copies it, with all arrays and texts. */
struct pl_sched_stage {
    uint64_t stage; /* number of the stage, the same for all its versions */
    uint64_t version;
    /* order of the change that set this version: a restored run with a lower order gets no job of this
     * version; 0 = every run gets its job */
    uint64_t since;
    uint64_t pipeline; /* number of the pipeline, for fair share */
    /* among stages that request the same kind of resource, the one with the highest priority is served
     * first */
    int32_t priority;
    const char *name; /* name of the stage, used in wait reasons */
    const struct pl_sched_head *inputs;
    size_t n_inputs;
    struct pl_sched_head output; /* branch of the output; no other stage may write it */
    /* the input that is its environment, repo 0 = none: the stage that writes it has a job in each run of this stage */
    struct pl_sched_head environment;
    uint32_t workers;   /* most workers that the stage may have at a time; ≥ 1 */
    uint32_t tries;     /* tries per datum; ≥ 1 */
    uint32_t gpu_count; /* GPUs per worker; 0 = a CPU stage */
    bool gpu_required;
    int64_t gpu_wait_ms;       /* if the GPU is not required: how long to wait for one, in ms; < 0 = 10 min */
    bool gpu_chosen;           /* only the GPU slots listed in gpu_slots are acceptable */
    const uint16_t *gpu_slots; /* acceptable GPU slots, the preferred one first; used if gpu_chosen */
    size_t n_gpu_slots;
    /* text for wait reasons if too few slots are acceptable: which GPUs the stage wants, and which the
     * machine has. May be NULL */
    const char *gpu_text;
    int64_t keep_warm_ms; /* time in ms that an idle worker is kept, if longer than linger_ms */
    /* CPU per worker, in thousandths; 0 = 1,000 for a CPU worker, none for a GPU worker. A request above the
     * capacity takes the whole capacity */
    uint32_t cpu_milli;
    uint64_t memory_bytes; /* memory per worker; 0 = not counted */
    /* id of the shape of the stage's pods; 0 = workers are processes on this machine. No pod starts before
     * the shape's SHAPE event */
    uint64_t shape;
    /* id of the shape of the stage's pods without a GPU, if gpu_count > 0 and the GPU is not required; else
     * 0 */
    uint64_t cpu_shape;
    /* the job fails if none of the stage's pods gets a node for so long, in ms; 0 = no limit */
    int64_t pending_ms;
    int64_t job_timeout_ms; /* limit on the time during which the job has a leased task; 0 = no limit */
    enum pl_sched_on_new on_new;
    bool skip_failed; /* failed datums do not fail the job */
    /* the job fails at once if more datums fail than max_failed or max_failed_ppm allows */
    bool max_failed_given;
    bool max_failed_share; /* the limit is max_failed_ppm (millionths of the job's datums), not max_failed */
    uint32_t max_failed;
    uint32_t max_failed_ppm;
};

struct pl_sched_capacity {
    uint64_t cpu_milli;
    uint64_t memory_bytes; /* memory of the executor in bytes; 0 = memory is not counted */
    uint32_t gpu_slots;    /* number of GPU slots that exist now: they are numbered 0 … gpu_slots − 1 */
    /* number of GPU slots that could exist; more than gpu_slots where nodes come and go */
    uint32_t gpu_offered;
};

/* A pod shape: what all pods of one kind require of a node. */
struct pl_sched_shape {
    uint64_t id;          /* id of the shape, not 0 */
    bool offered;         /* some node could take such a pod, now or after the cluster grows */
    uint32_t pending_max; /* limit on pods of this shape that wait for a node at the same time */
    uint64_t needs;       /* hash of the properties that a node must have for such a pod; 0 = unknown */
    /* reason why the shape is not offered: "no node offers nvidia.com/gpux; known: nvidia.com/gpu" */
    const char *text;
};

/* How a worker ended, as far as the end says something about the next worker. */
enum pl_sched_exit {
    PL_SCHED_EXIT_OWN,       /* the worker ended by itself, or the cause is not known */
    PL_SCHED_EXIT_DISRUPTED, /* the cluster took its pod away: preempted, evicted, drained, deleted, node lost */
    /* its pod was recorded by an earlier start of the daemon, but never created, or is gone without a trace */
    PL_SCHED_EXIT_UNMADE,
};

struct pl_sched_lease {
    uint64_t task;
    uint64_t fence;
};

/* History of datums lo … hi − 1 before a restart. */
struct pl_sched_tried {
    struct pl_sched_range rows;
    uint32_t failures; /* tries used */
    uint32_t losses;   /* number of times that the datums were lost with a worker */
};

/* Result of one datum: its command ended, or (gave_back) the worker returned it without having run it to the end. */
struct pl_sched_row {
    uint32_t index;
    bool failed;
    bool recovered; /* the datum failed, but it is left out of the output and does not fail the job */
    bool gave_back;
    const char *label;   /* if failed: the datum as a user knows it, e.g. "/train/b1.csv" */
    const char *message; /* if failed: "exit code 1: ValueError: …" */
};

/* Kinds of events. Each says which fields of pl_sched_event it uses, and with which errors it may be refused.
 * An agent's `next` that carries results becomes RESULT, then NEXT. */
enum pl_sched_event_kind {
    /* Time passed. The answer to TIMER and CONTINUE. */
    PL_SCHED_EV_TICK,

    /* .stage: adds a stage, or a higher version of one. Jobs of the older version continue, or are superseded
     * by a later run if on_new says so. PL_EINVAL: a cycle, an output that another stage writes, a bad value;
     * PL_EEXISTS: the version is not higher; PL_ELIMIT. */
    PL_SCHED_EV_STAGE_SET,
    /* .stage, of which only stage, version, shape and cpu_shape are used: new shapes for pods of this
     * version. Existing pods keep their shapes. PL_ENOTFOUND: no such version; PL_EINVAL, PL_ELIMIT. */
    PL_SCHED_EV_STAGE_SHAPES,
    /* .id = stage: removes the stage, kills its jobs and stops its workers. A job that is committing ends
     * when the answer to its COMMIT arrives; COMMIT_FAILED kills it. PL_ENOTFOUND. */
    PL_SCHED_EV_STAGE_REMOVED,
    /* .run: a new run, because branch heads moved, or because the run asks for stages to run again over
     * unchanged heads. Creates a job for each stage that the run names or that reads a moved head, and for
     * every stage downstream. PL_EEXISTS: the run is known; PL_EINVAL: its order is not above all earlier
     * ones; PL_EBUSY: PL_SCHED_JOBS_MAX is reached. */
    PL_SCHED_EV_RUN,
    /* .id = job, .plan: the job's plan is made. PL_ELIMIT: the plan has too many datums; send PLAN_FAILED
     * then. PL_EINVAL: its numbers contradict each other. */
    PL_SCHED_EV_JOB_PLANNED,
    /* .id = job, .text = the reason why the job cannot be planned. */
    PL_SCHED_EV_PLAN_FAILED,
    /* .id = job: the job's output is committed. Downstream jobs run whether or not the output changed, and
     * reuse the results that they can. */
    PL_SCHED_EV_JOB_COMMITTED,
    /* .id = job, .text = the reason why the commit failed. .on: the commit was refused because the stage is
     * gone (STAGE_REMOVED was or will be sent); the job is then killed rather than failed. */
    PL_SCHED_EV_COMMIT_FAILED,
    /* .id = job, .text = the reason ("stopped by a user"): stops the job. PL_ENOTFOUND; PL_EBUSY while the
     * job commits. */
    PL_SCHED_EV_STOP_JOB,
    /* .run.id, .text = the reason: stops all jobs of the run except those that are committing.
     * PL_ENOTFOUND. */
    PL_SCHED_EV_STOP_RUN,

    /* .id = worker, .text = the reason why it could not be started: the worker never ran and holds
     * nothing. .on: as in WORKER_EXITED. */
    PL_SCHED_EV_START_FAILED,
    /* .id = worker, .leases = the leases that the worker says it holds: the worker has attached. Its other
     * leases end, and their datums are leased again at once. */
    PL_SCHED_EV_WORKER_ATTACHED,
    /* .id = worker: the worker asks for a task. The request stands until a LEASE or STOP_WORKER answers it.
     * Repeating it is harmless, and shows that the worker is alive. */
    PL_SCHED_EV_WORKER_NEXT,
    /* .id = worker, .leases: the worker renews these leases. */
    PL_SCHED_EV_RENEW,
    /* .id = worker, .result: results of some or all datums of one task. Their outputs are durable already. */
    PL_SCHED_EV_RESULT,
    /* .id = worker, .text = the reason: the worker is certainly gone and holds no device. Also the answer to
     * STOP_WORKER. .on: another worker would fail in the same way (for example, the image does not exist), so
     * the job for which the worker was started fails with .text, unless another worker of the stage is up or
     * comes up on its node. .counts: the user's command ended the worker
     * (its container ran out of memory); if the worker held exactly one datum, that datum has used a try.
     * .exit: how it ended; a worker that the cluster took away is replaced at once. */
    PL_SCHED_EV_WORKER_EXITED,
    /* .id = worker, .text = the node that accepted the worker's pod (NULL or "" = unknown): the pod no longer
     * waits for a node. .on: all its containers run; the worker must attach within start_wait_ms from now, or
     * it is killed. */
    PL_SCHED_EV_WORKER_PLACED,
    /* .id = worker, .text: the cluster's reason why the pod is not up yet, or why its agent has not attached;
     * NULL: unknown. */
    PL_SCHED_EV_WORKER_WAITS,
    /* .id = worker, .shape.needs: what the pod of a restored worker requires of a node, as recorded when the
     * pod was made. Sent while the pod waits for a node. */
    PL_SCHED_EV_WORKER_NEEDS,
    /* .id = worker: the worker gets no more tasks and is asked to give back datums that it has not begun
     * (RECALL). It is stopped once it holds nothing, at once if it holds nothing now. A worker that has not
     * attached is killed. */
    PL_SCHED_EV_WORKER_RETIRE,
    /* .capacity: the executor's capacity changed. */
    PL_SCHED_EV_CAPACITY,
    /* .shape: a new or changed shape. A shape that no stage and no worker uses is not kept, and the event
     * then changes nothing: send it again after a stage uses the shape. While restoring, send it before the
     * stages and workers; it is kept until RESTORE_DONE. PL_EINVAL: id 0; PL_ELIMIT: PL_SCHED_SHAPES_MAX. */
    PL_SCHED_EV_SHAPE,
    /* From now on nothing new is planned, leased or started, and idle workers are stopped. Cannot be
     * undone. */
    PL_SCHED_EV_DRAIN,

    /* .run: as RUN, for a run of an earlier start. Jobs that RESTORE_JOB does not give are created again, as
     * far as they follow from the run's heads and stages. */
    PL_SCHED_EV_RESTORE_RUN,
    /* .job: a job of a restored run; a job that has ended is given too, as long as its run has not ended.
     * PL_ENOTFOUND: its stage is gone. */
    PL_SCHED_EV_RESTORE_JOB,
    /* .worker: a worker that an earlier start of the daemon left and that may still run. The scheduler waits
     * lease_ms for it. PL_ENOTFOUND: its stage is gone; the caller must end the worker before
     * RESTORE_DONE. */
    PL_SCHED_EV_RESTORE_WORKER,
    /* .task: a task that was leased and has not ended; its lease is extended once. A leased task that is not
     * restored is lost: its datums run again, and its fence is refused. PL_ENOTFOUND: no such worker or job;
     * PL_EINVAL: its datums are not waiting, or have another history. */
    PL_SCHED_EV_RESTORE_TASK,
    PL_SCHED_EV_RESTORE_DONE,
};

struct pl_sched_event {
    enum pl_sched_event_kind kind;
    int64_t now_ms; /* monotonic time of the event; a step backwards counts as no time */
    uint64_t id;
    const char *text; /* reason or node name, as the kind of event says; may be NULL */
    bool on, counts;
    enum pl_sched_exit exit;
    struct pl_sched_stage stage;
    struct pl_sched_capacity capacity;
    struct pl_sched_shape shape;
    struct {
        const char *id; /* id of the run: 32 hex digits */
        uint64_t order; /* number of the run in the sequence of all runs; above that of every earlier run */
        const struct pl_sched_head *heads;
        size_t n_heads;
        const uint64_t *stages;
        size_t n_stages;
        /* the run writes to a separate branch: it has only jobs of the stages in `stages`, and no other run
         * reads their outputs */
        bool aside;
    } run;
    struct pl_sched_plan {
        uint64_t datums; /* number of all datums of the job */
        uint32_t to_run; /* number of datums that must run; the results of the others are reused */
        /* of these the ones that failed in an earlier job and are not tried again, because the run retries other
         * datums: they have ended. Ascending, disjoint */
        const struct pl_sched_range *untried;
        size_t n_untried;
        uint32_t recovered;               /* number of datums in `untried` that were recovered; the others failed */
        struct pl_sched_row first_failed; /* the failed datum in `untried` with the lowest number, if one failed */
    } plan;
    struct {
        const struct pl_sched_lease *items;
        size_t n;
    } leases;
    struct {
        uint64_t task, fence;
        const struct pl_sched_row *rows;
        size_t n;
        uint64_t compute_us; /* totals over all datums */
        bool leaving;        /* the worker ends: it takes no more tasks */
    } result;
    struct {
        uint64_t id;
        uint64_t stage, version;
        const char *run;
        /* state of the job: if it is final, the job has ended; otherwise the fields below decide where the
         * job continues */
        enum pl_sched_state state;
        const char *text; /* reason of a final state */
        /* id of the superseding run as it was reported before the restart, or NULL */
        const char *superseded_by;
        /* the engine still has the plan whose numbers datums and tasks use; otherwise the job is planned
         * again */
        bool planned;
        bool leased; /* at least one task of the job was leased */
        uint64_t datums;
        uint32_t to_run;
        const struct pl_sched_range *ended; /* datums that have succeeded or failed; ascending, disjoint */
        size_t n_ended;
        /* histories of datums that have not ended; ascending, disjoint; a datum that is not listed has no
         * failures or losses */
        const struct pl_sched_tried *tried;
        size_t n_tried;
        uint32_t failed; /* number of failed datums among `ended` */
        /* number of recovered datums among `ended`, which `failed` does not count */
        uint32_t recovered;
        uint32_t untried, untried_failed; /* of `ended`: as the plan said of them; of these, those that failed */
        struct pl_sched_row first_failed; /* the failed datum with the lowest number; used if failed > 0 */
        /* time in ms during which the job had a leased task, as pl_sched_job_info returned it */
        int64_t busy_ms;
    } job;
    struct {
        uint64_t id;
        uint64_t stage, version;
        const uint16_t *gpus;
        size_t n_gpus;
        uint64_t shape; /* shape of its pod, one of its version's shapes; 0 = a process on this machine */
        /* the worker has never attached; if no node is known, its pod may still wait for one */
        bool starting;
        const char *node; /* node on which its pod runs; NULL or "" = unknown */
    } worker;
    struct {
        uint64_t task, fence, job, worker;
        const struct pl_sched_range *rows; /* datums of the task that have not ended; ascending, disjoint */
        size_t n_rows;
        uint32_t failures, losses;
    } task;
};

enum pl_sched_action_kind {
    /* .run: when the run starts (running) and when it ends (a final state). */
    PL_SCHED_RUN_STATE,
    /* .job: the job's state or wait reason changed. The first JOB_STATE of a job creates it. */
    PL_SCHED_JOB_STATE,
    /* .job: make the job's plan. Answer with JOB_PLANNED or PLAN_FAILED. An answer that comes after the job
     * has ended is ignored. */
    PL_SCHED_PLAN,
    /* .job: all datums have ended and the job did not fail: commit its output. Answer with JOB_COMMITTED or
     * COMMIT_FAILED. May be repeated after a restart. */
    PL_SCHED_COMMIT,
    /* .worker: start a worker with this new id. Answer with ATTACHED (through the agent), START_FAILED or
     * WORKER_EXITED. */
    PL_SCHED_START_WORKER,
    /* .worker: if kill is false, answer the worker's NEXT with `end`; if true, kill the worker. Answer with
     * WORKER_EXITED, also if the worker is unknown. Repeated with kill set after PL_SCHED_STOP_GRACE_MS. */
    PL_SCHED_STOP_WORKER,
    /* .lease: the task with which to answer the worker's NEXT. If no NEXT is open, keep the task for the
     * worker's next one. */
    PL_SCHED_LEASE,
    /* .lease worker, task, fence: the worker has lost the lease. Refuse its result with PL_ELEASE; list the
     * lease in `lost` when the worker renews it. */
    PL_SCHED_LEASE_LOST,
    /* .lease worker, task, fence, job: the job has ended. The worker should stop the task; its results will
     * be refused. */
    PL_SCHED_CANCEL,
    /* .lease worker, task, fence, job: the lease is over; its datums wait again or are given up. If the
     * datums were lost or ended their worker, then .rows, .failures and .losses say which datums these are
     * and what their new history is: the same as before if the cluster took the worker's pod away. If they were
     * lost, .lease.message is the reason. */
    PL_SCHED_RETURNED,
    /* .lease worker, task, fence, job: other workers are idle. Ask the worker to give back the task's datums
     * that it has not begun. It answers with a RESULT with gave_back, without datums if it has begun all.
     * Repeat the request with each renewal until a RESULT of the task arrives. */
    PL_SCHED_RECALL,
    /* .lease job, rows, failures, losses: these datums count as failed: they were lost with their workers too
     * often, or ended their workers too often. .lease.message is the reason. */
    PL_SCHED_GIVE_UP,
    /* .result: the outcome for each datum of an accepted RESULT event, in the order of the datums in that
     * event. */
    PL_SCHED_RESULT,
    /* .at_ms: send a TICK at this time instead of the time requested before; INT64_MAX: no TICK is needed. */
    PL_SCHED_TIMER,
    /* Send a TICK soon: there is more to do now. */
    PL_SCHED_CONTINUE,
    /* The scheduler is draining, and no plan, task or commit is in progress. */
    PL_SCHED_DRAINED,
};

enum pl_sched_verdict {
    PL_SCHED_ROW_IGNORED, /* the datum does not, or no longer, belong to the task: discard its result */
    PL_SCHED_ROW_DONE,
    PL_SCHED_ROW_RETRY, /* the command failed and the datum is tried again */
    PL_SCHED_ROW_FAILED,
    PL_SCHED_ROW_RECOVERED, /* the datum failed for good, but does not fail the job */
    PL_SCHED_ROW_WAITING,   /* the worker gave the datum back without running it */
};

struct pl_sched_action {
    enum pl_sched_action_kind kind;
    union {
        struct {
            const char *id;
            uint64_t order;
            /* state of the run: running, success, failure (a job failed or was unrunnable) or killed */
            enum pl_sched_state state;
            uint32_t jobs[PL_SCHED_STATES]; /* number of jobs in each state */
        } run;
        struct {
            uint64_t id;
            uint64_t stage, version;
            const char *run;
            uint64_t order; /* order of the run: the job reads its inputs as of this order */
            enum pl_sched_state state;
            const char *reason;
            const char *superseded_by; /* id of the superseding run, or NULL */
            bool unplaced;             /* it failed because no pod got a node in time */
        } job;
        struct {
            uint64_t id;
            uint64_t stage, version;
            uint64_t job; /* START_WORKER: the job that it is started for */
            bool kill;
            uint64_t shape;  /* shape of its pod; 0 = a process on this machine, with the resources below */
            bool gpu;        /* the pod has the stage's GPUs; false for a CPU pod and for a process */
            uint32_t n_gpus; /* number of GPU slots in `gpus`; 0 = a CPU worker */
            uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
            uint32_t cpu_milli;
            uint64_t memory_bytes;
            /* START_WORKER of a pod: names of nodes to avoid while the pod can run on other nodes */
            const char *const *avoid;
            size_t n_avoid;
            const char *reason; /* STOP_WORKER: reason of the stop */
        } worker;
        struct {
            uint64_t worker, task, fence, job;
            const struct pl_sched_range *rows;
            size_t n_rows;
            uint32_t count; /* number of datums in `rows` */
            /* number of tries that the datums have used so far; this attempt has the next number */
            uint32_t failures;
            uint32_t losses;
            /* GIVE_UP: why the datums count as failed; RETURNED: why the lease is over, NULL if the worker gave it back */
            const char *message;
            bool lost; /* RETURNED, GIVE_UP: the datums were lost with their worker */
        } lease;
        struct {
            uint64_t worker, task, fence, job;
            bool task_done; /* all datums of the task have ended */
            const enum pl_sched_verdict *verdicts;
            size_t n;
        } result;
        int64_t at_ms;
    };
};

/* Returns a text for traces: the name of an event ("STAGE_SET"), or an action ("LEASE worker 7 task 9 fence
 * 12"); "?" for an unknown kind. */
#define PL_SCHED_ACTION_TEXT 400
const char *pl_sched_event_name(enum pl_sched_event_kind kind);
const char *pl_sched_action_text(const struct pl_sched_action *a, char out[PL_SCHED_ACTION_TEXT]);

/* Filled by a step. The arrays and texts belong to the scheduler and are valid until the next step.
 * Initialise with {0}; carry out the actions in order. */
struct pl_sched_actions {
    const struct pl_sched_action *items;
    size_t n;
};

struct pl_sched;

/* Creates a scheduler, in the restoring state. PL_ENOMEM. */
PL_MUST_CHECK
int pl_sched_create(const struct pl_sched_config *config, struct pl_sched **ret, struct pl_err *err);
struct pl_sched *pl_sched_destroy(struct pl_sched *s);
static inline void pl_sched_destroyp(struct pl_sched **s)
{
    *s = pl_sched_destroy(*s);
}

/* Handles one event and fills `out` with the actions that follow. A refused event (PL_EINVAL, PL_ENOTFOUND,
 * PL_EBUSY, PL_EEXISTS, PL_ELIMIT as said above) changes nothing and yields no actions. Late answers about
 * jobs and workers that have ended are not errors. After PL_ENOMEM the scheduler refuses every call: create a
 * new one and restore it from durable state. */
PL_MUST_CHECK
int pl_sched_step(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_sched_actions *out, struct pl_err *err);

/* Live figures of a job, which the API shows together with those stored in the database. */
struct pl_sched_job_info {
    enum pl_sched_state state;
    bool planned;
    uint64_t datums;
    uint32_t to_run;
    /* numbers of datums; their sum, with the recovered datums, is to_run */
    uint32_t waiting, leased, done, failed;
    uint32_t workers; /* number of workers with a leased task of the job */
    int64_t busy_ms;  /* time in ms during which the job had a leased task */
};
/* Fills `ret` with the job's live figures. PL_ENOTFOUND once its run has ended. */
PL_MUST_CHECK
int pl_sched_job_info(const struct pl_sched *s, uint64_t job, struct pl_sched_job_info *ret, struct pl_err *err);

/* Returns the device that the job's commands run on now, "gpu" or "cpu"; NULL while none runs. */
const char *pl_sched_job_device(const struct pl_sched *s, uint64_t job);
/* Says why a worker of the job has no GPU although its stage prefers one: "no GPU came within 10m", "no GPU
 * is on offer: …", "no GPU was on offer". Writes "" if the stage does not prefer a GPU, or there is no such
 * job. */
void pl_sched_without_gpu(const struct pl_sched *s, uint64_t job, char out[PL_SCHED_MESSAGE_MAX]);

/* Returns true if the worker holds the task under this fence and the datum has not ended. */
bool pl_sched_holds(const struct pl_sched *s, uint64_t worker, const struct pl_sched_lease *lease, uint32_t row);
/* Writes the ids of the tasks that the worker holds, and returns how many these are. */
size_t pl_sched_worker_tasks(const struct pl_sched *s, uint64_t worker, uint64_t ret[PL_SCHED_WORKER_LEASES]);

/* Returns true if a stage or a worker uses the shape. */
bool pl_sched_has_shape(const struct pl_sched *s, uint64_t shape);

/* What a job waits for. */
enum pl_sched_waits {
    PL_SCHED_WAITS_GPU,   /* GPUs of this machine */
    PL_SCHED_WAITS_CPU,   /* CPU or memory of this machine */
    PL_SCHED_WAITS_POD,   /* room on the cluster */
    PL_SCHED_WAITS_START, /* its workers, which start */
    PL_SCHED_WAITS_EVER,  /* something that the executor does not have */
};
#define PL_SCHED_WAIT_HOLDERS 16 /* most workers that are named as holding what a job waits for */
struct pl_sched_wait_holder {
    uint64_t worker;
    uint32_t gpus;
};
struct pl_sched_wait {
    uint64_t job;
    enum pl_sched_waits what;
    uint32_t ahead;       /* stages that are served before it */
    uint32_t gpus;        /* that one worker wants; 0 = it runs on the CPU */
    uint32_t free, slots; /* GPU slots that are free, and that there are, of those that will do */
    uint64_t cpu_milli, memory_bytes;
    struct pl_sched_wait_holder holders[PL_SCHED_WAIT_HOLDERS];
    size_t n_holders;
};
/* Lists the jobs that have datums to run and no worker, at most `max`: first those that wait for GPUs, then for CPU, then
 * for pods, each in the order in which they are served. `only` (0 = all): lists this job, if it is one of them. Returns
 * their number. */
size_t pl_sched_queue(const struct pl_sched *s, uint64_t only, struct pl_sched_wait *items, size_t max);

struct pl_sched_counts {
    uint32_t stages, runs, jobs, tasks; /* number of jobs in memory, including ended jobs of unfinished runs */
    uint32_t workers_starting, workers_idle, workers_busy, workers_stopping;
    uint32_t gpus, gpus_used;
};
void pl_sched_counts(const struct pl_sched *s, struct pl_sched_counts *ret);
/* Returns the worker that holds a GPU slot; 0 if the slot is free or does not exist. Sets the worker's stage
 * and job (0 = none) if there is a worker. */
uint64_t pl_sched_gpu_holder(const struct pl_sched *s, uint32_t slot, uint64_t *ret_stage, uint64_t *ret_job);
