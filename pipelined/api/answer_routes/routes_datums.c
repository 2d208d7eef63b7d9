/* The datums of a job, page by page: first its kept attempts from the database, then the datums whose results come from earlier
 * runs (reused_datums.h). A page reads the table from where it begins. And one datum of a job with its attempts. */
#include "pipelined/api/answer_routes/reused_datums.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>

#define PLACE_DIGITS  20
#define REUSED_PREFIX "reused/"
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
    struct pl_reused_job job;
    json_t *list; /* the page */
    size_t n;
    char next[PLACE_MAX]; /* "" = the list ends with this page */
};

static void listing_finish(struct listing *l)
{
    pl_reused_job_finish(&l->job);
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
    static const char *const states[] = {"success", "failed", "lost", PL_REUSED_STATE};
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

/* ---- attempts ---- */

static int list_attempts(struct listing *l, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char hex[PL_HASH_HEX + 1];
    int r = pl_sql_query(c, err, &rows,
                         PL_ATTEMPT_COLUMNS " WHERE job = ?1 AND (datum, attempt, fence) > (?2, ?3, ?4)"
                                            " AND (?5 IS NULL OR state = ?5) ORDER BY datum, attempt, fence LIMIT ?6",
                         "ibiisi", l->job.id, l->after.datum.b, (size_t)PL_HASH_BYTES, l->after.attempt, l->after.fence, l->state,
                         (int64_t)l->page.limit);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_hash datum = pl_col_hash(&rows, 0);

        r = pl_json_add(l->list, pl_attempt_row_json(&rows, l->job.params, false), err);
        snprintf(l->next, sizeof l->next, "%s/%lld/%lld", pl_hash_hex(&datum, hex), (long long)pl_col_int(&rows, 1),
                 (long long)pl_col_int(&rows, 11));
        l->n++;
    }
    if (l->n < l->page.limit)
        l->next[0] = '\0';
    return r;
}

/* ---- reused results ---- */

/* Fills the page with rows of the table whose results come from other runs. */
static int list_reused(struct listing *l, const struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_reused_rows_finish) struct pl_reused_rows rows = {0};
    const struct place *after = &l->after;
    size_t looked = 0;
    json_t *one;
    int r = pl_reused_rows_open(l->api, req, &l->job, after->key, after->key_len, &rows, err);

    while (r >= 0 && (r = pl_reused_rows_next(&rows, err)) > 0) {
        const bool first = after->in_table && rows.item.path_len == after->key_len &&
                           memcmp(rows.item.path, after->key, after->key_len) == 0; /* the page begins after it */

        if (!first && rows.reused) {
            r = pl_reused_row_json(&rows, &one, err);
            r = r < 0 ? r : pl_json_add(l->list, one, err);
            l->n++;
        }
        if (r >= 0 && (l->n == l->page.limit || ++looked == PAGE_ROWS_MAX)) {
            memcpy(l->next, REUSED_PREFIX, sizeof REUSED_PREFIX);
            pl_hex_encode(rows.item.path, rows.item.path_len, l->next + strlen(REUSED_PREFIX));
            return 0;
        }
    }
    return PL_MIN(r, 0);
}

/* ---- the list ---- */

static int read_attempts(struct listing *l, const struct pl_http_request *req, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(l->api->config.db);
    int r = pl_reused_job_read(rd.conn, req, &l->job, err);

    return r < 0 || l->after.in_table || (l->state && pl_streq(l->state, PL_REUSED_STATE)) ? r : list_attempts(l, rd.conn, err);
}

static int list_datums(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(listing_finish) struct listing l = {.api = a, .list = json_array()};
    int r = l.list ? pl_api_page_read(req, &l.page, err) : pl_err_nomem(err);

    r = r < 0 ? r : place_parse(&l.page, &l.after, err);
    r = r < 0 ? r : read_state(req, &l.state, err);
    r = r < 0 ? r : read_attempts(&l, req, err);
    if (r == 0 && l.n < l.page.limit && !pl_hash_is_zero(&l.job.table) && (!l.state || pl_streq(l.state, PL_REUSED_STATE)))
        r = list_reused(&l, req, err);
    if (r < 0)
        return r;
    *ret = pl_api_list("datums", TAKE_PTR(l.list), *l.next ? l.next : NULL);
    return 0;
}

