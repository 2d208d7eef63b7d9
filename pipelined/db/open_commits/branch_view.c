/* Looks up paths in the gathering commits of a branch, the newest first, then in its head. A walk merges the
 * paths of all of them. */
#include "pipelined/db/open_commits/branch_view.h"

#include "pipelined/db/tx/attributes_edit.h"
#include "storage/store/store.h"
#include "storage/tree/tree_find.h"

int pl_branch_view_init(struct pl_head_cache *heads, struct pl_open_commits *opens, struct pl_store *store, const char *repo,
                        const char *branch, struct pl_branch_view *ret, struct pl_err *err)
{
    struct pl_branch_view v = {.store = store, .source = {store, pl_store_node_get}};
    const char *project = pl_store_project(store);
    struct pl_head_cache_entry head;
    int r = opens ? pl_open_commits_gathering(opens, project, repo, branch, &v.opens, &v.n_opens, err) : 0;

    /* read the head last: if a commit is finished in between, its operations are seen twice, never missed */
    r = r < 0 ? r : pl_head_cache_get(heads, project, repo, branch, &head, err);
    if (r < 0) {
        pl_branch_view_finish(&v);
        return r;
    }
    v.head = head.commit;
    *ret = v;
    return 0;
}

void pl_branch_view_of_commit(const struct pl_commit_row *commit, struct pl_store *store, struct pl_branch_view *ret)
{
    *ret = (struct pl_branch_view){.head = *commit, .store = store, .source = {store, pl_store_node_get}};
}

void pl_branch_view_finish(struct pl_branch_view *v)
{
    for (size_t i = 0; i < v->n_opens; i++)
        pl_open_commit_unref(v->opens[i]);
    free(v->opens);
    v->opens = NULL;
    v->n_opens = 0;
}

struct pl_chunk_reader pl_branch_view_reader(const struct pl_branch_view *v, struct pl_open_commit *open)
{
    return open ? pl_open_commit_reader(open) : pl_store_chunk_reader(v->store);
}

/* ---- one file ---- */

/* Looks up a file in the gathering commits. */
static int look_gathering(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_branch_file *ret,
                          enum pl_op_set_item *ret_known, struct pl_err *err)
{
    int r = 0;

    *ret_known = PL_OP_UNKNOWN;
    for (size_t i = v->n_opens; i-- > 0 && r == 0 && *ret_known == PL_OP_UNKNOWN;) {
        r = pl_open_commit_lookup(v->opens[i], path, path_len, &ret->entry, &ret->attributes, ret_known, err);
        ret->open = v->opens[i];
    }
    return r;
}

/* Looks up a file in the head. */
static int get_of_head(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_branch_file *ret,
                       struct pl_err *err)
{
    const struct pl_node_shower nodes = {v->store, pl_store_node_show};
    _cleanup_(pl_buf_finish) struct pl_buf value = {0};
    struct pl_entry row;
    int r = pl_tree_find_entry(&nodes, &v->head.root, path, path_len, &value, &ret->entry, err), found;

    if (r <= 0)
        return r;
    found = pl_tree_find_entry(&nodes, &v->head.attributes, path, path_len, &value, &row, err);
    if (found > 0 && row.kind == PL_KIND_ROW)
        found = pl_buf_add(&ret->attributes, row.row, (size_t)row.size, err);
    return found < 0 ? found : 1;
}

int pl_branch_view_get(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_branch_file *ret,
                       struct pl_err *err)
{
    enum pl_op_set_item known;
    int r;

    pl_buf_clear(&ret->attributes);
    r = look_gathering(v, path, path_len, ret, &known, err);
    if (r < 0 || known != PL_OP_UNKNOWN)
        return r < 0 ? r : known == PL_OP_THERE;
    ret->open = NULL;
    return get_of_head(v, path, path_len, ret, err);
}

int pl_branch_view_has_dir(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_err *err)
{
    _cleanup_(pl_branch_walk_destroyp) struct pl_branch_walk *w = NULL;
    char prefix[PL_PATH_MAX_BYTES + 2];
    struct pl_branch_item *item;
    int r = pl_branch_walk_create(v, &w, err);

    if (r < 0 || path_len > PL_PATH_MAX_BYTES)
        return r;
    memcpy(prefix, path, path_len);
    prefix[path_len] = '/';
    r = pl_branch_walk_seek(w, prefix, path_len + 1, err);
    while (r == 0 && (r = pl_branch_walk_next(w, &item, err)) == PL_BRANCH_WALK_GONE)
        r = 0;
    return r <= 0 ? r : pl_key_cmp_prefix(item->path, item->path_len, prefix, path_len + 1) == 0;
}

/* ---- walking ---- */

/* The position of a walk in one gathering commit. */
struct layer {
    struct pl_open_commit *open;
    char path[PL_PATH_MAX_BYTES + 1];
    size_t path_len;
    bool there, read; /* there: `path` is the commit's next path; read: `there` and `path` are up to date */
};

struct pl_branch_walk {
    const struct pl_branch_view *view;
    /* cursors in the head's tree of files and its attribute tree; NULL: the head has no such tree */
    struct pl_tree_cursor *base, *rows;
    char base_path[PL_PATH_MAX_BYTES + 1];
    size_t base_len;
    struct pl_entry base_entry;
    bool base_there, base_read;
    char place[PL_PATH_MAX_BYTES + 2]; /* all paths before this one have been visited */
    size_t place_len;
    struct pl_branch_item item;
    char item_path[PL_PATH_MAX_BYTES + 1];
    size_t n_layers;
    struct layer layers[]; /* newest first */
};

