/* object_cache: a map of entries and a list of them in order of use. One mutex guards both; it is released
 * while an object is loaded. A file is written under a temporary name and renamed. */
#include "storage/object/object_cache.h"

#include "storage/base/hash.h"
#include "storage/base/map.h"
#include "storage/system/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

enum entry_state { LOADING, READY };

struct entry {
    struct entry *newer, *older;
    enum entry_state state;
    uint64_t size;
    char name[];
};

struct pl_object_cache {
    char *dir;
    uint64_t max_bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pl_map entries; /* file name → entry */
    struct entry *newest, *oldest;
    uint64_t bytes; /* total size of the entries in state READY */
    unsigned loads;
};

/* Converts a key to a file name: '/' becomes ':', which keys do not contain. Returns false if it is too
 * long. */
static bool name_of(const char *key, char out[NAME_MAX + 1])
{
    const size_t n = strlen(key);

    if (n == 0 || n > NAME_MAX - 40) /* leaves room for a temporary name */
        return false;
    for (size_t i = 0; i <= n; i++)
        out[i] = key[i] == '/' ? ':' : key[i];
    return true;
}

static void unlink_entry(struct pl_object_cache *c, struct entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &c->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &c->oldest) = e->newer;
}

static void link_newest(struct pl_object_cache *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

/* The callers of the following functions hold the lock. */
static struct entry *add_entry(struct pl_object_cache *c, const char *name, enum entry_state state, uint64_t size)
{
    const size_t n = strlen(name);
    struct entry *e = malloc(sizeof(*e) + n + 1);

    if (e == NULL)
        return NULL;
    *e = (struct entry){.state = state, .size = size};
    memcpy(e->name, name, n + 1);
    if (pl_map_put(&c->entries, name, n, e, NULL, NULL) < 0) {
        free(e);
        return NULL;
    }
    link_newest(c, e);
    c->bytes += state == READY ? size : 0;
    return e;
}

static void drop_entry(struct pl_object_cache *c, struct entry *e)
{
    char path[PATH_MAX];

    (void)pl_map_remove(&c->entries, e->name, strlen(e->name));
    unlink_entry(c, e);
    if (e->state == READY) {
        c->bytes -= e->size;
        if (snprintf(path, sizeof(path), "%s/%s", c->dir, e->name) < (int)sizeof(path))
            (void)unlink(path);
    }
    free(e);
}

static void make_room(struct pl_object_cache *c, uint64_t most)
{
    for (struct entry *e = c->oldest, *newer; e != NULL && c->bytes > most; e = newer) {
        newer = e->newer;
        if (e->state == READY)
            drop_entry(c, e);
    }
}

static struct entry *find(struct pl_object_cache *c, const char *name)
{
    return pl_map_get(&c->entries, name, strlen(name));
}

/* Opens the file of an entry in state READY and makes the entry the most recently used one. If the file no
 * longer exists, drops the entry and returns -1. */
static int open_ready(struct pl_object_cache *c, struct entry *e)
{
    char path[PATH_MAX];
    int fd = -1;

    if (snprintf(path, sizeof(path), "%s/%s", c->dir, e->name) < (int)sizeof(path))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        unlink_entry(c, e);
        link_newest(c, e);
    } else {
        drop_entry(c, e);
    }
    return fd;
}

/* Writes the bytes under a temporary name and renames the file. It is not synced: a reader detects a copy
 * that a crash damaged. */
