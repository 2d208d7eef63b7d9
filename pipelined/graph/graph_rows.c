/* The order of the nodes in each layer, and their rows.
 *
 * A sweep goes over the layers, to the right or to the left. In each layer it sorts the nodes by the medians of the rows
 * of their neighbours on the side that it comes from, and then gives them rows: ascending whole numbers whose distances
 * from the lower medians sum up to as little as possible. That is an isotonic regression in the L1 norm over median
 * minus position, which a heap of the largest values so far solves in O(n log n) (the slope trick). The best of all
 * sweeps, by crossings between neighbouring layers and by the rows that edges go up or down, is the result. */
#include "pipelined/graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    struct graph_band *b;
    int32_t *row; /* by node of the graph; may be negative until compact() */
    struct graph_place *places;
    int32_t *medians, *heap;
    uint32_t *number; /* by row: a binary indexed tree for counting crossings, or the last node */
    uint64_t *ends;   /* for counting crossings: row of the source, row of the target */
};

static int by_value(const void *x, const void *y)
{
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;

    return (a > b) - (a < b);
}

static int by_median(const void *x, const void *y)
{
    const struct graph_place *a = x, *b = y;

    return a->twice != b->twice ? (a->twice > b->twice) - (a->twice < b->twice) : (a->at > b->at) - (a->at < b->at);
}

static int by_ends(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return (a > b) - (a < b);
}

/* Sets the medians of the rows of the node's neighbours on one side; its own row if it has none there. */
static void find_median(struct rows *s, bool to_right, struct graph_place *p)
{
    const struct graph_ends *ends = s->b->ends;
    const uint32_t *at = to_right ? ends->in_at : ends->out_at, *edges = to_right ? ends->in : ends->out;
    uint32_t n = 0;

    for (uint32_t k = at[p->node]; k < at[p->node + 1]; k++) {
        const struct pl_graph_edge *e = &s->b->g->edges[edges[k]];

        if (e->from != e->to)
            s->medians[n++] = s->row[to_right ? e->from : e->to];
    }
    if (n == 0)
        s->medians[n++] = s->row[p->node];
    qsort(s->medians, n, sizeof *s->medians, by_value);
    p->wish = s->medians[(n - 1) / 2];
    p->twice = p->wish + s->medians[n / 2];
}

/* Puts a value into a heap of `n` values whose largest is heap[0]. */
static void heap_push(int32_t *heap, uint32_t n, int32_t value)
{
    uint32_t i = n;

    for (; i > 0 && heap[(i - 1) / 2] < value; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = value;
}

/* Replaces the largest value by a smaller one. */
static void heap_replace(int32_t *heap, uint32_t n, int32_t value)
{
    uint32_t i = 0;

    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= value)
            break;
        heap[i] = heap[child];
    }
    heap[i] = value;
}

/* Gives the `n` sorted places ascending rows, as near to their wishes as can be. It goes upwards, with negated rows, so
 * that of two equally good solutions the upper node gets its wish. */
static void choose_rows(struct rows *s, uint32_t n)
{
    int32_t *heap = s->heap, low;
    uint32_t size = 0;

    for (uint32_t i = n; i-- > 0;) {
        const int32_t value = (int32_t)i - s->places[i].wish;

        heap_push(heap, size++, value);
        if (heap[0] > value)
            heap_replace(heap, size, value);
        s->places[i].wish = heap[0];
    }
    low = n ? s->places[0].wish : 0;
    for (uint32_t i = 0; i < n; i++) {
        low = PL_MIN(low, s->places[i].wish);
        s->row[s->places[i].node] = (int32_t)i - low;
    }
}

/* Sorts the nodes of one layer and chooses their rows. */
static void sweep_layer(struct rows *s, uint32_t layer, bool to_right)
{
    const uint32_t from = s->b->layer_at[layer], n = s->b->layer_at[layer + 1] - from;

    for (uint32_t i = 0; i < n; i++) {
        s->places[i] = (struct graph_place){.node = s->b->nodes[from + i], .at = i};
        find_median(s, to_right, &s->places[i]);
    }
    qsort(s->places, n, sizeof *s->places, by_median);
    for (uint32_t i = 0; i < n; i++)
        s->b->nodes[from + i] = s->places[i].node;
    choose_rows(s, n);
}

static void sweep(struct rows *s, bool to_right)
{
    const uint32_t n = s->b->n_layers;

    for (uint32_t i = 1; i < n; i++)
        sweep_layer(s, to_right ? i : n - 1 - i, to_right);
}

/* Renumbers the rows from 0 and removes those without a node. Rows of a layer differ by less than the nodes of the band,
 * but layers may be far apart: the distinct rows are found by sorting. */
