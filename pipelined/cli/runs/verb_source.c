/* The subcommands for sources: git repositories whose specs become pipelines. */
#include "pipelined/cli/runs/stage_changes.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/text/json_text.h"

#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"

#include <stdio.h>
#include <time.h>

#define SPEC_BYTES_MAX 65536u
#define LOOK_MS        600000 /* the longest wait for a look: it fetches and checks everything */
#define LOOK_AGAIN_MS  20     /* first and longest wait between two questions whether it is over */
#define LOOK_AGAIN_MAX 500

/* ---- a look ---- */

/* Waits until the look with the number `look` is over; `ret`: the source then. */
static int wait_look(struct pl_cli *c, const char *name, json_int_t look, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/sources/%s", name);
    const int64_t until_ms = pl_clock_mono_ms() + LOOK_MS;
    int64_t pause_ms = LOOK_AGAIN_MS;

    for (;;) {
        json_t *source = NULL;
        int r = pl_cli_call(c, "GET", path, NULL, &source, err);

        if (r < 0)
            return r;
        if (pl_show_int_at(source, "looks") >= look) {
            *ret = source;
            return 0;
        }
        json_decref(source);
        if (pl_clock_mono_ms() > until_ms)
            return pl_err_set(err, PL_ETIMEOUT,
                              "the look at source %s has not ended after %d minutes: pipelinectl inspect source %s", name,
                              LOOK_MS / 60000, name);
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)pause_ms * 1000000}, NULL);
        pause_ms = PL_MIN(2 * pause_ms, (int64_t)LOOK_AGAIN_MAX);
    }
}

/* Says what a look found. A commit that cannot be applied, or a repository that cannot be read, is an error. */
static int tell_look(struct pl_cli *c, const json_t *source, struct pl_err *err)
{
    const char *name = pl_show_text_at(source, "name"), *error = pl_show_text_at(source, "error");
    const json_t *one;
    size_t i;

    if (*error)
        return pl_err_set(err,
                          *pl_show_text_at(source, "commit") && pl_streq(pl_show_text_at(source, "state"), "invalid")
                              ? PL_ESPEC
                              : PL_EUNAVAILABLE,
                          "source %s: %s", name, error);
    pl_show_say(c, "source %s is at %.12s: %s\n", name, pl_show_text_at(source, "applied"), pl_show_text_at(source, "subject"));
    json_array_foreach(pl_show_at(source, "pipelines"), i, one)
    {
        pl_show_say(c, "  pipeline %s\n", json_string_value(one));
    }
    json_array_foreach(pl_show_at(source, "warnings"), i, one)
    {
        pl_show_say(c, "  warning: %s\n", json_string_value(one));
    }
    return 0;
}

static int look(struct pl_cli *c, const char *name, json_int_t number, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = wait_look(c, name, number, &source, err);

    if (r == 0 && c->json)
        r = pl_show_json(source, err);
    return r < 0 ? r : tell_look(c, source, err);
}

/* ---- create, update ---- */

/* Reads the settings from the file of --file, {"name"?, "project"?, "git", …}. */
static int read_file(const char *file, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = SPEC_BYTES_MAX};
    json_error_t where;
    int r = pl_io_read_file(file, &text, err);

    if (r < 0)
        return r;
    *ret = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    if (*ret && json_is_object(*ret))
        return 0;
    return *ret ? pl_err_set(err, PL_EINVAL, "%s: an object with the settings of a source is expected", file)
                : pl_err_set(err, PL_EINVAL, "%s:%d:%d: %s", file, where.line, where.column, where.text);
}

/* Gathers settings from the file, and from options, which come first. */
static int gather(const struct pl_cli *c, json_t **ret, struct pl_err *err)
{
    static const char *const names[] = {"git", "branch", "path", "interval", "secret", "prune", "hook-secret", "status"};
    const char *file = pl_cli_value(c, "file");
    json_t *settings = NULL;
    int r = file ? read_file(file, &settings, err) : 0;

    settings = r < 0 || settings ? settings : json_object();
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(names); i++)
        if (pl_cli_value(c, names[i]) &&
            json_object_set_new(settings, pl_streq(names[i], "hook-secret") ? "hook_secret" : names[i],
                                json_string(pl_cli_value(c, names[i]))) < 0)
            r = pl_err_set(err, PL_EINVAL, "--%s is not UTF-8", names[i]);
    if (r == 0 && pl_cli_flag(c, "preview") && pl_cli_flag(c, "no-preview"))
        r = pl_err_set(err, PL_EUSAGE, "--preview and --no-preview exclude each other");
    if (r == 0 && (pl_cli_flag(c, "preview") || pl_cli_flag(c, "no-preview")))
        json_object_set_new(settings, "preview", json_boolean(pl_cli_flag(c, "preview")));
    if (r < 0) {
        json_decref(settings);
        return r;
    }
    *ret = settings;
    return 0;
}

