/* worker_pod: private to the executor `kubernetes`: one worker's pod, and a shape of pods.
 *
 *   MAKING ──made──▶ THERE ──ended, failed, gone, told to end──▶ GOING ──gone──▶ (freed)
 *    │  ▲ └──refused──▶ (reported, freed)
 *    ▼  └── retry: a quota has room, the server answers, a permission was granted, or the pause is over;
 *    │      if the pod exists after all ──▶ THERE
 *   PARKED ── told to end ──▶ (reported, freed)
 *
 * A pod may be rendered anew until it exists: whenever it is to be made and the facts by which it was
 * rendered (nodes, quotas, secrets) have changed.
 *
 * A temporary refusal (a quota, an unreachable server, a missing permission, a namespace that is being
 * deleted) parks the pod: its creation is tried again later, and nothing counts as failed. The worker's end
 * is reported to the engine once: when the pod enters GOING although the engine did not tell it to end, or
 * when the pod is gone. After that the engine does not know the worker any more. */
#pragma once

#include "pipelined/exec/exec.h"
#include "pipelined/exec/kubernetes/cluster_state.h"
#include "pipelined/exec/kubernetes/project_secrets.h"
#include "pipelined/kube/client/kube_event.h"
#include "pipelined/kube/client/kube_object.h"
#include "pipelined/kube/pod_state/image_wait.h"
#include "pipelined/kube/pod_state/pending_pod_limit.h"
#include "pipelined/kube/pod_state/pod_state.h"
#include "pipelined/kube/watch/kube_watch.h"
#include "storage/base/map.h"
#include <pthread.h>
#include <sys/queue.h>

/* name of the annotation that stores `needs` of the pod's shape at the time when the pod was made, as 16 hex
 * digits */
#define PL_POD_NEEDS      PL_POD_LABEL "needs"
#define PL_POD_EVENTS_MAX 16u /* most cluster events that are kept per pod */
#define PL_POD_LOOK_MS    2000
#define PL_POD_LOOK_TURN  64u /* pods that one loop turn examines */
/* time for which requests to a failing server are repeated before the failure is reported */
#define PL_POD_TRIES_MS 5000
/* first pause before the creation of a parked pod is tried again; doubles up to PL_POD_RETRY_MAX_MS */
#define PL_POD_RETRY_MIN_MS     10000
#define PL_POD_RETRY_MAX_MS     60000
#define PL_POD_DRY_RUN_WAIT_MS  5000
#define PL_POD_DRY_RUN_FRESH_MS 600000
/* most pod bodies accepted by the cluster whose hashes are kept */
#define PL_POD_DRY_RUN_MAX 4096u
/* time that an agent has to attach after the containers of its pod run; after that its log is read to find
 * out why it has not attached */
#define PL_POD_ATTACH_TIMEOUT_MS        30000
#define PL_POD_ATTACH_TIMEOUT_REPEAT_MS 10000
/* time from when a pod was first seen to be held back by a queue until its Workload is read */
#define PL_POD_QUEUED_MS          2000
#define PL_POD_TURNS              16u   /* most requests about pods, per kind, between two timer ticks */
#define PL_POD_POLL_MS            10000 /* time limit of one request about a pod */
#define PL_POD_POLL_PATH_MAX      1024u
#define PL_POD_QUEUE_REASON_BYTES 480u
/* A pod that was created but is missing from every listing for this long counts as gone. This time is longer
 * than the time after which a silent watch is restarted. */
#define PL_POD_UNSEEN_MS (2000 * (int64_t)PL_KUBE_WATCH_S + 2 * PL_KUBE_PATIENCE_MS)

