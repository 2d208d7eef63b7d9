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
 *   sched_task.c           rows, leases, results
 *   sched_worker.c         a worker from its start to its exit
 *   sched_admit.c          capacity and GPUs of this machine; starts workers
 *   sched_fair_share.c     which request for a worker is served next
 *   sched_pod_shape.c      shapes of pods
 *   sched_node_failures.c  nodes on which workers were lost
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

#define FAIR_BUCKETS 64 /* pipelines with this many workers or more share the last bucket */
/* with this many bins, bins of the same history are joined even if their back-offs differ */
#define BINS_APART_MAX 64
/* waiting stages of one queue whose wait reasons are renewed when devices change hands */
#define SAY_WAITING 64

/* A queue of requests for workers on one device of this machine, or of one pod shape. */
struct line {
    TAILQ_HEAD(rank_list, rank) ranks; /* highest priority first; never removed before the line */
};

/* The requests of one priority: pipelines in buckets, by their number of workers. */
struct rank {
    struct line *line;
    int32_t priority;
    struct wisher_list buckets[FAIR_BUCKETS];
    TAILQ_ENTRY(rank) link;
};

/* One pipeline in one line: its stages of one priority that request a worker. */
struct wisher {
    struct pipeline *pipeline;
    struct rank *rank;
    struct version_list versions; /* versions that request a worker; the first is served next */
    TAILQ_ENTRY(wisher) link;     /* in its bucket, while `versions` is not empty */
    int bucket;                   /* index of its bucket; −1 = in none */
    SLIST_ENTRY(wisher) next;     /* in the pipeline's list */
};

/* A pod shape. */
struct shape {
    uint64_t id;
    uint32_t refs; /* number of versions and workers that use it */
    struct line line;
    bool told, offered;
    uint32_t pending_max, pending; /* limit and number of pods that wait for a node */
    uint64_t needs;                /* hash of what a node must have; 0 = unknown */
    char *text;
    char *why;  /* why one of the waiting pods waits, in the cluster's words; NULL = unknown */
    bool ready; /* in s->ready: to be looked at when workers are admitted */
    TAILQ_ENTRY(shape) ready_link;
};

struct pipeline {
    uint64_t id;
    uint32_t versions; /* number of versions, which hold a reference */
    uint32_t workers;  /* workers that are not gone yet */
    /* run whose jobs are not superseded while some of them have begun, so that stages which join its outputs
     * commit; NULL = none */
    struct run *carried;
    uint32_t carried_open; /* unfinished jobs of this pipeline in `carried` */
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
    bool reshaped; /* its shapes changed: waiting pods may have to be replaced */
    uint64_t mark; /* mark of the last cycle search that visited it */
};

struct version {
    struct pl_sched_stage def; /* its texts and arrays are copies that the version owns */
    struct stage *stage;
    struct pipeline *pipeline;
    uint32_t refs;       /* number of holders: the stage (while current), jobs in memory, workers */
    uint32_t unfinished; /* number of unfinished jobs */
    struct worker_list workers;
    /* workers that ask for a task: idle ones first, then busy ones that would fetch ahead */
    struct worker_list asking;
    /* numbers of workers; with_gpu counts those with a GPU in the first three states, without pods that wait
     * for a node */
    uint32_t starting, idle, busy, stopping, with_gpu;
    uint32_t recalls;        /* workers that were asked to give rows back and have not answered */
    uint32_t start_failures; /* number of failed starts in a row */
    int64_t retry_at;
    char *last_failure;
    int64_t unused_since;            /* time since when `unfinished` is 0 */
    struct shape *shape, *cpu_shape; /* NULL = none */
    struct wisher *wish;             /* its place in a line; NULL = requests no worker */
    enum device wish_device;
    bool kept; /* while restoring: an older version that holds a reference until RESTORE_DONE */
    TAILQ_ENTRY(version) wish_link, stage_link;
};

/* Waiting rows with the same history. */
struct bin {
    uint32_t failures, losses;
    int64_t not_before;
    struct pl_datum_ranges rows;
};

/* A node on which workers of a job were lost. */
struct lost_on {
    char *node;
    uint32_t losses;
    int64_t at; /* time of the last loss that counted */
};

