/* Stages: from rows of the database to what plans, workers and the scheduler use. */
#include "engine_internal.h"

#include "storage/base/log.h"

#include <inttypes.h>
#include <stdio.h>

struct pl_estage *pl_estage_ref(struct pl_estage *s)
{
    s->refs++;
    return s;
}

void pl_estage_unref(struct pl_estage *s)
{
    if (!s || --s->refs)
        return;
    pl_spec_destroy(s->spec);
    json_decref(s->git);
    free(s->project);
    free(s->pipeline);
    free(s->effective);
    free(s);
}

struct pl_sched_head pl_engine_head(int64_t repo, const char *branch)
{
    return (struct pl_sched_head){(uint64_t)repo, pl_xxh64(branch, strlen(branch), 0)};
}

/* The stage alone as a spec: its JSON has every default filled in and reads as itself. Inputs from other stages are repos then. */
static int parse(struct pl_estage *s, struct pl_err *err)
{
    json_t *stage = json_loads(s->effective, JSON_REJECT_DUPLICATES, NULL);
    json_t *spec = json_pack("{s:s, s:s, s:[o]}", "pipeline", s->pipeline, "project", s->project, "stages", stage);
    _cleanup_free_ char *text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
    int r;

    json_decref(spec);
    if (!text)
        return pl_err_set(err, PL_ECORRUPT, "the stored spec of a stage of pipeline %s does not parse", s->pipeline);
    r = pl_spec_parse(text, strlen(text), "stored spec", NULL, &s->spec, NULL, err);
    if (r < 0)
        return r;
    s->def = &s->spec->stages[0];
    return 0;
}

static int load(struct pl_conn *c, uint64_t version, struct pl_estage **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_estage *s;
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT r.id, s.pipeline, s.version, s.project, p.name, s.spec, s.code_root, s.code_identity, s.git FROM stage s"
        " JOIN pipeline p ON p.id = s.pipeline JOIN repo r ON r.project = s.project AND r.name = s.name WHERE s.id = ?",
        "i", (int64_t)version);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "stage version %" PRIu64 " is gone: its pipeline was deleted", version);
    s = calloc(1, sizeof *s);
    if (!s)
        return pl_err_nomem(err);
    s->refs = 1;
    s->version = version;
    s->stage = (uint64_t)pl_col_int(&rows, 0);
    s->pipeline_id = (uint64_t)pl_col_int(&rows, 1);
    s->pipeline_version = pl_col_int(&rows, 2);
    s->project = strdup(pl_col_text(&rows, 3));
    s->pipeline = strdup(pl_col_text(&rows, 4));
    s->effective = strdup(pl_col_text(&rows, 5));
    s->code_root = pl_col_hash(&rows, 6);
    s->code_identity = pl_col_hash(&rows, 7);
    s->git = pl_col_json(&rows, 8);
    r = s->project && s->pipeline && s->effective ? parse(s, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_estage_unref(s);
        return r;
    }
    *ret = s;
    return 0;
}

int pl_engine_stage(struct pl_engine *e, uint64_t version, struct pl_estage **ret, struct pl_err *err)
{
    struct pl_estage *s = pl_map_get(&e->stages, &version, sizeof version);
    int r;

    if (!s) {
        const struct pl_db_reading rd = {NULL, e->conn};

        r = load(rd.conn, version, &s, err);
        if (r < 0)
            return r;
        r = pl_map_put(&e->stages, &version, sizeof version, s, NULL, err);
        if (r < 0) {
            pl_estage_unref(s);
            return r;
        }
    }
    *ret = s;
    return 0;
}

static int find_inputs(struct pl_engine *e, const struct pl_estage *s, struct pl_sched_head *heads, struct pl_err *err)
{
    const struct pl_db_reading rd = {NULL, e->conn};
    struct pl_repo_row repo;

    for (size_t i = 0; i < s->def->n_leaves; i++) {
        const struct pl_input *leaf = s->def->leaves[i];
        int r = pl_db_repo_find(rd.conn, leaf->project, leaf->repo, &repo, err);

        if (r < 0)
            return pl_err_wrap(err, r, "input %s", leaf->name);
        heads[i] = pl_engine_head(repo.id, leaf->branch);
    }
    return 0;
}

