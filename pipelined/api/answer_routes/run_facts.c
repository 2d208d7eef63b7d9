/* run_facts: reads the jobs and the commit of a run, and compares the commit with its parent. */
#include "pipelined/api/answer_routes/run_facts.h"

#include "pipelined/text/json_text.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>
#include <stdlib.h>

#define ETA_LOOKED_AT 50   /* most earlier jobs of a stage whose runs are looked at */
#define ETA_JOBS_MAX  4000 /* most jobs of such runs, all together */

/* ---- jobs ---- */

static int count_up(json_t *o, const char *key, int64_t by, struct pl_err *err)
{
    json_t *sum = json_integer(json_integer_value(json_object_get(o, key)) + by);

    return json_object_set_new(o, key, sum) < 0 ? pl_err_nomem(err) : 0;
}

/* Adds the job's pipeline to the list, unless it is there or the list is full. */
static int add_pipeline(json_t *list, const char *project, const char *pipeline, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (pl_streq(pl_json_str(one, "pipeline"), pipeline) && pl_streq(pl_json_str(one, "project"), project))
            return 0;
    }
    return i == PL_RUN_PIPELINES_LISTED
               ? 0
               : pl_json_add(list, json_pack("{s:s, s:s}", "project", project, "pipeline", pipeline), err);
}

static int add_jobs(struct pl_conn *c, const char *id, json_t *out, uint64_t *jobs, struct pl_err *err)
{
    static const char *const figures[] = {"total", "reused", "done", "failed"};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *pipelines = json_object_get(out, "pipelines"), *stages = json_object_get(out, "stages");
    int r = pl_sql_query(c, err, &rows,
                         "SELECT j.project, j.stage, j.pipeline, j.state, iif(j.final, '', j.reason),"
                         " json_extract(j.counts, '$.total'), json_extract(j.counts, '$.reused'),"
                         " json_extract(j.counts, '$.done'), json_extract(j.counts, '$.failed')"
                         " FROM job j WHERE j.run = ? AND readable(j.project, j.stage) ORDER BY j.id",
                         "s", id);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        const char *project = pl_col_text(&rows, 0);

        ++*jobs;
        for (int i = 0; r >= 0 && i < (int)PL_ARRAY_SIZE(figures); i++)
            r = count_up(json_object_get(out, "datums"), figures[i], pl_col_int(&rows, 5 + i), err);
        r = r < 0 ? r : count_up(json_object_get(out, "states"), pl_col_text(&rows, 3), 1, err);
        r = r < 0 ? r : add_pipeline(pipelines, project, pl_col_text(&rows, 2), err);
        if (r >= 0 && json_array_size(stages) < PL_RUN_STAGES_LISTED)
            r = pl_json_add(stages,
                            json_pack("{s:s, s:s, s:s, s:s, s:I}", "project", project, "stage", pl_col_text(&rows, 1), "state",
                                      pl_col_text(&rows, 3), "reason", pl_col_text(&rows, 4), "failed",
                                      (json_int_t)pl_col_int(&rows, 8)),
                            err);
    }
    return PL_MIN(r, 0);
}

/* ---- the push ---- */

static int add_push(struct pl_conn *c, const char *id, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_hash after, before;
    json_t *push;
    int r =
        pl_sql_query(c, err, &rows,
                     "SELECT r.project, r.name, c.branch, coalesce(c.parent, ''), c.files, c.bytes, c.root, p.root"
                     " FROM commit_ c JOIN repo r ON r.id = c.repo LEFT JOIN commit_ p ON p.run = c.parent AND p.repo = c.repo"
                     " WHERE c.run = ? AND c.stage = '' AND readable(r.project, r.name) ORDER BY c.id LIMIT 1",
                     "s", id);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    after = pl_col_hash(&rows, 6);
    before = pl_col_hash(&rows, 7);
    push = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "project", pl_col_text(&rows, 0), "repo",
                     pl_col_text(&rows, 1), "branch", pl_col_text(&rows, 2), "commit", id, "parent", pl_col_text(&rows, 3),
                     "files", (json_int_t)pl_col_int(&rows, 4), "bytes", (json_int_t)pl_col_int(&rows, 5), "after",
                     pl_api_hash_json(&after), "before", pl_api_hash_json(&before));
    return push && json_object_set_new(out, "pushed", push) == 0 ? 0 : pl_err_nomem(err);
}

int pl_run_facts_add(struct pl_conn *c, json_t *run, uint64_t *jobs, struct pl_err *err)
{
    const char *id = pl_json_str(run, "id");
    _cleanup_(json_decrefp) json_t *empty = json_pack("{s:[], s:[], s:{}, s:{s:i, s:i, s:i, s:i}}", "pipelines", "stages",
                                                      "states", "datums", "total", 0, "reused", 0, "done", 0, "failed", 0);
    int r = empty && json_object_update(run, empty) == 0 ? 0 : pl_err_nomem(err);

    r = r < 0 ? r : add_jobs(c, id, run, jobs, err);
    return r < 0 ? r : add_push(c, id, run, err);
}

/* ---- what a push changed ---- */

struct changes {
    struct pl_effort *effort;
    json_int_t added, changed, removed, bytes;
    bool more; /* there are more than PL_RUN_CHANGES_MAX */
};

static int count_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct changes *n = self;
    int r = pl_effort_add(n->effort, 1, err);

    if (r < 0)
        return r;
    if (n->added + n->changed + n->removed == PL_RUN_CHANGES_MAX) {
        n->more = true;
        return 1;
    }
    n->added += !change->old_entry;
    n->removed += !change->new_entry;
    n->changed += change->old_entry && change->new_entry;
    n->bytes += change->new_entry ? (json_int_t)change->new_entry->size : 0;
    return 0;
}

