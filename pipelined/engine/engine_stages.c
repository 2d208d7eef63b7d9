/* engine_stages: loads stage versions from the database, and keeps the scheduler's stages and pod shapes up
 * to date. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/system/log_line.h"

#include <inttypes.h>
#include <stdio.h>

#define RESHAPED_AT_ONCE 32 /* number of stages whose pod shapes are computed in one turn of the loop */

struct pl_estage *pl_engine_stage_ref(struct pl_estage *s)
{
    s->refs++;
    return s;
}

void pl_engine_stage_unref(struct pl_estage *s)
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

/* A branch is identified by hashes of its names, not by a row id, so that after a repo is deleted and created
 * again the same stages read it. */
struct pl_sched_head pl_engine_head(const char *project, const char *repo, const char *branch)
{
    return (struct pl_sched_head){pl_xxh64(repo, strlen(repo), pl_xxh64(project, strlen(project), 0)),
                                  pl_xxh64(branch, strlen(branch), 0)};
}

/* Parses the stage's stored JSON as a spec with one stage. All defaults are filled in there; inputs from
 * other stages appear as repos. */
static int parse(struct pl_estage *s, struct pl_err *err)
{
    json_t *stage = json_loads(s->effective, JSON_REJECT_DUPLICATES, NULL);
    json_t *spec = json_pack("{s:s, s:s, s:[o]}", "pipeline", s->pipeline, "project", s->project, "stages", stage);
    _cleanup_free_ char *text = spec ? pl_json_text(spec, JSON_COMPACT) : NULL;
    int r;

    json_decref(spec);
    if (!text)
        return pl_err_set(err, PL_ECORRUPT, "the stored spec of a stage of pipeline %s cannot be parsed", s->pipeline);
    r = pl_spec_parse(text, strlen(text), "stored spec", NULL, &s->spec, NULL, err);
    if (r < 0)
        return r;
    s->def = &s->spec->stages[0];
    return 0;
}

/* Reads the order of the first run that gets a job of the stage: the run of the pipeline version that
 * introduced the stage, or the run after that version, but none from before the last start of a pipeline that was
 * stopped. −1: the pipeline is stopped, and no run does. */
static int read_since(struct pl_conn *c, uint64_t version, int64_t *ret, struct pl_err *err)
{
    int r = pl_sql_int(c, err, ret,
                       "SELECT CASE WHEN p.stopped <> '' THEN -1 ELSE max(coalesce((SELECT r.ord FROM run r WHERE r.id = v.run),"
                       " (SELECT r.ord + 1 FROM run r WHERE r.seq < v.seq ORDER BY r.seq DESC, r.ord DESC LIMIT 1), 0),"
                       " coalesce((SELECT r.ord + 1 FROM run r WHERE r.seq < p.started_seq ORDER BY r.seq DESC, r.ord DESC"
                       " LIMIT 1), 0)) END FROM pipeline_version v, stage s JOIN pipeline p ON p.id = s.pipeline"
                       " WHERE s.id = ? AND v.pipeline = s.pipeline AND v.version ="
                       " (SELECT min(f.version) FROM stage f WHERE f.pipeline = s.pipeline AND f.name = s.name)",
                       "i", (int64_t)version);

    return r == PL_ENOTFOUND ? 0 : r;
}

int pl_engine_stage_load(struct pl_conn *c, uint64_t version, struct pl_estage **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_estage *s;
    int64_t since = 0;
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
    r = read_since(c, version, &since, err);
    if (r < 0)
        return r;
    s = calloc(1, sizeof *s);
    if (!s)
        return pl_err_nomem(err);
    s->refs = 1;
    s->version = version;
    s->since = (uint64_t)since;
    s->stage = (uint64_t)pl_col_int(&rows, 0);
    s->pipeline_id = (uint64_t)pl_col_int(&rows, 1);
    s->pipeline_version = pl_col_int(&rows, 2);
    s->project = strdup(pl_col_text(&rows, 3));
    s->pipeline = strdup(pl_col_text(&rows, 4));
    s->effective = strdup(pl_col_text(&rows, 5));
    s->code_root = pl_col_hash(&rows, 6);
    s->code_identity = pl_col_hash(&rows, 7);
    s->git = pl_col_json(&rows, 8);
    r = s->project && s->pipeline && s->effective && s->git ? parse(s, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_engine_stage_unref(s);
        return r;
    }
    *ret = s;
    return 0;
}

