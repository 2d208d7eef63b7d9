/* The retention pass (retention.h). Commits are dropped in batches by log records, results and logs of jobs
 * without the log; then the report is made. */
#include "pipelined/db/retention/retention.h"

#include "pipelined/db/retention/retention_input.h"
#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

/* Counts for one repo: what this pass keeps and what it drops. */
struct loss {
    int64_t kept, held, commits, results, logs;
};

struct passing {
    struct pl_retention_run *pass;
    struct pl_retention_db w;
    struct loss *losses; /* counts of each repo; same indices as w.repos */
    struct loss deleted; /* counts of dropped results and logs of stages that no longer exist */
};

static bool is_dropped(const struct passing *p, size_t commit)
{
    return pl_retention_rule_drops(p->w.commits[commit].why);
}

static int go_on(const struct passing *p, struct pl_err *err)
{
    return p->pass->stop && p->pass->stop(p->pass->self) ? pl_err_set(err, PL_ECANCELED, "stopped") : 0;
}

/* ---- commits ---- */

struct batch {
    const struct passing *p;
    size_t commits[PL_RETENTION_BATCH];
    size_t n;
};

static const char *why_text(enum pl_retention_reason why)
{
    return why == PL_RETENTION_LOST ? "no branch leads to it" : PL_RETENTION_GONE_OLD;
}

static int drop_one(struct pl_tx *tx, const struct passing *p, size_t commit, struct pl_err *err)
{
    const struct pl_retention_commit *c = &p->w.commits[commit];
    const struct pl_retention_repo *repo = &p->w.repos[c->repo];

    return pl_tx_emit(tx, PL_RECORD_COMMIT_DELETE,
                      json_pack("{s:s, s:s, s:s, s:I, s:s}", "project", repo->project, "repo", repo->name, "run",
                                p->w.runs[commit], "at", (json_int_t)pl_tx_now_us(tx), "why", why_text(c->why)),
                      err);
}

/* Returns 1 if the commit still exists: repos are deleted and created during a pass. */
static int is_there(struct pl_conn *c, const struct passing *p, size_t commit, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n, "SELECT count(*) FROM commit_ WHERE repo = ? AND run = ?", "is",
                       p->w.repos[p->w.commits[commit].repo].id, p->w.runs[commit]);

    return r < 0 ? r : n > 0;
}

static int drop_batch(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct batch *b = arg;
    int r = pl_retention_db_check(&b->p->w, pl_tx_conn(tx), err);

    for (size_t i = 0; i < b->n && r >= 0; i++) {
        r = is_there(pl_tx_conn(tx), b->p, b->commits[i], err);
        if (r > 0)
            r = drop_one(tx, b->p, b->commits[i], err);
    }
    return PL_MIN(r, 0);
}

static int drop_commits(struct passing *p, struct pl_err *err)
{
    size_t at = p->w.world.n_commits;
    int r = 0;

    while (r == 0 && at > 0) {
        struct batch b = {.p = p};

        for (; at > 0 && b.n < PL_RETENTION_BATCH; at--)
            if (is_dropped(p, at - 1))
                b.commits[b.n++] = at - 1;
        r = go_on(p, err);
        if (r == 0 && b.n > 0)
            r = pl_db_run(p->pass->db, PL_TX_LOGGED, drop_batch, &b, err);
        for (size_t i = 0; r == 0 && i < b.n; i++)
            p->losses[p->w.commits[b.commits[i]].repo].commits++;
    }
    return r;
}

/* ---- results and logs ---- */

/* A kind of data that jobs leave behind. `find` is a query that returns at most ?4 jobs of stage (?1, ?2)
 * that ended before time ?3 and still have data of this kind. */
enum rest_kind { LOGS, RESULTS, REUSE };
struct rest {
    const char *find;
    const char *const *drop; /* statements that drop the data, each with the job as ?1 */
};
static const char *const drop_logs[] = {"DELETE FROM log_segment WHERE job = ?1", NULL};
static const char *const drop_results[] = {"DELETE FROM attempt WHERE job = ?1",
                                           "DELETE FROM job_worker WHERE job = ?1",
                                           "DELETE FROM metric WHERE job = ?1",
                                           "DELETE FROM result WHERE job = ?1",
                                           "UPDATE job SET kept = 0 WHERE id = ?1 AND kept = 1",
                                           NULL};
