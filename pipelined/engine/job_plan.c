/* job_plan: plans a job: determines which commits it reads, which datums these give, and for which datums an
 * earlier result can be reused. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/db/pipelines/manual_run.h"
#include "storage/system/log_line.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

/* ---- inputs ---- */

const char *pl_job_branch(const struct pl_ejob *j)
{
    return *j->aside.branch ? j->aside.branch : j->stage->def->output.branch;
}

/* Finds the commit at which input number `i` is read. Returns 1, or 0 if the branch has no such commit so
 * far. */
static int find_commit(struct pl_ejob *j, struct pl_conn *c, size_t i, struct pl_commit_row *ret, struct pl_err *err)
{
    const struct pl_input *leaf = j->stage->def->leaves[i];
    struct pl_repo_row repo;
    int r;

    if (*j->aside.branch)
        return pl_rerun_branch_input(c, &j->aside, j->stage->project, j->stage->def, i, ret, err);
    r = pl_db_repo_find(c, leaf->project, leaf->repo, &repo, err);
    return r < 0 ? r : pl_db_branch_as_of(c, repo.id, leaf->branch, (int64_t)j->order, ret, err);
}

/* Finds the commit and the root hash of input number `i`; a `params` input has neither. */
static int find_input(struct pl_ejob *j, struct pl_conn *c, size_t i, struct pl_err *err)
{
    const struct pl_input *leaf = j->stage->def->leaves[i];
    struct pl_commit_row commit;
    int r;

    if (!pl_input_reads(leaf))
        return 0;
    r = find_commit(j, c, i, &commit, err);
    if (r > 0) {
        snprintf(j->commits[i], sizeof j->commits[i], "%s", commit.run);
        j->roots[i] = commit.root;
    }
    return r < 0 ? pl_err_wrap(err, r, "input %s", leaf->name) : 0;
}

/* Finds the commit of each input, and makes the job's list of inputs. */
static int find_inputs(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    json_t *inputs = json_array();

    if (!inputs)
        return pl_err_nomem(err);
    for (size_t i = 0; i < j->stage->def->n_leaves; i++) {
        const struct pl_input *leaf = j->stage->def->leaves[i];
        char root[PL_HASH_HEX + 1];
        bool reads = pl_input_reads(leaf);
        json_t *one;
        int r = find_input(j, c, i, err);

        if (r < 0) {
            json_decref(inputs);
            return r;
        }
        one = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", leaf->name, "project", reads ? leaf->project : "", "repo",
                        reads ? leaf->repo : "", "branch", reads ? leaf->branch : "", "commit", j->commits[i], "root",
                        pl_hash_hex(&j->roots[i], root));
        if (leaf->environment)
            json_object_set_new(one, "environment", json_true());
        json_array_append_new(inputs, one);
    }
    j->inputs = inputs;
    return 0;
}

/* Sets the job's roots and commits from the list of inputs that an earlier plan of the job stored. */
static int take_inputs(struct pl_ejob *j, struct pl_err *err)
{
    if (json_array_size(j->inputs) != j->stage->def->n_leaves)
        return pl_err_set(err, PL_ECORRUPT, "the job's row in the database has %zu inputs, but its stage has %zu",
                          json_array_size(j->inputs), j->stage->def->n_leaves);
    for (size_t i = 0; i < j->stage->def->n_leaves; i++) {
        const json_t *o = json_array_get(j->inputs, i);
        const char *root = json_string_value(json_object_get(o, "root")),
                   *commit = json_string_value(json_object_get(o, "commit"));
        int r = root && commit ? pl_hash_parse(root, &j->roots[i], err)
                               : pl_err_set(err, PL_ECORRUPT, "the job's row in the database has a malformed input");

        if (r < 0)
            return r;
        snprintf(j->commits[i], sizeof j->commits[i], "%s", commit);
    }
    return 0;
}

/* ---- reuse ---- */

struct bases {
    struct pl_store *store;
    struct pl_node_source source;
    /* root hashes of the datum tables; they are read from the database first, and the tables are opened after
     * the database reader was released */
    struct pl_hash roots[PL_BASES_MAX];
    size_t n_roots;
    struct pl_tree_cursor *tables[PL_BASES_MAX];
    size_t n;
    bool none; /* no result is reused: the stage has no cache, or the run runs every datum again */
};

static void bases_finish(struct bases *b)
{
    while (b->n)
        pl_tree_cursor_destroy(b->tables[--b->n]);
}

