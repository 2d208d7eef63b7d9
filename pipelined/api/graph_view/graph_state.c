/* graph_state: reads the state of stages and repos: three queries for all of them, whatever their number. The reply is written as text
 * while the rows are read: building JSON values would take several times as long as the queries. */
#include "pipelined/api/graph_view/graph_states.h"

#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_CHARS "200" /* of a commit's message */

static int by_id(const void *x, const void *y, void *stages)
{
    const struct graph_stage *all = stages;
    const int64_t a = all[*(const uint32_t *)x].id, b = all[*(const uint32_t *)y].id;

    return (a > b) - (a < b);
}

static int states_init(struct graph_states *s, const struct pl_graph_view *view, struct pl_arena *arena, struct pl_err *err)
{
    *s = (struct graph_states){.view = view,
                               .arena = arena,
                               .by_id = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *s->by_id),
                               .jobs = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *s->jobs),
                               .heads = pl_arena_alloc(arena, (view->n_refs + 1) * sizeof *s->heads),
                               .fresh = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *s->fresh)};
    if (!s->by_id || !s->jobs || !s->heads || !s->fresh)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < view->n_stages; i++) {
        s->by_id[i] = i;
        s->jobs[i].left = -1; /* a stage that was updated since the view was read gets no row */
    }
    qsort_r(s->by_id, view->n_stages, sizeof *s->by_id, by_id, view->stages);
    return 0;
}

/* Returns the stage with this row id; PL_GRAPH_NONE = it is not in the view. */
static uint32_t stage_of(const struct graph_states *s, int64_t id)
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

/* ---- text ---- */

/* Appends a text as a JSON string. */
static int add_string(struct pl_buf *out, const char *text, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *value = NULL;
    _cleanup_free_ char *quoted = NULL;
    const char *c = text;

    while (*c >= ' ' && *c < 0x7f && *c != '"' && *c != '\\')
        c++;
    if (!*c)
        return pl_buf_addf(out, err, "\"%s\"", text);
    value = json_string(text);
    quoted = value ? pl_json_text(value, JSON_ENCODE_ANY) : NULL;
    return quoted ? pl_buf_add(out, quoted, strlen(quoted), err) : pl_err_nomem(err);
}

static int add_number(struct pl_buf *out, const char *key, int64_t n, struct pl_err *err)
{
    return pl_buf_addf(out, err, "%s%" PRId64, key, n);
}

/* Appends a time, null for 0. */
static int add_time(struct pl_buf *out, const char *key, int64_t us, struct pl_err *err)
{
    return us ? add_number(out, key, us, err) : pl_buf_addf(out, err, "%snull", key);
}

static int add_field(struct pl_buf *out, const char *key, const char *text, struct pl_err *err)
{
    int r = pl_buf_add(out, key, strlen(key), err);

    return r < 0 ? r : add_string(out, text, err);
}

/* Copies a text that was written into the arena. */
static int keep_text(struct graph_states *s, const struct pl_buf *text, const char **ret, struct pl_err *err)
{
    *ret = pl_arena_strndup(s->arena, (const char *)text->data, text->len);
    return *ret ? 0 : pl_err_nomem(err);
}

/* ---- heads ---- */

/* Columns of a head, after those of what it belongs to. */
enum { COMMIT, FILES, BYTES, AUTHOR, MESSAGE, AT, PROVENANCE, ROOT };
#define HEAD_COLUMNS                                                                                                             \
    "c.run, c.files, c.bytes, c.author, substr(c.message, 1, " MESSAGE_CHARS "), c.created_us, c.provenance, lower(hex(c.root))"

