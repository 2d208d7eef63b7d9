/* The state of a parse: paths, positions and problems; reads objects by the field table; merges defaults. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/spec/spec_pachyderm.h"
#include "pipelined/text/json_position.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <stdarg.h>
#include <stdio.h>

enum spec_place { SPEC_AT_VALUE, SPEC_AT_KEY };

void *pl_spec_alloc(struct spec_reader *r, size_t n)
{
    void *p = pl_arena_alloc(r->arena, n);

    if (p == NULL)
        r->failed = PL_ENOMEM;
    return p;
}

char *pl_spec_strdup(struct spec_reader *r, const char *s)
{
    char *copy = pl_arena_strdup(r->arena, s);

    if (copy == NULL)
        r->failed = PL_ENOMEM;
    return copy;
}

void pl_spec_enter_key(struct spec_reader *r, const char *key)
{
    if (pl_json_path_key(&r->path, key, NULL) < 0)
        r->failed = PL_ENOMEM;
}

void pl_spec_enter_index(struct spec_reader *r, size_t index)
{
    if (pl_json_path_index(&r->path, index, NULL) < 0)
        r->failed = PL_ENOMEM;
}

void pl_spec_leave(struct spec_reader *r, size_t path_len)
{
    r->path.len = path_len;
}

/* Finds the position of `path` in the text. If a stage got the field from `defaults`, returns the position
 * of the field in `defaults`, and changes `path` to the path of that field. */
static struct pl_json_pos spec_locate(struct spec_reader *r, enum spec_place place, struct pl_buf *path)
{
    struct pl_json_pos key, value, key2, value2;
    const char *text = (const char *)path->data, *rest = strncmp(text, "stages[", 7) == 0 ? strchr(text, ']') : NULL;
    _cleanup_(pl_buf_finish) struct pl_buf other = {0};

    if (!pl_json_find(r->text, r->len, text, &key, &value) && rest != NULL && rest[1] != '\0') {
        if (pl_buf_addf(&other, NULL, "defaults%s", rest + 1) < 0 || pl_buf_str(&other) == NULL) {
            r->failed = PL_ENOMEM;
            return value;
        }
        if (pl_json_find(r->text, r->len, (const char *)other.data, &key2, &value2)) {
            pl_buf_finish(path);
            *path = other;
            other = (struct pl_buf){0};
            return place == SPEC_AT_KEY ? key2 : value2;
        }
    }
    return place == SPEC_AT_KEY ? key : value;
}

/* Inserts a problem into `list`, which is sorted by position, unless `list` has a problem with the same
 * text. If `list` is full, drops its last problem. */
static void spec_insert(struct pl_spec_problem *list, size_t *n, size_t *more, const struct pl_spec_problem *p)
{
    size_t at = *n;

    for (size_t i = 0; i < *n; i++)
        if (pl_streq(list[i].text, p->text))
            return;
    while (at > 0 && (list[at - 1].line > p->line || (list[at - 1].line == p->line && list[at - 1].column > p->column)))
        at--;
    if (*n == PL_SPEC_ERRORS_MAX) {
        if (more != NULL)
            (*more)++;
        if (at == PL_SPEC_ERRORS_MAX)
            return;
        (*n)--;
    }
    memmove(list + at + 1, list + at, (*n - at) * sizeof(*list));
    list[at] = *p;
    (*n)++;
}

static void spec_add(struct spec_reader *r, bool warning, enum spec_place place, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));
static void spec_add(struct spec_reader *r, bool warning, enum spec_place place, const char *fmt, va_list ap)
{
    _cleanup_(pl_buf_finish) struct pl_buf path = {0};
    struct pl_spec_problem p = {0};
    struct pl_json_pos pos;
    char message[600];

    (void)vsnprintf(message, sizeof(message), fmt, ap);
    if (pl_buf_add(&path, r->path.data, r->path.len, NULL) < 0 || pl_buf_str(&path) == NULL) {
        r->failed = PL_ENOMEM;
        return;
    }
    if (r->pachyderm != NULL && pl_pachyderm_path(&path, r->pachyderm) < 0)
        r->failed = PL_ENOMEM;
    pos = spec_locate(r, place, &path);
    p.line = pos.line;
    p.column = pos.column;
    (void)snprintf(p.path, sizeof(p.path), "%.150s", (const char *)path.data);
    (void)snprintf(p.text, sizeof(p.text), "%s:%u:%u: %s%s%s", r->filename, p.line, p.column, p.path,
                   p.path[0] != '\0' ? ": " : "", message);
    if (warning) {
        spec_insert(r->errs->warnings, &r->errs->n_warnings, NULL, &p);
        return;
    }
    r->n_problems++;
    spec_insert(r->errs->errors, &r->errs->n_errors, &r->errs->more_errors, &p);
}

