/* Implements the push of commit_tx.h: edits the tree of the branch's head, makes the new tree durable and
 * commits it. Starts over on the new head when another writer moved the head. */
#include "pipelined/db/retention/retention.h"
#include "pipelined/db/tx/attributes_edit.h"
#include "pipelined/db/tx/commit_tx.h"

#include "storage/base/clock.h"
#include "storage/chunk/chunk_list.h"
#include "storage/dataset/commit/recent_node_sink.h"
#include "storage/pack/pack_builder.h"
#include "storage/store/project_stores.h"
#include "storage/tree/tree_diff.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_edit.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

#define PUSH_ATTEMPTS_MAX 64

struct push {
    struct pl_db *db;
    struct pl_store *store;
    struct pl_node_source source;
    const struct pl_push_args *args;
    const struct pl_tree_op *ops;
    size_t n_ops;
    struct pl_commit_row base; /* the base commit, if the push names one */
    struct pl_commit_row head; /* the head in this attempt */
    bool has_head;
    struct pl_pack_set *hidden; /* hidden packs that the operations refer to */
};

static int read_head(struct push *p, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->db);
    struct pl_repo_row repo;
    int r = pl_db_repo_find(rd.conn, p->args->project, p->args->repo, &repo, err);

    if (r < 0)
        return r;
    if (pl_repo_read_only(&repo))
        return pl_db_refuse_write(rd.conn, p->args->project, p->args->repo, err);
    if (p->args->repo_id && p->args->repo_id != repo.id)
        return pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" was deleted and created again meanwhile", p->args->repo);
    r = pl_db_branch_head(rd.conn, repo.id, p->args->branch, &p->head, err);
    if (r < 0)
        return r;
    p->has_head = r > 0;
    if (!p->has_head)
        memset(&p->head, 0, sizeof p->head);
    return 0;
}

/* ---- checks that the data of the operations exists with the stated length ---- */

static int missing(const struct pl_tree_op *op, const struct pl_hash *id, struct pl_err *err)
{
    char text[PL_HASH_HEX + 1];

    return pl_err_set(err, PL_ERETRY, "/%.*s: data %s is not in the store", (int)op->path_len, op->path, pl_hash_hex(id, text));
}

static int wrong_size(const struct pl_tree_op *op, uint64_t real, struct pl_err *err)
{
    return pl_err_set(err, PL_EINVAL, "/%.*s: the entry says %llu bytes, but its data has %llu", (int)op->path_len, op->path,
                      (unsigned long long)op->entry.size, (unsigned long long)real);
}

static int find_record(struct push *p, const struct pl_tree_op *op, const struct pl_hash *id, struct pl_location *ret,
                       struct pl_err *err)
{
    if (pl_store_locate(p->store, id, ret, NULL) < 0)
        return missing(op, id, err);
    return ret->hidden ? pl_pack_set_add(p->hidden, &ret->pack, err) : 0;
}

struct list_check {
    struct push *push;
    const struct pl_tree_op *op;
    struct pl_list_seen seen; /* shared by all operations */
    struct pl_effort *effort;
};

static int check_piece(void *arg, const struct pl_hash *id, bool is_chunk, uint64_t bytes, struct pl_err *err)
{
    struct list_check *check = arg;
    struct pl_location at;
    int r;

    r = find_record(check->push, check->op, id, &at, err);
    if (r < 0)
        return r;
    return !is_chunk || at.raw == bytes ? 0
                                        : pl_err_set(err, PL_EINVAL, "/%.*s: its chunk list gives a wrong length for a chunk",
                                                     (int)check->op->path_len, check->op->path);
}

/* Reads a list. The reference comes from a client, so a missing list is an error of the client, not damage. */
static int get_list(void *store, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    return pl_store_get(store, id, 0, ret, err);
}

static int check_list(struct list_check *check, struct pl_err *err)
{
    const struct pl_tree_op *op = check->op;
    struct pl_list_source lists = {check->push->store, get_list};
    uint64_t bytes = 0;
    int r = pl_list_visit(&lists, &op->entry.id, &check->seen, check->effort, check_piece, check, &bytes, err);

    return r < 0 || bytes == op->entry.size ? r : wrong_size(op, bytes, err);
}

