/* The subcommands for repos: create, update, list, inspect, sync, delete. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/confirm.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/clock.h"

#include <stdio.h>
#include <time.h>

#define LOOK_MS        600000 /* the longest wait for a look: it fetches and stores files */
#define LOOK_AGAIN_MS  20     /* first and longest wait between two questions whether it is over */
#define LOOK_AGAIN_MAX 500

/* Parses a retention rule such as "commits=10,days=30" into a JSON object; "all" gives {}. The daemon checks
 * the names. */
static int read_keep(const char *text, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *keep = json_object();
    _cleanup_free_ char *copy = strdup(text);
    char *save = NULL;

    if (!keep || !copy)
        return pl_err_nomem(err);
    for (char *one = strtok_r(copy, ", ", &save); one && !pl_streq(text, "all"); one = strtok_r(NULL, ", ", &save)) {
        char *equals = strchr(one, '='), *end;
        long long n = equals ? strtoll(equals + 1, &end, 10) : 0;

        if (!equals || !equals[1] || *end)
            return pl_err_set(err, PL_EUSAGE,
                              "--keep %s: \"%s\" is not NAME=NUMBER, as in commits=10,days=30; all keeps everything", text, one);
        *equals = '\0';
        if (json_object_set_new(keep, one, json_integer(n)) < 0)
            return pl_err_nomem(err);
    }
    *ret = TAKE_PTR(keep);
    return 0;
}

static int add_keep(const struct pl_cli *c, json_t *body, struct pl_err *err)
{
    const char *text = pl_cli_value(c, "keep");
    json_t *keep = NULL;
    int r = text ? read_keep(text, &keep, err) : 0;

    if (r < 0 || !text)
        return r;
    return json_object_set_new(body, "keep", keep) < 0 ? pl_err_nomem(err) : 0;
}

/* Builds a request body from those of the options description, commit_window and durable that were given.
 * Returns NULL if memory runs out. */
static json_t *given_options(const struct pl_cli *c)
{
    static const char *const names[][2] = {{"description", "description"},
                                           {"commit-window", "commit_window"},
                                           {"durable", "durable"}};
    json_t *body = json_object();

    for (size_t i = 0; body && i < PL_ARRAY_SIZE(names); i++) {
        const char *value = pl_cli_value(c, names[i][0]);

        if (value && json_object_set_new(body, names[i][1], json_string(value)) < 0) {
            json_decref(body);
            return NULL;
        }
    }
    return body;
}

static int update_repo(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *repo = NULL;
    json_t *body = given_options(c);
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    r = r < 0 ? r : body ? add_keep(c, body, err) : pl_err_nomem(err);
    if (r == 0 && !json_object_size(body))
        r = pl_err_set(err, PL_EUSAGE, "update what of repo %s? Give --keep, --commit-window, --durable or --description",
                       c->args[0]);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    path = pl_http_path_make("/api/v1/repos/%s/%s", at.project, at.name);
    r = pl_cli_call(c, "PATCH", path, body, &repo, err);
    if (r < 0)
        return r;
    pl_show_say(c, "repo %s updated\n", c->args[0]);
    return c->json ? pl_show_json(repo, err) : 0;
}

static int create_repo(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *made = NULL;
    json_t *body = given_options(c);
    char repo[PL_CLI_REPO_TEXT];
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    if (r == 0 && (!body || json_object_set_new(body, "project", json_string(at.project)) < 0 ||
                   json_object_set_new(body, "name", json_string(at.name)) < 0))
        r = pl_err_nomem(err);
    r = r < 0 ? r : add_keep(c, body, err);
    if (r < 0) {
        json_decref(body);
        return r;
    }
    r = pl_cli_call(c, "POST", "/api/v1/repos", body, &made, err);
    if (r < 0)
        return r;
    pl_cli_repo_text(at.project, at.name, repo);
    pl_show_say(c, "repo %s created\nnext: pipelinectl put file %s@master -r -f FOLDER\n", repo, repo);
    return c->json ? pl_show_json(made, err) : 0;
}

static int list_repo(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"REPO", "name", NULL},
                                               {"KIND", "kind", NULL},
                                               {"FILES", "files", NULL},
                                               {"SIZE", "bytes", pl_show_size},
                                               {"COMMIT", "commit", pl_show_id},
                                               {"BRANCH", "branch", NULL},
                                               {"CREATED", "created_us", pl_show_ago}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos?project=%s", c->project);

    return pl_show_list(c, path, "repos", columns, PL_ARRAY_SIZE(columns), 0, "no repos yet: pipelinectl create repo NAME", err);
}

static void show_warnings(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *one;
    size_t i, n = 0;

    (void)item;
    *out = '\0';
    json_array_foreach(value, i, one)
    {
        if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%.300s", i ? "; " : "", json_string_value(one));
    }
}

