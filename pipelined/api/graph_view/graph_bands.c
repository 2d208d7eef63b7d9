/* The nodes and edges that a caller sees, and the bands that they are drawn in. */
#include "pipelined/api/graph_view/graph_internal.h"

#include "storage/base/map.h"

/* A graph while it is made. */
struct making {
    const struct pl_graph_view *view;
    const struct pl_graph_ask *ask;
    uint32_t n_bands; /* PL_GRAPH_NONE = all */
    struct graph_seen *out;
    uint32_t *up;        /* by pipeline: leads to the pipeline that stands for its band */
    struct pl_map pills; /* {band, ref} → node plus one */
};

static bool sees_ref(const struct making *m, uint32_t ref)
{
    return m->ask->readable(m->ask->who, m->view->refs[ref].project, m->view->refs[ref].repo);
}

static bool is_asked_for(const struct making *m, const struct graph_stage *stage)
{
    const struct graph_pipeline *p = &m->view->pipelines[stage->pipeline];

    return (!m->ask->project || pl_streq(m->ask->project, p->project)) &&
           (!m->ask->pipeline || pl_streq(m->ask->pipeline, p->name));
}

static uint32_t root_of(uint32_t *up, uint32_t pipeline)
{
    for (; up[pipeline] != pipeline; pipeline = up[pipeline])
        up[pipeline] = up[up[pipeline]];
    return pipeline;
}

/* Marks the stages that are shown, connects the pipelines that read each other, and numbers the bands in the order of
 * their first pipelines. */
static void find_bands(struct making *m)
{
    const struct pl_graph_view *v = m->view;
    struct graph_seen *out = m->out;

    for (uint32_t p = 0; p < v->n_pipelines; p++) {
        m->up[p] = p;
        out->band_of[p] = PL_GRAPH_NONE;
    }
    for (uint32_t s = 0; s < v->n_stages; s++)
        out->node_of[s] = is_asked_for(m, &v->stages[s]) && sees_ref(m, v->stages[s].ref) ? 0 : PL_GRAPH_NONE;
    for (uint32_t s = 0; s < v->n_stages; s++)
        for (uint32_t k = 0; out->node_of[s] != PL_GRAPH_NONE && k < v->stages[s].n_inputs; k++) {
            const uint32_t from = v->stages[s].inputs[k].stage;

            if (from == PL_GRAPH_NONE || out->node_of[from] == PL_GRAPH_NONE)
                continue;
            m->up[root_of(m->up, v->stages[s].pipeline)] = root_of(m->up, v->stages[from].pipeline);
        }
    for (uint32_t s = 0; s < v->n_stages; s++) { /* they come by pipeline */
        uint32_t root;

        if (out->node_of[s] == PL_GRAPH_NONE)
            continue;
        root = root_of(m->up, v->stages[s].pipeline);
        if (out->band_of[root] == PL_GRAPH_NONE)
            out->band_of[root] = out->g.n_bands++;
        out->band_of[v->stages[s].pipeline] = out->band_of[root];
    }
}

/* Leaves the bands out that are not asked for, and numbers the others anew. */
static void cut_bands(struct making *m)
{
    const struct pl_graph_view *v = m->view;
    struct graph_seen *out = m->out;
    const uint32_t from = PL_MIN(m->ask->band, out->g.n_bands), to = from + PL_MIN(m->n_bands, out->g.n_bands - from);

    for (uint32_t s = 0; s < v->n_stages; s++) {
        const uint32_t band = out->band_of[v->stages[s].pipeline];

        if (out->node_of[s] != PL_GRAPH_NONE && (band < from || band >= to))
            out->node_of[s] = PL_GRAPH_NONE;
    }
    for (uint32_t p = 0; p < v->n_pipelines; p++)
        if (out->band_of[p] != PL_GRAPH_NONE)
            out->band_of[p] = out->band_of[p] < from || out->band_of[p] >= to ? PL_GRAPH_NONE : out->band_of[p] - from;
    out->bands_left = out->g.n_bands - to;
    out->g.n_bands = to - from;
}

static uint32_t add_node(struct making *m, enum pl_graph_kind kind, uint32_t band, uint32_t pipeline, uint32_t stage,
                         uint32_t ref)
{
    struct graph_seen *out = m->out;
    const uint32_t v = out->g.n_nodes++;

    out->nodes[v].kind = kind;
    out->nodes[v].band = band;
    out->nodes[v].pipeline = pipeline;
    out->stage_of[v] = stage;
    out->ref_of[v] = ref;
    return v;
}

