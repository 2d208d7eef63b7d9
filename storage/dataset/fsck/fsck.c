/* Checks the packs first (fsck_packs.c), then walks from each root through trees, lists and chunks.
 * The ids of intact subtrees and lists are remembered, so that each is walked only once. */
#include "storage/dataset/fsck/fsck.h"

#include "storage/chunk/chunk_list.h"
#include "storage/dataset/commit/commit.h"
#include "storage/dataset/fsck/fsck_internal.h"
#include "storage/tree/tree_node.h"

#include <stdio.h>

#define VISITED_KEY_BYTES 16

/* A hash set of the ids of tree nodes and chunk lists that are intact with everything below them. Open
 * addressing; a slot of zeros is free. */
struct visited {
    uint8_t (*slots)[VISITED_KEY_BYTES];
    size_t cap, n;
};

struct fsck {
    struct pl_fsck common;
    struct visited visited;
    struct pl_map hurt_lists; /* map of the damaged chunk lists: key (list_key) → struct hurt_list */
    /* the root being checked; before its first finding is reported, the option `alive` is called for it */
    const struct pl_fsck_root *root;
    enum { NOT_ASKED, WANTED, DELETED } wanted;
};

bool pl_fsck_is_damage(int r)
{
    return r == PL_ECORRUPT || r == PL_EFORMAT || r == PL_ENOTFOUND || r == PL_ETOOBIG || r == PL_EPATH || r == PL_EIO;
}

int pl_fsck_tell(struct pl_fsck *f, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    f->report.findings++;
    return f->options->finding != NULL ? f->options->finding(f->options->self, finding, err) : 0;
}

int pl_fsck_stopped(const struct pl_fsck *f, struct pl_err *err)
{
    if (f->options->stop != NULL && f->options->stop(f->options->self))
        return pl_err_set(err, PL_ECANCELED, "the check was stopped");
    return 0;
}

/* ---- visited ids ---- */

static void visited_insert(struct visited *v, const uint8_t key[VISITED_KEY_BYTES])
{
    uint64_t at;

    memcpy(&at, key, sizeof(at));
    for (at &= v->cap - 1; memcmp(v->slots[at], (uint8_t[VISITED_KEY_BYTES]){0}, VISITED_KEY_BYTES) != 0;
         at = (at + 1) & (v->cap - 1)) {
        if (memcmp(v->slots[at], key, VISITED_KEY_BYTES) == 0)
            return;
    }
    memcpy(v->slots[at], key, VISITED_KEY_BYTES);
    v->n++;
}

static bool visited_has(const struct visited *v, const struct pl_hash *id)
{
    uint64_t at;

    if (v->n == 0)
        return false;
    memcpy(&at, id->b, sizeof(at));
    for (at &= v->cap - 1; memcmp(v->slots[at], (uint8_t[VISITED_KEY_BYTES]){0}, VISITED_KEY_BYTES) != 0;
         at = (at + 1) & (v->cap - 1)) {
        if (memcmp(v->slots[at], id->b, VISITED_KEY_BYTES) == 0)
            return true;
    }
    return false;
}

/* Adds an id. Without memory, or if the set is full, the id is not remembered; the subtree is then checked
 * again wherever it occurs again. */
static void visited_add(struct visited *v, const struct pl_hash *id)
{
    if (2 * (v->n + 1) > v->cap) {
        struct visited more = {.cap = v->cap > 0 ? v->cap * 2 : 1024};

        if (v->n >= PL_FSCK_VISITED_MAX)
            return;
        more.slots = calloc(more.cap, sizeof(*more.slots));
        if (more.slots == NULL)
            return;
        for (size_t i = 0; i < v->cap; i++) {
            if (memcmp(v->slots[i], (uint8_t[VISITED_KEY_BYTES]){0}, VISITED_KEY_BYTES) != 0)
                visited_insert(&more, v->slots[i]);
        }
        free(v->slots);
        *v = more;
    }
    visited_insert(v, id->b);
}

/* ---- records that roots need ---- */

