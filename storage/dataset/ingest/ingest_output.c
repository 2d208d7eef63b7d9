/* With one source, operations are written as the batches arrive, which are in order. With several sources
 * they are gathered as records, sorted and checked at the end. Ids from the stat cache are looked up in
 * the store in groups. */
#include "storage/dataset/ingest/ingest_output.h"

#include "storage/pack/pack_sink.h"

_Static_assert(PL_INGEST_HAS_MAX <= PL_PACK_SINK_HAS_MAX, "one question must be answerable");

#define OUT_SLOTS (2 * (size_t)PL_INGEST_HAS_MAX) /* a power of two */

/* A set of ids to look up in the store. */
struct out_asked {
    struct pl_hash *ids;
    uint32_t *slots; /* hash table: 1 + index in `ids`, 0 = free; the bytes of an id serve as its hash */
    size_t n;
};

struct pl_ingest_out {
    const struct pl_ingest_options *options;
    struct pl_buf *ops;
    struct pl_tree_ops_writer writer;
    const char *cleared; /* the destination, if there is one source and it is mirrored */
    bool sorting;
    struct pl_buf unsorted; /* records: u8 op, u32 path length, path, entry */
    size_t *records;        /* offsets of the records in `unsorted` */
    size_t n_records, cap_records;
    struct out_asked asked;
    bool missing;
    struct pl_ingest_stats stats;
};

/* ---- several sources ---- */

