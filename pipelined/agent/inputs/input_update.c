/* Makes two passes over the difference between the trees: the first removes entries, the second writes
 * entries in batches. */
#include "pipelined/agent/inputs/input_update.h"

#include "storage/system/io.h"
#include "storage/tree/tree_diff.h"
#include <fcntl.h>
#include <stdio.h>

struct change {
    struct pl_input_folder *folder;
    const char *dest;
    int dest_fd;
    size_t strip;              /* length of the path prefix that is cut off before matching `files` */
    struct pl_glob_set *files; /* globs of the wanted files; NULL = all files */
    /* paths of the batch that is to be written, NUL-terminated, one after another */
    struct pl_buf paths;
    struct pl_entry *entries;
    size_t n, cap;
    /* position in the batch (entry, and offset of its path) up to which it was passed to the writer */
    size_t next, path_at;
};

static bool takes(const struct change *c, const struct pl_tree_change *change, const struct pl_entry *e)
{
    if (!e || !c->files)
        return e != NULL;
    return e->kind != PL_KIND_DIR && pl_glob_set_takes(c->files, change->path + c->strip, change->path_len - c->strip);
}

/* Removes an entry of the checkout without following links, then its parent folders that became empty, up to
 * the matched folder. */
static int remove_one(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    const struct change *c = self;
    int flags = change->old_entry && change->old_entry->kind == PL_KIND_DIR ? AT_REMOVEDIR : 0;
    char path[PL_PATH_MAX_BYTES + 1];

    if (!takes(c, change, change->old_entry))
        return 0;
    if (pl_uplink_check(c->folder->user, err) < 0)
        return PL_ECANCELED;
    snprintf(path, sizeof path, "%s", change->path);
    for (bool first = true;; first = false, flags = AT_REMOVEDIR) {
        char *slash = strrchr(path, '/');
        _cleanup_close_ int at = -1;

        if (slash)
            *slash = 0;
        at = pl_io_open_beneath(c->dest_fd, slash ? path : ".", O_RDONLY | O_DIRECTORY);
        if (at < 0 || unlinkat(at, slash ? slash + 1 : path, flags) < 0)
            return first ? pl_err_errno(err, errno, "%s", change->path) : 0;
        if (!slash || strlen(path) < c->strip)
            return 0;
    }
}

static int next_entry(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    struct change *c = self;

    (void)err;
    if (c->next == c->n)
        return 0;
    *ret_path = (const char *)c->paths.data + c->path_at;
    *ret_len = strlen(*ret_path);
    *ret = c->entries[c->next++];
    c->path_at += *ret_len + 1;
    return 1;
}

/* Announces the chunks of the batch to the daemon's store, writes the batch and empties it. */
static int write_gathered(struct change *c, struct pl_err *err)
{
    const struct pl_entry_source entries = {.self = c, .next = next_entry};
    int r;

    if (c->n == 0)
        return 0;
    pl_input_entries_fetch(c->folder->user, c->folder->cache, c->entries, c->n);
    c->next = c->path_at = 0;
    r = pl_input_write(c->folder, &entries, c->n, c->dest, err);
    c->n = 0;
    pl_buf_clear(&c->paths);
    return r;
}

/* Adds a new or changed entry to the batch; writes the batch when it is full. */
static int gather_one(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct change *c = self;
    int r = pl_uplink_check(c->folder->user, err);

    if (r < 0 || !takes(c, change, change->new_entry))
        return r;
    r = c->n < PL_INPUT_ENTRIES_AHEAD ? 0 : write_gathered(c, err);
    if (r == 0 && c->n == c->cap) {
        size_t cap = c->cap ? 4 * c->cap : 16;
        struct pl_entry *more = realloc(c->entries, cap * sizeof(*more));
        if (!more)
            return pl_err_nomem(err);
        c->entries = more;
        c->cap = cap;
    }
    r = r < 0 ? r : pl_buf_add(&c->paths, change->path, change->path_len + 1, err);
    if (r == 0)
        c->entries[c->n++] = *change->new_entry;
    return r;
}

int pl_input_change(struct pl_input_folder *f, const struct pl_hash *old_root, const struct pl_agent_protocol_input *wi,
                    const char *dest, struct pl_input_sums *ret, struct pl_err *err)
{
    const struct pl_node_source nodes = pl_node_cache_source(f->nodes);
    _cleanup_close_ int dest_fd = open(dest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct change c = {.folder = f, .dest = dest, .dest_fd = dest_fd};
    char prefix[PL_PATH_MAX_BYTES + 2];
    int r = dest_fd < 0 ? pl_err_errno(err, errno, "%s", dest) : 0;

    c.strip = (size_t)snprintf(prefix, sizeof(prefix), "%s%s", wi->path, *wi->path ? "/" : "");
    if (r == 0 && wi->files)
        r = pl_glob_set_compile(wi->files, wi->n_files, &c.files, err);
    r = r < 0 ? r : pl_input_sums_get(f, wi, ret, err);
    if (r == 0) /* remove entries first, because a file may take the place of a folder */
        r = pl_tree_diff(&nodes, old_root, &wi->root, prefix, c.strip, remove_one, &c, err);
    if (r == 0)
        r = pl_tree_diff(&nodes, old_root, &wi->root, prefix, c.strip, gather_one, &c, err);
    r = r < 0 ? r : write_gathered(&c, err);
    pl_glob_set_destroy(c.files);
    pl_buf_finish(&c.paths);
    free(c.entries);
    return r;
}