/* Finds or adds the pill of a ref in a band. */
static int take_pill(struct making *m, uint32_t band, uint32_t ref, uint32_t *ret, struct pl_err *err)
{
    const uint32_t key[] = {band, ref};
    const void *known = pl_map_get(&m->pills, key, sizeof key);

    if (known) {
        *ret = (uint32_t)(uintptr_t)known - 1;
        return 0;
    }
    *ret = add_node(m, PL_GRAPH_REPO, band, PL_GRAPH_NONE, PL_GRAPH_NONE, ref);
    return pl_map_put(&m->pills, key, sizeof key, (void *)(uintptr_t)(*ret + 1), NULL, err);
}

/* Adds the inputs of a stage that the caller may see. */
static int add_inputs(struct making *m, uint32_t s, struct pl_err *err)
{
    const struct graph_stage *stage = &m->view->stages[s];
    struct graph_seen *out = m->out;

    for (uint32_t k = 0; k < stage->n_inputs; k++) {
        const struct graph_input *input = &stage->inputs[k];
        const bool shown = input->stage != PL_GRAPH_NONE && out->node_of[input->stage] != PL_GRAPH_NONE;
        uint32_t from = shown ? out->node_of[input->stage] : 0;
        int r = 0;

        if (!shown && !sees_ref(m, input->ref))
            continue;
        if (!shown)
            r = take_pill(m, out->nodes[out->node_of[s]].band, input->ref, &from, err);
        if (r < 0)
            return r;
        out->edges[out->g.n_edges] = (struct pl_graph_edge){from, out->node_of[s], input->label_px};
        out->edge_stage[out->g.n_edges] = s;
        out->edge_input[out->g.n_edges++] = k;
    }
    return 0;
}

static int fill(struct making *m, struct pl_err *err)
{
    const struct pl_graph_view *v = m->view;
    struct graph_seen *out = m->out;
    int r = 0;

    find_bands(m);
    if (m->n_bands != PL_GRAPH_NONE)
        cut_bands(m);
    for (uint32_t s = 0; s < v->n_stages; s++)
        if (out->node_of[s] != PL_GRAPH_NONE)
            out->node_of[s] =
                add_node(m, PL_GRAPH_STAGE, out->band_of[v->stages[s].pipeline], v->stages[s].pipeline, s, v->stages[s].ref);
    for (uint32_t s = 0; r == 0 && s < v->n_stages; s++)
        if (out->node_of[s] != PL_GRAPH_NONE)
            r = add_inputs(m, s, err);
    return r;
}

int pl_graph_seen_find(const struct pl_graph_view *view, const struct pl_graph_ask *ask, uint32_t n_bands, struct pl_arena *arena,
                       struct graph_seen *ret, struct pl_err *err)
{
    struct making m = {.view = view, .ask = ask, .n_bands = n_bands, .out = ret};
    uint32_t n_edges = 1, n;
    int r;

    for (uint32_t s = 0; s < view->n_stages; s++)
        n_edges += view->stages[s].n_inputs;
    n = view->n_stages + n_edges; /* each input may be a pill of its own */
    *ret = (struct graph_seen){.nodes = pl_arena_alloc(arena, n * sizeof *ret->nodes),
                               .edges = pl_arena_alloc(arena, n_edges * sizeof *ret->edges),
                               .stage_of = pl_arena_alloc(arena, n * sizeof *ret->stage_of),
                               .ref_of = pl_arena_alloc(arena, n * sizeof *ret->ref_of),
                               .edge_stage = pl_arena_alloc(arena, n_edges * sizeof *ret->edge_stage),
                               .edge_input = pl_arena_alloc(arena, n_edges * sizeof *ret->edge_input),
                               .node_of = pl_arena_alloc(arena, (view->n_stages + 1) * sizeof *ret->node_of),
                               .band_of = pl_arena_alloc(arena, (view->n_pipelines + 1) * sizeof *ret->band_of)};
    m.up = pl_arena_alloc(arena, (view->n_pipelines + 1) * sizeof *m.up);
    if (!ret->nodes || !ret->edges || !ret->stage_of || !ret->ref_of || !ret->edge_stage || !ret->edge_input || !ret->node_of ||
        !ret->band_of || !m.up)
        return pl_err_nomem(err);
    ret->g.nodes = ret->nodes;
    ret->g.edges = ret->edges;
    r = fill(&m, err);
    pl_map_finish(&m.pills, NULL);
    return r;
}