static int check_entry(struct list_check *check, struct pl_err *err)
{
    const struct pl_tree_op *op = check->op;
    struct pl_location at;
    int r = pl_effort_add(check->effort, 1, err);

    r = r < 0 ? r : find_record(check->push, op, &op->entry.id, &at, err);
    if (r < 0)
        return r;
    if (op->entry.content == PL_CONTENT_LIST)
        return check_list(check, err);
    return at.raw == op->entry.size ? 0 : wrong_size(op, at.raw, err);
}

int pl_db_check_content(struct pl_store *store, const struct pl_tree_op *ops, size_t n, struct pl_pack_set *hidden,
                        struct pl_effort *effort, struct pl_err *err)
{
    struct push p = {.store = store, .hidden = hidden};
    struct list_check check = {.push = &p, .effort = effort};
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        check.op = &ops[i];
        if ((ops[i].op == PL_TREE_PUT || ops[i].op == PL_TREE_REPLACE) &&
            (ops[i].entry.content == PL_CONTENT_CHUNK || ops[i].entry.content == PL_CONTENT_LIST))
            r = check_entry(&check, err);
    }
    pl_list_seen_finish(&check.seen);
    return r;
}

/* ---- a named base: changes of the same paths since the base are conflicts ---- */

struct touched {
    const struct push *push;
    char paths[512];
    unsigned n;
};

static int compare_path(const void *key, const void *element)
{
    const struct pl_tree_op *a = key, *b = element;

    return pl_key_cmp(a->path, a->path_len, b->path, b->path_len);
}

/* True if an operation is on the path itself, or deletes a folder above it. */
static bool touches(const struct push *p, const char *path, size_t len)
{
    struct pl_tree_op key = {.path = path, .path_len = len};
    const struct pl_tree_op *op = bsearch(&key, p->ops, p->n_ops, sizeof key, compare_path);

    if (op)
        return true;
    for (key.path_len = len; key.path_len > 0;) {
        while (key.path_len > 0 && path[key.path_len - 1] != '/')
            key.path_len--;
        key.path_len -= key.path_len > 0;
        op = bsearch(&key, p->ops, p->n_ops, sizeof key, compare_path);
        if (op && (op->op == PL_TREE_DELETE_PREFIX || op->op == PL_TREE_REPLACE))
            return true;
    }
    return false;
}

static int note_conflict(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct touched *t = self;
    size_t used = strlen(t->paths);

    (void)err;
    if (!touches(t->push, change->path, change->path_len))
        return 0;
    if (t->n++ < 5)
        snprintf(t->paths + used, sizeof t->paths - used, "%s/%.*s", used ? ", " : "", (int)PL_MIN(change->path_len, (size_t)90),
                 change->path);
    return 0;
}

static bool names_base(const struct push *p)
{
    return p->args->base_root || (p->args->base && *p->args->base);
}

/* Resolves the base once. If the push names a branch as its base, the base is that branch's head at the start
 * of the push, even if the push takes several attempts. */
static int find_base(struct push *p, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};

    if (p->args->base_root) {
        p->base.root = *p->args->base_root;
        snprintf(p->base.run, sizeof p->base.run, "%s", p->args->base ? p->args->base : "");
        return 0;
    }
    rd = pl_db_read(p->db);
    return pl_db_commit_named(rd.conn, p->args->project, p->args->repo, p->args->base, &p->base, err);
}

static int check_base(struct push *p, struct pl_err *err)
{
    struct touched t = {.push = p};
    int r;

    if (!names_base(p))
        return 0;
    r = pl_tree_diff(&p->source, &p->base.root, &p->head.root, NULL, 0, note_conflict, &t, err);
    if (r < 0)
        return r;
    if (t.n == 0)
        return 0;
    r = pl_err_set(err, PL_ECONFLICT, "%u path%s changed since base %.8s: %s%s", t.n, t.n == 1 ? "" : "s",
                   *p->base.run ? p->base.run : "(empty)", t.paths, t.n > 5 ? ", …" : "");
    return pl_err_hint(err, r, "Look at diff file, then push again from the new head.");
}

