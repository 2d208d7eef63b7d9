/* container_log_request: a request for the output of one container of a worker pod. An executor that runs workers in
 * containers (exec/executor.h) answers it. */
#pragma once

#include "storage/base/err.h"

struct pl_container_log_request {
    const char *pod;       /* name of the pod; NULL = the stage's only pod */
    const char *container; /* name of the container; see pl_container_log_check */
    bool follow;           /* true: stream until the container ends; false: only the output so far */
    uint64_t tail;         /* number of last lines of the existing output to send; 0 = all */
    /* Called when more output is available, when the output has ended, or (with `follow`) once the stream is known to
     * work although there may be no output for a long time. Called on any thread, never after the stream was closed.
     * Must not block. */
    void (*came)(void *self);
    void *self; /* argument of `came` */
};

/* Checks that `container` names a container of a worker pod: "main" (runs the command), "agent" or "install". Returns
 * PL_EINVAL with the error field "container" for any other name. */
PL_MUST_CHECK
int pl_container_log_check(const char *container, struct pl_err *err);
