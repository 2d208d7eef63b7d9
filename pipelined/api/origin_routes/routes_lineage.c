/* Jobs as run events of OpenLineage (https://openlineage.io/spec/2-0-2), for catalogs that poll.
 *
 * Each job gives START and, when it has ended, COMPLETE, FAIL or ABORT. Events are made from the tables when they are asked
 * for. The position of a page is "ID+OPEN,OPEN": all jobs up to ID gave their START, and those of OPEN had not ended. So each
 * event comes once, and a request reads no job that gave all its events. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>
#include <time.h>

#define SCHEMA               "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
#define FACETS               "https://openlineage.io/spec/facets/"
#define FACET(version, name) FACETS version "/" name ".json#/$defs/" name
#define UUID_SIZE            37
#define TIME_SIZE            64
#define WINDOW               20000 /* ids of jobs that one request examines */
#define OPEN_MAX             200   /* unfinished jobs of a position; the list waits for them when there are more */
#define EVENTS_DEFAULT       100
#define EVENTS_MAX           1000
#define TEXT_CHARS           "4000" /* of a reason */

/* ---- the position ---- */

struct position {
    int64_t seen;
    int64_t open[OPEN_MAX];
    size_t n_open;
};

static int refuse(const char *after, struct pl_err *err)
{
    return pl_api_page_refuse(&(struct pl_api_page){.after = after}, err);
}

static int position_parse(const char *after, struct position *ret, struct pl_err *err)
{
    const char *p = after;

    *ret = (struct position){0};
    if (!after)
        return 0;
    for (char separator = '+';; separator = ',') {
        char *end;
        const long long n = strtoll(p, &end, 10);

        if (end == p || *p < '0' || *p > '9' || n < 0 || (separator == ',' && ret->n_open == OPEN_MAX))
            return refuse(after, err);
        if (separator == '+')
            ret->seen = n;
        else
            ret->open[ret->n_open++] = n;
        if (!*end)
            return 0;
        if (*end != (p == after ? '+' : ','))
            return refuse(after, err);
        p = end + 1;
    }
}

static int position_text(const struct position *at, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_addf(out, err, "%lld", (long long)at->seen);

    for (size_t i = 0; r >= 0 && i < at->n_open; i++)
        r = pl_buf_addf(out, err, "%c%lld", i ? ',' : '+', (long long)at->open[i]);
    return r < 0 ? r : pl_buf_add(out, "", 1, err);
}

/* ---- names ---- */

struct lineage {
    struct pl_api *api;
    struct pl_conn *conn;
    const char *project; /* only jobs of this project; NULL = all */
    char namespace[300]; /* of jobs and datasets: "pipelined://HOST:PORT" */
    char producer[100];
    json_t *events;
    size_t limit;
};

static void name_lineage(struct lineage *l)
{
    const char *start = strstr(l->api->url, "://");
    size_t len;

    start = start ? start + 3 : l->api->url;
    len = strcspn(start, "/");
    snprintf(l->namespace, sizeof(l->namespace), "pipelined://%.*s", (int)PL_MIN(len, (size_t)250), start);
    snprintf(l->producer, sizeof(l->producer), "urn:pipelined:%.60s", l->api->config.version);
}

static void time_text(int64_t us, char ret[TIME_SIZE])
{
    const time_t s = (time_t)(us / 1000000);
    struct tm tm;
    char day[32];

    gmtime_r(&s, &tm);
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret, TIME_SIZE, "%s.%06dZ", day, (int)(us % 1000000));
}