/* Returns 1 if a retention rule dropped the base commit for its age. Later commits contain its changes, so
 * the open commit may still be finished. */
static int has_aged(struct pl_conn *c, const struct pl_push_args *a, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n,
                       "SELECT count(*) FROM commit_gone g JOIN repo r ON r.id = g.repo"
                       " WHERE r.project = ? AND r.name = ? AND g.run = ? AND g.why = ?",
                       "ssss", a->project, a->repo, a->base, PL_RETENTION_GONE_OLD);

    return r < 0 ? r : n > 0;
}

/* Checks that the head still contains the base of an open commit: readers saw the operations on top of that base. */
static int check_begun(const struct push *p, struct pl_err *err)
{
    const struct pl_push_args *a = p->args;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    struct pl_commit_row base;
    int r;

    if (!a->base_root || !a->base || !*a->base)
        return 0;
    if (!p->has_head)
        return pl_err_set(err, PL_ECONFLICT, "branch %s was deleted after the commit was started on %.8s: start another commit",
                          a->branch, a->base);
    rd = pl_db_read(p->db);
    r = pl_db_commit_named(rd.conn, a->project, a->repo, a->base, &base, NULL);
    if (r == PL_ENOTFOUND) {
        r = has_aged(rd.conn, a, err);
        return r != 0 ? PL_MIN(r, 0)
                      : pl_err_set(err, PL_ECONFLICT,
                                   "commit %.8s, on which this one was started, was deleted: start another commit", a->base);
    }
    if (r < 0)
        return pl_err_set(err, r, "commit %.8s cannot be read", a->base);
    return p->head.generation >= base.generation
               ? 0
               : pl_err_set(err, PL_ECONFLICT,
                            "branch %s was moved back to before commit %.8s, on which this one was started: start another commit",
                            a->branch, a->base);
}

/* ---- one attempt ---- */

static int edit_attributes(const struct push *p, const struct pl_node_sink *sink, struct pl_hash *ret_root, struct pl_err *err)
{
    struct pl_attributes_edit e = {
        .source = &p->source, .root = p->head.root, .attributes = p->head.attributes, .ops = p->ops, .n_ops = p->n_ops};

    return pl_attributes_edit(&e, sink, ret_root, err);
}

/* Writes the new tree, the attributes and the commit object into packs. `*ret_changed` is false if nothing differs
 * from the head. */
