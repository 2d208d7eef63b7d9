/* Readers and writers of pod field types. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/text/json_text.h"
#include "pipelined/text/quantity.h"

#include <ctype.h>
#include <stdio.h>

/* ---- names of Kubernetes ---- */

static bool spec_chars(const char *text, size_t n, const char *also)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && strchr(also, text[i]) == NULL)
            return false;
    return true;
}

/* True for 1 to `most` letters, digits and characters of `also`, with a letter or digit at both ends. */
static bool spec_word_ok(const char *text, size_t n, size_t most, const char *also)
{
    return n > 0 && n <= most && isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[n - 1]) &&
           spec_chars(text, n, also);
}

/* True for a qualified name of Kubernetes: [PREFIX/]NAME. */
static bool spec_qualified_ok(const char *text)
{
    const char *slash = strchr(text, '/');

    if (slash != NULL && !spec_word_ok(text, (size_t)(slash - text), 253, "-."))
        return false;
    text = slash != NULL ? slash + 1 : text;
    return spec_word_ok(text, strlen(text), 63, "-_.");
}

static bool spec_kube_name_ok(const char *text)
{
    for (const char *p = text; *p != '\0'; p++)
        if (isupper((unsigned char)*p))
            return false;
    return spec_word_ok(text, strlen(text), 253, "-.");
}

static void read_kube_name(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_string(value) || !spec_kube_name_ok(json_string_value(value)))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, json_string_value(value));
}

/* Parses "vendor.com/device". The name from old clusters is replaced by the current one, with a warning. */
static void read_resource(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char **resource = pl_spec_at(object, field), *text = json_string_value(value);

    if (text == NULL || strchr(text, '/') == NULL || !spec_qualified_ok(text)) {
        pl_spec_problem_value(r, value, field->type->accepts);
    } else if (pl_streq(text, PL_GPU_RESOURCE_LEGACY)) {
        pl_spec_warning(r, "\"" PL_GPU_RESOURCE_LEGACY
                           "\" is the name used up to Kubernetes 1.10: it is read as \"" PL_GPU_RESOURCE "\"");
        *resource = NULL;
    } else if (!pl_streq(text, PL_GPU_RESOURCE)) {
        *resource = pl_spec_strdup(r, text);
    }
}

static int spec_compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct pl_env_var *)a)->key, ((const struct pl_env_var *)b)->key);
}

/* Parses an object of strings, sorted by key. `labels`: keys and values must be valid in Kubernetes labels
 * and resource names. */
static void read_pairs_of(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object, bool labels)
{
    struct pl_pairs *pairs = pl_spec_at(object, field);
    size_t path_len = r->path.len;
    const char *key, *text;
    json_t *member;

    if (!json_is_object(value) || json_object_size(value) > SPEC_LIST_MAX) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    pairs->n = 0;
    pairs->items = pl_spec_alloc(r, (json_object_size(value) + 1) * sizeof(*pairs->items));
    json_object_foreach(value, key, member)
    {
        pl_spec_enter_key(r, key);
        text = pairs->items != NULL ? pl_spec_scalar(r, member) : NULL;
        if (labels && !spec_qualified_ok(key))
            pl_spec_problem_key(
                r, "\"%.80s\" is not a name for a label or resource: use [DOMAIN/]NAME of letters, digits, -, _ and .", key);
        else if (labels && text != NULL && text[0] != '\0' && !spec_word_ok(text, strlen(text), 63, "-_."))
            pl_spec_problem_value(r, member, "at most 63 letters, digits, -, _ and ., letters or digits at both ends");
        else if (text != NULL)
            pairs->items[pairs->n++] = (struct pl_env_var){pl_spec_strdup(r, key), text};
        pl_spec_leave(r, path_len);
    }
    if (pairs->n > 1 && r->failed == 0)
        qsort(pairs->items, pairs->n, sizeof(*pairs->items), spec_compare_pairs);
}

static void read_pairs(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    read_pairs_of(r, field, value, object, false);
}

static void read_qualified(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    read_pairs_of(r, field, value, object, true);
}

