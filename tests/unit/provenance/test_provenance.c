// link: pipelined/provenance
/* provenance: levels and pages of random graphs, against an oracle that follows edges one by one. */
#include "pipelined/provenance/provenance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define NODES 24

/* A random world: edge[i][j] = commit j was made from commit i. */
struct world {
    bool edge[NODES][NODES];
    uint32_t repo[NODES];
    uint32_t n;
};

static uint32_t seed;

static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void make_world(struct world *w, uint32_t number)
{
    seed = number;
    *w = (struct world){.n = 1 + next_random(NODES)};
    for (uint32_t j = 0; j < w->n; j++) {
        const uint32_t density = 1 + next_random(6);

        w->repo[j] = next_random(4);
        for (uint32_t i = 0; i < j; i++)
            w->edge[i][j] = next_random(8) < density && next_random(3) == 0;
    }
}

/* The oracle: the longest path from `from` to `to`, 0 if they are one, −1 if there is none. */
static int longest(const struct world *w, uint32_t from, uint32_t to)
{
    int best = from == to ? 0 : -1;

    for (uint32_t v = from + 1; v <= to; v++) {
        const int rest = w->edge[from][v] ? longest(w, v, to) : -1;

        if (rest >= 0 && rest + 1 > best)
            best = rest + 1;
    }
    return best;
}

struct made {
    struct pl_provenance_node nodes[NODES];
    struct pl_provenance_edge edges[NODES * NODES];
    struct pl_provenance g;
};

/* Makes the graph with its edges in a random order. Returns whether it is deeper. */
static bool make_graph(const struct world *w, uint32_t root, uint32_t depth, struct made *m)
{
    bool deeper;

    m->g = (struct pl_provenance){.nodes = m->nodes, .edges = m->edges, .n_nodes = w->n, .root = root};
    for (uint32_t j = 0; j < w->n; j++) {
        m->nodes[j] = (struct pl_provenance_node){.repo = w->repo[j]};
        for (uint32_t i = 0; i < j; i++)
            if (w->edge[i][j]) {
                const uint32_t at = next_random(m->g.n_edges + 1);

                m->edges[m->g.n_edges++] = m->edges[at];
                m->edges[at] = (struct pl_provenance_edge){i, j};
            }
    }
    assert_int_equal(pl_provenance_levels(&m->g, depth, &deeper, NULL), 0);
    return deeper;
}

static void levels_are_the_longest_paths(void **state)
{
    struct world w;
    struct made m;

    (void)state;
    for (uint32_t number = 0; number < 200; number++) {
        make_world(&w, number);
        for (uint32_t root = 0; root < w.n; root++) {
            assert_false(make_graph(&w, root, NODES, &m));
            for (uint32_t v = 0; v < w.n; v++) {
                const int down = longest(&w, root, v), up = longest(&w, v, root);
                const int32_t want = down >= 0 ? down : up >= 0 ? -up : PL_PROVENANCE_NONE;

                assert_int_equal(m.nodes[v].level, want);
            }
        }
    }
}

/* The oracle: the edges on the shortest path, NODES if there is none. */
static uint32_t shortest(const struct world *w, uint32_t from, uint32_t to)
{
    uint32_t best = from == to ? 0 : NODES;

    for (uint32_t v = from + 1; v <= to; v++) {
        const uint32_t rest = w->edge[from][v] ? shortest(w, v, to) : NODES;

        best = PL_MIN(best, rest + 1);
    }
    return PL_MIN(best, NODES);
}

static void what_is_farther_than_the_depth_is_left_out(void **state)
{
    struct world w;
    struct made m;

    (void)state;
    for (uint32_t number = 0; number < 200; number++) {
        const uint32_t depth = 1 + number % 3, root = number % 5;
        bool deeper, want = false;

        make_world(&w, number);
        if (root >= w.n)
            continue;
        deeper = make_graph(&w, root, depth, &m);
        for (uint32_t v = 0; v < w.n; v++) {
            const uint32_t way = PL_MIN(shortest(&w, root, v), shortest(&w, v, root));

            assert_true((m.nodes[v].level != PL_PROVENANCE_NONE) == (way <= depth));
            want |= way > depth && way < NODES;
        }
        assert_int_equal(deeper, want);
    }
}

static void down_is_the_inverse_of_up(void **state)
{
    static struct made m[NODES];
    struct world w;

    (void)state;
    for (uint32_t number = 0; number < 200; number++) {
        make_world(&w, number);
        for (uint32_t root = 0; root < w.n; root++)
            make_graph(&w, root, NODES, &m[root]);
        for (uint32_t a = 0; a < w.n; a++)
            for (uint32_t b = 0; b < w.n; b++)
                if (m[a].nodes[b].level != PL_PROVENANCE_NONE)
                    assert_int_equal(m[a].nodes[b].level, -m[b].nodes[a].level);
                else
                    assert_int_equal(m[b].nodes[a].level, PL_PROVENANCE_NONE);
    }
}

