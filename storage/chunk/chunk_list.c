/* chunk_list: the builder collects the entries of each level and writes an object as soon as its end is
 * known. Cursor and walk read one object per level at a time. */
#include "storage/chunk/chunk_list.h"

#include "storage/chunk/chunk.h"

#include <limits.h>

#define LIST_VERSION       1u
#define LIST_LEAF_BYTES    (PL_HASH_BYTES + 3u)
#define LIST_INNER_BYTES   (PL_HASH_BYTES + 8u)
#define LIST_CUT_THRESHOLD (UINT64_MAX / 300)

static const uint8_t list_magic[4] = {'P', 'L', 'C', 'L'};

struct list_item {
    struct pl_hash id;
    uint64_t bytes;
};

/* A level of the list that is being built: the entries that are not in an object yet. `cutting` is set once
 * there are more entries than fit in one object. */
struct list_level {
    struct list_item *items;
    size_t n, cap;
    bool cutting;
};

struct pl_list_builder {
    struct pl_list_sink sink;
    struct list_level levels[PL_LIST_MAX_LEVEL + 1];
    struct pl_buf bytes;
    uint64_t total;
};

int pl_list_builder_create(const struct pl_list_sink *sink, struct pl_list_builder **ret, struct pl_err *err)
{
    struct pl_list_builder *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return pl_err_nomem(err);
    b->sink = *sink;
    *ret = b;
    return 0;
}

struct pl_list_builder *pl_list_builder_destroy(struct pl_list_builder *b)
{
    if (b == NULL)
        return NULL;
    for (size_t i = 0; i < PL_ARRAY_SIZE(b->levels); i++)
        free(b->levels[i].items);
    pl_buf_finish(&b->bytes);
    free(b);
    return NULL;
}

static int list_push(struct list_level *level, const struct list_item *item, struct pl_err *err)
{
    if (level->n == level->cap) {
        size_t cap = level->cap != 0 ? level->cap * 2 : 64;
        struct list_item *items = reallocarray(level->items, cap, sizeof(*items));

        if (items == NULL)
            return pl_err_nomem(err);
        level->items = items;
        level->cap = cap;
    }
    level->items[level->n++] = *item;
    return 0;
}

/* Encodes entries as a list object in `b`. */
static int list_encode(struct pl_buf *b, unsigned level, const struct list_item *items, size_t n, struct pl_err *err)
{
    int r;

    pl_buf_clear(b);
    r = pl_buf_reserve(b, 16 + n * LIST_INNER_BYTES, err);
    if (r == 0)
        r = pl_buf_add(b, list_magic, sizeof(list_magic), err);
    if (r == 0)
        r = pl_buf_add_u8(b, LIST_VERSION, err);
    if (r == 0)
        r = pl_buf_add_u8(b, (uint8_t)level, err);
    if (r == 0)
        r = pl_buf_add_varint(b, n, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        size_t width = level == 0 ? 3 : 8;
        uint8_t *p = b->data + b->len;

        memcpy(p, items[i].id.b, PL_HASH_BYTES);
        for (size_t k = 0; k < width; k++)
            p[PL_HASH_BYTES + k] = (uint8_t)(items[i].bytes >> (8 * k));
        b->len += PL_HASH_BYTES + width;
    }
    return r;
}

static bool list_ends_with(const struct list_item *item, unsigned level, size_t count)
{
    return count >= PL_LIST_MAX_ENTRIES ||
           (count >= PL_LIST_MIN_ENTRIES && pl_xxh64(item->id.b, PL_HASH_BYTES, level) < LIST_CUT_THRESHOLD);
}

/* Stores the first `n` entries of a level as one object; `ret` receives its entry for the next level. */
static int list_put(struct pl_list_builder *b, unsigned level, size_t n, struct list_item *ret, struct pl_err *err)
{
    struct list_level *l = &b->levels[level];
    struct list_item up = {0};
    int r;

    r = list_encode(&b->bytes, level, l->items, n, err);
    if (r == 0)
        r = b->sink.put(b->sink.self, b->bytes.data, b->bytes.len, &up.id, err);
    if (r < 0)
        return pl_err_wrap(err, r, "put chunk list");
    for (size_t i = 0; i < n; i++)
        up.bytes += l->items[i].bytes;
    memmove(l->items, l->items + n, (l->n - n) * sizeof(*l->items));
    l->n -= n;
    *ret = up;
    return 0;
}

static int list_add(struct pl_list_builder *b, unsigned level, const struct list_item *item, struct pl_err *err);