/* Counts the differences of two trees. Returns 1; 0: they cannot be read, or the effort is used up. PL_ENOMEM. */
static int compare(struct pl_api *a, const json_t *push, struct changes *n, struct pl_err *err)
{
    struct pl_node_source source = {.get = pl_store_node_get};
    struct pl_hash before, after;
    struct pl_store *store = NULL;
    int r = pl_hash_parse(pl_json_str(push, "before"), &before, NULL);

    r = r < 0 ? r : pl_hash_parse(pl_json_str(push, "after"), &after, NULL);
    r = r < 0 ? r : pl_project_stores_get(a->config.stores, pl_json_str(push, "project"), &store, NULL);
    source.self = store;
    r = r < 0 ? r : pl_tree_diff(&source, &before, &after, NULL, 0, count_change, n, NULL);
    return r == PL_ENOMEM ? pl_err_nomem(err) : r >= 0;
}

int pl_run_changes_add(struct pl_api *a, json_t *run, struct pl_effort *effort, struct pl_err *err)
{
    json_t *push = json_object_get(run, "pushed"), *found;
    struct changes n = {.effort = effort};
    int r;

    if (!push || json_object_get(push, "added"))
        return 0;
    if (!*pl_json_str(push, "parent")) { /* the first commit: all its files are new */
        n.added = json_integer_value(json_object_get(push, "files"));
        n.bytes = json_integer_value(json_object_get(push, "bytes"));
    } else {
        r = compare(a, push, &n, err);
        if (r <= 0)
            return r;
    }
    found = json_pack("{s:I, s:I, s:I, s:I, s:b}", "added", n.added, "changed", n.changed, "removed", n.removed, "changed_bytes",
                      n.bytes, "more", (int)n.more);
    r = found && json_object_update(push, found) == 0 ? 0 : pl_err_nomem(err);
    json_decref(found);
    return r;
}

void pl_run_facts_finish(json_t *run)
{
    json_t *push = json_object_get(run, "pushed");

    if (push) {
        json_object_del(push, "before");
        json_object_del(push, "after");
    }
}

/* ---- when it will be done ---- */

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int64_t pl_run_estimate(int64_t *took, size_t n)
{
    if (n < PL_RUN_BEHIND_MIN)
        return -1;
    qsort(took, n, sizeof *took, by_number);
    return n % 2 ? took[n / 2] : took[n / 2 - 1] + (took[n / 2] - took[n / 2 - 1]) / 2;
}

/* The stages of a run, in one text. Runs with the same text have the same stages. */
#define STAGES_OF(run)                                                                                                           \
    "(SELECT group_concat(project || '/' || stage) FROM (SELECT project, stage FROM job WHERE run = " run                        \
    " ORDER BY project, stage))"

/* Runs on a branch of their own count too: they do the same work. A run that had nothing to compute tells nothing. */
#define RUNS_BEHIND                                                                                                              \
    "SELECT r.finished_us - r.created_us FROM (SELECT id, run FROM job WHERE project = ?1 AND stage = ?2 AND id < ?3"            \
    " ORDER BY id DESC LIMIT ?4) b JOIN run r ON r.id = b.run WHERE r.state = 'success' AND r.finished_us IS NOT NULL"           \
    " AND " STAGES_OF("r.id") " = " STAGES_OF(                                                                                   \
        "?5") " AND (SELECT sum(json_extract(counts, '$.done')) FROM job WHERE run = r.id) > 0 ORDER BY b.id DESC LIMIT ?6"

int pl_run_eta_add(struct pl_conn *c, json_t *run, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows first = {0}, rows = {0};
    const char *id = pl_json_str(run, "id");
    int64_t took[PL_RUN_BEHIND_MAX], jobs, median;
    size_t n = 0;
    json_t *eta;
    int r;

    if (!pl_streq(pl_json_str(run, "state"), "running"))
        return 0;
    r = pl_sql_query(c, err, &first, "SELECT id, project, stage, count(*) OVER () FROM job WHERE run = ? ORDER BY id LIMIT 1",
                     "s", id);
    r = r < 0 ? r : pl_sql_next(c, &first, err);
    if (r <= 0)
        return r;
    jobs = pl_col_int(&first, 3);
    r = pl_sql_query(c, err, &rows, RUNS_BEHIND, "ssiisi", pl_col_text(&first, 1), pl_col_text(&first, 2), pl_col_int(&first, 0),
                     PL_MIN(PL_MAX(ETA_JOBS_MAX / jobs, (int64_t)PL_RUN_BEHIND_MAX), (int64_t)ETA_LOOKED_AT), id,
                     (int64_t)PL_RUN_BEHIND_MAX);
    while (r >= 0 && n < PL_RUN_BEHIND_MAX && (r = pl_sql_next(c, &rows, err)) > 0)
        took[n++] = pl_col_int(&rows, 0);
    median = r < 0 ? -1 : pl_run_estimate(took, n);
    if (r < 0 || median < 0)
        return PL_MIN(r, 0);
    eta = json_pack("{s:I, s:I, s:I, s:o}", "took_ms", (json_int_t)(median / 1000), "ends_us",
                    json_integer_value(json_object_get(run, "created_us")) + (json_int_t)median, "runs", (json_int_t)n, "by",
                    json_sprintf("the median of the last %zu runs of the same stages", n));
    return eta && json_object_set_new(run, "eta", eta) == 0 ? 0 : pl_err_nomem(err);
}
