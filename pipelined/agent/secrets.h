/* secrets: what the stage's command is given of its project's secrets: FOLDER/NAME/KEY, as files or as variables. They are read when the
 * worker is set up; what the command prints of them is masked. Files change under a worker that runs (another value was set): so they are
 * looked at before each datum. One thread. */
#pragma once

#include "pipelined/agent/mask.h"
#include "pipelined/agent/wire.h"

#include <time.h>

struct pl_secrets {
    char **env; /* "NAME=value" */
    size_t n_env;
    struct pl_mask mask;
    const char *folder;    /* the caller's */
    struct timespec *seen; /* by place in the stage's list: when the folder changed last that was read */
};

/* Of `stage`; `folder` outlives. PL_ENOTFOUND: there is no such secret or key, with how to make it; PL_EINVAL: a value with a NUL cannot be a variable. */
PL_MUST_CHECK
int pl_secrets_read(const char *folder, const struct pl_wire_attach *stage, struct pl_secrets **ret, struct pl_err *err);
/* What has changed is masked from now on, as what was there before is still. What cannot be read stays as it was. */
void pl_secrets_look(struct pl_secrets *s, const struct pl_wire_attach *stage);
struct pl_secrets *pl_secrets_destroy(struct pl_secrets *s);
