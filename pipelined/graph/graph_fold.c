/* Folds alike nodes, and makes the graph of what was folded.
 *
 * Alike nodes are found by colour refinement: each node begins with the colour of its pipeline, kind and layer, and in
 * each step gets a new one from its own and those of its inputs and readers. A node that does not fold has a colour of
 * its own, so that its neighbours differ from those of others. Nodes of one colour lie in one layer: every edge of the
 * folded graph still leads to a later layer, and there is no cycle. */
#include "pipelined/graph/graph_fold.h"
#include "pipelined/graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b; /* SplitMix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_repo(enum pl_graph_kind kind)
{
    return kind == PL_GRAPH_REPO || kind == PL_GRAPH_REPOS;
}

/* ---- alike nodes ---- */

/* A node with its colour; nodes of one class follow each other when sorted. */
struct coloured {
    uint32_t band, pipeline, layer, node;
    uint64_t colour;
    bool repo;
};

static int by_colour(const void *x, const void *y)
{
    const struct coloured *a = x, *b = y;

    if (a->band != b->band)
        return a->band < b->band ? -1 : 1;
    if (a->pipeline != b->pipeline)
        return a->pipeline < b->pipeline ? -1 : 1;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    if (a->repo != b->repo)
        return a->repo ? -1 : 1;
    if (a->colour != b->colour)
        return a->colour < b->colour ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* Returns whether both are of one class; the sorting compares the node last. */
static bool alike(const struct coloured *a, const struct coloured *b)
{
    struct coloured same = *b;

    same.node = a->node;
    return by_colour(a, &same) == 0;
}

/* Makes the next colours, `to`, from the colours `from`. The order of neighbours does not count. */
static void refine(const struct pl_graph *g, const uint64_t *from, uint64_t *to)
{
    for (uint32_t v = 0; v < g->n_nodes; v++)
        to[v] = mix(from[v], 1);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        to[g->edges[e].to] += mix(from[g->edges[e].from], 2);
        to[g->edges[e].from] += mix(from[g->edges[e].to], 3);
    }
}

static int colour(const struct pl_graph *g, const uint32_t *layer, struct pl_arena *arena, uint64_t **ret, struct pl_err *err)
{
    uint64_t *now = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *now),
             *next = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *next), *swap;

    if (!now || !next)
        return pl_err_nomem(err);
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        const struct pl_graph_node *node = &g->nodes[v];

        now[v] = mix(mix(node->kind, node->pipeline), layer[v]);
        if (node->keep != PL_GRAPH_FOLDS)
            now[v] = mix(now[v], (uint64_t)v + 4);
    }
    for (unsigned i = 0; i < PL_GRAPH_ALIKE_STEPS; i++) {
        refine(g, now, next);
        swap = now;
        now = next;
        next = swap;
    }
    *ret = now;
    return 0;
}

/* Folds the nodes of one class, or keeps each by itself. */
static void take_class(const struct pl_graph *g, const struct coloured *members, uint32_t n, uint32_t *first, bool *spread)
{
    bool apart = n < PL_GRAPH_ALIKE_MIN, wanted = false;

    for (uint32_t k = 0; k < n; k++)
        wanted = wanted || g->nodes[members[k].node].spread;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t v = members[k].node;

        first[v] = apart || wanted || g->nodes[v].keep != PL_GRAPH_FOLDS ? v : members[0].node;
        spread[v] = wanted;
    }
}

/* Gives each node the first node of its class; a node that does not fold is its own. Those that are alike to a node with
 * `spread` are marked. */
