/* Folds the stages of pipelines into boxes.
 *
 * The level of a node is the largest number of stages that do not fold on a path to it. Stages of one pipeline and level
 * make a group. No edge leads to a lower level, and one from or to a node that does not fold leads to a higher one, so
 * that a cycle could only connect groups of one level: pipelines that read each other's repos. Groups that are neither
 * before nor behind all such cycles of their level are found by peeling, and those that are connected become one. */
#include "pipelined/graph/graph_internal.h"

#include <stdlib.h>

struct member {
    uint32_t pipeline, level, node;
};

/* An edge between two groups of one level. */
struct link {
    uint32_t from, to;
};

static int by_group(const void *x, const void *y)
{
    const struct member *a = x, *b = y;

    if (a->pipeline != b->pipeline)
        return a->pipeline < b->pipeline ? -1 : 1;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static int by_from(const void *x, const void *y)
{
    const struct link *a = x, *b = y;

    return a->from != b->from ? (a->from > b->from) - (a->from < b->from) : (a->to > b->to) - (a->to < b->to);
}

static bool folds(const struct pl_graph_node *node, enum graph_boxes which)
{
    const bool stage = node->kind == PL_GRAPH_STAGE || node->kind == PL_GRAPH_STAGES;

    if (which == GRAPH_BOXES_SHUT)
        return stage && node->keep != PL_GRAPH_KEEPS && node->wish == PL_GRAPH_SHUT;
    return stage && node->keep == PL_GRAPH_FOLDS && node->wish != PL_GRAPH_OPEN;
}

/* Returns whether a path through the node could lead from a box back into it. Repos of a graph have no inputs. */
static bool parts(const struct pl_graph_node *node, enum graph_boxes which)
{
    return node->kind != PL_GRAPH_REPO && node->kind != PL_GRAPH_REPOS && !folds(node, which);
}

/* Sets the levels. The nodes are taken in topological order: an edge leads to a later layer. */
static int find_levels(const struct pl_graph *g, enum graph_boxes which, struct pl_arena *arena, uint32_t **ret,
                       struct pl_err *err)
{
    uint32_t *level = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *level), *layer = NULL;
    uint32_t *at = pl_arena_alloc(arena, (g->n_nodes + 2) * sizeof *at),
             *order = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *order);
    struct graph_ends ends;
    int r = level && at && order ? pl_graph_ends_find(g, arena, &ends, err) : pl_err_nomem(err);

    if (r == 0)
        r = pl_graph_layers_find(g, &ends, arena, &layer, err);
    if (r < 0)
        return r;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        at[layer[v] + 1]++;
    for (uint32_t l = 0; l < g->n_nodes; l++)
        at[l + 1] += at[l];
    for (uint32_t v = 0; v < g->n_nodes; v++)
        order[at[layer[v]]++] = v;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const uint32_t v = order[i];

        for (uint32_t k = ends.in_at[v]; k < ends.in_at[v + 1]; k++)
            level[v] = PL_MAX(level[v], g->edges[ends.in[k]].from == v ? 0 : level[g->edges[ends.in[k]].from]);
        level[v] += parts(&g->nodes[v], which);
    }
    *ret = level;
    return 0;
}

/* Numbers the groups, into `group` by node (PL_GRAPH_NONE: the node does not fold), and returns how many there are.
 * `lowest` receives the first node of each. */
static uint32_t number_groups(const struct pl_graph *g, enum graph_boxes which, const uint32_t *level, struct member *members,
                              uint32_t *group, uint32_t *lowest)
{
    uint32_t n = 0, n_groups = 0;

    for (uint32_t v = 0; v < g->n_nodes; v++) {
        group[v] = PL_GRAPH_NONE;
        if (folds(&g->nodes[v], which))
            members[n++] = (struct member){g->nodes[v].pipeline, level[v], v};
    }
    qsort(members, n, sizeof *members, by_group);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || members[i].pipeline != members[i - 1].pipeline || members[i].level != members[i - 1].level)
            lowest[n_groups++] = members[i].node;
        group[members[i].node] = n_groups - 1;
    }
    return n_groups;
}

