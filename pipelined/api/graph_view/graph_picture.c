/* The picture: what the caller sees, folded if it is large, laid out, as JSON. */
#include "pipelined/api/graph_view/graph_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/alloc_failure.h"

#include <stdio.h>
#include <string.h>

/* One picture while it is made. All of it lives in its arena. */
struct pl_graph_drawing {
    struct pl_arena *arena;
    const struct pl_graph_view *view;
    uint32_t limit; /* nodes of a graph that does not fold */
    bool folds;     /* the graph has more, or one of its pipelines is to be shut */
    struct graph_seen seen;
    struct pl_graph_folding f;
    struct pl_graph_layout l;
    uint32_t *first_node, *first_edge; /* by folded node and edge: the first one that it stands for */
};

/* ---- the key of a picture ---- */

static void add_number(struct pl_hasher *h, uint32_t n)
{
    pl_hasher_add(h, &n, sizeof n);
}

/* Makes the hash of all that the picture depends on. */
static struct pl_hash key_of(const struct pl_graph_drawing *d, uint64_t salt)
{
    const struct graph_seen *seen = &d->seen;
    struct pl_hasher h;
    struct pl_hash key;

    pl_hasher_init(&h);
    pl_hasher_add(&h, &salt, sizeof salt);
    pl_hasher_add(&h, &d->view->version, sizeof d->view->version);
    add_number(&h, d->folds);
    add_number(&h, d->limit == UINT32_MAX && d->folds);
    add_number(&h, seen->bands_left);
    add_number(&h, seen->g.n_nodes);
    for (uint32_t v = 0; v < seen->g.n_nodes; v++) {
        add_number(&h, seen->stage_of[v]);
        add_number(&h, seen->ref_of[v]);
        add_number(&h, seen->nodes[v].band);
        if (d->folds)
            add_number(&h, (uint32_t)seen->nodes[v].keep + 4 * (uint32_t)seen->nodes[v].wish + 16 * seen->nodes[v].spread);
    }
    for (uint32_t e = 0; e < seen->g.n_edges; e++) {
        add_number(&h, seen->edges[e].from);
        add_number(&h, seen->edge_stage[e]);
        add_number(&h, seen->edge_input[e]);
    }
    pl_hasher_get(&h, &key);
    return key;
}

/* ---- JSON ---- */

static json_t *pipelines_json(const struct pl_graph_drawing *d, uint32_t band)
{
    json_t *list = json_array();

    for (uint32_t p = 0; p < d->view->n_pipelines; p++) {
        const struct graph_pipeline *one = &d->view->pipelines[p];

        if (d->seen.band_of[p] == band)
            json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:s*}", "project", one->project, "name", one->name, "version",
                                                  (json_int_t)one->version, "commit", *one->commit ? one->commit : NULL));
    }
    return list;
}

static json_t *bands_json(const struct pl_graph_drawing *d)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < d->f.graph.n_bands; i++) {
        const struct pl_graph_area *a = &d->l.bands[i];

        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:i, s:o}", "x", a->x, "y", a->y, "w", a->w, "h", a->h,
                                              "pipelines", pipelines_json(d, i)));
    }
    return list;
}

/* Adds the members of nodes that stand for several. */
static void add_members(const struct pl_graph_drawing *d, json_t *nodes)
{
    for (uint32_t v = 0; v < d->seen.g.n_nodes; v++) {
        const uint32_t node = d->f.node_of[v];
        json_t *o = json_array_get(nodes, node), *members;

        if (d->f.count[node] < 2)
            continue;
        members = json_object_get(o, "members");
        if (!members) {
            members = json_array();
            json_object_set_new(o, "members", members);
        }
        json_array_append_new(members, json_string(d->view->refs[d->seen.ref_of[v]].key));
    }
}

static json_t *node_json(const struct pl_graph_drawing *d, uint32_t node)
{
    static const char *const kinds[] = {"repo", "stage", "stages", "repos", "pipelines"};
    const struct pl_graph_node *n = &d->f.graph.nodes[node];
    const struct pl_graph_box *box = &d->l.boxes[node];
    const struct graph_pipeline *p = n->pipeline == PL_GRAPH_NONE ? NULL : &d->view->pipelines[n->pipeline];
    const struct graph_ref *ref = &d->view->refs[d->seen.ref_of[d->first_node[node]]];
    const uint32_t stage = d->seen.stage_of[d->first_node[node]];
    json_t *o =
        json_pack("{s:s, s:i, s:s, s:s*, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "kind", kinds[n->kind], "band", (int)n->band,
                  "project", ref->project, "pipeline", p ? p->name : NULL, "x", box->x, "y", box->y, "w", box->w, "h", box->h,
                  "rail", box->rail, "layer", (int)box->layer, "row", (int)box->row, "count", (json_int_t)d->f.count[node]);

    if (d->f.count[node] > 1)
        return o;
    json_object_set_new(o, "key", json_string(ref->key));
    json_object_set_new(o, "name", json_string(ref->repo));
    json_object_set_new(o, "branch", json_string(ref->branch));
    if (stage != PL_GRAPH_NONE)
        json_object_set_new(o, "gpus", json_integer(d->view->stages[stage].gpus));
    return o;
}

