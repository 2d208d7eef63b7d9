/* Readers and writers of simple field types. spec_type_tree.c has inputs, repos and stages, spec_type_pod.c
 * pod fields. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/text/glob.h"
#include "pipelined/text/quantity.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"

#include <stdio.h>

void *pl_spec_at(void *object, const struct spec_field *field)
{
    return (char *)object + field->offset;
}

const void *pl_spec_from(const void *object, const struct spec_field *field)
{
    return (const char *)object + field->offset;
}

static const char *spec_text_of(const void *object, const struct spec_field *field)
{
    return *(const char *const *)pl_spec_from(object, field);
}

/* Adds an error at the current path, with the message of `err`, which another module has set. */
static void spec_problem_err(struct spec_reader *r, const struct pl_err *err)
{
    if (err->code == PL_ENOMEM)
        r->failed = PL_ENOMEM;
    else
        pl_spec_problem(r, "%s", err->msg);
}

void pl_spec_append(json_t **array, json_t *value)
{
    if (*array == NULL || json_array_append_new(*array, value) < 0) {
        if (*array == NULL)
            json_decref(value);
        json_decref(*array);
        *array = NULL;
    }
}

void pl_spec_set(json_t **object, const char *key, json_t *value)
{
    if (*object == NULL || json_object_set_new(*object, key, value) < 0) {
        if (*object == NULL)
            json_decref(value);
        json_decref(*object);
        *object = NULL;
    }
}

json_t *pl_spec_object_write(const struct spec_object *object, const void *from)
{
    json_t *written = json_object();

    for (size_t i = 0; i < object->n && written != NULL; i++) {
        json_t *value = object->fields[i].type->write(&object->fields[i], from);

        if (json_is_null(value))
            json_decref(value);
        else
            pl_spec_set(&written, object->fields[i].name, value);
    }
    return written;
}

/* Placeholder for a value that was refused, so that it is not also reported as missing. */
static const char *const spec_refused = "?";

static void read_text(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char **text = pl_spec_at(object, field);

    *text = spec_refused;
    if (!json_is_string(value) || (field->min > 0 && json_string_length(value) == 0))
        pl_spec_problem_value(r, value, field->min > 0 ? "a string that is not empty" : field->type->accepts);
    else
        *text = pl_spec_strdup(r, json_string_value(value));
}

json_t *pl_spec_write_text(const struct spec_field *field, const void *object)
{
    const char *text = spec_text_of(object, field);

    return text != NULL ? json_string(text) : json_null();
}

