#include "gc_roots.h"

#include "pipelined/core/table.h"
#include "pipelined/db/opens.h"
#include "pipelined/db/result_rows.h"
#include "storage/base/clock.h"
#include "storage/dataset/commit.h"
#include "storage/tree/ops.h"

struct reading {
    const struct pl_gc_roots *roots;
    struct pl_conn *conn;
    struct pl_gc_mark *mark;
    struct pl_open_need *needs; /* of open commits */
    size_t n_needs;
    struct pl_entry *kept; /* of others */
    size_t n_kept, cap_kept;
};

/* ---- what datums left ---- */

/* The content that an ops stream names. */
static int mark_ops(struct pl_gc_mark *m, const void *ops, size_t len, struct pl_err *err)
{
    struct pl_ops_reader reader;
    struct pl_tree_op op;
    int r = pl_ops_reader_init(&reader, ops, len, err);

    while (r >= 0 && (r = pl_ops_reader_next(&reader, &op, err)) > 0)
        if (op.op == PL_TREE_PUT || op.op == PL_TREE_REPLACE)
            if ((r = pl_gc_mark_entry(m, &op.entry, err)) < 0)
                break;
    return r;
}

/* A row of the datum table. */
static int mark_row(void *self, struct pl_gc_mark *m, const void *bytes, size_t len, struct pl_err *err)
{
    struct pl_row row;
    int r = pl_row_decode(bytes, len, &row, err);

    (void)self;
    if (r == 0 && row.outputs == PL_ROW_INLINE)
        r = mark_ops(m, row.ops, row.ops_len, err);
    else if (r == 0 && row.outputs == PL_ROW_TREE)
        r = pl_gc_mark_tree(m, &row.root, NULL, NULL, err);
    return r;
}

/* A result as a worker reported it: {"output": {"ops": base64} | {"root": hex}}. */
static int mark_result(struct pl_gc_mark *m, const json_t *result, struct pl_err *err)
{
    const json_t *output = json_object_get(result, "output");
    const char *ops = json_string_value(json_object_get(output, "ops")),
               *root = json_string_value(json_object_get(output, "root"));
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_hash id;
    int r = 0;

    if (root && *root) {
        r = pl_hash_parse(root, &id, err);
        return r < 0 ? r : pl_gc_mark_tree(m, &id, NULL, NULL, err);
    }
    if (!ops || !*ops)
        return 0;
    r = pl_base64_decode(ops, &bytes, err);
    return r < 0 ? r : mark_ops(m, bytes.data, bytes.len, err);
}

int pl_gc_mark_results(struct pl_gc_mark *m, const json_t *rows, struct pl_err *err)
{
    const json_t *one;
    size_t i;
    int r = 0;

    json_array_foreach(rows, i, one)
    {
        r = r < 0 ? r : mark_result(m, json_array_get(one, 1), err);
    }
    return r;
}

/* ---- tables ---- */

int pl_gc_mark_object(struct pl_gc_mark *m, const struct pl_commit *c, struct pl_err *err)
{
    int r = pl_gc_mark_tree(m, &c->tree, NULL, NULL, err);

    r = r < 0 ? r : pl_gc_mark_tree(m, &c->attributes, NULL, NULL, err);
    r = r < 0 ? r : pl_gc_mark_tree(m, &c->table, mark_row, NULL, err);
    return r < 0 ? r : pl_gc_mark_tree(m, &c->owner, NULL, NULL, err);
}

static int mark_commit_row(struct pl_gc_mark *m, const struct pl_rows *rows, struct pl_err *err)
{
    struct pl_hash object = pl_col_hash(rows, 0);
    struct pl_commit c = {.tree = pl_col_hash(rows, 1),
                          .attributes = pl_col_hash(rows, 2),
                          .table = pl_col_hash(rows, 3),
                          .owner = pl_col_hash(rows, 4)};

    (void)pl_gc_mark_record(m, &object);
    return pl_gc_mark_object(m, &c, err);
}

