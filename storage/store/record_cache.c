/* A map from id to record and a list of the records in order of use, under one lock. If a record is evicted
 * while threads are reading its bytes, the last of these threads frees it. */
#include "storage/store/record_cache.h"

#include "storage/base/map.h"

#include <pthread.h>

#define RECORD_OVERHEAD_BYTES 192u /* estimated size of the struct and its entry in the map */

struct cached_record {
    struct cached_record *older, *newer;
    struct pl_hash id;
    size_t n;
    unsigned users; /* number of threads that are reading the record's bytes */
    bool forgotten; /* true: the record was evicted; the last thread that reads it frees it */
    _Atomic(void *) aside;
    uint8_t bytes[];
};

struct pl_record_cache {
    pthread_mutex_t lock;
    struct pl_map by_id;
    struct cached_record *oldest, *newest;
    size_t used, max;
};

struct pl_record_cache *pl_record_cache_create(size_t max_bytes)
{
    struct pl_record_cache *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    c->max = max_bytes;
    return c;
}

static void record_free(void *record)
{
    struct cached_record *r = record;

    free(r->aside);
    free(r);
}

/* Returns the number of bytes that a record counts towards the cache's bound, including the decoded form that
 * may be stored with it (`aside`). */
static size_t record_size(const struct cached_record *r)
{
    return r->n + pl_byte_view_decoded_max(r->n) + RECORD_OVERHEAD_BYTES;
}

struct pl_record_cache *pl_record_cache_destroy(struct pl_record_cache *c)
{
    if (c == NULL)
        return NULL;
    pl_map_finish(&c->by_id, record_free);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

static void cache_unlink(struct pl_record_cache *c, struct cached_record *r)
{
    *(r->older != NULL ? &r->older->newer : &c->oldest) = r->newer;
    *(r->newer != NULL ? &r->newer->older : &c->newest) = r->older;
    r->older = NULL;
    r->newer = NULL;
}

static void cache_link(struct pl_record_cache *c, struct cached_record *r)
{
    r->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = r;
    c->newest = r;
}

static void cache_drop(struct pl_record_cache *c, struct cached_record *r)
{
    cache_unlink(c, r);
    c->used -= record_size(r);
    (void)pl_map_remove(&c->by_id, r->id.b, PL_HASH_BYTES);
    r->forgotten = r->users > 0;
    if (!r->forgotten)
        record_free(r);
}

/* Finds a record and makes it the most recently used one. With the lock held. */
static struct cached_record *cache_find(struct pl_record_cache *c, const struct pl_hash *id)
{
    struct cached_record *r = pl_map_get(&c->by_id, id->b, PL_HASH_BYTES);

    if (r != NULL) {
        cache_unlink(c, r);
        cache_link(c, r);
    }
    return r;
}

bool pl_record_cache_show(struct pl_record_cache *c, const struct pl_hash *id, pl_byte_view_fn look, void *arg, int *ret,
                          struct pl_err *err)
{
    struct cached_record *r;

    pthread_mutex_lock(&c->lock);
    r = cache_find(c, id);
    if (r != NULL)
        r->users++;
    pthread_mutex_unlock(&c->lock);
    if (r == NULL)
        return false;
    *ret = look(arg, &(struct pl_byte_view){r->bytes, r->n, &r->aside}, err);
    pthread_mutex_lock(&c->lock);
    if (--r->users == 0 && r->forgotten)
        record_free(r);
    pthread_mutex_unlock(&c->lock);
    return true;
}

bool pl_record_cache_get(struct pl_record_cache *c, const struct pl_hash *id, struct pl_buf *ret)
{
    struct cached_record *r;
    bool ok = false;

    pthread_mutex_lock(&c->lock);
    r = cache_find(c, id);
    if (r != NULL) {
        pl_buf_clear(ret);
        ok = pl_buf_add(ret, r->bytes, r->n, NULL) == 0;
    }
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void pl_record_cache_put(struct pl_record_cache *c, const struct pl_hash *id, const void *bytes, size_t n)
{
    struct cached_record *r;

    if (n + RECORD_OVERHEAD_BYTES > c->max / 8)
        return;
    r = malloc(sizeof(*r) + n);
    if (r == NULL)
        return;
    *r = (struct cached_record){.id = *id, .n = n};
    if (n > 0)
        memcpy(r->bytes, bytes, n);
    pthread_mutex_lock(&c->lock);
    if (pl_map_get(&c->by_id, id->b, PL_HASH_BYTES) != NULL || pl_map_put(&c->by_id, id->b, PL_HASH_BYTES, r, NULL, NULL) < 0) {
        free(r);
    } else {
        cache_link(c, r);
        c->used += record_size(r);
        while (c->used > c->max)
            cache_drop(c, c->oldest);
    }
    pthread_mutex_unlock(&c->lock);
}
