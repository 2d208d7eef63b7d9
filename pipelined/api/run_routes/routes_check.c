/* Checks a spec: all of its mistakes with their places, what it would change, and the datums that its stages would have over what
 * their inputs hold now. Nothing is stored. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/plan/plan.h"
#include "pipelined/source/source.h"

#include <stdio.h>
#include <string.h>

#define SPEC_BODY_MAX (12u << 20)
#define PLAN_BYTES    ((size_t)256 << 20) /* memory of one stage's plan; a larger one is not counted */
#define SHOWN_DATUMS  10u                 /* datums of a stage that are named */
#define DATUM_TEXT    400u

/* Returns NULL for want of memory. */
static json_t *problems_json(const struct pl_spec_problem *list, size_t n, const char *filename)
{
    _cleanup_(json_decrefp) json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        if (pl_json_add(out,
                        json_pack("{s:I, s:I, s:s, s:s}", "line", (json_int_t)list[i].line, "column", (json_int_t)list[i].column,
                                  "path", list[i].path, "text", pl_spec_problem_message(&list[i], filename)),
                        NULL) < 0)
            return NULL;
    return TAKE_PTR(out);
}

/* ---- datums ---- */

/* The inputs of one stage. */
struct inputs {
    struct pl_plan_input of[PL_SPEC_LEAVES_MAX];
    struct pl_node_source sources[PL_SPEC_LEAVES_MAX];
    char why[256]; /* why they cannot be known; "" = they are */
};

/* Finds what one input has now. */
static int find_input(struct pl_conn *c, const struct pl_spec *spec, const struct pl_input *leaf, size_t i, struct inputs *in,
                      struct pl_err *err)
{
    struct pl_commit_row commit;
    struct pl_err none = {0};
    int r;

    in->sources[i] = (struct pl_node_source){.get = pl_store_node_get};
    in->of[i] = (struct pl_plan_input){.source = &in->sources[i]};
    if (!pl_input_triggers(leaf))
        return 0;
    r = pl_db_commit_named(c, leaf->project, leaf->repo, leaf->branch, &commit, &none);
    if (r < 0) {
        if (leaf->stage != PL_SPEC_NO_STAGE)
            snprintf(in->why, sizeof in->why, "depends on what stage %.100s writes", spec->stages[leaf->stage].name);
        else
            snprintf(in->why, sizeof in->why, "%.200s", none.msg);
        return r == PL_ENOTFOUND ? 0 : pl_err_set(err, r, "%s", none.msg);
    }
    in->of[i].root = commit.root;
    return 0;
}

/* Finds what all inputs of a stage have now. A store may ask the bucket: it is opened once no database reader is held. */
static int find_inputs(struct pl_api *a, const struct pl_spec *spec, const struct pl_stage *stage, struct inputs *in,
                       struct pl_err *err)
{
    struct pl_store *store = NULL;
    int r = 0;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        for (size_t i = 0; r == 0 && i < stage->n_leaves; i++)
            r = find_input(rd.conn, spec, stage->leaves[i], i, in, err);
    }
    for (size_t i = 0; r == 0 && !*in->why && i < stage->n_leaves; i++) {
        if (!pl_input_triggers(stage->leaves[i]))
            continue;
        r = pl_project_stores_get(a->config.stores, stage->leaves[i]->project, &store, err);
        in->sources[i].self = store;
    }
    return r;
}

/* Names the first datums of a plan; NULL for want of memory. */
static json_t *names_json(const struct pl_plan *plan)
{
    _cleanup_(json_decrefp) json_t *out = json_array();
    char text[DATUM_TEXT];

    for (size_t d = 0; d < plan->n_datums && d < SHOWN_DATUMS; d++)
        if (pl_json_add(out, json_string(pl_plan_datum_text(plan, d, text, sizeof text)), NULL) < 0)
            return NULL;
    return TAKE_PTR(out);
}

/* Counts the datums of one stage. A stage that cannot be planned says why. */
static int count_stage(struct pl_api *a, const struct pl_spec *spec, const struct pl_stage *stage, json_t *list,
                       struct pl_err *err)
{
    _cleanup_(pl_plan_destroyp) struct pl_plan *plan = NULL;
    struct inputs in = {.why = ""};
    struct pl_err why = {0};
    int r = find_inputs(a, spec, stage, &in, err);

    if (r == 0 && !*in.why) {
        r = pl_plan_create(&(struct pl_plan_request){.stage = stage, .inputs = in.of, .max_bytes = PLAN_BYTES}, &plan, &why);
        if (r == PL_ENOMEM)
            return pl_err_nomem(err);
        if (r < 0)
            snprintf(in.why, sizeof in.why, "%.250s", why.msg);
        r = 0;
    }
    if (r < 0)
        return r;
    pl_utf8_trim(in.why); /* a message may be cut in the middle of a character */
    if (!plan)
        return pl_json_add(list, json_pack("{s:s, s:s}", "stage", stage->name, "why", in.why), err);
    return pl_json_add(list,
                       json_pack("{s:s, s:I, s:o, s:s}", "stage", stage->name, "datums", (json_int_t)plan->n_datums, "first",
                                 names_json(plan), "why", in.why),
                       err);
}

