/* work_sweep: removes what a worker left on this machine, on the thread pool: its work folder and its cgroup. */
#pragma once

#include "pipelined/net/loop/loop.h"

/* Begins to remove the folder `path` and the cgroup, "" = none, and calls `done(arg)` on the loop when both are gone. False:
 * there is nothing to remove, or no memory; `done` is not called. Loop thread. */
bool pl_work_sweep(struct pl_loop *loop, const char *path, const char *cgroup, void (*done)(void *arg), void *arg);
