#include "worker_doors.h"

#include "storage/base/map.h"

#include <inttypes.h>
#include <pthread.h>

struct pl_worker_doors {
    pthread_mutex_t lock;
    struct pl_map workers; /* id → pl_principal */
    bool settled;
};

int pl_worker_doors_create(struct pl_worker_doors **ret, struct pl_err *err)
{
    struct pl_worker_doors *d = calloc(1, sizeof *d);

    if (!d)
        return pl_err_nomem(err);
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

static void drop(void *principal)
{
    pl_principal_unref(principal);
}

struct pl_worker_doors *pl_worker_doors_destroy(struct pl_worker_doors *d)
{
    if (!d)
        return NULL;
    pl_map_finish(&d->workers, drop);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return NULL;
}

void pl_worker_doors_settle(struct pl_worker_doors *d)
{
    pthread_mutex_lock(&d->lock);
    d->settled = true;
    pthread_mutex_unlock(&d->lock);
}

int pl_worker_doors_add(struct pl_worker_doors *d, uint64_t worker, uint64_t version, const char *project, const char *stage,
                        struct pl_err *err)
{
    struct pl_principal *p;
    int r = pl_principal_worker(worker, version, project, stage, &p, err);

    if (r < 0)
        return r;
    pthread_mutex_lock(&d->lock);
    r = pl_map_put(&d->workers, &worker, sizeof worker, p, NULL, err);
    pthread_mutex_unlock(&d->lock);
    if (r < 0)
        pl_principal_unref(p);
    return r;
}

void pl_worker_doors_remove(struct pl_worker_doors *d, uint64_t worker)
{
    struct pl_principal *p;

    pthread_mutex_lock(&d->lock);
    p = pl_map_remove(&d->workers, &worker, sizeof worker);
    pthread_mutex_unlock(&d->lock);
    if (p)
        atomic_store(&p->revoked, true);
    pl_principal_unref(p);
}

int pl_worker_doors_find(struct pl_worker_doors *d, uint64_t worker, struct pl_principal **ret, struct pl_err *err)
{
    struct pl_principal *p;
    bool settled;

    pthread_mutex_lock(&d->lock);
    p = pl_map_get(&d->workers, &worker, sizeof worker);
    if (p)
        pl_principal_ref(p);
    settled = d->settled;
    pthread_mutex_unlock(&d->lock);
    if (!p && !settled)
        return pl_err_set(err, PL_EBUSY, "the daemon has just begun, and looks which workers there are");
    if (!p)
        return pl_principal_worker(worker, 0, "", "", ret, err);
    *ret = p;
    return 0;
}