static int mark_commits(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t all = 0, done = 0;
    int r = pl_sql_int(g->conn, err, &all, "SELECT count(*) FROM commit_ c JOIN repo p ON p.id = c.repo WHERE p.project = ?", "s",
                       g->roots->project);

    /* the newest first: what they share with older ones is met once, and read while it is in the cache */
    r = r < 0 ? r
              : pl_sql_query(g->conn, err, &rows,
                             "SELECT c.object, c.root, c.attributes, c.table_root, c.owner_root FROM commit_ c JOIN repo p"
                             " ON p.id = c.repo WHERE p.project = ? ORDER BY c.id DESC",
                             "s", g->roots->project);
    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        r = mark_commit_row(g->mark, &rows, err);
        if (r < 0)
            return pl_err_wrap(err, r, "a commit of project %s", g->roots->project);
        if (g->roots->progress)
            g->roots->progress(g->roots->self, (uint64_t)++done, (uint64_t)all);
    }
    return r;
}

/* Queries with the project as argument, whose first column is the root of a tree of paths, … */
static const char *const tree_queries[] = {
    "SELECT s.code_root FROM stage s WHERE s.project = ?",
    "SELECT root FROM checkpoint WHERE project = ?",
};
/* … or whose columns are records. */
static const char *const record_queries[] = {
    "SELECT v.user_spec FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?",
    "SELECT v.effective_spec FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?",
    "SELECT l.blob FROM log_segment l JOIN job j ON j.id = l.job WHERE length(l.blob) > 0 AND j.project = ?",
};

static int mark_trees(struct reading *g, const char *query, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows, query, "s", g->roots->project);

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        struct pl_hash root = pl_col_hash(&rows, 0);

        if ((r = pl_gc_mark_tree(g->mark, &root, NULL, NULL, err)) < 0)
            return r;
    }
    return r;
}

static int mark_records(struct reading *g, const char *query, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows, query, "s", g->roots->project);

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        struct pl_hash id = pl_col_hash(&rows, 0);

        (void)pl_gc_mark_record(g->mark, &id);
    }
    return r;
}

/* What unfinished jobs read, whatever became of its commit. */
static int mark_inputs(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows,
                         "SELECT json_extract(i.value, '$.root') FROM job j, json_each(j.inputs) i"
                         " WHERE j.final = 0 AND json_extract(i.value, '$.project') = ?",
                         "s", g->roots->project);

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        struct pl_hash root;

        if (*pl_col_text(&rows, 0) == '\0') /* it has no commit */
            continue;
        r = pl_hash_parse(pl_col_text(&rows, 0), &root, err);
        r = r < 0 ? r : pl_gc_mark_tree(g->mark, &root, NULL, NULL, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* Plans follow from what the job before was planned over, which may be deleted by now: its nodes tell what has changed since. */
static int mark_planned(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows,
                         "SELECT json_extract(i.value, '$.root') FROM branch b JOIN commit_ c ON c.id = b.head JOIN repo p"
                         " ON p.id = c.repo JOIN job j ON j.run = c.run AND j.project = p.project AND j.stage = p.name,"
                         " json_each(j.inputs) i WHERE json_extract(i.value, '$.project') = ?",
                         "s", g->roots->project);

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        struct pl_hash root;

        if (pl_hash_parse(pl_col_text(&rows, 0), &root, NULL) == 0 && (r = pl_gc_mark_nodes(g->mark, &root, err)) < 0)
            return r;
    }
    return r;
}

