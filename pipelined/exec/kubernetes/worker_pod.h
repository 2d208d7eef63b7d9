/* worker_pod: private to the executor `kubernetes`: one worker's pod, and a shape of pods.
 *
 *   MAKING ──made──▶ THERE ──ended, failed, gone, told to end──▶ GOING ──gone──▶ (freed)
 *    │  ▲ └──refused──▶ (reported, freed)
 *    ▼  └── retry after room, an answer, a permission or time; if the pod exists after all ▶ THERE
 *   PARKED ── told to end ──▶ (reported, freed)
 *
 * A pod may be rendered anew until it exists: whenever it is to be made and the facts by which it was
 * rendered (nodes, quotas, secrets) have changed.
 *
 * A temporary refusal (a quota, an unreachable server, a missing permission, a namespace that is being
 * deleted) parks the pod and costs its stage nothing but time. The worker's end is reported once, when the
 * pod enters GOING by itself or is gone; after that the engine does not know the worker any more. */
#pragma once

#include "pipelined/exec/exec.h"
#include "pipelined/exec/kubernetes/cluster_state.h"
#include "pipelined/exec/kubernetes/project_secrets.h"
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/pod_state/pending_pod_limit.h"
#include "pipelined/kube/pod_state/pod_state.h"
#include "pipelined/kube/watch/kube_watch.h"
#include "storage/base/map.h"
#include <pthread.h>
#include <sys/queue.h>

/* annotation: `needs` of the pod's shape when it was made, 16 hex digits */
#define PL_POD_NEEDS      PL_POD_LABEL "needs"
#define PL_POD_EVENTS_MAX 16u /* most events kept per pod */
#define PL_POD_LOOK_MS    2000
#define PL_POD_LOOK_TURN  64u /* pods examined per loop turn */
/* time for which requests to a failing server are repeated before the failure is reported */
#define PL_POD_TRIES_MS 5000
/* first pause before a parked pod is made again; doubles up to PL_POD_RETRY_MAX_MS */
#define PL_POD_RETRY_MIN_MS     10000
#define PL_POD_RETRY_MAX_MS     60000
#define PL_POD_DRY_RUN_WAIT_MS  5000
#define PL_POD_DRY_RUN_FRESH_MS 600000
#define PL_POD_DRY_RUN_MAX      4096u /* most hashes of accepted bodies that are kept */
/* time from running containers until the agent's log is read for the reason why it has not attached */
#define PL_POD_ATTACH_TIMEOUT_MS        30000
#define PL_POD_ATTACH_TIMEOUT_REPEAT_MS 10000
#define PL_POD_QUEUED_MS                2000  /* time from the first sight of a queued pod until its Workload is read */
#define PL_POD_TURNS                    16u   /* requests about pods of one kind between two timer ticks */
#define PL_POD_POLL_MS                  10000 /* time limit of one request */
#define PL_POD_POLL_PATH_MAX            1024u
#define PL_POD_QUEUE_REASON_BYTES       480u
/* A pod that was made but is in no listing for this time is gone: longer than a watch may be silent before it
 * is restarted. */
#define PL_POD_UNSEEN_MS (2000 * (int64_t)PL_KUBE_WATCH_S + 2 * PL_KUBE_PATIENCE_MS)

struct kshape {
    uint64_t id;
    struct pl_node_capacity_request request; /* resources that a pod needs; its names point into `pod` */
    json_t *pod;                             /* an example of its pods */
    uint64_t needs;                          /* hash of what a node must have for its pods */
    struct pl_pending_pod_limit ramp;
    uint32_t pending;
    uint32_t pods; /* number of pods with this shape */
    bool queued;   /* its pods wait in a queue of Kueue, which decides whether there is capacity */
    bool broken;   /* no pod can be made of its stage, for the reason in `broken_by` */
    char broken_by[PL_NODE_CAPACITY_WHY_BYTES];
    bool told, offered;
    uint32_t told_max;
    char why[PL_NODE_CAPACITY_WHY_BYTES]; /* reason as reported last */
};

struct kpod_making {
    struct pl_kube_object_create op;
    char *text, *path;
    char name[PL_POD_NAME_BYTES], hash[24];
};

struct kpod_removal {
    struct pl_kube_object_delete op;
    char path[560];
};

/* Copy of the order to start the worker; kept until the pod exists. */
struct kpod_order {
    /* its pointers stay valid until the end is reported; `token` and `avoid` point to the copies below */
    struct pl_worker_spec spec;
    const char *avoid[PL_SCHED_NODES_AVOIDED];
    char texts[];
};

