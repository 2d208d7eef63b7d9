/* A ring of slots, one per log object, that the threads of a pool fill ahead. A store with local files needs
 * no pool: each object is read when it is needed. */
#include "storage/dataset/log/log_reader.h"

#include "storage/system/thread_pool.h"

#include <pthread.h>

#define THREADS (PL_LOG_AHEAD / 2)

struct slot {
    struct pl_log_reader *reader;
    uint64_t seq;
    struct pl_buf bytes;
    int result;
    struct pl_err err;
    bool ready; /* guarded by the reader's lock */
};

struct pl_log_reader {
    struct pl_object_store *objects;
    struct pl_pool *pool; /* NULL = read each object when it is needed */
    uint64_t next, asked, last;
    struct slot slots[PL_LOG_AHEAD]; /* object n is in slot n % PL_LOG_AHEAD */
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool closing;
};

static void get(struct slot *s)
{
    char key[PL_LOG_KEY_BYTES];

    pl_log_key(s->seq, key);
    s->bytes.max = PL_LOG_OBJECT_MAX_BYTES;
    pl_buf_clear(&s->bytes);
    s->err = (struct pl_err){0};
    s->result = pl_object_get_all(s->reader->objects, key, &s->bytes, &s->err);
    if (s->result < 0)
        (void)pl_err_wrap(&s->err, s->result, "%s", key);
}

/* Fetches the object of a slot. Runs on the pool. */
static void fetch(void *arg)
{
    struct slot *s = arg;
    struct pl_log_reader *r = s->reader;
    bool closing;

    pthread_mutex_lock(&r->lock);
    closing = r->closing;
    pthread_mutex_unlock(&r->lock);
    if (!closing)
        get(s);
    pthread_mutex_lock(&r->lock);
    s->ready = true;
    pthread_cond_signal(&r->came);
    pthread_mutex_unlock(&r->lock);
}

/* Submits fetches for all free slots. */
static int ask_ahead(struct pl_log_reader *r, struct pl_err *err)
{
    int result = 0;

    while (result == 0 && r->asked <= r->last && r->asked < r->next + PL_LOG_AHEAD) {
        struct slot *s = &r->slots[r->asked % PL_LOG_AHEAD];

        s->seq = r->asked;
        s->ready = false;
        result = pl_pool_submit(r->pool, fetch, s, err);
        r->asked += result == 0;
    }
    return result;
}

int pl_log_reader_open(struct pl_object_store *objects, uint64_t first, uint64_t last, struct pl_log_reader **ret,
                       struct pl_err *err)
{
    struct pl_log_reader *r = calloc(1, sizeof *r);
    int result = 0;

    if (!r)
        return pl_err_nomem(err);
    r->objects = objects;
    r->next = r->asked = first;
    r->last = last;
    for (size_t i = 0; i < PL_LOG_AHEAD; i++)
        r->slots[i].reader = r;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->came, NULL);
    if (!(pl_object_caps(objects) & PL_OBJECT_FILES) && first < last)
        result = pl_pool_create("log", THREADS, PL_LOG_AHEAD, &r->pool, err);
    if (result < 0) {
        pl_log_reader_close(r);
        return result;
    }
    *ret = r;
    return 0;
}

int pl_log_reader_next(struct pl_log_reader *r, uint64_t *ret_seq, const struct pl_buf **ret, struct pl_err *err)
{
    struct slot *s = &r->slots[r->next % PL_LOG_AHEAD];
    int result;

    if (r->next > r->last)
        return 0;
    *ret_seq = r->next;
    if (r->pool) {
        result = ask_ahead(r, err);
        if (result < 0)
            return result;
        pthread_mutex_lock(&r->lock);
        while (!s->ready)
            pthread_cond_wait(&r->came, &r->lock);
        pthread_mutex_unlock(&r->lock);
    } else {
        s->seq = r->next;
        get(s);
    }
    r->next++;
    *ret = &s->bytes;
    if (s->result < 0 && err)
        *err = s->err;
    return s->result < 0 ? s->result : 1;
}

struct pl_log_reader *pl_log_reader_close(struct pl_log_reader *r)
{
    if (!r)
        return NULL;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_mutex_unlock(&r->lock);
    if (r->pool)
        pl_pool_destroy(r->pool);
    for (size_t i = 0; i < PL_LOG_AHEAD; i++)
        pl_buf_finish(&r->slots[i].bytes);
    pthread_cond_destroy(&r->came);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}
