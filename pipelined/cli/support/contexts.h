/* contexts: the servers that a person is logged in to, in CONFIG/pipelined/contexts.json, where CONFIG is $XDG_CONFIG_HOME, else ~/.config:
 *
 *   {"current": NAME, "contexts": {NAME: {"url": URL, "token": TOKEN, "ca": FILE?}},
 *    "s3_keys": {STORE ID: {"access_key", "secret_key"}}}                               of s3 env
 *
 * The file holds tokens: it is made 0600, and one that others may read is refused. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* What the file holds (an empty one when there is none): new reference. PL_EFORBIDDEN: others may read it; PL_EFORMAT. */
PL_MUST_CHECK
int pl_cli_contexts_read(json_t **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_cli_contexts_write(const json_t *contexts, struct pl_err *err);
/* The current one, or that of `url` when it is not NULL: new reference in `ret`, NULL when there is none. */
PL_MUST_CHECK
int pl_cli_context_find(const char *url, json_t **ret, struct pl_err *err);
/* Does the name go for one? Letters, digits, '_', '-', '.', ':', at most 120. PL_ENAME. */
PL_MUST_CHECK
int pl_cli_context_name_check(const char *name, struct pl_err *err);
