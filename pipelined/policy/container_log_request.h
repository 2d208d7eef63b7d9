/* container_log: what is asked of whoever runs workers in containers (exec/executor.h): what one of them prints. Pure. */
#pragma once

#include "storage/base/err.h"

struct pl_container_log_request {
    const char *pod;       /* NULL = the stage's only one */
    const char *container; /* pl_container_log_check */
    bool follow;           /* until it has ended; else what is there */
    uint64_t tail;         /* of what is there, the last so many lines; 0 = all */
    /* There is more, or it is over, or (`follow`) nothing is wrong and there may be nothing for long. Any thread, must not block; not after its stream was closed. */
    void (*came)(void *self);
    void *self;
};

/* "main" (the command's), "agent", "install". PL_EINVAL, field "container". */
PL_MUST_CHECK
int pl_container_log_check(const char *container, struct pl_err *err);
