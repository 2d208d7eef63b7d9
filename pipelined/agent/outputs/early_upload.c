/* A table of the output's large files, renewed by every scan. The upload thread reads files outside the lock;
 * the compute thread marks files that have changed. */
#include "pipelined/agent/outputs/early_upload.h"

#include "pipelined/agent/outputs/early_scan.h"
#include "pipelined/agent/outputs/file_writers.h"
#include "storage/base/clock.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <fcntl.h>
#include <pthread.h>

enum state {
    SEEN,    /* not read yet */
    READING, /* being read, or read in this scan with its chunks not yet durable */
    READ,    /* read and durable: `entry` is set */
    CHANGED, /* changed while or after it was read */
};

struct item {
    enum state state;
    struct pl_entry entry;
};

struct pl_early {
    struct pl_early_upload_config config;
    enum { UNTRIED, TELLS, TELLS_NOT } writers; /* whether the file system supports file_writers.h */
    /* guards the items' states and the fields `running`, `of` and `unwanted` */
    pthread_mutex_t lock;
    /* datum whose command runs; NULL = no command runs, or its output is not wanted */
    const struct pl_agent_protocol_datum *running;
    const struct pl_agent_protocol_datum *of; /* datum whose files the table lists */
    bool unwanted;                            /* the datum of the table failed: reading its files must end */
    struct pl_early_scan_files files;
    struct item *items; /* one per file of `files` */
    bool enough;        /* a limit is reached: no more files of this datum are read early */
    /* bytes read early for this datum, and how many of them were read in vain */
    uint64_t bytes, wasted;
    /* time that the scans for this datum took, in us */
    int64_t took_us;
    struct pl_buf ids; /* array of struct pl_hash: ids of the chunks and chunk lists that were read early */
};

int pl_early_upload_create(const struct pl_early_upload_config *config, struct pl_early **ret, struct pl_err *err)
{
    struct pl_early *e = calloc(1, sizeof(*e));

    if (!e)
        return pl_err_nomem(err);
    e->config = *config;
    pthread_mutex_init(&e->lock, NULL);
    *ret = e;
    return 0;
}

/* Makes the table empty and assigns it to the datum `row`. Call with the lock held, or before other threads
 * exist. */
static void reset(struct pl_early *e, const struct pl_agent_protocol_datum *row)
{
    pl_early_scan_files_finish(&e->files);
    free(e->items);
    e->items = NULL;
    pl_buf_finish(&e->ids);
    e->of = row;
    e->unwanted = e->enough = false;
    e->bytes = e->wasted = 0;
    e->took_us = 0;
}

struct pl_early *pl_early_upload_destroy(struct pl_early *e)
{
    if (!e)
        return NULL;
    reset(e, NULL);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return NULL;
}

static const char *path_of(const struct pl_early_scan_files *f, size_t i)
{
    return (const char *)f->names.data + f->files[i].path;
}

/* ---- the compute thread ---- */

void pl_early_upload_begin(struct pl_early *e, const struct pl_agent_protocol_datum *row)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->running = row;
    pthread_mutex_unlock(&e->lock);
}

/* True if file `i` has the same attributes as when it was scanned. */
static bool is_as_seen(const struct pl_early *e, size_t i)
{
    _cleanup_close_ int fd = pl_io_open_beneath(e->config.out_fd, path_of(&e->files, i), O_PATH);
    struct pl_early_scan_stamp now;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return false;
    now = pl_early_scan_stamp_of(&st);
    return pl_early_scan_stamp_eq(&now, &e->files.files[i].stamp);
}

void pl_early_upload_end(struct pl_early *e, const struct pl_agent_protocol_datum *row, bool kept)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->running = NULL;
    for (size_t i = 0; e->of == row && i < e->files.n; i++)
        if ((e->items[i].state == READ || e->items[i].state == READING) && !is_as_seen(e, i))
            e->items[i].state = CHANGED;
    if (e->of == row)
        e->unwanted = !kept;
    pthread_mutex_unlock(&e->lock);
}

/* ---- one scan ---- */

/* Counts the bytes of an early copy as read in vain, because the file has changed since. */
static void waste(struct pl_early *e, const struct item *item)
{
    e->wasted += item->state == READ ? item->entry.size : 0;
}

/* Copies the state of a file that the previous scan found too; marks it if it has changed. */
static void carry_over(struct pl_early *e, size_t old, const struct pl_early_scan_file *file, struct item *ret)
{
    *ret = e->items[old];
    if (ret->state != READ || pl_early_scan_stamp_eq(&e->files.files[old].stamp, &file->stamp))
        return;
    waste(e, ret);
    ret->state = CHANGED;
}