/* Returns 1 if the record exists and is not known to be damaged; otherwise 0, with the reason in `why`. */
static int record_good(struct fsck *f, const struct pl_hash *id, struct pl_err *why)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    char hex[PL_HASH_HEX + 1];
    struct pl_location at;
    int r;

    if (pl_map_get(&f->common.damaged, id->b, PL_HASH_BYTES) != NULL) {
        (void)pl_err_set(why, PL_ECORRUPT, "record %s is damaged", pl_hash_hex(id, hex));
        return 0;
    }
    r = pl_store_locate(f->common.store, id, &at, why);
    if (r == 0 && pl_map_get(&f->common.bad_packs, at.pack.b, PL_HASH_BYTES) != NULL)
        r = pl_store_get(f->common.store, id, 0, &bytes, why);
    if (r < 0)
        (void)pl_err_wrap(why, r, "record %s", pl_hash_hex(id, hex));
    return r < 0 ? 0 : 1;
}

/* Reports a finding for the current root, unless the root was deleted meanwhile. Returns 1, or a negative
 * code if the check must end. */
static int hurt(struct fsck *f, const struct pl_hash *id, const char *path, const char *what, struct pl_err *err)
{
    struct pl_fsck_finding finding = {.what = what, .id = id, .commit = f->root->label, .path = path};
    const struct pl_fsck_options *o = f->common.options;
    int r;

    if (f->wanted == NOT_ASKED)
        f->wanted = o->alive == NULL || o->alive(o->self, f->root) ? WANTED : DELETED;
    if (f->wanted == DELETED)
        return 1;
    r = pl_fsck_tell(&f->common, &finding, err);
    return r < 0 ? r : 1;
}

/* A chunk list with a damaged or missing part. The list is walked only once, but a finding is reported for
 * each file that needs it. */
struct hurt_list {
    struct pl_hash bad;
    char why[PL_ERR_MSG_BYTES];
};

struct list_check {
    struct fsck *f;
    struct pl_hash bad;
    struct pl_err why; /* error of the first bad chunk; code 0 = none */
};

static int list_visit(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    struct list_check *c = arg;

    (void)bytes;
    if (is_chunk && c->why.code == 0 && record_good(c->f, id, &c->why) == 0)
        c->bad = *id;
    return is_chunk ? 0 : pl_fsck_stopped(&c->f->common, err);
}

/* Remembers what is wrong with a list, for the next file that uses it. Without memory the list is walked
 * again. */
static void hurt_note(struct fsck *f, const struct pl_hash *root, const struct pl_hash *bad, const char *why)
{
    struct hurt_list *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return;
    h->bad = *bad;
    (void)snprintf(h->why, sizeof(h->why), "%s", why);
    if (pl_map_put(&f->hurt_lists, root->b, PL_HASH_BYTES, h, NULL, NULL) < 0)
        free(h);
}

/* Returns the key under which a list is remembered: its id combined with the size that its entry says. */
static struct pl_hash list_key(const struct pl_entry *entry)
{
    struct pl_hash key = entry->id;

    for (size_t i = 0; i < sizeof(entry->size); i++)
        key.b[8 + i] ^= (uint8_t)(entry->size >> (8 * i));
    return key;
}

/* Checks the chunk list of a file: its nodes, its size and its chunks. */
static int check_list(struct fsck *f, const struct pl_entry *entry, const char *path, struct pl_err *err)
{
    struct pl_list_source source = {.self = f->common.store, .get = pl_store_node_get};
    _cleanup_(pl_list_seen_finish) struct pl_list_seen seen = {0};
    struct pl_hash key = list_key(entry);
    const struct hurt_list *known = pl_map_get(&f->hurt_lists, key.b, PL_HASH_BYTES);
    struct list_check c = {.f = f, .bad = entry->id};
    struct pl_err why = {0};
    uint64_t bytes = 0;
    int r;

    if (known != NULL)
        return hurt(f, &known->bad, path, known->why, err);
    if (visited_has(&f->visited, &key))
        return 0;
    r = pl_list_visit(&source, &entry->id, &seen, NULL, list_visit, &c, &bytes, &why);
    if (r == 0 && bytes != entry->size)
        r = pl_err_set(&why, PL_ECORRUPT, "its chunk list has %llu bytes, but its entry says %llu", (unsigned long long)bytes,
                       (unsigned long long)entry->size);
    if (r < 0 && !pl_fsck_is_damage(r)) {
        *err = why;
        return r;
    }
    if (r == 0 && c.why.code == 0) {
        visited_add(&f->visited, &key);
        return 0;
    }
    if (r == 0)
        why = c.why;
    else
        c.bad = entry->id;
    hurt_note(f, &key, &c.bad, why.msg);
    return hurt(f, &c.bad, path, why.msg, err);
}

