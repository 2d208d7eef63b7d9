/* job_base_commit: decides whether a job can be planned from the commit before it on its branch. It can if
 * the job that made this commit is known, and would have planned the same datums over the same trees. */
#include "pipelined/engine/engine_internal.h"

#include "storage/system/log_line.h"
#include "storage/tree/tree_walk.h"

static bool same_expect(const struct pl_output *a, const struct pl_output *b)
{
    bool same = a->n_expect == b->n_expect;

    for (size_t i = 0; same && i < a->n_expect; i++)
        same = pl_streq(a->expect[i], b->expect[i]);
    return same;
}

/* Checks whether the base commit was made by a version of the stage that would plan the same datums. If that
 * version was deleted, it is treated as different. */
static int check_stage(struct pl_ejob *j, struct pl_conn *c, uint64_t version, bool *ret, struct pl_err *err)
{
    struct pl_estage *base = NULL;
    int r = version == j->stage->version ? 0 : pl_engine_stage_load(c, version, &base, err);

    *ret = false;
    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0)
        return r;
    if (!base)
        base = pl_engine_stage_ref(j->stage);
    j->from.same_expect = same_expect(&j->stage->def->output, &base->def->output);
    r = pl_plan_may_follow(j->stage->def, &j->stage->code_identity, base->def, &base->code_identity, ret, err);
    pl_engine_stage_unref(base);
    return r;
}

/* Reads the root hashes of the inputs over which the base commit was planned, from the row of the job that
 * made it. */
static bool read_roots(struct pl_ejob *j, const json_t *inputs)
{
    size_t n = j->stage->def->n_leaves;

    for (size_t i = 0; i < n; i++) {
        const char *root = json_string_value(json_object_get(json_array_get(inputs, i), "root"));

        if (!root || pl_hash_parse(root, &j->from.leaf_roots[i], NULL) < 0)
            return false;
    }
    return json_array_size(inputs) == n;
}

static int check_job(struct pl_ejob *j, struct pl_conn *c, const struct pl_commit_row *base, bool *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *inputs = NULL;
    int r = pl_sql_query(c, err, &rows,
                         "SELECT version, inputs FROM job WHERE run = ? AND project = ? AND stage = ? AND state = 'success'",
                         "sss", base->run, j->stage->project, j->stage->def->name);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    inputs = pl_col_json(&rows, 1);
    if (!inputs)
        return pl_err_nomem(err);
    return !read_roots(j, inputs) ? 0 : check_stage(j, c, (uint64_t)pl_col_int(&rows, 0), ret, err);
}

/* Marks the job for a full plan and logs the reason. Only a lack of memory is returned as an error. */
static int unusable(struct pl_ejob *j, int r, const struct pl_err *why, struct pl_err *err)
{
    j->from.usable = false;
    if (r == PL_ENOMEM)
        return pl_err_nomem(err);
    pl_log_warn("engine", "job %s of run %.8s is planned in full: %s", j->stage->def->name, j->run, why->msg);
    return 0;
}

int pl_job_find_base(struct pl_ejob *j, struct pl_conn *c, const struct pl_commit_row *base, struct pl_err *err)
{
    struct pl_err why = {0};
    bool may = false;
    int r = j->stage->def->cache.enabled ? check_job(j, c, base, &may, &why) : 0;

    j->from.roots = (struct pl_merge_incremental_roots){base->root, base->owner, base->table};
    j->from.usable = may;
    return r < 0 ? unusable(j, r, &why, err) : 0;
}

int pl_job_read_base(struct pl_ejob *j, const struct pl_node_source *source, struct pl_err *err)
{
    struct pl_tree_stats rows = {0};
    struct pl_err why = {0};
    int r = j->from.usable ? pl_tree_stats_get(source, &j->from.roots.table, NULL, 0, &rows, &why) : 0;

    j->from.datums = rows.files;
    return r < 0 ? unusable(j, r, &why, err) : 0;
}
