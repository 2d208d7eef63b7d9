/* io: each write, sync and rename first calls io_fault, through which a test can make it fail. Removal of a
 * tree uses descriptors relative to each folder (openat, unlinkat), so that no link is followed. */
#include "storage/system/io.h"

#include "storage/base/hash.h"
#include "storage/system/sync_priority.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#define REMOVE_DEPTH_MAX 64u
/* maximum for one removal, enough for a tree of folders nested 6 million deep */
#define REMOVE_RETRIES_MAX 100000u

/* State of fault injection, per kind of call; fail_at is the number of the call that fails, 0 = none. */
static struct {
    _Atomic uint64_t calls;
    _Atomic uint64_t fail_at;
    _Atomic int errnum;
    _Atomic bool lasting;
} io_faults[PL_IO_CALLS];
static pthread_once_t io_once = PTHREAD_ONCE_INIT;

void pl_io_fail_nth(enum pl_io_call call, uint64_t nth, int errnum)
{
    atomic_store(&io_faults[call].errnum, errnum);
    atomic_store(&io_faults[call].lasting, false);
    atomic_store(&io_faults[call].fail_at, nth == 0 || errnum == 0 ? 0 : atomic_load(&io_faults[call].calls) + nth);
}

void pl_io_fail_on(enum pl_io_call call, bool lasting)
{
    atomic_store(&io_faults[call].lasting, lasting);
}

uint64_t pl_io_calls(enum pl_io_call call)
{
    return atomic_load(&io_faults[call].calls);
}

/* Reads PL_FAULT="write=17,fsync=3,rename=2,errno=28". */
static void io_read_environment(void)
{
    static const char *const names[PL_IO_CALLS] = {"write=", "fsync=", "rename="};
    const char *text = getenv("PL_FAULT");
    const char *at = text != NULL ? strstr(text, "errno=") : NULL;
    int errnum = at != NULL ? (int)strtol(at + 6, NULL, 10) : EIO;

    if (text == NULL)
        return;
    for (int i = 0; i < PL_IO_CALLS; i++) {
        at = strstr(text, names[i]);
        if (at != NULL)
            pl_io_fail_nth((enum pl_io_call)i, strtoull(at + strlen(names[i]), NULL, 10), errnum);
    }
}

/* the process must exit after the current call of this thread */
static _Thread_local bool io_exit_after;

/* Counts a call. Returns true, and sets errno, if the call must fail instead of being made. */
static bool io_fault(enum pl_io_call call)
{
    uint64_t n, at;
    int errnum;

    pthread_once(&io_once, io_read_environment);
    n = atomic_fetch_add(&io_faults[call].calls, 1) + 1;
    at = atomic_load(&io_faults[call].fail_at);
    if (n != at && (at == 0 || n < at || !atomic_load(&io_faults[call].lasting)))
        return false;
    errnum = atomic_load(&io_faults[call].errnum);
    if (errnum == PL_IO_EXIT_BEFORE)
        _exit(PL_IO_EXIT_STATUS);
    io_exit_after = errnum == PL_IO_EXIT_AFTER;
    errno = errnum;
    return !io_exit_after;
}

/* Called after each call that io_fault allowed: exits the process if fault injection asks for an exit after
 * this call. */
static void io_done(void)
{
    if (io_exit_after)
        _exit(PL_IO_EXIT_STATUS);
}

/* Writes all bytes at `offset`. If `offset` is UINT64_MAX, writes at the file's current position. */
static int io_write_all(int fd, const void *data, size_t n, uint64_t offset, const char *what, struct pl_err *err)
{
    const uint8_t *p = data;

    while (n > 0) {
        ssize_t w;

        if (io_fault(PL_IO_WRITE))
            w = -1;
        else if (offset == UINT64_MAX)
            w = write(fd, p, n);
        else
            w = pwrite(fd, p, n, (off_t)offset);
        io_done();
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return pl_err_errno(err, w < 0 ? errno : ENOSPC, "cannot write %s", what);
        p += w;
        n -= (size_t)w;
        if (offset != UINT64_MAX)
            offset += (uint64_t)w;
    }
    return 0;
}

int pl_io_write(int fd, const void *data, size_t n, const char *what, struct pl_err *err)
{
    return io_write_all(fd, data, n, UINT64_MAX, what, err);
}

int pl_io_pwrite(int fd, const void *data, size_t n, uint64_t offset, const char *what, struct pl_err *err)
{
    return io_write_all(fd, data, n, offset, what, err);
}