/* Checks the content of one file. Returns 0 if it is intact, 1 if a finding was reported. */
static int check_entry(struct fsck *f, const struct pl_entry *entry, const char *path, struct pl_err *err)
{
    struct pl_err why = {0};

    f->common.report.files++;
    if (entry->content == PL_CONTENT_LIST)
        return check_list(f, entry, path, err);
    if (entry->content == PL_CONTENT_CHUNK && record_good(f, &entry->id, &why) == 0)
        return hurt(f, &entry->id, path, why.msg, err);
    return 0;
}

/* A node's place in a tree: item `i` of `parent` (NULL: it is the root). Its keys are greater than `after`
 * and at most `upto`; NULL = unknown. */
struct node_place {
    struct pl_hash id;
    const struct pl_node *parent;
    uint32_t i;
    const char *after;
    size_t after_len;
    const char *upto;
    uint64_t files;
};

/* Reports a damaged or missing tree node, with the range of paths that are below it. */
static int node_lost(struct fsck *f, const struct node_place *at, const char *why, struct pl_err *err)
{
    char what[PL_ERR_MSG_BYTES + 64];

    if (at->upto == NULL)
        (void)snprintf(what, sizeof(what), "%s; all files are affected", why);
    else
        (void)snprintf(what, sizeof(what), "%s; %llu files after \"%.300s\" up to this one are affected", why,
                       (unsigned long long)at->files, at->after != NULL ? at->after : "");
    return hurt(f, &at->id, at->upto, what, err);
}

static int check_node(struct fsck *f, const struct node_place *at, struct pl_err *err);

/* Checks the entries or children of a node. Returns 1 if a finding was reported, otherwise 0. */
static int check_children(struct fsck *f, const struct pl_node *node, const struct node_place *at, struct pl_err *err)
{
    int found = 0;

    for (uint32_t i = 0; i < node->n; i++) {
        int r;

        if (node->level == 0) {
            struct pl_entry entry = pl_node_entry(node, i);

            r = check_entry(f, &entry, pl_node_key(node, i), err);
        } else {
            struct pl_node_child child = pl_node_child(node, i);
            struct node_place place = {.id = child.id,
                                       .parent = node,
                                       .i = i,
                                       .after = i > 0 ? pl_node_key(node, i - 1) : at->after,
                                       .after_len = i > 0 ? pl_node_key_len(node, i - 1) : at->after_len,
                                       .upto = pl_node_key(node, i),
                                       .files = child.stats.files};

            r = check_node(f, &place, err);
        }
        if (r < 0)
            return r;
        found |= r;
    }
    return found;
}

