/* Keeps a copy of each open commit in the bucket, if its repo has the option durable set to "bucket". A
 * daemon that has lost its folder continues from the copy. Each append to the commit's file (the spool) is
 * put into the bucket as an object first. The objects, joined by their offsets, are the content of the file.
 *
 *   open/<commit>/<offset>-<epoch>-<try>     numbers of 16, 16 and 8 hex digits; the file's bytes from that offset on
 *
 *   append ─▶ object put, name durable ─▶ this daemon still owns the log ─▶ appended to the file ─▶ answered
 *
 * A key is never put twice, because a put that failed may still arrive after its repetition. So if several
 * objects have the same offset, only the one with the last key is used. An object that follows one of a
 * higher epoch is ignored: the daemon that put it was fenced. A daemon that takes over lists the objects
 * after its epoch is in the log, so it sees everything that was acknowledged before. If the open commit ends
 * without a log record, its objects are removed before the end, otherwise after it. A sweep removes objects
 * that were left behind. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define PREFIX    "open/"
#define KEY_BYTES 96

struct piece {
    uint64_t offset, epoch, size;
    unsigned try;
};

/* The objects of one open commit that are used: they join without a gap from offset 0. */
struct pl_open_saved {
    char commit[PL_ID_HEX + 1];
    struct piece *pieces;
    size_t n, cap;
};

static void make_key(const char *commit, const struct piece *p, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, PREFIX "%.32s/%016" PRIx64 "-%016" PRIx64 "-%08x", commit, p->offset, p->epoch, p->try);
}

static bool parse_key(const char *key, char commit[PL_ID_HEX + 1], struct piece *ret)
{
    char again[KEY_BYTES];

    if (sscanf(key, PREFIX "%32[0-9a-f]/%16" SCNx64 "-%16" SCNx64 "-%8x", commit, &ret->offset, &ret->epoch, &ret->try) != 4)
        return false;
    make_key(commit, ret, again);
    return pl_id_ok(commit) && pl_streq(key, again);
}

static struct pl_object_store *objects_of(const struct pl_open_commits *o)
{
    return pl_db_objects(o->config.db);
}

/* ---- writing ---- */

static int save(void *self, uint64_t offset, const struct iovec *iov, int n, struct pl_err *err)
{
    struct pl_open_commit *c = self;
    struct pl_db *db = c->o->config.db;
    const struct piece p = {.offset = offset, .epoch = pl_db_epoch(db), .try = c->save_tries++};
    char key[KEY_BYTES];
    int r;

    make_key(pl_open_commit_head(c)->commit, &p, key);
    atomic_store(&c->saved, true); /* set `saved` before the put: a put that fails may still store the object */
    r = pl_object_put(objects_of(c->o), key, iov, n, true, err);
    r = r < 0 ? r : pl_object_flush(objects_of(c->o), err);
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : pl_db_check_owner(db, err);
}

static const struct pl_open_saved *find_saved(const struct pl_open_commits *o, const char *commit)
{
    for (size_t i = 0; i < o->n_saved; i++)
        if (pl_streq(o->saved[i].commit, commit))
            return &o->saved[i];
    return NULL;
}

static uint64_t size_of(const struct pl_open_saved *s)
{
    return s && s->n ? s->pieces[s->n - 1].offset + s->pieces[s->n - 1].size : 0;
}

void pl_open_begin_saving(struct pl_open_commit *c)
{
    const struct pl_open_saved *s = find_saved(c->o, pl_open_commit_head(c)->commit);

    if (!pl_open_commit_head(c)->bucket)
        return;
    atomic_store(&c->saved, s != NULL);
    pl_op_spool_copy_to(c->spool, save, c, size_of(s));
}

/* ---- removing ---- */

struct keys {
    char (*list)[KEY_BYTES];
    size_t n, cap;
};

static int add_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct keys *k = arg;

    (void)size;
    if (strlen(key) >= KEY_BYTES)
        return 0; /* not a key that this program makes */
    if (k->n == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 16;
        char(*list)[KEY_BYTES] = reallocarray(k->list, cap, sizeof *list);

        if (!list)
            return pl_err_nomem(err);
        k->list = list;
        k->cap = cap;
    }
    memcpy(k->list[k->n++], key, strlen(key) + 1);
    return 0;
}

