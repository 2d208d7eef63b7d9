/* Writes audit entries: either directly (pl_audit_write), or later by a job on the pool. Entries written by a
 * job may be frequent, so their rate is limited per user or address. */
#include "pipelined/api/access/audit.h"

#include "pipelined/policy/rate_limit.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <stdio.h>

/* The rate limit of one kind of frequent entries, counted per user or address. */
struct tellings {
    pthread_mutex_t lock;
    struct pl_rate_limit rate;
    struct pl_rate_limit_bucket buckets[PL_API_TOLD_OF];
};

struct pl_audit_log {
    struct pl_db *db;
    struct pl_pool *pool;
    struct tellings refusals, puts;
};

static void tellings_init(struct tellings *t)
{
    pthread_mutex_init(&t->lock, NULL);
    t->rate = (struct pl_rate_limit){
        .buckets = t->buckets, .n = PL_API_TOLD_OF, .burst = PL_API_TELLINGS, .leak_a_minute = PL_API_TELLINGS_A_MINUTE};
}

int pl_audit_log_create(struct pl_db *db, struct pl_pool *pool, struct pl_audit_log **ret, struct pl_err *err)
{
    struct pl_audit_log *l = calloc(1, sizeof *l);

    if (!l)
        return pl_err_nomem(err);
    l->db = db;
    l->pool = pool;
    tellings_init(&l->refusals);
    tellings_init(&l->puts);
    *ret = l;
    return 0;
}

struct pl_audit_log *pl_audit_log_destroy(struct pl_audit_log *l)
{
    if (!l)
        return NULL;
    pthread_mutex_destroy(&l->refusals.lock);
    pthread_mutex_destroy(&l->puts.lock);
    free(l);
    return NULL;
}

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

void pl_audit_write(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                    const char *target)
{
    struct pl_audit entry = pl_api_audit_entry(req, who, verb, target);
    struct pl_err err = {0};

    if (pl_db_run(l->db, PL_TX_UNLOGGED, pl_tx_audit_alone, &entry, &err) < 0)
        pl_log_error("audit", "cannot write the audit entry \"%s %s %s\": %s", who->name, verb, target, err.msg);
}

/* ---- rate-limited entries ---- */

struct pl_api_telling {
    struct pl_audit_log *log;
    char who[PL_USER_MAX + 1], token[PL_TOKEN_ID_HEX + 1], target[512];
    struct pl_audit entry;
};

static void write_telling(void *arg)
{
    struct pl_api_telling *t = arg;
    struct pl_err err = {0};

    if (pl_db_run(t->log->db, PL_TX_UNLOGGED, pl_tx_audit_alone, &t->entry, &err) < 0)
        pl_log_error("audit", "cannot write the audit entry \"%s: %s %s\": %s", t->who, t->entry.verb, t->target, err.msg);
    free(t);
}

static enum pl_rate_limit_verdict count(struct tellings *t, const char *whose)
{
    enum pl_rate_limit_verdict verdict;

    pthread_mutex_lock(&t->lock);
    verdict = pl_rate_limit_hit(&t->rate, pl_xxh64(whose, strlen(whose), 0), pl_clock_mono_ms());
    pthread_mutex_unlock(&t->lock);
    return verdict;
}

/* Makes an entry with copies of its texts; `who` may be NULL. Returns NULL without memory, or if the rate
 * limit suppresses the entry. The first entry over the limit is still made; its text says that further
 * entries were left out. */
static struct pl_api_telling *telling_create(struct pl_audit_log *l, enum pl_rate_limit_verdict verdict,
                                             const struct pl_principal *who, const char *verb, const char *target)
{
    struct pl_api_telling *t = verdict == PL_RATE_OVER ? NULL : calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->log = l;
    snprintf(t->who, sizeof t->who, "%s", who ? who->name : "");
    snprintf(t->token, sizeof t->token, "%s", who ? who->token : "");
    snprintf(t->target, sizeof t->target, "%.480s%s", target, verdict == PL_RATE_FIRST ? ", and more that are not listed" : "");
    t->entry = (struct pl_audit){.who = t->who, .token = t->token, .verb = verb, .target = t->target};
    return t;
}

static void tell(struct pl_api_telling *t)
{
    struct pl_err err = {0};

    if (pl_pool_submit(t->log->pool, write_telling, t, &err) == 0)
        return;
    pl_log_warn("audit", "cannot write the audit entry \"%s: %s %s\": %s", t->who, t->entry.verb, t->target, err.msg);
    free(t);
}

void pl_audit_write_refused(void *log, const struct pl_principal *who, const char *peer, const char *target)
{
    struct pl_audit_log *l = log;
    struct pl_api_telling *t = telling_create(l, count(&l->refusals, who ? who->name : peer), who, "refused", target);

    if (!t)
        return;
    snprintf(t->entry.peer, sizeof t->entry.peer, "%s", peer);
    tell(t);
}

struct pl_api_telling *pl_api_audit_put(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who,
                                        const char *bucket, const char *target)
{
    char whose[PL_USER_MAX + PL_TOKEN_ID_HEX + 256];
    struct pl_api_telling *t;

    snprintf(whose, sizeof whose, "%s %s %.200s", who->name, who->token, bucket);
    t = telling_create(l, count(&l->puts, whose), who, "write", target);
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
