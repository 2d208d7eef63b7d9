#include "args.h"
#include "server.h"
#include "show.h"
#include <stdio.h>

static int list_commit(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"COMMIT", "id", pl_show_id}, {"BRANCH", "branch", NULL},      {"CREATED", "created_us", pl_show_ago},
        {"FILES", "files", NULL},     {"SIZE", "bytes", pl_show_size}, {"AUTHOR", "author", NULL},
        {"MESSAGE", "message", NULL}};
    _cleanup_free_ char *path = NULL;
    uint64_t limit = 0;
    struct pl_ref ref;
    int r = pl_cli_ref(c, c->args[0], &ref, err);

    r = r < 0 ? r : pl_cli_number(c, "limit", 1000000000, &limit, err);
    if (r < 0)
        return r;
    path = ref.kind == PL_REF_NONE ? pl_http_path_make("/api/v1/repos/%s/%s/commits", ref.project, ref.repo)
                                   : pl_http_path_make("/api/v1/repos/%s/%s/commits?branch=%s", ref.project, ref.repo, ref.name);
    return pl_show_list(c, path, "commits", columns, PL_ARRAY_SIZE(columns), limit,
                        "no commits yet: pipelinectl put file REPO@master:/PATH -f FILE", err);
}

static void show_provenance(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *one;
    size_t i, n = 0;

    (void)item;
    *out = '\0';
    json_array_foreach(value, i, one)
    {
        if (n < PL_SHOW_TEXT_MAX)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s@%s %.8s", i ? ", " : "", pl_show_text_at(one, "repo"),
                                  pl_show_text_at(one, "branch"), pl_show_text_at(one, "commit"));
    }
}

static int commit_arg(const struct pl_cli *c, struct pl_ref *ret, char **ret_path, struct pl_err *err)
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
                                             {"files", "files", NULL},
                                             {"size", "bytes", pl_show_size},
                                             {"created", "created_us", pl_show_time},
                                             {"author", "author", NULL},
                                             {"message", "message", NULL},
                                             {"stage", "stage", NULL},
                                             {"made from", "provenance", show_provenance}};
    _cleanup_(json_decrefp) json_t *commit = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_ref ref;
    int r = commit_arg(c, &ref, &path, err);

    r = r < 0 ? r : pl_cli_call(c, "GET", path, NULL, &commit, err);
    return r < 0 ? r : pl_show_object(c, commit, lines, PL_ARRAY_SIZE(lines), err);
}

static int delete_commit(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_free_ char *path = NULL;
    struct pl_ref ref;
    int r = commit_arg(c, &ref, &path, err);

    if (r == 0 && ref.kind == PL_REF_NONE)
        r = pl_err_set(err, PL_EUSAGE, "delete which commit of %s? Give %s@REF", ref.repo, ref.repo);
    return r < 0 ? r : pl_show_delete(c, path, "commit", c->args[0], err);
}

static const struct pl_option list_options[] = {{"limit", 'n', "N", "at most so many"}, {0}};

static const struct pl_verb verbs[] = {
    {"list",
     "commit",
     "REPO[@BRANCH]",
     1,
     1,
     list_options,
     list_commit,
     "Lists commits, newest first.",
     {"list commit digits", "list commit digits@master -n 5", "list commit train --json"}},
    {"inspect",
     "commit",
     "REPO@REF",
     1,
     1,
     NULL,
     inspect_commit,
     "Tells about a commit.",
     {"inspect commit digits@master", "inspect commit digits@master^2", "inspect commit train@9f3c"}},
    {"delete",
     "commit",
     "REPO@REF",
     1,
     1,
     NULL,
     delete_commit,
     "Deletes the newest commit of an input branch; the branch falls back to its parent, and what reads it runs.",
     {"delete commit digits@master", "delete commit digits@9ab2f1c4", "rm commit vision/photos@master"}},
};
PL_CLI_TABLE(commit, verbs);
