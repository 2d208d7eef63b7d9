/* Reads the current stages into a view, and keeps the newest view and pictures. */
#include "pipelined/api/graph_view/graph_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/map.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_TRIES  5u
#define LABEL_CHARS 40u /* longer labels are cut by the page */

/* A picture that is kept. It does not change, so that it can be copied without the lock. */
struct picture {
    struct picture *next;
    _Atomic unsigned refs_held; /* references */
    struct pl_hash key;
    struct pl_buf text;
};

struct pl_graph_views {
    uint64_t salt;        /* random: an ETag is not known to the next start, which may draw otherwise */
    pthread_mutex_t lock; /* guards all below, and refs_held of views; nothing blocks under it */
    struct pl_graph_view *newest;
    struct picture *pictures; /* the one that was asked for last comes first; each has a reference */
};

/* ---- cache ---- */

int pl_graph_views_create(struct pl_graph_views **ret, struct pl_err *err)
{
    struct pl_graph_views *views = calloc(1, sizeof *views);

    if (!views)
        return pl_err_nomem(err);
    pl_random_bytes(&views->salt, sizeof views->salt);
    pthread_mutex_init(&views->lock, NULL);
    *ret = views;
    return 0;
}

static struct pl_graph_view *view_free(struct pl_graph_view *view)
{
    if (!view)
        return NULL;
    pl_map_finish(&view->by_name, NULL);
    pl_arena_destroy(view->arena); /* the view itself lies there */
    return NULL;
}

static void view_freep(struct pl_graph_view **view)
{
    *view = view_free(*view);
}

static void picture_unref(struct picture *p)
{
    if (!p || --p->refs_held > 0)
        return;
    pl_buf_finish(&p->text);
    free(p);
}

/* Releases a list of pictures. */
static void pictures_unref(struct picture *list)
{
    for (struct picture *p = list; p; p = list) {
        list = p->next;
        picture_unref(p);
    }
}

struct pl_graph_views *pl_graph_views_destroy(struct pl_graph_views *views)
{
    if (!views)
        return NULL;
    view_free(views->newest);
    pictures_unref(views->pictures);
    pthread_mutex_destroy(&views->lock);
    free(views);
    return NULL;
}

struct pl_graph_view *pl_graph_view_unref(struct pl_graph_view *view)
{
    bool last;

    if (!view)
        return NULL;
    pthread_mutex_lock(&view->views->lock);
    last = --view->refs_held == 0;
    pthread_mutex_unlock(&view->views->lock);
    return last ? view_free(view) : NULL;
}

/* Takes the newest view if it has this version. */
static struct pl_graph_view *recall(struct pl_graph_views *views, const struct pl_hash *version)
{
    struct pl_graph_view *view;

    pthread_mutex_lock(&views->lock);
    view = views->newest && pl_hash_eq(&views->newest->version, version) ? views->newest : NULL;
    if (view)
        view->refs_held++;
    pthread_mutex_unlock(&views->lock);
    return view;
}

/* Makes the view the newest one; the cache takes a reference of its own. */
static void keep_view(struct pl_graph_views *views, struct pl_graph_view *view)
{
    struct pl_graph_view *old;

    view->views = views;
    view->refs_held = 2;
    pthread_mutex_lock(&views->lock);
    old = views->newest;
    views->newest = view;
    pthread_mutex_unlock(&views->lock);
    pl_graph_view_unref(old);
}

uint64_t pl_graph_views_salt(const struct pl_graph_views *views)
{
    return views->salt;
}

/* Moves the picture with this key to the front and returns it; NULL = it is not kept. Call it with the lock held. */
static struct picture *find_picture(struct pl_graph_views *views, const struct pl_hash *key)
{
    for (struct picture **at = &views->pictures; *at; at = &(*at)->next) {
        struct picture *p = *at;

        if (!pl_hash_eq(&p->key, key))
            continue;
        *at = p->next;
        p->next = views->pictures;
        views->pictures = p;
        return p;
    }
    return NULL;
}

int pl_graph_picture_recall(struct pl_graph_views *views, const struct pl_hash *key, struct pl_buf *ret, struct pl_err *err)
{
    struct picture *p;
    int r;

    pthread_mutex_lock(&views->lock);
    p = find_picture(views, key);
    if (p)
        p->refs_held++;
    pthread_mutex_unlock(&views->lock);
    if (!p)
        return 0;
    r = pl_buf_add(ret, p->text.data, p->text.len, err);
    picture_unref(p);
    return r < 0 ? r : 1;
}

/* Cuts off what is beyond the bounds and returns it. Call it with the lock held. */
static struct picture *cut_pictures(struct pl_graph_views *views)
{
    struct picture *cut = NULL;
    size_t bytes = 0;
    unsigned n = 0;

