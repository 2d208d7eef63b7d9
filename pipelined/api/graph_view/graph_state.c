/* The state of stages and repos: three queries for all of them, whatever their number. */
#include "pipelined/api/graph_view/graph_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_CHARS "200" /* of a commit's message */

/* The newest commit of a branch. */
struct head {
    bool exists;                /* the repo does */
    char commit[PL_ID_HEX + 1]; /* "" = none */
    json_t *json;               /* as the reply has it; NULL = none */
    json_t *provenance;         /* [{project, repo, branch, commit}…] */
};

/* The job of a stage that counts: one that runs, or else the newest. Jobs of runs that write branches of their own do
 * not count. */
struct stage_job {
    json_t *json;   /* the fields of the job in the reply; NULL = there is none */
    json_t *inputs; /* of a job that was successful, as a head's provenance: what its output was made from */
    bool stands_out, stopped;
};

struct states {
    const struct pl_graph_view *view;
    uint32_t *by_id;        /* stages by their ids */
    struct stage_job *jobs; /* by stage */
    struct head *heads;     /* by ref */
    bool *stale;            /* by stage */
};

static void states_finish(struct states *s)
{
    for (uint32_t i = 0; s->jobs && i < s->view->n_stages; i++) {
        json_decref(s->jobs[i].json);
        json_decref(s->jobs[i].inputs);
    }
    for (uint32_t i = 0; s->heads && i < s->view->n_refs; i++) {
        json_decref(s->heads[i].json);
        json_decref(s->heads[i].provenance);
    }
    free(s->by_id);
    free(s->jobs);
    free(s->heads);
    free(s->stale);
}

static int by_id(const void *x, const void *y, void *stages)
{
    const struct graph_stage *all = stages;
    const int64_t a = all[*(const uint32_t *)x].id, b = all[*(const uint32_t *)y].id;

    return (a > b) - (a < b);
}

static int states_init(struct states *s, const struct pl_graph_view *view, struct pl_err *err)
{
    s->view = view;
    s->by_id = calloc(view->n_stages + 1, sizeof *s->by_id);
    s->jobs = calloc(view->n_stages + 1, sizeof *s->jobs);
    s->heads = calloc(view->n_refs + 1, sizeof *s->heads);
    s->stale = calloc(view->n_stages + 1, sizeof *s->stale);
    if (!s->by_id || !s->jobs || !s->heads || !s->stale)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < view->n_stages; i++)
        s->by_id[i] = i;
    qsort_r(s->by_id, view->n_stages, sizeof *s->by_id, by_id, view->stages);
    return 0;
}

