/* sched_internal: the scheduler's state, and the functions that its files share. Private to this room; the
 * contract is sched.h.
 *
 *   pipeline ◀── version ──▶ stage ──lane──▶ job ──▶ run
 *                   ▲                         ▲
 *                 worker ◀─────────────── task (lease)
 *
 *   sched.c                step, clock, work queues, look-ups
 *   sched_event.c          dispatches an event
 *   sched_graph.c          stages, and which stages read and write which branches
 *   sched_run.c            expands a run into jobs, in small steps
 *   sched_job.c            a job from created to its end
 *   sched_task.c           datums, leases, results
 *   sched_worker.c         a worker from its start to its exit
 *   sched_admit.c          capacity and GPUs of this machine; starts workers
 *   sched_fair_share.c     which request for a worker is served next
 *   sched_pod_shape.c      shapes of pods
 *   sched_node_failures.c  nodes on which workers were lost
 *   sched_queue.c          what waits for resources, in order
 *   sched_wait_reason.c    states and wait reasons
 *   sched_restore.c        restores the state after a start
 *
 * Scheduler time (`s->now`) is the time in ms during which the daemon was seen to run; it starts at 0. A
 * function that runs out of memory sets `s->oom`. The state is not used after that, so no function checks
 * `s->oom` before the end of the step. */
#pragma once

#include <sys/queue.h>

#include "pipelined/sched/datum_ranges.h"
#include "pipelined/sched/deadline_heap.h"
#include "storage/base/arena.h"
#include "storage/base/map.h"

struct job;
struct run;
struct shape;
struct stage;
struct task;
struct version;
struct wisher;
struct worker;

TAILQ_HEAD(job_list, job);
TAILQ_HEAD(run_list, run);
TAILQ_HEAD(stage_list, stage);
TAILQ_HEAD(task_list, task);
TAILQ_HEAD(version_list, version);
TAILQ_HEAD(worker_list, worker);
TAILQ_HEAD(wisher_list, wisher);
TAILQ_HEAD(shape_list, shape);

enum device { CPU, GPU, DEVICES, NO_DEVICE = -1 };

#define FAIR_BUCKETS 64 /* all pipelines with this many workers or more share the last bucket */
/* once there are this many bins, bins of the same history are merged even if their back-offs differ */
#define BINS_APART_MAX 64
/* number of waiting stages per queue whose wait reasons are updated when devices change hands */
#define SAY_WAITING 64

/* A queue of requests for workers on one device of this machine, or of one pod shape. */
struct line {
    /* one rank per priority, the highest first; an emptied rank stays until its line is freed */
    TAILQ_HEAD(rank_list, rank) ranks;
};

/* The requests of one priority: pipelines in buckets, by their number of workers. */
struct rank {
    struct line *line;
    int32_t priority;
    struct wisher_list buckets[FAIR_BUCKETS];
    TAILQ_ENTRY(rank) link;
};

/* Entry of a pipeline in a rank of a line: lists the pipeline's stages of that priority that request ("wish
 * for") a worker. */
struct wisher {
    struct pipeline *pipeline;
    struct rank *rank;
    struct version_list versions; /* stage versions that request a worker; the first one is served next */
    TAILQ_ENTRY(wisher) link;     /* link in its bucket, while `versions` is not empty */
    int bucket;                   /* index of the bucket that contains it; −1 = in no bucket */
    SLIST_ENTRY(wisher) next;     /* link in the pipeline's list `wishers` */
};

/* A pod shape (see sched.h). */
struct shape {
    uint64_t id;
    uint32_t refs; /* number of stage versions and workers that use the shape */
    struct line line;
    bool told, offered;
    uint32_t pending_max, pending; /* limit on the pods that wait for a node, and their current number */
    uint64_t needs;                /* hash of the properties that a node must have; 0 = unknown */
    char *text;
    char *why;  /* reason why one of the shape's pods waits, in the cluster's words; NULL = unknown */
    bool ready; /* in the list s->ready, because the next admission of workers must look at it */
    TAILQ_ENTRY(shape) ready_link;
};

