/* api_context: the API's state and helpers for route handlers. Each file routes_<noun>.c has the handlers,
 * the route rows and the reply schemas of one subject, and is listed once in a list of tables (data_routes.c,
 * run_routes.c, api.c). api.c registers all rows with the server; openapi.c describes them. */
#pragma once

#include "pipelined/api/server/api.h"
#include "pipelined/api/server/run_waiters.h"
#include "pipelined/api/transfer/transfer.h"
#include "pipelined/db/gc/gc.h"
#include <pthread.h>
#include <stdatomic.h>

#define PL_API_LIMIT_DEFAULT 1000u
#define PL_API_LIMIT_MAX     10000u

struct pl_api;

/* Handles a request. On success gives the reply as a new reference and returns its HTTP status (0 = 200); on
 * failure the reply is `err`. On the pool, unless the route has on_loop. */
typedef int (*pl_api_json_fn)(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err);
/* Handles a request and replies by itself, exactly once. */
typedef void (*pl_api_raw_fn)(struct pl_api *a, struct pl_http_request *req);

/* One route. Its handler runs on the pool and receives no body, unless a field says otherwise. */
struct pl_api_route {
    const char *method, *pattern;
    pl_api_json_fn json; /* the route's handler, if it returns JSON; else NULL */
    pl_api_raw_fn raw;   /* the route's handler, if it replies by itself; else NULL */
    enum pl_http_body body;
    uint64_t body_max; /* bytes, as in pl_http_route */
    enum pl_verb verb; /* required: the verb that a principal must be allowed */
    bool on_loop;      /* run on the loop: the handler needs neither the pool nor the database */
    bool costly;       /* may take long: costly requests of one principal run in turns (pool_turns.h) */
    /* with `asks`: refuse, before the body is received, a principal that has the verb's role nowhere */
    bool somewhere;
    bool audits; /* the handler writes the audit entry itself */
    bool asks;   /* the body or query names the project or repo: the handler checks with pl_api_may */
    /* The fields below are for the OpenAPI document. */
    const char *summary; /* one sentence; required */
    /* query arguments, "after limit:integer force:boolean files*"; the default type is string; * = may be
     * repeated */
    const char *query;
    const char *request; /* schema of the body, or its media type (which contains '/'); NULL = no body */
    const char *reply;   /* schema of the reply's JSON, or the reply's media type; NULL = no body */
};

/* A JSON object of the API: "name:string size:integer next:string? entries:Entry[]". Types: string, integer,
 * boolean, object, any, number, or the name of a schema; [] after it: an array; ? at the end: may be absent
 * or null. */
struct pl_api_schema {
    const char *name, *fields;
};

struct pl_api_table {
    const struct pl_api_route *routes;
    size_t n_routes;
    const struct pl_api_schema *schemas;
    size_t n_schemas;
    /* Creates what the handlers need. Called before the server starts, in the order of the tables. NULL =
     * nothing. */
    int (*open)(struct pl_api *a, struct pl_err *err);
};
#define PL_API_TABLE_OPENED(noun, routes_, schemas_, open_)                                                                      \
    const struct pl_api_table pl_api_routes_##noun = {routes_, PL_ARRAY_SIZE(routes_), schemas_, PL_ARRAY_SIZE(schemas_), open_}
#define PL_API_TABLE(noun, routes_, schemas_) PL_API_TABLE_OPENED(noun, routes_, schemas_, NULL)
/* Declare a table, and add it to a list of tables. */
#define PL_API_TABLE_DECLARE(noun) extern const struct pl_api_table pl_api_routes_##noun;
#define PL_API_TABLE_ADDRESS(noun) &pl_api_routes_##noun,

/* Returns all tables in order, `*ret_n` of them: the API's own and those of its configuration. */
const struct pl_api_table *const *pl_api_tables(const struct pl_api *a, size_t *ret_n);

/* Progress of the store check that runs, or of the last one. */
struct pl_api_check {
    _Atomic bool running, full;
    const char *_Atomic stage; /* name of the current step of the check; a constant string */
    _Atomic uint64_t done, total, found;
};

/* Pack traffic since the start: bytes through the daemon, bytes of offered files, and URLs for direct transfers. */
struct pl_api_moved {
    _Atomic uint64_t bytes_in, bytes_out;
    _Atomic uint64_t bytes_offered;      /* in files that clients wrote into the daemon's folder (object_offer.h) */
    _Atomic uint64_t urls_get, urls_put; /* presigned URLs given to clients */
};

struct pl_api {
    /* Settings. The struct owns copies of the texts, except `more_routes`, `hosts`, `worker_url` and
     * `proxy_…`, which are used only while the API starts. */
    struct pl_api_config config;
    /* db, stores, loop, pool, token, tls and per_address are copies of those in `config` */
    struct pl_api_services services;
    struct pl_http_server *server;
    struct pl_http_server *local;       /* with TLS, a second listener: plain HTTP on loopback; else NULL */
    const struct pl_api_table **tables; /* all route tables, as pl_api_tables returns them */
    size_t n_tables;
    struct pl_http_route *routes;
    struct pl_api_bound *bound; /* arguments of the rows' handlers; defined in api.c */
    size_t n_routes;
    struct pl_sse_hub *hub;
    /* held shared while a secret is set, exclusively while a project is created or deleted */
    pthread_rwlock_t secrets;
    char *url; /* URL shown to people: public_url, or http://host:port */
    char *local_url;
    struct pl_buf openapi;
    struct pl_sessions *sessions;
    struct pl_read_back *read_back;
    struct pl_api_moved moved;
    struct pl_run_waits *waits;
    struct pl_graph_views *graphs;
    int64_t started_us;    /* wall clock */
    _Atomic bool draining; /* set when the daemon begins to end */
    struct pl_api_check check;
    struct pl_gc *gc;
};