static const char *const drop_reuse[] = {"DELETE FROM result WHERE job = ?1", "UPDATE job SET kept = 0 WHERE id = ?1", NULL};

#define ENDED_JOBS "SELECT j.id FROM job j WHERE j.project = ?1 AND j.stage = ?2 AND j.final = 1 AND j.finished_us < ?3 AND "
/* condition: the stage has no unfinished job, because an unfinished job would reuse results of the stage's
 * earlier jobs */
#define NONE_GOES_ON " AND NOT EXISTS (SELECT 1 FROM job u WHERE u.project = ?1 AND u.stage = ?2 AND u.final = 0)"
static const struct rest rests[] = {
    [LOGS] = {ENDED_JOBS "EXISTS (SELECT 1 FROM log_segment x WHERE x.job = j.id) ORDER BY j.id LIMIT ?4", drop_logs},
    [RESULTS] = {ENDED_JOBS "(EXISTS (SELECT 1 FROM attempt x WHERE x.job = j.id)"
                            " OR EXISTS (SELECT 1 FROM job_worker x WHERE x.job = j.id)"
                            " OR EXISTS (SELECT 1 FROM metric x WHERE x.job = j.id)"
                            " OR EXISTS (SELECT 1 FROM result x WHERE x.job = j.id))" NONE_GOES_ON " ORDER BY j.id LIMIT ?4",
                 drop_results},
    [REUSE] = {ENDED_JOBS "j.kept = 1" NONE_GOES_ON " ORDER BY j.id LIMIT ?4", drop_reuse},
};

struct jobs {
    const char *project, *stage;
    const struct rest *rest;
    /* query with parameters (project, stage) that returns true if the data may still be dropped; NULL = no
     * such check */
    const char *still;
    int64_t before_us;
    int64_t n; /* out: number of jobs whose data was dropped in this transaction */
};

static int drop_job(struct pl_conn *c, const struct rest *rest, int64_t job, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; rest->drop[i] && r >= 0; i++)
        r = pl_sql_exec(c, err, rest->drop[i], "i", job);
    return r;
}

static int find_jobs(struct pl_conn *c, const struct jobs *j, int64_t max, struct pl_rows *rows, struct pl_err *err)
{
    return pl_sql_query(c, err, rows, j->rest->find, "ssii", j->project, j->stage, j->before_us, max);
}

/* Drops the data of one batch of jobs, if the condition `still` holds. */
static int drop_jobs_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct jobs *j = arg;
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t ids[PL_RETENTION_BATCH], still = 1;
    size_t n = 0;
    int r = j->still ? pl_sql_int(pl_tx_conn(tx), err, &still, j->still, "ss", j->project, j->stage) : 0;

    j->n = 0;
    if (r < 0 || !still)
        return r;
    r = find_jobs(pl_tx_conn(tx), j, PL_RETENTION_BATCH, &rows, err);
    while (r >= 0 && n < PL_RETENTION_BATCH && (r = pl_sql_next(pl_tx_conn(tx), &rows, err)) > 0)
        ids[n++] = pl_col_int(&rows, 0);
    pl_rows_finish(&rows);
    rows = (struct pl_rows){0};
    for (size_t i = 0; i < n && r >= 0; i++)
        r = drop_job(pl_tx_conn(tx), j->rest, ids[i], err);
    j->n = (int64_t)n;
    return PL_MIN(r, 0);
}

static int note_going(struct pl_map *m, int64_t row, struct pl_err *err)
{
    return m->len < PL_RETENTION_GOING_MAX ? pl_map_put(m, &row, sizeof row, m, NULL, err) : 0;
}

static int count_jobs(struct passing *p, const struct jobs *j, struct pl_map *going, int64_t *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->pass->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = find_jobs(rd.conn, j, INT64_MAX, &rows, err);

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        r = going ? note_going(going, pl_col_int(&rows, 0), err) : 0;
        ++*ret;
    }
    return r;
}