/* Replaces the table by the files that this scan found; both lists are sorted. Call with the lock held. */
static void merge(struct pl_early *e, struct pl_early_scan_files *found, struct item *items)
{
    size_t old = 0;

    for (size_t i = 0; i < found->n; i++) {
        int d = 1;
        while (old < e->files.n && (d = strcmp(path_of(&e->files, old), path_of(found, i))) < 0)
            waste(e, &e->items[old++]);
        if (old < e->files.n && d == 0)
            carry_over(e, old++, &found->files[i], &items[i]);
    }
    for (; old < e->files.n; old++)
        waste(e, &e->items[old]);
    pl_early_scan_files_finish(&e->files);
    free(e->items);
    e->files = *found;
    e->items = items;
    *found = (struct pl_early_scan_files){0};
}

/* Scans the output folder. False: there is nothing to read. */
static bool look_around(struct pl_early *e)
{
    struct pl_early_scan_files found;
    struct item *items;
    bool runs;

    pthread_mutex_lock(&e->lock);
    if (e->running && e->running != e->of)
        reset(e, e->running);
    runs = e->running && !e->enough;
    pthread_mutex_unlock(&e->lock);
    if (!runs)
        return false;
    if (pl_early_scan_folder(e->config.out_fd, PL_EARLY_UPLOAD_FILES, &found, NULL) < 0) {
        e->enough = true;
        return false;
    }
    items = calloc(found.n + 1, sizeof(*items));
    pthread_mutex_lock(&e->lock);
    runs = items && e->running && e->running == e->of;
    if (runs)
        merge(e, &found, TAKE_PTR(items));
    e->enough = e->enough || e->wasted > PL_EARLY_UPLOAD_WASTE_MAX;
    pthread_mutex_unlock(&e->lock);
    pl_early_scan_files_finish(&found);
    free(items);
    return runs && !e->enough;
}

/* True if the file has not changed for still_ms. */
static bool is_still(const struct pl_early *e, const struct pl_early_scan_stamp *stamp)
{
    const int64_t changed_ms = (int64_t)stamp->ctime.tv_sec * 1000 + stamp->ctime.tv_nsec / 1000000;

    return pl_clock_wall_us() / 1000 - changed_ms >= e->config.still_ms;
}

/* Sets the state of a file that is in state READING. A file that was found to have changed meanwhile stays
 * CHANGED. */
static void set_state(struct pl_early *e, size_t i, enum state state)
{
    pthread_mutex_lock(&e->lock);
    if (e->items[i].state == READING)
        e->items[i].state = state;
    pthread_mutex_unlock(&e->lock);
}

static bool is_unwanted(struct pl_early *e)
{
    bool unwanted;

    pthread_mutex_lock(&e->lock);
    unwanted = e->unwanted;
    pthread_mutex_unlock(&e->lock);
    return unwanted || atomic_load(e->config.stopping);
}

struct reader {
    struct pl_early *early;
    int fd;
};

static ssize_t read_some(void *self, void *out, size_t n, struct pl_err *err)
{
    const struct reader *r = self;

    if (is_unwanted(r->early))
        return pl_err_set(err, PL_ECANCELED, "no longer wanted");
    return pl_io_read(r->fd, out, n, "output", err);
}

/* True if the open file is still the one that was scanned, and no process has it open for writing (where the
 * file system can tell). */
static bool may_read(struct pl_early *e, int fd, const struct pl_early_scan_stamp *seen)
{
    struct pl_early_scan_stamp now;
    struct stat st;

    if (e->writers == UNTRIED)
        e->writers = pl_file_writers_are_supported(e->config.work) ? TELLS : TELLS_NOT;
    if (e->writers == TELLS && !pl_file_writers_is_none(fd))
        return false;
    if (fstat(fd, &st) < 0)
        return false;
    now = pl_early_scan_stamp_of(&st);
    return pl_early_scan_stamp_eq(&now, seen);
}

/* Reads one file into the upload session. Negative: the session cannot be used any more. */
static int read_file(struct pl_early *e, struct pl_pack_builder *session, size_t i, struct pl_err *err)
{
    const struct pl_early_scan_stamp *seen = &e->files.files[i].stamp;
    _cleanup_close_ int fd = pl_io_open_beneath(e->config.out_fd, path_of(&e->files, i), O_RDONLY);
    struct reader reader = {e, fd};
    struct pl_entry entry;
    int r;

    if (fd < 0 || !may_read(e, fd, seen)) {
        set_state(e, i, SEEN); /* a later scan tries again */
        return 0;
    }
    r = pl_file_write_stream(session, seen->mode & 0100 ? PL_KIND_EXEC : PL_KIND_FILE, read_some, &reader, &entry, err);
    if (r == 0 && entry.size == (uint64_t)seen->size) {
        e->items[i].entry = entry;
        e->bytes += entry.size;
        return 0;
    }
    set_state(e, i, CHANGED);
    return r == PL_ECANCELED || r == PL_EIO ? 0 : r;
}

/* Decides whether file `i` is read now: returns 1 and sets its state to READING, or 0. Negative: no more
 * files are to be read for this datum. */
