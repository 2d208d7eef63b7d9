/* Checks order and collisions of the paths and passes the entries to a level tower. */
#include "storage/tree/tree_build.h"

#include "storage/tree/level_writer.h"
#include "storage/tree/path_conflict.h"

struct pl_tree_builder {
    struct pl_level_tower tower;
    struct pl_node_sink sink;
    uint8_t tree; /* PL_TREE_PATHS or PL_TREE_ROWS; 0 = no entry added yet */
    struct pl_tree_stats stats;
    struct pl_path_conflict_trail trail;
    struct pl_buf value; /* scratch: the encoded entry */
};

int pl_tree_builder_create(const struct pl_node_sink *sink, struct pl_tree_builder **ret, struct pl_err *err)
{
    struct pl_tree_builder *b = calloc(1, sizeof *b);

    if (!b)
        return pl_err_nomem(err);
    b->sink = *sink;
    *ret = b;
    return 0;
}

struct pl_tree_builder *pl_tree_builder_destroy(struct pl_tree_builder *b)
{
    if (b) {
        if (b->tree != 0)
            pl_level_tower_finish(&b->tower);
        pl_path_conflict_trail_finish(&b->trail);
        pl_buf_finish(&b->value);
        free(b);
    }
    return NULL;
}

/* Checks that the new key is greater than the key added last and, in a tree of paths, that no parent
 * directory of the path was added as a file. The trail's current path is the path added last. */
static int check_place(struct pl_tree_builder *b, const char *path, size_t path_len, struct pl_err *err)
{
    const struct pl_path_conflict_step *above;
    uint32_t i = 0;
    int r;

    if (pl_key_cmp(path, path_len, b->trail.path.data, b->trail.path.len) <= 0)
        return pl_path_conflict_disorder(err, (const char *)b->trail.path.data, b->trail.path.len, path, path_len);
    r = pl_path_conflict_trail_go(&b->trail, path, path_len, err);
    if (r < 0 || b->tree == PL_TREE_ROWS)
        return r;
    above = pl_path_conflict_trail_above(&b->trail, &i);
    if (above)
        return pl_path_conflict_collision(err, path, above->len, path, path_len);
    pl_path_conflict_trail_mark(&b->trail, 0);
    return 0;
}

int pl_tree_builder_add(struct pl_tree_builder *b, const char *path, size_t path_len, const struct pl_entry *entry,
                        struct pl_err *err)
{
    uint8_t tree = entry->kind == PL_KIND_ROW ? PL_TREE_ROWS : PL_TREE_PATHS;
    struct pl_level_item item;
    int r;

    pl_buf_clear(&b->value);
    r = pl_entry_encode(entry, &b->value, err);
    if (r == 0)
        r = pl_path_conflict_check_key(tree, path, path_len, err);
    if (r < 0)
        return r;
    if (b->tree == 0) {
        pl_level_tower_init(&b->tower, &b->sink, tree, 0);
        b->tree = tree;
    }
    if (b->tree != tree)
        return pl_err_set(err, PL_EINVAL, "a tree cannot contain both rows and paths");
    r = check_place(b, path, path_len, err);
    if (r < 0)
        return r;
    item = (struct pl_level_item){path, path_len, b->value.data, b->value.len, {entry->kind != PL_KIND_DIR, entry->size}};
    r = pl_level_tower_add(&b->tower, &item, err);
    if (r < 0)
        return r;
    b->stats.files += item.stats.files;
    b->stats.bytes += item.stats.bytes;
    return 0;
}

int pl_tree_builder_finish(struct pl_tree_builder *b, struct pl_hash *ret_root, struct pl_tree_stats *ret_stats,
                           struct pl_err *err)
{
    struct pl_hash root = {{0}};
    int r = b->tree != 0 ? pl_level_tower_root(&b->tower, &root, err) : 0;

    if (r < 0)
        return r;
    *ret_root = root;
    if (ret_stats)
        *ret_stats = b->stats;
    return 0;
}