/* Drops the data of all jobs that the query `find` of this kind returns, batch by batch. A dry run only
 * counts these jobs. */
static int drop_jobs(struct passing *p, struct jobs *j, enum rest_kind kind, int64_t *ret, struct pl_err *err)
{
    struct pl_retention_dropped *g = p->pass->going;
    int r = 0;

    j->rest = &rests[kind];
    if (p->pass->dry_run)
        return count_jobs(p, j, g ? kind == LOGS ? &g->logs : &g->results : NULL, ret, err);
    do {
        r = go_on(p, err);
        r = r < 0 ? r : pl_db_run(p->pass->db, PL_TX_UNLOGGED, drop_jobs_tx, j, err);
        *ret += r == 0 ? j->n : 0;
    } while (r == 0 && j->n == PL_RETENTION_BATCH);
    return r;
}

static int drop_rest(struct passing *p, uint32_t repo, enum rest_kind kind, uint32_t days, int64_t *ret, struct pl_err *err)
{
    struct jobs j = {.project = p->w.repos[repo].project,
                     .stage = p->w.repos[repo].name,
                     .before_us = p->w.world.now_us - (int64_t)days * PL_RETENTION_DAY_US};

    return days ? drop_jobs(p, &j, kind, ret, err) : 0;
}

static int drop_rests(struct passing *p, struct pl_err *err)
{
    int r = 0;

    for (uint32_t i = 0; i < p->w.n_repos && r == 0; i++) {
        if (!p->w.repos[i].meant || !p->w.repos[i].output)
            continue;
        r = drop_rest(p, i, RESULTS, p->w.rules[i].results, &p->losses[i].results, err);
        r = r < 0 ? r : drop_rest(p, i, LOGS, p->w.rules[i].logs, &p->losses[i].logs, err);
    }
    return r;
}

/* ---- stages that no longer exist ---- */

/* A kind of data, and a query (project, stage) that is true if the data of all jobs of that stage is to be
 * dropped. */
static const struct over {
    const char *is_over;
    enum rest_kind kind;
} overs[] = {
/* the repo was deleted, and its retention rule with it */
#define NO_REPO "SELECT NOT EXISTS (SELECT 1 FROM repo WHERE project = ?1 AND name = ?2)"
    {NO_REPO, LOGS},
    {NO_REPO, RESULTS},
    /* the repo exists but its stage does not: no job will reuse the results */
    {"SELECT EXISTS (SELECT 1 FROM repo WHERE project = ?1 AND name = ?2)"
     " AND NOT EXISTS (SELECT 1 FROM stage WHERE project = ?1 AND name = ?2 AND current = 1)",
     REUSE},
};

struct stage_name {
    char project[PL_NAME_MAX_BYTES + 1], name[PL_NAME_MAX_BYTES + 1];
};

/* Moves to the next stage that ever had a job: 1, or 0 at the end. */
static int next_stage(struct pl_conn *c, struct stage_name *s, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT project, stage FROM job WHERE (project, stage) > (?, ?) ORDER BY project, stage LIMIT 1", "ss",
                         s->project, s->name);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r > 0) {
        snprintf(s->project, sizeof s->project, "%s", pl_col_text(&rows, 0));
        snprintf(s->name, sizeof s->name, "%s", pl_col_text(&rows, 1));
    }
    return r;
}

/* Returns 1 if there is data to drop. Checked with a read-only connection, because most stages have none and
 * the writer thread need not be used. */
static int has_rest(struct pl_conn *c, const struct jobs *j, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t is_over = 0;
    int r = pl_sql_int(c, err, &is_over, j->still, "ss", j->project, j->stage);

    if (r < 0 || !is_over)
        return r;
    r = find_jobs(c, j, 1, &rows, err);
    return r < 0 ? r : pl_sql_next(c, &rows, err);
}

