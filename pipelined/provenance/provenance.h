/* provenance: Levels of a graph of commits, seen from one of them, and the pages that are shown of each level; whether an output
 * is out of date. Pure.
 *
 * In:      Commits in the order in which they were made, and which was made from which; what an output was made by and from.
 * Out:     Levels; for each level a page. Reasons why an output is out of date, and sentences.
 * Uses:    plan, storage/base
 * Threads: Any thread; a call keeps nothing.
 *
 * Headers for other rooms:
 *   freshness  whether the output of a stage is out of date, and why
 *
 * Inside:
 *   provenance_levels  the longest way from the root to each commit
 *   provenance_pages   what is shown of each level */

/* provenance: the commits that a commit was made from (up: negative levels) and those that were made from it (down:
 * positive levels).
 *
 *   level −2       level −1        0          1
 *   labels ──┬──▶ decode ──────▶ train ──┬──▶ infer 12:03
 *   photos ──┘                  (root)   ├──▶ infer 12:01
 *                                        └──▶ … and 12,345 more
 *
 * A level may have very many commits: of each one page is shown. The pages of a level take turns between the repos, so that a
 * repo with few commits is not hidden by one with many; within a repo the newest commit comes first. */
#pragma once

#include "storage/base/arena.h"

#define PL_PROVENANCE_NONE INT32_MIN /* level of a commit that is neither up nor down of the root, or too far from it */

struct pl_provenance_node {
    uint32_t repo; /* number that stands for the commit's repo; smaller numbers are shown first */
    /* Results. */
    int32_t level;
    uint32_t near; /* edges on the shortest path between it and the root */
    bool shown;
};

/* `to` was made from `from`. */
struct pl_provenance_edge {
    uint32_t from, to;
};

struct pl_provenance {
    struct pl_provenance_node *nodes; /* in the order in which they were made: an edge leads to a higher number */
    struct pl_provenance_edge *edges; /* in any order; pl_provenance_levels sorts them by `to`, then by `from` */
    uint32_t n_nodes, n_edges, root;
};

/* One level of the graph. */
struct pl_provenance_level {
    int32_t level;
    uint32_t nodes; /* number of its commits */
    uint32_t shown; /* number of its commits on the page */
    uint32_t next;  /* position of the first commit after the page; equal to `nodes`: the page is the last one, or no page of
                     * this level was asked for */
    const uint32_t *order; /* the commits of the level in the order of its pages */
};

/* Computes the level of each node: the length of the longest path between it and the root. Nodes whose shortest path has
 * more than `depth` edges are left out, as if they were not there; `*ret_deeper`: there are such nodes. PL_EINVAL: an edge
 * does not lead to a higher number, or an index is out of range. */
PL_MUST_CHECK
int pl_provenance_levels(struct pl_provenance *g, uint32_t depth, bool *ret_deeper, struct pl_err *err);

/* What is shown. */
struct pl_provenance_ask {
    uint32_t limit; /* commits on a page, at least 1 */
    int32_t level;  /* 0: the root and the first page of each level; else: the page of that level from `after` on */
    uint32_t after; /* position in the level */
};

/* Marks the nodes that are shown, and gives the levels from the lowest to the highest without the root's; they live in
 * `arena`. On the first page of a level a commit without an edge to a shown commit of a level nearer to the root is left for
 * later pages. The pages of a level are those of one `limit`. pl_provenance_levels was called before. PL_ENOMEM. */
PL_MUST_CHECK
int pl_provenance_show(struct pl_provenance *g, const struct pl_provenance_ask *ask, struct pl_arena *arena,
                       struct pl_provenance_level **ret, uint32_t *ret_n, struct pl_err *err);