static json_t *write_pairs(const struct spec_field *field, const void *object)
{
    const struct pl_pairs *pairs = pl_spec_from(object, field);
    json_t *written;

    if (pairs->n == 0)
        return json_null();
    written = json_object();
    for (size_t i = 0; i < pairs->n && written != NULL; i++)
        pl_spec_set(&written, pairs->items[i].key, json_string(pairs->items[i].value));
    return written;
}

/* ---- gpu ---- */

/* Parses the nominal size of a GPU. "80G" means 80 GiB, because that is what vendors write for a device of 80
 * GiB. */
static void read_box_bytes(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value);
    struct pl_err err = {0};
    char binary[32];
    size_t n = text != NULL ? strlen(text) : 0;
    int64_t bytes;

    if (n == 0 || n > 20) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    (void)snprintf(binary, sizeof(binary), "%s%s", text, strchr("MGT", text[n - 1]) != NULL ? "i" : "");
    if (strchr("iMGT", text[n - 1]) == NULL || pl_quantity_bytes(binary, &bytes, &err) < 0 || bytes < 1 << 20)
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(int64_t *)pl_spec_at(object, field) = bytes;
}

static json_t *write_box_bytes(const struct spec_field *field, const void *object)
{
    int64_t bytes = *(const int64_t *)pl_spec_from(object, field);
    char text[32];

    return bytes > 0 ? json_string(pl_quantity_bytes_text(bytes, text)) : json_null();
}

/* Parses a compute capability: "8.0", "8", 8.6. */
static void read_compute(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_is_string(value) || json_is_number(value) ? pl_spec_scalar(r, value) : NULL;
    unsigned major = 0, minor = 0;
    int at = 0, end = 0;

    if (text != NULL && isdigit((unsigned char)text[0]) && sscanf(text, "%2u%n.%2u%n", &major, &at, &minor, &end) >= 1 &&
        text[PL_MAX(at, end)] == '\0' && major > 0 && (end == 0 || isdigit((unsigned char)text[at + 1])))
        *(uint32_t *)pl_spec_at(object, field) = 100 * major + minor;
    else
        pl_spec_problem_value(r, value, field->type->accepts);
}

static json_t *write_compute(const struct spec_field *field, const void *object)
{
    uint32_t compute = *(const uint32_t *)pl_spec_from(object, field);

    return compute > 0 ? json_sprintf("%u.%u", compute / 100, compute % 100) : json_null();
}

/* Parses a MIG profile: ^[0-9]+g\.[0-9]+gb(\.me|\+me.*)?$ */
static void read_profile(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value), *p = text != NULL ? text : "";
    size_t slices = strspn(p, "0123456789"), memory;
    bool ok = slices > 0 && strncmp(p + slices, "g.", 2) == 0;

    p += ok ? slices + 2 : 0;
    memory = strspn(p, "0123456789");
    ok = ok && memory > 0 && strncmp(p + memory, "gb", 2) == 0;
    p += ok ? memory + 2 : 0;
    ok = ok && (*p == '\0' || pl_streq(p, ".me") || strncmp(p, "+me", 3) == 0) && strlen(text) < 48;
    if (!ok)
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, text);
}

/* For each mode: the fields that the mode accepts beside `mode`; the field that the mode requires, NULL =
 * none; and an example of the required field's value. */
static const struct {
    const char *fields[8];
    const char *needs, *example;
} share_modes[] = {
    [PL_SHARE_NONE] = {{NULL}, NULL, NULL},
    [PL_SHARE_TIME_SLICING] = {{NULL}, NULL, NULL},
    [PL_SHARE_MPS] = {{"memory", "threads"}, NULL, NULL},
    [PL_SHARE_MIG] = {{"profile"}, "profile", "the instance, such as \"1g.10gb\""},
    [PL_SHARE_GPU_MEM] = {{"amount", "unit"}, "amount", "how much memory, such as 5"},
    [PL_SHARE_DRA] = {{"class", "selectors"}, "class", "the DeviceClass, such as \"gpu.nvidia.com\""},
    [PL_SHARE_CUSTOM] = {{"preset", "values", "limits", "annotations", "labels", "scheduler"}, NULL, NULL},
};

