/* Keeps a map of the owners that have work running or waiting. When a piece of work ends, the owner's next
 * piece is submitted to the pool. */
#include "storage/system/pool_turns.h"

#include "storage/base/map.h"

#include <pthread.h>

struct turn {
    struct turn *next;
    struct pl_turns *turns;
    struct owner *owner;
    pl_pool_fn fn;
    void *arg;
};

/* An owner that has work running or waiting. */
struct owner {
    char *who;
    unsigned running, waiting;
    struct turn *first, *last; /* queue of the owner's waiting work */
};

struct pl_turns {
    struct pl_pool *pool;
    unsigned each;
    pthread_cond_t none;  /* signalled when no owner is left in the map */
    pthread_mutex_t lock; /* guards the fields below, and all owners */
    struct pl_map owners;
};

int pl_turns_create(struct pl_pool *pool, struct pl_turns **ret, struct pl_err *err)
{
    struct pl_turns *t = calloc(1, sizeof *t);

    if (!t)
        return pl_err_nomem(err);
    t->pool = pool;
    t->each = (pl_pool_slow_threads(pool) + 1) / 2;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->none, NULL);
    *ret = t;
    return 0;
}

struct pl_turns *pl_turns_destroy(struct pl_turns *t)
{
    if (!t)
        return NULL;
    pthread_mutex_lock(&t->lock);
    /* work that has already replied to its client may still be counted as running */
    while (t->owners.len)
        pthread_cond_wait(&t->none, &t->lock);
    pthread_mutex_unlock(&t->lock);
    pl_map_finish(&t->owners, NULL); /* the map is empty */
    pthread_cond_destroy(&t->none);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

/* Finds or adds the owner; NULL without memory. With the lock held. */
static struct owner *owner_of(struct pl_turns *t, const char *who)
{
    struct owner *o = pl_map_get(&t->owners, who, strlen(who));

    if (o)
        return o;
    o = calloc(1, sizeof *o);
    if (o)
        o->who = strdup(who);
    if (o && o->who && pl_map_put(&t->owners, who, strlen(who), o, NULL, NULL) == 0)
        return o;
    if (o)
        free(o->who);
    free(o);
    return NULL;
}

/* Removes the owner if none of its work runs or waits. With the lock held. */
static void owner_leave(struct pl_turns *t, struct owner *o)
{
    if (o->running || o->waiting)
        return;
    (void)pl_map_remove(&t->owners, o->who, strlen(o->who));
    free(o->who);
    free(o);
    if (!t->owners.len)
        pthread_cond_signal(&t->none);
}

/* Counts a piece of work as finished. Returns the owner's next piece and counts it as running; NULL if none
 * waits. With the lock held. */
static struct turn *owner_next(struct pl_turns *t, struct owner *o)
{
    struct turn *next = o->first;

    o->running--;
    if (next) {
        o->first = next->next;
        o->waiting--;
        o->running++;
    }
    owner_leave(t, o);
    return next;
}

static void turn_run(void *arg)
{
    struct turn *turn = arg, *next;
    struct pl_turns *t = turn->turns;

    do {
        turn->fn(turn->arg);
        pthread_mutex_lock(&t->lock);
        next = owner_next(t, turn->owner);
        pthread_mutex_unlock(&t->lock);
        free(turn);
        /* submit the next request to the pool, behind the work of other owners; if the pool is full, run it
         * on this thread */
        turn = next;
    } while (turn && pl_pool_submit_slow(t->pool, turn_run, turn, NULL) < 0);
}

int pl_turns_run(struct pl_turns *t, const char *who, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    struct turn *turn = calloc(1, sizeof *turn);
    struct owner *o;
    int r = 0;

    if (!turn)
        return pl_err_nomem(err);
    *turn = (struct turn){.turns = t, .fn = fn, .arg = arg};
    pthread_mutex_lock(&t->lock);
    o = turn->owner = owner_of(t, who);
    if (!o) {
        r = pl_err_nomem(err);
    } else if (o->running < t->each) {
        r = pl_pool_submit_slow(t->pool, turn_run, turn, err);
        o->running += r == 0;
        owner_leave(t, o);
    } else if (o->waiting >= PL_TURNS_WAITING) {
        r = pl_err_set(err, PL_EBUSY, "%u long requests of %s are running, and %u more wait: try again later", o->running, who,
                       o->waiting);
    } else {
        *(o->first ? &o->last->next : &o->first) = turn;
        o->last = turn;
        o->waiting++;
    }
    pthread_mutex_unlock(&t->lock);
    if (r < 0)
        free(turn);
    return r;
}