static int build(struct push *p, struct pl_commit_args *c, bool *ret_changed, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_recent_node_sink_finish) struct pl_recent_node_sink recent = {0};
    struct pl_pack_sink sink = pl_store_sink(p->store);
    struct pl_node_source source;
    struct pl_node_sink nodes;
    struct pl_tree_stats stats = {0};
    int r = pl_pack_builder_open(&sink, p->args->project, &session, err);

    if (r < 0)
        return r;
    if (p->args->add_records)
        r = p->args->add_records(p->args->self, session, err);
    if (r < 0)
        return r;
    pl_recent_node_sink_init(&recent, session, &p->source);
    nodes = pl_recent_node_sink_sink(&recent);
    source = pl_recent_node_sink_source(&recent);
    r = pl_tree_edit(&source, &nodes, &p->head.root, p->ops, p->n_ops, &c->root, err);
    /* read the numbers of files and bytes now, while the root is in the cache of recent nodes */
    r = r < 0 ? r : pl_tree_stats_get(&source, &c->root, NULL, 0, &stats, err);
    r = r < 0 ? r : edit_attributes(p, &nodes, &c->attributes, err);
    if (r < 0)
        return r;
    *ret_changed = !pl_hash_eq(&c->root, &p->head.root) || !pl_hash_eq(&c->attributes, &p->head.attributes);
    if (!*ret_changed)
        return 0;
    c->files = (int64_t)stats.files;
    c->bytes = (int64_t)stats.bytes;
    r = pl_commit_object_put(session, c, p->has_head ? &p->head.object : NULL, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

/* Makes one attempt. 0: committed, or nothing to change; PL_ERETRY: the head moved. */
static int attempt(struct push *p, char run[PL_ID_HEX + 1], struct pl_push_result *ret, struct pl_err *err)
{
    struct pl_commit_args c = {.project = p->args->project,
                               .repo = p->args->repo,
                               .branch = p->args->branch,
                               .run = run,
                               .message = p->args->message,
                               .author = p->args->author,
                               .stands_on = p->hidden};
    bool changed = false;
    int r = read_head(p, err);

    r = r < 0 ? r : check_begun(p, err);
    r = r < 0 ? r : check_base(p, err);
    if (r < 0)
        return r;
    if (p->args->commit)
        memcpy(run, p->args->commit, PL_ID_HEX + 1);
    else
        pl_id_make((uint64_t)(pl_clock_wall_us() / 1000), run);
    c.parent = p->head.run;
    c.expect = p->has_head ? p->head.id : 0;
    c.generation = p->head.generation + 1;
    r = build(p, &c, &changed, err);
    if (r < 0)
        return r;
    ret->changed = changed;
    ret->made_branch = changed && !p->has_head;
    ret->root = c.root;
    ret->files = changed ? c.files : p->head.files;
    ret->bytes = changed ? c.bytes : p->head.bytes;
    snprintf(ret->commit, sizeof ret->commit, "%s", changed ? run : p->head.run);
    return changed ? pl_db_run(p->db, PL_TX_LOGGED, pl_tx_commit, &c, err) : 0;
}

/* Reads the operations: a client's ops stream, which is checked here, or the list of an open commit, which
 * was checked when the operations were added. */
static int read_ops(struct push *p, struct pl_tree_op **ret_own, struct pl_err *err)
{
    int r;

    if (p->args->list) {
        p->ops = p->args->list;
        p->n_ops = p->args->n_list;
        return 0;
    }
    r = pl_tree_ops_read(p->args->ops, p->args->ops_len, ret_own, &p->n_ops, err);
    if (r == PL_EFORMAT) /* the bytes come from the client, so a format error is the client's, not damage in the store */
        r = pl_err_wrap(err, PL_EPROTO, "operations");
    p->ops = *ret_own;
    return r < 0 ? r : pl_db_check_content(p->store, p->ops, p->n_ops, p->hidden, p->args->effort, err);
}

/* Checks the data again before the next attempt: a hidden pack may be doomed by now, and its records may be
 * in other packs. */
static int look_again(struct push *p, struct pl_err *err)
{
    if (!p->hidden->map.len)
        return 0;
    pl_pack_set_finish(p->hidden);
    return pl_db_check_content(p->store, p->ops, p->n_ops, p->hidden, p->args->effort, err);
}

int pl_db_push(struct pl_db *db, struct pl_project_stores *stores, const struct pl_push_args *args, struct pl_push_result *ret,
               struct pl_err *err)
{
    _cleanup_(pl_store_release) struct pl_store_hold hold = {0};
    _cleanup_(pl_pack_set_finish) struct pl_pack_set hidden = {0};
    struct push p = {.db = db, .args = args, .hidden = &hidden};
    struct pl_push_result result = {0};
    _cleanup_free_ struct pl_tree_op *own = NULL;
    char run[PL_ID_HEX + 1];
    int r = pl_name_check("branch", args->branch, err);

    r = r < 0 ? r : pl_project_stores_get(stores, args->project, &p.store, err);
    if (r < 0)
        return r;
    pl_store_hold(p.store, &hold);
    p.source = (struct pl_node_source){p.store, pl_store_node_get};
    r = read_ops(&p, &own, err);
    if (r == 0 && names_base(&p))
        r = find_base(&p, err);
    if (r == 0) {
        r = PL_ERETRY;
        for (unsigned i = 0; i < PUSH_ATTEMPTS_MAX && r == PL_ERETRY; i++) {
            if (i && (r = look_again(&p, err)) < 0)
                break;
            r = attempt(&p, run, &result, err);
        }
    }
    if (r < 0)
        return pl_err_wrap(err, r, "%s/%s@%s", args->project, args->repo, args->branch);
    *ret = result;
    return 0;
}