/* The strongest request to end the pod that the cluster has accepted. */
enum kpod_asked { KPOD_ASKED_NOTHING, KPOD_ASKED_TO_END, KPOD_KILLED };

/* A queue of requests to the API server about pods, of one kind and one at a time, oldest first
 * (pod_poll.c). */
struct kturns {
    struct kube *kube;
    const struct kturns_kind *kind;
    TAILQ_HEAD(, kpod) waiting;
    struct kturn_ask *ask; /* the request in progress; NULL = none */
    unsigned left;         /* requests left until the next timer tick, of PL_POD_TURNS */
};

enum kpod_step { KPOD_MAKING_CLAIM, KPOD_MAKING, KPOD_PARKED, KPOD_THERE, KPOD_GOING };

struct kpod {
    struct kube *kube;    /* NULL: the executor was destroyed, and the pod waits for its last callback */
    struct pl_loop *loop; /* for callbacks, which must not use `kube` */
    uint64_t id;          /* id of the worker; 0 = the pod has no worker and is to be deleted */
    char name[PL_POD_NAME_BYTES], uid[64];
    enum kpod_step step;
    struct kshape *shape; /* NULL: unknown */
    int64_t memory_bytes;
    bool pending;               /* counted in shape->pending */
    bool reported;              /* the worker's end was reported */
    bool stop, kill;            /* told to end; told to end at once */
    bool adopted, seen;         /* adopted from an earlier daemon; seen in a listing or watch */
    bool bound, up, image_told; /* already reported: a node took it; its containers run; its image */
    bool waited;                /* adopted, and seen without a node */
    /* containers that have ended, one bit each, in the order of the table in pod_logs.c */
    uint8_t ended;
    bool came; /* the agent has attached */
    /* monotonic time at which the agent's log is read, if the pod is up and the agent has not attached */
    int64_t silent_ms;
    char *node;                 /* node of such a pod; else NULL */
    char *queue_says;           /* reason why its queue holds it back; NULL = unknown */
    int64_t queue_ms;           /* monotonic time at which that reason is read; 0 = never seen queued */
    int64_t made_ms, waits_ms;  /* monotonic: when the pod was made; since when it waits for its current reason */
    char why[PL_POD_WHY_BYTES]; /* reason reported last */
    /* current object and its events; NULL once the containers run, when only changes matter */
    json_t *object, *events;
    json_t *body, *claim;         /* objects to be made; `body` is NULL while its request is in progress */
    uint64_t facts;               /* hash of the facts by which they were rendered */
    struct kpod_order *order;     /* NULL once the pod exists, or if adopted */
    struct kpod_making *making;   /* creation in progress; NULL = none */
    struct kpod_removal *removal; /* deletion in progress; NULL = none */
    enum kpod_asked asked;
    unsigned parked; /* number of refusals in a row */
    enum pl_kube_verdict parked_by;
    int64_t retry_ms; /* monotonic time of the next retry */
    bool leaving;     /* told to end while parked: on_left will report it */
    TAILQ_ENTRY(kpod) parked_link;
    struct kturns *turns; /* the queue of requests in which the pod waits; NULL = none */
    TAILQ_ENTRY(kpod) turn_link;
    struct pl_loop_work work;
};
TAILQ_HEAD(kpod_list, kpod);

struct kube {
    struct pl_executor x;
    struct pl_loop *loop;
    struct pl_kube_client *client;
    struct pl_cluster *cluster;                   /* NULL: the server has not answered since the daemon started */
    _Atomic(struct pl_project_secrets *) secrets; /* set together with `cluster`; other threads read it */
    struct kube_learning *learning;               /* discovery in progress; NULL = none */
    int64_t learn_ms;                             /* monotonic time of the next attempt */
    unsigned learned;                             /* number of failed attempts */
    char away[PL_POD_WHY_BYTES];                  /* reason why no pod can be made while `cluster` is NULL */
    int away_code;
    const json_t *gpu_shapes;
    const char *data_dir; /* NULL = no files are kept */
    struct pl_pod_settings *settings;
    const char *const *trusted;
    size_t n_trusted;
    struct pl_executor_events events;
    struct pl_kube_feed *pods_feed, *events_feed;
    struct pl_map pods;      /* worker id → struct kpod */
    struct pl_map by_uid;    /* uid → struct kpod */
    size_t looked;           /* position in `by_uid` of the timer's pass over all pods; 0 = no pass in progress */
    struct pl_map shapes;    /* id → struct kshape */
    struct kpod_list parked; /* oldest first */
    struct pl_timer *timer;
    pthread_mutex_t admitted_lock;
    struct pl_map admitted; /* under `admitted_lock`: hashes of pod bodies that the cluster accepted */
    int64_t admitted_ms;    /* under `admitted_lock`: when the oldest of them may have been added, monotonic */
    uint64_t facts;         /* hash of the facts by which the current shapes are rendered */
    char space[256], pods_path[300];
    char owner_uid[64];                 /* uid of the owner ConfigMap; "" = no owner is set, or it is gone */
    struct kube_owner_look *owner_look; /* read of the owner in progress; NULL = none */
    bool owner_doubt;
    LIST_HEAD(, pod_log) logs; /* open log streams */
    bool logs_stopped;
    struct kturns silent, queued;
    int64_t queue_ms; /* monotonic time until which no Workload is read, after one could not be */
};