struct pipeline {
    uint64_t id;
    uint32_t versions; /* number of its stage versions, each of which holds a reference */
    uint32_t workers;  /* workers that are not gone yet */
    /* run that the pipeline carries through: once one of its jobs has begun, its jobs are not superseded, so
     * that a stage that joins outputs of the run can commit; NULL = none */
    struct run *carried;
    uint32_t carried_open; /* number of this pipeline's unfinished jobs in the run `carried` */
    SLIST_HEAD(, wisher) wishers;
};

/* A branch: the stage that writes it and the stages that read it. */
struct head {
    struct pl_sched_head key;
    struct stage *writer;
    struct stage **readers;
    size_t n_readers, cap_readers;
};

struct stage {
    uint64_t id;
    struct version *current; /* NULL = the stage was removed */
    struct version_list all;
    struct job_list lane; /* unfinished jobs, in the order of their runs */
    TAILQ_ENTRY(stage) dirty_link, say_link;
    bool dirty, say;
    bool reshaped; /* the stage's shapes changed: pods that wait for a node may have to be replaced */
    uint64_t mark; /* number of the last cycle search that visited the stage */
};

struct version {
    struct pl_sched_stage def; /* its texts and arrays are copies that the version owns */
    struct stage *stage;
    struct pipeline *pipeline;
    /* number of references: from the stage (while this is its current version), jobs in memory, workers */
    uint32_t refs;
    uint32_t unfinished; /* number of unfinished jobs */
    struct worker_list workers;
    /* workers whose request for a task is open: idle ones first, then busy ones that would fetch ahead */
    struct worker_list asking;
    /* numbers of workers by state. with_gpu: number of starting, idle and busy workers that have a GPU; pods
     * that wait for a node are not counted */
    uint32_t starting, idle, busy, stopping, with_gpu;
    uint32_t recalls;        /* workers that were asked to give datums back and have not answered */
    uint32_t start_failures; /* number of failed starts in a row */
    int64_t retry_at;
    char *last_failure;
    int64_t unused_since;            /* time since when `unfinished` is 0 */
    struct shape *shape, *cpu_shape; /* shapes of its pods with and without GPUs; NULL = none */
    struct wisher *wish;             /* its pipeline's entry in a line; NULL = the version requests no worker */
    enum device wish_device;
    bool kept; /* while restoring: an older version that holds a reference until RESTORE_DONE */
    TAILQ_ENTRY(version) wish_link, stage_link;
};

/* Waiting datums with the same history. */
struct bin {
    uint32_t failures, losses;
    int64_t not_before;
    struct pl_datum_ranges rows;
};

/* A node on which workers of a job were lost (see sched_node_failures.c). */
struct lost_on {
    char *node;
    uint32_t losses;
    int64_t at; /* time of the last loss that was counted; a loss shortly after a counted one is not counted */
    /* highest worker id at that time: workers with higher ids were started later, so their loss counts */
    uint64_t last_id;
};

/* The datums that a planned job must run. */
struct rows {
    uint64_t datums;
    uint32_t to_run, waiting, leased, done, failed, recovered;
    uint32_t untried;        /* of `failed` and `recovered`: they failed in an earlier job and were not tried again */
    uint32_t untried_failed; /* of `failed` alone */
    struct bin *bins;
    size_t n_bins, cap_bins;
    struct task_list tasks;
    uint64_t compute_us, measured;
    /* the failed datum with the lowest number, to which first_label and first_message belong */
    uint32_t first_failed;
    char *first_label, *first_message;
    char *last_loss;
    /* how a worker was lost that is replaced, if no task was leased since then; else NULL */
    char *disruption;
    struct lost_on lost_on[PL_SCHED_NODES_AVOIDED];
    size_t n_lost_on;
};

