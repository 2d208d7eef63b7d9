/* Failed datums of a job, in groups whose messages say the same, and whether earlier jobs failed in the same way. Tries the
 * datums of one group again. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/pipelines/rerun.h"
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
    struct failed_datum {
        struct pl_hash id;
        bool recovered; /* the command of on_error handled it */
    } * datums;         /* in the order of `list` */
    size_t n, room;
};

static int make_room(struct failed *f, struct pl_err *err)
{
    const size_t room = f->room ? 2 * f->room : 64;
    struct pl_failure *list = pl_arena_alloc(f->arena, room * sizeof(*list));
    struct failed_datum *datums = pl_arena_alloc(f->arena, room * sizeof(*datums));

    if (!list || !datums)
        return pl_err_nomem(err);
    if (f->n > 0) {
        memcpy(list, f->list, f->n * sizeof(*list));
        memcpy(datums, f->datums, f->n * sizeof(*datums));
    }
    f->list = list;
    f->datums = datums;
    f->room = room;
    return 0;
}

#define FAILURE_COLUMNS                                                                                                          \
    "SELECT datum, state, reason, tail, coalesce(exit_code, 0), coalesce(json_extract(detail, '$.paths'), ''),"                  \
    " coalesce(json_extract(detail, '$.node'), ''), coalesce(json_extract(detail, '$.bytes.in'), -1),"                           \
    " coalesce(json_extract(detail, '$.recovered'), 0) FROM attempt"

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
    f->datums[f->n] = (struct failed_datum){pl_col_hash(rows, 0), pl_col_int(rows, 8) != 0};
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

        if (ret->n > 0 && pl_hash_eq(&ret->datums[ret->n - 1].id, &datum))
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

/* An earlier job of the stage. */
struct earlier {
    char run[PL_ID_HEX + 1];
    struct failed failed;
};

static int read_earlier(struct pl_conn *c, int64_t job, struct failed *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, FAILURE_COLUMNS " WHERE job = ? AND state = 'failed' LIMIT ?", "ii", job,
                         (int64_t)BEFORE_DATUMS);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = add_row(ret, &rows, err);
    return r;
}

/* Reads the last JOBS_BEFORE jobs of the stage before `job` that ran datums; those of runs on a branch of their own do
 * not count. */
static int read_all_earlier(struct pl_conn *c, int64_t job, struct pl_arena *arena, struct earlier ret[JOBS_BEFORE],
                            size_t *ret_n, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT b.id, b.run FROM job j JOIN job b ON b.project = j.project AND b.stage = j.stage AND b.id < j.id"
                         " WHERE j.id = ? AND b.final = 1 AND json_extract(b.counts, '$.attempts') > 0"
                         " AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = b.run AND r.as_branch IS NOT NULL)"
                         " ORDER BY b.id DESC LIMIT ?",
                         "ii", job, (int64_t)JOBS_BEFORE);

    for (*ret_n = 0; r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0; ++*ret_n) {
        struct earlier *one = &ret[*ret_n];

        *one = (struct earlier){.failed.arena = arena};
        snprintf(one->run, sizeof(one->run), "%s", pl_col_text(&rows, 1));
        r = read_earlier(c, pl_col_int(&rows, 0), &one->failed, err);
    }
    return r;
}

/* Adds the groups of the earlier jobs to `seen`. */
static int look_back(struct earlier *jobs, size_t n_jobs, struct pl_arena *arena, struct pl_map *seen, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n_jobs; i++) {
        struct pl_failure_group *groups = NULL;
        size_t n = 0;

        r = pl_failure_groups(jobs[i].failed.list, jobs[i].failed.n, arena, &groups, &n, err);
        for (size_t g = 0; r >= 0 && g < n; g++)
            r = note_before(seen, groups[g].key, jobs[i].run, arena, err);
    }
    return r;
}

/* All that is read for one request. */
struct asked {
    char run[PL_ID_HEX + 1];
    int64_t count; /* failed datums by the job's own count */
    bool final;
    struct failed failed;
    struct earlier earlier[JOBS_BEFORE];
    size_t n_earlier;
};

static int read_job(struct pl_api *a, const struct pl_http_request *req, struct asked *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t id = 0;
    int r = pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_http_param(req, "run"), &id,
                            ret->run, err);

    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             "SELECT coalesce(json_extract(counts, '$.failed'), 0), final FROM job WHERE id = ?", "i", id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    ret->count = pl_col_int(&rows, 0);
    ret->final = pl_col_int(&rows, 1) != 0;
    if (ret->final && ret->count == 0)
        return 0;
    r = read_failed(rd.conn, id, &ret->failed, err);
    if (r >= 0 && ret->count > 0 && ret->failed.n == 0)
        r = pl_retention_check_job(rd.conn, id, PL_KEEP_RESULTS, err);
    return r < 0 || ret->failed.n == 0 ? r : read_all_earlier(rd.conn, id, ret->failed.arena, ret->earlier, &ret->n_earlier, err);
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
                     pl_api_hash_json(&f->datums[g->members[0]].id), "paths", f->list[g->members[0]].paths, "jobs_before",
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
                        json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", pl_api_hash_json(&f->datums[g->members[i]].id), "paths",
                                  one->paths, "reason", one->reason, "node", one->node, "bytes", bytes_json(one->bytes)),
                        err);
    }
    if (r >= 0 && i < g->count && json_object_set_new(out, "next", json_sprintf("%zu", i)) < 0)
        r = pl_err_nomem(err);
    return r;
}