static int drop_over(struct passing *p, const struct stage_name *s, const struct over *o, struct pl_err *err)
{
    struct jobs j = {
        .project = s->project, .stage = s->name, .rest = &rests[o->kind], .still = o->is_over, .before_us = INT64_MAX};
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->pass->db);

        r = has_rest(rd.conn, &j, err);
    }
    return r <= 0 ? r : drop_jobs(p, &j, o->kind, o->kind == LOGS ? &p->deleted.logs : &p->deleted.results, err);
}

static int drop_overs(struct passing *p, struct pl_err *err)
{
    struct stage_name s = {0};
    int r = p->pass->project ? 0 : 1;

    while (r > 0) {
        {
            _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->pass->db);

            r = next_stage(rd.conn, &s, err);
        }
        for (size_t i = 0; r > 0 && i < PL_ARRAY_SIZE(overs); i++) {
            int e = drop_over(p, &s, &overs[i], err);

            r = e < 0 ? e : r;
        }
    }
    return r;
}

/* ---- the report ---- */

static int add_repo(struct passing *p, uint32_t repo, json_t *repos, struct pl_err *err)
{
    const struct pl_retention_repo *r = &p->w.repos[repo];
    const struct pl_retention_rule *rule = &p->w.rules[repo];
    const struct loss *l = &p->losses[repo];

    if (!(rule->commits || rule->days || rule->results || rule->logs || l->commits))
        return 0;
    return pl_json_add(repos,
                       json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "project", r->project, "repo", r->name, "keep",
                                 pl_retention_json(rule), "kept", (json_int_t)l->kept, "held", (json_int_t)l->held, "commits",
                                 (json_int_t)l->commits, "results", (json_int_t)l->results, "logs", (json_int_t)l->logs),
                       err);
}

/* Adds a commit to the report; its row may be gone by now. */
static int add_commit(struct passing *p, struct pl_conn *c, size_t commit, json_t *commits, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const struct pl_retention_repo *repo = &p->w.repos[p->w.commits[commit].repo];
    int r = pl_sql_query(c, err, &rows, "SELECT branch, created_us, files, bytes FROM commit_ WHERE id = ? AND run = ?", "is",
                         p->w.ids[commit], p->w.runs[commit]);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    return pl_json_add(commits,
                       json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "project", repo->project, "repo", repo->name,
                                 "commit", p->w.runs[commit], "branch", pl_col_text(&rows, 0), "created_us",
                                 (json_int_t)pl_col_int(&rows, 1), "files", (json_int_t)pl_col_int(&rows, 2), "bytes",
                                 (json_int_t)pl_col_int(&rows, 3), "why", why_text(p->w.commits[commit].why)),
                       err);
}

/* Lists the commits that a dry run would drop, oldest first. */
static int list_commits(struct passing *p, json_t *commits, bool *ret_more, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->pass->db);
    int r = 0;

    for (size_t i = 0; i < p->w.world.n_commits && r >= 0 && !*ret_more; i++) {
        if (!is_dropped(p, i))
            continue;
        *ret_more = json_array_size(commits) == PL_RETENTION_LISTED_MAX;
        r = *ret_more ? 0 : add_commit(p, rd.conn, i, commits, err);
    }
    return PL_MIN(r, 0);
}

static int make_report(struct passing *p, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *repos = json_array(), *commits = json_array();
    bool more = false;
    int r = repos && commits ? 0 : pl_err_nomem(err);

    for (uint32_t i = 0; i < p->w.n_repos && r == 0; i++)
        r = p->w.repos[i].meant ? add_repo(p, i, repos, err) : 0;
    if (r == 0 && p->pass->dry_run)
        r = list_commits(p, commits, &more, err);
    if (r < 0)
        return r;
    p->pass->report = json_pack("{s:O, s:O, s:b, s:{s:I, s:I}}", "repos", repos, "commits", commits, "more", more, "deleted",
                                "results", (json_int_t)p->deleted.results, "logs", (json_int_t)p->deleted.logs);
    return p->pass->report ? 0 : pl_err_nomem(err);
}

/* ---- the pass ---- */