/* Returns the stage with this row id; PL_GRAPH_NONE = it is not in the view. */
static uint32_t stage_of(const struct states *s, int64_t id)
{
    uint32_t low = 0, high = s->view->n_stages;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (s->view->stages[s->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->view->n_stages && s->view->stages[s->by_id[low]].id == id ? s->by_id[low] : PL_GRAPH_NONE;
}

/* ---- jobs ---- */

enum { STAGE, STOPPED, RUN, STATE, REASON, COUNTS, GPUS, CREATED, STARTED, FINISHED, INPUTS };
#define JOB_COLUMNS                                                                                                              \
    "SELECT s.id, p.stopped <> '', j.run, j.state, j.reason, j.counts, json_extract(j.ms, '$.gpus'), j.created_us,"              \
    " j.started_us, j.finished_us, CASE j.state WHEN 'success' THEN j.inputs END"
#define ITS_BRANCH(job) "NOT EXISTS (SELECT 1 FROM run r WHERE r.id = " job ".run AND r.as_branch IS NOT NULL)"
/* Every stage, with its newest job. */
#define NEWEST_JOBS                                                                                                              \
    JOB_COLUMNS " FROM stage s JOIN pipeline p ON p.id = s.pipeline LEFT JOIN job j ON j.id = (SELECT x.id FROM job x"           \
                " WHERE x.project = s.project AND x.stage = s.name AND " ITS_BRANCH("x") " ORDER BY x.id DESC LIMIT 1)"          \
                                                                                         " WHERE s.current = 1"
/* Jobs that run; of several of a stage, the oldest comes last. */
#define RUNNING_JOBS                                                                                                             \
    JOB_COLUMNS " FROM job j JOIN stage s ON s.project = j.project AND s.name = j.stage AND s.current = 1"                       \
                " JOIN pipeline p ON p.id = s.pipeline WHERE j.final = 0 AND j.state IN ('starting', 'running', 'finishing')"    \
                " AND " ITS_BRANCH("j") " ORDER BY j.id DESC"

/* Returns the word for a job's state. */
static const char *word_of(const char *state, const char *reason, int64_t failed)
{
    static const struct {
        const char *state, *word;
    } words[] = {
        {"created", "waiting"}, {"success", "done"}, {"failure", "failed"}, {"killed", "stopped"}, {"unrunnable", "not_run"}};

    if (pl_streq(state, "success") && failed > 0)
        return "partly_failed";
    if (pl_streq(state, "killed") && strncmp(reason, "superseded by ", strlen("superseded by ")) == 0)
        return "superseded";
    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (pl_streq(state, words[i].state))
            return words[i].word;
    return state; /* starting, running, finishing */
}

/* Returns the device of the job: the one that its commands ran on, or else the one that its stage must have; NULL = either
 * is possible. */
static const char *device_of(const struct graph_stage *stage, int64_t gpus, int64_t attempts)
{
    if (gpus > 0)
        return "gpu";
    if (attempts > 0 || stage->gpus == 0)
        return "cpu";
    return stage->gpu_required ? "gpu" : NULL;
}

static json_t *time_json(const struct pl_rows *rows, int column)
{
    return pl_col_int(rows, column) ? json_integer(pl_col_int(rows, column)) : json_null();
}

static int64_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int take_job(struct states *s, const struct pl_rows *rows, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *counts = pl_col_json(rows, COUNTS);
    const uint32_t i = stage_of(s, pl_col_int(rows, STAGE));
    const int64_t failed = number_of(counts, "failed");
    const char *word;
    struct stage_job *job;

    if (i == PL_GRAPH_NONE)
        return 0;
    job = &s->jobs[i];
    job->stopped = pl_col_int(rows, STOPPED) != 0;
    if (!*pl_col_text(rows, RUN))
        return 0;
    word = word_of(pl_col_text(rows, STATE), pl_col_text(rows, REASON), failed);
    json_decref(job->json);
    json_decref(job->inputs);
    job->inputs = pl_col_json(rows, INPUTS);
    job->json =
        json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I}}", "state", word, "reason",
                  pl_col_text(rows, REASON), "run", pl_col_text(rows, RUN), "device",
                  device_of(&s->view->stages[i], pl_col_int(rows, GPUS), number_of(counts, "attempts")), "created_us",
                  time_json(rows, CREATED), "started_us", time_json(rows, STARTED), "finished_us", time_json(rows, FINISHED),
                  "datums", "total", (json_int_t)number_of(counts, "total"), "reused", (json_int_t)number_of(counts, "reused"),
                  "done", (json_int_t)number_of(counts, "done"), "failed", (json_int_t)failed);
    job->stands_out = strstr("starting running finishing failed partly_failed", word) != NULL;
    return counts && job->json ? 0 : pl_err_nomem(err);
}

static int read_jobs(struct states *s, struct pl_conn *c, struct pl_err *err)
{
    static const char *const queries[] = {NEWEST_JOBS, RUNNING_JOBS};
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(queries); i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        r = pl_sql_query(c, err, &rows, queries[i], "");
        while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
            r = take_job(s, &rows, err);
    }
    return r;
}

