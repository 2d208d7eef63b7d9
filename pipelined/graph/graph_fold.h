/* graph_fold: makes a graph that is too large to read smaller, in steps. First come pipelines that are to be shut, each of
 * which becomes one box. The next two are taken only if the graph still has more than `limit` nodes:
 *
 *   1. Alike nodes fold to one: stages of one pipeline in the same layer whose inputs and readers, up to
 *      PL_GRAPH_ALIKE_STEPS edges away, are alike ("37 stages"), and repos whose readers are alike ("12 repos").
 *   2. The stages of a pipeline fold to one box. A pipeline of which some stages stay out gives a box for the
 *      stages before, between and after them, so that the result has no cycle; pipelines that read each
 *      other's repos give one box together.
 *
 * If more than PL_GRAPH_FOLDED_MAX nodes are left, those that only stand out fold as well, and pipelines that are open;
 * and at last all pipelines of a band become one box. Any graph of PL_GRAPH_BANDS_MAX bands can be laid out then.
 *
 * Nodes with `keep` (failed, running, searched) stay as they are. The result is a graph like any other. */
#pragma once

#include "pipelined/graph/graph.h"

#define PL_GRAPH_FOLD_LIMIT  200u
#define PL_GRAPH_ALIKE_STEPS 4u
#define PL_GRAPH_ALIKE_MIN   3u /* fewer alike nodes do not fold */
#define PL_GRAPH_FOLDED_MAX  3000u
#define PL_GRAPH_BANDS_MAX   500u

struct pl_graph_folding {
    struct pl_graph graph;
    uint32_t *node_of;    /* new node of each old node */
    uint32_t *edge_of;    /* new edge of each old edge; PL_GRAPH_NONE = it is inside a box */
    uint32_t *count;      /* old nodes of each new node */
    uint32_t *edge_count; /* old edges of each new edge */
};

/* Folds the graph, which may have any size, to at most `limit` nodes where it can; the result lives in `arena`. With
 * UINT32_MAX only pipelines that are to be shut fold. A graph that is small enough comes back as it is, with its nodes in
 * the same order. PL_EINVAL as pl_graph_lay_out; PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_fold(const struct pl_graph *graph, uint32_t limit, struct pl_arena *arena, struct pl_graph_folding *ret,
                  struct pl_err *err);
