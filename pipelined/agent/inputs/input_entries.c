/* Reads entries from a tree cursor in batches. Tree nodes are read through a small cache that is searched
 * linearly. */
#include "pipelined/agent/inputs/input_entries.h"

#include "storage/pack/pack_format.h"

struct pl_node_cache_slot {
    struct pl_hash id;
    struct pl_buf bytes;
    uint64_t used; /* value of the cache's clock at the last use; 0 = empty */
};

int pl_node_cache_init(struct pl_node_cache *c, const struct pl_chunk_reader *reader, size_t n, struct pl_err *err)
{
    *c = (struct pl_node_cache){.reader = *reader, .n = n};
    c->slots = calloc(n, sizeof(*c->slots));
    return c->slots ? 0 : pl_err_nomem(err);
}

void pl_node_cache_finish(struct pl_node_cache *c)
{
    for (size_t i = 0; c->slots && i < c->n; i++)
        pl_buf_finish(&c->slots[i].bytes);
    free(c->slots);
    c->slots = NULL;
}

/* Reads a node through the cache: searches it linearly by hash; if the node is missing, reads it and replaces
 * the least recently used entry. */
static int node_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_node_cache *c = self;
    struct pl_node_cache_slot *slot = NULL, *oldest = &c->slots[0];
    int r = 0;

    for (size_t i = 0; i < c->n && !slot; i++) {
        if (c->slots[i].used && pl_hash_eq(&c->slots[i].id, id))
            slot = &c->slots[i];
        else if (c->slots[i].used < oldest->used)
            oldest = &c->slots[i];
    }
    if (!slot) {
        slot = oldest;
        slot->used = 0;
        r = c->reader.get(c->reader.self, id, PL_REC_NODE, &slot->bytes, err);
        slot->id = *id;
    }
    if (r < 0)
        return r;
    slot->used = ++c->clock;
    return pl_buf_add(ret, slot->bytes.data, slot->bytes.len, err);
}

struct pl_node_source pl_node_cache_source(struct pl_node_cache *c)
{
    return (struct pl_node_source){.self = c, .get = node_get};
}

int pl_input_entries_open(struct pl_node_cache *nodes, const struct pl_uplink_user *user, struct pl_file_cache *cache,
                          const struct pl_agent_protocol_input *in, struct pl_input_entries *ret, struct pl_err *err)
{
    const struct pl_node_source source = pl_node_cache_source(nodes);
    char prefix[PL_PATH_MAX_BYTES + 2];
    size_t len = strlen(in->path);
    int r = 0;

    *ret = (struct pl_input_entries){.user = user, .cache = cache};
    if (len > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "the path of the match is longer than %d bytes", PL_PATH_MAX_BYTES);
    memcpy(prefix, in->path, len + 1);
    if (len > 0)
        memcpy(prefix + len++, "/", 2);
    ret->strip = len;
    if (in->files)
        r = pl_glob_set_compile(in->files, in->n_files, &ret->files, err);
    if (r == 0)
        r = pl_tree_cursor_create(&source, &in->root, prefix, len, &ret->cursor, err);
    if (r < 0)
        pl_input_entries_finish(ret);
    return r;
}

void pl_input_entries_finish(struct pl_input_entries *s)
{
    pl_tree_cursor_destroy(s->cursor);
    pl_glob_set_destroy(s->files);
    pl_buf_finish(&s->paths);
    free(s->entries);
    *s = (struct pl_input_entries){0};
}

static bool wanted(const struct pl_input_entries *s, const struct pl_tree_item *item)
{
    if (!s->files)
        return true;
    return item->entry.kind != PL_KIND_DIR && pl_glob_set_takes(s->files, item->path + s->strip, item->path_len - s->strip);
}

void pl_input_entries_fetch(const struct pl_uplink_user *user, struct pl_file_cache *cache, const struct pl_entry *entries,
                            size_t n)
{
    _cleanup_free_ struct pl_hash *ids = user && n > 0 ? malloc(n * sizeof(*ids)) : NULL;
    size_t wanted = 0;

    if (!ids)
        return;
    if (cache && pl_daemon_client_reads_files(user))
        /* announce all chunks to a store on this machine: that is cheaper than looking each file up in the
         * cache */
        cache = NULL;
    for (size_t i = 0; i < n; i++)
        if ((entries[i].content == PL_CONTENT_CHUNK || entries[i].content == PL_CONTENT_LIST) &&
            !(cache && pl_file_cache_has(cache, &entries[i])))
            ids[wanted++] = entries[i].id;
    pl_daemon_client_prefetch(user, ids, wanted);
}

static int grow(struct pl_input_entries *s, struct pl_err *err)
{
    size_t cap = s->cap ? 4 * s->cap : 16;
    struct pl_entry *more = realloc(s->entries, cap * sizeof(*more));

    if (!more)
        return pl_err_nomem(err);
    s->entries = more;
    s->cap = cap;
    return 0;
}

/* Reads the next batch of entries and announces their chunks to the daemon's store. */
static int read_ahead(struct pl_input_entries *s, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = 1;

    s->n = s->next = s->path_at = 0;
    pl_buf_clear(&s->paths);
    while (s->n < PL_INPUT_ENTRIES_AHEAD && (r = pl_tree_cursor_next(s->cursor, &item, err)) > 0) {
        if (!wanted(s, &item))
            continue;
        r = s->n < s->cap ? 0 : grow(s, err);
        if (r == 0)
            r = pl_buf_add(&s->paths, item.path, item.path_len + 1, err);
        if (r < 0)
            break;
        s->entries[s->n++] = item.entry;
    }
    if (r >= 0)
        pl_input_entries_fetch(s->user, s->cache, s->entries, s->n);
    return r < 0 ? r : 0;
}

int pl_input_entries_next(struct pl_input_entries *s, const char **ret_path, size_t *ret_len, struct pl_entry *ret,
                          struct pl_err *err)
{
    int r = pl_uplink_check(s->user, err);

    if (r == 0 && s->next == s->n)
        r = read_ahead(s, err);
    if (r < 0 || s->n == 0)
        return r;
    *ret_path = (const char *)s->paths.data + s->path_at;
    *ret_len = strlen(*ret_path);
    *ret = s->entries[s->next++];
    s->path_at += *ret_len + 1;
    return 1;
}

static int entries_next(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    return pl_input_entries_next(self, ret_path, ret_len, ret, err);
}

struct pl_entry_source pl_input_entries_entries(struct pl_input_entries *s)
{
    return (struct pl_entry_source){.self = s, .next = entries_next};
}