struct job {
    uint64_t id;
    struct stage *stage;
    struct version *version;
    struct run *run;
    enum pl_sched_state state;
    TAILQ_ENTRY(job) lane_link, queue_link;
    struct rows *rows;    /* the job's datums while it is planned and unfinished; else NULL */
    uint64_t *dependents; /* ids of jobs whose inputs must be checked again when this job ends */
    size_t n_dependents, cap_dependents, told;
    /* id of an unfinished upstream job that the last check of the inputs found; 0 = none */
    uint64_t blocked_on;
    uint64_t said; /* hash of the last reported state and wait reason; 0 = none */
    char *cause;   /* if the job ended without success: the reason that dependent jobs report */
    char superseded_by[33];
    uint32_t workers; /* workers with a task of the job */
    int64_t busy_since, busy_ms;
    int64_t gpu_since; /* time since when the job has waited for a GPU; −1 = it has not begun to wait */
    /* time since when no pod of the stage has had a node; −1 = one has, or the job does not wait for one */
    int64_t pending_since;
    struct pl_timer timer;
    /* the run names it, or it reads what changed; false = it is only there for the environment of others, and nothing else that
     * reads its output is added to the run */
    bool wanted;
    size_t at;     /* its place in run->jobs */
    bool looked;   /* its inputs were checked at least once */
    bool linked;   /* its run is expanded, and it is known which jobs it waits for and supersedes */
    bool queued;   /* in the queue s->looks of jobs whose inputs must be checked */
    bool planning; /* a PLAN is in progress */
    bool leased;   /* at least one of its tasks was leased */
    bool on_cpu;   /* the job stopped waiting for a GPU and runs on the CPU */
    bool unplaced; /* the job failed because no pod got a node in time */
    bool in_line;  /* the job keeps the place in the queue of the job that it superseded */
    /* its stage was removed while the job commits; the answer to COMMIT says whether the commit came first */
    bool stranded;
};

struct run {
    char id[33];
    uint64_t order;
    struct pl_sched_head *heads;
    size_t n_heads;
    uint64_t *stages;
    size_t n_stages;
    size_t at_head, at_reader, at_stage, at_made, at_linked; /* how far the run has been expanded into jobs */
    struct job **jobs;
    size_t n_jobs, cap_jobs;
    size_t open; /* number of jobs that have not ended or whose dependents have not been told of their end */
    uint32_t states[PL_SCHED_STATES];
    uint32_t planning; /* number of jobs with a PLAN in progress */
    uint32_t carried;  /* number of pipelines whose `carried` is this run */
    /* jobs are created from the run's heads and stages; false: the run has only restored jobs */
    bool implied;
    bool aside;
    bool expanding;
    TAILQ_ENTRY(run) link, expand_link;
};

struct task {
    uint64_t id, fence;
    struct job *job;
    struct worker *worker;
    struct pl_datum_ranges open;
    uint32_t failures, losses;
    int64_t expires;
    bool recalled;
    TAILQ_ENTRY(task) link;
};

/* State of a worker's recall, which asks for the datums that the worker has not begun: not requested;
 * requested; answered, while the worker still computes the datums that it had begun. */
enum recall { NOT_RECALLED, RECALL_ASKED, RECALL_ANSWERED };

enum worker_state { WORKER_STARTING, WORKER_IDLE, WORKER_BUSY, WORKER_STOPPING };

