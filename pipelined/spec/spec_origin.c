/* spec_origin: looks each field of an effective stage up in the layers that were merged into it: the stage's text, the
 * spec's `defaults`, and the paths that the defaults of the project and the cluster had. The highest layer that has the
 * field, or something else in the place of an object around it, is its origin. */
#include "pipelined/spec/spec_pachyderm.h"

#include "pipelined/text/json_position.h"
#include "pipelined/text/json_text.h"

#define ORIGIN_DEPTH_MAX (PL_SPEC_DEPTH_MAX + 2)
#define DEFAULT_PATH_MAX 200u /* bytes of one path of the defaults; one that is longer is left out */

/* ---- paths of the defaults outside ---- */

struct paths {
    json_t *project, *cluster;
    bool cut;
    struct pl_buf path;
    struct pl_err *err;
};

/* True for fields that a merge replaces as a whole (pl_spec_merge_patch), and whose parts are no fields of the language. */
static bool origin_is_whole(const char *key)
{
    return pl_streq(key, "pod_spec") || pl_streq(key, "pod_patch") || pl_streq(key, "params");
}

/* Lists the fields below `layer` that `above` neither sets nor removes. */
static int origin_list(struct paths *p, const json_t *layer, const json_t *above, json_t *list)
{
    const size_t len = p->path.len;
    const json_t *value;
    const char *key;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)layer, key, value)
    {
        const json_t *over = json_object_get(above, key);
        const bool inner = json_object_size(value) > 0 && !origin_is_whole(key);

        if (r < 0 || json_is_null(value) || (over && !(inner && json_is_object(over))))
            continue;
        r = pl_json_path_key(&p->path, key, p->err);
        if (r == 0 && inner)
            r = origin_list(p, value, over, list);
        else if (r == 0 && (json_array_size(p->project) + json_array_size(p->cluster) >= PL_SPEC_DEFAULT_PATHS_MAX ||
                            p->path.len > DEFAULT_PATH_MAX))
            p->cut = true;
        else if (r == 0)
            r = pl_buf_str(&p->path) ? pl_json_add(list, json_string(pl_buf_str(&p->path)), p->err) : pl_err_nomem(p->err);
        p->path.len = len;
    }
    return r;
}