static int create_source(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *settings = NULL, *answer = NULL;
    const char *name, *project;
    json_t *made;
    int r = gather(c, &settings, err);

    if (r < 0)
        return r;
    name = c->n_args ? c->args[0] : pl_show_text_at(settings, "name");
    project = pl_show_text_at(settings, "project");
    if (!*name)
        return pl_err_set(err, PL_EUSAGE, "create source has no name: pipelinectl create source NAME --git URL");
    if (!json_object_get(settings, "git"))
        return pl_err_set(err, PL_EUSAGE, "create source %s has no repository: give --git URL", name);
    made = json_pack("{s:s, s:s, s:O}", "name", name, "project", *project ? project : c->project, "settings", settings);
    (void)!json_object_del(settings, "name");
    (void)!json_object_del(settings, "project");
    r = pl_cli_call(c, "POST", "/api/v1/sources", made, &answer, err);
    if (r < 0)
        return r;
    pl_show_say(c, "source %s created\n", pl_show_text_at(answer, "name"));
    return look(c, pl_show_text_at(answer, "name"), pl_show_int_at(answer, "look"), err);
}

/* Changes settings of the source that the first argument names. Takes `settings`. */
static int change(struct pl_cli *c, json_t *settings, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/sources/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = pl_cli_call(c, "PATCH", path, json_pack("{s:o}", "settings", settings), &source, err);

    return r < 0 || !c->json ? r : pl_show_json(source, err);
}

static int update_source(struct pl_cli *c, struct pl_err *err)
{
    json_t *settings = NULL;
    int r = gather(c, &settings, err);

    if (r < 0)
        return r;
    (void)!json_object_del(settings, "name");
    (void)!json_object_del(settings, "project");
    if (json_object_size(settings) == 0) {
        json_decref(settings);
        return pl_err_set(err, PL_EUSAGE,
                          "update source %s changes nothing: give --git, --branch, --path, --interval, --secret, --prune, "
                          "--hook-secret, --status, --preview, --no-preview or --file",
                          c->args[0]);
    }
    r = change(c, settings, err);
    if (r == 0)
        pl_show_say(c, "source %s updated\n", c->args[0]);
    return r;
}

static int pause_source(struct pl_cli *c, struct pl_err *err)
{
    int r = change(c, json_pack("{s:b}", "paused", 1), err);

    if (r == 0)
        pl_show_say(c, "source %s is paused: pipelinectl sync source %s looks once, resume goes on\n", c->args[0], c->args[0]);
    return r;
}

static int resume_source(struct pl_cli *c, struct pl_err *err)
{
    int r = change(c, json_pack("{s:b}", "paused", 0), err);

    if (r == 0)
        pl_show_say(c, "source %s is followed again\n", c->args[0]);
    return r;
}

static int sync_source(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/sources/%s/sync", c->args[0]);
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = pl_cli_call(c, "POST", path, NULL, &answer, err);

    return r < 0 ? r : look(c, c->args[0], pl_show_int_at(answer, "look"), err);
}

/* Says what the comparison `diff` found. */
static int tell_diff(struct pl_cli *c, const json_t *diff, struct pl_err *err)
{
    const char *error = pl_show_text_at(diff, "error"), *prune = pl_show_text_at(diff, "prune");
    const json_t *one;
    size_t i;

    if (*error)
        return pl_err_set(err, *pl_show_text_at(diff, "commit") ? PL_ESPEC : PL_EUNAVAILABLE, "source %s: %s", c->args[0], error);
    json_array_foreach(pl_show_at(diff, "pipelines"), i, one)
    {
        const char *change = pl_show_text_at(one, "change");
        const bool same = pl_streq(change, "unchanged");

        pl_show_say(c, "pipeline %s %s%s (%s)\n", pl_show_text_at(one, "pipeline"), same ? "" : "would be ", change,
                    pl_show_text_at(one, "path"));
        if (!same)
            pl_cli_stage_changes(c, pl_show_at(one, "stages"));
    }
    json_array_foreach(pl_show_at(diff, "left"), i, one)
    {
        const bool stop = pl_streq(prune, "stop");

        pl_show_say(c, "pipeline %s is in no file any more and would %s\n", json_string_value(one),
                    !pl_json_has_text(pl_show_at(diff, "pruned"), json_string_value(one)) ? (stop ? "stay stopped" : "stay")
                    : stop                                                                ? "be stopped"
                                                                                          : "be deleted with its outputs");
    }
    return 0;
}

