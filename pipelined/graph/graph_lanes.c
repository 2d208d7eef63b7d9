/* Ports, ways and tracks.
 *
 * Each column gap has two zones: left the trunks of the nodes before it, right the entries of the nodes behind it. A
 * stub between a node and a trunk stays in the left zone, one between an entry and a port in the right zone, so that
 * they never lie on each other. Only a direct edge crosses the right zone at the height of a port: on the rail it would
 * meet the stub of the node before that port, whose trunk must therefore lie further left. Where such orders would go
 * in a circle, the edge takes a lane.
 *
 * Tracks are given by the left-edge method (Hashimoto and Stevens): each track takes, from the top, every interval that
 * begins behind the last one and waits for no other; a tree finds the next one. An end in a gap covers the whole gap, because lanes and columns are
 * not placed yet when tracks are given. */
#include "pipelined/graph/graph_internal.h"

#include <assert.h>
#include <stdlib.h>

#define ROW_SPAN ((int64_t)1 << 24) /* more than the ports of a node reach up */

/* Vertical positions before rows have a height: a port of a row, and the ends of a row gap. */
static int64_t at_row(uint32_t row, int32_t offset)
{
    return (2 * (int64_t)row + 1) * ROW_SPAN + offset;
}
static int64_t gap_top(uint32_t gap)
{
    return 2 * (int64_t)gap * ROW_SPAN - ROW_SPAN / 4;
}
static int64_t gap_bottom(uint32_t gap)
{
    return 2 * (int64_t)gap * ROW_SPAN + ROW_SPAN / 4;
}

/* ---- ports and ways ---- */

static bool may_be_straight(const struct graph_band *b, uint32_t edge)
{
    const struct pl_graph_edge *e = &b->g->edges[edge];

    return b->before[e->to] == e->from;
}

/* Chooses the port on the rail: the last or the last but one, so that the ports stay on the box, whose side goes less
 * than two ports below the rail. */
static void choose_rail_port(struct graph_band *b, uint32_t node)
{
    const uint32_t from = b->ends->in_at[node], n = b->ends->in_at[node + 1] - from;

    b->rail_port[node] = n > 2 ? n - 2 : 0;
    for (uint32_t i = 0; i < n; i++)
        b->port[b->ends->in[from + i]] = i;
    for (uint32_t i = n > 2 ? n - 2 : 0; i < n; i++)
        if (may_be_straight(b, b->ends->in[from + i])) {
            b->rail_port[node] = i;
            return;
        }
}

static enum graph_way way_of(const struct graph_band *b, uint32_t edge)
{
    const struct pl_graph_edge *e = &b->g->edges[edge];

    if (may_be_straight(b, edge) && b->port[edge] == b->rail_port[e->to])
        return GRAPH_STRAIGHT;
    return b->out->boxes[e->to].layer == b->out->boxes[e->from].layer + 1 ? GRAPH_DIRECT : GRAPH_LANE;
}

static void choose_ways(struct graph_band *b)
{
    for (uint32_t i = 0; i < b->n_nodes; i++)
        choose_rail_port(b, b->nodes[i]);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        for (uint32_t v = b->nodes[i], k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++) {
            const uint32_t e = b->ends->out[k];

            b->way[e] = way_of(b, e);
            b->nets[v].trunk |= b->way[e] != GRAPH_STRAIGHT;
        }
}

/* ---- order of trunks ---- */

/* In the scratch memory, after[v] is the node whose trunk must lie right of the trunk of v, since it has a direct edge,
 * after_edge[v], to the rail of the node behind v; PL_GRAPH_NONE = there is none. A node has at most one such edge behind
 * it. waits[v] is the number of trunks that must lie left of its own and have no track yet. */
static void find_order(const struct graph_band *b)
{
    struct graph_scratch *o = b->scratch;

    for (uint32_t i = 0; i < b->n_nodes; i++)
        o->after[b->nodes[i]] = PL_GRAPH_NONE;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const uint32_t to = b->nodes[i], left = b->before[to], k = b->ends->in_at[to] + b->rail_port[to];

        if (k >= b->ends->in_at[to + 1] || left == PL_GRAPH_NONE || b->way[b->ends->in[k]] != GRAPH_DIRECT ||
            !b->nets[left].trunk || b->out->boxes[left].layer + 1 != b->out->boxes[to].layer)
            continue;
        o->after_edge[left] = b->ends->in[k];
        o->after[left] = b->g->edges[o->after_edge[left]].from;
    }
}

