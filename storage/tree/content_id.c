/* Hashes the entries below a directory in order of path, with a cursor. */
#include "storage/tree/content_id.h"

#include "storage/tree/tree_walk.h"

#define DIR_TAG "pl-dir-1"

static void start_dir(struct pl_hasher *h)
{
    pl_hasher_add_field(h, DIR_TAG, strlen(DIR_TAG));
}

static void empty_dir(struct pl_hash *ret)
{
    struct pl_hasher h;

    start_dir(pl_hasher_init(&h));
    pl_hasher_get(&h, ret);
}

int pl_content_id_file(const struct pl_entry *e, struct pl_hash *ret, struct pl_err *err)
{
    int r = pl_entry_check(e, err);

    if (r < 0)
        return r;
    if (e->kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EINVAL, "a row is not a file and has no content id");
    if (e->kind == PL_KIND_DIR)
        empty_dir(ret);
    else if (e->content == PL_CONTENT_INLINE)
        pl_hash_sha256(e->data, e->inline_len, ret);
    else
        *ret = e->id;
    return 0;
}

/* Adds the fields of one entry to the hash of a directory. */
static int add_entry(struct pl_hasher *h, const char *path, size_t path_len, const struct pl_entry *e, struct pl_err *err)
{
    uint8_t size[8];
    struct pl_hash id;
    int r;

    for (unsigned i = 0; i < sizeof size; i++)
        size[i] = (uint8_t)(e->size >> (8 * i));
    pl_hasher_add_field(h, path, path_len);
    pl_hasher_add_field(h, &e->kind, 1);
    pl_hasher_add_field(h, size, sizeof size);
    if (e->kind == PL_KIND_DIR) {
        pl_hasher_add_field(h, NULL, 0);
    } else if (e->kind == PL_KIND_LINK && e->content == PL_CONTENT_INLINE) {
        pl_hasher_add_field(h, e->data, e->inline_len);
    } else {
        r = pl_content_id_file(e, &id, err);
        if (r < 0)
            return r;
        pl_hasher_add_field(h, id.b, sizeof id.b);
    }
    return 0;
}

/* Hashes all entries whose path starts with the cursor's prefix. `*ret_files` counts the files and links
 * hashed, `*ret_found` all entries seen. */
static int hash_range(struct pl_tree_cursor *c, size_t prefix_len, struct pl_hasher *h, pl_content_filter_fn filter, void *self,
                      uint64_t *ret_files, uint64_t *ret_found, struct pl_err *err)
{
    struct pl_tree_item item;
    int r;

    *ret_files = *ret_found = 0;
    while ((r = pl_tree_cursor_next(c, &item, err)) > 0) {
        const char *path = item.path + prefix_len;
        size_t path_len = item.path_len - prefix_len;
        bool is_dir = item.entry.kind == PL_KIND_DIR;

        ++*ret_found;
        if (filter && (is_dir || !filter(self, path, path_len)))
            continue;
        r = add_entry(h, path, path_len, &item.entry, err);
        if (r < 0)
            return r;
        *ret_files += !is_dir;
    }
    return r;
}

/* Called when no entry is below `dir`: returns 0 if `dir` is the root or the tree has an entry for the empty
 * directory, PL_ENOTFOUND if the path does not exist, PL_EINVAL if it is not a directory. */
static int check_empty(const struct pl_node_source *source, const struct pl_hash *root, const char *dir, struct pl_err *err)
{
    struct pl_entry e;
    int r;

    if (dir[0] == 0)
        return 0;
    r = pl_tree_get(source, root, dir, strlen(dir), &e, err);
    if (r < 0)
        return r;
    return e.kind == PL_KIND_DIR ? 0 : pl_err_set(err, PL_EINVAL, "\"%.800s\" is not a directory", dir);
}

/* Returns the content id and number of files of the whole tree: the id of its root. */
static int whole_tree(const struct pl_node_source *source, const struct pl_hash *root, struct pl_hash *ret, uint64_t *ret_files,
                      struct pl_err *err)
{
    struct pl_tree_stats stats = {0};
    int r = 0;

    if (ret_files)
        r = pl_tree_stats_get(source, root, NULL, 0, &stats, err);
    if (r == 0 && pl_hash_is_zero(root))
        empty_dir(ret);
    else if (r == 0)
        *ret = *root;
    if (r == 0 && ret_files)
        *ret_files = stats.files;
    return r;
}

int pl_content_id_dir(const struct pl_node_source *source, const struct pl_hash *root, const char *dir,
                      pl_content_filter_fn filter, void *self, struct pl_hash *ret, uint64_t *ret_files, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_hasher h;
    char prefix[PL_PATH_MAX_BYTES + 2];
    size_t len = strlen(dir);
    uint64_t files, found;
    int r;

    if (len == 0 && !filter)
        return whole_tree(source, root, ret, ret_files, err);
    if (len > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "a path has %zu bytes; at most %u are accepted", len, PL_PATH_MAX_BYTES);
    memcpy(prefix, dir, len);
    if (len > 0)
        prefix[len++] = '/';
    r = pl_tree_cursor_create(source, root, prefix, len, &c, err);
    if (r < 0)
        return r;
    start_dir(pl_hasher_init(&h));
    r = hash_range(c, len, &h, filter, self, &files, &found, err);
    if (r == 0 && found == 0)
        r = check_empty(source, root, dir, err);
    if (r < 0)
        return r;
    pl_hasher_get(&h, ret);
    if (ret_files)
        *ret_files = files;
    return 0;
}
