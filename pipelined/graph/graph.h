/* graph: Lays out the graph of repos and stages, and folds large ones. Pure.
 *
 * In:      Nodes and edges, each with the band that it is drawn in.
 * Out:     Boxes, ports and right-angled paths; a smaller graph.
 * Uses:    storage/base
 * Threads: Any thread; a call keeps nothing.
 *
 * Headers for other rooms:
 *   graph_fold      folds a graph that is too large to read
 *
 * Inside:
 *   graph_fold_pipelines  folds the stages of a pipeline into one box
 *   graph_geometry        columns, rows and lanes in pixels
 *   graph_internal        state shared by the room's files
 *   graph_layers          layers by the longest path, ports
 *   graph_layout          the steps of a layout in order
 *   graph_lanes           lanes of edges between columns and rows
 *   graph_paths           boxes and paths
 *   graph_rows            order in a layer, rows */

/* graph: layout of a directed acyclic graph in layers from left to right.
 *
 *   layer 0        layer 1                layer 2
 *   (photos)──┬──▶[ decode  (…)]─────────▶[ split   (…)]──▶   a row: edges along its rail are straight
 *             │                        ┌─▶[           ]
 *             │   ─ ─ ─ lanes of a row gap ─ ─ ─
 *             └──▶[ segment (…)]       │
 *   (labels)──────── row gap ──────────┘
 *          column gap: lanes of trunks, then lanes of entries, then room for labels
 *
 * The method is that of K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical
 * system structures" (IEEE Trans. SMC 11, 1981): layers by the longest path, then sweeps over the layers that
 * order each one by the medians of its neighbours (the median is that of E. Gansner et al., "A technique for
 * drawing directed graphs", IEEE TSE 19, 1993). Rows are then whole numbers that are nearest to these medians
 * and keep the order (isotonic regression). Long edges have no dummy vertices: like wires of a channel router
 * (A. Hashimoto, J. Stevens, "Wire routing by optimizing channel assignment", DAC 1971) they run in lanes
 * between the columns and rows, so that no edge crosses a box and two edges meet only at right angles.
 *
 * The edges of a node begin at its only output port, on the rail; they share their trunk. An input has a port
 * of its own, in spec order, PL_GRAPH_PORT_GAP apart; one of them lies on the rail.
 *
 * Nodes of different bands are not connected; bands lie below each other. The result depends on nothing but
 * the input. The time is O(n log n) in nodes and edges, times PL_GRAPH_SWEEPS. */
#pragma once

#include "storage/base/arena.h"

#define PL_GRAPH_NODES_MAX 20000u
#define PL_GRAPH_EDGES_MAX 200000u
#define PL_GRAPH_SWEEPS    8u /* maximum number of sweeps over the layers */
#define PL_GRAPH_NONE      UINT32_MAX

/* Sizes in px. */
#define PL_GRAPH_REPO_W    164
#define PL_GRAPH_REPO_H    44
#define PL_GRAPH_STAGE_W   184
#define PL_GRAPH_STAGE_H   84   /* a stage of more than 7 ports is higher */
#define PL_GRAPH_OUTPUT_H  24   /* the pill of a stage's repo, over the lower right corner of the stage */
#define PL_GRAPH_OUTPUT_X  12   /* that pill reaches so far beyond the stage's right side */
#define PL_GRAPH_RAIL      18   /* the rail, the middle of that pill, is so far above the stage's lower side */
#define PL_GRAPH_PORT_GAP  12   /* between two input ports */
#define PL_GRAPH_LANE_GAP  8    /* between two lanes */
#define PL_GRAPH_ROW_GAP   44   /* between the boxes of two rows, at least */
#define PL_GRAPH_BAND_HEAD 48   /* above each band, for its title */
#define PL_GRAPH_FIT_W     1360 /* columns move apart for labels while a band is not wider than this */
#define PL_GRAPH_LABEL_MAX 136  /* longest label, in px, for which columns move apart */

enum pl_graph_kind {
    PL_GRAPH_REPO,     /* pill: a repo that no stage of the graph writes */
    PL_GRAPH_STAGE,    /* box: a stage and the repo that it writes */
    PL_GRAPH_STAGES,   /* box: several alike stages */
    PL_GRAPH_REPOS,    /* pill: several repos with the same readers */
    PL_GRAPH_PIPELINES /* box: the stages of one pipeline, or of several that read each other */
};

/* Whether a node folds (graph_fold). */
enum pl_graph_keep {
    PL_GRAPH_FOLDS,
    PL_GRAPH_KEEPS,     /* never */
    PL_GRAPH_STANDS_OUT /* only if the graph is too large even so */
};

/* How the pipeline of a stage folds. */
enum pl_graph_wish {
    PL_GRAPH_AS_FITS, /* to one box if the graph is large */
    PL_GRAPH_OPEN,    /* its alike stages fold, but not all of it to one box */
    PL_GRAPH_SHUT     /* to one box, however small the graph is */
};

struct pl_graph_node {
    enum pl_graph_kind kind;
    uint32_t band;     /* less than n_bands */
    uint32_t pipeline; /* number that stands for the pipeline, of one band; PL_GRAPH_NONE for repos */
    enum pl_graph_keep keep;
    enum pl_graph_wish wish; /* the same for all stages of a pipeline */
    bool spread;             /* nodes that are alike to this one do not fold */
};

/* An input of the stage `to`. The edges of one `to` are in spec order: their ports follow each other. An edge
 * from a node to itself is a stage that reads its own last output. */
struct pl_graph_edge {
    uint32_t from, to;
    int32_t label_px; /* width of the label at the port; 0 = it has none */
};

struct pl_graph {
    const struct pl_graph_node *nodes;
    const struct pl_graph_edge *edges;
    uint32_t n_nodes, n_edges, n_bands;
};

struct pl_graph_point {
    int32_t x, y;
};

/* Place of a node. An edge leaves at (x + w + hang, rail), where `hang` is PL_GRAPH_OUTPUT_X for a stage and 0 for others. */
struct pl_graph_box {
    int32_t x, y, w, h;
    int32_t rail; /* y of the output port */
    uint32_t layer, row;
};

/* Path of an edge, from its source's output port to its own input port: `n` points, each on the horizontal or
 * vertical through the one before. */
struct pl_graph_path {
    const struct pl_graph_point *points;
    uint32_t n;
};

struct pl_graph_area {
    int32_t x, y, w, h;
};

struct pl_graph_layout {
    struct pl_graph_box *boxes;  /* one per node */
    struct pl_graph_path *paths; /* one per edge */
    struct pl_graph_area *bands; /* one per band, without its head; an empty band has no height */
    int32_t w, h;
};

/* Returns how far the output port lies beyond the right side of the node's box. */
static inline int32_t pl_graph_hang(enum pl_graph_kind kind)
{
    return kind == PL_GRAPH_STAGE ? PL_GRAPH_OUTPUT_X : 0;
}

/* Gives the nodes in an order in which each comes after all that it reads; it lives in `arena`. The graph may have any
 * size. PL_EINVAL as pl_graph_lay_out; PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_order(const struct pl_graph *graph, struct pl_arena *arena, uint32_t **ret, struct pl_err *err);
/* Lays the graph out; the result lives in `arena`. PL_EINVAL: an index is out of range, an edge connects two
 * bands, or there is a cycle of two or more nodes. PL_ETOOBIG: more than PL_GRAPH_NODES_MAX nodes or
 * PL_GRAPH_EDGES_MAX edges. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_lay_out(const struct pl_graph *graph, struct pl_arena *arena, struct pl_graph_layout *ret, struct pl_err *err);
