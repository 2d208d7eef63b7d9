/* Keeps the logs of all jobs. The open segment of a job is a file; a sealed segment is a row of log_segment
 * with a blob in a pack. Both have the same bytes (log_segment.h). */
#include "pipelined/db/stage_log/stage_log.h"

#include "pipelined/db/stage_log/log_sealed.h"
#include "pipelined/db/stage_log/log_segment.h"
#include "pipelined/db/stage_log/stage_log_internal.h"
#include "storage/base/clock.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/io.h"
#include "storage/system/lock_order.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

/* A line of the daemon: "\nworker lost: ", a reason, a pod and a node, "\n" */
#define LINE_MAX_BYTES 1024

struct watcher {
    struct watcher *next;
    int64_t job;
    void (*wake)(void *arg);
    void *arg;
};

/* The open segment of one job. A thread that appends or seals holds `mutex` for the whole operation. A reader
 * that only needs the segment's end takes pl_stage_logs.lock instead, so the reader does not wait for such a
 * thread. */
struct open_log {
    int64_t job;
    unsigned refs;         /* under pl_stage_logs.lock, like the next three fields */
    uint64_t segment;      /* number of the open segment; lower ones are sealed */
    uint64_t size;         /* bytes in the open segment */
    bool loaded;           /* segment and size are known */
    pthread_mutex_t mutex; /* guards the fields below */
    bool gone;             /* the job ended; no longer in the map */
    int fd;                /* -1 = nothing written yet */
    /* the open segment was begun in an earlier version of the format: it is sealed before the next frame */
    bool old_version;
    struct pl_hash owner;
    /* progress of each datum's output (log_segment.h): `next` in the open segment, `before` in the one before
     * it. If the answer to a worker was lost, the worker sends the piece again; it is then in one of these two
     * segments. */
    struct pl_map next, before;
};

struct pl_stage_logs {
    char *dir;
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_log_sealed sealed;
    pthread_mutex_t lock; /* guards the fields below */
    struct pl_map open;   /* job → open_log */
    struct watcher *watchers;
};

static void file_of(const struct pl_stage_logs *l, int64_t job, uint64_t segment, char out[4200])
{
    snprintf(out, 4200, "%s/%" PRId64 "-%" PRIu64 ".log", l->dir, job, segment);
}

/* ---- the job to which a file belongs ---- */

static int owner_of(struct pl_stage_logs *l, int64_t job, struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->db);
    _cleanup_free_ char *text = NULL;
    int r = pl_sql_text(rd.conn, err, &text, "SELECT run || '/' || project || '/' || stage FROM job WHERE id = ?", "i", job);

    if (r == 0)
        pl_hash_sha256(text, strlen(text), ret);
    return r;
}

/* Removes a log file that belongs to no job of this database: the job's row id in the file's name is not in
 * use, or another job has it now. Otherwise the lines of the file would appear in the other job's log. */
static int remove_foreign(struct pl_stage_logs *l, int dirfd, const char *name, struct pl_err *err)
{
    uint8_t start[PL_LOG_SEGMENT_START_BYTES];
    struct pl_hash owner;
    uint64_t segment;
    int64_t job;
    ssize_t n;
    int r, used = 0;

    if (sscanf(name, "%" SCNd64 "-%" SCNu64 ".log%n", &job, &segment, &used) != 2 || used == 0 || name[used])
        return 0;
    r = owner_of(l, job, &owner, err);
    if (r == 0) {
        _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

        n = fd < 0 ? pl_err_errno(err, errno, "%s/%s", l->dir, name) : pl_io_read(fd, start, sizeof start, name, err);
        if (n < 0 || pl_log_segment_is_of(start, (size_t)n, &owner))
            return (int)PL_MIN(n, 0);
    } else if (r != PL_ENOTFOUND) {
        return r;
    }
    return unlinkat(dirfd, name, 0) < 0 ? pl_err_errno(err, errno, "%s/%s", l->dir, name) : 0;
}

