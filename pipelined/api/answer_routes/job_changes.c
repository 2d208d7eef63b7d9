/* job_changes: counts the differences of two trees. */
#include "pipelined/api/answer_routes/job_changes.h"

#include "pipelined/text/quantity.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

bool pl_file_filter_takes(const struct pl_file_filter *filter, const char *path, size_t len)
{
    const char *last = memrchr(path, '/', len), *name = last ? last + 1 : path;

    if (!filter->glob || pl_glob_is_root(filter->glob))
        return !filter->files || pl_glob_set_takes(filter->files, path, len);
    for (const char *end = path + len; end; end = memrchr(path, '/', (size_t)(end - path))) {
        const size_t n = (size_t)(end - path);

        if (!pl_glob_match(filter->glob, path, n, NULL))
            continue;
        if (!filter->files)
            return true;
        return n == len ? pl_glob_set_takes(filter->files, name, (size_t)(path + len - name))
                        : pl_glob_set_takes(filter->files, end + 1, len - n - 1);
    }
    return false;
}

struct counting {
    const struct pl_file_filter *filter;
    struct pl_effort *effort;
    struct pl_file_changes *to;
};

/* Shortens the common folder to what it has in common with a path. */
static void take_folder(struct pl_file_changes *c, const struct pl_tree_change *change)
{
    size_t n = strlen(c->folder), same = 0;

    if (pl_file_changes_sum(c) == 0) {
        memcpy(c->folder, change->path, change->path_len + 1);
        n = same = change->path_len;
    } else {
        while (same < n && same < change->path_len && c->folder[same] == change->path[same])
            same++;
    }
    while (same > 0 && c->folder[same - 1] != '/')
        same--;
    c->folder[same] = '\0';
}

static int count_one(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct counting *w = self;
    struct pl_file_changes *c = w->to;
    int r = pl_effort_add(w->effort, 1, err);

    if (r < 0 || !pl_file_filter_takes(w->filter, change->path, change->path_len))
        return r;
    if (pl_file_changes_sum(c) == PL_JOB_CHANGES_MAX) {
        c->more = true;
        return 1;
    }
    take_folder(c, change);
    c->added += change->old_entry == NULL;
    c->removed += change->new_entry == NULL;
    c->changed += change->old_entry && change->new_entry;
    return json_array_size(c->named) < PL_JOB_NAMED ? pl_json_add(c->named, json_string(change->path), err) : 0;
}

int pl_file_changes_count(const struct pl_node_source *source, const struct pl_hash *before, const struct pl_hash *after,
                          const struct pl_file_filter *filter, struct pl_effort *effort, struct pl_file_changes *ret,
                          struct pl_err *err)
{
    struct counting w = {filter, effort, ret};
    int r;

    *ret = (struct pl_file_changes){.named = json_array()};
    r = ret->named ? pl_tree_diff(source, before, after, NULL, 0, count_one, &w, err) : pl_err_nomem(err);
    return PL_MIN(r, 0);
}

int pl_file_changes_text(const struct pl_file_changes *c, const char *repo, struct pl_buf *out, struct pl_err *err)
{
    const struct {
        uint64_t n;
        const char *what;
    } parts[] = {{c->added, "new"}, {c->changed, "changed"}, {c->removed, "gone"}};
    const uint64_t all = pl_file_changes_sum(c);
    const char *files = all == 1 ? "file" : "files";
    char number[32];
    bool first = true;
    int r = 0;

    if (c->more)
        return pl_buf_addf(out, err, "more than %s files differ below %s:/%.*s", pl_quantity_count_text((int64_t)all, number),
                           repo, (int)PL_MAX(strlen(c->folder), 1u) - 1, c->folder);
    for (size_t i = 0; i < PL_ARRAY_SIZE(parts) && r >= 0; i++) {
        if (parts[i].n == 0)
            continue;
        if (parts[i].n == all)
            r = pl_buf_addf(out, err, "%s %s %s %s", pl_quantity_count_text((int64_t)all, number), files, all == 1 ? "is" : "are",
                            parts[i].what);
        else
            r = pl_buf_addf(out, err, "%s%s%s %s", first ? "" : ", ", pl_quantity_count_text((int64_t)parts[i].n, number),
                            !first            ? ""
                            : parts[i].n == 1 ? " file"
                                              : " files",
                            parts[i].what);
        first = false;
    }
    if (r < 0 || all == 0)
        return r;
    if (all == 1)
        return pl_buf_addf(out, err, ": %s:/%s", repo, json_string_value(json_array_get(c->named, 0)));
    return pl_buf_addf(out, err, " below %s:/%.*s", repo, (int)PL_MAX(strlen(c->folder), 1u) - 1, c->folder);
}
