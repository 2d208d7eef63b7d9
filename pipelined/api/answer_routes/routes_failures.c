/* Failed datums of a job, in groups whose messages say the same, and whether earlier jobs failed in the same way. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/retention/retention.h"
#include "pipelined/failure/failure_groups.h"
#include "storage/base/map.h"

#define JOBS_BEFORE   24  /* number of earlier jobs of the stage that are examined */
#define BEFORE_DATUMS 100 /* largest number of failed attempts that are examined of each of them */
#define GROUP_ID      16  /* hex digits of a group's id: the start of the hash of its key */

/* ---- reading attempts ---- */

/* The failed datums of one job. Texts are memory of the arena. */
struct failed {
    struct pl_arena *arena;
    struct pl_failure *list;
    struct pl_hash *ids; /* of the datums, in the order of `list` */
    size_t n, room;
};

static int make_room(struct failed *f, struct pl_err *err)
{
    const size_t room = f->room ? 2 * f->room : 64;
    struct pl_failure *list = pl_arena_alloc(f->arena, room * sizeof(*list));
    struct pl_hash *ids = pl_arena_alloc(f->arena, room * sizeof(*ids));

    if (!list || !ids)
        return pl_err_nomem(err);
    if (f->n > 0) {
        memcpy(list, f->list, f->n * sizeof(*list));
        memcpy(ids, f->ids, f->n * sizeof(*ids));
    }
    f->list = list;
    f->ids = ids;
    f->room = room;
    return 0;
}

#define FAILURE_COLUMNS                                                                                                          \
    "SELECT datum, state, reason, tail, coalesce(exit_code, 0), coalesce(json_extract(detail, '$.paths'), ''),"                  \
    " coalesce(json_extract(detail, '$.node'), ''), coalesce(json_extract(detail, '$.bytes.in'), -1) FROM attempt"

static int add_row(struct failed *f, const struct pl_rows *rows, struct pl_err *err)
{
    struct pl_failure one = {.exited = pl_col_int(rows, 4) != 0, .bytes = pl_col_int(rows, 7)};
    int r = f->n == f->room ? make_room(f, err) : 0;

    if (r < 0)
        return r;
    one.reason = pl_arena_strdup(f->arena, pl_col_text(rows, 2));
    one.tail = pl_arena_strdup(f->arena, pl_col_text(rows, 3));
    one.paths = pl_arena_strdup(f->arena, pl_col_text(rows, 5));
    one.node = pl_arena_strdup(f->arena, pl_col_text(rows, 6));
    if (!one.reason || !one.tail || !one.paths || !one.node)
        return pl_err_nomem(err);
    f->ids[f->n] = pl_col_hash(rows, 0);
    f->list[f->n++] = one;
    return 0;
}

/* Reads the datums of a job whose last kept attempt failed. */
static int read_failed(struct pl_conn *c, int64_t job, struct failed *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, FAILURE_COLUMNS " WHERE job = ? ORDER BY datum, attempt, fence", "i", job);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        const struct pl_hash datum = pl_col_hash(&rows, 0);

        if (ret->n > 0 && pl_hash_eq(&ret->ids[ret->n - 1], &datum))
            ret->n--; /* it was tried again */
        if (pl_streq(pl_col_text(&rows, 1), "failed"))
            r = add_row(ret, &rows, err);
    }
    return r;
}

/* ---- earlier jobs ---- */

/* The newest earlier run in which a failure with some key occurred, and in how many of the examined ones it did. */
struct before {
    size_t runs;
    char run[PL_ID_HEX + 1];
};

static int note_before(struct pl_map *seen, const char *key, const char *run, struct pl_arena *arena, struct pl_err *err)
{
    struct before *b = pl_map_get(seen, key, strlen(key));
    int r = 0;

    if (!b) {
        b = pl_arena_alloc(arena, sizeof(*b));
        if (!b)
            return pl_err_nomem(err);
        snprintf(b->run, sizeof(b->run), "%s", run); /* runs come with the newest first */
        r = pl_map_put(seen, key, strlen(key), b, NULL, err);
    }
    b->runs++;
    return r;
}

