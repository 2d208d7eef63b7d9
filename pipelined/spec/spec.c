/* Parses a spec: scans the text for JSON errors, converts Pachyderm's form, merges defaults, reads the
 * fields, checks them. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/spec/spec_pachyderm.h"
#include "pipelined/text/json_position.h"
#include "pipelined/text/json_text.h"

#include <stdio.h>

/* Reports a text that is not JSON: one problem, at the position that the scanner found. */
static int spec_not_json(struct spec_reader *r, struct pl_json_pos at, int code, struct pl_err *err)
{
    struct pl_spec_problem *p = &r->errs->errors[0];
    char message[PL_ERR_MSG_BYTES];

    if (code != PL_ESPEC)
        return pl_err_wrap(err, code, "%s", r->filename);
    (void)snprintf(message, sizeof(message), "%s", err->msg);
    p->line = at.line;
    p->column = at.column;
    (void)snprintf(p->text, sizeof(p->text), "%s:%u:%u: %.500s", r->filename, at.line, at.column, message);
    r->errs->n_errors = 1;
    return pl_err_set(err, PL_ESPEC, "%s", p->text);
}

/* Sets PL_ESPEC with the first problem and the number of the others. */
static int spec_refuse(const struct pl_spec_errors *errs, struct pl_err *err)
{
    size_t more = errs->n_errors - 1 + errs->more_errors;
    int r;

    if (more > 0)
        r = pl_err_set(err, PL_ESPEC, "%s (and %zu more)", errs->errors[0].text, more);
    else
        r = pl_err_set(err, PL_ESPEC, "%s", errs->errors[0].text);
    return pl_err_field(err, r, errs->errors[0].path);
}

/* Merges `more` over r->defaults and takes the reference to it. `more` is NULL if it could not be
 * allocated. */
static void spec_add_defaults(struct spec_reader *r, json_t *more)
{
    json_t *merged = more != NULL ? pl_spec_merge_patch(r->defaults, more) : NULL;

    if (merged == NULL)
        r->failed = PL_ENOMEM;
    json_decref(r->defaults);
    json_decref(more);
    r->defaults = merged;
}

/* Reads project and defaults first, because other fields depend on them, wherever they are in the text; then
 * all fields. */
static void spec_read_file(struct spec_reader *r, json_t *root)
{
    json_t *project = json_object_get(root, "project"), *defaults = json_object_get(root, "defaults");
    const char *fallback = r->ctx != NULL && r->ctx->project != NULL ? r->ctx->project : PL_DEFAULT_PROJECT;

    r->spec->project = pl_spec_strdup(r, json_is_string(project) ? json_string_value(project) : fallback);
    if (r->failed == 0 && r->ctx != NULL && r->ctx->network_off != NULL)
        r->network_off = r->ctx->network_off(r->ctx->self, r->spec->project);
    if (r->failed == 0 && r->ctx != NULL && r->ctx->defaults != NULL)
        for (const char *const *text = r->ctx->defaults(r->ctx->self, r->spec->project); *text != NULL; text++)
            spec_add_defaults(r, json_loads(*text, 0, NULL));
    if (json_is_object(defaults))
        spec_add_defaults(r, json_incref(defaults));
    if (r->failed == 0 && !json_is_object(root))
        pl_spec_problem(r, "a spec is an object: {\"pipeline\": …, \"stages\": […]}");
    else if (r->failed == 0)
        pl_spec_read_object(r, &pl_spec_object_file, root, r->spec);
    pl_spec_leave(r, 0);
    if (r->failed == 0)
        pl_spec_expand_setups(r);
    if (r->failed == 0)
        pl_spec_check(r);
    json_decref(r->defaults);
}

static int spec_load(struct spec_reader *r, json_t **ret, struct pl_err *err)
{
    struct pl_json_pos at;
    int code;

    _Static_assert(PL_JSON_MAX_BYTES == PL_SPEC_MAX_BYTES && PL_JSON_DEPTH_MAX == PL_SPEC_DEPTH_MAX, "one bound, two names");
    code = pl_json_check(r->text, r->len, &at, err);
    if (code < 0)
        return spec_not_json(r, at, code, err);
    *ret = json_loadb(r->text, r->len, JSON_REJECT_DUPLICATES, NULL);
    /* the scanner accepts exactly what jansson accepts, so jansson fails only if out of memory */
    return *ret != NULL ? 0 : pl_err_nomem(err);
}

static int spec_parse(struct spec_reader *r, struct pl_err *err)
{
    json_t *root = NULL, *theirs = NULL;
    int code = spec_load(r, &root, err);

    if (code < 0)
        return code;
    if (pl_pachyderm_is(root)) {
        theirs = root;
        root = pl_pachyderm_map(r, theirs);
        r->pachyderm = theirs;
    }
    if (root != NULL)
        spec_read_file(r, root);
    json_decref(root);
    r->pachyderm = NULL;
    json_decref(theirs);
    if (r->failed < 0)
        return pl_err_nomem(err);
    return r->errs->n_errors > 0 ? spec_refuse(r->errs, err) : 0;
}