static int diff_source(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/sources/%s/diff", c->args[0]);
    _cleanup_(json_decrefp) json_t *answer = NULL, *source = NULL, *diff = NULL;
    int r = pl_cli_call(c, "POST", path, NULL, &answer, err);

    r = r < 0 ? r : wait_look(c, c->args[0], pl_show_int_at(answer, "look"), &source, err);
    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &diff, err);
    if (r == 0 && c->json)
        r = pl_show_json(diff, err);
    return r < 0 ? r : tell_diff(c, diff, err);
}

/* ---- list, inspect, delete ---- */

static void show_commit(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.12s", json_string_value(value) ? json_string_value(value) : "");
}

static int list_source(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"SOURCE", "name", NULL},
                                               {"PROJECT", "project", NULL},
                                               {"STATE", "state", NULL},
                                               {"APPLIED", "applied", show_commit},
                                               {"LOOKED", "looked_us", pl_show_ago},
                                               {"GIT", "git", NULL},
                                               {"ERROR", "error", NULL}};
    _cleanup_free_ char *path =
        c->one_project ? pl_http_path_make("/api/v1/sources?project=%s", c->project) : pl_http_path_make("/api/v1/sources");

    return pl_show_list(c, path, "sources", columns, PL_ARRAY_SIZE(columns), 0,
                        "no sources: pipelinectl create source NAME --git URL", err);
}

/* Shows a setting that is off by default. */
static void show_setting(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *text = json_is_true(value) ? "on" : json_string_value(value);

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", text && strcmp(text, "off") != 0 ? text : "");
}

/* Prints the previews of a source, one a line. */
static void tell_previews(struct pl_cli *c, const json_t *source)
{
    const json_t *one;
    size_t i;

    json_array_foreach(pl_show_at(source, "previews"), i, one)
    {
        pl_show_say(c, "branch %s at %.12s %s%s\n", pl_show_text_at(one, "branch"), pl_show_text_at(one, "commit"),
                    pl_streq(pl_show_text_at(one, "state"), "success") ? "" : "is not valid: ", pl_show_text_at(one, "text"));
    }
}

/* Prints the mistakes of refused specs with the lines around them, the line that is meant marked. */
static void tell_problems(const struct pl_cli *c, const json_t *source)
{
    const json_t *one, *line;
    size_t i, k;

    if (!pl_streq(pl_show_text_at(source, "state"), "invalid"))
        return;
    json_array_foreach(pl_show_at(source, "problems"), i, one)
    {
        const json_int_t first = pl_show_int_at(one, "first"), at = pl_show_int_at(one, "line");

        pl_show_say(c, "\n%s:%lld:%lld: %s\n", pl_show_text_at(one, "path"), (long long)at,
                    (long long)pl_show_int_at(one, "column"), pl_show_text_at(one, "text"));
        json_array_foreach(pl_show_at(one, "lines"), k, line)
        {
            const bool meant = first + (json_int_t)k == at;

            pl_show_say(c, "%s %5lld | %s\n", meant ? ">" : " ", (long long)first + (long long)k, json_string_value(line));
            if (meant)
                pl_show_say(c, "        | %*s\n", (int)pl_show_int_at(one, "mark"), "^");
        }
    }
}

