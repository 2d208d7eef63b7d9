/* Edges by their ends, and layers: Kahn's topological order, which gives the longest path to each node. */
#include "pipelined/graph/graph_internal.h"

/* Counting sort of the edges by one end; the order of equal ones is kept. */
static void sort_by_end(const struct pl_graph *g, bool by_target, uint32_t *at, uint32_t *sorted)
{
    for (uint32_t e = 0; e < g->n_edges; e++)
        at[(by_target ? g->edges[e].to : g->edges[e].from) + 1]++;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        at[v + 1] += at[v];
    for (uint32_t e = 0; e < g->n_edges; e++)
        sorted[at[by_target ? g->edges[e].to : g->edges[e].from]++] = e;
    for (uint32_t v = g->n_nodes; v > 0; v--) /* each start has moved to the next one's */
        at[v] = at[v - 1];
    at[0] = 0;
}

int pl_graph_ends_find(const struct pl_graph *g, struct pl_arena *arena, struct graph_ends *ret, struct pl_err *err)
{
    struct graph_ends ends = {.in_at = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *ends.in_at),
                              .in = pl_arena_alloc(arena, (g->n_edges + 1) * sizeof *ends.in),
                              .out_at = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *ends.out_at),
                              .out = pl_arena_alloc(arena, (g->n_edges + 1) * sizeof *ends.out)};

    if (!ends.in_at || !ends.in || !ends.out_at || !ends.out)
        return pl_err_nomem(err);
    sort_by_end(g, true, ends.in_at, ends.in);
    sort_by_end(g, false, ends.out_at, ends.out);
    *ret = ends;
    return 0;
}

/* Finds the topological order and the layers. */
static int sort_nodes(const struct pl_graph *g, const struct graph_ends *ends, struct pl_arena *arena, uint32_t **ret_order,
                      uint32_t **ret_layer, struct pl_err *err)
{
    uint32_t *layer = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *layer),
             *waits = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *waits),
             *queue = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *queue), n = 0;

    if (!layer || !waits || !queue)
        return pl_err_nomem(err);
    for (uint32_t e = 0; e < g->n_edges; e++)
        waits[g->edges[e].to] += g->edges[e].from != g->edges[e].to;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        if (!waits[v])
            queue[n++] = v;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = queue[i];

        for (uint32_t k = ends->out_at[v]; k < ends->out_at[v + 1]; k++) {
            const uint32_t to = g->edges[ends->out[k]].to;

            if (to == v)
                continue;
            layer[to] = PL_MAX(layer[to], layer[v] + 1);
            if (--waits[to] == 0)
                queue[n++] = to;
        }
    }
    if (n < g->n_nodes)
        return pl_err_set(err, PL_EINVAL, "%u nodes of the graph are in a cycle, or behind one", g->n_nodes - n);
    *ret_order = queue;
    *ret_layer = layer;
    return 0;
}

int pl_graph_layers_find(const struct pl_graph *g, const struct graph_ends *ends, struct pl_arena *arena, uint32_t **ret,
                         struct pl_err *err)
{
    uint32_t *order;

    return sort_nodes(g, ends, arena, &order, ret, err);
}

int pl_graph_order(const struct pl_graph *graph, struct pl_arena *arena, uint32_t **ret, struct pl_err *err)
{
    struct graph_ends ends;
    uint32_t *layer;
    int r = pl_graph_check(graph, err);

    r = r < 0 ? r : pl_graph_ends_find(graph, arena, &ends, err);
    return r < 0 ? r : sort_nodes(graph, &ends, arena, ret, &layer, err);
}
