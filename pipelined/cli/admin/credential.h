/* credential: options and request body that create token and create s3-key share. */
#pragma once

#include "pipelined/cli/support/cli.h"

#define PL_CLI_CREDENTIAL_OPTIONS                                                                                                \
    {"role", 0, "ROLE", "at most that: reader, writer or admin"}, {"over", 0, "SCOPE", "only there: PROJECT or PROJECT/REPO"},   \
        {"expires", 0, "TIME", "good for so long, as 12h or 30d; without it for ever"},                                          \
    {                                                                                                                            \
        "name", 0, "TEXT", "what it is for, as lists show it"                                                                    \
    }

/* Makes the request body from the options and from the first argument, the user (optional). NULL with `err`
 * set. */
json_t *pl_cli_credential_body(const struct pl_cli *c, struct pl_err *err);