/* Stores every list object that ends within the entries of the level. Entries before `from` were checked
 * earlier. With `all`, also stores the entries that are left as the last object. */
static int list_cut(struct pl_list_builder *b, unsigned level, size_t from, bool all, struct pl_err *err)
{
    struct list_level *l = &b->levels[level];
    int r = 0;

    for (size_t i = from; i < l->n && r == 0; i++) {
        struct list_item up;

        if (!list_ends_with(&l->items[i], level, i + 1) && !(all && i + 1 == l->n))
            continue;
        r = list_put(b, level, i + 1, &up, err);
        if (r == 0)
            r = list_add(b, level + 1, &up, err);
        i = SIZE_MAX; /* the next entry is now the first */
    }
    return r;
}

static int list_add(struct pl_list_builder *b, unsigned level, const struct list_item *item, struct pl_err *err)
{
    struct list_level *l = &b->levels[level];
    int r;

    if (level > PL_LIST_MAX_LEVEL)
        return pl_err_set(err, PL_ETOOBIG, "a file has more chunks than a list can hold");
    r = list_push(l, item, err);
    if (r < 0)
        return r;
    if (l->cutting)
        return list_cut(b, level, l->n - 1, false, err);
    if (l->n <= PL_LIST_MAX_ENTRIES)
        return 0;
    l->cutting = true;
    return list_cut(b, level, 0, false, err);
}

int pl_list_builder_add(struct pl_list_builder *b, const struct pl_hash *chunk, size_t len, struct pl_err *err)
{
    struct list_item item = {.id = *chunk, .bytes = len};

    if (len == 0 || len > PL_CHUNK_MAX_BYTES)
        return pl_err_set(err, PL_EINVAL, "a chunk has %zu bytes; accepted: 1 to %zu", len, PL_CHUNK_MAX_BYTES);
    if (b->total + len > PL_FILE_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "the file has more than %llu bytes, which is the limit",
                          (unsigned long long)PL_FILE_MAX_BYTES);
    b->total += len;
    return list_add(b, 0, &item, err);
}

int pl_list_builder_finish(struct pl_list_builder *b, struct pl_hash *ret_root, uint64_t *ret_bytes, struct pl_err *err)
{
    struct list_item root;
    unsigned level = 0;
    int r;

    if (b->total == 0)
        return pl_err_set(err, PL_EINVAL, "the chunk list has no chunks");
    for (; level <= PL_LIST_MAX_LEVEL && b->levels[level].cutting; level++) {
        r = list_cut(b, level, b->levels[level].n > 0 ? b->levels[level].n - 1 : 0, true, err);
        if (r < 0)
            return r;
        b->levels[level].cutting = false;
    }
    r = list_put(b, level, b->levels[level].n, &root, err);
    if (r < 0)
        return r;
    *ret_root = root.id;
    if (ret_bytes != NULL)
        *ret_bytes = b->total;
    b->total = 0;
    return 0;
}

void pl_list_entry(const struct pl_list *list, size_t i, struct pl_hash *ret_id, uint64_t *ret_bytes)
{
    size_t width = list->level == 0 ? 3 : 8;
    const uint8_t *p = list->entries + i * (PL_HASH_BYTES + width);

    memcpy(ret_id->b, p, PL_HASH_BYTES);
    *ret_bytes = 0;
    for (size_t k = 0; k < width; k++)
        *ret_bytes |= (uint64_t)p[PL_HASH_BYTES + k] << (8 * k);
}

/* Sums up the entries' lengths, each of which must be in its valid range. */
static int list_sum(struct pl_list *list, struct pl_err *err)
{
    uint64_t max = list->level == 0 ? PL_CHUNK_MAX_BYTES : PL_FILE_MAX_BYTES;

    for (size_t i = 0; i < list->count; i++) {
        struct pl_hash id;
        uint64_t len;

        pl_list_entry(list, i, &id, &len);
        if (len == 0 || len > max)
            return pl_err_set(err, PL_ECORRUPT, "entry %zu of a chunk list has an invalid length: %llu bytes", i,
                              (unsigned long long)len);
        list->bytes += len;
    }
    if (list->bytes > PL_FILE_MAX_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "a chunk list describes a file that is too large: %llu bytes",
                          (unsigned long long)list->bytes);
    return 0;
}