/* Removes the objects at offset 0 first, one by one. Without them the other objects are ignored, even if the
 * removal is interrupted. */
static int remove_keys(struct pl_object_store *objects, const struct keys *k, struct pl_err *err)
{
    _cleanup_free_ const char **rest = calloc(k->n + 1, sizeof *rest);
    char commit[PL_ID_HEX + 1];
    struct piece p;
    size_t n = 0;
    int r = rest ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < k->n && r == 0; i++) {
        if (parse_key(k->list[i], commit, &p) && p.offset == 0)
            r = pl_object_remove(objects, k->list[i], err);
        else
            rest[n++] = k->list[i];
    }
    r = r < 0 || !n ? r : pl_object_remove_many(objects, rest, n, err);
    return r < 0 ? r : pl_object_flush(objects, err);
}

static int remove_commit(struct pl_open_commits *o, const char *commit, struct pl_err *err)
{
    struct keys k = {0};
    char prefix[KEY_BYTES];
    int r;

    snprintf(prefix, sizeof prefix, PREFIX "%.32s/", commit);
    r = pl_object_list(objects_of(o), prefix, add_key, &k, err);
    r = r < 0 ? r : remove_keys(objects_of(o), &k, err);
    free(k.list);
    return r < 0 ? pl_err_wrap(err, r, "cannot remove the objects of open commit %.8s from the bucket", commit) : 0;
}

int pl_open_unsave(struct pl_open_commit *c, struct pl_err *err)
{
    int r = atomic_load(&c->saved) ? remove_commit(c->o, pl_open_commit_head(c)->commit, err) : 0;

    if (r == 0)
        atomic_store(&c->saved, false);
    return r;
}

void pl_opens_sweep_later(struct pl_open_commits *o, const struct pl_err *why)
{
    pl_log_warn("open", "cannot remove the objects of ended open commits, will retry: %s", why->msg);
    pthread_mutex_lock(&o->lock);
    o->sweep_ms = pl_clock_mono_ms() + o->config.retry_ms;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
}

static bool is_open(struct pl_open_commits *o, const char *commit)
{
    struct pl_open_commit *c;

    pthread_mutex_lock(&o->lock);
    for (c = o->list; c && !pl_streq(pl_open_commit_head(c)->commit, commit); c = c->next)
        ;
    pthread_mutex_unlock(&o->lock);
    return c;
}

void pl_opens_sweep(struct pl_open_commits *o)
{
    char commit[PL_ID_HEX + 1], last[PL_ID_HEX + 1] = "";
    struct keys k = {0};
    struct pl_err err = {0};
    struct piece p;
    int r = pl_object_list(objects_of(o), PREFIX, add_key, &k, &err);

    /* a commit that has objects here but is not open now will not be opened later */
    for (size_t i = 0; i < k.n && r == 0; i++) {
        if (!parse_key(k.list[i], commit, &p) || pl_streq(commit, last))
            continue;
        memcpy(last, commit, sizeof last);
        r = is_open(o, commit) ? 0 : remove_commit(o, commit, &err);
    }
    free(k.list);
    if (r < 0)
        pl_opens_sweep_later(o, &err);
}

/* ---- at a start ---- */

void pl_opens_saved_finish(struct pl_open_commits *o)
{
    for (size_t i = 0; i < o->n_saved; i++)
        free(o->saved[i].pieces);
    free(o->saved);
    o->saved = NULL;
    o->n_saved = 0;
}

/* Adds an object unless it is to be ignored. Keys come sorted by commit, then by offset; the last one of an
 * offset replaces the others. */