int graph_state_stands_out(const struct pl_graph_view *view, struct pl_conn *c, bool *keep, struct pl_err *err)
{
    _cleanup_(states_finish) struct states s = {0};
    int r = states_init(&s, view, err);

    r = r < 0 ? r : read_jobs(&s, c, err);
    for (uint32_t i = 0; r == 0 && i < view->n_stages; i++)
        keep[i] = s.jobs[i].stands_out;
    return r;
}

/* ---- heads ---- */

enum { REF, COMMIT, FILES, BYTES, AUTHOR, MESSAGE, AT, PROVENANCE };
#define HEADS                                                                                                                    \
    "SELECT k.key, c.run, c.files, c.bytes, c.author, substr(c.message, 1, " MESSAGE_CHARS "), c.created_us, c.provenance"       \
    " FROM json_each(?1) k CROSS JOIN repo r ON r.project = json_extract(k.value, '$[0]')"                                       \
    " AND r.name = json_extract(k.value, '$[1]') LEFT JOIN branch b ON b.repo = r.id"                                            \
    " AND b.name = json_extract(k.value, '$[2]') LEFT JOIN commit_ c ON c.id = b.head WHERE k.type = 'array'"

/* Makes the list that HEADS looks up: [project, repo, branch] of each ref that the caller sees, at its number. */
static char *wanted_refs(const struct pl_graph_view *view, const struct graph_seen *seen)
{
    _cleanup_(json_decrefp) json_t *list = json_array();

    for (uint32_t i = 0; i < view->n_refs; i++)
        json_array_append_new(list, json_null());
    for (uint32_t v = 0; v < seen->g.n_nodes; v++) {
        const struct graph_ref *ref = &view->refs[seen->ref_of[v]];

        json_array_set_new(list, seen->ref_of[v], json_pack("[sss]", ref->project, ref->repo, ref->branch));
    }
    return json_array_size(list) == view->n_refs ? pl_json_text(list, JSON_COMPACT) : NULL;
}

static int take_head(struct states *s, const struct pl_rows *rows, struct pl_err *err)
{
    struct head *head = &s->heads[pl_col_int(rows, REF)];

    head->exists = true;
    if (!*pl_col_text(rows, COMMIT))
        return 0;
    snprintf(head->commit, sizeof head->commit, "%s", pl_col_text(rows, COMMIT));
    head->provenance = pl_col_json(rows, PROVENANCE);
    head->json = json_pack("{s:s, s:I, s:I, s:s, s:s, s:I}", "id", head->commit, "files", (json_int_t)pl_col_int(rows, FILES),
                           "bytes", (json_int_t)pl_col_int(rows, BYTES), "author", pl_col_text(rows, AUTHOR), "message",
                           pl_col_text(rows, MESSAGE), "created_us", (json_int_t)pl_col_int(rows, AT));
    return head->provenance && head->json ? 0 : pl_err_nomem(err);
}

static int read_heads(struct states *s, struct pl_conn *c, const struct graph_seen *seen, struct pl_err *err)
{
    _cleanup_free_ char *wanted = wanted_refs(s->view, seen);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = wanted ? pl_sql_query(c, err, &rows, HEADS, "s", wanted) : pl_err_nomem(err);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = take_head(s, &rows, err);
    return r;
}

/* ---- stale ---- */

/* Returns whether a branch that `made_from` names has a newer commit now. Branches that the caller does not see do not
 * count. */
static bool is_older(const struct states *s, const json_t *made_from, uint32_t own)
{
    const json_t *source;
    size_t i;

    json_array_foreach(made_from, i, source)
    {
        char name[3 * (PL_NAME_MAX_BYTES + 1)];
        uint32_t ref;

        snprintf(name, sizeof name, "%s/%s@%s", pl_json_str(source, "project"), pl_json_str(source, "repo"),
                 pl_json_str(source, "branch"));
        ref = graph_number_in(&s->view->by_name, name);
        if (ref != PL_GRAPH_NONE && ref != own && s->heads[ref].commit[0] &&
            !pl_streq(s->heads[ref].commit, pl_json_str(source, "commit")))
            return true;
    }
    return false;
}

