/* The audit: what changes what there is and who may, who logged in, and what was refused to whom. Refusals are written behind the request
 * that they are of, and of one user no more than PL_API_REFUSALS at once: what others did must not be pushed out by them. */
#include "api_internal.h"

#include "pipelined/db/access_tx.h"
#include "storage/base/clock.h"
#include "storage/base/log.h"

#include <stdio.h>

void pl_api_audit(struct pl_api *a, const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                  const char *target)
{
    struct pl_audit entry = {who->name, who->token, pl_http_peer(req), verb, target};
    struct pl_err err = {0};

    if (pl_db_run(a->config.db, PL_TX_UNLOGGED, pl_tx_audit_alone, &entry, &err) < 0)
        pl_log_error("audit", "%s %s %s: not written: %s", who->name, verb, target, err.msg);
}

void pl_api_audit_done(struct pl_api *a, const struct pl_api_route *route, const struct pl_http_request *req, const json_t *reply)
{
    const char *name = pl_api_text_at(reply, "name");
    char verb[64], target[512];

    if (route->audits || pl_streq(route->method, "GET") ||
        !(route->verb == PL_VERB_DEFINE || route->verb == PL_VERB_REMOVE || route->verb == PL_VERB_GOVERN ||
          route->verb == PL_VERB_OPERATE))
        return;
    name = name ? name : pl_api_text_at(reply, "pipeline");
    snprintf(verb, sizeof verb, "%s", pl_verb_rule(route->verb)->name);
    snprintf(target, sizeof target, "%s %.400s%s%.60s", route->method, pl_http_path(req), name ? " " : "", name ? name : "");
    pl_api_audit(a, req, pl_http_context(req), verb, target);
}

/* ---- refusals ---- */

void pl_api_refusals_init(struct pl_api_refusals *r)
{
    pthread_mutex_init(&r->lock, NULL);
    r->rate = (struct pl_rate){
        .buckets = r->buckets, .n = PL_API_REFUSERS, .burst = PL_API_REFUSALS, .leak_a_minute = PL_API_REFUSALS_A_MINUTE};
}

void pl_api_refusals_finish(struct pl_api_refusals *r)
{
    pthread_mutex_destroy(&r->lock);
}

struct refusal {
    struct pl_api *api;
    char who[PL_USER_MAX + 1], token[PL_TOKEN_ID_HEX + 1], peer[48], target[512];
};

static void write_refusal(void *arg)
{
    struct refusal *r = arg;
    struct pl_audit entry = {r->who, r->token, r->peer, "refused", r->target};
    struct pl_err err = {0};

    if (pl_db_run(r->api->config.db, PL_TX_UNLOGGED, pl_tx_audit_alone, &entry, &err) < 0)
        pl_log_error("audit", "%s was refused %s: not written: %s", r->who, r->target, err.msg);
    free(r);
}

static enum pl_rate_verdict count(struct pl_api *a, const char *whose)
{
    enum pl_rate_verdict verdict;

    pthread_mutex_lock(&a->refusals.lock);
    verdict = pl_rate_hit(&a->refusals.rate, pl_xxh64(whose, strlen(whose), 0), pl_clock_mono_ms());
    pthread_mutex_unlock(&a->refusals.lock);
    return verdict;
}

void pl_api_audit_refused(void *api, const struct pl_principal *who, const char *peer, const char *target)
{
    struct pl_api *a = api;
    enum pl_rate_verdict verdict = count(a, who ? who->name : peer);
    struct refusal *r = verdict == PL_RATE_OVER ? NULL : calloc(1, sizeof *r);
    struct pl_err err = {0};

    if (!r)
        return;
    r->api = a;
    snprintf(r->who, sizeof r->who, "%s", who ? who->name : "");
    snprintf(r->token, sizeof r->token, "%s", who ? who->token : "");
    snprintf(r->peer, sizeof r->peer, "%s", peer);
    snprintf(r->target, sizeof r->target, "%.480s%s", target, verdict == PL_RATE_FIRST ? ", and more than is told" : "");
    if (pl_pool_submit(a->config.pool, write_refusal, r, &err) == 0)
        return;
    pl_log_warn("audit", "%s was refused %s: not written: %s", r->who, r->target, err.msg);
    free(r);
}