static int find_alike(const struct pl_graph *g, struct pl_arena *arena, uint32_t **ret, bool **ret_spread, struct pl_err *err)
{
    uint32_t *first = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *first), *layer = NULL;
    struct coloured *sorted = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *sorted);
    bool *spread = pl_arena_alloc(arena, (g->n_nodes + 1) * sizeof *spread);
    struct graph_ends ends;
    uint64_t *colours = NULL;
    int r = first && sorted && spread ? pl_graph_ends_find(g, arena, &ends, err) : pl_err_nomem(err);

    if (r == 0)
        r = pl_graph_layers_find(g, &ends, arena, &layer, err);
    if (r == 0)
        r = colour(g, layer, arena, &colours, err);
    if (r < 0)
        return r;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        sorted[v] = (struct coloured){.band = g->nodes[v].band,
                                      .pipeline = g->nodes[v].pipeline,
                                      .layer = layer[v],
                                      .node = v,
                                      .colour = colours[v],
                                      .repo = is_repo(g->nodes[v].kind)};
    qsort(sorted, g->n_nodes, sizeof *sorted, by_colour);
    for (uint32_t i = 0, to; i < g->n_nodes; i = to) {
        for (to = i + 1; to < g->n_nodes && alike(&sorted[i], &sorted[to]);)
            to++;
        take_class(g, &sorted[i], to - i, first, spread);
    }
    *ret = first;
    *ret_spread = spread;
    return 0;
}

/* ---- the folded graph ---- */

/* An edge between classes; those that become one follow each other when sorted. */
struct joined {
    uint32_t to, from, edge;
};

static int by_classes(const void *x, const void *y)
{
    const struct joined *a = x, *b = y;

    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->edge > b->edge) - (a->edge < b->edge);
}

/* What join_nodes and join_edges make of the graph `g`. */
struct joining {
    const struct pl_graph *g;
    struct pl_graph_node *nodes;
    struct pl_graph_edge *edges;
    uint32_t *node_of, *edge_of;      /* new number of each old node and edge */
    uint32_t *members, *edge_members; /* old ones of each new one */
    uint32_t n_nodes, n_edges;
};

/* Makes a node of each class; `first` gives the first node of each node's class. A class of several stages gets `kind`. */
static void join_nodes(struct joining *j, const uint32_t *first, enum pl_graph_kind kind)
{
    for (uint32_t v = 0; v < j->g->n_nodes; v++) {
        struct pl_graph_node *node;

        if (first[v] == v) {
            j->node_of[v] = j->n_nodes++;
            j->nodes[j->node_of[v]] = j->g->nodes[v];
        }
        j->node_of[v] = j->node_of[first[v]];
        node = &j->nodes[j->node_of[v]];
        if (++j->members[j->node_of[v]] == 2) {
            node->kind = is_repo(node->kind) ? PL_GRAPH_REPOS : kind;
            node->keep = PL_GRAPH_FOLDS; /* of a pipeline that is shut, the first stage may have stood out */
            node->spread = false;
        }
    }
}

/* Returns whether the edges between two nodes become one: those of a box of several nodes have no inputs of their own. */
static bool is_joint(enum pl_graph_kind kind)
{
    return kind != PL_GRAPH_REPO && kind != PL_GRAPH_STAGE;
}

/* Makes an edge of all edges between two classes, if one of them has several members, in the order of their first ones. */
static int join_edges(struct joining *j, struct pl_arena *arena, struct pl_err *err)
{
    const struct pl_graph *g = j->g;
    struct joined *sorted = pl_arena_alloc(arena, (g->n_edges + 1) * sizeof *sorted);
    uint32_t *first = pl_arena_alloc(arena, (g->n_edges + 1) * sizeof *first);

    if (!sorted || !first)
        return pl_err_nomem(err);
    for (uint32_t e = 0; e < g->n_edges; e++)
        sorted[e] = (struct joined){j->node_of[g->edges[e].to], j->node_of[g->edges[e].from], e};
    qsort(sorted, g->n_edges, sizeof *sorted, by_classes);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct joined *now = &sorted[i], *before = &sorted[i ? i - 1 : 0];
        const bool joint = is_joint(j->nodes[now->to].kind) || is_joint(j->nodes[now->from].kind),
                   inside = joint && now->to == now->from;

        first[now->edge] = inside ? PL_GRAPH_NONE : now->edge;
        if (i && joint && now->to == before->to && now->from == before->from)
            first[now->edge] = first[before->edge];
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (first[e] == PL_GRAPH_NONE) {
            j->edge_of[e] = PL_GRAPH_NONE;
            continue;
        }
        if (first[e] == e) {
            j->edge_of[e] = j->n_edges++;
            j->edges[j->edge_of[e]] =
                (struct pl_graph_edge){j->node_of[g->edges[e].from], j->node_of[g->edges[e].to], g->edges[e].label_px};
        }
        j->edge_of[e] = j->edge_of[first[e]];
        if (++j->edge_members[j->edge_of[e]] == 2)
            j->edges[j->edge_of[e]].label_px = 0;
    }
    return 0;
}