static json_t *nodes_json(const struct pl_graph_drawing *d)
{
    json_t *list = json_array();

    for (uint32_t v = 0; v < d->f.graph.n_nodes; v++)
        json_array_append_new(list, node_json(d, v));
    add_members(d, list);
    return list;
}

static json_t *edge_json(const struct pl_graph_drawing *d, uint32_t edge)
{
    const struct pl_graph_edge *e = &d->f.graph.edges[edge];
    const uint32_t first = d->first_edge[edge];
    const struct graph_input *input = &d->view->stages[d->seen.edge_stage[first]].inputs[d->seen.edge_input[first]];
    const struct pl_graph_path *path = &d->l.paths[edge];
    json_t *points = json_array(), *o = json_pack("{s:i, s:i, s:o, s:i}", "from", (int)e->from, "to", (int)e->to, "points",
                                                  points, "count", (int)d->f.edge_count[edge]);

    for (uint32_t i = 0; i < path->n; i++) {
        json_array_append_new(points, json_integer(path->points[i].x));
        json_array_append_new(points, json_integer(path->points[i].y));
    }
    if (d->f.edge_count[edge] > 1)
        return o;
    json_object_set_new(o, "input", json_string(input->name));
    json_object_set_new(o, "glob", json_string(input->glob));
    if (input->n_files) {
        json_t *files = json_array();

        for (size_t i = 0; i < input->n_files; i++)
            json_array_append_new(files, json_string(input->files[i]));
        json_object_set_new(o, "files", files);
    }
    return o;
}

static json_t *edges_json(const struct pl_graph_drawing *d)
{
    json_t *list = json_array();

    for (uint32_t e = 0; e < d->f.graph.n_edges; e++)
        json_array_append_new(list, edge_json(d, e));
    return list;
}

/* Writes the picture as JSON text. */
static int write_picture(const struct pl_graph_drawing *d, struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *o = NULL;
    _cleanup_free_ char *text = NULL;
    char version[GRAPH_VERSION_HEX + 1];

    pl_graph_version_text(d->view, version);
    o = json_pack("{s:s, s:i, s:i, s:i, s:b, s:I, s:o, s:o, s:o}", "version", version, "w", d->l.w, "h", d->l.h, "total",
                  (int)d->seen.g.n_nodes, "folded", d->f.graph.n_nodes < d->seen.g.n_nodes, "bands_left",
                  (json_int_t)d->seen.bands_left, "bands", bands_json(d), "nodes", nodes_json(d), "edges", edges_json(d));
    text = o ? pl_json_text(o, JSON_COMPACT) : NULL;
    if (!text || pl_alloc_failure_take()) /* parts of the value may be missing */
        return pl_err_nomem(err);
    return pl_buf_add(ret, text, strlen(text), err);
}

/* ---- drawing ---- */

/* Finds the first node and edge that each folded one stands for. */
static int find_first(struct pl_graph_drawing *d, struct pl_err *err)
{
    d->first_node = pl_arena_alloc(d->arena, (d->f.graph.n_nodes + 1) * sizeof *d->first_node);
    d->first_edge = pl_arena_alloc(d->arena, (d->f.graph.n_edges + 1) * sizeof *d->first_edge);
    if (!d->first_node || !d->first_edge)
        return pl_err_nomem(err);
    for (uint32_t v = d->seen.g.n_nodes; v-- > 0;)
        d->first_node[d->f.node_of[v]] = v;
    for (uint32_t e = d->seen.g.n_edges; e-- > 0;)
        if (d->f.edge_of[e] != PL_GRAPH_NONE)
            d->first_edge[d->f.edge_of[e]] = e;
    return 0;
}

/* Marks the refs with these keys. */
static void find_named(const struct pl_graph_view *view, const char *const *keys, size_t n, bool *named)
{
    char text[GRAPH_REF_SIZE];

    for (size_t i = 0; i < n; i++) {
        uint32_t ref;

        snprintf(text, sizeof text, strchr(keys[i], '@') ? "%s" : "%s@" GRAPH_USUAL_BRANCH, keys[i]);
        ref = pl_graph_number_in(&view->by_name, text);
        if (ref != PL_GRAPH_NONE && pl_streq(view->refs[ref].key, keys[i]))
            named[ref] = true;
    }
}

