/* Keeps up to `max` pack files open and counts their readers. If the object store has no local files, it
 * also counts for each pack the reads that did not continue an earlier read, to decide when fetching the
 * whole pack is worth its cost. */
#include "storage/store/pack_files.h"

#include "storage/store/pack_read_window.h"

#include <pthread.h>

/* bytes read from the end of a remote pack: in most cases the whole footer */
#define TAIL_BYTES  ((size_t)1 << 20)
#define AHEAD_BYTES ((uint64_t)8 << 20)
#define SPOTS       64u

struct open_pack {
    struct pl_hash id;
    int fd;
    unsigned readers;
    uint64_t used; /* value of `tick` at the last use */
};

/* Counts the reads of one remote pack that did not continue an earlier read. */
struct spots {
    struct pl_hash pack;
    unsigned n;
    uint64_t used;
};

struct pl_pack_files {
    struct pl_object_store *objects;
    const char *project;
    struct pl_pack_read_windows *windows;
    pthread_mutex_t lock;
    uint64_t tick;
    struct spots spots[SPOTS];
    unsigned count, max;
    struct open_pack open[]; /* the first `count` are in use */
};

static int fetch_range(void *self, const struct pl_hash *pack, uint64_t start, uint64_t end, struct pl_buf *ret,
                       struct pl_err *err)
{
    const struct pl_pack_files *f = self;
    char key[PL_PACK_KEY_BYTES];

    return pl_object_get_some(f->objects, pl_pack_key(f->project, pack, key), start, end - start, ret, err);
}

struct pl_pack_files *pl_pack_files_create(struct pl_object_store *objects, const char *project, unsigned max_open)
{
    struct pl_pack_files *f = calloc(1, sizeof(*f) + max_open * sizeof(f->open[0]));

    if (f == NULL)
        return NULL;
    f->objects = objects;
    f->project = project;
    f->max = max_open;
    pthread_mutex_init(&f->lock, NULL);
    f->windows = pl_pack_windows_create(fetch_range, f);
    return f->windows != NULL ? f : pl_pack_files_destroy(f);
}

struct pl_pack_files *pl_pack_files_destroy(struct pl_pack_files *f)
{
    if (f == NULL)
        return NULL;
    for (unsigned i = 0; i < f->count; i++)
        close(f->open[i].fd);
    pl_pack_windows_destroy(f->windows);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

/* Finds an open pack in the table. The caller holds the lock, also for the next three functions. */
static struct open_pack *files_find(struct pl_pack_files *f, const struct pl_hash *id)
{
    for (unsigned i = 0; i < f->count; i++)
        if (pl_hash_eq(&f->open[i].id, id))
            return &f->open[i];
    return NULL;
}

static void files_close(struct pl_pack_files *f, struct open_pack *p)
{
    close(p->fd);
    *p = f->open[--f->count];
}

/* Makes space for one more open pack: closes the least recently used one that no thread reads. False if
 * all are in use. */
static bool files_make_room(struct pl_pack_files *f)
{
    struct open_pack *least = NULL;

    if (f->count < f->max)
        return true;
    for (unsigned i = 0; i < f->count; i++)
        if (f->open[i].readers == 0 && (least == NULL || f->open[i].used < least->used))
            least = &f->open[i];
    if (least == NULL)
        return false;
    files_close(f, least);
    return true;
}

/* Returns a descriptor of the store's own file, or of a local copy if `copy`. `*ret_kept` is set if the
 * descriptor is in the table of open packs; otherwise the caller must close it. Entries of the table may
 * move, so files_release looks the pack up again by its id. */
static int files_acquire(struct pl_pack_files *f, const struct pl_hash *id, bool copy, int *ret_fd, bool *ret_kept,
                         struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    struct open_pack *p;
    int fd, r;

    pthread_mutex_lock(&f->lock);
    p = files_find(f, id);
    if (p != NULL) {
        p->readers++;
        p->used = ++f->tick;
        *ret_fd = p->fd;
        *ret_kept = true;
    }
    pthread_mutex_unlock(&f->lock);
    if (p != NULL)
        return 0;
    (void)pl_pack_key(f->project, id, key);
    r = copy ? pl_object_local_fd(f->objects, key, &fd, err) : pl_object_open_fd(f->objects, key, &fd, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&f->lock);
    *ret_kept = files_find(f, id) == NULL && files_make_room(f);
    if (*ret_kept)
        f->open[f->count++] = (struct open_pack){.id = *id, .fd = fd, .readers = 1, .used = ++f->tick};
    pthread_mutex_unlock(&f->lock);
    *ret_fd = fd;
    return 0;
}

static void files_release(struct pl_pack_files *f, const struct pl_hash *id, int fd, bool kept)
{
    if (!kept) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&f->lock);
    files_find(f, id)->readers--;
    pthread_mutex_unlock(&f->lock);
}

