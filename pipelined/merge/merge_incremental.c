/* Gathers old and new outputs of the changed datums, turns them into operations on the three trees, and
 * applies each list with one tree edit. */
#include "pipelined/merge/merge_incremental.h"

#include "pipelined/merge/merge_incremental_items.h"
#include "pipelined/text/glob.h"
#include "storage/tree_edit/tree_ops.h"

struct pl_carry {
    const struct pl_plan *plan;
    struct pl_merge_incremental_roots base;
    struct pl_node_source source;
    struct pl_tree_cursor *table, *output, *owner; /* cursors over the base's trees */
    struct carry_memory memory;
    struct carry_items old, now; /* old and new outputs of the changed datums; finish sorts them */
    /* directories that may become empty directories of the output, or may stop being empty directories */
    struct carry_dirs dirs;
    /* operations on the datum table, the output tree and the owner tree */
    struct carry_ops rows, paths, owners;
    struct pl_buf path, entry;
};

int pl_merge_incremental_create(const struct pl_plan *plan, const struct pl_merge_incremental_roots *base,
                                const struct pl_node_source *source, size_t max_bytes, struct pl_carry **ret, struct pl_err *err)
{
    _cleanup_(pl_merge_incremental_destroyp) struct pl_carry *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    c->plan = plan;
    c->base = *base;
    c->source = *source;
    c->memory.max = max_bytes != 0 ? max_bytes : PL_MERGE_INCREMENTAL_DEFAULT_BYTES;
    c->memory.arena = pl_arena_create(c->memory.max);
    if (c->memory.arena == NULL)
        return pl_err_nomem(err);
    r = pl_tree_cursor_create(&c->source, &c->base.table, NULL, 0, &c->table, err);
    if (r == 0)
        r = pl_tree_cursor_create(&c->source, &c->base.output, NULL, 0, &c->output, err);
    if (r == 0)
        r = pl_tree_cursor_create(&c->source, &c->base.owner, NULL, 0, &c->owner, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

struct pl_carry *pl_merge_incremental_destroy(struct pl_carry *c)
{
    if (c == NULL)
        return NULL;
    pl_tree_cursor_destroy(c->table);
    pl_tree_cursor_destroy(c->output);
    pl_tree_cursor_destroy(c->owner);
    free(c->old.items);
    free(c->now.items);
    free(c->dirs.items);
    free(c->rows.ops);
    free(c->paths.ops);
    free(c->owners.ops);
    pl_buf_finish(&c->path);
    pl_buf_finish(&c->entry);
    pl_arena_destroy(c->memory.arena);
    free(c);
    return NULL;
}

/* ---- old and new outputs of a datum ---- */

/* Adds one output of a datum. The first `prefix` bytes of c->path are the datum's output prefix. */
static int carry_add(struct pl_carry *c, struct carry_items *to, const struct carry_key *key, size_t prefix, const char *path,
                     size_t len, const struct pl_entry *entry, struct pl_err *err)
{
    int r;

    if (entry->kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EINVAL, "an output of a datum is a table row instead of a file or directory");
    c->path.len = prefix;
    pl_buf_clear(&c->entry);
    r = pl_buf_add(&c->path, path, len, err);
    if (r == 0)
        r = pl_path_check((const char *)c->path.data, c->path.len, err);
    if (r == 0)
        r = pl_entry_encode(entry, &c->entry, err);
    return r < 0 ? r : pl_merge_incremental_items_add(to, &c->memory, key, &c->path, &c->entry, err);
}

static int carry_add_ops(struct pl_carry *c, struct carry_items *to, const struct carry_key *key, const struct pl_datum_row *row,
                         struct pl_err *err)
{
    size_t prefix = c->path.len;
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r = pl_tree_ops_reader_init(&reader, row->ops, row->ops_len, err);

    while (r == 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0) {
        if (op.op != PL_TREE_PUT)
            return pl_err_set(err, PL_EFORMAT, "the outputs of a datum contain an operation that is not a put");
        r = carry_add(c, to, key, prefix, op.path, op.path_len, &op.entry, err);
    }
    c->path.len = prefix;
    return r;
}

static int carry_add_tree(struct pl_carry *c, struct carry_items *to, const struct carry_key *key, const struct pl_datum_row *row,
                          struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    size_t prefix = c->path.len;
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(&c->source, &row->root, NULL, 0, &cursor, err);

    while (r == 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0)
        r = carry_add(c, to, key, prefix, item.path, item.path_len, &item.entry, err);
    c->path.len = prefix;
    return r;
}

static int carry_add_row(struct pl_carry *c, struct carry_items *to, const struct carry_key *key, const struct pl_datum_row *row,
                         struct pl_err *err)
{
    if (row->outputs == PL_ROW_INLINE)
        return carry_add_ops(c, to, key, row, err);
    return row->outputs == PL_ROW_TREE ? carry_add_tree(c, to, key, row, err) : 0;
}

static bool carry_row_eq(const struct pl_datum_row *a, const struct pl_datum_row *b)
{
    return a->state == b->state && pl_hash_eq(&a->key, &b->key) && memcmp(a->run, b->run, sizeof(a->run)) == 0 &&
           a->outputs == b->outputs && a->ops_len == b->ops_len && (a->ops_len == 0 || memcmp(a->ops, b->ops, a->ops_len) == 0) &&
           pl_hash_eq(&a->root, &b->root);
}

/* Adds an operation on the owner tree. `op` PL_TREE_PUT marks the datum as failed; PL_TREE_DELETE removes
 * that mark. */
static int carry_failed_row(struct pl_carry *c, const struct carry_key *key, uint8_t op, struct pl_err *err)
{
    const struct pl_entry nothing = pl_entry_row("", 0);
    uint8_t bytes[PL_OWNER_KEY_MAX];

    return pl_merge_incremental_ops_add(&c->owners, &c->memory, op, bytes, pl_owner_failed_key(key->bytes, key->len, bytes),
                                        &nothing, err);
}

/* Looks up the datum in the base's table. Returns 1 and the row, which the cursor owns, or 0 if there is
 * none. */
static int carry_old_row(struct pl_carry *c, const struct carry_key *key, struct pl_datum_row *ret, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = pl_tree_cursor_get(c->table, (const char *)key->bytes, key->len, &item, err);

    if (r <= 0)
        return r;
    if (item.entry.kind != PL_KIND_ROW)
        return pl_err_set(err, PL_EFORMAT, "a datum table contains an entry that is not a row");
    r = pl_datum_row_decode(item.entry.row, (size_t)item.entry.size, ret, err);
    return r < 0 ? r : 1;
}

static int carry_row_op(struct pl_carry *c, const struct carry_key *key, const struct pl_datum_row *row, struct pl_err *err)
{
    struct pl_entry entry = {0};
    int r = 0;

    if (row == NULL)
        return pl_merge_incremental_ops_add(&c->rows, &c->memory, PL_TREE_DELETE, key->bytes, key->len, NULL, err);
    pl_buf_clear(&c->entry);
    r = pl_datum_row_encode(row, &c->entry, err);
    entry = pl_entry_row(c->entry.data, c->entry.len);
    return r < 0 ? r : pl_merge_incremental_ops_add(&c->rows, &c->memory, PL_TREE_PUT, key->bytes, key->len, &entry, err);
}

int pl_merge_incremental_datum(struct pl_carry *c, size_t datum, const struct pl_datum_row *row, struct pl_err *err)
{
    uint8_t bytes[PL_ENUM_KEY_MAX];
    struct carry_key key = {bytes, pl_plan_enum_key(c->plan, datum, bytes)};
    struct pl_datum_row old;
    int r = pl_merge_incremental_key_keep(&c->memory, &key, err), had;

    if (r < 0)
        return r;
    had = carry_old_row(c, &key, &old, err);
    if (had < 0)
        return had;
    if (had == 0 && row == NULL)
        return pl_err_set(err, PL_ECORRUPT, "the base's datum table lacks a datum that the plan removes");
    if (had > 0 && row != NULL && carry_row_eq(&old, row))
        return 0; /* the new row is equal to the old one */
    pl_buf_clear(&c->path);
    r = pl_plan_prefix(c->plan, datum, &c->path, err);
    if (r == 0 && had > 0 && old.state == PL_ROW_FAILED)
        r = carry_failed_row(c, &key, PL_TREE_DELETE, err);
    if (r == 0 && row != NULL && row->state == PL_ROW_FAILED)
        r = carry_failed_row(c, &key, PL_TREE_PUT, err);
    if (r == 0 && had > 0)
        r = carry_add_row(c, &c->old, &key, &old, err);
    if (r == 0 && row != NULL)
        r = carry_add_row(c, &c->now, &key, row, err);
    return r < 0 ? r : carry_row_op(c, &key, row, err);
}

/* ---- files ---- */

static int carry_collision(const struct carry_item *item, struct pl_err *err)
{
    return pl_err_set(err, PL_ECOLLISION, "/%.*s is written by two datums", (int)PL_MIN(item->path_len, 160u), item->path);
}

static struct pl_entry carry_entry(const struct carry_item *item)
{
    struct pl_cursor cursor = pl_cursor_of(item->entry, item->entry_len);
    struct pl_entry entry;

    if (pl_entry_decode(&cursor, &entry, NULL) < 0)
        abort(); /* carry_add encoded it, so memory is corrupted */
    return entry;
}

/* Adds the operations for a new file. PL_ECOLLISION if an unchanged datum or another changed datum wrote a
 * file with the same path. */
static int carry_put_file(struct pl_carry *c, size_t i, struct pl_err *err)
{
    const struct carry_item *item = &c->now.items[i], *before = i > 0 ? item - 1 : NULL;
    struct pl_entry entry = carry_entry(item), row = pl_entry_row(item->key.bytes, item->key.len);
    struct pl_tree_item there;
    int r;

    if (before != NULL && pl_key_cmp(before->path, before->path_len, item->path, item->path_len) == 0)
        return carry_collision(item, err);
    r = pl_tree_cursor_get(c->output, item->path, item->path_len, &there, err);
    if (r < 0)
        return r;
    if (r > 0 && there.entry.kind != PL_KIND_DIR && !pl_merge_incremental_items_has_file(&c->old, item->path, item->path_len))
        return carry_collision(item, err);
    r = pl_merge_incremental_ops_add(&c->paths, &c->memory, PL_TREE_PUT, item->path, item->path_len, &entry, err);
    return r < 0 ? r : pl_merge_incremental_ops_add(&c->owners, &c->memory, PL_TREE_PUT, item->path, item->path_len, &row, err);
}

/* Adds the operations that remove an old file, which must be owned by this datum. If the same path is also
 * put, only the PUT is kept when the operations are sorted. */
static int carry_drop_file(struct pl_carry *c, const struct carry_item *item, struct pl_err *err)
{
    struct pl_tree_item there;
    int r = pl_tree_cursor_get(c->owner, item->path, item->path_len, &there, err);

    if (r < 0)
        return r;
    if (r == 0 || pl_key_cmp(there.entry.row, (size_t)there.entry.size, item->key.bytes, item->key.len) != 0)
        return pl_err_set(err, PL_ECORRUPT, "/%.*s is not owned by the datum that wrote it", (int)PL_MIN(item->path_len, 160u),
                          item->path);
    r = pl_merge_incremental_ops_add(&c->paths, &c->memory, PL_TREE_DELETE, item->path, item->path_len, NULL, err);
    return r < 0 ? r
                 : pl_merge_incremental_ops_add(&c->owners, &c->memory, PL_TREE_DELETE, item->path, item->path_len, NULL, err);
}

/* ---- empty directories ---- */

/* Adds an operation on the owner tree. `op` PL_TREE_PUT records that the datum wrote the empty directory;
 * PL_TREE_DELETE removes that record. */
static int carry_dir_row(struct pl_carry *c, const struct carry_item *item, uint8_t op, struct pl_err *err)
{
    const struct pl_entry nothing = pl_entry_row("", 0);
    uint8_t key[PL_OWNER_KEY_MAX];
    size_t len = pl_owner_dir_key(item->path, item->path_len, item->key.bytes, item->key.len, key);

    return pl_merge_incremental_ops_add(&c->owners, &c->memory, op, key, len, &nothing, err);
}

/* Finds the datum that owns the empty directory: the lowest key of all datums that wrote it, into `ret`.
 * Returns 1, or 0 if no datum wrote it. */
static int carry_dir_owner(struct pl_carry *c, const struct carry_dir *dir, struct pl_buf *ret, struct pl_err *err)
{
    const struct carry_item *now = pl_merge_incremental_items_dir(&c->now, dir->path, dir->path_len);
    uint8_t prefix[PL_OWNER_KEY_MAX];
    size_t len = pl_owner_dir_key(dir->path, dir->path_len, NULL, 0, prefix);
    struct pl_tree_item there;
    bool found = false;
    int r = pl_tree_cursor_seek(c->owner, (const char *)prefix, len, err);

    pl_buf_clear(ret);
    while (r == 0 && !found && (r = pl_tree_cursor_next(c->owner, &there, err)) > 0) {
        struct carry_key key = {(const uint8_t *)there.path + len, there.path_len - len};

        r = 0;
        if (pl_key_cmp_prefix(there.path, there.path_len, prefix, len) != 0)
            break;
        found = !pl_merge_incremental_items_has(&c->old, dir->path, dir->path_len, &key);
        if (found)
            r = pl_buf_add(ret, key.bytes, key.len, err);
    }
    if (r < 0)
        return r;
    if (now != NULL && (!found || pl_key_cmp(now->key.bytes, now->key.len, ret->data, ret->len) < 0)) {
        pl_buf_clear(ret);
        r = pl_buf_add(ret, now->key.bytes, now->key.len, err);
    }
    return r < 0 ? r : found || now != NULL;
}

/* Returns 1 if the new output has anything below the directory, else 0. Call it after the directories
 * below this one were decided. */
static int carry_below(struct pl_carry *c, const struct carry_dir *dir, struct pl_err *err)
{
    char prefix[PL_PATH_MAX_BYTES + 2];
    size_t len = dir->path_len + 1;
    struct pl_tree_item item;
    int r;

    memcpy(prefix, dir->path, dir->path_len);
    prefix[dir->path_len] = '/';
    if (pl_merge_incremental_items_file_below(&c->now, prefix, len) ||
        pl_merge_incremental_dirs_alive_below(&c->dirs, prefix, len))
        return 1;
    r = pl_tree_cursor_seek(c->output, prefix, len, err);
    while (r == 0 && (r = pl_tree_cursor_next(c->output, &item, err)) > 0) {
        if (pl_key_cmp_prefix(item.path, item.path_len, prefix, len) != 0)
            return 0;
        if (item.entry.kind == PL_KIND_DIR ? pl_merge_incremental_dirs_find(&c->dirs, item.path, item.path_len) == NULL
                                           : !pl_merge_incremental_items_has_file(&c->old, item.path, item.path_len))
            return 1;
        r = 0;
    }
    return r;
}

/* Adds the operations that put the empty directory into the output, with the owner's key from c->entry, or
 * that delete it if the base's output has it. */
static int carry_set_dir(struct pl_carry *c, const struct carry_dir *dir, bool was, struct pl_err *err)
{
    struct pl_entry entry = pl_entry_dir(), row = pl_entry_row(c->entry.data, c->entry.len);
    uint8_t op = dir->alive ? PL_TREE_PUT : PL_TREE_DELETE;
    int r;

    if (!dir->alive && !was)
        return 0;
    r = pl_merge_incremental_ops_add(&c->paths, &c->memory, op, dir->path, dir->path_len, &entry, err);
    return r < 0 ? r : pl_merge_incremental_ops_add(&c->owners, &c->memory, op, dir->path, dir->path_len, &row, err);
}

/* Decides whether the directory is in the new output. It is if a datum wrote it and nothing is below it. */
static int carry_settle_dir(struct pl_carry *c, struct carry_dir *dir, struct pl_err *err)
{
    bool file = pl_merge_incremental_items_has_file(&c->now, dir->path, dir->path_len), was;
    struct pl_tree_item there;
    int r = pl_tree_cursor_get(c->output, dir->path, dir->path_len, &there, err), owned;

    if (r < 0)
        return r;
    was = r > 0 && there.entry.kind == PL_KIND_DIR;
    file = file || (r > 0 && !was && !pl_merge_incremental_items_has_file(&c->old, dir->path, dir->path_len));
    owned = carry_dir_owner(c, dir, &c->entry, err);
    if (owned < 0)
        return owned;
    if (owned > 0 && file)
        return pl_err_set(err, PL_ECOLLISION, "/%.*s is a file of one datum and a folder of another",
                          (int)PL_MIN(dir->path_len, 160u), dir->path);
    if (owned == 0 && was && pl_merge_incremental_items_dir(&c->old, dir->path, dir->path_len) == NULL)
        return pl_err_set(err, PL_ECORRUPT, "/%.*s is an empty directory that no datum wrote", (int)PL_MIN(dir->path_len, 160u),
                          dir->path);
    r = owned > 0 ? carry_below(c, dir, err) : 1;
    dir->alive = r == 0;
    return r < 0 ? r : carry_set_dir(c, dir, was, err);
}

/* ---- all operations ---- */

static int carry_items_ops(struct pl_carry *c, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < c->now.n && r == 0; i++)
        r = pl_merge_incremental_item_is_dir(&c->now.items[i]) ? carry_dir_row(c, &c->now.items[i], PL_TREE_PUT, err)
                                                               : carry_put_file(c, i, err);
    for (size_t i = 0; i < c->old.n && r == 0; i++)
        r = pl_merge_incremental_item_is_dir(&c->old.items[i]) ? carry_dir_row(c, &c->old.items[i], PL_TREE_DELETE, err)
                                                               : carry_drop_file(c, &c->old.items[i], err);
    return r;
}

static int carry_dirs_ops(struct pl_carry *c, struct pl_err *err)
{
    int r = pl_merge_incremental_dirs_of(&c->dirs, &c->memory, &c->old, &c->now, err);

    /* from the end, so that directories below are decided first */
    for (size_t i = c->dirs.n; i-- > 0 && r == 0;)
        r = carry_settle_dir(c, &c->dirs.items[i], err);
    return r;
}

static int carry_edit(struct pl_carry *c, struct carry_ops *ops, const struct pl_hash *root, const struct pl_node_sink *sink,
                      struct pl_hash *ret, struct pl_err *err)
{
    pl_merge_incremental_ops_settle(ops);
    return pl_tree_edit(&c->source, sink, root, ops->ops, ops->n, ret, err);
}

int pl_merge_incremental_finish(struct pl_carry *c, const struct pl_node_sink *sink, struct pl_merge_incremental_roots *ret,
                                struct pl_tree_stats *ret_stats, struct pl_err *err)
{
    struct pl_merge_incremental_roots roots;
    struct pl_tree_stats stats = {0};
    int r;

    pl_merge_incremental_items_sort(&c->old);
    pl_merge_incremental_items_sort(&c->now);
    r = carry_items_ops(c, err);
    if (r == 0)
        r = carry_dirs_ops(c, err);
    if (r == 0)
        r = carry_edit(c, &c->paths, &c->base.output, sink, &roots.output, err);
    if (r == 0)
        r = pl_tree_stats_get(&c->source, &roots.output, NULL, 0, &stats, err);
    if (r == 0)
        r = carry_edit(c, &c->owners, &c->base.owner, sink, &roots.owner, err);
    if (r == 0)
        r = carry_edit(c, &c->rows, &c->base.table, sink, &roots.table, err);
    if (r < 0)
        return r;
    *ret = roots;
    *ret_stats = stats;
    return 0;
}

/* ---- expect ---- */

/* True if an item of the list matches the glob. For the new outputs, replaced empty directories do not
 * count. */
static bool carry_items_match(const struct pl_carry *c, const struct carry_items *items, const struct pl_glob *glob)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct carry_item *item = &items->items[i];
        bool there = !pl_merge_incremental_item_is_dir(item) ||
                     pl_merge_incremental_dirs_find(&c->dirs, item->path, item->path_len)->alive;

        if ((items == &c->old || there) && pl_glob_match_within(glob, item->path, item->path_len))
            return true;
    }
    return false;
}

