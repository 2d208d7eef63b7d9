/* object_file: the file driver. An object is a file of the folder, named by its key.
 *
 *   write DIR/tmp/<random> → fdatasync → renameat2(NOREPLACE) or rename → record the folder as dirty
 *
 * A flush fsyncs each dirty folder once. If the driver makes a folder for a key, the new folder's parent
 * becomes dirty too. The first flush after opening syncs the whole filesystem, because a killed process may
 * have left names that are visible but not yet on the disk.
 *
 * A removal syncs its folders at once instead of leaving them dirty: objects are removed by the hundred, and
 * the next flush usually belongs to a client that waits for a single put. */
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"
#include "storage/object/object.h"
#include "storage/system/io.h"
#include "storage/system/sync_priority.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#define TMP_STALE_SECONDS 86400

struct object_file {
    struct pl_object_store store;
    char *dir;
    pthread_mutex_t lock; /* guards dirty and all_dirty */
    /* Allows one flush at a time: a flush that finds no dirty folder must not return while another flush is
     * still syncing. */
    pthread_mutex_t flush;
    /* set of folders whose names may not be on the disk yet, relative to `dir` ("" = `dir` itself) */
    struct pl_map dirty;
    /* folders that are not in `dirty` may be dirty too: there was no memory to record them, or an earlier
     * process did not sync them */
    bool all_dirty;
};

static struct object_file *file_of(struct pl_object_store *s)
{
    return PL_CONTAINER_OF(s, struct object_file, store);
}

static int file_path(const struct object_file *f, const char *key, char out[PATH_MAX], struct pl_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", f->dir, key) >= PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "the path of object %s is too long", key);
    return 0;
}

/* Records the folder whose name is the first `len` bytes of a key as dirty. The caller holds the lock. The
 * object already has its name, so this cannot fail: without memory the next flush syncs the whole
 * filesystem. */
static void note_locked(struct object_file *f, const char *dir, size_t len)
{
    if (pl_map_put(&f->dirty, dir, len, f, NULL, NULL) < 0)
        f->all_dirty = true;
}

static void file_note_dirty(struct object_file *f, const char *dir, size_t len)
{
    pthread_mutex_lock(&f->lock);
    note_locked(f, dir, len);
    pthread_mutex_unlock(&f->lock);
}

/* Makes one folder and records its parent (the first `parent` bytes of `key`) as dirty. Both happen under
 * the lock: a thread that sees the new folder and then takes the lock finds the parent recorded, so no
 * flush misses the parent. */
static int file_make_dir(struct object_file *f, const char *path, const char *key, size_t parent, struct pl_err *err)
{
    int r = 0;

    pthread_mutex_lock(&f->lock);
    if (mkdir(path, 0777) == 0)
        note_locked(f, key, parent);
    else if (errno != EEXIST)
        r = pl_err_errno(err, errno, "cannot make folder %s", path);
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* Returns the length of the key's folder: 3 for "a/b/c", 0 for a key without a folder. */
static size_t key_dir_len(const char *key)
{
    const char *slash = strrchr(key, '/');

    return slash != NULL ? (size_t)(slash - key) : 0;
}

/* Makes the folders of a key that do not exist. */
static int file_make_dirs(struct object_file *f, const char *key, struct pl_err *err)
{
    char path[PATH_MAX];
    size_t len = key_dir_len(key), base = strlen(f->dir) + 1, parent = 0;
    int r = file_path(f, key, path, err);

    if (r < 0)
        return r;
    path[base + len] = '\0';
    if (len == 0 || access(path, F_OK) == 0)
        return 0;
    for (size_t i = 1; i <= len && r == 0; i++) {
        if (i < len && key[i] != '/')
            continue;
        path[base + i] = '\0';
        r = file_make_dir(f, path, key, parent, err);
        path[base + i] = i < len ? '/' : '\0';
        parent = i;
    }
    return r;
}

static int file_tmp_path(struct pl_object_store *s, char out[PATH_MAX], struct pl_err *err)
{
    struct object_file *f = file_of(s);
    uint8_t random[12];
    char name[32] = "tmp/";

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), name + 4);
    return file_path(f, name, out, err);
}

/* Renames the written and synced temporary file to the object's name. If the name exists already, its folder
 * is recorded as dirty too, because the program that created it may not have synced it yet. */
static int file_name_it(struct object_file *f, const char *key, const char *temp, bool exclusive, struct pl_err *err)
{
    char path[PATH_MAX];
    int r;

    r = file_path(f, key, path, err);
    if (r == 0)
        r = file_make_dirs(f, key, err);
    if (r == 0)
        r = exclusive ? pl_io_rename_noreplace(temp, path, err) : pl_io_rename(temp, path, err);
    if (r < 0 && r != PL_EEXISTS)
        return r;
    file_note_dirty(f, key, key_dir_len(key));
    return r < 0 ? pl_err_set(err, r, "object %s exists already", key) : 0;
}