/* Takes the head that begins at this column. */
static int take_head(struct graph_states *s, struct graph_head *head, const struct pl_rows *rows, int from, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    int r;

    if (!*pl_col_text(rows, from + COMMIT))
        return 0;
    snprintf(head->commit, sizeof head->commit, "%s", pl_col_text(rows, from + COMMIT));
    snprintf(head->root, sizeof head->root, "%s", pl_col_text(rows, from + ROOT));
    head->provenance = pl_arena_strdup(s->arena, pl_col_text(rows, from + PROVENANCE));
    r = head->provenance ? add_field(&text, "{\"id\":", head->commit, err) : pl_err_nomem(err);
    r = r < 0 ? r : add_number(&text, ",\"files\":", pl_col_int(rows, from + FILES), err);
    r = r < 0 ? r : add_number(&text, ",\"bytes\":", pl_col_int(rows, from + BYTES), err);
    r = r < 0 ? r : add_field(&text, ",\"author\":", pl_col_text(rows, from + AUTHOR), err);
    r = r < 0 ? r : add_field(&text, ",\"message\":", pl_col_text(rows, from + MESSAGE), err);
    r = r < 0 ? r : add_number(&text, ",\"created_us\":", pl_col_int(rows, from + AT), err);
    r = r < 0 ? r : pl_buf_add(&text, "}", 1, err);
    return r < 0 ? r : keep_text(s, &text, &head->json, err);
}

#define PILL_HEADS                                                                                                               \
    "SELECT k.key, " HEAD_COLUMNS " FROM json_each(?1) k CROSS JOIN repo r ON r.project = json_extract(k.value, '$[0]')"         \
    " AND r.name = json_extract(k.value, '$[1]') LEFT JOIN branch b ON b.repo = r.id"                                            \
    " AND b.name = json_extract(k.value, '$[2]') LEFT JOIN commit_ c ON c.id = b.head WHERE k.type = 'array'"

/* Makes the list that PILL_HEADS looks up: [project, repo, branch] of each pill that the caller sees, at its number. */
static char *wanted_refs(const struct pl_graph_view *view, const struct graph_seen *seen)
{
    _cleanup_(json_decrefp) json_t *list = json_array();

    for (uint32_t i = 0; i < view->n_refs; i++)
        if (json_array_append_new(list, json_null()) < 0)
            return NULL;
    for (uint32_t v = 0; v < seen->g.n_nodes; v++) {
        const struct graph_ref *ref = &view->refs[seen->ref_of[v]];

        if (seen->stage_of[v] == PL_GRAPH_NONE &&
            json_array_set_new(list, seen->ref_of[v], json_pack("[sss]", ref->project, ref->repo, ref->branch)) < 0)
            return NULL;
    }
    return pl_json_text(list, JSON_COMPACT);
}

/* Reads the heads of pills; those of stages come with their jobs. */
static int read_pills(struct graph_states *s, struct pl_conn *c, const struct graph_seen *seen, struct pl_err *err)
{
    _cleanup_free_ char *wanted = wanted_refs(s->view, seen);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = wanted ? pl_sql_query(c, err, &rows, PILL_HEADS, "s", wanted) : pl_err_nomem(err);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct graph_head *head = &s->heads[pl_col_int(&rows, 0)];

        head->exists = true;
        r = take_head(s, head, &rows, 1, err);
    }
    return r;
}

/* ---- jobs ---- */

enum { STAGE, STOPPED, RUN, STATE, REASON, TOTAL, REUSED, DONE, FAILED, ATTEMPTS, GPUS, CREATED, STARTED, FINISHED, HEAD };
/* Columns after those of the head: what is needed to say whether it is out of date. */
enum {
    MADE_DATUMS = HEAD + ROOT + 1,
    MADE_FAILED,
    MADE_VERSION,
    SAME_CODE,
    MADE_SPEC,
    SPEC,
    AS_NOW,
    OVER,
    LEFT,
    INPUTS,
    ENVIRONMENT
};
#define JOB_COLUMNS                                                                                                              \
    "SELECT s.id, p.stopped <> '', j.run, j.state, j.reason, json_extract(j.counts, '$.total'),"                                 \
    " json_extract(j.counts, '$.reused'), json_extract(j.counts, '$.done'), json_extract(j.counts, '$.failed'),"                 \
    " json_extract(j.counts, '$.attempts'), json_extract(j.ms, '$.gpus'), j.created_us, j.started_us, j.finished_us"
#define ITS_BRANCH(job) "NOT EXISTS (SELECT 1 FROM run r WHERE r.id = " job ".run AND r.as_branch IS NOT NULL)"
/* The same code: both identities are known, and equal. */
#define SAME_IDENTITY "(c.code IS NULL OR c.code = s.code_identity)"
#define SAME_STAGE    "(" SAME_IDENTITY " AND (ms.id IS NULL OR ms.spec = s.spec))"
/* A job that failed or was stopped over what its stage is now: the datums that it did not finish. What it did is kept for the
 * next one (`kept`). */
