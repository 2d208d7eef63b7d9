/* Collects the route tables, binds each row to the server, and starts and stops the API's parts in order.
 * on_request is the one handler of all rows: it checks the request again, calls the row's handler, replies,
 * and writes the audit entry. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/graph_view/graph_view.h"
#include "pipelined/api/server/openapi.h"
#include "pipelined/api/transfer/upload_session.h"
#include "pipelined/api/transfer/upload_verify.h"
#include "pipelined/text/json_text.h"
#include "storage/base/alloc_failure.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <stdio.h>

/* threads of libmicrohttpd; while a thread fills one client's socket, its other clients wait */
#define API_THREADS 4

/* The argument of the server's handler: a route row and its API. */
struct pl_api_bound {
    struct pl_api *api;
    const struct pl_api_route *route;
};

#define OWN_TABLES(X) X(page) X(events) X(openapi)
OWN_TABLES(PL_API_TABLE_DECLARE)
static const struct pl_api_table *const own_tables[] = {OWN_TABLES(PL_API_TABLE_ADDRESS)};
static const struct pl_api_tables own_routes = {own_tables, PL_ARRAY_SIZE(own_tables)};

const struct pl_api_table *const *pl_api_tables(const struct pl_api *a, size_t *ret_n)
{
    *ret_n = a->n_tables;
    return a->tables;
}

/* ---- from the server to a route's handler ---- */

/* Checks path parameters that are names of objects before any handler runs, so that no handler uses an
 * invalid name in a file path. */
static int check_params(const struct pl_http_request *req, const char *pattern, struct pl_err *err)
{
    static const char *const names[] = {"project", "repo", "branch", "pipeline", "stage"};
    char braced[16];
    int r;

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
        snprintf(braced, sizeof braced, "{%s}", names[i]);
        if (!strstr(pattern, braced))
            continue;
        r = pl_name_check(names[i], pl_http_param(req, names[i]), err);
        if (r < 0)
            return pl_err_field(err, r, names[i]);
    }
    return 0;
}

void pl_api_audit_worker_refused(struct pl_api *a, const struct pl_http_request *req)
{
    char target[512];

    snprintf(target, sizeof target, "%s %.480s", pl_http_method(req), pl_http_path(req));
    pl_audit_write_refused(a->services.audit, pl_http_context(req), pl_http_peer(req), target);
}

/* Writes an audit entry for a successful request that made, changed or deleted a repo, pipeline or project,
 * or that needs the operator's role. The target is the path, plus the name in the reply if the body named it.
 * Blocks. */
static void audit_done(struct pl_api *a, const struct pl_api_route *route, const struct pl_http_request *req, const json_t *reply)
{
    const char *name = pl_json_text_at(reply, "name");
    char verb[64], target[512];

    if (route->audits || pl_streq(route->method, "GET") ||
        !(route->verb == PL_VERB_DEFINE || route->verb == PL_VERB_REMOVE || route->verb == PL_VERB_DELETE_PROJECT ||
          route->verb == PL_VERB_OPERATE))
        return;
    name = name ? name : pl_json_text_at(reply, "pipeline");
    snprintf(verb, sizeof verb, "%s", pl_permission_rule(route->verb)->name);
    snprintf(target, sizeof target, "%s %.400s%s%.60s", route->method, pl_http_path(req), name ? " " : "", name ? name : "");
    pl_audit_write(a->services.audit, req, pl_http_context(req), verb, target);
}