static int tell(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct passing *p = arg;
    int r = 0;

    for (uint32_t i = 0; i < p->w.n_repos && r == 0; i++) {
        const struct loss *l = &p->losses[i];

        if (l->commits || l->results || l->logs)
            r = pl_tx_event(tx, "keep",
                            json_pack("{s:s, s:s, s:I, s:I, s:I}", "project", p->w.repos[i].project, "repo", p->w.repos[i].name,
                                      "commits", (json_int_t)l->commits, "results", (json_int_t)l->results, "logs",
                                      (json_int_t)l->logs),
                            err);
    }
    return r;
}

static void count_kept(struct passing *p)
{
    for (size_t i = 0; i < p->w.world.n_commits; i++) {
        const struct pl_retention_commit *c = &p->w.commits[i];
        struct loss *l = &p->losses[c->repo];

        l->kept += !pl_retention_rule_drops(c->why);
        l->held += c->why == PL_RETENTION_IN_USE || c->why == PL_RETENTION_SOURCE;
        l->commits += p->pass->dry_run && is_dropped(p, i);
    }
}

/* Reads the database and decides what to drop. Refuses with PL_ECONFIRM while the clock is doubted, except in
 * a dry run. */
static int decide(struct passing *p, struct pl_err *err)
{
    const struct pl_clock_view now = pl_clock_trust_look(pl_db_clock(p->pass->db));
    int r = p->pass->dry_run ? 0 : pl_clock_trust_check(&now, err);

    if (r < 0)
        return r;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(p->pass->db);

        r = pl_retention_db_read(&p->w, rd.conn, p->pass->project, p->pass->repo, now.wall_us, err);
    }
    if (r < 0)
        return r;
    p->losses = calloc(p->w.n_repos + 1, sizeof *p->losses);
    if (!p->losses)
        return pl_err_nomem(err);
    count_kept(p);
    r = 0;
    for (size_t i = 0; i < p->w.world.n_commits && r == 0 && p->pass->going; i++)
        r = is_dropped(p, i) ? note_going(&p->pass->going->commits, p->w.ids[i], err) : 0;
    return r;
}

static int one_pass(struct pl_retention_run *pass, struct pl_err *err)
{
    struct passing p = {.pass = pass};
    int r = decide(&p, err), told = 0;

    if (r == 0 && !pass->dry_run)
        r = drop_commits(&p, err);
    r = r < 0 ? r : drop_rests(&p, err);
    r = r < 0 ? r : drop_overs(&p, err);
    for (size_t i = 0; p.losses && i < p.w.n_repos; i++)
        pass->commits += (uint64_t)p.losses[i].commits;
    if (p.losses && !pass->dry_run) /* an interrupted pass writes its events too */
        told = pl_db_run(pass->db, PL_TX_UNLOGGED, tell, &p, r < 0 ? NULL : err);
    r = r < 0 ? r : told;
    r = r < 0 ? r : make_report(&p, err);
    free(p.losses);
    pl_retention_db_finish(&p.w);
    return r;
}

static int check_asked(struct pl_retention_run *pass, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(pass->db);
    struct pl_repo_row row;

    return pass->project && pass->repo ? pl_db_repo_find(rd.conn, pass->project, pass->repo, &row, err) : 0;
}

int pl_retention_run(struct pl_retention_run *pass, struct pl_err *err)
{
    int r = check_asked(pass, err);

    pass->report = NULL;
    pass->commits = 0;
    if (r < 0)
        return r;
    r = PL_ERETRY;
    for (unsigned i = 0; i < PL_RETENTION_TRIES && r == PL_ERETRY; i++)
        r = one_pass(pass, err);
    return r == PL_ERETRY ? pl_err_set(err, PL_EBUSY, "the database changed too often meanwhile: try again") : r;
}

static int tell_refused(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_err *why = arg;

    return pl_tx_event(tx, "keep", json_pack("{s:s}", "refused", why->msg), err);
}