int pl_list_decode(const void *bytes, size_t n, struct pl_list *ret, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(bytes, n);
    struct pl_list list = {0};
    const uint8_t *magic = pl_cursor_bytes(&c, sizeof(list_magic));
    uint8_t version = pl_cursor_u8(&c);
    uint64_t count;
    int r;

    if (magic == NULL || memcmp(magic, list_magic, sizeof(list_magic)) != 0)
        return pl_err_set(err, PL_ECORRUPT, "not a chunk list: the magic is missing");
    if (version > LIST_VERSION)
        return pl_err_set(err, PL_EFORMAT, "a chunk list has version %u; this program supports %u", version, LIST_VERSION);
    list.level = pl_cursor_u8(&c);
    count = pl_cursor_varint(&c);
    if (c.failed || version != LIST_VERSION || list.level > PL_LIST_MAX_LEVEL || count == 0 || count > PL_LIST_MAX_ENTRIES ||
        pl_cursor_left(&c) != count * (list.level == 0 ? LIST_LEAF_BYTES : LIST_INNER_BYTES))
        return pl_err_set(err, PL_ECORRUPT, "the chunk list is damaged");
    list.count = (size_t)count;
    list.entries = c.p;
    r = list_sum(&list, err);
    if (r < 0)
        return r;
    *ret = list;
    return 0;
}

/* The list that is read at one level, and the index of its next entry. */
struct cursor_level {
    struct pl_buf bytes;
    struct pl_list list;
    size_t next;
};

struct pl_list_cursor {
    struct pl_list_source source;
    /* levels[i]: list of level i on the path to the chunk */
    struct cursor_level levels[PL_LIST_MAX_LEVEL + 1];
    unsigned top;
    uint64_t offset; /* offset in the file of the next chunk */
};

/* Reads a list object into the cursor. Checks that it has the level and size that its parent states. `level`
 * UINT_MAX: the list is the root, which may have any level and size. */
static int cursor_load(struct pl_list_cursor *c, const struct pl_hash *id, unsigned level, uint64_t bytes, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    struct pl_list list;
    char hex[PL_HASH_HEX + 1];
    int r;

    r = c->source.get(c->source.self, id, &raw, err);
    if (r == 0)
        r = pl_list_decode(raw.data, raw.len, &list, err);
    if (r == 0 && level != UINT_MAX && (list.level != level || list.bytes != bytes))
        r = pl_err_set(err, PL_ECORRUPT, "its level or size differs from what its parent states");
    if (r < 0)
        return pl_err_wrap(err, r, "chunk list %.12s", pl_hash_hex(id, hex));
    if (level == UINT_MAX)
        c->top = list.level;
    pl_buf_finish(&c->levels[list.level].bytes);
    c->levels[list.level] = (struct cursor_level){.bytes = raw, .list = list};
    raw = (struct pl_buf){0};
    return 0;
}