int pl_spec_default_paths(const char *cluster, const char *project, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *low = json_loads(cluster, 0, NULL), *high = json_loads(project, 0, NULL), *out = NULL;
    struct paths p = {.project = json_array(), .cluster = json_array(), .err = err};
    int r;

    out = json_pack("{s:o, s:o}", "project", p.project, "cluster", p.cluster);
    r = low && high && out ? 0 : pl_err_nomem(err);
    r = r < 0 ? r : origin_list(&p, high, NULL, p.project);
    r = r < 0 ? r : origin_list(&p, low, high, p.cluster);
    if (r == 0 && p.cut && json_object_set_new(out, "cut", json_true()) < 0)
        r = pl_err_nomem(err);
    pl_buf_finish(&p.path);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

/* ---- origins ---- */

struct segment {
    const char *key; /* NULL: an element of a list */
    size_t index;
    size_t path_len; /* of the path up to here */
};

struct origins {
    const json_t *stage, *defaults; /* as written; NULL = there is none */
    const json_t *outside;
    bool pachyderm, tries_given;
    json_t *layer_of; /* {PATH: "project" | "cluster"}, from `outside` */
    struct segment segments[ORIGIN_DEPTH_MAX];
    size_t n; /* segments */
    struct pl_buf path;
    json_t *out;
    struct pl_err *err;
};

enum found { MISSING, WRITTEN, REMOVED };

/* Takes a step into a written value. An input may be wrapped as {"pfs": INPUT}. */
static const json_t *origin_step(const json_t *value, const struct segment *to)
{
    const json_t *wrapped = json_object_get(value, "pfs"), *inner;

    if (wrapped)
        value = wrapped;
    inner = to->key ? json_object_get(value, to->key) : json_array_get(value, to->index);
    return inner;
}

/* True if the way is to the first input of a cross that `setup` has made around the input as written (spec_setup.c). */
static bool origin_is_wrapped(const struct origins *o, const json_t *input)
{
    const json_t *wrapped = json_object_get(input, "pfs");

    return o->n >= 3 && o->segments[0].key && pl_streq(o->segments[0].key, "input") && o->segments[1].key &&
           pl_streq(o->segments[1].key, "cross") && !o->segments[2].key && o->segments[2].index == 0 && json_is_object(input) &&
           !json_object_get(wrapped ? wrapped : input, "cross");
}

/* Looks for the field in a written layer. `claimed`: how many segments lead to the deepest object that a layer above has on
 * the way; what this layer has in its place, if that is no object, was replaced. Moves `claimed` down. */
static enum found origin_look(const struct origins *o, const json_t *layer, size_t *claimed)
{
    const size_t above = *claimed;
    const json_t *value = layer;
    bool listed = false; /* inside of a list, into which no other layer reaches */

    if (!layer)
        return MISSING;
    for (size_t i = 0; i < o->n; i++) {
        if (i == 1 && origin_is_wrapped(o, value))
            i = 3; /* `cross` and 0 */
        if (i == o->n)
            return WRITTEN;
        if (!json_is_object(value) && i > 0 && i <= above)
            return REMOVED;
        if (!json_is_object(value) && !(json_is_array(value) && !o->segments[i].key))
            return WRITTEN; /* the short form of an object */
        listed = listed || json_is_array(value);
        value = origin_step(value, &o->segments[i]);
        if (!value)
            return listed ? REMOVED : MISSING;
        if (json_is_null(value))
            return REMOVED;
        if (json_is_object(value) && *claimed < i + 1)
            *claimed = i + 1;
    }
    return WRITTEN;
}

/* Looks for the field in the defaults outside. */
static const char *origin_outside(struct origins *o, size_t claimed)
{
    const char *layer = NULL;

    if (!o->outside)
        return "unknown";
    for (size_t i = o->n; i > 0 && !layer; i--) {
        char *end = (char *)o->path.data + o->segments[i - 1].path_len; /* the path ends in a NUL: origin_add has asked for it */
        const char kept = *end;

        *end = '\0';
        layer = pl_json_text_at(o->layer_of, (const char *)o->path.data);
        *end = kept;
        if (layer && i < o->n && i <= claimed)
            return "language"; /* a layer above has an object in its place */
    }
    return layer ? layer : json_is_true(json_object_get(o->outside, "cut")) ? "unknown" : "language";
}

/* True for fields that the reader of Pachyderm's form has set, not the text. */
static bool origin_of_pachyderm(const struct origins *o, const char *path)
{
    return o->pachyderm && (pl_streq(path, "on_new") || pl_streq(path, "output.copy_links") ||
                            (pl_streq(path, "datum.tries") && !o->tries_given));
}

static int origin_add(struct origins *o)
{
    const char *path = pl_buf_str(&o->path), *origin = "language";
    size_t claimed = 0;
    enum found in;

    if (!path)
        return pl_err_nomem(o->err);
    if (!origin_of_pachyderm(o, path)) {
        in = origin_look(o, o->stage, &claimed);
        if (in == WRITTEN)
            origin = "stage";
        if (in == MISSING) {
            in = origin_look(o, o->defaults, &claimed);
            origin = in == WRITTEN ? "spec" : in == MISSING ? origin_outside(o, claimed) : "language";
        }
    }
    return json_object_set_new(o->out, path, json_string(origin)) < 0 ? pl_err_nomem(o->err) : 0;
}

/* True if the elements of the list are fields of their own: the inputs of a cross or a union. */
static bool origin_is_inputs(const struct origins *o, const json_t *value)
{
    return json_array_size(value) > 0 && o->n > 0 && pl_streq(o->segments[0].key, "input") && o->segments[o->n - 1].key &&
           (pl_streq(o->segments[o->n - 1].key, "cross") || pl_streq(o->segments[o->n - 1].key, "union"));
}

static int origin_walk(struct origins *o, const json_t *value);

/* Walks a member or an element of the value at hand. */
static int origin_enter(struct origins *o, const char *key, size_t index, const json_t *value)
{
    const size_t len = o->path.len;
    int r = key ? pl_json_path_key(&o->path, key, o->err) : pl_json_path_index(&o->path, index, o->err);

    if (r == 0 && o->n == ORIGIN_DEPTH_MAX)
        r = pl_err_set(o->err, PL_ESPEC, "a stage has more than %u nested objects", ORIGIN_DEPTH_MAX);
    if (r < 0)
        return r;
    o->segments[o->n++] = (struct segment){.key = key, .index = index, .path_len = o->path.len};
    r = key && origin_is_whole(key) ? origin_add(o) : origin_walk(o, value);
    o->n--;
    o->path.len = len;
    return r;
}

static int origin_walk(struct origins *o, const json_t *value)
{
    const json_t *inner;
    const char *key;
    size_t i;
    int r = 0;

    if (json_object_size(value) == 0 && !origin_is_inputs(o, value))
        return origin_add(o);
    json_object_foreach((json_t *)(uintptr_t)value, key, inner)
    {
        r = r < 0 ? r : origin_enter(o, key, 0, inner);
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, inner)
    {
        r = r < 0 ? r : origin_enter(o, NULL, i, inner);
    }
    return r;
}

static const json_t *origin_stage(const json_t *root, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(root, "stages"), i, one)
    {
        if (pl_streq(pl_json_str(one, "name"), name))
            return one;
    }
    return NULL;
}

