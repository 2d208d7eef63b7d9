/* Walks the nodes first, then the entries. Both walks check every node against its parent, including that
 * keys ascend, so even in a tree from an untrusted client no node occurs twice. Several files may share a
 * chunk list: each list is walked only once. */
#include "storage/dataset/gc/reachability.h"

#include "storage/chunk/chunk_list.h"
#include "storage/tree/tree_walk.h"

struct walk {
    const struct pl_reachability *reach;
    struct pl_list_seen seen;
};

static int reach_record(const struct pl_reachability *reach, const struct pl_hash *id, struct pl_location *ret,
                        struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    if (pl_store_locate(reach->store, id, ret, NULL) < 0)
        return pl_err_set(err, PL_ERETRY, "data %s is not in the store", pl_hash_hex(id, hex));
    return ret->hidden ? reach->hidden(reach->self, &ret->pack, err) : 0;
}

static int wrong_size(const struct pl_hash *id, uint64_t real, uint64_t said, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    return pl_err_set(err, PL_ECORRUPT, "data %.12s has %llu bytes, but its entry says %llu", pl_hash_hex(id, hex),
                      (unsigned long long)real, (unsigned long long)said);
}

static int reach_piece(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    const struct walk *w = arg;
    struct pl_location at;
    int r = reach_record(w->reach, id, &at, err);

    return r < 0 || !is_chunk || at.raw == bytes ? r : wrong_size(id, at.raw, bytes, err);
}

static int reach_entry(struct walk *w, const struct pl_entry *e, struct pl_err *err)
{
    struct pl_list_source lists = {w->reach->store, pl_store_node_get};
    struct pl_location at = {.raw = (uint32_t)e->size};
    uint64_t bytes = e->size;
    int r = pl_effort_add(w->reach->effort, 1, err);

    if (r == 0 && e->content == PL_CONTENT_LIST) {
        r = reach_record(w->reach, &e->id, &at, err);
        r = r < 0 ? r : pl_list_visit(&lists, &e->id, &w->seen, w->reach->effort, reach_piece, w, &bytes, err);
    } else if (r == 0 && e->content == PL_CONTENT_CHUNK) {
        r = reach_record(w->reach, &e->id, &at, err);
        bytes = at.raw;
    }
    return r < 0 || bytes == e->size ? r : wrong_size(&e->id, bytes, e->size, err);
}

static int reach_node(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err)
{
    const struct walk *w = self;
    struct pl_location at;
    int r = pl_effort_add(w->reach->effort, 1, err);

    (void)level;
    return r < 0 ? r : reach_record(w->reach, id, &at, err);
}

static int reach_entries(struct walk *w, const struct pl_node_source *source, const struct pl_hash *root, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(source, root, NULL, 0, &c, err);

    while (r >= 0 && (r = pl_tree_cursor_next(c, &item, err)) > 0) {
        if (item.entry.kind == PL_KIND_ROW)
            return pl_err_set(err, PL_EINVAL, "it is a tree of rows, not of files");
        r = reach_entry(w, &item.entry, err);
    }
    return r;
}

int pl_reachability_check_tree(const struct pl_reachability *reach, const struct pl_hash *root, struct pl_err *err)
{
    struct pl_node_source source = {reach->store, pl_store_node_get};
    struct walk w = {.reach = reach};
    struct pl_location at;
    int r;

    if (pl_hash_is_zero(root))
        return 0;
    /* a missing root is PL_ERETRY, not damage of the store, because the client named it */
    r = reach_record(reach, root, &at, err);
    r = r < 0 ? r : pl_tree_visit_nodes(&source, root, reach_node, &w, err);
    r = r < 0 ? r : reach_entries(&w, &source, root, err);
    pl_list_seen_finish(&w.seen);
    return r;
}
