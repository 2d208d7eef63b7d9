/* Columns, rows and boxes in pixels. */
#include "pipelined/graph/graph_internal.h"

#define TRUNK_ROOM 14 /* from a column to the first trunk */
#define ARROW_ROOM 18 /* from the last track to the next column: a bend and the head of the arrow */
#define LANE_ABOVE 20 /* from a row to the first lane below it */
#define OUTER_ROOM 14 /* from the outermost row to the lane beyond it */
#define LABEL_ROOM 24 /* beside a label */
#define PORT_ROOM  8  /* from the upper side of a box to its first port */
#define CAPTION    22 /* a pill's second line, below it */

static bool is_pill(enum pl_graph_kind kind)
{
    return kind == PL_GRAPH_REPO || kind == PL_GRAPH_REPOS;
}

/* Sets the node's size and how far it reaches up from the rail. */
static void size_box(const struct graph_band *b, uint32_t node)
{
    struct pl_graph_box *box = &b->out->boxes[node];
    int32_t up = PL_GRAPH_STAGE_H - PL_GRAPH_RAIL;

    if (is_pill(b->g->nodes[node].kind)) {
        box->w = PL_GRAPH_REPO_W;
        box->h = PL_GRAPH_REPO_H;
        box->y = -PL_GRAPH_REPO_H / 2;
        return;
    }
    up = PL_MAX(up, (int32_t)b->rail_port[node] * PL_GRAPH_PORT_GAP + PORT_ROOM);
    box->w = PL_GRAPH_STAGE_W;
    box->h = up + PL_GRAPH_RAIL;
    box->y = -up;
}

static int32_t tracks_wide(uint32_t n)
{
    return n ? (int32_t)(n - 1) * PL_GRAPH_LANE_GAP : 0;
}

/* Returns the widest label of the edges that enter a layer, without those that are too long to make room for. */
static int32_t label_room(const struct graph_band *b, uint32_t layer)
{
    int32_t most = 0;

    for (uint32_t i = b->layer_at[layer]; i < b->layer_at[layer + 1]; i++)
        for (uint32_t v = b->nodes[i], k = b->ends->in_at[v]; k < b->ends->in_at[v + 1]; k++) {
            const int32_t label = b->g->edges[b->ends->in[k]].label_px;

            if (label <= PL_GRAPH_LABEL_MAX)
                most = PL_MAX(most, label);
        }
    return most ? most + LABEL_ROOM : 0;
}

/* Places the columns from left to right and returns the width of the band. */
static int32_t place_columns(struct graph_band *b, bool labels)
{
    int32_t x = 0;

    for (uint32_t l = 0; l <= b->n_layers; l++) {
        struct graph_gap *gap = &b->columns[l];
        const uint32_t tracks = gap->n_left + gap->n_right;
        int32_t wide = 0;

        gap->start = x + (l ? TRUNK_ROOM : PL_GRAPH_LANE_GAP);
        if (l == b->n_layers)
            return tracks ? gap->start + tracks_wide(tracks) + PL_GRAPH_LANE_GAP : x;
        if (l || tracks)
            x = gap->start + tracks_wide(tracks) + PL_MAX(ARROW_ROOM, labels ? label_room(b, l) : 0);
        for (uint32_t i = b->layer_at[l]; i < b->layer_at[l + 1]; i++) {
            const uint32_t v = b->nodes[i];

            b->out->boxes[v].x = x;
            wide = PL_MAX(wide, b->out->boxes[v].w + pl_graph_hang(b->g->nodes[v].kind));
        }
        x += wide;
    }
    return x;
}

/* Places the rows below `top` and returns where the band ends. `up`: how far each row reaches above its
 * rail. Below the rail a row counts as high as a stage: a pill reaches 4 px into the row gap. */
static int32_t place_rows(struct graph_band *b, int32_t top, const int32_t *up, int32_t *ret_rail)
{
    int32_t y = top;

    for (uint32_t row = 0; row <= b->n_rows; row++) {
        struct graph_gap *gap = &b->rows[row];
        const bool outer = row == 0 || row == b->n_rows;

        gap->start = row == 0 ? y : y + (outer ? OUTER_ROOM : LANE_ABOVE);
        if (!outer)
            y += PL_GRAPH_ROW_GAP + tracks_wide(gap->n_left);
        else if (gap->n_left)
            y += OUTER_ROOM + tracks_wide(gap->n_left);
        if (row == b->n_rows)
            break;
        ret_rail[row] = y + up[row];
        y = ret_rail[row] + PL_GRAPH_RAIL;
    }
    return y;
}

/* Returns where the band ends: below its last row, or below the caption of a pill there. */
static int32_t bottom_of(const struct graph_band *b, int32_t bottom)
{
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const struct pl_graph_box *box = &b->out->boxes[b->nodes[i]];

        if (is_pill(b->g->nodes[b->nodes[i]].kind))
            bottom = PL_MAX(bottom, box->y + box->h + CAPTION);
    }
    return bottom;
}

int pl_graph_geometry_find(struct graph_band *b, int32_t top, struct pl_graph_area *ret, struct pl_err *err)
{
    const size_t size = (b->n_rows + 1) * sizeof(int32_t);
    int32_t *up = pl_arena_alloc(b->arena, size), *rail = pl_arena_alloc(b->arena, size);
    int32_t bottom, w;

    if (!up || !rail)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        struct pl_graph_box *box = &b->out->boxes[b->nodes[i]];

        size_box(b, b->nodes[i]);
        up[box->row] = PL_MAX(up[box->row], -box->y);
    }
    bottom = place_rows(b, top, up, rail);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        struct pl_graph_box *box = &b->out->boxes[b->nodes[i]];

        box->rail = rail[box->row];
        box->y += box->rail;
    }
    w = place_columns(b, true);
    if (w > PL_GRAPH_FIT_W)
        w = place_columns(b, false);
    *ret = (struct pl_graph_area){.y = top, .w = w, .h = bottom_of(b, bottom) - top};
    return 0;
}
