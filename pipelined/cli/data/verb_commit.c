/* The subcommands for commits: list, start, finish, inspect, delete. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/push_ops.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include <stdio.h>

static int list_open(struct pl_cli *c, const struct pl_commit_ref *ref, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"COMMIT", "id", pl_show_id},           {"BRANCH", "branch", NULL},
                                               {"STARTED", "created_us", pl_show_ago}, {"OPERATIONS", "operations", NULL},
                                               {"GATHERS", "gathers", NULL},           {"AUTHOR", "author", NULL},
                                               {"MESSAGE", "message", NULL},           {"BLOCKED", "blocked", NULL}};
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/open", ref->project, ref->repo);

    return pl_show_list(c, path, "commits", columns, PL_ARRAY_SIZE(columns), 0,
                        "no open commits: pipelinectl start commit REPO@BRANCH", err);
}

static void show_git(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.12s", json_string_value(value) ? json_string_value(value) : "");
}

static int list_commit(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"COMMIT", "id", pl_show_id}, {"BRANCH", "branch", NULL},      {"CREATED", "created_us", pl_show_ago},
        {"FILES", "files", NULL},     {"SIZE", "bytes", pl_show_size}, {"GIT", "git", show_git},
        {"AUTHOR", "author", NULL},   {"MESSAGE", "message", NULL}};
    _cleanup_free_ char *path = NULL;
    uint64_t limit = 0;
    struct pl_commit_ref ref;
    int r = pl_cli_ref(c, c->args[0], &ref, err);

    r = r < 0 ? r : pl_cli_number(c, "limit", 1000000000, &limit, err);
    if (r < 0)
        return r;
    if (pl_cli_flag(c, "open"))
        return list_open(c, &ref, err);
    path = ref.kind == PL_COMMIT_REF_NONE
               ? pl_http_path_make("/api/v1/repos/%s/%s/commits", ref.project, ref.repo)
               : pl_http_path_make("/api/v1/repos/%s/%s/commits?branch=%s", ref.project, ref.repo, ref.name);
    return pl_show_list(c, path, "commits", columns, PL_ARRAY_SIZE(columns), limit,
                        "no commits yet: pipelinectl put file REPO@master:/PATH -f FILE; --open lists open commits", err);
}

static void show_provenance(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    char project[PL_SHOW_PROJECT_MAX];
    const json_t *one;
    size_t i, n = 0;

    *out = '\0';
    json_array_foreach(value, i, one)
    {
        if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s%s@%s %.8s", i ? ", " : "",
                                  pl_show_project_of(one, pl_show_text_at(item, "project"), project),
                                  pl_show_text_at(one, "repo"), pl_show_text_at(one, "branch"), pl_show_text_at(one, "commit"));
    }
}

/* Parses an argument of the form REPO@REF, without a path. `*ret_path` is the commit's path in the API,
 * malloc'ed. */
static int commit_arg(const struct pl_cli *c, struct pl_commit_ref *ret, char **ret_path, struct pl_err *err)
{
    char text[PL_NAME_MAX_BYTES + 16];
    int r = pl_cli_ref(c, c->args[0], ret, err);

    if (r == 0 && ret->has_path)
        r = pl_err_set(err, PL_EUSAGE, "\"%s\" is a file: give REPO@REF", c->args[0]);
    if (r == 0)
        *ret_path = pl_http_path_make("/api/v1/repos/%s/%s/commits/%s", ret->project, ret->repo, pl_cli_ref_text(ret, text));
    return r;
}

static int inspect_commit(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"commit", "id", NULL},
                                             {"repo", "repo", NULL},
                                             {"branch", "branch", NULL},
                                             {"parent", "parent", NULL},
                                             {"state", "state", NULL},
                                             {"operations", "operations", NULL},
                                             {"not finished", "blocked", NULL},
                                             {"files", "files", NULL},
                                             {"size", "bytes", pl_show_size},
                                             {"created", "created_us", pl_show_time},
                                             {"author", "author", NULL},
                                             {"opened by", "owner", NULL},
                                             {"message", "message", NULL},
                                             {"git commit", "git", NULL},
                                             {"stage", "stage", NULL},
                                             {"made from", "provenance", show_provenance}};
    _cleanup_(json_decrefp) json_t *commit = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_commit_ref ref;
    int r = commit_arg(c, &ref, &path, err);

    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &commit, err);
    return r < 0 ? r : pl_show_object(c, commit, lines, PL_ARRAY_SIZE(lines), err);
}

static int delete_commit(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_commit_ref ref;
    int r = commit_arg(c, &ref, &path, err);

    if (r == 0 && ref.kind == PL_COMMIT_REF_NONE)
        r = pl_err_set(err, PL_EUSAGE, "delete which commit of %s? Give %s@REF", ref.repo, ref.repo);
    return r < 0 ? r : pl_show_delete(c, path, "commit", c->args[0], err);
}

static const char *user(void)
{
    const char *name = getenv("USER");

    return name ? name : "";
}

