/* server: whom pipelinectl asks, and asking. Address and token, the first that is there:
 *
 *   --server URL          token: PIPELINED_TOKEN, else of the context with that URL, else DIR/token of --data or the default folder
 *   --data DIR            DIR/pipelined.url, DIR/token
 *   PIPELINED_URL         token: PIPELINED_TOKEN, else of the context with that URL, else DIR/token of the default folder
 *   the login context     contexts.h; its own token
 *   the default folder    ~/.local/share/pipelined, of root /var/lib/pipelined
 *   http://127.0.0.1:7380
 *
 * Who vouches for an https server: --ca, PIPELINED_CA, the context's own file, else whom this machine trusts. */
#pragma once

#include "pipelined/cli/support/cli.h"

#define PL_CLI_DEFAULT_URL "http://127.0.0.1:7380"

/* The client, made on the first call; lives until the program ends. PL_ENET: the folder has no daemon. */
PL_MUST_CHECK
int pl_cli_client(struct pl_cli *c, struct pl_http_client **ret, struct pl_err *err);
/* Makes the client trust whom --ca or PIPELINED_CA names, else `otherwise` (NULL: the machine's). PL_ENOTFOUND: there is no such file. */
PL_MUST_CHECK
int pl_cli_server_set_ca(const struct pl_cli *c, struct pl_http_client *client, const char *otherwise, struct pl_err *err);
/* Address and token of it, malloc'ed, for a program that is started here; the token NULL when there is none. */
PL_MUST_CHECK
int pl_cli_server_address(const struct pl_cli *c, char **ret_url, char **ret_token, struct pl_err *err);
/* The daemon's folder on this machine: --data, else the default one; NULL when there is none. malloc'ed. */
char *pl_cli_folder(const struct pl_cli *c);
/* One request with JSON both ways. `path` from pl_http_path_make: NULL is PL_ENOMEM. `body` is taken, `ret` may be NULL. */
PL_MUST_CHECK
int pl_cli_call(struct pl_cli *c, const char *method, const char *path, json_t *body, json_t **ret, struct pl_err *err);
/* `REPO`, `REPO@REF`, `PROJECT/REPO@REF:/PATH`: as history.h, with c->project for a project that is not named. */
PL_MUST_CHECK
int pl_cli_ref(const struct pl_cli *c, const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* The commit part of a ref as the server takes it: "master^2" (no @: "master"). Returns `out`. */
char *pl_cli_ref_text(const struct pl_commit_ref *ref, char out[PL_NAME_MAX_BYTES + 16]);
/* A repo as a line typed next names it: "digits" in the project that is meant without one, else "vision/photos". Returns `out`. */
#define PL_CLI_REPO_TEXT (2 * PL_NAME_MAX_BYTES + 2)
char *pl_cli_repo_text(const char *project, const char *repo, char out[PL_CLI_REPO_TEXT]);
/* "NAME" or "PROJECT/NAME" of a pipeline or stage: both names checked. */
struct pl_cli_name {
    char project[PL_NAME_MAX_BYTES + 1], name[PL_NAME_MAX_BYTES + 1];
};
PL_MUST_CHECK
int pl_cli_name(const struct pl_cli *c, const char *what, const char *text, struct pl_cli_name *ret, struct pl_err *err);
