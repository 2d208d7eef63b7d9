/* plan_leaf: walks the tree of one input and collects its matches: files and directories that the glob
 * selects. Subtrees in which nothing can match are skipped. */
#include "pipelined/plan/plan_leaf.h"

#include "storage/tree/content_id.h"
#include "storage/tree/tree_walk.h"

#define PLAN_FIRST_MATCHES 16u

int pl_plan_memory_check(const struct plan_memory *m, size_t n, struct pl_err *err)
{
    size_t used = pl_arena_used(m->arena) + m->arrays;

    if (n > m->max || used > m->max - n)
        return pl_err_set(err, PL_ELIMIT, "the datums exceed the limit of %zu MiB for a plan", m->max >> 20);
    return 0;
}

int pl_plan_memory_alloc(struct plan_memory *m, size_t n, void **ret, struct pl_err *err)
{
    int r = pl_plan_memory_check(m, n, err);
    void *p;

    if (r < 0)
        return r;
    p = pl_arena_alloc(m->arena, n);
    if (p == NULL)
        return pl_err_nomem(err);
    *ret = p;
    return 0;
}

static int leaf_grow(struct plan_leaf_walk *w, struct pl_err *err)
{
    size_t cap = w->cap == 0 ? PLAN_FIRST_MATCHES : w->cap * 2;
    struct pl_plan_match *matches;
    int r;

    if (w->to->n < w->cap)
        return 0;
    r = pl_plan_memory_check(w->memory, (cap - w->cap) * sizeof(*matches), err);
    if (r < 0)
        return r;
    matches = realloc(w->to->matches, cap * sizeof(*matches));
    if (matches == NULL)
        return pl_err_nomem(err);
    w->memory->arrays += (cap - w->cap) * sizeof(*matches);
    w->to->matches = matches;
    w->cap = cap;
    return 0;
}

/* The captures and the path are stored together; the captures come first, because of their alignment. */
int pl_plan_leaf_add(struct plan_leaf_walk *w, const char *path, size_t len, const struct plan_found *found, uint8_t is,
                     struct pl_err *err)
{
    size_t n_captures = pl_glob_captures(w->glob), spans = n_captures * sizeof(struct pl_span);
    struct pl_plan_match *m;
    void *p = NULL;
    int r;

    r = leaf_grow(w, err);
    if (r == 0)
        r = pl_plan_memory_alloc(w->memory, spans + len + 1, &p, err);
    if (r < 0)
        return r;
    if (n_captures > 0)
        memcpy(p, w->captures, spans);
    memcpy((char *)p + spans, path, len);
    m = &w->to->matches[w->to->n++];
    *m = (struct pl_plan_match){.content = found->content, .path = (char *)p + spans, .captures = p, .path_len = (uint16_t)len};
    m->kind = found->kind;
    m->is = is;
    return 0;
}

bool pl_plan_leaf_takes(void *self, const char *path, size_t len)
{
    const struct plan_leaf_walk *w = self;

    return pl_glob_set_takes(w->files, path, len);
}

/* Adds a matching directory with its content id. "" is the root; call it for the root only if the tree is
 * not empty. */
static int leaf_add_dir(struct plan_leaf_walk *w, const char *dir, size_t len, struct pl_err *err)
{
    struct plan_found found = {.kind = PL_KIND_DIR};
    char name[PL_PATH_MAX_BYTES + 1];
    uint64_t files = 0;
    int r;

    memcpy(name, dir, len);
    name[len] = '\0';
    r = pl_content_id_dir(w->from->source, &w->from->root, name, w->files != NULL ? pl_plan_leaf_takes : NULL, w, &found.content,
                          &files, err);
    if (r < 0 || (w->files != NULL && files == 0))
        return r;
    return pl_plan_leaf_add(w, name, len, &found, 0, err);
}

int pl_plan_leaf_file(const struct plan_leaf_walk *w, const char *path, size_t len, const struct pl_entry *entry,
                      struct plan_found *ret, struct pl_err *err)
{
    const char *slash = memrchr(path, '/', len);
    size_t name = slash != NULL ? (size_t)(slash + 1 - path) : 0;

    ret->kind = 0;
    if (entry == NULL || entry->kind == PL_KIND_DIR ||
        (w->files != NULL && !pl_glob_set_takes(w->files, path + name, len - name)))
        return 0;
    ret->kind = entry->kind;
    return pl_content_id_file(entry, &ret->content, err);
}

static int leaf_add_file(struct plan_leaf_walk *w, const struct pl_tree_item *item, struct pl_err *err)
{
    struct plan_found found = {0};
    int r = pl_plan_leaf_file(w, item->path, item->path_len, &item->entry, &found, err);

    return r < 0 || found.kind == 0 ? r : pl_plan_leaf_add(w, item->path, item->path_len, &found, 0, err);
}

/* Adds the matching directories above a file, except those that contain the previous file too, which were
 * tested already. `ret_skip`: length of the first directory path below which nothing can match; 0 = none. */