/* Adds the groups of one earlier job to `seen`. */
static int examine_before(struct pl_conn *c, int64_t job, const char *run, struct pl_arena *arena, struct pl_map *seen,
                          struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_failure_group *groups = NULL;
    struct failed f = {.arena = arena};
    size_t n = 0;
    int r = pl_sql_query(c, err, &rows, FAILURE_COLUMNS " WHERE job = ? AND state = 'failed' LIMIT ?", "ii", job,
                         (int64_t)BEFORE_DATUMS);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = add_row(&f, &rows, err);
    r = r < 0 ? r : pl_failure_groups(f.list, f.n, arena, &groups, &n, err);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = note_before(seen, groups[i].key, run, arena, err);
    return r;
}

/* Examines the last JOBS_BEFORE jobs of the stage before `job`; returns how many there are. */
static int look_back(struct pl_conn *c, int64_t job, struct pl_arena *arena, struct pl_map *seen, size_t *ret_jobs,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT b.id, b.run, coalesce(json_extract(b.counts, '$.attempts'), 0) FROM job j JOIN job b"
                         " ON b.project = j.project AND b.stage = j.stage AND b.id < j.id WHERE j.id = ?"
                         " ORDER BY b.id DESC LIMIT ?",
                         "ii", job, (int64_t)JOBS_BEFORE);

    *ret_jobs = 0;
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        ++*ret_jobs;
        r = examine_before(c, pl_col_int(&rows, 0), pl_col_text(&rows, 1), arena, seen, err);
    }
    return r;
}

/* ---- the reply ---- */

static void group_id(const struct pl_failure_group *g, char ret[GROUP_ID + 1])
{
    char hex[PL_HASH_HEX + 1];
    struct pl_hash hash;

    pl_hash_sha256(g->key, strlen(g->key), &hash);
    snprintf(ret, GROUP_ID + 1, "%s", pl_hash_hex(&hash, hex));
}

static json_t *bytes_json(int64_t bytes)
{
    return bytes < 0 ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *group_json(const struct pl_failure_group *g, const struct failed *f, const struct pl_map *seen)
{
    const struct before *b = pl_map_get(seen, g->key, strlen(g->key));
    char id[GROUP_ID + 1];

    group_id(g, id);
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:s, s:I, s:s}", "id", id, "message", g->message, "reason",
                     g->reason, "count", (json_int_t)g->count, "folder", g->folder, "node", g->node, "bytes_min",
                     bytes_json(g->bytes_min), "bytes_max", bytes_json(g->bytes_max), "datum",
                     pl_api_hash_json(&f->ids[g->members[0]]), "paths", f->list[g->members[0]].paths, "jobs_before",
                     (json_int_t)(b ? b->runs : 0), "run_before", b ? b->run : "");
}

/* One page of the datums of a group. Positions are numbers of members. */
struct members {
    const char *group; /* the group's id; NULL = no datums are wanted, but all groups */
    int64_t after;
    size_t limit;
};

/* Adds one page of the group's datums. */
static int add_members(const struct pl_failure_group *g, const struct failed *f, const struct members *wanted, json_t *out,
                       struct pl_err *err)
{
    json_t *list = json_array();
    size_t i = (size_t)PL_MIN(wanted->after, (int64_t)g->count);
    const size_t end = PL_MIN(i + wanted->limit, g->count);
    int r = json_object_set_new(out, "datums", list) < 0 ? pl_err_nomem(err) : 0;

    for (; r >= 0 && i < end; i++) {
        const struct pl_failure *one = &f->list[g->members[i]];

        r = pl_json_add(list,
                        json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", pl_api_hash_json(&f->ids[g->members[i]]), "paths",
                                  one->paths, "reason", one->reason, "node", one->node, "bytes", bytes_json(one->bytes)),
                        err);
    }
    if (r >= 0 && i < g->count && json_object_set_new(out, "next", json_sprintf("%zu", i)) < 0)
        r = pl_err_nomem(err);
    return r;
}

