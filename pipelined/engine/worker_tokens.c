/* worker_tokens: a map from each worker to its two principals, under one lock: one principal for the token
 * that the worker was started with, and one for the token that the worker gets in exchange. */
#include "pipelined/engine/worker_tokens.h"

#include "storage/base/map.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

struct door {
    struct pl_principal *first; /* principal of the first token, with which the worker was started */
    struct pl_principal *own;   /* principal of the token that the worker got in exchange */
    /* incarnation that exchanged the first token; "" = not exchanged so far */
    char incarnation[PL_INCARNATION_BYTES];
    /* the exchanged token was used at least once: the first token is no longer accepted */
    bool entered;
};

struct pl_worker_doors {
    pthread_mutex_t lock;
    struct pl_map workers; /* id → struct door */
    bool settled;
};

int pl_worker_tokens_create(struct pl_worker_doors **ret, struct pl_err *err)
{
    struct pl_worker_doors *d = calloc(1, sizeof *d);

    if (!d)
        return pl_err_nomem(err);
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

static void drop(void *door)
{
    struct door *o = door;

    if (!o)
        return;
    pl_principal_unref(o->first);
    pl_principal_unref(o->own);
    free(o);
}

struct pl_worker_doors *pl_worker_tokens_destroy(struct pl_worker_doors *d)
{
    if (!d)
        return NULL;
    pl_map_finish(&d->workers, drop);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return NULL;
}

void pl_worker_tokens_settle(struct pl_worker_doors *d)
{
    pthread_mutex_lock(&d->lock);
    d->settled = true;
    pthread_mutex_unlock(&d->lock);
}

int pl_worker_tokens_add(struct pl_worker_doors *d, uint64_t worker, uint64_t version, const char *project, const char *stage,
                         const char *reads, size_t len, struct pl_err *err)
{
    struct door *door = calloc(1, sizeof *door);
    int r = door ? pl_principal_worker(worker, version, project, stage, &door->first, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_principal_worker(worker, version, project, stage, &door->own, err);
    r = r < 0 ? r : pl_principal_worker_reads(door->first, reads, len, err);
    r = r < 0 ? r : pl_principal_worker_reads(door->own, reads, len, err);
    if (r < 0) {
        drop(door);
        return r;
    }
    pthread_mutex_lock(&d->lock);
    r = pl_map_put(&d->workers, &worker, sizeof worker, door, NULL, err);
    pthread_mutex_unlock(&d->lock);
    if (r < 0)
        drop(door);
    return r;
}

void pl_worker_tokens_remove(struct pl_worker_doors *d, uint64_t worker)
{
    struct door *door;

    pthread_mutex_lock(&d->lock);
    door = pl_map_remove(&d->workers, &worker, sizeof worker);
    pthread_mutex_unlock(&d->lock);
    if (!door)
        return;
    atomic_store(&door->first->revoked, true);
    atomic_store(&door->own->revoked, true);
    drop(door);
}

/* Marks the first token as exchanged by this incarnation, unless another incarnation did so before. Returns
 * true if this incarnation is the one that exchanged it. With the lock held. */
static bool is_its(struct door *door, const char *incarnation)
{
    if (!door->incarnation[0])
        snprintf(door->incarnation, sizeof door->incarnation, "%s", incarnation);
    atomic_store(&door->first->exchanged, true);
    return pl_streq(door->incarnation, incarnation);
}

int pl_worker_tokens_exchange(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_err *err)
{
    struct door *door;
    bool ok;

    pthread_mutex_lock(&d->lock);
    door = pl_map_get(&d->workers, &worker, sizeof worker);
    ok = !door || is_its(door, incarnation);
    pthread_mutex_unlock(&d->lock);
    return ok ? 0
              : pl_err_set(err, PL_EFORBIDDEN,
                           "the token of worker %" PRIu64 " was already exchanged by another process: it may have been stolen",
                           worker);
}

/* Returns the principal for a token of this incarnation (NULL = the first token), or NULL if the token is not
 * accepted. With the lock held. */
static struct pl_principal *opens(struct door *door, const char *incarnation)
{
    if (!incarnation)
        return door->entered ? NULL : door->first;
    if (!is_its(door, incarnation))
        return NULL;
    door->entered = true;
    return door->own;
}

int pl_worker_tokens_find(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_principal **ret,
                          struct pl_err *err)
{
    struct pl_principal *p;
    struct door *door;
    bool settled;

    pthread_mutex_lock(&d->lock);
    door = pl_map_get(&d->workers, &worker, sizeof worker);
    p = door ? opens(door, incarnation) : NULL;
    if (p)
        pl_principal_ref(p);
    settled = d->settled;
    pthread_mutex_unlock(&d->lock);
    if (door && !p)
        return pl_err_set(err, PL_EAUTH, "this token of worker %" PRIu64 " was exchanged when the worker attached", worker);
    if (!p && !settled)
        return pl_err_set(err, PL_EBUSY, "the daemon has just started and is still restoring its workers: try again");
    if (!p)
        return pl_principal_worker(worker, 0, "", "", ret, err);
    *ret = p;
    return 0;
}