/* The rows of a planned job. */
struct rows {
    uint64_t datums;
    uint32_t to_run, waiting, leased, done, failed, recovered;
    struct bin *bins;
    size_t n_bins, cap_bins;
    struct task_list tasks;
    uint64_t compute_us, measured;
    uint32_t first_failed; /* the lowest failed row, to which first_label and first_message belong */
    char *first_label, *first_message;
    char *last_loss;
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
    struct rows *rows;    /* while the job is planned and unfinished; else NULL */
    uint64_t *dependents; /* ids of jobs to look at again when this one ends */
    size_t n_dependents, cap_dependents, told;
    uint64_t blocked_on; /* id of an unfinished upstream job found at the last look; 0 = none */
    uint64_t said;       /* hash of the last reported state and wait reason; 0 = none */
    char *cause;         /* if the job ended without success: the reason that dependent jobs report */
    char superseded_by[33];
    uint32_t workers; /* workers with a task of the job */
    int64_t busy_since, busy_ms;
    int64_t gpu_since; /* time since when the job waits for a GPU; −1 = it has not begun to wait */
    struct pl_timer timer;
    bool looked;   /* its inputs were looked at once */
    bool linked;   /* its run is expanded, and what it waits for and supersedes was determined */
    bool queued;   /* in s->looks */
    bool planning; /* a PLAN is in progress */
    bool leased;   /* a task was leased at some time */
    bool on_cpu;   /* the job gave up waiting for a GPU */
    bool in_line;  /* keeps the place in the queue of the job that it superseded */
    /* its stage was removed while it commits; the commit's answer says whether that was in time */
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
    size_t open; /* jobs that have not ended or whose dependents have not been told */
    uint32_t states[PL_SCHED_STATES];
    uint32_t planning; /* jobs with a PLAN in progress */
    uint32_t carried;  /* number of pipelines that carry this run */
    bool implied;      /* jobs are created from heads and stages; false: only restored jobs */
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

/* Recall of the rows that a worker has not begun: not requested; requested; answered, while the worker still
 * computes the rows that it had begun. */
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
    struct shape *shape; /* shape of its pod; NULL = a process */
    char *why;           /* why its pod is not up; NULL = unknown */
    char *node;          /* node that has its pod; NULL = unknown, or a process */
    uint64_t needs;      /* needs of its shape when the pod was made; 0 = unknown */
    bool avoids;         /* its pod was told to avoid some nodes */
    bool on_gpu;
    bool pending; /* its pod waits for a node */
    bool up;      /* all containers of its pod run */
    bool asking, kill, productive;
    bool retired;  /* gets no more tasks, and is stopped once it holds nothing */
    int64_t since; /* time of the change to its state; in STOPPING of the last STOP_WORKER */
    int64_t made;
    int64_t seen;
    struct pl_timer timer;
    TAILQ_ENTRY(worker) version_link, asking_link, place_link;
};

