/* Reads the roots of each project from the database, gives them to pl_fsck, and saves the progress of a full check
 * in a file. */
#include "pipelined/db/writer/db_fsck.h"

#include "pipelined/db/writer/db_open.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/dataset/fsck/fsck_log.h"
#include "storage/system/io.h"

#include <inttypes.h>
#include <stdio.h>

#define NOTE_MAX_BYTES (4u << 20)

/* A running check. */
struct checking {
    const struct pl_db_fsck *how;
    char project[PL_NAME_MAX_BYTES + 1]; /* "": the log is being checked */
    struct pl_log_head head;             /* log position of the database */
    /* Progress. */
    json_t *note; /* {"store", "began_us", "projects": {NAME: {"after", "bad": […]}}}; NULL: no progress is saved */
    int64_t noted_ms;
    struct pl_hash last_bad;
};

static struct pl_conn *take(const struct pl_db_fsck *c)
{
    return c->db ? pl_db_reader(c->db) : c->conn;
}

static void give_back(const struct pl_db_fsck *c, struct pl_conn *conn)
{
    if (c->db)
        pl_db_reader_done(c->db, conn);
}

/* ---- saved progress ---- */

static void no_note(struct checking *c)
{
    json_decref(c->note);
    c->note = NULL;
}

static void write_note(struct checking *c)
{
    _cleanup_free_ char *text = c->note ? pl_json_text(c->note, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    c->noted_ms = pl_clock_mono_ms();
    if (text && pl_io_write_file(c->how->note_path, text, strlen(text), 0600, NULL) < 0)
        no_note(c); /* the check goes on without saved progress */
}

static json_t *fresh_note(const char *store)
{
    return json_pack("{s:s, s:I, s:{}}", "store", store, "began_us", (json_int_t)pl_clock_wall_us(), "projects");
}

static bool is_of_use(const json_t *note, const char *store)
{
    const char *of = json_string_value(json_object_get(note, "store"));
    int64_t age = pl_clock_wall_us() - json_integer_value(json_object_get(note, "began_us"));

    return of && pl_streq(of, store) && json_is_object(json_object_get(note, "projects")) && age >= 0 &&
           age < (int64_t)PL_DB_FSCK_NOTE_DAYS * 86400 * 1000000;
}

/* Reads the progress of an interrupted check, or starts with an empty one. */
static void read_note(struct checking *c)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = NOTE_MAX_BYTES};
    char store[33];

    pl_hex_encode(c->head.store_id, sizeof c->head.store_id, store);
    if (!c->how->full || !c->how->note_path)
        return;
    if (!c->how->anew && pl_io_read_file(c->how->note_path, &text, NULL) == 0)
        c->note = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (c->note && is_of_use(c->note, store))
        return;
    json_decref(c->note);
    c->note = fresh_note(store);
}

static json_t *project_note(struct checking *c)
{
    json_t *projects = json_object_get(c->note, "projects"), *own = json_object_get(projects, c->project);

    if (own || !c->note)
        return own;
    own = json_pack("{s:s, s:[]}", "after", "", "bad");
    if (!own || json_object_set_new(projects, c->project, own) < 0)
        no_note(c);
    return c->note ? own : NULL;
}

static void note_bad(struct checking *c, const struct pl_hash *pack)
{
    char hex[PL_HASH_HEX + 1];
    json_t *own = project_note(c), *bad = json_object_get(own, "bad");

    if (!own || pl_hash_eq(&c->last_bad, pack))
        return;
    c->last_bad = *pack;
    if (json_array_size(bad) >= PL_DB_FSCK_BAD_MAX || json_array_append_new(bad, json_string(pl_hash_hex(pack, hex))) < 0)
        no_note(c);
}

/* The point at which an interrupted check of the project stopped, and the packs that it found damaged, in the
 * form of pl_fsck's options. */
struct left {
    struct pl_hash after;
    struct pl_hash *again;
    size_t n;
};

static void left_finish(struct left *l)
{
    free(l->again);
}