static int file_write_temp(const char *temp, const struct iovec *iov, int n, const char *key, struct pl_err *err)
{
    _cleanup_close_ int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot create %s", temp);
    r = pl_io_write_behind(fd, iov, n, key, err);
    return r < 0 ? r : pl_io_fdatasync(fd, key, err);
}

static int file_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive,
                    struct pl_err *err)
{
    char temp[PATH_MAX];
    int r;

    r = file_tmp_path(s, temp, err);
    if (r < 0)
        return r;
    r = file_write_temp(temp, iov, n, key, err);
    if (r == 0)
        r = file_name_it(file_of(s), key, temp, exclusive, err);
    if (r < 0)
        unlink(temp);
    return r;
}

static int file_adopt_synced(struct object_file *f, const char *key, const char *temp, struct pl_err *err)
{
    _cleanup_close_ int fd = open(temp, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open %s", temp);
    r = pl_io_fdatasync(fd, key, err);
    return r < 0 ? r : file_name_it(f, key, temp, true, err);
}

static int file_adopt(struct pl_object_store *s, const char *key, const char *temp, struct pl_err *err)
{
    int r = file_adopt_synced(file_of(s), key, temp, err);

    if (r < 0)
        unlink(temp);
    return r;
}

/* Syncs folders. Those that could not be synced are recorded as dirty again, so that no later flush reports
 * them as durable. */
static int file_sync_dirs(struct object_file *f, struct pl_map *dirs, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    size_t i = 0;
    int r = 0;

    while ((slot = pl_map_next(dirs, &i)) != NULL) {
        char path[PATH_MAX];

        if (r == 0)
            r = file_path(f, (const char *)slot->key, path, err);
        if (r == 0)
            r = pl_io_fsync_dir(path, err);
        if (r < 0)
            file_note_dirty(f, (const char *)slot->key, slot->key_len);
    }
    return r;
}

/* Empties the set of dirty folders and syncs these folders, or the whole filesystem if all_dirty is set.
 * Folders that could not be synced become dirty again. */
static int file_flush(struct pl_object_store *s, struct pl_err *err)
{
    struct object_file *f = file_of(s);
    struct pl_map dirs;
    bool all;
    int r;

    pthread_mutex_lock(&f->flush);
    pthread_mutex_lock(&f->lock);
    dirs = f->dirty;
    f->dirty = (struct pl_map){0};
    all = f->all_dirty;
    f->all_dirty = false;
    pthread_mutex_unlock(&f->lock);
    r = file_sync_dirs(f, &dirs, err);
    if (r == 0 && all)
        r = pl_io_syncfs(f->dir, err);
    if (r < 0 && all) {
        pthread_mutex_lock(&f->lock);
        f->all_dirty = true;
        pthread_mutex_unlock(&f->lock);
    }
    pl_map_finish(&dirs, NULL);
    pthread_mutex_unlock(&f->flush);
    return r;
}

static int file_open_fd(struct pl_object_store *s, const char *key, int *ret_fd, struct pl_err *err)
{
    char path[PATH_MAX];
    int fd, r;

    r = file_path(file_of(s), key, path, err);
    if (r < 0)
        return r;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return pl_err_set(err, PL_ENOTFOUND, "object %s does not exist", key);
    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open object %s", key);
    *ret_fd = fd;
    return 0;
}

static int fd_size(int fd, const char *key, uint64_t *ret, struct pl_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot stat object %s", key);
    if (!S_ISREG(st.st_mode))
        return pl_err_set(err, PL_ENOTFOUND, "object %s does not exist", key);
    *ret = (uint64_t)st.st_size;
    return 0;
}

static int file_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    int r = file_open_fd(s, key, &fd, err);

    return r < 0 ? r : fd_size(fd, key, ret, err);
}

/* Reads a range; the size of the file is compared first, so that a short object is PL_ECORRUPT. */
static int file_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                    struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    uint64_t size;
    int r;

    r = file_open_fd(s, key, &fd, err);
    if (r == 0)
        r = fd_size(fd, key, &size, err);
    if (r < 0)
        return r;
    if (len == PL_OBJECT_TO_END)
        len = offset <= size ? size - offset : 0;
    if (offset > size || len > size - offset)
        return pl_err_set(err, PL_ECORRUPT, "object %s ends early: it has %llu bytes", key, (unsigned long long)size);
    pl_buf_clear(ret);
    r = pl_buf_reserve(ret, (size_t)len, err);
    if (r == 0 && len > 0)
        r = pl_io_pread(fd, ret->data, (size_t)len, offset, key, err);
    if (r < 0)
        return pl_err_wrap(err, r, "read object %s", key);
    ret->len = (size_t)len;
    return 0;
}

