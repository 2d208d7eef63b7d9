/* The datums of a job, page by page: first its kept attempts from the database, then the datums whose results come from earlier
 * runs, from the datum table of its output commit. The table of a job of a million datums is read from where the page begins,
 * never as a whole. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/enum_key.h"
#include "pipelined/text/json_text.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define PLACE_DIGITS  20
#define REUSED_PREFIX "reused/"
#define REUSED_STATE  "reused"
/* Rows of the table that one page looks at: of a job that reused few of many datums a page may have fewer than `limit`. */
#define PAGE_ROWS_MAX 20000u
#define PLACE_MAX     (sizeof REUSED_PREFIX + 2 * PL_ENUM_KEY_MAX)

/* Where a page begins: after an attempt ("HASH/N/FENCE": attempt N at this datum under this lease), or after a row of the table
 * ("reused/KEY", in hex digits). */
struct place {
    struct pl_hash datum;
    int64_t attempt, fence;
    bool in_table;
    uint8_t key[PL_ENUM_KEY_MAX];
    size_t key_len;
};

/* A request, the job that it names, and the page as far as it is made. */
struct listing {
    struct pl_api *api;
    struct pl_api_page page;
    struct place after;
    const char *state; /* only this state; NULL = all */
    char run[PL_ID_HEX + 1];
    json_t *inputs; /* of the job */
    struct pl_hash table;
    bool params;  /* one of the inputs is a `params` */
    json_t *list; /* the page */
    size_t n;
    char next[PLACE_MAX]; /* "" = the list ends with this page */
};

static void listing_finish(struct listing *l)
{
    json_decref(l->inputs);
    json_decref(l->list);
}

/* ---- what is asked ---- */

static int place_parse(const struct pl_api_page *page, struct place *ret, struct pl_err *err)
{
    const char *slash = page->after ? strchr(page->after, '/') : NULL, *second = slash ? strchr(slash + 1, '/') : NULL;
    char hex[PL_HASH_HEX + 1], number[PLACE_DIGITS + 1];
    size_t digits;

    if (!page->after)
        return 0;
    if (strncmp(page->after, REUSED_PREFIX, strlen(REUSED_PREFIX)) == 0) {
        digits = strlen(slash + 1);
        ret->in_table = true;
        ret->key_len = digits / 2;
        return digits % 2 == 0 && ret->key_len <= sizeof ret->key && pl_hex_decode(slash + 1, ret->key, ret->key_len)
                   ? 0
                   : pl_api_page_refuse(page, err);
    }
    if (!second || slash - page->after != PL_HASH_HEX || second - slash > PLACE_DIGITS)
        return pl_api_page_refuse(page, err);
    snprintf(hex, sizeof hex, "%s", page->after);
    snprintf(number, sizeof number, "%.*s", (int)(second - slash - 1), slash + 1);
    if (pl_hash_parse(hex, &ret->datum, NULL) < 0 ||
        pl_api_page_number(&(struct pl_api_page){.after = number}, 0, &ret->attempt, NULL) < 0 ||
        pl_api_page_number(&(struct pl_api_page){.after = second + 1}, 0, &ret->fence, NULL) < 0)
        return pl_api_page_refuse(page, err);
    return 0;
}

static int read_state(const struct pl_http_request *req, const char **ret, struct pl_err *err)
{
    static const char *const states[] = {"success", "failed", "lost", REUSED_STATE};
    const char *state = pl_http_query(req, "state");

    *ret = state;
    for (size_t i = 0; state && i < PL_ARRAY_SIZE(states); i++)
        if (pl_streq(state, states[i]))
            return 0;
    return !state
               ? 0
               : pl_err_field(err,
                              pl_err_set(err, PL_EINVAL,
                                         "\"%.40s\" is not a state of a datum; accepted: success, failed, lost, reused", state),
                              "state");
}