/* Adds the groups, or only the one that is wanted with its datums. */
static int add_groups(const struct pl_failure_group *groups, size_t n, const struct failed *f, const struct pl_map *seen,
                      const struct members *wanted, json_t *out, struct pl_err *err)
{
    json_t *list = json_object_get(out, "groups");
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        char id[GROUP_ID + 1];

        group_id(&groups[i], id);
        if (wanted->group && !pl_streq(wanted->group, id))
            continue;
        r = pl_json_add(list, group_json(&groups[i], f, seen), err);
        r = r < 0 || !wanted->group ? r : add_members(&groups[i], f, wanted, out, err);
    }
    if (r >= 0 && wanted->group && json_array_size(list) == 0)
        r = pl_err_field(err, pl_err_set(err, PL_ENOTFOUND, "no failed datum of the job is in a group \"%s\"", wanted->group),
                         "group");
    return r < 0 ? r : 0;
}

static int list_failures(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(json_decrefp) json_t *out = NULL;
    struct failed f = {.arena = arena};
    struct pl_failure_group *groups = NULL;
    struct pl_map seen = {0};
    struct members wanted = {.group = pl_http_query(req, "group")};
    struct pl_api_page page;
    char run[PL_ID_HEX + 1];
    int64_t id = 0, failed = 0;
    size_t n = 0, jobs = 0;
    int r = arena ? pl_api_page_read(req, &page, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_api_page_number(&page, 0, &wanted.after, err);
    wanted.limit = page.limit;
    r = r < 0 ? r
              : pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_http_param(req, "run"),
                                &id, run, err);
    r = r < 0 ? r
              : pl_sql_int(rd.conn, err, &failed, "SELECT coalesce(json_extract(counts, '$.failed'), 0) FROM job WHERE id = ?",
                           "i", id);
    r = r < 0 ? r : read_failed(rd.conn, id, &f, err);
    if (r >= 0 && failed > 0 && f.n == 0)
        r = pl_retention_check_job(rd.conn, id, PL_KEEP_RESULTS, err);
    r = r < 0 ? r : pl_failure_groups(f.list, f.n, arena, &groups, &n, err);
    r = r < 0 || n == 0 ? r : look_back(rd.conn, id, arena, &seen, &jobs, err);
    if (r >= 0) {
        out = json_pack("{s:s, s:I, s:I, s:I, s:[]}", "run", run, "failed", (json_int_t)PL_MAX(failed, (int64_t)f.n), "kept",
                        (json_int_t)f.n, "jobs_examined", (json_int_t)jobs, "groups");
        r = out ? add_groups(groups, n, &f, &seen, &wanted, out, err) : pl_err_nomem(err);
    }
    pl_map_finish(&seen, NULL);
    if (r >= 0)
        *ret = json_incref(out);
    return r < 0 ? r : 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/failures",
     .json = list_failures,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Groups the job's failed datums by what their messages say, with what each group has in common and in how many of "
         "the stage's last 24 jobs before this one it occurred. `kept` tells of how many of the `failed` datums the "
         "attempts are kept. With `group`, an id, the reply has that group alone with a page of its datums.",
     .query = "group after limit:integer",
     .reply = "Failures"},
};

static const struct pl_api_schema schemas[] = {
    {"Failures", "run:string failed:integer kept:integer jobs_examined:integer groups:FailureGroup[] datums:FailedDatum[]? "
                 "next:string?"},
    {"FailureGroup", "id:string message:string reason:string count:integer folder:string node:string bytes_min:integer? "
                     "bytes_max:integer? datum:string paths:string jobs_before:integer run_before:string"},
    {"FailedDatum", "id:string paths:string reason:string node:string bytes:integer?"},
};

PL_API_TABLE(failures, routes, schemas);