/* Sends one edge of each circle by the lane. Each node has one successor, so that a walk that meets itself has found a
 * circle. */
static void cut_circles(struct graph_band *b)
{
    struct graph_scratch *o = b->scratch;

    for (uint32_t i = 0; i < b->n_nodes; i++) {
        uint32_t v = b->nodes[i];

        for (; v != PL_GRAPH_NONE && !o->seen[v]; v = o->after[v])
            o->seen[v] = i + 1;
        if (v == PL_GRAPH_NONE || o->seen[v] != i + 1)
            continue;
        b->way[o->after_edge[v]] = GRAPH_LANE;
        o->after[v] = PL_GRAPH_NONE;
    }
    for (uint32_t i = 0; i < b->n_nodes; i++)
        if (o->after[b->nodes[i]] != PL_GRAPH_NONE)
            o->waits[o->after[b->nodes[i]]]++;
}

/* ---- lanes and entries ---- */

/* Chooses the row gap of the net's lane: beside the row of the node, towards the middle of the targets; if they are in
 * its own row, the side with fewer lanes. */
static uint32_t choose_row_gap(const struct graph_band *b, uint32_t node, const uint32_t *used)
{
    const uint32_t row = b->out->boxes[node].row;
    int64_t down = 0;

    for (uint32_t k = b->ends->out_at[node]; k < b->ends->out_at[node + 1]; k++) {
        const uint32_t e = b->ends->out[k];

        if (b->way[e] == GRAPH_LANE)
            down += (int64_t)b->out->boxes[b->g->edges[e].to].row - row;
    }
    if (down == 0)
        return used[row] < used[row + 1] ? row : row + 1;
    return down > 0 ? row + 1 : row;
}

/* Adds the port of an edge to the entry of its net in the gap before the target. `last` has the newest entry of each gap. */
static void enter(struct graph_band *b, uint32_t edge, uint32_t *last)
{
    const struct pl_graph_edge *e = &b->g->edges[edge];
    const uint32_t gap = b->out->boxes[e->to].layer;
    const int64_t port = at_row(b->out->boxes[e->to].row, graph_port_offset(b, edge));
    struct graph_net *net = &b->nets[e->from];
    struct graph_entry *entry;

    if (last[gap] == PL_GRAPH_NONE || b->entries[last[gap]].node != e->from) {
        last[gap] = b->n_entries++;
        b->entries[last[gap]] =
            (struct graph_entry){.node = e->from, .gap = gap, .lo = gap_top(net->row_gap), .hi = gap_bottom(net->row_gap)};
    }
    entry = &b->entries[last[gap]];
    entry->lo = PL_MIN(entry->lo, port);
    entry->hi = PL_MAX(entry->hi, port);
    b->entry_of[edge] = last[gap];
    net->first_gap = PL_MIN(net->first_gap, 2 * gap + 1);
    net->last_gap = PL_MAX(net->last_gap, 2 * gap + 1);
}

/* Makes the lanes and entries of the band. A unit of a lane is a zone: 2 × gap for the left, 2 × gap + 1 for the right one. */
static int find_lanes(struct graph_band *b, struct pl_err *err)
{
    uint32_t *used = pl_arena_alloc(b->arena, (b->n_rows + 2) * sizeof *used),
             *last = pl_arena_alloc(b->arena, (b->n_layers + 2) * sizeof *last), n = 0;

    for (uint32_t i = 0; i < b->n_nodes; i++)
        n += b->ends->out_at[b->nodes[i] + 1] - b->ends->out_at[b->nodes[i]];
    b->entries = pl_arena_alloc(b->arena, (n + 1) * sizeof *b->entries);
    b->n_entries = 0;
    if (!used || !last || !b->entries)
        return pl_err_nomem(err);
    for (uint32_t l = 0; l <= b->n_layers; l++)
        last[l] = PL_GRAPH_NONE;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const uint32_t v = b->nodes[i];
        struct graph_net *net = &b->nets[v];

        net->first_gap = net->last_gap = 2 * (b->out->boxes[v].layer + 1);
        for (uint32_t k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++)
            net->lane |= b->way[b->ends->out[k]] == GRAPH_LANE;
        if (!net->lane)
            continue;
        net->row_gap = choose_row_gap(b, v, used);
        used[net->row_gap]++;
        for (uint32_t k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++)
            if (b->way[b->ends->out[k]] == GRAPH_LANE)
                enter(b, b->ends->out[k], last);
    }
    return 0;
}

