/* The steps of a layout: check, layers, then for each band rows, lanes, geometry and paths. */
#include "pipelined/graph/graph_internal.h"

int pl_graph_check_size(const struct pl_graph *g, struct pl_err *err)
{
    if (g->n_nodes > PL_GRAPH_NODES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "the graph has %u nodes, at most %u are laid out: ask for one project or pipeline",
                          g->n_nodes, PL_GRAPH_NODES_MAX);
    if (g->n_edges > PL_GRAPH_EDGES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "the graph has %u edges, at most %u are laid out: ask for one project or pipeline",
                          g->n_edges, PL_GRAPH_EDGES_MAX);
    return 0;
}

int pl_graph_check(const struct pl_graph *g, struct pl_err *err)
{
    for (uint32_t v = 0; v < g->n_nodes; v++)
        if (g->nodes[v].band >= g->n_bands)
            return pl_err_set(err, PL_EINVAL, "node %u is in band %u of %u", v, g->nodes[v].band, g->n_bands);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const struct pl_graph_edge *edge = &g->edges[e];

        if (edge->from >= g->n_nodes || edge->to >= g->n_nodes)
            return pl_err_set(err, PL_EINVAL, "edge %u goes from node %u to node %u of %u", e, edge->from, edge->to, g->n_nodes);
        if (g->nodes[edge->from].band != g->nodes[edge->to].band)
            return pl_err_set(err, PL_EINVAL, "edge %u goes from band %u to band %u", e, g->nodes[edge->from].band,
                              g->nodes[edge->to].band);
    }
    return 0;
}

/* Sorts the nodes by band and layer; nodes of one layer stay in the order of the input. `nodes` receives them, `at` the
 * start of each band. */
static int sort_nodes(const struct pl_graph *g, const uint32_t *layer, struct pl_arena *arena, uint32_t **ret_nodes,
                      uint32_t **ret_at, struct pl_err *err)
{
    uint32_t *by_layer = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *by_layer),
             *nodes = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *nodes),
             *layer_at = pl_arena_alloc(arena, (g->n_nodes + 2) * sizeof *layer_at),
             *at = pl_arena_alloc(arena, (g->n_bands + 2) * sizeof *at);

    if (!by_layer || !nodes || !layer_at || !at)
        return pl_err_nomem(err);
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        layer_at[layer[v] + 1]++;
        at[g->nodes[v].band + 1]++;
    }
    for (uint32_t l = 0; l < g->n_nodes; l++)
        layer_at[l + 1] += layer_at[l];
    for (uint32_t i = 0; i < g->n_bands; i++)
        at[i + 1] += at[i];
    for (uint32_t v = 0; v < g->n_nodes; v++)
        by_layer[layer_at[layer[v]]++] = v;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        nodes[at[g->nodes[by_layer[i]].band]++] = by_layer[i];
    for (uint32_t i = g->n_bands; i > 0; i--)
        at[i] = at[i - 1];
    at[0] = 0;
    *ret_nodes = nodes;
    *ret_at = at;
    return 0;
}

/* Sets the starts of the band's layers: a node of layer l + 1 reads one of layer l, so that no layer is empty. */
static int find_layers(struct graph_band *b, const uint32_t *layer, struct pl_err *err)
{
    b->n_layers = layer[b->nodes[b->n_nodes - 1]] + 1;
    b->layer_at = pl_arena_alloc(b->arena, (b->n_layers + 1) * sizeof *b->layer_at);
    if (!b->layer_at)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        b->layer_at[layer[b->nodes[i]] + 1] = i + 1;
        b->out->boxes[b->nodes[i]].layer = layer[b->nodes[i]];
    }
    return 0;
}

static int lay_out_band(struct graph_band *b, const uint32_t *layer, int32_t top, struct pl_graph_area *ret, struct pl_err *err)
{
    int r = find_layers(b, layer, err);

    if (r < 0)
        return r;
    pl_graph_rows_find(b);
    r = pl_graph_lanes_find(b, err);
    if (r == 0)
        r = pl_graph_geometry_find(b, top, ret, err);
    return r < 0 ? r : pl_graph_paths_make(b, err);
}

