/* The subcommands for projects: create, update, list, inspect, delete. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/confirm.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include <stdio.h>

/* Shows the project's network setting. A reply without the field comes from an older daemon, which has no
 * such setting: then the network is "on". */
static void show_network(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", json_is_false(value) ? "off" : "on");
}

static const struct pl_column columns[] = {{"PROJECT", "name", NULL},
                                           {"NETWORK", "network", show_network},
                                           {"CREATED", "created_us", pl_show_ago}};
static const struct pl_column lines[] = {{"project", "name", NULL},
                                         {"network", "network", show_network},
                                         {"created", "created_us", pl_show_time}};

static int create_project(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *made = NULL;
    int r = pl_cli_call(c, "POST", "/api/v1/projects",
                        json_pack("{s:s, s:o*, s:o*}", "name", c->args[0], "with_secrets",
                                  pl_cli_flag(c, "with-secrets") ? json_true() : NULL, "network",
                                  pl_cli_flag(c, "no-network") ? json_false() : NULL),
                        &made, err);

    if (r < 0)
        return r;
    pl_show_say(c, "project %s created\nnext: pipelinectl --project %s create repo NAME\n", c->args[0], c->args[0]);
    return c->json ? pl_show_json(made, err) : 0;
}

static int update_project(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *now = NULL;
    const char *network = pl_cli_value(c, "network");
    const bool on = network && pl_streq(network, "on");
    int r;

    if (!network)
        return pl_err_set(err, PL_EUSAGE, "update project %s to what? Give --network on or --network off", c->args[0]);
    if (!on && !pl_streq(network, "off"))
        return pl_err_set(err, PL_EUSAGE, "--network %.40s: give on or off", network);
    r = pl_cli_call(c, "PATCH", path, json_pack("{s:b}", "network", (int)on), &now, err);
    if (r < 0)
        return r;
    if (on)
        pl_show_say(c, "stages of project %s may use the network, starting with their next worker\n", c->args[0]);
    else
        pl_show_say(
            c,
            "stages of project %s have no network, starting with their next worker; work in progress keeps it until it ends "
            "(pipelinectl stop run stops it)\n",
            c->args[0]);
    return c->json ? pl_show_json(now, err) : 0;
}

static int list_project(struct pl_cli *c, struct pl_err *err)
{
    return pl_show_list(c, "/api/v1/projects", "projects", columns, PL_ARRAY_SIZE(columns), 0,
                        "no projects yet; \"default\" is made with the first repo: pipelinectl create repo NAME", err);
}

static int inspect_project(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL;
    const json_t *one;
    size_t i;
    int r = pl_cli_call(c, "GET", "/api/v1/projects?limit=10000", NULL, &page, err);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(page, "projects"), i, one)
    {
        if (pl_streq(pl_show_text_at(one, "name"), c->args[0]))
            return pl_show_object(c, one, lines, PL_ARRAY_SIZE(lines), err);
    }
    return pl_err_set(err, PL_ENOTFOUND, "project \"%s\" does not exist: pipelinectl list project shows all", c->args[0]);
}

/* Asks before a project goes that has secrets or notifications. Who may delete the project need not be
 * allowed to list its secrets. */
static int ask_about_project(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *look = pl_http_path_make("/api/v1/projects/%s?dry_run=1", c->args[0]),
                        *list = pl_http_path_make("/api/v1/secrets?project=%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *would = NULL, *secrets = NULL;
    char question[512], kept[64];
    json_int_t notifications;
    size_t n = 0;
    int r = pl_cli_call(c, "DELETE", look, NULL, &would, err);

    if (r < 0)
        return r;
    r = pl_cli_call(c, "GET", list, NULL, &secrets, NULL);
    n = json_array_size(json_object_get(secrets, "secrets"));
    notifications = pl_show_int_at(would, "notifications");
    if (r == 0 && n == 0 && notifications == 0)
        return 0;
    snprintf(kept, sizeof kept, n == 1 ? "%zu secret" : "%zu secrets", n);
    snprintf(question, sizeof question, "delete project %s? Its %s%s and %lld notification%s go with it", c->args[0],
             r < 0 ? "secrets" : kept, r == 0 && json_object_get(secrets, "next") && n ? " or more" : "",
             (long long)notifications, notifications == 1 ? "" : "s");
    return pl_cli_ask(question, err);
}

static int delete_project(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/projects/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *gone = NULL, *done = NULL;
    char shown[PL_ERR_MSG_BYTES];
    const json_t *one;
    size_t i;
    int r = pl_cli_asks(c) ? ask_about_project(c, err) : 0;

    r = r < 0 ? r : pl_cli_call(c, "DELETE", path, NULL, &gone, err);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(gone, "warnings"), i, one)
        fprintf(stderr, "%s (warning)\n", pl_show_clean(json_string_value(one), shown, sizeof shown));
    pl_show_say(c, "project %s deleted\n", c->args[0]);
    done = json_pack("{s:s++, s:O*}", "deleted", "project", " ", c->args[0], "warnings", json_object_get(gone, "warnings"));
    return c->json ? pl_show_json(done, err) : 0;
}

static const struct pl_option create_options[] = {{"with-secrets", 0, NULL,
                                                   "take over secrets that already exist for a project of this name"},
                                                  {"no-network", 0, NULL, "its stages have no network, whatever their specs say"},
                                                  {0}};
static const struct pl_option update_options[] = {
    {"network", 0, "on|off",
     "off: its stages have no network, whatever their specs say; only an admin of the project may set it"},
    {0}};

static const struct pl_option delete_options[] = {PL_CLI_YES, {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "project",
     "NAME",
     1,
     1,
     create_options,
     create_project,
     "Creates a project, a namespace for repos and pipelines.",
     {"create project vision", "create project patients --no-network", "create project vision --with-secrets"}},
    {"update",
     "project",
     "NAME --network on|off",
     1,
     1,
     update_options,
     update_project,
     "Switches the network of a project's stages off, or on again.",
     {"update project vision --network off", "update project vision --network on", "update project vision --network off --json"}},
    {"list",
     "project",
     "",
     0,
     0,
     NULL,
     list_project,
     "Lists projects by name.",
     {"list project", "ls projects --json", "ls projects --json | jq -r .projects[].name"}},
    {"inspect",
     "project",
     "NAME",
     1,
     1,
     NULL,
     inspect_project,
     "Shows a project.",
     {"inspect project vision", "inspect project default", "inspect project vision --json"}},
    {"delete",
     "project",
     "NAME",
     1,
     1,
     delete_options,
     delete_project,
     "Deletes a project that has no repos or pipelines, with its secrets and notifications. On a terminal it asks if there are "
     "any.",
     {"delete project vision", "delete project vision --yes", "rm project vision"}},
};
PL_CLI_TABLE(project, verbs);
