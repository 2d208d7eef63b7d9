/* pods: private to the executor `kubernetes`: a worker as a pod, and a shape of pods.
 *
 *   MAKING ──made──▶ THERE ──over, failed, gone, told to end──▶ GOING ──gone──▶ (freed)
 *    │  ▲ └──refused──▶ (reported, freed)
 *    ▼  └── room, an answer, a permission; time; it is there after all (▶ THERE)
 *   PARKED ── told to end ──▶ (reported, freed)
 *
 * Until it is there it may be rendered anew: whenever it is to be made and what it was rendered by is no longer so (nodes, quotas, secrets).
 *
 * What refuses it for now (a quota, a server that is away, a permission taken back, a namespace that goes) costs its stage nothing but time. Its end is reported once, when it enters GOING by itself or is gone: from then on the engine knows nothing of it. */
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

#define PL_POD_NEEDS                    PL_POD_LABEL "needs" /* annotation: `needs` of its shape when it was made, 16 hex digits */
#define PL_POD_EVENTS_MAX               16u                  /* kept of a pod */
#define PL_POD_LOOK_MS                  2000
#define PL_POD_LOOK_TURN                64u   /* pods that are looked at in one turn of the loop */
#define PL_POD_TRIES_MS                 5000  /* a server that fails is asked again so long before that is said */
#define PL_POD_RETRY_MIN_MS             10000 /* until it is made again at the latest; doubles up to */
#define PL_POD_RETRY_MAX_MS             60000
#define PL_POD_DRY_RUN_WAIT_MS          5000
#define PL_POD_DRY_RUN_FRESH_MS         600000
#define PL_POD_DRY_RUN_MAX              4096u /* bodies known to be taken */
#define PL_POD_ATTACH_TIMEOUT_MS        30000 /* its containers run, and its agent has not come: it is asked why, and again after */
#define PL_POD_ATTACH_TIMEOUT_REPEAT_MS 10000
#define PL_POD_QUEUED_MS                2000  /* its queue holds it back: it is asked why */
#define PL_POD_TURNS                    16u   /* questions about pods of one kind, between two looks */
#define PL_POD_POLL_MS                  10000 /* that an answer may take */
#define PL_POD_POLL_PATH_MAX            1024u
#define PL_POD_QUEUE_REASON_BYTES       480u
/* Made, and in no list for longer than a watch may be silent before it is asked anew: it is gone. */
#define PL_POD_UNSEEN_MS (2000 * (int64_t)PL_KUBE_WATCH_S + 2 * PL_KUBE_PATIENCE_MS)

