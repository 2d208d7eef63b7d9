/* The subcommands for notifications: events that are sent to a URL. */
#include "pipelined/cli/runs/runs.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include <string.h>

/* Splits "a,b" into an array. */
static int read_on(const char *text, json_t **ret, struct pl_err *err)
{
    json_t *on = json_array();

    for (; on && text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        text += strspn(text, " ");
        if (json_array_append_new(on, json_sprintf("%.*s", (int)strcspn(text, ", "), text)) < 0) {
            json_decref(on);
            return pl_err_set(err, PL_EINVAL, "--on is not UTF-8");
        }
    }
    if (!on)
        return pl_err_nomem(err);
    *ret = on;
    return 0;
}

/* Gathers the settings that are given as options. */
static int gather(const struct pl_cli *c, json_t **ret, struct pl_err *err)
{
    static const char *const names[] = {"url", "format", "secret", "repo"};
    _cleanup_(json_decrefp) json_t *settings = json_object();
    json_t *on = NULL;
    int r = pl_cli_value(c, "on") ? read_on(pl_cli_value(c, "on"), &on, err) : 0;

    if (r == 0 && on && json_object_set_new(settings, "on", on) < 0)
        r = pl_err_nomem(err);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(names); i++)
        if (pl_cli_value(c, names[i]) && json_object_set_new(settings, names[i], json_string(pl_cli_value(c, names[i]))) < 0)
            r = pl_err_set(err, PL_EINVAL, "--%s is not UTF-8", names[i]);
    if (r == 0)
        *ret = TAKE_PTR(settings);
    return r;
}

static int create_notify(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    json_t *settings = NULL;
    int r;

    if (!pl_cli_value(c, "on") || !pl_cli_value(c, "url"))
        return pl_err_set(err, PL_EUSAGE, "create notify %s has no %s: pipelinectl create notify %s --on job.failure --url URL",
                          c->args[0], pl_cli_value(c, "on") ? "address: give --url" : "events: give --on", c->args[0]);
    r = gather(c, &settings, err);
    r = r < 0 ? r
              : pl_cli_call(c, "POST", "/api/v1/notifications",
                            json_pack("{s:s, s:s, s:o}", "name", c->args[0], "project", c->project, "settings", settings),
                            &answer, err);
    if (r < 0)
        return r;
    pl_show_say(c, "notification %s created\n  next: pipelinectl test notify %s\n", c->args[0], c->args[0]);
    return c->json ? pl_show_json(answer, err) : 0;
}

static int update_notify(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/notifications/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *rule = NULL;
    json_t *settings = NULL;
    int r = gather(c, &settings, err);

    if (r < 0)
        return r;
    if (json_object_size(settings) == 0) {
        json_decref(settings);
        return pl_err_set(err, PL_EUSAGE, "update notify %s changes nothing: give --on, --url, --format, --secret or --repo",
                          c->args[0]);
    }
    r = pl_cli_call(c, "PATCH", path, json_pack("{s:o}", "settings", settings), &rule, err);
    if (r < 0)
        return r;
    pl_show_say(c, "notification %s updated\n", c->args[0]);
    return c->json ? pl_show_json(rule, err) : 0;
}

static int test_notify(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/notifications/%s/test", c->args[0]);
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = pl_cli_call(c, "POST", path, NULL, &answer, err);

    if (r == 0 && c->json)
        r = pl_show_json(answer, err);
    if (r < 0)
        return r;
    if (*pl_show_text_at(answer, "error"))
        return pl_err_set(err, PL_EUNAVAILABLE, "notification %s: %s", c->args[0], pl_show_text_at(answer, "error"));
    pl_show_say(c, "notification %s: status %d after %d ms\n", c->args[0], (int)pl_show_int_at(answer, "status"),
                (int)pl_show_int_at(answer, "ms"));
    return 0;
}

