/* kube_informer.c: sends the requests that kube_watch chooses, one after another, as streams of kube_client,
 * and passes the received bytes to kube_watch. Everything except create, destroy and look runs on the I/O
 * thread. */
#include "pipelined/kube/watch/kube_informer.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"

#include <pthread.h>
#include <stdio.h>

struct pl_kube_informer {
    struct pl_kube_client *client;
    struct pl_kube_watch *watch; /* used on the I/O thread only */
    bool metadata_only;
    struct pl_kube_call call;
    struct pl_http_timer timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under `lock`. ending: destruction was requested; under_way: a request is in progress; over: no callback
     * will run any more. */
    bool ending, under_way, over;
    struct pl_kube_informer_view view; /* under `lock` */
};

static void step(struct pl_kube_informer *i);

/* Copies the watch's state to `view`, for other threads. */
static void show(struct pl_kube_informer *i)
{
    struct pl_kube_watch_view v;

    pl_kube_watch_look(i->watch, &v);
    pthread_mutex_lock(&i->lock);
    i->view = (struct pl_kube_informer_view){.objects = v.objects,
                                             .lists = v.lists,
                                             .watches = v.watches,
                                             .events = v.events,
                                             .synced = v.synced,
                                             .failures = v.failures};
    (void)snprintf(i->view.problem, sizeof(i->view.problem), "%s", v.problem);
    pthread_mutex_unlock(&i->lock);
}

/* Records that no request is in progress. Returns true if the informer is being destroyed; the caller must
 * not use it then. */
static bool is_ending(struct pl_kube_informer *i)
{
    bool ending;

    pthread_mutex_lock(&i->lock);
    ending = i->ending;
    i->under_way = false;
    i->over = ending;
    if (ending)
        pthread_cond_broadcast(&i->changed);
    pthread_mutex_unlock(&i->lock);
    return ending;
}

static void on_timer(struct pl_http_timer *t)
{
    struct pl_kube_informer *i = PL_CONTAINER_OF(t, struct pl_kube_informer, timer);

    if (!is_ending(i))
        step(i);
}

static void on_head(void *self)
{
    struct pl_kube_informer *i = self;

    pl_kube_watch_answers(i->watch);
    show(i);
}

static int on_bytes(void *self, const void *data, size_t n, struct pl_err *err)
{
    struct pl_kube_informer *i = self;
    int r = pl_kube_watch_bytes(i->watch, data, n, err);

    show(i);
    return r;
}

static void on_done(struct pl_kube_call *call)
{
    struct pl_kube_informer *i = call->arg;

    pl_kube_watch_ended(i->watch, pl_clock_mono_ms(), &call->status, &call->err);
    show(i);
    if (!is_ending(i))
        step(i);
}

/* Starts the next request, or waits until it is due. Long pauses are split into parts, so that a destruction
 * is noticed soon. */
static void step(struct pl_kube_informer *i)
{
    const int64_t now_ms = pl_clock_mono_ms();
    struct pl_kube_watch_request q;
    struct pl_err err = {0};
    const int64_t r = pl_kube_watch_next(i->watch, now_ms, &q, &err);

    if (r != 0) {
        i->timer =
            (struct pl_http_timer){.fn = on_timer, .due_ms = now_ms + (r < 0 ? 1000 : PL_MIN(r, (int64_t)PL_KUBE_CANCEL_MS))};
        pl_kube_client_at(i->client, &i->timer);
        return;
    }
    i->call = (struct pl_kube_call){.method = "GET",
                                    .path = q.path,
                                    .accept = !i->metadata_only ? NULL
                                              : q.watching      ? PL_KUBE_METADATA
                                                                : PL_KUBE_METADATA_LIST,
                                    .stream = true,
                                    .deadline_ms = q.timeout_ms,
                                    .stall_ms = q.stall_ms,
                                    .write = on_bytes,
                                    .begins = on_head,
                                    .write_self = i,
                                    .done = on_done,
                                    .arg = i,
                                    .url_ = i->call.url_};
    /* `done` also runs on this thread, so it cannot run before this function has returned */
    pl_kube_client_start(i->client, &i->call);
    pthread_mutex_lock(&i->lock);
    i->under_way = true;
    if (i->ending)
        pl_kube_client_cancel(i->client, &i->call);
    pthread_mutex_unlock(&i->lock);
}

int pl_kube_informer_create(struct pl_kube_client *c, const struct pl_kube_watch_config *config, struct pl_kube_informer **ret,
                            struct pl_err *err)
{
    struct pl_kube_informer *i = calloc(1, sizeof(*i));
    struct pl_kube_watch_config own = *config;
    int r;

    if (i == NULL)
        return pl_err_nomem(err);
    while (own.seed == 0)
        pl_random_bytes(&own.seed, sizeof(own.seed));
    r = pl_kube_watch_create(&own, &i->watch, err);
    if (r < 0) {
        free(i);
        return r;
    }
    i->client = c;
    i->metadata_only = config->metadata_only;
    pthread_mutex_init(&i->lock, NULL);
    pthread_cond_init(&i->changed, NULL);
    i->timer = (struct pl_http_timer){.fn = on_timer};
    pl_kube_client_at(c, &i->timer);
    *ret = i;
    return 0;
}

struct pl_kube_informer *pl_kube_informer_destroy(struct pl_kube_informer *i)
{
    if (i == NULL)
        return NULL;
    pthread_mutex_lock(&i->lock);
    i->ending = true;
    while (!i->over) {
        if (i->under_way)
            pl_kube_client_cancel(i->client, &i->call);
        pthread_cond_wait(&i->changed, &i->lock);
    }
    pthread_mutex_unlock(&i->lock);
    pl_kube_watch_destroy(i->watch);
    pl_kube_call_finish(&i->call);
    pthread_mutex_destroy(&i->lock);
    pthread_cond_destroy(&i->changed);
    free(i);
    return NULL;
}

void pl_kube_informer_look(struct pl_kube_informer *i, struct pl_kube_informer_view *ret)
{
    pthread_mutex_lock(&i->lock);
    *ret = i->view;
    pthread_mutex_unlock(&i->lock);
}
