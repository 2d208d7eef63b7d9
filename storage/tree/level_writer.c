/* The open node is built directly as encoded bytes; the number of entries in its header is filled in when
 * the node ends. A tower keeps the writers of all levels in one array, so the writer of the level above is
 * the next array element. */
#include "storage/tree/level_writer.h"

#define VARINT_MAX_BYTES 10u

void pl_level_writer_init(struct pl_level_writer *w, const struct pl_node_sink *sink, uint8_t tree, uint8_t level,
                          pl_level_emit_fn emit, void *self)
{
    *w = (struct pl_level_writer){.sink = *sink, .tree = tree, .level = level, .emit = emit, .self = self};
    if (!w->sink.params)
        w->sink.params = &pl_tree_params_v1;
}

void pl_level_writer_finish(struct pl_level_writer *w)
{
    pl_buf_finish(&w->raw);
    pl_buf_finish(&w->last_key);
    pl_buf_finish(&w->child);
    w->n = 0;
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;

    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

bool pl_level_writer_fits(const struct pl_level_writer *w, const void *key, size_t key_len, size_t value_len)
{
    size_t shared, need;

    if (w->n == 0)
        return true;
    shared = pl_key_common(w->last_key.data, w->last_key.len, key, key_len);
    need = varint_bytes(shared) + varint_bytes(key_len - shared) + (key_len - shared) + value_len;
    return w->raw.len + need <= w->sink.params->max_bytes;
}

/* Starts a node with its header; flush fills in the number of entries. */
static int begin_node(struct pl_level_writer *w, struct pl_err *err)
{
    int r;

    pl_buf_clear(&w->raw);
    pl_buf_clear(&w->last_key);
    w->stats = (struct pl_tree_stats){0};
    r = pl_buf_add(&w->raw, PL_NODE_MAGIC, 4, err);
    if (r == 0)
        r = pl_buf_add_u8(&w->raw, PL_NODE_VERSION, err);
    if (r == 0)
        r = pl_buf_add_u8(&w->raw, w->tree, err);
    if (r == 0)
        r = pl_buf_add_u8(&w->raw, w->level, err);
    if (r == 0)
        r = pl_buf_add_le32(&w->raw, 0, err);
    return r;
}

/* Appends an entry to the open node: the lengths of the shared and remaining key bytes, the remaining
 * bytes, the value. */
static int append_entry(struct pl_level_writer *w, const struct pl_level_item *item, struct pl_err *err)
{
    size_t shared = pl_key_common(w->last_key.data, w->last_key.len, item->key, item->key_len);
    const uint8_t *rest = (const uint8_t *)item->key + shared;
    size_t rest_len = item->key_len - shared;
    int r;

    r = pl_buf_reserve(&w->raw, 2 * VARINT_MAX_BYTES + rest_len + item->value_len, err);
    if (r == 0)
        r = pl_buf_add_varint(&w->raw, shared, err);
    if (r == 0)
        r = pl_buf_add_varint(&w->raw, rest_len, err);
    if (r == 0)
        r = pl_buf_add(&w->raw, rest, rest_len, err);
    if (r == 0)
        r = pl_buf_add(&w->raw, item->value, item->value_len, err);
    w->last_key.len = shared;
    if (r == 0)
        r = pl_buf_add(&w->last_key, rest, rest_len, err);
    return r;
}

/* True if the splitting rule ends the open node after the entry that was added last. */
static bool boundary_after_last(const struct pl_level_writer *w)
{
    const struct pl_tree_params *p = w->sink.params;

    if (w->n >= p->max_entries)
        return true;
    return w->n >= p->min_entries && pl_xxh64(w->last_key.data, w->last_key.len, w->level) < p->threshold;
}

int pl_level_writer_add(struct pl_level_writer *w, const struct pl_level_item *item, struct pl_err *err)
{
    int r = 0;

    if (!pl_level_writer_fits(w, item->key, item->key_len, item->value_len))
        r = pl_level_writer_flush(w, err);
    if (r == 0 && w->n == 0)
        r = begin_node(w, err);
    if (r == 0)
        r = append_entry(w, item, err);
    if (r < 0)
        return r;
    if (__builtin_add_overflow(w->stats.files, item->stats.files, &w->stats.files) ||
        __builtin_add_overflow(w->stats.bytes, item->stats.bytes, &w->stats.bytes))
        return pl_err_set(err, PL_ELIMIT, "the sum of the sizes in the tree exceeds 64 bits");
    w->n++;
    if (w->n == 1 && w->level > 0)
        memcpy(w->last_only.id.b, item->value, PL_HASH_BYTES);
    if (w->n == 1)
        w->last_only.stats = item->stats;
    return boundary_after_last(w) ? pl_level_writer_flush(w, err) : 0;
}

int pl_level_writer_flush(struct pl_level_writer *w, struct pl_err *err)
{
    struct pl_level_item item;
    struct pl_node_child child = {.stats = w->stats};
    int r;

    if (w->n == 0)
        return 0;
    for (unsigned i = 0; i < 4; i++)
        w->raw.data[PL_NODE_HEADER_BYTES - 4 + i] = (uint8_t)(w->n >> (8 * i));
    r = w->sink.put(w->sink.self, w->raw.data, w->raw.len, &child.id, err);
    if (r < 0)
        return pl_err_wrap(err, r, "put tree node of level %u", w->level);
    w->last_id = child.id;
    w->last_n = w->n;
    w->n = 0;
    w->written++;
    pl_buf_clear(&w->child);
    r = pl_node_child_encode(&child, &w->child, err);
    if (r < 0)
        return r;
    item = (struct pl_level_item){w->last_key.data, w->last_key.len, w->child.data, w->child.len, child.stats};
    return w->emit(w->self, &item, err);
}

/* Adds a written node to the level above. `self` is the writer of the level below; the next element of the
 * array is the writer of the level above. */
static int emit_upwards(void *self, const struct pl_level_item *item, struct pl_err *err)
{
    struct pl_level_writer *below = self;

    if (below->level + 1u >= PL_TREE_MAX_LEVELS)
        return pl_err_set(err, PL_ELIMIT, "a tree has at most %u levels", PL_TREE_MAX_LEVELS);
    return pl_level_writer_add(below + 1, item, err);
}

void pl_level_tower_init(struct pl_level_tower *t, const struct pl_node_sink *sink, uint8_t tree, unsigned first)
{
    t->first = first;
    for (unsigned i = 0; i < PL_TREE_MAX_LEVELS; i++)
        pl_level_writer_init(&t->w[i], sink, tree, (uint8_t)i, emit_upwards, &t->w[i]);
}

void pl_level_tower_finish(struct pl_level_tower *t)
{
    for (unsigned i = 0; i < PL_TREE_MAX_LEVELS; i++)
        pl_level_writer_finish(&t->w[i]);
}

int pl_level_tower_add(struct pl_level_tower *t, const struct pl_level_item *item, struct pl_err *err)
{
    if (t->first >= PL_TREE_MAX_LEVELS)
        return pl_err_set(err, PL_ELIMIT, "a tree has at most %u levels", PL_TREE_MAX_LEVELS);
    return pl_level_writer_add(&t->w[t->first], item, err);
}

int pl_level_tower_root(struct pl_level_tower *t, struct pl_hash *ret, struct pl_err *err)
{
    static const struct pl_hash empty;
    int r;

    for (unsigned i = t->first; i < PL_TREE_MAX_LEVELS; i++) {
        struct pl_level_writer *w = &t->w[i];

        r = pl_level_writer_flush(w, err);
        if (r < 0)
            return r;
        if (w->written <= 1) {
            *ret = w->written == 0 ? empty : w->last_id;
            return 0;
        }
    }
    return pl_err_set(err, PL_ELIMIT, "a tree has at most %u levels", PL_TREE_MAX_LEVELS);
}