static int add(struct pl_engine *e, struct pl_estage *s, struct pl_err *err)
{
    int r = pl_map_put(&e->stages, &s->version, sizeof s->version, s, NULL, err);

    if (r < 0)
        pl_engine_stage_unref(s);
    return r;
}

int pl_engine_stage(struct pl_engine *e, uint64_t version, struct pl_estage **ret, struct pl_err *err)
{
    struct pl_estage *s = pl_map_get(&e->stages, &version, sizeof version);
    int r;

    if (!s) {
        r = pl_engine_stage_load(e->conn, version, &s, err);
        r = r < 0 ? r : add(e, s, err);
        if (r < 0)
            return r;
    }
    *ret = s;
    return 0;
}

int pl_engine_load_stages(struct pl_engine *e, int64_t after, struct pl_estage ***ret, size_t *ret_n, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(e->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_estage **list = NULL, **grown;
    size_t n = 0, cap = 0;
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT id FROM stage WHERE id > ? AND current = 1 ORDER BY id", "i", after);

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            grown = realloc(list, cap * sizeof(*list));
            if (!grown) {
                r = pl_err_nomem(err);
                break;
            }
            list = grown;
        }
        r = pl_engine_stage_load(rd.conn, (uint64_t)pl_col_int(&rows, 0), &list[n], err);
        n += r >= 0;
    }
    *ret = list;
    *ret_n = n;
    return r;
}

void pl_engine_take_stages(struct pl_engine *e, struct pl_estage **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (pl_map_get(&e->stages, &list[i]->version, sizeof list[i]->version))
            pl_engine_stage_unref(list[i]);
        else if (add(e, list[i], NULL) < 0)
            pl_log_error("engine", "out of memory: a stage is loaded later");
    }
    free(list);
}

int pl_engine_shape(struct pl_engine *e, const struct pl_estage *s, bool gpu, uint64_t *ret, struct pl_err *err)
{
    *ret = 0;
    if (!e->executor->ops->shape)
        return 0;
    return e->executor->ops->shape(e->executor, s->project, s->def, s->version, gpu, ret, err);
}

/* Finds the ids of the pod shapes of the stage. Does nothing if workers are processes. */
static int find_shapes(struct pl_engine *e, const struct pl_estage *s, struct pl_sched_stage *ret, struct pl_err *err)
{
    const bool gpu = s->def->gpu.count > 0;
    int r = pl_engine_shape(e, s, gpu, &ret->shape, err);

    return r < 0 || !gpu || s->def->gpu.required ? r : pl_engine_shape(e, s, false, &ret->cpu_shape, err);
}

struct pl_reshaping {
    size_t n, at;
    uint64_t versions[];
};

static void reshape(struct pl_engine *e, const struct pl_estage *s)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_SHAPES, .stage = {.stage = s->stage, .version = s->version}};
    struct pl_err err = {0};
    int r = find_shapes(e, s, &ev.stage, &err);

    r = r < 0 ? r : pl_engine_feed(e, &ev, &err);
    if (r < 0 && r != PL_ENOTFOUND) /* PL_ENOTFOUND: the version is no longer used */
        pl_log_warn("engine", "cannot update the pod shape of stage %s: %s", s->def->name, err.msg);
}

static void reshape_some(void *arg)
{
    struct pl_engine *e = arg;
    struct pl_reshaping *some = e->reshaping;
    const size_t end = PL_MIN(some->n, some->at + RESHAPED_AT_ONCE);

    for (; some->at < end && !e->failed; some->at++) {
        const struct pl_estage *s = pl_map_get(&e->stages, &some->versions[some->at], sizeof *some->versions);

        if (s)
            reshape(e, s);
    }
    if (some->at < some->n && !e->failed) {
        pl_engine_post(e, "engine.reshape", reshape_some, e);
        return;
    }
    free(TAKE_PTR(e->reshaping));
    if (e->reshape_again && !e->failed)
        pl_engine_reshape(e);
}

