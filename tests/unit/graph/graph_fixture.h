/* graph_fixture: graphs written as text, random graphs, and what must hold of every layout. */
#pragma once

#include "pipelined/graph/graph.h"
#include "pipelined/graph/graph_fold.h"
#include "storage/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIXTURE_NODES_MAX 12000u
#define FIXTURE_EDGES_MAX 60000u

/* A graph to be built; names only of those that come from text. */
struct drawn {
    struct pl_graph_node nodes[FIXTURE_NODES_MAX];
    struct pl_graph_edge edges[FIXTURE_EDGES_MAX];
    char names[64][16];
    struct pl_graph g;
};

static inline struct drawn *drawn_make(void)
{
    struct drawn *d = calloc(1, sizeof *d);

    assert_non_null(d);
    d->g = (struct pl_graph){.nodes = d->nodes, .edges = d->edges, .n_bands = 1};
    return d;
}

static inline uint32_t add_node(struct drawn *d, enum pl_graph_kind kind, uint32_t band, uint32_t pipeline)
{
    assert_true(d->g.n_nodes < FIXTURE_NODES_MAX);
    d->nodes[d->g.n_nodes] = (struct pl_graph_node){.kind = kind, .band = band, .pipeline = pipeline};
    return d->g.n_nodes++;
}

static inline void add_edge(struct drawn *d, uint32_t from, uint32_t to)
{
    assert_true(d->g.n_edges < FIXTURE_EDGES_MAX);
    d->edges[d->g.n_edges++] = (struct pl_graph_edge){.from = from, .to = to};
}

static inline uint32_t named(struct drawn *d, const char *name, size_t len)
{
    for (uint32_t v = 0; v < d->g.n_nodes; v++)
        if (strlen(d->names[v]) == len && strncmp(d->names[v], name, len) == 0)
            return v;
    assert_true(d->g.n_nodes < 64 && len < 16);
    memcpy(d->names[d->g.n_nodes], name, len);
    return add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);
}

/* "decode<photos split<decode+labels": stage decode reads photos, split reads decode and labels. A node that reads nothing
 * is a repo. */
static inline struct drawn *drawn_from(const char *text)
{
    struct drawn *d = drawn_make();

    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "< ");
        uint32_t to = named(d, at, len);

        at += len;
        while (*at == '<' || *at == '+') {
            len = strcspn(++at, "+ ");
            d->nodes[to] = (struct pl_graph_node){.kind = PL_GRAPH_STAGE};
            add_edge(d, named(d, at, len), to);
            at += len;
        }
        at += strspn(at, " ");
    }
    return d;
}

/* A random graph of `n` nodes: each stage reads 1 … `inputs` earlier nodes, most of them near it, sometimes one twice, and
 * one stage in twenty its own last output. A band has a tenth of the nodes or all of them. */
static inline struct drawn *drawn_random(uint64_t seed, uint32_t n, uint32_t inputs)
{
    struct drawn *d = drawn_make();
    uint64_t state = seed;
    const uint32_t bands = seed % 3 == 0 ? 10 : 1, each = (n + bands - 1) / bands;

    d->g.n_bands = bands;
    for (uint32_t v = 0; v < n; v++) {
        const uint32_t first = v / each * each;
        const bool repo = v - first < 1 + each / 12;

        add_node(d, repo ? PL_GRAPH_REPO : PL_GRAPH_STAGE, v / each,
                 repo ? PL_GRAPH_NONE : v / each * 7 + (uint32_t)(pl_splitmix64(&state) % 7));
        for (uint32_t k = repo ? 0 : 1 + (uint32_t)(pl_splitmix64(&state) % inputs); k > 0; k--) {
            const uint32_t reach = pl_splitmix64(&state) % 4 ? PL_MIN(v - first, 12) : v - first;

            add_edge(d, pl_splitmix64(&state) % 20 ? v - 1 - (uint32_t)(pl_splitmix64(&state) % reach) : v, v);
        }
    }
    return d;
}

/* ---- what must hold of a layout ---- */

#define HOLDS(what, ...)                                                                                                         \
    do {                                                                                                                         \
        if (!(what))                                                                                                             \
            fail_msg(__VA_ARGS__);                                                                                               \
    } while (0)

static inline int32_t low(int32_t a, int32_t b)
{
    return PL_MIN(a, b);
}
static inline int32_t high(int32_t a, int32_t b)
{
    return PL_MAX(a, b);
}

/* What a node covers: its box and the pill that hangs over it. */
static inline struct pl_graph_area covered(const struct pl_graph *g, const struct pl_graph_layout *l, uint32_t v)
{
    return (struct pl_graph_area){l->boxes[v].x, l->boxes[v].y, l->boxes[v].w + pl_graph_hang(g->nodes[v].kind), l->boxes[v].h};
}

static inline void boxes_are_apart(const struct pl_graph *g, const struct pl_graph_layout *l)
{
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        const struct pl_graph_area a = covered(g, l, v), band = l->bands[g->nodes[v].band];

        HOLDS(a.x >= band.x && a.y >= band.y && a.x + a.w <= band.x + band.w && a.y + a.h <= band.y + band.h,
              "node %u at %d,%d is not in its band", v, a.x, a.y);
        for (uint32_t w = 0; w < v; w++) {
            const struct pl_graph_area b = covered(g, l, w);

            HOLDS(a.x >= b.x + b.w || b.x >= a.x + a.w || a.y >= b.y + b.h || b.y >= a.y + a.h, "nodes %u and %u overlap", v, w);
        }
    }
    for (uint32_t i = 1; i < g->n_bands; i++)
        HOLDS(l->bands[i].y >= l->bands[i - 1].y + l->bands[i - 1].h, "bands %u and %u overlap", i - 1, i);
}

