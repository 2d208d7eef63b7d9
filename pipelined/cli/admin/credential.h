/* credential: the options that `create token` and `create s3-key` share, and the body of their requests. */
#pragma once

#include "pipelined/cli/support/cli.h"

#define PL_CLI_CREDENTIAL_OPTIONS                                                                                                \
    {"role", 0, "ROLE", "limit: reader, writer or admin"}, {"over", 0, "SCOPE", "limit: PROJECT or PROJECT/REPO"},               \
        {"expires", 0, "TIME", "valid for this time, such as 12h or 30d (else for ever)"},                                       \
    {                                                                                                                            \
        "name", 0, "TEXT", "what it is for; shown in lists"                                                                      \
    }

/* Builds the JSON body of the request from the command's options and its first argument. The argument names
 * the user and is optional. Returns NULL, with `err` set, on failure. */
json_t *pl_cli_credential_body(const struct pl_cli *c, struct pl_err *err);
