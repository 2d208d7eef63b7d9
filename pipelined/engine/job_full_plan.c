/* job_full_plan: makes the complete plan of a job that was planned from a base commit, with the results of
 * all datums. A full build of the output needs it. */
#include "pipelined/engine/engine_internal.h"

#include "storage/tree/tree_walk.h"

void pl_job_full_plan_finish(struct pl_ewhole *w)
{
    pl_plan_destroy(w->own_plan);
    free(w->own_results);
    free(w->own_has_result);
    pl_arena_destroy(w->arena);
}

/* Makes a map from enumeration key to (datum number in the job's plan) + 1. */
static int index_planned(const struct pl_ejob *j, struct pl_map *ret, struct pl_err *err)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    int r = 0;

    for (size_t d = 0; r == 0 && d < j->plan->n_datums; d++) {
        size_t len = pl_plan_enum_key(j->plan, d, key);

        r = pl_map_put(ret, key, len, (void *)(d + 1), NULL, err);
    }
    return r;
}

/* Copies the datum's result from a row of the base commit's datum table. */
static int take_row(struct pl_ewhole *w, size_t d, const struct pl_datum_row *row, struct pl_err *err)
{
    struct pl_eresult *res = &w->own_results[d];

    *res = (struct pl_eresult){.reused = true, .outputs = row->outputs, .root = row->root};
    memcpy(res->run, row->run, sizeof res->run);
    if (row->outputs == PL_ROW_INLINE) {
        res->ops = pl_arena_alloc(w->arena, row->ops_len + 1);
        if (!res->ops)
            return pl_err_nomem(err);
        memcpy(res->ops, row->ops, row->ops_len);
        res->ops_len = row->ops_len;
    }
    w->own_has_result[d] = 1;
    return 0;
}

/* Sets each datum's result, from the job's plan or, if the plan lacks the datum, from the base commit's datum
 * table. */
static int fill(const struct pl_ejob *j, struct pl_ewhole *w, const struct pl_map *planned, struct pl_tree_cursor *table,
                struct pl_err *err)
{
    uint8_t key[PL_ENUM_KEY_MAX];
    char text[256];
    struct pl_datum_row row;
    int r = 0;

    for (size_t d = 0; r == 0 && d < w->own_plan->n_datums; d++) {
        size_t len = pl_plan_enum_key(w->own_plan, d, key), at = (size_t)pl_map_get(planned, key, len);

        if (at) {
            /* a shallow copy: the job still owns the memory to which the result points */
            w->own_results[d] = j->results[at - 1];
            w->own_has_result[d] = j->has_result[at - 1];
            continue;
        }
        r = pl_datum_table_find(table, key, len, &w->own_plan->keys[d], &row, err);
        if (r == 0)
            return pl_err_set(err, PL_EINTERNAL, "datum (%s) is neither in the plan nor in the base commit",
                              pl_plan_datum_text(w->own_plan, d, text, sizeof text));
        r = r < 0 ? r : take_row(w, d, &row, err);
    }
    return r;
}

int pl_job_full_plan(const struct pl_ejob *j, const struct pl_node_source *source, struct pl_ewhole *ret, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *table = NULL;
    struct pl_map planned = {0};
    int r;

    *ret = (struct pl_ewhole){.plan = j->plan, .results = j->results, .has_result = j->has_result};
    if (!j->plan->partial)
        return 0;
    r = pl_job_enumerate(j, NULL, &ret->own_plan, err);
    if (r < 0)
        return r;
    ret->own_results = calloc(ret->own_plan->n_datums + 1, sizeof *ret->own_results);
    ret->own_has_result = calloc(ret->own_plan->n_datums + 1, 1);
    ret->arena = pl_arena_create(PL_MERGE_INCREMENTAL_DEFAULT_BYTES);
    if (!ret->own_results || !ret->own_has_result || !ret->arena)
        return pl_err_nomem(err);
    r = pl_tree_cursor_create(source, &j->from.roots.table, NULL, 0, &table, err);
    r = r < 0 ? r : index_planned(j, &planned, err);
    r = r < 0 ? r : fill(j, ret, &planned, table, err);
    pl_map_finish(&planned, NULL);
    ret->plan = ret->own_plan;
    ret->results = ret->own_results;
    ret->has_result = ret->own_has_result;
    return r;
}
