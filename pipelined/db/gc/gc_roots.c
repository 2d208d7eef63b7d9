/* Copies all roots of a project from one state of the database, then marks them. */
#include "pipelined/db/gc/gc_roots.h"

#include "pipelined/db/gc/result_codec.h"
#include "pipelined/db/open_commits/open_commits.h"
#include "pipelined/db/retention/retention.h"
#include "pipelined/plan/datum_table.h"
#include "storage/base/clock.h"
#include "storage/dataset/commit/commit.h"
#include "storage/tree_edit/tree_ops.h"

struct reading {
    const struct pl_gc_roots *roots;
    struct pl_conn *conn;
    struct pl_gc_mark *mark;
    struct pl_open_commit_need *needs; /* records that open commits need */
    size_t n_needs;
    struct pl_entry *kept; /* entries that the callback `keep` gave */
    size_t n_kept, cap_kept;
    uint64_t commits, commits_done;
};

/* ---- results of datums ---- */

/* Marks the content that an ops stream refers to. */
static int mark_ops(struct pl_gc_mark *m, const void *ops, size_t len, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r = pl_tree_ops_reader_init(&reader, ops, len, err);

    while (r >= 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0)
        if (op.op == PL_TREE_PUT || op.op == PL_TREE_REPLACE)
            if ((r = pl_gc_mark_entry(m, &op.entry, err)) < 0)
                break;
    return r;
}

/* Marks what a row of the datum table refers to. */
static int mark_row(void *self, struct pl_gc_mark *m, const void *bytes, size_t len, struct pl_err *err)
{
    struct pl_datum_row row;
    int r = pl_datum_row_decode(bytes, len, &row, err);

    (void)self;
    if (r == 0 && row.outputs == PL_ROW_INLINE)
        r = mark_ops(m, row.ops, row.ops_len, err);
    else if (r == 0 && row.outputs == PL_ROW_TREE)
        r = pl_gc_mark_tree(m, &row.root, NULL, NULL, err);
    return r;
}

/* Marks a result as a worker reported it: {"output": {"ops": base64} | {"root": hex}}. */
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

/* ---- roots of commits ---- */

int pl_gc_mark_object(struct pl_gc_mark *m, const struct pl_commit *c, struct pl_err *err)
{
    int r = pl_gc_mark_tree(m, &c->tree, NULL, NULL, err);

    r = r < 0 ? r : pl_gc_mark_tree(m, &c->attributes, NULL, NULL, err);
    r = r < 0 ? r : pl_gc_mark_tree(m, &c->table, mark_row, NULL, err);
    return r < 0 ? r : pl_gc_mark_tree(m, &c->owner, NULL, NULL, err);
}

/* ---- roots in the database ---- */

/* Roots are copied from one state of the database into a temporary table, which spills to a file, and marked from
 * there: a mark takes long, and a read transaction would keep the WAL from shrinking. It must be one state: a
 * reference moves from one table to another (from an input's commit to the job that reads it, from results to the
 * commit of an output), and a reader of both at different times could miss it in both. */
enum kind { PIN, COMMIT, TREE, RECORD, INPUT, RESULT, PLANNED };

#define SCHEMA "CREATE TEMP TABLE root(n INTEGER PRIMARY KEY, kind INTEGER, of INTEGER, a BLOB, b BLOB, c BLOB, d BLOB, e BLOB)"
/* Parameters: ?1 project, ?2 time, ?3 kind. If a retention rule may drop the commit or job to which a root
 * belongs (retention.h), column `of` is the row id of that commit or job, else 0. */
#define ROOT1 "INSERT INTO temp.root(kind, of, a) SELECT ?3, "
#define ROOT5 "INSERT INTO temp.root(kind, of, a, b, c, d, e) SELECT ?3, "