static int open_scratch(struct graph_scratch *s, const struct pl_graph *g, struct pl_arena *arena, struct pl_err *err)
{
    const uint32_t n = g->n_nodes + 2, m = g->n_edges + 2, most = PL_MAX(n, m);

    s->row = pl_arena_alloc(arena, n * sizeof *s->row);
    s->places = pl_arena_alloc(arena, n * sizeof *s->places);
    s->heap = pl_arena_alloc(arena, n * sizeof *s->heap);
    s->medians = pl_arena_alloc(arena, m * sizeof *s->medians);
    s->number = pl_arena_alloc(arena, n * sizeof *s->number);
    s->best_nodes = pl_arena_alloc(arena, n * sizeof *s->best_nodes);
    s->best_rows = pl_arena_alloc(arena, n * sizeof *s->best_rows);
    s->ends = pl_arena_alloc(arena, m * sizeof *s->ends);
    s->after = pl_arena_alloc(arena, n * sizeof *s->after);
    s->after_edge = pl_arena_alloc(arena, n * sizeof *s->after_edge);
    s->waits = pl_arena_alloc(arena, n * sizeof *s->waits);
    s->seen = pl_arena_alloc(arena, n * sizeof *s->seen);
    s->items = pl_arena_alloc(arena, most * sizeof *s->items);
    s->placed = pl_arena_alloc(arena, most * sizeof *s->placed);
    s->track = pl_arena_alloc(arena, most * sizeof *s->track);
    s->at = pl_arena_alloc(arena, most * sizeof *s->at);
    s->any = pl_arena_alloc(arena, 4 * most * sizeof *s->any);
    return s->row && s->places && s->heap && s->medians && s->number && s->best_nodes && s->best_rows && s->ends && s->after &&
                   s->after_edge && s->waits && s->seen && s->items && s->placed && s->track && s->at && s->any
               ? 0
               : pl_err_nomem(err);
}

/* Allocates what all bands share. */
static int open_band(struct graph_band *b, struct pl_err *err)
{
    const uint32_t n = b->g->n_nodes + 1, m = b->g->n_edges + 1;

    b->out->boxes = pl_arena_alloc(b->arena, n * sizeof *b->out->boxes);
    b->out->paths = pl_arena_alloc(b->arena, m * sizeof *b->out->paths);
    b->out->bands = pl_arena_alloc(b->arena, (b->g->n_bands + 1) * sizeof *b->out->bands);
    b->rail_port = pl_arena_alloc(b->arena, n * sizeof *b->rail_port);
    b->before = pl_arena_alloc(b->arena, n * sizeof *b->before);
    b->nets = pl_arena_alloc(b->arena, n * sizeof *b->nets);
    b->way = pl_arena_alloc(b->arena, m * sizeof *b->way);
    b->port = pl_arena_alloc(b->arena, m * sizeof *b->port);
    b->entry_of = pl_arena_alloc(b->arena, m * sizeof *b->entry_of);
    if (!b->out->boxes || !b->out->paths || !b->out->bands || !b->rail_port || !b->before || !b->nets || !b->way || !b->port ||
        !b->entry_of)
        return pl_err_nomem(err);
    return 0;
}

int pl_graph_lay_out(const struct pl_graph *graph, struct pl_arena *arena, struct pl_graph_layout *ret, struct pl_err *err)
{
    struct pl_graph_layout out = {0};
    struct graph_ends ends;
    struct graph_scratch scratch = {0};
    struct graph_band b = {.g = graph, .ends = &ends, .arena = arena, .scratch = &scratch, .out = &out};
    uint32_t *layer = NULL, *nodes = NULL, *at = NULL;
    int r = pl_graph_check_size(graph, err);

    if (r == 0)
        r = pl_graph_check(graph, err);
    if (r == 0)
        r = pl_graph_ends_find(graph, arena, &ends, err);
    if (r == 0)
        r = pl_graph_layers_find(graph, &ends, arena, &layer, err);
    if (r == 0)
        r = sort_nodes(graph, layer, arena, &nodes, &at, err);
    if (r == 0)
        r = open_scratch(&scratch, graph, arena, err);
    if (r == 0)
        r = open_band(&b, err);
    for (uint32_t i = 0; r == 0 && i < graph->n_bands; i++) {
        b.nodes = nodes + at[i];
        b.n_nodes = at[i + 1] - at[i];
        out.bands[i].y = out.h;
        if (!b.n_nodes)
            continue;
        r = lay_out_band(&b, layer, out.h + PL_GRAPH_BAND_HEAD, &out.bands[i], err);
        out.h = out.bands[i].y + out.bands[i].h;
        out.w = PL_MAX(out.w, out.bands[i].w);
    }
    if (r == 0)
        *ret = out;
    return r;
}