/* ---- tracks ---- */

static int by_start(const void *x, const void *y)
{
    const struct graph_item *a = x, *b = y;

    if (a->group != b->group)
        return (a->group > b->group) - (a->group < b->group);
    if (a->lo != b->lo)
        return (a->lo > b->lo) - (a->lo < b->lo);
    return (a->owner > b->owner) - (a->owner < b->owner);
}

/* Items of one gap that may have a track now, as a binary tree: any[1] is the root, the leaf of item i is any[size + i], and
 * each node says whether there is one below it. */
struct ready {
    bool *any;
    uint32_t size; /* a power of two */
};

static void ready_init(struct ready *t, const struct graph_scratch *s, const struct graph_item *items, uint32_t n, bool ordered)
{
    t->any = s->any;
    for (t->size = 1; t->size < n;)
        t->size *= 2;
    for (uint32_t i = 0; i < t->size; i++)
        t->any[t->size + i] = i < n && !(ordered && s->waits[items[i].owner]);
    for (uint32_t i = t->size - 1; i > 0; i--)
        t->any[i] = t->any[2 * i] || t->any[2 * i + 1];
}

static void ready_set(struct ready *t, uint32_t i, bool on)
{
    i += t->size;
    t->any[i] = on;
    while (i /= 2)
        t->any[i] = t->any[2 * i] || t->any[2 * i + 1];
}

/* Returns the first ready item from item `i` on; a number that no item has if there is none. */
static uint32_t ready_from(const struct ready *t, uint32_t i)
{
    if (i >= t->size)
        return t->size;
    for (i += t->size; !t->any[i]; i++) {
        while (i & 1)
            i /= 2;
        if (!i)
            return t->size;
    }
    while (i < t->size)
        i = t->any[2 * i] ? 2 * i : 2 * i + 1;
    return i - t->size;
}