static int open_cursor(const struct pl_branch_view *v, const struct pl_hash *root, struct pl_tree_cursor **ret,
                       struct pl_err *err)
{
    return pl_hash_is_zero(root) ? 0 : pl_tree_cursor_create(&v->source, root, NULL, 0, ret, err);
}

int pl_branch_walk_create(const struct pl_branch_view *v, struct pl_branch_walk **ret, struct pl_err *err)
{
    struct pl_branch_walk *w = calloc(1, sizeof *w + v->n_opens * sizeof(struct layer));
    int r;

    if (!w)
        return pl_err_nomem(err);
    w->view = v;
    w->n_layers = v->n_opens;
    for (size_t i = 0; i < v->n_opens; i++)
        w->layers[i].open = v->opens[v->n_opens - 1 - i];
    r = open_cursor(v, &v->head.root, &w->base, err);
    r = r < 0 ? r : open_cursor(v, &v->head.attributes, &w->rows, err);
    if (r < 0) {
        pl_branch_walk_destroy(w);
        return r;
    }
    *ret = w;
    return 0;
}

struct pl_branch_walk *pl_branch_walk_destroy(struct pl_branch_walk *w)
{
    if (!w)
        return NULL;
    pl_tree_cursor_destroy(w->base);
    pl_tree_cursor_destroy(w->rows);
    pl_branch_file_finish(&w->item.file);
    free(w);
    return NULL;
}

static bool is_before(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return pl_key_cmp(a, a_len, b, b_len) < 0;
}

int pl_branch_walk_seek(struct pl_branch_walk *w, const char *path, size_t path_len, struct pl_err *err)
{
    if (path_len >= sizeof w->place)
        return pl_err_set(err, PL_EPATH, "a path of %zu bytes is not accepted: at most %d", path_len, PL_PATH_MAX_BYTES);
    if (!is_before(w->place, w->place_len, path, path_len))
        return 0;
    memcpy(w->place, path, path_len);
    w->place_len = path_len;
    for (size_t i = 0; i < w->n_layers; i++)
        if (w->layers[i].read && w->layers[i].there && is_before(w->layers[i].path, w->layers[i].path_len, path, path_len))
            w->layers[i].read = false;
    if (!w->base || (w->base_read && (!w->base_there || !is_before(w->base_path, w->base_len, path, path_len))))
        return 0;
    w->base_read = false;
    return pl_tree_cursor_seek(w->base, path, path_len, err);
}

static int read_base(struct pl_branch_walk *w, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = w->base ? pl_tree_cursor_next(w->base, &item, err) : 0;

    if (r < 0)
        return r;
    w->base_read = true;
    w->base_there = r > 0;
    if (r > 0) {
        memcpy(w->base_path, item.path, item.path_len + 1);
        w->base_len = item.path_len;
        w->base_entry = item.entry;
    }
    return 0;
}

/* Reads the next path of the head and of each gathering commit, and copies the least of these paths to
 * w->item. Returns 1, or 0 at the end. */
static int read_next(struct pl_branch_walk *w, struct pl_err *err)
{
    const char *least = NULL;
    size_t len = 0;
    int r = w->base_read ? 0 : read_base(w, err);

    if (r == 0 && w->base_there) {
        least = w->base_path;
        len = w->base_len;
    }
    for (size_t i = 0; i < w->n_layers && r == 0; i++) {
        struct layer *l = &w->layers[i];

        if (!l->read)
            l->there = pl_open_commit_path_from(l->open, w->place, w->place_len, l->path, &l->path_len);
        l->read = true;
        if (l->there && (!least || pl_key_cmp(l->path, l->path_len, least, len) < 0)) {
            least = l->path;
            len = l->path_len;
        }
    }
    if (r < 0 || !least)
        return r;
    memcpy(w->item_path, least, len);
    w->item_path[len] = '\0';
    w->item.path = w->item_path;
    w->item.path_len = len;
    return 1;
}

/* Moves each gathering commit whose next path equals the path of w->item past that path. */
static void go_on(struct pl_branch_walk *w)
{
    const struct pl_branch_item *item = &w->item;

    memcpy(w->place, item->path, item->path_len + 1); /* the least path after the item's is that path with a NUL appended */
    w->place_len = item->path_len + 1;
    for (size_t i = 0; i < w->n_layers; i++)
        if (w->layers[i].there && is_before(w->layers[i].path, w->layers[i].path_len, w->place, w->place_len))
            w->layers[i].read = false;
}

static int take_base(struct pl_branch_walk *w, struct pl_err *err)
{
    struct pl_branch_item *item = &w->item;
    int r = 0;

    item->file.entry = w->base_entry;
    item->file.open = NULL;
    if (w->rows)
        r = pl_attributes_row(w->rows, item->path, item->path_len, &item->file.attributes, err);
    return PL_MIN(r, 0);
}

int pl_branch_walk_next(struct pl_branch_walk *w, struct pl_branch_item **ret, struct pl_err *err)
{
    struct pl_branch_item *item = &w->item;
    enum pl_op_set_item known;
    bool of_base;
    int r = read_next(w, err);

    if (r <= 0)
        return r;
    pl_buf_clear(&item->file.attributes);
    of_base = w->base_there && pl_key_cmp(w->base_path, w->base_len, item->path, item->path_len) == 0;
    r = look_gathering(w->view, item->path, item->path_len, &item->file, &known, err);
    if (r == 0 && of_base && known == PL_OP_UNKNOWN) {
        r = take_base(w, err);
        known = PL_OP_THERE;
    }
    if (r < 0)
        return r;
    w->base_read &= !of_base;
    go_on(w);
    *ret = item;
    return known == PL_OP_THERE ? 1 : PL_BRANCH_WALK_GONE;
}