/* Returns 1 if the glob matches an entry of the base's output that remains, or an empty directory that is
 * in the new output; else 0. */
static int carry_kept_match(struct pl_carry *c, const struct pl_glob *glob, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    size_t len;
    const char *prefix = pl_glob_prefix(glob, &len);
    struct pl_tree_item item;
    int r;

    for (size_t i = 0; i < c->dirs.n; i++)
        if (c->dirs.items[i].alive && pl_glob_match_within(glob, c->dirs.items[i].path, c->dirs.items[i].path_len))
            return 1;
    r = pl_tree_cursor_create(&c->source, &c->base.output, prefix, len, &cursor, err);
    while (r == 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        bool gone = item.entry.kind == PL_KIND_DIR ? pl_merge_incremental_dirs_find(&c->dirs, item.path, item.path_len) != NULL
                                                   : pl_merge_incremental_items_has_file(&c->old, item.path, item.path_len);

        if (!gone && pl_glob_match_within(glob, item.path, item.path_len))
            return 1;
        r = 0;
    }
    return r;
}

int pl_merge_incremental_expect(struct pl_carry *c, bool held, struct pl_err *err)
{
    const struct pl_output *output = &c->plan->stage->output;

    /* a base whose job had no datums was not checked against output.expect */
    held = held && !pl_hash_is_zero(&c->base.table);
    for (size_t e = 0; e < output->n_expect && c->plan->n_total > 0; e++) {
        _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
        int r = pl_glob_compile(output->expect[e], &glob, err);

        if (r < 0)
            return r;
        if (carry_items_match(c, &c->now, glob) || (held && !carry_items_match(c, &c->old, glob)))
            continue;
        r = carry_kept_match(c, glob, err);
        if (r < 0)
            return r;
        if (r == 0)
            return pl_err_set(err, PL_ESTAGE, "nothing in the output matches %s", output->expect[e]);
    }
    return 0;
}