static int leaf_dirs(struct plan_leaf_walk *w, const struct pl_tree_item *item, size_t *ret_skip, struct pl_err *err)
{
    size_t common = 0;

    while (common < item->path_len && common < w->before_len && item->path[common] == w->before[common])
        common++;
    *ret_skip = 0;
    for (size_t i = 0; i < item->path_len; i++) {
        unsigned is;
        int r;

        if (item->path[i] != '/' || i < common)
            continue;
        is = pl_glob_test(w->glob, item->path, i, w->captures);
        if ((is & PL_GLOB_MATCH) != 0) {
            r = leaf_add_dir(w, item->path, i, err);
            if (r < 0)
                return r;
        }
        if ((is & PL_GLOB_BELOW) == 0) {
            *ret_skip = i + 1;
            return 0;
        }
    }
    return 0;
}

static int leaf_item(struct plan_leaf_walk *w, struct pl_tree_cursor *cursor, const struct pl_tree_item *item, struct pl_err *err)
{
    size_t skip;
    int r;

    r = leaf_dirs(w, item, &skip, err);
    if (r < 0)
        return r;
    memcpy(w->before, item->path, item->path_len);
    w->before_len = item->path_len;
    if (skip > 0)
        return pl_tree_cursor_seek_past(cursor, w->before, skip, err);
    if (pl_glob_match(w->glob, item->path, item->path_len, w->captures))
        return leaf_add_file(w, item, err);
    return 0;
}

/* Only files are tested here; directories are found through the files below them. */
int pl_plan_leaf_walk(struct plan_leaf_walk *w, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    size_t prefix_len;
    const char *prefix = pl_glob_prefix(w->glob, &prefix_len);
    int r;

    r = pl_tree_cursor_create(w->from->source, &w->from->root, prefix, prefix_len, &cursor, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        if (item.entry.kind == PL_KIND_DIR)
            continue; /* an empty directory is not a match, and does not make its parent one */
        if (pl_glob_is_root(w->glob))
            return leaf_add_dir(w, "", 0, err);
        r = leaf_item(w, cursor, &item, err);
        if (r < 0)
            return r;
    }
    return r;
}

int pl_plan_leaf_open(struct plan_leaf_walk *w, const struct pl_input *input, const struct pl_plan_input *from,
                      struct plan_memory *memory, struct pl_plan_leaf *to, struct pl_err *err)
{
    int r;

    *w = (struct plan_leaf_walk){.from = from, .memory = memory, .to = to};
    r = pl_glob_compile(input->glob, &w->glob, err);
    if (r == 0 && input->n_files > 0)
        r = pl_glob_set_compile(input->files, input->n_files, &w->files, err);
    return r;
}

void pl_plan_leaf_close(struct plan_leaf_walk *w)
{
    pl_glob_destroy(w->glob);
    pl_glob_set_destroy(w->files);
}

int pl_plan_leaf_match(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                       struct pl_plan_leaf *ret, struct pl_err *err)
{
    struct plan_leaf_walk w;
    int r = pl_plan_leaf_open(&w, input, from, memory, ret, err);

    if (r == 0)
        r = pl_plan_leaf_walk(&w, err);
    /* a `previous` input without a commit is an empty directory */
    if (r == 0 && (input->previous || from->unknown) && ret->n == 0)
        r = pl_plan_leaf_add(&w, "", 0, &(struct plan_found){.kind = PL_KIND_DIR}, 0, err);
    pl_plan_leaf_close(&w);
    return r < 0 ? pl_err_wrap(err, r, "input %s", input->name) : 0;
}

int pl_plan_leaf_params(const struct pl_input *input, struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err)
{
    size_t n = input->n_combinations;
    int r = pl_plan_memory_check(memory, n * sizeof(*ret->matches), err);

    if (r < 0)
        return r;
    ret->matches = calloc(n + 1, sizeof(*ret->matches));
    if (ret->matches == NULL)
        return pl_err_nomem(err);
    memory->arrays += n * sizeof(*ret->matches);
    for (; ret->n < n; ret->n++) {
        struct pl_plan_match *m = &ret->matches[ret->n];

        m->path = input->combinations[ret->n].json;
        m->path_len = (uint16_t)strlen(m->path);
        m->kind = PL_KIND_FILE;
        pl_hash_sha256(m->path, m->path_len, &m->content);
    }
    return 0;
}

/* Returns the byte at offset `at` of the match's enumeration key; −1 past its end. */
static int match_byte(const struct pl_plan_match *m, size_t at)
{
    if (at < m->path_len)
        return (uint8_t)m->path[at];
    return at == m->path_len && pl_plan_is_folder(m) ? '/' : -1;
}

int pl_plan_match_cmp(const struct pl_plan_match *a, const struct pl_plan_match *b)
{
    size_t n = PL_MIN(a->path_len, b->path_len);
    int c = memcmp(a->path, b->path, n);

    for (size_t at = n; c == 0 && at <= n + 1; at++)
        c = match_byte(a, at) - match_byte(b, at);
    return c;
}
