/* The graph of repos and stages: its picture, and apart from it the state of its nodes. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/graph_view/graph_view.h"

#include <stdio.h>

static int open_graph(struct pl_api *a, struct pl_err *err)
{
    return pl_graph_views_create(&a->graphs, err);
}

#define BAND_MAX (1u << 30)

/* What a request asks for. */
struct asked {
    struct pl_graph_ask ask;
    const char *keep[PL_GRAPH_KEEP_MAX];
    const char *spread[PL_GRAPH_WISHES_MAX], *open[PL_GRAPH_WISHES_MAX], *shut[PL_GRAPH_WISHES_MAX];
};

/* Reads a parameter that may be given up to `max` times. */
static int read_keys(const struct pl_http_request *req, const char *name, const char **keys, size_t max, size_t *ret,
                     struct pl_err *err)
{
    size_t n = 0;

    for (const char *key; (key = pl_http_query_at(req, name, n)); n++) {
        if (n == max)
            return pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s is given more than %zu times", name, max), name);
        keys[n] = key;
    }
    *ret = n;
    return 0;
}

static int read_ask(const struct pl_http_request *req, struct asked *ret, struct pl_err *err)
{
    uint64_t band = 0;
    int r;

    *ret = (struct asked){.ask = {.project = pl_http_query(req, "project"),
                                  .pipeline = pl_http_query(req, "pipeline"),
                                  .fold = !pl_http_query(req, "fold") || pl_http_query_flag(req, "fold"),
                                  .keep = ret->keep,
                                  .spread = ret->spread,
                                  .open = ret->open,
                                  .shut = ret->shut,
                                  .readable = pl_access_may_read,
                                  .who = pl_http_context(req)}};
    r = pl_http_query_u64(req, "band", 0, BAND_MAX, &band, err);
    ret->ask.band = (uint32_t)band;
    r = r < 0 ? r : read_keys(req, "keep", ret->keep, PL_GRAPH_KEEP_MAX, &ret->ask.n_keep, err);
    r = r < 0 ? r : read_keys(req, "spread", ret->spread, PL_GRAPH_WISHES_MAX, &ret->ask.n_spread, err);
    r = r < 0 ? r : read_keys(req, "open", ret->open, PL_GRAPH_WISHES_MAX, &ret->ask.n_open, err);
    return r < 0 ? r : read_keys(req, "shut", ret->shut, PL_GRAPH_WISHES_MAX, &ret->ask.n_shut, err);
}

/* Replies with JSON text and its ETag, or with 304 if `known` is true. Takes the bytes. */
static void reply(struct pl_http_request *req, const char *etag, bool known, struct pl_buf *text)
{
    pl_http_reply_header(req, "ETag", etag);
    pl_http_reply_header(req, "Cache-Control", "private, no-cache");
    if (known)
        pl_http_reply(req, 304, NULL, NULL, 0);
    else
        pl_http_reply_buf(req, 200, "application/json", text);
}

/* Begins the picture; only this step holds a database connection. */
static int begin_picture(struct pl_api *a, struct pl_http_request *req, struct pl_graph_view **ret_view,
                         struct pl_graph_drawing **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    struct asked asked;
    int r = read_ask(req, &asked, err);

    r = r < 0 ? r : pl_graph_view_get(a->graphs, rd.conn, ret_view, err);
    return r < 0 ? r : pl_graph_drawing_begin(*ret_view, rd.conn, &asked.ask, ret, err);
}

static int make_picture(struct pl_api *a, struct pl_http_request *req, char etag[PL_GRAPH_ETAG_SIZE], struct pl_buf *ret,
                        struct pl_err *err)
{
    _cleanup_(pl_graph_view_unrefp) struct pl_graph_view *view = NULL;
    _cleanup_(pl_graph_drawing_destroyp) struct pl_graph_drawing *drawing = NULL;
    int r = begin_picture(a, req, &view, &drawing, err);

    return r < 0 ? r : pl_graph_picture(a->graphs, drawing, pl_http_header(req, "If-None-Match"), etag, ret, err);
}