void pl_spec_problem(struct spec_reader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    spec_add(r, false, SPEC_AT_VALUE, fmt, ap);
    va_end(ap);
}

void pl_spec_problem_key(struct spec_reader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    spec_add(r, false, SPEC_AT_KEY, fmt, ap);
    va_end(ap);
}

void pl_spec_warning(struct spec_reader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    spec_add(r, true, SPEC_AT_VALUE, fmt, ap);
    va_end(ap);
}

void pl_spec_problem_value(struct spec_reader *r, json_t *value, const char *accepts)
{
    char *text = pl_json_text(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));

    if (text == NULL) {
        r->failed = PL_ENOMEM;
        return;
    }
    pl_spec_problem(r, "%.60s%s is not accepted: %s", text, strlen(text) > 60 ? "…" : "", accepts);
    free(text);
}

/* Returns the field of the object with the most similar name, for "did you mean"; NULL if none is similar. */
static const char *spec_nearest(const struct spec_object *object, const char *name)
{
    const char *names[64];
    size_t n = 0;

    for (size_t i = 0; i < object->n && n < PL_ARRAY_SIZE(names); i++)
        names[n++] = object->fields[i].name;
    return pl_word_nearest(name, names, n);
}

/* Fields of other tools' specs (Pachyderm, Argo, Kubeflow, DVC, Dagster, GitHub Actions), and what to write
 * instead. */
static const struct {
    const char *object, *word, *instead;
} other_words[] = {
    {"file", "name", "\"pipeline\": \"NAME\""},
    {"file", "steps", "\"stages\": […]"},
    {"file", "tasks", "\"stages\": […]"},
    {"file", "jobs", "\"stages\": […]"},
    {"file", "datasets", "\"repos\": {\"NAME\": {}}"},
    {"stage", "cmd", "\"run\": [\"PROGRAM\", \"ARGUMENT\", …]"},
    {"stage", "command", "\"run\": [\"PROGRAM\", \"ARGUMENT\", …]"},
    {"stage", "args", "\"run\": [\"PROGRAM\", \"ARGUMENT\", …]"},
    {"stage", "entrypoint", "\"run\": [\"PROGRAM\", \"ARGUMENT\", …]"},
    {"stage", "transform", "\"run\", \"image\" and \"env\" in the stage itself"},
    {"stage", "container", "\"run\", \"image\" and \"env\" in the stage itself"},
    {"stage", "retries", "\"datum\": {\"tries\": N}"},
    {"stage", "retry", "\"datum\": {\"tries\": N}"},
    {"stage", "retryStrategy", "\"datum\": {\"tries\": N}"},
    {"stage", "datum_tries", "\"datum\": {\"tries\": N}"},
    {"stage", "depends_on", "\"input\": {\"repo\": \"STAGE\"}: a stage runs after those whose output it reads"},
    {"stage", "dependsOn", "\"input\": {\"repo\": \"STAGE\"}: a stage runs after those whose output it reads"},
    {"stage", "dependencies", "\"input\": {\"repo\": \"STAGE\"}: a stage runs after those whose output it reads"},
    {"stage", "needs", "\"input\": {\"repo\": \"STAGE\"}: a stage runs after those whose output it reads"},
    {"stage", "deps", "\"input\": {\"repo\": \"NAME\", \"files\": [\"GLOB\"]}"},
    {"stage", "inputs", "\"input\": {\"cross\": [{\"repo\": \"A\"}, {\"repo\": \"B\"}]}"},
    {"stage", "outs", "\"output\": {\"expect\": [\"/FILE\"]}: a stage's output is all that its command writes into $PL_OUT"},
    {"stage", "outputs", "\"output\": {\"expect\": [\"/FILE\"]}: a stage's output is all that its command writes into $PL_OUT"},
    {"stage", "parallelism", "\"workers\": N"},
    {"stage", "parallelism_spec", "\"workers\": N"},
    {"stage", "resource_requests", "\"resources\": {\"cpu\": N, \"memory\": \"4Gi\"} and \"gpu\": N"},
    {"stage", "resource_limits", "\"resources\": {\"cpu\": N, \"memory\": \"4Gi\"} and \"gpu\": N"},
    {"stage", "gpus", "\"gpu\": N"},
    {"stage", "workdir", "\"code\": \"FOLDER\": the command starts in its copy"},
    {"stage", "working_dir", "\"code\": \"FOLDER\": the command starts in its copy"},
    {"stage", "environment", "\"env\": {\"NAME\": \"VALUE\"}"},
    {"datum", "retries", "\"tries\": N"},
    {"input", "pattern", "\"glob\": \"PATTERN\""},
    {"input", "path", "\"glob\": \"PATTERN\""},
};