static int open_tables(struct bases *b, struct pl_err *err)
{
    int r = 0;

    for (; r == 0 && b->n < b->n_roots; b->n += r == 0)
        r = pl_tree_cursor_create(&b->source, &b->roots[b->n], NULL, 0, &b->tables[b->n], err);
    return r;
}

/* Collects the root hashes of the datum tables of a commit and of the commits before it. */
static void find_tables(const struct pl_ejob *j, struct pl_conn *c, struct pl_commit_row *row, struct bases *b)
{
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    int r = 0;

    while (r == 0 && b->n_roots < PL_BASES_MAX) {
        if (!pl_hash_is_zero(&row->table))
            b->roots[b->n_roots++] = row->table;
        if (!*row->parent)
            break;
        snprintf(ref.name, sizeof ref.name, "%s", row->parent);
        r = pl_db_commit_find(c, j->stage->project, j->stage->def->name, &ref, row, NULL);
    }
}

/* Finds the commits whose results may be reused: the head of the output branch (or, if a restored job is
 * planned `again`, the job's own base commit) and the commits before it. Every commit of an output branch was
 * made by a successful job. If the run has a separate branch without commits so far, results of the stage's
 * own branch are reused. But no commit of the stage's own branch is then the base commit, because its inputs
 * were other trees. */
static int find_bases(struct pl_ejob *j, struct pl_conn *c, bool again, struct bases *b, struct pl_err *err)
{
    struct pl_commit_row row;
    struct pl_commit_ref ref = {.kind = PL_COMMIT_REF_ID};
    int r = 0;

    if (again && *j->base) {
        snprintf(ref.name, sizeof ref.name, "%s", j->base);
        r = pl_db_commit_find(c, j->stage->project, j->stage->def->name, &ref, &row, err);
        r = r < 0 ? r : 1;
    } else if (!again) {
        r = pl_db_branch_head(c, (int64_t)j->stage->stage, pl_job_branch(j), &row, err);
    }
    if (r > 0) {
        snprintf(j->base, sizeof j->base, "%s", row.run);
        r = pl_job_find_base(j, c, &row, err);
        r = r < 0 ? r : 1;
    } else if (r == 0 && *j->aside.branch) {
        r = pl_db_branch_head(c, (int64_t)j->stage->stage, j->stage->def->output.branch, &row, err);
    }
    if (r > 0)
        find_tables(j, c, &row, b);
    return PL_MIN(r, 0);
}

static int keep_reused(struct pl_ejob *j, size_t datum, const struct pl_eresult *from, struct pl_err *err)
{
    struct pl_eresult *res = &j->results[datum];

    *res = *from;
    res->reused = true;
    if (from->outputs == PL_ROW_INLINE) {
        res->ops = malloc(from->ops_len ? from->ops_len : 1);
        if (!res->ops)
            return pl_err_nomem(err);
        memcpy(res->ops, from->ops, from->ops_len);
    }
    j->has_result[datum] = 1;
    return 0;
}

/* Looks up the datum's result in the datum tables, newest first. */
static int look_up(struct pl_ejob *j, struct bases *b, size_t datum, struct pl_err *err)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    size_t len = pl_plan_enum_key(j->plan, datum, key);
    struct pl_datum_row row;

    for (size_t i = 0; i < b->n; i++) {
        struct pl_eresult found = {0};
        int r = pl_datum_table_find(b->tables[i], key, len, &j->plan->keys[datum], &row, err);

        if (r < 0)
            return r;
        if (r == 0)
            continue;
        memcpy(found.run, row.run, sizeof found.run);
        found.outputs = row.outputs;
        found.root = row.root;
        found.ops = (uint8_t *)(uintptr_t)row.ops; /* a borrowed pointer: keep_reused copies the bytes */
        found.ops_len = row.ops_len;
        return keep_reused(j, datum, &found, err);
    }
    return 0;
}

/* Lists the datums without a result, in order: these must run, and their positions in the list are the job's
 * row numbers. */
static void list_rows(struct pl_ejob *j)
{
    j->n_rows = 0;
    for (size_t d = 0; d < j->plan->n_datums; d++)
        if (!j->has_result[d])
            j->rows[j->n_rows++] = (uint32_t)d;
}

static int by_key(const void *a, const void *b, void *keys)
{
    const struct pl_hash *k = keys;

    return memcmp(k[*(const uint32_t *)a].b, k[*(const uint32_t *)b].b, PL_HASH_BYTES);
}

