/* The output is listed first (output_walk), then each item becomes an entry; the sorted entries become an ops
 * stream or a tree. */
#include "pipelined/agent/outputs/outputs.h"

#include "pipelined/agent/outputs/output_walk.h"
#include "pipelined/agent/runner/link_target.h"
#include "storage/dataset/commit/pack_node_sink.h"
#include "storage/dataset/file/file_copy.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_format.h"
#include "storage/system/io.h"
#include "storage/tree/tree_build.h"
#include "storage/tree_edit/tree_ops.h"
#include <fcntl.h>
#include <stdio.h>

/* One entry of the output. */
struct made {
    char *path;
    struct pl_entry entry;
};

struct capture {
    const struct pl_outputs_request *request;
    char shown[4200]; /* path of the output folder as the command sees it */
    int out_fd;
    struct pl_out_walk walk;
    struct made *made;
    size_t n, cap;
    const char *link; /* path of the link that is being resolved into an input */
};

/* Returns the pack session; opens it first if necessary. */
static int session_of(struct pl_outputs_store *store, struct pl_pack_builder **ret, struct pl_err *err)
{
    int r = store->session ? 0 : pl_pack_builder_open(&store->sink, store->project, &store->session, err);

    if (r == 0)
        *ret = store->session;
    return r;
}

int pl_outputs_flush(struct pl_outputs_store *store, struct pl_err *err)
{
    int r = store->session ? pl_pack_builder_finish(store->session, err) : 0;

    pl_outputs_drop(store);
    return r;
}

void pl_outputs_drop(struct pl_outputs_store *store)
{
    store->session = pl_pack_builder_close(store->session);
}

static int add_made(struct capture *c, const char *path, const struct pl_entry *entry, struct pl_err *err)
{
    if (c->n == PL_OUTPUTS_MAX)
        return pl_err_set(err, PL_ELIMIT, "%s holds more than %u files", c->shown, PL_OUTPUTS_MAX);
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        struct made *more = realloc(c->made, cap * sizeof(*more));
        if (!more)
            return pl_err_nomem(err);
        c->made = more;
        c->cap = cap;
    }
    c->made[c->n] = (struct made){.path = strdup(path), .entry = *entry};
    return c->made[c->n++].path ? 0 : pl_err_nomem(err);
}

/* ---- files ---- */

static ssize_t read_some(void *self, void *out, size_t n, struct pl_err *err)
{
    return pl_io_read(*(const int *)self, out, n, "output", err);
}