/* Runs a route's handler and replies. A "forbidden" result is audited and counted. */
static void serve_request(const struct pl_api_bound *bound, struct pl_http_request *req)
{
    const struct pl_api_route *route = bound->route;
    struct pl_err err = {0};
    json_t *value = NULL;
    /* check again: time has passed since the guard's check, while the body was received or the request
     * waited */
    int r = pl_guard_check_again(req, bound->api->services.guard, &err);

    if (r == 0 && pl_http_request_gone(req))
        r = pl_err_set(&err, PL_ECANCELED, "the client has disconnected");
    if (r < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    r = check_params(req, route->pattern, &err);

    if (r == 0 && route->raw) {
        route->raw(bound->api, req);
        return;
    }
    r = r < 0 ? r : route->json(bound->api, req, &value, &err);
    if (r < 0) {
        json_decref(value);
        if (r == PL_EFORBIDDEN) {
            pl_api_audit_worker_refused(bound->api, req);
            r = pl_guard_forbid(bound->api->services.guard, pl_http_context(req), r, &err);
        }
        err.code = r;
        /* if memory ran out during this request, report that instead of the error that the handler has set */
        if (pl_alloc_failure_take()) {
            err = (struct pl_err){0};
            pl_err_nomem(&err);
        }
        pl_http_reply_error(req, &err);
        return;
    }
    audit_done(bound->api, route, req, value);
    pl_http_reply_json(req, r ? (unsigned)r : 200, value ? value : json_object());
}

/* A costly request that waits for its turn. */
struct costly {
    struct pl_http_request *req;
    void (*fn)(void *self, struct pl_http_request *req);
    void *self;
};

static void take_turn(void *arg)
{
    struct costly c = *(struct costly *)arg;

    free(arg);
    pl_http_request_enter(c.req);
    c.fn(c.self, c.req);
    pl_http_request_leave();
}

int pl_api_in_turn(struct pl_api *a, struct pl_http_request *req, void (*fn)(void *self, struct pl_http_request *req), void *self,
                   struct pl_err *err)
{
    const struct pl_principal *who = pl_http_context(req);
    struct costly *c = malloc(sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    *c = (struct costly){req, fn, self};
    r = pl_turns_run(a->services.turns, who ? who->name : "", take_turn, c, err);
    if (r < 0)
        free(c);
    return r;
}

static void serve_costly(void *self, struct pl_http_request *req)
{
    serve_request(self, req);
}

static void on_request(struct pl_http_request *req, void *arg)
{
    struct pl_api_bound *bound = arg;
    struct pl_err err = {0};

    if (!bound->route->costly)
        serve_request(bound, req);
    else if (pl_api_in_turn(bound->api, req, serve_costly, bound, &err) < 0)
        pl_http_reply_error(req, &err);
}

static struct pl_http_route route_of(const struct pl_api_route *row, struct pl_api_bound *bound)
{
    return (struct pl_http_route){.method = row->method,
                                  .pattern = row->pattern,
                                  .where = row->on_loop ? PL_ON_LOOP : PL_ON_POOL,
                                  .body = row->body,
                                  .body_max = row->body_max,
                                  .handler = on_request,
                                  .arg = bound,
                                  .access = (unsigned)row->verb | (row->asks ? PL_ACCESS_ASKS : 0) |
                                            (row->somewhere ? PL_ACCESS_SOMEWHERE : 0)};
}

/* Refuses to start with a route that has no verb and so no permission rule. */
static int check_routes(const struct pl_api *a, struct pl_err *err)
{
    for (size_t i = 0; i < a->n_routes; i++)
        if (!pl_permission_rule(PL_ACCESS_VERB(a->routes[i].access)))
            return pl_err_set(err, PL_EINTERNAL, "%s %s: no permission is defined for this route", a->routes[i].method,
                              a->routes[i].pattern);
    return 0;
}

static void add_tables(struct pl_api *a, const struct pl_api_tables *tables)
{
    for (size_t i = 0; i < tables->n; i++)
        a->tables[a->n_tables++] = tables->tables[i];
}

static int collect_tables(struct pl_api *a, struct pl_err *err)
{
    size_t n = own_routes.n;

    for (const struct pl_api_tables *const *t = a->config.tables; *t; t++)
        n += (*t)->n;
    a->tables = calloc(n, sizeof *a->tables);
    if (!a->tables)
        return pl_err_nomem(err);
    add_tables(a, &own_routes);
    for (const struct pl_api_tables *const *t = a->config.tables; *t; t++)
        add_tables(a, *t);
    return 0;
}

static int collect_routes(struct pl_api *a, struct pl_err *err)
{
    size_t n = a->config.n_more_routes;

    for (size_t t = 0; t < a->n_tables; t++)
        n += a->tables[t]->n_routes;
    a->routes = calloc(n + 1, sizeof *a->routes);
    a->bound = calloc(n + 1, sizeof *a->bound);
    if (!a->routes || !a->bound)
        return pl_err_nomem(err);
    for (size_t t = 0; t < a->n_tables; t++) {
        for (size_t i = 0; i < a->tables[t]->n_routes; i++) {
            struct pl_api_bound *bound = &a->bound[a->n_routes];

            *bound = (struct pl_api_bound){a, &a->tables[t]->routes[i]};
            a->routes[a->n_routes++] = route_of(bound->route, bound);
        }
    }
    for (size_t i = 0; i < a->config.n_more_routes; i++)
        a->routes[a->n_routes++] = a->config.more_routes[i];
    return check_routes(a, err);
}

static int open_tables(struct pl_api *a, struct pl_err *err)
{
    int r = 0;

    for (size_t t = 0; t < a->n_tables && r == 0; t++)
        r = a->tables[t]->open ? a->tables[t]->open(a, err) : 0;
    return r;
}

/* ---- start and stop ---- */

static int copy_text(const char **text, struct pl_err *err)
{
    *text = strdup(*text ? *text : "");
    return *text ? 0 : pl_err_nomem(err);
}

/* Copies the configuration and its texts. On failure the texts copied so far belong to the struct and the
 * rest are NULL, so that pl_api_destroy frees none of the caller's. */
static int copy_config(struct pl_api *a, const struct pl_api_config *config, struct pl_err *err)
{
    const char **texts[] = {&a->config.data_dir, &a->config.store_url, &a->config.executor,  &a->config.version,
                            &a->config.token,    &a->config.listen,    &a->config.public_url};
    const char *given[PL_ARRAY_SIZE(texts)];
    int r = 0;

    a->config = *config;
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
        given[i] = *texts[i];
        *texts[i] = NULL;
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts) && r == 0; i++) {
        *texts[i] = given[i];
        r = copy_text(texts[i], err);
    }
    return r;
}