/* ---- object stores without local files ---- */

/* A pl_pack_input for a remote pack, meant for reading the footer or the whole pack. The last TAIL_BYTES are
 * fetched first; everything before them is read from front to back with read-ahead. */
struct object_input {
    struct pl_object_store *objects;
    char key[PL_PACK_KEY_BYTES];
    uint64_t size;
    struct pl_buf tail, ahead;
    uint64_t ahead_at;
};

static bool take_from(const struct pl_buf *b, uint64_t b_at, uint64_t offset, void *out, size_t n)
{
    if (offset < b_at || n > b->len || offset - b_at > b->len - n)
        return false;
    memcpy(out, b->data + (offset - b_at), n);
    return true;
}

static int object_input_read(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err)
{
    struct object_input *in = self;
    int r;

    if (n == 0 || take_from(&in->tail, in->size - in->tail.len, offset, out, n) ||
        take_from(&in->ahead, in->ahead_at, offset, out, n))
        return 0;
    in->ahead.max = (size_t)PL_MAX(AHEAD_BYTES, (uint64_t)n);
    in->ahead_at = offset;
    r = pl_object_get_some(in->objects, in->key, offset, PL_MAX(AHEAD_BYTES, (uint64_t)n), &in->ahead, err);
    if (r < 0)
        in->ahead.len = 0;
    if (r == 0 && !take_from(&in->ahead, offset, offset, out, n))
        r = pl_err_set(err, PL_ECORRUPT, "the pack ends early");
    return r;
}

static int files_read_object(struct pl_pack_files *f, const struct pl_hash *pack,
                             int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg,
                             struct pl_err *err)
{
    struct object_input object = {.objects = f->objects, .tail.max = TAIL_BYTES};
    struct pl_pack_input in = {&object, object_input_read, 0};
    int r = pl_object_tail(f->objects, pl_pack_key(f->project, pack, object.key), TAIL_BYTES, &object.tail, &object.size, err);

    in.size = object.size;
    if (r == 0)
        r = fn(&in, arg, err);
    pl_buf_finish(&object.tail);
    pl_buf_finish(&object.ahead);
    return r;
}

/* Returns the counter of a pack, replacing the least recently used counter if the pack has none. With the
 * lock held. */
static struct spots *files_spots(struct pl_pack_files *f, const struct pl_hash *pack)
{
    struct spots *oldest = &f->spots[0];

    for (unsigned i = 0; i < SPOTS; i++) {
        if (f->spots[i].n > 0 && pl_hash_eq(&f->spots[i].pack, pack))
            return &f->spots[i];
        if (f->spots[i].used < oldest->used)
            oldest = &f->spots[i];
    }
    *oldest = (struct spots){.pack = *pack};
    return oldest;
}

static void files_note_spot(struct pl_pack_files *f, const struct pl_hash *pack)
{
    struct spots *spots;

    pthread_mutex_lock(&f->lock);
    spots = files_spots(f, pack);
    spots->n++;
    spots->used = ++f->tick;
    pthread_mutex_unlock(&f->lock);
}

/* True if the record should be read from a local copy of its pack: if it is a tree node, because nodes are
 * read often and together; if many reads of the pack did not continue an earlier read; or if a local copy
 * exists. */
static bool files_want_copy(struct pl_pack_files *f, const struct pl_location *where)
{
    char key[PL_PACK_KEY_BYTES];
    bool want;

    if (where->kind != PL_REC_CHUNK)
        return true;
    pthread_mutex_lock(&f->lock);
    want = files_find(f, &where->pack) != NULL || files_spots(f, &where->pack)->n >= PL_PACK_SPOTS_WHOLE;
    pthread_mutex_unlock(&f->lock);
    return want || pl_object_has_local(f->objects, pl_pack_key(f->project, &where->pack, key));
}

