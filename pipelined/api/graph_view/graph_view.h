/* api/graph_view: The graph of repos and stages as the API shows it: its picture, and the state of its nodes.
 *
 * In:      Current stages, newest jobs and heads of branches from the database; what the caller may read.
 * Out:     JSON of GET /api/v1/graph and GET /api/v1/graph/state.
 * Uses:    graph, plan, provenance, db/writer, text, storage/base
 * Threads: Storage pool. Only the cache is shared; a view does not change.
 *
 * Inside:
 *   graph_bands      the nodes, edges and bands that a caller sees
 *   graph_freshness  which outputs are out of date, and why
 *   graph_internal   what a view consists of
 *   graph_picture    layout and its JSON
 *   graph_state      the state of stages and repos
 *   graph_states     what was read for it
 *   graph_views      reads the stages, and keeps the newest view and pictures */

/* graph_view: stages as they are now, with what they read.
 *
 * The view is made of the current stages alone, whose rows never change: their ids are its version. It is read again
 * when these ids differ. Pictures are kept too, by all that they depend on: the version, what the caller may read and has
 * asked for, and, if the graph folds, which nodes stay out. The pictures that were asked for last stay, PL_GRAPH_PICTURES of
 * them and no more than PL_GRAPH_PICTURE_BYTES.
 *
 * A band shows the stages of one pipeline, or of several that read each other's repos. A repo that no stage of the band
 * writes is a pill in each band that reads it. A picture has at most PL_GRAPH_BANDS_MAX bands, from a first one on. So is a branch of a stage's repo that the stage does not write. What the
 * caller may not read is not there, nor are edges from it. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "pipelined/provenance/freshness.h"
#include "storage/base/buf.h"

#define PL_GRAPH_PICTURES      64u         /* pictures that are kept */
#define PL_GRAPH_PICTURE_BYTES (32u << 20) /* of all of them together */
#define PL_GRAPH_KEEP_MAX      100u        /* nodes that a caller may keep out of the folding */
#define PL_GRAPH_WISHES_MAX    100u        /* boxes that a caller may open or shut, of each kind */
#define PL_GRAPH_ETAG_SIZE     40

struct pl_graph_views;   /* the cache; any thread */
struct pl_graph_view;    /* counted references; immutable */
struct pl_graph_drawing; /* one caller's picture while it is made; one thread at a time */

/* What a caller asks for, and may read. Borrowed. */
struct pl_graph_ask {
    const char *project, *pipeline;        /* NULL = all; a pipeline is one of `project`, or of any project */
    bool fold;                             /* fold a graph of more than PL_GRAPH_FOLD_LIMIT nodes */
    uint32_t band;                         /* number of the first band of a picture, which has PL_GRAPH_BANDS_MAX of them */
    const char *const *keep;               /* keys of nodes that do not fold: "PROJECT/NAME", "PROJECT/REPO@BRANCH" */
    const char *const *spread;             /* keys of nodes of which none that is alike folds */
    const char *const *open, *const *shut; /* "PROJECT/PIPELINE": its stages do not fold to one box; they do */
    size_t n_keep, n_spread, n_open, n_shut;
    pl_readable_fn readable;
    const void *who;
    /* Of pl_graph_uses alone: */
    bool in_order; /* each stage comes after those that it reads; otherwise by project, pipeline and place in the spec */
    /* Whether the words of this stage are wanted, which may take a query; NULL = of all. `self`: that of pl_graph_uses. */
    bool (*words)(const void *self, const char *project, const char *pipeline, const char *stage);
};

/* Creates an empty cache. PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_views_create(struct pl_graph_views **ret, struct pl_err *err);
struct pl_graph_views *pl_graph_views_destroy(struct pl_graph_views *views);

/* Gets a reference to the view of the current stages, from the cache or read anew. PL_ENOMEM, errors of the database. */
PL_MUST_CHECK
int pl_graph_view_get(struct pl_graph_views *views, struct pl_conn *c, struct pl_graph_view **ret, struct pl_err *err);
struct pl_graph_view *pl_graph_view_unref(struct pl_graph_view *view);
static inline void pl_graph_view_unrefp(struct pl_graph_view **view)
{
    *view = pl_graph_view_unref(*view);
}

/* Returns whether `known`, an If-None-Match header or NULL, has this ETag. */
bool pl_graph_etag_is_known(const char *known, const char *etag);
/* Begins a picture: finds the nodes that the caller sees and, if the graph folds, those that stay out. Of the steps of a
 * picture only this one reads the database, through `c`; a caller gives the connection back before the next. `view` must
 * outlive the drawing. PL_ENOMEM, errors of the database. */
PL_MUST_CHECK
int pl_graph_drawing_begin(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask,
                           struct pl_graph_drawing **ret, struct pl_err *err);
struct pl_graph_drawing *pl_graph_drawing_destroy(struct pl_graph_drawing *drawing);
static inline void pl_graph_drawing_destroyp(struct pl_graph_drawing **drawing)
{
    *drawing = pl_graph_drawing_destroy(*drawing);
}
/* Makes the picture, once for a drawing: appends its JSON to `ret` and sets its ETag. If `known`, an If-None-Match header or
 * NULL, has this ETag, nothing is appended. PL_ETOOBIG: it does not fold, and has more nodes than can be laid out; PL_ENOMEM. */
PL_MUST_CHECK
int pl_graph_picture(struct pl_graph_views *views, struct pl_graph_drawing *drawing, const char *known,
                     char ret_etag[PL_GRAPH_ETAG_SIZE], struct pl_buf *ret, struct pl_err *err);
/* Whether the output of a stage is out of date. Texts are borrowed, and "" if they were not wanted. */
struct pl_graph_freshness {
    struct pl_freshness is;
    const char *run;     /* that brings it up to date; "" = none does */
    const char *text;    /* why, as a sentence; "" = it is not */
    const char *command; /* that mends it; "" = none is needed */
};
/* Makes {"state", "why", "datums"?, "run"?, "text", "command"}; NULL = no memory. */
json_t *pl_graph_freshness_json(const struct pl_graph_freshness *f);

/* A stage, or one of its inputs. */
struct pl_graph_use {
    const char *project, *stage, *pipeline;
    bool stopped; /* its pipeline is */
    bool stale;   /* the stage has an output that is out of date */
    const struct pl_graph_freshness *fresh;
    const char *from_project, *from_repo; /* repo that the stage reads; NULL = this is about the stage itself */
    bool from_stage;                      /* a stage writes the branch that it reads */
};

/* Calls `fn` for each stage that the caller sees, and for each of its inputs after it. Of `ask` only `readable`, `who` and what
 * follows them count. Names of `fn` live as long as the view. PL_ENOMEM, errors of the database and of `fn`. */
PL_MUST_CHECK
int pl_graph_uses(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask,
                  int (*fn)(void *self, const struct pl_graph_use *use, struct pl_err *err), void *self, struct pl_err *err);
/* Makes the state of the nodes that the caller sees: appends {"version", "stages", "repos"} as JSON to `ret`. What says how
 * the picture folds does not count, nor does `band`. PL_ENOMEM, errors of the database. */
PL_MUST_CHECK
int pl_graph_state(const struct pl_graph_view *view, struct pl_conn *c, const struct pl_graph_ask *ask, struct pl_buf *ret,
                   struct pl_err *err);
