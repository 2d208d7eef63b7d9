/* Finds stages, pipelines, repos, runs, jobs and commits by a part of their name or the beginning of their id.
 *
 * Each kind has one query, which reads at most SCAN_MAX rows of a small table or a range of an index, and returns no more
 * than the request wants. The best of all kinds come first: whole names, then names that begin with the text. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/run_routes/job_json.h"
#include "pipelined/text/json_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX    200u
#define SCAN_MAX    "200000" /* rows of a table of names */
#define FOUND_MAX   100u
#define FOUND_USUAL 20u
#define ID_DIGITS   4u /* fewer begin too many ids */
#define WORST_RANK  2

/* Parameters of the queries: ?1 a part of the name in lower case, ?2 its project or NULL, ?3 how many at most, one more than are wanted, ?4 the beginning of an
 * id or NULL, ?5 what comes after all ids that begin so. Columns: project, name, id, text, rank. */
/* Names all parameters, so that each query takes the same ones. */
#define ASKED     "WITH asked AS (SELECT ?1, ?2, ?3, ?4, ?5) "
#define HAS_NAME  " WHERE instr(lower(t.name), ?1) AND (?2 IS NULL OR t.project = ?2)"
#define NAME_RANK "iif(lower(t.name) = ?1, 0, iif(instr(lower(t.name), ?1) = 1, 1, 2))"
#define BEST      " ORDER BY 5, length(t.name), t.name, t.project LIMIT ?3"
#define ID_RANK   "iif(length(?4) = 32, 0, 1)"

static const struct found_kind {
    const char *name, *sql;
} kinds[] = {
    {"pipeline", ASKED "SELECT t.project, t.name, '', '', " NAME_RANK " FROM (SELECT project, name FROM pipeline LIMIT " SCAN_MAX
                       ") t" HAS_NAME " AND readable(t.project, NULL)" BEST},
    /* with the run of its newest job */
    {"stage",
     ASKED "SELECT t.project, t.name, coalesce((SELECT run FROM job j WHERE j.project = t.project AND j.stage = t.name"
           " ORDER BY j.id DESC LIMIT 1), ''), t.pipeline, " NAME_RANK " FROM (SELECT s.project, s.name, p.name AS pipeline"
           " FROM stage s JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1 LIMIT " SCAN_MAX ") t" HAS_NAME
           " AND readable(t.project, t.name)" BEST},
    {"repo",
     ASKED "SELECT t.project, t.name, '', t.kind, " NAME_RANK " FROM (SELECT project, name, kind FROM repo LIMIT " SCAN_MAX
           ") t" HAS_NAME " AND readable(t.project, t.name)" BEST},
    {"run", ASKED "SELECT '', '', run.id, substr(iif(run.message <> '' AND " PL_RUN_SEEN_WHOLE
                  ", run.message, run.cause), 1, 200), " ID_RANK
                  " FROM run WHERE ?4 IS NOT NULL AND ?1 = '' AND run.id >= ?4 AND run.id < ?5 AND " PL_RUN_SEEN " LIMIT ?3"},
    {"job", ASKED "SELECT j.project, j.stage, j.run, j.state, " ID_RANK " FROM job j WHERE ?4 IS NOT NULL AND ?1 <> ''"
                  " AND j.run >= ?4 AND j.run < ?5 AND lower(j.stage) = ?1 AND (?2 IS NULL OR j.project = ?2)"
                  " AND readable(j.project, j.stage) LIMIT ?3"},
    {"commit",
     ASKED "SELECT r.project, r.name, c.run, substr(c.message, 1, 200), " ID_RANK
           " FROM commit_ c JOIN repo r ON r.id = c.repo WHERE ?4 IS NOT NULL AND c.run >= ?4 AND c.run < ?5"
           " AND (?1 = '' OR lower(r.name) = ?1) AND (?2 IS NULL OR r.project = ?2) AND readable(r.project, r.name) LIMIT ?3"},
};

/* What a text asks for: "NAME", "PROJECT/NAME", "ID", "NAME@ID" and "PROJECT/NAME@ID". */
struct question {
    char text[TEXT_MAX + 1]; /* cut up, in lower case but for the project */
    const char *name;        /* "" = only an id is asked for */
    const char *project;     /* NULL = any */
    const char *id;          /* NULL = none */
    char after[TEXT_MAX + 2];
    bool maybe_id; /* the name may be an id, too */
    int64_t limit;
};

static bool is_id(const char *text)
{
    const size_t n = strlen(text);

    return n >= ID_DIGITS && n <= PL_ID_HEX && strspn(text, "0123456789abcdef") == n;
}

