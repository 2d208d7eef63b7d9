/* The paths of the edges over their tracks. */
#include "pipelined/graph/graph_internal.h"

#define POINTS_MAX 6 /* of one path */

static int32_t track_x(const struct graph_band *b, uint32_t gap, bool right, uint32_t track)
{
    return b->columns[gap].start + (int32_t)(track + (right ? b->columns[gap].n_left : 0)) * PL_GRAPH_LANE_GAP;
}

/* Writes the path of an edge and returns its number of points. */
static uint32_t make_path(const struct graph_band *b, uint32_t edge, struct pl_graph_point *out)
{
    const struct pl_graph_edge *e = &b->g->edges[edge];
    const struct pl_graph_box *from = &b->out->boxes[e->from], *to = &b->out->boxes[e->to];
    const struct graph_net *net = &b->nets[e->from];
    const int32_t start = from->x + from->w + pl_graph_hang(b->g->nodes[e->from].kind),
                  port = to->rail + graph_port_offset(b, edge), trunk = track_x(b, from->layer + 1, false, net->track);
    uint32_t n = 0;

    out[n++] = (struct pl_graph_point){start, from->rail};
    if (b->way[edge] != GRAPH_STRAIGHT)
        out[n++] = (struct pl_graph_point){trunk, from->rail};
    if (b->way[edge] == GRAPH_DIRECT)
        out[n++] = (struct pl_graph_point){trunk, port};
    if (b->way[edge] == GRAPH_LANE) {
        const struct graph_entry *entry = &b->entries[b->entry_of[edge]];
        const int32_t lane = b->rows[net->row_gap].start + (int32_t)net->lane_at * PL_GRAPH_LANE_GAP,
                      enter = track_x(b, entry->gap, true, entry->track);

        out[n++] = (struct pl_graph_point){trunk, lane};
        out[n++] = (struct pl_graph_point){enter, lane};
        out[n++] = (struct pl_graph_point){enter, port};
    }
    out[n++] = (struct pl_graph_point){to->x, port};
    return n;
}

int pl_graph_paths_make(struct graph_band *b, struct pl_err *err)
{
    for (uint32_t i = 0; i < b->n_nodes; i++)
        for (uint32_t v = b->nodes[i], k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++) {
            struct pl_graph_point *points = pl_arena_alloc(b->arena, POINTS_MAX * sizeof *points);

            if (!points)
                return pl_err_nomem(err);
            b->out->paths[b->ends->out[k]] = (struct pl_graph_path){.points = points, .n = make_path(b, b->ends->out[k], points)};
        }
    return 0;
}
