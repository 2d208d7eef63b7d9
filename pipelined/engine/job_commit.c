/* job_commit: commits a job. On the pool it builds one tree from the outputs of all datums, the owner table
 * and the datum table. One transaction then writes the commit and the job's end. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/merge/merge.h"
#include "storage/dataset/commit/recent_node_sink.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/log_line.h"

#include <stdio.h>

struct committing {
    struct pl_ejob *job;
    struct pl_commit_args commit;
    struct pl_job_args end;
    char parent[PL_ID_HEX + 1];
    struct pl_hash parent_object;
    bool has_parent;
    json_t *provenance;
    /* lock that keeps garbage collection from deleting the objects that this commit refers to, until the
     * commit is written */
    struct pl_store_hold hold;
    int result;
    struct pl_err err;
};

static int add_output(struct pl_merge *m, size_t d, const struct pl_eresult *res, const struct pl_node_source *source,
                      struct pl_err *err)
{
    int r = pl_merge_datum(m, d, err);

    if (r == 0 && res->outputs == PL_ROW_INLINE)
        r = pl_merge_add_ops(m, res->ops, res->ops_len, err);
    else if (r == 0 && res->outputs == PL_ROW_TREE)
        r = pl_merge_add_tree(m, source, &res->root, err);
    return r;
}

static int add_outputs(struct pl_merge *m, const struct pl_ewhole *w, const struct pl_node_source *source, struct pl_err *err)
{
    int r = 0;

    for (size_t d = 0; r == 0 && d < w->plan->n_datums; d++)
        r = w->has_result[d] ? add_output(m, d, &w->results[d], source, err) : pl_merge_failed(m, d, err);
    return r;
}

static void fill_row(const struct pl_ejob *j, const struct pl_hash *key, const struct pl_eresult *res, struct pl_datum_row *row)
{
    if (!res) {
        *row = (struct pl_datum_row){.state = PL_ROW_FAILED, .key = *key};
        /* the decoding cannot fail: the run's id was checked when the run was created */
        (void)!pl_hex_decode(j->run, row->run, sizeof row->run);
        return;
    }
    *row = (struct pl_datum_row){.state = PL_ROW_SUCCESS, .key = *key, .outputs = res->outputs, .root = res->root};
    row->ops = res->ops;
    row->ops_len = res->ops_len;
    memcpy(row->run, res->run, sizeof row->run);
}

/* Builds the datum table of the commit: one row for each datum, with its enumeration key. */
static int build_table(const struct pl_ejob *j, const struct pl_ewhole *w, const struct pl_node_sink *sink, struct pl_hash *ret,
                       struct pl_err *err)
{
    size_t n = w->plan->n_datums;
    _cleanup_free_ struct pl_datum_table_row *rows = calloc(n + 1, sizeof *rows);
    _cleanup_(pl_buf_finish) struct pl_buf keys = {.max = (size_t)4 << 30};
    _cleanup_free_ size_t *offsets = calloc(n + 1, sizeof *offsets);
    uint8_t key[PL_ENUM_KEY_MAX];
    int r = 0;

    if (!rows || !offsets)
        return pl_err_nomem(err);
    for (size_t d = 0; r == 0 && d < n; d++) {
        size_t len = pl_plan_enum_key(w->plan, d, key);

        offsets[d] = keys.len;
        r = pl_buf_add(&keys, key, len, err);
    }
    if (r < 0)
        return r;
    offsets[n] = keys.len;
    for (size_t d = 0; d < n; d++) {
        rows[d].enum_key = keys.data + offsets[d];
        rows[d].enum_key_len = offsets[d + 1] - offsets[d];
        fill_row(j, &w->plan->keys[d], w->has_result[d] ? &w->results[d] : NULL, &rows[d].row);
    }
    return pl_datum_table_build(sink, rows, n, ret, err);
}

/* Builds all trees of the commit from the outputs of all datums. */
static int build_whole(struct committing *c, const struct pl_node_source *source, const struct pl_node_sink *sink,
                       struct pl_tree_stats *stats, struct pl_err *err)
{
    _cleanup_(pl_merge_destroyp) struct pl_merge *merge = NULL;
    _cleanup_(pl_job_full_plan_finish) struct pl_ewhole whole = {0};
    int r = pl_job_full_plan(c->job, source, &whole, err);

    r = r < 0 ? r : pl_merge_create(whole.plan, 0, &merge, err);
    r = r < 0 ? r : add_outputs(merge, &whole, source, err);
    r = r < 0 ? r : pl_merge_finish(merge, err);
    r = r < 0 ? r : pl_merge_expect(merge, err);
    r = r < 0 ? r : pl_merge_build(merge, sink, &c->commit.root, &c->commit.owner, stats, err);
    return r < 0 ? r : build_table(c->job, &whole, sink, &c->commit.table, err);
}

