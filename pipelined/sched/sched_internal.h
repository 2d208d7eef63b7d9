/* sched_state: what the scheduler knows, and the functions of its files. Private to core/sched; the contract is sched.h.
 *
 *   pipeline ◀── version ──▶ stage ──lane──▶ job ──▶ run            sched.c         step, clock, queues of work, lookups
 *                   ▲                         ▲                      sched_event.c   which event does what
 *                   │                         │                      sched_graph.c   stages and who reads what
 *                   │                         │                      sched_run.c     a run becomes jobs, in small steps
 *                   │                         │                      sched_job.c     a job from created to its end
 *                 worker ◀─────────────── task (lease)               sched_task.c    rows, leases, results
 *                                                                    sched_worker.c  a worker from start to exit
 *                                                                    sched_admit.c   capacity and GPUs of this machine, pods of shapes
 *                                                                    sched_line.c    fair share: who is served next
 *                                                                    sched_shape.c   kinds of pods
 *                                                                    sched_node.c    nodes on which workers were lost
 *                                                                    sched_say.c     states and sentences
 *                                                                    sched_restore.c after a start
 *
 * Time in here (`s->now`) is the time that the daemon was seen to be up, from 0. A call that fails for memory sets `s->oom`; the state is
 * then not used again, so no caller looks at it before the end of the step. */
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

#define FAIR_BUCKETS   64 /* pipelines with so many workers or more share one */
#define BINS_APART_MAX 64 /* above, bins of one history are joined whatever their back-off */
#define SAY_WAITING    64 /* waiting stages whose sentence is renewed when devices change hands */

/* Who wishes for one kind of place (a device of this machine, or a shape). */
struct line {
    TAILQ_HEAD(rank_list, rank) ranks; /* those of more priority first; once made they stay */
};

/* Those of one priority: pipelines, by how many workers they have. */
struct rank {
    struct line *line;
    int32_t priority;
    struct wisher_list buckets[FAIR_BUCKETS];
    TAILQ_ENTRY(rank) link;
};

/* A pipeline in a line, with its stages of one priority. */
struct wisher {
    struct pipeline *pipeline;
    struct rank *rank;
    struct version_list versions; /* that wish; the first is served next */
    TAILQ_ENTRY(wisher) link;     /* in a bucket while there are any */
    int bucket;                   /* −1 = in none */
    SLIST_ENTRY(wisher) next;     /* of the pipeline */
};

/* A kind of pod. */
struct shape {
    uint64_t id;
    uint32_t refs; /* versions, workers */
    struct line line;
    bool told, offered;
    uint32_t pending_max, pending; /* pods that wait for a node */
    uint64_t needs;                /* 0 = not known */
    char *text;
    char *why;  /* of one of those that wait: the cluster's words; NULL = nothing is known */
    bool ready; /* in s->ready: it may have wishes and room */
    TAILQ_ENTRY(shape) ready_link;
};

struct pipeline {
    uint64_t id;
    uint32_t versions;     /* refs */
    uint32_t workers;      /* not gone */
    struct run *carried;   /* its jobs give way to none while some of them have begun: what joins them comes about; NULL = none */
    uint32_t carried_open; /* unfinished jobs of this pipeline in it */
    SLIST_HEAD(, wisher) wishers;
};

/* Who writes and who reads a branch. */
struct head {
    struct pl_sched_head key;
    struct stage *writer;
    struct stage **readers;
    size_t n_readers, cap_readers;
};

struct stage {
    uint64_t id;
    struct version *current; /* NULL = removed */
    struct version_list all;
    struct job_list lane; /* unfinished jobs, in the order of their runs */
    TAILQ_ENTRY(stage) dirty_link, say_link;
    bool dirty, say;
    bool reshaped; /* pods of it that wait may be others than would be made by now */
    uint64_t mark; /* of the last search for cycles */
};