/* ---- all object stores ---- */

static int files_read_fd(struct pl_pack_files *f, const struct pl_hash *pack, bool copy,
                         int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err)
{
    struct pl_pack_input in;
    bool kept;
    off_t size;
    int fd, r;

    r = files_acquire(f, pack, copy, &fd, &kept, err);
    if (r < 0)
        return r;
    /* reads use offsets, so changing the file position has no effect on them */
    size = lseek(fd, 0, SEEK_END);
    in = pl_pack_input_fd(&fd, (uint64_t)PL_MAX(size, (off_t)0));
    r = fn(&in, arg, err);
    files_release(f, pack, fd, kept);
    return r;
}

/* Adds the pack's id to the error message. A missing pack counts as damage: PL_ENOTFOUND becomes
 * PL_ECORRUPT. */
static int wrap(struct pl_err *err, int r, const struct pl_hash *pack)
{
    char hex[PL_HASH_HEX + 1];

    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ECORRUPT, "pack %s is missing", pl_hash_hex(pack, hex));
    return r < 0 ? pl_err_wrap(err, r, "pack %s", pl_hash_hex(pack, hex)) : r;
}

int pl_pack_files_read(struct pl_pack_files *f, const struct pl_hash *pack,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err)
{
    int r = files_read_fd(f, pack, false, fn, arg, err);

    if (r == PL_EUNAVAILABLE)
        r = files_read_object(f, pack, fn, arg, err);
    return wrap(err, r, pack);
}

struct record_read {
    struct pl_pack_entry entry;
    struct pl_buf *ret;
};

static int read_record(const struct pl_pack_input *in, void *arg, struct pl_err *err)
{
    const struct record_read *read = arg;

    return pl_pack_record_read(in, &read->entry, read->ret, err);
}

/* Reads a record from a local copy of its pack. PL_EUNAVAILABLE: the caller must read it in another way,
 * because there is no copy, no space for one, or the copy is damaged. */
static int files_record_of_copy(struct pl_pack_files *f, struct record_read *read, const struct pl_location *where,
                                struct pl_err *err)
{
    int r = PL_EUNAVAILABLE;

    if (files_want_copy(f, where))
        r = files_read_fd(f, &where->pack, true, read_record, read, err);
    if (r == PL_ENOSPC)
        return PL_EUNAVAILABLE;
    if (r != PL_ECORRUPT)
        return r;
    pl_pack_files_forget(f, &where->pack); /* the copy may be damaged although the pack itself is not */
    return PL_EUNAVAILABLE;
}

int pl_pack_files_record(struct pl_pack_files *f, const struct pl_hash *id, const struct pl_location *where, struct pl_buf *ret,
                         struct pl_err *err)
{
    struct record_read read = {
        .entry = {.id = *id,
                  .offset = where->offset,
                  .stored = where->stored,
                  .raw = where->raw,
                  .codec = where->codec,
                  .kind = where->kind},
        .ret = ret,
    };
    bool new_spot = false;
    int r = PL_EUNAVAILABLE;

    if ((pl_object_caps(f->objects) & PL_OBJECT_FILES) != 0)
        return wrap(err, files_read_fd(f, &where->pack, false, read_record, &read, err), &where->pack);
    r = files_record_of_copy(f, &read, where, err);
    if (r == PL_EUNAVAILABLE)
        r = pl_pack_windows_read(f->windows, id, where, ret, &new_spot, err);
    if (new_spot)
        files_note_spot(f, &where->pack);
    return wrap(err, r, &where->pack);
}

void pl_pack_files_forget(struct pl_pack_files *f, const struct pl_hash *pack)
{
    char key[PL_PACK_KEY_BYTES];
    struct open_pack *p;

    pthread_mutex_lock(&f->lock);
    p = files_find(f, pack);
    if (p != NULL && p->readers == 0)
        files_close(f, p);
    pthread_mutex_unlock(&f->lock);
    pl_object_forget_local(f->objects, pl_pack_key(f->project, pack, key));
}