void pl_engine_reshape(struct pl_engine *e)
{
    const struct pl_map_slot *slot;
    struct pl_reshaping *some;

    e->reshape_again = e->reshaping != NULL;
    if (e->reshape_again)
        return;
    some = malloc(sizeof *some + e->stages.len * sizeof *some->versions);
    if (!some) {
        pl_engine_fail(e, "no memory to update the shapes of pods");
        return;
    }
    *some = (struct pl_reshaping){0};
    for (size_t i = 0; (slot = pl_map_next(&e->stages, &i));)
        memcpy(&some->versions[some->n++], slot->key, sizeof *some->versions);
    e->reshaping = some;
    pl_engine_post(e, "engine.reshape", reshape_some, e);
}

bool pl_engine_network_off(struct pl_engine *e, const char *project)
{
    struct pl_err err = {0};
    bool off = true;

    if (pl_db_network_off(e->conn, project, &off, &err) < 0)
        pl_log_error("engine", "cannot read the network setting of project %s, so it counts as off: %s", project, err.msg);
    return off;
}

/* Collects the workers' ids first, because retiring a worker may change the map. */
void pl_engine_network_changed(struct pl_engine *e, const char *project)
{
    _cleanup_free_ uint64_t *ids = malloc(PL_MAX(e->workers.len, (size_t)1) * sizeof *ids);
    const struct pl_map_slot *slot;
    struct pl_err err = {0};
    size_t n = 0;

    if (!ids) {
        pl_engine_fail(e, "no memory to apply a project's network setting to its workers");
        return;
    }
    for (size_t i = 0; (slot = pl_map_next(&e->workers, &i));) {
        const struct pl_eworker *w = slot->value;

        if ((!project || pl_streq(w->stage->project, project)) && w->network_off != pl_engine_network_off(e, w->stage->project))
            ids[n++] = w->id;
    }
    for (size_t i = 0; i < n && !e->failed; i++)
        if (pl_engine_feed(e, &(struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_RETIRE, .id = ids[i]}, &err) < 0)
            pl_log_warn("engine", "cannot retire worker %" PRIu64 ": %s", ids[i], err.msg);
    if (project && e->executor->ops->shape && !e->failed)
        pl_engine_reshape(e);
}

/* The GPU slots of this machine that meet the GPU request of a stage. */
struct slots {
    uint16_t items[PL_EXEC_GPUS_MAX];
    char why[PL_SCHED_MESSAGE_MAX];
};

static void choose_slots(struct pl_engine *e, const struct pl_stage *d, struct slots *slots, struct pl_sched_stage *ret)
{
    int n = d->gpu.count && e->executor->ops->choose_gpus
                ? e->executor->ops->choose_gpus(e->executor, &d->gpu, slots->items, slots->why, sizeof slots->why)
                : -1;

    ret->gpu_chosen = n >= 0;
    ret->gpu_slots = slots->items;
    ret->n_gpu_slots = (size_t)PL_MAX(n, 0);
    ret->gpu_text = slots->why;
}

/* Translates the stage's definition into the scheduler's form, with its branches, GPU slots and pod shapes,
 * and gives it to the scheduler. */
