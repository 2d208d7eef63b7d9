/* run_figures: the figures of one metrics.jsonl, and the points of one of them as a curve. Pure; one thread at a time.
 *
 *   lines ──▶ pl_run_figures_add ──▶ of each name: count, last, least and largest value, with their steps
 *   points ──▶ pl_curve_thin ──▶ at most so many points, with every peak
 *
 * Bounds: PL_RUN_FIGURES_MAX names of one file. */
#pragma once

#include "storage/base/err.h"

#define PL_RUN_FIGURES_MAX   64u  /* names of one file; what comes with others is counted in `more` */
#define PL_FIGURE_NAME_BYTES 128u /* a longer name is cut, at a whole character */
#define PL_CURVE_POINTS_MIN  8u   /* least `most` of pl_curve_thin */

/* One point of a curve. */
struct pl_point {
    double step, value;
};

struct pl_run_figure {
    char name[PL_FIGURE_NAME_BYTES + 1];
    uint64_t n;
    struct pl_point last, least, largest; /* of equal values the first */
};

/* `{0}` has no figures. */
struct pl_run_figures {
    struct pl_run_figure list[PL_RUN_FIGURES_MAX]; /* in the order in which they first came */
    size_t n;
    uint64_t more; /* values whose name is not among the first PL_RUN_FIGURES_MAX */
};

/* Adds a value of the figure `name`. Values that are not finite are left out. */
void pl_run_figures_add(struct pl_run_figures *f, const char *name, struct pl_point point);
/* Reduces the `n` points to at most `most` (PL_CURVE_POINTS_MIN or more), in place and in their order: divides them into
 * equal pieces and keeps of each the first, the last, the least and the largest. Returns how many are left. */
size_t pl_curve_thin(struct pl_point *points, size_t n, size_t most);
