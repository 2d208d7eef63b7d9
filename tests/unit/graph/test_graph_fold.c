// link: pipelined/graph storage/base
/* graph_fold: what becomes one node, what stays out, and that the result is a graph that can be laid out. */
#include "tests/unit/graph/graph_fixture.h"

static struct pl_graph_folding folded(const struct pl_graph *g, uint32_t limit, struct pl_arena *arena)
{
    struct pl_graph_folding f;
    struct pl_err err = {0};

    if (pl_graph_fold(g, limit, arena, &f, &err) < 0)
        fail_msg("%s", err.msg);
    return f;
}

/* The folded graph as text: "repo stages×37<0 stage<1 …", each node with the numbers of those that it reads. */
static void text_of(const struct pl_graph_folding *f, char *out, size_t size)
{
    static const char *const words[] = {"repo", "stage", "stages", "repos", "pipelines"};
    size_t n = 0;

    out[0] = '\0';
    for (uint32_t v = 0; v < f->graph.n_nodes; v++) {
        const char *sep = "<";

        n += (size_t)snprintf(out + n, size - n, "%s%s", v ? " " : "", words[f->graph.nodes[v].kind]);
        if (f->count[v] > 1)
            n += (size_t)snprintf(out + n, size - n, "×%u", f->count[v]);
        for (uint32_t e = 0; e < f->graph.n_edges; e++)
            if (f->graph.edges[e].to == v) {
                n += (size_t)snprintf(out + n, size - n, "%s%u", sep, f->graph.edges[e].from);
                sep = "+";
            }
    }
}

static void folds_to(const struct drawn *d, uint32_t limit, const char *want)
{
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_folding f = folded(&d->g, limit, arena);
    struct pl_graph_layout l;
    struct pl_err err = {0};
    char text[1024];

    text_of(&f, text, sizeof text);
    if (strcmp(text, want) != 0)
        fail_msg("is\n  %s\nnot\n  %s", text, want);
    assert_int_equal(pl_graph_lay_out(&f.graph, arena, &l, &err), 0);
    layout_holds(&f.graph, &l);
    pl_arena_destroy(arena);
}

/* repo, split, n × (work, check), merge: of one pipeline. The nodes are 0, 1, then work and check in turn. */
static struct drawn *fan(uint32_t n)
{
    struct drawn *d = drawn_make();
    const uint32_t repo = add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE), split = add_node(d, PL_GRAPH_STAGE, 0, 1);
    uint32_t merge;

    add_edge(d, repo, split);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t work = add_node(d, PL_GRAPH_STAGE, 0, 1), check = add_node(d, PL_GRAPH_STAGE, 0, 1);

        add_edge(d, split, work);
        add_edge(d, work, check);
    }
    merge = add_node(d, PL_GRAPH_STAGE, 0, 1);
    for (uint32_t i = 0; i < n; i++)
        add_edge(d, 3 + 2 * i, merge);
    return d;
}

static void a_small_graph_stays_as_it_is(void **state)
{
    struct drawn *d = fan(3);

    (void)state;
    folds_to(d, 200, "repo stage<0 stage<1 stage<2 stage<1 stage<4 stage<1 stage<6 stage<3+5+7");
    free(d);
}

static void alike_stages_become_one(void **state)
{
    struct drawn *d = fan(37);

    (void)state;
    folds_to(d, 20, "repo stage<0 stages×37<1 stages×37<2 stage<3");
    free(d);
}

static void what_failed_or_is_searched_stays_out_with_its_chain(void **state)
{
    struct drawn *d = fan(37);

    (void)state;
    d->nodes[3 + 2 * 5].keep = PL_GRAPH_KEEPS; /* the sixth check */
    folds_to(d, 20, "repo stage<0 stages×36<1 stages×36<2 stage<1 stage<4 stage<3+5");
    free(d);
}

static void two_alike_stages_do_not_fold(void **state)
{
    struct drawn *d = fan(2);

    (void)state;
    folds_to(d, 7, "repo stage<0 stage<1 stage<2 stage<1 stage<4 stage<3+5");
    free(d);
}

static void alike_stages_of_two_pipelines_stay_apart(void **state)
{
    struct drawn *d = drawn_make();

    (void)state;
    add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);
    for (uint32_t i = 0; i < 10; i++)
        add_edge(d, 0, add_node(d, PL_GRAPH_STAGE, 0, 1 + i % 2));
    folds_to(d, 5, "repo stages×5<0 stages×5<0");
    free(d);
}

static void repos_with_alike_readers_become_one(void **state)
{
    struct drawn *d = drawn_make();
    uint32_t stage;

    (void)state;
    for (uint32_t i = 0; i < 12; i++)
        add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);
    stage = add_node(d, PL_GRAPH_STAGE, 0, 1);
    for (uint32_t i = 0; i < 12; i++)
        add_edge(d, i, stage);
    folds_to(d, 5, "repos×12 stage<0");
    free(d);
}

