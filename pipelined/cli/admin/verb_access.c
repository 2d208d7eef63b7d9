/* The subcommands for users and their roles, for tokens, and for the audit log. */
#include "pipelined/cli/admin/credential.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include <stdio.h>

/* ---- users ---- */

static void show_scope(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *text = json_string_value(value);

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", text && *text ? text : "everything");
}

/* Writes roles as text, such as "reader of images, admin of everything". */
static void show_roles(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *role;
    size_t n = 0, i;

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "none");
    json_array_foreach(value, i, role)
    {
        const char *scope = pl_show_text_at(role, "scope");

        n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s of %s", i ? ", " : "", pl_show_text_at(role, "role"),
                              *scope ? scope : "everything");
        if (n >= PL_SHOW_TEXT_MAX)
            return;
    }
}

static void show_expires(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    if (json_integer_value(value))
        pl_show_time(value, item, out);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "never");
}

/* Builds the JSON list [{"scope", "role"}…]: one element with the role of --role for each scope that --over
 * names. Without --over, the list has one element with the scope "". Without --role, the list is empty. */
static int given_roles(const struct pl_cli *c, json_t **ret, struct pl_err *err)
{
    const char *role = pl_cli_value(c, "role");
    size_t n = pl_cli_value_count(c, "over");
    json_t *list;

    if (!role && n)
        return pl_err_set(err, PL_EUSAGE, "--over says where a role applies: give --role, too");
    list = json_array();
    for (size_t i = 0; role && i < (n ? n : 1); i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "scope", n ? pl_cli_value_at(c, "over", i) : "", "role", role));
    *ret = list;
    return list ? 0 : pl_err_nomem(err);
}

static int create_user(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *roles = NULL, *made = NULL;
    int r = given_roles(c, &roles, err);

    r = r < 0 ? r
              : pl_cli_call(c, "POST", "/api/v1/users", json_pack("{s:s, s:O}", "name", c->args[0], "roles", roles), &made, err);
    if (r < 0)
        return r;
    pl_show_say(c, "user %s created\nnext: pipelinectl create token %s\n", c->args[0], c->args[0]);
    return c->json ? pl_show_json(made, err) : 0;
}

static int update_user(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/users/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *roles = NULL, *user = NULL;
    int r = given_roles(c, &roles, err);

    if (r == 0 && json_array_size(roles) == 0)
        r = pl_err_set(err, PL_EUSAGE, "update what of user %s? Give --role, with --over PROJECT or --over PROJECT/REPO",
                       c->args[0]);
    r = r < 0 ? r : pl_cli_call(c, "PATCH", path, json_pack("{s:O}", "roles", roles), &user, err);
    if (r < 0)
        return r;
    pl_show_say(c, "user %s updated\n", c->args[0]);
    return c->json ? pl_show_json(user, err) : 0;
}

static int list_user(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"USER", "name", NULL},
                                               {"ROLES", "roles", show_roles},
                                               {"TOKENS", "tokens", NULL},
                                               {"S3 KEYS", "s3_keys", NULL},
                                               {"CREATED", "created_us", pl_show_ago}};

    return pl_show_list(c, "/api/v1/users", "users", columns, PL_ARRAY_SIZE(columns), 0,
                        "no users yet, only the daemon's own token: pipelinectl create user NAME --role ROLE", err);
}

/* inspect user: shows the named user; without a name, the user who runs the command. */
static int inspect_user(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"user", "name", NULL},
                                             {"roles", "roles", show_roles},
                                             {"token", "token", NULL},
                                             {"expires", "expires_us", show_expires},
                                             {"tokens", "tokens", NULL},
                                             {"S3 keys", "s3_keys", NULL},
                                             {"created", "created_us", pl_show_time}};
    _cleanup_free_ char *path = c->n_args ? pl_http_path_make("/api/v1/users/%s", c->args[0]) : strdup("/api/v1/whoami");
    _cleanup_(json_decrefp) json_t *user = NULL;
    int r = pl_cli_call(c, "GET", path, NULL, &user, err);

    return r < 0 ? r : pl_show_object(c, user, lines, PL_ARRAY_SIZE(lines), err);
}

static int delete_user(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/users/%s", c->args[0]);

    return pl_show_delete(c, path, "user", c->args[0], err);
}

/* ---- tokens ---- */

static int show_token(struct pl_cli *c, const json_t *made, struct pl_err *err)
{
    _cleanup_free_ char *url = NULL, *own = NULL;

    if (c->json)
        return pl_show_json(made, err);
    pl_show_say(c, "token %s of %s, shown only this once:\n", pl_show_text_at(made, "id"), pl_show_text_at(made, "user"));
    if (printf("%s\n", pl_show_text_at(made, "token")) < 0)
        return pl_err_errno(err, errno, "standard output");
    if (pl_cli_server_address(c, &url, &own, NULL) == 0)
        pl_show_say(c, "next, on the machine that uses it: pipelinectl login %s\n", url);
    return 0;
}

static int create_token(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *made = NULL;
    json_t *body = pl_cli_credential_body(c, err);
    int r = body ? pl_cli_call(c, "POST", "/api/v1/tokens", body, &made, err) : err->code;

    return r < 0 ? r : show_token(c, made, err);
}

