// link: pipelined/graph storage/base
/* pl-bench-graph STAGES: lays out a graph of so many stages, most of which read one to three stages of the ten before them, some one far
 * away, in pipelines of 50; then folds it and lays that out. Prints the least milliseconds of ten times as JSON. */
#include "pipelined/graph/graph_fold.h"
#include "storage/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIMES 10

/* Fills the nodes and edges; there is room for four edges a node. Returns the number of edges. */
static uint32_t make(struct pl_graph_node *nodes, struct pl_graph_edge *edges, uint32_t n)
{
    uint64_t state = 1;
    uint32_t n_edges = 0;

    for (uint32_t v = 0; v < n; v++) {
        const bool repo = v % 25 == 0;

        nodes[v] = (struct pl_graph_node){
            repo ? PL_GRAPH_REPO : PL_GRAPH_STAGE, 0, repo ? PL_GRAPH_NONE : v / 50, PL_GRAPH_FOLDS, PL_GRAPH_AS_FITS, false};
        for (uint32_t k = repo ? 0 : 1 + (uint32_t)(pl_splitmix64(&state) % 3); k > 0; k--) {
            const uint32_t reach = pl_splitmix64(&state) % 16 ? PL_MIN(v, 10) : v;

            edges[n_edges++] = (struct pl_graph_edge){v - 1 - (uint32_t)(pl_splitmix64(&state) % reach), v, 0};
        }
    }
    return n_edges;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    const uint32_t n = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    struct pl_graph_node *nodes = calloc(n + 1, sizeof *nodes);
    struct pl_graph_edge *edges = calloc(4 * (size_t)n + 1, sizeof *edges);
    double whole = 1e9, folded = 1e9;
    struct pl_graph_folding f = {0};
    struct pl_graph_layout l;
    struct pl_err err = {0};
    struct pl_graph g;
    int r = 0;

    if (n < 2 || n > PL_GRAPH_NODES_MAX || !nodes || !edges) {
        fprintf(stderr, "usage: pl-bench-graph STAGES\n");
        return 2;
    }
    g = (struct pl_graph){nodes, edges, n, make(nodes, edges, n), 1};
    for (unsigned i = 0; r == 0 && i < TIMES; i++) {
        _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
        double start = now_ms();

        r = pl_graph_lay_out(&g, arena, &l, &err);
        whole = PL_MIN(whole, now_ms() - start);
        start = now_ms();
        r = r < 0 ? r : pl_graph_fold(&g, PL_GRAPH_FOLD_LIMIT, arena, &f, &err);
        r = r < 0 ? r : pl_graph_lay_out(&f.graph, arena, &l, &err);
        folded = PL_MIN(folded, now_ms() - start);
    }
    if (r < 0)
        fprintf(stderr, "pl-bench-graph: %s\n", err.msg);
    else
        printf("{\"stages\": %" PRIu32 ", \"edges\": %" PRIu32 ", \"ms\": %.3f, \"folded_ms\": %.3f, \"folded_to\": %" PRIu32
               "}\n",
               n, g.n_edges, whole, folded, f.graph.n_nodes);
    free(nodes);
    free(edges);
    return r < 0;
}