static int add_piece(struct pl_open_saved *s, const struct piece *p, struct pl_err *err)
{
    struct piece *list;
    bool again = s->n && s->pieces[s->n - 1].offset == p->offset;
    size_t before = s->n - again; /* number of pieces at offsets below p->offset */

    if (before ? p->offset != s->pieces[before - 1].offset + s->pieces[before - 1].size || p->epoch < s->pieces[before - 1].epoch
               : p->offset != 0)
        return 0;
    if (!again && s->n == s->cap) {
        list = reallocarray(s->pieces, s->cap ? 2 * s->cap : 8, sizeof *list);
        if (!list)
            return pl_err_nomem(err);
        s->pieces = list;
        s->cap = s->cap ? 2 * s->cap : 8;
    }
    s->pieces[before] = *p;
    s->n = before + 1;
    return 0;
}

static int add_saved(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct pl_open_commits *o = arg;
    struct pl_open_saved *s;
    char commit[PL_ID_HEX + 1];
    struct piece p;

    if (!parse_key(key, commit, &p))
        return 0;
    p.size = size;
    if (!o->n_saved || !pl_streq(o->saved[o->n_saved - 1].commit, commit)) {
        s = reallocarray(o->saved, o->n_saved + 1, sizeof *s);
        if (!s)
            return pl_err_nomem(err);
        o->saved = s;
        s[o->n_saved] = (struct pl_open_saved){0};
        memcpy(s[o->n_saved++].commit, commit, sizeof commit);
    }
    return add_piece(&o->saved[o->n_saved - 1], &p, err);
}

/* Sets `*ret` to the number of bytes of the file that verify; 0: the file does not exist, or is damaged. */
static int local_size(const char *path, uint64_t *ret, struct pl_err *err)
{
    _cleanup_(pl_open_commit_file_closep) struct pl_open_commit_file *s = NULL;
    struct pl_op_set table = {0};
    struct stat st;
    int r;

    *ret = 0;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? 0 : pl_err_errno(err, errno, "%s", path);
    r = pl_open_commit_file_open(path, &table, &s, err);
    if (r == 0)
        *ret = pl_op_spool_size(s);
    pl_op_set_finish(&table);
    return r == PL_ECORRUPT || r == PL_EFORMAT ? 0 : r;
}

static int fetch_piece(struct pl_open_commits *o, const struct pl_open_saved *s, const struct piece *p, int fd, const char *path,
                       struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = p->size};
    char key[KEY_BYTES];
    int r;

    make_key(s->commit, p, key);
    r = pl_object_get_all(objects_of(o), key, &bytes, err);
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : pl_io_pwrite(fd, bytes.data, bytes.len, p->offset, path, err);
}

/* Fetches the spool from the bucket into a temporary file, syncs it and renames it, so that the spool's name
 * never refers to an incomplete file. */
static int fetch(struct pl_open_commits *o, const struct pl_open_saved *s, const char *path, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    char temp[PATH_MAX];
    int r = 0;

    if (snprintf(temp, sizeof temp, "%s.fetched", path) >= (int)sizeof temp)
        return pl_err_set(err, PL_EINVAL, "the path %.200s… is too long", path);
    fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return pl_err_errno(err, errno, "create %s", temp);
    for (size_t i = 0; i < s->n && r == 0; i++)
        r = fetch_piece(o, s, &s->pieces[i], fd, temp, err);
    r = r < 0 ? r : pl_io_fdatasync(fd, temp, err);
    r = r < 0 ? r : pl_io_rename(temp, path, err);
    return r < 0 ? r : pl_io_fsync_dir(o->dir, err);
}

int pl_opens_restore(struct pl_open_commits *o, struct pl_err *err)
{
    char path[PATH_MAX];
    uint64_t has;
    int r = pl_object_list(objects_of(o), PREFIX, add_saved, o, err);

    for (size_t i = 0; i < o->n_saved && r == 0; i++) {
        const struct pl_open_saved *s = &o->saved[i];

        if (snprintf(path, sizeof path, "%s/%s" PL_OPEN_COMMIT_FILE_SUFFIX, o->dir, s->commit) >= (int)sizeof path)
            return pl_err_set(err, PL_EINVAL, "the path %.200s… is too long", o->dir);
        r = local_size(path, &has, err);
        if (r < 0 || has >= size_of(s))
            continue;
        r = fetch(o, s, path, err);
        if (r == 0)
            pl_log_info("open", "open commit %.8s: restored its operations from the bucket", s->commit);
    }
    return r;
}
