/* The first thread that needs a project's store opens it, without holding the mutex. Other threads that
 * need the same store wait for that thread; threads that need other stores do not.
 *
 *   (none) ──get──▶ opening ──read──▶ listed ──opened() returned──▶ open
 *      ▲                │                │
 *      └────────────────┴── error ───────┘ */
#include "storage/store/project_stores.h"

#include "storage/base/map.h"
#include "storage/system/lock_order.h"

#include <pthread.h>

struct project_store {
    struct pl_store *store; /* set from the state "listed" on */
    bool open;
    /* error code if the opening failed, otherwise 0; the threads that waited return it, with the message
     * in `err` */
    int failed;
    struct pl_err err;
    /* threads in pl_project_stores_get; after a failed opening the last of them frees this struct */
    unsigned users;
};

struct pl_project_stores {
    struct pl_object_store *objects;
    char *index_dir;
    pthread_mutex_t mutex; /* guards the map and its values; held only for lookups */
    pthread_cond_t opened_one;
    struct pl_map projects; /* project name → struct project_store */
    int (*opened)(void *self, struct pl_store *store, struct pl_err *err);
    void *self;
};

int pl_project_stores_open(struct pl_object_store *objects, const char *index_dir, struct pl_project_stores **ret,
                           struct pl_err *err)
{
    struct pl_project_stores *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    s->objects = objects;
    s->index_dir = strdup(index_dir);
    if (!s->index_dir) {
        free(s);
        return pl_err_nomem(err);
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->opened_one, NULL);
    *ret = s;
    return 0;
}

static int open_project(struct pl_project_stores *s, const char *project, struct project_store *p, struct pl_err *err)
{
    struct pl_store *store = NULL;
    int r = pl_store_open(s->objects, project, s->index_dir, &store, err);

    if (r < 0)
        return pl_err_wrap(err, r, "store of project %s", project);
    pthread_mutex_lock(&s->mutex);
    p->store = store;
    pthread_mutex_unlock(&s->mutex);
    return s->opened ? s->opened(s->self, store, err) : 0;
}

/* Adds the project to the map and opens its store. With the mutex held; it is released during the opening. */
static int open_first(struct pl_project_stores *s, const char *project, struct project_store **ret, struct pl_err *err)
{
    struct project_store *p = calloc(1, sizeof *p);
    struct pl_store *unwanted = NULL;
    int r = p ? pl_map_put(&s->projects, project, strlen(project), p, NULL, err) : pl_err_nomem(err);

    if (r < 0) {
        free(p);
        return r;
    }
    p->users = 1;
    pthread_mutex_unlock(&s->mutex);
    r = open_project(s, project, p, &p->err);
    pthread_mutex_lock(&s->mutex);
    p->open = r == 0;
    p->failed = r;
    if (r < 0) {
        (void)pl_map_remove(&s->projects, project, strlen(project));
        unwanted = TAKE_PTR(p->store);
    }
    pthread_cond_broadcast(&s->opened_one);
    pthread_mutex_unlock(&s->mutex);
    pl_store_close(unwanted);
    pthread_mutex_lock(&s->mutex);
    *ret = p;
    return 0;
}

/* Waits until the thread that is opening the store has succeeded or failed. The caller holds the mutex. */
static void wait_for(struct pl_project_stores *s, struct project_store *p)
{
    p->users++;
    while (!p->open && p->failed == 0)
        pthread_cond_wait(&s->opened_one, &s->mutex);
}

/* Returns the result of the opening and ends the caller's use of `p`. With the mutex held. */
static int outcome(struct project_store *p, struct pl_store **ret, struct pl_err *err)
{
    const int r = p->failed;

    if (r == 0)
        *ret = p->store;
    else if (err)
        *err = p->err;
    if (--p->users == 0 && r < 0)
        free(p);
    return r;
}

int pl_project_stores_get(struct pl_project_stores *s, const char *project, struct pl_store **ret, struct pl_err *err)
{
    struct project_store *p;
    bool others;
    int r;

    pl_lock_order_request("the store of a project");
    pthread_mutex_lock(&s->mutex);
    do {
        p = pl_map_get(&s->projects, project, strlen(project));
        others = p != NULL;
        r = 0;
        if (p)
            wait_for(s, p);
        else
            r = open_first(s, project, &p, err);
        if (r == 0)
            r = outcome(p, ret, err);
        /* another thread was opening the store, and its opening was cancelled because that thread's client
         * disconnected. The client of this thread still waits, so try again */
    } while (r == PL_ECANCELED && others);
    pthread_mutex_unlock(&s->mutex);
    return r;
}

void pl_project_stores_on_open(struct pl_project_stores *s, int (*opened)(void *self, struct pl_store *store, struct pl_err *err),
                               void *self)
{
    s->opened = opened;
    s->self = self;
}

struct pl_store *pl_project_stores_peek(struct pl_project_stores *s, const char *project)
{
    struct project_store *p;
    struct pl_store *store;

    pthread_mutex_lock(&s->mutex);
    p = pl_map_get(&s->projects, project, strlen(project));
    store = p ? p->store : NULL;
    pthread_mutex_unlock(&s->mutex);
    return store;
}

struct pl_object_store *pl_project_stores_objects(struct pl_project_stores *s)
{
    return s->objects;
}

static void close_store(void *project)
{
    struct project_store *p = project;

    pl_store_close(p->store);
    free(p);
}

struct pl_project_stores *pl_project_stores_close(struct pl_project_stores *s)
{
    if (!s)
        return NULL;
    pl_map_finish(&s->projects, close_store);
    pthread_cond_destroy(&s->opened_one);
    pthread_mutex_destroy(&s->mutex);
    free(s->index_dir);
    free(s);
    return NULL;
}
