/* api_internal: what the files of pipelined/api share. One file a noun (routes_<noun>.c) holds the handlers, the rows of its routes and
 * the shapes of what it answers, and is named once in a list of tables (data_routes.c, run_routes.c, api.c); api.c hands all rows to the
 * server, openapi.c describes them. */
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

/* Gives the answer as a new reference and returns its status (0 = 200), or fails: the error is the answer then. */
typedef int (*pl_api_json_fn)(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err);
/* Replies by itself, exactly once. */
typedef void (*pl_api_raw_fn)(struct pl_api *a, struct pl_http_request *req);

/* One route: its handler runs on the pool. Rows that say nothing about it take no body. */
struct pl_api_route {
    const char *method, *pattern;
    pl_api_json_fn json; /* this, */
    pl_api_raw_fn raw;   /* or this */
    enum pl_http_body body;
    uint64_t body_max; /* as in pl_http_route */
    enum pl_verb verb; /* required: who may */
    bool on_loop;      /* answers at once, on the loop: it needs neither the pool nor the database */
    bool costly;       /* it may take long: those of one principal by turns (turns.h) */
    bool somewhere;    /* with `asks`: who has the verb's role nowhere is refused before the body comes */
    bool audits;       /* it writes what it does into the audit itself */
    bool asks;         /* of the project or repo that its body or query names: pl_api_may */
    /* For the OpenAPI document: */
    const char *summary; /* one sentence; required */
    const char *query;   /* "after limit:integer force:boolean files*": arguments, a string each unless said; * may be repeated */
    const char *request; /* shape of the body: a schema's name, or a media type (it has a '/'); NULL = none */
    const char *reply;   /* the same of the answer */
};

/* A JSON object of the interface: "name:string size:integer next:string? entries:Entry[]". Types: string, integer, boolean, object, any,
 * or a schema's name; [] behind it: an array; ? behind all: may be absent or null. */
struct pl_api_schema {
    const char *name, *fields;
};

struct pl_api_table {
    const struct pl_api_route *routes;
    size_t n_routes;
    const struct pl_api_schema *schemas;
    size_t n_schemas;
    /* Makes what the rows need, before the server serves, and after what the tables before this one need. NULL = nothing. */
    int (*open)(struct pl_api *a, struct pl_err *err);
};
#define PL_API_TABLE_OPENED(noun, routes_, schemas_, open_)                                                                      \
    const struct pl_api_table pl_api_routes_##noun = {routes_, PL_ARRAY_SIZE(routes_), schemas_, PL_ARRAY_SIZE(schemas_), open_}
#define PL_API_TABLE(noun, routes_, schemas_) PL_API_TABLE_OPENED(noun, routes_, schemas_, NULL)
/* What a list of tables is made of. */
#define PL_API_TABLE_DECLARE(noun) extern const struct pl_api_table pl_api_routes_##noun;
#define PL_API_TABLE_ADDRESS(noun) &pl_api_routes_##noun,

/* All tables in order, `*ret_n` of them: the API's own, and those of its config. */
const struct pl_api_table *const *pl_api_tables(const struct pl_api *a, size_t *ret_n);

/* The check of the store that is under way, or the last one. */
struct pl_api_check {
    _Atomic bool running, full;
    const char *_Atomic stage; /* a constant */
    _Atomic uint64_t done, total, found;
};

/* What of packs went through the daemon, and what did not, since the start. */
struct pl_api_moved {
    _Atomic uint64_t bytes_in, bytes_out;
    _Atomic uint64_t urls_get, urls_put; /* given to others */
};

struct pl_api {
    struct pl_api_config config;     /* texts are this struct's own, but for `more_routes`, and `hosts`,
                                    `worker_url`, `proxy_…`, which are read at the start alone */
    struct pl_api_services services; /* db, stores, loop, pool, token, tls and per_address as in `config` */
    struct pl_http_server *server;
    struct pl_http_server *local;       /* beside one with TLS: plain, on loopback; else NULL */
    const struct pl_api_table **tables; /* pl_api_tables */
    size_t n_tables;
    struct pl_http_route *routes;
    struct pl_api_bound *bound; /* what the rows' handlers get: api.c */
    size_t n_routes;
    struct pl_sse_hub *hub;
    pthread_rwlock_t secrets; /* who gives a project some shares it; who makes or deletes a project has it alone */
    char *url;                /* for people: public_url, or http://host:port */
    char *local_url;
    struct pl_buf openapi;
    struct pl_sessions *sessions;
    struct pl_read_back *read_back;
    struct pl_api_moved moved;
    struct pl_run_waits *waits;
    _Atomic bool draining; /* the daemon ends */
    struct pl_api_check check;
    struct pl_gc *gc;
};

