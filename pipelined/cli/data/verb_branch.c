/* The subcommands for branches: create, update, list, inspect, delete. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/confirm.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

/* Parses an argument of the form "REPO@BRANCH". Both parts are required; a path or a suffix ^n is refused. */
static int branch_arg(const struct pl_cli *c, struct pl_commit_ref *ret, struct pl_err *err)
{
    int r = pl_cli_ref(c, c->args[0], ret, err);

    if (r == 0 && (ret->kind == PL_COMMIT_REF_NONE || ret->back || ret->has_path))
        r = pl_err_set(err, PL_EUSAGE, "\"%s\" is not a branch: give REPO@BRANCH", c->args[0]);
    return r;
}

static int create_branch(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *made = NULL;
    _cleanup_free_ char *path = NULL;
    const char *from = pl_cli_value(c, "from");
    char repo[PL_CLI_REPO_TEXT];
    struct pl_commit_ref ref;
    int r = branch_arg(c, &ref, err);

    if (r == 0 && pl_cli_flag(c, "force") && !from)
        r = pl_err_set(err, PL_EUSAGE, "--force moves a branch that exists: say where to, with --from REF");
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches", ref.project, ref.repo);
    r = pl_cli_call(c, "POST", path,
                    json_pack("{s:s, s:s, s:b}", "name", ref.name, "from", from ? from : "", "force",
                              (int)pl_cli_flag(c, "force")),
                    &made, err);
    if (r < 0)
        return r;
    pl_cli_repo_text(ref.project, ref.repo, repo);
    pl_show_say(c, "branch %s@%s created\nnext: pipelinectl put file %s@%s:/PATH -f FILE\n", repo, ref.name, repo, ref.name);
    return c->json ? pl_show_json(made, err) : 0;
}

static int update_branch(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *moved = NULL;
    _cleanup_free_ char *path = NULL;
    const char *head = pl_cli_value(c, "head");
    char repo[PL_CLI_REPO_TEXT];
    struct pl_commit_ref ref;
    int r = branch_arg(c, &ref, err);

    if (r == 0 && !head)
        r = pl_err_set(err, PL_EUSAGE, "move branch %s where? Give --head REF: a branch, a commit or one before it", c->args[0]);
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s", ref.project, ref.repo, ref.name);
    r = pl_cli_call(c, "PATCH", path, json_pack("{s:s}", "head", head), &moved, err);
    if (r < 0)
        return r;
    pl_cli_repo_text(ref.project, ref.repo, repo);
    pl_show_say(c, "branch %s@%s is at commit %.8s\n", repo, ref.name, pl_show_text_at(moved, "commit"));
    return c->json ? pl_show_json(moved, err) : 0;
}

static int list_branch(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"BRANCH", "name", NULL},
                                               {"COMMIT", "commit", pl_show_id},
                                               {"FILES", "files", NULL},
                                               {"SIZE", "bytes", pl_show_size},
                                               {"MOVED", "moved_us", pl_show_ago}};
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "repo", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches", at.project, at.name);
    return pl_show_list(c, path, "branches", columns, PL_ARRAY_SIZE(columns), 0,
                        "no branches yet; the first push makes one: pipelinectl put file REPO@master:/PATH -f FILE", err);
}

static int inspect_branch(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {
        {"branch", "name", NULL},        {"commit", "commit", NULL},          {"files", "files", NULL},
        {"size", "bytes", pl_show_size}, {"moved", "moved_us", pl_show_time}, {"created", "created_us", pl_show_time}};
    _cleanup_(json_decrefp) json_t *branch = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_commit_ref ref;
    int r = branch_arg(c, &ref, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s", ref.project, ref.repo, ref.name);
    r = pl_cli_call(c, "GET", path, NULL, &branch, err);
    return r < 0 ? r : pl_show_object(c, branch, lines, PL_ARRAY_SIZE(lines), err);
}

static int delete_branch(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_commit_ref ref;
    int r = branch_arg(c, &ref, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/branches/%s", ref.project, ref.repo, ref.name);
    return pl_cli_delete(c, path, pl_cli_flag(c, "force") ? "force=1" : "", "branch", c->args[0], err);
}

static const struct pl_option create_options[] = {{"from", 0, "REF", "commit where the branch begins: a branch or an id"},
                                                  {"force", 0, NULL, "move the branch there if it exists"},
                                                  {0}};
static const struct pl_option update_options[] = {{"head", 0, "REF", "its new commit: a branch, an id or one before it"}, {0}};
static const struct pl_option delete_options[] = {{"force", 0, NULL, "delete it even if a stage reads it"}, PL_CLI_YES, {0}};

static const struct pl_verb verbs[] = {
    {"create",
     "branch",
     "REPO@BRANCH",
     1,
     1,
     create_options,
     create_branch,
     "Creates a branch, empty or at a commit; stages that read it run.",
     {"create branch digits@staging", "create branch digits@staging --from master", "create branch digits@old --from master^3"}},
    {"update",
     "branch",
     "REPO@BRANCH",
     1,
     1,
     update_options,
     update_branch,
     "Moves a branch to another commit of its repo; stages that read it run. Its commits stay, but for those that the repo's "
     "keep drops when no branch leads to them.",
     {"update branch digits@master --head staging", "update branch digits@master --head master^1",
      "update branch digits@master --head 9ab2f1c4"}},
    {"list",
     "branch",
     "REPO",
     1,
     1,
     NULL,
     list_branch,
     "Lists the branches of a repo.",
     {"list branch digits", "ls branches digits", "list branch vision/photos --json"}},
    {"inspect",
     "branch",
     "REPO@BRANCH",
     1,
     1,
     NULL,
     inspect_branch,
     "Shows a branch.",
     {"inspect branch digits@master", "inspect branch digits@staging", "inspect branch digits@master --json"}},
    {"delete",
     "branch",
     "REPO@BRANCH",
     1,
     1,
     delete_options,
     delete_branch,
     "Deletes a branch. Its commits stay, but for those that the repo's keep drops without it: then it asks on a terminal.",
     {"delete branch digits@staging", "delete branch digits@staging --force --yes", "rm branch digits@staging"}},
};
PL_CLI_TABLE(branch, verbs);
