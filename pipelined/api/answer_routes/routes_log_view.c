/* Any lines of a stage's log, and a search in it, without reading the whole log (log_view.h). */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/retention/retention.h"
#include "pipelined/db/stage_log/log_view.h"
#include "pipelined/text/json_text.h"

#define LINES_DEFAULT 200u
#define REPLY_BYTES   (1u << 20) /* of text */

/* The log that a request names. */
struct asked {
    int64_t job;
    bool final;
    char run[PL_ID_HEX + 1];
    struct pl_hash datum;
    struct pl_effort effort;
    struct pl_log_filter filter;
};

/* Finds a datum by its id or a prefix of it among the kept attempts; a complete id is used without looking it up. */
static int find_datum(struct pl_conn *c, struct asked *k, const char *text, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_hash_parse(text, &k->datum, NULL);

    k->filter.datum = &k->datum;
    if (r == 0)
        return 0;
    r = pl_sql_query(c, err, &rows,
                     "SELECT datum FROM attempt WHERE job = ?1 AND substr(lower(hex(datum)), 1, length(?2)) = lower(?2) LIMIT 1",
                     "is", k->job, text);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r > 0)
        k->datum = pl_col_hash(&rows, 0);
    if (r == 0)
        r = pl_err_set(err, PL_ENOTFOUND, "the job has no datum \"%s\": pipelinectl list datum shows the ids", text);
    return r < 0 ? r : 0;
}

static int find_log(struct pl_api *a, const struct pl_http_request *req, struct asked *k, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    const char *datum = pl_http_query(req, "datum");
    uint64_t attempt = 0;
    int64_t final = 0;
    int r = pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_http_param(req, "run"),
                            &k->job, k->run, err);

    r = r < 0 ? r : pl_retention_check_job(rd.conn, k->job, PL_KEEP_LOGS, err);
    r = r < 0 ? r : pl_sql_int(rd.conn, err, &final, "SELECT final FROM job WHERE id = ?", "i", k->job);
    r = r < 0 || !datum ? r : find_datum(rd.conn, k, datum, err);
    r = r < 0 ? r : pl_http_query_u64(req, "attempt", 0, UINT32_MAX, &attempt, err);
    if (r == 0 && attempt && !datum)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "attempt is %u without a datum: name the datum, too", (unsigned)attempt),
                         "attempt");
    k->final = final != 0;
    k->effort = pl_request_effort(req);
    k->filter.effort = &k->effort;
    k->filter.attempt = (uint32_t)attempt;
    return r;
}

static int add_lines(const struct pl_log_lines *lines, json_t *list, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < lines->n; i++) {
        const struct pl_log_line *one = &lines->list[i];

        r = pl_json_add(list,
                        json_pack("{s:I, s:o, s:I, s:b, s:b}", "line", (json_int_t)one->number, "text",
                                  pl_json_bytes(one->len ? lines->text.data + one->at : NULL, one->len), "bytes",
                                  (json_int_t)one->bytes, "cut", (int)one->cut, "open", (int)one->open),
                        err);
    }
    return r;
}

static int read_range(const struct pl_http_request *req, struct pl_log_range *ret, struct pl_err *err)
{
    uint64_t most = LINES_DEFAULT;
    int r = pl_http_query_u64(req, "line", 0, INT64_MAX, &ret->first, err);

    r = r < 0 ? r : pl_http_query_u64(req, "byte", 0, INT64_MAX, &ret->byte, err);
    r = r < 0 ? r : pl_http_query_u64(req, "limit", LINES_DEFAULT, PL_LOG_LINES_MAX, &most, err);
    if (r == 0 && most == 0)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "limit is 0: use 1 to %u", PL_LOG_LINES_MAX), "limit");
    ret->tail = pl_http_query_flag(req, "tail");
    ret->most = (size_t)most;
    ret->max_bytes = REPLY_BYTES;
    return r;
}

static int get_lines(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_log_lines_finish) struct pl_log_lines lines = {0};
    struct pl_log_range range = {0};
    struct pl_log_total total = {0};
    struct asked k = {0};
    json_t *list;
    int r = read_range(req, &range, err);

    /* the job's state is read before its log: of a job that had ended, the log is then complete */
    r = r < 0 ? r : find_log(a, req, &k, err);
    r = r < 0 ? r
              : pl_stage_logs_lines(a->config.logs, pl_http_param(req, "project"), k.job, &k.filter, &range, &lines, &total, err);
    if (r < 0)
        return r;
    list = json_array();
    r = list ? add_lines(&lines, list, err) : pl_err_nomem(err);
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *ret = json_pack("{s:s, s:I, s:I, s:b, s:o}", "run", k.run, "bytes", (json_int_t)total.bytes, "total",
                     (json_int_t)total.lines, "final", (int)k.final, "lines", list);
    return *ret ? 0 : pl_err_nomem(err);
}

static int search_log(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_log_search_freep) struct pl_log_search *search = NULL;
    const char *q = pl_http_query(req, "q");
    struct pl_log_found found = {0};
    struct asked k = {0};
    uint64_t from = 1;
    int r = pl_http_query_u64(req, "from", 1, INT64_MAX, &from, err);

    if (r == 0)
        r = pl_http_query_flag(req, "errors") ? pl_log_search_errors(&search, err)
                                              : pl_err_field(err, pl_log_search_text(q ? q : "", &search, err), "q");
    r = r < 0 ? r : find_log(a, req, &k, err);
    r = r < 0 ? r
              : pl_stage_logs_search(a->config.logs, pl_http_param(req, "project"), k.job, &k.filter, search, from,
                                     pl_http_query_flag(req, "back"), &found, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:o, s:o}", "run", k.run, "line", found.line ? json_integer((json_int_t)found.line) : json_null(),
                     "next", found.next ? json_integer((json_int_t)found.next) : json_null());
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/log",
     .json = get_lines,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Returns lines of what the stage printed in the job: from number `line` on (1 is the first), from the line with byte "
         "`byte` on, or with `tail` the last ones; at most `limit` (200, at most 2,000) and about 1 MiB. `bytes` and `total` are "
         "those of the whole log, or of what the `datum`, an id or a prefix, printed, in one `attempt` if that is given. A line "
         "that is rewritten by a carriage return has its last state; `cut`: only its first 16 KiB are here; `open`: it goes on.",
     .query = "line:integer byte:integer tail:boolean limit:integer datum attempt:integer",
     .reply = "LogLines"},
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/log/search",
     .json = search_log,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Finds the first line of number `from` or above with the text `q`, in either case of its letters, or with `errors` one "
         "with a word such as error or Traceback; with `back` the last such line below `from`. If it looked through about 32 MiB "
         "without finding one, `next` is the `from` to go on with; of a longer line the rest is left out.",
     .query = "q errors:boolean from:integer back:boolean datum attempt:integer",
     .reply = "LogFound"},
};

static const struct pl_api_schema schemas[] = {
    {"LogLines", "run:string bytes:integer total:integer final:boolean lines:LogLine[]"},
    {"LogLine", "line:integer text:string bytes:integer cut:boolean open:boolean"},
    {"LogFound", "run:string line:integer? next:integer?"},
};

PL_API_TABLE(log_view, routes, schemas);