int pl_list_cursor_open(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_cursor **ret,
                        struct pl_err *err)
{
    _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL)
        return pl_err_nomem(err);
    c->source = *source;
    r = cursor_load(c, root, UINT_MAX, 0, err);
    if (r == 0)
        r = pl_list_cursor_seek(c, 0, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

struct pl_list_cursor *pl_list_cursor_close(struct pl_list_cursor *c)
{
    if (c == NULL)
        return NULL;
    for (size_t i = 0; i < PL_ARRAY_SIZE(c->levels); i++)
        pl_buf_finish(&c->levels[i].bytes);
    free(c);
    return NULL;
}

uint64_t pl_list_cursor_bytes(const struct pl_list_cursor *c)
{
    return c->levels[c->top].list.bytes;
}

int pl_list_cursor_seek(struct pl_list_cursor *c, uint64_t offset, struct pl_err *err)
{
    uint64_t at = 0;

    if (offset >= pl_list_cursor_bytes(c)) {
        for (unsigned level = 0; level <= c->top; level++)
            c->levels[level].next = c->levels[level].list.count;
        c->offset = pl_list_cursor_bytes(c);
        return 0;
    }
    for (unsigned level = c->top;; level--) {
        struct cursor_level *l = &c->levels[level];
        struct pl_hash id;
        uint64_t len;
        int r;

        /* the loop ends within the list, because the sum of the entries' lengths was checked */
        for (l->next = 0;; l->next++) {
            pl_list_entry(&l->list, l->next, &id, &len);
            if (offset - at < len)
                break;
            at += len;
        }
        if (level == 0)
            break;
        l->next++;
        r = cursor_load(c, &id, level - 1, len, err);
        if (r < 0)
            return r;
    }
    c->offset = at;
    return 0;
}

int pl_list_cursor_next(struct pl_list_cursor *c, struct pl_hash *ret_chunk, uint64_t *ret_offset, size_t *ret_len,
                        struct pl_err *err)
{
    struct pl_hash id;
    unsigned level = 0;
    uint64_t len;

    while (level <= c->top && c->levels[level].next == c->levels[level].list.count)
        level++;
    if (level > c->top)
        return 0;
    for (; level > 0; level--) {
        int r;

        pl_list_entry(&c->levels[level].list, c->levels[level].next, &id, &len);
        r = cursor_load(c, &id, level - 1, len, err);
        if (r < 0)
            return r;
        c->levels[level].next++;
    }
    pl_list_entry(&c->levels[0].list, c->levels[0].next++, &id, &len);
    *ret_chunk = id;
    if (ret_offset != NULL)
        *ret_offset = c->offset;
    *ret_len = (size_t)len;
    c->offset += len;
    return 1;
}

struct list_visit {
    const struct pl_list_source *source;
    struct pl_list_seen *seen;
    struct pl_effort *effort;
    int (*visit)(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err);
    void *arg;
};

void pl_list_seen_finish(struct pl_list_seen *s)
{
    pl_map_finish(&s->lists, NULL);
}

/* Encodes the level and size of a list in a pointer, to be stored as a value in the map of visited lists.
 * The pointer is never NULL, because a list describes at least one byte. */
static void *list_found(unsigned level, uint64_t bytes)
{
    return (void *)(uintptr_t)(bytes << 3 | level);
}

static int list_mismatch(const struct pl_hash *id, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    return pl_err_set(err, PL_ECORRUPT, "chunk list %.12s: its level or size differs from what its parent states",
                      pl_hash_hex(id, hex));
}

static int list_visit_entries(const struct list_visit *v, const struct pl_list *list, struct pl_err *err);

/* Visits a list that was not visited before. `level` is UINT_MAX for the root; `bytes` is the size that the
 * parent states. */
static int list_visit_new(const struct list_visit *v, const struct pl_hash *id, unsigned level, uint64_t bytes,
                          uint64_t *ret_bytes, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf raw = {0};
    struct pl_list list;
    char hex[PL_HASH_HEX + 1];
    int r;

    r = v->source->get(v->source->self, id, &raw, err);
    if (r == 0)
        r = pl_list_decode(raw.data, raw.len, &list, err);
    if (r < 0)
        return pl_err_wrap(err, r, "chunk list %.12s", pl_hash_hex(id, hex));
    if (level != UINT_MAX && (list.level != level || list.bytes != bytes))
        return list_mismatch(id, err);
    r = v->visit(v->arg, id, false, list.bytes, err);
    if (r >= 0)
        r = list_visit_entries(v, &list, err);
    if (r >= 0)
        r = pl_map_put(&v->seen->lists, id->b, PL_HASH_BYTES, list_found(list.level, list.bytes), NULL, err);
    *ret_bytes = list.bytes;
    return PL_MIN(r, 0);
}

/* Visits the entries of a list. The recursion is at most PL_LIST_MAX_LEVEL deep, because each list has a
 * lower level than its parent. */
static int list_visit_entries(const struct list_visit *v, const struct pl_list *list, struct pl_err *err)
{
    int r = pl_effort_add(v->effort, list->count, err);

    for (size_t i = 0; i < list->count && r >= 0; i++) {
        struct pl_hash child;
        uint64_t len;
        void *found;

        pl_list_entry(list, i, &child, &len);
        if (list->level == 0) {
            r = v->visit(v->arg, &child, true, len, err);
            continue;
        }
        found = pl_map_get(&v->seen->lists, child.b, PL_HASH_BYTES);
        if (found == NULL)
            r = list_visit_new(v, &child, list->level - 1u, len, &len, err);
        else if (found != list_found(list->level - 1u, len))
            r = list_mismatch(&child, err);
    }
    return r;
}

int pl_list_visit(const struct pl_list_source *source, const struct pl_hash *root, struct pl_list_seen *seen,
                  struct pl_effort *effort,
                  int (*visit)(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err), void *arg,
                  uint64_t *ret_bytes, struct pl_err *err)
{
    struct list_visit v = {source, seen, effort, visit, arg};
    void *found = pl_map_get(&seen->lists, root->b, PL_HASH_BYTES);
    uint64_t bytes = (uintptr_t)found >> 3;
    int r = pl_effort_add(effort, 1, err);

    if (r == 0 && found == NULL)
        r = list_visit_new(&v, root, UINT_MAX, 0, &bytes, err);
    if (r == 0 && ret_bytes != NULL)
        *ret_bytes = bytes;
    return r;
}