struct kshape {
    uint64_t id;
    struct pl_node_capacity_request request; /* names are of */
    json_t *pod;                             /* one like its pods */
    uint64_t needs;                          /* what a node must have for them, as a number */
    struct pl_pending_pod_limit ramp;
    uint32_t pending;
    uint32_t pods; /* that have it */
    bool queued;   /* whether there is room is a queue's to say */
    bool broken;   /* its stage can be no pod, for: */
    char broken_by[PL_NODE_CAPACITY_WHY_BYTES];
    bool told, offered;
    uint32_t told_max;
    char why[PL_NODE_CAPACITY_WHY_BYTES]; /* as told */
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

/* What its worker was started with: until it is there. */
struct kpod_order {
    struct pl_worker_spec
        spec; /* what it points to is good until the end is reported, but for the token and the nodes to avoid: */
    const char *avoid[PL_SCHED_NODES_AVOIDED];
    char texts[];
};

/* To end it: what the cluster was asked, and has taken. */
enum kpod_asked { KPOD_ASKED_NOTHING, KPOD_ASKED_TO_END, KPOD_KILLED };

/* Questions to the API server about pods, of one kind and one at a time: who has waited longest is next. */
struct kturns {
    struct kube *kube;
    const struct kturns_kind *kind;
    TAILQ_HEAD(, kpod) waiting;
    struct kturn_ask *ask; /* under way */
    unsigned left;         /* of PL_POD_TURNS */
};

enum kpod_step { KPOD_MAKING_CLAIM, KPOD_MAKING, KPOD_PARKED, KPOD_THERE, KPOD_GOING };

struct kpod {
    struct kube *kube;    /* NULL: the executor is no more, and it waits for its last callback */
    struct pl_loop *loop; /* for callbacks, which must not look at kube */
    uint64_t id;          /* of its worker; 0 = of nobody: it is removed */
    char name[PL_POD_NAME_BYTES], uid[64];
    enum kpod_step step;
    struct kshape *shape; /* NULL: unknown */
    int64_t memory_bytes;
    bool pending;                 /* counted in the shape */
    bool reported;                /* its end */
    bool stop, kill;              /* told to end while it was being made */
    bool adopted, seen;           /* of an earlier life; in a list or watch */
    bool bound, up, image_told;   /* told */
    bool waited;                  /* of an earlier life: it was seen without a node */
    uint8_t ended;                /* containers of it that have, a bit each, in the order of pod_logs.c */
    bool came;                    /* its agent has attached */
    int64_t silent_ms;            /* monotonic: of one that is up and has not come: when it is asked why */
    char *node;                   /* of the same; NULL */
    char *queue_says;             /* why its queue holds it back; NULL = not known */
    int64_t queue_ms;             /* monotonic: when it is asked for that; 0 = it was not seen held back */
    int64_t made_ms, waits_ms;    /* monotonic: when it was made; since when it waits for that: */
    char why[PL_POD_WHY_BYTES];   /* last told */
    json_t *object, *events;      /* NULL once its containers run: then only news counts */
    json_t *body, *claim;         /* to be made; a body that is under way is NULL */
    uint64_t facts;               /* number of what they were rendered by */
    struct kpod_order *order;     /* NULL once it is there, or adopted */
    struct kpod_making *making;   /* under way */
    struct kpod_removal *removal; /* under way */
    enum kpod_asked asked;
    unsigned parked; /* so many times in a row */
    enum pl_kube_verdict parked_by;
    int64_t retry_ms; /* monotonic */
    bool leaving;     /* parked no more: its end is to be reported */
    TAILQ_ENTRY(kpod) parked_link;
    struct kturns *turns; /* in which it waits; NULL */
    TAILQ_ENTRY(kpod) turn_link;
    struct pl_loop_work work;
};
TAILQ_HEAD(kpod_list, kpod);

struct kube {
    struct pl_executor x;
    struct pl_loop *loop;
    struct pl_kube_client *client;
    struct pl_cluster *cluster;                   /* NULL: the server has not answered yet */
    _Atomic(struct pl_project_secrets *) secrets; /* with it; others' threads look at it */
    struct kube_learning *learning;               /* under way */
    int64_t learn_ms;                             /* monotonic: when it is asked again */
    unsigned learned;                             /* so many times in vain */
    char away[PL_POD_WHY_BYTES];                  /* why no pod can be until then */
    int away_code;
    const json_t *gpu_shapes;
    const char *data_dir; /* NULL = nothing is kept there */
    struct pl_pod_settings *settings;
    const char *const *trusted;
    size_t n_trusted;
    struct pl_executor_events events;
    struct pl_kube_feed *pods_feed, *events_feed;
    struct pl_map pods;      /* worker id → kpod */
    struct pl_map by_uid;    /* uid → kpod */
    size_t looked;           /* of by_uid, in the look under way; 0 = none is */
    struct pl_map shapes;    /* id → kshape */
    struct kpod_list parked; /* the one that waits longest first */
    struct pl_timer *timer;
    pthread_mutex_t admitted_lock;
    struct pl_map admitted; /* number of a pod's body, admitted_lock */
    int64_t admitted_ms;    /* since when they are gathered, admitted_lock */
    uint64_t facts;         /* number of what the shapes in force are rendered by */
    char space[256], pods_path[300];
    char owner_uid[64];                 /* "" = there is no owner, or it is gone */
    struct kube_owner_look *owner_look; /* under way */
    bool owner_doubt;
    LIST_HEAD(, pod_log) logs; /* that are read */
    bool logs_stopped;
    struct kturns silent, queued;
    int64_t queue_ms; /* monotonic: until then nobody is asked why queues hold pods back: it may not be read */
};

/* ---- pods.c ---- */
/* A pod of that worker, in no step yet. NULL without memory. */
struct kpod *pl_worker_pod_new(struct kube *k, uint64_t id);
/* What it is to be. PL_ENOMEM. */
PL_MUST_CHECK
int pl_worker_pod_order(struct kpod *p, const struct pl_worker_spec *spec, struct pl_err *err);
/* Renders it unless that was done by what is known now, and sends what is to be made. PL_ENOMEM; as pl_kube_render. */
PL_MUST_CHECK
int pl_worker_pod_make(struct kpod *p, struct pl_err *err);
/* Asks for its end, at once or by and by. */
void pl_worker_pod_delete(struct kpod *p, bool kill);
/* The cluster's word about it: an object, or that it is gone. */
void pl_worker_pod_seen(struct kpod *p, json_t *object);
void pl_worker_pod_gone(struct kpod *p, const char *text);
/* An event of it. */
void pl_worker_pod_event(struct kpod *p, json_t *event);
/* Time has passed. */
void pl_worker_pod_tick(struct kpod *p);
/* The same for all that are parked. */
void pl_worker_pods_tick_blocked(struct kube *k);
/* There may be room for one that a quota refused; the server answers again, to all others. */
void pl_worker_pods_try_room(struct kube *k);
void pl_worker_pods_try_all(struct kube *k);
void pl_worker_pod_free(struct kpod *p);

/* ---- learning.c: what must be known of the cluster before pods are made ---- */
/* Asks for it and waits for that, before the loop runs. 0 also when the server is away: then it is asked again by pl_cluster_discovery_tick. Else as
 * pl_exec_kubernetes_create. */
PL_MUST_CHECK
int pl_cluster_discovery(struct kube *k, struct pl_err *err);
/* Time has passed: asks again where it is time to. */
void pl_cluster_discovery_tick(struct kube *k);
/* It is no longer wanted; waits until nothing of it is under way. */
void pl_cluster_discovery_stop(struct kube *k);
/* In kubernetes.c: it is all known. Follows pods and events. */
PL_MUST_CHECK
int pl_kube_begin(struct kube *k, struct pl_err *err);
/* The cluster has something else than before; secrets are others; a quota may have room. */
void pl_kube_on_changed(void *kube);
void pl_kube_on_secrets(void *kube);
void pl_kube_on_room(void *kube);

/* ---- owner.c: the ConfigMap that pods belong to ---- */
void pl_owner_object_path(const struct kube *k, char ret[600]);
/* It may have gone, or be another of its name: what waits for its namespace waits until it was looked at. */
void pl_owner_object_recheck(struct kube *k);
/* Time has passed: looks at it where there is doubt. */
void pl_owner_object_read(struct kube *k);
void pl_owner_object_stop(struct kube *k);

/* ---- silent.c: pods whose containers run, and whose agent has not come ---- */
/* Its containers run on that node from now on. */
void pl_worker_pod_is_up(struct kpod *p, const char *node);
/* Time has passed: of one that is up. What its agent printed last is asked for in its turn, and told as what it waits for. */
void pl_pod_attach_timeout_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_silent;

/* ---- queued.c: pods that a queue of Kueue holds back ---- */
/* It is held back still: why is asked for in its turn, and told. */
void pl_kueue_pending_check(struct kpod *p);
extern const struct kturns_kind pl_kturns_queued;

/* ---- pod_turns.c ---- */
struct kturns_kind {
    bool (*begin)(struct kpod *p); /* its turn has come: it is to be asked about; then it is noted when again */
    void (*path)(const struct kpod *p, char ret[PL_POD_POLL_PATH_MAX]);
    void (*take)(struct kube *k, struct kpod *p, const struct pl_kube_call *answer); /* p NULL: it is there no more */
};
void pl_pod_poll_init(struct kturns *t, struct kube *k, const struct kturns_kind *kind);
/* A look begins: so many may be asked about again. */
void pl_pod_poll_look(struct kturns *t);
/* The pod waits for its turn, if it does not already. */
void pl_pod_poll_wait(struct kturns *t, struct kpod *p);
void pl_worker_pod_leave_turns(struct kpod *p);
/* Nothing is asked or told any more. */
void pl_pod_poll_stop(struct kturns *t);

/* ---- pod_logs.c: as `container_log` of the executor ---- */
PL_MUST_CHECK
int pl_kube_container_log(struct kube *k, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                          struct pl_http_stream_ops *ret, struct pl_err *err);
/* The pod is seen: which of its containers have ended is noted, and told to who reads what they print. */
void pl_worker_pod_note_ended(struct kpod *p, const json_t *object);
/* It is gone: so are they all. */
void pl_worker_pod_note_gone(const struct kpod *p);
/* Time has passed: connections that should have ended with their containers. */
void pl_kube_logs_look(struct kube *k);
/* Nothing is read any more: what is ends with PL_ECANCELED. */
void pl_kube_logs_stop(struct kube *k);

/* ---- admission.c: as `check` and `ask` of the executor ---- */
PL_MUST_CHECK
int pl_pod_dry_run_begin(struct kube *k, const char *project, const struct pl_stage *def, bool gpu, struct pl_executor_check *ret,
                         struct pl_err *err);
PL_MUST_CHECK
int pl_pod_dry_run_ask(struct kube *k, struct pl_executor_check *check, struct pl_err *err);

/* ---- shapes.c ---- */
/* The shape of the pods of a stage, with or without its GPUs; it is told. NULL without memory. */
struct kshape *pl_pod_shape_of(struct kube *k, const char *project, const struct pl_stage *def, uint64_t version, bool gpu);
/* The pod waits for a node, or no longer. */
void pl_pod_shape_pending(struct kpod *p, bool pending);
/* The same where the pod was rendered already; told when it is new. */
struct kshape *pl_pod_shape_of_pod(struct kube *k, const struct pl_worker_spec *spec, const struct pl_pod *pod);
void pl_pod_shape_free(void *shape);
/* The pod is of that shape from now on and waits for no node; NULL: of none, it is over. */
void pl_pod_shape_take(struct kpod *p, struct kshape *s);
/* Those go that no pod is of, and nobody in the engine. */
void pl_pod_shapes_forget(struct kube *k);
/* Looks again whether the cluster offers it, and at its ramp; tells what has changed. */
void pl_pod_shape_look(struct kube *k, struct kshape *s);
/* Of all that pods are rendered by and that changes while the daemon runs: nodes, quotas, secrets; and of what those of one project are. */
uint64_t pl_kube_facts_number(struct kube *k);
uint64_t pl_kube_facts_of(struct kube *k, const char *project);
/* The queue of Kueue that a pod is to be admitted by; NULL. The pod's. */
const char *pl_kube_queue_of(const json_t *pod);
/* As of pl_executor_events. */
bool pl_kube_network_off(const struct kube *k, const char *project);
/* Renders the pod of a worker. `shape`, where it is known (else NULL), says what of its inputs nodes have room for. As pl_pod_render. */
PL_MUST_CHECK
int pl_kube_render(struct kube *k, const struct pl_worker_spec *spec, const struct kshape *shape, struct pl_pod *ret,
                   struct pl_err *err);
