/* provenance_pages: sorts the commits of each level, and shows one page of it. Levels are visited away from the root, so that
 * it is known which commits nearer to it are shown. A later page is found by showing all first pages before: the order of a
 * level depends on what they show. */
#include "pipelined/provenance/provenance.h"

#include <stdlib.h>

/* A commit while its level is sorted. */
struct candidate {
    uint32_t node, repo;
    uint32_t rank; /* how many commits of its repo in the level are newer */
    bool linked;   /* a shown commit nearer to the root has an edge to it */
};

static int compare_ranks(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->linked != y->linked)
        return x->linked ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->repo < y->repo ? -1 : x->repo > y->repo;
}

static int compare_repos(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->repo != y->repo)
        return x->repo < y->repo ? -1 : 1;
    return x->node > y->node ? -1 : x->node < y->node;
}

/* Sorts the commits of a level into the order of its pages. */
static void sort_level(struct candidate *list, uint32_t n)
{
    uint32_t rank = 0;

    qsort(list, n, sizeof(*list), compare_repos);
    for (uint32_t i = 0; i < n; i++) {
        rank = i > 0 && list[i].repo == list[i - 1].repo ? rank + 1 : 0;
        list[i].rank = rank;
    }
    qsort(list, n, sizeof(*list), compare_ranks);
}

/* Marks in `linked` the nodes of one side that have an edge to a shown node nearer to the root. */
static void mark_linked(const struct pl_provenance *g, int32_t level, bool *linked)
{
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const uint32_t near = level > 0 ? g->edges[e].from : g->edges[e].to, far = level > 0 ? g->edges[e].to : g->edges[e].from;

        if (g->nodes[far].level == level && g->nodes[near].shown)
            linked[far] = true;
    }
}

/* The buffers of pl_provenance_show. */
struct showing {
    struct candidate *list; /* the commits of one level */
    uint32_t *order;        /* all commits but the root, level by level */
    bool *linked;           /* by node */
    uint32_t used;          /* entries of `order` that are filled */
};

/* Shows the first page of a level. */
static void show_level(struct pl_provenance *g, uint32_t limit, struct showing *s, int32_t number,
                       struct pl_provenance_level *ret)
{
    uint32_t *order = s->order + s->used;

    *ret = (struct pl_provenance_level){.level = number, .order = order};
    mark_linked(g, number, s->linked);
    for (uint32_t v = 0; v < g->n_nodes; v++)
        if (g->nodes[v].level == number)
            s->list[ret->nodes++] = (struct candidate){.node = v, .repo = g->nodes[v].repo, .linked = s->linked[v]};
    sort_level(s->list, ret->nodes);
    for (uint32_t i = 0; i < ret->nodes; i++)
        order[i] = s->list[i].node;
    for (; ret->shown < PL_MIN(ret->nodes, limit) && s->list[ret->shown].linked; ret->shown++)
        g->nodes[order[ret->shown]].shown = true;
    ret->next = ret->shown;
    s->used += ret->nodes;
}

/* Shows a later page of one level instead. */
static void turn_page(struct pl_provenance *g, const struct pl_provenance_ask *ask, struct pl_provenance_level *levels,
                      uint32_t n)
{
    for (uint32_t v = 0; v < g->n_nodes; v++)
        g->nodes[v].shown = false;
    for (uint32_t i = 0; i < n; i++) {
        struct pl_provenance_level *level = &levels[i];
        uint32_t at = level->level == ask->level ? ask->after : level->nodes;

        level->shown = 0;
        for (; at < level->nodes && level->shown < ask->limit; level->shown++)
            g->nodes[level->order[at++]].shown = true;
        level->next = at;
    }
}

static void find_ends(const struct pl_provenance *g, int32_t *ret_low, int32_t *ret_high)
{
    *ret_low = *ret_high = 0;
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        const int32_t level = g->nodes[v].level;

        if (level == PL_PROVENANCE_NONE)
            continue;
        *ret_low = PL_MIN(*ret_low, level);
        *ret_high = PL_MAX(*ret_high, level);
    }
}

int pl_provenance_show(struct pl_provenance *g, const struct pl_provenance_ask *ask, struct pl_arena *arena,
                       struct pl_provenance_level **ret, uint32_t *ret_n, struct pl_err *err)
{
    int32_t low, high;
    struct pl_provenance_level *levels;
    struct showing s = {.list = pl_arena_alloc(arena, g->n_nodes * sizeof(*s.list)),
                        .order = pl_arena_alloc(arena, g->n_nodes * sizeof(*s.order)),
                        .linked = pl_arena_alloc(arena, g->n_nodes * sizeof(*s.linked))};

    find_ends(g, &low, &high);
    levels = pl_arena_alloc(arena, (size_t)(high - low + 1) * sizeof(*levels));
    if (!s.list || !s.order || !s.linked || !levels)
        return pl_err_nomem(err);
    memset(s.linked, 0, g->n_nodes * sizeof(*s.linked));
    for (uint32_t v = 0; v < g->n_nodes; v++)
        g->nodes[v].shown = false;
    g->nodes[g->root].shown = true;
    for (int32_t level = -1; level >= low; level--)
        show_level(g, ask->limit, &s, level, &levels[level - low]);
    for (int32_t level = 1; level <= high; level++)
        show_level(g, ask->limit, &s, level, &levels[level - low - 1]);
    if (ask->level != 0)
        turn_page(g, ask, levels, (uint32_t)(high - low));
    *ret = levels;
    *ret_n = (uint32_t)(high - low);
    return 0;
}
