/* Marks are bits, numbered by a view of the index. Each node and list is read once, when its bit is set. A
 * record that the view lacks may have been added to the store after the view was opened; the ids of such
 * records are kept in a map. */
#include "storage/dataset/gc/gc_mark.h"

#include "storage/base/map.h"
#include "storage/chunk/chunk_list.h"
#include "storage/tree/tree_node.h"

struct pl_gc_mark {
    struct pl_gc_mark_config config;
    struct pl_node_source source;
    uint32_t settled; /* the mark decides only about packs whose number is lower than this */
    struct pl_index_view *view;
    uint8_t *bits;   /* bitmap by number of the entry: 1 = reachable */
    uint8_t *unread; /* bitmap by number of the pack: 1 = unread when the mark began */
    struct pl_map pinned;
    struct pl_map late; /* ids of marked records that were added after the view was opened */
    struct pl_gc_mark_stats stats;
};

int pl_gc_mark_create(const struct pl_gc_mark_config *config, struct pl_gc_mark **ret, struct pl_err *err)
{
    struct pl_gc_mark *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return pl_err_nomem(err);
    m->config = *config;
    m->source = (struct pl_node_source){.self = config->store, .get = pl_store_node_get};
    m->settled = pl_store_settled_packs(config->store);
    *ret = m;
    return 0;
}

struct pl_gc_mark *pl_gc_mark_destroy(struct pl_gc_mark *m)
{
    if (m == NULL)
        return NULL;
    pl_index_view_close(m->view);
    pl_map_finish(&m->pinned, NULL);
    pl_map_finish(&m->late, NULL);
    free(m->bits);
    free(m->unread);
    free(m);
    return NULL;
}

struct pl_store *pl_gc_mark_store(const struct pl_gc_mark *m)
{
    return m->config.store;
}

static void note_unread(struct pl_gc_mark *m)
{
    struct pl_hash pack;

    for (uint32_t no = 0; no < pl_index_view_packs(m->view); no++)
        if (pl_store_pack_id(m->config.store, no, &pack) && pl_store_is_unread(m->config.store, &pack))
            m->unread[no / 8] = (uint8_t)(m->unread[no / 8] | 1u << (no % 8));
}

int pl_gc_mark_begin(struct pl_gc_mark *m, struct pl_err *err)
{
    int r = pl_store_view(m->config.store, &m->view, err);

    if (r < 0)
        return r;
    m->bits = calloc(pl_index_view_entries(m->view) / 8 + 1, 1);
    m->unread = calloc(pl_index_view_packs(m->view) / 8 + 1, 1);
    if (m->bits == NULL || m->unread == NULL)
        return pl_err_nomem(err);
    note_unread(m);
    return 0;
}

static bool is_there(const struct pl_gc_mark *m, const struct pl_hash *id)
{
    return pl_store_locate(m->config.store, id, &(struct pl_location){0}, NULL) == 0;
}

static bool bit_is_set(const struct pl_gc_mark *m, uint64_t number)
{
    return (m->bits[number / 8] >> (number % 8) & 1) != 0;
}

bool pl_gc_mark_record(struct pl_gc_mark *m, const struct pl_hash *id)
{
    uint64_t number;

    if (pl_hash_is_zero(id))
        return false;
    if (!pl_index_view_find(m->view, id, &number)) {
        /* the record was added, or added again, after the view was opened: no pack of the view has it */
        if (is_there(m, id)) {
            if (pl_map_get(&m->late, id->b, PL_HASH_BYTES) != NULL)
                return false;
            /* if the map cannot grow for lack of memory, the record is only walked again when it is met
             * again */
            (void)!pl_map_put(&m->late, id->b, PL_HASH_BYTES, m, NULL, NULL);
            return true;
        }
        if (m->stats.missing++ == 0)
            m->stats.first_missing = *id;
        return true;
    }
    if (bit_is_set(m, number))
        return false;
    m->bits[number / 8] = (uint8_t)(m->bits[number / 8] | 1u << (number % 8));
    m->stats.records++;
    m->stats.bytes += pl_index_view_bytes_of(m->view, number);
    return true;
}

static int mark_stopped(const struct pl_gc_mark *m, struct pl_err *err)
{
    if (m->config.stop != NULL && m->config.stop(m->config.self))
        return pl_err_set(err, PL_ECANCELED, "the collection was stopped");
    return 0;
}

static int misplaced(const struct pl_hash *id, const char *what, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    return pl_err_set(err, PL_ECORRUPT, "%s %.12s does not match its entry in its parent", what, pl_hash_hex(id, hex));
}

