/* Read leases tell whether a file is open for writing (storage/system/file_users). The test maps a small file
 * and watches its change time. */
#include "pipelined/agent/outputs/file_writers.h"

#include "storage/base/base.h"
#include "storage/system/file_users.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define TRIAL_BYTES 4096
/* maximum number of pauses of 1 ms to wait until the clock for file times has advanced */
#define TICKS_MAX 100

bool pl_file_writers_is_none(int fd)
{
    return pl_holders_writing(fd) == 0;
}

/* Maps a file for writing and closes it: a mapping stays when its descriptor is closed. */
static void *map_for_writing(const char *path, int flags)
{
    _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    void *map;

    if (fd < 0 || (flags && ftruncate(fd, TRIAL_BYTES) < 0))
        return NULL;
    map = mmap(NULL, TRIAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Waits until the clock of file times has passed `after`. The kernel takes file times from its last timer
 * tick. */
static void wait_for_tick(const struct timespec *after)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct timespec now;

    for (int i = 0; i < TICKS_MAX; i++) {
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        if (now.tv_sec != after->tv_sec || now.tv_nsec > after->tv_nsec)
            return;
        nanosleep(&pause, NULL);
    }
}

/* True if a write through a mapping changes the file's change time. */
static bool mapped_write_moves_time(const char *path, int fd)
{
    struct stat before, after;
    volatile char *map;
    bool moved;

    if (fstat(fd, &before) < 0)
        return false;
    wait_for_tick(&before.st_ctim);
    map = map_for_writing(path, 0);
    if (!map)
        return false;
    /* the addition reads the page first: on some file systems this already maps the page as writable, and
     * then the write does not change the file's times */
    map[0] = (char)(map[0] + 1);
    moved = fstat(fd, &after) == 0 &&
            (after.st_ctim.tv_sec != before.st_ctim.tv_sec || after.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
    munmap((void *)map, TRIAL_BYTES);
    return moved;
}

bool pl_file_writers_are_supported(const char *work)
{
    char path[4200];
    _cleanup_close_ int fd = -1;
    bool tell;
    void *map;

    snprintf(path, sizeof(path), "%s/.writers", work);
    map = map_for_writing(path, O_CREAT | O_EXCL | O_NOFOLLOW);
    if (!map)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    /* the file is mapped for writing, so it must count as open for writing */
    tell = fd >= 0 && !pl_file_writers_is_none(fd);
    munmap(map, TRIAL_BYTES);
    tell = tell && pl_file_writers_is_none(fd) && mapped_write_moves_time(path, fd);
    (void)unlink(path);
    return tell;
}