    for (struct picture **at = &views->pictures; *at; at = &(*at)->next) {
        bytes += (*at)->text.cap;
        if (++n <= PL_GRAPH_PICTURES && bytes <= PL_GRAPH_PICTURE_BYTES)
            continue;
        cut = *at;
        *at = NULL;
        break;
    }
    return cut;
}

void pl_graph_picture_keep(struct pl_graph_views *views, const struct pl_hash *key, struct pl_buf *text)
{
    struct picture *p = text->cap <= PL_GRAPH_PICTURE_BYTES ? calloc(1, sizeof *p) : NULL, *gone = p;

    if (!p)
        return;
    *p = (struct picture){.refs_held = 1, .key = *key, .text = *text};
    *text = (struct pl_buf){0};
    pthread_mutex_lock(&views->lock);
    if (!find_picture(views, key)) { /* another request may have made it, too */
        p->next = views->pictures;
        views->pictures = p;
        gone = cut_pictures(views);
    }
    pthread_mutex_unlock(&views->lock);
    pictures_unref(gone);
}

void pl_graph_version_text(const struct pl_graph_view *view, char out[GRAPH_VERSION_HEX + 1])
{
    char hex[PL_HASH_HEX + 1];

    memcpy(out, pl_hash_hex(&view->version, hex), GRAPH_VERSION_HEX);
    out[GRAPH_VERSION_HEX] = '\0';
}

/* ---- reading ---- */

/* A view while it is read. */
struct reading {
    struct pl_graph_view *view;
    struct pl_map pipelines; /* "PROJECT/NAME" → pipeline, as for graph_number_in */
    uint32_t refs_room, stages_room, pipelines_room;
};

static void reading_finish(struct reading *r)
{
    view_free(r->view);
    pl_map_finish(&r->pipelines, NULL);
}

/* Makes room for one more element of an array in the arena; what is left behind is at most as much again. */
static void *grown(struct pl_arena *arena, void *items, uint32_t n, uint32_t *room, size_t size)
{
    void *more;

    if (n < *room)
        return items;
    *room = *room ? 2 * *room : 64;
    more = pl_arena_alloc(arena, *room * size);
    if (more && n)
        memcpy(more, items, n * size);
    return more;
}

uint32_t pl_graph_number_in(const struct pl_map *map, const char *key)
{
    const void *value = pl_map_get(map, key, strlen(key));

    return value ? (uint32_t)(uintptr_t)value - 1 : PL_GRAPH_NONE;
}

static int number_put(struct pl_map *map, const char *key, uint32_t number, struct pl_err *err)
{
    return pl_map_put(map, key, strlen(key), (void *)(uintptr_t)(number + 1), NULL, err);
}

/* Finds or adds the ref "PROJECT/REPO@BRANCH". */
static int take_ref(struct reading *r, const char *text, uint32_t *ret, struct pl_err *err)
{
    struct pl_graph_view *v = r->view;
    struct graph_ref *ref;
    char *copy, *slash, *at;

    *ret = pl_graph_number_in(&r->view->by_name, text);
    if (*ret != PL_GRAPH_NONE)
        return 0;
    v->refs = grown(v->arena, v->refs, v->n_refs, &r->refs_room, sizeof *v->refs);
    copy = pl_arena_strdup(v->arena, text);
    if (!v->refs || !copy)
        return pl_err_nomem(err);
    slash = strchr(copy, '/');
    at = slash ? strchr(slash, '@') : NULL;
    if (!at)
        return pl_err_set(err, PL_ECORRUPT, "the database has a stage that reads \"%s\": not PROJECT/REPO@BRANCH", text);
    ref = &v->refs[ *ret = v->n_refs++];
    *slash = *at = '\0';
    *ref = (struct graph_ref){copy, slash + 1, at + 1, NULL};
    ref->key = pl_arena_printf(v->arena, pl_streq(at + 1, GRAPH_USUAL_BRANCH) ? "%s/%s" : "%s/%s@%s", copy, slash + 1, at + 1);
    return ref->key ? number_put(&r->view->by_name, text, *ret, err) : pl_err_nomem(err);
}

/* Returns the inputs that a cross or union consists of; NULL for a leaf. */
static const json_t *children_of(const json_t *node)
{
    const json_t *cross = json_object_get(node, "cross"), *list = json_is_array(cross) ? cross : json_object_get(node, "union");

    return json_is_array(list) ? list : NULL;
}

/* Counts the leaves of an input tree that read a repo. */
static uint32_t count_leaves(const json_t *node)
{
    const json_t *children = children_of(node), *child;
    uint32_t n = 0;
    size_t i;

    json_array_foreach(children, i, child) n += count_leaves(child);
    return children ? n : pl_json_text_at(node, "repo") != NULL;
}