static int inspect_source(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"source", "name", NULL},
                                               {"project", "project", NULL},
                                               {"git", "git", NULL},
                                               {"branch", "branch", NULL},
                                               {"path", "path", NULL},
                                               {"interval", "interval", NULL},
                                               {"secret", "secret", NULL},
                                               {"prune", "prune", NULL},
                                               {"webhook", "hook", NULL},
                                               {"its secret", "hook_secret", NULL},
                                               {"status", "status", show_setting},
                                               {"preview", "preview", show_setting},
                                               {"state", "state", NULL},
                                               {"error", "error", NULL},
                                               {"errors", "errors", NULL},
                                               {"commit", "commit", NULL},
                                               {"applied", "applied", NULL},
                                               {"subject", "subject", NULL},
                                               {"author", "author", NULL},
                                               {"pipelines", "pipelines", NULL},
                                               {"warnings", "warnings", NULL},
                                               {"looked", "looked_us", pl_show_ago},
                                               {"changed", "changed_us", pl_show_ago}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/sources/%s", c->args[0]);
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = pl_cli_call(c, "GET", path, NULL, &source, err);

    r = r < 0 ? r : pl_show_object(c, source, columns, PL_ARRAY_SIZE(columns), err);
    if (r == 0 && !c->json) {
        tell_previews(c, source);
        tell_problems(c, source);
    }
    return r;
}

static int delete_source(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path =
        pl_http_path_make(pl_cli_flag(c, "force") ? "/api/v1/sources/%s?force=1" : "/api/v1/sources/%s", c->args[0]);

    return pl_show_delete(c, path, "source", c->args[0], err);
}

static const struct pl_option delete_options[] = {{"force", 0, NULL, "delete it even if git inputs name it"}, {0}};

static const struct pl_option options[] = {
    {"git", 0, "URL", "address of the repository: https://HOST/PATH, USER@HOST:PATH, /FOLDER"},
    {"branch", 0, "BRANCH", "branch to follow; the repository's default if not given"},
    {"path", 0, "GLOB", "spec files in the repository; pipelines/**/*.json if not given"},
    {"interval", 0, "DURATION", "time between two looks; 60s if not given"},
    {"secret", 0, "NAME", "secret of the project with the credentials; see docs/git.md"},
    {"prune", 0, "off|stop|delete", "what happens to pipelines whose file is gone; off if not given"},
    {"hook-secret", 0, "SECRET", "secret of the project, whose key \"hook\" signs webhooks; \"\": take none"},
    {"status", 0, "github|gitlab|gitea|off", "tell the repository's server of each commit whether it is valid; off if not given"},
    {"preview", 0, NULL, "say of other branches what they would change, and run nothing"},
    {"no-preview", 0, NULL, "no longer do that"},
    {"file", 'f', "FILE", "settings as JSON: {\"name\", \"project\", \"git\", …}"},
    {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "source",
     "[NAME] --git URL",
     0,
     1,
     options,
     create_source,
     "Follows a git repository: the specs on its branch become pipelines, now and after each push.",
     {"create source team --git https://github.com/team/pipelines.git --secret github",
      "create source vision --git git@host:vision.git --secret key --project vision", "create source -f source.json"}},
    {"update",
     "source",
     "NAME",
     1,
     1,
     options,
     update_source,
     "Changes settings of a source; those that are not given stay.",
     {"update source team --branch main", "update source team --interval 10s", "update source team --path 'specs/*.json'"}},
    {"list",
     "source",
     "",
     0,
     0,
     NULL,
     list_source,
     "Lists the git repositories that are followed.",
     {"list source", "ls sources", "list source --json"}},
    {"inspect",
     "source",
     "NAME",
     1,
     1,
     NULL,
     inspect_source,
     "Shows a source: which commit runs, and why a newer one does not.",
     {"inspect source team", "inspect source vision", "inspect source team --json"}},
    {"sync",
     "source",
     "NAME",
     1,
     1,
     NULL,
     sync_source,
     "Looks at the repository now and applies its newest commit; fails if that is refused.",
     {"sync source team", "sync source vision", "sync source team --json"}},
    {"diff",
     "source",
     "NAME",
     1,
     1,
     NULL,
     diff_source,
     "Shows what sync would change and which datums would run again; changes nothing.",
     {"diff source team", "diff source vision", "diff source team --json"}},
    {"pause",
     "source",
     "NAME",
     1,
     1,
     NULL,
     pause_source,
     "Stops looking at the repository; its pipelines stay as they are.",
     {"pause source team", "pause source vision", "pause source team --json"}},
    {"resume",
     "source",
     "NAME",
     1,
     1,
     NULL,
     resume_source,
     "Looks at the repository again after pause.",
     {"resume source team", "resume source vision", "resume source team --json"}},
    {"delete",
     "source",
     "NAME [--force]",
     1,
     1,
     delete_options,
     delete_source,
     "Stops following a repository; its pipelines stay and are set by hand from then on.",
     {"delete source team", "rm source team", "delete source team --force"}},
};
PL_CLI_TABLE(source, verbs);
