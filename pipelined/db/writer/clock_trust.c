/* Computes the trusted time (clock_trust.h). A reference time, called the line, advances with CLOCK_BOOTTIME;
 * the wall clock is trusted while it is not too far ahead of the line. One mutex guards the line. */
#include "pipelined/db/writer/clock_trust.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <time.h>

struct pl_clock_trust {
    pthread_mutex_t lock;
    int64_t line_us, boot_us; /* the line as it was last set, and the value of CLOCK_BOOTTIME at that moment */
    int64_t slack_us;
    bool doubted;
    int64_t known_us, start_us; /* at create: the newest known time, and the value of CLOCK_BOOTTIME */
};

/* Returns CLOCK_BOOTTIME, which also counts while the machine sleeps. */
static int64_t boot_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int pl_clock_trust_create(int64_t known_us, struct pl_clock_trust **ret, struct pl_err *err)
{
    struct pl_clock_trust *t = calloc(1, sizeof *t);

    if (!t)
        return pl_err_nomem(err);
    pthread_mutex_init(&t->lock, NULL);
    t->known_us = t->line_us = known_us ? known_us : pl_clock_wall_us();
    t->start_us = t->boot_us = boot_us();
    t->slack_us = PL_CLOCK_DOWN_US;
    (void)pl_clock_trust_look(t);
    *ret = t;
    return 0;
}

/* Moves the line to `wall_us`. Caller holds the lock. */
static void draw_from(struct pl_clock_trust *t, int64_t wall_us)
{
    t->line_us = wall_us;
    t->boot_us = boot_us();
    t->slack_us = PL_CLOCK_JUMP_US;
}

/* Reads both clocks, moves the line if the wall clock is trusted, and logs when the trust changes. */
struct pl_clock_view pl_clock_trust_look(struct pl_clock_trust *t)
{
    struct pl_clock_view v = {.wall_us = pl_clock_wall_us()};
    char line[32], wall[32];
    bool before;
    int64_t line_us;

    pthread_mutex_lock(&t->lock);
    before = t->doubted;
    line_us = t->line_us + boot_us() - t->boot_us;
    t->doubted = v.doubted = v.wall_us - line_us > t->slack_us;
    v.now_us = v.doubted ? line_us : v.wall_us;
    if (!v.doubted && v.wall_us >= line_us)
        draw_from(t, v.wall_us);
    pthread_mutex_unlock(&t->lock);
    if (v.doubted && !before)
        pl_log_warn("clock",
                    "the machine's clock says %s, but according to the log it is about %s: nothing is dropped because of its age",
                    pl_clock_text(v.wall_us, wall), pl_clock_text(line_us, line));
    else if (!v.doubted && before)
        pl_log_info("clock", "the machine's clock says %s: it is trusted again", pl_clock_text(v.wall_us, wall));
    return v;
}

int64_t pl_clock_trust_passed_us(struct pl_clock_trust *t)
{
    return t->known_us + boot_us() - t->start_us;
}

void pl_clock_trust_believe(struct pl_clock_trust *t)
{
    pthread_mutex_lock(&t->lock);
    draw_from(t, pl_clock_wall_us());
    pthread_mutex_unlock(&t->lock);
    (void)pl_clock_trust_look(t);
}

struct pl_clock_trust *pl_clock_trust_destroy(struct pl_clock_trust *t)
{
    if (!t)
        return NULL;
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

int pl_clock_trust_check(const struct pl_clock_view *now, struct pl_err *err)
{
    char line[32], wall[32];

    if (!now->doubted)
        return 0;
    pl_err_set(err, PL_ECONFIRM, "the machine's clock says %s, but according to the log it is about %s: nothing is dropped",
               pl_clock_text(now->wall_us, wall), pl_clock_text(now->now_us, line));
    return pl_err_hint(err, PL_ECONFIRM, "Set the clock; if it is right, confirm it: pipelinectl keep --trust-clock.");
}
