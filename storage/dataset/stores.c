#include "stores.h"

#include "storage/base/map.h"

#include <pthread.h>

struct pl_stores {
    struct pl_object_store *objects;
    char *index_dir;
    pthread_mutex_t mutex;
    struct pl_map open; /* project → struct pl_store */
    int (*opened)(void *self, struct pl_store *store, struct pl_err *err);
    void *self;
};

int pl_stores_open(struct pl_object_store *objects, const char *index_dir, struct pl_stores **ret, struct pl_err *err)
{
    struct pl_stores *s = calloc(1, sizeof *s);

    if (!s)
        return pl_err_nomem(err);
    s->objects = objects;
    s->index_dir = strdup(index_dir);
    if (!s->index_dir) {
        free(s);
        return pl_err_nomem(err);
    }
    pthread_mutex_init(&s->mutex, NULL);
    *ret = s;
    return 0;
}

static int open_project(struct pl_stores *s, const char *project, struct pl_store **ret, struct pl_err *err)
{
    int r = pl_store_open(s->objects, project, s->index_dir, ret, err);

    if (r < 0)
        return pl_err_wrap(err, r, "store of project %s", project);
    if (s->opened)
        r = s->opened(s->self, *ret, err);
    r = r < 0 ? r : pl_map_put(&s->open, project, strlen(project), *ret, NULL, err);
    if (r < 0)
        *ret = pl_store_close(*ret);
    return r;
}

int pl_stores_get(struct pl_stores *s, const char *project, struct pl_store **ret, struct pl_err *err)
{
    struct pl_store *store;
    int r = 0;

    pthread_mutex_lock(&s->mutex);
    store = pl_map_get(&s->open, project, strlen(project));
    if (!store)
        r = open_project(s, project, &store, err);
    pthread_mutex_unlock(&s->mutex);
    if (r == 0)
        *ret = store;
    return r;
}

void pl_stores_on_open(struct pl_stores *s, int (*opened)(void *self, struct pl_store *store, struct pl_err *err), void *self)
{
    s->opened = opened;
    s->self = self;
}

struct pl_store *pl_stores_peek(struct pl_stores *s, const char *project)
{
    struct pl_store *store;

    pthread_mutex_lock(&s->mutex);
    store = pl_map_get(&s->open, project, strlen(project));
    pthread_mutex_unlock(&s->mutex);
    return store;
}

struct pl_object_store *pl_stores_objects(struct pl_stores *s)
{
    return s->objects;
}

static void close_store(void *store)
{
    pl_store_close(store);
}

struct pl_stores *pl_stores_close(struct pl_stores *s)
{
    if (!s)
        return NULL;
    pl_map_finish(&s->open, close_store);
    pthread_mutex_destroy(&s->mutex);
    free(s->index_dir);
    free(s);
    return NULL;
}