static int mark_results(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows, "SELECT r.rows FROM result r JOIN job j ON j.id = r.job WHERE j.project = ?", "s",
                         g->roots->project);

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *list = NULL;

        r = pl_col_result_rows(&rows, 0, &list, err);
        r = r < 0 ? r : pl_gc_mark_results(g->mark, list, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int mark_pins(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(g->conn, err, &rows,
                         "SELECT DISTINCT p.pack FROM pin p JOIN session s ON s.id = p.session WHERE s.project = ?"
                         " AND s.lease_us >= ?",
                         "si", g->roots->project, pl_clock_wall_us());

    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0) {
        struct pl_hash pack = pl_col_hash(&rows, 0);

        pl_gc_mark_pack(g->mark, &pack);
    }
    return r;
}

/* ---- open commits ---- */

/* What is only in their files is in no pack, and stays where it is. */
static int mark_needs(struct reading *g, struct pl_store *store, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < g->n_needs && r == 0; i++) {
        const struct pl_open_need *need = &g->needs[i];
        struct pl_entry entry = {.content = need->content, .id = need->id};
        struct pl_location at;

        if (pl_store_locate(store, &need->id, &at, NULL) < 0)
            continue;
        r = need->content == PL_CONTENT_NONE ? pl_gc_mark_tree(g->mark, &need->id, NULL, NULL, err)
                                             : pl_gc_mark_entry(g->mark, &entry, err);
    }
    return r;
}

/* ---- all of it ---- */

static int note_kept(void *self, const struct pl_entry *entry, struct pl_err *err)
{
    struct reading *g = self;

    if (g->n_kept == g->cap_kept) {
        size_t cap = g->cap_kept ? g->cap_kept * 2 : 64;
        struct pl_entry *kept = reallocarray(g->kept, cap, sizeof *kept);

        if (!kept)
            return pl_err_nomem(err);
        g->kept = kept;
        g->cap_kept = cap;
    }
    g->kept[g->n_kept++] = *entry;
    return 0;
}

static int mark_kept(struct reading *g, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < g->n_kept && r == 0; i++)
        r = pl_gc_mark_entry(g->mark, &g->kept[i], err);
    return r;
}

static int mark_all(struct reading *g, struct pl_err *err)
{
    int64_t now;
    int r = pl_sql_script(g->conn, "BEGIN", err);

    /* a transaction has its snapshot from its first read on */
    r = r < 0 ? r : pl_sql_int(g->conn, err, &now, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_seq'", "");
    r = r < 0 ? r : pl_gc_mark_begin(g->mark, err);
    r = r < 0 ? r : mark_pins(g, err);
    r = r < 0 ? r : mark_needs(g, pl_gc_mark_store(g->mark), err);
    r = r < 0 ? r : mark_kept(g, err);
    r = r < 0 ? r : mark_commits(g, err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(tree_queries); i++)
        r = r < 0 ? r : mark_trees(g, tree_queries[i], err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(record_queries); i++)
        r = r < 0 ? r : mark_records(g, record_queries[i], err);
    r = r < 0 ? r : mark_inputs(g, err);
    r = r < 0 ? r : mark_results(g, err);
    r = r < 0 ? r : mark_planned(g, err); /* last */
    if (!sqlite3_get_autocommit(g->conn->db))
        (void)!pl_sql_script(g->conn, "ROLLBACK", NULL);
    return r;
}

int pl_gc_mark_roots(const struct pl_gc_roots *roots, struct pl_gc_mark *mark, struct pl_err *err)
{
    struct reading g = {.roots = roots, .mark = mark};
    /* Each before what it may become: an upload goes into an open commit, and that becomes a commit in the database. */
    int r = roots->keep ? roots->keep(roots->keeper, roots->project, note_kept, &g, err) : 0;

    if (r == 0 && roots->opens)
        r = pl_opens_needs(roots->opens, roots->project, &g.needs, &g.n_needs, err);
    r = r < 0 ? r : pl_db_own_reader(roots->db, &g.conn, err);
    r = r < 0 ? r : mark_all(&g, err);
    pl_conn_close(g.conn);
    free(g.needs);
    free(g.kept);
    return r < 0 ? pl_err_wrap(err, r, "mark project %s", roots->project) : 0;
}
