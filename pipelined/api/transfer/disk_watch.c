/* Watches one or two folders: the store's folder and the daemon's. The thread that calls statvfs does not
 * have the lock meanwhile; it takes the lock to record, log and publish the result. */
#include "pipelined/api/transfer/disk_watch.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PLACES_MAX 2

struct place {
    char *path;
    const char *of;
    bool refuses; /* true if pushes are refused while this disk is full */
    uint64_t free_bytes, total_bytes;
    enum pl_disk_space room;
    int64_t short_us; /* wall clock; since when it is short of space, as far as this daemon has seen; 0 = it is not */
    bool looked_at;   /* a thread is calling statvfs for this folder */
};

struct pl_disk_watch {
    struct pl_db *db;
    pthread_mutex_t lock; /* guards all fields of `places`, except path, of and refuses */
    struct place places[PLACES_MAX];
    size_t n;
};

/* ---- report a change ---- */

struct change {
    char *path;
    const char *of;
    uint64_t free_bytes, total_bytes;
    enum pl_disk_space room;
};

static struct change *change_free(struct change *c)
{
    if (c)
        free(c->path);
    free(c);
    return NULL;
}

static int write_change(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct change *c = arg;

    return pl_tx_event(tx, "store.low",
                       json_pack("{s:s, s:s, s:s, s:I, s:I}", "state", pl_disk_space_name(c->room), "of", c->of, "path", c->path,
                                 "free_bytes", (json_int_t)c->free_bytes, "total_bytes", (json_int_t)c->total_bytes),
                       err);
}

/* Frees the change of state after its event was written. If the event could not be written, that is only
 * logged, because the log has reported the change itself. */
static void change_written(void *arg, int r, const struct pl_err *err)
{
    if (r < 0)
        pl_log_warn("disk", "cannot write the event store.low: %s", err->msg);
    change_free(arg);
}

static void log_change(const struct place *p)
{
    char left[32], total[32];

    pl_size_text(p->free_bytes, left);
    pl_size_text(p->total_bytes, total);
    if (p->room == PL_ROOM_OK)
        pl_log_info("disk", "%s has %s free of %s, which is enough again", p->path, left, total);
    else
        pl_log_warn("disk", "%s has %s free of %s: %s", p->path, left, total,
                    p->room == PL_ROOM_LOW ? "running low" : "pushes are refused, running jobs finish");
}

static void tell(struct pl_disk_watch *w, const struct place *p)
{
    struct change *c = calloc(1, sizeof *c);
    struct pl_err err = {0};
    int r;

    log_change(p);
    if (c) {
        *c = (struct change){strdup(p->path), p->of, p->free_bytes, p->total_bytes, p->room};
        r = c->path ? pl_db_submit(w->db, PL_TX_UNLOGGED, write_change, change_written, c, &err) : pl_err_nomem(&err);
    } else {
        r = pl_err_nomem(&err);
    }
    if (r < 0) {
        pl_log_warn("disk", "cannot write the event store.low: %s", err.msg);
        change_free(c);
    }
}

/* ---- check a disk ---- */

/* Records the result of statvfs. The caller holds the lock, so that changes are reported in order. */
static void take_in(struct pl_disk_watch *w, struct place *p, const struct statvfs *fs)
{
    enum pl_disk_space before = p->room;

    p->free_bytes = (uint64_t)fs->f_bavail * fs->f_frsize;
    p->total_bytes = (uint64_t)fs->f_blocks * fs->f_frsize;
    p->room = pl_disk_space_next(before, p->free_bytes, p->total_bytes);
    if (p->room == PL_ROOM_FULL && !p->refuses)
        p->room = PL_ROOM_LOW;
    if (p->room == PL_ROOM_OK || before == PL_ROOM_OK)
        p->short_us = p->room == PL_ROOM_OK ? 0 : pl_clock_wall_us();
    if (p->room != before)
        tell(w, p);
}

static bool begin_look(struct pl_disk_watch *w, struct place *p)
{
    bool mine;

    pthread_mutex_lock(&w->lock);
    mine = !p->looked_at;
    p->looked_at = true;
    pthread_mutex_unlock(&w->lock);
    return mine;
}

/* Calls statvfs for a folder, unless another thread is doing so. The caller must not have the lock, because
 * statvfs may take long or never return. Meanwhile other threads use the previous result. If statvfs fails,
 * the folder keeps its previous state. */
static void look_at(struct pl_disk_watch *w, struct place *p)
{
    struct statvfs fs;
    int r;

    if (!begin_look(w, p))
        return;
    r = statvfs(p->path, &fs);
    pthread_mutex_lock(&w->lock);
    if (r == 0)
        take_in(w, p, &fs);
    p->looked_at = false;
    pthread_mutex_unlock(&w->lock);
}

