/* confirm: asks on a terminal before a subcommand takes something away. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* The option of verbs that ask. */
#define PL_CLI_YES                                                                                                               \
    {                                                                                                                            \
        "yes", 'y', NULL, "do not ask for confirmation"                                                                          \
    }

/* True if the verb may ask: standard input and output are terminals, and neither --json nor --yes is given. */
bool pl_cli_asks(const struct pl_cli *c);
/* Asks the question, "delete repo digits?", on the terminal. Returns 0 if the answer is yes, else PL_ECANCELED. */
PL_MUST_CHECK
int pl_cli_ask(const char *question, struct pl_err *err);
/* Deletes what `path` names and prints the result: "repo digits deleted"; with --json, {"deleted": "repo digits"}. If the verb
 * may ask, it first asks the server what goes with it, and then the user, unless that is nothing. `query`: "" or
 * "force=1&…". */
PL_MUST_CHECK
int pl_cli_delete(struct pl_cli *c, const char *path, const char *query, const char *kind, const char *name, struct pl_err *err);