/* Builds the trees of the commit by applying the outputs of the changed datums to the base commit's trees. */
static int build_carried(struct committing *c, const struct pl_node_source *source, const struct pl_node_sink *sink,
                         struct pl_tree_stats *stats, struct pl_err *err)
{
    _cleanup_(pl_merge_incremental_destroyp) struct pl_carry *carry = NULL;
    struct pl_ejob *j = c->job;
    struct pl_merge_incremental_roots roots;
    struct pl_datum_row row;
    int r = pl_merge_incremental_create(j->plan, &j->from.roots, source, 0, &carry, err);

    for (size_t d = 0; r == 0 && d < j->plan->n_datums; d++) {
        fill_row(j, &j->plan->keys[d], j->has_result[d] ? &j->results[d] : NULL, &row);
        r = pl_merge_incremental_datum(carry, d, &row, err);
    }
    for (size_t d = 0; r == 0 && d < j->plan->n_gone; d++)
        r = pl_merge_incremental_datum(carry, j->plan->n_datums + d, NULL, err);
    r = r < 0 ? r : pl_merge_incremental_finish(carry, sink, &roots, stats, err);
    r = r < 0 ? r : pl_merge_incremental_expect(carry, j->from.same_expect, err);
    if (r < 0)
        return r;
    c->commit.root = roots.output;
    c->commit.owner = roots.owner;
    c->commit.table = roots.table;
    return 0;
}

static int find_parent(struct committing *c, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(c->job->engine->config.db);
    struct pl_commit_row head;
    int r = pl_db_branch_head(rd.conn, (int64_t)c->job->stage->stage, c->commit.branch, &head, err);

    if (r <= 0) {
        c->commit.generation = 1;
        return r;
    }
    c->has_parent = true;
    snprintf(c->parent, sizeof c->parent, "%s", head.run);
    c->parent_object = head.object;
    c->commit.generation = head.generation + 1;
    return 0;
}

static int compare_source(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    static const char *const keys[] = {"project", "repo", "branch"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++) {
        int c = strcmp(json_string_value(json_object_get(x, keys[i])), json_string_value(json_object_get(y, keys[i])));

        if (c)
            return c;
    }
    return 0;
}

/* Returns the branch from which an input was read. An input that a stage of the same run wrote was read from
 * the run's separate branch, if the run has one. */
static json_t *branch_of(const struct pl_ejob *j, const json_t *in)
{
    bool aside = *j->aside.branch && pl_streq(json_string_value(json_object_get(in, "commit")), j->run);

    return aside ? json_string(j->aside.branch) : json_incref(json_object_get(in, "branch"));
}

/* Returns the list of commits that the job read, sorted and each listed once, for the commit object. Inputs
 * without a commit are left out. */
static json_t *provenance_of(const struct pl_ejob *j)
{
    size_t n = json_array_size(j->inputs), m = 0;
    _cleanup_free_ json_t **list = calloc(n + 1, sizeof(json_t *));
    json_t *out = json_array();

    for (size_t i = 0; list && i < n; i++) {
        json_t *in = json_array_get(j->inputs, i);

        if (*json_string_value(json_object_get(in, "commit")))
            list[m++] = in;
    }
    if (m)
        qsort(list, m, sizeof *list, compare_source);
    for (size_t i = 0; i < m; i++) {
        if (i && compare_source(&list[i - 1], &list[i]) == 0)
            continue;
        json_array_append_new(out, json_pack("{s:O, s:O, s:o, s:O}", "project", json_object_get(list[i], "project"), "repo",
                                             json_object_get(list[i], "repo"), "branch", branch_of(j, list[i]), "commit",
                                             json_object_get(list[i], "commit")));
    }
    return out;
}

/* Builds the trees and the commit object, and writes them to the store in packs. */
static int build(struct committing *c, bool whole, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_recent_node_sink_finish) struct pl_recent_node_sink recent = {0};
    struct pl_ejob *j = c->job;
    struct pl_tree_stats stats = {0};
    struct pl_node_source below, source;
    struct pl_node_sink nodes;
    struct pl_pack_sink sink;
    struct pl_store *store;
    int r = pl_project_stores_get(j->engine->config.stores, j->stage->project, &store, err);

    if (r < 0)
        return r;
    if (!c->hold.store)
        pl_store_hold(store, &c->hold);
    below = (struct pl_node_source){store, pl_store_node_get};
    sink = pl_store_sink(store);
    r = find_parent(c, err);
    r = r < 0 ? r : pl_pack_builder_open(&sink, j->stage->project, &session, err);
    if (r < 0)
        return r;
    pl_recent_node_sink_init(&recent, session, &below);
    source = pl_recent_node_sink_source(&recent);
    nodes = pl_recent_node_sink_sink(&recent);
    r = whole ? build_whole(c, &source, &nodes, &stats, err) : build_carried(c, &source, &nodes, &stats, err);
    c->commit.files = (int64_t)stats.files;
    c->commit.bytes = (int64_t)stats.bytes;
    r = r < 0 ? r : pl_commit_object_put(session, &c->commit, c->has_parent ? &c->parent_object : NULL, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}

