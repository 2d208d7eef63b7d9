/* Keeps the tasks that this worker holds in a small table under a mutex, and runs the renewing thread. When
 * the daemon answers 404, the calling thread attaches the worker again. */
#include "pipelined/agent/connection/task_lease.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"
#include "storage/system/timed_cond.h"
#include <pthread.h>
#include <time.h>

/* maximum number of attaches within one call of next or hand_in; a further 404 is returned as an error */
#define ATTACHES_MAX 3
/* extra time for the answer of a renewal before it is sent again; a lease lasts longer */
#define RENEW_LATE_MS 10000
/* pause after a renewal that brought news, so that a daemon that repeats the same news is not asked in a
 * tight loop */
#define RENEW_AGAIN_MS 50
/* maximum number of lost leases that are remembered */
#define GONE_MAX 8u

/* One entry of the table of held tasks. */
struct held {
    /* the entry is in use */
    bool taken;
    /* the daemon took the task back */
    bool lost;
    struct pl_agent_protocol_lease lease;
    uint64_t sessions_ended; /* value of pl_daemon_client_session when the task was received */
    uint8_t *abandoned;      /* bit set of the datums (indexes in the job) that the daemon no longer wants */
    /* size of `abandoned` */
    size_t abandoned_bytes;
};

struct pl_lease {
    struct pl_task_lease_config config;
    char host[256];
    int64_t renew_ms;
    pthread_t renewer;
    /* the renewing thread exists */
    bool renewing;
    pthread_mutex_t attach_lock; /* serialises attaches */
    /* the renewing thread must end */
    atomic_bool ending;
    pthread_mutex_t lock; /* guards the fields below */
    /* signalled when `ending` is set */
    pthread_cond_t ended;
    uint64_t attached; /* number of successful attaches; guarded by attach_lock */
    /* the worker was told to stop */
    bool stop;
    struct held held[PL_TASK_LEASE_TASKS_MAX];
    /* [{task, fence?}], at most GONE_MAX: the leases that were lost most recently. They are remembered
     * because the renewal that takes a task back may be answered before the `next` request that delivers the
     * task. */
    json_t *gone;
};

int pl_task_lease_create(const struct pl_task_lease_config *config, struct pl_lease **ret, struct pl_err *err)
{
    struct pl_lease *l = calloc(1, sizeof(*l));

    if (!l)
        return pl_err_nomem(err);
    l->config = *config;
    l->gone = json_array();
    if (gethostname(l->host, sizeof(l->host) - 1) < 0)
        l->host[0] = 0;
    pthread_mutex_init(&l->attach_lock, NULL);
    pthread_mutex_init(&l->lock, NULL);
    pl_timed_cond_init(&l->ended);
    *ret = l;
    return 0;
}

struct pl_lease *pl_task_lease_destroy(struct pl_lease *l)
{
    if (!l)
        return NULL;
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->ending, true);
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->lock);
    pl_uplink_interrupt(l->config.link);
    if (l->renewing)
        pthread_join(l->renewer, NULL);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->attach_lock);
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX; i++)
        free(l->held[i].abandoned);
    json_decref(l->gone);
    free(l);
    return NULL;
}

/* Makes the array [{task, fence, session?}] of the held tasks. `session` is present if only one upload
 * session was used since the task was received. */
static json_t *held_json(struct pl_lease *l)
{
    char session[PL_DAEMON_CLIENT_SESSION_BYTES];
    uint64_t ended = pl_daemon_client_session(l->config.link, session);
    json_t *held = json_array();

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; held && i < PL_TASK_LEASE_TASKS_MAX; i++) {
        const struct held *h = &l->held[i];
        json_t *one = h->taken && !h->lost ? pl_agent_protocol_lease_json(&h->lease) : NULL;

        /* true only if all chunks of the task were checked and uploaded in this session */
        if (one && h->sessions_ended == ended)
            (void)!json_object_set_new(one, "session", json_string(session));
        if (one)
            (void)!json_array_append_new(held, one);
    }
    pthread_mutex_unlock(&l->lock);
    return held;
}

