/* Tries other globs on the first files of the tree: the folder's name spelled as one that exists, then the same names at any
 * depth. The first that matches is the nearest. */
#include "pipelined/plan/plan.h"

#include "storage/base/path.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

/* A glob that is tried, and the first path that it matches. */
struct attempt {
    char text[PL_GLOB_MAX_BYTES + 8];
    struct pl_glob *glob; /* NULL = it is not tried */
    char found[PL_PATH_MAX_BYTES + 1];
    bool matches;
};

enum { AS_WRITTEN, OTHER_FOLDER, ANY_DEPTH, ANY_FOLDER, ATTEMPTS };

struct search {
    struct attempt tried[ATTEMPTS];
    char first[PL_PATH_MAX_BYTES + 1];  /* the tree's first file */
    char folder[PL_PATH_MAX_BYTES + 1]; /* folder of the glob's literal prefix, without slashes at its ends; "" = none */
    const char *rest;                   /* what follows the folder in the glob, with its slash */
};

static int set_glob(struct attempt *a, const char *before, const char *after, struct pl_err *err)
{
    int n = snprintf(a->text, sizeof a->text, "%s%s", before, after);
    int r = n >= (int)sizeof a->text ? PL_EGLOB : pl_glob_compile(a->text, &a->glob, NULL);

    return r == PL_ENOMEM ? pl_err_nomem(err) : 0; /* a text that is no glob is not tried */
}

/* Tests the glob on the file and on the folders above it. */
static void test(struct attempt *a, const char *path, size_t len)
{
    size_t n = len;

    while (a->glob && !a->matches && n > 0) {
        if (pl_glob_match(a->glob, path, n, NULL)) {
            a->matches = true;
            snprintf(a->found, sizeof a->found, "%.*s", (int)n, path);
        }
        while (n > 0 && path[n - 1] != '/')
            n--;
        n -= n > 0;
    }
}

/* Cuts the path after as many folders as the glob's own folder has, and tries that one if it is nearly the same word. */
static int test_folder(struct search *s, const char *path, struct pl_err *err)
{
    char folder[PL_PATH_MAX_BYTES + 1], before[PL_PATH_MAX_BYTES + 2];
    const char *words[] = {folder}, *end = path;
    size_t depth = 1;

    for (const char *p = s->folder; *p; p++)
        depth += *p == '/';
    for (; depth > 0 && (end = strchr(end, '/')) != NULL; end++)
        if (--depth == 0)
            break;
    if (s->tried[OTHER_FOLDER].glob || !*s->folder || !end)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    snprintf(before, sizeof before, "/%s", folder);
    return pl_word_nearest(s->folder, words, 1) && !pl_streq(folder, s->folder)
               ? set_glob(&s->tried[OTHER_FOLDER], before, s->rest, err)
               : 0;
}

/* Prepares the globs to try. */
static int prepare(struct search *s, const char *glob, struct pl_err *err)
{
    const char *own = glob + strspn(glob, "/"), *last = strrchr(own, '/'), *prefix, *slash;
    size_t len;
    int r = set_glob(&s->tried[AS_WRITTEN], "", glob, err);

    r = r < 0 ? r : set_glob(&s->tried[ANY_DEPTH], "/**/", own, err);
    if (r == 0 && last && last[1])
        r = set_glob(&s->tried[ANY_FOLDER], "/**", last, err);
    if (r < 0 || !s->tried[AS_WRITTEN].glob)
        return r;
    prefix = pl_glob_prefix(s->tried[AS_WRITTEN].glob, &len);
    slash = memrchr(prefix, '/', len);
    /* the prefix is what the glob literally begins with, unless characters of it are escaped */
    if (slash && strncmp(prefix, own, (size_t)(slash - prefix)) == 0) {
        snprintf(s->folder, sizeof s->folder, "%.*s", (int)(slash - prefix), prefix);
        s->rest = own + (slash - prefix);
    }
    return 0;
}

static int look(struct search *s, const struct pl_plan_input *from, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(from->source, &from->root, NULL, 0, &cursor, err);

    for (unsigned n = 0; r >= 0 && n < PL_PLAN_LOOKED_MAX && (r = pl_tree_cursor_next(cursor, &item, err)) > 0; n++) {
        if (n == 0)
            snprintf(s->first, sizeof s->first, "%s", item.path);
        r = test_folder(s, item.path, err);
        for (size_t i = 0; i < ATTEMPTS; i++)
            test(&s->tried[i], item.path, item.path_len);
    }
    return PL_MIN(r, 0);
}

static int say(const struct search *s, const struct pl_input *input, const char *project, uint64_t files, struct pl_buf *out,
               struct pl_err *err)
{
    const bool selected = s->tried[AS_WRITTEN].matches || pl_streq(input->glob, "/");
    char repo[2 * PL_NAME_MAX_BYTES + 2];
    const char *text;
    size_t i = AS_WRITTEN + 1;
    int r = pl_buf_addf(out, err, "input \"%s\": ", input->name);

    if (r < 0)
        return r;
    if (pl_streq(input->project, project))
        snprintf(repo, sizeof repo, "%s", input->repo);
    else
        snprintf(repo, sizeof repo, "%s/%s", input->project, input->repo);
    if (files == 0)
        return pl_buf_addf(out, err, "repo \"%s\" has no files in branch \"%s\"", repo, input->branch);
    if (selected && input->n_files > 0)
        return pl_buf_addf(
            out, err, "no file that glob \"%s\" matches is one of its \"files\", \"%s\"%s; repo \"%s\" has %llu file%s, /%s %s",
            input->glob, input->files[0], input->n_files > 1 ? " and others" : "", repo, (unsigned long long)files,
            files == 1 ? "" : "s", s->first, files == 1 ? "" : "and others");
    r = pl_buf_addf(out, err, "glob \"%s\" matches none of the %llu file%s of repo \"%s\"; ", input->glob,
                    (unsigned long long)files, files == 1 ? "" : "s", repo);
    while (i < ATTEMPTS && !s->tried[i].matches)
        i++;
    if (r < 0 || i == ATTEMPTS)
        return r < 0 ? r : pl_buf_addf(out, err, "it has /%s%s", s->first, files == 1 ? "" : ", for example");
    /* a file at the top is matched without the folder of two stars, which in Pachyderm's form is at least one */
    text = s->tried[i].text + (i == ANY_FOLDER && !strchr(s->tried[i].found, '/') ? strlen("/**") : 0);
    return pl_buf_addf(out, err, "\"%s\" would match /%s", text, s->tried[i].found);
}

int pl_plan_no_match(const struct pl_input *input, const char *project, const struct pl_plan_input *from, struct pl_buf *out,
                     struct pl_err *err)
{
    struct search *s = calloc(1, sizeof *s);
    struct pl_tree_stats stats = {0};
    int r = s ? 0 : pl_err_nomem(err);

    if (r == 0 && !pl_hash_is_zero(&from->root))
        r = pl_tree_stats_get(from->source, &from->root, NULL, 0, &stats, err);
    r = r < 0 ? r : prepare(s, input->glob, err);
    if (r == 0 && stats.files > 0)
        r = look(s, from, err);
    r = r < 0 ? r : say(s, input, project, stats.files, out, err);
    for (size_t i = 0; s && i < ATTEMPTS; i++)
        pl_glob_destroy(s->tried[i].glob);
    free(s);
    return r;
}
