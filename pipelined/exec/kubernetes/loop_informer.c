/* loop_informer.c: the I/O thread queues each event as JSON text; a loop callback parses and delivers
 * them. */
#include "pipelined/exec/kubernetes/loop_informer.h"

#include "pipelined/text/json_text.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>

struct item {
    STAILQ_ENTRY(item) link;
    enum pl_kube_event event;
    size_t len; /* length of `text` in bytes; 0 = the event has no object */
    char text[];
};
STAILQ_HEAD(item_list, item);

struct pl_kube_feed {
    struct pl_loop_informer_config config;
    struct pl_kube_informer *informer;
    struct pl_loop_work work;
    json_t *known; /* objects of config.known that no event has mentioned so far; NULL after the first SYNCED */
    pthread_mutex_t lock;
    struct item_list items; /* queue of events that wait for the loop; under `lock` */
    size_t n;               /* length of `items`; under `lock` */
    bool ending;
};

static void drop(struct item_list *list)
{
    struct item *i;

    while ((i = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, link);
        free(i);
    }
}

/* Moves the next PL_LOOP_INFORMER_TURN events from the queue to `items`; returns true if more are left. */
static bool take_some(struct pl_kube_feed *f, struct item_list *items)
{
    struct item *i;
    bool more;

    pthread_mutex_lock(&f->lock);
    for (size_t n = 0; n < PL_LOOP_INFORMER_TURN && (i = STAILQ_FIRST(&f->items)); n++) {
        STAILQ_REMOVE_HEAD(&f->items, link);
        STAILQ_INSERT_TAIL(items, i, link);
        f->n--;
    }
    more = !STAILQ_EMPTY(&f->items);
    pthread_mutex_unlock(&f->lock);
    return more;
}

/* Delivers DELETED for each object in `known` that was missing from the first listing. */
static void tell_gone(struct pl_kube_feed *f)
{
    _cleanup_(json_decrefp) json_t *gone = TAKE_PTR(f->known);
    const char *name;
    json_t *unused;

    json_object_foreach(gone, name, unused)
    {
        _cleanup_(json_decrefp) json_t *object = json_pack("{s:{s:s}}", "metadata", "name", name);

        if (object && !f->ending)
            f->config.event(f->config.self, PL_KUBE_DELETED, object);
    }
}

static void hand_on(struct pl_kube_feed *f, enum pl_kube_event e, json_t *object)
{
    if (e == PL_KUBE_SYNCED)
        tell_gone(f);
    else if (f->known)
        json_object_del(f->known, pl_json_str(json_object_get(object, "metadata"), "name"));
    if (!f->ending)
        f->config.event(f->config.self, e, object);
}

static void feed_free(struct pl_kube_feed *f)
{
    drop(&f->items);
    json_decref(f->known);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* Delivers one event. If there is no memory the event is dropped; later changes of the object are still
 * delivered. */
static void deliver_one(struct pl_kube_feed *f, const struct item *i)
{
    json_t *object = i->len ? json_loadb(i->text, i->len, 0, NULL) : NULL;

    if (object || !i->len)
        hand_on(f, i->event, object);
    json_decref(object);
}

/* Delivers a limited number of events, so that the loop stays responsive. A callback may destroy the
 * informer. */
static void deliver(void *arg)
{
    struct pl_kube_feed *f = arg;
    struct item_list items = STAILQ_HEAD_INITIALIZER(items);
    const bool more = take_some(f, &items);
    struct item *i;

    if (f->ending) {
        drop(&items);
        feed_free(f);
        return;
    }
    while ((i = STAILQ_FIRST(&items)) && !f->ending) {
        STAILQ_REMOVE_HEAD(&items, link);
        deliver_one(f, i);
        free(i);
    }
    drop(&items);
    if (more)
        pl_loop_post_work(f->config.loop, &f->work, "kube.feed", deliver, f);
}

/* Makes a queue item of an event. The object is stored as text in the same allocation: text takes a tenth of
 * the memory of JSON objects. */
static struct item *item_create(enum pl_kube_event e, const json_t *object)
{
    const size_t len = object ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;
    struct item *i = malloc(sizeof *i + len);

    if (!i)
        return NULL;
    *i = (struct item){.event = e, .len = len};
    if (object && (len == 0 || json_dumpb(object, i->text, len, JSON_COMPACT) != len)) {
        free(i);
        return NULL;
    }
    return i;
}

/* Queues an event for the loop. Called on the I/O thread. */
static int take(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    struct pl_kube_feed *f = self;
    struct item *i = item_create(e, object);
    bool full;

    if (!i)
        return pl_err_nomem(err);
    pthread_mutex_lock(&f->lock);
    full = f->n >= PL_LOOP_INFORMER_MAX;
    if (!full) {
        STAILQ_INSERT_TAIL(&f->items, i, link);
        f->n++;
    }
    pthread_mutex_unlock(&f->lock);
    if (full) {
        free(i);
        return pl_err_set(err, PL_EBUSY, "the event queue is full: %u events wait", PL_LOOP_INFORMER_MAX);
    }
    pl_loop_post_work(f->config.loop, &f->work, "kube.feed", deliver, f);
    return 0;
}

int pl_loop_informer_create(const struct pl_loop_informer_config *config, struct pl_kube_feed **ret, struct pl_err *err)
{
    struct pl_kube_feed *f = calloc(1, sizeof *f);
    const struct pl_kube_watch_config watch = {.path = config->path,
                                               .labels = config->labels,
                                               .fields = config->fields,
                                               .keep = config->keep,
                                               .metadata_only = config->metadata_only,
                                               .event = take,
                                               .self = f};
    int r;

    if (!f) {
        json_decref(config->known);
        return pl_err_nomem(err);
    }
    f->config = *config;
    f->known = config->known;
    pthread_mutex_init(&f->lock, NULL);
    STAILQ_INIT(&f->items);
    r = pl_kube_informer_create(config->client, &watch, &f->informer, err);
    if (r < 0) {
        feed_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct pl_kube_feed *pl_loop_informer_destroy(struct pl_kube_feed *f)
{
    if (!f)
        return NULL;
    f->informer = pl_kube_informer_destroy(f->informer);
    f->ending = true;
    /* this callback is posted last, so it runs after all deliveries; it frees the informer */
    pl_loop_post_work(f->config.loop, &f->work, "kube.feed", deliver, f);
    return NULL;
}

void pl_loop_informer_problem(struct pl_kube_feed *f, char *out, size_t n)
{
    struct pl_kube_informer_view view;

    pl_kube_informer_look(f->informer, &view);
    snprintf(out, n, "%s", view.problem);
}