static void spec_check_share(struct spec_reader *r, json_t *value, int mode)
{
    const char *word = json_string_value(json_object_get(value, "mode")), *needs = share_modes[mode].needs, *key;
    size_t path_len = r->path.len;
    json_t *member;

    json_object_foreach(value, key, member)
    {
        bool has = pl_streq(key, "mode");

        for (size_t i = 0; i < PL_ARRAY_SIZE(share_modes[mode].fields) && share_modes[mode].fields[i] != NULL; i++)
            has = has || pl_streq(key, share_modes[mode].fields[i]);
        pl_spec_enter_key(r, key);
        if (!has && pl_spec_field_find(&pl_spec_object_share, key) != NULL)
            pl_spec_problem_key(r, "mode \"%s\" has no \"%s\"", word, key);
        pl_spec_leave(r, path_len);
    }
    if (needs != NULL && json_object_get(value, needs) == NULL)
        pl_spec_problem(r, "mode \"%s\" needs \"%s\": %s", word, needs, share_modes[mode].example);
    if (mode == PL_SHARE_CUSTOM && json_object_get(value, "limits") == NULL && json_object_get(value, "preset") == NULL)
        pl_spec_problem(r, "mode \"custom\" needs \"limits\", such as {\"vendor.com/gpu\": 1}, or a \"preset\"");
}

static void read_share(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_gpu_share *share = pl_spec_at(object, field);
    size_t problems = r->n_problems;

    if (!json_is_object(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    pl_spec_read_object(r, &pl_spec_object_share, value, share);
    if (r->n_problems == problems && !r->partial)
        spec_check_share(r, value, share->mode);
}

/* Writes `share`. Leaves out `unit` in modes that do not use it: `unit` has a value in every mode, because
 * its value is the index of a word and 0 is the first word. */
static json_t *write_share(const struct spec_field *field, const void *object)
{
    const struct pl_gpu_share *share = pl_spec_from(object, field);
    json_t *written;

    if (share->mode == PL_SHARE_NONE)
        return json_null();
    written = pl_spec_object_write(&pl_spec_object_share, share);
    if (written != NULL && share->mode != PL_SHARE_GPU_MEM)
        (void)json_object_del(written, "unit");
    return written;
}

/* ---- secrets, tolerations ---- */

/* Parses each element of a list by the fields of field->child; `size` is the size of the element's struct.
 * NULL after an error was reported. */
static void *spec_read_list(struct spec_reader *r, const struct spec_field *field, json_t *value, size_t size)
{
    size_t path_len = r->path.len, n = json_array_size(value);
    char *list;

    if (!json_is_array(value) || n > SPEC_LIST_MAX) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return NULL;
    }
    list = pl_spec_alloc(r, (n + 1) * size);
    for (size_t i = 0; i < n && list != NULL; i++) {
        pl_spec_enter_index(r, i);
        if (json_is_object(json_array_get(value, i)))
            pl_spec_read_object(r, field->child, json_array_get(value, i), list + i * size);
        else
            pl_spec_problem_value(r, json_array_get(value, i), "an object");
        pl_spec_leave(r, path_len);
    }
    return list;
}

static json_t *spec_write_list(const struct spec_field *field, const void *list, size_t n, size_t size)
{
    json_t *written;

    if (n == 0)
        return json_null();
    written = json_array();
    for (size_t i = 0; i < n && written != NULL; i++)
        pl_spec_append(&written, pl_spec_object_write(field->child, (const char *)list + i * size));
    return written;
}

static void read_secrets(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_stage *stage = object;

    stage->secrets = spec_read_list(r, field, value, sizeof(*stage->secrets));
    stage->n_secrets = stage->secrets != NULL ? json_array_size(value) : 0;
}

static json_t *write_secrets(const struct spec_field *field, const void *object)
{
    const struct pl_stage *stage = object;

    return spec_write_list(field, stage->secrets, stage->n_secrets, sizeof(*stage->secrets));
}

/* Parses tolerations. The field table cannot express the default of toleration_seconds, -1 = for ever, so it
 * is set here. */
static void read_tolerations(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_placement *placement = object;

    placement->tolerations = spec_read_list(r, field, value, sizeof(*placement->tolerations));
    placement->n_tolerations = placement->tolerations != NULL ? json_array_size(value) : 0;
    for (size_t i = 0; i < placement->n_tolerations; i++)
        if (json_object_get(json_array_get(value, i), "toleration_seconds") == NULL)
            placement->tolerations[i].seconds = -1;
}

static json_t *write_tolerations(const struct spec_field *field, const void *object)
{
    const struct pl_placement *placement = object;

    return spec_write_list(field, placement->tolerations, placement->n_tolerations, sizeof(*placement->tolerations));
}

static void read_effect(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(effects); i++) {
        if (json_is_string(value) && pl_streq(json_string_value(value), effects[i])) {
            *(const char **)pl_spec_at(object, field) = effects[i];
            return;
        }
    }
    pl_spec_problem_value(r, value, field->type->accepts);
}