static int rotate_token(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/tokens/%s/rotate", c->args[0]);
    _cleanup_(json_decrefp) json_t *made = NULL;
    int r = path ? pl_cli_call(c, "POST", path, NULL, &made, err) : pl_err_nomem(err);

    return r < 0 ? r : show_token(c, made, err);
}

static int list_token(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"TOKEN", "id", NULL},      {"USER", "user", NULL},
                                               {"MAX ROLE", "role", NULL}, {"SCOPE", "scope", show_scope},
                                               {"NAME", "name", NULL},     {"EXPIRES", "expires_us", show_expires},
                                               {"STATE", "state", NULL},   {"CREATED", "created_us", pl_show_ago}};
    const char *user = pl_cli_value(c, "user");
    _cleanup_free_ char *path = user ? pl_http_path_make("/api/v1/tokens?user=%s", user) : strdup("/api/v1/tokens");

    return pl_show_list(c, path, "tokens", columns, PL_ARRAY_SIZE(columns), 0, "no tokens: pipelinectl create token USER", err);
}

static int delete_token(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/tokens/%s", c->args[0]);

    return pl_show_delete(c, path, "token", c->args[0], err);
}

/* ---- audit ---- */

static int list_audit(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"WHEN", "at_us", pl_show_time}, {"WHO", "who", NULL},   {"TOKEN", "token", NULL},
                                               {"FROM", "peer", NULL},          {"VERB", "verb", NULL}, {"WHAT", "target", NULL}};
    const char *user = pl_cli_value(c, "user");
    _cleanup_free_ char *path = user ? pl_http_path_make("/api/v1/audit?user=%s", user) : strdup("/api/v1/audit");
    uint64_t limit = 100;
    int r = pl_cli_number(c, "limit", 1000000, &limit, err);

    return r < 0 ? r : pl_show_list(c, path, "audit", columns, PL_ARRAY_SIZE(columns), limit, "the audit log is empty", err);
}

static const struct pl_option role_options[] = {
    {"role", 0, "ROLE", "reader, writer, admin or metrics; none removes the role"},
    {"over", 0, "SCOPE", "where the role applies: PROJECT or PROJECT/REPO, may be repeated (else everywhere)"},
    {0}};
static const struct pl_option token_options[] = {PL_CLI_CREDENTIAL_OPTIONS, {0}};
static const struct pl_option of_user_options[] = {{"user", 0, "NAME", "only those of this user"}, {0}};
static const struct pl_option audit_options[] = {{"user", 0, "NAME", "only what this user did"},
                                                 {"limit", 0, "N", "the newest N (100)"},
                                                 {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "user",
     "NAME",
     1,
     1,
     role_options,
     create_user,
     "Creates a user, with or without a role.",
     {"create user ada --role admin", "create user bob --role writer --over vision",
      "create user eve --role reader --over vision/raw"}},
    {"update",
     "user",
     "NAME",
     1,
     1,
     role_options,
     update_user,
     "Gives a user a role for everything, a project or a repo, or removes it.",
     {"update user bob --role reader", "update user bob --role writer --over vision",
      "update user bob --role none --over vision"}},
    {"list", "user", "", 0, 0, NULL, list_user, "Lists users with their roles.", {"list user", "ls users", "list user --json"}},
    {"inspect",
     "user",
     "[NAME]",
     0,
     1,
     NULL,
     inspect_user,
     "Shows a user; without a name, who you are here and what you may do.",
     {"inspect user", "inspect user bob", "inspect user --json"}},
    {"delete",
     "user",
     "NAME",
     1,
     1,
     NULL,
     delete_user,
     "Deletes a user with all tokens and S3 keys; these stop working at once.",
     {"delete user bob", "rm user bob", "delete user bob --json"}},
    {"create",
     "token",
     "[USER]",
     0,
     1,
     token_options,
     create_token,
     "Creates a token for you or another user, limited by --role and --over. It is shown only once.",
     {"create token bob", "create token --role reader --over vision --expires 30d", "create token bob --name laptop --json"}},
    {"rotate",
     "token",
     "ID",
     1,
     1,
     NULL,
     rotate_token,
     "Replaces a token by a new one with the same name, limits and expiry; the old one stops working at once. The new one is "
     "shown only once.",
     {"rotate token 3f81c20a9be4", "rotate token 3f81", "rotate token 3f81 --json"}},
    {"list",
     "token",
     "",
     0,
     0,
     of_user_options,
     list_token,
     "Lists your tokens; an admin of everything sees all of them.",
     {"list token", "ls tokens --user bob", "list token --json"}},
    {"delete",
     "token",
     "ID",
     1,
     1,
     NULL,
     delete_token,
     "Deletes a token by its id or the start of it; the token and the sessions that it began stop working at once.",
     {"delete token 3f81c20a9be4", "delete token 3f81", "rm token 3f81"}},
    {"list",
     "audit",
     "",
     0,
     0,
     audit_options,
     list_audit,
     "Lists the audit log, newest first; it records who gave access to whom, and who created and deleted what, for a year.",
     {"list audit", "list audit --user bob", "list audit --limit 1000 --json"}},
};
PL_CLI_TABLE(access, verbs);
