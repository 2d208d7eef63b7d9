/* Iterates over the differences base → ours and base → theirs together, in order of path, and passes those of
 * `theirs` to tree_apply as changes of `ours`. A trail of added paths detects a file that one side added
 * where the other side added a directory. */
#include "storage/tree_edit/tree_merge.h"

#include "storage/tree/path_conflict.h"
#include "storage/tree/tree_diff.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_apply.h"

#include <stdio.h>

enum { OURS, THEIRS, SIDES };

/* Tags in the trail of added paths: the side that added the path, and whether it is an empty directory. */
enum { TAG_OURS = 1u << OURS, TAG_THEIRS = 1u << THEIRS, TAG_DIR = 1u << SIDES };

struct side {
    struct pl_tree_differ *differ;
    struct pl_tree_change change;
    bool has;
    bool taken; /* the change was processed: advance before the next comparison */
};

/* One merge: the iterators over the differences of both sides, and the conflicts found. */
struct merge {
    const struct pl_node_source *source;
    const struct pl_hash *base;
    const struct pl_hash *root[SIDES];
    struct side side[SIDES];
    struct pl_path_conflict_trail *added; /* paths that a side added */
    struct pl_buf scratch;
    pl_tree_conflict_fn fn;
    void *self;
    uint64_t conflicts;
    char first[800]; /* description of the first conflict */
    int stopped;     /* positive result of `fn`, which ended the merge; 0 = none */
};

static void merge_finish(struct merge *m)
{
    for (int i = 0; i < SIDES; i++)
        pl_tree_differ_destroy(m->side[i].differ);
    if (m->added)
        pl_path_conflict_trail_finish(m->added);
    free(m->added);
    pl_buf_finish(&m->scratch);
}

/* Counts a conflict, describes the first one and calls `fn`. */
static int note_conflict(struct merge *m, const struct pl_tree_conflict *c, struct pl_err *err)
{
    int path_len = (int)PL_MIN(c->path_len, 350u), other_len = (int)PL_MIN(c->other_len, 350u);
    int r;

    if (m->conflicts++ == 0 && c->path_len == c->other_len)
        snprintf(m->first, sizeof m->first, "both sides changed \"%.*s\"", path_len, c->path);
    else if (m->conflicts == 1)
        snprintf(m->first, sizeof m->first, "\"%.*s\" is a file on one side, but \"%.*s\" is below it on the other", path_len,
                 c->path, other_len, c->other);
    r = m->fn ? m->fn(m->self, c, err) : 0;
    if (r <= 0)
        return r;
    m->stopped = r;
    return pl_err_set(err, PL_ECONFLICT, "%s", m->first);
}

/* Called if both sides changed the same path: a conflict, unless both made the same change. */
static int compare_changes(struct merge *m, struct pl_err *err)
{
    const struct pl_tree_change *ours = &m->side[OURS].change, *theirs = &m->side[THEIRS].change;
    struct pl_tree_conflict c = {ours->path,      ours->path_len,  ours->path,       ours->path_len,
                                 ours->old_entry, ours->new_entry, theirs->new_entry};

    if (!ours->new_entry && !theirs->new_entry)
        return 0;
    if (ours->new_entry && theirs->new_entry && pl_entry_eq(ours->new_entry, theirs->new_entry))
        return 0;
    return note_conflict(m, &c, err);
}

/* Reports a conflict: `change`, made by side `who`, adds a path below a file that the other side added. The
 * path of that file is the first `len` bytes of the added path. */
static int file_above(struct merge *m, int who, const struct pl_tree_change *change, size_t len, struct pl_err *err)
{
    struct pl_tree_conflict c = {change->path, len, change->path, change->path_len, NULL, NULL, NULL};
    struct pl_entry file;
    int r;

    r = pl_tree_get(m->source, m->root[1 - who], change->path, len, &file, err);
    if (r < 0)
        return r;
    c.ours = who == OURS ? change->new_entry : &file;
    c.theirs = who == OURS ? &file : change->new_entry;
    return note_conflict(m, &c, err);
}

/* Adds a new path to the trail and reports a conflict for each of its parent directories that the other side
 * added as a file. `who`: TAG_OURS, TAG_THEIRS or both. A parent that the other side added as an empty
 * directory is not a conflict (dir_gives_way). */
static int check_added(struct merge *m, uint32_t who, const struct pl_tree_change *change, struct pl_err *err)
{
    const struct pl_path_conflict_step *step;
    uint32_t i = 0;
    int r;

    if (change->old_entry || !change->new_entry)
        return 0;
    r = pl_path_conflict_trail_go(m->added, change->path, change->path_len, err);
    while (r == 0 && (step = pl_path_conflict_trail_above(m->added, &i))) {
        if ((step->tag & who) == 0 && (step->tag & TAG_DIR) == 0)
            r = file_above(m, who == TAG_OURS ? OURS : THEIRS, change, step->len, err);
    }
    if (r == 0)
        pl_path_conflict_trail_mark(m->added, who | (change->new_entry->kind == PL_KIND_DIR ? TAG_DIR : 0));
    return r;
}

/* Returns 1 if side `who` made an empty directory and the other side added a path below it. */
static int dir_gives_way(struct merge *m, int who, const struct pl_tree_change *change, struct pl_err *err)
{
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *d = NULL;
    struct pl_tree_change below;
    int r;

    if (!change->new_entry || change->new_entry->kind != PL_KIND_DIR)
        return 0;
    pl_buf_clear(&m->scratch);
    r = pl_buf_add(&m->scratch, change->path, change->path_len, err);
    if (r == 0)
        r = pl_buf_add_u8(&m->scratch, '/', err);
    if (r == 0)
        r = pl_tree_differ_create(m->source, m->base, m->root[1 - who], (const char *)m->scratch.data, m->scratch.len, &d, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_differ_next(d, &below, err)) > 0) {
        if (below.new_entry)
            return 1;
    }
    return r;
}