struct pl_sched {
    struct pl_sched_config config;
    bool restoring, draining, drained, oom;
    int64_t now, mono;
    int64_t asked; /* monotonic time of the last TIMER action */
    uint64_t last_id, last_order, last_mark;
    struct pl_map stages, heads, pipelines, runs, jobs, jobs_by_run /* by (stage, order) */, tasks, workers;
    struct run_list run_list, expanding;
    struct job_list looks; /* jobs whose inputs must be looked at */
    struct job_list ended; /* jobs whose dependents must be told */
    struct stage_list dirty, say;
    struct worker_list idle; /* the one that is idle for longest first */
    struct worker_list starting;
    struct line lines[DEVICES]; /* requests for the devices of this machine */
    struct pl_map shapes;
    struct shape_list ready; /* shapes to look at when workers are admitted */
    struct pl_sched_capacity capacity;
    uint64_t cpu_used, memory_used;
    struct worker *gpus[PL_SCHED_GPUS_MAX];
    uint32_t gpus_used;                     /* among the slots that exist */
    uint64_t cpu_stopping, memory_stopping; /* held by workers that were told to stop */
    uint32_t gpus_stopping;
    uint32_t planning, committing;
    bool devices_changed; /* devices changed hands: wait reasons that name their holders are out of date */
    bool admit_more;      /* the step's budget ended before all requests were served */
    struct pl_timers timers;
    unsigned budget;
    struct pl_arena *arena; /* memory of this step's actions */
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
/* Puts `value` into the map. Returns false and sets oom without memory; the map is unchanged then. */
bool pl_sched_put(struct pl_sched *s, struct pl_map *m, const void *key, size_t key_len, void *value);
/* Returns the length of `text` (`n` bytes) without a UTF-8 character at the end that was cut in two. */
size_t pl_sched_whole(const char *text, size_t n);
/* Like calloc and strdup; return NULL and set oom without memory. strdup cuts a text at PL_SCHED_MESSAGE_MAX
 * and copies NULL as "". */
void *pl_sched_calloc(struct pl_sched *s, size_t n, size_t size);
char *pl_sched_strdup(struct pl_sched *s, const char *text);
/* Makes room for element `n` in the array whose pointer is stored at `array_ptr`. Returns false and sets oom
 * without memory. */
bool pl_sched_grow(struct pl_sched *s, void *array_ptr, size_t n, size_t *cap, size_t size);
/* Appends a zeroed action and returns it. Without memory it returns a scratch action that is discarded. */
struct pl_sched_action *pl_sched_action_new(struct pl_sched *s, enum pl_sched_action_kind kind);
/* Copies `n` bytes (NULL as `data`: zeroes) into memory that lives as long as this step's actions. Returns
 * NULL and sets oom without memory. */
void *pl_sched_keep(struct pl_sched *s, const void *data, size_t n);
void pl_sched_stage_dirty(struct pl_sched *s, struct stage *stage);
void pl_sched_timer(struct pl_sched *s, struct pl_timer *t, int64_t at);

/* ---- sched_event.c: refuses an event, or changes the state and queues what follows ---- */
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
/* Called once the job's run is expanded: determines what the job waits for and what it supersedes. */
void pl_sched_job_link(struct pl_sched *s, struct job *job);
/* Looks at the job's inputs again. If all are there, the job supersedes the earlier jobs that may be
 * superseded. */
void pl_sched_job_look(struct pl_sched *s, struct job *job);
/* Lets the first job of the stage's lane take its next step (plan, lease, commit, fail), and the stage's
 * workers theirs. */
void pl_sched_stage_advance(struct pl_sched *s, struct stage *stage);
void pl_sched_job_planned(struct pl_sched *s, struct job *job, uint64_t datums, uint32_t to_run);
/* Ends the job and cancels its tasks. `by`: id of the run that superseded it, or NULL. */
void pl_sched_job_end(struct pl_sched *s, struct job *job, enum pl_sched_state state, const char *reason, const char *by);
/* Tells the next dependent job that the job has ended; false if all have been told. */
bool pl_sched_job_tell(struct pl_sched *s, struct job *job);
void pl_sched_job_state(struct job *job, enum pl_sched_state state);
/* Stores the reason that dependent jobs report, for a job that ended without success. */
void pl_sched_job_cause(struct pl_sched *s, struct job *job, const char *reason);
/* Changes the number of leased rows, and keeps the busy time for the job's timeout. */
void pl_sched_job_leased(struct pl_sched *s, struct job *job, int64_t change);
int64_t pl_sched_job_busy_ms(const struct pl_sched *s, const struct job *job);

/* ---- sched_task.c ---- */
struct rows *pl_sched_datums_make(struct pl_sched *s, uint64_t datums, uint32_t to_run);
void pl_sched_datums_free(struct rows *rows);
uint32_t pl_sched_datums_ready(const struct pl_sched *s, const struct rows *rows);
/* Returns the time when the next waiting rows become ready; PL_TIMER_NEVER if none will. */
int64_t pl_sched_datums_next(const struct pl_sched *s, const struct rows *rows);
/* Puts rows that are neither waiting nor leased into the bin of this history. */
void pl_sched_datums_wait(struct pl_sched *s, struct rows *rows, const struct pl_datum_ranges *which, uint32_t failures,
                          uint32_t losses, int64_t not_before);
/* Leases ready rows of the job to the worker. Returns false if there are none, or none that may be leased
 * ahead to a busy worker. */
bool pl_sched_task_lease(struct pl_sched *s, struct job *job, struct worker *w);
/* Asks workers to give back rows of the job that they have not begun: one worker for each idle worker of the
 * version. */
void pl_sched_task_recall(struct pl_sched *s, struct job *job);
/* Asks the worker to give back all rows that it has not begun. */
void pl_sched_worker_ask_back(struct pl_sched *s, struct worker *w);
/* Makes a task of `size` rows from the bin. The caller sets its id and fence. */
struct task *pl_sched_task_make(struct pl_sched *s, struct job *job, struct worker *w, struct bin *bin, uint32_t size);
/* Appends an action about the task: worker, task, fence, job. */
struct pl_sched_action *pl_sched_task_action(struct pl_sched *s, const struct task *task, enum pl_sched_action_kind kind);
void pl_sched_task_free(struct pl_sched *s, struct task *task);
/* Ends the task; its rows wait again. `loss`: how they were lost, which counts as a loss; NULL: not
 * counted. */
void pl_sched_task_return(struct pl_sched *s, struct task *task, const char *loss);
/* Ends a task whose only row ended its worker: this used a try. */
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
/* All containers of the worker's pod run: it must attach within start_wait_ms from now. */
void pl_sched_worker_up(struct pl_sched *s, struct worker *w);
void pl_sched_worker_attached(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_next(struct pl_sched *s, struct worker *w);
void pl_sched_worker_renew(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
/* Removes the worker, as event WORKER_EXITED says. */
void pl_sched_worker_gone(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_recall(struct worker *w, enum recall recall);
/* A task of the worker began: it is busy now. */
void pl_sched_worker_leased(struct pl_sched *s, struct worker *w);
/* A task of the worker may have ended: updates its state and deadline. */
void pl_sched_worker_settle(struct pl_sched *s, struct worker *w);
void pl_sched_worker_free(struct pl_sched *s, struct worker *w);
/* Stops workers of the version that have nothing to do and will get nothing. */
void pl_sched_workers_trim(struct pl_sched *s, struct version *v);

/* ---- sched_admit.c ---- */
/* Updates the version's request for a worker, from its current job: puts it into a line or takes it out. */
void pl_sched_admit_request(struct pl_sched *s, struct version *v);
void pl_sched_admit_withdraw(struct pl_sched *s, struct version *v);
/* Returns the device on which the job's next worker should run, as of now. */
enum device pl_sched_admit_device(struct pl_sched *s, struct job *job);
/* Starts workers as far as there is room. */
void pl_sched_admit(struct pl_sched *s);
/* Account for the devices of a worker: taken, about to be released, released. */
void pl_sched_admit_take(struct pl_sched *s, struct worker *w);
void pl_sched_admit_leaving(struct pl_sched *s, struct worker *w);
void pl_sched_admit_give(struct pl_sched *s, struct worker *w);
int pl_sched_admit_capacity(struct pl_sched *s, const struct pl_sched_capacity *c, struct pl_err *err);

/* ---- sched_fair_share.c: which request is served next ---- */
void pl_sched_fair_share_init(struct line *line);
/* Frees the line's memory, after all requests in it are gone. */
void pl_sched_fair_share_finish(struct line *line);
/* Puts the version's request into the line; NULL: withdraws it. */
void pl_sched_fair_share_add(struct pl_sched *s, struct version *v, struct line *line, enum device device);
/* Returns the version to be served next; NULL if there is none. */
struct version *pl_sched_fair_share_first(const struct line *line);
/* Returns the version behind `v`, which has a request; NULL if `v` is the last. */
struct version *pl_sched_fair_share_next(const struct version *v);
/* Updates the pipeline's place after its number of workers changed. */
void pl_sched_fair_share_moved(struct pipeline *p);
void pl_sched_fair_share_pipeline_free(struct pipeline *p);
/* Removes the pipeline's empty entries from the line. */
void pl_sched_fair_share_remove(struct pipeline *p, const struct line *line);

/* ---- sched_pod_shape.c: shapes of pods ---- */
/* Returns the shape with this id and adds a reference; creates it if needed. NULL for id 0, and without
 * memory. */
struct shape *pl_sched_shape_ref(struct pl_sched *s, uint64_t id);
/* Drops a reference (NULL is allowed). The last one frees the shape, but not while restoring. */
void pl_sched_shape_unref(struct pl_sched *s, struct shape *shape);
/* At RESTORE_DONE: frees shapes that nothing uses. */
void pl_sched_shapes_restored(struct pl_sched *s);
int pl_sched_shape_set(struct pl_sched *s, const struct pl_sched_shape *def, struct pl_err *err);
/* Queues the shape, to be looked at when workers are admitted next. */
void pl_sched_shape_ready(struct pl_sched *s, struct shape *shape);
/* Binds the worker to its pod's shape. `pending`: the pod waits for a node; false for a restored pod that has
 * one. */
void pl_sched_shape_take(struct pl_sched *s, struct worker *w, struct shape *shape, bool pending);
/* A node took the worker's pod: it no longer counts as waiting. */
void pl_sched_shape_placed(struct pl_sched *s, struct worker *w);
/* The worker's pod was waiting for a node, and waits no more. */
void pl_sched_shape_left(struct pl_sched *s, struct worker *w);
void pl_sched_shape_waits(struct pl_sched *s, struct worker *w, const char *text);
/* Stops pods of the version that wait for a node, those with its GPUs or those without, because its job now
 * runs on the other device. */
void pl_sched_shape_give_up(struct pl_sched *s, struct version *v, enum device device);
/* Stops waiting pods of the version that need something else of a node than a pod that would be made now. */
void pl_sched_shape_renew(struct pl_sched *s, struct version *v);
/* Sets what the pod of a restored worker needs of a node. */
void pl_sched_shape_needs(struct pl_sched *s, struct worker *w, uint64_t needs);
bool pl_sched_shape_fits(const struct shape *shape);
void pl_sched_shapes_finish(struct pl_sched *s);
/* ---- sched_node_failures.c: nodes on which workers were lost ---- */
/* A node has taken the worker's pod; "" or NULL: the node is unknown. */
void pl_sched_node_placed(struct pl_sched *s, struct worker *w, const char *node);
/* Notes that the worker was lost, perhaps because of its node. Called before its tasks are returned. */
void pl_sched_node_lost(struct pl_sched *s, const struct worker *w);
/* Fills in the START_WORKER action of a new worker which nodes its pod should avoid. */
void pl_sched_nodes_avoid(struct pl_sched *s, struct worker *w, const struct rows *rows, struct pl_sched_action *start);
/* Returns true if the worker must not get rows that were lost before: its node is avoided, and it was there
 * already. */
bool pl_sched_node_is_avoided(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* Returns true if the worker holds nothing, and all ready rows are ones that it must not get. */
bool pl_sched_node_idles(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* Forgets all losses: every node is used again. */
void pl_sched_nodes_forget(struct rows *rows);

uint64_t pl_sched_cpu_need(const struct pl_sched *s, const struct version *v, enum device device);
uint32_t pl_sched_gpus_free(const struct pl_sched *s);
/* Returns the number of free slots that the version may use; `soon`: also those of workers that were told to
 * stop. */
uint32_t pl_sched_gpus_for(const struct pl_sched *s, const struct version *v, bool soon);
/* Returns true if as many slots as one worker needs exist or could exist. */
bool pl_sched_gpus_offered(const struct pl_sched *s, const struct version *v);
bool pl_sched_slot_is_allowed(const struct version *v, uint32_t slot);
/* Returns true if a GPU worker of the version lacks CPU or memory. */
bool pl_sched_admit_missing_resource(const struct pl_sched *s, const struct version *v);
/* Returns false if the executor offers less than one worker needs. */
bool pl_sched_admit_possible(const struct pl_sched *s, const struct version *v);

/* ---- sched_wait_reason.c ---- */
struct pl_sched_action *pl_sched_job_action(struct pl_sched *s, const struct job *job, enum pl_sched_action_kind kind);
/* Reports the job's state with a sentence, if either changed. */
void pl_sched_wait_reason(struct pl_sched *s, struct job *job, const char *fmt, ...) PL_PRINTF(3, 4);
void pl_sched_wait_reason_created(struct pl_sched *s, struct job *job);
void pl_sched_wait_reason_state(struct pl_sched *s, struct job *job);
/* Queues the stage: its first job's wait reason is computed at the end of the step. */
void pl_sched_wait_reason_defer(struct pl_sched *s, struct stage *stage);
/* Queues the first stages of a line: their wait reasons name what holds the resources, or why earlier ones
 * wait. */
void pl_sched_wait_reason_queue_head(struct pl_sched *s, const struct line *line);
void pl_sched_wait_reason_all(struct pl_sched *s);
void pl_sched_wait_reason_run(struct pl_sched *s, const struct run *run, enum pl_sched_state state);

/* ---- sched_restore.c ---- */
int pl_sched_restore(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err);