/* Empties DIR/tmp: half-received bodies that a crash has left are useless. */
static int make_tmp(struct pl_api *a, struct pl_err *err)
{
    int r;

    if (asprintf(&a->services.tmp_dir, "%s/tmp", a->config.data_dir) < 0) {
        a->services.tmp_dir = NULL;
        return pl_err_nomem(err);
    }
    r = pl_io_remove_tree(a->services.tmp_dir, err);
    return r < 0 ? r : pl_io_mkdirs(a->services.tmp_dir, 0700, err);
}

/* Sets the services that the configuration supplies; pl_api_start creates the others. */
static void take_services(struct pl_api *a)
{
    const struct pl_api_config *c = &a->config;

    a->services = (struct pl_api_services){.db = c->db,
                                           .stores = c->stores,
                                           .loop = c->loop,
                                           .pool = c->pool,
                                           .token = c->token,
                                           .tls = c->tls,
                                           .per_address = c->per_address,
                                           .run_created = c->engine->run_created,
                                           .engine = c->engine_self};
}

static int make_guard(struct pl_api *a, struct pl_err *err)
{
    struct pl_guard_config config = {.token = a->config.token,
                                     .listen = a->config.listen,
                                     .hosts = a->config.hosts,
                                     .public_url = a->config.public_url,
                                     .worker_url = a->config.worker_url,
                                     .proxy_header = a->config.proxy_header,
                                     .proxy_addresses = a->config.proxy_addresses,
                                     .access = a->services.access,
                                     .sessions = a->services.login_sessions,
                                     .refused = pl_audit_write_refused,
                                     .refused_self = a->services.audit,
                                     .worker = a->config.engine->worker,
                                     .self = a->config.engine_self};

    return pl_guard_create(&config, &a->services.guard, err);
}

static int watch_disks(struct pl_api *a, struct pl_err *err)
{
    struct pl_disk_watch_config config = {.db = a->config.db, .data_dir = a->config.data_dir, .store_dir = a->config.store_dir};

    return pl_disk_watch_create(&config, &a->services.disks, err);
}

static int make_url(struct pl_api *a, struct pl_err *err)
{
    if (!*a->config.public_url)
        return pl_http_listener_url(a->config.listen, pl_api_port(a), a->config.tls, &a->url, err);
    a->url = strdup(a->config.public_url);
    return a->url ? 0 : pl_err_nomem(err);
}

static int make_local_url(struct pl_api *a, struct pl_err *err)
{
    const char *listen = a->config.listen, *colon = strrchr(listen, ':');
    bool own = a->local || pl_http_listens_anywhere(listen);

    if (asprintf(&a->local_url, "http://%.*s:%u", own ? 9 : (int)(colon - listen), own ? "127.0.0.1" : listen,
                 pl_http_server_port(a->local ? a->local : a->server)) < 0)
        a->local_url = NULL;
    return a->local_url ? 0 : pl_err_nomem(err);
}

static int listen_at(struct pl_api *a, const char *listen, bool tls, struct pl_http_server **ret, struct pl_err *err)
{
    struct pl_http_options options = {.listen = listen,
                                      .routes = a->routes,
                                      .n_routes = a->n_routes,
                                      .guard = pl_guard_check,
                                      .guard_arg = a->services.guard,
                                      .private_prefix = "/api/",
                                      .guard_unknown = true,
                                      .loop = a->config.loop,
                                      .pool = a->config.pool,
                                      .threads = API_THREADS,
                                      .per_address = tls ? a->config.per_address : 0,
                                      .tls = tls};
    int r = pl_http_server_start(&options, ret, err);

    if (r == 0)
        pl_guard_add_port(a->services.guard, pl_http_server_port(*ret));
    return r;
}

