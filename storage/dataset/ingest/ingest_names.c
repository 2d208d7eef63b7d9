/* Walks the folder and builds a tree with placeholder contents, whose nodes are kept in a map in memory. */
#include "storage/dataset/ingest/ingest_names.h"

#include "storage/base/map.h"
#include "storage/dataset/ingest/ingest_walk.h"
#include "storage/tree/tree_build.h"

struct pl_name_tree_nodes {
    struct pl_map by_id; /* node id → struct pl_buf */
};

static void free_node(void *node)
{
    pl_buf_finish(node);
    free(node);
}

void pl_name_tree_finish(struct pl_name_tree *t)
{
    if (t->nodes)
        pl_map_finish(&t->nodes->by_id, free_node);
    free(t->nodes);
    *t = (struct pl_name_tree){0};
}

static int keep_node(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct pl_name_tree_nodes *nodes = self;
    struct pl_buf *node = calloc(1, sizeof(*node));
    void *old = NULL;
    int r = node ? pl_buf_add(node, bytes, n, err) : pl_err_nomem(err);

    pl_hash_sha256(bytes, n, ret_id);
    r = r < 0 ? r : pl_map_put(&nodes->by_id, ret_id->b, sizeof(ret_id->b), node, &old, err);
    if (r < 0 && node)
        free_node(node);
    if (old)
        free_node(old);
    return r;
}

static int get_node(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_name_tree *t = self;
    const struct pl_buf *node = t->nodes ? pl_map_get(&t->nodes->by_id, id->b, sizeof(id->b)) : NULL;

    if (!node)
        return pl_err_set(err, PL_ENOTFOUND, "the node does not belong to this folder");
    return pl_buf_add(ret, node->data, node->len, err);
}

struct pl_node_source pl_name_tree_source(struct pl_name_tree *t)
{
    return (struct pl_node_source){.self = t, .get = get_node};
}

/* Returns an entry with placeholder content; a link needs a target that is not empty. */
static struct pl_entry entry_of(const struct pl_walk_item *item)
{
    switch (item->type) {
    case PL_WALK_LINK:
        return pl_entry_inline(PL_KIND_LINK, ".", 1);
    case PL_WALK_EMPTY_DIR:
        return pl_entry_dir();
    default:
        return pl_entry_inline(PL_KIND_FILE, "", 0);
    }
}

static int add_batch(struct pl_tree_builder *builder, const struct pl_walk_batch *b, struct pl_err *err)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->n; i++) {
        const struct pl_entry entry = entry_of(&b->items[i]);

        r = pl_tree_builder_add(builder, pl_walk_path(b, &b->items[i]), b->items[i].path_len, &entry, err);
    }
    return r;
}

static int walk(const struct pl_ingest_source *source, struct pl_tree_builder *builder, struct pl_err *err)
{
    const struct pl_ingest_options options = {0};
    _cleanup_(pl_walk_destroyp) struct pl_walk *w = NULL;
    _cleanup_(pl_walk_batch_finish) struct pl_walk_batch batch = {0};
    int r = pl_walk_create(source, 1, &options, &w, err);

    while (r >= 0 && (r = pl_walk_next(w, &batch, err)) > 0) {
        r = add_batch(builder, &batch, err);
        pl_walk_batch_clear(&batch);
    }
    return r;
}

int pl_name_tree_read(const char *folder, struct pl_name_tree *ret, struct pl_err *err)
{
    const struct pl_ingest_source source = {.local = folder, .dest = ""};
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *builder = NULL;
    _cleanup_(pl_name_tree_finish) struct pl_name_tree t = {.nodes = calloc(1, sizeof(*t.nodes))};
    const struct pl_node_sink sink = {.self = t.nodes, .put = keep_node};
    struct pl_tree_stats stats;
    int r = t.nodes ? pl_tree_builder_create(&sink, &builder, err) : pl_err_nomem(err);

    r = r < 0 ? r : walk(&source, builder, err);
    r = r < 0 ? r : pl_tree_builder_finish(builder, &t.root, &stats, err);
    if (r < 0)
        return r;
    t.files = stats.files;
    *ret = t;
    t = (struct pl_name_tree){0};
    return 0;
}