/* Level and size of a chunk list, as stated by its entry in the parent list. A NULL pointer stands for the
 * root list. */
struct list_place {
    unsigned level;
    uint64_t bytes;
};

/* Marks a chunk list and everything below it. Checks each list against its entry in the parent list. */
static int mark_list(struct pl_gc_mark *m, const struct pl_hash *id, const struct list_place *above, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_list list;
    int r;

    if (!pl_gc_mark_record(m, id))
        return 0;
    r = mark_stopped(m, err);
    r = r < 0 ? r : pl_store_get(m->config.store, id, PL_REC_LIST, &bytes, err);
    r = r < 0 ? r : pl_list_decode(bytes.data, bytes.len, &list, err);
    if (r == 0 && above && (list.level != above->level || list.bytes != above->bytes))
        r = misplaced(id, "chunk list", err);
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        struct pl_hash below;
        uint64_t size;

        pl_list_entry(&list, i, &below, &size);
        if (list.level > 0)
            r = mark_list(m, &below, &(struct list_place){list.level - 1u, size}, err);
        else
            (void)pl_gc_mark_record(m, &below);
    }
    return r;
}

int pl_gc_mark_entry(struct pl_gc_mark *m, const struct pl_entry *entry, struct pl_err *err)
{
    if (entry->content == PL_CONTENT_LIST)
        return mark_list(m, &entry->id, NULL, err);
    if (entry->content == PL_CONTENT_CHUNK)
        (void)pl_gc_mark_record(m, &entry->id);
    return 0;
}

static int mark_leaf(struct pl_gc_mark *m, const struct pl_node *node, uint32_t i, pl_gc_row_fn row, void *self,
                     struct pl_err *err)
{
    struct pl_entry entry = pl_node_entry(node, i);

    if (entry.kind != PL_KIND_ROW)
        return pl_gc_mark_entry(m, &entry, err);
    return row != NULL ? row(self, m, entry.row, (size_t)entry.size, err) : 0;
}

/* How a tree is walked. */
struct tree_walk {
    pl_gc_row_fn row;
    void *self;
    bool nodes_only;
};

/* A node's place: item `i` of `parent` (NULL: the node is the root), after the key `floor` (NULL: none). */
struct node_place {
    const struct pl_node *parent;
    uint32_t i;
    const char *floor;
    size_t floor_len;
};

static int mark_node(struct pl_gc_mark *m, const struct tree_walk *w, const struct pl_hash *id, const struct node_place *at,
                     struct pl_err *err);

static int mark_children(struct pl_gc_mark *m, const struct tree_walk *w, const struct pl_node *node, const struct node_place *at,
                         struct pl_err *err)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < node->n; i++) {
        struct pl_node_child child = pl_node_child(node, i);
        struct node_place place = {node, i, at->floor, at->floor_len};

        if (i > 0) {
            place.floor = pl_node_key(node, i - 1);
            place.floor_len = pl_node_key_len(node, i - 1);
        }
        /* the recursion ends, because each node is checked to have a lower level than its parent */
        r = mark_node(m, w, &child.id, &place, err);
    }
    return r;
}

static int mark_node(struct pl_gc_mark *m, const struct tree_walk *w, const struct pl_hash *id, const struct node_place *at,
                     struct pl_err *err)
{
    _cleanup_(pl_node_finish) struct pl_node node = {0};
    int r;

    if (!pl_gc_mark_record(m, id))
        return 0;
    r = mark_stopped(m, err);
    r = r < 0 ? r : pl_node_load(&node, &m->source, id, err);
    if (r == 0 && at->parent && !pl_node_fits(&node, at->parent, at->i, at->floor, at->floor_len))
        r = misplaced(id, "tree node", err);
    if (r < 0)
        return r;
    m->stats.nodes += !w->nodes_only;
    if (node.level > 0)
        return mark_children(m, w, &node, at, err);
    for (uint32_t i = 0; r == 0 && !w->nodes_only && i < node.n; i++)
        r = mark_leaf(m, &node, i, w->row, w->self, err);
    return r;
}

int pl_gc_mark_tree(struct pl_gc_mark *m, const struct pl_hash *root, pl_gc_row_fn row, void *self, struct pl_err *err)
{
    return mark_node(m, &(struct tree_walk){.row = row, .self = self}, root, &(struct node_place){0}, err);
}

int pl_gc_mark_nodes(struct pl_gc_mark *m, const struct pl_hash *root, struct pl_err *err)
{
    if (pl_hash_is_zero(root) || !is_there(m, root))
        return 0;
    return mark_node(m, &(struct tree_walk){.nodes_only = true}, root, &(struct node_place){0}, err);
}