/* Lets the kernel start writing to disk those pieces of PL_IO_BEHIND_BYTES that the last write completed, and
 * waits until the previous piece is on the disk. The kernel reports a disk error once, here or at fdatasync.
 * On a filesystem without sync_file_range the final sync writes everything. */
int pl_io_behind(int fd, uint64_t before, uint64_t now, const char *what, struct pl_err *err)
{
    const off_t piece = (off_t)PL_IO_BEHIND_BYTES, from = (off_t)before / piece * piece, to = (off_t)now / piece * piece;
    int r;

    if (from < to)
        (void)pl_sync_priority_wait();
    r = from < to ? sync_file_range(fd, from, to - from, SYNC_FILE_RANGE_WRITE) : 0;

    if (r == 0 && from < to && from > 0)
        r = sync_file_range(fd, from - piece, piece,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    return r < 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT) ? pl_err_errno(err, errno, "cannot write %s", what) : 0;
}

int pl_io_write_behind(int fd, const struct iovec *iov, int n, const char *what, struct pl_err *err)
{
    uint64_t at = 0;
    int r = 0;

    for (int i = 0; i < n; i++) {
        for (size_t done = 0, some; done < iov[i].iov_len && r == 0; done += some, at += some) {
            some = PL_MIN(iov[i].iov_len - done, PL_IO_BEHIND_BYTES - (size_t)(at % PL_IO_BEHIND_BYTES));
            r = pl_io_write(fd, (const uint8_t *)iov[i].iov_base + done, some, what, err);
            r = r < 0 ? r : pl_io_behind(fd, at, at + some, what, err);
        }
    }
    return r;
}

ssize_t pl_io_read(int fd, void *out, size_t n, const char *what, struct pl_err *err)
{
    size_t have = 0;

    while (have < n) {
        ssize_t r = read(fd, (uint8_t *)out + have, n - have);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return pl_err_errno(err, errno, "cannot read %s", what);
        if (r == 0)
            break;
        have += (size_t)r;
    }
    return (ssize_t)have;
}

int pl_io_pread(int fd, void *out, size_t n, uint64_t offset, const char *what, struct pl_err *err)
{
    size_t have = 0;

    while (have < n) {
        ssize_t r = pread(fd, (uint8_t *)out + have, n - have, (off_t)(offset + have));

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return pl_err_errno(err, errno, "cannot read %s", what);
        if (r == 0)
            return pl_err_set(err, PL_ECORRUPT, "%s ends early: expected %zu bytes at offset %llu, found %zu", what, n,
                              (unsigned long long)offset, have);
        have += (size_t)r;
    }
    return 0;
}

/* `sync` is fdatasync or fsync. */
static int io_sync(int fd, int (*sync)(int fd))
{
    int r;

    pl_sync_priority_sync_begins();
    r = io_fault(PL_IO_FSYNC) ? -1 : sync(fd);
    pl_sync_priority_sync_ends();
    return r;
}

int pl_io_fdatasync(int fd, const char *what, struct pl_err *err)
{
    (void)pl_sync_priority_wait();
    if (io_sync(fd, fdatasync) < 0)
        return pl_err_errno(err, errno, "fdatasync %s", what);
    io_done();
    return 0;
}

int pl_io_fsync_dir(const char *dir, struct pl_err *err)
{
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open folder %s", dir);
    if (io_sync(fd, fsync) < 0)
        return pl_err_errno(err, errno, "fsync folder %s", dir);
    io_done();
    return 0;
}

int pl_io_syncfs(const char *dir, struct pl_err *err)
{
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || syncfs(fd) < 0 ? pl_err_errno(err, errno, "cannot sync the filesystem of %s", dir) : 0;
}

int pl_io_rename_noreplace(const char *from, const char *to, struct pl_err *err)
{
    int r;

    if (io_fault(PL_IO_RENAME))
        return pl_err_errno(err, errno, "cannot rename %s to %s", from, to);
    r = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    /* the filesystem does not support RENAME_NOREPLACE; link(2) does not replace an existing file either
     * */
    if (r < 0 && (errno == EINVAL || errno == ENOSYS)) {
        r = link(from, to);
        if (r == 0)
            r = unlink(from);
    }
    io_done();
    if (r < 0 && errno == EEXIST)
        return pl_err_set(err, PL_EEXISTS, "%s exists already", to);
    return r < 0 ? pl_err_errno(err, errno, "cannot rename %s to %s", from, to) : 0;
}

int pl_io_rename(const char *from, const char *to, struct pl_err *err)
{
    if (io_fault(PL_IO_RENAME) || rename(from, to) < 0)
        return pl_err_errno(err, errno, "cannot rename %s to %s", from, to);
    io_done();
    return 0;
}

