/* contexts: the servers that a user is logged in to, in the file CONFIG/pipelined/contexts.json. CONFIG is
 * $XDG_CONFIG_HOME, else ~/.config.
 *
 *   {"current": NAME, "contexts": {NAME: {"url": URL, "token": TOKEN, "ca": FILE?}},
 *    "s3_keys": {STORE ID: {"access_key", "secret_key"}}}                               written by s3 env
 *
 * The file holds tokens: it is created with mode 0600, and a file that other users may read is refused. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* Reads contexts.json; the caller owns the reference in `ret`. If there is no such file, the result has no
 * contexts. PL_EFORBIDDEN: other users may read the file; PL_EFORMAT: the file does not have the form
 * above. */
PL_MUST_CHECK
int pl_cli_contexts_read(json_t **ret, struct pl_err *err);
PL_MUST_CHECK
/* Writes contexts.json, and creates its folder if needed. PL_EIO, PL_ENOMEM. */
int pl_cli_contexts_write(const json_t *contexts, struct pl_err *err);
/* Finds the current context or, if `url` is not NULL, the context with that URL. `ret` receives a new
 * reference, NULL if there is none. */
PL_MUST_CHECK
int pl_cli_context_find(const char *url, json_t **ret, struct pl_err *err);
/* Checks a context's name: letters, digits, '_', '-', '.', ':', at most 120 bytes. PL_ENAME. */
PL_MUST_CHECK
int pl_cli_context_name_check(const char *name, struct pl_err *err);