struct worker {
    uint64_t id;
    struct version *version;
    enum worker_state state;
    enum recall recall;
    struct task *tasks[PL_SCHED_WORKER_LEASES];
    size_t n_tasks;
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    uint32_t n_gpus;
    uint64_t cpu_milli, memory_bytes;
    struct shape *shape; /* shape of its pod; NULL = the worker is a process */
    char *why;           /* reason why its pod is not up; NULL = unknown */
    char *node;          /* node on which its pod runs; NULL = unknown, or the worker is a process */
    uint64_t needs;      /* value of its shape's `needs` when the pod was made; 0 = unknown */
    bool avoids;         /* its pod was started with a list of nodes to avoid */
    bool on_gpu;
    bool pending; /* its pod waits for a node */
    bool up;      /* all containers of its pod run */
    bool asking, kill;
    bool came_up;    /* it has asked for a task: its agent and its command's container run */
    bool productive; /* it has finished a datum */
    bool gave_back;  /* it gave back a datum without a recall, and has finished none since */
    bool retired;    /* the worker gets no more tasks, and is stopped once it holds none */
    /* time of the last change to its state; in state STOPPING the time of the last STOP_WORKER */
    int64_t since;
    int64_t made;
    int64_t seen;
    struct pl_timer timer;
    TAILQ_ENTRY(worker) version_link, asking_link, place_link;
};

struct pl_sched {
    struct pl_sched_config config;
    bool restoring, draining, drained, oom;
    int64_t now, mono;
    int64_t asked; /* monotonic time that the last TIMER action requested */
    uint64_t last_id, last_order, last_mark;
    /* map of jobs by (stage, order of the run) */
    struct pl_map stages, heads, pipelines, runs, jobs, jobs_by_run, tasks, workers;
    struct run_list run_list, expanding;
    struct job_list looks; /* jobs whose inputs must be checked */
    struct job_list ended; /* jobs that have ended and whose dependents must be told */
    struct stage_list dirty, say;
    struct worker_list idle; /* idle workers, the one that has been idle for longest first */
    struct worker_list starting;
    struct line lines[DEVICES]; /* lines of requests for the devices of this machine: CPU and GPU */
    struct pl_map shapes;
    struct shape_list ready; /* shapes that the next admission of workers must look at */
    struct pl_sched_capacity capacity;
    uint64_t cpu_used, memory_used;
    struct worker *gpus[PL_SCHED_GPUS_MAX];
    uint32_t gpus_used;                     /* number of GPU slots that workers hold, among those that exist */
    uint64_t cpu_stopping, memory_stopping; /* CPU and memory held by workers that were told to stop */
    uint32_t gpus_stopping;
    uint32_t planning, committing;
    bool devices_changed; /* devices changed hands: wait reasons that name their holders are out of date */
    bool admit_more;      /* the step's budget was used up before all requests were served */
    struct pl_timers timers;
    unsigned budget;
    struct pl_arena *arena; /* memory for the texts and arrays of this step's actions */
    struct pl_sched_action *actions;
    size_t n_actions, cap_actions;
    struct pl_sched_action thrown_away;
};

enum { TIMER_JOB, TIMER_WORKER };

/* ---- sched.c ---- */
static inline void *pl_sched_get(const struct pl_map *m, uint64_t id)
{
    return pl_map_get(m, &id, sizeof(id));
}
static inline void pl_sched_drop(struct pl_map *m, uint64_t id)
{
    (void)pl_map_remove(m, &id, sizeof(id));
}
/* Puts `value` into the map. Without memory, returns false, sets oom and leaves the map unchanged. */
bool pl_sched_put(struct pl_sched *s, struct pl_map *m, const void *key, size_t key_len, void *value);
/* Returns the length of `text` (`n` bytes) without a UTF-8 character that was cut off at its end. */
size_t pl_sched_whole(const char *text, size_t n);
/* Work like calloc and strdup, but set oom when they return NULL. strdup cuts a text at PL_SCHED_MESSAGE_MAX
 * and copies NULL as "". */
void *pl_sched_calloc(struct pl_sched *s, size_t n, size_t size);
char *pl_sched_strdup(struct pl_sched *s, const char *text);
/* Makes room for element number `n` in the array whose pointer is stored at `array_ptr`. Returns false and
 * sets oom without memory. */
bool pl_sched_grow(struct pl_sched *s, void *array_ptr, size_t n, size_t *cap, size_t size);
/* Appends a zeroed action and returns it. Without memory it returns a scratch action that is discarded. */
struct pl_sched_action *pl_sched_action_new(struct pl_sched *s, enum pl_sched_action_kind kind);
/* Copies `n` bytes into memory that lives as long as this step's actions; if `data` is NULL, the copy is
 * zeroed. Returns NULL and sets oom without memory. */