/* Reuses results of the stage's failed or killed jobs for datums that were found in no datum table. A stage
 * without a cache reuses none, but still finds out which stored results can be deleted. */
static int reuse_kept(struct pl_ejob *j, struct pl_conn *conn, struct pl_err *err)
{
    int64_t any = 0;
    int r = pl_sql_int(conn, err, &any, "SELECT EXISTS (SELECT 1 FROM job WHERE project = ? AND stage = ? AND kept = 1)", "ss",
                       j->stage->project, j->stage->def->name);

    if (r < 0 || !any)
        return r;
    if (j->stage->def->cache.enabled)
        list_rows(j);
    qsort_r(j->rows, j->n_rows, sizeof *j->rows, by_key, j->plan->keys);
    return pl_kept_results(j, conn, err);
}

static int reuse_any(struct pl_ejob *j, struct pl_conn *conn, struct bases *b, struct pl_err *err)
{
    int r = 0;

    for (size_t d = 0; r == 0 && !b->none && d < j->plan->n_datums; d++)
        r = look_up(j, b, d, err);
    if (r < 0 || conn)
        return r < 0 ? r : reuse_kept(j, conn, err);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(j->engine->config.db);

        return reuse_kept(j, rd.conn, err);
    }
}

static int reuse(struct pl_ejob *j, struct pl_conn *conn, struct bases *b, struct pl_err *err)
{
    int r = j->forced ? 0 : reuse_any(j, conn, b, err);

    if (r < 0)
        return pl_err_wrap(err, r, "cannot look for results to reuse");
    list_rows(j);
    return pl_job_untried_find(j, err);
}

void pl_job_unplan(struct pl_ejob *j)
{
    for (size_t i = 0; j->results && j->plan && i < j->plan->n_datums; i++)
        pl_engine_result_finish(&j->results[i]);
    free(TAKE_PTR(j->results));
    free(TAKE_PTR(j->has_result));
    pl_buf_finish(&j->stale);
    pl_job_untried_finish(&j->untried);
    free(TAKE_PTR(j->settled));
    free(TAKE_PTR(j->tried));
    free(TAKE_PTR(j->rows));
    free(TAKE_PTR(j->roots));
    free(TAKE_PTR(j->commits));
    free(TAKE_PTR(j->no_datums));
    j->plan = pl_plan_destroy(j->plan);
    j->from = (struct pl_ebase){0};
    j->n_rows = 0;
    j->planned = false;
    j->totals = (struct pl_etotals){0};
}

void pl_job_planned(struct pl_ejob *j)
{
    j->planned = true;
    j->totals.datums = j->plan->n_total;
    j->totals.planned = j->plan->n_datums;
    j->totals.reused = j->plan->n_total - j->n_rows;
}

/* ---- the plan ---- */

int pl_job_enumerate(const struct pl_ejob *j, const struct pl_ebase *base, struct pl_plan **ret, struct pl_err *err)
{
    size_t n = j->stage->def->n_leaves;
    _cleanup_free_ struct pl_plan_input *inputs = calloc(n + 1, sizeof *inputs);
    _cleanup_free_ struct pl_node_source *sources = calloc(n + 1, sizeof *sources);
    struct pl_plan_request request = {.stage = j->stage->def, .inputs = inputs, .code_identity = j->stage->code_identity};
    struct pl_store *store;
    int r;

    if (!inputs || !sources)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const struct pl_input *leaf = j->stage->def->leaves[i];

        r = pl_project_stores_get(j->engine->config.stores, pl_input_reads(leaf) ? leaf->project : j->stage->project, &store,
                                  err);

        if (r < 0)
            return r;
        sources[i] = (struct pl_node_source){store, pl_store_node_get};
        inputs[i] = (struct pl_plan_input){.root = j->roots[i], .source = &sources[i]};
    }
    r = pl_project_stores_get(j->engine->config.stores, j->stage->project, &store, err);
    if (r < 0)
        return r;
    sources[n] = (struct pl_node_source){store, pl_store_node_get};
    if (base) {
        request.base = base->leaf_roots;
        request.base_datums = base->datums;
        request.base_source = &sources[n];
        request.base_owner = base->roots.owner;
    }
    return pl_plan_create(&request, ret, err);
}

/* Enumerates the datums that differ from the base commit. Without a base commit, or if that fails, enumerates
 * all datums. */
