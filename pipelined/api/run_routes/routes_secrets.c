/* Secrets of projects. Values are accepted and never returned; the executor stores them. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/source/source.h"

#define SECRETS_BODY_MAX (3u << 20)

static int ask(struct pl_api *a, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    int r = pl_secret_op_check(op, err);

    return r < 0 ? r : a->config.engine->secrets(a->config.engine_self, op, ret, err);
}

static int list_secrets(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const char *project = pl_http_query(req, "project");
    struct pl_secret_op op = {.what = PL_SECRET_LIST, .project = project ? project : "default"};
    json_t *list = NULL;
    int r = pl_api_may(req, PL_VERB_READ_PIPELINES, op.project, NULL, err);

    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        r = pl_api_project_listed(rd.conn, op.project, err);
    }
    r = r < 0 ? r : ask(a, &op, &list, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:o}", "project", op.project, "secrets", list);
    return *ret ? 0 : pl_err_nomem(err);
}

/* Changes a secret while no project can be created or deleted. */
static int change(struct pl_api *a, const struct pl_secret_op *op, struct pl_err *err)
{
    int r;

    pthread_rwlock_rdlock(&a->secrets);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_api_project(rd.conn, op->project, err);
    }
    r = r < 0 ? r : ask(a, op, NULL, err);
    pthread_rwlock_unlock(&a->secrets);
    pl_sources_secret_changed(a->config.sources);
    return r;
}

static json_t *keys_of(const json_t *values)
{
    json_t *keys = json_array(), *value;
    const char *key;

    json_object_foreach((json_t *)values, key, value) json_array_append_new(keys, json_string(key));
    return keys;
}

static void forget_body(struct pl_http_request *req)
{
    const struct pl_buf *body = pl_http_body(req);

    if (body->data)
        explicit_bzero(body->data, body->len);
}

static int set_secret(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_secret_op op = {.project = "default"};
    json_t *values = NULL;
    int update = 0, r;

    r = pl_api_body(req, &body, err, "{s?:s, s:s, s:o, s?:b}", "project", &op.project, "name", &op.name, "values", &values,
                    "update", &update);
    op.what = update ? PL_SECRET_UPDATE : PL_SECRET_CREATE;
    op.values = values;
    r = r < 0 ? r : pl_api_may(req, PL_VERB_DEFINE, op.project, NULL, err);
    r = r < 0 ? r : change(a, &op, err);
    if (r == 0)
        *ret = json_pack("{s:s, s:s, s:o}", "project", op.project, "name", op.name, "keys", keys_of(values));
    if (body)
        pl_secret_values_erase(values);
    forget_body(req);
    if (r < 0)
        return r;
    return *ret ? (update ? 0 : 201) : pl_err_nomem(err);
}

static int delete_secret(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const struct pl_secret_op op = {.what = PL_SECRET_DELETE,
                                    .project = pl_http_param(req, "project"),
                                    .name = pl_http_param(req, "secret")};

    (void)ret;
    return change(a, &op, err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/secrets",
     .json = list_secrets,
     .verb = PL_VERB_READ_PIPELINES,
     .asks = true,
     .summary = "Lists the secrets of a project (\"default\" if none is given), with their keys but never a value.",
     .query = "project",
     .reply = "Secrets"},
    {.method = "POST",
     .pattern = "/api/v1/secrets",
     .json = set_secret,
     .body = PL_BODY_JSON,
     .body_max = SECRETS_BODY_MAX,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .summary = "Creates a secret of a project for its stages, or with `update` sets keys of one: `values` has each key's value "
                "in base64.",
     .request = "SecretSet",
     .reply = "SecretKept"},
    {.method = "DELETE",
     .pattern = "/api/v1/secrets/{project}/{secret}",
     .json = delete_secret,
     .verb = PL_VERB_DEFINE,
     .summary = "Removes a secret.",
     .reply = "Nothing"},
};
static const struct pl_api_schema schemas[] = {
    {"Secret", "name:string keys:string[] updated_us:integer"},
    {"Secrets", "project:string secrets:Secret[]"},
    {"SecretSet", "name:string values:object project:string? update:boolean?"},
    {"SecretKept", "project:string name:string keys:string[]"},
};
PL_API_TABLE(secrets, routes, schemas);