/* ---- worker_pod.c: one worker's pod ---- */
/* Creates the state of a worker's pod, not yet in any step. NULL without memory. */
struct kpod *pl_worker_pod_new(struct kube *k, uint64_t id);
/* Copies the order to start the worker. PL_ENOMEM. */
PL_MUST_CHECK
int pl_worker_pod_order(struct kpod *p, const struct pl_worker_spec *spec, struct pl_err *err);
/* Renders the pod, unless it was rendered by the current facts, and sends the object to be made next.
 * PL_ENOMEM; errors of pl_kube_render. */
PL_MUST_CHECK
int pl_worker_pod_make(struct kpod *p, struct pl_err *err);
/* Asks the cluster to end the pod; `kill`: at once, else gracefully. */
void pl_worker_pod_delete(struct kpod *p, bool kill);
/* The watch has delivered the pod's object; the pod is gone. */
void pl_worker_pod_seen(struct kpod *p, json_t *object);
void pl_worker_pod_gone(struct kpod *p, const char *text);
/* The watch has delivered an event about the pod. */
void pl_worker_pod_event(struct kpod *p, json_t *event);
/* Judges the pod again, because time has passed. */
void pl_worker_pod_tick(struct kpod *p);
/* Retries the parked pods whose pause is over. */
void pl_worker_pods_tick_blocked(struct kube *k);
/* Retries parked pods before their pause is over: one that a quota refused; all that were refused for other
 * reasons. */
void pl_worker_pods_try_room(struct kube *k);
void pl_worker_pods_try_all(struct kube *k);
/* Forgets the pod; a pending callback frees it later. */
void pl_worker_pod_free(struct kpod *p);

/* ---- cluster_discovery.c: what must be known of the cluster before pods are made ---- */
/* Makes the first attempt and waits for it, before the loop runs. Also returns 0 if the server is
 * unreachable; then pl_cluster_discovery_tick repeats it. Other errors as for pl_exec_kubernetes_create. */
PL_MUST_CHECK
int pl_cluster_discovery(struct kube *k, struct pl_err *err);
/* Starts another attempt if one is due. */
void pl_cluster_discovery_tick(struct kube *k);
/* Cancels an attempt in progress and waits for its thread. */
void pl_cluster_discovery_stop(struct kube *k);
/* In kubernetes.c: discovery is complete; starts the watches on pods and events. */
PL_MUST_CHECK
int pl_kube_begin(struct kube *k, struct pl_err *err);
/* Callbacks: the cluster's facts changed; the set of secrets changed; a quota may have room. */
void pl_kube_on_changed(void *kube);
void pl_kube_on_secrets(void *kube);
void pl_kube_on_room(void *kube);

/* ---- owner_object.c: the ConfigMap that owns the pods ---- */
void pl_owner_object_path(const struct kube *k, char ret[600]);
/* Notes that the ConfigMap may be gone or replaced. Pods refused because of their namespace wait until it was
 * read. */
void pl_owner_object_recheck(struct kube *k);
/* Reads the ConfigMap if pl_owner_object_recheck was called. */
void pl_owner_object_read(struct kube *k);
void pl_owner_object_stop(struct kube *k);

/* ---- pod_attach_timeout.c: pods whose containers run but whose agent has not attached ---- */
/* Notes that the pod's containers run, on that node. */
void pl_worker_pod_is_up(struct kpod *p, const char *node);
/* For a pod that is up: when the time is over, queues a read of what its agent printed last, and reports it
 * as the reason why the worker waits. */