static void set_id(struct question *q, const char *id)
{
    q->id = id;
    snprintf(q->after, sizeof q->after, "%sg", id); /* 'g' comes after all digits */
}

static int read_question(const struct pl_http_request *req, struct question *q, struct pl_err *err)
{
    const char *text = pl_http_query(req, "q");
    uint64_t limit = 0;
    char *slash, *at;
    int r = pl_http_query_u64(req, "limit", FOUND_USUAL, FOUND_MAX, &limit, err);

    if (r < 0)
        return r;
    if (!text || !*text || strlen(text) > TEXT_MAX)
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "q is %s: give 1 to %u bytes of a name, an id or NAME@ID",
                                       text && *text ? "too long" : "empty", TEXT_MAX),
                            "q");
    *q = (struct question){.limit = (int64_t)PL_MAX(limit, 1)};
    snprintf(q->text, sizeof q->text, "%s", text);
    q->name = q->text;
    slash = strchr(q->text, '/');
    if (slash) {
        *slash = '\0';
        q->project = q->text;
        q->name = slash + 1;
    }
    for (char *c = slash ? slash + 1 : q->text; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    at = strchr(slash ? slash + 1 : q->text, '@');
    if (at) {
        *at = '\0';
        if (is_id(at + 1))
            set_id(q, at + 1);
    } else
        q->maybe_id = !slash && is_id(q->name);
    return 0;
}

/* Adds what one query finds. */
static int add_kind(struct pl_conn *c, const struct found_kind *kind, const struct question *q, json_t *by_rank[WORST_RANK + 1],
                    struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, kind->sql, "ssiss", q->name, q->project, q->limit + 1, q->id, q->id ? q->after : NULL);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        const int64_t rank = PL_MIN(PL_MAX(pl_col_int(&rows, 4), 0), WORST_RANK);

        r = pl_json_add(by_rank[rank],
                        json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", kind->name, "project", pl_col_text(&rows, 0), "name",
                                  pl_col_text(&rows, 1), "id", pl_col_text(&rows, 2), "text", pl_col_text(&rows, 3)),
                        err);
        if (r < 0)
            break;
    }
    return PL_MIN(r, 0);
}

/* Takes the best of what was found, up to the limit. */
static int take_best(json_t *by_rank[WORST_RANK + 1], const struct question *q, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    bool more = false;
    json_t *one;
    size_t i;

    for (int rank = 0; list && rank <= WORST_RANK; rank++)
        json_array_foreach(by_rank[rank], i, one)
        {
            if (json_array_size(list) >= (size_t)q->limit)
                more = true;
            else if (json_array_append(list, one) < 0)
                return pl_err_nomem(err);
        }
    *ret = list ? json_pack("{s:O, s:b}", "found", list, "more", (int)more) : NULL;
    return *ret ? 0 : pl_err_nomem(err);
}

static int find(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    json_t *by_rank[WORST_RANK + 1] = {json_array(), json_array(), json_array()};
    struct question q, id;
    int r = read_question(req, &q, err);

    for (int i = 0; i <= WORST_RANK; i++)
        r = r < 0 ? r : by_rank[i] ? 0 : pl_err_nomem(err);
    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        id = q;
        id.name = "";
        if (q.maybe_id)
            set_id(&id, q.name);
        for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(kinds); i++) {
            const bool named = i < 3;

            if (named && *q.name && !q.id)
                r = add_kind(rd.conn, &kinds[i], &q, by_rank, err);
            else if (!named && (q.id || q.maybe_id))
                r = add_kind(rd.conn, &kinds[i], q.id ? &q : &id, by_rank, err);
        }
    }
    r = r < 0 ? r : take_best(by_rank, &q, ret, err);
    for (int i = 0; i <= WORST_RANK; i++)
        json_decref(by_rank[i]);
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/find",
     .json = find,
     .verb = PL_VERB_LIST,
     .summary =
         "Finds stages, pipelines and repos by a part of their name, runs and commits by the beginning of their id (at least "
         "4 digits), and with NAME@ID a job or a repo's commit. PROJECT/ before a name is taken as it is. The best come first.",
     .query = "q limit:integer",
     .reply = "FoundList"},
};

static const struct pl_api_schema schemas[] = {
    {"FoundList", "found:Found[] more:boolean"},
    /* kind: pipeline, stage, repo, run, job, commit; name: of a job its stage, of a commit its repo; id: of a run, of a commit, or
     * the run of a job or of a stage's newest job; text: the pipeline of a stage, the kind of a repo, the state of a job, a message */
    {"Found", "kind:string project:string name:string id:string text:string"},
};
PL_API_TABLE(find, routes, schemas);