/* Makes {PATH: layer}. */
static json_t *origin_layers(const json_t *outside)
{
    static const char *const layers[] = {"cluster", "project"};
    _cleanup_(json_decrefp) json_t *out = json_object();
    const json_t *path;
    size_t k;

    for (size_t i = 0; out && i < PL_ARRAY_SIZE(layers); i++)
        json_array_foreach(json_object_get(outside, layers[i]), k, path)
        {
            if (json_object_set_new(out, json_string_value(path), json_string(layers[i])) < 0)
                return NULL;
        }
    return TAKE_PTR(out);
}

/* Converts Pachyderm's form to the native one; takes `theirs`. */
static json_t *origin_native(const char *text, size_t len, json_t *theirs, struct origins *o)
{
    _cleanup_free_ struct pl_spec_errors *errs = calloc(1, sizeof *errs);
    struct spec_reader r = {.text = text, .len = len, .filename = "", .errs = errs};
    json_t *native;

    o->pachyderm = pl_pachyderm_is(theirs);
    if (!o->pachyderm)
        return theirs;
    o->tries_given = json_object_get(theirs, "datum_tries") || json_object_get(theirs, "datumTries");
    native = errs ? pl_pachyderm_map(&r, theirs) : NULL;
    pl_buf_finish(&r.path);
    json_decref(theirs);
    return native;
}

int pl_spec_origins(const char *text, size_t len, const json_t *stages, const json_t *outside, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *layers = NULL, *all = NULL;
    struct origins o = {.outside = outside, .err = err};
    const json_t *effective;
    const char *name;
    int r = 0;

    if (!root)
        return pl_err_set(err, PL_ESPEC, "the spec as it was written is not JSON");
    root = origin_native(text, len, TAKE_PTR(root), &o);
    layers = origin_layers(outside);
    all = json_object();
    if (!root || !layers || !all)
        return pl_err_nomem(err);
    o.layer_of = layers;
    o.defaults = json_object_get(root, "defaults");
    json_object_foreach((json_t *)(uintptr_t)stages, name, effective)
    {
        o.stage = origin_stage(root, name);
        o.out = json_object();
        if (json_object_set_new(all, name, o.out) < 0)
            r = pl_err_nomem(err);
        r = r < 0 ? r : origin_walk(&o, effective);
        if (r < 0)
            break;
    }
    pl_buf_finish(&o.path);
    if (r == 0)
        *ret = TAKE_PTR(all);
    return r;
}