/* ---- what handlers need ---- */

/* Reading: `_cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);`. Not held while bytes are sent. */
/* The same for lists: readable(project, name) in SQL is what who asks may read (sql.h). */
struct pl_db_reading pl_api_read(struct pl_api *a, const struct pl_http_request *req);

/* Whether who asks may do `verb` there (principal.h). PL_EFORBIDDEN. */
PL_MUST_CHECK
int pl_api_may(const struct pl_http_request *req, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err);

/* Calls fn(self, req), which replies, when it is the turn of who asks (turns.h). PL_EBUSY, PL_ENOMEM: it is not called. */
PL_MUST_CHECK
int pl_api_in_turn(struct pl_api *a, struct pl_http_request *req, void (*fn)(void *self, struct pl_http_request *req), void *self,
                   struct pl_err *err);

/* The JSON body as object, taken apart by jansson's format with JSON_STRICT ("{s:s, s?:b}": flat, a key and where its value goes): an
 * unknown field or a wrong type is refused by name. Texts live as long as `*ret_body`. PL_EINVAL. */
PL_MUST_CHECK
int pl_api_body(struct pl_http_request *req, json_t **ret_body, struct pl_err *err, const char *fmt, ...);

/* "after" and "limit" of a list. */
struct pl_api_page {
    const char *after; /* NULL = from the start */
    size_t limit;
};
/* `limit` 1..PL_API_LIMIT_MAX. PL_EINVAL. */
PL_MUST_CHECK
int pl_api_page_read(const struct pl_http_request *req, struct pl_api_page *ret, struct pl_err *err);
/* `after` of a list whose places are numbers from 0 on; `start` when it was not given. PL_EINVAL, field "after". */
PL_MUST_CHECK
int pl_api_page_number(const struct pl_api_page *page, int64_t start, int64_t *ret, struct pl_err *err);
/* `after` is no place of this list: PL_EINVAL, field "after". */
int pl_api_page_refuse(const struct pl_api_page *page, struct pl_err *err);
/* {name: items, "next": next}; takes `items`; `next` NULL = the list is at its end. */
json_t *pl_api_list(const char *name, json_t *items, const char *next);

/* The commit that the pattern's {project}, {repo} and {ref} name, in a reading of its own. */
PL_MUST_CHECK
int pl_api_commit(struct pl_api *a, const struct pl_http_request *req, struct pl_commit_row *ret, struct pl_err *err);
/* The same with the text of the ref ("" = master). */
PL_MUST_CHECK
int pl_api_commit_at(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_row *ret,
                     struct pl_err *err);
/* That the project exists. "default" always does: pipelines bring their code before they have a repo. PL_ENOTFOUND, PL_ENAME. */
PL_MUST_CHECK
int pl_api_project(struct pl_conn *c, const char *project, struct pl_err *err);
/* The store of the pattern's {project}, which must exist: asking makes no folders. */
PL_MUST_CHECK
int pl_api_store(struct pl_api *a, const struct pl_http_request *req, struct pl_store **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_api_store_named(struct pl_api *a, const char *project, struct pl_store **ret, struct pl_err *err);
/* A query argument as canonical path; "" when absent. `out` holds PL_PATH_MAX_BYTES + 1. PL_EPATH. */
PL_MUST_CHECK
int pl_api_path_arg(const struct pl_http_request *req, const char *name, char *out, struct pl_err *err);

/* Reads the event table's end and makes the hub. Before the server serves. */
PL_MUST_CHECK
int pl_api_events_open(struct pl_api *a, struct pl_err *err);
/* SQL NULL or 0 as JSON null, else the number: times that may not have come. */
json_t *pl_api_time_or_null(int64_t us);
/* 64 hex digits; "" for zeros. */
json_t *pl_api_hash_json(const struct pl_hash *h);
/* "file", "exec", "link", "dir". */
const char *pl_api_kind_name(uint8_t kind);