static int spec_parse_defaults(struct spec_reader *r, struct pl_err *err)
{
    json_t *root = NULL;
    int code = spec_load(r, &root, err);

    if (code < 0)
        return code;
    spec_add_defaults(r, json_incref(root));
    if (r->failed == 0)
        pl_spec_type_defaults.read(r, &(struct spec_field){.type = &pl_spec_type_defaults}, root, NULL);
    if (json_object_get(root, "setup") != NULL && !json_is_null(json_object_get(root, "setup"))) {
        pl_spec_enter_key(r, "setup");
        pl_spec_problem(r, "not accepted in the defaults of a project or of the cluster: its files are in the folder of a spec");
        pl_spec_leave(r, 0);
    }
    json_decref(r->defaults);
    r->defaults = root;
    if (r->failed < 0)
        return pl_err_nomem(err);
    return r->errs->n_errors > 0 ? spec_refuse(r->errs, err) : 0;
}

/* Runs one parse into a new spec; `r` holds the text and its context. */
static int spec_run(struct spec_reader *r, int (*parse)(struct spec_reader *r, struct pl_err *err), struct pl_spec **ret,
                    struct pl_err *err)
{
    _cleanup_(pl_spec_destroyp) struct pl_spec *spec = NULL;
    _cleanup_free_ struct pl_spec_errors *own = NULL;
    struct pl_arena *arena = pl_arena_create(0);
    struct pl_err unused = {0};
    int code;

    if (r->errs == NULL)
        r->errs = own = calloc(1, sizeof(*own));
    else
        memset(r->errs, 0, sizeof(*r->errs));
    spec = arena != NULL ? pl_arena_alloc(arena, sizeof(*spec)) : NULL;
    if (spec == NULL || r->errs == NULL) {
        pl_arena_destroy(arena);
        spec = NULL;
        return pl_err_nomem(err);
    }
    spec->arena = r->arena = arena;
    r->spec = spec;
    code = parse(r, err != NULL ? err : &unused);
    pl_buf_finish(&r->path);
    r->errs = own != NULL ? NULL : r->errs;
    if (code < 0)
        return code;
    *ret = TAKE_PTR(spec);
    return 0;
}

int pl_spec_parse(const char *text, size_t len, const char *filename, const struct pl_spec_context *ctx, struct pl_spec **ret,
                  struct pl_spec_errors *errs, struct pl_err *err)
{
    struct spec_reader reader = {.text = text, .len = len, .filename = filename, .ctx = ctx, .errs = errs};

    return spec_run(&reader, spec_parse, ret, err);
}

int pl_spec_defaults_read(const char *text, size_t len, const char *filename, struct pl_buf *ret, struct pl_spec_errors *errs,
                          struct pl_err *err)
{
    struct spec_reader reader = {.text = text, .len = len, .filename = filename, .errs = errs};
    _cleanup_(pl_spec_destroyp) struct pl_spec *spec = NULL;
    _cleanup_free_ char *json = NULL;
    int r = spec_run(&reader, spec_parse_defaults, &spec, err);

    if (r == 0) {
        json = pl_json_text(reader.defaults, JSON_COMPACT | JSON_SORT_KEYS);
        r = json != NULL ? pl_buf_add_str(ret, json, err) : pl_err_nomem(err);
    }
    json_decref(reader.defaults);
    return r;
}

const char *pl_spec_problem_message(const struct pl_spec_problem *p, const char *filename)
{
    const size_t n = strlen(filename);
    const char *at = strncmp(p->text, filename, n) == 0 ? p->text + n : p->text;

    at += strspn(at, ":0123456789");
    return *at == ' ' ? at + 1 : p->text;
}

struct pl_spec *pl_spec_destroy(struct pl_spec *spec)
{
    if (spec != NULL)
        pl_arena_destroy(spec->arena); /* the arena holds the spec itself, too */
    return NULL;
}

const struct pl_stage *pl_spec_stage(const struct pl_spec *spec, const char *name)
{
    size_t low = 0, high = spec->n_stages;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct pl_stage *stage = &spec->stages[spec->by_name[mid]];
        int c = strcmp(stage->name, name);

        if (c == 0)
            return stage;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const struct pl_input *pl_stage_environment(const struct pl_stage *stage)
{
    for (size_t i = 0; i < stage->n_leaves; i++)
        if (stage->leaves[i]->environment)
            return stage->leaves[i];
    return NULL;
}

bool pl_input_always(const struct pl_input *tree, const char *name)
{
    bool all = tree->kind == PL_INPUT_UNION;

    if (tree->n_children == 0)
        return tree->name != NULL && pl_streq(tree->name, name);
    for (size_t i = 0; i < tree->n_children; i++)
        if (pl_input_always(&tree->children[i], name) != all)
            return !all;
    return all;
}

static int spec_dump(json_t *json, struct pl_buf *out, struct pl_err *err)
{
    char *text = json != NULL ? pl_json_text(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int r;

    json_decref(json);
    if (text == NULL)
        return pl_err_nomem(err);
    r = pl_buf_add_str(out, text, err);
    free(text);
    return r;
}

int pl_stage_effective_json(const struct pl_stage *stage, struct pl_buf *out, struct pl_err *err)
{
    return spec_dump(pl_spec_object_write(&pl_spec_object_stage, stage), out, err);
}

int pl_spec_effective_json(const struct pl_spec *spec, struct pl_buf *out, struct pl_err *err)
{
    return spec_dump(pl_spec_object_write(&pl_spec_object_file, spec), out, err);
}