static const char *spec_other_word(const struct spec_object *object, const char *word)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(other_words); i++)
        if (pl_streq(other_words[i].object, object->name) && pl_streq(other_words[i].word, word))
            return other_words[i].instead;
    return NULL;
}

/* Reports an unknown field: reserved, a field of another tool, a misspelled one, or any other. */
static void spec_unknown(struct spec_reader *r, const struct spec_object *object, const char *name)
{
    const char *nearest = spec_nearest(object, name), *instead = spec_other_word(object, name);

    if (pl_spec_field_later(object, name))
        pl_spec_problem_key(r, "\"%s\" is not available yet%s", name,
                            pl_streq(name, "replicas")
                                ? ": a datum has one worker; \"workers\" says how many share the stage's datums"
                                : "");
    else if (instead != NULL)
        pl_spec_problem_key(r, "unknown field \"%s\"; write %s", name, instead);
    else if (nearest != NULL)
        pl_spec_problem_key(r, "unknown field \"%s\"; did you mean \"%s\"?", name, nearest);
    else
        pl_spec_problem_key(r, "unknown field \"%.60s\": a%s %s has no such field", name,
                            strchr("aeiou", object->name[0]) ? "n" : "", object->name);
}

static void spec_read_absent(struct spec_reader *r, const struct spec_field *field, void *to)
{
    json_t *value;

    if (field->required) {
        pl_spec_problem(r, "\"%s\" is missing: %s", field->name, field->type->accepts);
        return;
    }
    if (field->fallback == NULL)
        return;
    value = json_loads(field->fallback, JSON_DECODE_ANY, NULL);
    if (value == NULL) {
        r->failed = PL_ENOMEM;
        return;
    }
    field->type->read(r, field, value, to);
    json_decref(value);
}

void pl_spec_read_object(struct spec_reader *r, const struct spec_object *object, json_t *value, void *to)
{
    size_t path_len = r->path.len;
    const char *key;
    json_t *member;

    json_object_foreach(value, key, member)
    {
        const struct spec_field *field = pl_spec_field_find(object, key);

        pl_spec_enter_key(r, key);
        if (field == NULL)
            spec_unknown(r, object, key);
        else
            field->type->read(r, field, member, to);
        pl_spec_leave(r, path_len);
    }
    for (size_t i = 0; i < object->n && !r->partial; i++)
        if (json_object_get(value, object->fields[i].name) == NULL)
            spec_read_absent(r, &object->fields[i], to);
}

/* True for members that defaults merging replaces as a whole: nulls in them remove fields of the pod, not of
 * the stage. */
static bool spec_is_patch(const char *key)
{
    return pl_streq(key, "pod_spec") || pl_streq(key, "pod_patch");
}

json_t *pl_spec_merge_patch(json_t *target, json_t *patch)
{
    json_t *result, *member, *merged;
    const char *key;

    if (!json_is_object(patch))
        return json_deep_copy(patch);
    result = json_is_object(target) ? json_deep_copy(target) : json_object();
    if (result == NULL)
        return NULL;
    json_object_foreach(patch, key, member)
    {
        if (json_is_null(member)) {
            (void)json_object_del(result, key);
            continue;
        }
        merged = spec_is_patch(key) ? json_deep_copy(member) : pl_spec_merge_patch(json_object_get(result, key), member);
        if (merged == NULL || json_object_set_new(result, key, merged) < 0) {
            json_decref(result);
            return NULL;
        }
    }
    return result;
}