static inline void edges_go_right(const struct pl_graph *g, const struct pl_graph_layout *l)
{
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const struct pl_graph_box *from = &l->boxes[g->edges[e].from], *to = &l->boxes[g->edges[e].to];

        if (from != to)
            HOLDS(from->layer < to->layer && from->x + from->w < to->x, "edge %u does not go to the right", e);
    }
}

/* Each path begins at the one output port and ends at its own input port, with an arrow to the right that has room. */
static inline void paths_end_at_ports(const struct pl_graph *g, const struct pl_graph_layout *l)
{
    int32_t *last = calloc(g->n_nodes + 1, sizeof *last); /* y of the node's last port so far */

    assert_non_null(last);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const uint32_t to = g->edges[e].to, from = g->edges[e].from;
        const struct pl_graph_path *p = &l->paths[e];
        const struct pl_graph_point *start = &p->points[0], *end = &p->points[p->n - 1];

        HOLDS(p->n >= 2 && start->x == l->boxes[from].x + l->boxes[from].w + pl_graph_hang(g->nodes[from].kind) &&
                  start->y == l->boxes[from].rail,
              "edge %u does not begin at the output port of node %u", e, from);
        HOLDS(end->x == l->boxes[to].x && end->y > l->boxes[to].y && end->y < l->boxes[to].y + l->boxes[to].h,
              "edge %u does not end at the left side of node %u", e, to);
        HOLDS(end->x - p->points[p->n - 2].x >= 16, "edge %u has no room for its arrow", e);
        HOLDS(!last[to] || end->y == last[to] + PL_GRAPH_PORT_GAP, "edge %u: ports %d and %d of node %u", e, last[to], end->y,
              to);
        HOLDS((end->y - l->boxes[to].rail) % PL_GRAPH_PORT_GAP == 0, "edge %u: a port beside the grid of the rail", e);
        last[to] = end->y;
    }
    free(last);
}

/* A segment of a path, with the node that it leaves. */
struct segment {
    int32_t x0, y0, x1, y1;
    uint32_t from, edge;
};

static inline struct segment *segments_of(const struct pl_graph *g, const struct pl_graph_layout *l, size_t *ret_n)
{
    struct segment *s = calloc(g->n_edges * 6u + 1, sizeof *s);
    size_t n = 0;

    assert_non_null(s);
    for (uint32_t e = 0; e < g->n_edges; e++)
        for (uint32_t k = 1; k < l->paths[e].n; k++) {
            const struct pl_graph_point a = l->paths[e].points[k - 1], b = l->paths[e].points[k];

            HOLDS((a.x == b.x) != (a.y == b.y), "edge %u: segment %u is not horizontal or vertical", e, k);
            s[n++] = (struct segment){low(a.x, b.x), low(a.y, b.y), high(a.x, b.x), high(a.y, b.y), g->edges[e].from, e};
        }
    *ret_n = n;
    return s;
}

/* No segment touches a box, except where it begins or ends. */
static inline void segments_avoid_boxes(const struct pl_graph *g, const struct pl_graph_layout *l, const struct segment *s,
                                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t v = 0; v < g->n_nodes; v++) {
            const struct pl_graph_area a = covered(g, l, v);

            HOLDS(s[i].x1 <= a.x || s[i].x0 >= a.x + a.w || s[i].y1 <= a.y || s[i].y0 >= a.y + a.h,
                  "edge %u: segment %d,%d %d,%d goes below node %u", s[i].edge, s[i].x0, s[i].y0, s[i].x1, s[i].y1, v);
        }
}

static inline int by_line(const void *x, const void *y)
{
    const struct segment *a = x, *b = y;
    const bool across = a->y0 == a->y1;

    if (across != (b->y0 == b->y1))
        return across ? -1 : 1;
    if (across)
        return a->y0 != b->y0 ? (a->y0 > b->y0) - (a->y0 < b->y0) : (a->x0 > b->x0) - (a->x0 < b->x0);
    return a->x0 != b->x0 ? (a->x0 > b->x0) - (a->x0 < b->x0) : (a->y0 > b->y0) - (a->y0 < b->y0);
}

/* Segments of different trunks meet at right angles or not at all: none lies on another. Sorts them. */
static inline void segments_cross_at_right_angles(struct segment *s, size_t n)
{
    qsort(s, n, sizeof *s, by_line);
    for (size_t i = 0; i < n; i++) {
        const bool across = s[i].y0 == s[i].y1;

        for (size_t k = i + 1; k < n && across == (s[k].y0 == s[k].y1) && (across ? s[k].y0 == s[i].y0 : s[k].x0 == s[i].x0) &&
                               (across ? s[k].x0 <= s[i].x1 : s[k].y0 <= s[i].y1);
             k++)
            HOLDS(s[k].from == s[i].from, "edges %u and %u lie on each other at %d,%d", s[i].edge, s[k].edge, s[k].x0, s[k].y0);
    }
}

static inline void layout_holds(const struct pl_graph *g, const struct pl_graph_layout *l)
{
    size_t n;
    struct segment *s = segments_of(g, l, &n);

    boxes_are_apart(g, l);
    edges_go_right(g, l);
    paths_end_at_ports(g, l);
    segments_avoid_boxes(g, l, s, n);
    segments_cross_at_right_angles(s, n);
    free(s);
}