/* A repo and `pipelines` chains of `n` stages; each chain but the first reads the end of the one before. */
static struct drawn *chains(uint32_t pipelines, uint32_t n)
{
    struct drawn *d = drawn_make();
    uint32_t last = add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);

    for (uint32_t i = 0; i < pipelines * n; i++) {
        const uint32_t stage = add_node(d, PL_GRAPH_STAGE, 0, 1 + i / n);

        add_edge(d, last, stage);
        last = stage;
    }
    return d;
}

static void pipelines_become_boxes(void **state)
{
    struct drawn *d = chains(3, 10);

    (void)state;
    folds_to(d, 10, "repo pipelines×10<0 pipelines×10<1 pipelines×10<2");
    free(d);
}

static void a_pipeline_opens_around_what_stays_out(void **state)
{
    struct drawn *d = chains(2, 10);

    (void)state;
    d->nodes[4].keep = PL_GRAPH_KEEPS;
    folds_to(d, 10, "repo pipelines×3<0 stage<1 pipelines×6<2 pipelines×10<3");
    free(d);
}

/* Stage a of one pipeline is read by b of the other, that by c of the first: as boxes they would read each other. */
static void pipelines_that_read_each_other_become_one_box(void **state)
{
    struct drawn *d = drawn_make();
    uint32_t last = add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t stage = add_node(d, PL_GRAPH_STAGE, 0, i < 2 ? 1 : i < 10 ? 2 + i % 2 : 4);

        add_edge(d, last, stage);
        last = stage;
    }
    folds_to(d, 5, "repo pipelines×2<0 pipelines×8<1 pipelines×2<2");
    free(d);
}

static void a_box_of_alike_stages_is_spread(void **state)
{
    struct drawn *d = fan(4);

    (void)state;
    d->nodes[2].spread = true; /* the first work; the checks still fold */
    folds_to(d, 8, "repo stage<0 stage<1 stages×4<2+4+5+6 stage<1 stage<1 stage<1 stage<3");
    free(d);
}

/* Sets the wish of a pipeline's stages. */
static void wish(struct drawn *d, uint32_t pipeline, enum pl_graph_wish wish)
{
    for (uint32_t v = 0; v < d->g.n_nodes; v++)
        if (d->nodes[v].pipeline == pipeline)
            d->nodes[v].wish = wish;
}

static void a_pipeline_is_shut_in_a_small_graph_even_if_a_stage_failed(void **state)
{
    struct drawn *d = chains(3, 3);

    (void)state;
    wish(d, 2, PL_GRAPH_SHUT);
    d->nodes[4].keep = PL_GRAPH_STANDS_OUT;
    folds_to(d, 200, "repo stage<0 stage<1 stage<2 pipelines×3<3 stage<4 stage<5 stage<6");
    folds_to(d, UINT32_MAX, "repo stage<0 stage<1 stage<2 pipelines×3<3 stage<4 stage<5 stage<6");
    d->nodes[5].keep = PL_GRAPH_KEEPS; /* searched */
    folds_to(d, 200, "repo stage<0 stage<1 stage<2 stage<3 stage<4 stage<5 stage<6 stage<7 stage<8");
    free(d);
}

static void a_pipeline_that_is_open_does_not_become_a_box(void **state)
{
    struct drawn *d = chains(3, 3);

    (void)state;
    wish(d, 2, PL_GRAPH_OPEN);
    folds_to(d, 4, "repo pipelines×3<0 stage<1 stage<2 stage<3 pipelines×3<4");
    free(d);
}

static void what_stands_out_folds_if_it_is_too_much(void **state)
{
    struct drawn *d = chains(2, 2000);

    (void)state;
    wish(d, 1, PL_GRAPH_OPEN);
    for (uint32_t v = 2001; v < d->g.n_nodes; v++)
        d->nodes[v].keep = PL_GRAPH_STANDS_OUT;
    d->nodes[2010].keep = PL_GRAPH_KEEPS;
    folds_to(d, 200, "repo pipelines×2000<0 pipelines×9<1 stage<2 pipelines×1990<3");
    free(d);
}

static void pipelines_of_a_band_become_one_box_if_they_are_too_many(void **state)
{
    struct drawn *d = chains(5000, 2);
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_folding f;

    (void)state;
    folds_to(d, 200, "repo pipelines×10000<0");
    f = folded(&d->g, 200, arena);
    assert_int_equal(f.graph.nodes[1].pipeline, PL_GRAPH_NONE);
    pl_arena_destroy(arena);
    free(d);
}

static void a_graph_that_is_too_large_to_lay_out_is_folded(void **state)
{
    const uint32_t n = PL_GRAPH_NODES_MAX + 5;
    struct pl_graph_node *nodes = calloc(n, sizeof *nodes);
    struct pl_graph_edge *edges = calloc(n, sizeof *edges);
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_folding f;

    (void)state;
    nodes[0].pipeline = PL_GRAPH_NONE;
    for (uint32_t v = 1; v < n; v++) {
        nodes[v].kind = PL_GRAPH_STAGE;
        nodes[v].keep = PL_GRAPH_STANDS_OUT; /* all have failed */
        edges[v - 1] = (struct pl_graph_edge){.from = 0, .to = v};
    }
    f = folded(&(struct pl_graph){nodes, edges, n, n - 1, 1}, 200, arena);
    assert_int_equal(f.graph.n_nodes, 2);
    pl_arena_destroy(arena);
    free(edges);
    free(nodes);
}

