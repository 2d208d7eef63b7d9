/* Reads an open commit as the tree that it would become; new tree nodes are kept in memory. The first view
 * applies all operations to the base, a later one only the operations since the last view. When too many of
 * the nodes are no longer used, they are discarded and the next view starts from the base again. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/base/map.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/store.h"
#include "storage/tree_edit/tree_edit.h"

/* with more operations than this since the last view, the next view applies all operations to the base */
#define DELTA_MAX 65536u

struct bytes {
    size_t n;
    uint8_t data[];
};

struct pl_open_nodes {
    pthread_mutex_t lock;
    unsigned refs;
    struct pl_map map; /* id → struct bytes */
    size_t size, fresh_size;
    struct pl_node_source below;
};

static struct pl_open_nodes *nodes_create(const struct pl_node_source *below)
{
    struct pl_open_nodes *n = calloc(1, sizeof *n);

    if (!n)
        return NULL;
    pthread_mutex_init(&n->lock, NULL);
    n->refs = 1;
    n->below = *below;
    return n;
}

static struct pl_open_nodes *nodes_ref(struct pl_open_nodes *n)
{
    pthread_mutex_lock(&n->lock);
    n->refs++;
    pthread_mutex_unlock(&n->lock);
    return n;
}

void pl_open_commit_nodes_unref(struct pl_open_nodes *n)
{
    bool last;

    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    last = --n->refs == 0;
    pthread_mutex_unlock(&n->lock);
    if (!last)
        return;
    pl_map_finish(&n->map, free);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static int nodes_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_open_nodes *n = self;
    const struct bytes *b;
    int r = 0;

    pthread_mutex_lock(&n->lock);
    b = pl_map_get(&n->map, id->b, PL_HASH_BYTES);
    if (b)
        r = pl_buf_add(ret, b->data, b->n, err);
    pthread_mutex_unlock(&n->lock);
    return b ? r : n->below.get(n->below.self, id, ret, err);
}

static int nodes_put(void *self, const void *data, size_t len, struct pl_hash *ret_id, struct pl_err *err)
{
    struct pl_open_nodes *n = self;
    struct bytes *b = malloc(sizeof *b + len);
    void *old = NULL;
    int r;

    if (!b)
        return pl_err_nomem(err);
    b->n = len;
    memcpy(b->data, data, len);
    pl_hash_sha256(data, len, ret_id);
    pthread_mutex_lock(&n->lock);
    r = pl_map_put(&n->map, ret_id->b, PL_HASH_BYTES, b, &old, err);
    if (r == 0)
        n->size += old ? 0 : len;
    pthread_mutex_unlock(&n->lock);
    free(r < 0 ? b : old);
    return r;
}

/* ---- making views ---- */

void pl_open_commit_group_durable(struct pl_open_commit *c, struct pl_op_set *group)
{
    if (c->nodes && (c->delta.n + group->n > DELTA_MAX || pl_op_set_merge(&c->delta, group, NULL) < 0)) {
        pl_op_set_finish(&c->delta);
        pl_open_commit_nodes_unref(c->nodes);
        c->nodes = NULL;
    }
    pl_op_set_take(&c->table, group);
}

/* An edit to be made: either all operations of the commit on top of its base, or only the operations since
 * the last view, on top of that view's root. */
struct todo {
    struct pl_open_nodes *nodes; /* nodes of the last view; new ones if the edit starts from the base */
    struct pl_hash root;
    struct pl_op_set delta;
    struct pl_buf all;
};

/* Prepares the next edit: takes c->delta, or a copy of all operations if there are no nodes of an earlier
 * view. */