/* Checks that the only datums without a result are failed ones, which are left out of the output. */
static int check_results(const struct pl_ejob *j, struct pl_err *err)
{
    uint64_t missing = 0;

    for (size_t d = 0; d < j->plan->n_datums; d++)
        missing += !j->has_result[d];
    if (missing != j->totals.failed + j->totals.recovered)
        return pl_err_set(err, PL_EINTERNAL, "%llu of %zu datums have no result, which is not the number of failed datums",
                          (unsigned long long)missing, j->plan->n_datums);
    return 0;
}

/* Builds the output from the base commit's trees. If that fails, for example because two outputs collide,
 * builds everything, because only the full build gives a complete error message. */
static int build_either(struct committing *c, struct pl_err *err)
{
    struct pl_err why = {0};
    int r = check_results(c->job, err);

    if (r < 0)
        return r;
    if (c->job->plan->partial && build(c, false, &why) == 0)
        return 0;
    if (c->job->plan->partial)
        pl_log_info("engine", "the output of %s in run %.8s is built in full: %s", c->job->stage->def->name, c->job->run,
                    why.msg);
    return build(c, true, err);
}

static int commit_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct committing *c = arg;
    const struct pl_ejob *j = c->job;
    int r = pl_tx_job_may_commit(tx, &c->end, err);

    /* a branch with the name of the separate branch may have been created since the run began */
    if (r == 0 && *j->aside.branch)
        r = pl_rerun_branch_check(pl_tx_conn(tx), j->stage->project, j->stage->def->name, j->aside.branch, err);
    r = r < 0 ? r : pl_tx_commit(tx, &c->commit, err);
    return r < 0 ? r : pl_tx_job_end(tx, &c->end, err);
}

/* On the loop: reports the commit, or its failure, to the scheduler. */
static void committed(void *arg)
{
    struct committing *c = arg;
    struct pl_ejob *j = c->job;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_JOB_COMMITTED, .id = j->id};
    struct pl_err err = {0};

    if (c->result < 0) {
        ev.kind = PL_SCHED_EV_COMMIT_FAILED;
        ev.text = c->err.msg;
        ev.on = c->result == PL_ECANCELED; /* pl_tx_job_may_commit returns PL_ECANCELED if the stage is gone */
    } else {
        j->over = true;
    }
    if (pl_engine_feed(j->engine, &ev, &err) < 0)
        pl_log_error("engine", "cannot report the commit of stage %s: %s", j->stage->def->name, err.msg);
    pl_store_release(&c->hold);
    pl_engine_job_args_done(&c->end);
    json_decref(c->provenance);
    pl_engine_job_unref(j);
    free(c);
}

static void commit_done(void *arg, int r, const struct pl_err *err)
{
    struct committing *c = arg;

    c->result = r;
    if (err != &c->err)
        c->err = *err;
    pl_engine_post(c->job->engine, "engine.committed", committed, c);
}

static void commit_on_pool(void *arg)
{
    struct committing *c = arg;
    int r = c->job->engine->failed ? pl_err_set(&c->err, PL_ESTOPPING, "the daemon is stopping") : build_either(c, &c->err);

    c->commit.parent = c->parent;
    if (r < 0)
        commit_done(c, r, &c->err);
    else
        pl_engine_submit(c->job->engine, PL_TX_LOGGED, commit_tx, commit_done, c);
}

/* Returns the reason of a successful job, "1 of 3 datums failed and is left out"; NULL if no datum is left
 * out. */
static char *left_out(const struct pl_etotals *t)
{
    char text[160];
    uint64_t n = t->failed + t->recovered;

    if (n == 0)
        return NULL;
    snprintf(text, sizeof text, "%llu of %llu datums failed and %s left out%s", (unsigned long long)n,
             (unsigned long long)t->datums, n == 1 ? "is" : "are", t->recovered == n ? ": on_error handled it" : "");
    return strdup(text);
}

/* Commits the job in four steps: the loop prepares all arguments; a pool thread builds the trees; the writer
 * thread commits; the loop reports to the scheduler. */
void pl_engine_commit(struct pl_engine *e, struct pl_ejob *j)
{
    struct committing *c = calloc(1, sizeof *c);

    if (!c) {
        pl_engine_fail(e, "no memory for a commit");
        return;
    }
    c->job = pl_engine_job_ref(j);
    c->provenance = provenance_of(j);
    c->commit = (struct pl_commit_args){.project = j->stage->project,
                                        .repo = j->stage->def->name,
                                        .branch = pl_job_branch(j),
                                        .run = j->run,
                                        .output = true,
                                        .expect = -1,
                                        .stage = j->stage->def->name,
                                        .code = j->stage->code_identity,
                                        .provenance = c->provenance};
    pl_engine_job_args(j, &c->end);
    c->end.state = "success";
    free((char *)c->end.reason); /* the job's current reason says that it is committing */
    c->end.reason = j->no_datums ? strdup(j->no_datums) : left_out(&j->totals);
    c->end.output = j->run;
    pl_engine_pool(e, commit_on_pool, c);
}