int pl_io_read_file(const char *path, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t max = out->max != 0 ? out->max : PL_BUF_DEFAULT_MAX;
    struct stat st;
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open %s", path);
    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot stat %s", path);
    pl_buf_clear(out);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        return pl_err_set(err, PL_ETOOBIG, "%s has %lld bytes; at most %zu are allowed", path, (long long)st.st_size, max);
    for (;;) {
        /* Request one byte more than the file's size, so that the read that finds the end of the file needs
         * no larger buffer. Files in /proc have size 0. */
        size_t want = S_ISREG(st.st_mode) && (size_t)st.st_size >= out->len ? (size_t)st.st_size - out->len + 1 : 4096;
        ssize_t n;

        want = PL_MIN(PL_MAX(want, (size_t)4096), max - out->len);
        if (want == 0) {
            uint8_t extra;

            n = pl_io_read(fd, &extra, 1, path, err);
            return n <= 0 ? (int)n : pl_err_set(err, PL_ETOOBIG, "%s has more than the %zu bytes that are allowed", path, max);
        }
        r = pl_buf_reserve(out, want, err);
        if (r < 0)
            return pl_err_wrap(err, r, "read %s", path);
        n = pl_io_read(fd, out->data + out->len, want, path, err);
        if (n < 0)
            return (int)n;
        out->len += (size_t)n;
        if ((size_t)n < want)
            return 0;
    }
}

