// link: pipelined/graph storage/base
/* graph: where nodes lie, which way edges go, and what holds of every layout. */
#include "tests/unit/graph/graph_fixture.h"

static struct pl_graph_layout layout_of(const struct pl_graph *g, struct pl_arena *arena)
{
    struct pl_graph_layout l;
    struct pl_err err = {0};

    if (pl_graph_lay_out(g, arena, &l, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

/* ---- places ---- */

/* Appends the names by row and layer, rows apart by '/', "." where there is none. */
static void picture_of(const struct drawn *d, const struct pl_graph_layout *l, char *out, size_t size)
{
    uint32_t rows = 0, layers = 0;
    size_t n = 0;

    for (uint32_t v = 0; v < d->g.n_nodes; v++) {
        rows = PL_MAX(rows, l->boxes[v].row + 1);
        layers = PL_MAX(layers, l->boxes[v].layer + 1);
    }
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t layer = 0; layer < layers; layer++) {
            const char *name = ".";

            for (uint32_t v = 0; v < d->g.n_nodes; v++)
                if (l->boxes[v].row == row && l->boxes[v].layer == layer)
                    name = d->names[v];
            n += (size_t)snprintf(out + n, size - n, "%s%s", n == 0 ? "" : layer == 0 ? " / " : " ", name);
        }
}

static void nodes_that_read_each_other_lie_in_a_row(void **state)
{
    static const struct {
        const char *graph, *picture;
    } cases[] = {
        {"a<r", "r a"},
        {"a<r b<a c<b", "r a b c"},
        {"a<r b<r", "r a / . b"},
        {"a<r b<r c<a+b", "r a c / . b ."},
        {"a<r b<s c<a+b", "r a c / s b ."},
        {"a<r b<s", "r a / s b"},
        {"b<s a<r c<b d<a", "s b c / r a d"},
        /* the crossing of two chains whose names come in another order is undone */
        {"a<r b<s y<b x<a", "r a x / s b y"},
        {"a<r b<r c<r z<c y<b x<a", ". a x / r b y / . c z"},
        /* the street of the design: a node goes beside the row of what it reads */
        {"decode<photos segment<photos split<decode+labels train<split embed<split evaluate<train+split export<train+evaluate",
         "photos decode split train evaluate export / labels segment . embed . ."},
        /* digits: a long edge takes no row */
        {"prepare<digits train<prepare infer<digits+train report<infer", "digits prepare train infer report"},
        /* a stage that reads its own last output is in a layer like others */
        {"a<r a<a b<a", "r a b"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct drawn *d = drawn_from(cases[i].graph);
        struct pl_arena *arena = pl_arena_create(0);
        struct pl_graph_layout l = layout_of(&d->g, arena);
        char picture[512];

        picture_of(d, &l, picture, sizeof picture);
        if (strcmp(picture, cases[i].picture) != 0)
            fail_msg("%s: is\n  %s\nnot\n  %s", cases[i].graph, picture, cases[i].picture);
        layout_holds(&d->g, &l);
        pl_arena_destroy(arena);
        free(d);
    }
}

static void put_path(const struct pl_graph_path *p, char *out, size_t size)
{
    size_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%d,%d", i ? " " : "", p->points[i].x, p->points[i].y);
}

/* Box of the last node and paths of all edges. Row 0 has its rail at 48 + 66 = 114 if there is a stage. */
static void boxes_and_paths_have_these_places(void **state)
{
    static const struct {
        const char *graph, *box, *paths[6];
    } cases[] = {
        /* one straight edge: pill 164 × 44 on the rail, 32 px, stage 184 × 84 */
        {"a<r", "196,48 184x84 rail 114", {"164,114 196,114"}},
        /* from the pill that hangs 12 px over the stage's side */
        {"a<r b<a", "424,48 184x84 rail 114", {"164,114 196,114", "392,114 424,114"}},
        /* a trunk to the second row, 84 + 44 px below */
        {"a<r b<r", "196,176 184x84 rail 242", {"164,114 196,114", "164,114 178,114 178,242 196,242"}},
        /* the second port lies 12 px below the rail; c is the last node */
        {"a<r b<r c<a+b",
         "424,48 184x84 rail 114",
         {"164,114 196,114", "164,114 178,114 178,242 196,242", "392,114 424,114", "392,242 406,242 406,126 424,126"}},
        /* ports in the order of the spec: the one from the same row lies on the rail, the one before it above */
        {"a<r b<r c<b+a",
         "424,48 184x84 rail 114",
         {"164,114 196,114", "164,114 178,114 178,242 196,242", "392,242 406,242 406,102 424,102", "392,114 424,114"}},
        /* over a layer: the lane below the row, out of the same trunk, into the second port */
        {"a<r b<a+r",
         "424,48 184x84 rail 114",
         {"164,114 196,114", "392,114 424,114", "164,114 178,114 178,146 406,146 406,126 424,126"}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct drawn *d = drawn_from(cases[i].graph);
        struct pl_arena *arena = pl_arena_create(0);
        struct pl_graph_layout l = layout_of(&d->g, arena);
        const struct pl_graph_box *box = &l.boxes[d->g.n_nodes - 1];
        char text[256];

        for (uint32_t v = 0; v < d->g.n_nodes; v++) /* the stage of the highest letter */
            box = l.boxes[v].x > box->x || (l.boxes[v].x == box->x && l.boxes[v].y > box->y) ? &l.boxes[v] : box;
        snprintf(text, sizeof text, "%d,%d %dx%d rail %d", box->x, box->y, box->w, box->h, box->rail);
        if (strcmp(text, cases[i].box) != 0)
            fail_msg("%s: box %s, not %s", cases[i].graph, text, cases[i].box);
        for (uint32_t e = 0; e < d->g.n_edges; e++) {
            put_path(&l.paths[e], text, sizeof text);
            if (strcmp(text, cases[i].paths[e]) != 0)
                fail_msg("%s: edge %u goes %s, not %s", cases[i].graph, e, text, cases[i].paths[e]);
        }
        pl_arena_destroy(arena);
        free(d);
    }
}

static void columns_move_apart_for_labels_while_there_is_room(void **state)
{
    struct drawn *d = drawn_from("a<r b<a c<b d<c");
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l;

    (void)state;
    d->edges[0].label_px = 87;
    l = layout_of(&d->g, arena);
    assert_int_equal(l.boxes[0].x, 164 + 14 + 87 + 24); /* a; node 0 is the first word of the text */
    d->edges[1].label_px = d->edges[2].label_px = d->edges[3].label_px = PL_GRAPH_LABEL_MAX + 1; /* too long */
    l = layout_of(&d->g, arena);
    assert_int_equal(l.boxes[0].x, 164 + 14 + 87 + 24);
    assert_int_equal(l.w, 164 + 14 + 87 + 24 + 4 * 196 + 3 * 32);
    for (uint32_t e = 0; e < 4; e++)
        d->edges[e].label_px = 120; /* together they would be wider than what a page shows */
    l = layout_of(&d->g, arena);
    assert_int_equal(l.w, 164 + 4 * (32 + 196));
    pl_arena_destroy(arena);
    free(d);
}

static void a_stage_of_many_inputs_grows_upwards(void **state)
{
    struct drawn *d = drawn_make();
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l;
    uint32_t stage;

    (void)state;
    for (unsigned i = 0; i < 64; i++)
        add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);
    stage = add_node(d, PL_GRAPH_STAGE, 0, 1);
    for (uint32_t i = 0; i < 64; i++)
        add_edge(d, i, stage);
    l = layout_of(&d->g, arena);
    layout_holds(&d->g, &l);
    assert_int_equal(l.boxes[stage].w, PL_GRAPH_STAGE_W);
    assert_in_range(l.boxes[stage].h, 62 * 12 + 18, 64 * 12 + 24);
    pl_arena_destroy(arena);
    free(d);
}

static void edges_of_one_port_share_their_trunk(void **state)
{
    struct drawn *d = drawn_from("a<r b<r c<r d<a+r e<b+r");
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l = layout_of(&d->g, arena);
    int32_t trunk = 0;

    (void)state;
    for (uint32_t e = 0; e < d->g.n_edges; e++) {
        if (strcmp(d->names[d->edges[e].from], "r") != 0 || l.paths[e].n == 2)
            continue;
        if (trunk)
            assert_int_equal(l.paths[e].points[1].x, trunk);
        trunk = l.paths[e].points[1].x;
    }
    assert_true(trunk > 0);
    layout_holds(&d->g, &l);
    pl_arena_destroy(arena);
    free(d);
}

/* Two stages that each read what lies beside the other: both trunks would have to be left of the other one. */
static void trunks_that_wait_for_each_other_take_a_lane(void **state)
{
    struct drawn *d = drawn_make();
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l;
    uint32_t v[8];

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        v[i] = add_node(d, PL_GRAPH_REPO, 0, PL_GRAPH_NONE);
    for (unsigned i = 4; i < 8; i++)
        v[i] = add_node(d, PL_GRAPH_STAGE, 0, 1);
    for (unsigned to = 4; to < 8; to++)
        for (unsigned from = 0; from < 4; from++)
            if (from + 4 != to) /* every other one, so that no order is without crossings */
                add_edge(d, v[from], v[to]);
    l = layout_of(&d->g, arena);
    layout_holds(&d->g, &l);
    pl_arena_destroy(arena);
    free(d);
}

static void bands_lie_below_each_other(void **state)
{
    struct drawn *d = drawn_make();
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l;

    (void)state;
    d->g.n_bands = 4; /* band 1 is empty */
    for (uint32_t band = 0; band < 4; band += band == 0 ? 2 : 1) {
        uint32_t repo = add_node(d, PL_GRAPH_REPO, band, PL_GRAPH_NONE);

        add_edge(d, repo, add_node(d, PL_GRAPH_STAGE, band, band));
    }
    l = layout_of(&d->g, arena);
    layout_holds(&d->g, &l);
    assert_int_equal(l.bands[0].y, PL_GRAPH_BAND_HEAD);
    assert_int_equal(l.bands[0].h, 66 + 44); /* above the rail a stage, below it a pill and its caption */
    pl_arena_destroy(arena);
    free(d);
}

/* ---- what is refused ---- */

static void refused(const struct pl_graph *g, int code, const char *part)
{
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l;
    struct pl_err err = {0};

    assert_int_equal(pl_graph_lay_out(g, arena, &l, &err), code);
    if (!strstr(err.msg, part))
        fail_msg("\"%s\" is not in: %s", part, err.msg);
    pl_arena_destroy(arena);
}

static void a_wrong_graph_is_refused(void **state)
{
    struct drawn *d = drawn_from("a<r b<a c<b");

    (void)state;
    add_edge(d, 3, 0); /* c to a */
    refused(&d->g, PL_EINVAL, "3 nodes of the graph are in a cycle");
    d->edges[3].to = 99;
    refused(&d->g, PL_EINVAL, "edge 3 goes from node 3 to node 99");
    d->g.n_edges--;
    d->nodes[0].band = 1;
    refused(&d->g, PL_EINVAL, "node 0 is in band 1 of 1");
    d->g.n_bands = 2;
    refused(&d->g, PL_EINVAL, "from band 0 to band 1");
    d->g.n_nodes = PL_GRAPH_NODES_MAX + 1;
    refused(&d->g, PL_ETOOBIG, "the graph has 20001 nodes, at most 20000 are laid out: ask for one project or pipeline");
    free(d);
}

/* A chain against the numbers of its nodes, of more nodes than can be laid out. */
static void a_graph_of_any_size_has_an_order(void **state)
{
    const uint32_t n = PL_GRAPH_NODES_MAX + 100;
    struct pl_graph_node *nodes = calloc(n, sizeof *nodes);
    struct pl_graph_edge *edges = calloc(n, sizeof *edges);
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_err err = {0};
    uint32_t *order;

    (void)state;
    assert_non_null(nodes);
    assert_non_null(edges);
    for (uint32_t i = 0; i + 1 < n; i++)
        edges[i] = (struct pl_graph_edge){.from = i + 1, .to = i};
    if (pl_graph_order(&(struct pl_graph){nodes, edges, n, n - 1, 1}, arena, &order, &err) < 0)
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(order[i], n - 1 - i);
    pl_arena_destroy(arena);
    free(edges);
    free(nodes);
}

static void nothing_gives_nothing(void **state)
{
    struct drawn *d = drawn_make();
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l = layout_of(&d->g, arena);

    (void)state;
    assert_int_equal(l.h, 0);
    pl_arena_destroy(arena);
    free(d);
}

/* ---- random graphs ---- */

static void layouts_are_equal(const struct pl_graph *g, const struct pl_graph_layout *a, const struct pl_graph_layout *b)
{
    assert_memory_equal(a->boxes, b->boxes, g->n_nodes * sizeof *a->boxes);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        assert_int_equal(a->paths[e].n, b->paths[e].n);
        assert_memory_equal(a->paths[e].points, b->paths[e].points, a->paths[e].n * sizeof *a->paths[e].points);
    }
}

static void every_layout_keeps_the_rules_and_is_the_same_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct drawn *d = drawn_random(seed, 2 + (uint32_t)(seed * 7 % 90), 1 + (uint32_t)(seed % 5));
        struct pl_arena *arena = pl_arena_create(0);
        struct pl_graph_layout l = layout_of(&d->g, arena), again = layout_of(&d->g, arena);

        layout_holds(&d->g, &l);
        layouts_are_equal(&d->g, &l, &again);
        pl_arena_destroy(arena);
        free(d);
    }
}

static void a_large_layout_keeps_the_rules(void **state)
{
    struct drawn *d = drawn_random(1, 1000, 3);
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_graph_layout l = layout_of(&d->g, arena);

    (void)state;
    layout_holds(&d->g, &l);
    pl_arena_destroy(arena);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_read_each_other_lie_in_a_row),
        cmocka_unit_test(boxes_and_paths_have_these_places),
        cmocka_unit_test(columns_move_apart_for_labels_while_there_is_room),
        cmocka_unit_test(a_stage_of_many_inputs_grows_upwards),
        cmocka_unit_test(edges_of_one_port_share_their_trunk),
        cmocka_unit_test(trunks_that_wait_for_each_other_take_a_lane),
        cmocka_unit_test(bands_lie_below_each_other),
        cmocka_unit_test(a_wrong_graph_is_refused),
        cmocka_unit_test(a_graph_of_any_size_has_an_order),
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(every_layout_keeps_the_rules_and_is_the_same_again),
        cmocka_unit_test(a_large_layout_keeps_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