static int remove_foreign_files(struct pl_stage_logs *l, struct pl_err *err)
{
    DIR *dir = opendir(l->dir);
    const struct dirent *entry;
    int r = dir ? 0 : pl_err_errno(err, errno, "%s", l->dir);

    while (r == 0 && (entry = readdir(dir)))
        r = remove_foreign(l, dirfd(dir), entry->d_name, err);
    if (dir)
        closedir(dir);
    return r;
}

/* ---- open and close ---- */

int pl_stage_logs_open(const char *dir, struct pl_db *db, struct pl_project_stores *stores, struct pl_stage_logs **ret,
                       struct pl_err *err)
{
    struct pl_stage_logs *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return pl_err_nomem(err);
    l->db = db;
    l->stores = stores;
    pthread_mutex_init(&l->lock, NULL);
    l->dir = strdup(dir);
    l->sealed = (struct pl_log_sealed){db, stores, pl_record_cache_create(PL_LOG_SEALED_CACHE_BYTES)};
    r = l->dir && l->sealed.cache ? pl_io_mkdirs(dir, 0700, err) : pl_err_nomem(err);
    r = r < 0 ? r : remove_foreign_files(l, err);
    if (r < 0) {
        pl_stage_logs_close(l);
        return r;
    }
    *ret = l;
    return 0;
}

static void free_open(void *p)
{
    struct open_log *o = p;

    pl_closep(&o->fd);
    pl_map_finish(&o->next, free);
    pl_map_finish(&o->before, free);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}

struct pl_stage_logs *pl_stage_logs_close(struct pl_stage_logs *l)
{
    struct watcher *w;

    if (!l)
        return NULL;
    pl_map_finish(&l->open, free_open);
    while ((w = l->watchers)) {
        l->watchers = w->next;
        free(w);
    }
    pthread_mutex_destroy(&l->lock);
    pl_record_cache_destroy(l->sealed.cache);
    free(l->dir);
    free(l);
    return NULL;
}

/* ---- segments ---- */

/* Returns the offset up to which the segment's file may be read. Bytes after this offset belong to a frame
 * that is still being written; they are cut off again if the write fails. */
static uint64_t end_of(struct pl_stage_logs *l, int64_t job, uint64_t segment)
{
    const struct open_log *o;
    uint64_t end = UINT64_MAX;

    pthread_mutex_lock(&l->lock);
    o = pl_map_get(&l->open, &job, sizeof job);
    if (o && o->loaded && o->segment == segment)
        end = o->size;
    pthread_mutex_unlock(&l->lock);
    return end;
}

/* Loads the bytes from `offset` of a segment that is not sealed. `*ret_head`: bytes of a frame's head in it.
 * PL_ENOTFOUND: the file does not exist. */
static int load_file(struct pl_stage_logs *l, int64_t job, uint64_t segment, uint64_t offset, struct pl_buf *ret,
                     size_t *ret_head, struct pl_err *err)
{
    uint64_t end = end_of(l, job, segment);
    uint8_t magic[PL_LOG_SEGMENT_MAGIC_BYTES];
    _cleanup_close_ int fd = -1;
    char path[4200];
    struct stat st;
    ssize_t n;
    int r;

    file_of(l, job, segment, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "%s", path);
    end = PL_MIN(end, (uint64_t)st.st_size);
    if (offset >= end)
        return 0;
    n = pl_io_read(fd, magic, sizeof magic, path, err);
    if (n < 0)
        return (int)n;
    *ret_head = pl_log_segment_head_bytes(magic, (size_t)n);
    if (lseek(fd, (off_t)offset, SEEK_SET) < 0)
        return pl_err_errno(err, errno, "%s", path);
    r = pl_buf_reserve(ret, end - offset, err);
    /* returns fewer bytes if an append truncates the file at the same time */
    n = r < 0 ? r : pl_io_read(fd, ret->data, end - offset, path, err);
    ret->len = (size_t)PL_MAX(n, 0);
    return (int)PL_MIN(n, 0);
}