struct version {
    struct pl_sched_stage def; /* texts, inputs and slots are its own */
    struct stage *stage;
    struct pipeline *pipeline;
    uint32_t refs;       /* being current, jobs kept, workers */
    uint32_t unfinished; /* jobs */
    struct worker_list workers;
    struct worker_list asking; /* idle ones first, then those that would fetch ahead */
    uint32_t starting, idle, busy, stopping, with_gpu /* of the first three; pods that wait for a node have none */;
    uint32_t recalls;        /* workers that are asked to give back, and have not answered */
    uint32_t start_failures; /* in a row */
    int64_t retry_at;
    char *last_failure;
    int64_t unused_since;            /* unfinished == 0 */
    struct shape *shape, *cpu_shape; /* NULL = none */
    struct wisher *wish;             /* NULL = in no line */
    enum device wish_device;
    bool kept; /* an older one, until all is restored */
    TAILQ_ENTRY(version) wish_link, stage_link;
};

/* Rows of one history that wait. */
struct bin {
    uint32_t failures, losses;
    int64_t not_before;
    struct pl_datum_ranges rows;
};

/* A node on which workers of a job were lost. */
struct lost_on {
    char *node;
    uint32_t losses;
    int64_t at; /* the last of them */
};

/* The datums of a planned job. */
struct rows {
    uint64_t datums;
    uint32_t to_run, waiting, leased, done, failed, recovered;
    struct bin *bins;
    size_t n_bins, cap_bins;
    struct task_list tasks;
    uint64_t compute_us, measured;
    uint32_t first_failed; /* the lowest row; label and message are its */
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
    struct rows *rows;    /* while planned and unfinished */
    uint64_t *dependents; /* jobs to look at again when this one ends */
    size_t n_dependents, cap_dependents, told;
    uint64_t blocked_on; /* an unfinished upstream job, as of the last look; 0 = none */
    uint64_t said;       /* hash of the last state and sentence; 0 = none yet */
    char *cause;         /* of an end that was no success: what dependents say */
    char superseded_by[33];
    uint32_t workers; /* with a task of it */
    int64_t busy_since, busy_ms;
    int64_t gpu_since; /* waits for one since; −1 = not yet */
    struct pl_timer timer;
    bool looked;   /* at its inputs, once */
    bool linked;   /* its place among the others is settled */
    bool queued;   /* in s->looks */
    bool planning; /* a PLAN is under way */
    bool leased;   /* ever */
    bool on_cpu;   /* did without a GPU */
    bool in_line;  /* the place in line of the job that it superseded is its own */
    bool stranded; /* its stage was removed while it commits: the database says whether that was in time */
};

struct run {
    char id[33];
    uint64_t order;
    struct pl_sched_head *heads;
    size_t n_heads;
    uint64_t *stages;
    size_t n_stages;
    size_t at_head, at_reader, at_stage, at_made, at_linked; /* how far it is expanded */
    struct job **jobs;
    size_t n_jobs, cap_jobs;
    size_t open; /* jobs that have not ended, or whose dependents are not told */
    uint32_t states[PL_SCHED_STATES];
    uint32_t planning; /* jobs of which a PLAN is under way */
    uint32_t carried;  /* by so many pipelines */
    bool implied;      /* jobs follow from heads and stages; else only those restored */
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

/* What it has not begun: nobody wants it back; it was asked for; it gave it back, and computes what it had begun. */
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
    struct shape *shape; /* of its pod; NULL = a process */
    char *why;           /* its pod is not up yet; NULL = not known */
    char *node;          /* that took its pod; NULL = not known, or a process */
    uint64_t needs;      /* of its shape when its pod was made; 0 = not known */
    bool avoids;         /* its pod goes to others than some nodes */
    bool on_gpu;
    bool pending; /* its pod waits for a node */
    bool up;      /* all containers of its pod run */
    bool asking, kill, productive;
    bool retired;  /* it gets nothing any more, and ends once it holds nothing */
    int64_t since; /* in its state; STOPPING: the last request */
    int64_t made;
    int64_t seen;
    struct pl_timer timer;
    TAILQ_ENTRY(worker) version_link, asking_link, place_link;
};