/* Removes groups to which no link leads, again and again. */
static void peel(struct link *links, uint32_t n, uint32_t n_groups, bool *gone, uint32_t *degree, uint32_t *queue)
{
    uint32_t ready = 0;

    qsort(links, n, sizeof *links, by_from);
    for (uint32_t i = 0; i < n_groups; i++)
        degree[i] = 0;
    for (uint32_t i = 0; i < n; i++)
        degree[links[i].to] += !gone[links[i].from];
    for (uint32_t i = 0; i < n_groups; i++)
        if (!gone[i] && !degree[i])
            queue[ready++] = i;
    for (uint32_t i = 0; i < ready; i++) {
        uint32_t low = 0, high = n;

        gone[queue[i]] = true;
        while (low < high) { /* the first link from this group */
            const uint32_t middle = low + (high - low) / 2;

            if (links[middle].from < queue[i])
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < n && links[low].from == queue[i]; low++)
            if (!gone[links[low].to] && --degree[links[low].to] == 0)
                queue[ready++] = links[low].to;
    }
}

static uint32_t root_of(uint32_t *up, uint32_t group)
{
    for (; up[group] != group; group = up[group])
        up[group] = up[up[group]];
    return group;
}

/* Connects the groups that peeling leaves; up[group] leads to the one that stands for all of them. */
static int connect(const struct pl_graph *g, const uint32_t *group, const uint32_t *level, uint32_t n_groups, uint32_t *up,
                   struct pl_arena *arena, struct pl_err *err)
{
    struct link *links = pl_arena_alloc(arena, (g->n_edges + 1) * sizeof *links);
    bool *gone = pl_arena_alloc(arena, (n_groups + 1) * sizeof *gone);
    uint32_t *degree = pl_arena_alloc(arena, (n_groups + 1) * sizeof *degree),
             *queue = pl_arena_alloc(arena, (n_groups + 1) * sizeof *queue), n = 0;

    if (!links || !gone || !degree || !queue)
        return pl_err_nomem(err);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const uint32_t from = g->edges[e].from, to = g->edges[e].to;

        if (group[from] != PL_GRAPH_NONE && group[to] != PL_GRAPH_NONE && group[from] != group[to] && level[from] == level[to])
            links[n++] = (struct link){group[from], group[to]};
    }
    peel(links, n, n_groups, gone, degree, queue);
    for (uint32_t i = 0; i < n; i++)
        links[i] = (struct link){links[i].to, links[i].from};
    peel(links, n, n_groups, gone, degree, queue);
    for (uint32_t i = 0; i < n_groups; i++)
        up[i] = i;
    for (uint32_t i = 0; i < n; i++)
        if (!gone[links[i].from] && !gone[links[i].to])
            up[root_of(up, links[i].from)] = root_of(up, links[i].to);
    return 0;
}

int pl_graph_pipelines_find(const struct pl_graph *g, enum graph_boxes which, struct pl_arena *arena, uint32_t **ret,
                            struct pl_err *err)
{
    const size_t size = (g->n_nodes + 1) * sizeof(uint32_t);
    uint32_t *first = pl_arena_alloc(arena, size), *group = pl_arena_alloc(arena, size), *lowest = pl_arena_alloc(arena, size),
             *up = pl_arena_alloc(arena, size), *level = NULL, n_groups;
    struct member *members = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *members);
    int r = first && group && lowest && up && members ? find_levels(g, which, arena, &level, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    n_groups = number_groups(g, which, level, members, group, lowest);
    r = connect(g, group, level, n_groups, up, arena, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n_groups; i++) {
        const uint32_t root = root_of(up, i);

        lowest[root] = PL_MIN(lowest[root], lowest[i]);
    }
    for (uint32_t v = 0; v < g->n_nodes; v++)
        first[v] = group[v] == PL_GRAPH_NONE ? v : lowest[root_of(up, group[v])];
    *ret = first;
    return 0;
}