/* Reads what the job's datums read, and the table of its output commit; zero if there is none, or none any more. */
static int read_job(struct pl_conn *c, const struct pl_http_request *req, int64_t job, struct listing *l, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    struct pl_commit_row commit;
    const json_t *in;
    size_t i;
    int r = pl_sql_query(c, err, &rows, "SELECT inputs FROM job WHERE id = ?", "i", job);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    l->inputs = pl_col_json(&rows, 0);
    if (!l->inputs)
        return pl_err_nomem(err);
    json_array_foreach(l->inputs, i, in) l->params = l->params || !*pl_json_str(in, "repo");
    snprintf(ref.name, sizeof ref.name, "%s", l->run);
    r = pl_db_commit_find(c, pl_http_param(req, "project"), pl_http_param(req, "stage"), &ref, &commit, err);
    if (r == 0)
        l->table = commit.table;
    return r == PL_ENOTFOUND || r == PL_EGONE ? 0 : r;
}

/* ---- attempts ---- */

static int list_attempts(struct listing *l, struct pl_conn *c, int64_t job, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char hex[PL_HASH_HEX + 1];
    int r = pl_sql_query(c, err, &rows,
                         PL_ATTEMPT_COLUMNS " WHERE job = ?1 AND (datum, attempt, fence) > (?2, ?3, ?4)"
                                            " AND (?5 IS NULL OR state = ?5) ORDER BY datum, attempt, fence LIMIT ?6",
                         "ibiisi", job, l->after.datum.b, (size_t)PL_HASH_BYTES, l->after.attempt, l->after.fence, l->state,
                         (int64_t)l->page.limit);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_hash datum = pl_col_hash(&rows, 0);

        r = pl_json_add(l->list, pl_attempt_row_json(&rows, l->params, false), err);
        snprintf(l->next, sizeof l->next, "%s/%lld/%lld", pl_hash_hex(&datum, hex), (long long)pl_col_int(&rows, 1),
                 (long long)pl_col_int(&rows, 11));
        l->n++;
    }
    if (l->n < l->page.limit)
        l->next[0] = '\0';
    return r;
}

/* ---- reused results ---- */

static int set(json_t *object, const char *key, json_t *value, struct pl_err *err)
{
    return json_object_set_new(object, key, value) < 0 ? pl_err_nomem(err) : 0;
}

/* Writes the datum's text as attempts have it, and its parameters if it has any. */
static int add_paths(const struct listing *l, const uint8_t *key, size_t len, json_t *out, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(key, len);
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_enum_match match;
    int r = 0;

    while (r == 0 && pl_enum_key_next(&c, &match)) {
        const json_t *in = json_array_get(l->inputs, match.leaf);
        bool params = !*pl_json_str(in, "repo");

        r = pl_buf_addf(&text, err, "%s%s=%s%.*s", text.len ? ", " : "", pl_json_str(in, "name"), params ? "" : "/",
                        (int)match.path_len, match.path);
        if (r == 0 && params)
            r = set(out, "params", json_loadb(match.path, match.path_len, 0, NULL), err);
    }
    if (r == 0 && !pl_buf_str(&text))
        r = pl_err_nomem(err);
    return r < 0 ? r : set(out, "paths", json_string(pl_buf_str(&text)), err);
}

/* Makes a datum like an attempt that was never made. If its key was too long to be stored, id and paths are not known. */
static int add_reused(struct listing *l, const struct pl_tree_item *item, const struct pl_datum_row *row, struct pl_err *err)
{
    const uint8_t *key = (const uint8_t *)item->path;
    const bool known = item->path_len == 0 || key[0] != 0xFF;
    char run[2 * sizeof row->run + 1];
    struct pl_hash id;
    json_t *out;
    int r;

    pl_hex_encode(row->run, sizeof row->run, run);
    pl_job_datum_id(key, item->path_len, l->inputs, &id);
    out = json_pack("{s:o, s:i, s:s, s:i, s:i, s:b, s:b, s:o, s:i, s:i, s:s}", "id",
                    known ? pl_api_hash_json(&id) : json_string(""), "attempt", 0, "state", REUSED_STATE, "exit_code", 0,
                    "signal", 0, "oom", 0, "timed_out", 0, "reason", json_sprintf("result of run %.8s", run), "finished_us", 0,
                    "fence", 0, "run", run);
    r = out ? add_paths(l, key, item->path_len, out, err) : pl_err_nomem(err);
    if (r < 0) {
        json_decref(out);
        return r;
    }
    l->n++;
    return pl_json_add(l->list, out, err);
}