int pl_engine_stage_set(struct pl_engine *e, struct pl_estage *s, struct pl_err *err)
{
    const struct pl_stage *d = s->def;
    struct slots slots = {0};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_SET};
    struct pl_sched_head heads[PL_SPEC_LEAVES_MAX];
    const struct pl_input *environment = pl_stage_environment(d);
    size_t n_heads = 0;
    int64_t since = 0;
    int r;

    if (s->since == UINT64_MAX) { /* it was loaded while its pipeline was stopped */
        r = read_since(e->conn, s->version, &since, err);
        if (r < 0)
            return r;
        s->since = (uint64_t)since;
    }
    for (size_t i = 0; i < d->n_leaves; i++)
        if (pl_input_triggers(d->leaves[i]))
            heads[n_heads++] = pl_engine_head(d->leaves[i]->project, d->leaves[i]->repo, d->leaves[i]->branch);
    ev.stage = (struct pl_sched_stage){.stage = s->stage,
                                       .version = s->version,
                                       .since = s->since,
                                       .pipeline = s->pipeline_id,
                                       .priority = d->priority,
                                       .keep_warm_ms = d->keep_warm_ms,
                                       .name = d->name,
                                       .inputs = heads,
                                       .n_inputs = n_heads,
                                       .environment = environment ? pl_engine_head(environment->project, environment->repo,
                                                                                   environment->branch)
                                                                  : (struct pl_sched_head){0},
                                       .output = pl_engine_head(s->project, d->name, d->output.branch),
                                       .workers = d->workers,
                                       .tries = d->datum.tries,
                                       .gpu_count = d->gpu.count,
                                       .gpu_required = d->gpu.required,
                                       .gpu_wait_ms = d->gpu.wait_ms,
                                       .pending_ms = d->placement.pending_ms,
                                       .cpu_milli = (uint32_t)PL_MIN(d->resources.cpu_milli, (int64_t)UINT32_MAX),
                                       .memory_bytes = (uint64_t)d->resources.memory_bytes,
                                       .job_timeout_ms = d->timeout_ms,
                                       .on_new = d->on_new == PL_ON_NEW_QUEUE     ? PL_SCHED_QUEUE
                                                 : d->on_new == PL_ON_NEW_RESTART ? PL_SCHED_RESTART
                                                                                  : PL_SCHED_NEWEST,
                                       .skip_failed = d->on_error == PL_ON_ERROR_SKIP,
                                       .max_failed_given = d->max_failed.given,
                                       .max_failed = d->max_failed.count,
                                       .max_failed_share = d->max_failed.share,
                                       .max_failed_ppm = d->max_failed.ppm};
    choose_slots(e, d, &slots, &ev.stage);
    r = find_shapes(e, s, &ev.stage, err);
    r = r < 0 ? r : pl_engine_feed(e, &ev, err);
    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", d->name);
    return pl_map_put(&e->current, &s->stage, sizeof s->stage, s, NULL, err);
}

/* The current stages in the database, without those of stopped pipelines: the row ids of their versions, ascending, and the set of their stage
 * ids. */
struct current {
    uint64_t *versions;
    size_t n;
    struct pl_map stages;
};

static void current_finish(struct current *c)
{
    free(c->versions);
    pl_map_finish(&c->stages, NULL);
}

/* Reads the current versions and their stages. */
static int read_current(struct pl_engine *e, struct current *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    uint64_t *grown, stage;
    size_t cap = 0;
    int r = pl_sql_query(e->conn, err, &rows,
                         "SELECT s.id, r.id FROM stage s JOIN repo r ON r.project = s.project AND r.name = s.name"
                         " JOIN pipeline p ON p.id = s.pipeline AND p.stopped = '' WHERE s.current = 1 ORDER BY s.id",
                         "");

    while (r >= 0 && (r = pl_sql_next(e->conn, &rows, err)) > 0) {
        if (ret->n == cap) {
            cap = cap ? cap * 2 : 64;
            grown = realloc(ret->versions, cap * sizeof *grown);
            if (!grown)
                return pl_err_nomem(err);
            ret->versions = grown;
        }
        ret->versions[ret->n++] = (uint64_t)pl_col_int(&rows, 0);
        stage = (uint64_t)pl_col_int(&rows, 1);
        r = pl_map_put(&ret->stages, &stage, sizeof stage, ret, NULL, err);
    }
    return r;
}

/* Collects up to 64 keys of the map, of entries whose values satisfy `wanted`. */
static size_t some_keys(const struct pl_map *m, bool (*wanted)(const void *value, const void *arg), const void *arg,
                        uint64_t keys[64])
{
    const struct pl_map_slot *slot;
    size_t n = 0;

    for (size_t i = 0; n < 64 && (slot = pl_map_next(m, &i));)
        if (wanted(slot->value, arg))
            memcpy(&keys[n++], slot->key, sizeof *keys);
    return n;
}

static bool is_gone(const void *value, const void *current)
{
    const struct pl_estage *s = value;

    return !pl_map_get(&((const struct current *)current)->stages, &s->stage, sizeof s->stage);
}

static void sync_again(void *arg)
{
    struct pl_engine *e = arg;
    struct pl_err err = {0};

    if (!e->failed && pl_engine_sync_stages(e, &err) < 0)
        pl_log_error("engine", "cannot update the stages: %s", err.msg);
}

/* Removes from the scheduler the stages that are gone: their pipeline was stopped or deleted, or no longer has them. Each
 * removal may end jobs, so only 64 stages are removed per turn of the loop; with `all`, all are removed at
 * once, because new stages may need the branches that they write. */