/* Fills `o` with the saved progress of the project; leaves it as it is when there is none. */
static void take_left(struct checking *c, struct left *ret, struct pl_fsck_options *o)
{
    json_t *own = project_note(c), *bad = json_object_get(own, "bad"), *one;
    const char *after = json_string_value(json_object_get(own, "after"));
    size_t i;

    if (!after || pl_hash_parse(after, &ret->after, NULL) < 0)
        return;
    ret->again = calloc(json_array_size(bad) + 1, sizeof *ret->again);
    if (!ret->again)
        return;
    json_array_foreach(bad, i, one)
    {
        const char *hex = json_string_value(one);

        if (!hex || pl_hash_parse(hex, &ret->again[ret->n++], NULL) < 0)
            return; /* malformed: check from the beginning */
    }
    o->after = &ret->after;
    o->again = ret->again;
    o->n_again = ret->n;
}

/* ---- callbacks of pl_fsck ---- */

static int on_finding(void *self, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    struct checking *c = self;

    if (finding->pack)
        note_bad(c, finding->pack);
    return c->how->finding ? c->how->finding(c->how->self, finding, err) : 0;
}

static int on_progress(void *self, const struct pl_fsck_progress *progress, struct pl_err *err)
{
    struct checking *c = self;
    json_t *own = progress->upto ? project_note(c) : NULL;
    char hex[PL_HASH_HEX + 1];

    (void)err;
    if (own && json_object_set_new(own, "after", json_string(pl_hash_hex(progress->upto, hex))) < 0)
        no_note(c);
    if (c->note && pl_clock_mono_ms() - c->noted_ms >= PL_DB_FSCK_NOTE_MS)
        write_note(c);
    if (c->how->progress)
        c->how->progress(c->how->self, c->project, progress);
    return 0;
}

static bool on_stop(void *self)
{
    const struct checking *c = self;

    return c->how->stop && c->how->stop(c->how->self);
}

/* True if the database still refers to the root. The hash columns have no index, so pl_fsck calls this only
 * once for each damaged root. */
static bool on_alive(void *self, const struct pl_fsck_root *root)
{
    static const char *const queries[] = {
        [PL_FSCK_COMMIT] = "SELECT EXISTS (SELECT 1 FROM commit_ WHERE object = ?1)",
        [PL_FSCK_TREE] = "SELECT EXISTS (SELECT 1 FROM stage WHERE code_root = ?1)",
        [PL_FSCK_BLOB] = ("SELECT EXISTS (SELECT 1 FROM pipeline_version WHERE user_spec = ?1 OR effective_spec = ?1)"
                          " OR EXISTS (SELECT 1 FROM log_segment WHERE blob = ?1)"),
    };
    const struct checking *c = self;
    struct pl_conn *conn = take(c->how);
    int64_t there = 1;
    int r = pl_sql_int(conn, NULL, &there, queries[root->kind], "h", &root->object);

    give_back(c->how, conn);
    return r < 0 || there != 0;
}

/* ---- roots ---- */

struct roots {
    struct pl_fsck_root *list;
    size_t n, cap;
};

static void roots_finish(struct roots *v)
{
    for (size_t i = 0; i < v->n; i++)
        free((char *)(uintptr_t)v->list[i].label);
    free(v->list);
}

static int roots_add(struct roots *v, enum pl_fsck_kind kind, const char *label, struct pl_hash object, struct pl_err *err)
{
    struct pl_fsck_root *grown;

    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 64;

        grown = realloc(v->list, cap * sizeof *grown);
        if (!grown)
            return pl_err_nomem(err);
        v->list = grown;
        v->cap = cap;
    }
    v->list[v->n] = (struct pl_fsck_root){strdup(label), object, kind};
    if (!v->list[v->n].label)
        return pl_err_nomem(err);
    v->n++;
    return 0;
}

/* Queries for a label and a hash of each root of one project. Commits are ordered by age: pl_fsck checks the
 * newest last. */