void pl_pod_attach_timeout_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_silent;

/* ---- kueue_pending.c: pods that a queue of Kueue holds back ---- */
/* For a pod that is held back: queues a read of the reason when it is due, and reports it. */
void pl_kueue_pending_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_queued;

/* ---- pod_poll.c: requests about pods, one after the other ---- */
struct kturns_kind {
    /* called when the pod's turn has come; true = send the request; sets the time of the next */
    bool (*begin)(struct kpod *p);
    void (*path)(const struct kpod *p, char ret[PL_POD_POLL_PATH_MAX]);
    /* handles the answer; `p` is NULL if the pod is gone */
    void (*take)(struct kube *k, struct kpod *p, const struct pl_kube_call *answer);
};
void pl_pod_poll_init(struct kturns *t, struct kube *k, const struct kturns_kind *kind);
/* Timer tick: allows PL_POD_TURNS more requests. */
void pl_pod_poll_look(struct kturns *t);
/* Queues the pod, unless it waits in this queue already. */
void pl_pod_poll_wait(struct kturns *t, struct kpod *p);
void pl_worker_pod_leave_turns(struct kpod *p);
/* Sends no more requests and ignores the pending answer. */
void pl_pod_poll_stop(struct kturns *t);

/* ---- pod_logs.c: implements pl_executor_ops.container_log ---- */
PL_MUST_CHECK
int pl_kube_container_log(struct kube *k, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                          struct pl_http_stream_ops *ret, struct pl_err *err);
/* Notes which containers of the pod have ended, and tells the log streams. */
void pl_worker_pod_note_ended(struct kpod *p, const json_t *object);
/* The pod is gone: all its containers have ended. */
void pl_worker_pod_note_gone(const struct kpod *p);
/* Cuts connections that should have ended with their containers. */
void pl_kube_logs_look(struct kube *k);
/* Ends all streams with PL_ECANCELED and opens no more. */
void pl_kube_logs_stop(struct kube *k);

/* ---- pod_dry_run.c: implements pl_executor_ops.check and .ask ---- */
PL_MUST_CHECK
int pl_pod_dry_run_begin(struct kube *k, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                         struct pl_err *err);
PL_MUST_CHECK
int pl_pod_dry_run_ask(struct kube *k, struct pl_executor_check *check, struct pl_err *err);

/* ---- pod_shapes.c: shapes of pods ---- */
/* Returns the shape of the stage's pods, with or without its GPUs, and reports it. NULL without memory. */
struct kshape *pl_pod_shape_of(struct kube *k, const char *project, const struct pl_stage *def, uint64_t version, bool gpu);
/* Sets whether the pod waits for a node. */
void pl_pod_shape_pending(struct kpod *p, bool pending);
/* Returns the shape of a rendered pod; reports it if it is new. NULL without memory. */
struct kshape *pl_pod_shape_of_pod(struct kube *k, const struct pl_worker_spec *spec, const struct pl_pod *pod);
void pl_pod_shape_free(void *shape);
/* Assigns the pod to a shape, not counted as pending. NULL: to none, because it has ended. */
void pl_pod_shape_take(struct kpod *p, struct kshape *s);
/* Frees the shapes that no pod has and the engine does not use. */
void pl_pod_shapes_forget(struct kube *k);
/* Checks again whether the cluster offers the shape, and its limit of pending pods; reports changes. */
void pl_pod_shape_look(struct kube *k, struct kshape *s);
/* Returns a hash of the facts by which pods are rendered and that change while the daemon runs: nodes,
 * quotas, secrets. The second function counts the secrets of one project only. */
uint64_t pl_kube_facts_number(struct kube *k);
uint64_t pl_kube_facts_of(struct kube *k, const char *project);
/* Returns the Kueue queue of a pod, borrowed from it; NULL = none. */
const char *pl_kube_queue_of(const json_t *pod);
/* True if the project forbids network access (pl_executor_events.network_off). */
bool pl_kube_network_off(const struct kube *k, const char *project);
/* Renders the pod of a worker. `shape`, if known, says how much space for inputs nodes have; else NULL.
 * PL_EUNAVAILABLE (the cluster has not answered, or lacks the owner or a secret); errors of pl_pod_render. */
PL_MUST_CHECK
int pl_kube_render(struct kube *k, const struct pl_worker_spec *spec, const struct kshape *shape, struct pl_pod *ret,
                   struct pl_err *err);