/* Returns the width of a text in the page's monospaced font. */
static int32_t width_of(const char *text)
{
    uint32_t chars = 0;

    for (; *text; text++)
        chars += (*text & 0xC0) != 0x80;
    return (int32_t)(PL_MIN(chars, LABEL_CHARS) * 72 + 9) / 10;
}

static int read_leaf(struct reading *r, const json_t *leaf, struct graph_input *ret, struct pl_err *err)
{
    struct pl_arena *arena = r->view->arena;
    const json_t *files = json_object_get(leaf, "files"), *file;
    const char **list = pl_arena_alloc(arena, (json_array_size(files) + 1) * sizeof *list);
    const char *repo = pl_json_str(leaf, "repo");
    size_t i;

    *ret = (struct graph_input){.stage = PL_GRAPH_NONE,
                                .name = pl_arena_strdup(arena, pl_json_str(leaf, "name")),
                                .glob = pl_arena_strdup(arena, pl_json_str(leaf, "glob")),
                                .files = list,
                                .n_files = json_array_size(files)};
    if (!list || !ret->name || !ret->glob)
        return pl_err_nomem(err);
    ret->label_px = pl_streq(ret->glob, "/") ? 0 : width_of(ret->glob);
    json_array_foreach(files, i, file)
    {
        list[i] = pl_arena_strdup(arena, json_string_value(file));
        if (!list[i])
            return pl_err_nomem(err);
        ret->label_px = i ? ret->label_px + width_of(", ") + width_of(list[i]) : width_of(list[i]);
    }
    return take_ref(r, repo, &ret->ref, err);
}

/* Reads the leaves of an input tree, in spec order. */
static int read_tree(struct reading *r, const json_t *node, struct graph_input *inputs, uint32_t *n, struct pl_err *err)
{
    const json_t *children = children_of(node), *child;
    size_t i;

    json_array_foreach(children, i, child)
    {
        int e = read_tree(r, child, inputs, n, err);

        if (e < 0)
            return e;
    }
    if (children || !pl_json_text_at(node, "repo"))
        return 0;
    return read_leaf(r, node, &inputs[(*n)++], err);
}

/* Columns of the stages. */
enum { ID, PROJECT, NAME, BRANCH, SPEC, GIT, PIPELINE, VERSION, ORIGIN };
#define STAGES                                                                                                                   \
    "SELECT s.id, s.project, s.name, s.branch, s.spec, s.git, p.name, p.version, v.origin FROM stage s"                          \
    " JOIN pipeline p ON p.id = s.pipeline LEFT JOIN pipeline_version v ON v.pipeline = p.id AND v.version = p.version"          \
    " WHERE s.current = 1 ORDER BY p.project, p.name, s.position"

static int take_pipeline(struct reading *r, const struct pl_rows *rows, uint32_t *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *origin = NULL;
    struct pl_graph_view *v = r->view;
    struct graph_pipeline *p;
    char key[2 * 256 + 2];

    snprintf(key, sizeof key, "%s/%s", pl_col_text(rows, PROJECT), pl_col_text(rows, PIPELINE));
    *ret = pl_graph_number_in(&r->pipelines, key);
    if (*ret != PL_GRAPH_NONE)
        return 0;
    v->pipelines = grown(v->arena, v->pipelines, v->n_pipelines, &r->pipelines_room, sizeof *v->pipelines);
    origin = pl_col_json(rows, ORIGIN);
    if (!v->pipelines || !origin)
        return pl_err_nomem(err);
    p = &v->pipelines[ *ret = v->n_pipelines++];
    *p = (struct graph_pipeline){.project = pl_arena_strdup(v->arena, pl_col_text(rows, PROJECT)),
                                 .name = pl_arena_strdup(v->arena, pl_col_text(rows, PIPELINE)),
                                 .commit = pl_arena_strdup(v->arena, pl_json_str(origin, "commit")),
                                 .version = pl_col_int(rows, VERSION)};
    return p->project && p->name && p->commit ? number_put(&r->pipelines, key, *ret, err) : pl_err_nomem(err);
}