static void look(struct pl_disk_watch *w)
{
    for (size_t i = 0; i < w->n; i++)
        look_at(w, &w->places[i]);
}

/* Checks that the reserve of the disk stays free after `bytes` more are written. The caller holds the
 * lock. */
static int check_place(const struct place *p, uint64_t bytes, struct pl_err *err)
{
    char left[32], total[32], want[32], more[32];

    pl_size_text(p->free_bytes, left);
    pl_size_text(p->total_bytes, total);
    pl_size_text(pl_disk_space_full_bytes(p->total_bytes), want);
    if (p->refuses && p->room == PL_ROOM_FULL)
        return pl_err_set(err, PL_ENOSPC, "the disk of %s has %s free of %s: pushes need at least %s; free some space", p->path,
                          left, total, want);
    if (p->free_bytes >= pl_disk_space_full_bytes(p->total_bytes) &&
        p->free_bytes - pl_disk_space_full_bytes(p->total_bytes) >= bytes)
        return 0;
    return pl_err_set(
        err, PL_ENOSPC,
        "the disk of %s has %s free of %s, of which %s stay reserved: there is no space for %s more; free some space", p->path,
        left, total, want, pl_size_text(bytes, more));
}

/* Checks all watched folders. The last one is the daemon's folder, where bodies are spooled. */
static int admit(struct pl_disk_watch *w, uint64_t bytes, bool spooled, struct pl_err *err)
{
    int r = 0;

    look(w);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->n && r == 0; i++) {
        const struct place *p = &w->places[i];
        bool spool = spooled && i == w->n - 1, store = p->refuses && i == 0;

        if (p->refuses || spool)
            r = check_place(p, (spool ? bytes : 0) + (store ? bytes : 0), err);
    }
    pthread_mutex_unlock(&w->lock);
    return r;
}

int pl_disk_watch_admit(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err)
{
    return admit(w, bytes, false, err);
}

int pl_disk_watch_admit_spooled(struct pl_disk_watch *w, uint64_t bytes, struct pl_err *err)
{
    return admit(w, bytes, true, err);
}

json_t *pl_disk_watch_json(struct pl_disk_watch *w)
{
    json_t *list = json_array();

    look(w);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->n; i++) {
        const struct place *p = &w->places[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I}", "of", p->of, "path", p->path,
                                              "free_bytes", (json_int_t)p->free_bytes, "total_bytes", (json_int_t)p->total_bytes,
                                              "low_bytes", (json_int_t)pl_disk_space_low_bytes(p->total_bytes), "full_bytes",
                                              (json_int_t)(p->refuses ? pl_disk_space_full_bytes(p->total_bytes)
                                                                      : PL_DISK_SPACE_LOG_BYTES),
                                              "state", pl_disk_space_name(p->room), "since_us", (json_int_t)p->short_us));
    }
    pthread_mutex_unlock(&w->lock);
    return list;
}

void pl_disk_watch_look(struct pl_disk_watch *w)
{
    look(w);
}

/* ---- create and destroy ---- */

static int add_place(struct pl_disk_watch *w, const char *path, const char *of, bool refuses, struct pl_err *err)
{
    struct place *p = &w->places[w->n];

    *p = (struct place){.path = strdup(path), .of = of, .refuses = refuses};
    if (!p->path)
        return pl_err_nomem(err);
    w->n++;
    return 0;
}

static int find_places(struct pl_disk_watch *w, const char *data, const char *store, struct pl_err *err)
{
    struct stat d, s;
    int r;

    if (!store || !*store)
        return add_place(w, data, "data", false, err);
    if (stat(store, &s) < 0)
        return pl_err_errno(err, errno, "%s", store);
    if (stat(data, &d) < 0)
        return pl_err_errno(err, errno, "%s", data);
    if (d.st_dev == s.st_dev)
        return add_place(w, store, "store, data", true, err);
    r = add_place(w, store, "store", true, err);
    return r < 0 ? r : add_place(w, data, "data", true, err);
}

int pl_disk_watch_create(const struct pl_disk_watch_config *config, struct pl_disk_watch **ret, struct pl_err *err)
{
    struct pl_disk_watch *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return pl_err_nomem(err);
    w->db = config->db;
    pthread_mutex_init(&w->lock, NULL);
    r = find_places(w, config->data_dir, config->store_dir, err);
    if (r < 0) {
        pl_disk_watch_destroy(w);
        return r;
    }
    look(w);
    *ret = w;
    return 0;
}

struct pl_disk_watch *pl_disk_watch_destroy(struct pl_disk_watch *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n; i++)
        free(w->places[i].path);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}
