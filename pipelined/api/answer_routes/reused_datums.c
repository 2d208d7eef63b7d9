/* Walks the datum table of a job's output commit, and names its rows as attempts are named. */
#include "pipelined/api/answer_routes/reused_datums.h"

#include "pipelined/db/retention/retention.h"
#include "pipelined/plan/enum_key.h"
#include "pipelined/text/json_text.h"

#include <string.h>

/* ---- the job ---- */

int pl_reused_job_read(struct pl_conn *c, const struct pl_http_request *req, struct pl_reused_job *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *project = pl_http_param(req, "project"), *stage = pl_http_param(req, "stage");
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    struct pl_commit_row commit;
    const json_t *in;
    size_t i;
    int r = pl_api_job_find(c, project, stage, pl_http_param(req, "run"), &ret->id, ret->run, err);

    r = r < 0 ? r : pl_sql_query(c, err, &rows, "SELECT inputs FROM job WHERE id = ?", "i", ret->id);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    ret->inputs = pl_col_json(&rows, 0);
    if (!ret->inputs)
        return pl_err_nomem(err);
    json_array_foreach(ret->inputs, i, in) ret->params = ret->params || !*pl_json_str(in, "repo");
    memcpy(ref.name, ret->run, sizeof ret->run);
    r = pl_db_commit_find(c, project, stage, &ref, &commit, err);
    if (r == 0)
        ret->table = commit.table;
    return r == PL_ENOTFOUND || r == PL_EGONE ? 0 : r;
}

void pl_reused_job_finish(struct pl_reused_job *j)
{
    json_decref(j->inputs);
}

/* ---- rows ---- */

int pl_reused_rows_open(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, const uint8_t *from,
                        size_t from_len, struct pl_reused_rows *ret, struct pl_err *err)
{
    struct pl_store *store = NULL;
    int r = pl_project_stores_get(a->config.stores, pl_http_param(req, "project"), &store, err);

    ret->job = job;
    ret->effort = pl_request_effort(req);
    ret->source = (struct pl_node_source){.self = store, .get = pl_store_node_get};
    r = r < 0 ? r : pl_tree_cursor_create(&ret->source, &job->table, NULL, 0, &ret->cursor, err);
    return r < 0 || !from_len ? r : pl_tree_cursor_seek(ret->cursor, (const char *)from, from_len, err);
}

int pl_reused_rows_next(struct pl_reused_rows *rows, struct pl_err *err)
{
    int r = pl_tree_cursor_next(rows->cursor, &rows->item, err);

    if (r <= 0)
        return r;
    r = pl_effort_add(&rows->effort, 1, err);
    r = r < 0 ? r : pl_datum_row_decode(rows->item.entry.row, (size_t)rows->item.entry.size, &rows->row, err);
    if (r < 0)
        return r;
    pl_hex_encode(rows->row.run, sizeof rows->row.run, rows->run);
    rows->reused = rows->row.state == PL_ROW_SUCCESS && !pl_streq(rows->run, rows->job->run);
    return 1;
}

void pl_reused_rows_finish(struct pl_reused_rows *rows)
{
    rows->cursor = pl_tree_cursor_destroy(rows->cursor);
}

/* False: the plan has stored a hash in the place of the datum's key. */
static bool is_known(const struct pl_reused_rows *rows)
{
    return rows->item.path_len == 0 || *(const uint8_t *)rows->item.path != 0xFF;
}

static void datum_id(const struct pl_reused_rows *rows, struct pl_hash *ret)
{
    pl_job_datum_id((const uint8_t *)rows->item.path, rows->item.path_len, rows->job->inputs, ret);
}

/* Writes the datum's text as attempts have it. `ret_params`, if not NULL, gets the values of its `params` input (borrowed, not
 * NUL-terminated), or NULL if it has none. */
static int write_paths(const struct pl_reused_rows *rows, struct pl_buf *out, struct pl_enum_match *ret_params,
                       struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(rows->item.path, rows->item.path_len);
    struct pl_enum_match match;
    int r = 0;

    pl_buf_clear(out);
    while (r == 0 && pl_enum_key_next(&c, &match)) {
        const json_t *in = json_array_get(rows->job->inputs, match.leaf);
        const bool params = !*pl_json_str(in, "repo");

        r = pl_buf_addf(out, err, "%s%s=%s%.*s", out->len ? ", " : "", pl_json_str(in, "name"), params ? "" : "/",
                        (int)match.path_len, match.path);
        if (params && ret_params)
            *ret_params = match;
    }
    return r == 0 && !pl_buf_str(out) ? pl_err_nomem(err) : r;
}

int pl_reused_row_json(const struct pl_reused_rows *rows, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_enum_match params = {0};
    struct pl_hash id;
    json_t *out;
    int r = write_paths(rows, &text, &params, err);

    if (r < 0)
        return r;
    datum_id(rows, &id);
    out = json_pack("{s:o, s:i, s:s, s:i, s:i, s:b, s:b, s:o, s:i, s:i, s:s, s:s}", "id",
                    is_known(rows) ? pl_api_hash_json(&id) : json_string(""), "attempt", 0, "state", PL_REUSED_STATE, "exit_code",
                    0, "signal", 0, "oom", 0, "timed_out", 0, "reason", json_sprintf("result of run %.8s", rows->run),
                    "finished_us", 0, "fence", 0, "run", rows->run, "paths", pl_buf_str(&text));
    if (out && params.path && json_object_set_new(out, "params", json_loadb(params.path, params.path_len, 0, NULL)) < 0) {
        json_decref(out);
        out = NULL;
    }
    *ret = out;
    return out ? 0 : pl_err_nomem(err);
}

/* ---- one datum ---- */

/* Returns 1 if `text` names the datum of the current row, else 0. */
static int is_named(const struct pl_reused_rows *rows, const char *text, bool digits, struct pl_buf *paths, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    struct pl_hash id;
    int r;

    if (!rows->reused || !is_known(rows))
        return 0;
    if (digits) {
        datum_id(rows, &id);
        return strncasecmp(pl_hash_hex(&id, hex), text, strlen(text)) == 0;
    }
    r = write_paths(rows, paths, NULL, err);
    return r < 0 ? r : pl_streq(pl_buf_str(paths), text);
}

/* Replies that neither an attempt nor a row is there, or that the record of the job's datums was dropped. */
static int not_found(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, const char *text,
                     struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    int r = pl_retention_check_job(rd.conn, job->id, PL_KEEP_RESULTS, err);

    return r < 0 ? r
                 : pl_err_set(err, PL_ENOTFOUND,
                              "job %s of run %.8s has no kept attempt of a datum \"%.200s\", and reused none: pipelinectl list "
                              "datum shows the datums that it has",
                              pl_http_param(req, "stage"), job->run, text);
}

int pl_reused_datum_find(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, const char *text,
                         json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_reused_rows_finish) struct pl_reused_rows rows = {0};
    _cleanup_(pl_buf_finish) struct pl_buf paths = {0};
    const bool digits = !text[strspn(text, "0123456789abcdefABCDEF")];
    int r = 1, named = 0;

    if (!*text || pl_hash_is_zero(&job->table))
        return not_found(a, req, job, text, err);
    r = pl_reused_rows_open(a, req, job, NULL, 0, &rows, err);
    while (r >= 0 && named == 0 && (r = pl_reused_rows_next(&rows, err)) > 0)
        named = r = is_named(&rows, text, digits, &paths, err);
    if (r < 0)
        return r;
    return named ? pl_reused_row_json(&rows, ret, err) : not_found(a, req, job, text, err);
}