struct pl_db *pl_stage_log_db(const struct pl_stage_logs *l)
{
    return l->db;
}

int pl_stage_log_load(struct pl_stage_logs *l, const char *project, int64_t job, uint64_t segment, struct pl_buf *ret,
                      size_t *ret_head, struct pl_err *err)
{
    int r = pl_log_sealed_load(&l->sealed, project, job, segment, ret, err);

    if (r == 0) {
        r = load_file(l, job, segment, 0, ret, ret_head, err);
        if (r != PL_ENOTFOUND)
            return r;
        r = pl_log_sealed_load(&l->sealed, project, job, segment, ret, err); /* it may have been sealed meanwhile */
        if (r == 0)
            return PL_ENOTFOUND;
    }
    *ret_head = pl_log_segment_head_bytes(ret->data, ret->len);
    return r;
}

/* ---- the open segment ---- */

/* Records the frames of the last sealed segment, because after a restart a worker may send a piece again that
 * is in it. If the segment is unreadable, such a piece is stored twice at worst. */
static int note_sealed(struct pl_stage_logs *l, const char *project, struct open_log *o, uint64_t segment, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char path[4200];
    uint64_t size;

    if (segment == 0)
        return 0;
    file_of(l, o->job, segment - 1, path); /* the segment's file remains if a crash came after its row was written */
    unlink(path);
    if (pl_log_sealed_load(&l->sealed, project, o->job, segment - 1, &bytes, NULL) <= 0)
        return 0;
    return pl_log_progress_load(&o->before, &bytes, &size, err);
}

/* Opens the segment's file if a crash or a stop left it, and cuts off an incomplete frame. */
static int reopen(struct pl_stage_logs *l, struct open_log *o, uint64_t segment, uint64_t *ret_size, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char path[4200];
    int r;

    file_of(l, o->job, segment, path);
    r = pl_io_read_file(path, &bytes, err);
    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0)
        return r;
    if (!pl_log_segment_is_of(bytes.data, bytes.len, &o->owner)) {
        unlink(path);
        return 0;
    }
    r = pl_log_progress_load(&o->next, &bytes, ret_size, err);
    if (r < 0)
        return r;
    o->old_version = pl_log_segment_head_bytes(bytes.data, bytes.len) != PL_LOG_FRAME_BYTES;
    if (o->old_version && o->next.len == 0) { /* it has no output: begin it anew */
        o->old_version = false;
        *ret_size = 0;
        unlink(path);
        return 0;
    }
    o->fd = open(path, O_RDWR | O_CLOEXEC);
    if (o->fd < 0 || ftruncate(o->fd, (off_t)*ret_size) < 0) {
        pl_closep(&o->fd);
        o->fd = -1;
        return pl_err_errno(err, errno, "%s", path);
    }
    return 0;
}

/* Sets the number and the size of the open segment, under l->lock. */
static void stands(struct pl_stage_logs *l, struct open_log *o, uint64_t segment, uint64_t size)
{
    pthread_mutex_lock(&l->lock);
    o->segment = segment;
    o->size = size;
    o->loaded = true;
    pthread_mutex_unlock(&l->lock);
}

static int load_open(struct pl_stage_logs *l, const char *project, struct open_log *o, struct pl_err *err)
{
    int64_t sealed = 0;
    uint64_t size = 0;
    int r = owner_of(l, o->job, &o->owner, err);

    r = r < 0 ? r : pl_log_sealed_count(&l->sealed, o->job, &sealed, err);
    r = r < 0 ? r : note_sealed(l, project, o, (uint64_t)sealed, err);
    r = r < 0 ? r : reopen(l, o, (uint64_t)sealed, &size, err);
    if (r == 0)
        stands(l, o, (uint64_t)sealed, size);
    return r;
}

static struct open_log *new_open(struct pl_stage_logs *l, int64_t job, struct pl_err *err)
{
    struct open_log *o = calloc(1, sizeof *o);