#define LEFT_BY_JOB                                                                                                              \
    "iif(j.final = 1 AND j.planned = 1 AND j.state IN ('failure', 'killed'), json_extract(j.counts, '$.total')"                  \
    " - json_extract(j.counts, '$.reused') - iif(j.kept = 1, json_extract(j.counts, '$.done'), 0), -1)"
/* m: the job that made the head, of the stage version ms; js: the stage version of the newest job j. The specs are there only if
 * something differs. */
#define MADE_COLUMNS                                                                                                             \
    "coalesce(json_extract(m.counts, '$.total'), -1), coalesce(json_extract(m.counts, '$.failed'), 0), coalesce(ms.version, 0)," \
    " " SAME_IDENTITY ", iif(" SAME_STAGE ", '', coalesce(ms.spec, s.spec)), iif(" SAME_STAGE ", '', s.spec),"                   \
    " coalesce(js.id = s.id OR js.spec = s.spec AND js.code_identity = s.code_identity, 0), coalesce(j.final, 1),"               \
    " coalesce(" LEFT_BY_JOB ", -1), iif(" LEFT_BY_JOB " >= 0, j.inputs, ''),"                                                   \
    " iif(instr(m.inputs, '\"environment\"') > 0, (SELECT json_extract(e.value, '$.project') || '/' ||"                          \
    " json_extract(e.value, '$.repo') || '@' || json_extract(e.value, '$.branch') || ' ' || json_extract(e.value, '$.root')"     \
    " FROM json_each(m.inputs) e"                                                                                                \
    " WHERE json_extract(e.value, '$.environment') = 1), '')"
/* Every stage, with its newest job and the head of what it writes. */
#define NEWEST_JOBS                                                                                                              \
    JOB_COLUMNS ", " HEAD_COLUMNS ", " MADE_COLUMNS                                                                              \
                " FROM stage s JOIN pipeline p ON p.id = s.pipeline LEFT JOIN job j ON j.id ="                                   \
                " (SELECT x.id FROM job x WHERE x.project = s.project AND x.stage = s.name AND " ITS_BRANCH(                     \
                    "x") " ORDER BY x.id DESC LIMIT 1) LEFT JOIN repo o ON o.project = s.project AND o.name = s.name"            \
                         " LEFT JOIN branch b ON b.repo = o.id AND b.name = s.branch LEFT JOIN commit_ c ON c.id = b.head"       \
                         " LEFT JOIN job m ON m.run = c.run AND m.project = s.project AND m.stage = s.name"                      \
                         " LEFT JOIN stage ms ON ms.id = m.version LEFT JOIN stage js ON js.id = j.version"                      \
                         " WHERE s.current = 1"
/* Jobs that run; of several of a stage, the oldest comes last. */
#define RUNNING_JOBS                                                                                                             \
    JOB_COLUMNS " FROM job j JOIN stage s ON s.project = j.project AND s.name = j.stage AND s.current = 1"                       \
                " JOIN pipeline p ON p.id = s.pipeline WHERE j.final = 0 AND j.state IN ('starting', 'running', 'finishing')"    \
                " AND " ITS_BRANCH("j") " ORDER BY j.id DESC"

