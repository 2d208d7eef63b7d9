/* The changes come in the order of the tree, so those of one folder come one after the other; only files directly below the
 * path may come between folders. */
#include "pipelined/api/data_routes/diff_totals.h"

#include "storage/base/clock.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

struct counting {
    size_t path_len;
    int64_t until_ms;
    uint64_t n;
    struct pl_effort *effort;
    struct pl_diff_totals *to;
};

static void add(struct pl_diff_counts *c, const struct pl_tree_change *change)
{
    c->added += change->old_entry == NULL;
    c->removed += change->new_entry == NULL;
    c->changed += change->old_entry && change->new_entry;
    c->bytes_before += change->old_entry ? change->old_entry->size : 0;
    c->bytes_after += change->new_entry ? change->new_entry->size : 0;
}

/* Returns the folder directly below the path in which the change is; NULL = it is not told apart. */
static struct pl_diff_folder *folder_of(struct pl_diff_totals *t, const char *below, size_t len)
{
    const char *slash = memchr(below, '/', len);
    const size_t n = slash ? (size_t)(slash - below) : 0;
    struct pl_diff_folder *last = &t->folders[t->n_folders - 1];

    if (n == 0)
        return &t->folders[0];
    if (strlen(last->name) == n && memcmp(last->name, below, n) == 0)
        return last;
    if (t->n_folders == PL_DIFF_FOLDERS_MAX || n > PL_SEGMENT_MAX_BYTES) {
        t->more_folders = true;
        return NULL;
    }
    last = &t->folders[t->n_folders++];
    *last = (struct pl_diff_folder){0};
    memcpy(last->name, below, n);
    return last;
}

static int count_one(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct counting *w = self;
    const size_t cut = w->path_len ? w->path_len + 1 : 0;
    struct pl_diff_folder *folder;
    int r = pl_effort_add(w->effort, 1, err);

    if (r < 0)
        return r;
    if (w->path_len && change->path_len > w->path_len && change->path[w->path_len] != '/')
        return 0; /* the path "ab" is not below the directory "a" */
    if (w->n == PL_DIFF_COUNTED_MAX || (w->n && w->n % 1024 == 0 && pl_clock_mono_ms() >= w->until_ms)) {
        w->to->more = true;
        return 1;
    }
    w->n++;
    add(&w->to->all, change);
    folder = change->path_len < cut ? &w->to->folders[0] : folder_of(w->to, change->path + cut, change->path_len - cut);
    if (folder)
        add(&folder->counts, change);
    return 0;
}

int pl_diff_totals_count(const struct pl_node_source *source, const struct pl_hash *before, const struct pl_hash *after,
                         const char *path, int64_t until_ms, struct pl_effort *effort, struct pl_diff_totals *ret,
                         struct pl_err *err)
{
    struct counting w = {.path_len = strlen(path), .until_ms = until_ms, .effort = effort, .to = ret};
    int r;

    *ret = (struct pl_diff_totals){.n_folders = 1};
    r = pl_tree_diff(source, before, after, path, w.path_len, count_one, &w, err);
    return PL_MIN(r, 0);
}

json_t *pl_diff_counts_json(const struct pl_diff_counts *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "added", (json_int_t)c->added, "changed", (json_int_t)c->changed, "removed",
                     (json_int_t)c->removed, "bytes_before", (json_int_t)c->bytes_before, "bytes_after",
                     (json_int_t)c->bytes_after);
}