    if (!o) {
        pl_err_nomem(err);
        return NULL;
    }
    o->job = job;
    o->fd = -1;
    pthread_mutex_init(&o->mutex, NULL);
    /* the mutex may be held during requests to the store: only requests for the same job wait */
    pl_lock_order_spans_requests(&o->mutex);
    if (pl_map_put(&l->open, &job, sizeof job, o, NULL, err) < 0) {
        free_open(o);
        return NULL;
    }
    o->refs = 1; /* the map's reference */
    return o;
}

/* Unlocks and releases the open log that open_of returned. `end`: also removes the open log from the map. */
static void done_with(struct pl_stage_logs *l, struct open_log *o, bool end)
{
    unsigned refs;

    o->gone |= end;
    pthread_mutex_unlock(&o->mutex);
    pthread_mutex_lock(&l->lock);
    if (end)
        pl_map_remove(&l->open, &o->job, sizeof o->job);
    refs = o->refs -= 1 + end;
    pthread_mutex_unlock(&l->lock);
    if (refs == 0)
        free_open(o);
}

/* Returns the job's open segment, locked; the caller unlocks it with done_with. */
static int open_of(struct pl_stage_logs *l, const char *project, int64_t job, struct open_log **ret, struct pl_err *err)
{
    struct open_log *o;
    int r;

    for (;;) {
        pthread_mutex_lock(&l->lock);
        o = pl_map_get(&l->open, &job, sizeof job);
        o = o ? o : new_open(l, job, err);
        if (o)
            o->refs++;
        pthread_mutex_unlock(&l->lock);
        if (!o)
            return PL_ENOMEM;
        pthread_mutex_lock(&o->mutex);
        if (!o->gone)
            break;
        done_with(l, o, false); /* the job's log was closed while this thread waited: look it up again */
    }
    r = o->loaded ? 0 : load_open(l, project, o, err);
    if (r < 0) {
        done_with(l, o, true); /* the next call loads the segment again */
        return r;
    }
    *ret = o;
    return 0;
}

/* Creates the segment's file with its first frame, unless it is open already. */
static int start_file(struct pl_stage_logs *l, struct open_log *o, struct pl_err *err)
{
    uint8_t start[PL_LOG_SEGMENT_START_BYTES];
    char path[4200];
    int r;

    if (o->fd >= 0)
        return 0;
    pl_log_segment_start(&o->owner, start);
    file_of(l, o->job, o->segment, path);
    o->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (o->fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    r = pl_io_pwrite(o->fd, start, sizeof start, 0, path, err);
    if (r < 0) {
        pl_closep(&o->fd);
        o->fd = -1;
        return r;
    }
    stands(l, o, o->segment, sizeof start);
    return 0;
}

/* ---- sealing ---- */

struct sealing {
    int64_t job;
    uint64_t segment, raw;
    struct pl_hash blob;
    char *entries; /* counts of its text (log_view.h) */
};

static int seal_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct sealing *s = arg;
    int r = pl_sql_exec(
        pl_tx_conn(tx), err,
        "INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us, entries) VALUES (?, ?, '', ?, ?, ?, ?)", "iihiis",
        s->job, (int64_t)s->segment, &s->blob, (int64_t)s->raw, pl_tx_now_us(tx), s->entries);

    return r < 0 ? r : 0;
}

/* Puts the segment's bytes into a pack. `hold` protects the pack from garbage collection until the segment's
 * row is written. */