static int serve(struct pl_api *a, struct pl_err *err)
{
    int r = listen_at(a, a->config.listen, a->config.tls, &a->server, err);

    r = r < 0 || !a->config.tls ? r : listen_at(a, "127.0.0.1:0", false, &a->local, err);
    r = r < 0 ? r : make_local_url(a, err);
    return r < 0 ? r : make_url(a, err);
}

int pl_api_start(const struct pl_api_config *config, struct pl_api **ret, struct pl_err *err)
{
    struct pl_api *a = calloc(1, sizeof *a);
    int r;

    if (!a)
        return pl_err_nomem(err);
    pthread_rwlock_init(&a->secrets, NULL);
    a->started_us = pl_clock_wall_us();
    r = copy_config(a, config, err);
    take_services(a);
    r = r < 0 ? r : make_tmp(a, err);
    r = r < 0 ? r : pl_access_open(a->config.db, a->config.master_key, &a->services.access, err);
    r = r < 0 ? r : pl_login_sessions_open(a->config.db, &a->services.login_sessions, err);
    r = r < 0 ? r : pl_audit_log_create(a->config.db, a->config.pool, &a->services.audit, err);
    r = r < 0 ? r : make_guard(a, err);
    r = r < 0 ? r : collect_tables(a, err);
    r = r < 0 ? r : collect_routes(a, err);
    r = r < 0 ? r : pl_openapi_document(a, &a->openapi, err);
    r = r < 0 ? r : pl_turns_create(a->config.pool, &a->services.turns, err);
    r = r < 0 ? r : pl_upload_sessions_create(&a->sessions, err);
    r = r < 0 ? r : pl_upload_verify_create(a->config.db, a->config.stores, &a->read_back, err);
    r = r < 0 ? r : pl_api_events_open(a, err);
    r = r < 0 ? r : pl_head_cache_create(a->config.db, &a->services.heads, err);
    r = r < 0 ? r : watch_disks(a, err);
    r = r < 0 ? r : open_tables(a, err);
    r = r < 0 ? r : serve(a, err);
    if (r < 0) {
        pl_api_destroy(a);
        return pl_err_wrap(err, r, "API");
    }
    *ret = a;
    return 0;
}

unsigned pl_api_port(const struct pl_api *a)
{
    return pl_http_server_port(a->server);
}

struct pl_api_services *pl_api_services_of(struct pl_api *a)
{
    return &a->services;
}

int pl_api_gc_start(struct pl_api *a, struct pl_err *err)
{
    return pl_gc_start(a->gc, err);
}

const char *pl_api_local_url(const struct pl_api *a)
{
    return a->local_url;
}

void pl_api_check_disks(struct pl_api *a)
{
    pl_disk_watch_look(a->services.disks);
}

void pl_api_drain(struct pl_api *a)
{
    atomic_store(&a->draining, true);
}

void pl_api_stop(struct pl_api *a, int64_t deadline_ms)
{
    pl_api_drain(a);
    pl_run_waiters_stop(a->waits);
    if (a->local)
        pl_http_server_drain(a->local);
    pl_http_server_stop(a->server, deadline_ms);
    if (a->local)
        pl_http_server_stop(a->local, deadline_ms);
    pl_upload_verify_stop(a->read_back);
    a->gc = pl_gc_destroy(a->gc);
    pl_open_commits_stop(
        /* each request has had its reply or was cut off; the data that the daemon has accepted is on disk */
        a->services.opens);
}

struct pl_api *pl_api_destroy(struct pl_api *a)
{
    if (!a)
        return NULL;
    pl_http_server_destroy(a->server);
    pl_gc_destroy(a->gc);
    pl_http_server_destroy(a->local);
    pl_open_commits_close(a->services.opens);
    pl_head_cache_destroy(a->services.heads);
    pl_sse_hub_destroy(a->hub);
    pl_guard_destroy(a->services.guard);
    pl_login_sessions_close(a->services.login_sessions);
    pl_access_close(a->services.access);
    pl_audit_log_destroy(a->services.audit);
    pthread_rwlock_destroy(&a->secrets);
    pl_upload_sessions_destroy(a->sessions);
    pl_upload_verify_destroy(a->read_back);
    pl_disk_watch_destroy(a->services.disks);
    pl_run_waiters_destroy(a->waits);
    pl_graph_views_destroy(a->graphs);
    pl_turns_destroy(a->services.turns);
    pl_buf_finish(&a->openapi);
    free(a->tables);
    free(a->routes);
    free(a->bound);
    free(a->services.tmp_dir);
    free(a->url);
    free(a->local_url);
    free((void *)a->config.data_dir);
    free((void *)a->config.store_url);
    free((void *)a->config.executor);
    free((void *)a->config.version);
    free((void *)a->config.token);
    free((void *)a->config.listen);
    free((void *)a->config.public_url);
    free(a);
    return NULL;
}