static int no_group(const char *group, struct pl_err *err)
{
    return pl_err_field(err, pl_err_set(err, PL_ENOTFOUND, "no failed datum of the job is in a group \"%s\"", group), "group");
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
        r = no_group(wanted->group, err);
    return r < 0 ? r : 0;
}

static int list_failures(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct asked *asked = arena ? pl_arena_alloc(arena, sizeof(*asked)) : NULL;
    struct members wanted = {.group = pl_http_query(req, "group")};
    struct pl_failure_group *groups = NULL;
    struct pl_map seen = {0};
    struct pl_api_page page = {0};
    json_t *out = NULL;
    size_t n = 0;
    int r = asked ? pl_api_page_read(req, &page, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_api_page_number(&page, 0, &wanted.after, err);
    if (r < 0)
        return r;
    wanted.limit = page.limit;
    asked->failed.arena = arena;
    r = read_job(a, req, asked, err);
    r = r < 0 ? r : pl_failure_groups(asked->failed.list, asked->failed.n, arena, &groups, &n, err);
    r = r < 0 ? r : look_back(asked->earlier, asked->n_earlier, arena, &seen, err);
    if (r >= 0) {
        const int64_t failed = asked->final ? asked->count : PL_MAX(asked->count, (int64_t)asked->failed.n);

        out = json_pack("{s:s, s:I, s:I, s:I, s:[]}", "run", asked->run, "failed", (json_int_t)failed, "kept",
                        (json_int_t)asked->failed.n, "jobs_examined", (json_int_t)asked->n_earlier, "groups");
        r = out ? add_groups(groups, n, &asked->failed, &seen, &wanted, out, err) : pl_err_nomem(err);
    }
    pl_map_finish(&seen, NULL);
    *ret = out; /* the caller releases it also after an error */
    return r < 0 ? r : 0;
}

/* ---- trying a group again ---- */

/* A job with failed datums of which one group is to be tried again. */
struct retrying {
    char run[PL_ID_HEX + 1];
    const char *stage;
    struct pl_job_counts {
        int64_t total, done, reused, failed, recovered;
    } counts;
    bool final;
    struct failed failed;
};

static int read_retried(struct pl_api *a, const struct pl_http_request *req, struct retrying *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t id = 0;
    int r = pl_api_job_find(rd.conn, pl_http_param(req, "project"), ret->stage, pl_http_param(req, "run"), &id, ret->run, err);

    r = r < 0 ? r
              : pl_sql_query(
                    rd.conn, err, &rows,
                    "SELECT final, coalesce(json_extract(counts, '$.total'), 0), coalesce(json_extract(counts, '$.done'), 0),"
                    " coalesce(json_extract(counts, '$.reused'), 0), coalesce(json_extract(counts, '$.failed'), 0),"
                    " coalesce(json_extract(counts, '$.recovered'), 0) FROM job WHERE id = ?",
                    "i", id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    ret->final = pl_col_int(&rows, 0) != 0;
    ret->counts = (struct pl_job_counts){pl_col_int(&rows, 1), pl_col_int(&rows, 2), pl_col_int(&rows, 3), pl_col_int(&rows, 4),
                                         pl_col_int(&rows, 5)};
    return ret->final ? read_failed(rd.conn, id, &ret->failed, err) : 0;
}

/* Refuses a job of which it is not known which of its datums a retry of one group would run. */
static int check_known(const struct retrying *t, struct pl_err *err)
{
    const struct pl_job_counts *n = &t->counts;
    const int64_t bad = n->failed + n->recovered, never = n->total - n->done - n->reused - bad;
    int r = 0;

    if (!t->final)
        return pl_err_hint(err, pl_err_set(err, PL_EINUSE, "job %s of run %.8s has not ended", t->stage, t->run),
                           "Wait for it: pipelinectl wait run %.8s", t->run);
    if (bad == 0)
        return pl_err_set(err, PL_ENOTFOUND, "no datum of job %s of run %.8s failed", t->stage, t->run);
    if (never > 0)
        r = pl_err_set(err, PL_ECONFLICT,
                       "job %s of run %.8s ended before %lld of its %lld datums had run: a new run would run them too", t->stage,
                       t->run, (long long)never, (long long)n->total);
    else if ((int64_t)t->failed.n != bad)
        r = pl_err_set(err, PL_ECONFLICT,
                       "the daemon knows why %zu of the %lld failed datums of job %s failed: which of the others belong to the "
                       "group is not known",
                       t->failed.n, (long long)bad, t->stage);
    return r < 0 ? pl_err_hint(err, r,
                               "Try all of them again: pipelinectl rerun %.8s --failed; after on_error \"skip\": pipelinectl run "
                               "pipeline NAME --stage %s",
                               t->run, t->stage)
                 : 0;
}

/* Lists the failed datums that are not in the group. Returns the number of those that are; `*ret` is a new reference. */
static int list_untried(const struct retrying *t, const char *group, struct pl_arena *arena, json_t **ret, struct pl_err *err)
{
    json_t *lists[2] = {json_array(), json_array()};
    struct pl_failure_group *groups = NULL;
    size_t n = 0, found = 0;
    int r = pl_failure_groups(t->failed.list, t->failed.n, arena, &groups, &n, err);

    *ret = json_pack("{s:o, s:o}", "failed", lists[0], "recovered", lists[1]);
    if (!*ret)
        return pl_err_nomem(err);
    for (size_t g = 0; r >= 0 && g < n; g++) {
        char id[GROUP_ID + 1];

        group_id(&groups[g], id);
        if (pl_streq(id, group)) {
            found = groups[g].count;
            continue;
        }
        for (size_t m = 0; r >= 0 && m < groups[g].count; m++) {
            const struct failed_datum *d = &t->failed.datums[groups[g].members[m]];

            r = pl_json_add(lists[d->recovered], pl_api_hash_json(&d->id), err);
        }
    }
    if (r < 0)
        return r;
    return found ? (int)found : no_group(group, err);
}

/* Runs the failed datums of one group again. */
static int retry_group(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(json_decrefp) json_t *body = NULL, *untried = NULL;
    struct retrying t = {.stage = pl_http_param(req, "stage"), .failed.arena = arena};
    struct pl_retry_args args = {.of = t.run, .project = pl_http_param(req, "project"), .stage = t.stage};
    char what[PL_NAME_MAX_BYTES + 48];
    const char *group = NULL;
    int n, r = arena ? pl_api_body(req, &body, err, "{s:s}", "group", &group) : pl_err_nomem(err);

    if (r == 0 && (strlen(group) != GROUP_ID || strspn(group, "0123456789abcdef") != GROUP_ID))
        r = pl_err_field(err,
                         pl_err_set(err, PL_EINVAL,
                                    "group \"%.40s\" is none: an id has %u hex digits, as the failures of the job say", group,
                                    GROUP_ID),
                         "group");
    r = r < 0 ? r : read_retried(a, req, &t, err);
    r = r < 0 ? r : check_known(&t, err);
    n = r = r < 0 ? r : list_untried(&t, group, arena, &untried, err);
    if (r < 0)
        return r;
    snprintf(what, sizeof(what), "%d failed datum%s of %s", n, n == 1 ? "" : "s", t.stage);
    args.what = what;
    args.untried = untried;
    args.asker = pl_api_asker(req);
    r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_retry, &args, err);
    if (r < 0)
        return r;
    a->config.engine->pipelines_changed(a->config.engine_self, args.run);
    *ret = json_pack("{s:s, s:s, s:i, s:I}", "run", args.run, "of", t.run, "datums", n, "untried",
                     (json_int_t)(t.counts.failed + t.counts.recovered - n));
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/failures",
     .json = list_failures,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Groups the job's failed datums by what their messages say, with what each group has in common and in how many of "
         "the stage's last 24 jobs before this one that ran datums it occurred. `kept` tells of how many of the `failed` datums "
         "the "
         "attempts are kept. With `group`, an id, the reply has that group alone with a page of its datums.",
     .query = "group after limit:integer",
     .reply = "Failures"},
    {.method = "POST",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/retry",
     .json = retry_group,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_WRITE,
     .summary = "Starts a run that tries the failed datums of one group again, over what the job read. The other failed datums "
                "are not tried and stay failed in the new job, with their attempts. `conflict`, if a new run would run other "
                "datums too: the stage or an input has changed, the job ended early, or not all attempts are kept.",
     .request = "Retry",
     .reply = "RetryReply"},
};

static const struct pl_api_schema schemas[] = {
    {"Failures", "run:string failed:integer kept:integer jobs_examined:integer groups:FailureGroup[] datums:FailedDatum[]? "
                 "next:string?"},
    {"FailureGroup", "id:string message:string reason:string count:integer folder:string node:string bytes_min:integer? "
                     "bytes_max:integer? datum:string paths:string jobs_before:integer run_before:string"},
    {"Retry", "group:string"},
    {"RetryReply", "run:string of:string datums:integer untried:integer"},
    {"FailedDatum", "id:string paths:string reason:string node:string bytes:integer?"},
};

PL_API_TABLE(failures, routes, schemas);
