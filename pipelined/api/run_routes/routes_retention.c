/* Retention: reports what the repos' retention rules would drop, and drops it. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/retention/retention.h"

static bool is_draining(void *self)
{
    const struct pl_api *a = self;

    return atomic_load(&a->draining);
}

static int pass_over(struct pl_api *a, const char *project, const char *repo, bool dry_run, json_t **ret, struct pl_err *err)
{
    struct pl_retention_run pass = {
        .db = a->config.db, .dry_run = dry_run, .project = project, .repo = repo, .stop = is_draining, .self = a};
    int r = pl_retention_run(&pass, err);

    *ret = pass.report;
    return r;
}

static int plan_all(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    (void)req;
    return pass_over(a, NULL, NULL, true, ret, err);
}

static int drop_all(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    if (pl_http_query_flag(req, "trust_clock"))
        pl_clock_trust_believe(pl_db_clock(a->config.db));
    return pass_over(a, NULL, NULL, false, ret, err);
}

static int plan_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return pass_over(a, pl_http_param(req, "project"), pl_http_param(req, "repo"), true, ret, err);
}

static int drop_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return pass_over(a, pl_http_param(req, "project"), pl_http_param(req, "repo"), false, ret, err);
}

void pl_api_run_retention(struct pl_api *a)
{
    pl_retention_run_all(&(struct pl_retention_run){.db = a->config.db, .stop = is_draining, .self = a});
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/keep", plan_all, .verb = PL_VERB_OPERATE,
     .summary = "Returns what the repos' retention rules would drop now: counts of each repo, and the first 1,000 commits.",
     .reply = "Kept"},
    {"POST", "/api/v1/keep", drop_all, .body = PL_BODY_JSON, .verb = PL_VERB_OPERATE,
     .summary = "Drops now what the repos' retention rules do not keep, as the daemon does every hour. `trust_clock=1`: the "
                "machine's clock is right, although it is far ahead of the log.",
     .request = "Nothing", .reply = "Kept"},
    {"GET", "/api/v1/repos/{project}/{repo}/keep", plan_repo, .verb = PL_VERB_READ,
     .summary = "Returns what the retention rule of one repo would drop now.", .reply = "Kept"},
    {"POST", "/api/v1/repos/{project}/{repo}/keep", drop_repo, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Drops now what the retention rule of one repo does not keep.", .request = "Nothing", .reply = "Kept"},
};
static const struct pl_api_schema schemas[] = {
    {"KeptRepo", "project:string repo:string keep:Keep kept:integer held:integer commits:integer results:integer logs:integer"},
    {"DroppedCommit",
     "project:string repo:string commit:string branch:string created_us:integer files:integer bytes:integer why:string"},
    {"KeptDeleted", "results:integer logs:integer"},
    {"Kept", "repos:KeptRepo[] commits:DroppedCommit[] more:boolean deleted:KeptDeleted"},
};
PL_API_TABLE(keep, routes, schemas);
