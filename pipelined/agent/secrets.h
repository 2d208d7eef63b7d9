/* secrets: what the stage's command is given of its project's secrets: FOLDER/NAME/KEY, as files or as variables. They are read when the
 * worker is set up; what the command prints of them is masked. One thread reads, any may look. */
#pragma once

#include "pipelined/agent/mask.h"
#include "pipelined/agent/wire.h"

struct pl_secrets {
    char **env; /* "NAME=value" */
    size_t n_env;
    struct pl_mask mask;
};

/* Of `stage`. PL_ENOTFOUND: there is no such secret or key, with how to make it; PL_EINVAL: a value with a NUL cannot be a variable. */
PL_MUST_CHECK
int pl_secrets_read(const char *folder, const struct pl_wire_attach *stage, struct pl_secrets **ret, struct pl_err *err);
struct pl_secrets *pl_secrets_destroy(struct pl_secrets *s);
