/* credential: what create token and create s3-key are asked with. */
#pragma once

#include "pipelined/cli/support/cli.h"

#define PL_CLI_CREDENTIAL_OPTIONS                                                                                                \
    {"role", 0, "ROLE", "at most that: reader, writer or admin"}, {"over", 0, "SCOPE", "only there: PROJECT or PROJECT/REPO"},   \
        {"expires", 0, "TIME", "good for so long, as 12h or 30d; without it for ever"},                                          \
    {                                                                                                                            \
        "name", 0, "TEXT", "what it is for, as lists show it"                                                                    \
    }

/* The request's body of the options and of the first argument, the user; NULL with `err`. */
json_t *pl_cli_credential_body(const struct pl_cli *c, struct pl_err *err);