void pl_gc_mark_pack(struct pl_gc_mark *m, const struct pl_hash *pack)
{
    /* for lack of memory the pack cannot be remembered as pinned: let this mark decide about no pack at
     * all, so that none is removed */
    if (pl_map_put(&m->pinned, pack->b, PL_HASH_BYTES, m, NULL, NULL) < 0)
        m->settled = 0;
}

void pl_gc_mark_stats(const struct pl_gc_mark *m, struct pl_gc_mark_stats *ret)
{
    *ret = m->stats;
}

struct counting {
    const struct pl_gc_mark *m;
    struct pl_gc_pack *packs; /* array indexed by pack number */
};

static void count_entry(void *self, uint64_t number)
{
    struct counting *c = self;
    struct pl_gc_pack *p = &c->packs[pl_index_view_pack_of(c->m->view, number)];
    uint32_t bytes = pl_index_view_bytes_of(c->m->view, number);

    p->records++;
    p->bytes += bytes;
    if (bit_is_set(c->m, number)) {
        p->live_records++;
        p->live_bytes += bytes;
    }
}

int pl_gc_mark_finish(struct pl_gc_mark *m, struct pl_gc_pack **ret, size_t *ret_n, struct pl_err *err)
{
    uint32_t all = pl_index_view_packs(m->view);
    struct pl_gc_pack *packs = calloc(all + 1u, sizeof(*packs));
    struct counting counting = {m, packs};
    size_t n = 0;

    if (packs == NULL)
        return pl_err_nomem(err);
    pl_index_view_each(m->view, count_entry, &counting);
    for (uint32_t no = 0; no < all; no++) {
        struct pl_gc_pack p = packs[no];

        if (!pl_store_pack_id(m->config.store, no, &p.id))
            continue;
        p.unread = (m->unread[no / 8] >> (no % 8) & 1) != 0;
        p.judged = no < m->settled && !p.unread;
        p.pinned = pl_map_get(&m->pinned, p.id.b, PL_HASH_BYTES) != NULL;
        packs[n++] = p;
    }
    *ret = packs;
    *ret_n = n;
    return 0;
}

struct finding {
    const struct pl_gc_mark *m;
    uint8_t *packs; /* bitmap: 1 = the pack has an unmarked commit */
};

static void find_commit(void *self, uint64_t number)
{
    struct finding *f = self;
    uint32_t pack = pl_index_view_pack_of(f->m->view, number);

    if (pl_index_view_kind_of(f->m->view, number) == PL_REC_COMMIT && !bit_is_set(f->m, number))
        f->packs[pack / 8] = (uint8_t)(f->packs[pack / 8] | 1u << (pack % 8));
}

int pl_gc_mark_dead_commits(struct pl_gc_mark *m,
                            int (*fn)(void *self, struct pl_gc_mark *m, const struct pl_hash *id, struct pl_err *err), void *self,
                            struct pl_err *err)
{
    uint32_t all = pl_index_view_packs(m->view);
    _cleanup_free_ uint8_t *packs = calloc(all / 8 + 1u, 1);
    struct finding finding = {m, packs};
    int r = 0;

    if (packs == NULL)
        return pl_err_nomem(err);
    pl_index_view_each(m->view, find_commit, &finding);
    for (uint32_t no = 0; no < all && r == 0; no++) {
        _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
        struct pl_hash pack;
        uint64_t number;

        /* the index stores only the first half of a record's id, so the whole id is read from the pack's
         * footer */
        if ((packs[no / 8] >> (no % 8) & 1) == 0 || !pl_store_pack_id(m->config.store, no, &pack) ||
            pl_store_pack_footer(m->config.store, &pack, &f, NULL) < 0)
            continue;
        for (uint32_t i = 0; i < f.count && r == 0; i++)
            if (f.entries[i].kind == PL_REC_COMMIT && pl_index_view_find(m->view, &f.entries[i].id, &number) &&
                !bit_is_set(m, number))
                r = fn(self, m, &f.entries[i].id, err);
    }
    return r;
}

bool pl_gc_mark_counts(const struct pl_gc_mark *m, const struct pl_hash *id, const struct pl_hash *pack)
{
    struct pl_hash holder;
    uint64_t number;
    uint32_t no;

    if (!pl_index_view_find(m->view, id, &number) || !bit_is_set(m, number))
        return false;
    no = pl_index_view_pack_of(m->view, number);
    return pl_store_pack_id(m->config.store, no, &holder) && pl_hash_eq(&holder, pack);
}