static int start_commit(struct pl_cli *c, struct pl_err *err)
{
    const char *message = pl_cli_value(c, "message"), *commit;
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *path = NULL;
    char repo[PL_CLI_REPO_TEXT];
    struct pl_commit_ref ref;
    bool open = false;
    int r = pl_cli_ref(c, c->args[0], &ref, err);

    if (r == 0 && (ref.back || ref.has_path || ref.kind == PL_COMMIT_REF_ID))
        r = pl_err_set(err, PL_EUSAGE, "start a commit where? Give REPO@BRANCH");
    if (r == 0 && ref.kind == PL_COMMIT_REF_PREFIX)
        r = pl_cli_push_find_open(c, &ref, &open, err);
    if (r == 0 && open)
        r = pl_err_set(err, PL_EUSAGE, "commit %.8s is open already: put files into it, or give REPO@BRANCH", ref.name);
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s/open", ref.project, ref.repo,
                             ref.kind == PL_COMMIT_REF_NONE ? "master" : ref.name);
    r = pl_cli_call(c, "POST", path, json_pack("{s:s, s:s}", "message", message ? message : "", "author", user()), &answer, err);
    if (r < 0)
        return r;
    if (c->json)
        return pl_show_json(answer, err);
    commit = pl_show_text_at(answer, "id");
    pl_cli_repo_text(ref.project, ref.repo, repo);
    pl_show_say(c, "%s@%s: commit %s is open\n", repo, pl_show_text_at(answer, "branch"), commit);
    pl_show_say(c, "next: pipelinectl put file %s@%.8s -r -f FOLDER\n", repo, commit);
    pl_show_say(c, "      pipelinectl finish commit %s@%.8s\n", repo, commit);
    return 0;
}

/* Sends the request that finishes the commit, and repeats it after lost connections. If an earlier attempt
 * succeeded but its reply was lost, the server sends the same result again. */
static int finish_patiently(struct pl_cli *c, const char *path, json_t **ret, struct pl_err *err)
{
    const char *message = pl_cli_value(c, "message");
    struct pl_retrying_sink patient;
    unsigned pause_ms = 0;
    struct pl_err why;

    pl_cli_push_retry_policy(c, &patient);
    do {
        why = (struct pl_err){0};
        why.code = pl_cli_call(c, "POST", path, message ? json_pack("{s:s}", "message", message) : json_object(), ret, &why);
    } while (why.code < 0 && pl_retrying_sink_retry(&patient, &why, &pause_ms));
    if (why.code < 0)
        *err = why;
    return why.code;
}

static int finish_commit(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_http_client *client;
    struct pl_cli_push push = {0};
    int r = pl_cli_ref(c, c->args[0], &push.to, err);

    if (r == 0 && (push.to.back || push.to.has_path))
        r = pl_err_set(err, PL_EUSAGE, "finish which commit? Give REPO@ID, or REPO@BRANCH if only one is open there");
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/open/%s/finish", push.to.project, push.to.repo,
                             push.to.kind == PL_COMMIT_REF_NONE ? "master" : push.to.name);
    r = path ? pl_cli_client(c, &client, err) : pl_err_nomem(err);
    r = r < 0 ? r : finish_patiently(c, path, &answer, err);
    if (r < 0)
        return r;
    snprintf(push.to.name, sizeof push.to.name, "%s", pl_show_text_at(answer, "branch"));
    return pl_cli_push_print(c, &push, answer, err);
}

static const struct pl_option list_options[] = {{"limit", 'n', "N", "at most N"},
                                                {"open", 0, NULL, "list open commits, which are not finished yet"},
                                                {0}};
static const struct pl_option message_options[] = {{"message", 'm', "TEXT", "message of the commit"}, {0}};
static const struct pl_option finish_options[] = {{"message", 'm', "TEXT", "message of the commit"}, PL_CLI_WAIT, {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "commit",
     "REPO[@BRANCH]",
     1,
     1,
     list_options,
     list_commit,
     "Lists commits, newest first.",
     {"list commit digits", "list commit digits@master -n 5", "list commit digits --open"}},
    {"start",
     "commit",
     "REPO@BRANCH",
     1,
     1,
     message_options,
     start_commit,
     "Opens a commit on a branch, into which files are put until it is finished. An open commit without puts for 24 hours is "
     "dropped.",
     {"start commit digits@master", "start commit digits@master -m 'new scans'", "start commit digits --json"}},
    {"finish",
     "commit",
     "REPO@COMMIT",
     1,
     1,
     finish_options,
     finish_commit,
     "Finishes an open commit, which starts a run of the stages that read it; refused if others have changed its paths "
     "meanwhile.",
     {"finish commit digits@1f3a", "finish commit digits@master", "finish commit digits@1f3a -m 'new scans'"}},
    {"inspect",
     "commit",
     "REPO@REF",
     1,
     1,
     NULL,
     inspect_commit,
     "Shows a commit.",
     {"inspect commit digits@master", "inspect commit digits@master^2", "inspect commit train@9f3c"}},
    {"delete",
     "commit",
     "REPO@REF",
     1,
     1,
     NULL,
     delete_commit,
     "Deletes the newest commit of an input branch; the branch moves back to its parent, and the stages that read it run.",
     {"delete commit digits@master", "delete commit digits@9ab2f1c4", "rm commit vision/photos@master"}},
};
PL_CLI_TABLE(commit, verbs);
