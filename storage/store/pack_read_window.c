/* PL_PACK_WINDOWS windows under one lock, which is not held during a fetch. A window that a thread reads
 * (`users`) is not replaced.
 *
 *   EMPTY ──fetch──▶ LOADING ──▶ READY ──replaced, or found damaged──▶ EMPTY
 *                       └─error─▶ EMPTY */
#include "storage/store/pack_read_window.h"

#include "storage/pack/pack_reader.h"

#include <pthread.h>

/* maximum distance between the end of a window and a read that still counts as sequential */
#define WINDOW_GAP ((uint64_t)1 << 20)

enum window_state { WINDOW_EMPTY, WINDOW_LOADING, WINDOW_READY };

struct window {
    enum window_state state;
    struct pl_hash pack;
    uint64_t start, end; /* range of the pack, in bytes */
    struct pl_buf bytes;
    unsigned users;
    uint64_t used;
};

struct pl_pack_read_windows {
    pl_pack_read_window_fetch fetch;
    void *self;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct window windows[PL_PACK_WINDOWS];
    uint64_t tick;
};

struct pl_pack_read_windows *pl_pack_windows_create(pl_pack_read_window_fetch fetch, void *self)
{
    struct pl_pack_read_windows *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->fetch = fetch;
    w->self = self;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return w;
}

struct pl_pack_read_windows *pl_pack_windows_destroy(struct pl_pack_read_windows *w)
{
    if (w == NULL)
        return NULL;
    for (size_t i = 0; i < PL_PACK_WINDOWS; i++)
        pl_buf_finish(&w->windows[i].bytes);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
    return NULL;
}

static bool window_covers(const struct window *v, const struct pl_hash *pack, uint64_t start, uint64_t end)
{
    return v->state != WINDOW_EMPTY && v->start <= start && end <= v->end && pl_hash_eq(&v->pack, pack);
}

/* Returns how many bytes to read from `start`: twice the size of the window that ends near `start`; the
 * minimum if there is no such window. */
static uint64_t windows_plan(const struct pl_pack_read_windows *w, const struct pl_hash *pack, uint64_t start)
{
    uint64_t size = PL_PACK_READ_WINDOW_LEAST;

    for (size_t i = 0; i < PL_PACK_WINDOWS; i++) {
        const struct window *v = &w->windows[i];

        if (v->state != WINDOW_EMPTY && pl_hash_eq(&v->pack, pack) && start <= v->end + WINDOW_GAP &&
            start + WINDOW_GAP >= v->end)
            size = PL_MAX(size, 2 * (v->end - v->start));
    }
    return PL_MIN(size, PL_PACK_READ_WINDOW_BYTES);
}

/* Returns the least recently used window that no thread uses; NULL if there is none. */
static struct window *windows_victim(struct pl_pack_read_windows *w)
{
    struct window *victim = NULL;

    for (size_t i = 0; i < PL_PACK_WINDOWS; i++) {
        struct window *v = &w->windows[i];

        if (v->state != WINDOW_LOADING && v->users == 0 && (victim == NULL || v->used < victim->used))
            victim = v;
    }
    return victim;
}

/* Fetches the window's range. Called without the lock: the state LOADING reserves the window for the calling
 * thread. */
static int window_fetch(const struct pl_pack_read_windows *w, struct window *v, struct pl_err *err)
{
    pl_buf_clear(&v->bytes);
    v->bytes.max = (size_t)(v->end - v->start);
    return w->fetch(w->self, &v->pack, v->start, v->end, &v->bytes, err);
}

/* Returns a window with the bytes start..end and counts the caller as its user. If no window has these bytes,
 * fetches one, or waits for a thread that is fetching it. */
static int windows_acquire(struct pl_pack_read_windows *w, const struct pl_hash *pack, uint64_t start, uint64_t end,
                           struct window **ret, bool *ret_new_spot, struct pl_err *err)
{
    struct window *v = NULL;
    int r;

    pthread_mutex_lock(&w->lock);
    while (true) {
        for (size_t i = 0; i < PL_PACK_WINDOWS && v == NULL; i++)
            v = window_covers(&w->windows[i], pack, start, end) ? &w->windows[i] : NULL;
        if (v != NULL && v->state == WINDOW_READY)
            break;
        if (v == NULL && (v = windows_victim(w)) != NULL) {
            uint64_t size = windows_plan(w, pack, start);

            *ret_new_spot = size == PL_PACK_READ_WINDOW_LEAST;
            *v = (struct window){WINDOW_LOADING, *pack, start, PL_MAX(end, start + size), v->bytes, 0, 0};
            pthread_mutex_unlock(&w->lock);
            r = window_fetch(w, v, err);
            pthread_mutex_lock(&w->lock);
            /* the fetched range is shorter if the pack ends within it */
            v->end = v->start + (r == 0 ? v->bytes.len : 0);
            v->state = r == 0 ? WINDOW_READY : WINDOW_EMPTY;
            pthread_cond_broadcast(&w->changed);
            if (r == 0 && v->end < end)
                r = pl_err_set(err, PL_ECORRUPT, "the pack ends before the record");
            if (r < 0)
                goto out;
            break;
        }
        pthread_cond_wait(&w->changed, &w->lock);
        v = NULL;
    }
    v->users++;
    v->used = ++w->tick;
    *ret = v;
    r = 0;
out:
    pthread_mutex_unlock(&w->lock);
    return r;
}

int pl_pack_windows_read(struct pl_pack_read_windows *w, const struct pl_hash *id, const struct pl_location *where,
                         struct pl_buf *ret, bool *ret_new_spot, struct pl_err *err)
{
    struct pl_pack_entry entry = {*id, where->offset, where->stored, where->raw, where->codec, where->kind};
    uint64_t start = where->offset, end = start + PL_PACK_RECORD_BYTES + where->stored;
    bool new_spot = false;
    struct window *v;
    int r = windows_acquire(w, &where->pack, start, end, &v, &new_spot, err);

    if (ret_new_spot != NULL)
        *ret_new_spot = new_spot;
    if (r < 0)
        return r;
    r = pl_pack_record_decode(v->bytes.data + (start - v->start), &entry, ret, err);
    pthread_mutex_lock(&w->lock);
    if (r == PL_ECORRUPT)
        /* the bytes may have been damaged in transit: fetch them again, even while other threads still
         * read this window */
        v->end = v->start;
    if (--v->users == 0)
        pthread_cond_broadcast(&w->changed);
    if (r == PL_ECORRUPT && v->users == 0)
        v->state = WINDOW_EMPTY;
    pthread_mutex_unlock(&w->lock);
    return r;
}
