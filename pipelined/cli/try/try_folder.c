/* The temporary folder of the subcommand try, and the filter that selects the files of one datum when an
 * input folder is stored. */
#include "pipelined/cli/try/try_folder.h"

#include "pipelined/cli/local/code_folder.h"
#include "pipelined/cli/local/local_tree.h"
#include "storage/system/io.h"
#include <stdio.h>

int pl_cli_try_folder_make(const char *project, struct pl_cli_try_folder *ret, struct pl_err *err)
{
    const char *base = getenv("TMPDIR");
    char store[PATH_MAX + 8];
    int r;

    if (snprintf(ret->path, sizeof ret->path, "%s/pipelinectl-try-XXXXXX", base && *base == '/' ? base : "/tmp") >= PATH_MAX - 64)
        return pl_err_set(err, PL_EINVAL, "the path in TMPDIR is too long");
    if (!mkdtemp(ret->path)) {
        r = pl_err_errno(err, errno, "%s", ret->path);
        *ret->path = '\0';
        return r;
    }
    snprintf(store, sizeof store, "%s/store", ret->path);
    r = pl_object_file_open(store, &ret->objects, err);
    return r < 0 ? r : pl_store_open(ret->objects, project, NULL, &ret->store, err);
}

void pl_cli_try_folder_finish(struct pl_cli_try_folder *f)
{
    pl_store_close(f->store);
    pl_object_close(f->objects);
    if (*f->path)
        (void)!pl_io_remove_tree(f->path, NULL);
    *f = (struct pl_cli_try_folder){0};
}

char *pl_cli_try_folder_path(const struct pl_cli_try_folder *f, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", f->path, name) < 0 ? NULL : path;
}

/* ---- the datum's files ---- */

struct taking {
    /* path of the datum's file or folder within the input folder; "" = the whole input folder */
    const char *match;
    size_t match_len;
    bool is_file;
    struct pl_glob_set *files; /* globs of the input's field `files`; NULL = all files */
};

/* True if `path` is `folder` or lies below it; "" contains everything. */
static bool within(const char *path, const char *folder, size_t n)
{
    return n == 0 || (strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

static bool takes(void *self, const char *path, bool is_dir)
{
    const struct taking *t = self;
    size_t n = strlen(path);

    if (is_dir && n < t->match_len)
        return within(t->match, path, n); /* accept the parent folders of the match */
    if (t->is_file || !within(path, t->match, t->match_len))
        return pl_streq(path, t->match);
    if (is_dir || !t->files)
        return true;
    path += t->match_len + (t->match_len > 0);
    return pl_glob_set_takes(t->files, path, strlen(path));
}

static int take_match(struct pl_cli_try_folder *f, const struct pl_input *leaf, struct pl_cli_try_leaf *to,
                      const struct pl_plan_match *m, struct pl_err *err)
{
    _cleanup_(pl_glob_set_destroyp) struct pl_glob_set *files = NULL;
    const struct pl_pack_sink sink = pl_store_sink(f->store);
    struct taking t = {.match = m->path, .match_len = m->path_len, .is_file = m->kind != PL_KIND_DIR};
    int r = leaf->n_files ? pl_glob_set_compile(leaf->files, leaf->n_files, &files, err) : 0;

    t.files = files;
    r = r < 0 ? r : pl_cli_tree_store(&sink, pl_store_project(f->store), to->folder->dir, takes, &t, false, &to->root, err);
    to->source = (struct pl_node_source){.self = f->store, .get = pl_store_node_get};
    return r < 0 ? pl_err_wrap(err, r, "input %s", leaf->name) : 0;
}

int pl_cli_try_folder_take(struct pl_cli_try_folder *f, struct pl_cli_try_inputs *in, const struct pl_plan *plan, size_t datum,
                           struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->stage->n_leaves; i++)
        if (in->leaves[i].folder && pl_plan_match_of(plan, datum, i))
            r = take_match(f, in->stage->leaves[i], &in->leaves[i], pl_plan_match_of(plan, datum, i), err);
    return r;
}

int pl_cli_try_folder_take_code(struct pl_cli_try_folder *f, const char *project, const struct pl_stage *stage,
                                const char *folder, struct pl_hash *ret_root, struct pl_err *err)
{
    const struct pl_pack_sink sink = pl_store_sink(f->store);
    json_t *git = NULL;
    int r = pl_cli_code_store(&sink, project, folder, stage->code_files, stage->n_code_files, ret_root, &git, err);

    json_decref(git);
    return r;
}