/* Returns the word for a job's state. A job that is ready to start and has no GPU or room yet waits, as its reason says. */
static const char *word_of(const char *state, const char *reason, int64_t failed)
{
    static const struct {
        const char *state, *word;
    } words[] = {
        {"created", "waiting"}, {"success", "done"}, {"failure", "failed"}, {"killed", "stopped"}, {"unrunnable", "not_run"}};

    if (pl_streq(state, "success") && failed > 0)
        return "partly_failed";
    if (pl_streq(state, "starting") && strncmp(reason, "waiting ", strlen("waiting ")) == 0)
        return "waiting";
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

/* Writes the fields of the row's job. */
static int write_job(struct pl_buf *out, const struct pl_rows *rows, const char *word, const char *device, struct pl_err *err)
{
    static const char *const counts[] = {",\"datums\":{\"total\":", ",\"reused\":", ",\"done\":", ",\"failed\":"};
    static const char *const times[] = {"},\"created_us\":", ",\"started_us\":", ",\"finished_us\":"};
    int r = add_field(out, "\"state\":", word, err);

    r = r < 0 ? r : add_field(out, ",\"reason\":", pl_col_text(rows, REASON), err);
    r = r < 0 ? r : add_field(out, ",\"run\":", pl_col_text(rows, RUN), err);
    if (r == 0 && device)
        r = add_field(out, ",\"device\":", device, err);
    for (int i = 0; r == 0 && i < (int)PL_ARRAY_SIZE(counts); i++)
        r = add_number(out, counts[i], pl_col_int(rows, TOTAL + i), err);
    for (int i = 0; r == 0 && i < (int)PL_ARRAY_SIZE(times); i++)
        r = add_time(out, times[i], pl_col_int(rows, CREATED + i), err);
    return r;
}

/* Says how the stage that made the head differs from the stage as it is. */
static int change_of(const struct pl_rows *rows, enum pl_output_change *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *before = NULL, *after = NULL;

    *ret = PL_OUTPUT_SAME;
    if (!*pl_col_text(rows, SPEC))
        return 0;
    before = pl_col_json(rows, MADE_SPEC);
    after = pl_col_json(rows, SPEC);
    if (!before || !after)
        return pl_err_nomem(err);
    *ret = pl_stage_output_change(before, after, !pl_col_int(rows, SAME_CODE));
    return 0;
}

/* Takes what says whether the head is out of date, from a row of NEWEST_JOBS. */
static int take_made(struct graph_states *s, struct graph_job *job, const struct pl_rows *rows, struct pl_err *err)
{
    const bool as_now = pl_col_int(rows, AS_NOW) != 0;
    int r = change_of(rows, &job->change, err);

    job->tried = *pl_col_text(rows, RUN) != '\0';
    job->datums = pl_col_int(rows, MADE_DATUMS);
    job->skipped = pl_col_int(rows, MADE_FAILED);
    job->version = pl_col_int(rows, MADE_VERSION);
    job->left = as_now ? pl_col_int(rows, LEFT) : -1;
    job->environment = pl_arena_strdup(s->arena, pl_col_text(rows, ENVIRONMENT));
    r = r < 0 || job->environment ? r : pl_err_nomem(err);
    if (r == 0 && job->left >= 0) {
        job->inputs = pl_arena_strdup(s->arena, pl_col_text(rows, INPUTS));
        r = job->inputs ? 0 : pl_err_nomem(err);
    }
    if (as_now && !pl_col_int(rows, OVER))
        snprintf(job->updates, sizeof job->updates, "%s", pl_col_text(rows, RUN));
    return r;
}

static int take_job(struct graph_states *s, const struct pl_rows *rows, bool with_head, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const uint32_t i = stage_of(s, pl_col_int(rows, STAGE));
    struct graph_job *job;
    const char *word;
    int r = 0;

    if (i == PL_GRAPH_NONE)
        return 0;
    job = &s->jobs[i];
    job->stopped = pl_col_int(rows, STOPPED) != 0;
    if (with_head)
        r = take_head(s, &s->heads[s->view->stages[i].ref], rows, HEAD, err);
    r = r < 0 || !with_head ? r : take_made(s, job, rows, err);
    if (r < 0 || !*pl_col_text(rows, RUN))
        return r;
    word = word_of(pl_col_text(rows, STATE), pl_col_text(rows, REASON), pl_col_int(rows, FAILED));
    job->stands_out = strstr("starting running finishing failed partly_failed", word) != NULL;
    r = write_job(&text, rows, word, device_of(&s->view->stages[i], pl_col_int(rows, GPUS), pl_col_int(rows, ATTEMPTS)), err);
    return r < 0 ? r : keep_text(s, &text, &job->json, err);
}

static int read_jobs(struct graph_states *s, struct pl_conn *c, struct pl_err *err)
{
    static const char *const queries[] = {NEWEST_JOBS, RUNNING_JOBS};
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(queries); i++) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        r = pl_sql_query(c, err, &rows, queries[i], "");
        while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
            r = take_job(s, &rows, i == 0, err);
    }
    return r;
}