static void read_seconds(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(int64_t *)pl_spec_at(object, field) = json_integer_value(value);
}

static json_t *write_seconds(const struct spec_field *field, const void *object)
{
    int64_t seconds = *(const int64_t *)pl_spec_from(object, field);

    return seconds >= 0 ? json_integer(seconds) : json_null();
}

/* ---- other fields of a stage ---- */

static void read_unless_false(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    pl_spec_type_bool.read(r, field, value, object);
}

/* Writes the field only if it differs from the default, true, so that a stage without it has the same effective JSON as
 * in older versions of pipelined, which did not know the field. So its datum keys stay the same, too. */
static json_t *write_unless_false(const struct spec_field *field, const void *object)
{
    return *(const bool *)pl_spec_from(object, field) ? json_null() : json_false();
}

static void read_user(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_user *user = pl_spec_at(object, field);
    const char *text = json_is_string(value) || json_is_integer(value) ? pl_spec_scalar(r, value) : NULL;
    char *end = NULL;
    long long uid = -1, gid = -1;

    if (text != NULL && isdigit((unsigned char)text[0]))
        uid = strtoll(text, &end, 10);
    if (end != NULL && *end == ':' && isdigit((unsigned char)end[1]))
        gid = strtoll(end + 1, &end, 10);
    if (end == NULL || *end != '\0' || uid < 0 || uid > INT32_MAX || gid > INT32_MAX)
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (uid == PL_AGENT_UID)
        pl_spec_problem(r, "%lld is the user of pipelined's own containers in the pod: choose another", uid);
    else
        *user = (struct pl_user){true, uid, gid};
}

static json_t *write_user(const struct spec_field *field, const void *object)
{
    const struct pl_user *user = pl_spec_from(object, field);

    if (!user->given)
        return json_null();
    if (user->gid < 0)
        return json_sprintf("%lld", (long long)user->uid);
    return json_sprintf("%lld:%lld", (long long)user->uid, (long long)user->gid);
}

/* Reads an absolute path of this machine. A ':' would end it in PATH. */
static void read_machine_path(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_is_string(value) ? pl_spec_scalar(r, value) : NULL;

    if (text == NULL || text[0] != '/' || strchr(text, ':') != NULL)
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(const char **)pl_spec_at(object, field) = text;
}

static void read_priority(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_integer(value) || json_integer_value(value) < field->min || json_integer_value(value) > field->max)
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        *(int32_t *)pl_spec_at(object, field) = (int32_t)json_integer_value(value);
}

static json_t *write_priority(const struct spec_field *field, const void *object)
{
    int32_t priority = *(const int32_t *)pl_spec_from(object, field);

    return priority != 0 ? json_integer(priority) : json_null();
}

static void read_warm(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    pl_spec_type_duration.read(r, field, value, object);
}

static json_t *write_warm(const struct spec_field *field, const void *object)
{
    return *(const int64_t *)pl_spec_from(object, field) > 0 ? pl_spec_type_duration.write(field, object) : json_null();
}