struct pl_sched {
    struct pl_sched_config config;
    bool restoring, draining, drained, oom;
    int64_t now, mono;
    int64_t asked; /* the TIMER given last, monotonic */
    uint64_t last_id, last_order, last_mark;
    struct pl_map stages, heads, pipelines, runs, jobs, jobs_by_run /* (stage, order) */, tasks, workers;
    struct run_list run_list, expanding;
    struct job_list looks; /* inputs to look at */
    struct job_list ended; /* dependents to tell */
    struct stage_list dirty, say;
    struct worker_list idle; /* longest first */
    struct worker_list starting;
    struct line lines[DEVICES]; /* of this machine */
    struct pl_map shapes;
    struct shape_list ready; /* to look at when admitting */
    struct pl_sched_capacity capacity;
    uint64_t cpu_used, memory_used;
    struct worker *gpus[PL_SCHED_GPUS_MAX];
    uint32_t gpus_used;                     /* of the slots that exist */
    uint64_t cpu_stopping, memory_stopping; /* held by workers that were asked to go */
    uint32_t gpus_stopping;
    uint32_t planning, committing;
    bool devices_changed; /* hands: sentences about them are stale */
    bool admit_more;      /* the budget ended before the wishes */
    struct pl_timers timers;
    unsigned budget;
    struct pl_arena *arena; /* of this step's actions */
    struct pl_sched_action *actions;
    size_t n_actions, cap_actions;
    struct pl_sched_action thrown_away;
};

enum { TIMER_JOB, TIMER_WORKER };

/* --- sched.c */
static inline void *pl_sched_get(const struct pl_map *m, uint64_t id)
{
    return pl_map_get(m, &id, sizeof(id));
}
static inline void pl_sched_drop(struct pl_map *m, uint64_t id)
{
    (void)pl_map_remove(m, &id, sizeof(id));
}
/* False (and oom) without memory: `value` is in no map then. */
bool pl_sched_put(struct pl_sched *s, struct pl_map *m, const void *key, size_t key_len, void *value);
/* `n` without a character (UTF-8) at the end that was cut in two. */
size_t pl_sched_whole(const char *text, size_t n);
/* As the libc ones; NULL sets oom. A text is cut at PL_SCHED_MESSAGE_MAX; NULL is "". */
void *pl_sched_calloc(struct pl_sched *s, size_t n, size_t size);
char *pl_sched_strdup(struct pl_sched *s, const char *text);
/* Makes room for element `n` in the array whose address is at `array_ptr`; false (and oom) without memory. */
bool pl_sched_grow(struct pl_sched *s, void *array_ptr, size_t n, size_t *cap, size_t size);
/* A new action, zeroed; one that is thrown away when there is no memory. */
struct pl_sched_action *pl_sched_action_new(struct pl_sched *s, enum pl_sched_action_kind kind);
/* A copy (or zeroes, for NULL) that lives as long as this step's actions. */
void *pl_sched_keep(struct pl_sched *s, const void *data, size_t n);
void pl_sched_stage_dirty(struct pl_sched *s, struct stage *stage);
void pl_sched_timer(struct pl_sched *s, struct pl_timer *t, int64_t at);

/* --- sched_event.c: refuses, or changes the state and queues what follows */
int pl_sched_event_take(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err);

/* --- sched_graph.c */
int pl_sched_stage_set(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err);
int pl_sched_stage_shapes(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err);
int pl_sched_stage_remove(struct pl_sched *s, uint64_t id, struct pl_err *err);
struct version *pl_sched_version_find(const struct pl_sched *s, uint64_t stage, uint64_t version);
void pl_sched_version_unref(struct pl_sched *s, struct version *v);
struct head *pl_sched_head_find(const struct pl_sched *s, struct pl_sched_head key);
/* Older versions that nothing restored is of may go. */
void pl_sched_graph_restored(struct pl_sched *s);
void pl_sched_graph_finish(struct pl_sched *s);