/* Checks a node and everything below it. Returns 1 if a finding was reported, otherwise 0. */
static int check_node(struct fsck *f, const struct node_place *at, struct pl_err *err)
{
    struct pl_node_source source = {.self = f->common.store, .get = pl_store_node_get};
    _cleanup_(pl_node_finish) struct pl_node node = {0};
    struct pl_err why = {0};
    int r = pl_fsck_stopped(&f->common, err);

    if (r < 0 || visited_has(&f->visited, &at->id))
        return r;
    r = pl_node_load(&node, &source, &at->id, &why);
    if (r == 0 && at->parent != NULL && !pl_node_fits(&node, at->parent, at->i, at->after, at->after_len))
        r = pl_err_set(&why, PL_ECORRUPT, "a tree node of level %u does not match its entry in the node above, of level %u",
                       node.level, at->parent->level);
    if (r < 0 && !pl_fsck_is_damage(r)) {
        *err = why;
        return r;
    }
    /* the node could be read, from the cache or from another pack, but one pack has a damaged copy of its
     * record */
    if (r == 0 && pl_map_get(&f->common.damaged, at->id.b, PL_HASH_BYTES) != NULL)
        r = pl_err_set(&why, PL_ECORRUPT, "a tree node is damaged");
    if (r < 0)
        return node_lost(f, at, why.msg, err);
    f->common.report.nodes++;
    r = check_children(f, &node, at, err);
    if (r == 0)
        visited_add(&f->visited, &at->id);
    return r;
}

/* Checks a commit object and all its trees. */
static int check_commit(struct fsck *f, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_commit c;
    struct pl_err why = {0};
    int r;

    if (arena == NULL)
        return pl_err_nomem(err);
    f->common.report.commits++;
    r = pl_store_get(f->common.store, &f->root->object, PL_REC_COMMIT, &bytes, &why);
    if (r == 0)
        r = pl_commit_decode(bytes.data, bytes.len, arena, &c, &why);
    if (r < 0 && !pl_fsck_is_damage(r)) {
        *err = why;
        return r;
    }
    if (r < 0)
        return hurt(f, &f->root->object, NULL, why.msg, err);
    const struct pl_hash *trees[] = {&c.tree, &c.attributes, &c.table, &c.owner, &c.metrics, &c.logs};

    for (size_t i = 0; i < PL_ARRAY_SIZE(trees); i++) {
        struct node_place place = {.id = *trees[i]};

        if (!pl_hash_is_zero(trees[i]) && (r = check_node(f, &place, err)) < 0)
            return r;
    }
    return 0;
}

static int check_blob(struct fsck *f, struct pl_err *err)
{
    struct pl_err why = {0};

    f->common.report.blobs++;
    return record_good(f, &f->root->object, &why) ? 0 : hurt(f, &f->root->object, NULL, why.msg, err);
}

static int check_root(struct fsck *f, struct pl_err *err)
{
    struct node_place place = {.id = f->root->object};

    if (f->root->kind == PL_FSCK_COMMIT)
        return check_commit(f, err);
    if (f->root->kind == PL_FSCK_BLOB)
        return check_blob(f, err);
    return pl_hash_is_zero(&place.id) ? 0 : check_node(f, &place, err);
}

static int check_roots(struct fsck *f, const struct pl_fsck_root *roots, size_t n, struct pl_err *err)
{
    const struct pl_fsck_options *o = f->common.options;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        struct pl_fsck_progress progress = {.stage = "commits", .done = i + 1, .total = n};

        f->root = &roots[i];
        f->wanted = NOT_ASKED;
        r = check_root(f, err);
        if (r >= 0 && o->progress != NULL)
            r = o->progress(o->self, &progress, err);
    }
    return PL_MIN(r, 0);
}

static void fsck_finish(struct fsck *f)
{
    pl_map_finish(&f->common.damaged, NULL);
    pl_map_finish(&f->common.bad_packs, NULL);
    pl_map_finish(&f->hurt_lists, free);
    pthread_mutex_destroy(&f->common.lock);
    free(f->visited.slots);
}

int pl_fsck(struct pl_store *store, const struct pl_fsck_root *roots, size_t n, const struct pl_fsck_options *options,
            struct pl_fsck_report *sum, struct pl_err *err)
{
    _cleanup_(fsck_finish) struct fsck f = {.common = {.store = store, .options = options, .report = *sum}};
    struct pl_err mine = {0};
    struct pl_err *e = err != NULL ? err : &mine;
    int r;

    pthread_mutex_init(&f.common.lock, NULL);
    r = pl_fsck_packs(&f.common, e);
    r = r < 0 ? r : check_roots(&f, roots, n, e);
    *sum = f.common.report;
    return r;
}