int pl_graph_state_stands_out(const struct pl_graph_view *view, struct pl_conn *c, bool *keep, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct graph_states s;
    int r = arena ? states_init(&s, view, arena, err) : pl_err_nomem(err);

    r = r < 0 ? r : read_jobs(&s, c, err);
    for (uint32_t i = 0; r == 0 && i < view->n_stages; i++)
        keep[i] = s.jobs[i].stands_out;
    return r;
}

/* ---- heads that the caller sees ---- */

/* Forgets the heads of stages that the caller does not see, and marks the branches of which the caller sees nothing; those that are
 * pills are read then. */
static void hide_heads(struct graph_states *s, const struct graph_seen *seen)
{
    for (uint32_t i = 0; i < s->view->n_stages; i++)
        if (seen->node_of[i] == PL_GRAPH_NONE)
            s->heads[s->view->stages[i].ref] = (struct graph_head){.exists = false};
    for (uint32_t i = 0; i < s->view->n_refs; i++)
        s->heads[i].hidden = true;
    for (uint32_t v = 0; v < seen->g.n_nodes; v++)
        s->heads[seen->ref_of[v]].hidden = false;
}

/* ---- the reply ---- */

/* True if the stage has an output, and that is out of date. */
static bool is_shown_stale(const struct graph_states *s, uint32_t at)
{
    return pl_freshness_is_stale(&s->fresh[at].is) && *s->heads[s->view->stages[at].ref].commit;
}

static int add_stage(struct pl_buf *out, const struct graph_states *s, uint32_t at, struct pl_err *err)
{
    const struct graph_stage *stage = &s->view->stages[at];
    const struct graph_ref *ref = &s->view->refs[stage->ref];
    const struct graph_job *job = &s->jobs[at];
    int r = pl_buf_addf(out, err, "{\"key\":\"%s\",\"project\":\"%s\",\"name\":\"%s\",\"stopped\":%s,\"stale\":%s,", ref->key,
                        ref->project, ref->repo, job->stopped ? "true" : "false", is_shown_stale(s, at) ? "true" : "false");

    r = r < 0 ? r : pl_buf_addf(out, err, "%s", job->json ? job->json : "\"state\":\"none\"");
    if (r == 0 && *stage->code)
        r = add_field(out, ",\"code\":", stage->code, err);
    if (r == 0 && s->heads[stage->ref].json)
        r = pl_buf_addf(out, err, ",\"commit\":%s", s->heads[stage->ref].json);
    return r < 0 ? r : pl_buf_add(out, "}", 1, err);
}

static int add_repo(struct pl_buf *out, const struct graph_states *s, uint32_t at, struct pl_err *err)
{
    const struct graph_ref *ref = &s->view->refs[at];
    int r = pl_buf_addf(out, err, "{\"key\":\"%s\",\"project\":\"%s\",\"name\":\"%s\",\"branch\":\"%s\",\"exists\":%s", ref->key,
                        ref->project, ref->repo, ref->branch, s->heads[at].exists ? "true" : "false");

    if (r == 0 && s->heads[at].json)
        r = pl_buf_addf(out, err, ",\"commit\":%s", s->heads[at].json);
    return r < 0 ? r : pl_buf_add(out, "}", 1, err);
}

/* Writes the reply. A repo that is a pill in several bands is there once. Names of repos and branches need no escapes. */
static int write_reply(const struct graph_states *s, const struct graph_seen *seen, struct pl_buf *out, struct pl_err *err)
{
    bool *told = pl_arena_alloc(s->arena, (s->view->n_refs + 1) * sizeof *told);
    char version[GRAPH_VERSION_HEX + 1];
    const char *sep = "";
    int r;

    pl_graph_version_text(s->view, version);
    r = told ? pl_buf_addf(out, err, "{\"version\":\"%s\",\"stages\":[", version) : pl_err_nomem(err);
    for (uint32_t v = 0; r == 0 && v < seen->g.n_nodes; v++) {
        if (seen->stage_of[v] == PL_GRAPH_NONE)
            continue;
        r = pl_buf_add(out, sep, strlen(sep), err);
        r = r < 0 ? r : add_stage(out, s, seen->stage_of[v], err);
        sep = ",";
    }
    sep = "],\"repos\":[";
    for (uint32_t v = 0; r == 0 && v < seen->g.n_nodes; v++) {
        if (seen->stage_of[v] != PL_GRAPH_NONE || told[seen->ref_of[v]])
            continue;
        told[seen->ref_of[v]] = true;
        r = pl_buf_add(out, sep, strlen(sep), err);
        r = r < 0 ? r : add_repo(out, s, seen->ref_of[v], err);
        sep = ",";
    }
    return r < 0 ? r : pl_buf_addf(out, err, "%s]}", *sep == ']' ? sep : "");
}