static int list_notify(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"NOTIFY", "name", NULL}, {"PROJECT", "project", NULL},     {"ON", "on", NULL},
                                               {"STATE", "state", NULL}, {"SENT", "sent_us", pl_show_ago}, {"URL", "url", NULL},
                                               {"ERROR", "error", NULL}};
    _cleanup_free_ char *path = c->one_project ? pl_http_path_make("/api/v1/notifications?project=%s", c->project)
                                               : pl_http_path_make("/api/v1/notifications");

    return pl_show_list(c, path, "notifications", columns, PL_ARRAY_SIZE(columns), 0,
                        "no notifications: pipelinectl create notify NAME --on job.failure --url URL", err);
}

static int inspect_notify(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"notify", "name", NULL},        {"project", "project", NULL},   {"on", "on", NULL},
        {"repo", "repo", NULL},          {"url", "url", NULL},           {"format", "format", NULL},
        {"secret", "secret", NULL},      {"state", "state", NULL},       {"waiting", "waiting", NULL},
        {"delivered", "sent", NULL},     {"given up", "given_up", NULL}, {"last delivery", "sent_us", pl_show_ago},
        {"of", "sent_event", NULL},      {"took ms", "sent_ms", NULL},   {"last error", "error", NULL},
        {"at", "error_us", pl_show_ago}, {"failures", "failures", NULL}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/notifications/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *rule = NULL;
    int r = pl_cli_call(c, "GET", path, NULL, &rule, err);

    return r < 0 ? r : pl_show_object(c, rule, columns, PL_ARRAY_SIZE(columns), err);
}

static int delete_notify(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/notifications/%s", c->args[0]);

    return pl_show_delete(c, path, "notification", c->args[0], err);
}

static const struct pl_option options[] = {
    {"on", 0, "EVENTS", "events to send, separated by commas: TYPE or TYPE.STATE, such as job.failure,run.success"},
    {"url", 0, "URL", "address that gets a POST for each event"},
    {"format", 0, "FORMAT", "json, slack (a sentence), or s3 (commits as bucket notifications); json if not given"},
    {"secret", 0, "SECRET", "secret of the project whose key \"hook\" signs each delivery"},
    {"repo", 0, "REPO", "only events of this repo, or of the stage that writes it"},
    {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "notify",
     "NAME --on EVENTS --url URL",
     1,
     1,
     options,
     create_notify,
     "Sends events of the project to a URL, from now on.",
     {"create notify chat --on job.failure,source.invalid --url https://hooks.example.org/T1 --format slack",
      "create notify ci --on run --url https://ci.example.org/hook --secret ci --project vision",
      "create notify files --on commit --repo images --url https://example.org/new --format s3"}},
    {"update",
     "notify",
     "NAME",
     1,
     1,
     options,
     update_notify,
     "Changes settings of a notification; those that are not given stay.",
     {"update notify chat --on job.failure", "update notify ci --url https://ci.example.org/other",
      "update notify ci --secret ''"}},
    {"list",
     "notify",
     "",
     0,
     0,
     NULL,
     list_notify,
     "Lists the notifications, and whether their deliveries arrive.",
     {"list notify", "ls notify", "list notify --json"}},
    {"inspect",
     "notify",
     "NAME",
     1,
     1,
     NULL,
     inspect_notify,
     "Shows a notification: its last delivery and error, and how many events wait.",
     {"inspect notify chat", "inspect notify ci", "inspect notify ci --json"}},
    {"test",
     "notify",
     "NAME",
     1,
     1,
     NULL,
     test_notify,
     "Sends a test to the URL now, and says what the receiver replied.",
     {"test notify chat", "test notify ci", "test notify ci --json"}},
    {"delete",
     "notify",
     "NAME",
     1,
     1,
     NULL,
     delete_notify,
     "Deletes a notification; events that wait are not sent.",
     {"delete notify chat", "rm notify ci", "delete notify ci --json"}},
};
PL_CLI_TABLE(notify, verbs);
