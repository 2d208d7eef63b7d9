/* Parses the options --input, and finds for each input of a stage the folder that replaces it. */
#include "pipelined/cli/local/input_option.h"

#include "pipelined/cli/support/args.h"
#include "storage/dataset/commit/commit_ref.h"
#include <stdio.h>
#include <sys/stat.h>

/* Parses one option --input. The text before '=' is "REPO", "REPO@BRANCH" or "PROJECT/REPO@BRANCH". */
static int read_one(const char *text, struct pl_cli_folder *ret, struct pl_err *err)
{
    const char *equals = strchr(text, '=');
    _cleanup_free_ char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;
    struct pl_commit_ref ref;
    struct stat st;
    int r;

    if (!equals || !equals[1])
        return pl_err_set(err, PL_EUSAGE, "--input %.120s: give REPO=DIR, a local folder to read instead of the repo", text);
    r = name ? pl_commit_ref_parse(name, &ref, err) : pl_err_nomem(err);
    if (r == 0 && (*ref.path || ref.back || ref.kind == PL_COMMIT_REF_ID))
        r = pl_err_set(err, PL_EUSAGE, "--input %.120s: give REPO or REPO@BRANCH before the =", text);
    if (r < 0)
        return pl_err_wrap(err, r, "--input");
    snprintf(ret->project, sizeof ret->project, "%s", ref.project);
    snprintf(ret->repo, sizeof ret->repo, "%s", ref.repo);
    snprintf(ret->branch, sizeof ret->branch, "%s", ref.name);
    ret->dir = equals + 1;
    if (stat(ret->dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return pl_err_set(err, PL_EUSAGE, "--input %.120s: %.200s is not a folder: give the folder that has the repo's files",
                          text, ret->dir);
    r = pl_name_tree_read(ret->dir, &ret->tree, err);
    return r < 0 ? pl_err_wrap(err, r, "--input %s", ret->repo) : 0;
}

static int check_doubles(const struct pl_cli_input_options *f, struct pl_err *err)
{
    for (size_t i = 1; i < f->n; i++) {
        const struct pl_cli_folder *a = &f->items[i];

        for (size_t j = 0; j < i; j++) {
            const struct pl_cli_folder *b = &f->items[j];

            if (pl_streq(a->repo, b->repo) && pl_streq(a->project, b->project) && pl_streq(a->branch, b->branch))
                return pl_err_set(err, PL_EUSAGE, "--input %s is given twice, as %s and as %s: give one folder per repo", a->repo,
                                  b->dir, a->dir);
        }
    }
    return 0;
}

int pl_cli_input_options_read(const struct pl_cli *c, struct pl_cli_input_options *ret, struct pl_err *err)
{
    size_t n = pl_cli_value_count(c, "input");
    int r = 0;

    *ret = (struct pl_cli_input_options){.items = calloc(n + 1, sizeof *ret->items)};
    if (!ret->items)
        return pl_err_nomem(err);
    for (size_t i = 0; r == 0 && i < n; i++, ret->n++)
        r = read_one(pl_cli_value_at(c, "input", i), &ret->items[i], err);
    return r < 0 ? r : check_doubles(ret, err);
}

void pl_cli_input_options_finish(struct pl_cli_input_options *f)
{
    for (size_t i = 0; i < f->n; i++)
        pl_name_tree_finish(&f->items[i].tree);
    free(f->items);
    *f = (struct pl_cli_input_options){0};
}

static bool is_repo(const struct pl_cli_folder *f, const struct pl_input *leaf)
{
    return pl_streq(f->repo, leaf->repo) && (!*f->project || pl_streq(f->project, leaf->project)) &&
           (!*f->branch || pl_streq(f->branch, leaf->branch));
}

struct pl_cli_folder *pl_cli_input_option_of(const struct pl_cli_input_options *f, const struct pl_input *leaf)
{
    struct pl_cli_folder *found = NULL;

    for (size_t i = 0; i < f->n && !found; i++)
        if (is_repo(&f->items[i], leaf))
            found = &f->items[i];
    for (size_t i = 0; i < f->n && !found; i++)
        if (pl_streq(f->items[i].repo, leaf->name) && !*f->items[i].project && !*f->items[i].branch)
            found = &f->items[i];
    if (found)
        found->used = true;
    return found;
}

int pl_cli_input_options_check_used(const struct pl_cli_input_options *f, const char *reader, struct pl_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (!f->items[i].used)
            return pl_err_set(err, PL_EUSAGE, "--input %s=%s: %s does not read a repo \"%s\"", f->items[i].repo, f->items[i].dir,
                              reader, f->items[i].repo);
    return 0;
}