void *pl_sched_keep(struct pl_sched *s, const void *data, size_t n);
void pl_sched_stage_dirty(struct pl_sched *s, struct stage *stage);
void pl_sched_timer(struct pl_sched *s, struct pl_timer *t, int64_t at);

/* ---- sched_event.c: refuses an event, or changes the state and queues the work that follows ---- */
int pl_sched_event_take(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err);

/* ---- sched_graph.c ---- */
int pl_sched_stage_set(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err);
int pl_sched_stage_shapes(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err);
int pl_sched_stage_remove(struct pl_sched *s, uint64_t id, struct pl_err *err);
struct version *pl_sched_version_find(const struct pl_sched *s, uint64_t stage, uint64_t version);
void pl_sched_version_unref(struct pl_sched *s, struct version *v);
struct head *pl_sched_head_find(const struct pl_sched *s, struct pl_sched_head key);
/* At RESTORE_DONE: releases older versions that no restored job or worker uses. */
void pl_sched_graph_restored(struct pl_sched *s);
void pl_sched_graph_finish(struct pl_sched *s);

/* ---- sched_run.c ---- */
int pl_sched_run_add(struct pl_sched *s, const struct pl_sched_event *ev, struct run **ret, struct pl_err *err);
struct run *pl_sched_run_find(const struct pl_sched *s, const char *id);
struct job *pl_sched_job_find(const struct pl_sched *s, const struct stage *stage, const struct run *run);
struct job *pl_sched_job_make(struct pl_sched *s, struct run *run, struct version *v, uint64_t id, enum pl_sched_state state);
/* Does one transition of expanding the first run in the queue; false if no run is left to expand. */
bool pl_sched_run_expand(struct pl_sched *s);
/* Expands all queued runs. Called before the graph changes. */
void pl_sched_run_settle(struct pl_sched *s);
/* Ends and frees the run if all its jobs have ended and their dependents were told. */
void pl_sched_run_close(struct pl_sched *s, struct run *run);
void pl_sched_run_free(struct pl_sched *s, struct run *run);

/* ---- sched_job.c ---- */
/* Called once the job's run is expanded: determines which jobs this job waits for and which it supersedes. */
void pl_sched_job_link(struct pl_sched *s, struct job *job);
/* Checks the job's inputs again. If all of them are there, the job supersedes the earlier jobs that may be
 * superseded. */
void pl_sched_job_look(struct pl_sched *s, struct job *job);
/* Lets the first job of the stage's lane take its next step (plan, lease, commit, fail), and then updates the
 * stage's workers. */
void pl_sched_stage_advance(struct pl_sched *s, struct stage *stage);
void pl_sched_job_planned(struct pl_sched *s, struct job *job, const struct pl_sched_plan *plan);
/* Ends the job and cancels its tasks. `by`: id of the run that superseded it, or NULL. */
void pl_sched_job_end(struct pl_sched *s, struct job *job, enum pl_sched_state state, const char *reason, const char *by);
/* Tells the next dependent job that this job has ended; false if all dependents have been told. */
bool pl_sched_job_tell(struct pl_sched *s, struct job *job);
void pl_sched_job_state(struct job *job, enum pl_sched_state state);
/* Stores the reason that dependent jobs report, when a job has ended without success. */
void pl_sched_job_cause(struct pl_sched *s, struct job *job, const char *reason);
/* Changes the job's number of leased datums, and updates the busy time that the job's timeout limits. */
void pl_sched_job_leased(struct pl_sched *s, struct job *job, int64_t change);
int64_t pl_sched_job_busy_ms(const struct pl_sched *s, const struct job *job);

