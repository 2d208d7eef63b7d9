/* api: configuration, start and stop of the REST API: its routes, the guard, the event stream and the web
 * page. State that only the running engine knows is read through pl_engine_ops (engine/engine.h), which the
 * daemon supplies. The daemon also supplies the routes of the workers' protocol. */
#pragma once

#include "pipelined/db/stage_log/stage_log.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/engine/engine.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/net/server/sse.h"
#include "pipelined/policy/principal.h"
#include "storage/store/project_stores.h"

/* A list of route tables (api_context.h). */
struct pl_api_table;
struct pl_api_tables {
    const struct pl_api_table *const *tables;
    size_t n;
};

struct pl_entry;
struct pl_pipeline_host;
struct pl_notify;
struct pl_sources;

struct pl_api_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_stage_logs *logs;
    struct pl_loop *loop;
    struct pl_pool *pool; /* storage pool: hashing, disk, SQL reads */
    const struct pl_engine_ops *engine;
    void *engine_self;
    const char *data_dir, *store_url, *executor, *version;
    /* the store's folder; NULL or "" = the store is not a folder; must outlive the API */
    const char *store_dir;
    bool no_sandbox;           /* stages run without a sandbox */
    const char *token;         /* the daemon's own token, as in DIR/token */
    const uint8_t *master_key; /* PL_SEAL_KEY_BYTES bytes of DIR/master.key; must outlive the API */
    const char *listen;        /* address, "127.0.0.1:7380"; port 0 picks a free one */
    /* names accepted in the Host header, besides the listening address, localhost, 127.0.0.1 and [::1];
     * NULL-terminated */
    const char *const *hosts;
    bool tls; /* https, with the certificate of net/server/tls.h */
    /* limit of connections per client address on a listener with `tls`; 0 = no limit */
    unsigned per_address;
    const char *public_url;   /* URL shown to people; "" = http://listen */
    const char *worker_url;   /* its host is accepted in the Host header too; "" = none */
    const char *proxy_header; /* as in pl_guard_config; "" = none */
    const char *proxy_addresses;
    const struct pl_pipeline_host *pipelines; /* what setting a pipeline needs (pipeline_draft.h); outlives the API */
    struct pl_sources *sources;               /* the git repositories that are followed; outlives the API */
    struct pl_notify *notify;                 /* the notification rules; outlives the API */
    int64_t gc_every_ms;                      /* interval of garbage collection; 0 = only on request */
    /* route tables besides the API's own, in order; NULL-terminated; must outlive the API */
    const struct pl_api_tables *const *tables;
    const struct pl_http_route *more_routes; /* the daemon's own routes (workers' protocol) */
    size_t n_more_routes;
    /* Functions of the S3 gateway, which the daemon runs; NULL = no gateway. s3_url: its address, "" while it
     * does not listen. repo_deleted: called after a repo was deleted. gc_keep: as pl_gc_config.keep, for
     * uploads in progress. Any thread. */
    const char *(*s3_url)(void *self);
    void (*repo_deleted)(void *self, int64_t repo_id);
    int (*gc_keep)(void *self, const char *project, int (*fn)(void *fn_self, const struct pl_entry *entry, struct pl_err *err),
                   void *fn_self, struct pl_err *err);
    void *gateway_self;
};

struct pl_api;
struct pl_api_services;

/* Queues an audit entry: a request (of a route in `more_routes` too) was refused to its principal. The audit
 * log's rate limit applies. Any thread, does not block. */
void pl_api_audit_worker_refused(struct pl_api *a, const struct pl_http_request *req);
/* Creates the API, listens and serves. Errors are wrapped with "API"; nothing remains on failure. */
PL_MUST_CHECK
int pl_api_start(const struct pl_api_config *config, struct pl_api **ret, struct pl_err *err);
unsigned pl_api_port(const struct pl_api *a);
/* Returns the services that the S3 gateway shares with the API (transfer.h); valid from pl_api_start to
 * pl_api_destroy. */
struct pl_api_services *pl_api_services_of(struct pl_api *a);
/* Starts garbage collection. Call it when everything that gc_keep uses exists. */
PL_MUST_CHECK
int pl_api_gc_start(struct pl_api *a, struct pl_err *err);
/* Returns the URL for workers and pipelinectl on this machine: plain HTTP on loopback; with TLS, on a port of
 * its own. Lives as long as the API. */
const char *pl_api_local_url(const struct pl_api *a);
/* Publishes an event of the database (pl_db_config.event). Any thread. */
void pl_api_event(struct pl_api *a, int64_t id, int64_t at_us, const char *type, const char *data);
/* Checks the free disk space and reports changes. Any thread; may block on a slow network file system. */
void pl_api_check_disks(struct pl_api *a);
/* Drops history that the repos' retention rules do not keep (db/retention). Blocks: call it on the pool. */
void pl_api_run_retention(struct pl_api *a);
/* Makes /readyz report that the daemon takes no new work, and ends store checks in progress. Everything else
 * goes on. Any thread. */
void pl_api_drain(struct pl_api *a);
/* Stops accepting requests, ends streams, gives replies `deadline_ms` to finish, then ends garbage collection
 * and open commits. Call it after the S3 gateway has stopped. */
void pl_api_stop(struct pl_api *a, int64_t deadline_ms);
struct pl_api *pl_api_destroy(struct pl_api *a);
