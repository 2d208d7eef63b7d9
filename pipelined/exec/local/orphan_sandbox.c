/* orphan_sandbox.c: a timer starts passes over all processes. Each pass duplicates, on the loop, the open
 * pipes of up to AT_ONCE workers, and then searches all processes, on the thread pool, for those that hold
 * the pipes. */
#include "pipelined/exec/local/orphan_sandbox.h"

#include "storage/system/file_users.h"
#include "storage/system/log_line.h"

#include <fcntl.h>
#include <inttypes.h>
#include <uv.h>

#define AT_ONCE 256u /* most pipes per pass; the next pass continues after them */

struct pl_leftovers {
    struct pl_orphan_sandbox_config config;
    struct pl_timer *timer;
    unsigned pause_ms;
    bool soon, busy; /* soon: the timer fires within PL_ORPHAN_SANDBOX_MS */
    size_t at;       /* position at which the next pass begins, as config.next counts it */
    /* State of the pass that runs. `pipes` contains duplicated descriptors: while they are open, the kernel
     * gives the pipes' inode numbers to no other file. */
    uv_work_t work;
    size_t n, killed[AT_ONCE];
    uint64_t ids[AT_ONCE];
    int pipes[AT_ONCE];
};

static void gather(struct pl_leftovers *l)
{
    int fd = 0;

    l->n = 0;
    memset(l->killed, 0, sizeof l->killed);
    while (l->n < AT_ONCE && (fd = l->config.next(l->config.self, &l->at, &l->ids[l->n])) >= 0) {
        l->pipes[l->n] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        l->n += l->pipes[l->n] >= 0;
    }
    if (fd < 0)
        l->at = 0;
}

static void drop(struct pl_leftovers *l)
{
    while (l->n > 0)
        close(l->pipes[--l->n]);
}

static void arm(struct pl_leftovers *l)
{
    uint64_t id;
    size_t at = 0;

    if (l->config.next(l->config.self, &at, &id) >= 0)
        pl_timer_start(l->timer, l->pause_ms);
    l->pause_ms = PL_MIN(2 * l->pause_ms, PL_ORPHAN_SANDBOX_MAX_MS);
}

static void look(uv_work_t *work)
{
    struct pl_leftovers *l = work->data;

    pl_file_users_kill(l->pipes, l->n, "bwrap", l->killed);
}

static void looked(uv_work_t *work, int status)
{
    struct pl_leftovers *l = work->data;

    (void)status;
    for (size_t i = 0; i < l->n; i++)
        if (l->killed[i])
            pl_log_info("exec", "worker %" PRIu64 " left %zu process%s of its sandbox behind: killed", l->ids[i], l->killed[i],
                        l->killed[i] == 1 ? "" : "es");
    drop(l);
    l->busy = false;
    arm(l);
    l->config.rests(l->config.self);
}

static void on_time(void *arg)
{
    struct pl_leftovers *l = arg;

    l->soon = false;
    gather(l);
    l->work.data = l;
    l->busy = l->n > 0 && uv_queue_work(pl_loop_uv(l->config.loop), &l->work, look, looked) == 0;
    if (l->busy)
        return;
    drop(l);
    arm(l);
}

int pl_orphan_sandbox_create(const struct pl_orphan_sandbox_config *config, struct pl_leftovers **ret, struct pl_err *err)
{
    struct pl_leftovers *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return pl_err_nomem(err);
    l->config = *config;
    r = pl_timer_create(config->loop, "workers.left", on_time, l, &l->timer, err);
    if (r < 0) {
        free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void pl_orphan_sandbox_look(struct pl_leftovers *l)
{
    l->pause_ms = PL_ORPHAN_SANDBOX_MS;
    if (!l->busy && !l->soon)
        pl_timer_start(l->timer, l->pause_ms);
    l->soon = !l->busy;
}

bool pl_orphan_sandbox_busy(const struct pl_leftovers *l)
{
    return l->busy;
}

struct pl_leftovers *pl_orphan_sandbox_destroy(struct pl_leftovers *l)
{
    if (!l)
        return NULL;
    pl_timer_destroy(l->timer);
    free(l);
    return NULL;
}