static int read_stage(struct reading *r, const struct pl_rows *rows, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *spec = pl_col_json(rows, SPEC), *git = pl_col_json(rows, GIT);
    const json_t *gpu = json_object_get(spec, "gpu"), *tree = json_object_get(spec, "input");
    struct pl_graph_view *v = r->view;
    struct graph_input *inputs;
    struct graph_stage stage = {.id = pl_col_int(rows, ID),
                                .gpus = (uint32_t)json_integer_value(json_object_get(gpu, "count")),
                                .uncached = json_is_false(json_object_get(spec, "cache")),
                                .gpu_required = !json_is_false(json_object_get(gpu, "required"))};
    char ref[GRAPH_REF_SIZE];
    int e;

    if (!spec || !git)
        return pl_err_nomem(err);
    v->stages = grown(v->arena, v->stages, v->n_stages, &r->stages_room, sizeof *v->stages);
    inputs = pl_arena_alloc(v->arena, (count_leaves(tree) + 1) * sizeof *inputs);
    if (!v->stages || !inputs)
        return pl_err_nomem(err);
    snprintf(ref, sizeof ref, "%s/%s@%s", pl_col_text(rows, PROJECT), pl_col_text(rows, NAME), pl_col_text(rows, BRANCH));
    e = take_pipeline(r, rows, &stage.pipeline, err);
    e = e < 0 ? e : take_ref(r, ref, &stage.ref, err);
    e = e < 0 ? e : read_tree(r, tree, inputs, &stage.n_inputs, err);
    if (e < 0)
        return e;
    stage.inputs = inputs;
    stage.code =
        *pl_json_str(git, "head") ? pl_arena_strdup(v->arena, pl_json_str(git, "head")) : v->pipelines[stage.pipeline].commit;
    if (!stage.code)
        return pl_err_nomem(err);
    v->stages[v->n_stages++] = stage;
    return 0;
}

/* Finds the stage that writes what each input reads, and the order of the stages. */
static int connect_stages(struct reading *r, struct pl_err *err)
{
    struct pl_graph_view *v = r->view;
    struct pl_graph_node *nodes = pl_arena_alloc(v->arena, (v->n_stages + 1) * sizeof *nodes);
    struct pl_graph_edge *edges;
    uint32_t *writer = pl_arena_alloc(v->arena, (v->n_refs + 1) * sizeof *writer), n = 0;

    for (uint32_t i = 0; i < v->n_stages; i++)
        n += v->stages[i].n_inputs;
    edges = pl_arena_alloc(v->arena, (n + 1) * sizeof *edges);
    if (!nodes || !edges || !writer)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < v->n_refs; i++)
        writer[i] = PL_GRAPH_NONE;
    for (uint32_t i = 0; i < v->n_stages; i++)
        writer[v->stages[i].ref] = i;
    n = 0;
    for (uint32_t i = 0; i < v->n_stages; i++)
        for (uint32_t k = 0; k < v->stages[i].n_inputs; k++) {
            struct graph_input *input = (struct graph_input *)(uintptr_t)&v->stages[i].inputs[k];

            input->stage = writer[input->ref];
            if (input->stage != PL_GRAPH_NONE)
                edges[n++] = (struct pl_graph_edge){.from = input->stage, .to = i};
        }
    return pl_graph_order(&(struct pl_graph){nodes, edges, v->n_stages, n, 1}, v->arena, &v->order, err);
}

/* Makes the version of the stages that are current now. */
static int find_version(struct pl_conn *c, struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_hasher h;
    int r = pl_sql_query(c, err, &rows, "SELECT id FROM stage WHERE current = 1 ORDER BY project, name", "");

    pl_hasher_init(&h);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        const int64_t id = pl_col_int(&rows, 0);

        pl_hasher_add(&h, &id, sizeof id);
    }
    pl_hasher_get(&h, ret);
    return r;
}

static int read_view(struct pl_conn *c, const struct pl_hash *version, struct pl_graph_view **ret, struct pl_err *err)
{
    _cleanup_(reading_finish) struct reading reading = {0};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_arena *arena = pl_arena_create(0);
    int r;

    reading.view = arena ? pl_arena_alloc(arena, sizeof *reading.view) : NULL;
    if (!reading.view) {
        pl_arena_destroy(arena);
        return pl_err_nomem(err);
    }
    reading.view->arena = arena;
    reading.view->version = *version;
    r = pl_sql_query(c, err, &rows, STAGES, "");
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = read_stage(&reading, &rows, err);
    r = r < 0 ? r : connect_stages(&reading, err);
    if (r == 0)
        *ret = TAKE_PTR(reading.view);
    return r;
}

int pl_graph_view_get(struct pl_graph_views *views, struct pl_conn *c, struct pl_graph_view **ret, struct pl_err *err)
{
    struct pl_hash version, after;
    int r = find_version(c, &version, err);

    for (unsigned i = 0; r == 0; i++) {
        _cleanup_(view_freep) struct pl_graph_view *view = NULL;

        *ret = recall(views, &version);
        if (*ret)
            return 0;
        r = read_view(c, &version, &view, err);
        r = r < 0 ? r : find_version(c, &after, err);
        if (r == 0 && pl_hash_eq(&version, &after)) {
            keep_view(views, view);
            *ret = TAKE_PTR(view);
            return 0;
        }
        version = after; /* pipelines were set meanwhile; an id never comes again, so that equal versions are equal stages */
        if (r == 0 && i == READ_TRIES)
            r = pl_err_set(err, PL_EBUSY, "pipelines were changed %u times while they were read; try again", READ_TRIES + 1);
    }
    return r;
}