struct kshape {
    uint64_t id;
    /* resources that a pod of the shape needs; the names in it point into `pod` */
    struct pl_node_capacity_request request;
    json_t *pod;    /* one pod of the shape, as an example */
    uint64_t needs; /* hash of what a node must have for pods of the shape */
    struct pl_pending_pod_limit ramp;
    uint32_t pending;
    uint32_t pods; /* number of existing pods that have this shape */
    bool queued;   /* a queue of Kueue admits these pods and decides whether there is capacity */
    bool broken;   /* no pod can be made of the stage, for the reason in `broken_by` */
    bool no_class; /* the reason is that the cluster has no such runtime class */
    char broken_by[PL_NODE_CAPACITY_WHY_BYTES];
    bool told, offered;
    uint32_t told_max;
    char why[PL_NODE_CAPACITY_WHY_BYTES]; /* reason why the shape is not offered, as it was last reported */
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

/* Copy of the order to start the worker; kept until the pod exists in the cluster. */
struct kpod_order {
    /* its pointers stay valid until the worker's end is reported; `token` and `avoid` point to the copies
     * below */
    struct pl_worker_spec spec;
    const char *avoid[PL_SCHED_NODES_AVOIDED];
    char texts[];
};

/* Which request to end the pod the cluster has accepted: none, a graceful one, or a kill. */
enum kpod_asked { KPOD_ASKED_NOTHING, KPOD_ASKED_TO_END, KPOD_KILLED };

/* A queue of requests to the API server about pods (pod_poll.c). All requests of a queue are of one kind, and
 * are sent one at a time, oldest first. */
struct kturns {
    struct kube *kube;
    const struct kturns_kind *kind;
    TAILQ_HEAD(, kpod) waiting;
    struct kturn_ask *ask; /* the request in progress; NULL = none */
    unsigned left;         /* how many of the PL_POD_TURNS requests are left until the next timer tick */
};

enum kpod_step { KPOD_MAKING_CLAIM, KPOD_MAKING, KPOD_PARKED, KPOD_THERE, KPOD_GOING };

struct kpod {
    struct kube *kube;    /* NULL: the executor was destroyed, and the pod lives only until its last callback */
    struct pl_loop *loop; /* the event loop; callbacks use it because they must not use `kube` */
    uint64_t id;          /* id of the worker; 0 = the pod has no worker and must be deleted */
    char name[PL_POD_NAME_BYTES], uid[64];
    enum kpod_step step;
    struct kshape *shape;             /* shape of the pod; NULL = unknown */
    struct pl_image_wait *image_wait; /* of the pod's stage; NULL = the pod was not examined so far */
    int64_t memory_bytes;
    bool pending;            /* the pod waits for a node and is counted in shape->pending */
    bool reported;           /* the worker's end was reported to the engine */
    enum pl_sched_exit exit; /* how the worker ended, for that report */
    bool stop, kill;         /* `stop`: the pod was told to end; `kill`: it was told to end at once */
    /* `adopted`: from an earlier daemon; `seen`: found in a listing or by the watch */
    bool adopted, seen;
    /* reported to the engine: `bound`: a node accepted the pod; `up`: its containers run; `image_told`: its
     * image; `leaves`: that the cluster takes it away */
    bool bound, up, image_told, leaves;
    bool waited; /* the pod was adopted, and was seen without a node */
    /* which containers have ended: one bit each, in the order of the table in pod_logs.c */
    uint8_t ended;
    bool came; /* the worker's agent has attached */
    /* monotonic time at which the agent's log is read, if the pod is up and the agent has not attached */
    int64_t silent_ms;
    /* name of the pod's node while its containers run and the agent has not attached; else NULL */
    char *node;
    char *queue_says; /* reason why a Kueue queue holds the pod back; NULL = unknown */
    /* monotonic time at which the queue's reason is read; 0 = the pod was never seen held back */
    int64_t queue_ms;
    /* monotonic times: when the pod was made; since when it waits for the current reason */
    int64_t made_ms, waits_ms;
    char why[PL_POD_WHY_BYTES]; /* reason why the pod waits, as it was last reported */
    /* the pod's current object and its cluster events; NULL once the containers run, because only changes
     * matter then */
    json_t *object, *events;
    /* the objects to be created, a pod and its claim template; `body` is NULL while its request is in
     * progress */
    json_t *body, *claim;
    uint64_t facts;               /* hash of the facts by which `body` and `claim` were rendered */
    struct kpod_order *order;     /* NULL once the pod exists, or if it was adopted */
    struct kpod_making *making;   /* request in progress that creates an object; NULL = none */
    struct kpod_removal *removal; /* request in progress that deletes the pod; NULL = none */
    enum kpod_asked asked;
    unsigned parked; /* number of times in a row that creating the pod was refused */
    enum pl_kube_verdict parked_by;
    int64_t retry_ms; /* monotonic time at which a parked pod is tried again */
    bool leaving;     /* the worker was told to end while its pod is parked: on_left will report the end */
    TAILQ_ENTRY(kpod) parked_link;
    struct kturns *turns; /* the queue of requests in which the pod waits for its turn; NULL = none */
    TAILQ_ENTRY(kpod) turn_link;
    struct pl_loop_work work;
};
TAILQ_HEAD(kpod_list, kpod);

/* Why pods can be neither made nor watched (outage.c). */
struct kube_outage {
    unsigned ticks; /* in how many ticks of the timer in a row the reason was there; 0 = it is not */
    bool right;     /* pods were refused for a lack of rights */
    bool granted;   /* since then a pod that was refused so was created */
    char text[PL_POD_WHY_BYTES];
    int64_t since_us; /* wall clock */
};

struct kube {
    struct pl_executor x;
    struct pl_loop *loop;
    struct pl_kube_client *client;
    /* what is known of the cluster; NULL: the API server has not answered since the daemon started */
    struct pl_cluster *cluster;
    _Atomic(struct pl_project_secrets *) secrets; /* set together with `cluster`; other threads read it */
    struct kube_learning *learning;               /* discovery in progress; NULL = none */
    int64_t learn_ms;                             /* monotonic time of the next attempt at discovery */
    unsigned learned;                             /* number of failed attempts at discovery */
    char away[PL_POD_WHY_BYTES];                  /* reason why no pod can be made while `cluster` is NULL */
    int away_code;
    const json_t *gpu_shapes;
    const char *data_dir; /* folder for files that the executor keeps; NULL = no files are kept */
    struct pl_pod_settings *settings;
    const char *const *trusted;
    size_t n_trusted;
    uint64_t epoch; /* number of this start of the daemon */
    bool (*is_owner)(void *arg, bool look);
    void *is_owner_arg;
    bool doubted;     /* a pod of a later start was seen, and the log was not yet found to be still ours */
    bool listed;      /* the first listing of pods is complete */
    bool strays_told; /* a pod of another start was logged as a warning */
    struct pl_executor_events events;
    struct pl_kube_feed *pods_feed, *events_feed;
    struct pl_map pods;   /* map: worker id → struct kpod */
    struct pl_map by_uid; /* map: uid of the pod → struct kpod */
    /* position in `by_uid` that the timer's current pass over all pods has reached; 0 = no pass in
     * progress */
    size_t looked;
    struct pl_map image_waits; /* map of the entries of image_wait.h */
    struct pl_map shapes;      /* map: shape id → struct kshape */
    struct kpod_list parked;   /* parked pods, the one that was parked first in front */
    struct pl_timer *timer;
    pthread_mutex_t admitted_lock;
    struct pl_map admitted; /* under `admitted_lock`: hashes of pod bodies that the cluster accepted */
    /* under `admitted_lock`: earliest monotonic time at which one of the hashes may have been added */
    int64_t admitted_ms;
    uint64_t facts; /* hash of the facts by which the current shapes are rendered */
    char space[256], pods_path[300];
    char owner_uid[64];                 /* uid of the owner ConfigMap; "" = no owner is set, or it is gone */
    struct kube_owner_look *owner_look; /* request in progress that reads the owner ConfigMap; NULL = none */
    bool owner_doubt;
    struct pl_kube_events *owner_events;    /* Events about the ConfigMap */
    struct kube_owner_event *owner_sending; /* request in progress that creates an Event; NULL = none */
    bool owner_events_off;     /* the right to create Events was withdrawn, and no other right was given back since */
    LIST_HEAD(, pod_log) logs; /* open log streams */
    bool logs_stopped;
    struct kturns silent, queued;
    struct kube_outage outage;
    int64_t queue_ms; /* monotonic time until which no Workload is read, because the last read failed */
};

/* ---- worker_pod.c: one worker's pod ---- */
/* Creates the state of a worker's pod; the caller sets its step. NULL without memory. */
struct kpod *pl_worker_pod_new(struct kube *k, uint64_t id);
/* Copies the order to start the worker into the pod's state. PL_ENOMEM. */
PL_MUST_CHECK
int pl_worker_pod_order(struct kpod *p, const struct pl_worker_spec *spec, struct pl_err *err);
/* Renders the pod, unless it was rendered by the current facts, and sends the next object to be created
 * (claim template or pod). PL_ENOMEM; errors of pl_kube_render. */
PL_MUST_CHECK
int pl_worker_pod_make(struct kpod *p, struct pl_err *err);
/* Asks the cluster to end the pod: at once if `kill`, else gracefully. */
void pl_worker_pod_delete(struct kpod *p, bool kill);
/* Returns false while another daemon may have taken over the store: then no pod may be created or deleted. What was held
 * for that is done at the timer tick that finds the store to be this daemon's. */
bool pl_kube_is_owner(const struct kube *k);
/* Called when the watch has delivered the pod's object (seen), or when the pod no longer exists (gone). */
void pl_worker_pod_seen(struct kpod *p, json_t *object);
void pl_worker_pod_gone(struct kpod *p, const char *text);
/* Called when the watch has delivered a cluster event about the pod. */
void pl_worker_pod_event(struct kpod *p, json_t *event);
/* Decides again what the pod's state means, because time has passed. */
void pl_worker_pod_tick(struct kpod *p);
/* Tries again to create the parked pods whose pause is over. */
void pl_worker_pods_tick_blocked(struct kube *k);
/* Try parked pods again before their pause is over: one pod that a quota refused (try_room); all pods that
 * were refused for other reasons (try_all). */
void pl_worker_pods_try_room(struct kube *k);
void pl_worker_pods_try_all(struct kube *k);
/* Removes the pod from the executor's tables. If a callback is pending, that callback frees the pod;
 * otherwise it is freed at once. */
void pl_worker_pod_free(struct kpod *p);

/* ---- cluster_discovery.c: learns what must be known of the cluster before pods are made ---- */
/* Makes the first attempt at discovery and waits for it, before the loop runs. Also returns 0 if the server
 * is unreachable; pl_cluster_discovery_tick then repeats the attempt. Other errors as for
 * pl_exec_kubernetes_create. */
PL_MUST_CHECK
int pl_cluster_discovery(struct kube *k, struct pl_err *err);
/* Starts another attempt at discovery if one is due. */
void pl_cluster_discovery_tick(struct kube *k);
/* Cancels an attempt at discovery that is in progress, and waits for its thread. */
void pl_cluster_discovery_stop(struct kube *k);
/* Defined in kubernetes.c. Called when discovery is complete: starts the watches on pods and events. */
PL_MUST_CHECK
int pl_kube_begin(struct kube *k, struct pl_err *err);
/* Callbacks, called when: facts of the cluster changed; the set of secrets changed; a quota may have room. */
void pl_kube_on_changed(void *kube);
void pl_kube_on_secrets(void *kube);
void pl_kube_on_room(void *kube);

/* ---- outage.c: the API server, or the right to use it, is gone ---- */
/* Returns true if a request was refused because the account lacks a right. */
bool pl_kube_is_right(enum pl_kube_verdict verdict);
/* Writes why pods cannot be watched, with the name of the API server; "" if they can. There is a feed of pods. */
void pl_kube_watch_problem(const struct kube *k, char out[PL_POD_WHY_BYTES]);
/* Returns true if the API server, rather than a right, is gone, or has failed lately. */
bool pl_kube_is_away(const struct kube *k);
/* Called at each timer tick: looks whether it is there, and logs a change. */
void pl_kube_outage_look(struct kube *k);
/* Implements pl_executor_ops.outage. */
bool pl_kube_outage(struct pl_executor *x, struct pl_executor_outage *ret);

/* ---- owner_object.c: the ConfigMap that owns the pods, and Events about it ---- */
void pl_owner_object_path(const struct kube *k, char ret[600]);
/* Requests a check of the ConfigMap, because it may be gone or replaced. Pods that were refused because of
 * their namespace wait until it was read. */
void pl_owner_object_recheck(struct kube *k);
/* Reads the ConfigMap again if pl_owner_object_recheck was called. */
void pl_owner_object_read(struct kube *k);
void pl_owner_object_stop(struct kube *k);
/* Writes an Event about the ConfigMap, if there is one and the account may; see kube_event.h for `reason` and the bounds. Does
 * not block and cannot fail: an Event that cannot be written is dropped. */
void pl_owner_event(struct kube *k, const char *reason, bool warning, const char *message);
/* Sends the next Event that waits, unless the API server is known to be gone. */
void pl_owner_event_send(struct kube *k);

/* ---- pod_attach_timeout.c: pods whose containers run but whose agent has not attached ---- */
/* Called when the containers of the pod have started to run on that node. */
void pl_worker_pod_is_up(struct kpod *p, const char *node);
/* Called for a pod that is up. After the time limit, queues a read of what the pod's agent printed last,
 * which is then reported as the reason why the worker waits. */
void pl_pod_attach_timeout_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_silent;

/* ---- kueue_pending.c: pods that a queue of Kueue holds back ---- */
/* Called for a pod that a Kueue queue holds back. When the next read is due, queues a request that reads the
 * reason; the reason is then reported to the engine. */
void pl_kueue_pending_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_queued;

/* ---- pod_poll.c: requests about pods, one after the other ---- */
struct kturns_kind {
    /* called when it is the pod's turn; returns true to send the request; sets the time of the pod's next
     * request */
    bool (*begin)(struct kpod *p);
    void (*path)(const struct kpod *p, char ret[PL_POD_POLL_PATH_MAX]);
    /* handles the API server's answer; `p` is NULL if the pod is gone */
    void (*take)(struct kube *k, struct kpod *p, const struct pl_kube_call *answer);
};
void pl_pod_poll_init(struct kturns *t, struct kube *k, const struct kturns_kind *kind);
/* Called at each timer tick: allows PL_POD_TURNS more requests. */
void pl_pod_poll_look(struct kturns *t);
/* Adds the pod to the queue of requests, unless it is in this queue already. */
void pl_pod_poll_wait(struct kturns *t, struct kpod *p);
void pl_worker_pod_leave_turns(struct kpod *p);
/* Sends no more requests of this queue and ignores the answer that is pending. */
void pl_pod_poll_stop(struct kturns *t);

/* ---- pod_logs.c: implements pl_executor_ops.container_log ---- */
PL_MUST_CHECK
int pl_kube_container_log(struct kube *k, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                          struct pl_http_stream_ops *ret, struct pl_err *err);
/* Records which containers of the pod have ended, and informs the log streams that read them. */
void pl_worker_pod_note_ended(struct kpod *p, const json_t *object);
/* Called when the pod is gone: all its containers have ended. */
void pl_worker_pod_note_gone(const struct kpod *p);
/* Cuts the connections of log streams that did not end after their containers had ended. */
void pl_kube_logs_look(struct kube *k);
/* Ends all log streams with PL_ECANCELED and refuses to open more. */
void pl_kube_logs_stop(struct kube *k);

/* ---- pod_dry_run.c: implements pl_executor_ops.check and .ask ---- */
PL_MUST_CHECK
int pl_pod_dry_run_begin(struct kube *k, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                         struct pl_err *err);
PL_MUST_CHECK
int pl_pod_dry_run_ask(struct kube *k, struct pl_executor_check *check, struct pl_err *err);

/* ---- pod_shapes.c: shapes of pods ---- */
/* Returns the shape of the stage's pods, with or without its GPUs, and reports it to the engine. NULL without
 * memory. */
struct kshape *pl_pod_shape_of(struct kube *k, const char *project, const struct pl_stage *def, uint64_t version, bool gpu);
/* Records whether the pod waits for a node, and counts it in its shape. */
void pl_pod_shape_pending(struct kpod *p, bool pending);
/* Returns the shape of a rendered pod; reports the shape to the engine if it is new. NULL without memory. */
struct kshape *pl_pod_shape_of_pod(struct kube *k, const struct pl_worker_spec *spec, const struct pl_pod *pod);
void pl_pod_shape_free(void *shape);
/* Assigns the pod to a shape, without counting it as pending. `s` NULL: to no shape, because the pod has
 * ended. */
void pl_pod_shape_take(struct kpod *p, struct kshape *s);
/* Frees the shapes that no pod has and that the engine does not use. */
void pl_pod_shapes_forget(struct kube *k);
/* Returns the number of shapes that wait for a runtime class. */
size_t pl_pod_shapes_lack_class(const struct kube *k);
/* Checks again whether the cluster offers the shape, and how many of its pods may be pending; reports
 * changes. */
void pl_pod_shape_look(struct kube *k, struct kshape *s);
/* Return a hash of those facts by which pods are rendered that change while the daemon runs: nodes, quotas,
 * secrets. pl_kube_facts_of includes only the secrets of one project. */
uint64_t pl_kube_facts_number(struct kube *k);
uint64_t pl_kube_facts_of(struct kube *k, const char *project);
/* Returns the name of the pod's Kueue queue, borrowed from `pod`; NULL = none. */
const char *pl_kube_queue_of(const json_t *pod);
/* Returns true if the project forbids network access (pl_executor_events.network_off). */
bool pl_kube_network_off(const struct kube *k, const char *project);
/* Renders the pod of a worker. `shape`: shape of the pod, from which the disk space that nodes offer for
 * inputs is found; NULL = unknown. PL_EUNAVAILABLE (the cluster has not answered, or lacks the owner
 * ConfigMap or a secret); errors of pl_pod_render. */
PL_MUST_CHECK
int pl_kube_render(struct kube *k, const struct pl_worker_spec *spec, const struct kshape *shape, struct pl_pod *ret,
                   struct pl_err *err);