/* --- sched_run.c */
int pl_sched_run_add(struct pl_sched *s, const struct pl_sched_event *ev, struct run **ret, struct pl_err *err);
struct run *pl_sched_run_find(const struct pl_sched *s, const char *id);
struct job *pl_sched_job_find(const struct pl_sched *s, const struct stage *stage, const struct run *run);
struct job *pl_sched_job_make(struct pl_sched *s, struct run *run, struct version *v, uint64_t id, enum pl_sched_state state);
/* One transition of expanding the first run in line; false when none is. */
bool pl_sched_run_expand(struct pl_sched *s);
/* Expands all that are in line: before the graph changes. */
void pl_sched_run_settle(struct pl_sched *s);
/* Ends and frees it if all its jobs have ended and told so. */
void pl_sched_run_close(struct pl_sched *s, struct run *run);
void pl_sched_run_free(struct pl_sched *s, struct run *run);

/* --- sched_job.c */
/* Its run is expanded: finds what it waits for and what it supersedes. */
void pl_sched_job_link(struct pl_sched *s, struct job *job);
/* Looks at its inputs again; once all are there it supersedes what gives way to it. */
void pl_sched_job_look(struct pl_sched *s, struct job *job);
/* Lets the first job of the lane do its next thing: plan, lease, commit, fail; and the stage's workers theirs. */
void pl_sched_stage_advance(struct pl_sched *s, struct stage *stage);
void pl_sched_job_planned(struct pl_sched *s, struct job *job, uint64_t datums, uint32_t to_run);
/* Ends it; what runs of it is cancelled. `by`: the run that superseded it, or NULL. */
void pl_sched_job_end(struct pl_sched *s, struct job *job, enum pl_sched_state state, const char *reason, const char *by);
/* Tells the next dependent of an ended job; false when all are told. */
bool pl_sched_job_tell(struct pl_sched *s, struct job *job);
void pl_sched_job_state(struct job *job, enum pl_sched_state state);
/* Keeps what dependents of the job, ended without success, will say. */
void pl_sched_job_cause(struct pl_sched *s, struct job *job, const char *reason);
/* So many rows more (or fewer) are leased; keeps the time for the job's timeout. */
void pl_sched_job_leased(struct pl_sched *s, struct job *job, int64_t change);
int64_t pl_sched_job_busy_ms(const struct pl_sched *s, const struct job *job);

/* --- sched_task.c */
struct rows *pl_sched_datums_make(struct pl_sched *s, uint64_t datums, uint32_t to_run);
void pl_sched_datums_free(struct rows *rows);
uint32_t pl_sched_datums_ready(const struct pl_sched *s, const struct rows *rows);
/* When the next waiting rows become ready; PL_TIMER_NEVER. */
int64_t pl_sched_datums_next(const struct pl_sched *s, const struct rows *rows);
/* Puts rows (not waiting, not leased) in the bin of that history. */
void pl_sched_datums_wait(struct pl_sched *s, struct rows *rows, const struct pl_datum_ranges *which, uint32_t failures,
                          uint32_t losses, int64_t not_before);
