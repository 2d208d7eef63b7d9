/* git_files: a line for each file, its bytes after it; from there into chunks and tree nodes. */
#include "pipelined/source/git_files.h"

#include "storage/base/path.h"
#include "storage/dataset/commit/pack_node_sink.h"
#include "storage/dataset/file/file_write.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include "storage/tree/tree_build.h"

#include <stdio.h>

int pl_git_files_ask(struct pl_git_files *f, struct pl_err *err)
{
    json_t *globs = json_array();

    for (size_t i = 0; i < f->n_globs; i++)
        json_array_append_new(globs, json_string(f->globs[i]));
    return pl_git_child_ask(f->git,
                            json_pack("{s:s, s:s, s:s, s:s, s:s*, s:o, s:b, s:I, s:I}", "do", "read", "copy", f->copy, "commit",
                                      f->commit, "folder", f->folder, "glob", f->glob, "files", globs, "ignore", (int)f->ignore,
                                      "n_max", (json_int_t)f->n_max, "len_max", (json_int_t)f->sum_max),
                            f->ms, err);
}

int pl_git_files_next(struct pl_git_files *f, struct pl_err *err)
{
    json_int_t len = 0;
    int lfs = 0, r;

    json_decref(TAKE_PTR(f->line));
    r = pl_git_child_line(f->git, &f->line, err);
    if (r < 0 || json_object_get(f->line, "done"))
        return r;
    f->n++;
    if (json_unpack(f->line, "{s:s, s:s, s:I, s:b}", "path", &f->path, "kind", &f->kind, "len", &len, "lfs", &lfs) < 0 ||
        len < 0 || f->n > f->n_max || (uint64_t)len > f->sum_max - f->sum) /* it has these bounds, too, but is not trusted */
        return pl_err_set(err, PL_EIO, "pl-git sent no answer");
    f->len = f->left = (uint64_t)len;
    f->sum += f->len;
    f->lfs = lfs;
    return 1;
}

static ssize_t read_some(void *self, void *out, size_t n, struct pl_err *err)
{
    struct pl_git_files *f = self;
    ssize_t got = f->left ? pl_git_child_bytes(f->git, out, PL_MIN((uint64_t)n, f->left), err) : 0;

    f->left -= got > 0 ? (uint64_t)got : 0;
    return got;
}

int pl_git_files_read(struct pl_git_files *f, struct pl_buf *ret, struct pl_err *err)
{
    int r = pl_buf_reserve(ret, f->len + 1, err);

    while (r == 0 && f->left) {
        ssize_t n = read_some(f, ret->data + ret->len, f->left, err);

        if (n < 0)
            return (int)n;
        ret->len += (size_t)n;
    }
    return r;
}

void pl_git_files_finish(struct pl_git_files *f, int r)
{
    json_decref(TAKE_PTR(f->line));
    if (r < 0)
        pl_git_child_drop(f->git);
}

/* ---- a tree ---- */

#define LFS_NAMED_MAX 5u /* pointers of git LFS that are named in warnings */

struct tree {
    struct pl_git_files *f;
    const char *whole;
    json_t *warnings;
    struct pl_pack_builder *session;
    struct pl_file_write_sink sink;
    struct pl_tree_builder *builder;
    size_t n_lfs; /* pointers of git LFS */
};

static int store_link(struct tree *t, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf target = {0};
    struct pl_git_files *f = t->f;
    const char *slash = *f->folder ? "/" : "";
    int r;

    if (f->len == 0 || f->len > PL_LINK_MAX_BYTES)
        return pl_err_set(err, PL_EINVAL, "%s%s%s: a link of 1 to %d bytes is expected", f->folder, slash, f->path,
                          PL_LINK_MAX_BYTES);
    r = pl_git_files_read(f, &target, err);
    if (r == 0 && !pl_buf_str(&target))
        r = pl_err_nomem(err);
    if (r == 0 && !pl_path_link_stays(f->path, pl_buf_str(&target)))
        r = pl_err_set(err, PL_EINVAL, "%s%s%s: a link to %.200s leads out of the %s", f->folder, slash, f->path,
                       pl_buf_str(&target), t->whole);
    return r < 0 ? r : pl_file_write_entry_small(&t->sink, PL_KIND_LINK, target.data, f->len, ret, err);
}

static int add_file(struct tree *t, struct pl_err *err)
{
    struct pl_git_files *f = t->f;
    struct pl_entry entry;
    char text[1024];
    int r = pl_streq(f->kind, "link") ? store_link(t, &entry, err)
                                      : pl_file_write_stream(t->session, pl_streq(f->kind, "exec") ? PL_KIND_EXEC : PL_KIND_FILE,
                                                             read_some, f, &entry, err);

    if (r == 0 && f->lfs && ++t->n_lfs <= LFS_NAMED_MAX) {
        snprintf(text, sizeof text, "%s%s%s is a pointer of git LFS, whose content is not fetched: the stage gets the pointer",
                 f->folder, *f->folder ? "/" : "", f->path);
        if (json_array_append_new(t->warnings, json_string(pl_utf8_trim(text))) < 0)
            r = pl_err_nomem(err);
    }
    return r < 0 ? r : pl_tree_builder_add(t->builder, f->path, strlen(f->path), &entry, err);
}

int pl_git_files_store(struct pl_git_files *f, struct pl_store *store, const char *project, const char *whole, json_t *warnings,
                       struct pl_hash *ret_root, struct pl_tree_stats *ret_stats, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *builder = NULL;
    struct tree t = {.f = f, .whole = whole, .warnings = warnings};
    struct pl_pack_sink sink = pl_store_sink(store);
    struct pl_node_sink nodes;
    int r = pl_pack_builder_open(&sink, project, &session, err);

    if (r < 0)
        return r;
    nodes = pl_pack_node_sink(session);
    r = pl_tree_builder_create(&nodes, &builder, err);
    if (r < 0)
        return r;
    t.session = session;
    t.sink = pl_file_write_sink_pack(session);
    t.builder = builder;
    r = pl_git_files_ask(f, err);
    while (r == 0 && (r = pl_git_files_next(f, err)) > 0)
        r = add_file(&t, err);
    pl_git_files_finish(f, r);
    if (r == 0 && t.n_lfs > LFS_NAMED_MAX &&
        json_array_append_new(warnings, json_sprintf("and so are %zu more files", t.n_lfs - LFS_NAMED_MAX)) < 0)
        r = pl_err_nomem(err);
    r = r < 0 ? r : pl_tree_builder_finish(builder, ret_root, ret_stats, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}