static void get_graph(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    char etag[PL_GRAPH_ETAG_SIZE];
    struct pl_err err = {0};

    if (make_picture(a, req, etag, &text, &err) < 0)
        pl_http_reply_error(req, &err);
    else
        reply(req, etag, text.len == 0, &text);
}

static int make_state(struct pl_api *a, struct pl_http_request *req, struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_graph_view_unrefp) struct pl_graph_view *view = NULL;
    struct asked asked;
    int r = read_ask(req, &asked, err);

    r = r < 0 ? r : pl_graph_view_get(a->graphs, rd.conn, &view, err);
    return r < 0 ? r : pl_graph_state(view, rd.conn, &asked.ask, ret, err);
}

static void get_state(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const char *known = pl_http_header(req, "If-None-Match");
    char etag[PL_GRAPH_ETAG_SIZE], hex[PL_HASH_HEX + 1];
    struct pl_err err = {0};
    struct pl_hash hash;

    if (make_state(a, req, &text, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    pl_hash_sha256(text.data, text.len, &hash);
    snprintf(etag, sizeof etag, "\"%.32s\"", pl_hash_hex(&hash, hex));
    reply(req, etag, pl_graph_etag_is_known(known, etag), &text);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/graph",
     .raw = get_graph,
     .costly = true,
     .verb = PL_VERB_LIST,
     .summary =
         "Returns the graph of repos and stages with the places of its boxes and the paths of its edges, in px. A graph of "
         "more than 200 nodes is folded, unless `fold` is false; `keep` names nodes that stay out. `spread` names nodes of "
         "which none that is alike folds, `open` pipelines that do not become one box, and `shut` those that do, each as "
         "PROJECT/NAME. At most 500 bands come at once, those from number `band` on; `bands_left` says how many follow. The "
         "ETag changes with the picture.",
     .query = "project pipeline fold:boolean keep* spread* open* shut* band:integer",
     .reply = "Graph"},
    {.method = "GET",
     .pattern = "/api/v1/graph/state",
     .raw = get_state,
     .verb = PL_VERB_LIST,
     .summary = "Returns what the stages and repos of the graph do and hold now, by the keys of its nodes.",
     .query = "project pipeline",
     .reply = "GraphState"},
};

static const struct pl_api_schema schemas[] = {
    /* total: nodes before folding */
    {"Graph",
     "version:string w:integer h:integer total:integer folded:boolean bands_left:integer bands:GraphBand[] nodes:GraphNode[] "
     "edges:GraphEdge[]"},
    {"GraphBand", "x:integer y:integer w:integer h:integer pipelines:GraphPipeline[]"},
    {"GraphPipeline", "project:string name:string version:integer commit:string?"},
    /* kind: repo, stage, stages, repos, pipelines; key: of one repo or stage; members: keys of several; an edge leaves right of the
     * box on its rail */
    {"GraphNode",
     "kind:string band:integer project:string pipeline:string? key:string? name:string? branch:string? gpus:integer? "
     "count:integer members:string[]? x:integer y:integer w:integer h:integer rail:integer layer:integer "
     "row:integer"},
    /* points: x, y, x, y …; from, to: numbers of nodes; input, glob and files only if it is one edge (count 1) */
    {"GraphEdge", "from:integer to:integer count:integer input:string? glob:string? files:string[]? points:integer[]"},
    {"GraphState", "version:string stages:StageState[] repos:RepoState[]"},
    /* state: none, waiting, starting, running, finishing, done, partly_failed, failed, stopped, superseded, not_run */
    {"StageState", "key:string project:string name:string state:string reason:string? run:string? datums:GraphDatums? "
                   "device:string? created_us:integer? started_us:integer? finished_us:integer? stopped:boolean stale:boolean "
                   "code:string? commit:GraphCommit?"},
    {"RepoState", "key:string project:string name:string branch:string exists:boolean commit:GraphCommit?"},
    {"GraphDatums", "total:integer reused:integer done:integer failed:integer"},
    {"GraphCommit", "id:string files:integer bytes:integer author:string message:string created_us:integer"},
};
PL_API_TABLE_OPENED(graph, routes, schemas, open_graph);
