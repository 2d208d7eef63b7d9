/* graph_internal: what the steps of a layout share. Every array lives in the arena of the call. */
#pragma once

#include "pipelined/graph/graph.h"

/* Edges by their ends: those of node v are in[in_at[v]] … in[in_at[v + 1] - 1], in spec order, and out[…] likewise. */
struct graph_ends {
    uint32_t *in_at, *in, *out_at, *out;
};

/* How an edge reaches its port.
 *
 *   straight   ───────────────▶      along the rail of a row
 *   direct     ───┐                  by the trunk, in the next layer
 *                 └───────────▶
 *   lane       ───┐          ┌─▶     by the trunk, a lane of a row gap, an entry
 *                 └──────────┘                                                     */
enum graph_way { GRAPH_STRAIGHT, GRAPH_DIRECT, GRAPH_LANE };

/* An interval that needs a track of its own: no other interval of the track is nearer than the packing says. */
struct graph_item {
    int64_t lo, hi;
    uint32_t owner; /* node or entry that the interval belongs to */
    uint32_t group; /* column gap or row gap */
};

/* A net is what leaves one node: the trunk in the column gap right of it, and one lane in a row gap. */
struct graph_net {
    bool trunk, lane;
    uint32_t track;               /* of the trunk */
    uint32_t row_gap;             /* of the lane: above the row of that number */
    uint32_t lane_at;             /* of the lane, in its row gap */
    uint32_t first_gap, last_gap; /* units that the lane spans, both included (graph_lanes.c) */
};

/* Where a net comes from its lane into the layer right of a column gap. */
struct graph_entry {
    uint32_t node; /* source */
    uint32_t gap;  /* column gap: left of the layer of that number */
    uint32_t track;
    int64_t lo, hi; /* its upper and lower end (graph_lanes.c) */
};

/* One column gap or row gap. */
struct graph_gap {
    uint32_t n_left, n_right; /* column gap: tracks of trunks and of entries; row gap: n_left lanes */
    int32_t start;            /* where the gap begins, in px; in a column gap, the left side of its first track */
};

/* A node while its layer is sorted. */
struct graph_place {
    uint32_t node;
    int32_t twice; /* lower plus upper median of its neighbours' rows */
    int32_t wish;  /* the row that it would like to have */
    uint32_t at;   /* position before */
};

/* Working memory, allocated once for all bands: room for every node, or with `edges` for every edge. */
struct graph_scratch {
    int32_t *row;
    struct graph_place *places;
    int32_t *heap, *medians; /* medians: edges */
    uint32_t *number, *best_nodes, *best_rows;
    uint64_t *ends;                              /* edges */
    uint32_t *after, *after_edge, *waits, *seen; /* by node; zero before its band is laid out */
    struct graph_item *items;                    /* edges or nodes, whichever are more */
    uint32_t *placed, *track, *at;               /* likewise */
    bool *any;                                   /* four times as many */
};

/* The layout of one band. Node and edge numbers are those of the whole graph. */
struct graph_band {
    const struct pl_graph *g;
    const struct graph_ends *ends;
    struct pl_arena *arena;
    struct graph_scratch *scratch;
    struct pl_graph_layout *out; /* boxes: layer and row are set early */
    uint32_t *nodes;             /* of the band, by layer, in order within it */
    uint32_t n_nodes, n_layers, n_rows;
    uint32_t *layer_at; /* nodes of layer l: nodes[layer_at[l]] … nodes[layer_at[l + 1] - 1] */
    /* by node of the graph */
    uint32_t *rail_port; /* which of its input ports lies on the rail */
    uint32_t *before;    /* the node before it in its row; PL_GRAPH_NONE = there is none */
    struct graph_net *nets;
    /* by edge of the graph */
    enum graph_way *way;
    uint32_t *port;     /* number of the port among those of its node */
    uint32_t *entry_of; /* GRAPH_LANE: its entry */
    struct graph_entry *entries;
    uint32_t n_entries;
    struct graph_gap *columns; /* n_layers + 1: the gap left of layer l, and the one right of the last layer */
    struct graph_gap *rows;    /* n_rows + 1: the gap above row r, and the one below the last row */
};

/* Checks that the graph is not too large to be laid out. PL_ETOOBIG. */
PL_MUST_CHECK
int pl_graph_check_size(const struct pl_graph *g, struct pl_err *err);
/* Checks numbers and bands. PL_EINVAL. */
PL_MUST_CHECK
int pl_graph_check(const struct pl_graph *g, struct pl_err *err);
/* Which pipelines fold to boxes. */
enum graph_boxes { GRAPH_BOXES_SHUT, GRAPH_BOXES_AS_FITS };
/* Gives each node the first node of the box that it folds into; a node that does not fold is its own. PL_EINVAL: there is a
 * cycle. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_pipelines_find(const struct pl_graph *g, enum graph_boxes which, struct pl_arena *arena, uint32_t **ret,
                            struct pl_err *err);
/* Sorts the edges by their ends. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_ends_find(const struct pl_graph *g, struct pl_arena *arena, struct graph_ends *ret, struct pl_err *err);
/* Gives each node its layer, the length of the longest path to it. PL_EINVAL: there is a cycle. */
PL_MUST_CHECK
int pl_graph_layers_find(const struct pl_graph *g, const struct graph_ends *ends, struct pl_arena *arena, uint32_t **ret,
                         struct pl_err *err);
/* Orders the nodes of each layer and gives them their rows. */
void pl_graph_rows_find(struct graph_band *b);
/* Chooses the ports on the rail, the ways of the edges, and all tracks. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_lanes_find(struct graph_band *b, struct pl_err *err);
/* Sets x and y of all gaps and boxes below `top`, and the band's area. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_geometry_find(struct graph_band *b, int32_t top, struct pl_graph_area *ret, struct pl_err *err);
/* Makes the paths of the band's edges. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_paths_make(struct graph_band *b, struct pl_err *err);

/* Returns the distance of the edge's port from the rail of its node; negative = above it. */
static inline int32_t graph_port_offset(const struct graph_band *b, uint32_t edge)
{
    const uint32_t node = b->g->edges[edge].to;

    return ((int32_t)b->port[edge] - (int32_t)b->rail_port[node]) * PL_GRAPH_PORT_GAP;
}
