/* The audit: what changes what there is and who may, who logged in, and what was refused to whom. Refusals and puts by S3 are written
 * behind the request that they are of, and of one user no more than PL_API_TELLINGS at once: what others did must not be pushed out by them. */
#include "api_internal.h"

#include "storage/base/clock.h"
#include "storage/base/log.h"

#include <stdio.h>

struct pl_audit pl_api_audit_entry(const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                                   const char *target)
{
    struct pl_audit entry = {.who = who->name, .token = who->token, .verb = verb, .target = target};
    char user[64];

    snprintf(entry.peer, sizeof entry.peer, "%s", pl_http_peer(req));
    if (who->kind == PL_PRINCIPAL_DAEMON && pl_http_peer_user(req, user, sizeof user))
        snprintf(entry.peer, sizeof entry.peer, "%s, user %s", pl_http_peer(req), user);
    return entry;
}

void pl_api_audit(struct pl_api *a, const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                  const char *target)
{
    struct pl_audit entry = pl_api_audit_entry(req, who, verb, target);
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

/* ---- what may come often ---- */

void pl_api_tellings_init(struct pl_api_tellings *t)
{
    pthread_mutex_init(&t->lock, NULL);
    t->rate = (struct pl_rate){
        .buckets = t->buckets, .n = PL_API_TOLD_OF, .burst = PL_API_TELLINGS, .leak_a_minute = PL_API_TELLINGS_A_MINUTE};
}

void pl_api_tellings_finish(struct pl_api_tellings *t)
{
    pthread_mutex_destroy(&t->lock);
}

struct pl_api_telling {
    struct pl_api *api;
    char who[PL_USER_MAX + 1], token[PL_TOKEN_ID_HEX + 1], target[512];
    struct pl_audit entry;
};

static void write_telling(void *arg)
{
    struct pl_api_telling *t = arg;
    struct pl_err err = {0};

    if (pl_db_run(t->api->config.db, PL_TX_UNLOGGED, pl_tx_audit_alone, &t->entry, &err) < 0)
        pl_log_error("audit", "%s: %s %s: not written: %s", t->who, t->entry.verb, t->target, err.msg);
    free(t);
}

static enum pl_rate_verdict count(struct pl_api_tellings *t, const char *whose)
{
    enum pl_rate_verdict verdict;

    pthread_mutex_lock(&t->lock);
    verdict = pl_rate_hit(&t->rate, pl_xxh64(whose, strlen(whose), 0), pl_clock_mono_ms());
    pthread_mutex_unlock(&t->lock);
    return verdict;
}

/* NULL: the audit tells no more of that now. Its texts are its own; `who` may be NULL. */
static struct pl_api_telling *telling_create(struct pl_api *a, enum pl_rate_verdict verdict, const struct pl_principal *who,
                                             const char *verb, const char *target)
{
    struct pl_api_telling *t = verdict == PL_RATE_OVER ? NULL : calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->api = a;
    snprintf(t->who, sizeof t->who, "%s", who ? who->name : "");
    snprintf(t->token, sizeof t->token, "%s", who ? who->token : "");
    snprintf(t->target, sizeof t->target, "%.480s%s", target, verdict == PL_RATE_FIRST ? ", and more than is told" : "");
    t->entry = (struct pl_audit){.who = t->who, .token = t->token, .verb = verb, .target = t->target};
    return t;
}

static void tell(struct pl_api_telling *t)
{
    struct pl_err err = {0};

    if (pl_pool_submit(t->api->config.pool, write_telling, t, &err) == 0)
        return;
    pl_log_warn("audit", "%s: %s %s: not written: %s", t->who, t->entry.verb, t->target, err.msg);
    free(t);
}

void pl_api_audit_refused(void *api, const struct pl_principal *who, const char *peer, const char *target)
{
    struct pl_api *a = api;
    struct pl_api_telling *t = telling_create(a, count(&a->refusals, who ? who->name : peer), who, "refused", target);

    if (!t)
        return;
    snprintf(t->entry.peer, sizeof t->entry.peer, "%s", peer);
    tell(t);
}

struct pl_api_telling *pl_api_audit_put(struct pl_api *a, const struct pl_http_request *req, const struct pl_principal *who,
                                        const char *bucket, const char *target)
{
    char whose[PL_USER_MAX + PL_TOKEN_ID_HEX + 256];
    struct pl_api_telling *t;

    snprintf(whose, sizeof whose, "%s %s %.200s", who->name, who->token, bucket);
    t = telling_create(a, count(&a->puts, whose), who, "write", target);
    if (t)
        memcpy(t->entry.peer, pl_api_audit_entry(req, who, "", "").peer, sizeof t->entry.peer);
    return t;
}

void pl_api_audit_put_done(struct pl_api_telling *t, bool taken)
{
    if (t && taken)
        tell(t);
    else
        free(t);
}
