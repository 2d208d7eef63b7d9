#include "remote_window.h"

#include "storage/pack/pack_reader.h"
#include <pthread.h>
#include <stdio.h>

#define WINDOW_LEAST ((uint64_t)256 << 10)
#define WINDOW_GAP   ((uint64_t)1 << 20) /* still "behind the last one" */

enum window_state { WINDOW_EMPTY, WINDOW_LOADING, WINDOW_READY };

struct window {
    enum window_state state;
    struct pl_hash pack;
    uint64_t start, end; /* bytes of the pack */
    struct pl_buf bytes;
    unsigned users;
    uint64_t used;
};

struct remote_windows {
    struct pl_http_client *client;
    const char *project;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct window windows[PL_REMOTE_WINDOWS];
    uint64_t tick;
};

struct remote_windows *pl_remote_windows_create(struct pl_http_client *client, const char *project)
{
    struct remote_windows *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->client = client;
    w->project = project;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return w;
}

struct remote_windows *pl_remote_windows_destroy(struct remote_windows *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < PL_REMOTE_WINDOWS; i++)
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

/* How much to read from `start`: more when the last reading stopped just before. */
static uint64_t windows_plan(const struct remote_windows *w, const struct pl_hash *pack, uint64_t start)
{
    uint64_t size = WINDOW_LEAST;

    for (size_t i = 0; i < PL_REMOTE_WINDOWS; i++) {
        const struct window *v = &w->windows[i];

        if (v->state != WINDOW_EMPTY && pl_hash_eq(&v->pack, pack) && start <= v->end + WINDOW_GAP &&
            start + WINDOW_GAP >= v->end)
            size = PL_MAX(size, 2 * (v->end - v->start));
    }
    return PL_MIN(size, PL_REMOTE_WINDOW_BYTES);
}

static struct window *windows_victim(struct remote_windows *w)
{
    struct window *victim = NULL;

    for (size_t i = 0; i < PL_REMOTE_WINDOWS; i++) {
        struct window *v = &w->windows[i];

        if (v->state != WINDOW_LOADING && v->users == 0 && (!victim || v->used < victim->used))
            victim = v;
    }
    return victim;
}

/* Fetches what was planned. Without the lock: the window is LOADING and nobody else's. */
static int window_fetch(struct remote_windows *w, struct window *v, struct pl_err *err)
{
    char path[PL_NAME_MAX_BYTES + 160], range[64], hex[PL_HASH_HEX + 1];
    const char *const headers[] = {range, NULL};
    struct pl_http_call call = {.method = "GET", .path = path, .headers = headers, .out = &v->bytes};
    struct pl_http_answer answer;
    int r;

    snprintf(path, sizeof(path), "/api/v1/projects/%s/packs/%s", w->project, pl_hash_hex(&v->pack, hex));
    snprintf(range, sizeof(range), "Range: bytes=%llu-%llu", (unsigned long long)v->start, (unsigned long long)v->end - 1);
    pl_buf_clear(&v->bytes);
    v->bytes.max = (size_t)(v->end - v->start);
    r = pl_http_client_call(w->client, &call, &answer, err);
    if (r == 0 && answer.status != 206)
        r = pl_err_set(err, PL_EPROTO, "pack %.12s: the server does not serve ranges (status %u)", hex, answer.status);
    return r;
}

/* A window with the bytes, in use by the caller. */
static int windows_acquire(struct remote_windows *w, const struct pl_hash *pack, uint64_t start, uint64_t end,
                           struct window **ret, struct pl_err *err)
{
    struct window *v = NULL;
    int r;

    pthread_mutex_lock(&w->lock);
    while (true) {
        for (size_t i = 0; i < PL_REMOTE_WINDOWS && !v; i++)
            v = window_covers(&w->windows[i], pack, start, end) ? &w->windows[i] : NULL;
        if (v && v->state == WINDOW_READY)
            break;
        if (!v && (v = windows_victim(w))) {
            uint64_t size = windows_plan(w, pack, start);

            *v = (struct window){WINDOW_LOADING, *pack, start, PL_MAX(end, start + size), v->bytes, 0, 0};
            pthread_mutex_unlock(&w->lock);
            r = window_fetch(w, v, err);
            pthread_mutex_lock(&w->lock);
            v->end = v->start + (r == 0 ? v->bytes.len : 0); /* the pack may end before */
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

int pl_remote_windows_read(struct remote_windows *w, const struct pl_hash *id, const struct pl_location *where,
                           struct pl_buf *ret, struct pl_err *err)
{
    struct pl_pack_entry entry = {*id, where->offset, where->stored, where->raw, where->codec, where->kind};
    uint64_t start = where->offset, end = start + PL_PACK_RECORD_BYTES + where->stored;
    char hex[PL_HASH_HEX + 1];
    struct window *v;
    int r = windows_acquire(w, &where->pack, start, end, &v, err);

    if (r < 0)
        return pl_err_wrap(err, r, "pack %.12s", pl_hash_hex(&where->pack, hex));
    r = pl_pack_record_decode(v->bytes.data + (start - v->start), &entry, ret, err);
    pthread_mutex_lock(&w->lock);
    if (--v->users == 0)
        pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return r < 0 ? pl_err_wrap(err, r, "pack %.12s", pl_hash_hex(&where->pack, hex)) : 0;
}
