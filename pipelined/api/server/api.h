/* api: the REST routes, who may use them, the event stream and the web page. Uses net and db and all of storage; what only the running
 * engine knows is asked through pl_engine_ops (daemon/engine.h), which the daemon gives. The protocol of workers is the daemon's
 * (daemon/worker_api.h): its routes are handed in. */
#pragma once

#include "pipelined/db/stage_log/stage_log.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/engine/engine.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/net/server/sse.h"
#include "pipelined/policy/principal.h"
#include "storage/store/project_stores.h"

/* Tables of routes (api_internal.h) of one subject. */
struct pl_api_table;
struct pl_api_tables {
    const struct pl_api_table *const *tables;
    size_t n;
};

struct pl_entry;

struct pl_api_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_stage_logs *logs;
    struct pl_loop *loop;
    struct pl_pool *pool; /* storage pool: hashing, disk, SQL reads */
    const struct pl_engine_ops *engine;
    void *engine_self;
    const char *data_dir, *store_url, *executor, *version;
    const char *store_dir;     /* the store's folder, NULL or "" = it is none; outlives the API */
    bool no_sandbox;           /* stages run without one */
    const char *token;         /* the daemon's, as in DIR/token */
    const uint8_t *master_key; /* PL_SEAL_KEY_BYTES, of DIR/master.key; outlives the API */
    const char *listen;        /* 127.0.0.1:7380; port 0 picks one */
    const char *const
        *hosts;           /* names accepted in Host beside the listening address, localhost, 127.0.0.1, [::1]; NULL-terminated */
    bool tls;             /* https, with the certificate of net/tls.h */
    unsigned per_address; /* connections of one address to what listens with `tls`; 0 = no limit */
    const char *public_url;   /* "" = http://listen */
    const char *worker_url;   /* its host is ours, too; "" = none */
    const char *proxy_header; /* as in pl_guard_config; "" = none */
    const char *proxy_addresses;
    int64_t confirm_above_s; /* seconds of GPUs: an update that may take more must be confirmed; −1 = none need be */
    int64_t gc_every_ms;     /* garbage is collected so often; 0 = when somebody asks */
    const struct pl_api_tables *const *tables; /* all but the API's own, in order; NULL-terminated; outlive the API */
    const struct pl_http_route *more_routes;   /* the daemon's own (workers) */
    size_t n_more_routes;
    /* The S3 gateway, which the daemon runs beside this; NULL: there is none. Its address, "" while it does not listen; tells it that a repo
     * is gone; and what it needs of a project, as pl_gc_config.keep. Any thread. */
    const char *(*s3_url)(void *self);
    void (*repo_deleted)(void *self, int64_t repo_id);
    int (*gc_keep)(void *self, const char *project, int (*fn)(void *fn_self, const struct pl_entry *entry, struct pl_err *err),
                   void *fn_self, struct pl_err *err);
    void *gateway_self;
};

struct pl_api;
struct pl_api_services;

/* Tells the audit that a request of `more_routes` was refused to who sent it, unless of theirs too much is told already. Any thread, does
 * not block. */
void pl_api_audit_worker_refused(struct pl_api *a, const struct pl_http_request *req);
/* Listens and serves. */
PL_MUST_CHECK
int pl_api_start(const struct pl_api_config *config, struct pl_api **ret, struct pl_err *err);
unsigned pl_api_port(const struct pl_api *a);
/* What the S3 gateway stands on (transfer.h): from pl_api_start to pl_api_destroy. */
struct pl_api_services *pl_api_services_of(struct pl_api *a);
/* From here on garbage is collected: when all that gc_keep asks is there. */
PL_MUST_CHECK
int pl_api_gc_start(struct pl_api *a, struct pl_err *err);
/* Where this machine's own workers and pipelinectl ask: by plain HTTP on loopback, a port of its own with TLS. Lives as long as the API. */
const char *pl_api_local_url(const struct pl_api *a);
/* An event of the database (pl_db_config.event). Any thread. */
void pl_api_event(struct pl_api *a, int64_t id, int64_t at_us, const char *type, const char *data);
/* Looks how much room is left on the disks, and tells what has changed. Any thread; a network's disk may take its time. */
void pl_api_check_disks(struct pl_api *a);
/* Drops what the repos do not keep (db/keep_pass.h). Blocks: on the pool. */
void pl_api_run_retention(struct pl_api *a);
/* From here on /readyz says that no work is taken any more, and checks that are under way end. All else goes on. Any thread. */
void pl_api_drain(struct pl_api *a);
/* Stops accepting, ends streams, lets replies finish for `deadline_ms`; ends the collection and the open commits. After the S3 gateway has
 * stopped. */
void pl_api_stop(struct pl_api *a, int64_t deadline_ms);
struct pl_api *pl_api_destroy(struct pl_api *a);
