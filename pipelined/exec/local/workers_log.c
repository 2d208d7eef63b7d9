/* workers_log.c: opens and bounds the log. The loop waits for the copy, which is at most
 * PL_WORKERS_LOG_BYTES. */
#include "pipelined/exec/local/workers_log.h"

#include "storage/system/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define PATH_BYTES 4200

int pl_workers_log_open(const char *data_dir)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s/logs", data_dir);
    if (pl_io_mkdirs(path, 0700, NULL) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/logs/workers.log", data_dir);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Replaces the content of the file `path` by everything in the file `from` after its current position. */
static int copy(int from, const char *path, struct pl_err *err)
{
    _cleanup_close_ int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char bytes[65536];
    ssize_t n;

    if (to < 0)
        return pl_err_errno(err, errno, "%s", path);
    while ((n = pl_io_read(from, bytes, sizeof bytes, "workers.log", err)) > 0) {
        int r = pl_io_write(to, bytes, (size_t)n, path, err);

        if (r < 0)
            return r;
    }
    return (int)n;
}

int pl_workers_log_bound(const char *data_dir, struct pl_err *err)
{
    char path[PATH_BYTES], old[PATH_BYTES];
    _cleanup_close_ int fd = -1;
    struct stat st;

    snprintf(path, sizeof path, "%s/logs/workers.log", data_dir);
    snprintf(old, sizeof old, "%s/logs/workers.log.1", data_dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : pl_err_errno(err, errno, "%s", path);
    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "%s", path);
    if (st.st_size < PL_WORKERS_LOG_BYTES)
        return 0;
    /* the log may have grown beyond the limit: keep its last part */
    if (lseek(fd, st.st_size - PL_WORKERS_LOG_BYTES, SEEK_SET) >= 0)
        (void)!copy(fd, old, NULL);
    return ftruncate(fd, 0) < 0 ? pl_err_errno(err, errno, "%s", path) : 0;
}