static const struct {
    enum kind kind;
    const char *copy;
} copies[] = {
    {PIN,
     ROOT1 "0, p.pack FROM pin p JOIN session s ON s.id = p.session WHERE s.project = ?1 AND s.lease_us >= ?2 GROUP BY p.pack"},
    /* newest first: nodes shared with older commits are read once, while they are in the cache */
    {COMMIT, ROOT5 "c.id, c.object, c.root, c.attributes, c.table_root, c.owner_root FROM commit_ c JOIN repo p ON p.id = c.repo"
                   " WHERE p.project = ?1 ORDER BY c.id DESC"},
    {TREE, ROOT1 "0, code_root FROM stage WHERE project = ?1"},
    {TREE, ROOT1 "0, root FROM checkpoint WHERE project = ?1"},
    {RECORD, ROOT1 "0, v.user_spec FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?1"},
    {RECORD, ROOT1 "0, v.effective_spec FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?1"},
    {RECORD, ROOT1 "l.job, l.blob FROM log_segment l JOIN job j ON j.id = l.job WHERE length(l.blob) > 0 AND j.project = ?1"},
    /* inputs of unfinished jobs, even if their commit was deleted */
    {INPUT, ROOT1 "0, json_extract(i.value, '$.root') FROM job j, json_each(j.inputs) i"
                  " WHERE j.final = 0 AND json_extract(i.value, '$.project') = ?1"},
    {RESULT, ROOT1 "r.job, r.rows FROM result r JOIN job j ON j.id = r.job WHERE j.project = ?1"},
    /* The inputs that were read by the jobs that made the branches' heads, even if the commits of those
     * inputs were deleted. The next plan compares the trees of its inputs with these trees to find what has
     * changed. These roots come last. */
    {PLANNED, ROOT1 "0, json_extract(i.value, '$.root') FROM branch b JOIN commit_ c ON c.id = b.head JOIN repo p"
                    " ON p.id = c.repo JOIN job j ON j.run = c.run AND j.project = p.project AND j.stage = p.name,"
                    " json_each(j.inputs) i WHERE json_extract(i.value, '$.project') = ?1"},
};

static int copy_roots(struct reading *g, struct pl_err *err)
{
    int r = pl_sql_script(g->conn, SCHEMA "; BEGIN", err);

    for (size_t i = 0; i < PL_ARRAY_SIZE(copies) && r >= 0; i++)
        r = pl_sql_exec(g->conn, err, copies[i].copy, "sii", g->roots->project, pl_clock_wall_us(), (int64_t)copies[i].kind);
    return r < 0 ? r : pl_sql_script(g->conn, "COMMIT", err);
}

static int mark_commit(struct reading *g, const struct pl_rows *row, struct pl_err *err)
{
    struct pl_hash object = pl_col_hash(row, 2);
    struct pl_commit c = {.tree = pl_col_hash(row, 3),
                          .attributes = pl_col_hash(row, 4),
                          .table = pl_col_hash(row, 5),
                          .owner = pl_col_hash(row, 6)};
    int r;

    (void)pl_gc_mark_record(g->mark, &object);
    r = pl_gc_mark_object(g->mark, &c, err);
    if (r < 0)
        return pl_err_wrap(err, r, "a commit of project %s", g->roots->project);
    if (g->roots->progress)
        g->roots->progress(g->roots->self, ++g->commits_done, g->commits);
    return 0;
}

static int mark_input(struct reading *g, const char *hex, struct pl_err *err)
{
    struct pl_hash root;
    int r = *hex ? pl_hash_parse(hex, &root, err) : 0;

    /* an input without a root has no commit, so there is nothing to mark */
    return r < 0 || !*hex ? r : pl_gc_mark_tree(g->mark, &root, NULL, NULL, err);
}

static int mark_planned(struct reading *g, const char *hex, struct pl_err *err)
{
    struct pl_hash root;

    return pl_hash_parse(hex, &root, NULL) < 0 ? 0 : pl_gc_mark_nodes(g->mark, &root, err);
}

static int mark_results(struct reading *g, const struct pl_rows *row, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    int r = pl_result_codec_column(row, 2, &list, err);

    return r < 0 ? r : pl_gc_mark_results(g->mark, list, err);
}

/* True if the retention pass would drop the row. */
static bool is_going(const struct reading *g, const struct pl_rows *row)
{
    const struct pl_retention_dropped *going = g->roots->going;
    int64_t of = pl_col_int(row, 1);
    const struct pl_map *m;

    if (!going || !of)
        return false;
    m = pl_col_int(row, 0) == COMMIT ? &going->commits : pl_col_int(row, 0) == RECORD ? &going->logs : &going->results;
    return pl_map_get(m, &of, sizeof of) != NULL;
}

