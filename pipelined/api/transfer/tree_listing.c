/* Walks the tree's files with a cursor and derives directories from their paths: a directory is handled
 * when the cursor reaches the first file in it. */
#include "pipelined/api/transfer/tree_listing.h"

#include "storage/base/clock.h"

#include <stdio.h>

enum { TAKE = 1, ENTER = 2 };

struct walk {
    const struct pl_tree_listing *l;
    struct pl_tree_cursor *cursor;
    char prefix[PL_PATH_MAX_BYTES + 2]; /* common prefix of all keys in the list */
    size_t base_len;                    /* length of "base/" */
    char place[PL_PATH_MAX_BYTES + 2];  /* the last path that was handled */
    size_t place_len;
    size_t n;
    unsigned visits;
    uint64_t steps;
};

static bool starts_with(const char *s, size_t len, const char *prefix, size_t prefix_len)
{
    return len >= prefix_len && memcmp(s, prefix, prefix_len) == 0;
}

/* Returns true if the last segment of the path has the text; ASCII letters of both cases are equal. */
static bool is_found(const char *find, const char *path, size_t len)
{
    const char *slash = memrchr(path, '/', len);
    const size_t n = strlen(find), begin = slash ? (size_t)(slash + 1 - path) : 0;

    for (size_t at = begin; at + n <= len; at++) {
        size_t same = 0;

        while (same < n) {
            const char c = path[at + same];

            if ((c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c) != find[same])
                break;
            same++;
        }
        if (same == n)
            return true;
    }
    return false;
}

/* Returns whether to list the directory (TAKE), to enter it (ENTER), both or neither. `path` is without the
 * final slash. */
static unsigned wants_dir(const struct pl_tree_listing *l, const char *path, size_t len)
{
    unsigned bits;

    if (l->find)
        return ENTER | (is_found(l->find, path, len) ? TAKE : 0u);
    if (!l->glob)
        return l->recursive ? ENTER : TAKE;
    bits = pl_glob_test(l->glob, path, len, NULL);
    if (l->recursive)
        return (bits & PL_GLOB_BELOW) || pl_glob_match_within(l->glob, path, len) ? ENTER : 0;
    return (bits & PL_GLOB_MATCH ? TAKE : 0) | (bits & PL_GLOB_BELOW ? ENTER : 0);
}

static bool wants_file(const struct pl_tree_listing *l, const char *path, size_t len)
{
    if (l->find)
        return is_found(l->find, path, len);
    if (!l->glob)
        return true;
    return l->recursive ? pl_glob_match_within(l->glob, path, len) : pl_glob_match(l->glob, path, len, NULL);
}

static void set_place(struct walk *w, const char *path, size_t len)
{
    memcpy(w->place, path, len);
    w->place[len] = '\0';
    w->place_len = len;
}

/* Lists one entry. Returns 1, or 0 if the page is full. */
static int give(struct walk *w, const struct pl_tree_listing_item *item, struct pl_err *err)
{
    int r;

    if (w->n == w->l->limit)
        return 0;
    w->n++;
    r = w->l->item(w->l->self, item, err);
    return r < 0 ? r : 1;
}

/* Lists a directory: the first `len` bytes of `path`, with the slash. */
static int give_dir(struct walk *w, const char *path, size_t len, struct pl_err *err)
{
    char name[PL_PATH_MAX_BYTES + 1];
    struct pl_tree_listing_item item = {.path = name, .entry = pl_entry_dir()};
    int r;

    if (w->n == w->l->limit)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)len - 1, path);
    r = pl_tree_stats_get(w->l->source, &w->l->root, path, len, &item.stats, err);
    return r < 0 ? r : give(w, &item, err);
}

enum { FULL = 0, ON = 1, PAST = 2 };

/* Handles the directories whose first file is `item`. Returns ON if the file must be handled next, PAST if
 * the tree cursor has skipped a directory, and FULL if the page is full. */
static int new_dirs(struct walk *w, const struct pl_tree_item *item, struct pl_err *err)
{
    for (size_t at = w->base_len; at < item->path_len; at++) {
        size_t len = at + 1;
        unsigned wanted;
        int r = 1;

        if (item->path[at] != '/' || starts_with(w->place, w->place_len, item->path, len))
            continue;
        w->steps += w->l->glob ? pl_glob_cost(w->l->glob, at) : 0;
        wanted = wants_dir(w->l, item->path, at);
        if (wanted & TAKE)
            r = give_dir(w, item->path, len, err);
        if (r <= 0)
            return r;
        set_place(w, item->path, len);
        if (!(wanted & ENTER)) {
            r = pl_tree_cursor_seek_past(w->cursor, w->place, len, err);
            return r < 0 ? r : PAST;
        }
    }
    return ON;
}

static int walk_item(struct walk *w, const struct pl_tree_item *item, struct pl_err *err)
{
    struct pl_tree_listing_item file = {.path = item->path, .entry = item->entry};
    int r = new_dirs(w, item, err);

    if (r != ON)
        return r;
    if (wants_file(w->l, item->path, item->path_len)) {
        r = give(w, &file, err);
        if (r <= 0)
            return r;
    }
    set_place(w, item->path, item->path_len);
    return ON;
}

/* Sets the prefix that all keys in the list have in common, from `base` and the literal start of the glob.
 * Returns false if `base` and that start exclude each other, so that the list is empty. */
