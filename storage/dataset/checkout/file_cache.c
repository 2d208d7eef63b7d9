/* The state file is mapped by all processes that share the cache; an flock on the state file is held while a
 * process opens the cache or evicts files. A cached file that no checkout uses has one link. Its ctime is the
 * time of its last use, because making or removing a hard link changes the ctime. */
#include "storage/dataset/checkout/file_cache.h"

#include "storage/base/clock.h"
#include "storage/dataset/file/file_write.h"
#include "storage/system/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define CACHE_MAGIC      "PLCACHE1"
#define CACHE_NAME_BYTES (3 + PL_HASH_HEX + 2) /* "ab/", hex digits, 'x', NUL */
#define CACHE_EVICT_GAP  1000                  /* minimum time between two evictions, in ms */

/* Contents of DIR/state, mapped by every process that uses the folder. */
struct cache_state {
    char magic[8];
    char boot[40]; /* boot id of the machine when the cache was last opened */
    _Atomic uint64_t bytes;
    /* files with an older ctime are verified before they are used; 0 = none */
    _Atomic int64_t verify_before_ns;
};

struct pl_file_cache {
    uint64_t max_bytes;
    int objects_fd;
    int state_fd;
    struct cache_state *state;
    pthread_mutex_t evicting;
    _Atomic int64_t evicted_ms;
    _Atomic int fail_link;
};

static char *cache_name(const struct pl_entry *entry, char out[CACHE_NAME_BYTES])
{
    char hex[PL_HASH_HEX + 1];

    pl_hash_hex(&entry->id, hex);
    (void)snprintf(out, CACHE_NAME_BYTES, "%.2s/%s%s", hex, hex, entry->kind == PL_KIND_EXEC ? "x" : "");
    return out;
}