/* Finds a held task; NULL if this worker does not hold it. Call with the lock held. */
static struct held *find(struct pl_lease *l, const struct pl_agent_protocol_lease *lease)
{
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX; i++)
        if (l->held[i].taken && l->held[i].lease.fence == lease->fence && pl_streq(l->held[i].lease.task, lease->task))
            return &l->held[i];
    return NULL;
}

/* Attaches once, without retrying, and sets the token that the daemon assigned. */
static int attach_once(struct pl_lease *l, struct pl_agent_protocol_attach *ret, struct pl_err *err)
{
    json_t *body = json_pack("{s:i, s:s, s:s, s:s, s:i, s:b, s:s*, s:o}", "protocol", PL_AGENT_PROTOCOL_PROTOCOL, "worker",
                             l->config.worker, "incarnation", l->config.incarnation, "host", l->host, "pid", (int)getpid(),
                             "exchange", 1, "image", l->config.image, "held", held_json(l));
    json_t *answer = NULL;
    int r = pl_daemon_client_json(l->config.link, "/api/v1/worker/attach", body, true, &answer, err);

    json_decref(body);
    r = r < 0 ? r : pl_agent_protocol_attach_read(answer, ret, err);
    if (r < 0 || !ret->token)
        return r;
    r = pl_daemon_client_set_token(l->config.link, ret->token, err);
    if (r < 0)
        pl_agent_protocol_attach_finish(ret);
    return r;
}

/* Attaches again after a 404, which means that the daemon does not know this worker. `seen` is the number of
 * attaches when the failed call was made: if another thread has attached since, there is nothing to do. */
static int attach_again(struct pl_lease *l, uint64_t seen, struct pl_err *err)
{
    struct pl_agent_protocol_attach a = {0};
    int r = 0;

    pthread_mutex_lock(&l->attach_lock);
    if (l->attached == seen) {
        r = attach_once(l, &a, err);
        if (r == 0) {
            pl_agent_protocol_attach_finish(&a);
            l->attached++;
            pl_log_info("lease", "the daemon did not know this worker: attached again");
        }
    }
    pthread_mutex_unlock(&l->attach_lock);
    return r;
}

static uint64_t times_attached(struct pl_lease *l)
{
    uint64_t n;

    pthread_mutex_lock(&l->attach_lock);
    n = l->attached;
    pthread_mutex_unlock(&l->attach_lock);
    return n;
}

/* Marks a datum of a held task as no longer wanted by the daemon. */
static void mark_abandoned(struct held *h, const json_t *index)
{
    json_int_t i = json_integer_value(index);

    if (!json_is_integer(index) || i < 0 || i > UINT32_MAX)
        return;
    if ((size_t)i / 8 >= h->abandoned_bytes) {
        size_t bytes = (size_t)i / 8 + 64;
        uint8_t *more = realloc(h->abandoned, bytes);
        if (!more)
            /* out of memory: ignore it, because the daemon repeats the index in its answer to the next
             * renewal */
            return;
        memset(more + h->abandoned_bytes, 0, bytes - h->abandoned_bytes);
        h->abandoned = more;
        h->abandoned_bytes = bytes;
    }
    h->abandoned[i / 8] |= (uint8_t)(1u << (i % 8));
}

/* True if the array `tasks` ([{task, fence?}]) names this lease. */
static bool names(const json_t *tasks, const struct pl_agent_protocol_lease *lease)
{
    const json_t *item, *fence;
    size_t i;

    json_array_foreach(tasks, i, item)
    {
        fence = json_object_get(item, "fence");
        if (pl_agent_protocol_lease_is(lease, item) && (!fence || json_integer_value(fence) == lease->fence))
            return true;
    }
    return false;
}

/* Records which tasks and datums the daemon takes back in its answer to a renewal. Returns true if the
 * caller must wake the threads that work on tasks; also true for a lost task that an earlier answer already
 * took back. `*ret_news`: this answer takes back a task, or is the first that tells the worker to stop. */