static bool set_prefix(struct walk *w)
{
    const struct pl_tree_listing *l = w->l;
    const char *literal = "";
    size_t literal_len = 0;

    snprintf(w->prefix, sizeof w->prefix, "%s%s", l->base, *l->base ? "/" : "");
    w->base_len = strlen(w->prefix);
    if (l->glob)
        literal = pl_glob_prefix(l->glob, &literal_len);
    if (literal_len > w->base_len) {
        if (!starts_with(literal, literal_len, w->prefix, w->base_len))
            return false;
        snprintf(w->prefix, sizeof w->prefix, "%.*s", (int)literal_len, literal);
        return true;
    }
    return starts_with(w->prefix, w->base_len, literal, literal_len);
}

/* Moves the tree cursor past the path `after`. */
static int resume(struct walk *w, struct pl_err *err)
{
    const char *after = w->l->after;
    struct pl_tree_item item;
    size_t len = after ? strlen(after) : 0;
    int r;

    if (!after)
        return 0;
    if (len == 0 || len > PL_PATH_MAX_BYTES + 1)
        return pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "\"%.100s\" is not a position in a list: use the \"next\" of a page", after),
            "after");
    set_place(w, after, len);
    if (after[len - 1] == '/' && !(wants_dir(w->l, after, len - 1) & ENTER))
        return pl_tree_cursor_seek_past(w->cursor, after, len, err);
    /* if the tree has `after`, pl_tree_cursor_get leaves the tree cursor just past it */
    r = pl_tree_cursor_get(w->cursor, after, len, &item, err);
    return r > 0 ? 0 : r < 0 ? r : pl_tree_cursor_seek(w->cursor, after, len, err);
}

/* Returns true if the time of the page is up. It has looked at some entries then, so that the next page goes on. */
static bool is_late(const struct walk *w)
{
    return w->l->until_ms && w->visits && w->visits % 1024 == 0 && pl_clock_mono_ms() >= w->l->until_ms;
}

static int walk_all(struct walk *w, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = resume(w, err);

    while (r >= 0 && (r = pl_tree_cursor_next(w->cursor, &item, err)) > 0) {
        if (w->visits == PL_TREE_LISTING_VISITS_MAX || w->steps > PL_LISTING_STEPS_MAX || is_late(w))
            return FULL;
        w->visits++;
        w->steps += w->l->glob ? pl_glob_cost(w->l->glob, item.path_len) : 0;
        r = walk_item(w, &item, err);
        if (r <= 0)
            return r;
    }
    return r < 0 ? r : ON;
}

/* Says whether `base` is a file (1) or a directory, perhaps empty (0). PL_ENOTFOUND: neither. */
static int base_is_file(const struct pl_tree_listing *l, struct pl_entry *ret, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *c = NULL;
    char below[PL_PATH_MAX_BYTES + 2];
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(l->source, &l->root, NULL, 0, &c, err), len;

    r = r < 0 ? r : pl_tree_cursor_get(c, l->base, strlen(l->base), &item, err);
    if (r > 0)
        *ret = item.entry;
    if (r != 0)
        return r > 0 && ret->kind == PL_KIND_DIR ? 0 : r;
    len = snprintf(below, sizeof below, "%s/", l->base);
    r = pl_tree_cursor_seek(c, below, (size_t)len, err);
    r = r < 0 ? r : pl_tree_cursor_next(c, &item, err);
    if (r < 0 || (r > 0 && starts_with(item.path, item.path_len, below, (size_t)len)))
        return PL_MIN(r, 0);
    return pl_err_set(err, PL_ENOTFOUND, "there is no \"/%s\"", l->base);
}

/* Lists the single file `base`. Returns 0 or an error. */
static int list_file(const struct pl_tree_listing *l, const struct pl_entry *entry, struct pl_err *err)
{
    struct pl_tree_listing_item item = {.path = l->base, .entry = *entry};

    if (l->after || !wants_file(l, l->base, strlen(l->base)))
        return 0;
    return l->item(l->self, &item, err);
}

/* Lists the root itself, the only match of the glob "/". */
static int list_root(const struct pl_tree_listing *l, struct pl_err *err)
{
    struct pl_tree_listing_item item = {.path = "", .entry = pl_entry_dir()};
    int r;

    if (*l->base || l->after)
        return 0;
    r = pl_tree_stats_get(l->source, &l->root, NULL, 0, &item.stats, err);
    return r < 0 ? r : l->item(l->self, &item, err);
}

int pl_tree_listing_read(const struct pl_tree_listing *l, char ret_place[PL_PATH_MAX_BYTES + 2], unsigned *ret_visits,
                         struct pl_err *err)
{
    struct walk w = {.l = l};
    struct pl_entry entry;
    int r = *l->base ? base_is_file(l, &entry, err) : 0;

    if (ret_visits)
        *ret_visits = 0;
    if (r != 0)
        return r < 0 ? r : list_file(l, &entry, err);
    if (l->glob && pl_glob_is_root(l->glob) && !l->recursive)
        return list_root(l, err);
    if (!set_prefix(&w))
        return 0;
    r = pl_tree_cursor_create(l->source, &l->root, w.prefix, strlen(w.prefix), &w.cursor, err);
    r = r < 0 ? r : walk_all(&w, err);
    pl_tree_cursor_destroy(w.cursor);
    if (ret_visits)
        *ret_visits = w.visits;
    if (r == FULL)
        memcpy(ret_place, w.place, w.place_len + 1);
    return r < 0 ? r : r == FULL;
}