static void uuid_of_hex(const char *hex, char ret[UUID_SIZE])
{
    snprintf(ret, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* Makes the id of a job: the start of the SHA-256 of its name, marked as a UUID of version 8 (RFC 9562). */
static void job_uuid(const struct pl_rows *job, char ret[UUID_SIZE])
{
    char name[2 * PL_NAME_MAX_BYTES + PL_ID_HEX + 3], hex[PL_HASH_HEX + 1];
    struct pl_hash hash;
    const int n = snprintf(name, sizeof(name), "%s/%s/%s", pl_col_text(job, 1), pl_col_text(job, 2), pl_col_text(job, 3));

    pl_hash_sha256(name, PL_MIN((size_t)n, sizeof(name) - 1), &hash);
    hash.b[6] = (uint8_t)((hash.b[6] & 0x0F) | 0x80);
    hash.b[8] = (uint8_t)((hash.b[8] & 0x3F) | 0x80);
    uuid_of_hex(pl_hash_hex(&hash, hex), ret);
}

/* ---- facets ---- */

/* Adds a facet, whose members it takes. */
static int add_facet(const struct lineage *l, json_t *facets, const char *name, const char *schema, json_t *facet,
                     struct pl_err *err)
{
    if (!facet || json_object_set_new(facet, "_producer", json_string(l->producer)) < 0 ||
        json_object_set_new(facet, "_schemaURL", json_string(schema)) < 0) {
        json_decref(facet);
        return pl_err_nomem(err);
    }
    return json_object_set_new(facets, name, facet) < 0 ? pl_err_nomem(err) : 0;
}

#define JOB_SELECT                                                                                                               \
    "SELECT j.id, j.run, j.project, j.stage, j.pipeline, j.state, substr(j.reason, 1, " TEXT_CHARS "), j.output, j.inputs,"      \
    " j.final, j.created_us, coalesce(j.finished_us, 0), coalesce(r.created_us, j.created_us), coalesce(s.version, 0), s.spec,"  \
    " s.git, v.origin, json_extract(j.ms, '$.gpus'), coalesce(hex(j.code), '') FROM job j LEFT JOIN run r ON r.id = j.run"       \
    " LEFT JOIN stage s ON s.id = j.version"                                                                                     \
    " LEFT JOIN pipeline_version v ON v.pipeline = s.pipeline AND v.version = s.version"

static int add_tags(const struct lineage *l, const struct pl_rows *job, json_t *facets, struct pl_err *err)
{
    char version[24];
    json_t *tags;

    snprintf(version, sizeof(version), "%lld", (long long)pl_col_int(job, 13));
    tags = json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}]", "key", "run", "value",
                     pl_col_text(job, 1), "source", "PIPELINED", "key", "version", "value", version, "source", "PIPELINED", "key",
                     "device", "value", pl_col_int(job, 17) > 0 ? "gpu" : "cpu", "source", "PIPELINED", "key", "code", "value",
                     pl_col_text(job, 18), "source", "PIPELINED");
    return add_facet(l, facets, "tags", FACET("1-0-0", "TagsRunFacet"), json_pack("{s:o}", "tags", tags), err);
}

static int run_facets(const struct lineage *l, const struct pl_rows *job, json_t *facets, struct pl_err *err)
{
    char begun[TIME_SIZE], uuid[UUID_SIZE];
    int r;

    uuid_of_hex(pl_col_text(job, 1), uuid);
    time_text(pl_col_int(job, 12), begun);
    r = add_facet(l, facets, "nominalTime", FACET("1-0-1", "NominalTimeRunFacet"), json_pack("{s:s}", "nominalStartTime", begun),
                  err);
    r = r < 0 ? r
              : add_facet(l, facets, "parent", FACET("1-2-0", "ParentRunFacet"),
                          json_pack("{s:{s:s}, s:{s:s, s:o}}", "run", "runId", uuid, "job", "namespace", l->namespace, "name",
                                    json_sprintf("%s/%s", pl_col_text(job, 2), pl_col_text(job, 4))),
                          err);
    r = r < 0 ? r
              : add_facet(l, facets, "processing_engine", FACET("1-1-1", "ProcessingEngineRunFacet"),
                          json_pack("{s:s, s:s}", "version", l->api->config.version, "name", "pipelined"), err);
    return r < 0 ? r : add_tags(l, job, facets, err);
}

static int add_location(const struct lineage *l, const json_t *origin, json_t *facets, struct pl_err *err)
{
    const char *url = pl_json_str(origin, "url"), *path = pl_json_str(origin, "path"), *commit = pl_json_str(origin, "commit"),
               *branch = pl_json_str(origin, "branch");

    if (!*url)
        return 0;
    return add_facet(l, facets, "sourceCodeLocation", FACET("1-1-0", "SourceCodeLocationJobFacet"),
                     json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*}", "type", "git", "url", url, "repoUrl", url, "path",
                               *path ? path : NULL, "version", *commit ? commit : NULL, "branch", *branch ? branch : NULL),
                     err);
}

/* Adds the command or script of the stage. */
static int add_source(const struct lineage *l, const json_t *spec, json_t *facets, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const char *script = json_string_value(json_object_get(spec, "script"));
    const json_t *word;
    size_t i;
    int r = script ? pl_buf_add_str(&text, script, err) : 0;

    json_array_foreach(json_object_get(spec, "run"), i, word)
    {
        r = r < 0 ? r : pl_buf_addf(&text, err, "%s%s", i ? " " : "", json_is_string(word) ? json_string_value(word) : "");
    }
    r = r < 0 ? r : pl_buf_add(&text, "", 1, err);
    if (r < 0 || text.len <= 1)
        return r;
    return add_facet(
        l, facets, "sourceCode", FACET("1-0-1", "SourceCodeJobFacet"),
        json_pack("{s:s, s:s}", "language", script ? "script" : "command", "sourceCode", pl_utf8_clean((char *)text.data)), err);
}