static int enumerate(struct pl_ejob *j, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = j->from.usable ? pl_job_enumerate(j, &j->from, &j->plan, &why) : 0;

    if (r < 0) {
        pl_log_warn("engine", "job %s of run %.8s is planned in full: %s", j->stage->def->name, j->run, why.msg);
        j->from.usable = false;
    }
    r = j->plan ? 0 : pl_job_enumerate(j, NULL, &j->plan, err);
    if (r < 0)
        return r;
    j->rows = calloc(j->plan->n_datums + 1, sizeof *j->rows);
    j->results = calloc(j->plan->n_datums + 1, sizeof *j->results);
    j->has_result = calloc(j->plan->n_datums + 1, 1);
    return j->rows && j->results && j->has_result ? 0 : pl_err_nomem(err);
}

/* Says why a job has no datums: the first input without a match. Sets j->no_datums, unless the job has no input. */
static int explain_none(struct pl_ejob *j, struct pl_err *err)
{
    _cleanup_(pl_plan_destroyp) struct pl_plan *whole = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_store *store;
    int r = j->plan->partial ? pl_job_enumerate(j, NULL, &whole, err) : 0;

    for (size_t i = 0; r == 0 && i < j->stage->def->n_leaves && text.len == 0; i++) {
        const struct pl_input *leaf = j->stage->def->leaves[i];
        struct pl_node_source source;

        if (!pl_input_reads(leaf) || leaf->previous || (whole ? whole : j->plan)->leaves[i].n > 0)
            continue;
        r = pl_project_stores_get(j->engine->config.stores, leaf->project, &store, err);
        source = (struct pl_node_source){r < 0 ? NULL : store, pl_store_node_get};
        r = r < 0 ? r
                  : pl_plan_no_match(leaf, j->stage->project, &(struct pl_plan_input){.root = j->roots[i], .source = &source},
                                     &text, err);
    }
    if (r < 0 || text.len == 0)
        return r;
    j->no_datums = pl_buf_str(&text) ? strdup((const char *)text.data) : NULL;
    return j->no_datums ? 0 : pl_err_nomem(err);
}

static int find_all(struct pl_ejob *j, struct pl_conn *c, struct bases *b, struct pl_err *err)
{
    bool again = json_array_size(j->inputs) > 0;
    int r = pl_rerun_branch_find(c, j->run, &j->aside, err);

    r = r < 0 ? r : again ? take_inputs(j, err) : find_inputs(j, c, err);
    r = r < 0 ? r : pl_db_run_is_forced(c, j->run, j->stage->project, j->stage->def->name, &j->forced, err);
    r = r < 0 ? r : pl_job_untried_read(j, c, err);
    b->none = j->forced || !j->stage->def->cache.enabled;
    r = r < 0 ? r : find_bases(j, c, again, b, err);
    /* without reuse, unchanged datums are run again too, so all must be enumerated */
    j->from.usable = j->from.usable && !b->none;
    return r;
}

/* Reads the database first and the store afterwards: the store may be a slow bucket, and other threads wait
 * for the database reader. */
int pl_job_plan(struct pl_ejob *j, struct pl_conn *conn, struct pl_err *err)
{
    _cleanup_(bases_finish) struct bases b = {0};
    size_t n = j->stage->def->n_leaves;
    struct pl_err unknown = {0};
    int r = pl_project_stores_get(j->engine->config.stores, j->stage->project, &b.store, err);

    if (r < 0)
        return r;
    b.source = (struct pl_node_source){b.store, pl_store_node_get};
    j->roots = calloc(n + 1, sizeof *j->roots);
    j->commits = calloc(n + 1, sizeof *j->commits);
    if (!j->roots || !j->commits)
        return pl_err_nomem(err);
    if (conn) {
        r = find_all(j, conn, &b, err);
    } else {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(j->engine->config.db);

        r = find_all(j, rd.conn, &b, err);
    }
    r = r < 0 ? r : pl_job_read_base(j, &b.source, err);
    r = r < 0 ? r : open_tables(&b, err);
    r = r < 0 ? r : enumerate(j, err);
    if (r == 0 && j->plan->n_total == 0 && explain_none(j, &unknown) < 0)
        /* the job is right without a reason: it needs nothing more from the store */
        pl_log_warn("engine", "run %.8s: cannot say why stage %s has no datums: %s", j->run, j->stage->def->name, unknown.msg);
    return r < 0 ? r : reuse(j, conn, &b, err);
}

/* ---- action PLAN: planned on the pool, then the row is written, then the event is fed ---- */

struct planning {
    struct pl_ejob *job;
    struct pl_job_args args;
    int result;
    struct pl_err err;
};