static int inspect_repo(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"repo", "name", NULL},
                                             {"project", "project", NULL},
                                             {"kind", "kind", NULL},
                                             {"description", "description", NULL},
                                             {"files", "files", NULL},
                                             {"size", "bytes", pl_show_size},
                                             {"newest commit", "commit", NULL},
                                             {"branch", "branch", NULL},
                                             {"commit window", "commit_window_ms", pl_show_ms},
                                             {"durable", "durable", NULL},
                                             {"keep", "keep", pl_show_keep},
                                             {"git", "git.url", NULL},
                                             {"git source", "git.source", NULL},
                                             {"git branch", "git.branch", NULL},
                                             {"git commit", "git.applied", NULL},
                                             {"state", "git.state", NULL},
                                             {"error", "git.error", NULL},
                                             {"tip", "git.commit", NULL},
                                             {"warnings", "git.warnings", show_warnings},
                                             {"looked", "git.looked_us", pl_show_ago},
                                             {"created", "created_us", pl_show_time}};
    _cleanup_(json_decrefp) json_t *repo = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s", at.project, at.name);
    r = pl_cli_call(c, "GET", path, NULL, &repo, err);
    return r < 0 ? r : pl_show_object(c, repo, lines, PL_ARRAY_SIZE(lines), err);
}

/* ---- sync ---- */

/* Waits until the look with the number `look` is over. */
static int wait_look(struct pl_cli *c, const char *path, json_int_t look, struct pl_err *err)
{
    const int64_t until_ms = pl_clock_mono_ms() + LOOK_MS;
    int64_t pause_ms = LOOK_AGAIN_MS;

    for (;;) {
        _cleanup_(json_decrefp) json_t *answer = NULL;
        int r = pl_cli_call(c, "GET", path, NULL, &answer, err);

        if (r < 0 || pl_show_int_at(answer, "looks") >= look)
            return r;
        if (pl_clock_mono_ms() > until_ms)
            return pl_err_set(err, PL_ETIMEOUT, "the look has not ended after %d minutes: pipelinectl inspect repo %s",
                              LOOK_MS / 60000, c->args[0]);
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)pause_ms * 1000000}, NULL);
        pause_ms = PL_MIN(2 * pause_ms, (int64_t)LOOK_AGAIN_MAX);
    }
}

static int sync_repo(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL, *repo = NULL;
    _cleanup_free_ char *path = NULL, *sync = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s", at.project, at.name);
    sync = pl_http_path_make("/api/v1/repos/%s/%s/sync", at.project, at.name);
    r = pl_cli_call(c, "POST", sync, NULL, &answer, err);
    r = r < 0 ? r : wait_look(c, sync, pl_show_int_at(answer, "look"), err);
    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &repo, err);
    if (r == 0 && c->json)
        r = pl_show_json(repo, err);
    if (r == 0 && *pl_show_text_at(repo, "git.error"))
        r = pl_err_set(err, pl_streq(pl_show_text_at(repo, "git.state"), "invalid") ? PL_EINVAL : PL_EUNAVAILABLE, "repo %s: %s",
                       c->args[0], pl_show_text_at(repo, "git.error"));
    if (r == 0)
        pl_show_say(c, "repo %s is at %.12s, commit %.8s\n", c->args[0], pl_show_text_at(repo, "git.applied"),
                    pl_show_text_at(repo, "commit"));
    return r;
}

static int delete_repo(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s", at.project, at.name);
    return pl_cli_delete(c, path, pl_cli_flag(c, "force") ? "force=1" : "", "repo", c->args[0], err);
}

static const struct pl_option create_options[] = {
    {"description", 'd', "TEXT", "description of the repo"},
    {"commit-window", 0, "TIME", "gather puts into one commit until none comes for TIME, at most 60s; 0s = each put is a commit"},
    {"durable", 0, "WHERE", "local or bucket: whether a put into an open commit waits for the daemon's disk or for the store"},
    {"keep", 0, "RULE", "what to keep: commits=N,days=N; for outputs also results=DAYS,logs=DAYS; all = everything"},
    {0}};
static const struct pl_option delete_options[] = {{"force", 0, NULL, "delete it even if a stage reads it"}, PL_CLI_YES, {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "repo",
     "NAME",
     1,
     1,
     create_options,
     create_repo,
     "Creates an input repo.",
     {"create repo digits", "create repo digits -d 'handwritten digits'", "create repo vision/photos --commit-window 2s"}},
    {"update",
     "repo",
     "NAME",
     1,
     1,
     create_options,
     update_repo,
     "Changes options of a repo; those that are not given stay as they are.",
     {"update repo photos --commit-window 2s", "update repo photos --commit-window 0s --durable bucket",
      "update repo photos --keep commits=10,days=30"}},
    {"list",
     "repo",
     "",
     0,
     0,
     NULL,
     list_repo,
     "Lists repos: inputs and outputs of stages.",
     {"list repo", "ls repo --json", "--project vision list repo"}},
    {"inspect",
     "repo",
     "NAME",
     1,
     1,
     NULL,
     inspect_repo,
     "Shows a repo.",
     {"inspect repo digits", "inspect repo vision/photos", "inspect repo digits --json"}},
    {"sync",
     "repo",
     "NAME",
     1,
     1,
     NULL,
     sync_repo,
     "Looks now at the git repository that an input's repo follows; fails if that cannot be read.",
     {"sync repo docs", "sync repo vision/docs", "sync repo docs --json"}},
    {"delete",
     "repo",
     "NAME",
     1,
     1,
     delete_options,
     delete_repo,
     "Deletes an input repo with its branches and commits. On a terminal it asks if the repo has commits.",
     {"delete repo digits", "delete repo digits --force --yes", "rm repo vision/photos"}},
};
PL_CLI_TABLE(repo, verbs);