static void edges_between_boxes_are_one(void **state)
{
    struct drawn *d = fan(37);
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_folding f;

    (void)state;
    for (uint32_t e = 0; e < d->g.n_edges; e++)
        d->edges[e].label_px = 50;
    f = folded(&d->g, 20, arena);
    assert_int_equal(f.edge_count[0], 1); /* repo to split: it keeps its label */
    assert_int_equal(f.graph.edges[0].label_px, 50);
    assert_int_equal(f.edge_count[1], 37);
    assert_int_equal(f.graph.edges[1].label_px, 0);
    assert_int_equal(f.edge_of[1], 1);
    assert_int_equal(f.edge_of[3], 1); /* split to the second work */
    assert_int_equal(f.node_of[4], f.node_of[2]);
    pl_arena_destroy(arena);
    free(d);
}

/* ---- random graphs ---- */

static void folding_holds(const struct pl_graph *g, const struct pl_graph_folding *f, uint32_t limit)
{
    uint32_t nodes = 0, edges = 0, inside = 0;

    for (uint32_t v = 0; v < f->graph.n_nodes; v++)
        nodes += f->count[v];
    for (uint32_t e = 0; e < f->graph.n_edges; e++)
        edges += f->edge_count[e];
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const uint32_t to = f->edge_of[e];

        inside += to == PL_GRAPH_NONE;
        if (to != PL_GRAPH_NONE)
            assert_true(f->graph.edges[to].from == f->node_of[g->edges[e].from] &&
                        f->graph.edges[to].to == f->node_of[g->edges[e].to]);
        else
            assert_true(f->node_of[g->edges[e].from] == f->node_of[g->edges[e].to]);
    }
    assert_int_equal(nodes, g->n_nodes);
    assert_int_equal(edges + inside, g->n_edges);
    for (uint32_t v = 0; v < g->n_nodes; v++)
        if (g->nodes[v].keep == PL_GRAPH_KEEPS)
            assert_int_equal(f->count[f->node_of[v]], 1);
    for (uint32_t v = 0; g->n_nodes <= limit && v < g->n_nodes; v++)
        if (g->nodes[v].wish != PL_GRAPH_SHUT)
            assert_int_equal(f->count[f->node_of[v]], 1);
}

static void every_folding_can_be_laid_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct drawn *d = drawn_random(seed, 20 + (uint32_t)(seed % 180), 1 + (uint32_t)(seed % 3));
        struct pl_arena *arena = pl_arena_create(0);
        uint64_t random = seed + 1000;
        struct pl_graph_folding f;
        struct pl_graph_layout l;
        struct pl_err err = {0};

        for (uint32_t v = 0; v < d->g.n_nodes; v++) {
            d->nodes[v].keep = pl_splitmix64(&random) % 16 == 0 ? PL_GRAPH_KEEPS : PL_GRAPH_FOLDS;
            d->nodes[v].spread = pl_splitmix64(&random) % 50 == 0;
            d->nodes[v].wish = d->nodes[v].pipeline == PL_GRAPH_NONE || seed % 2 ? PL_GRAPH_AS_FITS : d->nodes[v].pipeline % 3;
        }
        f = folded(&d->g, 50, arena);
        folding_holds(&d->g, &f, 50);
        if (pl_graph_lay_out(&f.graph, arena, &l, &err) < 0)
            fail_msg("seed %d: %s", (int)seed, err.msg);
        layout_holds(&f.graph, &l);
        pl_arena_destroy(arena);
        free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_graph_stays_as_it_is),
        cmocka_unit_test(alike_stages_become_one),
        cmocka_unit_test(what_failed_or_is_searched_stays_out_with_its_chain),
        cmocka_unit_test(two_alike_stages_do_not_fold),
        cmocka_unit_test(alike_stages_of_two_pipelines_stay_apart),
        cmocka_unit_test(repos_with_alike_readers_become_one),
        cmocka_unit_test(pipelines_become_boxes),
        cmocka_unit_test(a_pipeline_opens_around_what_stays_out),
        cmocka_unit_test(pipelines_that_read_each_other_become_one_box),
        cmocka_unit_test(a_box_of_alike_stages_is_spread),
        cmocka_unit_test(a_pipeline_is_shut_in_a_small_graph_even_if_a_stage_failed),
        cmocka_unit_test(a_pipeline_that_is_open_does_not_become_a_box),
        cmocka_unit_test(what_stands_out_folds_if_it_is_too_much),
        cmocka_unit_test(pipelines_of_a_band_become_one_box_if_they_are_too_many),
        cmocka_unit_test(a_graph_that_is_too_large_to_lay_out_is_folded),
        cmocka_unit_test(edges_between_boxes_are_one),
        cmocka_unit_test(every_folding_can_be_laid_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
