/* provenance_levels: shortest and longest paths in a graph whose nodes are in topological order: one pass over the edges in
 * each direction. Sorted by `to`, all edges that enter a node come before those that leave it. Nodes before
 * the root in the order can only be up of it, nodes after it only down. */
#include "pipelined/provenance/provenance.h"

#include <stdlib.h>

static int compare_edges(const void *a, const void *b)
{
    const struct pl_provenance_edge *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static int check(const struct pl_provenance *g, struct pl_err *err)
{
    if (g->root >= g->n_nodes)
        return pl_err_set(err, PL_EINVAL, "the root %u is not one of %u nodes", g->root, g->n_nodes);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const struct pl_provenance_edge *edge = &g->edges[e];

        if (edge->to >= g->n_nodes || edge->from >= edge->to)
            return pl_err_set(err, PL_EINVAL, "edge %u leads from node %u to node %u of %u", e, edge->from, edge->to, g->n_nodes);
    }
    return 0;
}

/* Returns the edge number `i` of a pass away from the root, down or up; NULL if it does not lie on that side. */
static const struct pl_provenance_edge *edge_at(const struct pl_provenance *g, uint32_t i, bool down)
{
    const struct pl_provenance_edge *edge = &g->edges[down ? i : g->n_edges - 1 - i];

    return (down ? edge->from >= g->root : edge->to <= g->root) ? edge : NULL;
}

static void find_near(struct pl_provenance *g, bool down)
{
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct pl_provenance_edge *edge = edge_at(g, i, down);
        const uint32_t near = edge ? g->nodes[down ? edge->from : edge->to].near : UINT32_MAX;
        struct pl_provenance_node *far = edge ? &g->nodes[down ? edge->to : edge->from] : NULL;

        if (near != UINT32_MAX)
            far->near = PL_MIN(far->near, near + 1);
    }
}

/* Computes the longest paths over nodes that are near enough. */
static void find_levels(struct pl_provenance *g, uint32_t depth, bool down)
{
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct pl_provenance_edge *edge = edge_at(g, i, down);
        const int32_t near = edge ? g->nodes[down ? edge->from : edge->to].level : PL_PROVENANCE_NONE;
        struct pl_provenance_node *far = edge ? &g->nodes[down ? edge->to : edge->from] : NULL;

        if (near == PL_PROVENANCE_NONE || far->near > depth)
            continue;
        if (far->level == PL_PROVENANCE_NONE)
            far->level = near;
        far->level = down ? PL_MAX(far->level, near + 1) : PL_MIN(far->level, near - 1);
    }
}

int pl_provenance_levels(struct pl_provenance *g, uint32_t depth, bool *ret_deeper, struct pl_err *err)
{
    const int r = check(g, err);

    if (r < 0)
        return r;
    if (g->n_edges > 1)
        qsort(g->edges, g->n_edges, sizeof(*g->edges), compare_edges);
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        g->nodes[v].level = PL_PROVENANCE_NONE;
        g->nodes[v].near = UINT32_MAX;
    }
    g->nodes[g->root].level = 0;
    g->nodes[g->root].near = 0;
    for (int down = 0; down < 2; down++) {
        find_near(g, down);
        find_levels(g, depth, down);
    }
    *ret_deeper = false;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        *ret_deeper |= g->nodes[v].near != UINT32_MAX && g->nodes[v].near > depth;
    return 0;
}