static int remove_gone(struct pl_engine *e, const struct current *current, bool all, struct pl_err *err)
{
    uint64_t gone[64];
    size_t n;

    do {
        n = some_keys(&e->current, is_gone, current, gone);
        for (size_t i = 0; i < n; i++) {
            struct pl_sched_event ev = {.kind = PL_SCHED_EV_STAGE_REMOVED, .id = gone[i]};
            int r = pl_engine_feed(e, &ev, err);

            if (r < 0 && r != PL_ENOTFOUND)
                return r;
            pl_map_remove(&e->current, &gone[i], sizeof gone[i]);
        }
    } while (all && n > 0);
    if (n == PL_ARRAY_SIZE(gone))
        pl_engine_post(e, "engine.pipelines", sync_again, e);
    return 0;
}

static bool is_unused(const void *value, const void *engine)
{
    const struct pl_estage *s = value;

    return s->refs == 1 && pl_map_get(&((const struct pl_engine *)engine)->current, &s->stage, sizeof s->stage) != s;
}

/* Frees stage versions that are not used; they are loaded again when needed. */
static void forget_unused(struct pl_engine *e)
{
    uint64_t unused[64];
    size_t n;

    while ((n = some_keys(&e->stages, is_unused, e, unused)) > 0)
        for (size_t i = 0; i < n; i++)
            pl_engine_stage_unref(pl_map_remove(&e->stages, &unused[i], sizeof unused[i]));
}

/* Gives the scheduler each version that it does not have; returns 1 if it accepted any. A version is held
 * back while an earlier version of its stage is refused. */
static int set_round(struct pl_engine *e, const uint64_t *versions, size_t n, bool *done, bool last, struct pl_err *err)
{
    struct pl_map refused = {0};
    struct pl_estage *s;
    int r = 0, some = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        if (done[i])
            continue;
        r = pl_engine_stage(e, versions[i], &s, err);
        /* the version's pipeline was deleted a moment ago; the next notification reports that */
        if (r == PL_ENOTFOUND) {
            done[i] = true;
            r = 0;
            continue;
        }
        if (r >= 0 && pl_map_get(&refused, &s->stage, sizeof s->stage))
            continue;
        if (r >= 0 && pl_map_get(&e->current, &s->stage, sizeof s->stage) != s)
            r = pl_engine_stage_set(e, s, err);
        if (r >= 0) {
            done[i] = true;
            some = 1;
        } else if (r == PL_ENOMEM) {
            break;
        } else if (last) { /* in the last round, a refused version is logged, and only its stage does not run */
            pl_log_error("engine", "%s", err->msg);
            r = 0;
        } else {
            r = r == PL_EINVAL ? pl_map_put(&refused, &s->stage, sizeof s->stage, s, NULL, err) : 0;
        }
    }
    pl_map_finish(&refused, NULL);
    return r < 0 ? r : some;
}

int pl_engine_set_versions(struct pl_engine *e, const uint64_t *versions, size_t n, struct pl_err *err)
{
    _cleanup_free_ bool *done = calloc(n + 1, sizeof *done);
    int r = done ? 1 : pl_err_nomem(err);

    /* several rounds are needed: an update that reverses an edge between two stages forms a cycle until both
     * stages have been set */
    while (r > 0)
        r = set_round(e, versions, n, done, false, err);
    r = r < 0 ? r : set_round(e, versions, n, done, true, err);
    return PL_MIN(r, 0);
}

int pl_engine_sync_stages(struct pl_engine *e, struct pl_err *err)
{
    _cleanup_(current_finish) struct current current = {0};
    int64_t made = 0;
    /* read the number before the stages: stages that are made in the meantime then lead to another pass */
    int r = pl_engine_stages_made(e, &made, err);

    r = r < 0 ? r : read_current(e, &current, err);
    r = r < 0 || e->restoring ? r : remove_gone(e, &current, made != e->stages_made, err);
    r = r < 0 ? r : pl_engine_set_versions(e, current.versions, current.n, err);
    if (r < 0)
        return r;
    e->stages_made = made;
    forget_unused(e);
    return 0;
}

int pl_engine_stages_made(struct pl_engine *e, int64_t *ret, struct pl_err *err)
{
    return pl_sql_int(e->conn, err, ret, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'stage'), 0)", "");
}