static int job_facets(const struct lineage *l, const struct pl_rows *job, json_t *facets, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *spec = pl_col_json(job, 14), *origin = pl_col_json(job, 16);
    int r = spec && origin ? 0 : pl_err_nomem(err);

    r = r < 0 ? r
              : add_facet(l, facets, "jobType", FACET("2-0-4", "JobTypeJobFacet"),
                          json_pack("{s:s, s:s, s:s}", "processingType", "BATCH", "integration", "PIPELINED", "jobType", "STAGE"),
                          err);
    r = r < 0 ? r : add_location(l, origin, facets, err);
    return r < 0 ? r : add_source(l, spec, facets, err);
}

/* ---- datasets ---- */

/* Appends a commit as a dataset, with its numbers of files and bytes under `statistics`. */
static int add_dataset(const struct lineage *l, const char *project, const char *repo, const char *commit, bool input,
                       json_t *list, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *facets = json_object(), *statistics = json_object();
    int r = pl_sql_query(
        l->conn, err, &rows,
        "SELECT c.files, c.bytes, c.branch FROM repo r JOIN commit_ c ON c.repo = r.id WHERE r.project = ? AND r.name = ?"
        " AND c.run = ?",
        "sss", project, repo, commit);

    /* the list owns both facets from here on */
    if (pl_json_add(list,
                    json_pack("{s:s, s:o, s:o, s:o}", "namespace", l->namespace, "name", json_sprintf("%s/%s", project, repo),
                              "facets", facets, input ? "inputFacets" : "outputFacets", statistics),
                    err) < 0)
        return PL_ENOMEM;
    r = r < 0 ? r
              : add_facet(l, facets, "version", FACET("1-0-1", "DatasetVersionDatasetFacet"),
                          json_pack("{s:s}", "datasetVersion", commit), err);
    r = r < 0 ? r : pl_sql_next(l->conn, &rows, err);
    if (r <= 0)
        return r;
    r = add_facet(l, facets, "symlinks", FACET("1-0-1", "SymlinksDatasetFacet"),
                  json_pack("{s:[{s:s, s:o, s:s}]}", "identifiers", "namespace", l->namespace, "name",
                            json_sprintf("%s/%s@%s", project, repo, pl_col_text(&rows, 2)), "type", "BRANCH"),
                  err);
    return r < 0 ? r
                 : add_facet(l, statistics, input ? "inputStatistics" : "outputStatistics",
                             input ? FACET("1-0-0", "InputStatisticsInputDatasetFacet")
                                   : FACET("1-0-2", "OutputStatisticsOutputDatasetFacet"),
                             json_pack("{s:I, s:I}", "fileCount", (json_int_t)pl_col_int(&rows, 0), "size",
                                       (json_int_t)pl_col_int(&rows, 1)),
                             err);
}

static int add_inputs(const struct lineage *l, const struct pl_rows *job, json_t *list, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *inputs = pl_col_json(job, 8);
    const json_t *in;
    size_t i;
    int r = inputs ? 0 : pl_err_nomem(err);

    json_array_foreach(inputs, i, in)
    {
        const char *project = pl_json_str(in, "project"), *repo = pl_json_str(in, "repo"), *commit = pl_json_str(in, "commit");

        if (r >= 0 && *commit && l->conn->readable(l->conn->who, project, repo))
            r = add_dataset(l, project, repo, commit, true, list, err);
    }
    return r;
}

/* ---- events ---- */

static const char *end_of(const char *state)
{
    return pl_streq(state, "success") ? "COMPLETE" : pl_streq(state, "failure") ? "FAIL" : "ABORT";
}

/* Appends one event of the job: its START, or its end. */
static int add_event(const struct lineage *l, const struct pl_rows *job, bool end, struct pl_err *err)
{
    const char *type = end ? end_of(pl_col_text(job, 5)) : "START";
    json_t *of_run = json_object(), *of_job = json_object(), *inputs = json_array(), *outputs = json_array();
    char at[TIME_SIZE], uuid[UUID_SIZE];
    int r;

    time_text(pl_col_int(job, end ? 11 : 10), at);
    job_uuid(job, uuid);
    r = pl_json_add(l->events,
                    json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:o}, s:{s:s, s:o, s:o}, s:o, s:o}", "eventType", type, "eventTime",
                              at, "producer", l->producer, "schemaURL", SCHEMA, "run", "runId", uuid, "facets", of_run, "job",
                              "namespace", l->namespace, "name", json_sprintf("%s/%s", pl_col_text(job, 2), pl_col_text(job, 3)),
                              "facets", of_job, "inputs", inputs, "outputs", outputs),
                    err);
    r = r < 0 ? r : run_facets(l, job, of_run, err);
    r = r < 0 ? r : job_facets(l, job, of_job, err);
    r = r < 0 ? r : add_inputs(l, job, inputs, err);
    if (r >= 0 && *pl_col_text(job, 7))
        r = add_dataset(l, pl_col_text(job, 2), pl_col_text(job, 3), pl_col_text(job, 7), false, outputs, err);
    if (r >= 0 && end && !pl_streq(type, "COMPLETE"))
        r = add_facet(l, of_run, "errorMessage", FACET("1-0-1", "ErrorMessageRunFacet"),
                      json_pack("{s:s, s:s}", "message", pl_col_text(job, 6), "programmingLanguage", "unknown"), err);
    return r;
}

