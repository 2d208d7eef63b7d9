#include "reach.h"

#include "storage/chunk/chunk_list.h"
#include "storage/tree/node.h"

static int reach_record(const struct pl_reach *reach, const struct pl_hash *id, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    struct pl_location at;

    if (pl_store_locate(reach->store, id, &at, NULL) < 0)
        return pl_err_set(err, PL_ERETRY, "data %s is not in the store", pl_hash_hex(id, hex));
    return at.hidden ? reach->hidden(reach->self, &at.pack, err) : 0;
}

static int reach_piece(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    (void)is_chunk;
    (void)bytes;
    return reach_record(arg, id, err);
}

static int reach_entry(const struct pl_reach *reach, const struct pl_entry *e, struct pl_err *err)
{
    struct pl_list_source lists = {reach->store, pl_store_node_get};
    struct pl_reach copy = *reach;

    if (e->content == PL_CONTENT_CHUNK)
        return reach_record(reach, &e->id, err);
    if (e->content != PL_CONTENT_LIST)
        return 0;
    return pl_list_visit(&lists, &e->id, reach_piece, &copy, err);
}

int pl_reach_tree(const struct pl_reach *reach, const struct pl_hash *root, struct pl_err *err)
{
    struct pl_node_source source = {reach->store, pl_store_node_get};
    _cleanup_(pl_node_finish) struct pl_node node = {0};
    int r;

    if (pl_hash_is_zero(root))
        return 0;
    r = reach_record(reach, root, err);
    r = r < 0 ? r : pl_node_load(&node, &source, root, err);
    for (uint32_t i = 0; r == 0 && i < node.n; i++) {
        if (node.level > 0) {
            struct pl_node_child child = pl_node_child(&node, i);

            r = pl_reach_tree(reach, &child.id, err); /* as deep as the tree has levels */
        } else {
            struct pl_entry entry = pl_node_entry(&node, i);

            r = reach_entry(reach, &entry, err);
        }
    }
    return r;
}
