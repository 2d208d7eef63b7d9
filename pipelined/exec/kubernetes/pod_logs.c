/* pod_logs.c: streams of container output for clients. kube_log receives the lines on the client's I/O
 * thread; they are buffered here until the reader pulls them.
 *
 * The loop opens a stream. The stream is over when the log has ended (set on the I/O thread), and closed when
 * the reader has closed it (on any thread). Once it is both, the loop frees it. */
#include "pipelined/exec/kubernetes/worker_pod.h"

#include "pipelined/kube/client/kube_log.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#include <pthread.h>
#include <stdio.h>

#define HELD_MAX    (8u << 20) /* most bytes that are buffered until the reader pulls them */
#define PIECE_BYTES (64u << 10)
#define NAMES_SHOWN 8u
/* how long a connection may stay open after its container has ended; if the node is lost it would never
 * end */
#define END_MS  5000
#define MAY_NOT "the daemon's account may not read container logs in namespace %.200s (pods/log: get)"

static const struct {
    const char *name, *list;
} containers[] = {{"main", "containerStatuses"}, {"agent", "containerStatuses"}, {"install", "initContainerStatuses"}};

struct pod_log {
    LIST_ENTRY(pod_log) link;
    struct kube *kube; /* used on the loop only; NULL: the executor was destroyed, or the stream removed */
    /* used on the loop only: monotonic time at which to cut the connection; 0 = the container has not
     * ended */
    int64_t cut_ms;
    struct pl_loop *loop;
    const struct pl_kube_client *client; /* valid while `log` is set */
    char uid[64], space[256];
    unsigned container;
    struct pl_container_log_request ask;
    pthread_mutex_t lock;
    struct pl_kube_log *log; /* source of the lines; under `lock`; NULL once destroyed */
    struct pl_buf text;      /* under `lock`: text that was received and is not dropped */
    size_t pulled;           /* under `lock`: bytes of `text` already pulled */
    /* under `lock`: text was pulled, or the server accepted the request although nothing was printed */
    bool begun;
    bool over, closed; /* under `lock`: `over`: the log has ended; `closed`: the reader has closed the stream */
    struct pl_err err; /* under `lock`: the result once `over` is set; code 0 = the log ended normally */
    struct pl_loop_work work;
};

/* ---- the end of a stream ---- */

/* Removes the stream from the executor and destroys its log. On the loop. */
static void take_away(struct pod_log *l)
{
    struct pl_kube_log *log;

    if (l->kube)
        LIST_REMOVE(l, link);
    l->kube = NULL;
    pthread_mutex_lock(&l->lock);
    log = TAKE_PTR(l->log);
    pthread_mutex_unlock(&l->lock);
    pl_kube_log_destroy(log);
}