/* Replaces the graph of `f` by that of the classes. */
static int join(struct pl_graph_folding *f, const struct pl_graph *whole, const uint32_t *first, enum pl_graph_kind kind,
                struct pl_arena *arena, struct pl_err *err)
{
    const uint32_t n = f->graph.n_nodes + 1, m = f->graph.n_edges + 1;
    struct joining j = {.g = &f->graph,
                        .nodes = pl_arena_alloc(arena, n * sizeof *j.nodes),
                        .edges = pl_arena_alloc(arena, m * sizeof *j.edges),
                        .node_of = pl_arena_alloc(arena, n * sizeof *j.node_of),
                        .edge_of = pl_arena_alloc(arena, m * sizeof *j.edge_of),
                        .members = pl_arena_alloc(arena, n * sizeof *j.members),
                        .edge_members = pl_arena_alloc(arena, m * sizeof *j.edge_members)};
    uint32_t *count = pl_arena_alloc(arena, n * sizeof *count), *edge_count = pl_arena_alloc(arena, m * sizeof *edge_count);
    int r;

    if (!j.nodes || !j.edges || !j.node_of || !j.edge_of || !j.members || !j.edge_members || !count || !edge_count)
        return pl_err_nomem(err);
    join_nodes(&j, first, kind);
    r = join_edges(&j, arena, err);
    if (r < 0)
        return r;
    for (uint32_t v = 0; v < whole->n_nodes; v++)
        count[f->node_of[v] = j.node_of[f->node_of[v]]]++;
    for (uint32_t e = 0; e < whole->n_edges; e++) {
        if (f->edge_of[e] != PL_GRAPH_NONE)
            f->edge_of[e] = j.edge_of[f->edge_of[e]];
        if (f->edge_of[e] != PL_GRAPH_NONE)
            edge_count[f->edge_of[e]]++;
    }
    f->count = count;
    f->edge_count = edge_count;
    f->graph = (struct pl_graph){j.nodes, j.edges, j.n_nodes, j.n_edges, whole->n_bands};
    return 0;
}

/* Begins with the graph as it is. */
static int begin(const struct pl_graph *graph, struct pl_arena *arena, struct pl_graph_folding *f, struct pl_err *err)
{
    *f = (struct pl_graph_folding){.graph = *graph,
                                   .node_of = pl_arena_alloc(arena, (graph->n_nodes + 1) * sizeof *f->node_of),
                                   .edge_of = pl_arena_alloc(arena, (graph->n_edges + 1) * sizeof *f->edge_of),
                                   .count = pl_arena_alloc(arena, (graph->n_nodes + 1) * sizeof *f->count),
                                   .edge_count = pl_arena_alloc(arena, (graph->n_edges + 1) * sizeof *f->edge_count)};
    if (!f->node_of || !f->edge_of || !f->count || !f->edge_count)
        return pl_err_nomem(err);
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        f->node_of[v] = v;
        f->count[v] = 1;
    }
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        f->edge_of[e] = e;
        f->edge_count[e] = 1;
    }
    return 0;
}

/* Copies the nodes of the folded graph, to change them; they come back through `ret`. */
static int copy_nodes(struct pl_graph_folding *f, struct pl_arena *arena, struct pl_graph_node **ret, struct pl_err *err)
{
    struct pl_graph_node *nodes = pl_arena_alloc(arena, (f->graph.n_nodes + 1) * sizeof *nodes);

    if (!nodes)
        return pl_err_nomem(err);
    if (f->graph.n_nodes)
        memcpy(nodes, f->graph.nodes, f->graph.n_nodes * sizeof *nodes);
    f->graph.nodes = *ret = nodes;
    return 0;
}