static int encode_change(struct merge *m, const struct pl_tree_change *change, struct pl_change *ret, struct pl_err *err)
{
    struct pl_change c = {PL_CHANGE_DROP, {.key = change->path, .key_len = change->path_len}};
    int r;

    if (change->new_entry) {
        pl_buf_clear(&m->scratch);
        r = pl_entry_encode(change->new_entry, &m->scratch, err);
        if (r < 0)
            return r;
        c.type = PL_CHANGE_PUT;
        c.item.value = m->scratch.data;
        c.item.value_len = m->scratch.len;
        c.item.stats = (struct pl_tree_stats){change->new_entry->kind != PL_KIND_DIR, change->new_entry->size};
    }
    *ret = c;
    return 1;
}

/* Called if only `ours` changed a path: the change stays, unless it added an empty directory below which
 * `theirs` added a path. */
static int ours_alone(struct merge *m, struct pl_change *ret, struct pl_err *err)
{
    const struct pl_tree_change *change = &m->side[OURS].change;
    int r = check_added(m, TAG_OURS, change, err);

    if (r == 0)
        r = dir_gives_way(m, OURS, change, err);
    if (r > 0)
        *ret = (struct pl_change){PL_CHANGE_DROP, {.key = change->path, .key_len = change->path_len}};
    return r;
}

/* Called if only `theirs` changed a path: the change is applied, unless it adds an empty directory below
 * which `ours` added a path. */
static int theirs_alone(struct merge *m, struct pl_change *ret, struct pl_err *err)
{
    const struct pl_tree_change *change = &m->side[THEIRS].change;
    int r = check_added(m, TAG_THEIRS, change, err);

    if (r == 0)
        r = dir_gives_way(m, THEIRS, change, err);
    if (r != 0)
        return r < 0 ? r : 0;
    return encode_change(m, change, ret, err);
}

static int advance_side(struct side *s, struct pl_err *err)
{
    int r;

    if (!s->taken)
        return 0;
    r = pl_tree_differ_next(s->differ, &s->change, err);
    s->has = r > 0;
    s->taken = false;
    return r < 0 ? r : 0;
}

/* Compares the next changes: < 0: ours is first, > 0: theirs is first, 0: both have the same path. */
static int compare_sides(const struct side *ours, const struct side *theirs)
{
    if (!ours->has || !theirs->has)
        return ours->has ? -1 : 1;
    return pl_key_cmp(ours->change.path, ours->change.path_len, theirs->change.path, theirs->change.path_len);
}

/* The pl_change_fn of a merge. After a conflict it continues, so that all conflicts are reported; then it
 * fails. */
static int next_change(void *self, struct pl_change *ret, struct pl_err *err)
{
    struct merge *m = self;
    struct side *ours = &m->side[OURS], *theirs = &m->side[THEIRS];
    int r = 0, order;

    while (r == 0) {
        r = advance_side(ours, err);
        if (r == 0)
            r = advance_side(theirs, err);
        if (r < 0 || (!ours->has && !theirs->has))
            break;
        order = compare_sides(ours, theirs);
        ours->taken = order <= 0;
        theirs->taken = order >= 0;
        if (order < 0) {
            r = ours_alone(m, ret, err);
        } else if (order > 0) {
            r = theirs_alone(m, ret, err);
        } else {
            r = compare_changes(m, err);
            if (r == 0)
                r = check_added(m, TAG_OURS | TAG_THEIRS, &ours->change, err);
        }
    }
    if (r == 0 && m->conflicts > 0)
        return pl_err_set(err, PL_ECONFLICT, "%s (%llu conflict%s)", m->first, (unsigned long long)m->conflicts,
                          m->conflicts == 1 ? "" : "s");
    return r;
}

/* Merges two trees that both differ from the base; pl_tree_merge handles all other cases. */
static int merge_apart(struct merge *m, const struct pl_node_sink *sink, struct pl_hash *ret_root, struct pl_err *err)
{
    int r = 0;

    m->added = calloc(1, sizeof *m->added);
    if (!m->added)
        return pl_err_nomem(err);
    for (int i = 0; r == 0 && i < SIDES; i++) {
        m->side[i].taken = true;
        r = pl_tree_differ_create(m->source, m->base, m->root[i], NULL, 0, &m->side[i].differ, err);
    }
    if (r == 0)
        r = pl_tree_apply(m->source, sink, m->root[OURS], PL_TREE_PATHS, next_change, m, ret_root, err);
    return r < 0 && m->stopped > 0 ? m->stopped : r;
}

int pl_tree_merge(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *base,
                  const struct pl_hash *ours, const struct pl_hash *theirs, struct pl_hash *ret_root, pl_tree_conflict_fn fn,
                  void *self, struct pl_err *err)
{
    _cleanup_(merge_finish) struct merge m = {.source = source, .base = base, .root = {ours, theirs}, .fn = fn, .self = self};

    if (pl_hash_eq(base, ours) || pl_hash_eq(ours, theirs)) {
        *ret_root = *theirs;
        return 0;
    }
    if (pl_hash_eq(base, theirs)) {
        *ret_root = *ours;
        return 0;
    }
    return merge_apart(&m, sink, ret_root, err);
}