/* ---- placement ---- */

static void read_placement(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_placement *placement = pl_spec_at(object, field);

    placement->grace_ms = -1;
    pl_spec_type_object.read(r, field, value, object);
}

/* Parses an architecture, or a list of them. */
static void read_arch(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    struct pl_placement *placement = object;
    json_t *list = json_is_array(value) ? json_incref(value) : json_pack("[O]", value);
    size_t n = json_array_size(list);
    bool ok = n > 0 && n <= 16;

    placement->arch = pl_spec_alloc(r, (n + 1) * sizeof(*placement->arch));
    for (size_t i = 0; i < n && ok && placement->arch != NULL; i++) {
        const char *word = json_string_value(json_array_get(list, i));

        ok = word != NULL && spec_word_ok(word, strlen(word), 63, "");
        placement->arch[i] = ok ? pl_spec_strdup(r, word) : NULL;
    }
    if (ok)
        placement->n_arch = n;
    else
        pl_spec_problem_value(r, value, field->type->accepts);
    json_decref(list);
}

static json_t *write_arch(const struct spec_field *field, const void *object)
{
    const struct pl_placement *placement = object;
    json_t *list;

    (void)field;
    if (placement->n_arch == 0)
        return json_null();
    list = json_array();
    for (size_t i = 0; i < placement->n_arch && list != NULL; i++)
        pl_spec_append(&list, json_string(placement->arch[i]));
    return list;
}

/* Stores a JSON value as canonical text. */
static void spec_keep_json(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    char *text = pl_json_text(value, JSON_COMPACT | JSON_SORT_KEYS);

    if (text == NULL)
        r->failed = PL_ENOMEM;
    else if (strlen(text) > PL_POD_PATCH_MAX)
        pl_spec_problem(r, "%zu bytes are not accepted: at most %u", strlen(text), PL_POD_PATCH_MAX);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, text);
    free(text);
}

static json_t *write_json(const struct spec_field *field, const void *object)
{
    const char *text = *(const char *const *)pl_spec_from(object, field);

    return text != NULL ? json_loads(text, 0, NULL) : json_null();
}

static void read_pod_spec(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    if (!json_is_object(value))
        pl_spec_problem_value(r, value, field->type->accepts);
    else
        spec_keep_json(r, field, value, object);
}

/* Checks an operation of a JSON Patch (RFC 6902). Returns NULL if it is valid, else what is accepted. */
static const char *spec_operation_wrong(const json_t *op)
{
    static const char *const words[] = {"add", "remove", "replace", "move", "copy", "test"};
    const char *word = json_string_value(json_object_get(op, "op")), *path = json_string_value(json_object_get(op, "path")),
               *from = json_string_value(json_object_get(op, "from"));
    size_t which = 0;

    while (which < PL_ARRAY_SIZE(words) && (word == NULL || !pl_streq(word, words[which])))
        which++;
    if (which == PL_ARRAY_SIZE(words))
        return "an operation with an \"op\": add, remove, replace, move, copy or test";
    if (path == NULL || (path[0] != '/' && path[0] != '\0'))
        return "an operation with a \"path\" such as \"/tolerations/-\"";
    if ((which == 3 || which == 4) && (from == NULL || (from[0] != '/' && from[0] != '\0')))
        return "an operation with a \"from\" such as \"/tolerations/0\"";
    if ((which == 0 || which == 2 || which == 5) && json_object_get(op, "value") == NULL)
        return "an operation with a \"value\"";
    return NULL;
}

static void read_pod_patch(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    size_t path_len = r->path.len, problems = r->n_problems;

    if (!json_is_object(value) && !json_is_array(value)) {
        pl_spec_problem_value(r, value, field->type->accepts);
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *wrong = spec_operation_wrong(json_array_get(value, i));

        pl_spec_enter_index(r, i);
        if (wrong != NULL)
            pl_spec_problem_value(r, json_array_get(value, i), wrong);
        pl_spec_leave(r, path_len);
    }
    if (r->n_problems == problems)
        spec_keep_json(r, field, value, object);
}

