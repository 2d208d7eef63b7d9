/* Failed datums of a job that a restart takes up again: `attempt` tells of them, and they are not tried again. */
#include "engine_internal.h"

#include <stdio.h>

struct failure {
    int64_t attempt;
    bool recovered;
    const char *message;
};

/* The failed attempts of the job by datum id; in the totals they count as they did. */
static int read_failures(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_map *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(c, err, &rows,
                     "SELECT datum, attempt, detail, reason, tail, exit_code, oom FROM attempt WHERE job = ? AND state = 'failed'"
                     " ORDER BY datum, attempt",
                     "i", j->row);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *row = pl_col_json(&rows, 2);
        struct failure *f = pl_arena_alloc(arena, sizeof *f);
        struct pl_hash datum = pl_col_hash(&rows, 0);

        if (!f || !row)
            return pl_err_nomem(err);
        json_object_set_new(row, "reason", json_string(pl_col_text(&rows, 3)));
        json_object_set_new(row, "tail", json_string(pl_col_text(&rows, 4)));
        json_object_set_new(row, "exit_code", json_integer(pl_col_int(&rows, 5)));
        json_object_set_new(row, "oom", json_boolean(pl_col_int(&rows, 6)));
        pl_totals_add(&j->totals, row);
        f->attempt = pl_col_int(&rows, 1);
        f->recovered = json_is_true(json_object_get(row, "recovered"));
        f->message = pl_arena_strdup(arena, pl_result_message(row, arena));
        r = f->message ? pl_map_put(ret, datum.b, sizeof datum.b, f, NULL, err) : pl_err_nomem(err);
    }
    return r;
}

int pl_job_load_failures(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_sched_row *ret_first,
                         struct pl_err *err)
{
    struct pl_map failures = {0};
    uint32_t n = 0;
    int r = read_failures(j, c, arena, &failures, err);

    for (uint32_t i = 0; r >= 0 && failures.len && i < j->n_rows; i++) {
        const struct failure *f;
        struct pl_hash id;

        if (j->settled[i])
            continue;
        pl_plan_datum_id(j->plan, j->rows[i], &id);
        f = pl_map_get(&failures, id.b, sizeof id.b);
        if (!f || f->attempt < j->stage->def->datum.tries)
            continue;
        j->settled[i] = 1;
        j->totals.recovered += f->recovered;
        if (!f->recovered && n++ == 0) {
            char *label = pl_arena_alloc(arena, 256);

            if (!label)
                r = pl_err_nomem(err);
            else
                *ret_first = (struct pl_sched_row){.index = i,
                                                   .failed = true,
                                                   .label = pl_plan_datum_text(j->plan, j->rows[i], label, 256),
                                                   .message = f->message};
        }
    }
    j->totals.failed += n;
    pl_map_finish(&failures, NULL);
    return r < 0 ? r : (int)n;
}