/* True if the node has an edge to a shown node that is nearer to the root. */
static bool is_linked(const struct pl_provenance *g, uint32_t v)
{
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const struct pl_provenance_edge *edge = &g->edges[e];
        const bool down = g->nodes[v].level > 0;

        if ((down ? edge->to : edge->from) == v && g->nodes[down ? edge->from : edge->to].shown &&
            abs(g->nodes[down ? edge->from : edge->to].level) < abs(g->nodes[v].level))
            return true;
    }
    return false;
}

/* Collects the pages of one level: each commit comes once. */
static void turn_pages(struct made *m, const struct pl_provenance_level *first, uint32_t limit, struct pl_arena *arena)
{
    bool seen[NODES] = {false};
    uint32_t count = 0, after = 0;

    do {
        const struct pl_provenance_ask ask = {.limit = limit, .level = first->level, .after = after};
        struct pl_provenance_level *levels;
        uint32_t n, k = 0;

        assert_int_equal(pl_provenance_show(&m->g, &ask, arena, &levels, &n, NULL), 0);
        while (levels[k].level != first->level)
            k++;
        assert_int_equal(levels[k].nodes, first->nodes);
        assert_true(levels[k].shown > 0 && levels[k].shown <= limit);
        for (uint32_t v = 0; v < m->g.n_nodes; v++)
            if (m->nodes[v].shown) {
                assert_int_equal(m->nodes[v].level, first->level);
                assert_false(seen[v]);
                seen[v] = true;
                count++;
            }
        assert_true(levels[k].next == after + levels[k].shown);
        after = levels[k].next;
    } while (after != first->nodes);
    assert_int_equal(count, first->nodes);
}

static void pages_hold_each_commit_once_and_hang_together(void **state)
{
    struct world w;
    struct made m;

    (void)state;
    for (uint32_t number = 0; number < 100; number++) {
        _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
        struct pl_provenance_level *levels;
        uint32_t n, all = 0;
        struct pl_provenance_ask ask = {.limit = 1 + number % 4};

        make_world(&w, number);
        make_graph(&w, w.n / 2, NODES, &m);
        assert_int_equal(pl_provenance_show(&m.g, &ask, arena, &levels, &n, NULL), 0);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t shown = 0;

            for (uint32_t v = 0; v < w.n; v++)
                if (m.nodes[v].level == levels[k].level && m.nodes[v].shown) {
                    assert_true(is_linked(&m.g, v));
                    shown++;
                }
            assert_int_equal(shown, levels[k].shown);
            assert_true(shown <= ask.limit);
            all += levels[k].nodes;
        }
        for (uint32_t v = 0; v < w.n; v++)
            all -= m.nodes[v].level != PL_PROVENANCE_NONE && v != m.g.root;
        assert_int_equal(all, 0);
        for (uint32_t k = 0; k < n; k++)
            turn_pages(&m, &levels[k], ask.limit, arena);
    }
}

/* One model that 1,000 runs of `infer` and one of `eval` read: the one is not hidden behind the many. */
static void repos_take_turns_and_the_newest_comes_first(void **state)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    struct pl_provenance_node *nodes = test_calloc(1002, sizeof(*nodes));
    struct pl_provenance_edge *edges = test_calloc(1001, sizeof(*edges));
    struct pl_provenance g = {.nodes = nodes, .edges = edges, .n_nodes = 1002, .n_edges = 1001};
    const struct pl_provenance_ask ask = {.limit = 3};
    struct pl_provenance_level *levels;
    uint32_t n;
    bool deeper;

    (void)state;
    for (uint32_t e = 0; e < 1001; e++) {
        edges[e] = (struct pl_provenance_edge){0, e + 1};
        nodes[e + 1].repo = e == 0 ? 2 : 1;
    }
    assert_int_equal(pl_provenance_levels(&g, 1, &deeper, NULL), 0);
    assert_int_equal(pl_provenance_show(&g, &ask, arena, &levels, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(levels[0].nodes, 1001);
    assert_int_equal(levels[0].next, 3);
    assert_int_equal(levels[0].order[0], 1001);
    assert_int_equal(levels[0].order[1], 1);
    assert_int_equal(levels[0].order[2], 1000);
    test_free(nodes);
    test_free(edges);
}

static void what_is_no_graph_of_commits_is_refused(void **state)
{
    static const struct {
        uint32_t root;
        struct pl_provenance_edge edge;
    } cases[] = {{0, {1, 0}}, {0, {1, 1}}, {0, {0, 2}}, {2, {0, 1}}};
    struct pl_provenance_node nodes[2];
    bool deeper;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_provenance_edge edge = cases[i].edge;
        struct pl_provenance g = {.nodes = nodes, .edges = &edge, .n_nodes = 2, .n_edges = 1, .root = cases[i].root};

        assert_int_equal(pl_provenance_levels(&g, 1, &deeper, NULL), PL_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_the_longest_paths),
        cmocka_unit_test(what_is_farther_than_the_depth_is_left_out),
        cmocka_unit_test(down_is_the_inverse_of_up),
        cmocka_unit_test(pages_hold_each_commit_once_and_hang_together),
        cmocka_unit_test(repos_take_turns_and_the_newest_comes_first),
        cmocka_unit_test(what_is_no_graph_of_commits_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