/* Writes the folder of `path` to `out`: the part before the last slash, or "." if there is none. */
static void io_parent(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        (void)snprintf(out, PATH_MAX, ".");
    else
        (void)snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static int io_write_temp(const char *temp, const void *data, size_t n, mode_t mode, struct pl_err *err)
{
    _cleanup_close_ int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot create %s", temp);
    r = pl_io_write(fd, data, n, temp, err);
    return r < 0 ? r : pl_io_fdatasync(fd, temp, err);
}

int pl_io_write_file(const char *path, const void *data, size_t n, mode_t mode, struct pl_err *err)
{
    char temp[PATH_MAX], dir[PATH_MAX], hex[17];
    uint8_t random[8];
    int r;

    pl_random_bytes(random, sizeof(random));
    pl_hex_encode(random, sizeof(random), hex);
    if (snprintf(temp, sizeof(temp), "%s.%s.tmp", path, hex) >= (int)sizeof(temp))
        return pl_err_set(err, PL_EINVAL, "the file name %.64s… is too long", path);
    r = io_write_temp(temp, data, n, mode, err);
    if (r == 0)
        r = pl_io_rename(temp, path, err);
    if (r < 0) {
        unlink(temp);
        return r;
    }
    io_parent(path, dir);
    return pl_io_fsync_dir(dir, err);
}

int pl_io_mkdirs(const char *path, mode_t mode, struct pl_err *err)
{
    char partial[PATH_MAX];
    size_t len = strlen(path);
    struct stat st;

    if (len == 0 || len >= sizeof(partial))
        return pl_err_set(err, PL_EINVAL, "the folder name \"%.64s\" is empty or too long", path);
    memcpy(partial, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (partial[i] != '/' && partial[i] != '\0')
            continue;
        partial[i] = '\0';
        if (mkdir(partial, mode) < 0 && errno != EEXIST) {
            int errnum = errno;

            /* mkdir failed; on a read-only filesystem it fails with EROFS even if the folder exists */
            if (stat(partial, &st) < 0 || !S_ISDIR(st.st_mode))
                return pl_err_errno(err, errnum, "cannot make folder %s", partial);
        }
        partial[i] = path[i];
    }
    if (stat(path, &st) < 0)
        return pl_err_errno(err, errno, "cannot make folder %s", path);
    return S_ISDIR(st.st_mode) ? 0 : pl_err_errno(err, ENOTDIR, "cannot make folder %s", path);
}

/* Opens one path segment after the other, for kernels before 5.6, which have no openat2. */
static int open_stepwise(int root_fd, const char *path, int flags)
{
    int at = root_fd;

    for (;;) {
        const size_t len = strcspn(path, "/");
        const bool last = path[len] == '\0';
        char name[NAME_MAX + 1];
        int fd, saved;

        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            fd = -1;
        } else {
            memcpy(name, path, len);
            name[len] = '\0';
            fd = openat(at, name, last ? flags : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        saved = errno;
        if (at != root_fd)
            close(at);
        errno = saved;
        if (fd < 0 || last)
            return fd;
        at = fd;
        path += len + 1;
    }
}

int pl_io_open_beneath(int root_fd, const char *path, int flags)
{
    const int all = flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    /* openat2 rejects flag combinations that open ignores, such as O_PATH with O_NONBLOCK */
    const struct open_how how = {.flags = (uint64_t)(flags & O_PATH ? all & ~O_NONBLOCK : all),
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd;

    assert(*path && *path != '/');
    for (int tries = 0; tries < 100; tries++) {
        fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN) /* a folder of the path was renamed during the call */
            break;
    }
    return fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN) ? open_stepwise(root_fd, path, all) : fd;
}

int pl_io_open_up(int path_fd)
{
    char proc[64];

    (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
    return chmod(proc, 0700) < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Opens a folder to remove its content, and makes it readable and writable if it belongs to this user. */
static int remove_open(int at, const char *name)
{
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == EACCES) {
        _cleanup_close_ int path_fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (path_fd < 0)
            return -1;
        fd = pl_io_open_up(path_fd);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        (void)fchmod(fd, 0700); /* if this fails, the later unlinkat reports the error */
    return fd;
}

/* State of the removal of one folder with its content. */
struct removal {
    /* descriptor of the folder being removed, to which deeply nested folders are moved; -1 = not opened
     * yet */
    int top;
    unsigned retries; /* number of names and scans that were tried again */
};

static int remove_children(struct removal *rm, int fd, unsigned depth);

/* Returns true if something that a live process changed may be tried again; false, with EBUSY, if it changes things
 * without end. */
static bool may_try_again(struct removal *rm)
{
    if (rm->retries++ < REMOVE_RETRIES_MAX)
        return true;
    errno = EBUSY;
    return false;
}

/* Removes a folder with its content. Fails with ENOTDIR or ELOOP if the name is not a folder, and with ENOTEMPTY if
 * the folder was filled again. A folder that is nested too deeply for the stack and the limit of descriptors is moved
 * to the top folder, whose loop finds it later. */
static int remove_folder(struct removal *rm, int at, const char *name, unsigned depth)
{
    static _Atomic unsigned moved;
    char shallow[64];
    int fd;

    if (depth >= REMOVE_DEPTH_MAX) {
        (void)snprintf(shallow, sizeof(shallow), ".pl-remove-%u-%d", atomic_fetch_add(&moved, 1), (int)getpid());
        return renameat(at, name, rm->top, shallow);
    }
    fd = remove_open(at, name);
    if (fd < 0)
        return -1;
    if (depth == 0)
        rm->top = fd;
    return remove_children(rm, fd, depth + 1) < 0 ? -1 : unlinkat(at, name, AT_REMOVEDIR);
}

/* Removes one name in the folder `at`, and whatever a live process puts in its place meanwhile. */
static int remove_name(struct removal *rm, int at, const char *name, unsigned depth)
{
    int refused;

    do {
        if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
            return 0;
        refused = errno; /* of a folder EISDIR, on some file systems EPERM */
        if (refused != EISDIR && refused != EPERM)
            return -1;
        if (remove_folder(rm, at, name, depth) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTDIR && errno != ELOOP && errno != ENOTEMPTY)
            return -1;
        if (errno != ENOTEMPTY && refused == EPERM) { /* not a folder, so it is this name that may not be removed */
            errno = EPERM;
            return -1;
        }
    } while (may_try_again(rm));
    return -1;
}

/* Removes everything in the folder and closes `fd`. Scans the folder until it is empty, because nested
 * folders may be moved to it meanwhile, and a live command may change it. Fails with EBUSY if a command keeps
 * adding files without end. */
static int remove_children(struct removal *rm, int fd, unsigned depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *e;
    bool found = true;
    int r = 0, saved;

    if (dir == NULL) {
        close(fd);
        return -1;
    }
    for (unsigned scans = 0; found && r == 0; scans++) {
        if (scans > 1 && !may_try_again(rm)) {
            r = -1;
            break;
        }
        found = false;
        rewinddir(dir);
        while (r == 0 && (errno = 0, e = readdir(dir)) != NULL) {
            if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
                continue;
            found = true;
            r = remove_name(rm, fd, e->d_name, depth);
        }
        if (r == 0 && errno != 0)
            r = -1;
    }
    saved = errno;
    closedir(dir);
    errno = saved;
    return r;
}

int pl_io_remove_tree(const char *path, struct pl_err *err)
{
    return pl_io_remove_tree_at(AT_FDCWD, path, err);
}

int pl_io_remove_tree_at(int at, const char *name, struct pl_err *err)
{
    struct removal rm = {.top = -1};

    return remove_name(&rm, at, name, 0) < 0 ? pl_err_errno(err, errno, "cannot remove %s", name) : 0;
}