/* ---- one datum ---- */

/* Adds to `list` the kept attempts of the job at the datum that `text` names. */
static int add_attempts(struct pl_conn *c, int64_t job, const char *text, bool params, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         PL_ATTEMPT_COLUMNS " WHERE job = ?1 AND " PL_ATTEMPT_NAMED " ORDER BY datum, attempt, fence LIMIT 100",
                         "is", job, text);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_json_add(list, pl_attempt_row_json(&rows, params, true), err);
    return r;
}

/* Fills `list` for a datum that the job has not tried: the attempts of the run that computed its result, each with this run;
 * without these, the datum as it is listed. */
static int add_reused(struct pl_api *a, const struct pl_http_request *req, const struct pl_reused_job *job, json_t *list,
                      char ret_run[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *found = NULL;
    int64_t before = 0;
    json_t *one;
    size_t i;
    int r = pl_reused_datum_find(a, req, job, pl_http_param(req, "datum"), &found, err);

    if (r < 0)
        return r;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_json_str(found, "run"),
                            &before, ret_run, NULL);
        if (r == 0)
            r = add_attempts(rd.conn, before, pl_json_str(found, "id"), job->params, list, err);
        else if (r == PL_ENOTFOUND)
            r = 0;
    }
    json_array_foreach(list, i, one)
    {
        if (r == 0 && !json_object_get(one, "run"))
            r = json_object_set(one, "run", json_object_get(found, "run")) < 0 ? pl_err_nomem(err) : 0;
    }
    snprintf(ret_run, PL_ID_HEX + 1, "%s", pl_json_str(found, "run"));
    return r < 0 || json_array_size(list) ? r : pl_json_add(list, TAKE_PTR(found), err);
}

/* Replies with all kept attempts at one datum, and the command that runs it on the user's machine. */
static int inspect_datum(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_reused_job_finish) struct pl_reused_job job = {0};
    _cleanup_(json_decrefp) json_t *list = json_array();
    const char *project = pl_http_param(req, "project");
    const bool other = !pl_streq(project, PL_DEFAULT_PROJECT);
    char run[PL_ID_HEX + 1] = "";
    json_t *id;
    int r = list ? 0 : pl_err_nomem(err);

    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_reused_job_read(rd.conn, req, &job, err);
        r = r < 0 ? r : add_attempts(rd.conn, job.id, pl_http_param(req, "datum"), job.params, list, err);
    }
    if (r == 0 && json_array_size(list) == 0)
        r = add_reused(a, req, &job, list, run, err);
    if (r < 0)
        return r;
    id = json_object_get(json_array_get(list, 0), "id");
    *ret = json_pack("{s:O, s:o, s:s*, s:O}", "id", id, "try",
                     json_sprintf("pipelinectl try %s%s%s --at %.8s --datum %.12s", other ? project : "", other ? "/" : "",
                                  pl_http_param(req, "stage"), job.run, json_string_value(id)),
                     "run", *run ? run : NULL, "attempts", list);
    return *ret ? 0 : pl_err_nomem(err);
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
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/datums/{datum}",
     .json = inspect_datum,
     .costly = true,
     .verb = PL_VERB_READ,
     .summary = "Lists the attempts at one datum, named by its id, a prefix of it, or its paths. `run` is the earlier run of "
                "which the job took an attempt over, because it did not try the datum again. A reused datum has a `run` of its "
                "own, which computed its result, and the attempts of that run; if none of them is kept, one in state `reused`. "
                "`tail_line` of a failed attempt is the line of its `tail` that explains the failure best; 1 is the first line.",
     .reply = "DatumAttempts"},
};
const struct pl_api_table pl_api_routes_datums = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