/* Marks one copied root; columns: kind, of, a, b, c, d, e. */
static int mark_root(struct reading *g, const struct pl_rows *row, struct pl_err *err)
{
    struct pl_hash id = pl_col_hash(row, 2);

    if (is_going(g, row))
        return 0;
    switch ((enum kind)pl_col_int(row, 0)) {
    case PIN:
        pl_gc_mark_pack(g->mark, &id);
        return 0;
    case COMMIT:
        return mark_commit(g, row, err);
    case TREE:
        return pl_gc_mark_tree(g->mark, &id, NULL, NULL, err);
    case RECORD:
        (void)pl_gc_mark_record(g->mark, &id);
        return 0;
    case INPUT:
        return mark_input(g, pl_col_text(row, 2), err);
    case RESULT:
        return mark_results(g, row, err);
    case PLANNED:
        return mark_planned(g, pl_col_text(row, 2), err);
    }
    return 0;
}

static int mark_copies(struct reading *g, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t commits = 0;
    int r = pl_sql_int(g->conn, err, &commits, "SELECT count(*) FROM temp.root WHERE kind = ?", "i", (int64_t)COMMIT);

    g->commits = (uint64_t)commits;
    r = r < 0 ? r : pl_sql_query(g->conn, err, &rows, "SELECT kind, of, a, b, c, d, e FROM temp.root ORDER BY n", "");
    while (r >= 0 && (r = pl_sql_next(g->conn, &rows, err)) > 0)
        if ((r = mark_root(g, &rows, err)) < 0)
            return r;
    return r;
}

/* ---- open commits ---- */

/* Marks what open commits need of the store. A record that is only in the file of an open commit is skipped,
 * since no pack has it. */
static int mark_needs(struct reading *g, struct pl_store *store, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < g->n_needs && r == 0; i++) {
        const struct pl_open_commit_need *need = &g->needs[i];
        struct pl_entry entry = {.content = need->content, .id = need->id};
        struct pl_location at;

        if (pl_store_locate(store, &need->id, &at, NULL) < 0)
            continue;
        r = need->content == PL_CONTENT_NONE ? pl_gc_mark_tree(g->mark, &need->id, NULL, NULL, err)
                                             : pl_gc_mark_entry(g->mark, &entry, err);
    }
    return r;
}

/* ---- all roots ---- */

static int note_kept(void *self, const struct pl_entry *entry, struct pl_err *err)
{
    struct reading *g = self;

    if (g->n_kept == PL_GC_KEPT_MAX)
        return pl_err_set(err, PL_ELIMIT, "unfinished uploads have more than %u parts of files", PL_GC_KEPT_MAX);
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
    int r = copy_roots(g, err);

    /* all roots are known now, so packs that exist now hold everything that the roots reach */
    r = r < 0 ? r : pl_gc_mark_begin(g->mark, err);
    r = r < 0 ? r : mark_needs(g, pl_gc_mark_store(g->mark), err);
    r = r < 0 ? r : mark_kept(g, err);
    return r < 0 ? r : mark_copies(g, err);
}

int pl_gc_mark_roots(const struct pl_gc_roots *roots, struct pl_gc_mark *mark, struct pl_err *err)
{
    struct reading g = {.roots = roots, .mark = mark};
    /* Read each source of roots before the source to which its data moves: an upload becomes part of an open
     * commit, and an open commit becomes a commit. */
    int r = roots->keep ? roots->keep(roots->keeper, roots->project, note_kept, &g, err) : 0;

    if (r == 0 && roots->opens)
        r = pl_open_commits_roots(roots->opens, roots->project, &g.needs, &g.n_needs, err);
    r = r < 0 ? r : pl_db_own_reader(roots->db, &g.conn, err);
    r = r < 0 ? r : mark_all(&g, err);
    pl_conn_close(g.conn);
    free(g.needs);
    free(g.kept);
    return r < 0 ? pl_err_wrap(err, r, "cannot mark the data of project %s", roots->project) : 0;
}
