/* work_sweep: one work item of the thread pool for each worker. */
#include "pipelined/exec/local/work_sweep.h"

#include "storage/system/cgroup.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct sweep {
    uv_work_t work;
    char path[4200], cgroup[PL_CGROUP_PATH];
    void (*done)(void *arg);
    void *arg;
};

static void sweep(uv_work_t *work)
{
    struct sweep *s = work->data;
    struct pl_err err = {0};

    if (*s->cgroup && pl_cgroup_remove(s->cgroup, &err) < 0)
        pl_log_warn("exec", "%s", err.msg);
    if (pl_io_remove_tree(s->path, &err) < 0)
        pl_log_warn("exec", "%s", err.msg);
}

static void swept(uv_work_t *work, int status)
{
    struct sweep *s = work->data;
    void (*done)(void *arg) = s->done;
    void *arg = s->arg;

    (void)status;
    free(s);
    done(arg);
}

bool pl_work_sweep(struct pl_loop *loop, const char *path, const char *cgroup, void (*done)(void *arg), void *arg)
{
    struct sweep *s = calloc(1, sizeof *s);

    if (!s)
        return false;
    s->work.data = s;
    s->done = done;
    s->arg = arg;
    snprintf(s->path, sizeof s->path, "%s", path);
    if (access(cgroup, F_OK) == 0)
        snprintf(s->cgroup, sizeof s->cgroup, "%s", cgroup);
    if ((access(s->path, F_OK) == 0 || *s->cgroup) && uv_queue_work(pl_loop_uv(loop), &s->work, sweep, swept) == 0)
        return true;
    free(s);
    return false;
}