static int put_blob(struct pl_stage_logs *l, const char *project, const struct pl_buf *bytes, struct pl_store_hold *hold,
                    struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink;
    struct pl_store *store;
    int r = pl_project_stores_get(l->stores, project, &store, err);

    if (r < 0)
        return r;
    pl_store_hold(store, hold);
    sink = pl_store_sink(store);
    r = pl_pack_builder_open(&sink, project, &session, err);
    r = r < 0 ? r : pl_pack_builder_add(session, PL_REC_BLOB, bytes->data, bytes->len, ret, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

/* Seals the open segment in this order: put its bytes into a pack, write its row, remove its file. A crash
 * before the row leaves the file, which is sealed again later. Readers do not wait: they find the file or,
 * when it is gone, the row. */
static int seal(struct pl_stage_logs *l, const char *project, struct open_log *o, struct pl_err *err)
{
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct sealing s = {.job = o->job, .segment = o->segment, .raw = o->size};
    char path[4200];
    int r;

    if (o->fd < 0 || o->size <= PL_LOG_SEGMENT_START_BYTES)
        return 0;
    file_of(l, o->job, o->segment, path);
    r = pl_io_read_file(path, &bytes, err);
    if (r < 0)
        return r;
    r = pl_stage_log_entries(&bytes, &s.entries, err);
    r = r < 0 ? r : put_blob(l, project, &bytes, &hold, &s.blob, err);
    r = r < 0 ? r : pl_db_run(l->db, PL_TX_UNLOGGED, seal_tx, &s, err);
    free(s.entries);
    if (r < 0)
        return r;
    unlink(path);
    pl_closep(&o->fd);
    o->fd = -1;
    o->old_version = false;
    pl_map_finish(&o->before, free);
    o->before = o->next;
    o->next = (struct pl_map){0};
    stands(l, o, o->segment + 1, 0);
    return 0;
}

static void wake(struct pl_stage_logs *l, int64_t job)
{
    pthread_mutex_lock(&l->lock);
    for (struct watcher *w = l->watchers; w; w = w->next)
        if (w->job == job)
            w->wake(w->arg);
    pthread_mutex_unlock(&l->lock);
}

/* ---- public functions ---- */

/* Writes a whole frame or none: if the disk fills up, cuts off the incomplete frame. Otherwise shorter frames
 * written later would overwrite only its beginning, and its rest would be read as a frame. */
static int write_frame(struct pl_stage_logs *l, struct open_log *o, const struct pl_log_frame *f, struct pl_err *err)
{
    uint8_t head[PL_LOG_FRAME_BYTES];
    int r;

    pl_log_frame_head(f, head);
    r = pl_io_pwrite(o->fd, head, sizeof head, o->size, "stage log", err);
    r = r < 0 ? r : pl_io_pwrite(o->fd, f->bytes, f->len, o->size + PL_LOG_FRAME_BYTES, "stage log", err);
    if (r == 0)
        stands(l, o, o->segment, o->size + PL_LOG_FRAME_BYTES + f->len);
    else if (ftruncate(o->fd, (off_t)o->size) < 0)
        r = pl_err_errno(err, errno, "stage log");
    return r;
}

static const struct pl_log_progress *progress_of(const struct open_log *o, const struct pl_hash *datum, uint32_t attempt)
{
    const struct pl_log_progress *p = pl_log_progress_of(&o->next, datum, attempt);

    return p ? p : pl_log_progress_of(&o->before, datum, attempt);
}

/* Adds a frame to the open segment. Seals that segment first if the frame would make it too long, or if it has
 * an older version. `before` is the progress of the frame's attempt so far. */
static int add_frame(struct pl_stage_logs *l, const char *project, struct open_log *o, const struct pl_log_frame *f,
                     const struct pl_log_progress *before, struct pl_err *err)
{
    int r = 0;

    if (o->old_version || o->size + PL_LOG_FRAME_BYTES + f->len > PL_STAGE_LOG_SEGMENT_BYTES)
        r = seal(l, project, o, err);
    r = r < 0 ? r : start_file(l, o, err);
    r = r < 0 ? r : write_frame(l, o, f, err);
    return r < 0 ? r : pl_log_progress_note(&o->next, f, before, err);
}

/* An attempt that printed something under a lease. */
struct printed {
    struct pl_hash datum;
    uint32_t attempt;
    struct pl_log_progress progress;
};

/* Adds a line that says why the lease ended to the output of one attempt, at the start of a line. */
static int add_line(struct pl_stage_logs *l, const char *project, struct open_log *o, const struct printed *to, const char *text,
                    struct pl_err *err)
{
    struct pl_log_frame f = {.datum = to->datum,
                             .attempt = to->attempt,
                             .fence = to->progress.fence,
                             .at_us = pl_clock_wall_us(),
                             .offset = PL_LOG_LINE_OFFSET};
    char line[LINE_MAX_BYTES];

    snprintf(line, sizeof line, "%s%.*s\n", to->progress.mid_line ? "\n" : "", (int)sizeof line - 3, text);
    f.bytes = (const uint8_t *)line;
    f.len = (uint32_t)strlen(line);
    return add_frame(l, project, o, &f, &to->progress, err);
}

/* Appends the part of the frame that was not received before under its lease. Drops it if another worker has
 * printed under a newer lease since. */
static int append(struct pl_stage_logs *l, const char *project, struct open_log *o, struct pl_log_frame *f, struct pl_err *err)
{
    const struct pl_log_progress *known = progress_of(o, &f->datum, f->attempt);
    struct pl_log_progress p = known ? *known : (struct pl_log_progress){0};
    int r = 0;

    if (f->fence < p.fence)
        return 0;
    if (p.fence && f->fence > p.fence) {
        if (!p.over)
            r = add_line(l, project, o, &(struct printed){f->datum, f->attempt, p}, "lease ended: the datum begins again", err);
        p = (struct pl_log_progress){0};
    } else if (f->offset < p.end) { /* the worker sent it again, wholly or in part */
        const uint64_t skip = PL_MIN(p.end - f->offset, (uint64_t)f->len);

        f->offset += skip;
        f->bytes += skip;
        f->len -= (uint32_t)skip;
    }
    if (r < 0 || f->len == 0 || f->offset >= PL_STAGE_LOG_DATUM_BYTES + 4096)
        return r;
    f->at_us = pl_clock_wall_us(); /* with the log held: times do not run backwards in it */
    return add_frame(l, project, o, f, &p, err);
}

int pl_stage_logs_append(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_stage_log_source *source,
                         uint64_t offset, const void *bytes, size_t n, struct pl_err *err)
{
    struct pl_log_frame f = {.datum = source->datum,
                             .attempt = source->attempt,
                             .fence = source->fence,
                             .offset = offset,
                             .bytes = bytes,
                             .len = (uint32_t)n};
    struct open_log *o;
    int r;

    if (n > PL_STAGE_LOG_SEGMENT_BYTES - PL_LOG_SEGMENT_START_BYTES - PL_LOG_FRAME_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "a piece of a stage log has %zu bytes: at most %u are allowed", n,
                          PL_STAGE_LOG_SEGMENT_BYTES - PL_LOG_SEGMENT_START_BYTES - PL_LOG_FRAME_BYTES);
    r = open_of(l, project, job, &o, err);
    if (r < 0)
        return r;
    r = append(l, project, o, &f, err);
    done_with(l, o, false);
    wake(l, job);
    return r;
}

/* Collects the attempts that printed something under this lease (struct printed). */
static int find_lease(const struct open_log *o, uint64_t fence, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_map *maps[] = {&o->next, &o->before};
    const struct pl_map_slot *slot;
    int r = 0;

    for (size_t m = 0; m < PL_ARRAY_SIZE(maps); m++) {
        for (size_t i = 0; r == 0 && (slot = pl_map_next(maps[m], &i));) {
            const struct pl_log_progress *p = slot->value;

            struct printed one = {.progress = *p};

            if (p->fence != fence || p->over || (m == 1 && pl_map_get(&o->next, slot->key, slot->key_len)))
                continue;
            pl_log_progress_key(slot->key, &one.datum, &one.attempt);
            r = pl_buf_add(ret, &one, sizeof one, err);
        }
    }
    return r;
}

int pl_stage_logs_lost(struct pl_stage_logs *l, const char *project, int64_t job, uint64_t fence, const struct pl_hash *datum,
                       const char *why, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf found = {0};
    char text[LINE_MAX_BYTES];
    struct open_log *o;
    int r = open_of(l, project, job, &o, err);

    if (r < 0)
        return r;
    snprintf(text, sizeof text, "worker lost: %s", why);
    r = find_lease(o, fence, &found, err);
    for (size_t at = 0; r == 0 && at < found.len; at += sizeof(struct printed)) {
        struct printed one;

        memcpy(&one, found.data + at, sizeof one);
        if (datum && !pl_hash_eq(&one.datum, datum))
            continue;
        r = add_line(l, project, o, &one, text, err);
    }
    done_with(l, o, false);
    wake(l, job);
    return r;
}

int pl_stage_logs_seal(struct pl_stage_logs *l, const char *project, int64_t job, struct pl_err *err)
{
    struct open_log *o;
    int r;

    r = open_of(l, project, job, &o, err);
    if (r < 0)
        return r;
    r = seal(l, project, o, err);
    done_with(l, o, r == 0);
    wake(l, job);
    return r;
}

static int take_view(void *arg, const struct pl_byte_view *shown, struct pl_err *err)
{
    return pl_log_take_frames(shown->bytes, shown->n, 0, pl_log_segment_head_bytes(shown->bytes, shown->n), arg, err);
}

/* Copies text from the cursor's segment. Returns 1 if the segment is sealed, so that another segment may
 * follow, or 0 if there is no more text for now. */
static int read_segment(struct pl_stage_logs *l, const char *project, int64_t job, struct pl_log_reading *to, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf segment = {0};
    struct pl_stage_log_cursor *cursor = to->cursor;
    size_t head = 0;
    int64_t sealed = 0;
    int r;

    cursor->offset = PL_MAX(cursor->offset, (uint64_t)PL_LOG_SEGMENT_MAGIC_BYTES);
    r = pl_log_sealed_show(&l->sealed, project, job, cursor->segment, take_view, to, err);
    if (r > 0) {
        if (to->out->len < to->max) {
            cursor->segment++;
            cursor->offset = 0;
        }
        return 1;
    }
    if (r == 0) {
        const uint64_t base = cursor->offset;

        r = load_file(l, job, cursor->segment, base, &segment, &head, err);
        r = r < 0 ? r : pl_log_take_frames(segment.data, segment.len, base, head, to, err);
        if (r == PL_ENOTFOUND)
            r = 0;
    }
    r = r < 0 ? r
              : pl_log_sealed_count(&l->sealed, job, &sealed,
                                    err); /* if the segment was sealed while it was read, there is more to read */
    return r < 0 ? r : (uint64_t)sealed > cursor->segment;
}

int pl_stage_logs_read(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_hash *datum,
                       struct pl_stage_log_cursor *cursor, size_t max, struct pl_log_stream *lines, struct pl_buf *out,
                       struct pl_err *err)
{
    struct pl_log_reading to = {.datum = datum, .lines = lines, .cursor = cursor, .out = out, .max = out->len + max};
    int r = 1;

    while (r > 0 && out->len < to.max)
        r = read_segment(l, project, job, &to, err);
    return PL_MIN(r, 0);
}

int pl_stage_logs_watch(struct pl_stage_logs *l, int64_t job, void (*wake_fn)(void *arg), void *arg, struct pl_err *err)
{
    struct watcher *w = calloc(1, sizeof *w);

    if (!w)
        return pl_err_nomem(err);
    *w = (struct watcher){.job = job, .wake = wake_fn, .arg = arg};
    pthread_mutex_lock(&l->lock);
    w->next = l->watchers;
    l->watchers = w;
    pthread_mutex_unlock(&l->lock);
    return 0;
}

void pl_stage_logs_unwatch(struct pl_stage_logs *l, void *arg)
{
    pthread_mutex_lock(&l->lock);
    for (struct watcher **link = &l->watchers; *link;) {
        struct watcher *w = *link;

        if (w->arg == arg) {
            *link = w->next;
            free(w);
        } else {
            link = &w->next;
        }
    }
    pthread_mutex_unlock(&l->lock);
}