/* Returns the first of the sorted items that begins behind `end`, from item `low` on; `n` if none does. */
static uint32_t first_behind(const struct graph_item *items, uint32_t low, uint32_t n, int64_t end)
{
    while (low < n) {
        const uint32_t middle = low + (n - low) / 2;

        if (items[middle].lo <= end)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Gives the `n` sorted items of one gap their tracks, into track[owner] of the scratch memory, and returns how many there
 * are. Two items of a track are more than `apart` from each other; with `ordered` the order of trunks is kept. Each step
 * gives one item its track, so that the time is O(n log n) however many items lie side by side. */
static uint32_t pack(struct graph_scratch *s, const struct graph_item *items, uint32_t n, int64_t apart, bool ordered)
{
    struct ready t;
    uint32_t track = 0;

    ready_init(&t, s, items, n, ordered);
    for (uint32_t i = 0; i < n; i++)
        s->at[items[i].owner] = i;
    for (uint32_t left = n; left > 0; track++) {
        uint32_t n_placed = 0;

        for (uint32_t i = ready_from(&t, 0); i < n;) {
            ready_set(&t, i, false);
            s->track[items[i].owner] = track;
            s->placed[n_placed++] = items[i].owner;
            i = ready_from(&t, first_behind(items, i + 1, n, items[i].hi + apart));
        }
        assert(n_placed > 0); /* the order has no circles */
        left -= n_placed;
        for (uint32_t i = 0; ordered && i < n_placed; i++) { /* a trunk that waits lies right of this track */
            const uint32_t after = s->after[s->placed[i]];

            if (after != PL_GRAPH_NONE && --s->waits[after] == 0)
                ready_set(&t, s->at[after], true);
        }
    }
    return track;
}

enum zone { LEFT, RIGHT };

/* Packs `n` items, each group by itself; the number of tracks of group g goes to gaps[g]. */
static void pack_groups(struct graph_scratch *s, uint32_t n, int64_t apart, bool ordered, struct graph_gap *gaps, enum zone zone)
{
    qsort(s->items, n, sizeof *s->items, by_start);
    for (uint32_t i = 0, to; i < n; i = to) {
        const uint32_t group = s->items[i].group;
        uint32_t tracks;

        for (to = i; to < n && s->items[to].group == group;)
            to++;
        tracks = pack(s, s->items + i, to - i, apart, ordered);
        if (zone == LEFT)
            gaps[group].n_left = tracks;
        else
            gaps[group].n_right = tracks;
    }
}

static struct graph_item trunk_item(const struct graph_band *b, uint32_t node)
{
    const struct graph_net *net = &b->nets[node];
    const int64_t rail = at_row(b->out->boxes[node].row, 0);
    struct graph_item item = {.lo = rail, .hi = rail, .owner = node, .group = b->out->boxes[node].layer + 1};

    if (net->lane) {
        item.lo = PL_MIN(item.lo, gap_top(net->row_gap));
        item.hi = PL_MAX(item.hi, gap_bottom(net->row_gap));
    }
    for (uint32_t k = b->ends->out_at[node]; k < b->ends->out_at[node + 1]; k++) {
        const uint32_t e = b->ends->out[k];
        const int64_t port = at_row(b->out->boxes[b->g->edges[e].to].row, graph_port_offset(b, e));

        if (b->way[e] != GRAPH_DIRECT)
            continue;
        item.lo = PL_MIN(item.lo, port);
        item.hi = PL_MAX(item.hi, port);
    }
    return item;
}

static void pack_trunks(struct graph_band *b)
{
    struct graph_scratch *s = b->scratch;
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_nodes; i++)
        if (b->nets[b->nodes[i]].trunk)
            s->items[n++] = trunk_item(b, b->nodes[i]);
    pack_groups(s, n, PL_GRAPH_LANE_GAP, true, b->columns, LEFT);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        b->nets[b->nodes[i]].track = s->track[b->nodes[i]];
}

static void pack_lanes(struct graph_band *b)
{
    struct graph_scratch *s = b->scratch;
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const struct graph_net *net = &b->nets[b->nodes[i]];

        if (net->lane)
            s->items[n++] =
                (struct graph_item){.lo = net->first_gap, .hi = net->last_gap, .owner = b->nodes[i], .group = net->row_gap};
    }
    pack_groups(s, n, 0, false, b->rows, LEFT);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        b->nets[b->nodes[i]].lane_at = s->track[b->nodes[i]];
}

static void pack_entries(struct graph_band *b)
{
    struct graph_scratch *s = b->scratch;

    for (uint32_t i = 0; i < b->n_entries; i++)
        s->items[i] = (struct graph_item){.lo = b->entries[i].lo, .hi = b->entries[i].hi, .owner = i, .group = b->entries[i].gap};
    pack_groups(s, b->n_entries, PL_GRAPH_LANE_GAP, false, b->columns, RIGHT);
    for (uint32_t i = 0; i < b->n_entries; i++)
        b->entries[i].track = s->track[i];
}

int pl_graph_lanes_find(struct graph_band *b, struct pl_err *err)
{
    int r;

    b->columns = pl_arena_alloc(b->arena, (b->n_layers + 1) * sizeof *b->columns);
    b->rows = pl_arena_alloc(b->arena, (b->n_rows + 1) * sizeof *b->rows);
    if (!b->columns || !b->rows)
        return pl_err_nomem(err);
    choose_ways(b);
    find_order(b);
    cut_circles(b);
    r = find_lanes(b, err);
    if (r < 0)
        return r;
    pack_trunks(b);
    pack_lanes(b);
    pack_entries(b);
    return 0;
}