static int record_grow(struct pl_ingest_out *o, struct pl_err *err)
{
    size_t cap = o->cap_records > 0 ? o->cap_records * 2 : 1024;
    size_t *more;

    if (o->n_records < o->cap_records)
        return 0;
    if (o->n_records == PL_TREE_OPS_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %u paths at once", PL_TREE_OPS_MAX);
    more = reallocarray(o->records, cap, sizeof(*more));
    if (more == NULL)
        return pl_err_nomem(err);
    o->records = more;
    o->cap_records = cap;
    return 0;
}

static int record_add(struct pl_ingest_out *o, uint8_t op, const char *path, size_t len, const struct pl_entry *entry,
                      struct pl_err *err)
{
    size_t at = o->unsorted.len;
    int r;

    if ((r = record_grow(o, err)) < 0 || (r = pl_buf_add_u8(&o->unsorted, op, err)) < 0 ||
        (r = pl_buf_add_le32(&o->unsorted, (uint32_t)len, err)) < 0 || (r = pl_buf_add(&o->unsorted, path, len, err)) < 0)
        return r;
    if (entry != NULL && (r = pl_entry_encode(entry, &o->unsorted, err)) < 0)
        return r;
    o->records[o->n_records++] = at;
    return 0;
}

/* Reads the operation and the path of a record in `unsorted`. The returned cursor is at the record's
 * entry. */
static struct pl_cursor record_open(const struct pl_buf *unsorted, size_t at, struct pl_tree_op *ret)
{
    struct pl_cursor c = pl_cursor_of(unsorted->data + at, unsorted->len - at);

    ret->op = pl_cursor_u8(&c);
    ret->path_len = pl_cursor_le32(&c);
    ret->path = (const char *)pl_cursor_bytes(&c, ret->path_len);
    return c;
}

static int record_cmp(const void *a, const void *b, void *arg)
{
    const struct pl_buf *unsorted = arg;
    struct pl_tree_op x, y;
    int d;

    (void)record_open(unsorted, *(const size_t *)a, &x);
    (void)record_open(unsorted, *(const size_t *)b, &y);
    d = pl_key_cmp(x.path, x.path_len, y.path, y.path_len);
    return d != 0 ? d : (int)y.op - (int)x.op; /* the deletion of a path comes before its PUT */
}

/* Writes the gathered operations in order of path. */
static int records_write(struct pl_ingest_out *o, struct pl_err *err)
{
    struct pl_tree_op before = {0}, op = {0};
    int r = 0;

    if (o->n_records > 1)
        qsort_r(o->records, o->n_records, sizeof(*o->records), record_cmp, &o->unsorted);
    for (size_t i = 0; r == 0 && i < o->n_records; i++) {
        struct pl_cursor c = record_open(&o->unsorted, o->records[i], &op);
        bool same = i > 0 && pl_key_cmp(before.path, before.path_len, op.path, op.path_len) == 0;

        if (op.op == PL_TREE_PUT && (r = pl_entry_decode(&c, &op.entry, err)) < 0)
            return r;
        /* If two sources have the same folder, it is put once. An empty folder needs no PUT if its path is
         * also deleted. */
        if (same && (op.op != PL_TREE_PUT || op.entry.kind == PL_KIND_DIR))
            continue;
        if (same)
            return pl_err_set(err, PL_ECOLLISION, "two of the given sources have the path %.*s", (int)op.path_len, op.path);
        r = op.op == PL_TREE_PUT ? pl_tree_ops_writer_put(&o->writer, op.path, op.path_len, &op.entry, err)
                                 : pl_tree_ops_writer_delete_prefix(&o->writer, op.path, op.path_len, err);
        before = op;
    }
    return r;
}

/* ---- operations ---- */

static int out_put(struct pl_ingest_out *o, const char *path, size_t len, const struct pl_entry *entry, struct pl_err *err)
{
    if (o->sorting)
        return record_add(o, PL_TREE_PUT, path, len, entry, err);
    if (o->cleared != NULL && entry->kind == PL_KIND_DIR && pl_streq(o->cleared, path))
        return 0; /* the source is an empty folder: deleting its destination is all that is needed */
    return pl_tree_ops_writer_put(&o->writer, path, len, entry, err);
}

static int out_clear(struct pl_ingest_out *o, const struct pl_ingest_source *s, struct pl_err *err)
{
    struct stat st;

    if (stat(s->local, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0; /* a file replaces its destination anyway; the walker reports a missing source */
    if (o->sorting)
        return record_add(o, PL_TREE_DELETE_PREFIX, s->dest, strlen(s->dest), NULL, err);
    o->cleared = s->dest;
    return pl_tree_ops_writer_delete_prefix(&o->writer, s->dest, strlen(s->dest), err);
}

/* ---- looking up ids in the store ---- */

static int asked_init(struct out_asked *a, struct pl_err *err)
{
    if (a->ids != NULL)
        return 0;
    a->ids = malloc(PL_INGEST_HAS_MAX * sizeof(*a->ids));
    a->slots = calloc(OUT_SLOTS, sizeof(*a->slots));
    return a->ids != NULL && a->slots != NULL ? 0 : pl_err_nomem(err);
}

/* Asks the sink for the collected ids and sets `missing` if it lacks one. */
static int out_ask(struct pl_ingest_out *o, struct pl_err *err)
{
    struct out_asked *a = &o->asked;
    const struct pl_pack_sink *sink = o->options->sink;
    _cleanup_free_ uint8_t *bits = NULL;
    int r = 0;

    if (a->n == 0)
        return 0;
    bits = calloc((a->n + 7) / 8, 1);
    if (bits == NULL)
        return pl_err_nomem(err);
    if (sink->has != NULL)
        r = sink->has(sink->self, a->ids, a->n, bits, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < a->n && !o->missing; i++)
        o->missing = (bits[i / 8] >> (i % 8) & 1) == 0;
    memset(a->slots, 0, OUT_SLOTS * sizeof(*a->slots));
    a->n = 0;
    return 0;
}

/* Adds an id to the set of ids to look up. When the set has PL_INGEST_HAS_MAX ids, looks them all up. */
static int out_want(struct pl_ingest_out *o, const struct pl_hash *id, struct pl_err *err)
{
    struct out_asked *a = &o->asked;
    uint64_t at;
    int r = asked_init(a, err);

    if (r < 0 || o->missing)
        return r;
    memcpy(&at, id->b, sizeof(at));
    for (at &= OUT_SLOTS - 1; a->slots[at] != 0; at = (at + 1) & (OUT_SLOTS - 1)) {
        if (pl_hash_eq(&a->ids[a->slots[at] - 1], id))
            return 0;
    }
    a->ids[a->n++] = *id;
    a->slots[at] = (uint32_t)a->n;
    return a->n == PL_INGEST_HAS_MAX ? out_ask(o, err) : 0;
}

/* ---- whole output ---- */

int pl_ingest_out_create(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                         struct pl_buf *ops, struct pl_ingest_out **ret, struct pl_err *err)
{
    _cleanup_(pl_ingest_out_destroyp) struct pl_ingest_out *o = calloc(1, sizeof(*o));
    int r;

    if (o == NULL)
        return pl_err_nomem(err);
    o->options = options;
    o->ops = ops;
    o->sorting = n > 1;
    o->unsorted.max = PL_INGEST_OPS_MAX_BYTES;
    pl_buf_clear(ops);
    r = pl_tree_ops_writer_init(&o->writer, ops, err);
    for (size_t i = 0; r == 0 && options->mirror && i < n; i++)
        r = out_clear(o, &sources[i], err);
    if (r == 0)
        *ret = TAKE_PTR(o);
    return r;
}

struct pl_ingest_out *pl_ingest_out_destroy(struct pl_ingest_out *o)
{
    if (o == NULL)
        return NULL;
    pl_tree_ops_writer_finish(&o->writer);
    pl_buf_finish(&o->unsorted);
    free(o->records);
    free(o->asked.ids);
    free(o->asked.slots);
    free(o);
    return NULL;
}

static int out_item(struct pl_ingest_out *o, const struct pl_walk_batch *b, const struct pl_walk_item *item, struct pl_err *err)
{
    int r = out_put(o, pl_walk_path(b, item), item->path_len, &item->entry, err);

    if (r < 0)
        return r;
    if (item->entry.kind != PL_KIND_DIR) {
        o->stats.files++;
        o->stats.bytes += item->entry.size;
        o->stats.cached += item->cached;
    }
    if (item->cached && item->entry.content != PL_CONTENT_INLINE && (r = out_want(o, &item->entry.id, err)) < 0)
        return r;
    if (item->fresh && o->options->stat_cache != NULL)
        r = pl_stat_cache_put(o->options->stat_cache, &item->key, &item->entry, b->read_ns, err);
    return r;
}

int pl_ingest_out_batch(struct pl_ingest_out *o, const struct pl_walk_batch *b, struct pl_err *err)
{
    for (uint32_t i = 0; i < b->n; i++) {
        int r = out_item(o, b, &b->items[i], err);

        if (r < 0)
            return r;
    }
    return 0;
}

int pl_ingest_out_end(struct pl_ingest_out *o, bool *ret_missing, struct pl_ingest_stats *stats, struct pl_err *err)
{
    int r;

    if ((r = out_ask(o, err)) < 0)
        return r;
    if (!o->missing && ((o->sorting && (r = records_write(o, err)) < 0) || (r = pl_tree_ops_writer_end(&o->writer, err)) < 0))
        return r;
    *ret_missing = o->missing;
    *stats = o->stats;
    return 0;
}