/* Reads one file: its bytes go into the entry or, if there are many, into the pack session. */
static int add_file(struct capture *c, const struct pl_out_item *item, struct pl_err *err)
{
    const uint8_t kind = item->mode & 0100 ? PL_KIND_EXEC : PL_KIND_FILE;
    const char *path = pl_out_path(&c->walk, item);
    struct pl_pack_builder *session;
    struct pl_entry entry;
    uint8_t data[PL_INLINE_MAX_BYTES];
    _cleanup_close_ int fd = -1;
    struct stat st;
    ssize_t n;
    int r;

    fd = item->size == 0 ? -1 : pl_io_open_beneath(c->out_fd, path, O_RDONLY);
    if (item->size > 0 && (fd < 0 || fstat(fd, &st) < 0))
        return pl_err_errno(err, errno, "%s/%s", c->shown, path);
    /* checked again, because the command may have replaced the file since the folder was listed */
    if (item->size > 0 && !S_ISREG(st.st_mode))
        return pl_err_set(err, PL_EINVAL, "%s/%s was replaced while it was read", c->shown, path);
    if (item->size <= sizeof(data)) {
        n = fd < 0 ? 0 : pl_io_read(fd, data, sizeof(data), path, err);
        if (n < 0)
            return (int)n;
        entry = pl_entry_inline(kind, data, (size_t)n);
    } else {
        r = session_of(c->request->store, &session, err);
        if (r == 0)
            r = pl_file_write_stream(session, kind, read_some, &fd, &entry, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s/%s", c->shown, path);
    }
    return add_made(c, path, &entry, err);
}

/* Returns the entry of a file that was read while the command ran; NULL = it must be read. */
static const struct pl_entry *found_early(const struct capture *c, const struct pl_out_item *item)
{
    return c->request->early && S_ISREG(item->mode) ? pl_early_upload_find(c->request->early, pl_out_path(&c->walk, item)) : NULL;
}

/* ---- many or large files, on all cores ---- */

static int link_cmp(const void *key, const void *item, const struct capture *c)
{
    return strcmp(key, pl_out_path(&c->walk, item));
}

/* Filter of the ingest: true for the files that it is to read. Leaves out links, which add_link handles, and
 * files that have an early copy. */
static bool is_to_be_read(void *self, const char *path, bool is_dir)
{
    const struct capture *c = self;
    size_t low = 0, high = c->walk.n;

    if (is_dir)
        return true;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int d = link_cmp(path, &c->walk.items[mid], c);
        if (d == 0)
            return !S_ISLNK(c->walk.items[mid].mode) && !found_early(c, &c->walk.items[mid]);
        if (d < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return true;
}

static int add_ops(struct capture *c, const struct pl_buf *ops, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    char path[PL_PATH_MAX_BYTES + 1];
    int r = pl_tree_ops_reader_init(&reader, ops->data, ops->len, err);

    while (r >= 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0) {
        memcpy(path, op.path, op.path_len);
        path[op.path_len] = 0;
        r = add_made(c, path, &op.entry, err);
    }
    return r;
}

static int add_many(struct capture *c, struct pl_err *err)
{
    const struct pl_ingest_source source = {.local = c->request->out, .dest = "", .shown = c->shown};
    const struct pl_ingest_options options = {.filter = is_to_be_read, .self = c};
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_pack_builder *session;
    int r = session_of(c->request->store, &session, err);

    if (r == 0)
        r = pl_ingest_tree(session, &source, 1, &options, &ops, NULL, err);
    return r == 0 ? add_ops(c, &ops, err) : r;
}

/* ---- links ---- */

/* Adds an entry of an input. An input of another project is copied: a commit refers only to records of its own project. */
static int add_by_reference(void *self, const char *rest, const struct pl_entry *entry, const struct pl_chunk_reader *other,
                            struct pl_err *err)
{
    struct capture *c = self;
    char path[2 * PL_PATH_MAX_BYTES + 2];
    struct pl_pack_builder *session;
    int r = 0;

    snprintf(path, sizeof(path), "%s%s%s", c->link, *rest ? "/" : "", rest);
    if (pl_path_check(path, strlen(path), err) < 0)
        return pl_err_wrap(err, PL_EPATH, "%s/%s", c->shown, c->link);
    if (other && (entry->content == PL_CONTENT_CHUNK || entry->content == PL_CONTENT_LIST)) {
        r = session_of(c->request->store, &session, err);
        r = r < 0 ? r : pl_file_copy(entry, other, session, err);
    }
    return r < 0 ? r : add_made(c, path, entry, err);
}

static int add_kept_link(struct capture *c, const char *path, const char *text, struct pl_err *err)
{
    const size_t n = strlen(text);
    struct pl_pack_builder *session;
    struct pl_entry entry;
    struct pl_hash id;
    int r = 0;

    if (n <= PL_INLINE_MAX_BYTES) {
        entry = pl_entry_inline(PL_KIND_LINK, text, n);
    } else {
        r = session_of(c->request->store, &session, err);
        if (r == 0)
            r = pl_pack_builder_add(session, PL_REC_CHUNK, text, n, &id, err);
        if (r == 0)
            entry = pl_entry_chunk(PL_KIND_LINK, n, &id);
    }
    return r == 0 ? add_made(c, path, &entry, err) : r;
}

/* Adds a symbolic link: itself if its target is in the output, the target's entries if that is in an input. Refuses
 * other targets. */
static int add_link(struct capture *c, const struct pl_out_item *item, struct pl_err *err)
{
    const char *path = pl_out_path(&c->walk, item), *text = (const char *)c->walk.names.data + item->text;
    _cleanup_free_ struct pl_link_target *target = malloc(sizeof(*target));
    int r;

    if (!target)
        return pl_err_nomem(err);
    pl_link_target_find(path, text, c->request->pfs, target);
    if (c->request->keep_links && target->where != PL_LINK_WITHIN)
        return add_kept_link(c, path, text, err);
    switch (target->where) {
    case PL_LINK_WITHIN:
        return add_kept_link(c, path, target->path, err);
    case PL_LINK_INPUT:
        c->link = path;
        if (pl_input_is_writable(c->request->row, target->input))
            return pl_err_set(err, PL_EINVAL, "%s/%s is a link into the input %s, which is writable: copy the file", c->shown,
                              path, target->input);
        r = pl_input_references_visit(c->request->refs, c->request->row, target->input, target->path, add_by_reference, c, err);
        return r < 0 ? pl_err_wrap(err, r, "link %s/%s -> %s", c->shown, path, text) : 0;
    case PL_LINK_ELSEWHERE:
        break;
    }
    return pl_err_set(err, PL_EINVAL,
                      "%s/%s is a link to %s: only links within the output or into an input can be kept; copy the file", c->shown,
                      path, text);
}

/* ---- the whole output ---- */

/* True if there are many files to read, or large ones. */
static bool is_much(const struct capture *c)
{
    size_t files = c->walk.n_files;
    uint64_t bytes = c->walk.bytes;

    for (size_t i = 0; c->request->early && i < c->walk.n; i++) {
        const bool early = found_early(c, &c->walk.items[i]) != NULL;
        files -= early;
        bytes -= early ? c->walk.items[i].size : 0;
    }
    return files > PL_OUTPUTS_FEW || bytes > PL_OUTPUTS_FEW_BYTES;
}

static int gather(struct capture *c, struct pl_err *err)
{
    const bool many = is_much(c);
    const struct pl_entry empty_folder = pl_entry_dir();
    int r = many ? add_many(c, err) : 0;

    for (size_t i = 0; r == 0 && i < c->walk.n; i++) {
        const struct pl_out_item *item = &c->walk.items[i];
        const struct pl_entry *early = found_early(c, item);
        if (S_ISLNK(item->mode))
            r = add_link(c, item, err);
        else if (early)
            r = add_made(c, pl_out_path(&c->walk, item), early, err);
        else if (many)
            continue; /* skip it: add_many has already added all files and empty folders */
        else if (S_ISREG(item->mode))
            r = add_file(c, item, err);
        else
            r = add_made(c, pl_out_path(&c->walk, item), &empty_folder, err);
    }
    return r;
}

static int made_cmp(const void *a, const void *b)
{
    return strcmp(((const struct made *)a)->path, ((const struct made *)b)->path);
}

/* Makes the ops stream if it is small enough to be sent in the result. Returns 1, or 0 if it is too large. */
static int make_ops(const struct capture *c, struct pl_agent_protocol_outcome *outcome, struct pl_err *err)
{
    struct pl_tree_ops_writer writer = {0};
    struct pl_buf ops = {.max = PL_AGENT_PROTOCOL_INLINE_MAX + PL_PATH_MAX_BYTES + PL_ENTRY_MAX_BYTES};
    int r = pl_tree_ops_writer_init(&writer, &ops, err);

    for (size_t i = 0; r == 0 && i < c->n && ops.len <= PL_AGENT_PROTOCOL_INLINE_MAX; i++)
        r = pl_tree_ops_writer_put(&writer, c->made[i].path, strlen(c->made[i].path), &c->made[i].entry, err);
    if (r == 0)
        r = pl_tree_ops_writer_end(&writer, err);
    pl_tree_ops_writer_finish(&writer);
    if (r < 0 || ops.len > PL_AGENT_PROTOCOL_INLINE_MAX) {
        pl_buf_finish(&ops);
        return r;
    }
    outcome->ops = ops.data;
    outcome->ops_len = ops.len;
    return 1;
}

static int make_tree(const struct capture *c, struct pl_agent_protocol_outcome *outcome, struct pl_err *err)
{
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *builder = NULL;
    struct pl_pack_builder *session;
    struct pl_node_sink sink;
    int r = session_of(c->request->store, &session, err);

    if (r < 0)
        return r;
    sink = pl_pack_node_sink(session);
    r = pl_tree_builder_create(&sink, &builder, err);
    for (size_t i = 0; r == 0 && i < c->n; i++)
        r = pl_tree_builder_add(builder, c->made[i].path, strlen(c->made[i].path), &c->made[i].entry, err);
    return r == 0 ? pl_tree_builder_finish(builder, &outcome->root, NULL, err) : r;
}

int pl_outputs_capture(const struct pl_outputs_request *request, struct pl_agent_protocol_outcome *outcome, struct pl_err *err)
{
    struct capture c = {.request = request, .out_fd = -1};
    int r;

    snprintf(c.shown, sizeof(c.shown), "%s/out", request->pfs);
    if (request->out && (c.out_fd = open(request->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return pl_err_errno(err, errno, "%s", c.shown);
    r = request->out ? pl_out_walk(c.out_fd, c.shown, PL_OUTPUTS_MAX, &c.walk, err) : 0;
    if (r == 0)
        r = gather(&c, err);
    if (r == 0 && c.n > 1)
        qsort(c.made, c.n, sizeof(*c.made), made_cmp);
    for (size_t i = 0; r == 0 && i < c.n; i++)
        outcome->bytes_out += c.made[i].entry.size;
    if (r == 0)
        r = make_ops(&c, outcome, err);
    if (r == 0)
        r = make_tree(&c, outcome, err);
    for (size_t i = 0; i < c.n; i++)
        free(c.made[i].path);
    free(c.made);
    pl_out_walk_finish(&c.walk);
    if (c.out_fd >= 0)
        close(c.out_fd);
    return r < 0 ? r : 0;
}