static const struct {
    enum pl_fsck_kind kind;
    const char *sql;
} root_queries[] = {
    {PL_FSCK_COMMIT, "SELECT r.project || '/' || r.name || '@' || substr(c.run, 1, 8), c.object FROM commit_ c"
                     " JOIN repo r ON r.id = c.repo WHERE r.project = ? ORDER BY c.id"},
    {PL_FSCK_BLOB, "SELECT 'spec of pipeline ' || p.project || '/' || p.name || ' version ' || v.version, v.user_spec"
                   " FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?"},
    {PL_FSCK_BLOB,
     "SELECT 'effective spec of pipeline ' || p.project || '/' || p.name || ' version ' || v.version, v.effective_spec"
     " FROM pipeline_version v JOIN pipeline p ON p.id = v.pipeline WHERE p.project = ?"},
    {PL_FSCK_TREE, "SELECT 'code of stage ' || project || '/' || name || ' version ' || version, code_root FROM stage"
                   " WHERE project = ? AND code_root IS NOT NULL"},
    {PL_FSCK_BLOB,
     "SELECT 'log of ' || j.project || '/' || j.stage || ' in run ' || substr(j.run, 1, 8), l.blob FROM log_segment l"
     " JOIN job j ON j.id = l.job WHERE j.project = ? AND length(l.blob) > 0"},
};

static int read_roots(struct pl_conn *conn, const char *project, struct roots *ret, struct pl_err *err)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(root_queries); i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
        int r = pl_sql_query(conn, err, &rows, root_queries[i].sql, "s", project);

        while (r >= 0 && (r = pl_sql_next(conn, &rows, err)) > 0)
            r = roots_add(ret, root_queries[i].kind, pl_col_text(&rows, 0), pl_col_hash(&rows, 1), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the whole check ---- */

/* Checks one project: reads its roots, resumes from the saved progress, and saves the progress at the end. */
static int check_project(struct checking *c, const char *project, struct pl_fsck_report *sum, struct pl_err *err)
{
    _cleanup_(roots_finish) struct roots roots = {0};
    _cleanup_(left_finish) struct left left = {0};
    struct pl_fsck_options o = {.full = c->how->full,
                                .threads = c->how->threads,
                                .finding = on_finding,
                                .progress = on_progress,
                                .stop = on_stop,
                                .alive = on_alive,
                                .self = c};
    struct pl_conn *conn;
    struct pl_store *store;
    int r = pl_project_stores_get(c->how->stores, project, &store, err);

    if (r < 0)
        return r;
    (void)snprintf(c->project, sizeof c->project, "%s", project);
    conn = take(c->how);
    r = read_roots(conn, project, &roots, err);
    give_back(c->how, conn);
    if (r < 0)
        return r;
    take_left(c, &left, &o);
    r = pl_fsck(store, roots.list, roots.n, &o, sum, err);
    if (r == 0 || r == PL_ECANCELED)
        write_note(c);
    return r;
}

static int check_log(struct checking *c, struct pl_fsck_report *sum, struct pl_err *err)
{
    struct pl_fsck_options o = {.full = c->how->full, .finding = on_finding, .progress = on_progress, .stop = on_stop, .self = c};

    return pl_fsck_log(pl_project_stores_objects(c->how->stores), c->head.store_id, &c->head, &o, sum, err);
}

static int read_projects(struct checking *c, json_t *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_conn *conn = take(c->how);
    int r = pl_db_read_head(conn, &c->head, err);

    r = r < 0 ? r : pl_sql_query(conn, err, &rows, "SELECT name FROM project ORDER BY name", "");
    while (r >= 0 && (r = pl_sql_next(conn, &rows, err)) > 0)
        r = pl_json_add(ret, json_string(pl_col_text(&rows, 0)), err);
    pl_rows_finish(&rows);
    give_back(c->how, conn);
    return r;
}

int pl_db_fsck_run(const struct pl_db_fsck *how, struct pl_fsck_report *sum, struct pl_err *err)
{
    struct checking c = {.how = how, .noted_ms = pl_clock_mono_ms()};
    _cleanup_(json_decrefp) json_t *names = json_array();
    const json_t *name;
    size_t i;
    int r = names ? read_projects(&c, names, err) : pl_err_nomem(err);

    r = r < 0 ? r : check_log(&c, sum, err);
    if (r == 0)
        read_note(&c);
    json_array_foreach(names, i, name)
    {
        r = r < 0 ? r : check_project(&c, json_string_value(name), sum, err);
    }
    if (r == 0 && c.note)
        unlink(how->note_path);
    no_note(&c);
    return r;
}
