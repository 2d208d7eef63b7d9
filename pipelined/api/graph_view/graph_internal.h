/* graph_internal: what a view consists of, and what the room's files share. Everything lives in the view's arena. */
#pragma once

#include "pipelined/api/graph_view/graph_view.h"
#include "pipelined/graph/graph_fold.h"
#include "storage/base/map.h"

#define GRAPH_VERSION_HEX  16            /* digits of a view's version that are shown */
#define GRAPH_USUAL_BRANCH "master"      /* keys of refs leave it out */
#define GRAPH_REF_SIZE     (3 * 256 + 3) /* of "PROJECT/REPO@BRANCH" */

/* A branch of a repo that a stage reads or writes; each is there once. */
struct graph_ref {
    const char *project, *repo, *branch;
    const char *key; /* "PROJECT/REPO", or "PROJECT/REPO@BRANCH" for a branch other than the usual one */
};

/* An input of a stage, in spec order. `params` are none. */
struct graph_input {
    uint32_t ref;
    uint32_t stage; /* stage that writes the ref; PL_GRAPH_NONE = none does */
    const char *name, *glob;
    const char *const *files;
    size_t n_files;
    int32_t label_px; /* width of glob or files, as a page shows them; 0 = the whole repo */
};

struct graph_pipeline {
    const char *project, *name;
    const char *commit; /* git commit that its spec came from; "" = none */
    int64_t version;
};

struct graph_stage {
    int64_t id;
    uint32_t pipeline;
    uint32_t ref;     /* what it writes; its project and name are those of the stage */
    const char *code; /* git commit of its code, or of its pipeline's spec; "" = unknown */
    uint32_t gpus;
    bool gpu_required;
    bool uncached; /* it reuses no earlier result */
    const struct graph_input *inputs;
    uint32_t n_inputs;
};

struct pl_graph_view {
    struct pl_arena *arena;
    unsigned refs_held; /* references; under the lock of the cache */
    struct pl_graph_views *views;
    struct pl_hash version;
    struct graph_ref *refs;
    struct graph_stage *stages;
    struct graph_pipeline *pipelines;
    uint32_t n_refs, n_stages, n_pipelines;
    uint32_t *order;       /* stages, each after those that it reads */
    struct pl_map by_name; /* "PROJECT/REPO@BRANCH" → ref, as for graph_number_in */
};

/* The graph that one caller sees. */
struct graph_seen {
    struct pl_graph g;
    struct pl_graph_node *nodes; /* g.nodes, g.edges */
    struct pl_graph_edge *edges;
    uint32_t *stage_of;   /* by node: its stage; PL_GRAPH_NONE = it is a pill */
    uint32_t *ref_of;     /* by node: what a stage writes, or what the pill is */
    uint32_t *edge_stage; /* by edge: the stage that reads, and the number of its input */
    uint32_t *edge_input;
    uint32_t *node_of;   /* by stage of the view: its node; PL_GRAPH_NONE = it is not shown */
    uint32_t *band_of;   /* by pipeline of the view: its band; PL_GRAPH_NONE = it is not shown */
    uint32_t bands_left; /* bands after those that are shown */
};

/* Finds what the caller sees of `n_bands` bands, from the one that it asks for (PL_GRAPH_NONE: of all bands); the result lives
 * in `arena`. No node is kept out of a folding yet. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_seen_find(const struct pl_graph_view *view, const struct pl_graph_ask *ask, uint32_t n_bands, struct pl_arena *arena,
                       struct graph_seen *ret, struct pl_err *err);
/* Returns the number that a map has for a text; PL_GRAPH_NONE = none. The map's values are numbers plus one. */
uint32_t pl_graph_number_in(const struct pl_map *map, const char *key);
/* Sets keep[s] for each stage of the view that runs, or whose newest job or some of its datums failed. */
PL_MUST_CHECK
int pl_graph_state_stands_out(const struct pl_graph_view *view, struct pl_conn *c, bool *keep, struct pl_err *err);
/* Writes the version as hex digits. */
void pl_graph_version_text(const struct pl_graph_view *view, char out[GRAPH_VERSION_HEX + 1]);

/* Returns a number that no other start of the daemon has; keys of pictures are made with it. */
uint64_t pl_graph_views_salt(const struct pl_graph_views *views);
/* Finds a kept picture by its key and appends it to `ret`. Returns whether there is one; PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_picture_recall(struct pl_graph_views *views, const struct pl_hash *key, struct pl_buf *ret, struct pl_err *err);
/* Keeps a picture, whose memory it takes, in place of those that were not asked for the longest. A picture of more than
 * PL_GRAPH_PICTURE_BYTES is not kept, nor is one without memory. */
void pl_graph_picture_keep(struct pl_graph_views *views, const struct pl_hash *key, struct pl_buf *text);