/* Frees the stream; runs once on the loop, after unlock_and_settle has released the lock. */
static void settle(void *arg)
{
    struct pod_log *l = arg;

    take_away(l);
    pl_buf_finish(&l->text);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* Releases the lock. The caller that makes the stream both over and closed posts it to the loop, which frees
 * it. */
static void unlock_and_settle(struct pod_log *l)
{
    if (l->over && l->closed)
        pl_loop_post_work(l->loop, &l->work, "kube.log", settle, l);
    pthread_mutex_unlock(&l->lock);
}

void pl_kube_logs_stop(struct kube *k)
{
    struct pod_log *l;

    k->logs_stopped = true;
    while ((l = LIST_FIRST(&k->logs)))
        take_away(l); /* the reader has yet to close the stream; then the loop frees it */
}

/* ---- receiving: on the I/O thread ---- */

/* Drops the pulled text once it is at least half of the buffer, so that on average each byte is moved at most
 * once. */
static void forget_pulled(struct pod_log *l)
{
    if (l->pulled <= l->text.len / 2)
        return;
    l->text.len -= l->pulled;
    memmove(l->text.data, l->text.data + l->pulled, l->text.len);
    l->pulled = 0;
}

static int on_line(void *self, int64_t time_us, const char *line, size_t n, bool whole, struct pl_err *err)
{
    struct pod_log *l = self;
    int r;

    (void)time_us;
    pthread_mutex_lock(&l->lock);
    forget_pulled(l);
    if (l->text.len - l->pulled + n >= HELD_MAX)
        r = pl_err_set(err, PL_ETOOBIG, "the log is read too slowly: %u MiB wait", HELD_MAX >> 20);
    else
        r = pl_buf_add(&l->text, line, n, err);
    if (r == 0 && whole)
        r = pl_buf_add(&l->text, "\n", 1, err);
    if (!l->closed)
        l->ask.came(l->ask.self);
    pthread_mutex_unlock(&l->lock);
    return r;
}

static void on_stands(void *self, bool started)
{
    struct pod_log *l = self;

    pthread_mutex_lock(&l->lock);
    l->begun = l->begun || started;
    if (!l->closed)
        l->ask.came(l->ask.self);
    pthread_mutex_unlock(&l->lock);
}

/* Rewrites an error of the API server so that it names the daemon's account: a refusal concerns the rights of
 * the daemon, not those of the client. */
static void blame_daemon(const struct pod_log *l, struct pl_err *err)
{
    const struct pl_err says = *err;

    if (says.code == PL_EFORBIDDEN)
        (void)pl_err_set(err, PL_EUNAVAILABLE, MAY_NOT ": %.600s", l->space, says.msg);
    else
        (void)pl_kube_client_blame(l->client, err);
}

static void on_over(void *self, const struct pl_err *err)
{
    struct pod_log *l = self;

    pthread_mutex_lock(&l->lock);
    l->over = true;
    l->err = *err;
    blame_daemon(l, &l->err);
    if (!l->closed)
        l->ask.came(l->ask.self);
    unlock_and_settle(l);
}

/* ---- reading: on any thread ---- */

/* Hands the next received text to the reader; reports the log's end once all text was handed over. */
static int pull(void *self, struct pl_buf *out, struct pl_err *err)
{
    struct pod_log *l = self;
    int r = PL_PULL_WAIT;
    size_t n;

    pthread_mutex_lock(&l->lock);
    n = PL_MIN(l->text.len - l->pulled, (size_t)PIECE_BYTES);
    if (n > 0) {
        r = pl_buf_add(out, l->text.data + l->pulled, n, err);
        l->pulled += n;
        l->begun = true;
        r = r < 0 ? r : PL_PULL_MORE;
    } else if (l->over && (l->err.code == 0 || (l->err.code == PL_ENOTFOUND && l->begun))) {
        /* the pod is deleted once it has ended, so PL_ENOTFOUND after some text is a normal end */
        r = PL_PULL_END;
    } else if (l->over) {
        r = l->err.code;
        if (err)
            *err = l->err;
    }
    pthread_mutex_unlock(&l->lock);
    return r;
}

static void closed(void *self)
{
    struct pod_log *l = self;

    pthread_mutex_lock(&l->lock);
    l->closed = true;
    if (l->log)
        pl_kube_log_stop(l->log);
    unlock_and_settle(l);
}

/* ---- opening a stream ---- */

static void add_name(char *names, size_t size, unsigned i, const char *name)
{
    const size_t len = strlen(names);

    if (i <= NAMES_SHOWN)
        snprintf(names + len, size - len, "%s%s", i > 0 ? ", " : "", i < NAMES_SHOWN ? name : "…");
}

/* Finds the pod of the given workers: the only pod, or the one with the requested name. */
static int find(const struct kube *k, const uint64_t *workers, size_t n, const char *name, struct kpod **ret, struct pl_err *err)
{
    char names[NAMES_SHOWN * (PL_POD_NAME_BYTES + 2) + 8] = "";
    struct kpod *found = NULL;
    unsigned there = 0;

    for (size_t i = 0; i < n; i++) {
        struct kpod *p = pl_map_get(&k->pods, &workers[i], sizeof workers[i]);

        if (!p || !p->seen || (name && !pl_streq(p->name, name)))
            continue;
        add_name(names, sizeof names, there++, p->name);
        found = p;
    }
    if (there == 0 && name)
        return pl_err_set(err, PL_ENOTFOUND, "the stage has no pod %.200s; it may have ended", name);
    if (there == 0)
        return pl_err_set(err, PL_ENOTFOUND, "the stage has no pod now");
    if (there > 1)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "the stage has %u pods: name one of them: %s", there, names), "pod");
    *ret = found;
    return 0;
}

static void note_ended(struct pod_log *l, uint8_t ended)
{
    if (l->cut_ms > 0 || !(ended >> l->container & 1))
        return;
    l->cut_ms = pl_clock_mono_ms() + END_MS;
    pthread_mutex_lock(&l->lock);
    if (l->log)
        pl_kube_log_container_ended(l->log);
    pthread_mutex_unlock(&l->lock);
}

