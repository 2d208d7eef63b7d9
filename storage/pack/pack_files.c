#include "pack_files.h"

#include <pthread.h>

struct open_pack {
    struct pl_hash id;
    int fd;
    unsigned readers;
    uint64_t used; /* tick of the last use */
};

struct pl_pack_files {
    struct pl_object_store *objects;
    const char *project;
    pthread_mutex_t lock;
    uint64_t tick;
    unsigned count, max;
    struct open_pack open[]; /* the first `count` */
};

struct pl_pack_files *pl_pack_files_create(struct pl_object_store *objects, const char *project, unsigned max_open)
{
    struct pl_pack_files *f = calloc(1, sizeof(*f) + max_open * sizeof(f->open[0]));

    if (f == NULL)
        return NULL;
    f->objects = objects;
    f->project = project;
    f->max = max_open;
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

struct pl_pack_files *pl_pack_files_destroy(struct pl_pack_files *f)
{
    if (f == NULL)
        return NULL;
    for (unsigned i = 0; i < f->count; i++)
        close(f->open[i].fd);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

/* Under the lock, like the next three. */
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

/* The least recently used of those that nobody reads makes room. False when all are being read. */
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

/* A descriptor to read from; `*ret_kept`: it is in the table, else the caller closes it. Slots move, so readers are counted by id. */
static int files_acquire(struct pl_pack_files *f, const struct pl_hash *id, int *ret_fd, bool *ret_kept, struct pl_err *err)
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
    r = pl_object_open_fd(f->objects, pl_pack_key(f->project, id, key), &fd, err);
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

/* For drivers without files: each read is a range of the object. */
struct object_input {
    struct pl_object_store *objects;
    char key[PL_PACK_KEY_BYTES];
};

static int object_input_read(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct object_input *in = self;
    int r = pl_object_get(in->objects, in->key, offset, n, &b, err);

    if (r == 0)
        memcpy(out, b.data, n);
    return r;
}

static int files_read_object(struct pl_pack_files *f, const struct pl_hash *pack,
                             int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg,
                             struct pl_err *err)
{
    struct object_input object = {.objects = f->objects};
    struct pl_pack_input in = {&object, object_input_read, 0};
    int r = pl_object_size(f->objects, pl_pack_key(f->project, pack, object.key), &in.size, err);

    return r < 0 ? r : fn(&in, arg, err);
}

static int files_read_fd(struct pl_pack_files *f, const struct pl_hash *pack,
                         int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err)
{
    struct pl_pack_input in;
    bool kept;
    off_t size;
    int fd, r;

    r = files_acquire(f, pack, &fd, &kept, err);
    if (r < 0)
        return r;
    size = lseek(fd, 0, SEEK_END); /* reads are by offset: the position is nobody's */
    in = pl_pack_input_fd(&fd, (uint64_t)PL_MAX(size, (off_t)0));
    r = fn(&in, arg, err);
    files_release(f, pack, fd, kept);
    return r;
}

int pl_pack_files_read(struct pl_pack_files *f, const struct pl_hash *pack,
                       int (*fn)(const struct pl_pack_input *in, void *arg, struct pl_err *err), void *arg, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r = files_read_fd(f, pack, fn, arg, err);

    if (r == PL_EUNAVAILABLE)
        r = files_read_object(f, pack, fn, arg, err);
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_ECORRUPT, "pack %s is missing", pl_hash_hex(pack, hex));
    return r < 0 ? pl_err_wrap(err, r, "pack %s", pl_hash_hex(pack, hex)) : r;
}

void pl_pack_files_forget(struct pl_pack_files *f, const struct pl_hash *pack)
{
    struct open_pack *p;

    pthread_mutex_lock(&f->lock);
    p = files_find(f, pack);
    if (p != NULL && p->readers == 0)
        files_close(f, p);
    pthread_mutex_unlock(&f->lock);
}