static int claim(struct pl_early *e, size_t i)
{
    const struct pl_early_scan_stamp *seen = &e->files.files[i].stamp;
    int r;

    pthread_mutex_lock(&e->lock);
    r = !e->running || e->running != e->of                                                                           ? -1
        : e->items[i].state == SEEN && is_still(e, seen) && e->bytes + (uint64_t)seen->size <= PL_EARLY_UPLOAD_BYTES ? 1
                                                                                                                     : 0;
    if (r > 0)
        e->items[i].state = READING;
    pthread_mutex_unlock(&e->lock);
    return r;
}

/* ---- a pack sink that also records the ids of the chunks and chunk lists ---- */
static int noted_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct pl_early *e = self;
    const struct pl_pack_sink *sink = &e->config.sink;
    int r = pl_buf_add(&e->ids, ids, n * sizeof(*ids), err);

    if (r < 0 || !sink->has)
        return r;
    return sink->has(sink->self, ids, n, ret_bitmap, err);
}

static int noted_put(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    const struct pl_early *e = self;

    return e->config.sink.put_pack(e->config.sink.self, pack_id, bytes, n, err);
}

static int noted_flush(void *self, struct pl_err *err)
{
    const struct pl_early *e = self;

    return e->config.sink.flush ? e->config.sink.flush(e->config.sink.self, err) : 0;
}

/* Reads all files that no longer change; when it returns, their bytes are durable at the daemon. */
static int read_ripe(struct pl_early *e, struct pl_err *err)
{
    const struct pl_pack_sink sink = {.self = e, .has = noted_has, .put_pack = noted_put, .flush = noted_flush};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    int r = 0, claimed = 0;

    for (size_t i = 0; r == 0 && claimed >= 0 && i < e->files.n; i++) {
        claimed = claim(e, i);
        if (claimed <= 0)
            continue;
        if (!session)
            r = pl_pack_builder_open(&sink, e->config.project, &session, err);
        r = r < 0 ? r : read_file(e, session, i, err);
    }
    return r == 0 && session ? pl_pack_builder_finish(session, err) : r;
}

void pl_early_upload_scan(struct pl_early *e)
{
    const int64_t start_us = pl_clock_mono_us();
    struct pl_err why = {0};
    int r;

    if (!look_around(e))
        return;
    r = read_ripe(e, &why);
    for (size_t i = 0; i < e->files.n; i++)
        set_state(e, i, r == 0 ? READ : CHANGED);
    if (r < 0) {
        e->enough = true;
        pl_log_warn("early", "cannot upload output early, so it is read again when the command has ended: %s", why.msg);
    }
    e->took_us += pl_clock_mono_us() - start_us;
}

/* ---- using the early copies ---- */

/* True if the daemon still has all chunks of the early copies and keeps them for the present upload
 * session. */
static bool chunks_are_there(struct pl_early *e)
{
    const struct pl_hash *ids = (const struct pl_hash *)e->ids.data;
    const size_t n = e->ids.len / sizeof(*ids);
    _cleanup_free_ uint8_t *bits = malloc(PL_PACK_SINK_HAS_MAX / 8);

    for (size_t at = 0; bits && at < n; at += PL_PACK_SINK_HAS_MAX) {
        const size_t some = PL_MIN(n - at, PL_PACK_SINK_HAS_MAX);

        memset(bits, 0, PL_PACK_SINK_HAS_MAX / 8);
        if (e->config.sink.has && e->config.sink.has(e->config.sink.self, ids + at, some, bits, NULL) < 0)
            return false;
        for (size_t i = 0; i < some; i++)
            if (!(bits[i / 8] >> (i % 8) & 1))
                return false;
    }
    return bits != NULL;
}

bool pl_early_upload_take(struct pl_early *e, const struct pl_agent_protocol_datum *row)
{
    size_t n = 0;

    if (!e || e->of != row || e->writers != TELLS)
        return false;
    for (size_t i = 0; i < e->files.n; i++)
        n += e->items[i].state == READ;
    if (n == 0 || !chunks_are_there(e))
        return false;
    pl_log_info("early", "datum in row %u: %zu output files were uploaded while the command ran", row->index, n);
    return true;
}

const struct pl_entry *pl_early_upload_find(const struct pl_early *e, const char *path)
{
    size_t low = 0, high = e->files.n;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        const int d = strcmp(path, path_of(&e->files, mid));
        if (d == 0)
            return e->items[mid].state == READ ? &e->items[mid].entry : NULL;
        if (d < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

int64_t pl_early_upload_release(struct pl_early *e, const struct pl_agent_protocol_datum *row)
{
    int64_t took_ms;

    if (!e || e->of != row)
        return 0;
    took_ms = e->took_us / 1000;
    pthread_mutex_lock(&e->lock);
    reset(e, NULL);
    pthread_mutex_unlock(&e->lock);
    return took_ms;
}