/* Says in the plan which rows are not tried. `label` holds a text of the plan. */
static void tell_untried(struct pl_ejob *j, struct pl_sched_plan *plan, char *label, size_t size)
{
    const struct pl_euntried *u = &j->untried;
    const uint32_t first = u->failed.n ? u->failed.items[0].lo : 0;

    plan->untried = u->all.items;
    plan->n_untried = u->all.n;
    plan->recovered = u->recovered.count;
    if (u->failed.n)
        plan->first_failed = (struct pl_sched_row){.index = first,
                                                   .failed = true,
                                                   .label = pl_plan_datum_text(j->plan, j->rows[first], label, size),
                                                   .message = u->message ? u->message : "it failed in an earlier run"};
    j->failed_kept = PL_MAX(j->failed_kept, u->kept);
}

static void planning_over(void *arg)
{
    struct planning *p = arg;
    struct pl_ejob *j = p->job;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_PLAN_FAILED, .id = j->id, .text = p->err.msg};
    struct pl_err err = {0};
    char label[256];

    if (p->result >= 0) {
        if (!j->row)
            j->row = p->args.id;
        ev.kind = PL_SCHED_EV_JOB_PLANNED;
        ev.plan.datums = j->plan->n_total;
        ev.plan.to_run = j->n_rows;
        tell_untried(j, &ev.plan, label, sizeof label);
    }
    if (pl_engine_feed(j->engine, &ev, &err) < 0)
        pl_log_error("engine", "cannot report the plan of stage %s: %s", j->stage->def->name, err.msg);
    pl_engine_job_args_done(&p->args);
    pl_engine_job_unref(j);
    free(p);
}

static void row_written(void *arg, int r, const struct pl_err *err)
{
    struct planning *p = arg;

    p->result = r;
    p->err = *err;
    pl_engine_post(p->job->engine, "engine.planned", planning_over, p);
}

static int row_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct planning *p = arg;
    int r = pl_tx_job_progress(tx, &p->args, err);

    r = r < 0 ? r : pl_job_untried_write(p->job, pl_tx_conn(tx), p->args.id, err);
    return r < 0 ? r : pl_kept_drop_stale(p->job, pl_tx_conn(tx), err);
}

/* Writes the job's row with its inputs and base commit before any datum is leased, so that a restart makes
 * the same plan. */
static void write_plan(void *arg)
{
    struct planning *p = arg;

    if (p->result >= 0) {
        pl_job_planned(p->job);
        p->job->totals.failed = p->job->untried.failed.count;
        p->job->totals.recovered = p->job->untried.recovered.count;
        pl_engine_count_reused(p->job);
    }
    if (p->result >= 0 && !p->job->over) {
        pl_engine_job_args(p->job, &p->args);
        pl_engine_submit(p->job->engine, PL_TX_UNLOGGED, row_tx, row_written, p);
        return;
    }
    planning_over(p);
}

static void plan_on_pool(void *arg)
{
    struct planning *p = arg;

    pl_trace("engine", "plan job %llu of stage %s", (unsigned long long)p->job->id, p->job->stage->def->name);
    p->result =
        p->job->engine->failed ? pl_err_set(&p->err, PL_ESTOPPING, "the daemon is stopping") : pl_job_plan(p->job, NULL, &p->err);
    pl_trace("engine", "planned job %llu: %d, %llu datums, %u to run", (unsigned long long)p->job->id, p->result,
             p->result < 0 ? 0 : (unsigned long long)p->job->plan->n_total, p->job->n_rows);
    pl_engine_post(p->job->engine, "engine.plan", write_plan, p);
}

static void start_planning(void *arg, int r, const struct pl_err *err)
{
    struct planning *p = arg;

    if (r >= 0 && !p->job->over) {
        pl_engine_pool_slow(p->job->engine, p->job->stage->project, plan_on_pool, p);
        return;
    }
    p->result = r < 0 ? r : pl_err_set(&p->err, PL_ECANCELED, "the job has ended");
    if (r < 0)
        p->err = *err;
    planning_over(p);
}

/* Carries out action PLAN after all earlier ends are written: the results of the stage's previous job are
 * marked as reusable only when the end of that job is written. */
void pl_engine_plan(struct pl_engine *e, struct pl_ejob *j)
{
    struct planning *p = calloc(1, sizeof *p);

    if (!p) {
        pl_engine_fail(e, "no memory for a plan");
        return;
    }
    p->job = pl_engine_job_ref(j);
    pl_engine_after_completion(e, start_planning, p);
}