#define PAIRS_SCHEMA "{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\"]}}"

const struct spec_type pl_spec_type_kube_name = {"a name of Kubernetes: lower case letters, digits, - and .",
                                                 "{\"type\":\"string\"}", read_kube_name, pl_spec_write_text};
const struct spec_type pl_spec_type_resource = {"the name of a resource such as \"nvidia.com/gpu\"", "{\"type\":\"string\"}",
                                                read_resource, pl_spec_write_text};
const struct spec_type pl_spec_type_box_bytes = {"a size with its unit, such as \"40G\"", "{\"type\":\"string\"}", read_box_bytes,
                                                 write_box_bytes};
const struct spec_type pl_spec_type_compute = {"a compute capability such as \"8.0\"", "{\"type\":[\"string\",\"number\"]}",
                                               read_compute, write_compute};
const struct spec_type pl_spec_type_share = {"an object with a \"mode\"", "{\"$ref\":\"#/$defs/share\"}", read_share,
                                             write_share};
const struct spec_type pl_spec_type_profile = {"a MIG profile such as \"1g.10gb\"", "{\"type\":\"string\"}", read_profile,
                                               pl_spec_write_text};
const struct spec_type pl_spec_type_pairs = {"an object of strings, numbers, true and false", PAIRS_SCHEMA, read_pairs,
                                             write_pairs};
const struct spec_type pl_spec_type_qualified = {"an object of strings, numbers, true and false", PAIRS_SCHEMA, read_qualified,
                                                 write_pairs};
const struct spec_type pl_spec_type_secrets = {"a list of {\"name\", \"key\", \"env\"} or {\"name\", \"mount\"}",
                                               "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/secret\"}}", read_secrets,
                                               write_secrets};
const struct spec_type pl_spec_type_unless_false = {"true or false", "{\"type\":\"boolean\"}", read_unless_false,
                                                    write_unless_false};
const struct spec_type pl_spec_type_machine_path = {"an absolute path without \":\", such as \"/home/ana/venv\"",
                                                    "{\"type\":\"string\",\"pattern\":\"^/[^:]*$\"}", read_machine_path,
                                                    pl_spec_write_text};
const struct spec_type pl_spec_type_user = {"numeric ids such as \"1000\" or \"1000:1000\"",
                                            "{\"type\":[\"string\",\"integer\"]}", read_user, write_user};
const struct spec_type pl_spec_type_priority = {"a whole number from -1000 to 1000",
                                                "{\"type\":\"integer\",\"minimum\":-1000,\"maximum\":1000}", read_priority,
                                                write_priority};
const struct spec_type pl_spec_type_warm = {"a duration such as \"90s\", \"10m\" or \"1h30m\"", "{\"type\":\"string\"}",
                                            read_warm, write_warm};
const struct spec_type pl_spec_type_placement = {"an object", "{\"$ref\":\"#/$defs/placement\"}", read_placement,
                                                 pl_spec_write_object};
const struct spec_type pl_spec_type_tolerations = {"a list of tolerations",
                                                   "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/toleration\"}}",
                                                   read_tolerations, write_tolerations};
const struct spec_type pl_spec_type_effect = {"\"NoSchedule\", \"PreferNoSchedule\" or \"NoExecute\"",
                                              "{\"enum\":[\"NoSchedule\",\"PreferNoSchedule\",\"NoExecute\"]}", read_effect,
                                              pl_spec_write_text};
const struct spec_type pl_spec_type_seconds = {"a whole number of seconds", "{\"type\":\"integer\",\"minimum\":0}", read_seconds,
                                               write_seconds};
const struct spec_type pl_spec_type_arch = {"an architecture such as \"amd64\", or a list", "{\"type\":[\"string\",\"array\"]}",
                                            read_arch, write_arch};
const struct spec_type pl_spec_type_pod_spec = {"an object", "{\"type\":\"object\"}", read_pod_spec, write_json};
const struct spec_type pl_spec_type_pod_patch = {"an object or a list of operations", "{\"type\":[\"object\",\"array\"]}",
                                                 read_pod_patch, write_json};
