/* Defaults of stages: those of the cluster, and those of a project, which override them. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/pipelines/defaults_tx.h"
#include "pipelined/spec/spec.h"

static int defaults_json(struct pl_conn *c, const char *project, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *text = NULL;
    int r = pl_db_defaults_read(c, project, &text, err);

    if (r < 0)
        return r;
    *ret = json_loads(text, 0, NULL);
    return *ret ? 0 : pl_err_nomem(err);
}

static int answer(struct pl_api *a, const char *project, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(json_decrefp) json_t *cluster = NULL, *own = NULL;
    int r = defaults_json(rd.conn, NULL, &cluster, err);

    r = r < 0 || !project ? r : pl_api_project(rd.conn, project, err);
    r = r < 0 || !project ? r : defaults_json(rd.conn, project, &own, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:O, s:O*}", "cluster", cluster, "project", own);
    return *ret ? 0 : pl_err_nomem(err);
}

static int get_defaults(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const char *project = pl_http_query(req, "project");
    int r = project ? pl_api_may(req, PL_VERB_READ_PIPELINES, project, NULL, err) : 0;

    return r < 0 ? r : answer(a, project, ret, err);
}

/* Refuses "network": true in a project's defaults while the project's network is off, where it would have no
 * effect. */
static int check_network(struct pl_api *a, const struct pl_defaults_args *args, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    bool off = false;
    int r = args->project ? pl_db_network_off(rd.conn, args->project, &off, err) : 0;

    if (r < 0 || !off || !json_is_true(json_object_get(args->spec, "network")))
        return r;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL,
                                   "network: true is not accepted: the network is off in project \"%s\"; leave it out, or have "
                                   "an admin of the project run pipelinectl update project %s --network on",
                                   args->project, args->project),
                        "network");
}

static int set_defaults(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *spec = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const char *given = NULL, *filename = "defaults.json";
    struct pl_defaults_args args = {0};
    int r = pl_api_body(req, &body, err, "{s?:s, s:s, s?:s}", "project", &args.project, "spec", &given, "filename", &filename);

    r = r < 0 ? r : pl_api_may(req, args.project ? PL_VERB_DELETE_PROJECT : PL_VERB_OPERATE, args.project, NULL, err);
    if (r == 0 && strlen(given) > PL_DEFAULTS_MAX)
        r = pl_err_field(err,
                         pl_err_set(err, PL_ETOOBIG, "spec: %zu bytes; defaults have at most %u", strlen(given), PL_DEFAULTS_MAX),
                         "spec");
    r = r < 0 ? r : pl_spec_defaults_read(given, strlen(given), filename, &text, NULL, err);
    if (r < 0)
        return r;
    args.spec = spec = json_loadb((const char *)text.data, text.len, 0, NULL);
    r = spec ? check_network(a, &args, err) : pl_err_nomem(err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_defaults_set, &args, err);
    return r < 0 ? r : answer(a, args.project, ret, err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/defaults",
     .json = get_defaults,
     .verb = PL_VERB_LIST,
     .summary = "Returns the default fields of stages, which a spec's own `defaults` override: the cluster's, and with `project` "
                "those of the project, which override the cluster's.",
     .query = "project",
     .reply = "Defaults"},
    {.method = "PUT",
     .pattern = "/api/v1/defaults",
     .json = set_defaults,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DELETE_PROJECT,
     .asks = true,
     .summary = "Sets the cluster's defaults, or with `project` those of the project: `spec` is an object with fields of a "
                "stage, {} for none. They apply to pipelines that are created or updated from then on.",
     .request = "DefaultsSet",
     .reply = "Defaults"},
};
static const struct pl_api_schema schemas[] = {
    {"Defaults", "cluster:object project:object?"},
    {"DefaultsSet", "spec:string project:string? filename:string?"},
};
PL_API_TABLE(defaults, routes, schemas);