/* Gives the ends of jobs that had not ended; keeps those that still have not, and those that do not fit on the page. */
static int add_ends(const struct lineage *l, struct position *at, struct pl_err *err)
{
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < at->n_open; i++) {
        _cleanup_(pl_rows_finish) struct pl_rows job = {0};

        if (json_array_size(l->events) < l->limit) {
            r = pl_sql_query(l->conn, err, &job, JOB_SELECT " WHERE j.id = ? AND readable(j.project, j.stage)", "i", at->open[i]);
            r = r < 0 ? r : pl_sql_next(l->conn, &job, err);
            if (r < 0)
                return r;
            if (r == 0) /* its run was deleted */
                continue;
            if (pl_col_int(&job, 9)) {
                r = add_event(l, &job, true, err);
                if (r < 0)
                    return r;
                continue;
            }
        }
        at->open[n++] = at->open[i];
    }
    at->n_open = n;
    return 0;
}

/* Gives the events of jobs after the position, out of the next WINDOW ids. */
static int add_new(const struct lineage *l, struct position *at, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows job = {0};
    int64_t newest = 0;
    bool full = false;
    int r = pl_sql_int(l->conn, err, &newest, "SELECT coalesce(max(id), 0) FROM job", "");

    newest = newest - WINDOW > at->seen ? at->seen + WINDOW : newest;
    r = r < 0 ? r
              : pl_sql_query(l->conn, err, &job,
                             JOB_SELECT " WHERE j.id > ?1 AND j.id <= ?2 AND (?3 IS NULL OR j.project = ?3)"
                                        " AND readable(j.project, j.stage) ORDER BY j.id",
                             "iis", at->seen, newest, l->project);
    while (r >= 0) {
        full = json_array_size(l->events) + 2 > l->limit || at->n_open == OPEN_MAX;
        if (full || (r = pl_sql_next(l->conn, &job, err)) <= 0)
            break;
        r = add_event(l, &job, false, err);
        if (r >= 0 && pl_col_int(&job, 9))
            r = add_event(l, &job, true, err);
        else if (r >= 0)
            at->open[at->n_open++] = pl_col_int(&job, 0);
        at->seen = pl_col_int(&job, 0);
    }
    if (r >= 0 && !full)
        at->seen = PL_MAX(at->seen, newest);
    return PL_MIN(r, 0);
}

static int list_events(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf next = {0};
    struct lineage l = {.api = a, .project = pl_http_query(req, "project"), .events = json_array()};
    struct position at;
    uint64_t limit = 0;
    int r = position_parse(pl_http_query(req, "after"), &at, err);

    r = r < 0 ? r : pl_http_query_u64(req, "limit", EVENTS_DEFAULT, EVENTS_MAX, &limit, err);
    if (r >= 0 && limit < 2)
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "limit is %llu: use 2 to %d", (unsigned long long)limit, EVENTS_MAX),
                         "limit");
    l.limit = (size_t)limit;
    if (r >= 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        name_lineage(&l);
        l.conn = rd.conn;
        r = add_ends(&l, &at, err);
        r = r < 0 ? r : add_new(&l, &at, err);
    }
    r = r < 0 ? r : position_text(&at, &next, err);
    if (r < 0) {
        json_decref(l.events);
        return r;
    }
    *ret = pl_api_list("events", l.events, (const char *)next.data);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/lineage",
     .json = list_events,
     .verb = PL_VERB_LIST,
     .costly = true,
     .summary =
         "Lists jobs as run events of OpenLineage 2-0-2: START when a job is made, and COMPLETE, FAIL or ABORT when it has "
         "ended. `next` is always given: as `after` it returns the events since then. A `next` that is equal to `after` "
         "says that there is nothing new yet.",
     .query = "project after limit:integer",
     .reply = "Lineage"},
};

static const struct pl_api_schema schemas[] = {
    {"Lineage", "events:LineageEvent[] next:string"},
    {"LineageEvent", "eventType:string eventTime:string producer:string schemaURL:string run:object job:object inputs:object[] "
                     "outputs:object[]"},
};

PL_API_TABLE(lineage, routes, schemas);