/* Keeps the stages out of the folding that run or failed, and what the caller names. */
static int keep_some(struct pl_graph_drawing *d, struct pl_conn *c, const struct pl_graph_ask *ask, struct pl_err *err)
{
    const size_t n = d->view->n_refs + 1;
    bool *keep = pl_arena_alloc(d->arena, (d->view->n_stages + 1) * sizeof *keep), *named = pl_arena_alloc(d->arena, n),
         *spread = pl_arena_alloc(d->arena, n);
    int r = keep && named && spread ? pl_graph_state_stands_out(d->view, c, keep, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    find_named(d->view, ask->keep, ask->n_keep, named);
    find_named(d->view, ask->spread, ask->n_spread, spread);
    for (uint32_t v = 0; v < d->seen.g.n_nodes; v++) {
        struct pl_graph_node *node = &d->seen.nodes[v];
        const uint32_t ref = d->seen.ref_of[v], stage = d->seen.stage_of[v];

        node->keep = named[ref] ? PL_GRAPH_KEEPS : stage != PL_GRAPH_NONE && keep[stage] ? PL_GRAPH_STANDS_OUT : PL_GRAPH_FOLDS;
        node->spread = spread[ref];
    }
    return 0;
}

static bool is_named(const struct graph_pipeline *p, const char *const *names, size_t n)
{
    const size_t project = strlen(p->project);

    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], p->project, project) == 0 && names[i][project] == '/' && pl_streq(names[i] + project + 1, p->name))
            return true;
    return false;
}

/* Sets how the pipelines are to fold. Returns whether one of them is to be shut. PL_ENOMEM. */
static int set_wishes(struct pl_graph_drawing *d, const struct pl_graph_ask *ask, struct pl_err *err)
{
    enum pl_graph_wish *wish = pl_arena_alloc(d->arena, (d->view->n_pipelines + 1) * sizeof *wish);
    int shut = 0;

    if (!wish)
        return pl_err_nomem(err);
    for (uint32_t p = 0; p < d->view->n_pipelines; p++) {
        const struct graph_pipeline *one = &d->view->pipelines[p];

        wish[p] = is_named(one, ask->shut, ask->n_shut)   ? PL_GRAPH_SHUT
                  : is_named(one, ask->open, ask->n_open) ? PL_GRAPH_OPEN
                                                          : PL_GRAPH_AS_FITS;
    }
    for (uint32_t v = 0; v < d->seen.g.n_nodes; v++)
        if (d->seen.stage_of[v] != PL_GRAPH_NONE) {
            d->seen.nodes[v].wish = wish[d->seen.nodes[v].pipeline];
            shut = shut || d->seen.nodes[v].wish == PL_GRAPH_SHUT;
        }
    return shut;
}

bool pl_graph_etag_is_known(const char *known, const char *etag)
{
    return known && (pl_streq(known, "*") || strstr(known, etag));
}

int pl_graph_drawing_begin(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask,
                           struct pl_graph_drawing **ret, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_drawing *d = arena ? pl_arena_alloc(arena, sizeof *d) : NULL;
    int r;

    if (!d)
        return pl_err_nomem(err);
    d->arena = arena;
    d->view = view;
    d->limit = ask->fold ? PL_GRAPH_FOLD_LIMIT : UINT32_MAX;
    r = pl_graph_seen_find(view, ask, PL_GRAPH_BANDS_MAX, arena, &d->seen, err);
    r = r < 0 ? r : set_wishes(d, ask, err);
    d->folds = r > 0 || (r == 0 && d->seen.g.n_nodes > d->limit);
    if (d->folds)
        r = keep_some(d, c, ask, err);
    if (r < 0)
        return r;
    TAKE_PTR(arena);
    *ret = d;
    return 0;
}

struct pl_graph_drawing *pl_graph_drawing_destroy(struct pl_graph_drawing *d)
{
    if (d)
        pl_arena_destroy(d->arena); /* the drawing itself lies there */
    return NULL;
}

int pl_graph_picture(struct pl_graph_views *views, struct pl_graph_drawing *d, const char *known,
                     char ret_etag[PL_GRAPH_ETAG_SIZE], struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const struct pl_hash key = key_of(d, pl_graph_views_salt(views));
    char hex[PL_HASH_HEX + 1];
    int r;

    snprintf(ret_etag, PL_GRAPH_ETAG_SIZE, "\"%.32s\"", pl_hash_hex(&key, hex));
    if (pl_graph_etag_is_known(known, ret_etag))
        return 0;
    r = pl_graph_picture_recall(views, &key, ret, err);
    if (r != 0)
        return PL_MIN(r, 0);
    r = pl_graph_fold(&d->seen.g, d->limit, d->arena, &d->f, err);
    r = r < 0 ? r : pl_graph_lay_out(&d->f.graph, d->arena, &d->l, err);
    r = r < 0 ? r : find_first(d, err);
    r = r < 0 ? r : write_picture(d, &text, err);
    r = r < 0 ? r : pl_buf_add(ret, text.data, text.len, err);
    if (r == 0)
        pl_graph_picture_keep(views, &key, &text);
    return r;
}