/* ---- the check ---- */

static bool has_code(const struct pl_spec *spec)
{
    for (size_t i = 0; i < spec->n_stages; i++)
        if (spec->stages[i].code)
            return true;
    return false;
}

/* Asks what storing the spec would change. Without the code that its stages have, that cannot be said: adds nothing. */
static int try_set(struct pl_api *a, struct pl_pipeline_draft *d, json_t *code, json_t *ret, struct pl_err *err)
{
    int r;

    if (!code && has_code(d->spec))
        return 0;
    d->args.update = d->args.dry_run = d->args.confirmed = true;
    r = pl_sources_check_inputs(a->config.sources, d->spec, err);
    r = r < 0 ? r : pl_pipeline_draft_code(d, code, err);
    r = r < 0 ? r : pl_pipeline_draft_ready(d, false, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_pipeline_set, &d->args, err);
    if (r < 0 && r != PL_ECANCELED)
        return r;
    if (json_object_set_new(ret, "version", json_integer(d->args.version)) < 0 ||
        json_object_set_new(ret, "changed", json_boolean(d->args.changed)) < 0 ||
        (d->args.changes && json_object_set(ret, "stages", d->args.changes) < 0))
        return pl_err_nomem(err);
    return 0;
}

/* Adds what storing the spec would change, and its datums, to `ret`. */
static int add_effects(struct pl_api *a, struct pl_http_request *req, struct pl_pipeline_draft *d, json_t *code, json_t *ret,
                       struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *datums = json_array();
    struct pl_err why = {0};
    int r = try_set(a, d, code, ret, &why);

    if (r == PL_ENOMEM)
        return pl_err_nomem(err);
    if (json_object_set_new(ret, "project", json_string(d->spec->project)) < 0 ||
        json_object_set_new(ret, "pipeline", json_string(d->spec->pipeline)) < 0 || json_object_set(ret, "datums", datums) < 0 ||
        (r < 0 && json_object_set_new(ret, "refused", json_string(why.msg)) < 0))
        return pl_err_nomem(err);
    r = 0;
    for (size_t i = 0; r == 0 && i < d->spec->n_stages && !pl_http_request_gone(req); i++)
        r = count_stage(a, d->spec, &d->spec->stages[i], datums, err);
    return r;
}

static int check_spec(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_pipeline_draft_finish) struct pl_pipeline_draft d = {
        .host = a->config.pipelines, .who = pl_http_context(req), .filename = "spec.json", .effort = pl_request_effort(req)};
    _cleanup_(json_decrefp) json_t *body = NULL, *out = NULL;
    const char *project = NULL;
    json_t *code = NULL;
    int r = pl_api_body(req, &body, err, "{s:s, s?:s, s?:o}", "spec", &d.text, "project", &project, "code", &code);

    if (r < 0)
        return r;
    r = pl_pipeline_draft_parse(&d, project, err);
    if (r < 0 && r != PL_ESPEC)
        return r;
    out = json_pack("{s:o, s:I, s:o}", "errors", problems_json(d.problems.errors, d.problems.n_errors, d.filename), "more",
                    (json_int_t)d.problems.more_errors, "warnings",
                    problems_json(d.problems.warnings, d.problems.n_warnings, d.filename));
    r = !out ? pl_err_nomem(err) : r == PL_ESPEC ? 0 : add_effects(a, req, &d, code, out, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(out);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "POST",
     .pattern = "/api/v1/check",
     .json = check_spec,
     .body = PL_BODY_JSON,
     .body_max = SPEC_BODY_MAX,
     .costly = true,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary =
         "Checks a spec and stores nothing: its mistakes with line and column, what it would change, and the datums that its "
         "stages would have over what their inputs hold now.",
     .request = "SpecToCheck",
     .reply = "SpecChecked"},
};

static const struct pl_api_schema schemas[] = {
    {"SpecToCheck", "spec:string project:string? code:object?"},
    {"SpecProblem", "line:integer column:integer path:string text:string"},
    /* datums: absent if they cannot be known yet, as `why` says; first: the first of them by their inputs */
    {"StageDatums", "stage:string datums:integer? first:string[]? why:string"},
    /* without mistakes it has the fields from `project` on; refused: why the daemon would not take it even so; version, changed
     * and stages: what storing it would change, absent if stages have code and the request does not say which */
    {"SpecChecked", "errors:SpecProblem[] more:integer warnings:SpecProblem[] project:string? pipeline:string? refused:string? "
                    "version:integer? changed:boolean? stages:StageChange[]? datums:StageDatums[]?"},
};
PL_API_TABLE(check, routes, schemas);