static void cut(struct pod_log *l)
{
    l->cut_ms = INT64_MAX;
    pthread_mutex_lock(&l->lock);
    if (l->log)
        pl_kube_log_cut(l->log);
    pthread_mutex_unlock(&l->lock);
}

void pl_kube_logs_look(struct kube *k)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct pod_log *l;

    LIST_FOREACH(l, &k->logs, link)
    if (l->cut_ms > 0 && now_ms >= l->cut_ms)
        cut(l);
}

void pl_worker_pod_note_gone(const struct kpod *p)
{
    struct pod_log *l;

    LIST_FOREACH(l, &p->kube->logs, link)
    if (pl_streq(l->uid, p->uid))
        note_ended(l, UINT8_MAX);
}

void pl_worker_pod_note_ended(struct kpod *p, const json_t *object)
{
    const json_t *status = json_object_get(object, "status"), *one;
    const uint8_t before = p->ended;
    struct pod_log *l;
    size_t i;

    for (unsigned c = 0; c < PL_ARRAY_SIZE(containers); c++)
        json_array_foreach(json_object_get(status, containers[c].list), i,
                           one) if (pl_streq(pl_json_str(one, "name"), containers[c].name) &&
                                    json_object_get(json_object_get(one, "state"), "terminated")) p->ended |= (uint8_t)(1u << c);
    if (p->ended == before)
        return;
    LIST_FOREACH(l, &p->kube->logs, link)
    if (pl_streq(l->uid, p->uid))
        note_ended(l, p->ended);
}

static int open_log(struct pod_log *l, const struct kube *k, const struct kpod *p, struct pl_err *err)
{
    const struct pl_kube_log_config config = {.space = k->space,
                                              .pod = p->name,
                                              .container = containers[l->container].name,
                                              .once = !l->ask.follow,
                                              .tail = l->ask.tail,
                                              .line = on_line,
                                              .stands = on_stands,
                                              .over = on_over,
                                              .self = l};
    int r;

    pthread_mutex_lock(&l->lock);
    r = pl_kube_log_create(k->client, &config, &l->log, err);
    pthread_mutex_unlock(&l->lock);
    return r;
}

/* Refuses to open a stream if the account may not read logs or too many streams are open: each holds a
 * connection to the API server. */
static int may_open(const struct kube *k, struct pl_err *err)
{
    const struct pod_log *l;
    unsigned n = 0;

    if (k->logs_stopped)
        return pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    if (!k->cluster)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s", k->away);
    if (!pl_cluster_may(k->cluster, PL_KUBE_MAY_LOGS))
        return pl_err_set(err, PL_EUNAVAILABLE, MAY_NOT, k->space);
    LIST_FOREACH(l, &k->logs, link)
    n++;
    if (n >= PL_KUBE_LOGS)
        return pl_err_set(err, PL_EBUSY, "%u container logs are being read, the maximum; try again later", n);
    return 0;
}

int pl_kube_container_log(struct kube *k, const uint64_t *workers, size_t n, const struct pl_container_log_request *ask,
                          struct pl_http_stream_ops *ret, struct pl_err *err)
{
    struct kpod *p = NULL;
    struct pod_log *l;
    int r = may_open(k, err);

    r = r < 0 ? r : find(k, workers, n, ask->pod, &p, err);
    if (r < 0)
        return r;
    l = calloc(1, sizeof *l);
    if (!l)
        return pl_err_nomem(err);
    l->loop = k->loop;
    l->client = k->client;
    l->ask = *ask;
    snprintf(l->uid, sizeof l->uid, "%s", p->uid);
    snprintf(l->space, sizeof l->space, "%s", k->space);
    while (!pl_streq(containers[l->container].name, ask->container))
        l->container++;
    pthread_mutex_init(&l->lock, NULL);
    r = open_log(l, k, p, err);
    if (r < 0) {
        pthread_mutex_destroy(&l->lock);
        free(l);
        return r;
    }
    l->kube = k;
    LIST_INSERT_HEAD(&k->logs, l, link);
    note_ended(l, p->ended);
    *ret = (struct pl_http_stream_ops){.self = l, .pull = pull, .closed = closed};
    return 0;
}
