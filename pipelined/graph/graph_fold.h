/* graph_fold: makes a graph that is too large to read smaller, in two steps, each only if the graph still has
 * more than `limit` nodes:
 *
 *   1. Alike nodes fold to one: stages of one pipeline in the same layer whose inputs and readers, up to
 *      PL_GRAPH_ALIKE_STEPS edges away, are alike ("37 stages"), and repos whose readers are alike ("12 repos").
 *   2. The stages of a pipeline fold to one box. A pipeline of which some stages stay out gives a box for the
 *      stages before, between and after them, so that the result has no cycle; pipelines that read each
 *      other's repos give one box together.
 *
 * Nodes with `keep` (failed, running, searched) stay as they are. The result is a graph like any other. */
#pragma once

#include "pipelined/graph/graph.h"

#define PL_GRAPH_FOLD_LIMIT  200u
#define PL_GRAPH_ALIKE_STEPS 4u
#define PL_GRAPH_ALIKE_MIN   3u /* fewer alike nodes do not fold */

struct pl_graph_folding {
    struct pl_graph graph;
    uint32_t *node_of;    /* new node of each old node */
    uint32_t *edge_of;    /* new edge of each old edge; PL_GRAPH_NONE = it is inside a box */
    uint32_t *count;      /* old nodes of each new node */
    uint32_t *edge_count; /* old edges of each new edge */
};

/* Folds the graph to at most `limit` nodes where it can; the result lives in `arena`. A graph that is small
 * enough comes back as it is, with its nodes in the same order. Errors as pl_graph_lay_out. */
PL_MUST_CHECK
int pl_graph_fold(const struct pl_graph *graph, uint32_t limit, struct pl_arena *arena, struct pl_graph_folding *ret,
                  struct pl_err *err);
