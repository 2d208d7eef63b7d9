/* secrets: what the stage's command is given of its project's secrets: FOLDER/NAME/KEY, as files or as variables. They are read when the
 * worker is set up; what the command prints of them is masked. Files change under a worker that runs, and under a command (another value was
 * set): so before a piece of output goes on they are looked at, a stat each, and what has changed is read. One thread. */
#pragma once

#include "pipelined/agent/command/secret_redaction.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#include <time.h>

#define PL_SECRETS_AGAIN_MS 1000 /* what changed just now is read again so often */

struct pl_secrets {
    char **env; /* "NAME=value" */
    size_t n_env;
    struct pl_secret_redaction mask;
    const char *folder; /* the caller's */
    struct pl_secret_seen {
        struct timespec changed; /* the folder, when it was read last */
        bool fresh;              /* so short before that another change may have got the same time */
    } * seen;                    /* by place in the stage's list */
    int64_t read_ms;
    bool said_full;
};

/* Of `stage`; `folder` outlives. PL_ENOTFOUND: there is no such secret or key, with how to make it; PL_EINVAL: a value with a NUL cannot be a variable. */
PL_MUST_CHECK
int pl_secrets_read(const char *folder, const struct pl_agent_protocol_attach *stage, int64_t now_ms, struct pl_secrets **ret,
                    struct pl_err *err);
/* What has changed is masked from now on, as what was there before is still. What cannot be read stays as it was. `now_ms`: monotonic. */
void pl_secrets_look(struct pl_secrets *s, const struct pl_agent_protocol_attach *stage, int64_t now_ms);
struct pl_secrets *pl_secrets_destroy(struct pl_secrets *s);