static int store_copy(const struct pl_object_cache *c, const char *name, const void *bytes, size_t n, int *ret_fd,
                      struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    char temp[PATH_MAX], path[PATH_MAX], hex[33];
    uint8_t random[16];
    int r;

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), hex);
    if (snprintf(temp, sizeof(temp), "%s/.%s", c->dir, hex) >= (int)sizeof(temp) ||
        snprintf(path, sizeof(path), "%s/%s", c->dir, name) >= (int)sizeof(path))
        return pl_err_set(err, PL_EUNAVAILABLE, "the folder name %.64s… is too long", c->dir);
    fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pl_err_errno(err, errno, "cannot make %s", temp);
    r = n > 0 ? pl_io_write(fd, bytes, n, temp, err) : 0;
    if (r == 0 && n > c->max_bytes)
        (void)unlink(temp); /* the object is larger than the cache: the file is opened, but not kept */
    else if (r == 0)
        r = pl_io_rename(temp, path, err);
    if (r < 0) {
        (void)unlink(temp);
        return r;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Ends the state LOADING and wakes the threads that wait for it. The caller holds the lock. */
static void end_loading(struct pl_object_cache *c, struct entry *e, bool stored, uint64_t size)
{
    if (stored && size <= c->max_bytes) {
        e->state = READY;
        e->size = size;
        c->bytes += size;
        make_room(c, c->max_bytes);
    } else {
        drop_entry(c, e);
    }
    pthread_cond_broadcast(&c->changed);
}

/* Loads the object of an entry. The entry is in state LOADING, in which only the loading thread changes it.
 * The caller holds the lock; it is released while the object is loaded. */
static int load_entry(struct pl_object_cache *c, struct entry *e, const char *key,
                      int (*load)(void *self, const char *key, struct pl_buf *ret, struct pl_err *err), void *self, int *ret_fd,
                      struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    int r;

    while (c->loads == PL_OBJECT_CACHE_LOADS)
        pthread_cond_wait(&c->changed, &c->lock);
    c->loads++;
    pthread_mutex_unlock(&c->lock);
    r = load(self, key, &bytes, err);
    if (r == 0)
        r = store_copy(c, e->name, bytes.data, bytes.len, ret_fd, err);
    if (r == PL_ENOSPC) { /* the disk is full: remove all other copies */
        pthread_mutex_lock(&c->lock);
        make_room(c, 0);
        pthread_mutex_unlock(&c->lock);
        r = store_copy(c, e->name, bytes.data, bytes.len, ret_fd, err);
    }
    pthread_mutex_lock(&c->lock);
    c->loads--;
    end_loading(c, e, r == 0, bytes.len);
    return r;
}

void pl_object_cache_keep(struct pl_object_cache *c, const char *key, const void *bytes, size_t n)
{
    _cleanup_close_ int fd = -1;
    char name[NAME_MAX + 1];
    struct entry *e = NULL;
    int r;

    if (n > c->max_bytes || !name_of(key, name))
        return;
    pthread_mutex_lock(&c->lock);
    if (find(c, name) == NULL)
        e = add_entry(c, name, LOADING, 0);
    pthread_mutex_unlock(&c->lock);
    if (e == NULL)
        return;
    r = store_copy(c, name, bytes, n, &fd, NULL);
    pthread_mutex_lock(&c->lock);
    end_loading(c, e, r == 0, n);
    pthread_mutex_unlock(&c->lock);
}

/* Opens the copy if it is ready. If another thread is loading the object, waits for it; otherwise loads the
 * object on this thread. */
int pl_object_cache_get(struct pl_object_cache *c, const char *key,
                        int (*load)(void *self, const char *key, struct pl_buf *ret, struct pl_err *err), void *self, int *ret_fd,
                        struct pl_err *err)
{
    char name[NAME_MAX + 1];
    struct entry *e;
    int r = 0, fd = -1;

    if (!name_of(key, name))
        return pl_err_set(err, PL_EUNAVAILABLE, "the key %.64s… is too long for a file name", key);
    pthread_mutex_lock(&c->lock);
    while ((e = find(c, name)) != NULL && fd < 0) {
        if (e->state == LOADING)
            pthread_cond_wait(&c->changed, &c->lock);
        else
            fd = open_ready(c, e);
    }
    if (fd < 0) {
        e = add_entry(c, name, LOADING, 0);
        r = e != NULL ? load_entry(c, e, key, load, self, &fd, err) : pl_err_nomem(err);
    }
    pthread_mutex_unlock(&c->lock);
    if (r == 0)
        *ret_fd = fd;
    return r;
}

void pl_object_cache_forget(struct pl_object_cache *c, const char *key)
{
    char name[NAME_MAX + 1];
    struct entry *e;

    if (!name_of(key, name))
        return;
    pthread_mutex_lock(&c->lock);
    e = find(c, name);
    if (e != NULL && e->state == READY)
        drop_entry(c, e);
    pthread_mutex_unlock(&c->lock);
}

bool pl_object_cache_has(struct pl_object_cache *c, const char *key)
{
    const struct entry *e;
    char name[NAME_MAX + 1];
    bool has;

    if (!name_of(key, name))
        return false;
    pthread_mutex_lock(&c->lock);
    e = find(c, name);
    has = e != NULL && e->state == READY;
    pthread_mutex_unlock(&c->lock);
    return has;
}

uint64_t pl_object_cache_bytes(struct pl_object_cache *c)
{
    uint64_t bytes;

    pthread_mutex_lock(&c->lock);
    bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
    return bytes;
}

/* Adds the files that an earlier process left in the folder. Their order of use is unknown, so the order of
 * the folder's listing is used. */
static int take_over(struct pl_object_cache *c, struct pl_err *err)
{
    struct dirent *d;
    struct stat st;
    DIR *dir = opendir(c->dir);

    if (dir == NULL)
        return pl_err_errno(err, errno, "cannot open folder %s", c->dir);
    while ((d = readdir(dir)) != NULL) {
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        if (d->d_name[0] == '.')
            (void)unlinkat(dirfd(dir), d->d_name, 0);
        else if (add_entry(c, d->d_name, READY, (uint64_t)st.st_size) == NULL)
            break;
    }
    closedir(dir);
    make_room(c, c->max_bytes);
    return 0;
}

int pl_object_cache_open(const char *dir, uint64_t max_bytes, struct pl_object_cache **ret, struct pl_err *err)
{
    struct pl_object_cache *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->max_bytes = max_bytes;
    c->dir = strdup(dir);
    r = c->dir != NULL ? pl_io_mkdirs(dir, 0700, err) : pl_err_nomem(err);
    if (r == 0)
        r = take_over(c, err);
    if (r < 0) {
        pl_object_cache_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct pl_object_cache *pl_object_cache_close(struct pl_object_cache *c)
{
    if (c == NULL)
        return NULL;
    pl_map_finish(&c->entries, free);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->dir);
    free(c);
    return NULL;
}