/* Marks the stages whose output is older than an input, or made from an output that is. */
static void find_stale(struct states *s, const struct graph_seen *seen)
{
    const struct pl_graph_view *v = s->view;

    for (uint32_t i = 0; i < v->n_stages; i++) {
        const uint32_t at = v->order[i];
        const struct graph_stage *stage = &v->stages[at];
        const struct stage_job *job = &s->jobs[at];
        bool stale;

        if (seen->node_of[at] == PL_GRAPH_NONE || !s->heads[stage->ref].commit[0])
            continue;
        stale = is_older(s, json_is_array(job->inputs) ? job->inputs : s->heads[stage->ref].provenance, stage->ref);
        for (uint32_t k = 0; k < stage->n_inputs; k++)
            stale |= stage->inputs[k].stage != PL_GRAPH_NONE && stage->inputs[k].stage != at && s->stale[stage->inputs[k].stage];
        s->stale[at] = stale;
    }
}

/* ---- JSON ---- */

static json_t *stage_json(const struct states *s, uint32_t at)
{
    const struct graph_stage *stage = &s->view->stages[at];
    const struct graph_ref *ref = &s->view->refs[stage->ref];
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:s*}", "key", ref->key, "project", ref->project, "name", ref->repo, "stopped",
                  (int)s->jobs[at].stopped, "stale", (int)s->stale[at], "code", *stage->code ? stage->code : NULL);

    if (s->jobs[at].json)
        json_object_update(o, s->jobs[at].json);
    else
        json_object_set_new(o, "state", json_string("none"));
    if (s->heads[stage->ref].json)
        json_object_set(o, "commit", s->heads[stage->ref].json);
    return o;
}

static json_t *repo_json(const struct states *s, uint32_t at)
{
    const struct graph_ref *ref = &s->view->refs[at];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b}", "key", ref->key, "project", ref->project, "name", ref->repo, "branch",
                          ref->branch, "exists", (int)s->heads[at].exists);

    if (s->heads[at].json)
        json_object_set(o, "commit", s->heads[at].json);
    return o;
}

/* Makes the reply. A repo that is a pill in several bands is there once. */
static int make_reply(const struct states *s, const struct graph_seen *seen, struct pl_arena *arena, json_t **ret,
                      struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = json_array(), *repos = json_array();
    bool *told = pl_arena_alloc(arena, (s->view->n_refs + 1) * sizeof *told);
    char version[GRAPH_VERSION_HEX + 1];
    int r = told && stages && repos ? 0 : pl_err_nomem(err);

    for (uint32_t v = 0; r == 0 && v < seen->g.n_nodes; v++) {
        if (seen->stage_of[v] != PL_GRAPH_NONE) {
            r = pl_json_add(stages, stage_json(s, seen->stage_of[v]), err);
        } else if (!told[seen->ref_of[v]]) {
            told[seen->ref_of[v]] = true;
            r = pl_json_add(repos, repo_json(s, seen->ref_of[v]), err);
        }
    }
    if (r < 0)
        return r;
    graph_version_text(s->view, version);
    *ret = json_pack("{s:s, s:O, s:O}", "version", version, "stages", stages, "repos", repos);
    return *ret ? 0 : pl_err_nomem(err);
}

int pl_graph_state(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask, json_t **ret,
                   struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(states_finish) struct states s = {0};
    struct graph_seen seen;
    int r = arena ? graph_seen_find(view, ask, arena, &seen, err) : pl_err_nomem(err);

    r = r < 0 ? r : states_init(&s, view, err);
    r = r < 0 ? r : read_jobs(&s, c, err);
    r = r < 0 ? r : read_heads(&s, c, &seen, err);
    if (r < 0)
        return r;
    find_stale(&s, &seen);
    return make_reply(&s, &seen, arena, ret, err);
}