/* Fills the page with rows of the table whose results come from other runs. */
static int list_reused(struct listing *l, const struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_effort effort = pl_request_effort(req);
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_store *store = NULL;
    struct pl_tree_item item;
    struct pl_datum_row row;
    char run[2 * sizeof row.run + 1];
    size_t looked = 0;
    int r = pl_project_stores_get(l->api->config.stores, pl_http_param(req, "project"), &store, err);

    source.self = store;
    r = r < 0 ? r : pl_tree_cursor_create(&source, &l->table, NULL, 0, &cursor, err);
    if (r == 0 && l->after.in_table)
        r = pl_tree_cursor_seek(cursor, (const char *)l->after.key, l->after.key_len, err);
    while (r >= 0 && (r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        const bool first = l->after.in_table && item.path_len == l->after.key_len &&
                           memcmp(item.path, l->after.key, item.path_len) == 0; /* the page begins after it */

        r = pl_effort_add(&effort, 1, err);
        r = r < 0 ? r : pl_datum_row_decode(item.entry.row, (size_t)item.entry.size, &row, err);
        if (r < 0)
            return r;
        pl_hex_encode(row.run, sizeof row.run, run);
        if (!first && row.state == PL_ROW_SUCCESS && !pl_streq(run, l->run))
            r = add_reused(l, &item, &row, err);
        if (r == 0 && (l->n == l->page.limit || ++looked == PAGE_ROWS_MAX)) {
            memcpy(l->next, REUSED_PREFIX, sizeof REUSED_PREFIX);
            pl_hex_encode(item.path, item.path_len, l->next + strlen(REUSED_PREFIX));
            return 0;
        }
    }
    return PL_MIN(r, 0);
}

/* ---- the route ---- */

static int read_attempts(struct listing *l, const struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->api->config.db);
    int64_t job = 0;
    int r = pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_http_param(req, "run"), &job,
                            l->run, err);

    r = r < 0 ? r : read_job(rd.conn, req, job, l, err);
    return r < 0 || l->after.in_table || (l->state && pl_streq(l->state, REUSED_STATE)) ? r : list_attempts(l, rd.conn, job, err);
}

static int list_datums(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(listing_finish) struct listing l = {.api = a, .list = json_array()};
    int r = l.list ? pl_api_page_read(req, &l.page, err) : pl_err_nomem(err);

    r = r < 0 ? r : place_parse(&l.page, &l.after, err);
    r = r < 0 ? r : read_state(req, &l.state, err);
    r = r < 0 ? r : read_attempts(&l, req, err);
    if (r == 0 && l.n < l.page.limit && !pl_hash_is_zero(&l.table) && (!l.state || pl_streq(l.state, REUSED_STATE)))
        r = list_reused(&l, req, err);
    if (r < 0)
        return r;
    *ret = pl_api_list("datums", TAKE_PTR(l.list), *l.next ? l.next : NULL);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/datums",
     .json = list_datums,
     .costly = true,
     .verb = PL_VERB_READ,
     .summary = "Lists the kept attempts at datums: of each job the first 1,000 failed ones, the first 1,000 "
                "successful ones and the first 1,000 that were lost with their workers. They are followed by the datums in state "
                "`reused`, once the job has its output commit: `run` is the run that computed their result. `params` are the "
                "values of a datum of a `params` input. A page may have fewer datums than `limit`; the last one has no `next`.",
     .query = "state after limit:integer",
     .reply = "DatumList"},
};
const struct pl_api_table pl_api_routes_datums = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