static int look(struct pl_open_commit *c, struct todo *ret, struct pl_err *err)
{
    int r = 0;

    *ret = (struct todo){.all = {.max = PL_OPEN_COMMIT_FILE_META_MAX}};
    pthread_mutex_lock(&c->lock);
    if (c->nodes) {
        ret->nodes = nodes_ref(c->nodes);
        ret->root = c->root;
        ret->delta = c->delta;
        c->delta = (struct pl_op_set){0};
    } else {
        ret->root = pl_open_commit_head(c)->base_root;
        r = pl_op_set_write(&c->table, &ret->all, err);
        if (r == 0)
            c->nodes = ret->nodes = nodes_create(&c->source);
        if (r == 0 && !c->nodes)
            r = pl_err_nomem(err);
        if (r == 0)
            nodes_ref(c->nodes);
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int edit(struct todo *t, struct pl_hash *ret_root, struct pl_err *err)
{
    struct pl_node_source source = {t->nodes, nodes_get};
    struct pl_node_sink sink = {.self = t->nodes, .put = nodes_put};
    _cleanup_free_ struct pl_tree_op *ops = NULL;
    size_t n = 0;
    int r = t->all.len ? pl_tree_ops_read(t->all.data, t->all.len, &ops, &n, err) : pl_op_set_list(&t->delta, &ops, &n, err);

    return r < 0 ? r : pl_tree_edit(&source, &sink, &t->root, ops, n, ret_root, err);
}

/* Makes a view by the edit that look() prepares. Caller holds view_lock. */
static int make_view(struct pl_open_commit *c, struct pl_hash *ret_root, struct pl_open_nodes **ret, struct pl_err *err)
{
    struct todo t;
    bool fresh;
    int r = look(c, &t, err);

    fresh = t.all.len;
    *ret_root = t.root;
    if (r == 0 && (fresh || t.delta.n))
        r = edit(&t, ret_root, err);
    pthread_mutex_lock(&c->lock);
    if (r == 0 && fresh)
        t.nodes->fresh_size = t.nodes->size;
    if (c->nodes && c->nodes == t.nodes)
        c->root = *ret_root;
    /* discard the nodes after a failure, or when too many of them are unused */
    if (c->nodes == t.nodes && t.nodes && (r < 0 || t.nodes->size > t.nodes->fresh_size + PL_OPEN_COMMIT_VIEW_BYTES)) {
        pl_open_commit_nodes_unref(c->nodes);
        c->nodes = NULL;
        pl_op_set_finish(&c->delta);
    }
    pthread_mutex_unlock(&c->lock);
    pl_op_set_finish(&t.delta);
    pl_buf_finish(&t.all);
    if (r < 0)
        pl_open_commit_nodes_unref(t.nodes);
    else
        *ret = t.nodes;
    return r;
}

int pl_open_commit_view_init(struct pl_open_commit *c, struct pl_open_commit_view *ret, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&c->view_lock);
    r = make_view(c, &ret->root, &ret->nodes, err);
    pthread_mutex_unlock(&c->view_lock);
    if (r < 0)
        return pl_err_wrap(err, r, "open commit %.8s", pl_open_commit_head(c)->commit);
    ret->source = (struct pl_node_source){ret->nodes, nodes_get};
    return 0;
}

void pl_open_commit_view_finish(struct pl_open_commit_view *v)
{
    pl_open_commit_nodes_unref(v->nodes);
    v->nodes = NULL;
}

/* ---- operations ---- */

int pl_open_commit_lookup(struct pl_open_commit *c, const char *path, size_t path_len, struct pl_entry *ret,
                          struct pl_buf *ret_attributes, enum pl_op_set_item *ret_known, struct pl_err *err)
{
    struct pl_tree_op op;
    int r = 0;

    pl_buf_clear(ret_attributes);
    pthread_mutex_lock(&c->lock);
    *ret_known = pl_op_set_look(&c->table, path, path_len, &op);
    if (*ret_known == PL_OP_THERE) {
        *ret = op.entry;
        r = op.attributes.len ? pl_buf_add(ret_attributes, op.attributes.data, op.attributes.len, err) : 0;
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

bool pl_open_commit_path_from(struct pl_open_commit *c, const char *path, size_t path_len, char ret[PL_PATH_MAX_BYTES + 1],
                              size_t *ret_len)
{
    struct pl_op_set_cursor cursor;
    struct pl_tree_op op;
    int r;

    pthread_mutex_lock(&c->lock);
    cursor = pl_op_set_seek(&c->table, path, path_len);
    r = pl_op_set_cursor_next(&cursor, &op);
    if (r > 0) {
        memcpy(ret, op.path, op.path_len);
        ret[op.path_len] = '\0';
        *ret_len = op.path_len;
    }
    pthread_mutex_unlock(&c->lock);
    return r > 0;
}

/* ---- bytes ---- */

static int read_record(void *self, const struct pl_hash *id, unsigned kind, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_open_commit *c = self;
    struct pl_err why = {0};
    int r = pl_open_commit_file_get(c->spool, id, ret, &why);

    if (r == PL_ENOTFOUND)
        return pl_store_get(c->store, id, (uint8_t)kind, ret, err);
    if (r < 0 && err)
        *err = why;
    return r;
}

struct pl_chunk_reader pl_open_commit_reader(struct pl_open_commit *c)
{
    return (struct pl_chunk_reader){c, read_record};
}

/* ---- packing everything ---- */

struct packing {
    struct pl_open_nodes *nodes;
    struct pl_pack_builder *session;
};

/* Puts a new node into the pack builder. Nodes that the base has are in packs already, with everything below
 * them. */
static int pack_node(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err)
{
    struct packing *p = self;
    const struct bytes *b;
    struct pl_hash same;
    int r = PL_TREE_SKIP;

    (void)level;
    pthread_mutex_lock(&p->nodes->lock);
    b = pl_map_get(&p->nodes->map, id->b, PL_HASH_BYTES);
    if (b)
        r = pl_pack_builder_node_put(p->session, b->data, b->n, &same, err);
    pthread_mutex_unlock(&p->nodes->lock);
    return r;
}

int pl_open_commit_pack(struct pl_open_commit *c, struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(pl_open_commit_view_finish) struct pl_open_commit_view view = {0};
    struct pl_pack_sink sink = pl_store_sink(c->store);
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    struct packing p = {0};
    int r = pl_open_commit_view_init(c, &view, err);

    pl_store_hold(c->store, &hold);

    r = r < 0 ? r : pl_open_commit_pack_records(c, err);
    r = r < 0 ? r : pl_pack_builder_open(&sink, pl_open_commit_head(c)->project, &session, err);
    if (r < 0)
        return r;
    p = (struct packing){view.nodes, session};
    r = pl_hash_is_zero(&view.root) ? 0 : pl_tree_visit_nodes(&view.source, &view.root, pack_node, &p, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&c->lock);
    c->packed = view.root;
    pthread_mutex_unlock(&c->lock);
    *ret_root = view.root;
    return 0;
}
