/* server_client: finds the server's address and token, and sends requests. The first address found is used:
 *
 *   address               token
 *   --server URL          PIPELINED_TOKEN, else the token of the context with this URL,
 *                         else DIR/token of --data or of the default folder
 *   --data DIR            DIR/token, else PIPELINED_TOKEN; the address is in DIR/pipelined.url
 *   PIPELINED_URL         as above, without --data
 *   the login context     PIPELINED_TOKEN, else the context's own (contexts.h)
 *   the default folder    FOLDER/token; the folder is ~/.local/share/pipelined, for root /var/lib/pipelined
 *   http://127.0.0.1:7380
 *
 * An https server's certificate is checked against --ca, PIPELINED_CA, the context's own file, or else the
 * certificates that this machine trusts. */
#pragma once

#include "pipelined/cli/support/cli.h"

#define PL_CLI_DEFAULT_URL "http://127.0.0.1:7380"

/* Returns the client for the server; the first call creates it. It lives until the program ends and belongs
 * to `c`. PL_ENET: --data was given and its folder has no daemon. */
PL_MUST_CHECK
int pl_cli_client(struct pl_cli *c, struct pl_http_client **ret, struct pl_err *err);
/* Makes the client trust the certificates in the file that --ca or PIPELINED_CA names, or else in the file
 * `otherwise` (NULL = those that the machine trusts). PL_ENOTFOUND: the file does not exist. */
PL_MUST_CHECK
int pl_cli_server_set_ca(const struct pl_cli *c, struct pl_http_client *client, const char *otherwise, struct pl_err *err);
/* Returns the server's address and token, malloc'ed, for a program that pipelinectl starts. `*ret_token` is
 * NULL if there is no token. */
PL_MUST_CHECK
int pl_cli_server_address(const struct pl_cli *c, char **ret_url, char **ret_token, struct pl_err *err);
/* Returns the path of the daemon's folder on this machine, malloc'ed: the folder of --data, or else the
 * default folder. NULL if HOME is not set or memory runs out. */
char *pl_cli_folder(const struct pl_cli *c);
/* Appends "&NAME=VALUE" to a URL that has its "?"; nothing for NULL. */
PL_MUST_CHECK
int pl_cli_add_query(struct pl_buf *url, const char *name, const char *value, struct pl_err *err);
/* Sends one request with a JSON body and reads a JSON reply. `path` comes from pl_http_path_make; if it is
 * NULL, memory ran out and the result is PL_ENOMEM. Takes over the caller's reference to `body`, also on
 * failure. `ret` may be NULL. */
PL_MUST_CHECK
int pl_cli_call(struct pl_cli *c, const char *method, const char *path, json_t *body, json_t **ret, struct pl_err *err);
/* Parses `REPO`, `REPO@REF` or `PROJECT/REPO@REF:/PATH` (commit_ref.h). The project is c->project if `text`
 * names none. */
PL_MUST_CHECK
int pl_cli_ref(const struct pl_cli *c, const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* Writes the commit part of a ref in the server's form, such as "master^2"; "master" if the ref has no @.
 * Returns `out`. */
char *pl_cli_ref_text(const struct pl_commit_ref *ref, char out[PL_NAME_MAX_BYTES + 16]);
/* Writes a repo's name as the user should type it next: "digits" in the default project, else
 * "vision/photos". Returns `out`. */
#define PL_CLI_REPO_TEXT (2 * PL_NAME_MAX_BYTES + 2)
char *pl_cli_repo_text(const char *project, const char *repo, char out[PL_CLI_REPO_TEXT]);
/* Project and name of a pipeline, stage or repo, parsed from "NAME" or "PROJECT/NAME". */
struct pl_cli_name {
    char project[PL_NAME_MAX_BYTES + 1], name[PL_NAME_MAX_BYTES + 1];
};
PL_MUST_CHECK
/* Parses "NAME" or "PROJECT/NAME" and checks both names. `what` is the kind of the named thing, such as
 * "stage", for error messages. PL_ENAME. */
int pl_cli_name(const struct pl_cli *c, const char *what, const char *text, struct pl_cli_name *ret, struct pl_err *err);
