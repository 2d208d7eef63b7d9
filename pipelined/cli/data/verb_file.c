/* list, glob, inspect, diff and delete file: the files of a commit. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/push_ops.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "storage/tree_edit/tree_ops.h"
#include <stdio.h>

/* ---- list, glob, inspect ---- */

static void show_path(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    char text[PL_SHOW_TEXT_MAX - 8];

    pl_show_clean(json_is_string(value) ? json_string_value(value) : "", text, sizeof text);
    snprintf(out, PL_SHOW_TEXT_MAX, "/%s%s", text, *text && pl_streq(pl_show_text_at(item, "kind"), "dir") ? "/" : "");
}

static const struct pl_column file_columns[] = {
    {"PATH", "path", show_path}, {"KIND", "kind", NULL}, {"SIZE", "size", pl_show_size}, {"FILES", "files", NULL}};

static int file_arg(const struct pl_cli *c, const char *text, struct pl_commit_ref *ret, char commit[PL_NAME_MAX_BYTES + 16],
                    struct pl_err *err)
{
    int r = pl_cli_ref(c, text, ret, err);

    if (r == 0)
        pl_cli_ref_text(ret, commit);
    return r;
}

static int list_file(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    char commit[PL_NAME_MAX_BYTES + 16];
    uint64_t limit = 0;
    struct pl_commit_ref ref;
    int r = file_arg(c, c->args[0], &ref, commit, err);

    r = r < 0 ? r : pl_cli_number(c, "limit", 1000000000, &limit, err);
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/refs/%s/list?path=%s&recursive=%u", ref.project, ref.repo, commit, ref.path,
                             (uint64_t)pl_cli_flag(c, "recursive"));
    return pl_show_list(c, path, "files", file_columns, PL_ARRAY_SIZE(file_columns), limit, "no files", err);
}

static int glob_file(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    char commit[PL_NAME_MAX_BYTES + 16];
    struct pl_commit_ref ref;
    int r = file_arg(c, c->args[0], &ref, commit, err);

    if (r == 0 && !ref.has_path)
        r = pl_err_set(err, PL_EUSAGE, "give a pattern: %s:/PATTERN", c->args[0]);
    if (r < 0)
        return r;
    path =
        pl_http_path_make("/api/v1/repos/%s/%s/refs/%s/list?glob=%s", ref.project, ref.repo, commit, *ref.path ? ref.path : "/");
    return pl_show_list(c, path, "files", file_columns, PL_ARRAY_SIZE(file_columns), 0, "nothing matches", err);
}

/* Appends a glob that matches only this path: the path with its special characters escaped. */
static int exact_glob(const char *path, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    if (!*path)
        return pl_buf_add_str(out, "/", err);
    for (; *path && r == 0; path++) {
        if (strchr("*?[]{}()\\,|@+!", *path))
            r = pl_buf_add_u8(out, '\\', err);
        r = r < 0 ? r : pl_buf_add_u8(out, (uint8_t)*path, err);
    }
    return r;
}

/* Requests the JSON object {path, kind, size, …} that describes a file or folder. PL_ENOTFOUND. */
static int find_file(struct pl_cli *c, const struct pl_commit_ref *ref, const char *commit, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *page = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf glob = {0};
    _cleanup_free_ char *path = NULL;
    int r = exact_glob(ref->path, &glob, err);

    if (r < 0 || !pl_buf_str(&glob))
        return r < 0 ? r : pl_err_nomem(err);
    path =
        pl_http_path_make("/api/v1/repos/%s/%s/refs/%s/list?limit=2&glob=%s", ref->project, ref->repo, commit, pl_buf_str(&glob));
    r = pl_cli_call(c, "GET", path, NULL, &page, err);
    if (r < 0)
        return r;
    *ret = json_incref(json_array_get(json_object_get(page, "files"), 0));
    return *ret ? 0 : pl_err_set(err, PL_ENOTFOUND, "%s@%s has no file or folder /%s", ref->repo, commit, ref->path);
}

static int inspect_file(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column lines[] = {{"path", "path", show_path},
                                             {"kind", "kind", NULL},
                                             {"size", "size", pl_show_size},
                                             {"files", "files", NULL},
                                             {"content", "id", NULL}};
    _cleanup_(json_decrefp) json_t *file = NULL;
    char commit[PL_NAME_MAX_BYTES + 16];
    struct pl_commit_ref ref;
    int r = file_arg(c, c->args[0], &ref, commit, err);

    r = r < 0 ? r : find_file(c, &ref, commit, &file, err);
    return r < 0 ? r : pl_show_object(c, file, lines, PL_ARRAY_SIZE(lines), err);
}

/* ---- diff ---- */

static void show_change(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *change = json_is_string(value) ? json_string_value(value) : "";

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", pl_streq(change, "added") ? "+" : pl_streq(change, "removed") ? "-" : "*");
}