int pl_graph_state(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask, struct pl_buf *ret,
                   struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct graph_seen seen;
    struct graph_states s;
    int r = arena ? pl_graph_seen_find(view, ask, PL_GRAPH_NONE, arena, &seen, err) : pl_err_nomem(err);

    r = r < 0 ? r : states_init(&s, view, arena, err);
    r = r < 0 ? r : read_jobs(&s, c, err);
    if (r < 0)
        return r;
    hide_heads(&s, &seen);
    r = read_pills(&s, c, &seen, err);
    r = r < 0 ? r : pl_graph_freshness_find(&s, &seen, err);
    return r < 0 ? r : write_reply(&s, &seen, ret, err);
}

static int tell_uses(const struct graph_states *s, uint32_t at, const struct pl_graph_freshness *fresh,
                     int (*fn)(void *self, const struct pl_graph_use *use, struct pl_err *err), void *self, struct pl_err *err)
{
    const struct graph_stage *stage = &s->view->stages[at];
    const struct graph_ref *out = &s->view->refs[stage->ref];
    struct pl_graph_use use = {.project = out->project,
                               .stage = out->repo,
                               .pipeline = s->view->pipelines[stage->pipeline].name,
                               .stopped = s->jobs[at].stopped,
                               .stale = is_shown_stale(s, at),
                               .fresh = fresh};
    int r = fn(self, &use, err);

    for (uint32_t k = 0; r == 0 && k < stage->n_inputs; k++) {
        const struct graph_ref *in = &s->view->refs[stage->inputs[k].ref];

        use.from_project = in->project;
        use.from_repo = in->repo;
        use.from_stage = stage->inputs[k].stage != PL_GRAPH_NONE;
        r = fn(self, &use, err);
    }
    return r;
}

static bool wants_words(const struct pl_graph_view *view, uint32_t at, const struct pl_graph_ask *ask, const void *self)
{
    const struct graph_stage *stage = &view->stages[at];
    const struct graph_ref *out = &view->refs[stage->ref];

    return !ask->words || ask->words(self, out->project, view->pipelines[stage->pipeline].name, out->repo);
}

int pl_graph_uses(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask,
                  int (*fn)(void *self, const struct pl_graph_use *use, struct pl_err *err), void *self, struct pl_err *err)
{
    const struct pl_graph_ask all = {.readable = ask->readable, .who = ask->who};
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_freshness *told = NULL;
    bool *wanted = NULL;
    struct graph_seen seen;
    struct graph_states s;
    int r = arena ? pl_graph_seen_find(view, &all, PL_GRAPH_NONE, arena, &seen, err) : pl_err_nomem(err);

    r = r < 0 ? r : states_init(&s, view, arena, err);
    r = r < 0 ? r : read_jobs(&s, c, err);
    if (r < 0)
        return r;
    hide_heads(&s, &seen);
    r = read_pills(&s, c, &seen, err);
    r = r < 0 ? r : pl_graph_freshness_find(&s, &seen, err);
    if (r == 0) {
        told = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *told);
        wanted = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *wanted);
        r = told && wanted ? 0 : pl_err_nomem(err);
    }
    for (uint32_t i = 0; r == 0 && i < view->n_stages; i++)
        wanted[i] = seen.node_of[i] != PL_GRAPH_NONE && wants_words(view, i, ask, self);
    r = r < 0 ? r : pl_graph_freshness_tell(&s, c, wanted, told, err);
    for (uint32_t i = 0; r == 0 && i < view->n_stages; i++) {
        const uint32_t at = ask->in_order ? view->order[i] : i;

        if (seen.node_of[at] != PL_GRAPH_NONE)
            r = tell_uses(&s, at, &told[at], fn, self, err);
    }
    return r;
}