static void read_name(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_err err = {0};

    if (!json_is_string(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (pl_name_check(field->noun, json_string_value(value), &err) < 0)
        spec_problem_err(r, &err);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, json_string_value(value));
}

static void read_count(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    char accepts[96];

    (void)snprintf(accepts, sizeof(accepts), "a whole number from %lld to %lld", (long long)field->min, (long long)field->max);
    if (!json_is_integer(value) || json_integer_value(value) < field->min || json_integer_value(value) > field->max)
        pl_spec_problem_value(r, value, accepts);
    else
        *(uint32_t *)pl_spec_at(object, field) = (uint32_t)json_integer_value(value);
}

/* Writes a count; JSON null if the count is not given (it is 0 and has no default value). */
static json_t *write_count(const struct spec_field *field, const void *object)
{
    uint32_t count = *(const uint32_t *)pl_spec_from(object, field);

    return count == 0 && field->min > 0 && !field->fallback ? json_null() : json_integer(count);
}

static void read_bool(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_boolean(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(bool *)pl_spec_at(object, field) = json_is_true(value);
}

/* A boolean without a default value is written only if it is true. */
static json_t *write_bool(const struct spec_field *field, const void *object)
{
    bool value = *(const bool *)pl_spec_from(object, field);

    return value || field->fallback != NULL ? json_boolean(value) : json_null();
}

static void read_duration(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_err err = {0};
    char most[32];
    int64_t ms;

    if (!json_is_string(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (pl_duration_parse(json_string_value(value), &ms, &err) < 0)
        spec_problem_err(r, &err);
    else if (ms < field->min)
        pl_spec_problem_value(r, value, "a duration of more than 0, such as \"90s\", \"10m\" or \"1h30m\"");
    else if (field->max > 0 && ms > field->max)
        pl_spec_problem(r, "%s is too long: at most %s is accepted", json_string_value(value),
                        pl_duration_text(field->max, most));
    else
        *(int64_t *)pl_spec_at(object, field) = ms;
}

/* Writes a duration in the largest unit that is exact: "90m", "1500ms". */
static json_t *write_duration(const struct spec_field *field, const void *object)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    int64_t ms = *(const int64_t *)pl_spec_from(object, field);
    char text[32];

    if (ms < 0 || (ms == 0 && field->min > 0)) /* the field was not given */
        return json_null();
    for (size_t i = 0; i < PL_ARRAY_SIZE(units); i++) {
        if (ms != 0 && ms % units[i].ms == 0) {
            (void)snprintf(text, sizeof(text), "%lld%s", (long long)(ms / units[i].ms), units[i].unit);
            return json_string(text);
        }
    }
    return json_string("0s");
}

/* Writes a JSON number as the shortest text that parses to the same number. */
static void spec_number_text(json_t *value, char out[40])
{
    if (json_is_integer(value)) {
        (void)snprintf(out, 40, "%lld", (long long)json_integer_value(value));
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(out, 40, "%.*g", precision, json_real_value(value));
        if (strtod(out, NULL) == json_real_value(value))
            return;
    }
}

static void read_quantity(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object,
                          int (*parse)(const char *, int64_t *, struct pl_err *))
{
    struct pl_err err = {0};
    char number[40];
    const char *text = json_string_value(value);

    if (json_is_number(value)) {
        spec_number_text(value, number);
        text = number;
    }
    if (text == NULL)
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (parse(text, pl_spec_at(object, field), &err) < 0)
        spec_problem_err(r, &err);
}

static void read_cpu(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    read_quantity(r, field, value, object, pl_quantity_cpu);
}

static json_t *write_cpu(const struct spec_field *field, const void *object)
{
    int64_t milli = *(const int64_t *)pl_spec_from(object, field);
    char text[32];

    return milli > 0 ? json_string(pl_quantity_cpu_text(milli, text)) : json_null();
}

static void read_bytes(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    read_quantity(r, field, value, object, pl_quantity_bytes);
}

static json_t *write_bytes(const struct spec_field *field, const void *object)
{
    int64_t bytes = *(const int64_t *)pl_spec_from(object, field);
    char text[32];

    return bytes > 0 ? json_string(pl_quantity_bytes_text(bytes, text)) : json_null();
}

static int spec_word_index(const char *const *words, const char *word)
{
    for (int i = 0; words != NULL && word != NULL && words[i] != NULL; i++)
        if (pl_streq(words[i], word))
            return i;
    return -1;
}

static void read_word(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *word = json_string_value(value);
    int which = spec_word_index(field->words, word);
    char accepts[128] = "";

    if (which >= 0) {
        *(int *)pl_spec_at(object, field) = which;
        return;
    }
    for (size_t i = 0, n = 0; field->words[i] != NULL; i++)
        n += (size_t)snprintf(accepts + n, sizeof(accepts) - n, "%s\"%s\"", i > 0 ? " or " : "", field->words[i]);
    if (spec_word_index(field->later, word) >= 0)
        pl_spec_problem(r, "\"%s\" is not available yet: %s", word, accepts);
    else
        pl_spec_problem_value(r, value, accepts);
}

static json_t *write_word(const struct spec_field *field, const void *object)
{
    int which = *(const int *)pl_spec_from(object, field);

    return which < 0 ? json_null() : json_string(field->words[which]); /* negative = the field was not given */
}

static void read_texts(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    size_t path_len = r->path.len, n = json_array_size(value);
    const char **texts;

    *(const char *const **)pl_spec_at(object, field) = &spec_refused;
    if (!json_is_array(value) || n > SPEC_LIST_MAX || n < (size_t)field->min) {
        pl_spec_problem_value(r, value, n < (size_t)field->min ? "a list with at least one string" : field->type->accepts);
        return;
    }
    texts = pl_spec_alloc(r, (n + 1) * sizeof(*texts));
    if (texts == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        json_t *element = json_array_get(value, i);

        pl_spec_enter_index(r, i);
        if (json_is_string(element))
            texts[i] = pl_spec_strdup(r, json_string_value(element));
        else
            pl_spec_problem_value(r, element, "a string");
        pl_spec_leave(r, path_len);
        if (texts[i] == NULL)
            return; /* the error has already been reported */
    }
    *(const char ***)pl_spec_at(object, field) = texts;
    *(size_t *)(void *)((char *)object + field->offset_n) = n;
}

static json_t *write_texts(const struct spec_field *field, const void *object)
{
    const char *const *texts = *(const char *const *const *)pl_spec_from(object, field);
    size_t n = *(const size_t *)(const void *)((const char *)object + field->offset_n);
    json_t *array;

    if (n == 0)
        return json_null(); /* the field was not given */
    array = json_array();
    for (size_t i = 0; i < n && array != NULL; i++)
        pl_spec_append(&array, json_string(texts[i]));
    return array;
}

/* Parses a list of globs and compiles each, to report errors at the element. */
static void read_globs(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    size_t path_len = r->path.len, problems = r->n_problems;
    const char *const *globs;

    read_texts(r, field, value, object);
    if (r->n_problems > problems || r->failed < 0)
        return;
    globs = *(const char *const *const *)pl_spec_at(object, field);
    for (size_t i = 0; i < json_array_size(value); i++) {
        _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
        struct pl_err err = {0};

        pl_spec_enter_index(r, i);
        if (pl_glob_compile(globs[i], &glob, &err) < 0)
            spec_problem_err(r, &err);
        pl_spec_leave(r, path_len);
    }
}

static void read_glob(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
    struct pl_err err = {0};

    if (!json_is_string(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (pl_glob_compile(json_string_value(value), &glob, &err) < 0)
        spec_problem_err(r, &err);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, json_string_value(value));
}

static void read_object(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_object(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        pl_spec_read_object(r, field->child, value, pl_spec_at(object, field));
}

json_t *pl_spec_write_object(const struct spec_field *field, const void *object)
{
    json_t *written = pl_spec_object_write(field->child, pl_spec_from(object, field));

    if (written != NULL && json_object_size(written) == 0) {
        json_decref(written);
        return json_null();
    }
    return written;
}

static void read_keep(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_retention_rule *keep = pl_spec_at(object, field);

    read_object(r, field, value, object);
    keep->said = json_is_object(value);
}

static json_t *write_keep(const struct spec_field *field, const void *object)
{
    const struct pl_retention_rule *keep = pl_spec_from(object, field);

    return keep->said ? pl_spec_object_write(field->child, keep) : json_null();
}

static int spec_compare_env(const void *a, const void *b)
{
    return strcmp(((const struct pl_env_var *)a)->key, ((const struct pl_env_var *)b)->key);
}

const char *pl_spec_scalar(struct spec_reader *r, json_t *value)
{
    char number[40];

    if (json_is_string(value))
        return pl_spec_strdup(r, json_string_value(value));
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_number(value)) {
        spec_number_text(value, number);
        return pl_spec_strdup(r, number);
    }
    pl_spec_problem_value(r, value, "a string, a number, true or false");
    return NULL;
}

static void read_env(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_stage *stage = object;
    size_t path_len = r->path.len;
    struct pl_env_var *env;
    const char *key;
    json_t *member;
    size_t n = 0;

    if (!json_is_object(value) || json_object_size(value) > SPEC_LIST_MAX) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    env = pl_spec_alloc(r, (json_object_size(value) + 1) * sizeof(*env));
    if (env == NULL)
        return;
    json_object_foreach(value, key, member)
    {
        pl_spec_enter_key(r, key);
        env[n].key = pl_spec_strdup(r, key);
        env[n].value = pl_spec_scalar(r, member);
        n += env[n].key != NULL && env[n].value != NULL;
        pl_spec_leave(r, path_len);
    }
    if (n > 1)
        qsort(env, n, sizeof(*env), spec_compare_env);
    stage->env = env;
    stage->n_env = n;
}

static json_t *write_env(const struct spec_field *field, const void *object)
{
    const struct pl_stage *stage = object;
    json_t *env;

    (void)field;
    if (stage->n_env == 0)
        return json_null();
    env = json_object();
    for (size_t i = 0; i < stage->n_env && env != NULL; i++)
        pl_spec_set(&env, stage->env[i].key, json_string(stage->env[i].value));
    return env;
}

static void read_gpu(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_gpu *gpu = pl_spec_at(object, field);
    const struct spec_field *count = pl_spec_field_find(&pl_spec_object_gpu, "count");

    *gpu = (struct pl_gpu){.required = true, .wait_ms = PL_GPU_WAIT_MS};
    if (json_is_object(value)) {
        gpu->count = 1;
        pl_spec_read_object(r, &pl_spec_object_gpu, value, gpu);
    } else if (json_is_boolean(value)) {
        gpu->count = json_is_true(value);
    } else if (json_is_integer(value)) {
        count->type->read(r, count, value, gpu);
    } else {
        pl_spec_problem_value(r, value, field->type->accepts);
    }
}

static json_t *write_gpu(const struct spec_field *field, const void *object)
{
    const struct pl_gpu *gpu = pl_spec_from(object, field);

    return gpu->count == 0 ? json_false() : pl_spec_object_write(&pl_spec_object_gpu, gpu);
}

static void read_cache(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_cache *cache = pl_spec_at(object, field);

    *cache = (struct pl_cache){.enabled = true, .code = true, .salt = ""};
    if (json_is_object(value))
        pl_spec_read_object(r, &pl_spec_object_cache, value, cache);
    else if (json_is_boolean(value))
        cache->enabled = json_is_true(value);
    else
        pl_spec_problem_value(r, value, field->type->accepts);
}

static json_t *write_cache(const struct spec_field *field, const void *object)
{
    const struct pl_cache *cache = pl_spec_from(object, field);

    if (!cache->enabled || (cache->code && cache->salt[0] == '\0'))
        return json_boolean(cache->enabled);
    return pl_spec_object_write(&pl_spec_object_cache, cache);
}

static void read_on_error(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_stage *stage = object;
    const char *word = json_string_value(value);

    if (json_is_object(value)) {
        stage->on_error = PL_ON_ERROR_RUN;
        pl_spec_read_object(r, &pl_spec_object_on_error, value, stage);
    } else if (word != NULL && pl_streq(word, "skip")) {
        stage->on_error = PL_ON_ERROR_SKIP;
    } else if (word != NULL && pl_streq(word, "fail")) {
        stage->on_error = PL_ON_ERROR_FAIL;
    } else {
        pl_spec_problem_value(r, value, field->type->accepts);
    }
}

static json_t *write_on_error(const struct spec_field *field, const void *object)
{
    const struct pl_stage *stage = object;

    (void)field;
    if (stage->on_error == PL_ON_ERROR_RUN)
        return pl_spec_object_write(&pl_spec_object_on_error, stage);
    return json_string(stage->on_error == PL_ON_ERROR_SKIP ? "skip" : "fail");
}

/* Parses a percentage such as "1%" or "0.5%" into millionths; false if it is not one. */
static bool spec_percent(const char *text, uint32_t *ret_ppm)
{
    char *end = NULL;
    double percent = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;

    if (percent < 0 || percent > 100 || strspn(text, "0123456789.") != (size_t)(end - text) || !pl_streq(end, "%"))
        return false;
    *ret_ppm = (uint32_t)(percent * 10000 + 0.5);
    return true;
}

static void read_max_failed(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_max_failed *max = pl_spec_at(object, field);

    *max = (struct pl_max_failed){.given = true};
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= PL_MAX_FAILED_MAX)
        max->count = (uint32_t)json_integer_value(value);
    else if (json_is_string(value) && spec_percent(json_string_value(value), &max->ppm))
        max->share = true;
    else
        pl_spec_problem_value(r, value, field->type->accepts);
}

static json_t *write_max_failed(const struct spec_field *field, const void *object)
{
    const struct pl_max_failed *max = pl_spec_from(object, field);
    char text[40], number[40];
    json_t *percent;

    if (!max->given)
        return json_null();
    if (!max->share)
        return json_integer(max->count);
    percent = json_real(max->ppm / 10000.0);
    if (percent == NULL)
        return NULL;
    spec_number_text(percent, number);
    json_decref(percent);
    (void)snprintf(text, sizeof(text), "%.30s%%", number);
    return json_string(text);
}

static void read_checkpoint(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_stage *stage = object;

    if (json_is_object(value))
        pl_spec_read_object(r, &pl_spec_object_checkpoint, value, stage);
    else if (json_is_boolean(value))
        stage->checkpoint_ms = json_is_true(value) ? PL_CHECKPOINT_MS : 0;
    else
        pl_spec_problem_value(r, value, field->type->accepts);
}

static json_t *write_checkpoint(const struct spec_field *field, const void *object)
{
    const struct pl_stage *stage = object;

    (void)field;
    return stage->checkpoint_ms > 0 ? pl_spec_object_write(&pl_spec_object_checkpoint, stage) : json_null();
}

static void read_codes(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_codes *codes = pl_spec_at(object, field);
    size_t path_len = r->path.len;

    if (!json_is_array(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *code = json_array_get(value, i);
        json_int_t n = json_integer_value(code);

        pl_spec_enter_index(r, i);
        if (!json_is_integer(code) || n < 1 || n > 255)
            pl_spec_problem_value(r, code, "an exit code from 1 to 255");
        else
            codes->bits[n / 32] |= 1u << (n % 32);
        pl_spec_leave(r, path_len);
    }
}

static json_t *write_codes(const struct spec_field *field, const void *object)
{
    const struct pl_codes *codes = pl_spec_from(object, field);
    json_t *list = json_array();

    for (int i = 1; i < 256 && list != NULL; i++)
        if (pl_codes_has(codes, i))
            pl_spec_append(&list, json_integer(i));
    if (list != NULL && json_array_size(list) == 0) {
        json_decref(list);
        return json_null();
    }
    return list;
}

const struct spec_type pl_spec_type_name = {"letters, digits, _ and -, at most 51, not starting with _ or -",
                                            "{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9_-]{0,50}$\"}", read_name,
                                            pl_spec_write_text};
const struct spec_type pl_spec_type_text = {"a string", "{\"type\":\"string\"}", read_text, pl_spec_write_text};
const struct spec_type pl_spec_type_count = {"a whole number", "", read_count, write_count};
const struct spec_type pl_spec_type_bool = {"true or false", "{\"type\":\"boolean\"}", read_bool, write_bool};
const struct spec_type pl_spec_type_duration = {"a duration such as \"90s\", \"10m\" or \"1h30m\"", "{\"type\":\"string\"}",
                                                read_duration, write_duration};
const struct spec_type pl_spec_type_cpu = {"an amount of CPU such as 2, 0.5 or \"500m\"", "{\"type\":[\"number\",\"string\"]}",
                                           read_cpu, write_cpu};
const struct spec_type pl_spec_type_bytes = {"a size such as \"512Mi\", \"40Gi\" or a number of bytes",
                                             "{\"type\":[\"number\",\"string\"]}", read_bytes, write_bytes};
const struct spec_type pl_spec_type_word = {"one of these words", "", read_word, write_word};
const struct spec_type pl_spec_type_texts = {"a list of strings", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
                                             read_texts, write_texts};
const struct spec_type pl_spec_type_glob = {"a glob such as \"/\", \"/*\" or \"/train/*.csv\"", "{\"type\":\"string\"}",
                                            read_glob, pl_spec_write_text};
const struct spec_type pl_spec_type_globs = {"a list of globs", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
                                             read_globs, write_texts};
const struct spec_type pl_spec_type_object = {"an object", "", read_object, pl_spec_write_object};
const struct spec_type pl_spec_type_keep = {"an object, {} to keep everything", "", read_keep, write_keep};
const struct spec_type pl_spec_type_env = {
    "an object of strings, numbers, true and false",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}}", read_env, write_env};
const struct spec_type pl_spec_type_gpu = {
    "true, false, a number of devices or an object",
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"integer\",\"minimum\":1},{\"$ref\":\"#/$defs/gpu\"}]}", read_gpu, write_gpu};
const struct spec_type pl_spec_type_cache = {"true, false or an object",
                                             "{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":\"#/$defs/cache\"}]}", read_cache,
                                             write_cache};
const struct spec_type pl_spec_type_on_error = {"\"fail\", \"skip\" or {\"run\": […]}",
                                                "{\"anyOf\":[{\"enum\":[\"fail\",\"skip\"]},{\"$ref\":\"#/$defs/on_error\"}]}",
                                                read_on_error, write_on_error};
const struct spec_type pl_spec_type_max_failed = {"a whole number of datums, or a share of them such as \"1%\" or \"0.1%\"",
                                                  "{\"type\":[\"integer\",\"string\"]}", read_max_failed, write_max_failed};
const struct spec_type pl_spec_type_codes = {"a list of exit codes from 1 to 255",
                                             "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", read_codes, write_codes};
const struct spec_type pl_spec_type_checkpoint = {"true, false or an object",
                                                  "{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":\"#/$defs/checkpoint\"}]}",
                                                  read_checkpoint, write_checkpoint};