/* Leases ready rows of the job to the worker. False when there are none, or none for a worker that computes. */
bool pl_sched_task_lease(struct pl_sched *s, struct job *job, struct worker *w);
/* Asks workers to give back rows of the job that they have not begun, one for each idle worker of its version. */
void pl_sched_task_recall(struct pl_sched *s, struct job *job);
/* All that the worker has not begun shall come back. */
void pl_sched_worker_ask_back(struct pl_sched *s, struct worker *w);
/* Takes `size` rows out of the bin. Id and fence are the caller's to set. */
struct task *pl_sched_task_make(struct pl_sched *s, struct job *job, struct worker *w, struct bin *bin, uint32_t size);
/* An action about it: worker, task, fence, job. */
struct pl_sched_action *pl_sched_task_action(struct pl_sched *s, const struct task *task, enum pl_sched_action_kind kind);
void pl_sched_task_free(struct pl_sched *s, struct task *task);
/* Its rows wait again; `loss` says how they were lost, and counts; NULL: nobody's fault. */
void pl_sched_task_return(struct pl_sched *s, struct task *task, const char *loss);
/* Its one row ended its worker: that was a try. */
void pl_sched_task_failed(struct pl_sched *s, struct task *task, const char *text);
void pl_sched_task_result(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_task_lost(struct pl_sched *s, uint64_t worker, struct pl_sched_lease lease);
/* The task if the worker holds it under this fence. */
struct task *pl_sched_task_held(const struct pl_sched *s, const struct worker *w, struct pl_sched_lease lease);
int64_t pl_sched_backoff(uint32_t times);

/* --- sched_worker.c */
struct worker *pl_sched_worker_make(struct pl_sched *s, struct version *v, uint64_t id, enum worker_state state);
void pl_sched_worker_timer(struct pl_sched *s, struct worker *w);
void pl_sched_worker_fire(struct pl_sched *s, struct worker *w);
void pl_sched_worker_stop(struct pl_sched *s, struct worker *w, bool kill, const char *reason);
void pl_sched_worker_retire(struct pl_sched *s, struct worker *w);
/* All containers of its pod run: from now on it has start_wait_ms. */
void pl_sched_worker_up(struct pl_sched *s, struct worker *w);
void pl_sched_worker_attached(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_next(struct pl_sched *s, struct worker *w);
void pl_sched_worker_renew(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
/* As WORKER_EXITED says. */
void pl_sched_worker_gone(struct pl_sched *s, struct worker *w, const struct pl_sched_event *ev);
void pl_sched_worker_recall(struct worker *w, enum recall recall);
/* A task of it began. */
void pl_sched_worker_leased(struct pl_sched *s, struct worker *w);
/* A task of it may have ended. */
void pl_sched_worker_settle(struct pl_sched *s, struct worker *w);
void pl_sched_worker_free(struct pl_sched *s, struct worker *w);
/* Ends workers of the version that have nothing to do and will not. */
void pl_sched_workers_trim(struct pl_sched *s, struct version *v);

/* --- sched_admit.c */
/* What the version's job wishes for now; puts it in or takes it out of the queues. */
void pl_sched_admit_request(struct pl_sched *s, struct version *v);
void pl_sched_admit_withdraw(struct pl_sched *s, struct version *v);
/* Where the job's next worker should run, as of now. */
enum device pl_sched_admit_device(struct pl_sched *s, struct job *job);
/* Starts workers as far as there is room. */
void pl_sched_admit(struct pl_sched *s);
/* What a worker holds: taken, about to be given back, given back. */
void pl_sched_admit_take(struct pl_sched *s, struct worker *w);
void pl_sched_admit_leaving(struct pl_sched *s, struct worker *w);
void pl_sched_admit_give(struct pl_sched *s, struct worker *w);
int pl_sched_admit_capacity(struct pl_sched *s, const struct pl_sched_capacity *c, struct pl_err *err);

/* --- sched_line.c: who is served next */
void pl_sched_fair_share_init(struct line *line);
/* After all that wished in it are gone. */
void pl_sched_fair_share_finish(struct line *line);
/* The version wishes for a place of that line, or for none (NULL). */
void pl_sched_fair_share_add(struct pl_sched *s, struct version *v, struct line *line, enum device device);
/* The version to be served next; NULL. */
struct version *pl_sched_fair_share_first(const struct line *line);
/* The one behind a version that wishes; NULL. */
struct version *pl_sched_fair_share_next(const struct version *v);
/* The pipeline has more or fewer workers. */
void pl_sched_fair_share_moved(struct pipeline *p);
void pl_sched_fair_share_pipeline_free(struct pipeline *p);
/* None of the pipeline is in that line: the line forgets it. */
void pl_sched_fair_share_remove(struct pipeline *p, const struct line *line);

/* --- sched_shape.c: kinds of pods */
/* The shape of that number, made if need be, for one more; NULL for 0, and without memory. */
struct shape *pl_sched_shape_ref(struct pl_sched *s, uint64_t id);
/* Takes NULL. It goes with the last; while all is being restored none goes. */
void pl_sched_shape_unref(struct pl_sched *s, struct shape *shape);
/* All is restored: those that nobody took go. */
void pl_sched_shapes_restored(struct pl_sched *s);
int pl_sched_shape_set(struct pl_sched *s, const struct pl_sched_shape *def, struct pl_err *err);
/* It may have wishes and room: looked at when workers are admitted next. */
void pl_sched_shape_ready(struct pl_sched *s, struct shape *shape);
/* The worker is a new pod of that shape, or one that was restored and waits. */
void pl_sched_shape_take(struct pl_sched *s, struct worker *w, struct shape *shape, bool pending);
/* A node took it, or it will wait no longer. */
void pl_sched_shape_placed(struct pl_sched *s, struct worker *w);
/* The worker is pending, and waits for no node any more. */
void pl_sched_shape_left(struct pl_sched *s, struct worker *w);
void pl_sched_shape_waits(struct pl_sched *s, struct worker *w, const char *text);
/* Pods of the version that wait for a node, with its GPUs or without, are given up: their stage goes the other way. */
void pl_sched_shape_give_up(struct pl_sched *s, struct version *v, enum device device);
/* Those are that need something else of a node than those that would be made now. */
void pl_sched_shape_renew(struct pl_sched *s, struct version *v);
/* What the pod of a worker of an earlier life needs. */
void pl_sched_shape_needs(struct pl_sched *s, struct worker *w, uint64_t needs);
bool pl_sched_shape_fits(const struct shape *shape);
void pl_sched_shapes_finish(struct pl_sched *s);
/* --- sched_node.c: nodes on which workers were lost */
/* A node has the worker's pod; "" and NULL: which one is not known. */
void pl_sched_node_placed(struct pl_sched *s, struct worker *w, const char *node);
/* The worker was lost with its node, or what it ran on: before its tasks are returned. */
void pl_sched_node_lost(struct pl_sched *s, const struct worker *w);
/* Says in START_WORKER of a new worker which nodes its pod should not go to. */
void pl_sched_nodes_avoid(struct pl_sched *s, struct worker *w, const struct rows *rows, struct pl_sched_action *start);
/* May it have no rows that were lost before? It was there already when its node was found to lose them. */
bool pl_sched_node_is_avoided(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* It has nothing, and all that there is to lease is what it may not have. */
bool pl_sched_node_idles(const struct pl_sched *s, const struct rows *rows, const struct worker *w);
/* All nodes will do again. */
void pl_sched_nodes_forget(struct rows *rows);

uint64_t pl_sched_cpu_need(const struct pl_sched *s, const struct version *v, enum device device);
uint32_t pl_sched_gpus_free(const struct pl_sched *s);
/* A GPU would be there, but no CPU or memory. */
/* Slots that the version may have and that are free, or (`soon`) will be when those are gone that were asked to. */
uint32_t pl_sched_gpus_for(const struct pl_sched *s, const struct version *v, bool soon);
/* Whether as many as a worker of it takes exist, or could. */
bool pl_sched_gpus_offered(const struct pl_sched *s, const struct version *v);
bool pl_sched_slot_is_allowed(const struct version *v, uint32_t slot);
bool pl_sched_admit_missing_resource(const struct pl_sched *s, const struct version *v);
/* False when the executor offers less than one worker needs. */
bool pl_sched_admit_possible(const struct pl_sched *s, const struct version *v);

/* --- sched_say.c */
struct pl_sched_action *pl_sched_job_action(struct pl_sched *s, const struct job *job, enum pl_sched_action_kind kind);
/* Gives the job's state with a sentence, when either is new. */
void pl_sched_wait_reason(struct pl_sched *s, struct job *job, const char *fmt, ...) PL_PRINTF(3, 4);
void pl_sched_wait_reason_created(struct pl_sched *s, struct job *job);
void pl_sched_wait_reason_state(struct pl_sched *s, struct job *job);
/* At the end of the step, when all has moved. */
void pl_sched_wait_reason_defer(struct pl_sched *s, struct stage *stage);
/* Those that are first in that line: their sentences name who holds what they lack, or why others before them wait. */
void pl_sched_wait_reason_queue_head(struct pl_sched *s, const struct line *line);
void pl_sched_wait_reason_all(struct pl_sched *s);
void pl_sched_wait_reason_run(struct pl_sched *s, const struct run *run, enum pl_sched_state state);

/* --- sched_restore.c */
int pl_sched_restore(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err);