/* ---- sched_task.c ---- */
struct rows *pl_sched_datums_make(struct pl_sched *s, uint64_t datums, uint32_t to_run);
/* Ends the plan's untried datums, of new `rows` that all wait. */
void pl_sched_datums_leave(struct pl_sched *s, struct rows *rows, const struct pl_sched_plan *plan);
void pl_sched_datums_free(struct rows *rows);
uint32_t pl_sched_datums_ready(const struct pl_sched *s, const struct rows *rows);
/* Returns the time when the next waiting datums become ready; PL_TIMER_NEVER if none will. */
int64_t pl_sched_datums_next(const struct pl_sched *s, const struct rows *rows);
/* Puts datums that are neither waiting nor leased into the bin of this history. */
void pl_sched_datums_wait(struct pl_sched *s, struct rows *rows, const struct pl_datum_ranges *which, uint32_t failures,
                          uint32_t losses, int64_t not_before);
/* Leases ready datums of the job to the worker. Returns false if no datum is ready, or if the worker is busy
 * and no ready datum may be leased ahead of time. */
bool pl_sched_task_lease(struct pl_sched *s, struct job *job, struct worker *w);
/* Asks workers to give back datums of the job that they have not begun: one worker for each idle worker of
 * the version. */
void pl_sched_task_recall(struct pl_sched *s, struct job *job);
/* Asks the worker to give back all datums that it has not begun. */
void pl_sched_worker_ask_back(struct pl_sched *s, struct worker *w);
/* Creates a task of the first `size` datums in the bin. The caller sets the task's id and fence. */
struct task *pl_sched_task_make(struct pl_sched *s, struct job *job, struct worker *w, struct bin *bin, uint32_t size);
/* Appends an action of this kind that names the task: its worker, task id, fence and job. */
struct pl_sched_action *pl_sched_task_action(struct pl_sched *s, const struct task *task, enum pl_sched_action_kind kind);
void pl_sched_task_free(struct pl_sched *s, struct task *task);
/* Ends the task; its datums wait again. `loss`: how the datums were lost, which is counted as a loss; NULL:
 * no loss is counted. */
void pl_sched_task_return(struct pl_sched *s, struct task *task, const char *loss);
/* Returns the task because its worker was taken away: its datums are leased again at once, and their history does not
 * change; the action says why. */