static int64_t ctime_ns(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

/* ---- scan and eviction ---- */

/* A cached file that no checkout uses. */
struct idle_file {
    int64_t used_ns; /* ctime of the file, in ns: time when a link to it was last made or removed */
    uint64_t size;
    char name[CACHE_NAME_BYTES];
};

struct cache_scan {
    uint64_t bytes;
    int64_t latest_ns;      /* largest ctime of all files */
    struct idle_file *idle; /* list of unused files to fill; NULL = only count bytes */
    size_t n, cap;
};

/* Counts a cached file, and adds it to `idle` if no checkout uses it. */
static int scan_file(struct cache_scan *s, const char *folder, const char *name, const struct stat *st, struct pl_err *err)
{
    struct idle_file *f;

    s->bytes += (uint64_t)st->st_size;
    s->latest_ns = PL_MAX(s->latest_ns, ctime_ns(st));
    if (s->idle == NULL || st->st_nlink > 1 || s->n == PL_FILE_CACHE_EVICT_MAX)
        return 0;
    if (s->n == s->cap) {
        struct idle_file *more = reallocarray(s->idle, s->cap * 2, sizeof(*more));

        if (more == NULL)
            return pl_err_nomem(err);
        s->idle = more;
        s->cap *= 2;
    }
    f = &s->idle[s->n++];
    f->used_ns = ctime_ns(st);
    f->size = (uint64_t)st->st_size;
    (void)snprintf(f->name, sizeof(f->name), "%.2s/%.65s", folder, name);
    return 0;
}

/* Scans one folder of the cache. */
static int scan_folder(int objects_fd, const char *folder, struct cache_scan *s, struct pl_err *err)
{
    int fd = openat(objects_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    const struct dirent *d;
    DIR *dir;

    if (fd < 0)
        return errno == ENOENT ? 0 : pl_err_errno(err, errno, "file cache: cannot open %s", folder);
    dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return pl_err_nomem(err);
    }
    while (r == 0 && (d = readdir(dir)) != NULL) {
        struct stat st;

        if (d->d_name[0] != '.' && fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            r = scan_file(s, folder, d->d_name, &st, err);
    }
    closedir(dir);
    return r;
}

static int cache_scan(int objects_fd, struct cache_scan *s, struct pl_err *err)
{
    char folder[3];
    int r = 0;

    for (unsigned i = 0; r == 0 && i < 256; i++) {
        (void)snprintf(folder, sizeof(folder), "%02x", i);
        r = scan_folder(objects_fd, folder, s, err);
    }
    return r;
}

static int idle_cmp(const void *a, const void *b)
{
    const struct idle_file *x = a, *y = b;

    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

/* Deletes files that no checkout uses, the least recently used first, until at most 9/10 of the bound are
 * used. The caller holds the mutex and the file lock. */
static int cache_evict(struct pl_file_cache *c, struct pl_err *err)
{
    struct cache_scan s = {.cap = 1024};
    uint64_t goal = c->max_bytes / 10 * 9;
    int r;

    s.idle = malloc(s.cap * sizeof(*s.idle));
    if (s.idle == NULL)
        return pl_err_nomem(err);
    r = cache_scan(c->objects_fd, &s, err);
    if (r == 0) {
        qsort(s.idle, s.n, sizeof(*s.idle), idle_cmp);
        for (size_t i = 0; i < s.n && s.bytes > goal; i++) {
            if (unlinkat(c->objects_fd, s.idle[i].name, 0) == 0)
                s.bytes -= s.idle[i].size;
        }
        atomic_store(&c->state->bytes, s.bytes);
    }
    free(s.idle);
    return r;
}

int pl_file_cache_evict(struct pl_file_cache *c, struct pl_err *err)
{
    int r = 0;

    if (c->max_bytes == 0)
        return 0;
    pthread_mutex_lock(&c->evicting);
    /* if the lock is not free, another process is evicting already */
    if (flock(c->state_fd, LOCK_EX | LOCK_NB) == 0) {
        r = cache_evict(c, err);
        (void)flock(c->state_fd, LOCK_UN);
    }
    atomic_store(&c->evicted_ms, pl_clock_mono_ms());
    pthread_mutex_unlock(&c->evicting);
    return r;
}

/* True if `size` more bytes may be stored. Evicts files if necessary, but at most once in CACHE_EVICT_GAP,
 * because an eviction reads all folders of the cache. */
static bool cache_room(struct pl_file_cache *c, uint64_t size)
{
    if (c->max_bytes == 0 || atomic_load(&c->state->bytes) + size <= c->max_bytes)
        return true;
    if (size > c->max_bytes || pl_clock_mono_ms() - atomic_load(&c->evicted_ms) < CACHE_EVICT_GAP)
        return false;
    return pl_file_cache_evict(c, NULL) == 0 && atomic_load(&c->state->bytes) + size <= c->max_bytes;
}

/* ---- opening ---- */

static void boot_id(char out[40])
{
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 36) : 0;

    memset(out + PL_MAX(n, 0), 0, 40 - (size_t)PL_MAX(n, 0));
}

static int64_t wall_ns(void)
{
    return pl_clock_wall_us() * 1000;
}

/* Prepares the mapped state. If it is new or its format is unknown, counts all files of the cache. If the
 * machine was booted since, marks all existing files for verification: `verify_before_ns` is at least the
 * largest ctime, because the clock may have been set back. The caller holds the file lock. */
static int state_ready(struct pl_file_cache *c, struct pl_err *err)
{
    struct cache_state *st = c->state;
    struct cache_scan scan = {0};
    char boot[40];
    bool foreign;
    int r;

    boot_id(boot);
    foreign = memcmp(st->magic, CACHE_MAGIC, sizeof(st->magic)) != 0;
    if (!foreign && boot[0] != '\0' && memcmp(st->boot, boot, sizeof(boot)) == 0)
        return 0;
    r = cache_scan(c->objects_fd, &scan, err);
    if (r < 0)
        return r;
    atomic_store(&st->bytes, scan.bytes);
    atomic_store(&st->verify_before_ns, foreign && scan.bytes == 0 ? 0 : PL_MAX(wall_ns(), scan.latest_ns));
    memcpy(st->magic, CACHE_MAGIC, sizeof(st->magic));
    memcpy(st->boot, boot, sizeof(boot));
    return 0;
}

static int state_open(struct pl_file_cache *c, const char *dir, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    void *map;
    int r;

    if (asprintf(&path, "%s/state", dir) < 0)
        return pl_err_nomem(err);
    c->state_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->state_fd < 0 || flock(c->state_fd, LOCK_EX) < 0 || ftruncate(c->state_fd, sizeof(struct cache_state)) < 0)
        return pl_err_errno(err, errno, "%s", path);
    map = mmap(NULL, sizeof(struct cache_state), PROT_READ | PROT_WRITE, MAP_SHARED, c->state_fd, 0);
    if (map == MAP_FAILED)
        return pl_err_errno(err, errno, "cannot map %s", path);
    c->state = map;
    r = state_ready(c, err);
    (void)flock(c->state_fd, LOCK_UN);
    return r;
}

/* Makes and opens the folder "objects" with its 256 subfolders. */
static int objects_open(struct pl_file_cache *c, const char *dir, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    char folder[3];
    int r;

    if (asprintf(&path, "%s/objects", dir) < 0)
        return pl_err_nomem(err);
    r = pl_io_mkdirs(path, 0700, err);
    if (r < 0)
        return r;
    c->objects_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->objects_fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    for (unsigned i = 0; i < 256; i++) {
        (void)snprintf(folder, sizeof(folder), "%02x", i);
        if (mkdirat(c->objects_fd, folder, 0700) < 0 && errno != EEXIST)
            return pl_err_errno(err, errno, "%s/%s", path, folder);
    }
    return 0;
}

int pl_file_cache_open(const char *dir, uint64_t max_bytes, struct pl_file_cache **ret, struct pl_err *err)
{
    _cleanup_(pl_file_cache_closep) struct pl_file_cache *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    c->max_bytes = max_bytes;
    c->objects_fd = c->state_fd = -1;
    pthread_mutex_init(&c->evicting, NULL);
    atomic_init(&c->evicted_ms, pl_clock_mono_ms() - CACHE_EVICT_GAP);
    if ((r = objects_open(c, dir, err)) < 0 || (r = state_open(c, dir, err)) < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

struct pl_file_cache *pl_file_cache_close(struct pl_file_cache *c)
{
    if (c == NULL)
        return NULL;
    if (c->state != NULL)
        munmap(c->state, sizeof(*c->state));
    pl_closep(&c->state_fd);
    pl_closep(&c->objects_fd);
    pthread_mutex_destroy(&c->evicting);
    free(c);
    return NULL;
}

uint64_t pl_file_cache_bytes(const struct pl_file_cache *c)
{
    return atomic_load(&c->state->bytes);
}

void pl_file_cache_fail_link(struct pl_file_cache *c, int errnum)
{
    atomic_store(&c->fail_link, errnum);
}

/* ---- use ---- */

static ssize_t read_fd(void *self, void *out, size_t n, struct pl_err *err)
{
    return pl_io_read(*(const int *)self, out, n, "cached file", err);
}

/* True if a cached file has the content that its name says. */
static bool cache_verify(const struct pl_file_cache *c, const char *name, const struct pl_entry *entry)
{
    _cleanup_close_ int fd = openat(c->objects_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_free_ uint8_t *buffer = malloc(PL_FILE_WRITE_BUFFER_BYTES);
    struct pl_file_write_sink sink = pl_file_write_sink_hash_only();
    struct pl_entry is;

    return fd >= 0 && buffer != NULL && pl_file_write_entry(&sink, buffer, entry->kind, read_fd, &fd, &is, NULL) == 0 &&
           pl_entry_eq(&is, entry);
}

/* True if a cached file may be used. After a boot of the machine a file may be incomplete. A file that was
 * not linked since the boot is therefore verified, and deleted if its bytes are wrong. */
static bool cache_trusted(struct pl_file_cache *c, const char *name, const struct pl_entry *entry)
{
    int64_t before = atomic_load_explicit(&c->state->verify_before_ns, memory_order_relaxed);
    struct stat st;

    if (before == 0)
        return true;
    if (fstatat(c->objects_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (ctime_ns(&st) > before || cache_verify(c, name, entry))
        return true;
    if (unlinkat(c->objects_fd, name, 0) == 0)
        atomic_fetch_sub(&c->state->bytes, (uint64_t)st.st_size);
    return false;
}

static int cache_linkat(struct pl_file_cache *c, int from_fd, const char *from, int to_fd, const char *to)
{
    int fail = atomic_load_explicit(&c->fail_link, memory_order_relaxed);

    if (fail != 0) {
        errno = fail;
        return -1;
    }
    return linkat(from_fd, from, to_fd, to, 0);
}

/* Copies all `size` bytes; some filesystems end a copy early, which is an error here. */
static int copy_bytes(int from, int to, off_t size)
{
    ssize_t n;

    while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
        continue;
    if (n < 0 &&
        /* these errors mean that copy_file_range does not work between the two filesystems */
        (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
        while ((n = sendfile(to, from, NULL, 1 << 30)) > 0)
            continue;
    if (n == 0 && lseek(to, 0, SEEK_CUR) != size) {
        errno = EIO;
        n = -1;
    }
    return n < 0 ? -1 : 0;
}

/* Returns the folder of a path, in a form that open(2) accepts. */
static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    (void)snprintf(out, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
}

/* Copies a file with its mode and mtime to another name, for use where hard links are impossible, for example
 * if pods share a cache that is on another mount than their volumes. The new name appears only when the copy
 * is complete. */
static int copyat(int from_fd, const char *from, int to_fd, const char *to)
{
    _cleanup_close_ int source = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), file = -1;
    char folder[PATH_MAX], self[40];
    struct stat st;

    folder_of(to, folder);
    if (source < 0 || fstat(source, &st) < 0 || (file = openat(to_fd, folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)) < 0)
        return -1;
    if (copy_bytes(source, file, st.st_size) < 0 || fchmod(file, st.st_mode & 07777) < 0 ||
        futimens(file, (const struct timespec[]){st.st_mtim, st.st_mtim}) < 0)
        return -1;
    /* updates the ctime, which records the last use, as linking would */
    (void)!fchmod(source, st.st_mode & 07777);
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, self, to_fd, to, AT_SYMLINK_FOLLOW);
}

/* Copies a cached file to `name`. Returns 1 if the copy was made; 0 if that is impossible: the caller then
 * writes the file itself, and that write reports any problem of the folder. PL_EEXISTS: `name` exists. */
static int copy_out(struct pl_file_cache *c, const char *cached, int dirfd, const char *name, struct pl_err *err)
{
    if (copyat(c->objects_fd, cached, dirfd, name) == 0)
        return 1;
    return errno == EEXIST ? pl_err_set(err, PL_EEXISTS, "it exists already") : 0;
}

static bool cacheable(const struct pl_entry *entry)
{
    return (entry->kind == PL_KIND_FILE || entry->kind == PL_KIND_EXEC) &&
           (entry->content == PL_CONTENT_CHUNK || entry->content == PL_CONTENT_LIST);
}

int pl_file_cache_link(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name, struct pl_err *err)
{
    char cached[CACHE_NAME_BYTES];

    if (!cacheable(entry) || !cache_trusted(c, cache_name(entry, cached), entry))
        return 0;
    if (cache_linkat(c, c->objects_fd, cached, dirfd, name) == 0)
        return 1;
    switch (errno) {
    case EXDEV:
        return copy_out(c, cached, dirfd, name, err);
    case EEXIST:
        return pl_err_set(err, PL_EEXISTS, "it exists already");
    case ENOENT: /* not in the cache */
    case EMLINK: /* ext4 allows 65,000 links per file */
    case EPERM:  /* another user's file, or a filesystem without hard links */
        return 0;
    default:
        return pl_err_errno(err, errno, "cannot link to the file cache");
    }
}

bool pl_file_cache_has(const struct pl_file_cache *c, const struct pl_entry *entry)
{
    char name[CACHE_NAME_BYTES];

    return faccessat(c->objects_fd, cache_name(entry, name), F_OK, 0) == 0;
}

void pl_file_cache_adopt(struct pl_file_cache *c, const struct pl_entry *entry, int dirfd, const char *name)
{
    char cached[CACHE_NAME_BYTES];

    if (!cacheable(entry) || !cache_room(c, entry->size))
        return;
    if (cache_linkat(c, dirfd, name, c->objects_fd, cache_name(entry, cached)) == 0 ||
        (errno == EXDEV && copyat(dirfd, name, c->objects_fd, cached) == 0))
        atomic_fetch_add(&c->state->bytes, entry->size);
}