/* Saves the trusted time, runs the pass, and logs per repo what was dropped. */
void pl_retention_run_all(struct pl_retention_run *pass)
{
    struct pl_err err = {0};
    const json_t *one, *deleted;
    size_t i;
    int r = pl_db_keep_clock(pass->db, &err);

    r = r < 0 ? r : pl_retention_run(pass, &err);
    if (r == PL_ECONFIRM && pl_db_run(pass->db, PL_TX_UNLOGGED, tell_refused, &err, NULL) < 0)
        pl_log_warn("keep", "cannot write the event that says that nothing was dropped");
    if (r < 0 && r != PL_ECANCELED)
        pl_log_warn("keep", "cannot drop everything that the retention rules no longer keep: %s", err.msg);
    json_array_foreach(json_object_get(pass->report, "repos"), i, one)
    {
        if (!pass->dry_run && (pl_json_int(one, "commits") || pl_json_int(one, "results") || pl_json_int(one, "logs")))
            pl_log_info("keep", "%s/%s: dropped %lld commits, the results of %lld jobs, the logs of %lld",
                        json_string_value(json_object_get(one, "project")), json_string_value(json_object_get(one, "repo")),
                        (long long)pl_json_int(one, "commits"), (long long)pl_json_int(one, "results"),
                        (long long)pl_json_int(one, "logs"));
    }
    deleted = json_object_get(pass->report, "deleted");
    if (!pass->dry_run && (pl_json_int(deleted, "results") || pl_json_int(deleted, "logs")))
        pl_log_info("keep", "deleted stages: dropped the results of %lld jobs, the logs of %lld",
                    (long long)pl_json_int(deleted, "results"), (long long)pl_json_int(deleted, "logs"));
    json_decref(pass->report);
    pass->report = NULL;
}

void pl_retention_dropped_finish(struct pl_retention_dropped *g)
{
    pl_map_finish(&g->commits, NULL);
    pl_map_finish(&g->results, NULL);
    pl_map_finish(&g->logs, NULL);
    *g = (struct pl_retention_dropped){0};
}

/* ---- messages about data that was dropped ---- */

int pl_retention_check_job(struct pl_conn *c, int64_t job, enum pl_retention_repo_result what, struct pl_err *err)
{
    static const char *const names[] = {[PL_KEEP_LOGS] = "logs", [PL_KEEP_RESULTS] = "results"};
    static const char *const nouns[] = {[PL_KEEP_LOGS] = "the log", [PL_KEEP_RESULTS] = "the record of datums"};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char path[32];
    int64_t days;
    int r;

    snprintf(path, sizeof path, "$.keep.%s", names[what]);
    r = pl_sql_query(
        c, err, &rows,
        "SELECT j.stage, j.run, j.finished_us, coalesce(json_extract(r.options, ?2), 0),"
        " ?3 AND EXISTS (SELECT 1 FROM log_segment WHERE job = ?1 AND blob IS x''), r.id IS NULL FROM job j LEFT JOIN repo r"
        " ON r.project = j.project AND r.name = j.stage WHERE j.id = ?1 AND j.final = 1"
        " AND NOT EXISTS (SELECT 1 FROM log_segment WHERE job = ?1 AND blob IS NOT x'' AND ?3)"
        " AND NOT EXISTS (SELECT 1 FROM attempt WHERE job = ?1 AND NOT ?3)",
        "isi", job, path, (int64_t)(what == PL_KEEP_LOGS));
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    if (pl_col_int(&rows, 4)) /* the segment without a blob that recovery_prune leaves in place of a log */
        return pl_err_set(err, PL_ENOTFOUND,
                          "the log of job %s of run %.8s was dropped before the daemon's database was recovered",
                          pl_col_text(&rows, 0), pl_col_text(&rows, 1));
    if (pl_col_int(&rows, 5))
        return pl_err_set(err, PL_ENOTFOUND, "%s of job %s of run %.8s is not kept: there is no stage \"%s\" any more",
                          nouns[what], pl_col_text(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 0));
    days = pl_col_int(&rows, 3);
    if (days <= 0 || pl_retention_rule_until(pl_col_int(&rows, 2), (uint32_t)days) > pl_clock_wall_us())
        return 0;
    return pl_err_set(err, PL_ENOTFOUND, "%s of job %s of run %.8s was dropped: %s of \"%s\" are kept for %lld days", nouns[what],
                      pl_col_text(&rows, 0), pl_col_text(&rows, 1), names[what], pl_col_text(&rows, 0), (long long)days);
}