int pl_engine_stage_set(struct pl_engine *e, struct pl_estage *s, struct pl_err *err)
{
    const struct pl_stage *d = s->def;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_SET};
    struct pl_sched_head heads[PL_SPEC_LEAVES_MAX];
    int r = find_inputs(e, s, heads, err);

    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", d->name);
    ev.stage = (struct pl_sched_stage){.stage = s->stage,
                                       .version = s->version,
                                       .pipeline = s->pipeline_id,
                                       .name = d->name,
                                       .inputs = heads,
                                       .n_inputs = d->n_leaves,
                                       .output = pl_engine_head((int64_t)s->stage, d->output.branch),
                                       .workers = d->workers,
                                       .tries = d->datum.tries,
                                       .gpu_count = d->gpu.count,
                                       .gpu_required = d->gpu.required,
                                       .gpu_wait_ms = d->gpu.wait_ms,
                                       .cpu_milli = (uint32_t)PL_MIN(d->resources.cpu_milli, (int64_t)UINT32_MAX),
                                       .memory_bytes = (uint64_t)d->resources.memory_bytes,
                                       .job_timeout_ms = d->timeout_ms,
                                       .on_new = d->on_new == PL_ON_NEW_QUEUE ? PL_SCHED_QUEUE : PL_SCHED_NEWEST};
    r = pl_engine_feed(e, &ev, err);
    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", d->name);
    return pl_map_put(&e->current, &s->stage, sizeof s->stage, s, NULL, err);
}

static bool is_current(struct pl_conn *c, const struct pl_estage *s)
{
    int64_t one;

    return pl_sql_int(
               c, NULL, &one,
               "SELECT 1 FROM stage s JOIN repo r ON r.project = s.project AND r.name = s.name WHERE s.current = 1 AND r.id = ?"
               " AND s.project = ? AND s.name = ?",
               "iss", (int64_t)s->stage, s->project, s->def->name) == 0;
}

/* Stages whose pipeline was deleted or no longer has them (one with a newer version stays: it is set anew). */
static int remove_gone(struct pl_engine *e, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    uint64_t gone[64];
    size_t n, i;

    do {
        n = 0;
        {
            const struct pl_db_reading rd = {NULL, e->conn};

            for (i = 0; n < PL_ARRAY_SIZE(gone) && (slot = pl_map_next(&e->current, &i));) {
                const struct pl_estage *s = slot->value;

                if (!is_current(rd.conn, s))
                    gone[n++] = s->stage;
            }
        }
        for (i = 0; i < n; i++) {
            struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_REMOVED, .id = gone[i]};
            int r = pl_engine_feed(e, &ev, err);

            if (r < 0 && r != PL_ENOTFOUND)
                return r;
            pl_map_remove(&e->current, &gone[i], sizeof gone[i]);
        }
    } while (n == PL_ARRAY_SIZE(gone));
    return 0;
}

static int read_current(struct pl_engine *e, uint64_t **ret, size_t *ret_n, struct pl_err *err)
{
    const struct pl_db_reading rd = {NULL, e->conn};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    uint64_t *list = NULL, *grown;
    size_t n = 0, cap = 0;
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT id FROM stage WHERE current = 1 ORDER BY id", "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            grown = realloc(list, cap * sizeof *list);
            if (!grown) {
                r = pl_err_nomem(err);
                break;
            }
            list = grown;
        }
        list[n++] = (uint64_t)pl_col_int(&rows, 0);
    }
    if (r < 0) {
        free(list);
        return r;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

int pl_engine_sync_stages(struct pl_engine *e, struct pl_err *err)
{
    _cleanup_free_ uint64_t *versions = NULL;
    struct pl_estage *s, *had;
    size_t n = 0;
    int r = remove_gone(e, err);

    r = r < 0 ? r : read_current(e, &versions, &n, err);
    for (size_t i = 0; r >= 0 && i < n; i++) {
        r = pl_engine_stage(e, versions[i], &s, err);
        if (r < 0)
            break;
        had = pl_map_get(&e->current, &s->stage, sizeof s->stage);
        if (had != s)
            r = pl_engine_stage_set(e, s, err);
    }
    return r < 0 ? r : 0;
}