void pl_sched_task_disrupted(struct pl_sched *s, struct task *task, const char *why);
/* Ends a task with one datum that ended its worker: this used one of the datum's tries. */
void pl_sched_task_failed(struct pl_sched *s, struct task *task, const char *text);
void pl_sched_task_result(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_task_lost(struct pl_sched *s, uint64_t worker, struct pl_sched_lease lease);
/* Returns the task if the worker holds it under this fence; else NULL. */
struct task *pl_sched_task_held(const struct pl_sched *s, const struct worker *w, struct pl_sched_lease lease);
int64_t pl_sched_backoff(uint32_t times);

/* ---- sched_worker.c ---- */
struct worker *pl_sched_worker_make(struct pl_sched *s, struct version *v, uint64_t id, enum worker_state state);
void pl_sched_worker_timer(struct pl_sched *s, struct worker *w);
void pl_sched_worker_fire(struct pl_sched *s, struct worker *w);
void pl_sched_worker_stop(struct pl_sched *s, struct worker *w, bool kill, const char *reason);
void pl_sched_worker_retire(struct pl_sched *s, struct worker *w);
/* Called when all containers of the worker's pod run: the worker must attach within start_wait_ms from
 * now. */
void pl_sched_worker_up(struct pl_sched *s, struct worker *w);
void pl_sched_worker_attached(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_next(struct pl_sched *s, struct worker *w);
void pl_sched_worker_renew(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
/* Removes the worker, as event WORKER_EXITED describes. */
void pl_sched_worker_gone(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_recall(struct worker *w, enum recall recall);
/* Called when a task was leased to the worker: the worker is busy now. */
void pl_sched_worker_leased(struct pl_sched *s, struct worker *w);
/* Forgets that the worker asked for a task: it gets none before it asks anew. */
void pl_sched_worker_stop_asking(struct worker *w);
/* Called when a task of the worker may have ended: updates the worker's state and deadline. */
void pl_sched_worker_settle(struct pl_sched *s, struct worker *w);
void pl_sched_worker_free(struct pl_sched *s, struct worker *w);
/* Stops workers of the version that have no task and will get none. */
void pl_sched_workers_trim(struct pl_sched *s, struct version *v);

/* ---- sched_admit.c ---- */
/* Updates the version's request for a worker according to the stage's current job: puts it into a line or
 * takes it out. */
void pl_sched_admit_request(struct pl_sched *s, struct version *v);
void pl_sched_admit_withdraw(struct pl_sched *s, struct version *v);
/* Returns the device on which the job's next worker should run, given the resources that are free now. */
enum device pl_sched_admit_device(struct pl_sched *s, struct job *job);
/* Starts workers for the requests in all lines, as far as resources allow. */
void pl_sched_admit(struct pl_sched *s);
/* Account for the devices of a worker: when it takes them, is told to stop, and is gone. */
void pl_sched_admit_take(struct pl_sched *s, struct worker *w);
void pl_sched_admit_leaving(struct pl_sched *s, struct worker *w);
void pl_sched_admit_give(struct pl_sched *s, struct worker *w);
int pl_sched_admit_capacity(struct pl_sched *s, const struct pl_sched_capacity *c, struct pl_err *err);

/* ---- sched_fair_share.c: which request is served next ---- */
void pl_sched_fair_share_init(struct line *line);
/* Frees the line's memory. The line must be empty. */
void pl_sched_fair_share_finish(struct line *line);
/* Puts the version's request into the line; `line` NULL: withdraws the request. */
void pl_sched_fair_share_add(struct pl_sched *s, struct version *v, struct line *line, enum device device);
/* Returns the version whose request is served next; NULL if the line is empty. */
struct version *pl_sched_fair_share_first(const struct line *line);
/* Returns the version after `v` in the line, where `v` has a request; NULL if `v` is the last. */
struct version *pl_sched_fair_share_next(const struct version *v);
/* Moves the pipeline to another bucket after its number of workers changed. */
void pl_sched_fair_share_moved(struct pipeline *p);
void pl_sched_fair_share_pipeline_free(struct pipeline *p);
/* Removes the pipeline's entries without requests from the line. */
void pl_sched_fair_share_remove(struct pipeline *p, const struct line *line);

/* ---- sched_pod_shape.c: shapes of pods ---- */
/* Returns the shape with this id with one more reference; creates it if needed. NULL for id 0, and without
 * memory. */
struct shape *pl_sched_shape_ref(struct pl_sched *s, uint64_t id);
/* Drops a reference to the shape (NULL is allowed). The last one frees the shape, except while the state is
 * restored. */
void pl_sched_shape_unref(struct pl_sched *s, struct shape *shape);
/* At RESTORE_DONE: frees shapes that nothing uses. */
void pl_sched_shapes_restored(struct pl_sched *s);
int pl_sched_shape_set(struct pl_sched *s, const struct pl_sched_shape *def, struct pl_err *err);
/* Queues the shape, so that the next admission of workers looks at it. */
void pl_sched_shape_ready(struct pl_sched *s, struct shape *shape);
/* Records the shape of the worker's pod. `pending`: the pod waits for a node; false for a restored pod that
 * has a node. */
void pl_sched_shape_take(struct pl_sched *s, struct worker *w, struct shape *shape, bool pending);
/* Called when a node accepted the worker's pod: the pod no longer counts as waiting. */
void pl_sched_shape_placed(struct pl_sched *s, struct worker *w);
/* Called when the worker's pod, which waited for a node, waits no longer. */
void pl_sched_shape_left(struct pl_sched *s, struct worker *w);
void pl_sched_shape_waits(struct pl_sched *s, struct worker *w, const char *text);
/* Stops pods of the version that wait for a node and were made for `device`, because the version's job now
 * runs on the other device. */
void pl_sched_shape_give_up(struct pl_sched *s, struct version *v, enum device device);
/* Stops waiting pods of the version whose requirements of a node differ from those of a pod that would be
 * made now. */
void pl_sched_shape_renew(struct pl_sched *s, struct version *v);
/* Sets what the pod of a restored worker requires of a node. */
void pl_sched_shape_needs(struct pl_sched *s, struct worker *w, uint64_t needs);
bool pl_sched_shape_fits(const struct shape *shape);
void pl_sched_shapes_finish(struct pl_sched *s);
/* ---- sched_node_failures.c: nodes on which workers were lost ---- */
/* Called when a node accepted the worker's pod; "" or NULL: the node is unknown. */
void pl_sched_node_placed(struct pl_sched *s, struct worker *w, const char *node);
/* Records that the worker was lost, perhaps because of its node. Called before the worker's tasks are
 * returned. */
void pl_sched_node_lost(struct pl_sched *s, const struct worker *w);
/* Lists in the START_WORKER action of a new worker the nodes that its pod should avoid. */
void pl_sched_nodes_avoid(struct pl_sched *s, struct worker *w, const struct rows *rows, struct pl_sched_action *start);
/* Returns true if the job avoids the worker's node and the worker was started there before that: it must not get
 * datums that an earlier worker lost. */
bool pl_sched_node_is_avoided(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* Returns true if the worker has no task, and all ready datums are datums that it must not get. */
bool pl_sched_node_idles(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* Forgets all losses: every node is used again. */
void pl_sched_nodes_forget(struct rows *rows);

uint64_t pl_sched_cpu_need(const struct pl_sched *s, const struct version *v, enum device device);
uint32_t pl_sched_gpus_free(const struct pl_sched *s);
/* Returns the number of free GPU slots that the version may use; `soon`: also counts those of workers that
 * were told to stop. */
uint32_t pl_sched_gpus_for(const struct pl_sched *s, const struct version *v, bool soon);
/* Returns true if as many acceptable GPU slots as one worker needs exist or could exist. */
bool pl_sched_gpus_offered(const struct pl_sched *s, const struct version *v);
bool pl_sched_slot_is_allowed(const struct version *v, uint32_t slot);
/* Returns true if a GPU worker of the version could not start now for lack of CPU or memory. */
bool pl_sched_admit_missing_resource(const struct pl_sched *s, const struct version *v);
/* Returns false if the executor's whole capacity is less than one worker needs. */
bool pl_sched_admit_possible(const struct pl_sched *s, const struct version *v);

/* ---- sched_wait_reason.c ---- */
struct pl_sched_action *pl_sched_job_action(struct pl_sched *s, const struct job *job, enum pl_sched_action_kind kind);
/* Reports the job's state and wait reason, if either changed. */
void pl_sched_wait_reason(struct pl_sched *s, struct job *job, const char *fmt, ...) PL_PRINTF(3, 4);
void pl_sched_wait_reason_created(struct pl_sched *s, struct job *job);
void pl_sched_wait_reason_state(struct pl_sched *s, struct job *job);
/* Queues the stage, so that its first job's wait reason is computed at the end of the step. */
void pl_sched_wait_reason_defer(struct pl_sched *s, struct stage *stage);
/* Queues the first stages of a line, so that their wait reasons are updated: these name the stages that hold
 * the resources, or why earlier requests wait. */
void pl_sched_wait_reason_queue_head(struct pl_sched *s, const struct line *line);
/* Returns why no pod of this shape of the version has a node. */
const char *pl_sched_wait_reason_place(const struct pl_sched *s, const struct version *v, const struct shape *shape);
void pl_sched_wait_reason_all(struct pl_sched *s);
void pl_sched_wait_reason_run(struct pl_sched *s, const struct run *run, enum pl_sched_state state);

/* ---- sched_restore.c ---- */
int pl_sched_restore(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err);