static bool take_back(struct pl_lease *l, const json_t *answer, bool *ret_news)
{
    const json_t *lost = json_object_get(answer, "lost"), *abandon = json_object_get(answer, "abandon"), *item;
    const bool stop = json_is_true(json_object_get(answer, "stop"));
    bool any;
    size_t n;

    pthread_mutex_lock(&l->lock);
    any = stop && !l->stop;
    *ret_news = any || json_array_size(lost) > 0;
    l->stop = l->stop || stop;
    json_array_extend(l->gone, (json_t *)lost);
    while (json_array_size(l->gone) > GONE_MAX)
        json_array_remove(l->gone, 0);
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX; i++) {
        struct held *h = &l->held[i];

        if (!h->taken)
            continue;
        h->lost = h->lost || names(lost, &h->lease);
        any = any || h->lost;
        json_array_foreach(abandon, n, item) if (pl_agent_protocol_lease_is(&h->lease, item))
        {
            mark_abandoned(h, json_object_get(item, "index"));
            any = true;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return any;
}

/* Frees the table entry of a task. */
static void let_go(struct pl_lease *l, const struct pl_agent_protocol_lease *lease)
{
    struct held *h;

    pthread_mutex_lock(&l->lock);
    h = find(l, lease);
    if (h)
        h->taken = false;
    pthread_mutex_unlock(&l->lock);
}

/* Makes the body of a `next` request. Takes over the reference to `results`. */
static json_t *next_json(const struct pl_lease *l, json_t *results, int wait_ms, bool leaving)
{
    json_t *body = json_pack("{s:s, s:s, s:o, s:i}", "worker", l->config.worker, "incarnation", l->config.incarnation, "results",
                             results, "wait_ms", wait_ms);

    if (body && leaving && json_object_set_new(body, "leaving", json_true()) < 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* Copies the leases of the held tasks from which the daemon's answer requests datums back; returns their
 * number. */
static size_t recalled(struct pl_lease *l, const json_t *answer, struct pl_agent_protocol_lease out[PL_TASK_LEASE_TASKS_MAX])
{
    const json_t *recall = json_object_get(answer, "recall");
    size_t n = 0;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX; i++) {
        const struct held *h = &l->held[i];

        if (h->taken && !h->lost && names(recall, &h->lease))
            out[n++] = h->lease;
    }
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* Gives the datums of a task that have not begun back to the daemon. If the request fails, the daemon
 * requests the datums again in its answer to a later renewal. */
static void give_back(struct pl_lease *l, const struct pl_agent_protocol_lease *task)
{
    bool whole = false;
    size_t n = 0;
    _cleanup_free_ uint32_t *rows = l->config.recall(l->config.self, task, &n, &whole);
    json_t *results = json_array(), *body;
    struct pl_err err = {0};
    int r;

    if (!rows) {
        json_decref(results);
        return;
    }
    (void)!json_array_append_new(results, pl_agent_protocol_give_back_json(task, rows, n));
    body = next_json(l, results, 0, false);
    r = pl_daemon_client_json(l->config.link, "/api/v1/worker/next", body, true, NULL, &err);
    json_decref(body);
    if (r < 0 && r != PL_ECANCELED)
        pl_log_warn("lease", "task %s: cannot give back %zu datums: %s", task->task, n, err.msg);
    else if (r == 0 && whole)
        let_go(l, task);
}

/* Sends one renewal. The daemon answers when it has news (`*ret_news`) or when the next renewal is due. */
static int renew_once(struct pl_lease *l, bool *ret_news, struct pl_err *err)
{
    struct pl_agent_protocol_lease back[PL_TASK_LEASE_TASKS_MAX];
    uint64_t seen = times_attached(l);
    json_t *body = json_pack("{s:s, s:s, s:o, s:I}", "worker", l->config.worker, "incarnation", l->config.incarnation, "tasks",
                             held_json(l), "wait_ms", (json_int_t)l->renew_ms);
    json_t *answer = NULL;
    int r = pl_uplink_poll(l->config.link, "/api/v1/worker/renew", body, &l->ending, l->renew_ms + RENEW_LATE_MS, &answer, err);
    size_t n;

    json_decref(body);
    *ret_news = false;
    if (r == PL_ENOTFOUND)
        r = attach_again(l, seen, err);
    if (!answer)
        return r;
    if (take_back(l, answer, ret_news))
        l->config.wake(l->config.self);
    n = recalled(l, answer, back);
    for (size_t i = 0; i < n; i++)
        give_back(l, &back[i]);
    *ret_news = *ret_news || n > 0;
    json_decref(answer);
    return 0;
}

/* The renewing thread: renews at once after an error that may pass, soon after news, and otherwise every
 * renew_ms. */
static void *renew_loop(void *arg)
{
    struct pl_lease *l = arg;
    int64_t next_ms = 0;
    unsigned tries = 0;

    pthread_mutex_lock(&l->lock);
    while (!atomic_load(&l->ending)) {
        struct timespec until = {.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000};
        const int64_t start_ms = pl_clock_mono_ms();
        struct pl_err err = {0};
        bool news, again;
        int r;

        if (start_ms < next_ms) {
            pthread_cond_timedwait(&l->ended, &l->lock, &until);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        r = renew_once(l, &news, &err);
        if (r < 0 && r != PL_ECANCELED)
            pl_log_warn("lease", "cannot renew the leases of this worker: %s", err.msg);
        again = r < 0 && pl_daemon_client_retry(l->config.link, r, &tries);
        tries = r < 0 ? tries : 0;
        pthread_mutex_lock(&l->lock);
        next_ms = again ? 0 : news ? pl_clock_mono_ms() + RENEW_AGAIN_MS : start_ms + l->renew_ms;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int pl_task_lease_attach(struct pl_lease *l, struct pl_agent_protocol_attach *ret, struct pl_err *err)
{
    struct pl_err why = {0};
    unsigned tries = 0;
    int r, said = 0;

    while ((r = attach_once(l, ret, &why)) < 0) {
        if (r != said) /* log each new reason, so that an operator can see why the worker is not attached */
            pl_log_warn("lease", "%s", why.msg);
        said = r;
        if (!pl_daemon_client_retry(l->config.link, r, &tries))
            break;
    }
    if (r < 0) {
        if (err)
            *err = why;
        return pl_err_wrap(err, r, "attach");
    }
    l->attached = 1;
    l->renew_ms = ret->renew_ms;
    r = pthread_create(&l->renewer, NULL, renew_loop, l);
    if (r != 0) {
        pl_agent_protocol_attach_finish(ret);
        return pl_err_errno(err, r, "cannot start the thread that renews leases");
    }
    l->renewing = true;
    return 0;
}

enum pl_task_lease_want pl_task_lease_wants(struct pl_lease *l, const struct pl_agent_protocol_lease *task, uint32_t index)
{
    enum pl_task_lease_want want = PL_TASK_LEASE_GO_ON;
    const struct held *h;

    if (!l)
        return PL_TASK_LEASE_GO_ON;
    pthread_mutex_lock(&l->lock);
    h = find(l, task);
    if (!h || h->lost)
        want = PL_TASK_LEASE_LOST;
    else if (l->stop)
        want = PL_TASK_LEASE_STOP;
    else if (index / 8 < h->abandoned_bytes && (h->abandoned[index / 8] >> (index % 8) & 1))
        want = PL_TASK_LEASE_ABANDON;
    pthread_mutex_unlock(&l->lock);
    return want;
}

bool pl_task_lease_stops(struct pl_lease *l)
{
    bool stop;

    pthread_mutex_lock(&l->lock);
    stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

bool pl_task_lease_holds(struct pl_lease *l, const struct pl_agent_protocol_lease *lease)
{
    const struct held *h;
    bool holds;

    pthread_mutex_lock(&l->lock);
    h = find(l, lease);
    holds = h && !h->lost;
    pthread_mutex_unlock(&l->lock);
    return holds;
}

/* Records a received task in an unused table entry. PL_EPROTO if all entries are in use. */
static int hold(struct pl_lease *l, const struct pl_agent_protocol_lease *lease, struct pl_err *err)
{
    char session[PL_DAEMON_CLIENT_SESSION_BYTES];
    uint64_t ended = pl_daemon_client_session(l->config.link, session);
    struct held *h = NULL;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX && !h; i++)
        if (!l->held[i].taken)
            h = &l->held[i];
    if (h) {
        h->taken = true;
        h->lost = names(l->gone, lease);
        h->lease = *lease;
        h->sessions_ended = ended;
        if (h->abandoned)
            memset(h->abandoned, 0, h->abandoned_bytes);
    }
    pthread_mutex_unlock(&l->lock);
    return h ? 0 : pl_err_set(err, PL_EPROTO, "task %s: the worker already holds %d tasks", lease->task, PL_TASK_LEASE_TASKS_MAX);
}

/* After the daemon answered that there are no more tasks: tasks that are still held are no longer wanted, so
 * the worker stops. */
static void ended(struct pl_lease *l)
{
    bool any = false;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < PL_TASK_LEASE_TASKS_MAX; i++)
        any = any || l->held[i].taken;
    l->stop = l->stop || any;
    pthread_mutex_unlock(&l->lock);
    if (any)
        l->config.wake(l->config.self);
}

/* Makes one call of next. Takes over the reference to `body`. Returns 1 if the daemon did not know the worker
 * and the worker has attached again; the caller then repeats the call. */
static int next_once(struct pl_lease *l, json_t *body, bool cancel, unsigned *attaches, json_t **ret, struct pl_err *err)
{
    uint64_t seen = times_attached(l);
    int r = pl_daemon_client_json(l->config.link, "/api/v1/worker/next", body, cancel, ret, err);

    json_decref(body);
    if (r == PL_ENOTFOUND && (*attaches)++ < ATTACHES_MAX) {
        r = attach_again(l, seen, err);
        return r == 0 ? 1 : r;
    }
    return r;
}

int pl_task_lease_next(struct pl_lease *l, enum pl_agent_protocol_next_kind *ret_kind, struct pl_agent_protocol_task *ret_task,
                       struct pl_err *err)
{
    unsigned tries = 0, attaches = 0;
    json_t *answer = NULL;
    int r;

    do
        r = next_once(l, next_json(l, json_array(), PL_TASK_LEASE_POLL_MS, false), true, &attaches, &answer, err);
    while (r > 0 || (r < 0 && pl_daemon_client_retry(l->config.link, r, &tries)));
    r = r < 0 ? r : pl_agent_protocol_next_read(answer, ret_kind, ret_task, err);
    if (r == 0 && *ret_kind == PL_WIRE_END)
        ended(l);
    if (r == 0 && *ret_kind == PL_WIRE_TASK) {
        r = hold(l, &ret_task->lease, err);
        if (r < 0)
            pl_agent_protocol_task_finish(ret_task);
    }
    return r;
}

int pl_task_lease_hand_in(struct pl_lease *l, const struct pl_agent_protocol_lease *task,
                          const struct pl_agent_protocol_outcome *outcomes, size_t n, bool leaving, struct pl_err *err)
{
    unsigned tries = 0, attaches = 0;
    int r;

    do {
        json_t *results = json_array();

        if (!pl_task_lease_holds(l, task)) {
            json_decref(results);
            r = 0;
            break;
        }
        (void)!json_array_append_new(results, pl_agent_protocol_result_json(task, outcomes, n));
        r = json_array_size(results) == 1
                ? next_once(l, next_json(l, json_incref(results), 0, leaving), false, &attaches, NULL, err)
                : pl_err_nomem(err);
        json_decref(results);
        if (r == PL_ELEASE) {
            pl_log_warn("lease", "task %s: the daemon refused its result: %s", task->task, err ? err->msg : "lease lost");
            r = 0;
        }
    } while (r > 0 || (r < 0 && pl_daemon_client_retry(l->config.link, r, &tries)));
    if (r == 0)
        let_go(l, task);
    return r;
}