/* Removes the file of a key and adds its folder to `dirs`. */
static int file_unlink(struct object_file *f, const char *key, struct pl_map *dirs, struct pl_err *err)
{
    char path[PATH_MAX];
    int r = file_path(f, key, path, err);

    if (r < 0)
        return r;
    (void)pl_sync_priority_wait();
    if (unlink(path) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : pl_err_errno(err, errno, "cannot remove object %s", key);
    if (pl_map_put(dirs, key, key_dir_len(key), f, NULL, NULL) < 0)
        file_note_dirty(f, key, key_dir_len(key));
    return 0;
}

static int file_remove_many(struct pl_object_store *s, const char *const *keys, size_t n, struct pl_err *err)
{
    struct object_file *f = file_of(s);
    struct pl_map dirs = {0};
    int r = 0, synced;

    for (size_t i = 0; i < n && r == 0; i++)
        r = file_unlink(f, keys[i], &dirs, err);
    /* sync the folders of all removed objects, even if a later removal failed */
    synced = file_sync_dirs(f, &dirs, r < 0 ? NULL : err);
    pl_map_finish(&dirs, NULL);
    return r < 0 ? r : synced;
}

static int file_remove(struct pl_object_store *s, const char *key, struct pl_err *err)
{
    return file_remove_many(s, &key, 1, err);
}

/* A name in a folder. The name of a subfolder ends with '/', so that sorted names yield keys in byte
 * order. */
struct file_name {
    char *name;
    uint64_t size;
};

struct file_names {
    struct file_name *names;
    size_t n, cap;
};

static void file_names_finish(struct file_names *v)
{
    for (size_t i = 0; i < v->n; i++)
        free(v->names[i].name);
    free(v->names);
}

static int file_name_cmp(const void *a, const void *b)
{
    return strcmp(((const struct file_name *)a)->name, ((const struct file_name *)b)->name);
}

/* Appends a copy of the name, with a '/' if it is a folder. */
static int file_names_add(struct file_names *v, const char *name, bool is_dir, uint64_t size, struct pl_err *err)
{
    size_t len = strlen(name);

    if (v->n == v->cap) {
        size_t cap = v->cap != 0 ? v->cap * 2 : 64;
        struct file_name *names = reallocarray(v->names, cap, sizeof(*names));

        if (names == NULL)
            return pl_err_nomem(err);
        v->names = names;
        v->cap = cap;
    }
    v->names[v->n].name = malloc(len + 2);
    if (v->names[v->n].name == NULL)
        return pl_err_nomem(err);
    memcpy(v->names[v->n].name, name, len);
    memcpy(v->names[v->n].name + len, is_dir ? "/" : "", is_dir ? 2 : 1);
    v->names[v->n++].size = size;
    return 0;
}

/* Returns true if some key that starts with key[0..len) can also start with `prefix`. key[0..len) is a folder
 * if it ends with '/', otherwise a whole key. */
static bool prefix_may_match(const char *key, size_t len, const char *prefix)
{
    size_t want = strlen(prefix);

    return strncmp(key, prefix, PL_MIN(len, want)) == 0 && (len >= want || (len > 0 && key[len - 1] == '/'));
}

/* Adds a name of folder `rel` ("" or ending with '/') if it is a key after `after` that has the prefix, or
 * a folder that may contain such keys. Files that are not valid keys are skipped. */
static int file_read_name(DIR *dir, const char *name, const char *rel, const char *prefix, const char *after,
                          struct file_names *v, struct pl_err *err)
{
    char key[PATH_MAX];
    struct stat st;
    int n = snprintf(key, sizeof(key), "%s%s", rel, name);
    bool is_dir;

    if (n >= (int)sizeof(key) - 1 || pl_path_object_key_check(key, NULL) < 0 || strncmp(key, after, (size_t)n) < 0)
        return 0;
    if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* the file was removed after the folder was read */
    is_dir = S_ISDIR(st.st_mode);
    if (is_dir)
        key[n++] = '/';
    if ((!is_dir && !S_ISREG(st.st_mode)) || !prefix_may_match(key, (size_t)n, prefix))
        return 0;
    return file_names_add(v, name, is_dir, (uint64_t)st.st_size, err);
}

/* Reads the matching names of a folder, in the order of their keys. */
static int file_read_dir(const struct object_file *f, const char *rel, const char *prefix, const char *after,
                         struct file_names *v, struct pl_err *err)
{
    char path[PATH_MAX];
    struct dirent *e;
    DIR *dir;
    int r = file_path(f, rel, path, err);

    if (r < 0)
        return r;
    dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT ? 0 : pl_err_errno(err, errno, "cannot open folder %s", path);
    while (r == 0 && (errno = 0, e = readdir(dir)) != NULL)
        r = file_read_name(dir, e->d_name, rel, prefix, after, v, err);
    if (r == 0 && errno != 0)
        r = pl_err_errno(err, errno, "cannot read folder %s", path);
    closedir(dir);
    if (v->n > 0)
        qsort(v->names, v->n, sizeof(*v->names), file_name_cmp);
    return r;
}

/* Lists a folder. The recursion is as deep as the keys: at most PL_OBJECT_KEY_MAX / 2. A positive result was
 * returned by the visitor and ends the listing. */
static int file_list_dir(const struct object_file *f, const char *rel, const char *prefix, const char *after,
                         pl_object_visit_fn visit, void *arg, struct pl_err *err)
{
    _cleanup_(file_names_finish) struct file_names v = {0};
    char key[PL_OBJECT_KEY_MAX + 2];
    int r = file_read_dir(f, rel, prefix, after, &v, err);

    for (size_t i = 0; i < v.n && r == 0; i++) {
        int n = snprintf(key, sizeof(key), "%s%s", rel, v.names[i].name);

        if (key[n - 1] == '/')
            r = file_list_dir(f, key, prefix, after, visit, arg, err);
        else if (strcmp(key, after) > 0)
            r = visit(arg, key, v.names[i].size, err);
    }
    return r;
}

static int file_list(struct pl_object_store *s, const char *prefix, const char *after, pl_object_visit_fn visit, void *arg,
                     struct pl_err *err)
{
    int r = file_list_dir(file_of(s), "", prefix, after, visit, arg, err);

    return PL_MIN(r, 0);
}

static void file_destroy(struct pl_object_store *s)
{
    struct object_file *f = file_of(s);

    pl_map_finish(&f->dirty, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->flush);
    free(f->dir);
    free(f);
}

static const struct pl_object_ops file_ops = {
    .put = file_put,
    .adopt = file_adopt,
    .flush = file_flush,
    .get = file_get,
    .size = file_size,
    .open_fd = file_open_fd,
    .list = file_list,
    .remove = file_remove,
    .remove_many = file_remove_many,
    .tmp_path = file_tmp_path,
    .destroy = file_destroy,
};

/* Removes temporary files that are older than a day. Younger ones may belong to another process, such as a
 * daemon that is about to be fenced. */
static void file_remove_stale_temps(const struct object_file *f)
{
    char path[PATH_MAX];
    struct dirent *e;
    DIR *dir;

    if (file_path(f, "tmp", path, NULL) < 0)
        return;
    dir = opendir(path);
    if (dir == NULL)
        return;
    while ((e = readdir(dir)) != NULL) {
        struct stat st;

        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtime < pl_clock_wall_us() / 1000000 - TMP_STALE_SECONDS)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

/* Makes the store's folder and its tmp folder, to which nobody else may write (object_offer.h), and syncs them and their
 * parent. */
static int file_make_store(const char *dir, struct pl_err *err)
{
    char path[PATH_MAX];
    int r;

    if (snprintf(path, sizeof(path), "%s/tmp", dir) >= (int)sizeof(path) - PL_OBJECT_KEY_MAX)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", dir);
    if (access(path, F_OK) == 0)
        return 0;
    r = pl_io_mkdirs(path, 0777, err);
    if (r == 0 && chmod(path, 0700) < 0)
        r = pl_err_errno(err, errno, "cannot set the mode of %s", path);
    if (r == 0)
        r = pl_io_fsync_dir(dir, err);
    (void)snprintf(path, sizeof(path), "%s/..", dir);
    return r < 0 ? r : pl_io_fsync_dir(path, err);
}

int pl_object_file_open(const char *dir, struct pl_object_store **ret, struct pl_err *err)
{
    struct object_file *f;
    int r = file_make_store(dir, err);

    if (r < 0)
        return pl_err_wrap(err, r, "open store folder %s", dir);
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        return pl_err_nomem(err);
    f->all_dirty = true;
    f->store.ops = &file_ops;
    f->store.caps = PL_OBJECT_FILES | PL_OBJECT_PUT_IF_ABSENT;
    f->dir = strdup(dir);
    if (f->dir == NULL) {
        free(f);
        return pl_err_nomem(err);
    }
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->flush, NULL);
    file_remove_stale_temps(f);
    *ret = &f->store;
    return 0;
}
