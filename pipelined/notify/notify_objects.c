/* notify_objects: the difference of the trees of a commit and its parent. */
#include "pipelined/notify/notify_objects.h"

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/tree/tree_diff.h"

#include <string.h>

struct listing {
    const struct pl_notify_message *m;
    const char *after;
    json_t *records;
    char *last;
};

/* Reads the roots of the commit and of its parent. */
static int read_roots(struct pl_db *db, const struct pl_notify_message *m, struct pl_hash *ret_old, struct pl_hash *ret_new,
                      struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT c.root, p.root FROM commit_ c JOIN repo r ON r.id = c.repo"
                         " LEFT JOIN commit_ p ON p.repo = c.repo AND p.run = c.parent"
                         " WHERE r.project = ? AND r.name = ? AND c.run = ?",
                         "sss", m->project, pl_json_str(m->data, "repo"), pl_json_str(m->data, "commit"));

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "commit %.8s of repo %s was deleted", pl_json_str(m->data, "commit"),
                          pl_json_str(m->data, "repo"));
    if (r < 0)
        return r;
    *ret_new = pl_col_hash(&rows, 0);
    *ret_old = pl_col_hash(&rows, 1);
    return 0;
}

static bool is_file(const struct pl_entry *e)
{
    return e && (e->kind == PL_KIND_FILE || e->kind == PL_KIND_EXEC);
}

static int add_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct listing *l = self;
    const bool removed = !is_file(change->new_entry);
    json_t *record;

    if (removed && !is_file(change->old_entry))
        return 0;
    if (l->after && strcmp(change->path, l->after) <= 0)
        return 0;
    if (json_array_size(l->records) == PL_NOTIFY_RECORDS_MAX)
        return 1;
    record = pl_notify_s3_record(l->m, change->path, removed, removed ? 0 : change->new_entry->size);
    free(l->last);
    l->last = strdup(change->path);
    return l->last ? pl_json_add(l->records, record, err) : (json_decref(record), pl_err_nomem(err));
}

int pl_notify_objects(struct pl_db *db, struct pl_project_stores *stores, const struct pl_notify_message *m, const char *after,
                      json_t **ret, char **ret_next, struct pl_err *err)
{
    struct listing l = {.m = m, .after = after};
    struct pl_hash old_root = {0}, new_root = {0};
    struct pl_store *store = NULL;
    int r = read_roots(db, m, &old_root, &new_root, err);

    r = r < 0 ? r : pl_project_stores_get(stores, m->project, &store, err);
    if (r < 0)
        return r;
    l.records = json_array();
    r = l.records
            ? pl_tree_diff(&(struct pl_node_source){store, pl_store_node_get}, &old_root, &new_root, NULL, 0, add_change, &l, err)
            : pl_err_nomem(err);
    if (r >= 0) {
        *ret = TAKE_PTR(l.records);
        *ret_next = r > 0 ? TAKE_PTR(l.last) : NULL;
    }
    json_decref(l.records);
    free(l.last);
    return PL_MIN(r, 0);
}