static void compact(struct rows *s)
{
    const struct graph_band *b = s->b;
    int32_t *sorted = s->heap;
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_nodes; i++)
        sorted[i] = s->row[b->nodes[i]];
    qsort(sorted, b->n_nodes, sizeof *sorted, by_value);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        if (i == 0 || sorted[i] != sorted[n - 1])
            sorted[n++] = sorted[i];
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const int32_t *found = bsearch(&s->row[b->nodes[i]], sorted, n, sizeof *sorted, by_value);

        s->row[b->nodes[i]] = (int32_t)(found - sorted);
    }
    s->b->n_rows = n;
}

/* Returns how often edges of neighbouring layers cross: the inversions among their ends, counted with a binary indexed
 * tree (W. Barth, P. Mutzel, M. Jünger, "Simple and efficient bilayer cross counting", 2004). */
static uint64_t count_crossings(struct rows *s, uint32_t layer)
{
    const struct graph_band *b = s->b;
    uint64_t n = 0, crossings = 0;

    for (uint32_t i = b->layer_at[layer]; i < b->layer_at[layer + 1]; i++)
        for (uint32_t v = b->nodes[i], k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++) {
            const uint32_t to = b->g->edges[b->ends->out[k]].to;

            if (b->out->boxes[to].layer == layer + 1)
                s->ends[n++] = (uint64_t)s->row[v] << 32 | (uint32_t)s->row[to];
        }
    qsort(s->ends, n, sizeof *s->ends, by_ends);
    memset(s->number, 0, (b->n_rows + 1) * sizeof *s->number);
    for (uint64_t k = 0; k < n; k++) {
        const uint32_t row = (uint32_t)s->ends[k] + 1;

        crossings += k;
        for (uint32_t i = row; i > 0; i -= i & -i)
            crossings -= s->number[i];
        for (uint32_t i = row; i <= b->n_rows; i += i & -i)
            s->number[i]++;
    }
    return crossings;
}

/* Finds the node before each node in its row. The nodes come by layer: the last one seen of a row is the one before. */
static void find_before(struct rows *s)
{
    struct graph_band *b = s->b;

    for (uint32_t i = 0; i < b->n_rows; i++)
        s->number[i] = PL_GRAPH_NONE;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const uint32_t v = b->nodes[i];

        b->before[v] = s->number[s->row[v]];
        s->number[s->row[v]] = v;
    }
}

/* Returns how bad the present rows are: two for a crossing, one for each row that an edge goes up or down, or for one that
 * must go around a node of its row. */
static uint64_t cost_of(struct rows *s)
{
    const struct graph_band *b = s->b;
    uint64_t cost = 0;

    for (uint32_t l = 0; l + 1 < b->n_layers; l++)
        cost += 2 * count_crossings(s, l);
    find_before(s);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        for (uint32_t v = b->nodes[i], k = b->ends->out_at[v]; k < b->ends->out_at[v + 1]; k++) {
            const uint32_t to = b->g->edges[b->ends->out[k]].to;

            cost += s->row[v] == s->row[to] ? b->before[to] != v : (uint64_t)abs(s->row[v] - s->row[to]);
        }
    return cost;
}

static void keep_best(const struct rows *s, uint32_t *ret_n_rows)
{
    struct graph_scratch *scratch = s->b->scratch;

    for (uint32_t i = 0; i < s->b->n_nodes; i++) {
        scratch->best_nodes[i] = s->b->nodes[i];
        scratch->best_rows[i] = (uint32_t)s->row[s->b->nodes[i]];
    }
    *ret_n_rows = s->b->n_rows;
}

/* Sweeps, and leaves the best rows in the scratch memory. */
static void sweep_all(struct rows *s)
{
    struct graph_band *b = s->b;
    uint64_t best = UINT64_MAX;
    uint32_t n_rows = 0;

    for (uint32_t l = 0; l < b->n_layers; l++)
        for (uint32_t i = b->layer_at[l]; i < b->layer_at[l + 1]; i++)
            s->row[b->nodes[i]] = (int32_t)(i - b->layer_at[l]);
    for (unsigned i = 0; best > 0 && i < PL_GRAPH_SWEEPS; i++) {
        uint64_t cost;

        sweep(s, i % 2 == 0);
        compact(s);
        cost = cost_of(s);
        if (cost >= best)
            continue;
        best = cost;
        keep_best(s, &n_rows);
    }
    b->n_rows = n_rows;
}

void pl_graph_rows_find(struct graph_band *b)
{
    struct graph_scratch *scratch = b->scratch;
    struct rows s = {.b = b,
                     .row = scratch->row,
                     .places = scratch->places,
                     .medians = scratch->medians,
                     .heap = scratch->heap,
                     .number = scratch->number,
                     .ends = scratch->ends};

    sweep_all(&s);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        b->nodes[i] = scratch->best_nodes[i];
        s.row[b->nodes[i]] = (int32_t)scratch->best_rows[i];
        b->out->boxes[b->nodes[i]].row = scratch->best_rows[i];
    }
    find_before(&s);
}
