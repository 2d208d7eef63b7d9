/* Finds what open commits need in the store (open_commits.h), for garbage collection. */
#include "pipelined/db/open_commits/open_commits_internal.h"

#include "storage/chunk/chunk_list.h"

struct needs {
    struct pl_open_commit_need *list;
    size_t n, cap;
};

static int need(struct needs *needs, const struct pl_hash *id, uint8_t content, struct pl_err *err)
{
    if (pl_hash_is_zero(id))
        return 0;
    if (needs->n == PL_OPEN_COMMIT_NEEDS_MAX)
        return pl_err_set(err, PL_ELIMIT, "open commits refer to more than %u pieces of files: finish some",
                          PL_OPEN_COMMIT_NEEDS_MAX);
    if (needs->n == needs->cap) {
        size_t cap = needs->cap ? needs->cap * 2 : 256;
        struct pl_open_commit_need *list = reallocarray(needs->list, cap, sizeof *list);

        if (!list)
            return pl_err_nomem(err);
        needs->list = list;
        needs->cap = cap;
    }
    needs->list[needs->n++] = (struct pl_open_commit_need){.id = *id, .content = content};
    return 0;
}

/* Adds what one open commit needs: the content of the entries in its operations, its base, and the tree that
 * was last packed for readers. */
static int needs_of(struct pl_open_commit *c, struct needs *needs, struct pl_err *err)
{
    struct pl_op_set_cursor cursor;
    struct pl_tree_op op;
    int r = need(needs, &pl_open_commit_head(c)->base_root, PL_CONTENT_NONE, err);

    pthread_mutex_lock(&c->lock);
    cursor = pl_op_set_seek(&c->table, "", 0);
    r = r < 0 ? r : need(needs, &c->packed, PL_CONTENT_NONE, err);
    while (r == 0 && pl_op_set_cursor_next(&cursor, &op)) {
        bool puts = op.op == PL_TREE_PUT || op.op == PL_TREE_REPLACE;

        if (puts && (op.entry.content == PL_CONTENT_CHUNK || op.entry.content == PL_CONTENT_LIST))
            r = need(needs, &op.entry.id, op.entry.content, err);
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

struct expanding {
    struct pl_open_commit *c;
    struct needs *needs;
};

static int list_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct expanding *x = self;
    struct pl_chunk_reader reader = pl_open_commit_reader(x->c);

    return reader.get(reader.self, id, PL_REC_LIST, ret, err);
}

static int list_piece(void *self, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    struct expanding *x = self;

    (void)is_chunk;
    (void)bytes;
    return need(x->needs, id, PL_CONTENT_CHUNK, err);
}

/* Adds the pieces of lists that are only in the spool: the list is in no pack, but some of its pieces may be. */
static int expand_lists(struct pl_open_commit *c, struct needs *needs, size_t from, struct pl_err *err)
{
    struct expanding x = {c, needs};
    struct pl_list_source source = {&x, list_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    size_t end = needs->n;
    int r = 0;

    for (size_t i = from; i < end && r == 0; i++) {
        struct pl_hash id = needs->list[i].id;

        if (needs->list[i].content == PL_CONTENT_LIST && pl_store_locate(c->store, &id, &(struct pl_location){0}, NULL) < 0)
            r = pl_list_visit(&source, &id, &seen, NULL, list_piece, &x, NULL, err);
    }
    return r;
}

/* Returns references to the open commits of the project. */
static int take_all(struct pl_open_commits *o, const char *project, struct pl_open_commit ***ret, size_t *ret_n,
                    struct pl_err *err)
{
    struct pl_open_commit **list;
    size_t n = 0;

    pthread_mutex_lock(&o->lock);
    list = calloc(o->n + 1, sizeof *list);
    for (struct pl_open_commit *c = o->list; list && c; c = c->next) {
        if (!pl_streq(pl_open_commit_head(c)->project, project))
            continue;
        c->refs++;
        list[n++] = c;
    }
    pthread_mutex_unlock(&o->lock);
    if (!list)
        return pl_err_nomem(err);
    *ret = list;
    *ret_n = n;
    return 0;
}

int pl_open_commits_roots(struct pl_open_commits *o, const char *project, struct pl_open_commit_need **ret, size_t *ret_n,
                          struct pl_err *err)
{
    _cleanup_free_ struct pl_open_commit **list = NULL;
    struct needs needs = {0};
    size_t n = 0;
    int r = take_all(o, project, &list, &n, err);

    for (size_t i = 0; i < n; i++) {
        size_t from = needs.n;

        r = r < 0 ? r : needs_of(list[i], &needs, err);
        r = r < 0 ? r : expand_lists(list[i], &needs, from, err);
        pl_open_commit_unref(list[i]);
    }
    if (r < 0) {
        free(needs.list);
        return pl_err_wrap(err, r, "open commits of project %s", project);
    }
    *ret = needs.list;
    *ret_n = needs.n;
    return 0;
}