static int diff_file(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"", "change", show_change},
                                               {"PATH", "path", show_path},
                                               {"OLD", "old.size", pl_show_size},
                                               {"NEW", "new.size", pl_show_size}};
    _cleanup_free_ char *path = NULL;
    char from[PL_NAME_MAX_BYTES + 16] = "", to[PL_NAME_MAX_BYTES + 16];
    struct pl_commit_ref old = {0}, ref;
    int r = file_arg(c, c->args[c->n_args - 1], &ref, to, err);

    if (r == 0 && c->n_args == 2) {
        r = file_arg(c, c->args[0], &old, from, err);
        if (r == 0 && (!pl_streq(old.repo, ref.repo) || !pl_streq(old.project, ref.project)))
            r = pl_err_set(err, PL_EUSAGE, "%s and %s are different repos", old.repo, ref.repo);
    }
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/repos/%s/%s/diff?from=%s&to=%s&path=%s", ref.project, ref.repo, from, to,
                             *ref.path ? ref.path : old.path);
    return pl_show_list(c, path, "changes", columns, PL_ARRAY_SIZE(columns), 0, "no difference", err);
}

/* ---- delete ---- */

static int delete_ops(struct pl_cli *c, const struct pl_commit_ref *ref, struct pl_buf *ops, struct pl_err *err)
{
    _cleanup_(pl_tree_ops_writer_finish) struct pl_tree_ops_writer writer = {0};
    _cleanup_(json_decrefp) json_t *file = NULL;
    bool recursive = pl_cli_flag(c, "recursive");
    int r = *ref->path ? find_file(c, ref, ref->name, &file, err) : 0;

    if (r < 0)
        return r;
    if (!recursive && (!file || pl_show_at(file, "files")))
        return pl_err_set(err, PL_EUSAGE, "/%s is a folder: give -r", ref->path);
    r = pl_tree_ops_writer_init(&writer, ops, err);
    if (r == 0)
        r = recursive ? pl_tree_ops_writer_delete_prefix(&writer, ref->path, strlen(ref->path), err)
                      : pl_tree_ops_writer_delete(&writer, ref->path, strlen(ref->path), err);
    return r < 0 ? r : pl_tree_ops_writer_end(&writer, err);
}

static int delete_file(struct pl_cli *c, struct pl_err *err)
{
    struct pl_cli_push push = {.message = pl_cli_value(c, "message")};
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r = pl_cli_push_target(c, c->args[0], &push, err);

    if (r == 0 && !push.to.has_path)
        r = pl_err_set(err, PL_EUSAGE, "delete what? Give %s:/PATH", c->args[0]);
    r = r < 0 ? r : delete_ops(c, &push.to, &ops, err);
    r = r < 0 ? r : pl_cli_push_ops(c, &push, ops.data, ops.len, &answer, err);
    return r < 0 ? r : pl_cli_push_print(c, &push, answer, err);
}

static const struct pl_option list_options[] = {{"recursive", 'r', NULL, "all files below, not only one level"},
                                                {"limit", 'n', "N", "at most N"},
                                                {0}};
static const struct pl_option delete_options[] = {{"recursive", 'r', NULL, "delete a folder with everything in it"},
                                                  {"message", 'm', "TEXT", "message of the commit"},
                                                  PL_CLI_WAIT,
                                                  {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "file",
     "REPO@REF[:/PATH]",
     1,
     1,
     list_options,
     list_file,
     "Lists a folder of a commit.",
     {"list file digits@master", "list file digits@master:/train", "ls infer@master -r"}},
    {"glob",
     "file",
     "REPO@REF:/PATTERN",
     1,
     1,
     NULL,
     glob_file,
     "Lists the files and folders that a pattern matches, as a stage's input would.",
     {"glob file 'digits@master:/train/*.csv'", "glob file 'photos@master:/**/*.jpg'",
      "glob file 'digits@master^:/{train,test}/*' --json"}},
    {"inspect",
     "file",
     "REPO@REF:/PATH",
     1,
     1,
     NULL,
     inspect_file,
     "Shows a file or folder.",
     {"inspect file digits@master:/train/b1.csv", "inspect file digits@master:/train",
      "inspect file report@9ab2f1c4:/report.json --json"}},
    {"diff",
     "file",
     "[REPO@OLD] REPO@NEW[:/PATH]",
     1,
     2,
     NULL,
     diff_file,
     "Shows what changed between two commits; with one commit, since its parent.",
     {"diff file digits@master", "diff file digits@master^3 digits@master:/train",
      "diff file digits@master digits@staging --json"}},
    {"delete",
     "file",
     "REPO@BRANCH:/PATH [-r]",
     1,
     1,
     delete_options,
     delete_file,
     "Deletes files from a branch, as one commit.",
     {"delete file digits@master:/train/b8.csv", "delete file digits@master:/train -r",
      "rm digits@master:/test/b1.csv -m 'labels were wrong'"}},
};
PL_CLI_TABLE(file, verbs);
