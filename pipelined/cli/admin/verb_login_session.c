/* login-session: lists and ends the sessions of browsers that were logged in with a link from `pipelinectl
 * open`. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

static int list_login_session(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"SESSION", "id", NULL},
                                               {"USER", "user", NULL},
                                               {"TOKEN", "token", NULL},
                                               {"FROM", "peer", NULL},
                                               {"STATE", "state", NULL},
                                               {"BEGAN", "created_us", pl_show_ago},
                                               {"EXPIRES", "expires_us", pl_show_time},
                                               {"BROWSER", "agent", NULL}};
    const char *user = pl_cli_value(c, "user");
    _cleanup_free_ char *path =
        user ? pl_http_path_make("/api/v1/login-sessions?user=%s", user) : strdup("/api/v1/login-sessions");

    return pl_show_list(c, path, "login_sessions", columns, PL_ARRAY_SIZE(columns), 0,
                        "no browser is logged in: pipelinectl open", err);
}

static int delete_login_session(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/login-sessions/%s", c->args[0]);

    return pl_show_delete(c, path, "login session", c->args[0], err);
}

static const struct pl_option list_options[] = {{"user", 0, "NAME", "only this user's sessions"}, {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "login-session",
     "",
     0,
     0,
     list_options,
     list_login_session,
     "Lists the browsers that are logged in as you; an admin of everything sees those of all users.",
     {"list login-session", "list login-session --user bob", "list login-session --json"}},
    {"delete",
     "login-session",
     "ID",
     1,
     1,
     NULL,
     delete_login_session,
     "Logs a browser out, by the session's id or the start of it; its open pages stop at once.",
     {"delete login-session 3f81c20a9be4", "delete login-session 3f81", "rm login-session 3f81 --json"}},
};
PL_CLI_TABLE(login_session, verbs);
