/* stage_secrets: the project's secrets that the stage's command receives, from FOLDER/NAME/KEY, as files or
 * as variables. They are read when the worker is set up, and their values are masked in the command's output.
 * A secret may get a new value while the worker or even a command runs. Therefore, before a piece of output
 * is sent, the folders are checked with one stat each, and changed ones are read again. One thread. */
#pragma once

#include "pipelined/agent/command/secret_redaction.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#include <time.h>

/* interval in ms at which a folder is read again if it changed just before it was read */
#define PL_SECRETS_AGAIN_MS 1000

struct pl_secrets {
    char **env; /* secrets that are variables, as "NAME=value" */
    size_t n_env;
    /* values to mask in output */
    struct pl_secret_redaction mask;
    const char *folder; /* borrowed */
    struct pl_secret_seen {
        struct timespec changed; /* modification time of the folder when it was last read */
        /* the folder changed so recently that a later change may get the same modification time */
        bool fresh;
    } * seen; /* one per entry of the stage's list of secrets */
    /* monotonic time of the last reading */
    int64_t read_ms;
    /* the log already says that there are too many texts to mask */
    bool said_full;
};

/* Reads the secrets of `stage`. `folder` is borrowed and must outlive the object. `now_ms`: monotonic time.
 * PL_ENOTFOUND: there is no such secret or key; the hint says how to create it. PL_EINVAL: a value with a NUL
 * byte cannot become a variable. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_secrets_read(const char *folder, const struct pl_agent_protocol_attach *stage, int64_t now_ms, struct pl_secrets **ret,
                    struct pl_err *err);
/* Reads the secrets that have changed. Their new values are masked from now on, and the old values still are.
 * If a secret cannot be read, its known values stay masked and the reason is logged. `now_ms`: monotonic
 * time. */
void pl_secrets_look(struct pl_secrets *s, const struct pl_agent_protocol_attach *stage, int64_t now_ms);
/* Overwrites the secret values in memory and frees the object. */
struct pl_secrets *pl_secrets_destroy(struct pl_secrets *s);
