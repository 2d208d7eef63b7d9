/* clock_jump.so, preloaded: a wall clock that is wrong by the seconds that the file $CLOCK_JUMP holds. Monotonic clocks are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t wrong_by(void)
{
    static const volatile int64_t *seconds;
    const char *path = getenv("CLOCK_JUMP");

    if (!seconds && path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, fd, 0);

        if (fd >= 0)
            close(fd);
        if (p != MAP_FAILED)
            seconds = p;
    }
    return seconds ? *seconds : 0;
}

int clock_gettime(clockid_t which, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, which, ret);

    if (r == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        ret->tv_sec += wrong_by();
    return r;
}

int gettimeofday(struct timeval *ret, void *zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