/* Folds alike nodes. Those that were spread stand out from now on. */
static int fold_alike(struct pl_graph_folding *f, const struct pl_graph *whole, struct pl_arena *arena, struct pl_err *err)
{
    struct pl_graph_node *nodes = NULL;
    uint32_t *first = NULL;
    bool *spread = NULL;
    int r = find_alike(&f->graph, arena, &first, &spread, err);

    r = r < 0 ? r : copy_nodes(f, arena, &nodes, err);
    if (r < 0)
        return r;
    for (uint32_t v = 0; v < f->graph.n_nodes; v++)
        if (spread[v] && nodes[v].keep == PL_GRAPH_FOLDS)
            nodes[v].keep = PL_GRAPH_STANDS_OUT;
    return join(f, whole, first, PL_GRAPH_STAGES, arena, err);
}

static int fold_pipelines(struct pl_graph_folding *f, const struct pl_graph *whole, enum graph_boxes which,
                          struct pl_arena *arena, struct pl_err *err)
{
    uint32_t *first = NULL;
    int r = pl_graph_pipelines_find(&f->graph, which, arena, &first, err);

    return r < 0 ? r : join(f, whole, first, PL_GRAPH_PIPELINES, arena, err);
}

static bool is_too_large(const struct pl_graph *g)
{
    return g->n_nodes > PL_GRAPH_FOLDED_MAX || g->n_edges > PL_GRAPH_EDGES_MAX;
}

/* Folds what stands out or is open, too; with `bands`, all pipelines of a band as if they were one. */
static int fold_harder(struct pl_graph_folding *f, const struct pl_graph *whole, bool bands, struct pl_arena *arena,
                       struct pl_err *err)
{
    struct pl_graph_node *nodes = NULL;
    int r = copy_nodes(f, arena, &nodes, err);

    if (r < 0)
        return r;
    for (uint32_t v = 0; v < f->graph.n_nodes; v++) {
        struct pl_graph_node *node = &nodes[v];

        if (node->keep == PL_GRAPH_STANDS_OUT)
            node->keep = PL_GRAPH_FOLDS;
        node->wish = PL_GRAPH_AS_FITS;
        node->spread = false;
        if (bands && !is_repo(node->kind)) {
            node->kind = node->kind == PL_GRAPH_PIPELINES ? PL_GRAPH_STAGES : node->kind;
            node->pipeline = node->keep == PL_GRAPH_FOLDS ? node->band : node->pipeline;
        }
    }
    r = bands ? 0 : fold_alike(f, whole, arena, err);
    r = r < 0 ? r : fold_pipelines(f, whole, GRAPH_BOXES_AS_FITS, arena, err);
    r = r < 0 ? r : fold_alike(f, whole, arena, err);
    if (r < 0 || !bands)
        return r;
    r = copy_nodes(f, arena, &nodes, err);
    for (uint32_t v = 0; r == 0 && v < f->graph.n_nodes; v++)
        if (nodes[v].keep == PL_GRAPH_FOLDS) /* a box of a band is of no pipeline */
            nodes[v].pipeline = PL_GRAPH_NONE;
    return r;
}

int pl_graph_fold(const struct pl_graph *graph, uint32_t limit, struct pl_arena *arena, struct pl_graph_folding *ret,
                  struct pl_err *err)
{
    struct pl_graph_folding f;
    bool shut = false;
    int r = pl_graph_check(graph, err);

    if (r == 0)
        r = begin(graph, arena, &f, err);
    for (uint32_t v = 0; r == 0 && v < graph->n_nodes; v++)
        shut = shut || graph->nodes[v].wish == PL_GRAPH_SHUT;
    if (r == 0 && shut)
        r = fold_pipelines(&f, graph, GRAPH_BOXES_SHUT, arena, err);
    /* alike nodes, pipelines, and then repos that are alike now that their readers are one box */
    for (unsigned step = 0; r == 0 && step < 3 && f.graph.n_nodes > limit; step++)
        r = step == 1 ? fold_pipelines(&f, graph, GRAPH_BOXES_AS_FITS, arena, err) : fold_alike(&f, graph, arena, err);
    for (unsigned step = 0; r == 0 && step < 2 && limit < UINT32_MAX && is_too_large(&f.graph); step++)
        r = fold_harder(&f, graph, step == 1, arena, err);
    if (r == 0)
        *ret = f;
    return r;
}
