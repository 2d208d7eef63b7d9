/* Figures of metrics.jsonl and their curves. Keeping the extremes of each piece shows every peak, as in M4 aggregation:
 * Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014. */
#include "pipelined/metrics/run_figures.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define KEPT_OF_A_PIECE 4u

/* Copies the name, cut at a whole UTF-8 character. */
static void copy_name(char out[PL_FIGURE_NAME_BYTES + 1], const char *name)
{
    size_t n = strnlen(name, PL_FIGURE_NAME_BYTES + 1);

    if (n > PL_FIGURE_NAME_BYTES)
        for (n = PL_FIGURE_NAME_BYTES; n > 0 && ((uint8_t)name[n] & 0xc0) == 0x80; n--)
            ;
    memcpy(out, name, n);
    out[n] = '\0';
}

void pl_run_figures_add(struct pl_run_figures *f, const char *name, struct pl_point point)
{
    char cut[PL_FIGURE_NAME_BYTES + 1];
    struct pl_run_figure *one;
    size_t i = 0;

    if (!isfinite(point.value) || !isfinite(point.step))
        return;
    copy_name(cut, name);
    while (i < f->n && strcmp(f->list[i].name, cut) != 0)
        i++;
    if (i == PL_RUN_FIGURES_MAX) {
        f->more++;
        return;
    }
    one = &f->list[i];
    if (i == f->n) {
        *one = (struct pl_run_figure){.least = point, .largest = point};
        memcpy(one->name, cut, sizeof cut);
        f->n++;
    }
    one->n++;
    one->last = point;
    if (point.value < one->least.value)
        one->least = point;
    if (point.value > one->largest.value)
        one->largest = point;
}

/* Keeps of the points from..to (not included) the first, the last, the least and the largest, in order, from place `out`
 * on, which is at most `from`. Returns how many it kept. */
static size_t thin_piece(struct pl_point *points, size_t from, size_t to, size_t out)
{
    size_t least = from, largest = from, kept = 0;

    for (size_t i = from; i < to; i++) {
        least = points[i].value < points[least].value ? i : least;
        largest = points[i].value > points[largest].value ? i : largest;
    }
    for (size_t i = from; i < to; i++)
        if (i == from || i == to - 1 || i == least || i == largest)
            points[out + kept++] = points[i];
    assert(kept <= KEPT_OF_A_PIECE);
    return kept;
}

size_t pl_curve_thin(struct pl_point *points, size_t n, size_t most)
{
    const size_t pieces = most / KEPT_OF_A_PIECE;
    size_t out = 0;

    assert(most >= PL_CURVE_POINTS_MIN);
    if (n <= most)
        return n;
    for (size_t i = 0; i < pieces; i++) {
        const size_t from = (size_t)((__uint128_t)n * i / pieces), to = (size_t)((__uint128_t)n * (i + 1) / pieces);

        out += thin_piece(points, from, to, out);
    }
    return out;
}