/* ---- helpers for handlers ---- */

/* To read the database: `_cleanup_(pl_db_reading_finish) struct pl_db_reading rd =
 * pl_db_read(a->config.db);`. Release it before sending bytes to the client. */
/* Opens a database reading for lists: the SQL function readable(project, name) then says what the request's
 * principal may read (sql.h). */
struct pl_db_reading pl_api_read(struct pl_api *a, const struct pl_http_request *req);

/* Checks that the request's principal may do `verb` on the repo (principal.h). PL_EFORBIDDEN. */
PL_MUST_CHECK
int pl_api_may(const struct pl_http_request *req, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err);

/* Calls fn(self, req), which replies, on the pool when it is the principal's turn (pool_turns.h).
 * PL_EBUSY, PL_ENOMEM: not called. */
PL_MUST_CHECK
int pl_api_in_turn(struct pl_api *a, struct pl_http_request *req, void (*fn)(void *self, struct pl_http_request *req), void *self,
                   struct pl_err *err);

/* Parses the JSON body as an object, with a jansson format under JSON_STRICT ("{s:s, s?:b}": flat, each key
 * followed by the address of its value). The error for an unknown field or a wrong type names it. Texts live
 * as long as `*ret_body`, which the caller owns. PL_EINVAL. */
PL_MUST_CHECK
int pl_api_body(struct pl_http_request *req, json_t **ret_body, struct pl_err *err, const char *fmt, ...);

/* The query arguments "after" and "limit" of a list. */
struct pl_api_page {
    const char *after; /* the position after which the page begins; NULL = the start of the list */
    size_t limit;
};
/* Reads the arguments "after" and "limit" of the request; `limit` must be 1..PL_API_LIMIT_MAX. PL_EINVAL. */
PL_MUST_CHECK
int pl_api_page_read(const struct pl_http_request *req, struct pl_api_page *ret, struct pl_err *err);
/* Reads `after` for a list whose positions are numbers from 0 on; `start` if it is not given. PL_EINVAL,
 * field "after". */
PL_MUST_CHECK
int pl_api_page_number(const struct pl_api_page *page, int64_t start, int64_t *ret, struct pl_err *err);
/* Sets and returns the error for an `after` that is not a position in the list: PL_EINVAL, field "after". */
int pl_api_page_refuse(const struct pl_api_page *page, struct pl_err *err);
/* Makes {name: items, "next": next}. Takes `items`; `next` NULL = the list is complete. */
json_t *pl_api_list(const char *name, json_t *items, const char *next);

/* Finds the commit that the pattern's {project}, {repo} and {ref} name, with a database reader of its own. */
PL_MUST_CHECK
int pl_api_commit(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_row *ret, struct pl_err *err);
/* Like pl_api_commit, but for the ref `ref` ("" = master) instead of the pattern's {ref}. */
PL_MUST_CHECK
int pl_api_commit_at(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_row *ret,
                     struct pl_err *err);
/* Checks that the project exists. "default" always does, because pipelines upload their code before it has a
 * repo. PL_ENOTFOUND, PL_ENAME. */
PL_MUST_CHECK
int pl_api_project(struct pl_conn *c, const char *project, struct pl_err *err);
/* Like pl_api_project, but PL_ENOTFOUND says which projects there are. `c` is from pl_api_read. */
PL_MUST_CHECK
int pl_api_project_listed(struct pl_conn *c, const char *project, struct pl_err *err);
/* Reads the query's `project`, to which a list is limited; NULL = to none. Errors of pl_api_project_listed. */
PL_MUST_CHECK
int pl_api_project_filter(const struct pl_http_request *req, struct pl_conn *c, const char **ret, struct pl_err *err);
/* Opens the store of the pattern's {project}, or of `project`. PL_ENOTFOUND for a project that does not
 * exist: no folders are made for it. */
PL_MUST_CHECK
int pl_api_store(struct pl_api *a, const struct pl_http_request *req, struct pl_store **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_api_store_named(struct pl_api *a, const char *project, struct pl_store **ret, struct pl_err *err);
/* Reads a query argument as a canonical path; "" if absent. `out` holds PL_PATH_MAX_BYTES + 1 bytes.
 * PL_EPATH. */
PL_MUST_CHECK
int pl_api_path_arg(const struct pl_http_request *req, const char *name, char *out, struct pl_err *err);

/* Creates the event hub, which starts after the newest event in the database. Call it before the server
 * serves. */
PL_MUST_CHECK
int pl_api_events_open(struct pl_api *a, struct pl_err *err);
/* Returns the time as JSON; null for 0 (not known yet, or SQL NULL). */
json_t *pl_api_time_or_null(int64_t us);
/* Returns 64 hex digits; "" for an all-zero hash. */
json_t *pl_api_hash_json(const struct pl_hash *h);
/* Returns "file", "exec", "link" or "dir". */
const char *pl_api_kind_name(uint8_t kind);
